//! What every reconciliation of a `ConfigMapSync` has.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Client, Resource as _, ResourceExt as _};
use weaver_api::v1beta1::ConfigMapSync;

use super::access_checks::AccessChecks;
use super::state::SyncState;
use crate::args::Options;
use crate::controller::events::Events;
use crate::controller::lanes::Lanes;
use crate::controller::pause::Pause;
use crate::controller::state::States;
use crate::metrics::Metrics;
use crate::tenant::Tenants;
use crate::watch::{Guarded, Namespaces, ResourceRef, WatchSet};

/// All that a visit needs; built in one place ([`crate::run`]).
pub struct Context {
    /// The operator's own identity: our kinds and nothing else.
    pub client: Client,
    /// Everybody else's.
    pub tenants: Arc<Tenants>,
    /// Their watches.
    pub watches: WatchSet,
    /// Which namespaces there are.
    pub namespaces: Arc<Namespaces>,
    /// Questions whether a namespace that changed concerns an account.
    pub access_checks: AccessChecks,
    /// Which resources there are.
    pub store: Store<Guarded>,
    /// What others are told.
    pub events: Events,
    /// What is remembered between visits.
    pub states: Arc<States<SyncState>>,
    /// Room for them.
    pub lanes: Arc<Lanes>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Flags.
    pub options: Options,
}

impl Context {
    /// Uids of all resources that are served.
    #[must_use]
    pub fn living(&self) -> BTreeSet<String> {
        self.store.state().iter().filter_map(|sync| sync.uid()).collect()
    }

    /// Has a resource reconciled, and its failures forgotten: something has changed that may have cured them.
    pub fn reconcile_now(&self, resource: ResourceRef) {
        self.states.forgive(&resource);
        self.watches.wake(resource);
    }

    /// Does a visit of `sync` work on a spec that is not the last one any more, or that is paused by now?
    #[must_use]
    pub fn is_outdated(&self, sync: &ConfigMapSync) -> bool {
        let reference = ObjectRef::new(&sync.name_any()).within(&sync.namespace().unwrap_or_default());
        self.store.get(&reference).is_none_or(|now| {
            let now = now.meta();
            now.uid != sync.metadata.uid
                || now.generation != sync.metadata.generation
                || now.deletion_timestamp.is_some()
                || Pause::of(now, &self.namespaces).is_some()
        })
    }
}
