//! The controllers of our kinds: what they watch, and what wakes them.

use std::collections::BTreeSet;
use std::future::ready;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{BoxStream, Stream, StreamExt as _, TryStreamExt as _};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ListParams, VersionMatch};
use kube::core::object::HasStatus;
use kube::core::{DeserializeGuard, PartialObjectMeta};
use kube::runtime::controller::Config as ControllerConfig;
use kube::runtime::reflector::Store;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{Controller, WatchStreamExt as _, reflector};
use kube::{Client, Resource};
use serde::Serialize;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use weaver_api::OPERATOR_NAMESPACE;
use weaver_api::v1beta1::{ConfigMapSync, ResourceSync, ServiceToken};
use weaver_tenant::watch::{WatchBackoff, is_refused, with_backoff};

use crate::controller::kept::{KeptResources, keep_what_is_read};
use crate::controller::kind::Reconcile;
use crate::controller::permits::Permits;
use crate::controller::quiet::Quiet;
use crate::controller::state::States;
use crate::health::{LoopHeartbeat, ProcessHealth, WatchRequests};
use crate::log_code;
use crate::scope::OperatorScope;
use crate::service_token::Context as TokenContext;
use crate::sync::Context;
use crate::sync::declared::Declares;
use crate::sync::reactions::react;
use crate::watch::{NamespaceChange, ResourceRef, Triggers, due, merged};
use weaver_client::call::{CallError, call};
use weaver_copies::namespace::Traits;

/// What is said where the API server could not be asked at all.
pub const UNREACHABLE: &str = "the API server could not be asked for our kinds";

/// Longest pause between two tries. There are four such watches, on a machine whose API server takes a minute
/// to start: the pauses of kube's default, up to half a minute, would add to that.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A watch that has asked for nothing for so long beyond its own length hangs.
const GRACE: Duration = Duration::from_mins(2);

/// Objects in a page of a list. Tenants write them, and one may have more than a MiB.
const PAGE: u32 = 50;

/// The same of namespaces. Nothing begins before all are known, and their metadata is a quarter of a MiB at most.
const NAMESPACES_PAGE: u32 = 250;

/// Fails where this program cannot list `ConfigMapSync`s, with what to do. Those who copy do not wait for a right on
/// another kind that they do not need: its watch tries again and again.
///
/// The kinds are asked for at once: a start waits for this.
pub async fn are_served(client: &Client, scope: &OperatorScope) -> anyhow::Result<()> {
    let (syncs, resources, tokens) = tokio::join!(
        Box::pin(is_served::<ConfigMapSync>(client, scope)),
        Box::pin(is_served::<ResourceSync>(client, scope)),
        Box::pin(is_served::<ServiceToken>(client, scope)),
    );
    syncs?;
    for (kind, served) in [("ResourceSyncs", resources), ("ServiceTokens", tokens)] {
        if let Err(error) = served {
            warn!(code = log_code::KIND_NOT_SERVED, "{kind} are not reconciled: {error:#}");
        }
    }
    Ok(())
}

/// Fails, with what to do, where the API server does not let this program list its kind. Of several namespaces one is
/// enough: that another is not there (yet), or not granted, is its own affair, and is logged.
async fn is_served<K: Reconcile>(client: &Client, scope: &OperatorScope) -> anyhow::Result<()> {
    // As the API server has it in memory. For the newest state it waits for its database, with k3s' for up to 0.1 s; and
    // at version 0 there are no limits.
    let any = ListParams::default().limit(1).at("1").matching(VersionMatch::NotOlderThan);
    let mut refused = Vec::new();
    let namespaces = scope.resource_namespaces();
    for namespace in &namespaces {
        let resources: Api<DeserializeGuard<K>> = api(client, namespace.as_deref());
        if let Err(error) = call(resources.list(&any)).await {
            let remedy = remedy(&error, &K::kind(&()), namespace.as_deref());
            refused.push(anyhow::Error::new(error).context(remedy));
        }
    }
    if refused.len() == namespaces.len() {
        return refused.pop().map_or(Ok(()), Err);
    }
    for error in refused {
        warn!(code = log_code::KIND_NOT_SERVED, "retrying: {error:#}");
    }
    Ok(())
}

/// Everything of a kind, or what is in one namespace.
fn api<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    namespace.map_or_else(|| Api::all(client.clone()), |name| Api::namespaced(client.clone(), name))
}

/// The operator's own watches.
pub struct OperatorWatches {
    client: Client,
    scope: OperatorScope,
    length: Duration,
    health: ProcessHealth,
}

impl OperatorWatches {
    /// Each lasts `length`, and is tried again forever.
    pub fn new(client: Client, scope: OperatorScope, length: Duration, health: ProcessHealth) -> Self {
        Self { client, scope, length, health }
    }

    /// A controller of the kind `K`, also woken by `triggers`, and what it knows of the kind: with those labels
    /// and annotations only whose keys are read, and of resources that do not fit into memory the name. What is gone is
    /// forgotten in `states`, and an event that shows nothing but a status of ours causes no reconciliation.
    pub fn controller<K: Reconcile + Serialize>(
        &self,
        triggers: &Triggers,
        stop: &CancellationToken,
        states: &Arc<States<K::Memory>>,
        permits: &Permits,
    ) -> (Controller<DeserializeGuard<K>>, Store<DeserializeGuard<K>>) {
        let (store, writer) = reflector::store();
        let namespaces = self.scope.resource_namespaces();
        let parts = namespaces.iter().map(Option::as_deref).enumerate().map(|(number, namespace)| {
            let asked = WatchRequests::of(K::url_path(&(), namespace), None);
            let heartbeat = self.heartbeat::<K>(asked, number, namespaces.len());
            let (mut kept, mut quiet) = (KeptResources::default(), Quiet::default());
            with_backoff(
                watcher::watcher(api(&self.client, namespace), self.config(PAGE)),
                WatchBackoff::up_to(LONGEST_PAUSE),
            )
            .modify(|resource: &mut DeserializeGuard<K>| keep_what_is_read(resource.meta_mut(), K::is_read))
            .map_ok(move |event| kept.keep(event))
            .inspect_ok(move |_| heartbeat.seen_event())
            .inspect_err(move |error| {
                if let Some(left_out) = quiet.passes(Instant::now()) {
                    warn!(
                        code = log_code::WATCH_FAILED, kind = K::NOUN, %error, left_out,
                        "a watch on ConfigMapSyncs, ResourceSyncs or ServiceTokens failed; it is restarted"
                    );
                }
            })
        });
        let mut changes = Changes::<K> {
            states: states.clone(),
            permits: permits.clone(),
            triggers: triggers.clone(),
            listed: BTreeSet::new(),
        };
        // A namespace without the RoleBinding yet is skipped; it does not delay the others.
        let resources = one(parts.collect(), is_refused)
            .reflect(writer)
            // A watch that fails rests by itself. After its error kube would take neither what the others show nor what
            // else is due, for up to half a minute.
            .filter_map(move |event| ready(event.ok().and_then(|event| changes.take(event)).map(Ok)));
        let controller = Controller::for_stream(resources, store.clone())
            // How many reconciliations there are at once is decided by their permits; all others end at once.
            .with_config(ControllerConfig::default().concurrency(0))
            .reconcile_on(due(triggers))
            .graceful_shutdown_on(stop.clone().cancelled_owned());
        (controller, store)
    }

    /// What happens to namespaces, metadata only.
    pub fn namespaces(
        &self,
    ) -> impl Stream<Item = Result<Event<PartialObjectMeta<Namespace>>, watcher::Error>> + Send + use<> {
        let names = self.scope.namespaces();
        let parts = names.iter().enumerate().map(|(number, name)| {
            let namespaces: Api<PartialObjectMeta<Namespace>> = Api::all(self.client.clone());
            let field = name.as_ref().map(|name| format!("metadata.name={name}"));
            let asked = WatchRequests::of(Namespace::url_path(&(), None), field.as_deref());
            let heartbeat = self.heartbeat::<Namespace>(asked, number, names.len());
            let all = self.config(NAMESPACES_PAGE);
            let config = field.iter().fold(all, |config, field| config.fields(field));
            with_backoff(watcher::watcher(namespaces, config), WatchBackoff::up_to(LONGEST_PAUSE))
                .inspect_ok(move |_| heartbeat.seen_event())
        });
        // Each says from whom it accepts copies, and the operator's own whether all is paused: none is left out.
        one(parts.collect(), |_| false)
    }

    /// Of one watch on that kind. Anyone who asks for it learns no namespace's name, so they are numbered.
    fn heartbeat<K: Resource<DynamicType = ()>>(
        &self,
        asked: WatchRequests,
        number: usize,
        all: usize,
    ) -> LoopHeartbeat {
        let which = if all == 1 { String::new() } else { format!(", {} of {all}", number + 1) };
        let name = format!("watching {}{which}", K::plural(&()));
        self.health.watch(name, self.length + GRACE, asked)
    }

    fn config(&self, page: u32) -> watcher::Config {
        #[expect(clippy::expect_used, reason = "--watch takes at most 300 s")]
        let seconds = u32::try_from(self.length.as_secs()).expect("the length of a watch fits into 32 bits");
        watcher::Config::default().page_size(page).timeout(seconds)
    }
}

/// What follows from the events of a kind, after the store has taken them.
struct Changes<K: Reconcile> {
    states: Arc<States<K::Memory>>,
    permits: Permits,
    triggers: Triggers,
    /// What lists have shown that are not whole yet.
    listed: BTreeSet<ResourceRef>,
}

impl<K: Reconcile> Changes<K> {
    /// The resource, if it is to be reconciled.
    fn take(&mut self, event: Event<DeserializeGuard<K>>) -> Option<DeserializeGuard<K>> {
        match event {
            Event::Apply(resource) => self.is_news(&resource).then_some(resource),
            Event::Delete(gone) => {
                self.states.forget(gone.meta().uid.as_deref().unwrap_or_default());
                self.permits.forget(&(K::NOUN, ResourceRef::of(&gone)));
                // kube keeps for each when it is due next, in a day perhaps, and forgets what is due and not there.
                self.triggers.fire(ResourceRef::of(&gone));
                None
            }
            // The store shows a list once it is whole. Before that kube would reconcile the resource as it was, or skip
            // one that is new, and no other event follows. What a list has shown that broke off is no news in the next
            // one, so it stays noted.
            Event::InitApply(resource) => {
                if self.is_news(&resource) {
                    self.listed.insert(ResourceRef::of(&resource));
                }
                None
            }
            Event::InitDone => {
                for resource in mem::take(&mut self.listed) {
                    self.triggers.fire(resource);
                }
                None
            }
            Event::Init => None,
        }
    }

    /// Does the event show anything but a status of ours?
    fn is_news(&self, resource: &DeserializeGuard<K>) -> bool {
        let uid = resource.meta().uid.as_deref().unwrap_or_default();
        let entry = self.states.entry(uid, &ResourceRef::of(resource));
        let status = resource.0.as_ref().ok().and_then(HasStatus::status);
        entry.own_status.lock().is_news(resource.meta(), status)
    }
}

/// Several watches as one; one is itself.
fn one<K, S>(
    mut parts: Vec<S>,
    is_final: fn(&watcher::Error) -> bool,
) -> BoxStream<'static, Result<Event<K>, watcher::Error>>
where
    K: Resource + Clone + Send + 'static,
    S: Stream<Item = Result<Event<K>, watcher::Error>> + Send + 'static,
{
    match (parts.len(), parts.pop()) {
        (1, Some(only)) => only.boxed(),
        (_, last) => merged(parts.into_iter().chain(last).collect(), is_final).boxed(),
    }
}

/// What to do when a kind of ours cannot be listed at the one version that this program works on.
fn remedy(error: &CallError, kind: &str, namespace: Option<&str>) -> String {
    if error.is_failed_conversion() {
        return format!(
            "{kind}s are still stored at v1alpha1, and the webhook that converts them does not answer: \
             start it, then run `weaver crd migrate`"
        );
    }
    match error {
        CallError::NotFound(_) => {
            format!(
                "the API server does not serve {kind}s at weaver.example.com/v1beta1: run `weaver crd install`"
            )
        }
        CallError::Forbidden(_) => namespace.map_or_else(
            || format!("the operator's ServiceAccount may not list {kind}s: on a card the node agent grants it; \
                elsewhere apply the manifests of this release (`weaver docs upgrade`)"),
            |name| {
                format!(
                    "this account may not list {kind}s in {name}: bind its rights there (`weaver docs limit-to-namespaces`)"
                )
            },
        ),
        _ => UNREACHABLE.to_owned(),
    }
}

/// Has those reconciled whom a change of a namespace concerns, as far as their accounts have rights there; all, if it
/// pauses everything or ends that.
pub fn wake_the_concerned(
    change: NamespaceChange<'_>,
    context: &Context,
    resources: &Context<ResourceSync>,
    tokens: &TokenContext,
) {
    let paused = |traits: Option<&Traits>| traits.and_then(|traits| traits.paused.clone());
    let turns = change.name == OPERATOR_NAMESPACE && paused(change.before) != paused(change.now);
    if turns {
        if let Some(reason) = paused(change.now) {
            warn!(code = log_code::PAUSED, %reason, "all resources are paused: nothing is written");
        } else {
            info!(code = log_code::RESUMED, "no longer paused");
        }
        tokens.store.state().iter().for_each(|guarded| tokens.watches.wake(ResourceRef::of(&**guarded)));
    }
    wake(change, turns, context);
    wake(change, turns, resources);
}

fn wake<K: Declares>(change: NamespaceChange<'_>, all: bool, context: &Context<K>) {
    // What the first list shows is no change: everything is reconciled after it.
    if !context.namespaces.is_synced() {
        return;
    }
    for guarded in context.store.state() {
        if all {
            context.watches.wake(ResourceRef::of(&*guarded));
        }
        if let Ok(sync) = &guarded.0 {
            react(context, sync, change);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Request, Response};
    use kube::client::Body;
    use kube::core::Status;
    use kube::runtime::controller::{self, Action};
    use parking_lot::Mutex;
    use serde_json::{Value, json};
    use tokio::time::{sleep, timeout};
    use tower::BoxError;

    fn token(version: &str) -> Value {
        let metadata =
            json!({"namespace": "team-a", "name": "token", "uid": "u", "resourceVersion": version});
        json!({"apiVersion": "weaver.example.com/v1beta1", "kind": "ServiceToken", "metadata": metadata})
    }

    /// An API server with one `ServiceToken`, which is deleted after a second.
    fn with_a_deletion() -> Client {
        let service = tower::service_fn(|request: Request<Body>| async move {
            let query = request.uri().query().unwrap_or_default();
            let answer = match (query.contains("watch=true"), query.contains("resourceVersion=1")) {
                (false, _) => {
                    let metadata = json!({"resourceVersion": "1"});
                    json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": [token("1")]})
                }
                (true, true) => {
                    sleep(Duration::from_secs(1)).await;
                    json!({"type": "DELETED", "object": token("2")})
                }
                (true, false) => std::future::pending().await,
            };
            Ok::<_, BoxError>(Response::new(Body::from(format!("{answer}\n").into_bytes())))
        });
        Client::new(service, "default")
    }

    #[tokio::test(start_paused = true)]
    async fn a_resource_that_is_deleted_is_forgotten_before_it_would_have_been_due() {
        const DAY: Duration = Duration::from_hours(24);
        let (length, health) = (Duration::from_mins(4), ProcessHealth::default());
        let watches = OperatorWatches::new(with_a_deletion(), OperatorScope::Everywhere, length, health);
        let (triggers, states) = (Triggers::default(), Arc::default());
        let (stop, permits) = (CancellationToken::new(), Permits::default());
        let (controller, _) = watches.controller::<ServiceToken>(&triggers, &stop, &states, &permits);
        let again = |_, _| async { Ok::<_, std::fmt::Error>(Action::requeue(DAY)) };
        let results = controller.run(again, |_, _, _| Action::requeue(DAY), Arc::new(()));
        let (mut results, begun) = (std::pin::pin!(results), Instant::now());
        assert!(results.next().await.is_some_and(|reconciled| reconciled.is_ok()));
        let gone = results.next().await;
        assert!(matches!(gone, Some(Err(controller::Error::ObjectNotFound(_)))), "{gone:?}");
        assert!(begun.elapsed() < DAY / 2, "{:?}", begun.elapsed());
    }

    /// An API server whose first watch is too old. The list that follows shows the token changed and two more, the last
    /// of them on a page that comes a second later.
    fn with_a_second_list() -> Client {
        let named = |name: &str, generation: i64| {
            let mut token = token("1");
            token["metadata"]["name"] = json!(name);
            token["metadata"]["uid"] = json!(name);
            token["metadata"]["generation"] = json!(generation);
            token
        };
        let list = |next: &str, items: &[Value]| {
            let metadata = json!({"resourceVersion": "1", "continue": next});
            json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items})
        };
        let mut lists = 0;
        let service = tower::service_fn(move |request: Request<Body>| {
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            lists += usize::from(!is_watch);
            let (seconds, answer) = match (is_watch, lists) {
                (false, 1) => (0, list("", &[named("changed", 1)])),
                (true, 1) => {
                    let gone =
                        json!({"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired"});
                    (0, json!({"type": "ERROR", "object": gone}))
                }
                (false, 2) => (0, list("more", &[named("changed", 2), named("new", 1)])),
                (false, _) => (1, list("", &[named("newer", 1)])),
                (true, _) => (1_000, Value::Null),
            };
            async move {
                sleep(Duration::from_secs(seconds)).await;
                Ok::<_, BoxError>(Response::new(Body::from(format!("{answer}\n").into_bytes())))
            }
        });
        Client::new(service, "default")
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_list_in_pages_shows_is_reconciled_as_it_is_in_that_list() {
        let (length, health) = (Duration::from_mins(4), ProcessHealth::default());
        let watches = OperatorWatches::new(with_a_second_list(), OperatorScope::Everywhere, length, health);
        let (triggers, states) = (Triggers::default(), Arc::default());
        let (stop, permits) = (CancellationToken::new(), Permits::default());
        let (controller, _) = watches.controller::<ServiceToken>(&triggers, &stop, &states, &permits);
        let reconciled = Arc::<Mutex<BTreeSet<(String, Option<i64>)>>>::default();
        let noted = reconciled.clone();
        let note = move |resource: Arc<DeserializeGuard<ServiceToken>>, _| {
            noted.lock().insert((ResourceRef::of(&*resource).name, resource.meta().generation));
            async { Ok::<_, std::fmt::Error>(Action::await_change()) }
        };
        let results = controller.run(note, |_, _, _| Action::await_change(), Arc::new(()));
        assert!(timeout(Duration::from_mins(1), results.for_each(|_| ready(()))).await.is_err());
        let expected = [("changed", 1), ("changed", 2), ("new", 1), ("newer", 1)];
        let expected = expected.map(|(name, generation)| (name.to_owned(), Some(generation)));
        assert_eq!(*reconciled.lock(), BTreeSet::from(expected));
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_in_which_nothing_may_be_listed_keeps_no_other_waiting() {
        let service = tower::service_fn(|request: Request<Body>| async move {
            let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
            let (code, answer) = match (path.contains("/refused/"), query.contains("watch=true")) {
                (true, _) => {
                    let refused =
                        json!({"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden"});
                    (403_u16, refused)
                }
                (false, false) => {
                    let metadata = json!({"resourceVersion": "1"});
                    let items = [token("1")];
                    (200, json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items}))
                }
                (false, true) => std::future::pending().await,
            };
            let body = Body::from(answer.to_string().into_bytes());
            Response::builder().status(code).body(body).map_err(BoxError::from)
        });
        let scope: OperatorScope = "refused,team-a".parse().unwrap();
        let (client, length) = (Client::new(service, "default"), Duration::from_mins(4));
        let watches = OperatorWatches::new(client, scope, length, ProcessHealth::default());
        let (triggers, states) = (Triggers::default(), Arc::default());
        let (stop, permits) = (CancellationToken::new(), Permits::default());
        let (controller, _) = watches.controller::<ServiceToken>(&triggers, &stop, &states, &permits);
        let reconciled = Arc::<Mutex<usize>>::default();
        let noted = reconciled.clone();
        let note = move |_, _| {
            *noted.lock() += 1;
            async { Ok::<_, std::fmt::Error>(Action::await_change()) }
        };
        let results = controller.run(note, |_, _, _| Action::await_change(), Arc::new(()));
        let is_due = async {
            for times in 1..10 {
                sleep(Duration::from_mins(1)).await;
                assert_eq!(*reconciled.lock(), times);
                triggers.fire(ResourceRef { namespace: "team-a".to_owned(), name: "token".to_owned() });
                sleep(Duration::from_secs(1)).await;
                assert_eq!(*reconciled.lock(), times + 1, "it waits for the other namespace");
            }
        };
        tokio::select! {
            () = results.for_each(|_| ready(())) => panic!("the controller has ended"),
            () = is_due => {}
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_asks_for_one_object_of_each_kind_and_for_all_kinds_at_once() {
        const ANSWERED_AFTER: Duration = Duration::from_millis(100);
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let (uris, begun) = (asked.clone(), Instant::now());
        let service = tower::service_fn(move |request: Request<Body>| {
            uris.lock().push(request.uri().to_string());
            async {
                sleep(ANSWERED_AFTER).await;
                let list = r#"{"kind": "List", "apiVersion": "v1", "metadata": {}, "items": []}"#;
                Ok::<_, BoxError>(Response::new(Body::from(list.as_bytes().to_vec())))
            }
        });
        are_served(&Client::new(service, "default"), &OperatorScope::Everywhere).await.unwrap();
        assert!(begun.elapsed() < ANSWERED_AFTER * 2, "one after the other");
        let mut asked = asked.lock().clone();
        asked.sort();
        for (uri, kind) in asked.iter().zip(["configmapsyncs", "resourcesyncs", "servicetokens"]) {
            assert!(uri.contains(&format!("/{kind}?")) && uri.contains("limit=1&resourceVersion=1"), "{uri}");
        }
        assert_eq!(asked.len(), 3);
    }

    #[test]
    fn an_api_server_without_v1beta1_is_reported_with_how_to_get_it() {
        let status = Status::failure("404 page not found", "NotFound").with_code(404).boxed();
        assert!(
            remedy(&CallError::NotFound(status), "ConfigMapSync", None)
                .contains("v1beta1: run `weaver crd install`")
        );
    }
}
