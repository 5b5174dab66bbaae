//! `backup --when`: as the timer makes them. What became of the last one is written down, for the node's report.

use std::io;
use std::path::Path;

use anyhow::Context as _;
use jiff::Timestamp;
use weaver_diagnostics::finding::Place;
use weaver_diagnostics::node_backup::schedule::{LastBackup, Schedule, When};
use weaver_diagnostics::weaver_toml::plan::BACKUP;
use weaver_host::durable_file;

use super::{Request, to, told};
use crate::host_args::STATE_DIR;
use crate::host_root::HostRoot;

const RECORD: &str = "backup.json";
/// How the interval is written for the unit.
const WHEN: &str = "WEAVER_BACKUP_WHEN=";
/// In `/proc/uptime` the seconds since the boot come first.
const UPTIME: &str = "/proc/uptime";
/// The longest failure that is written down, in characters.
const LONGEST: usize = 500;

/// Makes one where it is due; what is to be said.
///
/// # Errors
/// As [`to`]; also if what became of it cannot be written down.
pub async fn made(request: Request, when: When) -> anyhow::Result<String> {
    let record = request.host.root.real(&request.state_dir).join(RECORD);
    let last = read(&record)?.unwrap_or_default();
    let now = Timestamp::now().as_second();
    if last.failure.is_none() && !when.is_due(last.made, now) {
        return Ok("the last backup is not old enough: nothing had to be done".to_owned());
    }
    let done = to(request).await;
    let last = match &done {
        Ok(_) => LastBackup { made: Some(now), failure: None },
        Err(error) => {
            let words = format!("{error:#}").replace('\n', "; ");
            LastBackup { failure: Some(words.chars().take(LONGEST).collect()), ..last }
        }
    };
    let text = serde_json::to_string(&last).context("writing JSON")? + "\n";
    let noted = durable_file::replace(&record, text.as_bytes(), 0o644);
    let said = done.map(|made| told(&made))?;
    noted.with_context(|| format!("cannot note in {} that it was made", record.display()))?;
    Ok(said)
}

/// What is known of the backups that are asked for; `None` where none are.
#[must_use]
pub fn schedule(root: &HostRoot) -> Option<Schedule> {
    let asked = root.read_if_possible(BACKUP)?.text;
    let when = asked.lines().find_map(|line| When::of(line.strip_prefix(WHEN)?.trim_matches('"')))?;
    let uptime = root.read_if_possible(UPTIME)?.text;
    let uptime = uptime.split(['.', ' ']).next()?.parse().ok()?;
    // A record that is damaged is written anew by the next one.
    let last = read(&root.real(STATE_DIR).join(RECORD)).unwrap_or_default();
    Some(Schedule { when, place: Place::file(BACKUP), last, now: Timestamp::now().as_second(), uptime })
}

/// `None` where there is none, or none that can be read as one.
fn read(record: &Path) -> anyhow::Result<Option<LastBackup>> {
    match std::fs::read(record) {
        Ok(text) => Ok(serde_json::from_slice(&text).ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", record.display())),
    }
}
