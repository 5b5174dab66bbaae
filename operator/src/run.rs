//! Wires the parts together and runs them until a signal, or until one of them ends unexpectedly.

use std::cmp::Ordering;
use std::fs;
use std::future::ready;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use futures::StreamExt as _;
use kube::{Client, Config};
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use tower::ServiceBuilder;
use tracing::{info, warn};
use weaver_api::v1beta1::{ConfigMapSync, ResourceSync, ServiceToken};
use weaver_client::call::CallError;
use weaver_client::{connection, managed_fields};
use weaver_diagnostics::kubeconfig::usable;
use weaver_tenant::Tenants;
use weaver_tenant::token::KubeMinter;
use weaver_tenant::transport::{self, Connector, ServerClock};

use crate::NeedsHuman;
use crate::admin::{Admin, Leads};
use crate::args::RunOptions;
use crate::controller::events::Events;
use crate::controller::frame;
use crate::controller::kind::{Context, Reconcile};
use crate::controller::permits::Permits;
use crate::controller::state::States;
use crate::controllers::{OperatorWatches, UNREACHABLE, are_served, wake_the_concerned};
use crate::counted::{Counted, CountedMinter};
use crate::health::{Leadership, LoopHeartbeat, ProcessHealth};
use crate::lease::fence::Fence;
use crate::lease::hold::{Ending, Holder, Leases};
use crate::lease::holder::this_process;
use crate::lease::lead::Lead;
use crate::lease::plan::Timing;
use crate::log_code;
use crate::metrics::{Metrics, RequestIdentity};
use crate::sync::kinds::SyncServices;
use crate::sync::reactions;
use crate::trust::TrustFile;
use crate::user_agent;
use crate::watch::{CopyWatches, LIMITS, NamespaceChange, Namespaces, Triggers, WatchSet};
use weaver_host::service_manager;
use weaver_host::signals::Signals;

/// How often memory of what is gone is dropped.
const HOUSEKEEPING: Duration = Duration::from_mins(1);

/// Longest time for one write of the lease.
const LEASE_ANSWER: Duration = Duration::from_secs(10);

/// A kubeconfig that is not there (yet) is another matter, and so is a server that does not answer.
const FIX_KUBECONFIG: NeedsHuman = NeedsHuman("a restart does not help; fix the kubeconfig (--kubeconfig)");

/// Runs the controllers until SIGTERM or SIGINT.
///
/// # Errors
/// If the kubeconfig cannot be used, and then a [`NeedsHuman`] is in the error where that is so; if the API server
/// does not serve ConfigMapSyncs, or a part ends unexpectedly.
pub async fn run(options: RunOptions) -> anyhow::Result<()> {
    let trust = TrustFile::read(options.kubeconfig.as_deref());
    let process = this_process();
    let agent = user_agent(&process.0);
    let config = config(options.kubeconfig.as_deref(), options.watch, &agent).await.map_err(unusable)?;
    info!(code = log_code::STARTING, server = %config.cluster_url, version = env!("CARGO_PKG_VERSION"), "starting");
    let timing = Timing::of(options.lease);
    let (fence, metrics, health) =
        (Fence::closed(timing.deadline), Arc::<Metrics>::default(), ProcessHealth::default());
    let clock = ServerClock::default();
    let seen = |identity| Counted {
        identity,
        metrics: metrics.clone(),
        clock: clock.clone(),
        health: health.clone(),
    };
    let [client, transport, leases] = clients(&config, &fence, seen).await?;
    are_served(&client, &options.namespaces).await?;
    let mut signals = Signals::install().context("installing the handlers of signals")?;
    let admin = Admin::new(metrics.clone(), health.clone(), fence.clone());
    let leases = Leases::new(leases, process, options.priority, timing, fence.clone(), health.clone());
    // Anyone who waits is well.
    service_manager::ready("waiting for its lease");
    let address = options.metrics.0;
    let work = async {
        let waits = |holder: Holder<'_>| waits_for(&health, options.priority, holder);
        let lead = tokio::select! {
            lead = Lead::take(options.standalone, leases.clone(), &fence, waits) => lead.map_err(no_lease)?,
            replaced = trust.replaced() => return Err(replaced.into()),
            signal = signals.next() => {
                info!(code = log_code::STOPPING, "{signal} before this operator became the leader");
                if !options.standalone {
                    leases.withdraw().await;
                }
                return Ok(());
            }
        };
        health.set_leadership(if options.standalone { Leadership::Standalone } else { Leadership::Leading });
        service_manager::ready("reconciling");
        let means =
            Means { client, transport, metrics, clock: clock.clone(), health: health.clone(), options };
        Box::pin(work(means, lead, &admin, &trust, &mut signals)).await
    };
    tokio::select! {
        done = work => done,
        () = admin.serve(address) => bail!("serving metrics and health ended unexpectedly"),
        // In the task of the controllers, which it is to prove alive.
        () = service_manager::feed_watchdog(|| admin.is_alive()) => bail!("watchdog notifications ended unexpectedly"),
    }
}

/// What the work is done with.
struct Means {
    client: Client,
    /// What all tenants share.
    transport: Client,
    metrics: Arc<Metrics>,
    clock: ServerClock,
    health: ProcessHealth,
    options: RunOptions,
}

/// Works until a signal, or until another process is the leader.
async fn work(
    means: Means,
    mut lead: Lead,
    admin: &Admin,
    trust: &TrustFile,
    signals: &mut Signals,
) -> anyhow::Result<()> {
    let Means { client, transport, metrics, clock, health, options } = means;
    let stop = CancellationToken::new();
    let own = OperatorWatches::new(client.clone(), options.namespaces.clone(), options.watch, health.clone());
    let minter = KubeMinter::new(client.clone(), options.token_lifetime);
    let minter = CountedMinter { minter, metrics: metrics.clone() };
    let shared = SharedParts {
        tenants: Arc::new(Tenants::new(transport, minter, options.watch)),
        namespaces: Arc::new(Namespaces::of(options.namespaces.clone())),
        events: Events::new(client.clone()),
        permits: Permits::default(),
        client,
        metrics,
        options,
    };
    let (syncs, context) = controller(&own, &shared, &stop, SyncServices::default());
    let (resources, resource_context) =
        controller::<ResourceSync>(&own, &shared, &stop, SyncServices::default());
    let (tokens, token_context) = controller::<ServiceToken>(&own, &shared, &stop, clock);

    let wake =
        |change: NamespaceChange<'_>| wake_the_concerned(change, &context, &resource_context, &token_context);
    let follow = context.namespaces.follow(own.namespaces(), wake);
    let housekeeping = health.heartbeat("housekeeping", HOUSEKEEPING * 3);
    admin.leads(Leads {
        syncs: context.clone(),
        resources: resource_context.clone(),
        tokens: token_context.clone(),
    });

    let (mut syncs, mut tokens) = (std::pin::pin!(syncs), std::pin::pin!(tokens));
    let mut resources = std::pin::pin!(resources);
    let mut end = Ok(());
    tokio::select! {
        () = &mut syncs => bail!("the controller of ConfigMapSyncs ended unexpectedly"),
        () = &mut resources => bail!("the controller of ResourceSyncs ended unexpectedly"),
        () = &mut tokens => bail!("the controller of ServiceTokens ended unexpectedly"),
        () = reactions::run(&context) => bail!("the access checks ended unexpectedly"),
        () = reactions::run(&resource_context) => bail!("the access checks ended unexpectedly"),
        () = follow => bail!("the watch on namespaces ended unexpectedly"),
        () = keep_house(&context, &resource_context, &token_context, &housekeeping) => bail!("housekeeping ended unexpectedly"),
        ending = lead.keep() => match ending {
            lost @ Ending::Lost(_) => return Err(lost.into()),
            yielded @ Ending::Yielded(_) => warn!(code = log_code::STOPPING, "{yielded}: finishing running reconciliations"),
            // So that anyone who comes next need not wait for it to expire.
            went_back @ Ending::WentBack => {
                lead.release().await;
                return Err(went_back.into());
            }
        },
        replaced = trust.replaced() => {
            warn!(code = log_code::STOPPING, "{replaced}: finishing running reconciliations");
            end = Err(replaced.into());
        }
        signal = signals.next() => info!(code = log_code::STOPPING, "{signal}: finishing running reconciliations"),
    }
    stop.cancel();
    finished(futures::future::join3(syncs, resources, tokens)).await;
    lead.release().await;
    end
}

/// Gives running reconciliations their time.
async fn finished(controllers: impl Future) {
    if tokio::time::timeout(Duration::from_secs(10), controllers).await.is_err() {
        warn!(
            code = log_code::RECONCILIATION_ABORTED,
            "a reconciliation did not end within 10 s and was aborted; its writes have preconditions"
        );
    }
}

/// What the controllers share.
struct SharedParts {
    client: Client,
    tenants: Arc<Tenants<CountedMinter>>,
    namespaces: Arc<Namespaces>,
    events: Events,
    permits: Permits,
    metrics: Arc<Metrics>,
    options: RunOptions,
}

/// The controller of a kind, and what its reconciles have.
fn controller<K: Reconcile + Serialize>(
    watches: &OperatorWatches,
    shared: &SharedParts,
    stop: &CancellationToken,
    own: K::Own,
) -> (impl Future<Output = ()> + use<K>, Arc<Context<K>>) {
    let SharedParts { client, tenants, namespaces, events, permits, metrics, options } = shared;
    let triggers = Triggers::default();
    let states = Arc::<States<K::Memory>>::default();
    let (controller, store) = watches.controller::<K>(&triggers, stop, &states, permits);
    let context = Arc::new(Context {
        client: client.clone(),
        tenants: tenants.clone(),
        watches: WatchSet::new(CopyWatches::new(triggers), options.watch, options.retry, LIMITS),
        namespaces: namespaces.clone(),
        store,
        events: events.clone(),
        states,
        permits: permits.clone(),
        metrics: metrics.clone(),
        options: options.clone(),
        own,
    });
    // What fails is logged where it is put off.
    let results = controller.run(frame::reconcile, frame::error_policy, context.clone());
    (results.for_each(|_| ready(())), context)
}

fn waits_for(health: &ProcessHealth, priority: i32, Holder { name: holder, priority: theirs }: Holder<'_>) {
    health.set_leadership(Leadership::Waiting { holder: holder.to_owned() });
    match theirs.cmp(&priority) {
        Ordering::Less => {
            info!(
                code = log_code::LEASE_AWAITED, %holder, theirs, priority,
                "another operator is the leader; waiting for the lease, which it gives up at its next renewal"
            );
        }
        // Anyone who started two without a thought is to know it.
        Ordering::Equal => {
            warn!(
                code = log_code::LEASE_AWAITED, %holder, priority,
                "another operator is the leader; waiting for the lease, since both have the same priority: \
                 --priority N with a higher N takes over"
            );
        }
        Ordering::Greater => {
            info!(
                code = log_code::LEASE_AWAITED, %holder, theirs, priority,
                "another operator is the leader; waiting for the lease, since its priority is higher"
            );
        }
    }
    service_manager::ready(&format!("waiting: {holder} leads"));
}

fn no_lease(error: CallError) -> anyhow::Error {
    let remedy = "the lease is not available: apply deploy/rbac/operator.yaml (its namespace, its Role), or run with --standalone";
    anyhow::Error::new(error).context(remedy)
}

/// The operator's own client, the one that all tenants share, and the one for the lease, which no fence blocks. None of
/// them gives `managedFields`, often half of an object: nothing here reads or keeps it.
async fn clients(
    config: &Config,
    fence: &Fence,
    seen: impl Fn(RequestIdentity) -> Counted,
) -> anyhow::Result<[Client; 3]> {
    let tenants = connection::without_credentials(config);
    let connector = |config| Connector::new(config).map_err(|error| unusable(error.into()));
    let mut connectors = [connector(config)?, connector(&tenants)?];
    if let [_, Some(connector)] = &connectors
        && !connector.speaks_http2().await.context(UNREACHABLE)?
    {
        warn!(
            code = log_code::NO_HTTP2,
            "the API server does not support HTTP/2: each watch uses its own connection"
        );
        connectors = [None, None];
    }
    let [own, shared] = &connectors;
    let client = |config, connector: &Option<Connector>, identity, fence: &Fence| {
        let layer = ServiceBuilder::new()
            .layer(fence.clone())
            .layer(seen(identity))
            .map_response(managed_fields::removed_from);
        transport::client(config, connector.as_ref(), &layer).map_err(|error| unusable(error.into()))
    };
    Ok([
        client(config, own, RequestIdentity::Operator, fence)?,
        client(&tenants, shared, RequestIdentity::Tenant, fence)?,
        client(config, own, RequestIdentity::Lease, &Fence::opened(LEASE_ANSWER))?,
    ])
}

async fn config(kubeconfig: Option<&Path>, watch: Duration, agent: &str) -> anyhow::Result<Config> {
    if let Some(path) = kubeconfig {
        let shown = path.display();
        let bytes = fs::read(path).with_context(|| format!("cannot read the kubeconfig {shown}"))?;
        usable(&shown.to_string(), &bytes, None)?;
    }
    connection::config(kubeconfig, None, watch, agent).await
}

/// Marks a failure of the kubeconfig that retrying does not fix: all but a file that is missing or cannot be read now.
fn unusable(error: anyhow::Error) -> anyhow::Error {
    let may_pass = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>()).any(|cause| {
        use io::ErrorKind::{InvalidData, InvalidInput, IsADirectory, NotADirectory, PermissionDenied};
        let stays = [InvalidData, InvalidInput, IsADirectory, NotADirectory, PermissionDenied];
        !stays.contains(&cause.kind())
    });
    if may_pass { error } else { error.context(FIX_KUBECONFIG) }
}

async fn keep_house(
    context: &Context<ConfigMapSync>,
    resources: &Context<ResourceSync>,
    tokens: &Context<ServiceToken>,
    heartbeat: &LoopHeartbeat,
) {
    let mut interval = tokio::time::interval(HOUSEKEEPING);
    interval.tick().await;
    loop {
        interval.tick().await;
        heartbeat.beat();
        context.permits.reclaim();
        context.states.retain(&context.living());
        resources.states.retain(&resources.living());
        tokens.states.retain(&tokens.living());
        let used = [context.states.accounts(), resources.states.accounts(), tokens.states.accounts()];
        context.tenants.retain(|account| used.iter().any(|accounts| accounts.contains(account)));
    }
}
