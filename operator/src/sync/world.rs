//! A server, the operator's context on it, and one `ConfigMapSync`: what tests of whole reconciliations share.

use std::sync::{Arc, Mutex};
use std::time::Duration;
use weaver_tenant::Tenants;
use weaver_tenant::token::KubeMinter;
use weaver_tenant::watch::WatchLimits;

use futures::{FutureExt as _, StreamExt as _, stream};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt as _;
use kube::core::{PartialObjectMeta, PartialObjectMetaExt as _};
use kube::runtime::controller::Action;
use kube::runtime::reflector;
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::Event;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::Context;
use super::backoff::Backoffs;
use super::fake_server::FakeServer;
use super::kinds::SyncServices;
use super::reactions::{self, react};
use crate::args::RunOptions;
use crate::controller::events::Events;
use crate::controller::frame::reconcile;
use crate::controller::kept::{by_name, readiness};
use crate::controller::kind::Failure;
use crate::controller::permits::Permits;
use crate::controller::rate_limit::RateLimit;
use crate::counted::CountedMinter;
use crate::scope::OperatorScope;
use crate::watch::{CopyWatches, LIMITS, Namespaces, ResourceRef, Triggers, WatchSet};

type Guarded = crate::controller::kind::Guarded<weaver_api::v1beta1::ConfigMapSync>;

/// Path of the resource.
pub const SYNC: &str = "/apis/weaver.example.com/v1beta1/namespaces/team-a/configmapsyncs/sync";

fn config_map(namespace: &str, name: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps/{name}")
}

/// The namespaces team-a, foo, bar and baz, and two possible sources in team-a: `settings` and `other`.
pub struct SyncWorld {
    pub server: FakeServer,
    /// What the watch on resources has seen.
    seen: Mutex<Writer<Guarded>>,
    context: Arc<Context>,
    /// Which resources to reconcile.
    triggers: Triggers,
}

impl SyncWorld {
    /// `patience`: how long a deleted resource waits.
    pub async fn new(patience: Duration) -> Self {
        Self::remembering(patience, Duration::ZERO).await
    }

    /// The same, where what was answered about rights is used for as long as `rights_last`.
    pub async fn remembering(patience: Duration, rights_last: Duration) -> Self {
        Self::limited(patience, rights_last, LIMITS).await
    }

    /// The same, where watches have these limits.
    pub async fn limited(patience: Duration, rights_last: Duration, limits: WatchLimits) -> Self {
        let server = FakeServer::default();
        let (client, triggers) = (server.client(), Triggers::default());
        let namespaces = Namespaces::default();
        let known = ["team-a", "foo", "bar", "baz"].map(|name| {
            let meta = ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() };
            let namespace: PartialObjectMeta<_> = meta.into_response_partial();
            Event::InitApply(namespace)
        });
        let events = std::iter::once(Event::Init).chain(known).chain([Event::InitDone]).map(Ok);
        namespaces.follow(stream::iter(events), |_| ()).await;
        let (store, writer) = reflector::store();
        let minter = KubeMinter::new(client.clone(), Duration::from_hours(1));
        let minter = CountedMinter { minter, metrics: Arc::default() };
        let context = Context {
            tenants: Arc::new(Tenants::new(client.clone(), minter, rights_last)),
            watches: WatchSet::new(
                CopyWatches::new(triggers.clone()),
                Duration::from_mins(5),
                Duration::from_mins(1),
                limits,
            ),
            namespaces: Arc::new(namespaces),
            store,
            events: Events::new(client.clone()),
            metrics: Arc::default(),
            states: Arc::default(),
            permits: Permits::default(),
            client,
            options: RunOptions {
                namespaces: OperatorScope::Everywhere,
                kubeconfig: None,
                resync: None,
                watch: Duration::from_mins(5),
                retry: Duration::from_mins(1),
                cleanup_patience: patience,
                metrics: weaver_host::metrics_page::MetricsAddress(None),
                token_lifetime: Duration::from_hours(1),
                service_token_age: None,
                lease: Duration::from_mins(1),
                standalone: false,
                priority: 0,
            },
            own: SyncServices::default(),
        };
        let world = Self { server, seen: Mutex::new(writer), context: Arc::new(context), triggers };
        for name in ["settings", "other"] {
            world.put("team-a", name, name, &json!({}));
        }
        world
    }

    /// The operator learns what has become of a namespace; the tenant learns nothing.
    pub async fn hears(&self, event: Event<PartialObjectMeta<Namespace>>) {
        self.context.namespaces.follow(stream::iter([Ok(event)]), |_| ()).await;
    }

    /// The operator learns of these changes of namespaces, one after the other. Is the resource reconciled for it?
    pub async fn reacts_to(&self, events: Vec<Event<PartialObjectMeta<Namespace>>>) -> bool {
        let mut due = std::pin::pin!(self.triggers.stream());
        while due.next().now_or_never().is_some() {}
        let mut reconciled = false;
        for event in events {
            let follow = self.context.namespaces.follow(stream::iter([Ok(event)]), |change| {
                for guarded in self.context.store.state() {
                    react(&self.context, guarded.0.as_ref().unwrap(), change);
                }
            });
            follow.await;
            // It never ends; with a paused clock, this is until nothing is left to do.
            let checks = reactions::run(&self.context);
            assert!(timeout(Duration::from_mins(10), checks).await.is_err());
            reconciled |= due.next().now_or_never().is_some();
        }
        reconciled
    }

    /// How often the failures of the resource were forgiven.
    pub fn forgiven(&self) -> u32 {
        let sync: Guarded = serde_json::from_value(self.sync()).unwrap();
        self.context.states.entry(&sync.uid().unwrap_or_default(), &ResourceRef::of(&sync)).forgiven()
    }

    /// How long it takes to have so many resources reconciled, of which something is remembered.
    pub fn takes_for(&self, resources: usize) -> Duration {
        let named = |name: usize| ResourceRef { namespace: "team-a".into(), name: name.to_string() };
        let resources: Vec<_> = (0..resources).map(named).collect();
        for resource in &resources {
            self.context.states.entry(&resource.name, resource);
            let shown = json!({
                "apiVersion": "weaver.example.com/v1beta1", "kind": "ConfigMapSync",
                "metadata": {"namespace": "team-a", "name": resource.name, "uid": resource.name},
            });
            let guarded: Guarded = serde_json::from_value(shown).unwrap();
            self.seen.lock().unwrap().apply_watcher_event(&Event::Apply(guarded));
        }
        let begun = Instant::now();
        for resource in resources {
            self.context.reconcile_now(resource);
        }
        begun.elapsed()
    }

    /// Someone writes a `ConfigMap` with `value`.
    pub fn put(&self, namespace: &str, name: &str, value: &str, metadata: &Value) {
        let data = json!({"a": value});
        let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
        object["metadata"]["name"] = name.into();
        object["metadata"]["namespace"] = namespace.into();
        self.server.put(&config_map(namespace, name), object);
    }

    /// A `ConfigMap` as it is stored.
    pub fn object(&self, namespace: &str, name: &str) -> Option<Value> {
        self.server.get(&config_map(namespace, name))
    }

    /// Someone changes a `ConfigMap`.
    pub fn edit(&self, namespace: &str, name: &str, edit: impl FnOnce(&mut Value)) {
        let mut object = self.object(namespace, name).unwrap();
        edit(&mut object);
        self.server.put(&config_map(namespace, name), object);
    }

    /// Someone deletes a `ConfigMap`.
    pub fn remove(&self, namespace: &str, name: &str) {
        self.server.remove(&config_map(namespace, name));
    }

    /// Someone creates the resource.
    pub fn create(&self, spec: &Value, finalizers: &[&str]) {
        let metadata =
            json!({"namespace": "team-a", "name": "sync", "generation": 1, "finalizers": finalizers});
        let (version, kind) = ("weaver.example.com/v1beta1", "ConfigMapSync");
        self.server
            .put(SYNC, json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}));
    }

    /// Someone changes the resource.
    pub fn change(&self, edit: impl FnOnce(&mut Value)) {
        let mut sync = self.sync();
        let before = sync["spec"].clone();
        edit(&mut sync);
        if sync["spec"] != before {
            let generation = sync["metadata"]["generation"].as_i64().unwrap();
            sync["metadata"]["generation"] = (generation + 1).into();
        }
        self.server.put(SYNC, sync);
    }

    /// Someone deletes the resource.
    pub fn delete(&self) {
        self.change(|sync| sync["metadata"]["deletionTimestamp"] = "2020-01-01T00:00:00Z".into());
    }

    /// Is the resource gone?
    pub fn is_deleted(&self) -> bool {
        self.server.get(SYNC).is_none()
    }

    /// The resource as it is stored.
    pub fn sync(&self) -> Value {
        self.server.get(SYNC).unwrap()
    }

    /// One reconciliation, as the watch would cause it.
    pub async fn reconcile(&self) -> Result<Action, Failure> {
        self.reconcile_as(self.sync()).await
    }

    /// One reconciliation that is handed the resource as it was once.
    pub async fn reconcile_as(&self, sync: Value) -> Result<Action, Failure> {
        self.reconcile_later(serde_json::from_value(sync).unwrap()).await
    }

    /// One reconciliation that is handed only the name of the resource.
    pub async fn reconcile_by_name(&self) -> Result<Action, Failure> {
        let guarded: Guarded = serde_json::from_value(self.sync()).unwrap();
        self.reconcile_later(by_name(&guarded)).await
    }

    /// As what the metrics count the resource of which only the name is kept.
    pub fn readiness_by_name(&self) -> &'static str {
        let guarded: Guarded = serde_json::from_value(self.sync()).unwrap();
        readiness(&by_name(&guarded), &self.context.states)
    }

    /// The same, where the watch shows the resource as it was once.
    pub async fn reconcile_by_name_of(&self, shown: Value) -> Result<Action, Failure> {
        let guarded: Guarded = serde_json::from_value(shown).unwrap();
        let named = by_name(&guarded);
        self.seen.lock().unwrap().apply_watcher_event(&Event::Apply(guarded));
        reconcile(Arc::new(named), self.context.clone()).await
    }

    async fn reconcile_later(&self, guarded: Guarded) -> Result<Action, Failure> {
        // Here a moment is a day.
        let entry = self.context.states.entry(&guarded.uid().unwrap_or_default(), &ResourceRef::of(&guarded));
        let mut state = entry.state.lock().await;
        (state.common.rate_limit, state.backoffs) = (RateLimit::default(), Backoffs::default());
        drop(state);
        self.reconcile_soon(guarded).await
    }

    /// One reconciliation that remembers what failed a moment ago.
    pub async fn reconcile_again(&self) -> Result<Action, Failure> {
        self.reconcile_soon(serde_json::from_value(self.sync()).unwrap()).await
    }

    async fn reconcile_soon(&self, guarded: Guarded) -> Result<Action, Failure> {
        let event = Event::Apply(serde_json::from_value(self.sync()).unwrap());
        self.seen.lock().unwrap().apply_watcher_event(&event);
        reconcile(Arc::new(guarded), self.context.clone()).await
    }

    /// Reconciliations until nothing is written any more; gives all that was written.
    pub async fn settle(&self) -> Vec<String> {
        let mut all = Vec::new();
        for _ in 0..10 {
            if self.is_deleted() {
                return all;
            }
            self.reconcile().await.unwrap();
            let writes = self.server.writes();
            if writes.is_empty() {
                return all;
            }
            all.extend(writes);
        }
        panic!("it never settles: {all:#?}");
    }

    /// A condition of the resource.
    pub fn condition(&self, kind: &str) -> Value {
        let conditions = self.sync()["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default()
    }

    /// The targets in numbers.
    pub fn counts(&self) -> Value {
        self.sync()["status"]["counts"].clone()
    }

    /// Reasons of the events since the last call.
    pub fn events(&self) -> Vec<String> {
        self.server.events()
    }

    /// The finalizers of the resource.
    pub fn finalizers(&self) -> Value {
        self.sync()["metadata"]["finalizers"].clone()
    }
}
