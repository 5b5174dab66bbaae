//! A client that acts as one tenant account, and the one place where such clients are made.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{Either, Limited};
use kube::api::Api;
use kube::client::Body;
use kube::core::DynamicResourceScope;
use kube::{Client, Resource};
use parking_lot::{Mutex, MutexGuard};
use secrecy::ExposeSecret as _;
use tower::BoxError;
use weaver_client::call::is_watch;

use super::access_cache::{AccessCache, REMEMBERED};
use super::account::Account;
use super::budget::MemoryBudget;
use super::claims::Claims;
use super::token::{KubeMinter, Mint, MintError, MintedToken, TokenSlot};

/// Most bytes that are read of an answer which ends, 8 MiB: of a list, the metadata of six thousand ordinary
/// objects. One object has no more than three, but who may write many of them decides how long the list is.
const LONGEST_ANSWER: usize = 8 << 20;

/// All accounts that a program acts as.
///
/// [`Tenants::client`] is cheap: one token and one cache of access reviews are kept for each account, until
/// [`Tenants::retain`] drops them.
pub struct Tenants<M = KubeMinter> {
    /// Carries no credential of its own.
    transport: Client,
    minter: Arc<M>,
    rights_last: Duration,
    /// For what is remembered of the rights of all accounts.
    remembered: MemoryBudget,
    held: Mutex<HashMap<Account, CachedAccount<M>>>,
}

/// Cached state of one account.
struct CachedAccount<M> {
    slot: Arc<TokenSlot<M>>,
    /// What is known of its rights, and the uid of the account that has them.
    access: Option<(String, Arc<AccessCache>)>,
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
    /// How long that token is.
    pub token_length: usize,
    /// Where it has rights, as far as it was answered.
    pub access: Arc<AccessCache>,
    client: Client,
}

impl<M: Mint> Tenants<M> {
    /// `transport` must have no credential of its own: a tenant's request would otherwise carry two identities.
    /// What was learnt of an account's rights is used for as long as `rights_last`.
    #[must_use]
    pub fn new(transport: Client, minter: M, rights_last: Duration) -> Self {
        let remembered = MemoryBudget::new(REMEMBERED);
        Self { transport, minter: Arc::new(minter), rights_last, remembered, held: Mutex::default() }
    }

    /// The client of `account`. A token is minted if there is none that is fresh.
    ///
    /// # Errors
    /// If there is no token of it.
    pub async fn client(&self, account: &Account) -> Result<TenantClient, MintError> {
        let slot = self.lock().entry(account.clone()).or_insert_with(|| self.hold(account)).slot.clone();
        let token = slot.current().await?;
        let uid = token.uid.clone();
        let claims = Claims::read(token.secret.expose_secret()).ok();
        let access = {
            let mut all = self.lock();
            let held = all.entry(account.clone()).or_insert_with(|| self.hold(account));
            match &held.access {
                Some((known, access)) if *known == uid => access.clone(),
                // A recreated account has none of the rights of the one before.
                _ => {
                    let (transport, namespace) = (self.transport.clone(), account.namespace.clone());
                    let connect = move || {
                        let (transport, slot) = (transport.clone(), slot.clone());
                        let service = tower::service_fn(move |request| {
                            send_as(transport.clone(), slot.clone(), request)
                        });
                        Client::new(service, namespace.clone())
                    };
                    let share = self.remembered.share(&account.namespace);
                    let access = Arc::new(AccessCache::new(connect, self.rights_last, share));
                    held.access = Some((uid.clone(), access.clone()));
                    access
                }
            }
        };
        let token_length = token.secret.expose_secret().len();
        let client = access.client();
        Ok(TenantClient { account: account.clone(), uid, claims, token_length, access, client })
    }

    /// Wipes the tokens of all accounts but those that are `in_use`, and of these what is remembered for too long.
    pub fn retain(&self, in_use: impl Fn(&Account) -> bool) {
        let mut held = self.lock();
        held.retain(|account, _| in_use(account));
        for (_, access) in held.values().filter_map(|held| held.access.as_ref()) {
            access.forget_expired();
        }
    }

    /// How many accounts there are, and the age of the oldest of their tokens.
    #[must_use]
    pub fn ages(&self) -> (usize, Option<Duration>) {
        let held = self.lock();
        (held.len(), held.values().filter_map(|held| held.slot.age()).max())
    }

    fn hold(&self, account: &Account) -> CachedAccount<M> {
        CachedAccount { slot: Arc::new(TokenSlot::new(account.clone(), self.minter.clone())), access: None }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Account, CachedAccount<M>>> {
        self.held.lock()
    }
}

impl TenantClient {
    /// Objects of a kind in one namespace. `K` is [`DynamicObject`] for any kind, its metadata alone by
    /// [`PartialObjectMeta`], or a type of the program's own.
    ///
    /// [`DynamicObject`]: kube::core::DynamicObject
    /// [`PartialObjectMeta`]: kube::core::PartialObjectMeta
    #[must_use]
    pub fn namespaced<K>(&self, kind: &K::DynamicType, namespace: &str) -> Api<K>
    where
        K: Resource<Scope = DynamicResourceScope>,
    {
        Api::namespaced_with(self.client(), namespace, kind)
    }

    /// Objects of a kind in all namespaces, or of a kind that has none.
    #[must_use]
    pub fn all<K: Resource>(&self, kind: &K::DynamicType) -> Api<K> {
        Api::all_with(self.client(), kind)
    }

    /// For everything else that kube offers.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }
}

/// Sends one request as the tenant; a token that is refused is dropped and the request sent once more.
/// Reading more than [`LONGEST_ANSWER`] of what is no watch fails.
async fn send_as<M: Mint>(
    transport: Client,
    slot: Arc<TokenSlot<M>>,
    request: Request<Body>,
) -> Result<Response<Either<Limited<Body>, Body>>, BoxError> {
    let (parts, body) = request.into_parts();
    let ends = !(parts.method == Method::GET && is_watch(&parts.uri));
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

/// The value is marked as sensitive: `Debug` does not show it, and HTTP/2 keeps it out of the table of headers. The
/// connection's buffers contain copies of it that are not wiped when they are freed, as the [`MintedToken`] is.
fn with_token(mut request: Request<Body>, token: &MintedToken) -> Result<Request<Body>, BoxError> {
    let mut value = HeaderValue::try_from(format!("Bearer {}", token.secret.expose_secret()))
        .map_err(|_| "the API server issued a token that does not fit a header")?;
    value.set_sensitive(true);
    request.headers_mut().insert(AUTHORIZATION, value);
    Ok(request)
}

#[cfg(test)]
mod tests;
