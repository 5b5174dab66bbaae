//! `weaver-image with-booted`: boots the image once, waits until it is ready, and runs a command next to the kept
//! machine.
//!
//! A boot under emulation costs minutes, restoring a snapshot two seconds: each test starts from the same machine,
//! breaks it freely, and leaves nothing. Failure: a boot that does not become ready prints the console and what systemd
//! reports.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use weaver_devstack::choice::ServerBinary;
use weaver_devstack::steps::{Steps, say};

use crate::boot::card::{Card, Edits};
use crate::boot::machine::{Machine, MachineSnapshot, Setup};

/// Names the directory of the booted machine to the command.
pub const BOOTED: &str = "WEAVER_BOOTED";
/// Names the image to it.
pub const IMAGE: &str = "WEAVER_IMAGE";
/// A name of the API that only weaver.toml adds.
pub const API_NAME: &str = "raspi.weaver.test";
/// What the owner of the card under test wrote.
pub const WEAVER_TOML: &str = include_str!("booted/weaver.toml");
/// What the API server logs of each request.
const AUDIT_POLICY: &str = include_str!("booted/audit.yaml");
/// Bytes of the card: four times the image, so that it has to grow.
const CARD: u64 = 8 << 30;
/// Under emulation on a busy machine.
const BOOT: Duration = Duration::from_mins(15);
/// For a command in the guest.
const COMMAND: Duration = Duration::from_mins(1);
const SNAPSHOT: &str = "booted";

#[derive(Debug, Clone, clap::Args)]
pub struct BootedOptions {
    /// The card image.
    #[arg(long)]
    pub image: PathBuf,
    /// Where the machine is kept; emptied first.
    #[arg(long, default_value = "target/image/booted")]
    pub dir: PathBuf,
    /// Time on the machine is the number of instructions, whatever else this one does: for what is measured.
    #[arg(long)]
    pub counted: bool,
    /// The command and its arguments.
    #[arg(required = true, last = true)]
    pub command: Vec<OsString>,
}

/// Boots, keeps, runs the command, and returns its exit code.
///
/// # Errors
/// When the image does not come up or the command cannot be started.
pub fn run(options: &BootedOptions) -> Result<ExitCode> {
    let BootedOptions { image, dir, counted, command } = options;
    let image = image.canonicalize().with_context(|| format!("cannot find the image {}", image.display()))?;
    if dir.exists() {
        fs::remove_dir_all(dir).with_context(|| format!("cannot empty {}", dir.display()))?;
    }
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let dir = dir.canonicalize()?;
    let path = with_kubectl(&dir)?;
    boot(&image, &dir, &setup(*counted))?;
    let (program, arguments) = command.split_first().context("there is no command")?;
    let status = Command::new(program)
        .args(arguments)
        .env(IMAGE, &image)
        .env(BOOTED, &dir)
        .env("PATH", path)
        .status()
        .with_context(|| format!("cannot start {}", program.display()))?;
    // A gigabyte that is not needed any more; the logs of the boot stay.
    fs::remove_file(dir.join("booted.qcow2")).context("removing the kept machine")?;
    Ok(ExitCode::from(u8::try_from(status.code().unwrap_or(1)).unwrap_or(1)))
}

/// A card as its owner would prepare it, for tests that boot one of their own.
pub fn edits() -> Edits {
    Edits {
        weaver_toml: Some(WEAVER_TOML.to_owned()),
        names: vec![API_NAME.to_owned()],
        files: vec![("audit.yaml".to_owned(), AUDIT_POLICY.as_bytes().to_vec())],
        ..Edits::default()
    }
}

/// `PATH` with a kubectl in it: the API server's own binary contains one, of the card's version.
fn with_kubectl(dir: &Path) -> Result<OsString> {
    let server = ServerBinary::choose(Path::new("."))?;
    let bin = dir.join("bin");
    fs::create_dir(&bin).with_context(|| format!("cannot make {}", bin.display()))?;
    symlink(&server.path, bin.join("kubectl")).context("linking kubectl")?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths([bin].into_iter().chain(std::env::split_paths(&path)))
        .context("PATH cannot be extended")
}

fn boot(image: &Path, dir: &Path, setup: &Setup) -> Result<()> {
    let mut steps = Steps::begin();
    let card = Arc::new(Card::in_dir(&dir.join("card"), image, CARD, &edits())?);
    steps.done("card", format_args!("{} GiB", CARD >> 30));
    let mut machine = Machine::start(&card, setup)?;
    let came_up = come_up(&mut machine, &mut steps);
    // Useful also, and most of all, when the boot failed.
    fs::write(dir.join("console.log"), machine.console()).context("keeping the console")?;
    if let Ok(reported) = machine
        .run("systemctl --no-pager --failed; systemd-analyze; journalctl --no-pager -o short-monotonic")
    {
        fs::write(dir.join("journal.log"), reported).context("keeping the journal")?;
    }
    came_up?;
    machine.snapshot(SNAPSHOT)?.keep(&dir.join("booted.qcow2"))?;
    machine.kill()?;
    steps.done("snapshot", "memory and card");
    Ok(())
}

/// Waits for each step that a user would see.
fn come_up(machine: &mut Machine, steps: &mut Steps) -> Result<()> {
    machine.wait_for_ssh(BOOT)?;
    steps.done("ssh", "");
    for unit in
        ["k3s.service", "weaver-node-agent.service", "weaver-webhook.service", "weaver-operator.service"]
    {
        wait_for_unit(machine, unit, BOOT)?;
        steps.done(unit, "active");
    }
    Ok(())
}

/// Waits until a unit is active.
///
/// # Errors
/// When it is not within `limit`: what systemd and the journal report about it.
pub fn wait_for_unit(machine: &Machine, unit: &str, limit: Duration) -> Result<()> {
    // One command that waits in the guest: each poll from here costs the guest a second of its time.
    let seconds = limit.as_secs();
    let wait = format!("until systemctl is-active --quiet {unit}; do sleep 2; done");
    // Not with the code of `timeout`, by which a connection that hangs is known.
    let wait = format!("timeout {seconds} sh -c '{wait}' || exit 1");
    if machine.attempt(&wait, limit + COMMAND)?.code == 0 {
        return Ok(());
    }
    let show = "systemctl --no-pager status UNIT; journalctl --no-pager -n 30 -u UNIT; \
                cat /run/weaver/k3s.blocked /boot/firmware/NODE-STATUS.txt";
    say(machine.attempt(&show.replace("UNIT", unit), COMMAND)?.stdout);
    bail!("{unit} is not active after {seconds} s");
}

/// The machine that `with-booted` kept, restored from its snapshot: for tests.
///
/// # Errors
/// Outside of `with-booted`, or when QEMU does not start.
pub fn machine() -> Result<Machine> {
    restored(&setup(false))
}

/// Like [`machine`], of `with-booted --counted`.
///
/// # Errors
/// As [`machine`].
pub fn counted_machine() -> Result<Machine> {
    restored(&setup(true))
}

fn setup(counted: bool) -> Setup {
    if counted { Setup::counted() } else { Setup::default() }
}

fn restored(setup: &Setup) -> Result<Machine> {
    let dir = std::env::var_os(BOOTED).map(PathBuf::from);
    let dir = dir.context("WEAVER_BOOTED is not set: run `make image-smoke`")?;
    let image = std::env::var_os(IMAGE).map(PathBuf::from).context("WEAVER_IMAGE is not set")?;
    let card = Arc::new(Card::in_dir(&dir.join("card"), &image, CARD, &edits())?);
    let snapshot = MachineSnapshot::open(&card, setup, &dir.join("booted.qcow2"), SNAPSHOT)?;
    Machine::restore(&snapshot)
}
