//! The watches of one resource: on its sources, and on copies.
//!
//! Sources are watched by name. Of a tenant with many watches, one on their whole namespace does for all of them where
//! the account may see it. Copies are watched in all namespaces at once where the account may, else in each namespace
//! of a target. What a watch shows decides nothing by itself ([`weaver_copies::plan`]); one that is refused costs a
//! read per target and reconciliation.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use weaver_api::ownership::{Owner, SOURCE_ANNOTATION, SYNC_ANNOTATION};
use weaver_api::validate::{Sources, ValidSync};
use weaver_tenant::watch::{WatchSelector, WatchState};
use weaver_tenant::{AccessCache, TenantClient};

use crate::watch::{CopyWatches, Interest, Namespaces, ResourceRef, WatchKey, WatchSet, WatchedObject, seen};
use weaver_copies::object::{ObjectKey, resource};
use weaver_copies::plan::SeenCopy;
use weaver_copies::rights::Right;
use weaver_copies::sources::query;

/// Watches that one resource uses.
#[derive(Default)]
pub struct SyncWatches {
    sources: Vec<Interest>,
    /// By namespace; by `None`, the one on all of them.
    copies: BTreeMap<Option<String>, Interest>,
}

/// So many watches of one tenant are worth a look at whether the account may see the whole namespace of its sources.
const MANY: usize = 16;

/// What of the sources' namespace is watched; all of it, where it `may_be_all`.
fn selectors(spec: &ValidSync, may_be_all: bool) -> Vec<WatchSelector> {
    match &spec.sources {
        Sources::Selected(selector) => vec![WatchSelector::Labels(query(selector))],
        Sources::Named(_) | Sources::Listed(_) if may_be_all => vec![WatchSelector::All],
        Sources::Named(_) | Sources::Listed(_) => {
            spec.source_names().iter().cloned().map(WatchSelector::Name).collect()
        }
    }
}

/// How the watches are.
pub struct Joined {
    /// The account may not list or watch there.
    pub refused: Vec<WatchKey>,
    /// Not watched: the tenant has as many watches, or keeps as much, as one may.
    pub beyond: Vec<WatchKey>,
    /// Something is not watched at present, be it refused or not.
    pub blind: bool,
}

impl SyncWatches {
    /// Opens those that are needed for copies in `targets`, keeps those it has, leaves the others, and waits until all
    /// are settled. `waiting` of the tenant's syncs are to follow, as after a start, and are to need watches too.
    pub async fn join(
        &mut self,
        (set, waiting): (&WatchSet, usize),
        namespaces: &Namespaces,
        sync: &ResourceRef,
        tenant: &TenantClient,
        spec: &ValidSync,
        targets: &BTreeSet<String>,
    ) -> Joined {
        let key = |namespace: Option<String>, selector| WatchKey {
            account: tenant.account.clone(),
            uid: tenant.uid.clone(),
            kind: spec.source_kind,
            namespace,
            selector,
        };
        // So that it ends: what is found out counts for the rest of this call, whether it is remembered or not.
        let (mut may_show_all_sources, mut may_be_everywhere) = (true, true);
        loop {
            // First: who may see all namespaces need not be asked about that of the sources.
            let is_everywhere = may_be_everywhere && self.may_be_everywhere(tenant, spec).await;
            let on_source = |selector| key(Some(spec.source_namespace.clone()), selector);
            let may_be_all = may_show_all_sources
                && may_see_sources((set, waiting), tenant, spec, &on_source(WatchSelector::All)).await;
            // Nothing is awaited between this and the watches: one that comes up unawaited has its users reconciled.
            let mut beyond = Vec::new();
            let mut open = |had: Option<Interest>, key: WatchKey| {
                let had = had.filter(|open| *open.key() == key);
                let joined = had.or_else(|| set.join(key.clone(), tenant, sync));
                if joined.is_none() {
                    beyond.push(key);
                }
                joined
            };
            let mut had = std::mem::take(&mut self.sources);
            for selector in selectors(spec, may_be_all) {
                let key = on_source(selector);
                let open_already = had.iter().position(|open| *open.key() == key);
                self.sources.extend(open(open_already.map(|at| had.swap_remove(at)), key));
            }
            drop(had);
            self.wait_for_sources(spec);
            let wanted: Vec<Option<String>> = if is_everywhere {
                vec![None]
            } else {
                // Whether it is there or not: the status reports a refused one, so it must not depend on what
                // only the operator knows.
                let served = targets.iter().filter(|target| namespaces.serves(target));
                served.cloned().map(Some).collect()
            };
            let mut had = std::mem::take(&mut self.copies);
            for namespace in wanted {
                let joined = open(had.remove(&namespace), key(namespace.clone(), CopyWatches::selector()));
                self.copies.extend(joined.map(|open| (namespace, open)));
            }
            drop(had);
            let joined = self.settled(beyond).await;
            let kind = resource(spec.source_kind);
            let is_shared = |key: &&WatchKey| key.namespace.is_none() || key.selector == WatchSelector::All;
            let mut give_up = |key: &WatchKey| match key.namespace {
                None => may_be_everywhere = false,
                Some(_) => may_show_all_sources = false,
            };
            if let Some(key) = joined.refused.iter().find(is_shared) {
                // It was allowed when it was asked for, and is not any more.
                tenant.access.does_not_see_all(&kind, key.namespace.as_deref());
                give_up(key);
            } else if let Some(key) = joined.beyond.iter().find(is_shared) {
                // It shows more than may be kept. Or the tenant has as many watches as it may: then it costs
                // little to try.
                let shows_too_much = self.all().any(|open| open.key() == key);
                let longest =
                    if shows_too_much { AccessCache::LONGEST_PAUSE } else { AccessCache::FIRST_PAUSE };
                tenant.access.does_not_fit(&kind, key.namespace.as_deref(), longest);
                give_up(key);
            } else {
                return joined;
            }
        }
    }

    fn all(&self) -> impl Iterator<Item = &Interest> {
        self.sources.iter().chain(self.copies.values())
    }

    /// A watch on a whole namespace shows others' sources too.
    fn wait_for_sources(&self, spec: &ValidSync) {
        let on_all = self.sources.iter().filter(|open| open.key().selector == WatchSelector::All);
        for open in on_all {
            let name = |name: &String| (spec.source_namespace.clone(), name.clone());
            open.wait_for(spec.source_names().iter().map(name).collect());
        }
    }

    async fn may_be_everywhere(&self, tenant: &TenantClient, spec: &ValidSync) -> bool {
        // Where it could not be asked, what is open stays open.
        let kind = resource(spec.source_kind);
        let allowed = tenant.access.sees_all(&kind, None).await.unwrap_or_else(|_| self.are_everywhere());
        allowed && tenant.access.may_fit(&kind, None)
    }

    /// Is one watch on the copies in all namespaces?
    pub fn are_everywhere(&self) -> bool {
        self.copies.contains_key(&None)
    }

    /// Waits for the watches, each and all no longer than [`crate::watch`] allows.
    async fn settled(&self, mut beyond: Vec<WatchKey>) -> Joined {
        let settled = join_all(self.all().map(|open| async { (open.key(), open.settled().await) })).await;
        let blind = !beyond.is_empty() || settled.iter().any(|(_, state)| *state != WatchState::Up);
        let those = |wanted| {
            let those = settled.iter().filter(move |(_, state)| *state == wanted);
            those.map(|(key, _)| (*key).clone())
        };
        beyond.extend(those(WatchState::TooLarge));
        Joined { refused: those(WatchState::Refused).collect(), beyond, blind }
    }

    /// Has each watch that was refused tried again whose rights are not among those that are `missing` any more.
    pub fn try_again(&self, missing: &BTreeSet<Right>) {
        for open in self.all() {
            let key = open.key();
            // A right on another source of several says nothing.
            let is_of_another = |right: &Right| match (&right.object, &key.selector) {
                (Some(object), WatchSelector::Name(name)) => object != name,
                _ => false,
            };
            let here = |right: &&Right| {
                right.kind == key.kind
                    && Some(&right.namespace) == key.namespace.as_ref()
                    && !is_of_another(right)
            };
            if !missing.iter().filter(here).any(|right| ["list", "watch"].contains(&right.verb)) {
                open.try_again();
            }
        }
    }

    /// Which state of this source its watch shows, empty where it is not there; `None` while that is not known.
    pub fn source_version(&self, spec: &ValidSync, name: &str) -> Option<String> {
        let is_on = |open: &&Interest| match &open.key().selector {
            WatchSelector::Name(watched) => watched == name,
            WatchSelector::Labels(_) | WatchSelector::All => true,
        };
        match seen(&self.sources.iter().find(is_on)?.see(&spec.source_namespace, name)) {
            SeenCopy::Unknown => None,
            SeenCopy::Nothing => Some(String::new()),
            SeenCopy::Object(meta) | SeenCopy::Metadata(meta) => meta.resource_version.clone(),
        }
    }

    /// What the watches show of the copy `object_key`.
    pub fn see(&self, object_key: &ObjectKey) -> SeenCopy {
        self.on(object_key)
            .map_or(SeenCopy::Unknown, |open| seen(&open.see(&object_key.namespace, &object_key.name)))
    }

    /// Where the watches show copies of `owner`, and the source that each names.
    pub fn copies_of(&self, owner: &Owner) -> impl Iterator<Item = (ObjectKey, Option<String>)> {
        let mark = owner.to_string();
        self.copies.values().flat_map(move |open| {
            let kind = open.key().kind;
            // A watch on all namespaces shows the copies of everybody.
            let candidates = open.those(WatchedObject::may_be_of(owner)).into_iter();
            let of = |((namespace, name), held): (_, WatchedObject)| {
                let mut annotations = held.meta().annotations?;
                let is_ours = annotations.get(SYNC_ANNOTATION) == Some(&mark);
                let key = ObjectKey { kind, namespace, name };
                is_ours.then(|| (key, annotations.remove(SOURCE_ANNOTATION)))
            };
            candidates.filter_map(of).collect::<Vec<_>>()
        })
    }

    /// Has the resource reconciled again when something happens to these objects, which are another's copies.
    pub fn wait_for(&self, keys: &[ObjectKey]) {
        let mut by_namespace: BTreeMap<&Option<String>, BTreeSet<_>> = BTreeMap::new();
        for (open, object_key) in
            keys.iter().filter_map(|object_key| Some((self.on(object_key)?, object_key)))
        {
            let here = by_namespace.entry(&open.key().namespace).or_default();
            here.insert((object_key.namespace.clone(), object_key.name.clone()));
        }
        for (namespace, open) in &self.copies {
            open.wait_for(by_namespace.remove(namespace).unwrap_or_default());
        }
    }

    /// The watch that covers `object_key`.
    fn on(&self, object_key: &ObjectKey) -> Option<&Interest> {
        let open = self.copies.get(&None).or_else(|| self.copies.get(&Some(object_key.namespace.clone())))?;
        (open.key().kind == object_key.kind).then_some(open)
    }
}

/// Is the sources' namespace to be watched as a whole, by `all`? A watch that others of the tenant's have costs nothing.
async fn may_see_sources(
    (set, waiting): (&WatchSet, usize),
    tenant: &TenantClient,
    spec: &ValidSync,
    all: &WatchKey,
) -> bool {
    let (kind, namespace) = (resource(spec.source_kind), Some(spec.source_namespace.as_str()));
    let is_open = set.is_open(all);
    (is_open || set.watches_of(&tenant.account.namespace) + waiting >= MANY)
        && tenant.access.may_fit(&kind, namespace)
        && tenant.access.sees_all(&kind, namespace).await.unwrap_or(is_open)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use futures::{FutureExt as _, StreamExt as _};
    use http::{Request, Response};
    use kube::Client;
    use kube::client::Body;
    use serde_json::json;
    use tokio::time::sleep;
    use tower::BoxError;
    use weaver_tenant::token::KubeMinter;
    use weaver_tenant::{Account, Tenants};

    use super::super::outcome::tests::{spec, valid};
    use super::*;
    use crate::watch::{LIMITS, Triggers};

    /// How often rights were asked for.
    static REVIEWS: AtomicUsize = AtomicUsize::new(0);

    /// An API server that allows everything, says so after a second, and has nothing to list.
    async fn answer(request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        let answer = if path.ends_with("/token") {
            json!({
                "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []},
                "metadata": {"uid": "account", "creationTimestamp": "2020-01-01T00:00:00Z"},
                "status": {"token": "tenant", "expirationTimestamp": "2020-01-01T01:00:00Z"},
            })
        } else if path.ends_with("/selfsubjectaccessreviews") {
            REVIEWS.fetch_add(1, Ordering::Relaxed);
            sleep(Duration::from_secs(1)).await;
            json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {},
                   "status": {"allowed": true}})
        } else if query.contains("watch=true") {
            std::future::pending().await
        } else {
            json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "items": [],
                   "metadata": {"resourceVersion": "1"}})
        };
        Ok(Response::new(Body::from(answer.to_string().into_bytes())))
    }

    #[tokio::test(start_paused = true)]
    async fn watches_that_come_up_for_the_first_time_cost_one_question_and_no_second_reconciliation() {
        let client = Client::new(tower::service_fn(answer), "default");
        let minter = KubeMinter::new(client.clone(), Duration::from_hours(1));
        let tenants = Tenants::new(client, minter, Duration::from_mins(5));
        let account = Account { namespace: "team-a".into(), name: "sync".into() };
        let tenant = tenants.client(&account).await.unwrap();
        let triggers = Triggers::default();
        let copies = CopyWatches::new(triggers.clone());
        let set = WatchSet::new(copies, Duration::from_mins(5), Duration::from_mins(1), LIMITS);
        let (namespaces, spec) = (Namespaces::default(), valid(spec(&["foo"])));
        let sync = ResourceRef { namespace: "team-a".into(), name: "sync".into() };
        let mut watches = SyncWatches::default();
        let joined = watches.join((&set, MANY), &namespaces, &sync, &tenant, &spec, &spec.targets).await;
        assert!(!joined.blind && watches.are_everywhere());
        assert_eq!(watches.source_version(&spec, "settings"), Some(String::new()), "its watch is up");
        let selectors: Vec<_> = watches.all().map(|open| open.key().selector.clone()).collect();
        assert_eq!(selectors, [WatchSelector::All, CopyWatches::selector()]);
        assert_eq!(REVIEWS.load(Ordering::Relaxed), 2, "list and watch in all namespaces");
        let mut due = std::pin::pin!(triggers.stream());
        assert_eq!(due.next().now_or_never().flatten(), None);
    }
}
