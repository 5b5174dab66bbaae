//! `update --when`: updates of the timer. The result of the last one is recorded for the node's report.

use jiff::Timestamp;
use weaver_diagnostics::exit_code;
use weaver_diagnostics::finding_text::cut;
use weaver_diagnostics::package_update::record::UpdateRecord;
use weaver_diagnostics::package_update::schedule::Attempt;
use weaver_diagnostics::when::When;

use super::last_update;
use super::run::{UpdateOutcome, UpdateRun};
use crate::upgrade::journal;
use crate::upgrade::say::say;

/// The longest failure that is recorded, in characters.
const LONGEST: usize = 500;

/// Runs one where it is due; returns the exit code of the process.
///
/// # Errors
/// It could not be begun, or its result cannot be recorded.
pub(super) async fn made(update: &UpdateRun, when: When) -> anyhow::Result<u8> {
    let state_dir = &update.host.state_dir;
    if !when.is_due(last_update::read(state_dir)?.made, Timestamp::now().as_second()) {
        say("The last update by timer is not old enough: nothing had to be done.");
        return Ok(exit_code::FINE);
    }
    // unattended-upgrades had it scheduled, and there is another night.
    if let Some(refusal) = update.host.goes_down() {
        say(&format!("Nothing was changed: {refusal}. The timer tries again."));
        return Ok(exit_code::FINE);
    }
    let ended = update.run().await;
    let attempt = attempt(ended.as_ref(), || recorded(update));
    let noted = attempt.map_or(Ok(()), |attempt| last_update::note(state_dir, attempt));
    let code = ended?.code();
    noted.map(|()| code)
}

/// Has the timer skip a version that was not proven when an interrupted update was completed, as at a boot: the timer
/// that began it did not live to record that, and would install it again each night.
///
/// # Errors
/// It cannot be recorded.
pub(super) fn note_resumed(update: &UpdateRun, outcome: &UpdateOutcome) -> anyhow::Result<()> {
    let UpdateOutcome::Resumed(_) = outcome else { return Ok(()) };
    let Some(attempt @ Attempt::Unproven { .. }) = attempt(Ok(outcome), || recorded(update)) else {
        return Ok(());
    };
    last_update::note(&update.host.state_dir, attempt)
}

fn recorded(update: &UpdateRun) -> Option<UpdateRecord> {
    journal::last(&update.host.state_dir).ok().flatten()
}

/// How the timer's attempt ended; `None` where what was completed is the update of a user.
fn attempt(
    ended: Result<&UpdateOutcome, &anyhow::Error>,
    last: impl Fn() -> Option<UpdateRecord>,
) -> Option<Attempt> {
    if matches!(ended, Ok(UpdateOutcome::Resumed(_))) && last().is_none_or(|record| !record.by_timer) {
        return None;
    }
    let unproven = |is_back| match last() {
        Some(record) if record.stopped => {
            let (_, to) = record.versions();
            Attempt::Failed(format!("it was stopped before {to} could be verified"))
        }
        Some(record) => Attempt::Unproven { version: record.versions().1.to_owned(), is_back },
        None => Attempt::Failed("its record is gone".to_owned()),
    };
    Some(match ended {
        Ok(UpdateOutcome::Ended(code) | UpdateOutcome::Resumed(code)) => match *code {
            exit_code::FINE => Attempt::Newest,
            exit_code::ROLLED_BACK => unproven(true),
            exit_code::STUCK => unproven(false),
            code => Attempt::Failed(format!("exit status {code}")),
        },
        Ok(UpdateOutcome::LeftOut) => Attempt::LeftOut,
        Ok(UpdateOutcome::Refused(refusals)) => {
            let why: Vec<_> = refusals.iter().map(ToString::to_string).collect();
            Attempt::Failed(cut(&why.join("; "), LONGEST))
        }
        Err(error) => Attempt::Failed(cut(&format!("{error:#}"), LONGEST)),
    })
}
