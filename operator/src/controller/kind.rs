//! What a kind brings to the frame of its reconciles ([`super::frame`]), and what they have.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DeserializeGuard;
use kube::core::object::HasStatus;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use weaver_client::call::CallError;

use super::events::Events;
use super::outcome::{Reconciled, TenantWork};
use super::pause::Pause;
use super::permits::Permits;
use super::rate_limit::RateLimit;
use super::report::{Reported, ReportedStatus};
use super::state::{StateEntry, States};
use crate::args::RunOptions;
use crate::counted::CountedMinter;
use crate::metrics::Metrics;
use crate::watch::{Namespaces, ResourceRef, WatchSet};
use weaver_tenant::Tenants;

/// A resource as its watch takes it: one that does not parse is an error of its own and not of the watch.
pub type Guarded<K> = DeserializeGuard<K>;

/// What is done for a kind, and by what it differs from the others.
pub trait Reconcile:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + HasStatus<Status: ReportedStatus>
    + Clone
    + Debug
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
    /// What is remembered of a resource between reconciles. All of it can be lost.
    type Memory: ReconcileMemory<Self::Status> + Default + Send;
    /// What its reconciles need besides what all have.
    type Own: Send + Sync;
    /// What one reconcile found and did as the tenant.
    type Work: TenantWork + Send + Sync;

    /// The kind, as `weaver` calls it.
    const NOUN: &'static str;

    /// Is this label or annotation of a resource read here?
    fn is_read(key: &str) -> bool;

    /// Is the resource, being deleted, to be finalized now?
    fn is_final(_paused: Option<&Pause>) -> bool {
        true
    }

    /// What has to be done before a deleted resource may go.
    fn finalize(
        _context: &Context<Self>,
        _entry: &StateEntry<Self::Memory>,
        _memory: &mut Self::Memory,
        _resource: &Guarded<Self>,
    ) -> impl Future<Output = Result<(), Failure>> + Send {
        async { Ok(()) }
    }

    /// Notes what the resource's metadata asks for, before anything else.
    fn begin(_entry: &StateEntry<Self::Memory>, _memory: &mut Self::Memory, _meta: &ObjectMeta) {}

    /// Looks at everything, plans and acts.
    fn act(
        context: &Context<Self>,
        entry: &StateEntry<Self::Memory>,
        memory: &mut Self::Memory,
        resource: &Self,
    ) -> impl Future<Output = Result<ReconcileStep<Reconciled<Self::Work>>, Failure>> + Send;

    /// What follows from the outcome before it is reported. `paused` is the pause at the beginning.
    fn conclude(
        context: &Context<Self>,
        memory: &mut Self::Memory,
        meta: &ObjectMeta,
        paused: Option<&Pause>,
        outcome: Reconciled<Self::Work>,
    ) -> impl Future<Output = Result<ReconcileStep<Reconciled<Self::Work>>, Failure>> + Send;

    /// The status of the resource after `outcome`.
    fn status(
        context: &Context<Self>,
        before: &Self::Status,
        outcome: &Reconciled<Self::Work>,
        meta: &ObjectMeta,
    ) -> Self::Status;

    /// Publishes what others are to know.
    fn announce(
        context: &Context<Self>,
        meta: &ObjectMeta,
        outcome: &Reconciled<Self::Work>,
        before: &Self::Status,
        now: &Self::Status,
    ) -> impl Future<Output = ()> + Send;
}

/// How a part of a reconcile ended.
#[derive(Debug)]
pub enum ReconcileStep<T> {
    /// With this; the next part follows.
    Done(T),
    /// An event of the resource's own will start another reconcile.
    AwaitChange,
    /// Another reconcile is to follow after this time.
    Again(Duration),
}

/// What the frame itself remembers of each resource.
pub struct Common<S> {
    /// Generation of the last reconcile.
    pub generation: Option<i64>,
    /// How often it may write.
    pub rate_limit: RateLimit,
    /// The status last written.
    pub reported: Reported<S>,
    /// What was last logged of an object that cannot be understood, and its generation then.
    pub parse_failed: Option<(Option<i64>, Vec<String>)>,
}

impl<S> Common<S> {
    /// Of a resource that may write as often as `rate_limit` allows.
    pub fn new(rate_limit: RateLimit) -> Self {
        Self { generation: None, rate_limit, reported: Reported::default(), parse_failed: None }
    }
}

/// What is remembered of a resource.
pub trait ReconcileMemory<S> {
    /// The frame's part of it.
    fn common(&mut self) -> &mut Common<S>;
}

/// Why a reconcile did not end well. What a tenant should know is in the status instead.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The operator's own patch of the resource's status failed.
    #[error("writing the status: {0}")]
    Status(#[source] CallError),
    /// The operator's own patch of the resource's finalizers failed.
    #[error("writing the finalizers: {0}")]
    Finalizer(#[source] CallError),
    /// The resource does not parse and could not be looked at again.
    #[error("reading the resource: {0}")]
    Reading(#[source] CallError),
    /// Copies of a deleted resource could not be removed yet.
    #[error("copies are left: {0}")]
    CleanupPending(String),
}

impl Failure {
    /// Failures of one kind are logged at growing intervals.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Status(failure) | Self::Finalizer(failure) | Self::Reading(failure) => failure.kind(),
            Self::CleanupPending(_) => "clean-up",
        }
    }
}

/// All that a reconcile of a `K` needs; built in one place ([`crate::run`]).
pub struct Context<K: Reconcile> {
    /// The operator's own identity: our kinds and nothing else.
    pub client: Client,
    pub tenants: Arc<Tenants<CountedMinter>>,
    pub watches: WatchSet,
    /// Which namespaces there are, and what is paused.
    pub namespaces: Arc<Namespaces>,
    /// Which resources there are.
    pub store: Store<Guarded<K>>,
    pub events: Events,
    /// What is remembered between reconciles.
    pub states: Arc<States<K::Memory>>,
    pub permits: Permits,
    pub metrics: Arc<Metrics>,
    pub options: RunOptions,
    /// What this kind needs besides.
    pub own: K::Own,
}

impl<K: Reconcile> Context<K> {
    /// Uids of all resources that there are.
    pub fn living(&self) -> BTreeSet<String> {
        self.store.state().iter().filter_map(|resource| resource.uid()).collect()
    }

    /// Notes the status that is about to be written: its event causes no reconciliation.
    pub fn writes(&self, meta: &ObjectMeta, status: &K::Status) {
        let entry = self.states.entry(meta.uid.as_deref().unwrap_or_default(), &ResourceRef::of_meta(meta));
        entry.own_status.lock().writes(status);
    }

    /// Has a resource reconciled, and its failures forgotten: something has changed that may have cured them.
    pub fn reconcile_now(&self, resource: ResourceRef) {
        let reference = ObjectRef::new(&resource.name).within(&resource.namespace);
        if let Some(uid) = self.store.get(&reference).and_then(|known| known.uid()) {
            self.states.reset_failures(&uid);
        }
        self.watches.wake(resource);
    }
}
