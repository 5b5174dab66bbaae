//! One update, from the check for new versions to its proof.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use jiff::Timestamp;
use tokio::task::spawn_blocking;
use weaver_diagnostics::exit_code;
use weaver_diagnostics::kernel_trial::record::KernelTrial;
use weaver_diagnostics::package_update::definitions::unknown_to;
use weaver_diagnostics::package_update::plan::{
    KEPT, PackageChange, PackageVersion, UpdateFacts, UpdatePlan, UpgradeRefusal, is_downgrade,
    needs_no_source, plan, stored_refusal,
};
use weaver_diagnostics::package_update::record::{UpdateRecord, UpdateResume, UpgradePhase};

use super::args::UpdateArgs;
use super::carry_out::PackageUpdate;
use super::host::{BeforeUpdate, UpdateHost};
use super::last_update;
use super::packages::{Packages, files};
use super::programs::announce;
use crate::backup;
use crate::node_lock::Busy;
use crate::upgrade::journal::{self, Journal, Recorded};
use crate::upgrade::say::{refused, say};

pub(super) struct UpdateRun {
    pub(super) args: UpdateArgs,
    pub(super) host: UpdateHost,
    pub(super) packages: Packages,
}

pub(super) enum UpdateOutcome {
    /// With this exit code.
    Ended(u8),
    /// One that was interrupted was completed, with this exit code, and no other was begun.
    Resumed(u8),
    /// The newest version is the one to leave out.
    LeftOut,
    Refused(Vec<UpgradeRefusal>),
}

impl UpdateOutcome {
    /// Prints the reasons against it; returns the exit code.
    pub(super) fn code(&self) -> u8 {
        match self {
            Self::Ended(code) | Self::Resumed(code) => *code,
            Self::LeftOut => exit_code::FINE,
            Self::Refused(refusals) => refused(refusals),
        }
    }
}

/// What fetching the new packages has shown.
struct FetchedPackages {
    /// What else apt installs.
    also: Vec<String>,
    /// Whether a rollback is impossible.
    one_way: bool,
}

impl UpdateRun {
    pub(super) async fn run(&self) -> anyhow::Result<UpdateOutcome> {
        if let Some(refusal) = self.not_root() {
            return Ok(UpdateOutcome::Refused(vec![refusal]));
        }
        let journal = self.lock::<UpdateRecord>().await?;
        backup::journal::ensure_whole(&self.host.state_dir)?;
        ensure!(
            journal::last::<KernelTrial>(&self.host.state_dir)?.is_none_or(|trial| trial.has_ended()),
            "a trial of a kernel has not ended: `sudo weaver node update --kernel` completes it first"
        );
        if let Some(last) = journal::last::<UpdateRecord>(&self.host.state_dir)?
            && let Some(code) = self.finish(&journal, last).await?
        {
            return Ok(UpdateOutcome::Resumed(code));
        }
        if self.args.resume {
            return Ok(UpdateOutcome::Ended(exit_code::FINE));
        }
        let changes = match self.plan().await? {
            UpdatePlan::Go(changes) => changes,
            UpdatePlan::Nothing { version, source } => {
                let from = source.map_or(String::new(), |source| format!(" (from {source})"));
                say(&format!("Config Weaver {version} is installed; there is no newer version{from}."));
                return Ok(UpdateOutcome::Ended(exit_code::FINE));
            }
            UpdatePlan::Refused(refusals) => return Ok(UpdateOutcome::Refused(refusals)),
        };
        say(&shown(&changes));
        if self.args.when.is_some()
            && let Some(version) = last_update::read(&self.host.state_dir)?.unproven
            && changes.iter().any(|change| change.to == version)
        {
            say(&format!(
                "{version} could not be verified on this host and is skipped: `sudo weaver node update` installs it."
            ));
            return Ok(UpdateOutcome::LeftOut);
        }
        if let Some(why) = self.stays_at_a_look() {
            say(&format!("Nothing was changed{why}."));
            return Ok(UpdateOutcome::Ended(exit_code::FINE));
        }
        let FetchedPackages { also, one_way } = match self.stage(&changes).await? {
            Ok(staged) => staged,
            Err(refusal) => {
                self.packages.tidy();
                return Ok(UpdateOutcome::Refused(vec![refusal]));
            }
        };
        announce(&also);
        if !self.agreed()? {
            self.packages.tidy();
            return Ok(UpdateOutcome::Ended(exit_code::FINE));
        }
        let mut update = self.begin(&journal, &changes, one_way).await?;
        Ok(UpdateOutcome::Ended(update.forward().await?))
    }

    /// Nothing tries again for a boot, and a timer does the next night: both wait.
    pub(super) async fn lock<R: Recorded + Send + 'static>(&self) -> anyhow::Result<Journal<R>> {
        let state_dir = self.host.state_dir.clone();
        let patience = Duration::from_secs(self.args.lock_timeout);
        let waits = move |Busy(what): &Busy| {
            say(&format!("{what}: waiting for its end for up to {} s", patience.as_secs()));
        };
        let locking = spawn_blocking(move || Journal::<R>::lock_within(&state_dir, patience, waits));
        locking.await.context("waiting for the lock of this node")?
    }

    pub(super) fn not_root(&self) -> Option<UpgradeRefusal> {
        let is_other = self.host.root.host().is_some() && !nix::unistd::geteuid().is_root();
        is_other.then(|| UpgradeRefusal::new("only root may install packages", "put `sudo` in front"))
    }

    /// Why nothing is installed, where that was not requested or cannot be confirmed.
    pub(super) fn stays_at_a_look(&self) -> Option<&'static str> {
        if self.args.node.dry_run {
            Some("")
        } else if !self.args.yes && !io::stdin().is_terminal() {
            Some(": there is no terminal to ask on; pass --yes to install")
        } else {
            None
        }
    }

    async fn plan(&self) -> anyhow::Result<UpdatePlan> {
        let programs = &self.host.programs;
        let mut facts = UpdateFacts {
            refusals: self.host.refusals().await?,
            installed: programs.installed().await?,
            kept: self.packages.kept(),
            asked: self.args.to.clone(),
            architecture: programs.architecture().await?,
            free: self.host.free(),
            ..UpdateFacts::default()
        };
        match programs.refresh().await? {
            Ok(()) => facts.known = programs.known().await?,
            // A rollback needs no network: apt's older lists would lead to files that cannot be fetched.
            Err(refusal) if needs_no_source(&facts) => {
                say(&format!(
                    "Using the packages that the last update kept, since the source cannot be used: {refusal}"
                ));
            }
            Err(refusal) => {
                facts.refusals.push(refusal);
                return Ok(UpdatePlan::Refused(facts.refusals));
            }
        }
        Ok(plan(&facts))
    }

    /// Has the user agreed, by a flag or on the terminal?
    pub(super) fn agreed(&self) -> anyhow::Result<bool> {
        if self.args.yes {
            return Ok(true);
        }
        print!("Type yes to install: ");
        io::stdout().flush().context("asking")?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer).context("reading your answer")?;
        let is_yes = answer.trim() == "yes";
        if !is_yes {
            say("Nothing was changed.");
        }
        Ok(is_yes)
    }

    /// Fetches the new packages and checks them.
    async fn stage(
        &self,
        changes: &[PackageChange],
    ) -> anyhow::Result<Result<FetchedPackages, UpgradeRefusal>> {
        let (programs, packages) = (&self.host.programs, &self.packages);
        packages.empty(&packages.new_ones())?;
        packages.empty(&packages.unpacked())?;
        let (kept, offered): (Vec<_>, Vec<_>) = changes.iter().partition(|change| change.source == KEPT);
        packages.take_old(
            &kept.into_iter().map(|change| package(&change.name, &change.to)).collect::<Vec<_>>(),
        )?;
        let wanted: Vec<_> = offered.iter().map(|change| package(&change.name, &change.to)).collect();
        if !wanted.is_empty()
            && let Err(refusal) = programs.download(&wanted, &packages.new_ones()).await?
        {
            return Ok(Err(refusal));
        }
        packages.flush_new_ones()?;
        let new = files(&packages.new_ones());
        ensure!(
            new.len() == changes.len(),
            "{} packages were fetched instead of {}",
            new.len(),
            changes.len()
        );
        let also = match programs.simulate(&new).await? {
            Ok(also) => also,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let (here, there) =
            (self.host.definitions(), self.host.definitions_in(&new, packages.unpacked()).await?);
        let lost = if is_downgrade(changes) { unknown_to(&here, &there) } else { unknown_to(&there, &here) };
        let one_way = !lost.is_empty();
        let may = one_way && self.args.one_way && !is_downgrade(changes);
        Ok(stored_refusal(changes, &lost).filter(|_| !may).map_or(Ok(FetchedPackages { also, one_way }), Err))
    }

    /// Keeps the installed packages, and records what will be done.
    async fn begin<'a>(
        &'a self,
        journal: &'a Journal<UpdateRecord>,
        changes: &[PackageChange],
        one_way: bool,
    ) -> anyhow::Result<PackageUpdate<'a>> {
        let from: Vec<_> = changes.iter().map(|change| package(&change.name, &change.from)).collect();
        let to = changes.iter().map(|change| package(&change.name, &change.to)).collect();
        let BeforeUpdate { units, names } = self.host.before().await?;
        if !self.args.no_backup
            && let Some(said) = self.host.back_up(journal.held()).await?
        {
            say(&said);
        }
        say("Keeping the installed packages");
        self.packages.keep(&self.host.programs, &self.host.root, &from).await?;
        let begun = Timestamp::now().to_string();
        let (by_timer, stopped, phase) = (self.args.when.is_some(), false, UpgradePhase::Forward);
        let record = UpdateRecord { begun, from, to, units, names, one_way, by_timer, stopped, phase };
        Ok(PackageUpdate { host: &self.host, journal, packages: &self.packages, record })
    }

    /// Finishes an update that was interrupted; returns the exit code if that was all that can be done now.
    async fn finish(
        &self,
        journal: &Journal<UpdateRecord>,
        last: UpdateRecord,
    ) -> anyhow::Result<Option<u8>> {
        let resume = last.resume(&self.host.programs.installed().await?);
        if resume == UpdateResume::Nothing {
            return Ok(None);
        }
        say(&cut_off(&last, resume));
        if self.args.node.dry_run {
            say("This is finished first, without --dry-run.");
            return Ok(None);
        }
        let mut update = PackageUpdate { host: &self.host, journal, packages: &self.packages, record: last };
        let code = update.resume(resume).await?;
        Ok((!matches!(resume, UpdateResume::Forget | UpdateResume::LeaveAlone) || code != exit_code::FINE)
            .then_some(code))
    }
}

fn package(name: &str, version: &str) -> PackageVersion {
    PackageVersion { name: name.to_owned(), version: version.to_owned() }
}

fn shown(changes: &[PackageChange]) -> String {
    let line = |change: &PackageChange| {
        let PackageChange { name, from, to, source } = change;
        format!("  {name} {from} → {to}, from {source}")
    };
    let lines: Vec<_> = changes.iter().map(line).collect();
    let older = if is_downgrade(changes) { "An older version:" } else { "A newer version:" };
    format!("{older}\n{}", lines.join("\n"))
}

fn cut_off(last: &UpdateRecord, resume: UpdateResume) -> String {
    let (from, to) = last.versions();
    let state = match resume {
        UpdateResume::Nothing => "it had finished".to_owned(),
        UpdateResume::Forget => format!("no package was replaced, {from} is installed"),
        UpdateResume::LeaveAlone => "another version was installed since, which is left as it is".to_owned(),
        UpdateResume::Install => format!("some packages were replaced: {to} will be installed completely"),
        UpdateResume::Prove => format!("{to} is installed but was not verified: verifying it now"),
        UpdateResume::GoBack => format!("{to} failed: restoring {from}"),
        UpdateResume::ProveOld => format!("{from} is installed again but was not verified: verifying it now"),
    };
    format!("An update of Config Weaver from {from} to {to}, begun {}, was interrupted; {state}.", last.begun)
}
