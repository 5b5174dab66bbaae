//! What is sent to systemd: that the process is ready, and again and again that it is alive.
//!
//! Where systemd did not start the process, nothing is sent; where a message is lost, that is logged at `debug` and
//! the next one follows.
//!
//! What the watchdog proves: [`feed_watchdog`] runs as a branch of the same `select!` as the work, so it is fed
//! only while that task comes round; and each time it first lets the runtime's other threads run a task of their
//! own, as reconciliations and connections do. A loop that blocks or spins, a runtime without a free thread and
//! a stopped process are found; and, where `is_alive` says so, one that waits for what never comes. What it
//! does *not* prove: that the API server answers or that a reconciliation succeeds. Those have deadlines of
//! their own, and a restart would cure neither.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::{MissedTickBehavior, interval};
use tracing::debug;

/// Tells systemd that the process does its work; `status` is what `systemctl status` shows.
pub fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// Feeds the watchdog at half of the time that systemd gives (`WATCHDOG_USEC`), while `is_alive` says so. Never ends.
pub async fn feed_watchdog(is_alive: impl Fn() -> bool) {
    feed(sd_notify::watchdog_enabled(), || {
        if is_alive() {
            tell(&[NotifyState::Watchdog]);
        }
    })
    .await;
}

/// Calls `fed` at half of the time that systemd gives, if it gives any. Never ends.
pub async fn feed(limit: Option<Duration>, mut fed: impl FnMut()) {
    let half = limit.map(|limit| limit / 2).filter(|half| !half.is_zero());
    let Some(half) = half else { return std::future::pending().await };
    let mut ticks = interval(half);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        // Its end is awaited without a limit: if no thread is free, the watchdog gets no ping.
        if tokio::spawn(async {}).await.is_ok() {
            fed();
        }
    }
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        debug!(%error, "notifying systemd");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Arc, mpsc};

    use tokio::time::{sleep, timeout};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_is_fed_at_half_the_time_that_is_given_and_not_where_none_is() {
        for (limit, expected) in [(Some(2), 10), (Some(10), 2), (Some(0), 0), (None, 0)] {
            let (limit, mut count) = (limit.map(Duration::from_secs), 0);
            // It never ends by itself.
            assert!(timeout(Duration::from_millis(9_999), feed(limit, || count += 1)).await.is_err());
            assert_eq!(count, expected, "{limit:?}");
        }
    }

    #[test]
    fn a_runtime_without_a_free_thread_is_not_fed_for() {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
        let (release, blocked) = mpsc::channel::<()>();
        let (says_begun, begun) = tokio::sync::oneshot::channel();
        let count = Arc::new(AtomicU32::new(0));
        runtime.block_on(async {
            let worker = tokio::spawn(async move {
                says_begun.send(()).unwrap();
                // Blocks the one worker until the test lets go of it.
                blocked.recv().unwrap_err();
            });
            begun.await.unwrap();
            let counted = Arc::clone(&count);
            let feeding = feed(Some(Duration::from_millis(2)), || {
                counted.fetch_add(1, Ordering::SeqCst);
            });
            let mut feeding = std::pin::pin!(feeding);
            // The first meal is due at once, without a timer, which that one worker would have to drive.
            for _ in 0..100 {
                assert!(futures::poll!(feeding.as_mut()).is_pending());
                assert_eq!(count.load(Ordering::SeqCst), 0, "fed while nothing could run");
            }
            drop(release);
            worker.await.unwrap();
            let fed = async {
                while count.load(Ordering::SeqCst) < 3 {
                    sleep(Duration::from_millis(1)).await;
                }
            };
            tokio::select! {
                () = feeding => {}
                fed = timeout(Duration::from_secs(30), fed) => fed.unwrap(),
            }
        });
    }
}
