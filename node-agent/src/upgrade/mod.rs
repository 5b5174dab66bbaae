//! `upgrade` and `rollback`: replace k3s by another version and verify it, or restore the old one.
//!
//! `weaver_diagnostics::k3s_upgrade` decides what prevents an upgrade and what verifies it; this module
//! collects the facts and acts. Guarantees: nothing is changed before all checks have passed; the installed
//! k3s is always a whole file; each step is recorded before it is taken, so that the next run completes an
//! interrupted one; a version that is not verified in time is rolled back. Failure: the error names the
//! installed k3s and what differs from before.

pub mod args;
pub(crate) mod carry_out;
pub mod journal;
pub(crate) mod node;
mod program_files;
pub(crate) mod say;
mod source;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use jiff::Timestamp;
use weaver_diagnostics::exit_code;
use weaver_diagnostics::k3s_upgrade::plan::{Facts, UpgradeCandidate, UpgradePlan, plan};
use weaver_diagnostics::k3s_upgrade::proof::ObservedNode;
use weaver_diagnostics::k3s_upgrade::record::{K3sBuild, UpgradePhase, UpgradeRecord, UpgradeResume};
use weaver_diagnostics::k3s_upgrade::{Role, UpgradeRequest};

use crate::backup;

use crate::k3s_version::version_of;
use crate::node_lock::NodeLock;
use args::{NodeArgs, RollbackArgs, UpgradeArgs};
use carry_out::Upgrade;
use journal::Journal;
pub(crate) use node::K3sNode;
use program_files::sha256;
use say::refused;
pub(crate) use say::say;
use source::K3sSource;

/// Runs `upgrade`; returns the exit code of the process.
///
/// # Errors
/// It could not be begun; any other result is in the exit code.
pub async fn upgrade(args: UpgradeArgs) -> anyhow::Result<u8> {
    let source = K3sSource::of(&args)?;
    let upgrade = UpgradeRun::of(&args.node, source, UpgradeRequest::Upgrade)?;
    UpgradeRun { saves_state: !args.no_backup, ..upgrade }.run().await
}

/// Runs `rollback`; returns the exit code of the process.
pub async fn rollback(args: RollbackArgs) -> anyhow::Result<u8> {
    let mut upgrade =
        UpgradeRun::of(&args.node, K3sSource::Previous { sha256: None }, UpgradeRequest::RollBack)?;
    if let Some(last) = journal::last::<UpgradeRecord>(&upgrade.state_dir)?
        && last.phase == UpgradePhase::Done
    {
        upgrade.source = K3sSource::Previous { sha256: Some(last.from.sha256) };
    }
    upgrade.run().await
}

/// The options of an upgrade.
struct UpgradeRun {
    node: K3sNode,
    source: K3sSource,
    request: UpgradeRequest,
    state_dir: PathBuf,
    /// The state directory as the host knows it.
    state_as_known: PathBuf,
    /// Whether the state of k3s is saved first.
    saves_state: bool,
    dry_run: bool,
}

impl UpgradeRun {
    fn of(args: &NodeArgs, source: K3sSource, request: UpgradeRequest) -> anyhow::Result<Self> {
        let node = K3sNode::of(args)?;
        let state_dir = node.host.root.real(&args.state_dir);
        let state_as_known = args.state_dir.clone();
        // A rollback must not fail because the state cannot be saved.
        let saves_state = false;
        Ok(Self { node, source, request, state_dir, state_as_known, saves_state, dry_run: args.dry_run })
    }

    async fn run(&self) -> anyhow::Result<u8> {
        if self.dry_run {
            return self.show().await;
        }
        if let Some(refusal) = self.node.may_not_write() {
            return Ok(refused(&[refusal]));
        }
        let journal = Journal::<UpgradeRecord>::lock(&self.state_dir)?;
        backup::journal::ensure_whole(&self.state_dir)?;
        if let Some(last) = journal::last::<UpgradeRecord>(&self.state_dir)?
            && let Some(code) = self.finish(&journal, last).await?
        {
            return Ok(code);
        }
        let (mut facts, seen) = self.facts().await?;
        if let Some(code) = end(&plan(&facts, self.request), &facts) {
            return Ok(code);
        }
        let staged = self.source.stage(&self.node.program, &mut facts.candidate).await;
        let judged = staged.map(|()| plan(&facts, self.request));
        let Ok(UpgradePlan::Go(role, steps)) = judged else {
            self.node.program.discard();
            let judged = judged?;
            return Ok(end(&judged, &facts).unwrap_or(exit_code::INTERNAL));
        };
        if let Err(error) = self.back_up(journal.held()).await {
            self.node.program.discard();
            return Err(error);
        }
        let mut upgrade = self.begin(&journal, role, &facts, seen.names)?;
        upgrade.forward(steps).await
    }

    /// Saves the datastore, which the other k3s may change in a way that the present one cannot read.
    async fn back_up(&self, held: &NodeLock) -> anyhow::Result<()> {
        if !self.saves_state {
            return Ok(());
        }
        let K3sNode { host, program, .. } = &self.node;
        say(&backup::before_upgrade(held, host, &self.state_as_known, &program.installed).await?);
        Ok(())
    }

    /// Records what will be done.
    fn begin<'a>(
        &'a self,
        journal: &'a Journal,
        role: Role,
        facts: &Facts,
        names: Vec<String>,
    ) -> anyhow::Result<Upgrade<'a>> {
        let program = &self.node.program;
        let unknown = || "unknown".to_owned();
        let from = facts.installed.as_ref().map_or_else(|_| unknown(), ToString::to_string);
        let to = facts.candidate.version.as_ref().and_then(|version| version.as_ref().ok());
        let record = UpgradeRecord {
            begun: Timestamp::now().to_string(),
            from: K3sBuild { version: from, sha256: sha256(&program.installed)? },
            to: K3sBuild {
                version: to.map_or_else(unknown, ToString::to_string),
                sha256: sha256(&program.staged())?,
            },
            names,
            to_the_one_before: self.request == UpgradeRequest::RollBack,
            phase: UpgradePhase::Forward,
        };
        let mut upgrade = Upgrade { node: &self.node, journal, role, record };
        upgrade.note(UpgradePhase::Forward)?;
        Ok(upgrade)
    }

    /// Finishes an upgrade that was interrupted; returns the exit code if that was all that can be done now.
    async fn finish(&self, journal: &Journal, last: UpgradeRecord) -> anyhow::Result<Option<u8>> {
        let resume = last.resume(&sha256(&self.node.program.installed)?, self.request);
        if resume == UpgradeResume::Nothing {
            return Ok(None);
        }
        say(&cut_off(&last, resume));
        let unit = self.node.unit().await?;
        let unit = unit.context("neither k3s.service nor k3s-agent.service runs or is enabled")?;
        let was_rollback = last.to_the_one_before;
        let mut upgrade = Upgrade { node: &self.node, journal, role: unit.role, record: last };
        let code = upgrade.resume(resume).await?;
        Ok(after_finishing(resume, was_rollback, code, self.request))
    }

    async fn facts(&self) -> anyhow::Result<(Facts, ObservedNode)> {
        let node = &self.node;
        let unit = node.unit().await?;
        let candidate = self.source.look(&node.program).await?;
        let seen = match unit {
            Some(unit) => node.look(unit.role, node.patience).await,
            None => ObservedNode { unit: String::new(), ready: None, names: Vec::new(), version: None },
        };
        let is_agent = unit.is_some_and(|unit| unit.role == Role::Agent);
        let facts = Facts {
            may_not_write: node.may_not_write(),
            unit,
            held_back: node.held_back().await?,
            ready: seen.ready.clone(),
            installed: version_of(&node.program.installed).await,
            server: if is_agent { node.server_version().await } else { None },
            candidate,
            free_space: node.free_space(),
        };
        Ok((facts, seen))
    }

    /// What would be done.
    async fn show(&self) -> anyhow::Result<u8> {
        if let Some(last) = journal::last::<UpgradeRecord>(&self.state_dir)? {
            let resume = last.resume(&sha256(&self.node.program.installed)?, self.request);
            if resume != UpgradeResume::Nothing {
                say(&format!("{} This is finished first.", cut_off(&last, resume)));
            }
        }
        let (mut facts, seen) = self.facts().await?;
        if matches!(plan(&facts, self.request), UpgradePlan::Go(..)) {
            self.source.judge_in_place(&mut facts.candidate).await?;
        }
        let plan = plan(&facts, self.request);
        let UpgradePlan::Go(role, _) = plan else {
            return Ok(end(&plan, &facts).unwrap_or(exit_code::INTERNAL));
        };
        say(&would(&facts, role, &seen.names, &self.node));
        Ok(exit_code::FINE)
    }
}

/// Prints why nothing is done, where that is so; returns the exit code.
fn end(plan: &UpgradePlan, facts: &Facts) -> Option<u8> {
    match plan {
        UpgradePlan::Go(..) => None,
        UpgradePlan::Nothing(version) => {
            say(&format!("k3s is already {version}: nothing had to be done."));
            Some(exit_code::FINE)
        }
        UpgradePlan::Refused(refusals) => {
            if let Ok(installed) = &facts.installed {
                say(&format!("k3s {installed} is in place."));
            }
            Some(refused(refusals))
        }
    }
}

/// Whether finishing an upgrade was all that can be done now: the exit code; `None` where the upgrade itself is next.
fn after_finishing(
    resume: UpgradeResume,
    was_rollback: bool,
    code: u8,
    request: UpgradeRequest,
) -> Option<u8> {
    match (resume, request) {
        // Nothing was replaced, so nothing was rolled back either.
        (UpgradeResume::Nothing | UpgradeResume::Forget | UpgradeResume::LeaveAlone, _) => None,
        // The previous one runs, and is proven: what was kept earlier is older still.
        (UpgradeResume::GoBack | UpgradeResume::ProveOld, UpgradeRequest::RollBack)
            if code == exit_code::ROLLED_BACK && !was_rollback =>
        {
            Some(exit_code::FINE)
        }
        (UpgradeResume::Prove, UpgradeRequest::Upgrade) if code == exit_code::FINE => None,
        _ => Some(code),
    }
}

fn cut_off(last: &UpgradeRecord, resume: UpgradeResume) -> String {
    let UpgradeRecord { begun, from, to, .. } = last;
    let (from, to) = (&from.version, &to.version);
    let state = match resume {
        UpgradeResume::Nothing => "it had finished".to_owned(),
        UpgradeResume::Forget => format!("{to} was not put in place yet"),
        UpgradeResume::LeaveAlone => "another k3s was installed since, which is left as it is".to_owned(),
        UpgradeResume::Prove => {
            format!("{to} is in place and was not verified: it is restarted and verified")
        }
        UpgradeResume::GoBack => format!("{to} is installed but failed: restoring {from}"),
        UpgradeResume::ProveOld => {
            format!("{from} is in place again and was not verified: it is restarted and verified")
        }
    };
    format!("An upgrade of k3s from {from} to {to}, begun {begun}, was interrupted; {state}.")
}

fn would(facts: &Facts, role: Role, names: &[String], node: &K3sNode) -> String {
    let program = &node.program;
    let UpgradeCandidate { shown, asked, version, .. } = &facts.candidate;
    let from = facts.installed.as_ref().map_or("an unknown version".to_owned(), ToString::to_string);
    let to = version.as_ref().and_then(|version| version.as_ref().ok()).or(asked.as_ref());
    let to = to.map_or("a version that is known once it may be run".to_owned(), ToString::to_string);
    let file = |path: &Path| path.display().to_string();
    let proof = match role {
        Role::Server if names.is_empty() => "/readyz and the version".to_owned(),
        Role::Server => format!("/readyz, the version and the names {}", names.join(", ")),
        Role::Agent => "the version that the cluster reports".to_owned(),
    };
    format!(
        "would upgrade from {from} to {to}: {shown}\n\
         would keep {} as {} and install the new one\n\
         would restart {} (pods keep running)\n\
         would verify within {} s: {} is active, {proof}\n\
         if not, would reinstall the old one, restart and verify it\n\
         Nothing was changed.",
        file(&program.installed),
        file(&program.previous()),
        role.unit(),
        node.wait.as_secs(),
        role.unit(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_goes_back_from_what_was_cut_off_does_not_go_back_twice() {
        use exit_code::{FINE, ROLLED_BACK, STUCK};
        for (resume, was_rollback, code, request, want) in [
            (UpgradeResume::Prove, false, FINE, UpgradeRequest::Upgrade, None),
            (UpgradeResume::Prove, false, ROLLED_BACK, UpgradeRequest::Upgrade, Some(ROLLED_BACK)),
            (UpgradeResume::Prove, true, FINE, UpgradeRequest::Upgrade, None),
            (UpgradeResume::Prove, true, FINE, UpgradeRequest::RollBack, Some(FINE)),
            (UpgradeResume::Prove, true, ROLLED_BACK, UpgradeRequest::RollBack, Some(ROLLED_BACK)),
            (UpgradeResume::GoBack, false, ROLLED_BACK, UpgradeRequest::Upgrade, Some(ROLLED_BACK)),
            (UpgradeResume::GoBack, false, ROLLED_BACK, UpgradeRequest::RollBack, Some(FINE)),
            (UpgradeResume::GoBack, true, ROLLED_BACK, UpgradeRequest::RollBack, Some(ROLLED_BACK)),
            (UpgradeResume::ProveOld, false, ROLLED_BACK, UpgradeRequest::RollBack, Some(FINE)),
            (UpgradeResume::ProveOld, true, ROLLED_BACK, UpgradeRequest::RollBack, Some(ROLLED_BACK)),
            (UpgradeResume::ProveOld, false, STUCK, UpgradeRequest::RollBack, Some(STUCK)),
        ] {
            let after = after_finishing(resume, was_rollback, code, request);
            assert_eq!(after, want, "{resume:?} {was_rollback} {code} {request:?}");
        }
    }

    /// A rollback that was interrupted before it replaced anything exited with 0 at the next try, without having rolled
    /// back.
    #[test]
    fn what_is_forgotten_is_no_way_back_that_was_gone() {
        for resume in [UpgradeResume::Nothing, UpgradeResume::Forget, UpgradeResume::LeaveAlone] {
            for request in [UpgradeRequest::Upgrade, UpgradeRequest::RollBack] {
                let after =
                    after_finishing(resume, request == UpgradeRequest::RollBack, exit_code::FINE, request);
                assert_eq!(after, None, "{resume:?} {request:?}");
            }
        }
    }
}
