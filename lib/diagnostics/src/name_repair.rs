//! What to do next so that every configured name is served, and which name may be taken out of the certificate.
//!
//! A plan, from the mildest step on: a drop-in for names that another file has shadowed, a restart, a new
//! certificate. After each step the host is checked again, and the next one decided. No step touches the CA, which
//! would invalidate every kubeconfig outside this machine, and none is made that would leave k3s down.

use std::path::PathBuf;

use serde_json::json;

use crate::{
    finding::{Code, FileChange, Finding, Place, Remedy, Severity},
    k3s_config::{Effective, Setting},
    san::{ServingName, is_inner},
    serving::{HandshakeOutcome, ObservedName, ServingStage, wanted},
    shell, yaml_text,
};

/// The drop-in that a repair writes; its name sorts behind what people choose.
pub const DROP_IN: &str = "zz-weaver-names.yaml";
/// The Secret in kube-system in which k3s keeps its serving certificate and the list of its names.
pub const SECRET: &str = "k3s-serving";
/// The annotation that stops k3s from changing the certificate.
pub const FROZEN: &str = "listener.cattle.io/static";
/// The annotation with the certificate's fingerprint.
pub const FINGERPRINT: &str = "listener.cattle.io/fingerprint";
/// The annotations that are the list: one a name, which is their value.
pub const LISTED: &str = "listener.cattle.io/cn-";

/// How far the plan was executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RepairProgress {
    /// Nothing was done yet.
    Ground,
    /// The drop-in was written.
    Configured,
    Restarted,
    /// Its certificate was made again.
    Rotated,
}

#[derive(Debug, Clone)]
pub struct RepairState<'a> {
    /// What keeps k3s from starting.
    pub preflight: &'a [Finding],
    /// What k3s is asked for.
    pub effective: &'a Effective,
    /// The text of [`DROP_IN`], where there is one.
    pub drop_in: Option<&'a str>,
    /// The handshakes, one a configured name.
    pub seen: &'a [ObservedName],
    /// Whether k3s is configured not to change its certificate, or why that is not known.
    pub frozen: Result<bool, &'a str>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RepairStep {
    /// Every configured name is served.
    Done,
    Configure(FileChange),
    /// Stop and start k3s.
    Restart,
    /// Stop k3s, have its certificate made again, start it.
    Rotate,
    /// Nothing that helps is left, or it would do harm.
    GiveUp(String),
}

impl RepairStep {
    pub const fn progress(&self) -> Option<RepairProgress> {
        match self {
            Self::Done | Self::GiveUp(_) => None,
            Self::Configure(_) => Some(RepairProgress::Configured),
            Self::Restart => Some(RepairProgress::Restarted),
            Self::Rotate => Some(RepairProgress::Rotated),
        }
    }
}

/// The next step after this progress.
pub fn next(progress: RepairProgress, state: &RepairState<'_>) -> RepairStep {
    if let Some(bad) = state.preflight.iter().find(|finding| finding.severity() == Severity::Fail) {
        return RepairStep::GiveUp(format!(
            "once stopped, k3s would not start again ({}): {}",
            bad.code, bad.message
        ));
    }
    let lost: Vec<_> = state.effective.shadowed.iter().filter(|lost| !lost.by_flag).collect();
    if progress == RepairProgress::Ground && !lost.is_empty() {
        return configure(state, &lost.iter().map(|lost| &lost.setting).collect::<Vec<_>>());
    }
    if state.seen.is_empty()
        && !wanted(&state.effective.tls_san, ServingStage::Serving).0.is_empty()
        && progress != RepairProgress::Configured
    {
        return RepairStep::GiveUp(
            "k3s has sent no certificate yet: `sudo weaver-node-agent check` says why".to_owned(),
        );
    }
    let ended = |test: fn(&HandshakeOutcome) -> bool| state.seen.iter().find(|(_, seen)| test(&seen.outcome));
    if let Some((_, seen)) =
        ended(|outcome| matches!(outcome, HandshakeOutcome::Unreachable(_) | HandshakeOutcome::Untrusted(_)))
    {
        return RepairStep::GiveUp(match &seen.outcome {
            HandshakeOutcome::Untrusted(why) => {
                format!("another server answers, not this cluster's k3s: {why}")
            }
            HandshakeOutcome::Unreachable(why) if progress < RepairProgress::Restarted => {
                format!("k3s does not answer ({why}): `sudo systemctl start k3s`, then repair again")
            }
            HandshakeOutcome::Unreachable(why) => {
                format!("k3s did not come back: {why}; `journalctl -u k3s -n 50` says why")
            }
            _ => String::new(),
        });
    }
    let out_of_date = ended(|outcome| matches!(outcome, HandshakeOutcome::Dates(_))).is_some();
    let missing: Vec<_> = state
        .seen
        .iter()
        .filter(|(_, seen)| seen.outcome != HandshakeOutcome::Proven)
        .map(|(wanted, _)| wanted.name.to_string())
        .collect();
    match progress {
        RepairProgress::Configured => RepairStep::Restart,
        _ if missing.is_empty() => RepairStep::Done,
        RepairProgress::Ground => RepairStep::Restart,
        RepairProgress::Restarted if let Err(why) = state.frozen => RepairStep::GiveUp(format!(
            "{} is still not served, and it is unknown whether the certificate is frozen: {why}; pass \
             --admin-kubeconfig FILE and repair again",
            missing.join(", ")
        )),
        RepairProgress::Restarted if state.frozen == Ok(true) => RepairStep::GiveUp(format!(
            "{} cannot be added to a frozen certificate; unless that is intended, remove the annotation with \
             `sudo k3s kubectl -n kube-system annotate secret {SECRET} {FROZEN}-`, then repair again",
            missing.join(", ")
        )),
        RepairProgress::Restarted if !out_of_date => RepairStep::Rotate,
        RepairProgress::Restarted | RepairProgress::Rotated => RepairStep::GiveUp(format!(
            "{} is still not proven; `sudo weaver-node-agent check` says what is seen, `journalctl -u k3s` whether k3s drops it",
            missing.join(", ")
        )),
    }
}

/// Where the drop-in is, or would be.
pub fn drop_in(effective: &Effective) -> PathBuf {
    effective.drop_ins.join(DROP_IN)
}

/// The drop-in with these names besides those that it has.
fn configure(state: &RepairState<'_>, lost: &[&Setting]) -> RepairStep {
    let file = drop_in(state.effective).display().to_string();
    if let Some(lost) = state.effective.shadowed.iter().find(|lost| !lost.by_flag && lost.by.file >= file) {
        return RepairStep::GiveUp(format!(
            "{} replaces the names of all files before it, this repair's too: write `tls-san+:` instead of \
             `tls-san:` in it, then repair again",
            lost.by
        ));
    }
    let there = state.effective.tls_san.iter().filter(|setting| setting.origin.file == file);
    let names: Vec<_> = there.chain(lost.iter().copied()).map(|setting| setting.value.as_str()).collect();
    let to = format!(
        "# Names that another file's `tls-san:` had replaced. Written by `weaver-node-agent repair names`.\n{}",
        yaml_text::write(&json!({ "tls-san+": names }))
    );
    RepairStep::Configure(FileChange { file, from: state.drop_in.map(str::to_owned), to })
}

/// Names and addresses that k3s puts into its certificate by itself.
#[derive(Debug, Clone, Default)]
pub struct OwnNames {
    /// The host's name and the node's, as far as they are known.
    pub names: Vec<String>,
}

impl OwnNames {
    /// Whether k3s serves the name although it is not configured.
    pub fn has(&self, served: &str) -> bool {
        // Addresses come and go with the network, and k3s adds those of the host by itself.
        is_inner(served)
            || matches!(served.parse(), Ok(ServingName::Ip(_)))
            || self.names.iter().any(|own| own.eq_ignore_ascii_case(served))
    }
}

/// The served names that are no longer configured.
pub fn stale<'a>(served: &'a [String], effective: &Effective, own: &OwnNames) -> Vec<&'a str> {
    // Who has lost a name to another file wants it back, and not out.
    let lost = effective.shadowed.iter().map(|lost| &lost.setting);
    let asked: Vec<_> = effective.tls_san.iter().chain(lost).map(|setting| setting.value.as_str()).collect();
    let wanted = |name: &str| asked.iter().any(|asked| asked.eq_ignore_ascii_case(name));
    let is_name = |name: &&str| name.parse::<ServingName>().is_ok();
    served.iter().map(String::as_str).filter(is_name).filter(|name| !wanted(name) && !own.has(name)).collect()
}

/// The warning about such names.
pub fn stale_finding(endpoint: &str, names: &[&str]) -> Option<Finding> {
    if names.is_empty() {
        return None;
    }
    let remove =
        names.iter().map(|name| format!("--remove {}", shell::quoted(name))).collect::<Vec<_>>().join(" ");
    let message =
        format!("the API server at {endpoint} serves names that are not configured: {}", names.join(", "));
    let finding = Finding::new(Code::NameStale, message);
    Some(
        finding.saw(Place::file(endpoint), "the certificate's names").remedy(
            Remedy::new(
                "to remove them (this restarts k3s; pods keep running). Names of other servers of this cluster \
                belong there and would come back:",
            )
            .command(format!("sudo weaver-node-agent repair names --dry-run {remove}"))
            .command(format!("sudo weaver-node-agent repair names {remove}")),
        ),
    )
}

/// Whether a name may be taken out of the certificate.
///
/// # Errors
/// Why not, and what to do instead.
pub fn may_be_removed(name: &str, effective: &Effective, own: &OwnNames) -> Result<(), String> {
    if let Some(setting) = effective.tls_san.iter().find(|setting| setting.value.eq_ignore_ascii_case(name)) {
        return Err(format!("{name} is configured: remove it from {} first", setting.origin));
    }
    // An address may be removed: one that the host still has comes back.
    if own.names.iter().any(|own| own.eq_ignore_ascii_case(name)) || is_inner(name) {
        return Err(format!("{name} is a name that k3s adds itself: it would come back at the next start"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
