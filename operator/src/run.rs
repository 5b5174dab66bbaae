//! Wires the parts together and runs them until a signal, or until one of them ends unexpectedly.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use kube::core::PartialObjectMeta;
use kube::runtime::controller::{Action, Config as ControllerConfig};
use kube::runtime::{Controller, WatchStreamExt as _, reflector, watcher};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::admin;
use crate::args::Options;
use crate::connection;
use crate::controller::backoff;
use crate::controller::events::Events;
use crate::controller::lanes::Lanes;
use crate::controller::state::States;
use crate::metrics::{Identity, Metrics};
use crate::service_manager;
use crate::sync::reconcile::{Context, VisitError, reconcile};
use crate::sync::targets::concerns;
use crate::tenant::call::{CallError, call};
use crate::tenant::{KubeMinter, Tenants};
use crate::transport::{self, Connector, Counted, ServerClock};
use crate::watch::{Guarded, NamespaceChange, Namespaces, ResourceRef, Triggers, WatchSet};

/// How often memory of what is gone is dropped.
const HOUSEKEEPING: Duration = Duration::from_mins(1);

const UNREACHABLE: &str = "the API server could not be asked for ConfigMapSyncs";

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
    let tenants = connection::without_credentials(&config);
    let mut connectors =
        (Connector::new(&config).map_err(unusable)?, Connector::new(&tenants).map_err(unusable)?);
    if let (_, Some(connector)) = &connectors
        && !connector.speaks_http2().await.context(UNREACHABLE)?
    {
        warn!("the API server speaks no HTTP/2: each watch has a connection of its own");
        connectors = (None, None);
    }
    let metrics = Arc::<Metrics>::default();
    let clock = ServerClock::default();
    let counted = |identity| Counted { identity, metrics: metrics.clone(), clock: clock.clone() };
    let client = transport::client(&config, connectors.0.as_ref(), counted(Identity::Operator));
    let client = client.map_err(unusable)?;
    let transport = transport::client(&tenants, connectors.1.as_ref(), counted(Identity::Tenant));
    let transport = transport.map_err(unusable)?;
    let resources: Api<Guarded> = Api::all(client.clone());
    call(resources.list(&ListParams::default().limit(1))).await.map_err(|error| {
        let remedy = remedy(&error);
        anyhow::Error::new(error).context(remedy)
    })?;
    service_manager::ready("copying configuration as the tenants that ask for it");

    let triggers = Triggers::default();
    let stop = CancellationToken::new();
    let length = u32::try_from(options.watch.as_secs()).unwrap_or(290);
    let watch_config = watcher::Config::default().timeout(length);
    let (store, writer) = reflector::store();
    // Who set which field is most of an object with many targets, and nobody reads it here.
    let resources = watcher(resources, watch_config.clone())
        .modify(|resource| resource.managed_fields_mut().clear())
        .reflect(writer)
        .applied_objects();
    let controller = Controller::for_stream(resources, store.clone())
        // How many visits there are at once is decided by their lanes.
        .with_config(ControllerConfig::default().concurrency(0))
        .reconcile_on(triggers.stream())
        .graceful_shutdown_on(stop.clone().cancelled_owned());
    let context = Arc::new(Context {
        tenants: Tenants::new(
            transport,
            KubeMinter::new(client.clone(), options.token_lifetime),
            options.watch,
            metrics.clone(),
        ),
        watches: WatchSet::new(triggers.clone(), options.watch, options.retry),
        namespaces: Namespaces::default(),
        store,
        events: Events::new(client.clone()),
        metrics,
        states: States::default(),
        lanes: Lanes::default(),
        client: client.clone(),
        options: options.clone(),
    });
    let controllers = controller.run(reconcile, retry_later, context.clone()).for_each(|done| async {
        if let Err(error @ kube::runtime::controller::Error::QueueError(_)) = done {
            warn!(%error, "watching ConfigMapSyncs");
        }
    });

    let namespaces: Api<PartialObjectMeta<Namespace>> = Api::all(client);
    let events = watcher(namespaces, watch_config).default_backoff();
    let follow = context.namespaces.follow(events, |change| wake_the_concerned(change, &context, &triggers));

    let mut terminate = signal(SignalKind::terminate()).context("installing the SIGTERM handler")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("installing the SIGINT handler")?;
    let mut controllers = std::pin::pin!(controllers);
    tokio::select! {
        () = &mut controllers => bail!("the controller ended unexpectedly"),
        () = follow => bail!("the watch on namespaces ended unexpectedly"),
        () = keep_house(&context) => bail!("housekeeping ended unexpectedly"),
        () = serve_metrics(&context) => bail!("serving the metrics ended unexpectedly"),
        // Beside the controllers, whose task it is to prove alive.
        () = service_manager::feed_watchdog() => bail!("feeding the watchdog ended unexpectedly"),
        _ = terminate.recv() => info!("SIGTERM: finishing visits under way"),
        _ = interrupt.recv() => info!("SIGINT: finishing visits under way"),
    }
    stop.cancel();
    if tokio::time::timeout(Duration::from_secs(10), controllers).await.is_err() {
        warn!("a visit did not end within 10 s and was cut off; its writes carry their preconditions");
    }
    Ok(())
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

/// What to do when `ConfigMapSync`s cannot be listed at the one version that this program works on.
fn remedy(error: &CallError) -> &'static str {
    if error.to_string().contains("conversion webhook") {
        return "objects are still stored at v1alpha1, and the webhook that converts them does not answer: start it, \
                then run `weaver crd migrate`";
    }
    match error {
        CallError::NotFound(_) => {
            "the API server does not serve ConfigMapSyncs at weaver.example.com/v1beta1: run `weaver crd install`"
        }
        CallError::Forbidden(_) => {
            "this account may not list ConfigMapSyncs: apply deploy/rbac/operator.yaml"
        }
        _ => UNREACHABLE,
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

/// Called for the operator's own failures and for clean-ups that wait; what a tenant can cure is in the status.
#[expect(clippy::needless_pass_by_value, reason = "the signature is kube's")]
fn retry_later(sync: Arc<Guarded>, failure: &VisitError, context: Arc<Context>) -> Action {
    let reference = ResourceRef::of(&*sync);
    let entry = context.states.entry(&sync.uid().unwrap_or_default(), &reference);
    let pause = backoff::pause(entry.failed(), context.options.retry, fastrand::f64());
    error!(sync = %reference, error = %failure, retry_in_s = pause.as_secs(), "visit failed");
    Action::requeue(pause)
}

async fn serve_metrics(context: &Arc<Context>) {
    match context.options.metrics.0 {
        Some(address) => admin::serve(address, context.clone()).await,
        None => std::future::pending().await,
    }
}

async fn keep_house(context: &Context) {
    let mut interval = tokio::time::interval(HOUSEKEEPING);
    interval.tick().await;
    loop {
        interval.tick().await;
        context.states.retain(&context.living());
        let accounts = context.states.accounts();
        context.tenants.retain(|account| accounts.contains(account));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;

    #[test]
    fn an_api_server_without_v1beta1_is_told_how_to_get_it() {
        let status = Status::failure("404 page not found", "NotFound").with_code(404).boxed();
        assert!(remedy(&CallError::NotFound(status)).contains("v1beta1: run `weaver crd install`"));
    }
}
