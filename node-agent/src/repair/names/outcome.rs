//! What `repair names` has found, and what it says of that at its end.

use weaver_diagnostics::{
    catalogue::Category,
    exit_code,
    finding::{Code, Finding, Severity},
    finding_text,
    k3s_config::Effective,
    name_repair::{self, RepairProgress, RepairState, RepairStep},
};

use crate::{checks::CheckResult, repair::say};

/// The most characters of an explanation, which quotes the content of a file.
const LONGEST: usize = 2000;

/// What is known of the names before a step.
pub(super) struct NameFacts {
    pub(super) preflight: Vec<Finding>,
    pub(super) effective: Effective,
    pub(super) drop_in: Option<String>,
    pub(super) check: CheckResult,
    pub(super) frozen: Result<bool, String>,
}

impl NameFacts {
    pub(super) fn next(&self, progress: RepairProgress) -> RepairStep {
        name_repair::next(
            progress,
            &RepairState {
                preflight: &self.preflight,
                effective: &self.effective,
                drop_in: self.drop_in.as_deref(),
                seen: &self.check.seen,
                frozen: self.frozen.as_ref().map(|frozen| *frozen).map_err(String::as_str),
            },
        )
    }
}

/// No name is configured, or the API server has shown no certificate.
pub(super) fn nothing_to_prove(look: &NameFacts) -> anyhow::Result<u8> {
    let of_names = |finding: &&Finding| matches!(finding.code.row().category, Category::K3s | Category::Tls);
    let said =
        look.check.findings.iter().filter(of_names).filter(|finding| finding.severity() > Severity::Ok);
    let said: Vec<_> = said.cloned().collect();
    for finding in &said {
        say(&finding_text::text(finding))?;
    }
    if !look.effective.tls_san.is_empty() || exit_code::of(&said) != exit_code::FINE {
        return Ok(exit_code::KNOWN_BAD);
    }
    let file = name_repair::drop_in(&look.effective);
    say(&format!("No name is configured: write one as `tls-san+:` into {}.\n", file.display()))?;
    Ok(exit_code::FINE)
}

pub(super) fn end(step: &RepairStep, progress: RepairProgress, look: &NameFacts) -> anyhow::Result<u8> {
    if let RepairStep::GiveUp(why) = step {
        say(&format!("{}\n", finding_text::cut(why, LONGEST)))?;
        return Ok(exit_code::KNOWN_BAD);
    }
    let names: Vec<_> = look.check.seen.iter().map(|(wanted, _)| wanted.name.to_string()).collect();
    // What no step can fix: an invalid name, or one that a flag replaces.
    let left =
        look.check.findings.iter().filter(|f| matches!(f.code, Code::NameInvalid | Code::NamesShadowed));
    let left: Vec<_> = left.filter(|finding| finding.severity() > Severity::Ok).cloned().collect();
    if !left.is_empty() {
        for finding in &left {
            say(&finding_text::text(finding))?;
        }
        say(&format!("Every name that can be served is served: {}\n", names.join(", ")))?;
        return Ok(exit_code::KNOWN_BAD);
    }
    let reached = match progress {
        RepairProgress::Ground => "nothing had to be done",
        RepairProgress::Configured | RepairProgress::Restarted => "after a restart",
        RepairProgress::Rotated => "after its certificate was renewed",
    };
    say(&format!("Every configured name is served, {reached}: {}\n", names.join(", ")))?;
    Ok(exit_code::FINE)
}

/// The steps that would be made if none before them helped.
pub(super) fn show(look: &NameFacts) -> anyhow::Result<u8> {
    let mut progress = RepairProgress::Ground;
    loop {
        let step = look.next(progress);
        let Some(reached) = step.progress() else {
            if progress == RepairProgress::Ground {
                return end(&step, progress, look);
            }
            say("Nothing was changed.\n")?;
            return Ok(exit_code::KNOWN_BAD);
        };
        say(&would(&step))?;
        progress = reached;
    }
}

/// The message of a dry run for a step.
fn would(step: &RepairStep) -> String {
    match step {
        RepairStep::Configure(change) => change.diff(),
        RepairStep::Restart => {
            "would restart k3s, which reads its configuration only at start (pods keep running)\n".to_owned()
        }
        RepairStep::Rotate => {
            "where a name is still missing then: would stop k3s, `k3s certificate rotate --service k3s-server`, start it\n"
                .to_owned()
        }
        RepairStep::Done | RepairStep::GiveUp(_) => String::new(),
    }
}
