//! The pauses of a watch that fails.
//!
//! kube's own back-off starts over with each `Ok` item, and a watcher yields [`Event::Init`] before each list,
//! so a list that is refused would be repeated each second, forever. Here the pause starts over only after what
//! proves a watch: a change that it reported, or an attempt that lasted [`LASTED`]. A watch that ends by itself
//! yields nothing, and starts again without a pause.
//!
//! What the API server denies is not cured by asking again: after a 403, or a list that is too large to be
//! read, the pauses of a tenant's watch are minutes. Who learns of a granted right asks for a retry
//! ([`WatchBackoff::again`]).

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, Stream, StreamExt as _};
use kube::runtime::watcher::{Error, Event};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};
use weaver_client::call::is_too_large;

/// Pause after the first failure.
const SHORTEST: Duration = Duration::from_millis(500);

/// Pause after the first denial; and no retry that was asked for comes sooner.
const FIRST_DENIED: Duration = Duration::from_secs(5);

/// Longest pause after a denial.
pub const LONGEST_DENIED: Duration = Duration::from_mins(5);

/// An attempt that lasted so long was a watch and no refusal, however slow the API server is.
const LASTED: Duration = Duration::from_mins(1);

/// The API server has said that this may not be watched.
#[must_use]
pub fn is_refused(error: &Error) -> bool {
    match error {
        Error::InitialListFailed(error) | Error::WatchStartFailed(error) | Error::WatchFailed(error) => {
            matches!(error, kube::Error::Api(status) if status.is_forbidden())
        }
        Error::WatchError(status) => status.is_forbidden(),
        Error::NoResourceVersion => false,
    }
}

/// How long a watch that fails is left alone; a clone is the same one.
#[derive(Clone)]
pub struct WatchBackoff {
    longest: Duration,
    denied: [Duration; 2],
    lists: Option<Arc<Semaphore>>,
    /// Ends a pause of more than [`FIRST_DENIED`].
    pub(super) again: Arc<Notify>,
}

impl WatchBackoff {
    /// Pauses up to `longest`, whatever the reason of the failure: for a program's own watches.
    #[must_use]
    pub fn up_to(longest: Duration) -> Self {
        Self { longest, denied: [SHORTEST, longest], lists: None, again: Arc::default() }
    }

    /// Of a tenant's watch: pauses up to `longest`, and longer ones after a denial. Each list takes one of the permits.
    pub(super) fn of_tenant(longest: Duration, lists: Arc<Semaphore>) -> Self {
        let denied = [FIRST_DENIED, LONGEST_DENIED.max(longest)];
        Self { longest, denied, lists: Some(lists), again: Arc::default() }
    }
}

/// Failures in a row, and since when the present attempt lasts.
struct Attempts {
    failures: u32,
    since: Instant,
}

impl Attempts {
    /// The pause after an attempt that failed `now`; it is up to a quarter shorter by `chance` (0..1), so that
    /// watches that failed together do not return together.
    fn failed(&mut self, backoff: &WatchBackoff, denied: bool, now: Instant, chance: f64) -> Duration {
        if now.saturating_duration_since(self.since) >= LASTED {
            self.failures = 0;
        }
        let [first, longest] = if denied { backoff.denied } else { [SHORTEST, backoff.longest] };
        let pause = first.saturating_mul(1 << self.failures.min(16)).min(longest);
        self.failures = self.failures.saturating_add(1);
        pause.mul_f64(1.0 - 0.25 * chance)
    }
}

struct WatchRun<S> {
    events: Pin<Box<S>>,
    backoff: WatchBackoff,
    attempts: Attempts,
    pause: Option<Duration>,
    list: Option<OwnedSemaphorePermit>,
}

/// The events of a watcher, with pauses after its failures.
pub fn with_backoff<K, S>(
    events: S,
    backoff: WatchBackoff,
) -> impl Stream<Item = Result<Event<K>, Error>> + Send
where
    K: Send + 'static,
    S: Stream<Item = Result<Event<K>, Error>> + Send + 'static,
{
    let attempts = Attempts { failures: 0, since: Instant::now() };
    let run = WatchRun { events: Box::pin(events), backoff, attempts, pause: None, list: None };
    stream::unfold(run, |mut run| async move {
        if let Some(pause) = run.pause.take() {
            rest(pause, &run.backoff.again).await;
            run.attempts.since = Instant::now();
        }
        let event = run.events.next().await?;
        match &event {
            // The list follows.
            Ok(Event::Init) => {
                run.list = match &run.backoff.lists {
                    // No one closes it.
                    Some(lists) => lists.clone().acquire_owned().await.ok(),
                    None => None,
                };
                run.attempts.since = Instant::now();
            }
            Ok(Event::InitApply(_)) => {}
            Ok(Event::InitDone) => run.list = None,
            Ok(Event::Apply(_) | Event::Delete(_)) => run.attempts.failures = 0,
            Err(error) => {
                run.list = None;
                let denied = is_refused(error) || is_too_large(error);
                let pause = run.attempts.failed(&run.backoff, denied, Instant::now(), fastrand::f64());
                run.pause = Some(pause);
            }
        }
        Some((event, run))
    })
}

async fn rest(pause: Duration, again: &Notify) {
    let now = Instant::now();
    let sooner = async {
        sleep_until(now + FIRST_DENIED).await;
        again.notified().await;
    };
    tokio::select! {
        () = sleep_until(now + pause) => {}
        () = sooner => {}
    }
}

#[cfg(test)]
mod tests;
