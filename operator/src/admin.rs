//! What the operator looks up of itself when somebody reads its metrics.

use std::net::SocketAddr;
use std::sync::Arc;

use weaver_api::conditions::READY;

use crate::metrics::Snapshot;
use crate::metrics_page;
use crate::sync::reconcile::Context;

/// Serves the metrics on `address`, for ever.
pub async fn serve(address: SocketAddr, context: Arc<Context>) {
    let remedy = "pass --metrics ADDR (WEAVER_METRICS), or `none`";
    metrics_page::serve(address, remedy, move || context.metrics.text(&snapshot(&context))).await;
}

fn snapshot(context: &Context) -> Snapshot {
    let (mut ready, mut not_ready, mut unknown) = (0, 0, 0);
    let (mut synced, mut failed, mut conflicts, mut desired) = (0, 0, 0, 0);
    for guarded in context.store.state() {
        let status = guarded.0.as_ref().ok().and_then(|sync| sync.status.as_ref());
        let conditions = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
        let of_ready = conditions.iter().find(|condition| condition.type_ == READY);
        *match of_ready.map(|condition| condition.status.as_str()) {
            Some("True") => &mut ready,
            Some("False") => &mut not_ready,
            _ => &mut unknown,
        } += 1;
        let counts = status.and_then(|status| status.counts).unwrap_or_default();
        synced += i64::from(counts.synced);
        failed += i64::from(counts.failed);
        conflicts += i64::from(counts.conflicts);
        desired += i64::from(counts.desired);
    }
    let waiting = (desired - synced - failed - conflicts).max(0);
    Snapshot {
        resources: vec![("true", ready), ("false", not_ready), ("unknown", unknown)],
        targets: vec![("synced", synced), ("failed", failed), ("conflict", conflicts), ("waiting", waiting)],
        watches: context.watches.states(),
        waiting: context.lanes.waiting(),
    }
}
