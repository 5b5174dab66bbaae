//! `repair`: makes the changes that a finding shows, and undoes them.
//!
//! What to change is decided with the finding; it is only done here. Guarantees: a file is replaced whole, so that an
//! interruption leaves the old one or the new; the old one is kept next to it and in the record of repairs; a file that
//! has changed since it was judged is not touched; nothing is rebooted. Failure: it reports what was changed and what
//! was not, and the same command continues where it stopped.

pub mod names;
mod serving_secret;
mod undo_record;

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use jiff::Timestamp;
use weaver_diagnostics::{
    config_txt::BOOT_DIR,
    exit_code,
    finding::{Command, FileChange, Finding, Remedy},
    host::storage::Mount,
    memory_cgroup,
};
use weaver_host::durable_file::if_there;

use crate::{
    args::RepairFilesArgs,
    boot_config,
    facts::{kernel, mounts::Mounts},
    fat_file::{self, flush_file_system},
    host_root::HostRoot,
    report,
};
use undo_record::UndoRecord;

/// Suffix of the copy from before a repair, next to the file.
const BEFORE: &str = "weaver-before";

/// Runs the verb; returns the exit code of the process.
pub fn run(args: &RepairFilesArgs) -> anyhow::Result<u8> {
    let root = HostRoot::new(args.root.clone());
    let record = || UndoRecord::lock(&root.real(&args.state_dir));
    if args.undo {
        return undo(&root, &record()?);
    }
    let findings = memory_cgroup::findings(&kernel::memory_cgroup(&root));
    let remedies: Vec<_> = findings.iter().filter_map(|finding| finding.remedy.as_ref()).collect();
    let changes: Vec<_> = remedies.iter().flat_map(|remedy| &remedy.changes).collect();
    if changes.is_empty() {
        say(&report::text(&findings))?;
        say("Nothing was changed: this command has no repair for these findings.\n")?;
        return Ok(exit_code::of(&findings));
    }
    for diff in remedies.iter().filter_map(|remedy| remedy.diff.as_ref()) {
        say(diff)?;
    }
    if args.dry_run {
        say("Nothing was changed.\n")?;
        return Ok(exit_code::of(&findings));
    }
    let is_changed = |finding: &&Finding| finding.remedy.as_ref().is_some_and(|it| !it.changes.is_empty());
    let codes: Vec<_> = findings.iter().filter(is_changed).map(|finding| finding.code.id()).collect();
    repair(&root, &record()?, &codes.join(" "), &changes)?;
    let needs_reboot =
        |remedy: &&Remedy| !remedy.changes.is_empty() && remedy.commands.contains(&Command::Reboot);
    if remedies.iter().any(needs_reboot) {
        say(&format!("Changed; takes effect at the next boot: {}\n", Command::Reboot))?;
        return Ok(exit_code::REBOOT_NEEDED);
    }
    say("Changed.\n")?;
    Ok(exit_code::FINE)
}

fn say(text: &str) -> anyhow::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        // The reader has read enough; the work is finished all the same.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done.context("cannot write to standard output"),
    }
}

fn repair(root: &HostRoot, record: &UndoRecord, codes: &str, changes: &[&FileChange]) -> anyhow::Result<()> {
    let mounted = boot_config::settings_file::is_mounted(root, Path::new(BOOT_DIR));
    let on_card = |change: &&FileChange| Path::new(&change.file).starts_with(BOOT_DIR);
    if let Some(change) = changes.iter().copied().find(on_card) {
        ensure!(
            mounted != Ok(Some(false)),
            "{} is not on the boot partition, which is not mounted: `sudo mount {BOOT_DIR}`, then check again",
            change.file
        );
    }
    let mounts = Mounts::read(root).unwrap_or_default();
    for change in changes {
        can_be_replaced(root, &mounts, &change.file)?;
        as_seen(root, &change.file, change.from.as_deref())?;
    }
    record.note(Timestamp::now(), codes, changes)?;
    for change in changes {
        if let Some(from) = &change.from {
            write(root, &format!("{}.{BEFORE}", change.file), &change.file, from)?;
        }
        write(root, &change.file, &change.file, &change.to)?;
    }
    Ok(())
}

/// Whether a file can be replaced, before the first one of them is.
fn can_be_replaced(root: &HostRoot, mounts: &Mounts, file: &str) -> anyhow::Result<()> {
    if let Some((mount_point, Mount::ReadOnly)) = mounts.holding(Path::new(file)) {
        let mount_point = mount_point.display();
        bail!(
            "{file} is on {mount_point}, which is mounted read-only: `sudo mount -o remount,rw {mount_point}`"
        );
    }
    // Replaced, it would be a file of its own, and the link's target would stay as before.
    if fs::symlink_metadata(root.real(file)).is_ok_and(|about| about.is_symlink()) {
        bail!("{file} is a symbolic link and is left as it is: change the file that it leads to");
    }
    Ok(())
}

/// Undoes the last repair, for the files that were not changed since.
fn undo(root: &HostRoot, record: &UndoRecord) -> anyhow::Result<u8> {
    let Some(last) = record.last()? else {
        say("There is no repair to revert.\n")?;
        return Ok(exit_code::FINE);
    };
    for change in &last.changes {
        if as_seen(root, &change.file, change.from.as_deref()).is_err() {
            as_seen(root, &change.file, Some(&change.to)).with_context(|| {
                format!("its state before the repair of {} is in the record of repairs", last.time)
            })?;
        }
    }
    for change in last.changes.iter().rev() {
        match &change.from {
            Some(from) => write(root, &change.file, &change.file, from)?,
            None => remove(root, &change.file)?,
        }
        say(&format!("{} is as it was before the repair of {}.\n", change.file, last.time))?;
    }
    record.forget_last()?;
    Ok(exit_code::FINE)
}

/// Is the file what it was when it was judged?
fn as_seen(root: &HostRoot, file: &str, text: Option<&str>) -> anyhow::Result<()> {
    let now = root.read(file).with_context(|| format!("cannot read {file}"))?;
    if now.as_ref().map(|now| now.text.as_str()) != text {
        bail!("{file} was changed meanwhile and is left as it is: check again");
    }
    Ok(())
}

/// Replaces `file` whole, with the mode of the file `like`.
fn write(root: &HostRoot, file: &str, like: &str, text: &str) -> anyhow::Result<()> {
    let mode = fs::metadata(root.real(like)).map_or(0o644, |metadata| metadata.permissions().mode() & 0o7777);
    let path = root.real(file);
    fat_file::replace(&path, text.as_bytes(), mode)?;
    Ok(flush_file_system(&path)?)
}

fn remove(root: &HostRoot, file: &str) -> anyhow::Result<()> {
    let path = root.real(file);
    if_there(fs::remove_file(&path)).with_context(|| format!("cannot remove {file}"))?;
    Ok(flush_file_system(path.parent().unwrap_or(&path))?)
}
