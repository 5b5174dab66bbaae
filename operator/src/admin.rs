//! Serves the metrics to whoever asks on the loopback interface.
//!
//! A port that another program has keeps nobody's configuration from being copied: it is told with the flag that
//! changes it, and tried again.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use tokio::net::TcpListener;
use tracing::{info, warn};
use weaver_api::conditions::READY;

use crate::metrics::{self, Snapshot};
use crate::sync::reconcile::Context;

/// Pause before the port is tried again.
const PAUSE: Duration = Duration::from_mins(1);

/// Serves on `address`, for ever.
pub async fn serve(address: SocketAddr, context: Arc<Context>) {
    let listener = loop {
        match TcpListener::bind(address).await {
            Ok(listener) => break listener,
            Err(error) => {
                warn!(%address, %error, "no metrics: the address cannot be had; pass --metrics ADDR (WEAVER_METRICS), or `none`");
                tokio::time::sleep(PAUSE).await;
            }
        }
    };
    if let Ok(address) = listener.local_addr() {
        info!(%address, "metrics are served at /metrics");
    }
    let metrics = get(move || {
        let context = context.clone();
        async move { ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], context.metrics.text(&snapshot(&context))) }
    });
    if let Err(error) = axum::serve(listener, Router::new().route("/metrics", metrics)).await {
        warn!(%error, "metrics are not served any more");
    }
    std::future::pending::<()>().await;
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
