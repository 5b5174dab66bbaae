//! Notifies systemd that the agent is ready and alive.
//!
//! What the watchdog proves: the runtime runs, and the keeper of the gate has begun a round within its bound. A keeper
//! that hangs is restarted by systemd; a bad finding, or an API server that does not answer, is no hang. The file of
//! the state is touched with each sign of life, so that the card's page can detect that the agent has ended.

use std::{path::PathBuf, time::Duration};

use sd_notify::NotifyState;
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;
use tracing::warn;
use weaver_host::service_manager;

use crate::publish::touch;

/// When the keeper was last seen at work.
#[derive(Debug, Clone)]
pub struct KeeperHeartbeat(watch::Sender<Option<Instant>>);

impl KeeperHeartbeat {
    /// The state of a keeper that has not begun.
    pub fn new() -> Self {
        Self(watch::Sender::new(None))
    }

    /// It is at work now.
    pub fn beat(&self) {
        self.0.send_replace(Some(Instant::now()));
    }
}

/// Notifies systemd that the agent is ready once the keeper has begun; then feeds the watchdog, where systemd has one,
/// at half of its time while the keeper was at work within `bound`.
pub async fn tell(
    heartbeat: KeeperHeartbeat,
    bound: Duration,
    state_file: PathBuf,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let limit = sd_notify::watchdog_enabled();
    let work = async {
        let said = |state| drop(sd_notify::notify(&[state]));
        heartbeat.0.subscribe().wait_for(Option::is_some).await?;
        said(NotifyState::Ready);
        let fed = || {
            // Without the file, the host shows no page. It is in memory, so nothing waits for a disk.
            touch(&state_file);
            said(NotifyState::Watchdog);
        };
        feed(&heartbeat, bound, limit, fed).await;
        anyhow::Ok(())
    };
    tokio::select! {
        ended = work => ended,
        () = stop.cancelled() => Ok(()),
    }
}

async fn feed(heartbeat: &KeeperHeartbeat, bound: Duration, limit: Option<Duration>, mut fed: impl FnMut()) {
    let mut was_alive = true;
    service_manager::feed(limit, || {
        let is_alive = heartbeat.0.borrow().is_some_and(|last| last.elapsed() <= bound);
        if is_alive {
            fed();
        } else if was_alive {
            warn!("no check has started for more than {} s: watchdog notifications stopped", bound.as_secs());
        }
        was_alive = is_alive;
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::{sleep, timeout};

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_fed_at_half_of_its_time_while_the_keeper_works() {
        for (limit, want) in [(Some(10), 12), (Some(60), 2), (Some(0), 0), (None, 0)] {
            let heartbeat = KeeperHeartbeat::new();
            let mut count = 0;
            let keeper = async {
                loop {
                    heartbeat.beat();
                    sleep(seconds(20)).await;
                }
            };
            let feeding = feed(&heartbeat, seconds(25), limit.map(seconds), || count += 1);
            let both = async { tokio::join!(keeper, feeding) };
            // Neither ends by itself.
            assert!(timeout(seconds(59), both).await.is_err());
            assert_eq!(count, want, "{limit:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_keeper_that_hangs_is_not_fed_for_and_one_that_comes_back_is() {
        let heartbeat = KeeperHeartbeat::new();
        let (fed, mut count) = (std::cell::Cell::new(0), 0);
        let feeding = feed(&heartbeat, seconds(25), Some(seconds(10)), || fed.set(fed.get() + 1));
        let mut feeding = std::pin::pin!(feeding);
        let mut passes = async |time| {
            assert!(timeout(seconds(time), feeding.as_mut()).await.is_err());
            fed.get() - std::mem::replace(&mut count, fed.get())
        };
        assert_eq!(passes(9).await, 0, "it has not begun");
        heartbeat.beat();
        assert!(passes(24).await >= 4);
        assert!(passes(30).await <= 1);
        assert_eq!(passes(60).await, 0);
        heartbeat.beat();
        assert!(passes(11).await >= 2);
    }
}
