//! The frame of a visit: room, time, and how it ended.

use kube::runtime::controller::Action;
use tokio::time::Instant;

use super::lanes::Lanes;
use crate::metrics::{End, Metrics};

/// Makes a visit of a resource in the namespace `tenant` when there is room, and counts it. Its wait for room is not part
/// of its time.
///
/// # Errors
/// The visit's own.
pub async fn in_turn<E>(
    lanes: &Lanes,
    metrics: &Metrics,
    tenant: &str,
    visit: impl Future<Output = Result<(Action, End), E>>,
) -> Result<Action, E> {
    let _room = lanes.enter(tenant).await;
    let begun = Instant::now();
    let done = visit.await;
    let end = match &done {
        Ok((_, end)) => *end,
        Err(_) => End::Failed,
    };
    metrics.visited(end, begun.elapsed());
    done.map(|(action, _)| action)
}
