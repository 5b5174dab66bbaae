//! A machine that is switched on: QEMU, its control socket, its ports.
//!
//! Guarantee: when [`switch_on`] returns, the machine runs; a port that was taken in between is replaced by another
//! where the caller allows it. Failure: QEMU's own message.

use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::json;
use weaver_devstack::ports;

use super::emulator::Emulator;
use super::qemu::{self, Console, ForwardedPorts, QemuStart};
use super::qmp::{self, Qmp};

/// Until QEMU greets; restoring a snapshot's memory is part of it.
const START: Duration = Duration::from_mins(2);

/// How often other ports are tried.
const TRIES: usize = 5;

/// The log of QEMU's own output, in the machine's directory.
pub const QEMU_LOG: &str = "qemu.log";

/// A machine that is switched on.
pub struct Running {
    pub emulator: Emulator,
    pub qmp: Qmp,
    pub ports: ForwardedPorts,
}

/// How a machine ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The guest switched it off.
    PowerOff,
    /// The guest, or its watchdog, restarted it: the firmware must run again.
    Reset,
    /// From outside; QEMU's name for it.
    Outside(String),
}

/// Two free ports.
///
/// # Errors
/// When there are none.
pub fn free_ports() -> Result<ForwardedPorts> {
    let ssh = ports::disposable()?;
    loop {
        let api = ports::disposable()?;
        if api != ssh {
            return Ok(ForwardedPorts { ssh, api });
        }
    }
}

/// Starts QEMU in `dir`. Uses other ports than `start.ports` when those are taken and `any_ports` allows it. `tell`
/// gets QEMU's process id before the guest does anything visible that could make someone end the machine.
///
/// # Errors
/// When QEMU does not start, with its own message.
pub fn switch_on(
    dir: &Path,
    mut start: QemuStart<'_>,
    any_ports: bool,
    tell: impl Fn(u32),
) -> Result<Running> {
    qmp::check_path(start.qmp)?;
    let mut tries = TRIES;
    loop {
        tries -= 1;
        match start_once(dir, &start, &tell) {
            Err(error) if any_ports && tries > 0 && is_taken(&format!("{error:#}")) => {
                start.ports = free_ports()?;
            }
            result => return result,
        }
    }
}

fn is_taken(error: &str) -> bool {
    error.contains("Could not set up host forwarding rule")
}

fn start_once(dir: &Path, start: &QemuStart<'_>, tell: impl Fn(u32)) -> Result<Running> {
    if let Some(writes) = &start.hardware.write_log {
        // QEMU opens it and does not make it.
        File::create(writes).with_context(|| format!("cannot write {}", writes.display()))?;
    }
    let log = dir.join(QEMU_LOG);
    let mut command = Emulator::command();
    command.args(qemu::arguments(start)).current_dir(dir);
    command.stderr(File::create(&log).with_context(|| format!("cannot write {}", log.display()))?);
    match start.console {
        Console::Terminal => command.stdin(Stdio::inherit()).stdout(Stdio::inherit()),
        Console::Log => command.stdin(Stdio::null()).stdout(Stdio::null()),
    };
    let mut emulator = Emulator::start(command)?;
    let deadline = Instant::now() + START;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match Qmp::connect(start.qmp, left) {
            Ok(mut qmp) => {
                tell(emulator.pid());
                qmp.execute("cont", &json!({}), qmp::SHORT)?;
                return Ok(Running { emulator, qmp, ports: start.ports });
            }
            Err(error) => {
                if let Some(status) = emulator.wait(Duration::from_millis(50))? {
                    bail!("QEMU did not start ({status}): {}", said(&log));
                }
                if left.is_zero() {
                    return Err(error.context(said(&log)));
                }
            }
        }
    }
}

fn said(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    if text.trim().is_empty() { "QEMU printed nothing".to_owned() } else { text.trim().to_owned() }
}

impl Running {
    /// How it ended; `None` when it still runs after `limit`.
    ///
    /// # Errors
    /// When the kernel or QEMU does not say.
    pub fn end(&mut self, limit: Duration) -> Result<Option<End>> {
        match self.emulator.wait(limit)? {
            None => Ok(None),
            Some(_) => self.why().map(Some),
        }
    }

    /// Why it ended, once it has.
    ///
    /// # Errors
    /// When QEMU's last messages cannot be read.
    pub fn why(&mut self) -> Result<End> {
        Ok(match self.qmp.reason(qmp::SHORT)? {
            None => End::Outside("killed".to_owned()),
            Some(reason) => match reason.0.as_str() {
                "guest-shutdown" => End::PowerOff,
                "guest-reset" => End::Reset,
                other => End::Outside(other.to_owned()),
            },
        })
    }
}
