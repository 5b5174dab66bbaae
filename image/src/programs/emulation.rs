//! Runs a program of the card on this machine to get its version.
//!
//! Guarantees: it runs with an empty home and no environment but PATH, for [`LIMIT_SECONDS`] at most, on the oldest
//! processor that a card may meet (the Pi 3's), so that an instruction which only newer ones have shows here. Failure:
//! names the program, what it printed, and what is missing on this machine.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, bail};

/// A program of 190 MB prints its version in two seconds on a busy machine.
pub const LIMIT_SECONDS: u32 = 60;

/// The Pi 3's; all later boards run what it runs.
const PROCESSOR: &str = "cortex-a53";

/// Where the cross compiler's package puts the card's loader and libc.
const SYSROOT: &str = "/usr/aarch64-linux-gnu";

/// The exit code of `coreutils`' `timeout` when it had to end the program.
const TIMED_OUT: i32 = 124;

/// What the program prints for `--version`.
///
/// # Errors
/// When it cannot be run, fails, or prints nothing in time.
pub fn version(program: &Path) -> Result<String> {
    version_within(program, LIMIT_SECONDS)
}

/// The same within so many seconds.
///
/// # Errors
/// As [`version`].
pub fn version_within(program: &Path, seconds: u32) -> Result<String> {
    let home = tempfile::tempdir().context("cannot make a temporary directory")?;
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", &seconds.to_string()]);
    if env::consts::ARCH != "aarch64" {
        command.arg(emulator()?).args(["-cpu", PROCESSOR, "-L", SYSROOT]);
    }
    command.arg(program).arg("--version").env_clear().env("HOME", home.path());
    if let Some(path) = env::var_os("PATH") {
        command.env("PATH", path);
    }
    let output = command.stdin(Stdio::null()).output().context("cannot start timeout (coreutils)")?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() && !said.trim().is_empty() {
        return Ok(said);
    }
    let shown = format!("`{} --version`", program.display());
    if output.status.code() == Some(TIMED_OUT) {
        bail!("{shown} printed nothing within {seconds} s; it is not the expected program");
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let last = errors.lines().last().unwrap_or("it printed nothing");
    bail!("{shown} failed ({}): {last}", output.status)
}

/// The user-mode emulator, under either of Debian's names.
fn emulator() -> Result<PathBuf> {
    let names = ["qemu-aarch64", "qemu-aarch64-static"];
    let dirs: Vec<_> = env::var_os("PATH").map(|path| env::split_paths(&path).collect()).unwrap_or_default();
    let mut paths = dirs.iter().flat_map(|dir| names.map(|name| dir.join(name)));
    paths.find(|path| path.is_file()).ok_or_else(|| {
        anyhow!(
            "{} is needed to run a program for its version; `apt-get install qemu-user` brings it",
            names[0]
        )
    })
}
