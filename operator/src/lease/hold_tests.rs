use std::sync::{Arc, Mutex};
use std::time::Instant;

use http::{Method, Request, Response};
use kube::client::Body;
use serde_json::{Value, json};
use tower::BoxError;

use super::*;
use crate::lease::holder::this_process;

/// An API server with one Lease and its preconditions, which takes a time for each request: first it does what it is
/// asked, then it waits.
#[derive(Clone, Default)]
struct Slow(Arc<Mutex<LeaseState>>);

#[derive(Default)]
struct LeaseState {
    lease: Option<Value>,
    version: u64,
    takes: Duration,
    /// The answer to the next write takes so long instead.
    next_write: Option<Duration>,
    asked: Vec<Method>,
}

impl Slow {
    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (parts, body) = request.into_parts();
                let (answer, takes) = server.answer(&parts.method, &body.collect_bytes().await?);
                sleep(takes).await;
                Ok::<_, BoxError>(answer)
            }
        });
        Client::new(service, "default")
    }

    fn answer(&self, method: &Method, body: &[u8]) -> (Response<Body>, Duration) {
        let mut state = self.0.lock().unwrap();
        state.asked.push(method.clone());
        let mut takes = state.takes;
        let result = if *method == Method::GET {
            state.lease.clone().ok_or(404)
        } else {
            let mut lease: Value = serde_json::from_slice(body).unwrap();
            let known = lease["metadata"]["resourceVersion"].clone();
            let is_now = state.lease.as_ref().map(|lease| lease["metadata"]["resourceVersion"].clone());
            if is_now.unwrap_or_default() == known {
                state.version += 1;
                lease["metadata"]["resourceVersion"] = json!(state.version.to_string());
                state.lease = Some(lease.clone());
                takes = state.next_write.take().unwrap_or(takes);
                Ok(lease)
            } else {
                Err(409)
            }
        };
        let (code, body) = match result {
            Ok(lease) => (200, lease),
            Err(code) => (
                code,
                json!({"kind": "Status", "status": "Failure", "code": code, "message": "m", "reason": "r"}),
            ),
        };
        let body = Body::from(serde_json::to_vec(&body).unwrap());
        (Response::builder().status(code).body(body).unwrap(), takes)
    }

    fn set(&self, edit: impl FnOnce(&mut LeaseState)) {
        edit(&mut self.0.lock().unwrap());
    }
}

const EXPIRY: Duration = Duration::from_secs(6);

/// Whether the leader may write, looked at until it is so, or the time is over.
async fn becomes(fence: &Fence, open: bool, within: Duration) -> bool {
    let begun = Instant::now();
    while fence.lets_through() != open {
        if begun.elapsed() > within {
            return false;
        }
        sleep(Duration::from_millis(10)).await;
    }
    true
}

/// Of six seconds: a request may take one, and a renewal is due after four.
#[tokio::test]
async fn a_leader_keeps_its_lease_while_each_answer_is_slow_and_gets_over_one_that_was_lost() {
    let (server, timing) = (Slow::default(), Timing::of(EXPIRY));
    let fence = Fence::closed(timing.deadline);
    let leases =
        Leases::new(server.client(), this_process(), 0, timing, fence.clone(), ProcessHealth::default());
    let mut held = leases.acquire(|_| ()).await.unwrap();
    assert!(fence.lets_through());
    // Slower than a third of the time that a request may take.
    server.set(|state| state.takes = timing.retry * 6 / 10);
    let keeping = async {
        let ending = held.keep().await;
        panic!("it leads no more: {ending}");
    };
    let watching = async {
        // Twice the time of the lease: it was renewed all along, and writes were never blocked.
        assert!(!becomes(&fence, false, EXPIRY * 2).await, "it lost its lease by answers that were slow");
        // Done, and the answer was lost: what is known of the Lease is old.
        server.set(|state| state.next_write = Some(EXPIRY));
        assert!(becomes(&fence, false, EXPIRY * 2).await, "the test shall hold up one renewal");
        assert!(becomes(&fence, true, EXPIRY).await, "it never got over an answer that was lost");
        server.set(|state| state.asked.clear());
        assert!(!becomes(&fence, false, EXPIRY).await);
        // It is renewed by one write each, again.
        let asked = server.0.lock().unwrap().asked.clone();
        assert!(asked.iter().all(|method| *method == Method::PUT), "{asked:?}");
    };
    tokio::select! {
        () = keeping => {}
        () = watching => {}
    }
}
