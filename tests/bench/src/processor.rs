//! What a process takes of the processors and of the disk, and a program that ends of the memory.

use std::ffi::OsString;
use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use nix::sys::resource::{UsageWho, getrusage};

/// Processor time of the threads of a process in milliseconds.
pub fn time(pid: u32) -> Result<f64> {
    let dir = format!("/proc/{pid}/task");
    let mut nanoseconds = 0.0;
    for thread in fs::read_dir(&dir).with_context(|| dir.clone())? {
        // One that has ended meanwhile did next to nothing. First of three fields (sched-stats of the kernel).
        let Ok(stat) = fs::read_to_string(thread?.path().join("schedstat")) else { continue };
        nanoseconds += stat.split_whitespace().next().context("an empty schedstat")?.parse::<f64>()?;
    }
    Ok(nanoseconds / 1e6)
}

/// Bytes that a process has sent to disks.
pub fn written(pid: u32) -> Result<f64> {
    let path = format!("/proc/{pid}/io");
    let io = fs::read_to_string(&path).with_context(|| path.clone())?;
    let bytes = io.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    Ok(bytes.context("no write_bytes")?.trim().parse()?)
}

/// The most memory in MiB that a program took until it ended: measured by a process that has no other children, of
/// which the kernel reports the largest.
pub fn peak_of(command: &[OsString]) -> Result<f64> {
    let own = std::env::current_exe().context("this program")?;
    let output = Command::new(own).arg("--peak-of").args(command).output().context("starting it")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

/// The other side of [`peak_of`].
pub fn tell_peak(command: &[OsString]) -> Result<()> {
    let (program, arguments) = command.split_first().context("no program")?;
    let quiet = Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    quiet.with_context(|| format!("starting {}", program.display()))?;
    let kibibytes = getrusage(UsageWho::RUSAGE_CHILDREN)?.max_rss();
    println!("{}", f64::from(u32::try_from(kibibytes)?) / 1024.0);
    Ok(())
}
