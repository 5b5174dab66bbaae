//! What the operator looks up of itself when somebody reads its metrics.

use std::net::SocketAddr;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use weaver_api::conditions::READY;

use crate::metrics::Snapshot;
use crate::metrics_page;
use crate::service_token::reconcile::Context as TokenContext;
use crate::sync::reconcile::Context;

/// Serves the metrics on `address`, for ever.
pub async fn serve(address: SocketAddr, context: Arc<Context>, tokens: Arc<TokenContext>) {
    let remedy = "pass --metrics ADDR (WEAVER_METRICS), or `none`";
    metrics_page::serve(address, remedy, move || context.metrics.text(&snapshot(&context, &tokens))).await;
}

fn snapshot(context: &Context, tokens: &TokenContext) -> Snapshot {
    let mut resources = ByReady::default();
    let (mut synced, mut failed, mut conflicts, mut desired) = (0, 0, 0, 0);
    for guarded in context.store.state() {
        let status = guarded.0.as_ref().ok().and_then(|sync| sync.status.as_ref());
        resources.count(status.map(|status| status.conditions.as_slice()));
        let counts = status.and_then(|status| status.counts).unwrap_or_default();
        synced += i64::from(counts.synced);
        failed += i64::from(counts.failed);
        conflicts += i64::from(counts.conflicts);
        desired += i64::from(counts.desired);
    }
    let waiting = (desired - synced - failed - conflicts).max(0);
    let mut token_resources = ByReady::default();
    let (mut asked, mut fresh) = (0, 0);
    for guarded in tokens.store.state() {
        let status = guarded.0.as_ref().ok().and_then(|token| token.status.as_ref());
        token_resources.count(status.map(|status| status.conditions.as_slice()));
        // Also those that were never looked at.
        let spec = guarded.0.as_ref().ok().and_then(|token| token.desired());
        asked += spec.map_or(0, |spec| i64::try_from(spec.tokens.len()).unwrap_or(i64::MAX));
        let counts = status.and_then(|status| status.counts).unwrap_or_default();
        fresh += i64::from(counts.fresh);
    }
    Snapshot {
        resources: resources.0.to_vec(),
        targets: vec![("synced", synced), ("failed", failed), ("conflict", conflicts), ("waiting", waiting)],
        token_resources: token_resources.0.to_vec(),
        service_tokens: vec![("fresh", fresh), ("missing", (asked - fresh).max(0))],
        watches: sum(context.watches.states(), &tokens.watches.states()),
        waiting: context.lanes.waiting(),
    }
}

/// Resources by the status of `Ready`.
struct ByReady([(&'static str, i64); 3]);

impl Default for ByReady {
    fn default() -> Self {
        Self([("true", 0), ("false", 0), ("unknown", 0)])
    }
}

impl ByReady {
    fn count(&mut self, conditions: Option<&[Condition]>) {
        let ready = conditions.unwrap_or_default().iter().find(|condition| condition.type_ == READY);
        let index = match ready.map(|condition| condition.status.as_str()) {
            Some("True") => 0,
            Some("False") => 1,
            _ => 2,
        };
        self.0[index].1 += 1;
    }
}

fn sum(mut counts: Vec<(&'static str, i64)>, more: &[(&'static str, i64)]) -> Vec<(&'static str, i64)> {
    for (state, count) in &mut counts {
        *count += more.iter().filter(|(other, _)| other == state).map(|(_, more)| more).sum::<i64>();
    }
    counts
}
