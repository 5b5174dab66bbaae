//! The steps of an upgrade, and of its rollback.

use anyhow::{Context as _, anyhow};
use tokio::signal::unix::{Signal, SignalKind, signal};
use weaver_diagnostics::exit_code;
use weaver_diagnostics::k3s_upgrade::Role;
use weaver_diagnostics::k3s_upgrade::plan::{BACK, FORWARD, UpgradeStep};
use weaver_diagnostics::k3s_upgrade::proof::WantedNode;
use weaver_diagnostics::k3s_upgrade::record::{K3sBuild, UpgradePhase, UpgradeRecord, UpgradeResume};

use super::journal::Journal;
use super::node::K3sNode;
use super::program_files::sha256;
use super::say::{say, say_failure};

/// An upgrade with its record.
pub struct Upgrade<'a> {
    pub node: &'a K3sNode,
    /// Where it is written down.
    pub journal: &'a Journal,
    pub role: Role,
    pub record: UpgradeRecord,
}

impl Upgrade<'_> {
    /// Writes down how far it has come.
    pub fn note(&mut self, phase: UpgradePhase) -> anyhow::Result<()> {
        self.record.phase = phase;
        self.journal.note(&self.record)
    }

    /// Installs the new program, and restores the old one if it is not proven. Returns the exit code.
    ///
    /// # Errors
    /// It could not be begun, and nothing was changed.
    pub async fn forward(&mut self, steps: &[UpgradeStep]) -> anyhow::Result<u8> {
        let mut stop = Stop::listen()?;
        let (from, to) = (self.record.from.clone(), self.record.to.clone());
        say(&format!("k3s {} replaces {}", to.version, from.version));
        for step in steps {
            let acted = tokio::select! {
                acted = self.act(*step, &to) => acted,
                why = stop.asked(), if *step == UpgradeStep::Prove => Err(why),
            };
            let Err(error) = acted else { continue };
            if *step == UpgradeStep::Keep {
                self.node.program.discard();
                self.note(UpgradePhase::WentBack)?;
                return Err(error.context("nothing was changed"));
            }
            say(&format!("k3s {} could not be verified: {error:#}", to.version));
            return Ok(self.back(&BACK).await);
        }
        // Without it the next run proves it again; that it is proven is so all the same.
        say_failure(self.note(UpgradePhase::Done));
        say(&format!("k3s {} is installed and verified: {}", to.version, self.proven()));
        say(&format!("{} is kept: `sudo weaver node rollback`", from.version));
        Ok(exit_code::FINE)
    }

    /// Back to the old program; the exit code.
    async fn back(&mut self, steps: &[UpgradeStep]) -> u8 {
        let from = self.record.from.clone();
        say(&format!("Going back to {}", from.version));
        // Without it the next run knows less; the rollback matters more.
        say_failure(self.note(UpgradePhase::Back));
        for step in steps {
            if let Err(error) = self.act(*step, &from).await {
                return self.stuck(*step, &error);
            }
        }
        say_failure(self.note(UpgradePhase::WentBack));
        say(&format!("k3s {} is in place again and verified: {}", from.version, self.proven()));
        exit_code::ROLLED_BACK
    }

    /// Completes an upgrade that was interrupted; returns the exit code.
    pub async fn resume(&mut self, resume: UpgradeResume) -> anyhow::Result<u8> {
        let _stop = Stop::listen()?;
        // The program that must be installed has another name by now.
        self.node.program.discard();
        match resume {
            UpgradeResume::Nothing => Ok(exit_code::FINE),
            UpgradeResume::Forget | UpgradeResume::LeaveAlone => {
                self.note(UpgradePhase::WentBack)?;
                Ok(exit_code::FINE)
            }
            UpgradeResume::Prove => self.forward(&FORWARD[2..]).await,
            UpgradeResume::GoBack => Ok(self.back(&BACK).await),
            UpgradeResume::ProveOld => Ok(self.back(&BACK[1..]).await),
        }
    }

    async fn act(&self, step: UpgradeStep, build: &K3sBuild) -> anyhow::Result<()> {
        let Self { node, role, .. } = self;
        match step {
            UpgradeStep::Keep if self.record.to_the_one_before => Ok(()),
            UpgradeStep::Replace | UpgradeStep::PutBack if self.record.to_the_one_before => {
                self.exchange(&build.sha256)
            }
            UpgradeStep::Keep => node.program.keep(),
            UpgradeStep::Replace => node.program.replace(),
            UpgradeStep::PutBack => node.program.put_back(),
            UpgradeStep::Restart => {
                say(&format!(
                    "Restarting {} (pods keep running), and verifying it for up to {} s",
                    role.unit(),
                    node.wait.as_secs()
                ));
                node.restart(*role).await.context("it could not be restarted")
            }
            UpgradeStep::Prove => {
                let (version, names) = (build.version.parse().ok(), self.record.names.clone());
                node.prove(&WantedNode { role: *role, version, names }).await
            }
        }
    }

    /// Installs the program with this hash, unless it is installed, and keeps the other as the previous one.
    fn exchange(&self, wanted: &str) -> anyhow::Result<()> {
        let program = &self.node.program;
        if sha256(&program.installed)? != wanted {
            program.exchange()?;
        }
        program.discard();
        Ok(())
    }

    fn proven(&self) -> String {
        let unit = self.role.unit();
        match (self.role, self.record.names.as_slice()) {
            (Role::Agent, _) => format!("{unit} is active"),
            (Role::Server, []) => format!("{unit} is active, its API server ready"),
            (Role::Server, names) => {
                format!("{unit} is active, its API server is ready and serves {}", names.join(", "))
            }
        }
    }

    /// Reports that the rollback failed, too.
    fn stuck(&self, step: UpgradeStep, error: &anyhow::Error) -> u8 {
        let version = &self.record.from.version;
        let program = &self.node.program;
        let unit = self.role.unit();
        if step == UpgradeStep::PutBack {
            let (installed, new) = (program.installed.display(), program.staged().display().to_string());
            say(&format!(
                "{version} could not be restored: {error:#}\nThe installed program is {}, which is not \
                 verified. Type\n  \
                 sudo cp -p {} {new} && sudo mv {new} {installed} && sudo systemctl restart {unit}",
                self.record.to.version,
                program.previous().display(),
            ));
        } else {
            say(&format!(
                "{version} is in place again, but could not be verified either: {error:#}\nIts log says why; then \
                 try once more:\n  \
                 sudo weaver explain --journal {}\n  sudo weaver node rollback",
                unit.trim_end_matches(".service")
            ));
        }
        exit_code::STUCK
    }
}

/// A signal to end during the proof causes a rollback. A closed terminal does not.
pub struct Stop {
    terminate: Signal,
    interrupt: Signal,
    _hangup: Signal,
}

impl Stop {
    /// From here on they end this process no more.
    pub fn listen() -> anyhow::Result<Self> {
        let heard = |kind| signal(kind).context("listening for signals");
        Ok(Self {
            terminate: heard(SignalKind::terminate())?,
            interrupt: heard(SignalKind::interrupt())?,
            _hangup: heard(SignalKind::hangup())?,
        })
    }

    pub async fn asked(&mut self) -> anyhow::Error {
        tokio::select! {
            _ = self.terminate.recv() => anyhow!("SIGTERM came"),
            _ = self.interrupt.recv() => anyhow!("SIGINT came"),
        }
    }
}

#[cfg(test)]
#[path = "carry_out_tests.rs"]
mod tests;
