//! The watches of one resource: on its source, and on copies.
//!
//! Copies are watched in all namespaces at once where the account may, else in each namespace of a target. What a
//! watch shows decides nothing by itself ([`super::plan`]); one that is refused costs a read per target and visit.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use weaver_api::marks::Owner;
use weaver_api::validate::ValidSync;

use super::plan::Seen;
use super::reconcile::Context;
use crate::tenant::TenantClient;
use crate::tenant::object::Place;
use crate::watch::{Interest, SyncRef, WatchKey, WatchState, What};

/// Watches that one resource uses.
#[derive(Default)]
pub struct Watches(BTreeMap<WatchKey, Interest>);

impl Watches {
    /// Opens those that are needed for copies in `targets`, keeps those it has, leaves the others, and waits until all
    /// are settled; tells which are refused.
    pub async fn join(
        &mut self,
        context: &Context,
        sync: &SyncRef,
        tenant: &TenantClient,
        spec: &ValidSync,
        targets: &BTreeSet<String>,
    ) -> Vec<WatchKey> {
        let key = |namespace: Option<String>, what| WatchKey {
            account: tenant.account.clone(),
            uid: tenant.uid.clone(),
            kind: spec.source_kind,
            namespace,
            what,
        };
        loop {
            let everywhere = key(None, What::Copies);
            let source = key(Some(spec.source_namespace.clone()), What::Object(spec.source_name.clone()));
            let mut wanted = vec![source];
            if self.may_be_everywhere(tenant, &everywhere).await {
                wanted.push(everywhere.clone());
            } else {
                // In one that is not there a watch would be refused, or see nothing, until long after it has appeared.
                let active = targets.iter().filter(|target| context.namespaces.is_active(target));
                wanted.extend(active.map(|target| key(Some(target.clone()), What::Copies)));
            }
            let joined = wanted.into_iter().map(|key| {
                let interest = self.0.remove(&key);
                (key.clone(), interest.unwrap_or_else(|| context.watches.join(key, tenant, sync)))
            });
            self.0 = joined.collect();
            let refused = self.refused().await;
            if !refused.contains(&everywhere) {
                return refused;
            }
            // It was allowed when it was asked for, and is not any more.
            tenant.reach.is_not_everywhere(spec.source_kind);
        }
    }

    async fn may_be_everywhere(&self, tenant: &TenantClient, everywhere: &WatchKey) -> bool {
        match (self.0.get(everywhere), tenant.reach.is_everywhere(tenant, everywhere.kind).await) {
            (Some(open), Ok(true)) if open.is_refused() => {
                tenant.reach.is_not_everywhere(everywhere.kind);
                false
            }
            (_, Ok(answer)) => answer,
            // It could not be asked: what is open stays open.
            (open, Err(_)) => open.is_some(),
        }
    }

    /// Waits for the watches, each and all no longer than [`crate::watch`] allows.
    async fn refused(&self) -> Vec<WatchKey> {
        let settled =
            join_all(self.0.iter().map(|(key, interest)| async move { (key, interest.settled().await) }))
                .await;
        let refused = settled.into_iter().filter(|(_, state)| *state == WatchState::Refused);
        refused.map(|(key, _)| key.clone()).collect()
    }

    /// Which state of the source its watch shows, empty where it is not there; `None` while that is not known.
    #[must_use]
    pub fn source_version(&self, spec: &ValidSync) -> Option<String> {
        let (_, interest) = self.0.iter().find(|(key, _)| key.what != What::Copies)?;
        match interest.see(&spec.source_namespace, &spec.source_name) {
            Seen::Unknown => None,
            Seen::Nothing => Some(String::new()),
            Seen::Object(meta) => meta.resource_version.clone(),
        }
    }

    /// What the watches show of the copy at `place`.
    #[must_use]
    pub fn see(&self, Place { kind, namespace, name }: &Place) -> Seen {
        self.on_copies()
            .find(|(key, _)| key.kind == *kind && key.namespace.as_ref().is_none_or(|only| only == namespace))
            .map_or(Seen::Unknown, |(_, interest)| interest.see(namespace, name))
    }

    /// Where the watches show copies of `owner`.
    pub fn copies_of<'a>(&'a self, owner: &'a Owner) -> impl Iterator<Item = Place> + 'a {
        self.on_copies().flat_map(move |(key, interest)| {
            let ours = interest.all().into_iter().filter(|meta| Owner::of(meta).as_ref() == Some(owner));
            let place = |meta: &_| {
                let k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta { namespace, name, .. } = meta;
                Some(Place { kind: key.kind, namespace: namespace.clone()?, name: name.clone()? })
            };
            ours.filter_map(move |meta| place(&meta)).collect::<Vec<_>>()
        })
    }

    /// Has the resource visited again when something happens at these places, whose copies are another's.
    pub fn wait_for(&self, places: &[Place]) {
        for (key, interest) in self.on_copies() {
            let here = places.iter().filter(|place| {
                place.kind == key.kind && key.namespace.as_ref().is_none_or(|only| *only == place.namespace)
            });
            interest.wait_for(here.map(|place| (place.namespace.clone(), place.name.clone())).collect());
        }
    }

    fn on_copies(&self) -> impl Iterator<Item = (&WatchKey, &Interest)> {
        self.0.iter().filter(|(key, _)| key.what == What::Copies)
    }
}
