//! Tokens of one tenant account: minted by `TokenRequest`, renewed early, dropped when refused.
//!
//! A [`TokenSlot`] holds at most one token. Callers that need one while none is fresh share a single request
//! (the slot's lock is held across it). Renewal is due at 70 to 80 % of the *returned* lifetime, counted from
//! receipt on a monotonic clock, so a wrong wall clock on either side does no harm. While a renewal fails, a
//! token that still lives is used on.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, PostParams};
use kube::core::Status;
use secrecy::SecretString;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use weaver_client::call::{CallError, DEADLINE, is_terminating};

use super::account::Account;

/// Why there is no token.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum MintError {
    /// The account does not exist.
    #[error("{0} does not exist")]
    AccountMissing(Account),
    /// The operator has not been allowed to act as this account.
    #[error("the operator may not mint tokens for {0}")]
    Forbidden(Account),
    /// The API server could not be asked, or refused for another reason.
    #[error("minting a token for {account} failed: {reason}")]
    Failed {
        /// The account for which a token was asked.
        account: Account,
        /// What the API server or the transport said; never contains a token.
        reason: String,
    },
}

/// A request that waits for a token fails with what kept the token from being minted, and is worth another try.
impl From<MintError> for CallError {
    fn from(error: MintError) -> Self {
        Self::Transient(error.to_string())
    }
}

/// A fresh token and what is known of it.
#[derive(Debug)]
pub struct FreshToken {
    /// Uid of the account that the token is of.
    pub uid: String,
    /// The token, a signed JWT; `Debug` does not show it.
    pub secret: SecretString,
    /// How long it lives, counted from its issue.
    pub lifetime: Duration,
}

/// Source of tokens. A trait, so that another way to act as a tenant (constrained impersonation, Kubernetes
/// 1.36) fits, and so that the cache can be tested without a server.
pub trait Mint: Send + Sync + 'static {
    /// Mints a token for `account`.
    fn mint(&self, account: &Account) -> impl Future<Output = Result<FreshToken, MintError>> + Send;
}

/// Mints through the API server, as the operator.
pub struct KubeMinter {
    client: kube::Client,
    lifetime: Duration,
}

impl KubeMinter {
    /// A minter of tokens that live `lifetime` (≥ 600 s).
    #[must_use]
    pub fn new(client: kube::Client, lifetime: Duration) -> Self {
        Self { client, lifetime }
    }
}

impl Mint for KubeMinter {
    async fn mint(&self, account: &Account) -> Result<FreshToken, MintError> {
        let spec = TokenRequestSpec {
            expiration_seconds: Some(i64::try_from(self.lifetime.as_secs()).unwrap_or(i64::MAX)),
            ..TokenRequestSpec::default()
        };
        request(&self.client, account, spec).await
    }
}

/// Asks for one token of `account`, as the operator whose client it is.
///
/// # Errors
/// If there is none.
#[expect(
    clippy::useless_conversion,
    reason = "which fields are optional depends on the version of Kubernetes"
)]
pub async fn request(
    client: &kube::Client,
    account: &Account,
    spec: TokenRequestSpec,
) -> Result<FreshToken, MintError> {
    let failed = |reason: String| MintError::Failed { account: account.clone(), reason };
    let asked = Duration::from_secs(spec.expiration_seconds.unwrap_or_default().unsigned_abs());
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &account.namespace);
    let request = TokenRequest { spec: spec.into(), ..TokenRequest::default() };
    let answer =
        timeout(DEADLINE, accounts.create_token_request(&account.name, &PostParams::default(), &request))
            .await
            .map_err(|_| failed(format!("no answer within {} s", DEADLINE.as_secs())))?
            .map_err(|error| match error {
                kube::Error::Api(status) if status.is_not_found() && !is_of_a_secret(&status) => {
                    MintError::AccountMissing(account.clone())
                }
                // While the namespace is being deleted, a token that is still valid is needed to remove its copies.
                kube::Error::Api(status) if status.is_forbidden() && !is_terminating(&status) => {
                    MintError::Forbidden(account.clone())
                }
                kube::Error::Api(status) => failed(status.message),
                // A parser's own words repeat the value that it stumbled over.
                other => failed(CallError::from(other).to_string()),
            })?;
    let status = answer.status.ok_or_else(|| failed("the answer holds no token".into()))?;
    // Both stamps are the server's own, so their difference is right whatever either clock says.
    let lifetime = Option::<Time>::from(status.expiration_timestamp)
        .zip(answer.metadata.creation_timestamp)
        .and_then(|(expires, issued)| Duration::try_from(expires.0.duration_since(issued.0)).ok())
        .unwrap_or(asked);
    Ok(FreshToken {
        uid: answer
            .metadata
            .uid
            .ok_or_else(|| failed("the answer does not name the account's uid".into()))?,
        secret: Option::<String>::from(status.token)
            .ok_or_else(|| failed("the answer holds no token".into()))?
            .into(),
        lifetime,
    })
}

/// Is it what the token was to be bound to that is not there?
fn is_of_a_secret(status: &Status) -> bool {
    status.details.as_ref().is_some_and(|details| details.kind.eq_ignore_ascii_case("secrets"))
}

/// A token in use.
#[derive(Debug)]
pub(crate) struct MintedToken {
    /// Uid of the account.
    pub uid: String,
    pub secret: SecretString,
    minted_at: Instant,
    renew_at: Instant,
    dead_at: Instant,
}

/// The token of one account.
pub(crate) struct TokenSlot<M> {
    account: Account,
    minter: Arc<M>,
    held: Mutex<Option<Arc<MintedToken>>>,
}

impl<M: Mint> TokenSlot<M> {
    pub fn new(account: Account, minter: Arc<M>) -> Self {
        Self { account, minter, held: Mutex::new(None) }
    }

    /// A token that is not due for renewal; or one that still lives, if it cannot be renewed.
    pub async fn current(&self) -> Result<Arc<MintedToken>, MintError> {
        let mut held = self.held.lock().await;
        let now = Instant::now();
        if let Some(token) = held.as_ref().filter(|token| now < token.renew_at) {
            return Ok(token.clone());
        }
        match self.minter.mint(&self.account).await {
            Ok(minted) => {
                let received = Instant::now();
                let token = Arc::new(MintedToken {
                    uid: minted.uid,
                    secret: minted.secret,
                    minted_at: received,
                    renew_at: received + renewal_after(minted.lifetime, fastrand::f64()),
                    dead_at: received + minted.lifetime,
                });
                *held = Some(token.clone());
                Ok(token)
            }
            Err(error @ MintError::Failed { .. }) => {
                held.as_ref().filter(|token| now < token.dead_at).cloned().ok_or(error)
            }
            Err(gone) => {
                *held = None;
                Err(gone)
            }
        }
    }

    /// Age of the token; none, where there is none, or one is being minted.
    pub fn age(&self) -> Option<Duration> {
        let held = self.held.try_lock().ok()?;
        held.as_ref().map(|token| token.minted_at.elapsed())
    }

    /// Forgets `refused` after a 401, unless another caller has replaced it already.
    pub async fn drop_refused(&self, refused: &Arc<MintedToken>) {
        let mut held = self.held.lock().await;
        if held.as_ref().is_some_and(|token| Arc::ptr_eq(token, refused)) {
            *held = None;
        }
    }
}

/// When a token of this lifetime is renewed: at 80 %, up to 10 % earlier so that many tokens minted together
/// are not renewed together. `chance` is within 0..1.
fn renewal_after(lifetime: Duration, chance: f64) -> Duration {
    lifetime.mul_f64(0.8 - 0.1 * chance.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use secrecy::ExposeSecret as _;

    use super::*;

    /// Mints `token-1`, `token-2`, …; fails where configured.
    struct Script {
        calls: AtomicUsize,
        fail_from: usize,
        error: fn(Account) -> MintError,
    }

    impl Mint for Script {
        async fn mint(&self, account: &Account) -> Result<FreshToken, MintError> {
            let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
            tokio::time::sleep(Duration::from_millis(10)).await;
            if call >= self.fail_from {
                return Err((self.error)(account.clone()));
            }
            Ok(FreshToken {
                uid: "uid".into(),
                secret: format!("token-{call}").into(),
                lifetime: Duration::from_mins(10),
            })
        }
    }

    fn slot(fail_from: usize, error: fn(Account) -> MintError) -> (Arc<Script>, TokenSlot<Script>) {
        let minter = Arc::new(Script { calls: AtomicUsize::new(0), fail_from, error });
        let account = Account { namespace: "team-a".into(), name: "sync".into() };
        (minter.clone(), TokenSlot::new(account, minter))
    }

    fn unreachable(account: Account) -> MintError {
        MintError::Failed { account, reason: "no route".into() }
    }

    #[tokio::test(start_paused = true)]
    async fn many_callers_share_one_request() {
        let (minter, slot) = slot(usize::MAX, unreachable);
        let all = futures::future::join_all((0..20).map(|_| slot.current())).await;
        assert!(all.iter().all(|token| token.as_ref().unwrap().secret.expose_secret() == "token-1"));
        assert_eq!(minter.calls.load(Ordering::SeqCst), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_is_renewed_at_80_percent_of_its_life_at_the_latest() {
        let (_, slot) = slot(usize::MAX, unreachable);
        assert_eq!(slot.current().await.unwrap().secret.expose_secret(), "token-1");
        tokio::time::advance(Duration::from_secs(400)).await;
        assert_eq!(slot.current().await.unwrap().secret.expose_secret(), "token-1");
        tokio::time::advance(Duration::from_secs(81)).await;
        assert_eq!(slot.current().await.unwrap().secret.expose_secret(), "token-2");
    }

    #[tokio::test(start_paused = true)]
    async fn a_living_token_is_used_on_while_renewal_fails_and_a_dead_one_is_not() {
        let (_, slot) = slot(2, unreachable);
        slot.current().await.unwrap();
        tokio::time::advance(Duration::from_secs(500)).await;
        assert_eq!(slot.current().await.unwrap().secret.expose_secret(), "token-1");
        tokio::time::advance(Duration::from_secs(100)).await;
        assert!(slot.current().await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_token_is_dropped_once() {
        let (minter, slot) = slot(usize::MAX, unreachable);
        let refused = slot.current().await.unwrap();
        slot.drop_refused(&refused).await;
        let fresh = slot.current().await.unwrap();
        slot.drop_refused(&refused).await;
        assert!(Arc::ptr_eq(&fresh, &slot.current().await.unwrap()));
        assert_eq!(minter.calls.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_withdrawn_permission_ends_the_token_at_its_renewal() {
        let (_, slot) = slot(2, MintError::Forbidden);
        slot.current().await.unwrap();
        tokio::time::advance(Duration::from_secs(500)).await;
        assert!(matches!(slot.current().await, Err(MintError::Forbidden(_))));
    }

    #[test]
    fn a_missing_account_is_not_reported_as_an_unreachable_server() {
        let missing = MintError::AccountMissing(Account { namespace: "a".into(), name: "b".into() });
        let wrapped = kube::Error::Service(Box::new(kube::Error::Service(Box::new(missing.clone()))));
        assert_eq!(CallError::from(wrapped), CallError::from(missing.clone()));
        assert_eq!(CallError::from(missing).to_string(), "ServiceAccount a/b does not exist");
    }

    #[tokio::test]
    async fn a_token_never_shows_in_debug_text() {
        let (_, slot) = slot(usize::MAX, unreachable);
        let shown = format!("{:?}", slot.current().await.unwrap());
        assert!(!shown.contains("token-1"), "{shown}");
    }
}
