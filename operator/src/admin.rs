//! What the operator says of itself when someone asks: `/metrics`, `/livez` and `/readyz`, of a candidate as of
//! a leader.

use std::hash::Hash;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use axum::Json;
use axum::http::StatusCode;
use axum::routing::get;
use futures::FutureExt as _;
use kube::Resource;
use kube::core::object::HasStatus;
use kube::runtime::reflector::Store;
use tracing::error;
use weaver_api::v1beta1::{ConfigMapSyncStatus, MAX_GENERATED, ResourceSync, ServiceTokenSpec};
use weaver_tenant::watch::WatchState;

use crate::controller::kept::readiness;
use crate::controller::pause::Pause;
use crate::health::{self, HealthReport, LeaderReport, Leadership, OwnWatch, ProcessHealth};
use crate::lease::fence::Fence;
use crate::log_code;
use crate::metrics::{self, Gauges, Metrics};
use crate::service_token::Context as TokenContext;
use crate::sync::Context;
use crate::sync::declared::Declares;
use weaver_host::metrics_page;

/// Who answers; a clone is the same one.
#[derive(Clone)]
pub struct Admin {
    metrics: Arc<Metrics>,
    health: ProcessHealth,
    /// The leader may not write while it is closed.
    fence: Fence,
    /// What it works with, once it is the leader.
    work: Arc<OnceLock<Leads>>,
}

/// What a leader works with.
pub struct Leads {
    pub syncs: Arc<Context>,
    pub resources: Arc<Context<ResourceSync>>,
    pub tokens: Arc<TokenContext>,
}

impl Admin {
    /// For a process that does not lead yet.
    pub fn new(metrics: Arc<Metrics>, health: ProcessHealth, fence: Fence) -> Self {
        Self { metrics, health, fence, work: Arc::default() }
    }

    /// This process is the leader from now on.
    pub fn leads(&self, work: Leads) {
        // There is one lead in the life of a process.
        let _ = self.work.set(work);
    }

    /// Serves it all on `address`, forever.
    pub async fn serve(&self, address: Option<SocketAddr>) {
        let Some(address) = address else { return std::future::pending().await };
        let (metrics, live, ready) = (self.clone(), self.clone(), self.clone());
        let pages = metrics_page::page(move || metrics.text())
            .route("/livez", get(move || async move { answer(|report| report.alive, live.report()) }))
            .route("/readyz", get(move || async move { answer(|report| report.ready, ready.report()) }));
        metrics_page::serve(address, "pass --metrics ADDR (WEAVER_METRICS), or `none`", pages).await;
    }

    pub fn report(&self) -> HealthReport {
        let work = self.work.get().map(work);
        health::report(self.health.leadership(), self.health.loops(), work)
    }

    /// Does every loop come round? One that does not is named in the log.
    pub fn is_alive(&self) -> bool {
        let report = self.report();
        if !report.alive {
            error!(
                code = log_code::WATCHDOG_NOT_FED, trouble = %report.trouble.join("; "),
                "watchdog notifications stopped"
            );
        }
        report.alive
    }

    fn text(&self) -> String {
        let work = self.work.get().map(snapshot);
        let leads = matches!(self.health.leadership(), Leadership::Leading | Leadership::Standalone);
        let leading = leads && self.fence.lets_through();
        self.metrics.text(&Gauges { leading, ..work.unwrap_or_default() })
    }
}

fn answer(is_well: impl Fn(&HealthReport) -> bool, report: HealthReport) -> (StatusCode, Json<HealthReport>) {
    let code = if is_well(&report) { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, Json(report))
}

fn work(leads: &Leads) -> LeaderReport {
    let Leads { syncs: context, resources, tokens } = leads;
    let own = |kind, synced, needed| OwnWatch { kind, synced, needed };
    let (accounts, oldest) = context.tenants.ages();
    LeaderReport {
        watches: vec![
            own("configmapsyncs", is_ready(&context.store), true),
            // Those who copy do not wait for a kind that they do not need.
            own("resourcesyncs", is_ready(&resources.store), false),
            own("servicetokens", is_ready(&tokens.store), false),
            own("namespaces", context.namespaces.is_synced(), true),
        ],
        tenant_watches: by_state(leads).into_iter().collect(),
        reconciliations: context.permits.reconciliations(),
        accounts,
        oldest_token_seconds: oldest.map(|age| age.as_secs()),
        paused: Pause::of_all(&context.namespaces).map(|pause| pause.reason),
    }
}

/// Is its first list complete?
fn is_ready<K>(store: &Store<K>) -> bool
where
    K: Resource + Clone + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    matches!(store.wait_until_ready().now_or_never(), Some(Ok(())))
}

fn snapshot(leads: &Leads) -> Gauges {
    let Leads { syncs: context, tokens, .. } = leads;
    let mut resources = ByReady::default();
    let (mut synced, mut failed, mut conflicts, mut desired) = (0, 0, 0, 0);
    let mut count = |readiness: &'static str, status: Option<&ConfigMapSyncStatus>| {
        resources.count(readiness);
        let counts = status.and_then(|status| status.counts).unwrap_or_default();
        synced += i64::from(counts.synced);
        failed += i64::from(counts.failed);
        conflicts += i64::from(counts.conflicts);
        desired += i64::from(counts.desired);
    };
    each(&leads.syncs, &mut count);
    each(&leads.resources, &mut count);
    let waiting = (desired - synced - failed - conflicts).max(0);
    let mut token_resources = ByReady::default();
    let (mut fresh, mut missing) = (0_i64, 0_i64);
    for guarded in tokens.store.state() {
        let status = guarded.0.as_ref().ok().and_then(|token| token.status.as_ref());
        token_resources.count(readiness(&guarded, &tokens.states));
        // Also those that were never reconciled, but not paused ones.
        let is_paused = Pause::of(guarded.meta(), &tokens.namespaces).is_some();
        let spec = guarded.0.as_ref().ok().and_then(|token| token.desired()).filter(|_| !is_paused);
        let counts = status.and_then(|status| status.counts).unwrap_or_default();
        let here = if is_paused { 0 } else { i64::from(counts.fresh) };
        fresh += here;
        // Of each by itself: what one has to spare is nothing to another.
        missing += (spec.map_or(0, asked) - here).max(0);
    }
    Gauges {
        resources: resources.0.to_vec(),
        targets: metrics::TARGET_STATES.into_iter().zip([synced, failed, conflicts, waiting]).collect(),
        token_resources: token_resources.0.to_vec(),
        service_tokens: metrics::TOKEN_STATES.into_iter().zip([fresh, missing]).collect(),
        watches: by_state(leads),
        waiting: i64::try_from(context.permits.waiting()).unwrap_or(i64::MAX),
        paused: Pause::of_all(&context.namespaces).is_some(),
        leading: false,
    }
}

/// Shows `count` each resource that asks for copies, with its status if it has one. Those of which only the name is kept
/// are shown without: it would take a read of each.
fn each<K: Declares>(
    context: &Context<K>,
    count: &mut impl FnMut(&'static str, Option<&ConfigMapSyncStatus>),
) {
    for guarded in context.store.state() {
        let status = guarded.0.as_ref().ok().and_then(HasStatus::status);
        count(readiness(&guarded, &context.states), status);
    }
}

/// How many tokens a spec asks for.
fn asked(spec: &ServiceTokenSpec) -> i64 {
    let generated = spec.generate.as_ref().map_or(0, |generate| generate.count.clamp(0, MAX_GENERATED));
    i64::try_from(spec.tokens.len()).unwrap_or(i64::MAX).saturating_add(generated.into())
}

struct ByReady([(&'static str, i64); 4]);

impl Default for ByReady {
    fn default() -> Self {
        Self(metrics::READY.map(|ready| (ready, 0)))
    }
}

impl ByReady {
    fn count(&mut self, readiness: &str) {
        for (_, count) in self.0.iter_mut().filter(|(ready, _)| *ready == readiness) {
            *count += 1;
        }
    }
}

/// How many watches of tenants there are in each of [`metrics::WATCH_STATES`].
fn by_state(leads: &Leads) -> Vec<(&'static str, i64)> {
    let Leads { syncs, resources, tokens } = leads;
    let all = [syncs.watches.states(), resources.watches.states(), tokens.watches.states()];
    let mut counts = metrics::WATCH_STATES.map(|state| (state, 0));
    for state in all.into_iter().flatten() {
        let index = match state {
            WatchState::Listing => 0,
            WatchState::Up => 1,
            WatchState::Refused => 2,
            WatchState::TooLarge | WatchState::Failed => 3,
        };
        counts[index].1 += 1;
    }
    counts.to_vec()
}
