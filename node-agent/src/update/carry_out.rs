//! The steps of an update, and of its rollback.

use weaver_diagnostics::exit_code;
use weaver_diagnostics::package_update::plan::PackageVersion;
use weaver_diagnostics::package_update::record::{UpdateRecord, UpdateResume, UpgradePhase};

use super::host::UpdateHost;
use super::packages::{Packages, files};
use super::programs::announce;
use crate::upgrade::carry_out::Stop;
use crate::upgrade::journal::Journal;
use crate::upgrade::say::{say, say_failure};

/// An update with its record.
pub struct PackageUpdate<'a> {
    pub host: &'a UpdateHost,
    pub journal: &'a Journal<UpdateRecord>,
    pub packages: &'a Packages,
    pub record: UpdateRecord,
}

impl PackageUpdate<'_> {
    /// Installs the new packages, and restores the old ones if they are not proven. Returns the exit code.
    ///
    /// # Errors
    /// It could not be begun, and nothing was changed.
    pub async fn forward(&mut self) -> anyhow::Result<u8> {
        let mut stop = Stop::listen()?;
        self.note(UpgradePhase::Forward)?;
        let to = self.record.versions().1.to_owned();
        say(&format!("Installing {to}"));
        let files = files(&self.packages.new_ones());
        if let Err(refusal) = self.host.programs.install(&files).await? {
            say(&format!("Config Weaver {to} was not installed: {refusal}"));
            // Where apt was locked or a file was missing, it has changed nothing.
            if self.record.resume(&self.host.programs.installed().await?) == UpdateResume::Forget {
                self.note(UpgradePhase::WentBack)?;
                self.packages.tidy();
                say("Nothing was changed.");
                return Ok(exit_code::KNOWN_BAD);
            }
            return Ok(self.failed().await);
        }
        self.prove_new(&mut stop).await
    }

    /// Proves the new packages, and restores the old ones if they are not proven; returns the exit code.
    async fn prove_new(&mut self, stop: &mut Stop) -> anyhow::Result<u8> {
        let (from, to) = self.record.versions();
        let (from, to) = (from.to_owned(), to.to_owned());
        say(&format!("Verifying it for up to {} s", self.host.wait.as_secs()));
        let mut stopped = false;
        let proving = self.proves(&self.record.to);
        let proven = tokio::select! {
            proven = proving => proven,
            why = stop.asked() => {
                stopped = true;
                Err(why)
            }
        };
        self.record.stopped = stopped;
        if let Err(error) = proven {
            say(&format!("Config Weaver {to} could not be verified: {error:#}"));
            // The timer reads it, also where nothing is restored.
            if stopped {
                say_failure(self.note(self.record.phase));
            }
            return Ok(self.failed().await);
        }
        // Without them the next run proves it again; that it is proven is so all the same.
        let kept = self.packages.keep_replaced().and_then(|()| self.note(UpgradePhase::Done));
        say(&format!("Config Weaver {to} is installed and verified: {}", self.proven()));
        match kept {
            Ok(()) => {
                self.packages.tidy();
                say(&format!("{from} is kept: `sudo weaver node update --to {from}`"));
            }
            Err(error) => say(&format!("{error:#}")),
        }
        Ok(exit_code::FINE)
    }

    /// Restores the old packages, where that is possible; returns the exit code.
    async fn failed(&mut self) -> u8 {
        if !self.record.one_way {
            return self.back().await;
        }
        let (from, to) = self.record.versions();
        say(&format!(
            "{from} is not installed again: it does not know what {to} stores, and --one-way was given. Type\n  \
             sudo dpkg --configure -a\n  sudo weaver doctor\n  sudo weaver node update"
        ));
        exit_code::STUCK
    }

    /// Restores the old packages; returns the exit code.
    async fn back(&mut self) -> u8 {
        let from = self.record.versions().0.to_owned();
        say(&format!("Going back to {from}"));
        // Without it the next run knows less; the rollback matters more.
        say_failure(self.note(UpgradePhase::Back));
        match self.host.programs.put_back(&files(&self.packages.back())).await {
            Ok(Ok(())) => self.prove_old().await,
            Ok(Err(refusal)) => self.stuck(&refusal.to_string()),
            Err(error) => self.stuck(&format!("{error:#}")),
        }
    }

    /// Proves the old packages; returns the exit code.
    async fn prove_old(&mut self) -> u8 {
        let from = self.record.versions().0.to_owned();
        if let Err(error) = self.proves(&self.record.from).await {
            return self.stuck(&format!("{error:#}"));
        }
        say_failure(self.note(UpgradePhase::WentBack));
        self.packages.tidy();
        say(&format!("Config Weaver {from} is installed again and verified: {}", self.proven()));
        exit_code::ROLLED_BACK
    }

    /// Completes an update that was interrupted; returns the exit code.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub async fn resume(&mut self, resume: UpdateResume) -> anyhow::Result<u8> {
        let mut stop = Stop::listen()?;
        match resume {
            UpdateResume::Nothing => Ok(exit_code::FINE),
            UpdateResume::Forget | UpdateResume::LeaveAlone => {
                self.note(UpgradePhase::WentBack)?;
                self.packages.tidy();
                Ok(exit_code::FINE)
            }
            UpdateResume::Install => self.install_again().await,
            UpdateResume::Prove => self.prove_new(&mut stop).await,
            UpdateResume::GoBack => Ok(self.back().await),
            UpdateResume::ProveOld => Ok(self.prove_old().await),
        }
    }

    /// Installs the new packages, of which some are there, or parts of one; the exit code.
    async fn install_again(&mut self) -> anyhow::Result<u8> {
        self.host.programs.configure().await?;
        if !self.packages.are_fetched(&self.record.to) {
            let new = self.packages.new_ones();
            self.packages.empty(&new)?;
            if let Err(refusal) = self.host.programs.download(&self.record.to, &new).await? {
                say(&format!("The packages of {} were deleted: {refusal}", self.record.versions().1));
                return Ok(self.failed().await);
            }
            self.packages.flush_new_ones()?;
        }
        // What prevents it, the installation says too.
        let new = files(&self.packages.new_ones());
        if let Ok(also) = self.host.programs.simulate_again(&new).await? {
            announce(&also);
        }
        self.forward().await
    }

    async fn proves(&self, packages: &[PackageVersion]) -> anyhow::Result<()> {
        self.host.restart_agent(&self.record).await?;
        self.host.prove(packages, &self.record.units, self.record.names.as_deref()).await
    }

    fn note(&mut self, phase: UpgradePhase) -> anyhow::Result<()> {
        self.record.phase = phase;
        self.journal.note(&self.record)
    }

    fn proven(&self) -> String {
        let mut proven = Vec::new();
        if self.record.units.is_empty() {
            return "the packages are whole; no unit of Config Weaver ran before".to_owned();
        }
        proven.push(format!("{} active, the node reports", self.record.units.join(", ")));
        match self.record.names.as_deref() {
            None => {}
            Some([]) => proven.push("k3s is as it was".to_owned()),
            Some(names) => proven.push(format!("k3s is unchanged and serves {}", names.join(", "))),
        }
        proven.join("; ")
    }

    /// Reports that the rollback failed, too.
    fn stuck(&self, why: &str) -> u8 {
        let directory = self.packages.back();
        say(&format!(
            "{} could not be verified either: {why}\nIts log says why; then try once more:\n  \
             sudo weaver explain --journal weaver-node-agent\n  sudo dpkg --install --recursive {}\n  \
             sudo weaver node update",
            self.record.versions().0,
            directory.display()
        ));
        exit_code::STUCK
    }
}
