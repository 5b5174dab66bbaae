//! What one reconcile found and did, and what is to follow from it. Pure.
//!
//! What it means to a user is said elsewhere: as conditions ([`super::verdicts`]) and as a whole status
//! ([`super::status`]).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use weaver_api::validate::ValidSync;
use weaver_tenant::Account;

use super::execute::TargetState;
use super::remove::RemainingCopy;
use crate::args::RunOptions;
use crate::controller::outcome::Reconciled;
use weaver_copies::content::Clash;
use weaver_copies::content::merge::Unmergeable;
use weaver_copies::object::ObjectKey;
use weaver_copies::rights::Right;

/// One reconciliation of a sync.
pub type SyncOutcome = Reconciled<SyncWork>;

/// What the tenant's identity found and did.
#[derive(Debug)]
pub struct SyncWork {
    pub account: Account,
    /// What was asked for.
    pub spec: ValidSync,
    /// Each source, by its name.
    pub sources: BTreeMap<String, SourceWork>,
    /// The one copy that the sources make together, where they are merged; then none has copies of its own.
    pub merged: Option<SourceWork>,
    /// Why it is not known which sources there are.
    pub unlisted: Option<Unlisted>,
    pub selection: Selection,
    /// Copies that are not wanted any more.
    pub stale: StaleCopies,
    pub rights: Rights,
    /// What the watches do not show.
    pub watched: WatchGaps,
    /// There are copies, and the resource does not have our finalizer.
    pub unheld: bool,
    /// When the first of the targets that could not be written is to be tried again.
    pub first_due: Option<Duration>,
}

/// One source, and what became of its copies.
#[derive(Debug)]
pub struct SourceWork {
    pub state: SourceState,
    /// Keys of it that are asked for by name, and that it does not have.
    pub absent_keys: Vec<String>,
    /// Name of its copies.
    pub copy_name: String,
    /// Each target that was tried.
    pub targets: BTreeMap<String, TargetState>,
}

/// Why nothing is copied of what a selector selects.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Unlisted {
    /// It selects more than [`weaver_copies::sources::MAX_SOURCES`].
    TooMany,
    /// So many for so many namespaces would be more than [`weaver_copies::sources::MAX_COPIES`].
    TooManyCopies {
        sources: usize,
        targets: usize,
    },
    /// The API server refused the tenant, with these words.
    Forbidden(String),
    Failed(String),
}

/// The namespaces that should have a copy.
#[derive(Debug, Default)]
pub struct Selection {
    /// Those of which the tenant may know: named, or selected and with a right of the account on the kind.
    pub desired: BTreeSet<String>,
    /// There may be others of which it may not know. Nothing reports when that changes.
    pub hidden: bool,
    /// Of which it may know could not be asked.
    pub failed: Option<String>,
}

/// Copies that are not wanted any more.
#[derive(Debug, Default)]
pub struct StaleCopies {
    /// Those that could not be removed.
    pub kept: BTreeMap<ObjectKey, RemainingCopy>,
    /// Those that would be removed, were it not a dry run.
    pub planned: BTreeSet<ObjectKey>,
    /// They could not be looked for.
    pub search_failed: Option<String>,
}

/// What was found of an account's rights where something was refused.
#[derive(Debug)]
pub struct Rights {
    /// Those it lacks, or why it could not be asked.
    pub missing: Result<BTreeSet<Right>, String>,
    /// How many namespaces were refused and not asked about, because they are too many.
    pub unexplained: usize,
}

/// What the watches do not show.
#[derive(Debug, Default)]
pub struct WatchGaps {
    /// The source, or a copy, is not watched at present.
    pub blind: bool,
    /// How many watches are missing because the tenant's watches are at their limit of number or memory.
    pub beyond: usize,
}

/// The source, as the tenant sees it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SourceState {
    Found,
    Missing,
    /// The API server refused the tenant, with these words.
    Forbidden(String),
    Failed(String),
    /// Read; but what the spec asks of its keys cannot be done.
    Clash(Clash),
    /// A Secret that is a token of one account: copied, it would hand out that account to anyone who reads the copy.
    AccountToken,
    /// Its copies would have a name of so many characters, which is too long.
    NameTooLong(usize),
    /// Of the copy of several: this one of them cannot be read, or is not copied.
    Unmerged {
        name: String,
        why: Box<SourceState>,
    },
    /// Of the copy of several: they make none together.
    Unmergeable(Unmergeable),
}

/// What has copies: each source, or all of them together.
pub(super) fn copied<'a>(
    sources: &'a BTreeMap<String, SourceWork>,
    merged: Option<&'a SourceWork>,
) -> impl Iterator<Item = &'a SourceWork> {
    let each = merged.is_none().then(|| sources.values());
    merged.into_iter().chain(each.into_iter().flatten())
}

impl SourceState {
    /// Could it not be read, whether it is there or not?
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Forbidden(_) | Self::Failed(_))
    }
}

impl SyncOutcome {
    /// Is there something to write that had to wait until the resource has our finalizer?
    pub fn wants_finalizer(&self) -> bool {
        let without_finalizer = |target: &TargetState| *target == TargetState::WithoutFinalizer;
        self.work().is_some_and(|work| work.unheld || work.targets().any(without_finalizer))
    }

    /// Is there nothing that could still be taken over from the upstream operator? Not while a target could not
    /// be looked at or written.
    pub fn ends_upgrade(&self) -> bool {
        let Some(work) = self.work() else { return false };
        // With nothing to copy nothing was looked at; and where nothing is written, this is not either.
        let ends = |source: &SourceWork| {
            let ends = |target| source.targets.get(target).is_some_and(TargetState::ends_upgrade);
            source.state == SourceState::Found && work.selection.desired.iter().all(ends)
        };
        !work.spec.dry_run
            && !work.sources.is_empty()
            && copied(&work.sources, work.merged.as_ref()).all(ends)
    }
}

impl SyncWork {
    /// Each copy that was tried, with its source and its namespace.
    pub(super) fn copies(&self) -> impl Iterator<Item = (&SourceWork, &str, &TargetState)> {
        copied(&self.sources, self.merged.as_ref()).flat_map(|source| {
            source.targets.iter().map(move |(namespace, state)| (source, namespace.as_str(), state))
        })
    }

    /// Has each target one copy at most?
    pub(super) fn has_one_copy(&self) -> bool {
        self.spec.source_name().is_some() || self.merged.is_some()
    }

    /// What became of each copy that was tried.
    pub(super) fn targets(&self) -> impl Iterator<Item = &TargetState> {
        self.copies().map(|(_, _, state)| state)
    }

    /// Is there something that another reconcile may cure without any event that would announce the cure?
    pub(super) fn may_be_cured(&self) -> bool {
        let may_do = |missing: &BTreeSet<Right>| missing.iter().all(Right::is_for_watching);
        !self.rights.missing.as_ref().is_ok_and(may_do)
            || !self.stale.kept.is_empty()
            || self.stale.search_failed.is_some()
            || self.selection.failed.is_some()
            || self.sources.values().any(|source| source.state.is_unknown())
            || matches!(self.unlisted, Some(Unlisted::Forbidden(_) | Unlisted::Failed(_)))
            || !self.targets().all(TargetState::is_settled)
    }

    /// The time after which an unchanged resource is compared again.
    pub(super) fn period(&self, options: &RunOptions) -> Duration {
        let mut period = options.resync.unwrap_or(self.spec.resync);
        if self.selection.hidden {
            // No watch reports when the account gets a right in a selected namespace.
            period = period.min(options.watch);
        }
        if self.targets().any(|target| *target == TargetState::NamespaceTerminating) {
            // Its Roles are deleted before it, and then the account can no longer see its end.
            period = period.min(options.retry);
        }
        if self.watched.blind {
            // Nor what becomes of what cannot be watched, whether it may not or the watch fails.
            period = period.min(options.retry);
        }
        period
    }
}

#[cfg(test)]
#[path = "outcome_tests.rs"]
pub(super) mod tests;
