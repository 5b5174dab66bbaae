//! What is counted of the requests and `TokenRequest`s that pass, put around a transport and a minter.

use std::sync::Arc;
use std::task::{Context, Poll};
use weaver_client::call::is_watch;
use weaver_tenant::Account;
use weaver_tenant::token::{FreshToken, KubeMinter, Mint, MintError};
use weaver_tenant::transport::ServerClock;

use futures::future::BoxFuture;
use http::{Method, Request, Response};
use kube::client::Body;
use tower::{Layer, Service};

use crate::health::ProcessHealth;
use crate::metrics::{Metrics, MintOutcome, RequestIdentity};

/// A layer that counts requests, and reads the API server's clock from the answers.
#[derive(Clone)]
pub struct Counted {
    pub identity: RequestIdentity,
    /// Where they are counted.
    pub metrics: Arc<Metrics>,
    pub clock: ServerClock,
    /// What the operator asks for as itself is a sign of life.
    pub health: ProcessHealth,
}

impl<S> Layer<S> for Counted {
    type Service = Counting<S>;

    fn layer(&self, inner: S) -> Counting<S> {
        Counting { counted: self.clone(), inner }
    }
}

/// A service behind [`Counted`].
#[derive(Clone)]
pub struct Counting<S> {
    counted: Counted,
    inner: S,
}

impl<S, B> Service<Request<Body>> for Counting<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response<B>, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (method, watch, counted) =
            (request.method().clone(), is_watch(request.uri()), self.counted.clone());
        if counted.identity == RequestIdentity::Operator && method == Method::GET {
            counted.health.asked(request.uri());
        }
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            let code = answer.as_ref().ok().map(Response::status);
            if let Ok(answer) = &answer {
                counted.clock.read(answer.headers());
            }
            counted.metrics.asked(counted.identity, &method, watch, code);
            answer
        })
    }
}

/// A minter that counts what becomes of its `TokenRequest`s.
pub struct CountedMinter {
    pub minter: KubeMinter,
    /// Where it is counted.
    pub metrics: Arc<Metrics>,
}

impl Mint for CountedMinter {
    async fn mint(&self, account: &Account) -> Result<FreshToken, MintError> {
        let answer = self.minter.mint(account).await;
        self.metrics.minted(match &answer {
            Ok(_) => MintOutcome::Minted,
            Err(MintError::AccountMissing(_)) => MintOutcome::Missing,
            Err(MintError::Forbidden(_)) => MintOutcome::Forbidden,
            Err(MintError::Failed { .. }) => MintOutcome::Failed,
        });
        answer
    }
}
