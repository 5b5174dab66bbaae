//! Wires the parts together and runs them until a signal, or until one of them ends unexpectedly.

use std::fmt::Debug;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use futures::{Stream, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ListParams};
use kube::core::{DeserializeGuard, PartialObjectMeta};
use kube::runtime::controller::{self, Config as ControllerConfig};
use kube::runtime::reflector::Store;
use kube::runtime::{Controller, WatchStreamExt as _, reflector, watcher};
use kube::{Client, Config, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use weaver_api::v1beta1::{ConfigMapSync, ServiceToken};

use crate::admin;
use crate::args::Options;
use crate::connection;
use crate::controller::events::Events;
use crate::controller::state::States;
use crate::lease::fence::Fence;
use crate::lease::hold::Leases;
use crate::lease::lead::Lead;
use crate::lease::plan::Timing;
use crate::metrics::{Identity, Metrics};
use crate::service_manager;
use crate::service_token::reconcile::{Context as TokenContext, TokenState};
use crate::signals::Signals;
use crate::sync::reconcile::Context;
use crate::sync::state::SyncState;
use crate::sync::targets::concerns;
use crate::tenant::call::{CallError, call};
use crate::tenant::{KubeMinter, Tenants};
use crate::transport::{self, Connector, Counted, ServerClock};
use crate::watch::{NamespaceChange, Namespaces, ResourceRef, Triggers, WatchSet};

/// How often memory of what is gone is dropped.
const HOUSEKEEPING: Duration = Duration::from_mins(1);

/// Longest time for one write of the lease.
const LEASE_ANSWER: Duration = Duration::from_secs(10);

const UNREACHABLE: &str = "the API server could not be asked for our kinds";

/// A kubeconfig that stays unusable until somebody changes it: starting the operator again is of no use.
///
/// One that is not there (yet) is another matter, and so is a server that does not answer.
#[derive(Debug, thiserror::Error)]
#[error("starting it again does not cure this")]
pub struct NeedsHuman;

/// Runs the controllers until SIGTERM or SIGINT.
///
/// # Errors
/// If the kubeconfig cannot be used, and then a [`NeedsHuman`] is in the error where that is so; if the API server
/// does not know our kinds, or a part ends unexpectedly.
pub async fn run(options: Options) -> anyhow::Result<()> {
    let config = connection::config(options.kubeconfig.as_deref(), options.watch).await;
    let config = config.map_err(unusable)?;
    info!(server = %config.cluster_url, version = env!("CARGO_PKG_VERSION"), "starting");
    let timing = Timing::of(options.lease);
    let (fence, metrics, clock) =
        (Fence::closed(timing.deadline), Arc::<Metrics>::default(), ServerClock::default());
    let [client, transport, leases] = clients(&config, &fence, &metrics, &clock).await?;
    is_served::<ConfigMapSync>(&client).await?;
    // Those who copy do not wait for a right that they do not need; its watch tries again and again.
    if let Err(error) = is_served::<ServiceToken>(&client).await {
        warn!("ServiceTokens are not looked after: {error:#}");
    }
    let mut signals = Signals::install().context("installing the handlers of signals")?;
    let leases = Leases::new(leases, timing, fence.clone());
    // Whoever waits is well.
    service_manager::ready("waiting for its lease");
    let mut lead = tokio::select! {
        lead = Lead::take(options.standalone, leases, &fence, waits_for) => lead.map_err(no_lease)?,
        () = service_manager::feed_watchdog() => bail!("feeding the watchdog ended unexpectedly"),
        signal = signals.next() => {
            info!("{signal} before this operator had its turn");
            return Ok(());
        }
    };
    service_manager::ready("serving the tenants that ask for it");

    let triggers = Triggers::default();
    let stop = CancellationToken::new();
    let length = u32::try_from(options.watch.as_secs()).unwrap_or(290);
    let watch_config = watcher::Config::default().timeout(length);
    let states = Arc::<States<SyncState>>::default();
    let forget = states.clone();
    let (syncs, store) =
        controller::<ConfigMapSync>(&client, &watch_config, &triggers, &stop, move |uid| forget.forget(uid));
    let minter = KubeMinter::new(client.clone(), options.token_lifetime);
    let context = Arc::new(Context {
        tenants: Arc::new(Tenants::new(transport, minter, options.watch, metrics.clone())),
        watches: WatchSet::new(triggers.clone(), options.watch, options.retry),
        namespaces: Namespaces::default(),
        store,
        events: Events::new(client.clone()),
        metrics,
        states,
        lanes: Arc::default(),
        client: client.clone(),
        options: options.clone(),
    });
    let syncs = logged(syncs.run(
        crate::sync::reconcile::reconcile,
        crate::sync::reconcile::retry_later,
        context.clone(),
    ));
    let wakes = Triggers::default();
    let token_states = Arc::<States<TokenState>>::default();
    let forget = token_states.clone();
    let (tokens, store) =
        controller::<ServiceToken>(&client, &watch_config, &wakes, &stop, move |uid| forget.forget(uid));
    let token_context = Arc::new(TokenContext {
        tenants: context.tenants.clone(),
        watches: WatchSet::new(wakes, options.watch, options.retry),
        store,
        events: context.events.clone(),
        states: token_states,
        lanes: context.lanes.clone(),
        metrics: context.metrics.clone(),
        client: client.clone(),
        clock,
        options,
    });
    let tokens = logged(tokens.run(
        crate::service_token::reconcile::reconcile,
        crate::service_token::reconcile::retry_later,
        token_context.clone(),
    ));

    let namespaces: Api<PartialObjectMeta<Namespace>> = Api::all(client);
    let events = watcher(namespaces, watch_config).default_backoff();
    let follow = context.namespaces.follow(events, |change| wake_the_concerned(change, &context, &triggers));

    let (mut syncs, mut tokens) = (std::pin::pin!(syncs), std::pin::pin!(tokens));
    tokio::select! {
        () = &mut syncs => bail!("the controller of ConfigMapSyncs ended unexpectedly"),
        () = &mut tokens => bail!("the controller of ServiceTokens ended unexpectedly"),
        () = follow => bail!("the watch on namespaces ended unexpectedly"),
        () = keep_house(&context, &token_context) => bail!("housekeeping ended unexpectedly"),
        () = serve_metrics(&context, &token_context) => bail!("serving the metrics ended unexpectedly"),
        // Beside the controllers, whose task it is to prove alive.
        () = service_manager::feed_watchdog() => bail!("feeding the watchdog ended unexpectedly"),
        lost = lead.keep() => return Err(lost.into()),
        signal = signals.next() => info!("{signal}: finishing visits under way"),
    }
    stop.cancel();
    if tokio::time::timeout(Duration::from_secs(10), futures::future::join(syncs, tokens)).await.is_err() {
        warn!("a visit did not end within 10 s and was cut off; its writes carry their preconditions");
    }
    lead.release().await;
    Ok(())
}

fn waits_for(holder: &str) {
    info!(%holder, "another operator leads; waiting for its lease");
    service_manager::ready(&format!("waiting: {holder} leads"));
}

fn no_lease(error: CallError) -> anyhow::Error {
    let remedy = "no lease is to be had: apply deploy/rbac/operator.yaml (its namespace, its Role), or run with --standalone";
    anyhow::Error::new(error).context(remedy)
}

/// The operator's own client, the one that all tenants share, and the one for the lease, which no fence holds up.
async fn clients(
    config: &Config,
    fence: &Fence,
    metrics: &Arc<Metrics>,
    clock: &ServerClock,
) -> anyhow::Result<[Client; 3]> {
    let tenants = connection::without_credentials(config);
    let mut connectors =
        [Connector::new(config).map_err(unusable)?, Connector::new(&tenants).map_err(unusable)?];
    if let [_, Some(connector)] = &connectors
        && !connector.speaks_http2().await.context(UNREACHABLE)?
    {
        warn!("the API server speaks no HTTP/2: each watch has a connection of its own");
        connectors = [None, None];
    }
    let [own, shared] = &connectors;
    let client = |config, connector: &Option<Connector>, identity, fence: &Fence| {
        let counted = Counted { identity, metrics: metrics.clone(), clock: clock.clone() };
        transport::client(config, connector.as_ref(), counted, fence).map_err(unusable)
    };
    Ok([
        client(config, own, Identity::Operator, fence)?,
        client(&tenants, shared, Identity::Tenant, fence)?,
        client(config, own, Identity::Lease, &Fence::opened(LEASE_ANSWER))?,
    ])
}

/// Marks a failure of the kubeconfig that time does not cure: all but a file that is missing or cannot be read now.
fn unusable(error: anyhow::Error) -> anyhow::Error {
    let may_pass = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>()).any(|cause| {
        use io::ErrorKind::{InvalidData, InvalidInput, IsADirectory, NotADirectory, PermissionDenied};
        let stays = [InvalidData, InvalidInput, IsADirectory, NotADirectory, PermissionDenied];
        !stays.contains(&cause.kind())
    });
    if may_pass { error } else { error.context(NeedsHuman) }
}

/// One of our kinds, as a controller takes it.
trait Ours: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static {}

impl<K> Ours for K where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

/// Fails, with what to do, where the API server does not let this program list its kind.
async fn is_served<K: Ours>(client: &Client) -> anyhow::Result<()> {
    let resources: Api<DeserializeGuard<K>> = Api::all(client.clone());
    match call(resources.list(&ListParams::default().limit(1))).await {
        Ok(_) => Ok(()),
        Err(error) => {
            let remedy = remedy(&error, &K::kind(&()));
            Err(anyhow::Error::new(error).context(remedy))
        }
    }
}

/// A controller of the kind `K`, also woken by `triggers`, and what it knows of the kind. `forget` is called with the uid of
/// what is gone.
fn controller<K: Ours>(
    client: &Client,
    config: &watcher::Config,
    triggers: &Triggers,
    stop: &CancellationToken,
    forget: impl Fn(&str) + Send + 'static,
) -> (Controller<DeserializeGuard<K>>, Store<DeserializeGuard<K>>) {
    let (store, writer) = reflector::store();
    // Who set which field is most of an object with many targets, and nobody reads it here.
    let resources = watcher(Api::all(client.clone()), config.clone())
        .modify(|resource: &mut DeserializeGuard<K>| resource.managed_fields_mut().clear())
        .reflect(writer)
        .inspect_ok(move |event| {
            if let watcher::Event::Delete(gone) = event {
                forget(gone.meta().uid.as_deref().unwrap_or_default());
            }
        })
        .applied_objects();
    let controller = Controller::for_stream(resources, store.clone())
        // How many visits there are at once is decided by their lanes.
        .with_config(ControllerConfig::default().concurrency(0))
        .reconcile_on(triggers.stream())
        .graceful_shutdown_on(stop.clone().cancelled_owned());
    (controller, store)
}

/// Drains a controller's results; failed visits have been logged where they are put off.
async fn logged<T, E, Q>(results: impl Stream<Item = Result<T, controller::Error<E, Q>>>)
where
    E: std::error::Error + 'static,
    Q: std::error::Error + 'static,
{
    let mut results = std::pin::pin!(results);
    while let Some(done) = results.next().await {
        if let Err(error @ controller::Error::QueueError(_)) = done {
            warn!(%error, "watching our kinds");
        }
    }
}

/// What to do when a kind of ours cannot be listed at the one version that this program works on.
fn remedy(error: &CallError, kind: &str) -> String {
    if error.to_string().contains("conversion webhook") {
        return format!(
            "{kind}s are still stored at v1alpha1, and the webhook that converts them does not answer: start it, then run \
             `weaver crd migrate`"
        );
    }
    match error {
        CallError::NotFound(_) => {
            format!(
                "the API server does not serve {kind}s at weaver.example.com/v1beta1: run `weaver crd install`"
            )
        }
        CallError::Forbidden(_) => {
            format!("this account may not list {kind}s: apply deploy/rbac/operator.yaml")
        }
        _ => UNREACHABLE.to_owned(),
    }
}

fn wake_the_concerned(change: NamespaceChange<'_>, context: &Context, triggers: &Triggers) {
    for guarded in context.store.state() {
        let Ok(sync) = &guarded.0 else { continue };
        if concerns(sync, change) {
            let reference = ResourceRef::of(sync);
            context.states.forgive(&reference);
            triggers.fire(reference);
        }
    }
}

async fn serve_metrics(context: &Arc<Context>, tokens: &Arc<TokenContext>) {
    match context.options.metrics.0 {
        Some(address) => admin::serve(address, context.clone(), tokens.clone()).await,
        None => std::future::pending().await,
    }
}

async fn keep_house(context: &Context, tokens: &TokenContext) {
    let mut interval = tokio::time::interval(HOUSEKEEPING);
    interval.tick().await;
    loop {
        interval.tick().await;
        context.states.retain(&context.living());
        tokens.states.retain(&tokens.living());
        let (accounts, writers) = (context.states.accounts(), tokens.states.accounts());
        context.tenants.retain(|account| accounts.contains(account) || writers.contains(account));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;

    #[test]
    fn an_api_server_without_v1beta1_is_told_how_to_get_it() {
        let status = Status::failure("404 page not found", "NotFound").with_code(404).boxed();
        assert!(
            remedy(&CallError::NotFound(status), "ConfigMapSync")
                .contains("v1beta1: run `weaver crd install`")
        );
    }
}
