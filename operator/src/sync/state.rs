//! What is remembered of a sync between reconciliations.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;
use weaver_api::kind::ObjectKind;
use weaver_api::v1beta1::ConfigMapSyncStatus;

use super::backoff::Backoffs;
use super::watches::SyncWatches;
use crate::controller::kind::Common;
use crate::controller::rate_limit::RateLimit;
use weaver_copies::object::ObjectKey;
use weaver_copies::plan::Verified;

/// Whether stale copies of an earlier process have been searched for.
#[derive(Debug, Default, PartialEq)]
pub enum StaleCopySearch {
    /// Not yet, and the resource itself may show that there are none.
    #[default]
    Open,
    /// The search is due, whatever the resource shows.
    Due,
    /// They have been, as the account with this uid.
    Done(String),
}

/// Where a pass was cut off, and the next one begins.
#[derive(Debug, PartialEq)]
pub struct ResumeAt {
    /// Name of the source.
    pub source: String,
    pub namespace: String,
}

/// A source of which copies were written a moment ago.
pub struct JustCopied {
    /// Name of the source.
    pub source: String,
    /// The resourceVersion that was copied.
    pub version: String,
    /// Digest of its copies.
    pub digest: String,
    pub absent_keys: Vec<String>,
    /// Uid of the account that read it.
    pub account: String,
    /// Generation of the resource then.
    pub generation: Option<i64>,
    /// When all were written.
    pub at: Instant,
}

/// Memory of one resource.
pub struct SyncState {
    /// Watches that this resource uses.
    pub watches: SyncWatches,
    /// Copies whose content is known, and the state in which it is.
    pub verified: BTreeMap<ObjectKey, Verified>,
    /// Sources that were copied by the pass before, or by one whose writes have come back as events since.
    pub just_copied: Vec<JustCopied>,
    /// Targets that could not be written.
    pub backoffs: Backoffs,
    /// How often the failures had been forgiven when the backoffs were noted.
    pub forgiven: u32,
    /// Where the next reconciliation begins: an outdated one ended before it.
    pub resume_at: Option<ResumeAt>,
    /// The fresh look that was asked for last.
    pub sync_now: Option<String>,
    /// Is what was answered about the account's rights not to be used any more?
    pub asks_again: bool,
    /// Have stale copies of an earlier life been looked for?
    pub search: StaleCopySearch,
    /// Copies that are not wanted any more and may still be there, with the source that each names, if that is known.
    pub stale_copies: BTreeMap<ObjectKey, Option<String>>,
    /// The upstream operator's finalizer has been removed already, from the state of this resourceVersion. Where
    /// it comes back, that operator runs still, and removing it each time would never end.
    pub upgraded: Option<String>,
    /// Kind of the sources, at the version at which they were read last.
    pub kind: Option<ObjectKind>,
    /// When the deletion was first seen.
    pub deleting_since: Option<Instant>,
    /// Copies of which the removal alone failed since then.
    pub obstructed: BTreeSet<ObjectKey>,
    pub common: Common<ConfigMapSyncStatus>,
}

impl Default for SyncState {
    fn default() -> Self {
        Self {
            watches: SyncWatches::default(),
            verified: BTreeMap::new(),
            just_copied: Vec::new(),
            backoffs: Backoffs::default(),
            forgiven: 0,
            resume_at: None,
            sync_now: None,
            asks_again: false,
            search: StaleCopySearch::default(),
            stale_copies: BTreeMap::new(),
            upgraded: None,
            kind: None,
            deleting_since: None,
            obstructed: BTreeSet::new(),
            common: Common::new(RateLimit::default()),
        }
    }
}

impl SyncState {
    /// What was verified may be stale by now.
    pub fn forget_verified(&mut self) {
        let verified = std::mem::take(&mut self.verified).into_iter();
        self.stale_copies.extend(verified.map(|(key, copy)| (key, Some(copy.source))));
    }

    /// Sources and copies are of this kind from now on. Where it is another version of the same, what is known of
    /// copies names them at the other one: they are looked for again.
    pub fn turns_to(&mut self, kind: ObjectKind) {
        let before = self.kind.replace(kind);
        if before.is_some_and(|before| before != kind && before.is_same(kind)) {
            self.verified.clear();
            self.stale_copies.clear();
            self.watches = SyncWatches::default();
            self.backoffs.forget();
            self.search = StaleCopySearch::Due;
        }
    }

    /// Nothing of what is known of copies and rights is taken for granted any more.
    pub fn look_afresh(&mut self) {
        self.forget_verified();
        self.search = StaleCopySearch::Due;
        self.asks_again = true;
    }
}
