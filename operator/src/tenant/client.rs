//! A client that acts as one tenant account, and the one place where such clients are made.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{Either, Limited};
use kube::Client;
use kube::api::Api;
use kube::client::Body;
use kube::core::PartialObjectMeta;
use secrecy::ExposeSecret as _;
use tower::BoxError;
use weaver_api::v1beta1::SourceKind;

use super::claims::Claims;
use super::object::Object;
use super::token::{Mint, MintError, Slot, Token};
use crate::metrics::Metrics;

use super::{Account, KubeMinter, Reach};

/// Most bytes that are read of an answer which ends, 8 MiB: of a list, six thousand ordinary copies. Objects have no more
/// than three, but whoever may write many of them decides how long the list is.
const LONGEST_ANSWER: usize = 8 << 20;

/// All tenants that the operator acts as.
pub struct Tenants<M = KubeMinter> {
    /// Carries no credential of its own.
    transport: Client,
    minter: Arc<M>,
    rights_last: Duration,
    metrics: Arc<Metrics>,
    held: Mutex<HashMap<Account, Held<M>>>,
}

/// What is held of one account.
struct Held<M> {
    slot: Arc<Slot<M>>,
    /// What is known of its rights, and the uid of the account that has them.
    reach: Option<(String, Arc<Reach>)>,
}

/// Acts as one `ServiceAccount`; every request carries a token of it.
#[derive(Clone)]
pub struct TenantClient {
    /// Whose rights these are.
    pub account: Account,
    /// Uid of the account when this client was made. A recreated account has another, and gets other watches.
    pub uid: String,
    /// What this account's own token says: it names no audience, so it has those of the API server.
    pub claims: Option<Claims>,
    /// Where it has rights, as it was told.
    pub reach: Arc<Reach>,
    client: Client,
}

impl<M: Mint> Tenants<M> {
    /// `transport` must have no credential of its own: a tenant's request would otherwise carry two identities.
    /// What was learnt of an account's rights is used for as long as `rights_last`.
    #[must_use]
    pub fn new(transport: Client, minter: M, rights_last: Duration, metrics: Arc<Metrics>) -> Self {
        Self { transport, minter: Arc::new(minter), rights_last, metrics, held: Mutex::default() }
    }

    /// The client of `account`.
    ///
    /// # Errors
    /// If no token can be had for it.
    pub async fn client(&self, account: &Account) -> Result<TenantClient, MintError> {
        let slot = self.lock().entry(account.clone()).or_insert_with(|| self.hold(account)).slot.clone();
        let token = slot.current().await?;
        let uid = token.uid.clone();
        let claims = Claims::read(token.secret.expose_secret()).ok();
        let reach = {
            let mut all = self.lock();
            let held = all.entry(account.clone()).or_insert_with(|| self.hold(account));
            match &held.reach {
                Some((known, reach)) if *known == uid => reach.clone(),
                // A recreated account has none of the rights of the one before.
                _ => {
                    let reach = Arc::new(Reach::new(self.rights_last));
                    held.reach = Some((uid.clone(), reach.clone()));
                    reach
                }
            }
        };
        let transport = self.transport.clone();
        let service = tower::service_fn(move |request| send_as(transport.clone(), slot.clone(), request));
        Ok(TenantClient {
            account: account.clone(),
            uid,
            claims,
            reach,
            client: Client::new(service, account.namespace.clone()),
        })
    }

    /// Wipes the tokens of accounts that no resource names any more.
    pub fn retain(&self, in_use: impl Fn(&Account) -> bool) {
        self.lock().retain(|account, _| in_use(account));
    }

    /// How many accounts there are, and the age of the oldest of their tokens.
    #[must_use]
    pub fn ages(&self) -> (usize, Option<Duration>) {
        let held = self.lock();
        (held.len(), held.values().filter_map(|held| held.slot.age()).max())
    }

    fn hold(&self, account: &Account) -> Held<M> {
        Held {
            slot: Arc::new(Slot::new(account.clone(), self.minter.clone(), self.metrics.clone())),
            reach: None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Account, Held<M>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TenantClient {
    /// Whole objects of a namespace, for reading a source and for writing copies.
    #[must_use]
    pub fn objects(&self, kind: SourceKind, namespace: &str) -> Api<Object> {
        Api::namespaced_with(self.client.clone(), namespace, &kind)
    }

    /// Their metadata, for everything else.
    #[must_use]
    pub fn metas(&self, kind: SourceKind, namespace: &str) -> Api<PartialObjectMeta<Object>> {
        Api::namespaced_with(self.client.clone(), namespace, &kind)
    }

    /// The same in all namespaces, where the account may.
    #[must_use]
    pub fn all_metas(&self, kind: SourceKind) -> Api<PartialObjectMeta<Object>> {
        Api::all_with(self.client.clone(), &kind)
    }

    /// For questions about the account's own rights.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }
}

/// Sends one request as the tenant; a token that is refused is dropped and the request sent once more. Reading more than
/// [`LONGEST_ANSWER`] of what is no watch fails.
async fn send_as<M: Mint>(
    transport: Client,
    slot: Arc<Slot<M>>,
    request: Request<Body>,
) -> Result<Response<Either<Limited<Body>, Body>>, BoxError> {
    let (parts, body) = request.into_parts();
    let ends = !(parts.method == Method::GET && is_watch(parts.uri.query()));
    let copy = body.try_clone();
    let token = slot.current().await?;
    let first = transport.send(with_token(Request::from_parts(parts.clone(), body), &token)?).await?;
    let answer = match copy {
        Some(body) if first.status() == StatusCode::UNAUTHORIZED => {
            slot.drop_refused(&token).await;
            let token = slot.current().await?;
            transport.send(with_token(Request::from_parts(parts, body), &token)?).await?
        }
        _ => first,
    };
    let limited = |body| {
        if ends { Either::Left(Limited::new(body, LONGEST_ANSWER)) } else { Either::Right(body) }
    };
    Ok(answer.map(limited))
}

fn is_watch(query: Option<&str>) -> bool {
    query.is_some_and(|query| query.split('&').any(|pair| pair == "watch=true"))
}

/// The value is marked as sensitive: `Debug` does not show it, and HTTP/2 keeps it out of the table of headers. The
/// connection's buffers hold copies of it that are not wiped when they are freed, as the [`Token`] is.
fn with_token(mut request: Request<Body>, token: &Token) -> Result<Request<Body>, BoxError> {
    let mut value = HeaderValue::try_from(format!("Bearer {}", token.secret.expose_secret()))
        .map_err(|_| "the API server issued a token that does not fit a header")?;
    value.set_sensitive(true);
    request.headers_mut().insert(AUTHORIZATION, value);
    Ok(request)
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
