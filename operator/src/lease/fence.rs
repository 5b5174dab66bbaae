//! Stops writes of a process that does not lead, below any retry: each attempt of each request is judged when
//! it is sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use weaver_tenant::transport::SendGate;

use futures::future::BoxFuture;
use http::{Method, Request};
use kube::client::Body;
use nix::time::{ClockId, clock_gettime};
use tokio::time::{sleep, timeout};
use tower::{BoxError, Layer, Service};

/// Between two looks whether writes under way have ended.
const POLL: Duration = Duration::from_millis(50);

/// A write is not sent.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the lease was not renewed in time: no writes until it is")]
pub struct NotLeading;

/// Time since the boot, suspension included; two of one machine can be compared.
#[expect(clippy::expect_used, reason = "every kernel since 2.6.39 has this clock")]
pub fn since_boot() -> Duration {
    clock_gettime(ClockId::CLOCK_BOOTTIME).expect("the kernel has a clock of the time since the boot").into()
}

/// Until when writes are let through; a clone is the same one.
#[derive(Clone, Debug)]
pub struct Fence {
    /// In milliseconds since the boot.
    until: Arc<AtomicU64>,
    /// Writes under way, and until when the effect of one may show that was given up.
    under_way: Arc<AtomicUsize>,
    in_doubt: Arc<AtomicU64>,
    deadline: Duration,
}

impl Fence {
    /// Lets nothing through yet; a write that is let through takes no longer than `deadline`.
    pub fn closed(deadline: Duration) -> Self {
        Self { until: Arc::default(), under_way: Arc::default(), in_doubt: Arc::default(), deadline }
    }

    /// Opens it without a limit of time, until it is closed.
    pub fn open(&self) {
        self.until.store(u64::MAX, Ordering::SeqCst);
    }

    /// One that is open forever.
    pub fn opened(deadline: Duration) -> Self {
        let fence = Self::closed(deadline);
        fence.open();
        fence
    }

    /// Opens it until then.
    pub fn open_until(&self, time: Duration) {
        self.until.store(u64::try_from(time.as_millis()).unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    /// Lets nothing through any more.
    pub fn close(&self) {
        self.until.store(0, Ordering::SeqCst);
    }

    /// May a write be sent now?
    pub fn lets_through(&self) -> bool {
        let now = since_boot();
        !now.is_zero() && u128::from(self.until.load(Ordering::SeqCst)) > now.as_millis()
    }

    /// Closes it, and waits for what has passed; whether all of that is known to be over.
    pub async fn drain(&self) -> bool {
        self.close();
        let begun = since_boot();
        while self.under_way.load(Ordering::SeqCst) > 0 && since_boot().saturating_sub(begun) < self.deadline
        {
            sleep(POLL).await;
        }
        let in_doubt = u128::from(self.in_doubt.load(Ordering::SeqCst)) > since_boot().as_millis();
        self.under_way.load(Ordering::SeqCst) == 0 && !in_doubt
    }

    /// A write is under way until this is dropped.
    fn pass(&self) -> InFlightWrite {
        self.under_way.fetch_add(1, Ordering::SeqCst);
        InFlightWrite(self.under_way.clone())
    }

    /// A write was given up, and the API server may do it yet.
    fn doubt(&self) {
        let until = u64::try_from((since_boot() + self.deadline).as_millis()).unwrap_or(u64::MAX);
        self.in_doubt.fetch_max(until, Ordering::SeqCst);
    }
}

/// A write under way.
struct InFlightWrite(Arc<AtomicUsize>);

impl Drop for InFlightWrite {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl<S> Layer<S> for Fence {
    type Service = Fenced<S>;

    fn layer(&self, inner: S) -> Fenced<S> {
        Fenced { fence: self.clone(), inner }
    }
}

/// A service behind a [`Fence`].
#[derive(Clone)]
pub struct Fenced<S> {
    fence: Fence,
    inner: S,
}

impl<S> Service<Request<Body>> for Fenced<S>
where
    S: Service<Request<Body>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    S::Response: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<S::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let reads = [Method::GET, Method::HEAD].contains(request.method());
        if reads {
            let answer = self.inner.call(request);
            return Box::pin(async move { answer.await.map_err(Into::into) });
        }
        if !self.fence.lets_through() {
            return Box::pin(std::future::ready(Err(NotLeading.into())));
        }
        // It may yet wait for a connection, and is judged again when it is sent.
        let fence = self.fence.clone();
        let again = move || if fence.lets_through() { Ok(()) } else { Err(NotLeading.into()) };
        request.extensions_mut().insert(SendGate::new(again));
        let (fence, pass, answer) = (self.fence.clone(), self.fence.pass(), self.inner.call(request));
        Box::pin(async move {
            let answer = timeout(fence.deadline, answer).await;
            if answer.is_err() {
                fence.doubt();
            }
            drop(pass);
            match answer {
                Ok(answer) => answer.map_err(Into::into),
                Err(_) => Err(format!("no answer to a write within {:?}", fence.deadline).into()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use tower::ServiceExt as _;

    use super::*;

    async fn sent(fence: &Fence, method: Method, takes: Duration) -> Result<(), String> {
        let service = fence.layer(tower::service_fn(move |_: Request<Body>| async move {
            tokio::time::sleep(takes).await;
            Ok::<_, BoxError>(())
        }));
        let request = Request::builder().method(method).body(Body::empty()).unwrap();
        service.oneshot(request).await.map_err(|error| error.to_string())
    }

    #[tokio::test(start_paused = true)]
    async fn only_reads_pass_a_closed_fence() {
        let fence = Fence::closed(Duration::from_secs(5));
        let writes = [Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
        let mut passed = Vec::new();
        for method in writes.iter().chain([&Method::GET]) {
            if sent(&fence, method.clone(), Duration::ZERO).await.is_ok() {
                passed.push(method.clone());
            }
        }
        assert_eq!(passed, [Method::GET]);
        let message = sent(&fence, Method::PUT, Duration::ZERO).await.unwrap_err();
        assert!(message.contains("the lease was not renewed in time"), "{message}");
        fence.open_until(since_boot() + Duration::from_mins(1));
        for method in writes {
            assert_eq!(sent(&fence, method, Duration::ZERO).await, Ok(()));
        }
        fence.open_until(since_boot().saturating_sub(Duration::from_millis(1)));
        assert!(sent(&fence, Method::POST, Duration::ZERO).await.is_err());
        fence.open();
        assert_eq!(sent(&fence, Method::POST, Duration::ZERO).await, Ok(()));
        fence.close();
        assert!(sent(&fence, Method::DELETE, Duration::ZERO).await.is_err());
    }

    #[tokio::test]
    async fn what_is_under_way_is_waited_for_and_what_was_given_up_is_in_doubt() {
        let fence = Fence::opened(Duration::from_millis(300));
        let (sending, draining) = (sent(&fence, Method::PUT, Duration::from_millis(100)), fence.drain());
        let (sent_one, is_over) = futures::join!(sending, draining);
        assert_eq!((sent_one, is_over), (Ok(()), true));
        assert!(sent(&fence, Method::PUT, Duration::ZERO).await.is_err(), "it is closed");
        fence.open();
        assert!(sent(&fence, Method::PUT, Duration::from_secs(9)).await.is_err());
        assert!(!fence.drain().await, "whether the last one is done is not known");
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_ends_in_time_and_a_read_has_its_own() {
        let fence = Fence::closed(Duration::from_secs(5));
        fence.open();
        let slow = Duration::from_secs(6);
        assert_eq!(sent(&fence, Method::PUT, slow).await.unwrap_err(), "no answer to a write within 5s");
        assert_eq!(sent(&fence, Method::GET, slow).await, Ok(()));
    }
}
