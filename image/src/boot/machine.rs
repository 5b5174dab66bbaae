//! A machine for tests: start, read the console, type, snapshot, cut the power.
//!
//! Guarantees: every wait has a limit; a [`Machine`] that is dropped leaves no process and no file; machines restored
//! from one [`MachineSnapshot`] share no file that they write. Failure: what was waited for, and the console's last
//! lines.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use serde_json::json;
use tempfile::TempDir;
use weaver_devstack::download::sha256;
use weaver_devstack::ports;

use super::card::{Card, temporary_dir};
use super::console;
use super::fat::Fat;
use super::overlay::Overlay;
use super::qemu::{Console, ForwardedPorts, LINK, QemuStart};
use super::qmp::{self, Qmp};
use super::running::{End, QEMU_LOG, Running, free_ports, switch_on};
use super::ssh::Ran;
use super::stage::Stage;

pub use super::snapshot::MachineSnapshot;
pub use super::stage::Setup;

/// For a command in the guest, which is 20 to 30 times slower than the host.
const COMMAND: Duration = Duration::from_mins(2);

/// For writing a machine's memory into its card.
const SAVE: Duration = Duration::from_mins(5);

/// Between two checks of the console or the ssh port.
const PAUSE: Duration = Duration::from_millis(500);

/// A machine, switched on or off.
pub struct Machine {
    card: Arc<Card>,
    setup: Setup,
    stage: Arc<Stage>,
    overlay: Overlay,
    pub(super) running: Running,
    pub(super) dir: TempDir,
}

impl Machine {
    /// Puts a copy of the card into a new machine and switches it on.
    ///
    /// # Errors
    /// When the board would not boot the card, or QEMU does not start.
    pub fn start(card: &Arc<Card>, setup: &Setup) -> Result<Self> {
        let dir = temporary_dir()?;
        let overlay = card.overlay().copy_to(&dir.path().join("card.qcow2"))?;
        let stage = Arc::new(Stage::new(&overlay, setup, false)?);
        Self::switched_on(Arc::clone(card), setup.clone(), stage, overlay, dir, None)
    }

    /// Continues from a snapshot: another machine, other ports, a card of its own.
    ///
    /// # Errors
    /// When QEMU does not start.
    pub fn restore(snapshot: &MachineSnapshot) -> Result<Self> {
        let dir = temporary_dir()?;
        let overlay = snapshot.overlay.copy_to(&dir.path().join("card.qcow2"))?;
        let (card, stage) = (Arc::clone(&snapshot.card), Arc::clone(&snapshot.stage));
        Self::switched_on(card, snapshot.setup.clone(), stage, overlay, dir, Some(&snapshot.name))
    }

    /// Switches a machine on again that has ended: the firmware reads its card again, on trial where the guest has asked
    /// for that with its restart.
    ///
    /// # Errors
    /// When it still runs, or as [`Self::start`].
    pub fn start_again(self) -> Result<Self> {
        let Self { card, setup, overlay, mut running, dir, .. } = self;
        if running.emulator.ended()?.is_none() {
            bail!("the machine still runs; power_off or kill it first");
        }
        let said = console::text(&dir.path().join("console.log"));
        let is_trial = running.why()? == End::Reset && console::asks_for_trial(&said);
        drop(running);
        let stage = Arc::new(Stage::new(&overlay, &setup, is_trial)?);
        Self::switched_on(card, setup, stage, overlay, dir, None)
    }

    fn switched_on(
        card: Arc<Card>,
        setup: Setup,
        stage: Arc<Stage>,
        overlay: Overlay,
        dir: TempDir,
        snapshot: Option<&str>,
    ) -> Result<Self> {
        let start = QemuStart {
            played: &stage.played,
            hardware: &setup.hardware,
            card: overlay.path(),
            ports: free_ports()?,
            console: Console::Log,
            console_log: &dir.path().join("console.log"),
            qmp: &dir.path().join("qmp"),
            snapshot,
        };
        let running = switch_on(dir.path(), start, true, |_| ())?;
        Ok(Self { card, setup, stage, overlay, running, dir })
    }

    /// What the firmware did, one line each.
    pub fn steps(&self) -> &[String] {
        &self.stage.played.steps
    }

    /// Forwarded ports on 127.0.0.1.
    pub fn ports(&self) -> ForwardedPorts {
        self.running.ports
    }

    /// The card that it was started from.
    pub fn card(&self) -> &Card {
        &self.card
    }

    /// The content of its card. Of a running machine, not all is in it.
    pub fn overlay(&self) -> &Overlay {
        &self.overlay
    }

    pub fn pid(&self) -> u32 {
        self.running.emulator.pid()
    }

    pub fn qmp(&mut self) -> &mut Qmp {
        &mut self.running.qmp
    }

    /// Where the console is written to.
    pub fn console_log(&self) -> PathBuf {
        self.dir.path().join("console.log")
    }

    /// What the console shows since power-on or restore.
    pub fn console(&self) -> String {
        console::text(&self.console_log())
    }

    /// Waits until the console shows `text`.
    ///
    /// # Errors
    /// When it does not within `limit`, or the machine ends before.
    pub fn wait_for_console(&mut self, text: &str, limit: Duration) -> Result<()> {
        let deadline = Instant::now() + limit;
        loop {
            // Asked first: output counts up to the end.
            let over = self.running.emulator.ended()?.is_some();
            if self.console().contains(text) {
                return Ok(());
            }
            if over {
                return Err(self.failed(&format!("the machine ended before its console showed `{text}`")));
            }
            if Instant::now() >= deadline {
                let what = format!("the console did not show `{text}` within {} s", limit.as_secs());
                return Err(self.failed(&what));
            }
            thread::sleep(PAUSE);
        }
    }

    /// Waits until commands can be run.
    ///
    /// # Errors
    /// When they cannot within `limit`, or the machine ends before.
    pub fn wait_for_ssh(&mut self, limit: Duration) -> Result<()> {
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Err(error) = self.attempt("true", left.min(COMMAND)) else { return Ok(()) };
            if self.running.emulator.ended()?.is_some() {
                return Err(self.failed("the machine ended before ssh answered"));
            }
            if Instant::now() >= deadline {
                let what = format!("ssh did not answer within {} s ({error})", limit.as_secs());
                return Err(self.failed(&what));
            }
            thread::sleep(PAUSE);
        }
    }

    /// Runs a shell command as root in the guest and returns its standard output.
    ///
    /// # Errors
    /// When it fails, with its standard error, or takes more than two minutes.
    pub fn run(&self, script: &str) -> Result<String> {
        self.run_within(script, COMMAND)
    }

    /// Like [`Self::run`], with another limit.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_within(&self, script: &str, limit: Duration) -> Result<String> {
        let ran = self.attempt(script, limit)?;
        if ran.code != 0 {
            bail!("`{script}` failed in the guest (exit code {}): {}{}", ran.code, ran.stdout, ran.stderr);
        }
        Ok(ran.stdout)
    }

    /// Runs a shell command as root in the guest, whatever its exit code.
    ///
    /// # Errors
    /// When there is no connection, or no end within `limit`.
    pub fn attempt(&self, script: &str, limit: Duration) -> Result<Ran> {
        self.card.key().run(self.running.ports.ssh, script, limit)
    }

    /// Pulls the network cable out, or plugs it in.
    ///
    /// # Errors
    /// When QEMU refuses.
    pub fn set_link(&mut self, up: bool) -> Result<()> {
        self.running.qmp.execute("set_link", &json!({ "name": LINK, "up": up }), qmp::SHORT).map(drop)
    }

    /// A port of this machine, on 127.0.0.1, that leads to one of the guest's from now on.
    ///
    /// # Errors
    /// When there is no free one, or QEMU refuses.
    pub fn forward(&mut self, guest: u16) -> Result<u16> {
        let port = ports::disposable()?;
        self.running.qmp.monitor(&format!("hostfwd_add {LINK} tcp:127.0.0.1:{port}-:{guest}"), qmp::SHORT)?;
        Ok(port)
    }

    /// Keeps memory and card as they are now, and continues.
    ///
    /// # Errors
    /// When the name is not made of letters, digits and `-`, or QEMU refuses.
    pub fn snapshot(&mut self, name: &str) -> Result<MachineSnapshot> {
        if !name.starts_with(|c: char| c.is_ascii_alphabetic())
            || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
        {
            bail!("`{name}` is no name for a snapshot; use letters, digits and `-`");
        }
        self.running.qmp.monitor(&format!("savevm {name}"), SAVE)?;
        let dir = temporary_dir()?;
        let overlay = self.quiesced(|machine| machine.overlay.copy_to(&dir.path().join("card.qcow2")))?;
        Ok(MachineSnapshot {
            card: Arc::clone(&self.card),
            setup: self.setup.clone(),
            stage: Arc::clone(&self.stage),
            overlay,
            name: name.to_owned(),
            _dir: dir,
        })
    }

    /// Has the guest shut down and waits for it.
    ///
    /// # Errors
    /// When it does not within `limit`.
    pub fn power_off(&mut self, limit: Duration) -> Result<()> {
        // The connection may break before ssh has its answer.
        let asked = self.attempt("systemctl poweroff --no-block", COMMAND.min(limit));
        match self.running.end(limit)? {
            Some(End::PowerOff) => Ok(()),
            Some(other) => Err(self.failed(&format!("the machine ended by {other:?}, not by switching off"))),
            None => {
                let asked = asked.err().map(|error| format!(" ({error})")).unwrap_or_default();
                Err(self.failed(&format!("the guest did not switch off within {} s{asked}", limit.as_secs())))
            }
        }
    }

    /// Waits for the machine's end.
    ///
    /// # Errors
    /// When it still runs after `limit`.
    pub fn wait_for_end(&mut self, limit: Duration) -> Result<End> {
        let end = self.running.end(limit)?;
        end.ok_or_else(|| self.failed(&format!("the machine still runs after {} s", limit.as_secs())))
    }

    /// Cuts the power.
    ///
    /// # Errors
    /// When QEMU does not end.
    pub fn kill(&mut self) -> Result<()> {
        self.running.emulator.kill()
    }

    /// A file of the boot partition, from outside; `None` when there is none.
    /// Of a running machine, what it has handed to its disk by now.
    ///
    /// # Errors
    /// When the boot partition cannot be read.
    pub fn read_fat(&mut self, name: &str) -> Result<Option<Vec<u8>>> {
        let dir = temporary_dir()?;
        let fat = self.quiesced(|machine| machine.overlay.extract_fat(&dir.path().join("fat")))?;
        fat.read(name)
    }

    /// SHA-256 of the whole boot partition, in lower-case hexadecimal: as [`Self::read_fat`].
    ///
    /// # Errors
    /// When the boot partition cannot be read.
    pub fn fat_sha256(&mut self) -> Result<String> {
        let dir = temporary_dir()?;
        let fat = self.quiesced(|machine| machine.overlay.extract_fat(&dir.path().join("fat")))?;
        sha256(fat.path())
    }

    /// Changes the boot partition of a machine that has ended, as a laptop would.
    ///
    /// # Errors
    /// When it still runs, or as [`Overlay::edit_fat`].
    pub fn edit_fat(&mut self, edit: impl FnOnce(&Fat) -> Result<()>) -> Result<()> {
        if self.running.emulator.ended()?.is_none() {
            bail!("the machine still runs; power_off or kill it before its card is changed");
        }
        self.overlay.edit_fat(edit)
    }

    /// Runs `act` while the machine is paused with everything written.
    ///
    /// # Errors
    /// When QEMU refuses, or that of `act`.
    pub fn quiesced<T>(&mut self, act: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        if self.running.emulator.ended()?.is_some() {
            return act(self);
        }
        self.running.qmp.execute("stop", &json!({}), SAVE)?;
        let made = act(self);
        self.running.qmp.execute("cont", &json!({}), qmp::SHORT)?;
        made
    }

    fn failed(&self, what: &str) -> anyhow::Error {
        let said = fs::read_to_string(self.dir.path().join(QEMU_LOG)).unwrap_or_default();
        let said = if said.trim().is_empty() { String::new() } else { format!("\nQEMU: {}", said.trim()) };
        anyhow!("{what}\n{}{said}", console::last_lines(&self.console_log()))
    }
}
