//! The QEMU process.
//!
//! Guarantee: it ends when its [`Emulator`] is dropped and when the harness ends
//! in any way, SIGKILL included. QEMU starts no processes of its own.
//! Failure: a missing program is named with its package.

use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use weaver_devstack::process::poll;
use weaver_devstack::signals;

use super::programs;

/// A running (or just ended) QEMU.
pub struct Emulator {
    child: Child,
    // The kernel's parent-death signal follows the thread that started the
    // child, not the process: that thread must live as long as this value.
    _keeper: mpsc::Sender<()>,
}

impl Emulator {
    /// Starts what [`Self::command`] began.
    ///
    /// # Errors
    /// When `setpriv` or QEMU cannot be started.
    pub fn start(mut command: Command) -> Result<Self> {
        let (answer, answered) = mpsc::channel();
        let (keeper, kept) = mpsc::channel();
        thread::Builder::new()
            .name("keeper".to_owned())
            .spawn(move || {
                let started = signals::unblocked(|| {
                    command.spawn().map_err(|error| programs::not_started(&command, error))
                });
                let _ = answer.send(started);
                // Returns when the `Emulator` is dropped.
                let _ = kept.recv();
            })
            .context("cannot start a thread")?;
        let child = answered.recv().map_err(|_| anyhow!("the starting thread ended"))??;
        Ok(Self { child, _keeper: keeper })
    }

    /// A command that starts QEMU so that it does not outlive its starter.
    pub fn command() -> Command {
        let mut command = programs::command("setpriv");
        // TERM, so that QEMU restores the terminal.
        command.args(["--pdeathsig", "TERM", "--", "qemu-system-aarch64"]);
        command
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it did.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().context("cannot ask whether QEMU has ended")
    }

    /// Waits for its end, for at most `limit`; `None` when it still runs then.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn wait(&mut self, limit: Duration) -> Result<Option<ExitStatus>> {
        let mut status = self.ended();
        poll(limit, || {
            status = self.ended();
            !matches!(status, Ok(None))
        });
        status
    }

    /// Waits for its end, however long that takes.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn wait_forever(&mut self) -> Result<ExitStatus> {
        self.child.wait().context("cannot wait for QEMU")
    }

    /// Ends it at once, as a power cut would.
    ///
    /// # Errors
    /// When it does not end.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill().context("cannot kill QEMU")?;
        self.child.wait().map(drop).context("cannot collect QEMU")
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to do.
        let _ = self.kill();
    }
}
