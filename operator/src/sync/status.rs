//! A reconciliation as the whole status of its resource. Pure.
//!
//! The fold looks at nothing but the reconciliation, the object's generation and the conditions that were there before,
//! so an unchanged world gives an unchanged status and no write. What is said of a namespace comes from answers
//! that the tenant itself received.
//!
//! A status stays below 512 KiB, a third of what the API server stores of an object, whatever the targets and
//! the API server's own words are: at most 128 targets and 128 sources are shown one by one, each with a
//! message of at most 512 bytes, and a condition has a message of at most 16 KiB.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};
use weaver_api::conditions;
use weaver_api::v1beta1::{
    ConfigMapSyncStatus, Counts, MAX_SOURCES_SHOWN, MAX_TARGETS_SHOWN, SourceStatus, TargetStatus,
};

use super::execute::{CopyChange, TargetState};
use super::outcome::{SourceState, SourceWork, SyncOutcome, SyncWork, Unlisted, copied};
use super::source_verdicts::{KEY_CONFLICT, NAME_TOO_LONG, NO_SOURCE, NOT_COPIED, TOO_LARGE, TOO_MANY};
use super::verdicts::{NOT_SERVED, at_rest, not_accepted, not_offered, untouched};
use weaver_copies::content::merge::Unmergeable;
use weaver_copies::plan::{Foreign, PreviousOwner};

/// Longest message about one target, in bytes.
const MAX_MESSAGE: usize = 512;

/// What the status of a resource should be after `outcome`. `before` is what it was; `annotation_faults` is what is
/// wrong with the content that conversion carries.
pub fn status(
    before: &ConfigMapSyncStatus,
    outcome: &SyncOutcome,
    annotation_faults: &[String],
    generation: Option<i64>,
    now: &Time,
) -> ConfigMapSyncStatus {
    let mut verdicts = outcome.verdicts(annotation_faults);
    verdicts.push(at_rest());
    let mut status = ConfigMapSyncStatus {
        observed_generation: generation,
        conditions: conditions::fold(&conditions::ORDER, &before.conditions, &verdicts, generation, now),
        ..ConfigMapSyncStatus::default()
    };
    // Where nothing was looked at, nothing is known of any target.
    if let Some(work) = outcome.work() {
        let mut targets = targets(work);
        let is_selected = work.spec.source_name().is_none();
        let sources = is_selected.then(|| i32::try_from(work.sources.len()).unwrap_or(i32::MAX));
        status.counts = Some(Counts { sources, ..counts(targets.iter().map(|(state, _)| *state)) });
        if is_selected {
            status.sources = sources_of(work);
        }
        status.truncated = targets.len() > MAX_TARGETS_SHOWN || work.sources.len() > MAX_SOURCES_SHOWN;
        targets.sort_by_key(|(state, _)| state.rank());
        status.targets = targets.into_iter().take(MAX_TARGETS_SHOWN).map(|(_, target)| target).collect();
    }
    status
}

/// The merge patch that writes `status`. It replaces lists whole, removes what is not to be there any more, and
/// leaves alone every field that is not ours to set.
pub fn patch(status: &ConfigMapSyncStatus) -> Value {
    let ConfigMapSyncStatus { observed_generation, conditions, counts, sources, targets, truncated } = status;
    // A merge goes into an object: fields to remove must be named.
    let counts = counts.map(|counts| {
        let mut written = json!(counts);
        written["sources"] = json!(counts.sources);
        written
    });
    json!({"status": {
        "observedGeneration": observed_generation,
        "conditions": conditions,
        "counts": counts,
        "sources": (!sources.is_empty()).then_some(sources),
        "targets": (!targets.is_empty()).then_some(targets),
        "truncated": truncated.then_some(true),
    }})
}

/// How a target is doing, in the API's words.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ReportedState {
    Failed,
    Conflict,
    Waiting,
    Synced,
}

impl ReportedState {
    fn as_str(self) -> &'static str {
        match self {
            ReportedState::Failed => "Failed",
            ReportedState::Conflict => "Conflict",
            ReportedState::Waiting => "Waiting",
            ReportedState::Synced => "Synced",
        }
    }

    /// Position in the list: what needs a user first, what is well last.
    fn rank(self) -> u8 {
        match self {
            ReportedState::Failed | ReportedState::Conflict => 0,
            ReportedState::Waiting => 1,
            ReportedState::Synced => 2,
        }
    }
}

/// Each target, by name.
fn targets(work: &SyncWork) -> Vec<(ReportedState, TargetStatus)> {
    let all = work.selection.desired.iter().map(|namespace| {
        let of_each =
            copied(&work.sources, work.merged.as_ref()).map(|source| match source.targets.get(namespace) {
                None => (ReportedState::Waiting, source.state.reason(), String::new()),
                Some(target) => {
                    let (state, reason, message) = judged(target, work, namespace, &source.copy_name);
                    let is_one = work.has_one_copy() || message.is_empty();
                    (state, reason, if is_one { message } else { format!("{}: {message}", source.copy_name) })
                }
            });
        // Of several copies the first one with a problem is shown.
        let worst = of_each.min_by_key(|(state, ..)| state.rank());
        let (state, reason, message) =
            worst.unwrap_or((ReportedState::Waiting, without_sources(work), String::new()));
        let message = conditions::bounded(&message, MAX_MESSAGE);
        let (namespace, reason) = (namespace.clone(), reason.to_owned());
        (state, TargetStatus { namespace, state: state.as_str().to_owned(), reason, message })
    });
    all.collect()
}

/// Why there is no source.
fn without_sources(work: &SyncWork) -> &'static str {
    match &work.unlisted {
        Some(Unlisted::TooMany | Unlisted::TooManyCopies { .. }) => TOO_MANY,
        Some(Unlisted::Forbidden(_)) => "SourceForbidden",
        Some(Unlisted::Failed(_)) => "SourceUnknown",
        None => NO_SOURCE,
    }
}

/// As many sources as are shown, those with a problem first.
fn sources_of(work: &SyncWork) -> Vec<SourceStatus> {
    let of = |(name, source): (&String, &SourceWork)| {
        // What is merged has the copies of all.
        let is_merged = source.state == SourceState::Found;
        let copied = work.merged.as_ref().filter(|_| is_merged).unwrap_or(source);
        let states = copied.targets.iter().map(|(namespace, target)| {
            let (state, ..) = judged(target, work, namespace, &source.copy_name);
            state
        });
        let Counts { synced, failed, conflicts, .. } = counts(states);
        let (reason, message) = source.state.unjudged().map_or_else(Default::default, |(_, text)| {
            (source.state.reason().to_owned(), conditions::bounded(&text, MAX_MESSAGE))
        });
        SourceStatus { name: name.clone(), synced, failed, conflicts, reason, message }
    };
    let mut sources: Vec<SourceStatus> = work.sources.iter().map(of).collect();
    let is_well = |one: &SourceStatus| one.reason.is_empty() && (one.failed, one.conflicts) == (0, 0);
    sources.sort_by_key(is_well);
    sources.truncate(MAX_SOURCES_SHOWN);
    sources
}

impl SourceState {
    /// Why a target was not looked at.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            SourceState::Found => "NotWrittenYet",
            SourceState::Missing => "SourceMissing",
            SourceState::Forbidden(_) => "SourceForbidden",
            SourceState::Failed(_) => "SourceUnknown",
            SourceState::AccountToken => NOT_COPIED,
            SourceState::NameTooLong(_) => NAME_TOO_LONG,
            SourceState::Unmerged { why, .. } => why.reason(),
            SourceState::Unmergeable(Unmergeable::TooLarge { .. }) => TOO_LARGE,
            SourceState::Clash(_) | SourceState::Unmergeable(_) => KEY_CONFLICT,
        }
    }
}

fn judged(
    target: &TargetState,
    work: &SyncWork,
    namespace: &str,
    copy_name: &str,
) -> (ReportedState, &'static str, String) {
    match target {
        TargetState::Synced(..) => (ReportedState::Synced, "Synced", String::new()),
        TargetState::WithoutFinalizer => (ReportedState::Waiting, "NotWrittenYet", String::new()),
        TargetState::Planned(change) => {
            let reason = match change {
                CopyChange::Create => "WouldBeCreated",
                CopyChange::Update(PreviousOwner::Ours) => "WouldBeUpdated",
                CopyChange::Update(PreviousOwner::Upstreams) => "WouldBeTakenOver",
                CopyChange::Update(PreviousOwner::Theirs) => "WouldBeAdopted",
                CopyChange::Replace => "WouldBeReplaced",
            };
            (ReportedState::Waiting, reason, String::new())
        }
        TargetState::NamespaceMissing => {
            (ReportedState::Waiting, "NamespaceMissing", "the namespace does not exist yet".to_owned())
        }
        TargetState::NamespaceTerminating => {
            (ReportedState::Waiting, "NamespaceTerminating", "the namespace is being deleted".to_owned())
        }
        TargetState::NotServed => (ReportedState::Failed, "NotServed", NOT_SERVED.to_owned()),
        TargetState::NotAccepted => (ReportedState::Failed, "NotAccepted", not_accepted(&work.account)),
        TargetState::NotOffered => (ReportedState::Failed, "NotOffered", not_offered(&work.spec)),
        TargetState::Conflict(foreign) => {
            let reason = match foreign {
                Foreign::Unlabeled => "NotOurs",
                Foreign::Unfit => "NotAdoptable",
                Foreign::Other { .. } => "CopyOfAnother",
                Foreign::Tokens(_) => "HoldsTokens",
                Foreign::Source => "MarkedAsSource",
            };
            (ReportedState::Conflict, reason, untouched(&work.spec, namespace, copy_name, foreign))
        }
        TargetState::Forbidden(text) => (ReportedState::Failed, "Forbidden", text.to_string()),
        TargetState::Rejected(text) => (ReportedState::Failed, "Rejected", text.to_string()),
        TargetState::Failed(text) => (ReportedState::Failed, "NotWritten", text.to_string()),
    }
}

fn counts(states: impl Iterator<Item = ReportedState>) -> Counts {
    let mut counts = Counts::default();
    for state in states {
        counts.desired = counts.desired.saturating_add(1);
        let of_its = match state {
            ReportedState::Synced => &mut counts.synced,
            ReportedState::Failed => &mut counts.failed,
            ReportedState::Conflict => &mut counts.conflicts,
            ReportedState::Waiting => continue,
        };
        *of_its = of_its.saturating_add(1);
    }
    counts
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
