//! Waits for the clock to be set, for a bounded time and only where waiting can help: without a default route no time
//! server can be reached. A route takes a moment to appear, and nothing else in the boot waits for it.
//!
//! The mark is the one of systemd-timesyncd. Whether the wait helped is only reported: a clock that was not
//! synchronised is unknown, and unknown stops nothing.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use weaver_diagnostics::host::board::{CLOCK_MARK, ClockSync};

use crate::facts::network::default_route;
use crate::host_root::HostRoot;

/// How long the default route may take: DHCP through a switch that is still learning what is connected to its port.
const ROUTE_PATIENCE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(100);

/// Whether the clock is set.
pub fn is_synchronised(root: &HostRoot) -> bool {
    root.exists(CLOCK_MARK)
}

/// The same at this moment, to be judged.
pub fn at_once(root: &HostRoot) -> ClockSync {
    if is_synchronised(root) { ClockSync::Set } else { ClockSync::NotSet }
}

/// Waits until the clock is set, at most so long.
pub async fn wait(root: &HostRoot, limit: Duration) -> ClockSync {
    wait_for(root, limit, ROUTE_PATIENCE.min(limit)).await
}

async fn wait_for(root: &HostRoot, limit: Duration, patience: Duration) -> ClockSync {
    let begun = Instant::now();
    let mut last_route = begun;
    loop {
        if is_synchronised(root) {
            return ClockSync::Set;
        }
        // Checked each time: without a route the rest of the wait is pointless.
        if default_route(root).is_some() {
            last_route = Instant::now();
        } else if last_route.elapsed() >= patience {
            return ClockSync::NoRoute(patience);
        }
        let left = limit.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return ClockSync::NoAnswer(limit);
        }
        sleep(POLL.min(left)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, path::Path};
    use weaver_diagnostics::host::network::ROUTES;

    const V4: &str = "eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0";
    const HEAD: &str = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n";

    fn put(dir: &Path, path: &str, text: &str) {
        let path = dir.join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[tokio::test]
    async fn without_a_route_no_time_server_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::new(dir.path().to_owned());
        let (limit, patience) = (Duration::from_hours(1), Duration::from_millis(20));
        let none = ClockSync::NoRoute(patience);
        assert_eq!(wait_for(&root, limit, patience).await, none);
        put(dir.path(), ROUTES, HEAD);
        assert_eq!(wait_for(&root, limit, patience).await, none);
        assert_eq!(wait(&root, Duration::ZERO).await, ClockSync::NoRoute(Duration::ZERO));
    }

    #[tokio::test]
    async fn a_route_that_comes_late_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::new(dir.path().to_owned());
        let hour = Duration::from_hours(1);
        let comes = async {
            tokio::task::yield_now().await;
            put(dir.path(), ROUTES, &format!("{HEAD}{V4}\n"));
            sleep(POLL * 2).await;
            put(dir.path(), CLOCK_MARK, "");
        };
        let (waited, ()) = tokio::join!(wait_for(&root, hour, hour), comes);
        assert_eq!(waited, ClockSync::Set);
    }

    #[tokio::test]
    async fn the_wait_ends_with_the_mark_or_with_the_limit() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::new(dir.path().to_owned());
        put(dir.path(), ROUTES, &format!("{HEAD}{V4}\n"));
        let limit = Duration::from_millis(20);
        assert_eq!(wait(&root, limit).await, ClockSync::NoAnswer(limit));
        assert_eq!(wait(&root, Duration::ZERO).await, ClockSync::NoAnswer(Duration::ZERO));
        assert_eq!(at_once(&root), ClockSync::NotSet);
        let appears = async {
            tokio::task::yield_now().await;
            put(dir.path(), CLOCK_MARK, "");
        };
        let (waited, ()) = tokio::join!(wait(&root, Duration::from_hours(1)), appears);
        assert_eq!(waited, ClockSync::Set);
        assert_eq!(at_once(&root), ClockSync::Set);
    }
}
