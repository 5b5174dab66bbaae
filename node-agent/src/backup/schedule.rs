//! `backup --when`: backups of the timer. The result of the last one is recorded for the node's report.

use jiff::Timestamp;
use weaver_diagnostics::finding::Place;
use weaver_diagnostics::node_backup::schedule::{LastBackup, Schedule};
use weaver_diagnostics::weaver_toml::plan::BACKUP;
use weaver_diagnostics::when::When;

use super::seal::Seal;
use super::{BackupRequest, MadeBackup, STAMP, WHAT, reported, within};
use crate::facts::system::uptime;
use crate::host_args::STATE_DIR;
use crate::host_root::HostRoot;
use crate::node_lock::{Busy, NodeLock};
use crate::timer_record;

const RECORD: &str = "backup.json";
/// How the interval is written for the unit.
const WHEN: &str = "WEAVER_BACKUP_WHEN=";
/// The longest failure that is recorded, in characters.
const LONGEST: usize = 500;

/// Makes one where it is due and nothing else changes the node; returns the message.
///
/// # Errors
/// As [`super::to`]; also if the seal cannot be made, or the result cannot be recorded.
pub async fn made(
    request: BackupRequest,
    seal: anyhow::Result<Seal>,
    when: When,
    recipients: &[String],
) -> anyhow::Result<String> {
    let state_dir = request.host.root.real(&request.state_dir);
    let record = state_dir.join(RECORD);
    let asked = format!("{}, volumes {}, for {recipients:?}", request.target.display(), request.volumes);
    let last = timer_record::read(&record)?.filter(|last: &LastBackup| last.asked == asked);
    let last = last.unwrap_or_else(|| LastBackup { asked, ..LastBackup::default() });
    let now = Timestamp::now();
    if !when.is_due(last.made, now.as_second()) {
        return Ok("the last backup is not old enough: nothing had to be done".to_owned());
    }
    let held = match NodeLock::take(&state_dir, WHAT).map_err(anyhow::Error::downcast::<Busy>) {
        Ok(held) => held,
        // No failure, and nothing to record: the next hour tries again.
        Err(Ok(Busy(what))) => return Ok(format!("Nothing was saved: {what}. The timer tries again.")),
        Err(Err(error)) => return Err(error),
    };
    timer_record::note(&record, &LastBackup { begun: Some(now.as_second()), failure: None, ..last.clone() })?;
    let first = last.first.clone().unwrap_or_else(|| now.strftime(STAMP).to_string());
    let done = match seal {
        Ok(seal) => within(Some(held), BackupRequest { seal, since: Some(first.clone()), ..request }).await,
        Err(error) => Err(error),
    };
    let last = match &done {
        Ok(MadeBackup { not_removed, manifest, .. }) => {
            let not_removed = not_removed.as_deref();
            let not_removed =
                not_removed.map(|why| format!("older backups were not removed: {}", short(why)));
            let failures: Vec<_> = manifest.left_out.verdict().into_iter().chain(not_removed).collect();
            let failure = (!failures.is_empty()).then(|| failures.join("; "));
            LastBackup { made: Some(now.as_second()), first: Some(first), begun: None, failure, ..last }
        }
        Err(error) => LastBackup { begun: None, failure: Some(short(&format!("{error:#}"))), ..last },
    };
    let noted = timer_record::note(&record, &last);
    let said = done.map(|made| reported(&made))?;
    noted.map(|()| said)
}

/// On one line, and truncated.
fn short(message: &str) -> String {
    message.replace('\n', "; ").chars().take(LONGEST).collect()
}

/// What is known of the scheduled backups; `None` where there is no schedule.
pub fn schedule(root: &HostRoot) -> Option<Schedule> {
    let asked = root.read_if_possible(BACKUP)?.text;
    let value =
        |line: &str| line.trim().strip_prefix(WHEN).map(|value| value.trim_matches(['"', '\'']).to_owned());
    let when = asked.lines().filter_map(value).next_back().and_then(|name| When::of(&name));
    let uptime = uptime(root)?;
    // A damaged record is replaced by the next one.
    let last = timer_record::read(&root.real(STATE_DIR).join(RECORD)).ok().flatten().unwrap_or_default();
    Some(Schedule { when, place: Place::file(BACKUP), last, now: Timestamp::now().as_second(), uptime })
}
