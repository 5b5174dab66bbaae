//! Programs of the machine that the harness starts.
//!
//! Guarantee: no standard input, no mtools configuration of the user's, messages
//! in English. Failure: a program that is missing is named with its Debian
//! package; one that fails is quoted.

use std::ffi::OsStr;
use std::io;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, bail};

/// A command with an environment that does not change what it does.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).env("LC_ALL", "C.UTF-8").env_remove("KUBECONFIG");
    // mtools: our partition, whatever its geometry, and no drive letters of the user's configuration.
    command.env("MTOOLS_SKIP_CHECK", "1").env("MTOOLSRC", "/dev/null");
    command
}

/// Runs it to its end and returns what it printed.
///
/// # Errors
/// When it is not installed, or fails: with what it printed on standard error.
pub fn run(command: &mut Command) -> Result<Vec<u8>> {
    let output = command.output().map_err(|error| not_started(command, error))?;
    if !output.status.success() {
        bail!(
            "{} failed ({}): {}",
            name(command),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(output.stdout)
}

/// Why a program did not start, and what to install.
pub fn not_started(command: &Command, error: io::Error) -> anyhow::Error {
    let name = name(command);
    match (error.kind(), package(&name)) {
        (io::ErrorKind::NotFound, Some(package)) => {
            anyhow!("{name} is not installed; on Debian: apt-get install {package}")
        }
        _ => anyhow!(error).context(format!("cannot start {name}")),
    }
}

/// Fails unless every one of these programs is on the PATH.
///
/// # Errors
/// Names all that are missing, and one command that installs them.
pub fn require(programs: &[&str]) -> Result<()> {
    let path = std::env::var_os("PATH").context("PATH is not set; run this from a shell")?;
    let there = |program: &str| std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
    let missing: Vec<&str> = programs.iter().copied().filter(|program| !there(program)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut packages: Vec<&str> = missing.iter().map(|program| package(program).unwrap_or(program)).collect();
    packages.sort_unstable();
    packages.dedup();
    bail!("not installed: {}; on Debian: apt-get install {}", missing.join(", "), packages.join(" "))
}

fn name(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

/// Debian's package of a program, where it has another name.
pub(crate) fn package(program: &str) -> Option<&'static str> {
    Some(match program {
        "qemu-system-aarch64" => "qemu-system-arm",
        "qemu-img" | "qemu-io" => "qemu-utils",
        "mcopy" | "mmd" => "mtools",
        "mke2fs" => "e2fsprogs",
        "mkfs.vfat" => "dosfstools",
        "sfdisk" => "fdisk",
        "xz" => "xz-utils",
        "dh" => "debhelper",
        "dpkg-buildpackage" => "dpkg-dev",
        "fdtput" => "device-tree-compiler",
        "ssh" | "ssh-keygen" => "openssh-client",
        "setpriv" | "unshare" => "util-linux",
        "timeout" | "cp" => "coreutils",
        "kubectl" => "kubernetes-client",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_package() {
        let missing = io::Error::from(io::ErrorKind::NotFound);
        let text = not_started(&Command::new("fdtput"), missing).to_string();
        assert_eq!(text, "fdtput is not installed; on Debian: apt-get install device-tree-compiler");
        assert_eq!((package("mcopy"), package("mmd")), (Some("mtools"), Some("mtools")));
        let text = format!("{:#}", run(&mut command("/nowhere/mcopy")).unwrap_err());
        assert!(text.starts_with("cannot start /nowhere/mcopy"), "{text}");
        let text = require(&["sh", "no-such-program"]).unwrap_err().to_string();
        assert_eq!(text, "not installed: no-such-program; on Debian: apt-get install no-such-program");
        require(&["sh"]).unwrap();
    }

    #[test]
    fn what_fails_is_quoted() {
        let text = run(command("sh").args(["-c", "echo why >&2; exit 3"])).unwrap_err().to_string();
        assert_eq!(text, "sh failed (exit status: 3): why");
    }
}
