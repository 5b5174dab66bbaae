//! What one visit found and did, and what is to follow from it. Pure.
//!
//! What it means to a person is said elsewhere: as conditions ([`super::verdicts`]) and as a whole status
//! ([`super::status`]).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use weaver_api::validate::{SpecFault, ValidSync};

use super::content::Clash;
use super::execute::{Kept, TargetState};
use crate::args::Options;
use crate::tenant::object::Place;
use crate::tenant::rights::Right;
use crate::tenant::{Account, MintError};

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
    /// Namespaces that are to hold a copy, as far as the tenant may know of them.
    pub desired: BTreeSet<String>,
    /// Which of the selected namespaces the tenant may know of could not be asked.
    pub selection_failed: Option<String>,
    /// There may be others of which it may not. Nobody is told when that changes.
    pub hidden: bool,
    /// Each target that was tried.
    pub targets: BTreeMap<String, TargetState>,
    /// Copies that are not wanted any more and could not be removed.
    pub leftovers: BTreeMap<Place, Kept>,
    /// Copies that are not wanted any more and would be removed, were it not a dry run.
    pub removals: BTreeSet<Place>,
    /// The search for leftovers failed.
    pub search_failed: Option<String>,
    /// Rights that the account was found to lack, or why it could not be asked.
    pub missing: Result<BTreeSet<Right>, String>,
    /// How many namespaces were refused and not asked about, because they are too many.
    pub unexplained: usize,
    /// There are copies, and our finalizer does not hold the resource.
    pub unheld: bool,
    /// Of the source, or of a copy, no watch tells at present.
    pub blind: bool,
    /// How many places are not watched because the tenant's watches are as many, or keep as much, as they may.
    pub unwatched: usize,
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
                let settled = |target: &TargetState| {
                    use TargetState::{
                        NamespaceMissing, NamespaceTerminating, NotAccepted, NotServed, Planned, Synced,
                    };
                    // The namespace's appearance is announced, and so is its consent; for one that goes there is no
                    // cure, and one that is not served is so until a restart.
                    matches!(
                        target,
                        Synced(..)
                            | Planned(_)
                            | NamespaceMissing
                            | NamespaceTerminating
                            | NotAccepted
                            | NotServed
                    )
                };
                work.missing.as_ref().map_or(true, |missing| !missing.iter().all(Right::is_for_watching))
                    || !work.leftovers.is_empty()
                    || work.search_failed.is_some()
                    || work.selection_failed.is_some()
                    || matches!(work.source, SourceState::Forbidden(_) | SourceState::Failed(_))
                    || !work.targets.values().all(settled)
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

    /// Is there nothing that could still be taken over from the upstream operator? So it is when each target
    /// holds our copy, or cannot hold one of upstream's, or holds what is not ours to take; not while one could
    /// not be looked at or written.
    #[must_use]
    pub fn ends_upgrade(&self) -> bool {
        use TargetState::{Conflict, NamespaceMissing, NamespaceTerminating, NotAccepted, NotServed, Synced};
        let Visit::Worked(work) = self else { return false };
        // With nothing to copy nothing was looked at; and where nothing is written, this is not either.
        work.source == SourceState::Found
            && !work.spec.dry_run
            && work.desired.iter().all(|target| {
                let state = work.targets.get(target);
                matches!(
                    state,
                    Some(
                        Synced(..)
                            | NamespaceMissing
                            | NamespaceTerminating
                            | NotAccepted
                            | NotServed
                            | Conflict(_)
                    )
                )
            })
    }

    /// The time after which an unchanged resource is compared again.
    #[must_use]
    pub fn resync(&self, options: &Options) -> Duration {
        let Visit::Worked(work) = self else { return options.resync.unwrap_or(RESYNC) };
        let mut period = options.resync.unwrap_or(work.spec.resync);
        if work.hidden {
            // Nobody tells when the account may know of a selected namespace at last.
            period = period.min(options.watch);
        }
        if work.targets.values().any(|target| *target == TargetState::NamespaceTerminating) {
            // Its Roles go before it does, and then its end is no matter of the account's any more.
            period = period.min(options.retry);
        }
        if work.blind {
            // Nor what becomes of what cannot be watched, whether it may not or the watch fails.
            period = period.min(options.retry);
        }
        period
    }
}

#[cfg(test)]
#[path = "outcome_tests.rs"]
pub(super) mod tests;
