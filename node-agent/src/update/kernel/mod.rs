//! `update --kernel`: a newer kernel is started once on trial, proven, and installed; else the old one starts again.
//!
//! `weaver_diagnostics::kernel_trial` decides; this module calls apt and the tools of a kernel, writes the boot
//! partition, and restarts the host. Guarantees: until the kernel is proven, no file that a regular start reads is
//! changed; whatever hangs, a restart ends in the old kernel; `config.txt` is replaced when all that it names is on the
//! card, and keeps what its owner has changed there meanwhile; the hooks of the kernel's package see another directory
//! in the place of the boot partition, since they write there file by file; each step is recorded before it is taken,
//! so that the next run, or the next boot, continues. Failure: the reason, which is kept in the record.

mod boot;
mod carry_out;
mod prepare;
mod tools;
mod trial;

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use weaver_diagnostics::exit_code;
use weaver_diagnostics::finding::Place;
use weaver_diagnostics::kernel_trial::record::{KernelTrial, TrialPhase, TrialStep};
use weaver_diagnostics::package_update::plan::UpgradeRefusal;
use weaver_diagnostics::package_update::record::UpdateRecord;

use super::run::UpdateRun;
use crate::backup;
use crate::node_lock::Busy;
use crate::upgrade::journal::{self, Recorded as _};
use crate::upgrade::say::{refused, say};
use boot::TrialBoot;
use prepare::{NewerKernel, NewestKernel};
use trial::{KernelUpdate, facts, running};

/// The kernel's names, in which its driver for the firmware has one.
const SYMBOLS: &str = "/proc/kallsyms";
/// The part of Raspberry Pi's driver that hands the flag of `reboot "0 tryboot"` to the firmware.
const DRIVER: &str = "rpi_firmware_notify_reboot";

/// Completes a trial that has not ended; returns the exit code if that was all that can be done now.
///
/// # Errors
/// It cannot be recorded or asked for.
pub(super) async fn finish(update: &UpdateRun) -> anyhow::Result<Option<u8>> {
    let (host, args) = (&update.host, &update.args);
    if update.not_root().is_some() {
        return Ok(None);
    }
    let Some(record) = journal::last::<KernelTrial>(&host.state_dir)? else { return Ok(None) };
    let step = record.step(&facts(&host.root)?);
    let is_pending = step != TrialStep::Tidy;
    let waits = step == TrialStep::Restart && !args.kernel && !args.resume;
    // The timer restarts nothing; what is proven it installs.
    let is_left = args.when.is_some() && step != TrialStep::Keep;
    if is_pending && (waits || args.node.dry_run || is_left) {
        say(&format!(
            "A trial of kernel {}, begun {}, has not ended. This completes it:\n  sudo weaver node update --kernel",
            record.to, record.begun
        ));
        return Ok(Some(exit_code::FINE));
    }
    if !is_pending && (args.node.dry_run || !TrialBoot::of(&host.root).is_there()) {
        return Ok(None);
    }
    let journal = match update.lock::<KernelTrial>().await {
        // What cannot be written on trial is no reason to stay there.
        Err(error) if matches!(step, TrialStep::Judge | TrialStep::GoBack) && !error.is::<Busy>() => {
            say(&format!("{error:#}\nThis node restarts now with kernel {}.", record.from));
            host.systemctl.reboot(None).await?;
            return Ok(Some(exit_code::ROLLED_BACK));
        }
        journal => journal?,
    };
    // Another process may have done it meanwhile.
    let Some(record) = journal::last::<KernelTrial>(&host.state_dir)? else { return Ok(None) };
    let step = record.step(&facts(&host.root)?);
    KernelUpdate::new(update, &journal).carry_on(record, step).await
}

/// Asks for the trial of a newer kernel; returns the exit code of the process.
///
/// # Errors
/// It could not be begun.
pub(super) async fn run(update: &UpdateRun) -> anyhow::Result<u8> {
    if let Some(refusal) = update.not_root() {
        return Ok(refused(&[refusal]));
    }
    let state_dir = &update.host.state_dir;
    let journal = update.lock::<KernelTrial>().await?;
    backup::journal::ensure_whole(state_dir)?;
    if let Some(last) = journal::last::<UpdateRecord>(state_dir)?
        && last.judge(false, Place::file(UpdateRecord::NAME)).is_some()
    {
        bail!("an update of Config Weaver was interrupted: `sudo weaver node update` completes it first");
    }
    if let Some(words) = journal::last::<KernelTrial>(state_dir)?.and_then(|last| last.last_words()) {
        say(&words);
    }
    KernelUpdate::new(update, &journal).run().await
}

impl KernelUpdate<'_> {
    async fn run(&self) -> anyhow::Result<u8> {
        let running = running(&self.update.host.root)?;
        let refusals = self.refusals()?;
        if !refusals.is_empty() {
            return Ok(refused(&refusals));
        }
        let kernel = match self.newest(&running).await? {
            Ok(NewestKernel::Newer(kernel)) => kernel,
            Ok(NewestKernel::Nothing(said)) => {
                say(&format!("Nothing to try: {said}."));
                return Ok(exit_code::FINE);
            }
            Err(refusal) => return Ok(refused(&[refusal])),
        };
        let refusals = self.refusals_of(&running, &kernel)?;
        if !refusals.is_empty() {
            return Ok(refused(&refusals));
        }
        self.show(&running, &kernel);
        if let Some(why) = self.update.stays_at_a_look() {
            say(&format!("Nothing was changed{why}."));
            return Ok(exit_code::FINE);
        }
        if !self.update.agreed()? {
            return Ok(exit_code::FINE);
        }
        self.begin(running, &kernel).await
    }

    fn show(&self, running: &str, kernel: &NewerKernel) {
        say(&format!(
            "A newer kernel: {running} → {}. This node restarts with it once, on trial: its pods stop, and start \
             again.",
            kernel.release
        ));
        let symbols = std::fs::read(self.update.host.root.real(SYMBOLS)).unwrap_or_default();
        if !symbols.is_empty() && !String::from_utf8_lossy(&symbols).contains(DRIVER) {
            say(&format!(
                "Kernel {running} has no driver that asks Raspberry Pi's firmware for a trial: this node will \
                 restart with {running} again."
            ));
        }
    }

    /// Prepares the trial and asks for it; what cannot be prepared is removed.
    async fn begin(&self, running: String, kernel: &NewerKernel) -> anyhow::Result<u8> {
        let before = self.update.host.before().await?;
        if before.units.is_empty() && before.names.is_none() {
            let what = "nothing runs here by which a kernel could be verified";
            return Ok(refused(&[UpgradeRefusal::new(what, "sudo weaver doctor")]));
        }
        let mut record = KernelTrial {
            begun: Timestamp::now().to_string(),
            from: running,
            to: kernel.release.clone(),
            packages: kernel.packages.clone(),
            units: before.units,
            names: before.names,
            boot: facts(&self.update.host.root)?.boot,
            phase: TrialPhase::Staged,
            refused: None,
        };
        let prepared = self.prepare(&mut record, kernel).await;
        let refusal = match prepared {
            Ok(Ok(())) => return self.ask(record).await,
            Ok(Err(refusal)) => Ok(refusal),
            Err(error) => Err(error),
        };
        let why = refusal.as_ref().map_or_else(|error| format!("{error:#}"), UpgradeRefusal::to_string);
        self.refuse(&mut record, &format!("it could not be prepared: {why}")).await?;
        refusal.map(|refusal| refused(&[refusal])).context("the old kernel stays, and nothing was restarted")
    }
}
