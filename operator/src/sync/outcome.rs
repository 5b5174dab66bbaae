//! What one visit found and did, and what is to follow from it. Pure.
//!
//! What it means to a person is said elsewhere: as conditions ([`super::verdicts`]) and as a whole status
//! ([`super::status`]).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use weaver_api::validate::{SpecFault, ValidSync};
use weaver_tenant::Account;
use weaver_tenant::token::MintError;

use super::execute::{Kept, TargetState};
use crate::args::Options;
use weaver_copies::content::Clash;
use weaver_copies::object::Place;
use weaver_copies::rights::Right;

/// After which time a resource is looked at again whose spec says none that could be used.
const RESYNC: Duration = Duration::from_mins(10);

/// One visit of a resource that is not being deleted.
#[derive(Debug)]
pub enum Visit {
    /// The object cannot be read. What the parser said, by field.
    NotUnderstood(Vec<String>),
    /// The spec cannot be acted upon.
    InvalidSpec(Vec<SpecFault>),
    /// The spec asks to be left alone.
    Suspended,
    /// Somebody has paused it, or everything. Why, and how that ends.
    Paused(String),
    /// No token for the account.
    NoToken(MintError),
    /// The source or the spec changed in the middle of the work: what is left of it is not worth doing any more, and
    /// another visit follows at once.
    Outdated,
    /// The work was tried.
    Worked(Box<Work>),
}

/// What the tenant's identity found and did.
#[derive(Debug)]
pub struct Work {
    /// As whom.
    pub account: Account,
    /// What was asked for.
    pub spec: ValidSync,
    /// The source.
    pub source: SourceState,
    /// Keys of it that are asked for by name, and that it does not have.
    pub absent_keys: Vec<String>,
    /// The namespaces.
    pub selection: Selection,
    /// Each target that was tried.
    pub targets: BTreeMap<String, TargetState>,
    /// Copies that are not wanted any more.
    pub stale: StaleCopies,
    /// The account's.
    pub rights: Rights,
    /// What the watches show.
    pub watched: Watched,
    /// There are copies, and our finalizer does not hold the resource.
    pub unheld: bool,
}

/// The namespaces that are to hold a copy.
#[derive(Debug, Default)]
pub struct Selection {
    /// Those of which the tenant may know: named, or selected and with a right of the account on the kind.
    pub desired: BTreeSet<String>,
    /// There may be others of which it may not know. Nobody is told when that changes.
    pub hidden: bool,
    /// Of which it may know could not be asked.
    pub failed: Option<String>,
}

/// Copies that are not wanted any more.
#[derive(Debug, Default)]
pub struct StaleCopies {
    /// Those that could not be removed.
    pub kept: BTreeMap<Place, Kept>,
    /// Those that would be removed, were it not a dry run.
    pub planned: BTreeSet<Place>,
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

/// What the watches show.
#[derive(Debug, Default)]
pub struct Watched {
    /// Of the source, or of a copy, none tells at present.
    pub blind: bool,
    /// How many places are not watched because the tenant's watches are as many, or keep as much, as they may.
    pub beyond: usize,
}

/// The source, as the tenant sees it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SourceState {
    /// Read.
    Found,
    /// Not there.
    Missing,
    /// The API server refused the tenant, with these words.
    Forbidden(String),
    /// Worth another try.
    Failed(String),
    /// Read; but what the spec asks of its keys cannot be done.
    Clash(Clash),
    /// A Secret that is a token of one account: copied, it would hand out that account to whoever reads the copy.
    AccountToken,
}

impl Visit {
    /// Is there something that another visit may cure without any event that would announce the cure? A right
    /// may be granted and an account created without our seeing it; a spec cannot change unseen.
    #[must_use]
    pub fn wants_retry(&self) -> bool {
        match self {
            Visit::NotUnderstood(_)
            | Visit::InvalidSpec(_)
            | Visit::Suspended
            | Visit::Paused(_)
            | Visit::Outdated => false,
            Visit::NoToken(_) => true,
            Visit::Worked(work) => {
                let may_do = |missing: &BTreeSet<Right>| missing.iter().all(Right::is_for_watching);
                !work.rights.missing.as_ref().is_ok_and(may_do)
                    || !work.stale.kept.is_empty()
                    || work.stale.search_failed.is_some()
                    || work.selection.failed.is_some()
                    || matches!(work.source, SourceState::Forbidden(_) | SourceState::Failed(_))
                    || !work.targets.values().all(TargetState::is_settled)
            }
        }
    }

    /// Is there something to write that had to wait until the resource is held by our finalizer?
    #[must_use]
    pub fn wants_claim(&self) -> bool {
        match self {
            Visit::Worked(work) => {
                work.unheld || work.targets.values().any(|target| *target == TargetState::Unclaimed)
            }
            _ => false,
        }
    }

    /// Is there nothing that could still be taken over from the upstream operator? Not while a target could not be looked at
    /// or written.
    #[must_use]
    pub fn ends_upgrade(&self) -> bool {
        let Visit::Worked(work) = self else { return false };
        let ends = |target| work.targets.get(target).is_some_and(TargetState::ends_upgrade);
        // With nothing to copy nothing was looked at; and where nothing is written, this is not either.
        work.source == SourceState::Found && !work.spec.dry_run && work.selection.desired.iter().all(ends)
    }

    /// The time after which an unchanged resource is compared again.
    #[must_use]
    pub fn resync(&self, options: &Options) -> Duration {
        let Visit::Worked(work) = self else { return options.resync.unwrap_or(RESYNC) };
        let mut period = options.resync.unwrap_or(work.spec.resync);
        if work.selection.hidden {
            // Nobody tells when the account may know of a selected namespace at last.
            period = period.min(options.watch);
        }
        if work.targets.values().any(|target| *target == TargetState::NamespaceTerminating) {
            // Its Roles go before it does, and then its end is no matter of the account's any more.
            period = period.min(options.retry);
        }
        if work.watched.blind {
            // Nor what becomes of what cannot be watched, whether it may not or the watch fails.
            period = period.min(options.retry);
        }
        period
    }
}

#[cfg(test)]
#[path = "outcome_tests.rs"]
pub(super) mod tests;
