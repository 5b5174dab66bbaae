//! The steps of a trial from the restart on.

use std::fs;

use anyhow::{Context as _, anyhow, bail, ensure};
use weaver_diagnostics::config_txt::BOOT_DIR;
use weaver_diagnostics::exit_code;
use weaver_diagnostics::kernel_trial::record::{KernelTrial, TrialPhase, TrialStep};
use weaver_diagnostics::kernel_trial::refusals::also;
use weaver_diagnostics::kernel_trial::trial_files::{TRYBOOT, names};
use weaver_host::durable_file::if_there;

use super::prepare::MODULES;
use super::trial::{KernelUpdate, facts, running};
use crate::systemctl::SystemctlError;
use crate::update::packages::files;
use crate::update::programs::announce;
use crate::upgrade::carry_out::Stop;
use crate::upgrade::say::{say, say_failure};

/// What Raspberry Pi's driver hands to the firmware: partition 0 is the usual one.
const ON_TRIAL: &str = "0 tryboot";

impl KernelUpdate<'_> {
    /// Does what a boot says; returns the exit code if that was all that can be done now.
    pub(super) async fn carry_on(
        &self,
        mut record: KernelTrial,
        step: TrialStep,
    ) -> anyhow::Result<Option<u8>> {
        match step {
            TrialStep::Restart => return self.ask(record).await.map(Some),
            TrialStep::Judge => return self.judge(record).await,
            TrialStep::Keep => return self.keep(record).await,
            TrialStep::GoBack => return self.go_back(&record).await.map(Some),
            TrialStep::Refuse(why) => {
                say(&format!("Kernel {} is refused: {why}.", record.to));
                self.refuse(&mut record, why).await?;
                return Ok(None);
            }
            TrialStep::Tidy => {}
        }
        self.tidy(&record).await?;
        Ok(None)
    }

    /// Restarts this host on trial; returns the exit code of the process.
    pub(super) async fn ask(&self, mut record: KernelTrial) -> anyhow::Result<u8> {
        record.boot = facts(&self.update.host.root)?.boot;
        self.note(&mut record, TrialPhase::Asked)?;
        if let Err(error) = self.update.host.systemctl.reboot(Some(ON_TRIAL)).await {
            // It may come all the same, and needs what is in place: the next run decides.
            if matches!(error, SystemctlError::TooLong { .. }) {
                return Err(error).context("whether this node restarts is not known");
            }
            self.refuse(&mut record, &format!("the restart could not be asked for: {error}")).await?;
            return Err(error).context("nothing was restarted");
        }
        say(&format!(
            "This node restarts now with kernel {} on trial. How that ended:\n  \
             journalctl -b -u weaver-update-resume\n  sudo weaver node update --kernel --dry-run",
            record.to
        ));
        Ok(exit_code::FINE)
    }

    /// Proves the kernel that runs.
    async fn judge(&self, mut record: KernelTrial) -> anyhow::Result<Option<u8>> {
        // What cannot be written on trial is no reason to stay there.
        if let Err(error) = self.note(&mut record, TrialPhase::Trying) {
            say(&format!("{error:#}"));
            return self.go_back(&record).await.map(Some);
        }
        let host = &self.update.host;
        say(&format!("Kernel {} runs on trial: verifying it for up to {} s", record.to, host.wait.as_secs()));
        let mut verified = host.prove(&[], &record.units, record.names.as_deref()).await;
        if verified.is_ok() {
            // An owner who chose another kernel meanwhile has it.
            verified = self.boot.selected((&record.from, &record.to)).map(drop);
        }
        if let Err(error) = verified {
            say(&format!("Kernel {} is refused: {error:#}", record.to));
            // Without it the next boot writes down another reason; that the old kernel starts matters more.
            say_failure(self.note_refused(&mut record, &format!("{error:#}")));
            return self.go_back(&record).await.map(Some);
        }
        self.keep(record).await
    }

    /// Starts the old kernel, which no file of a regular start has ever left.
    async fn go_back(&self, record: &KernelTrial) -> anyhow::Result<u8> {
        say(&format!("This node restarts now with kernel {}.", record.from));
        self.update.host.systemctl.reboot(None).await?;
        Ok(exit_code::ROLLED_BACK)
    }

    /// Has each start take the kernel, and installs it.
    async fn keep(&self, mut record: KernelTrial) -> anyhow::Result<Option<u8>> {
        // A stop waits for dpkg.
        let _stop = Stop::listen()?;
        self.note(&mut record, TrialPhase::Keeping)?;
        if let Err(error) = self.install(&record).await {
            say(&format!(
                "Kernel {} is verified, and not installed yet: {error:#}\nTry it again, once that is mended:\n  \
                 sudo weaver node update",
                record.to
            ));
            return Ok(Some(exit_code::STUCK));
        }
        self.note(&mut record, TrialPhase::Kept)?;
        self.tidy(&record).await?;
        say(&format!("Kernel {} is verified and installed: each start takes it from now on.", record.to));
        Ok(None)
    }

    /// Called again after an interruption, it ends in the same state.
    async fn install(&self, record: &KernelTrial) -> anyhow::Result<()> {
        let trial = self.boot.select((&record.from, &record.to), &|| Ok(()))?;
        if !self.is_installed(record).await? {
            self.install_packages(record).await?;
            ensure!(self.is_installed(record).await?, "dpkg has not configured all of its packages");
        }
        let config = self.boot.config(TRYBOOT, &trial, true);
        let names = names(&config, &record.to).map_err(|refusal| anyhow!("{refusal}"))?;
        self.boot.publish(&names.cmdline, &|| Ok(()))
    }

    async fn install_packages(&self, record: &KernelTrial) -> anyhow::Result<()> {
        let packages = &self.update.packages;
        if !packages.are_fetched(&record.packages)
            && let Err(refusal) = self.fetch(&record.packages).await?
        {
            bail!("its packages are gone, and cannot be fetched again: {refusal}");
        }
        let new = files(&packages.new_ones());
        // Where it was cut off, apt installs more than it would have before.
        if let Ok(mut others) = self.programs.simulate_again(&new).await? {
            if let Some(refusal) = also(&others) {
                bail!("{refusal}");
            }
            let is_of_kernel = |other: &String| {
                record.packages.iter().any(|it| *other == format!("{} {}", it.name, it.version))
            };
            others.retain(|other| !is_of_kernel(other));
            announce(&others);
        }
        let instead = packages.instead_of_boot();
        packages.empty(&instead)?;
        let boot = self.update.host.root.real(BOOT_DIR);
        if let Err(refusal) = self.programs.install_apart(&new, &instead, &boot).await? {
            bail!("{refusal}");
        }
        Ok(())
    }

    /// Whether all of its packages are.
    async fn is_installed(&self, record: &KernelTrial) -> anyhow::Result<bool> {
        let there = self.programs.kernels().await?;
        Ok(record.packages.iter().all(|wanted| {
            there.iter().any(|it| it.name == wanted.name && it.version == wanted.version && it.is_whole)
        }))
    }

    /// Refuses a kernel and removes what was put in place. A full disk may take the record only after that.
    pub(super) async fn refuse(&self, record: &mut KernelTrial, why: &str) -> anyhow::Result<()> {
        let noted = self.note_refused(record, why);
        self.tidy(record).await?;
        noted.or_else(|_| self.note_refused(record, why))
    }

    /// Removes what a trial that has ended put in place.
    pub(super) async fn tidy(&self, record: &KernelTrial) -> anyhow::Result<()> {
        let root = &self.update.host.root;
        // Those of a package are dpkg's.
        let image = format!("linux-image-{}", record.to);
        if record.phase == TrialPhase::Refused
            && !self.programs.kernels().await?.iter().any(|it| it.name == image)
        {
            if running(root)? == record.to {
                // The next boot removes them.
                return Ok(());
            }
            let modules = root.real(MODULES).join(&record.to);
            if_there(fs::remove_dir_all(&modules))
                .with_context(|| format!("cannot remove {}", modules.display()))?;
        }
        self.boot.clear(&|| Ok(()))?;
        self.update.packages.tidy();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
