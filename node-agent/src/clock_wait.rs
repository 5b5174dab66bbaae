//! Waits for the clock to be set, for a bounded time and only where waiting can
//! help: without a default route no time server can be reached. A route takes a
//! moment to come, and nothing else in the boot waits for it.
//!
//! The mark is the one of systemd-timesyncd. Whether the wait helped is only
//! told: a clock that nobody vouches for is unknown, and unknown stops nothing.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use weaver_diagnostics::finding::{Code, Finding, Place, Remedy, Severity};

use crate::default_route::has_default_route;
use crate::host_root::HostRoot;

/// What systemd-timesyncd leaves once it has set the clock.
pub const MARK: &str = "/run/systemd/timesync/synchronized";
/// How long the default route may take: DHCP through a switch that is still learning what hangs on its port.
const ROUTE_PATIENCE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(100);

/// How the wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// The clock is set.
    Synchronised,
    /// There was no default route for so long: no use in waiting.
    NoRoute(Duration),
    /// Not within this time.
    TooLong(Duration),
}

/// Whether the clock is set.
#[must_use]
pub fn is_synchronised(root: &HostRoot) -> bool {
    root.real(MARK).exists()
}

/// Waits until the clock is set, at most so long.
pub async fn wait(root: &HostRoot, limit: Duration) -> Waited {
    wait_for(root, limit, ROUTE_PATIENCE.min(limit)).await
}

async fn wait_for(root: &HostRoot, limit: Duration, patience: Duration) -> Waited {
    let begun = Instant::now();
    let mut last_route = begun;
    loop {
        if is_synchronised(root) {
            return Waited::Synchronised;
        }
        // Looked at each time: a route that goes away makes the rest pointless.
        if has_default_route(root) {
            last_route = Instant::now();
        } else if last_route.elapsed() >= patience {
            return Waited::NoRoute(patience);
        }
        let left = limit.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return Waited::TooLong(limit);
        }
        sleep(POLL.min(left)).await;
    }
}

impl Waited {
    /// How long a route was waited for in vain.
    pub(crate) const fn without_route(self) -> Duration {
        match self {
            Self::NoRoute(patience) => patience,
            Self::Synchronised | Self::TooLong(_) => Duration::ZERO,
        }
    }

    /// The finding about a clock that nobody vouches for.
    #[must_use]
    pub fn finding(self) -> Option<Finding> {
        let (why, remedy) = match self {
            Self::Synchronised => return None,
            Self::NoRoute(patience) => (
                format!(
                    "there was no default route for {} s, so no time server was waited for",
                    patience.as_secs()
                ),
                "connect the network; check the cable or the Wi-Fi settings",
            ),
            Self::TooLong(limit) => (
                format!("no time server answered within {} s", limit.as_secs()),
                "see why by `timedatectl timesync-status`; a network may let only its own time servers through: \
                 name them under [time] in weaver.toml",
            ),
        };
        Some(not_synchronised(&format!("the clock is not synchronised: {why}"), remedy))
    }
}

/// The finding about a clock that is not set, outside a wait.
#[must_use]
pub fn finding(root: &HostRoot) -> Option<Finding> {
    (!is_synchronised(root)).then(|| {
        let remedy = "connect the network, or see why by `timedatectl timesync-status`";
        not_synchronised("the clock is not synchronised", remedy)
    })
}

fn not_synchronised(message: &str, remedy: &str) -> Finding {
    Finding::new(Code::ClockNotSynchronised, message)
        .milder(Severity::Unknown)
        .saw(Place::file(MARK), "it is not there")
        .remedy(Remedy::new(remedy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::default_route::ROUTES;
    use std::{fs, path::Path};

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
        let none = Waited::NoRoute(patience);
        assert_eq!(wait_for(&root, limit, patience).await, none);
        put(dir.path(), ROUTES, HEAD);
        assert_eq!(wait_for(&root, limit, patience).await, none);
        assert_eq!(wait(&root, Duration::ZERO).await, Waited::NoRoute(Duration::ZERO));
        assert_eq!(none.finding().unwrap().severity(), Severity::Unknown, "it never blocks");
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
            put(dir.path(), MARK, "");
        };
        let (waited, ()) = tokio::join!(wait_for(&root, hour, hour), comes);
        assert_eq!(waited, Waited::Synchronised);
    }

    #[tokio::test]
    async fn the_wait_ends_with_the_mark_or_with_the_limit() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::new(dir.path().to_owned());
        put(dir.path(), ROUTES, &format!("{HEAD}{V4}\n"));
        let limit = Duration::from_millis(20);
        assert_eq!(wait(&root, limit).await, Waited::TooLong(limit));
        assert_eq!(wait(&root, Duration::ZERO).await, Waited::TooLong(Duration::ZERO));
        assert!(finding(&root).is_some());
        let appears = async {
            tokio::task::yield_now().await;
            put(dir.path(), MARK, "");
        };
        let (waited, ()) = tokio::join!(wait(&root, Duration::from_hours(1)), appears);
        assert_eq!(waited, Waited::Synchronised);
        assert_eq!(waited.finding(), None);
        assert_eq!(finding(&root), None);
    }
}
