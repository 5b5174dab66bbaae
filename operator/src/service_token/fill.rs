//! Fills one Secret: as its writer it is read and written, as the operator tokens are minted, but those of generated
//! accounts: their writer mints.
//!
//! Every write carries its own precondition, so what changes between a look and a write is never lost: create is POST
//! (409 if anything is there), update is PUT with the uid and resourceVersion that were seen. A token that was minted
//! and not written is forgotten, and expires unseen; the one before it is valid until then, so there is no gap.
//! Killed at any point, the next reconciliation finds a Secret with the old tokens, or an empty one that is ours.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::{StreamExt as _, stream};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequestSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, PostParams};
use secrecy::{ExposeSecret as _, SecretString};
use tracing::info;
use weaver_api::v1beta1::ServiceToken;
use weaver_api::validate::{ValidServiceToken, ValidToken};
use weaver_client::call::{CallError, call, lookup};
use weaver_tenant::claims::Claims;
use weaver_tenant::token::{MintError, request};
use weaver_tenant::transport::ServerClock;
use weaver_tenant::{Account, TenantClient};

use super::outcome::{RequestedToken, SecretWrite, TokenProblem};
use super::plan::{
    self, Because, SecretPlan, SecretRefusal, SecretWork, SeenSecret, TokenFacts, TokenVerdict,
};
use super::secret::DesiredSecret;
use super::why::MintReason;
use crate::log_code;
use weaver_copies::object::{Object, ObjectKey};

/// Name under which our writes are in `managedFields`.
pub(super) const FIELD_MANAGER: &str = "weaver-operator";

/// How often one reconciliation judges a Secret that keeps changing under its hands.
const ROUNDS: usize = 4;

/// Tokens that are asked for at a time.
const CONCURRENT: usize = 4;

/// Keys that one log record names.
const LOGGED: usize = 16;

/// The work on one Secret.
pub struct SecretJob<'a> {
    /// The operator's own identity, which mints.
    pub operator: &'a Client,
    pub tenant: &'a TenantClient,
    /// The API server's clock.
    pub clock: &'a ServerClock,
    pub asked: &'a ValidServiceToken,
    pub desired: &'a DesiredSecret,
    /// What is known of the accounts, and why nothing is known of the others.
    pub accounts: BTreeMap<String, Result<plan::AccountState, String>>,
    /// No token gets older than this.
    pub oldest: Option<Duration>,
}

/// What is known of a Secret whose content was read at this resourceVersion.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KnownSecret {
    pub version: String,
    pub seen: SeenSecret,
}

pub struct FillOutcome {
    pub end: SecretWrite,
    /// Each token that is asked for.
    pub keys: Vec<RequestedToken>,
    /// Those that were minted and written.
    pub minted: Vec<(String, MintReason)>,
    /// Current content of the Secret.
    pub known: Option<KnownSecret>,
    /// When something is due next.
    pub next: Option<Timestamp>,
    /// A token was minted, or a write was tried.
    pub sent: bool,
}

struct TokenToWrite {
    token: SecretString,
    claims: Claims,
}

type MintedTokens = BTreeMap<String, Result<TokenToWrite, MintError>>;

/// What one round came to.
enum FillRound {
    /// Nothing was to be written, and this is there.
    Kept(Option<KnownSecret>),
    /// It was written, with this content.
    Written(Option<KnownSecret>),
    /// It was another than the one that was judged: look again.
    Again,
    /// The resource is not there any more, or not for long.
    Unwanted,
    Ended(SecretWrite),
}

impl SecretJob<'_> {
    /// Does it; nothing comes of it where the resource is on its way out. `shown` is what the watch shows, and
    /// `known` what was known last: together they may spare the read.
    pub async fn run(&self, shown: Option<&ObjectMeta>, known: Option<&KnownSecret>) -> Option<FillOutcome> {
        if let Some(done) = self.spared(shown, known) {
            return Some(done);
        }
        let (mut minting, mut sent) = (MintedTokens::new(), false);
        let mut last = known.map(|known| known.seen.clone());
        for _ in 0..ROUNDS {
            let found = match lookup(self.secrets().get(&self.desired.object_key.name)).await {
                Ok(found) => found,
                Err(error) => return Some(FillOutcome { sent, ..self.failed(end_of(error), last.as_ref()) }),
            };
            let seen = found.as_ref().map(|found| self.desired.seen(found));
            let work = match self.plan(seen.as_ref()) {
                Ok(work) => work,
                Err(refusal) => {
                    return Some(FillOutcome {
                        sent,
                        ..self.failed(SecretWrite::Refused(refusal), seen.as_ref())
                    });
                }
            };
            let round = self.act(&work, found, seen.as_ref(), &mut minting).await;
            sent |= !matches!(round, FillRound::Kept(_)) || minting.values().any(Result::is_ok);
            let done = match round {
                FillRound::Again => {
                    last = seen;
                    continue;
                }
                FillRound::Kept(known) | FillRound::Written(known) => {
                    let now = known.as_ref().map(|known| known.seen.clone());
                    FillOutcome { known, ..self.done(SecretWrite::Written, &work, &minting, now.as_ref()) }
                }
                FillRound::Unwanted => return None,
                FillRound::Ended(end) => self.done(end, &work, &minting, seen.as_ref()),
            };
            return Some(FillOutcome { sent, ..done });
        }
        let text = format!("{} kept changing while it was to be written", self.desired.object_key);
        Some(FillOutcome { sent, ..self.failed(SecretWrite::Failed(text), last.as_ref()) })
    }

    /// What is known of exactly the state that the watch shows, if there is nothing to do about it.
    fn spared(&self, shown: Option<&ObjectMeta>, known: Option<&KnownSecret>) -> Option<FillOutcome> {
        let (meta, known) = shown.zip(known)?;
        let work = self.plan(Some(&known.seen)).ok()?;
        let is_known = meta.resource_version.as_deref() == Some(&known.version);
        let is_idle = is_known && !work.changes_content() && self.desired.is_marked(meta);
        let done = || self.done(SecretWrite::Written, &work, &MintedTokens::new(), Some(&known.seen));
        is_idle.then(|| FillOutcome { known: Some(known.clone()), ..done() })
    }

    fn plan(&self, seen: Option<&SeenSecret>) -> Result<SecretWork, SecretRefusal> {
        let known = |(name, account): (&String, &Result<plan::AccountState, String>)| {
            (name.clone(), account.clone().unwrap_or(plan::AccountState::Unknown))
        };
        let plan = plan::plan(&TokenFacts {
            asked: self.asked,
            uid: &self.desired.owner.uid,
            secret: seen,
            accounts: &self.accounts.iter().map(known).collect(),
            own: self.tenant.claims.as_ref(),
            oldest: self.oldest,
            now: self.clock.now(),
        });
        match plan {
            SecretPlan::Act(work) => Ok(work),
            SecretPlan::Refuse(refusal) => Err(refusal),
        }
    }

    /// Mints and writes what the plan asks for, on the Secret that it was made for.
    async fn act(
        &self,
        work: &SecretWork,
        found: Option<Object>,
        seen: Option<&SeenSecret>,
        minting: &mut MintedTokens,
    ) -> FillRound {
        let found = match found {
            Some(found) => found,
            // An empty Secret is made for a token only.
            None if work.to_mint().next().is_none() => return FillRound::Kept(None),
            None => match call(self.secrets().create(&params(), &self.desired.create())).await {
                Ok(made) => made,
                Err(CallError::Conflict(_)) => return FillRound::Again,
                Err(error) => return FillRound::Ended(end_of(error)),
            },
        };
        // The API server takes our reference from a Secret that is to outlive its resource. Put back, it would take the
        // Secret along.
        if !self.desired.is_owned(&found.metadata) {
            match self.is_to_stay().await {
                Ok(true) => {}
                Ok(false) => return FillRound::Unwanted,
                Err(error) => return FillRound::Ended(SecretWrite::Failed(error.to_string())),
            }
        }
        let uid = found.metadata.uid.as_deref().unwrap_or_default();
        self.mint(work, uid, minting).await;
        let minted: BTreeMap<String, SecretString> = minting
            .iter()
            .filter_map(|(key, one)| Some((key.clone(), one.as_ref().ok()?.token.clone())))
            .collect();
        if minted.is_empty() && work.removed.is_empty() && self.desired.is_marked(&found.metadata) {
            return match seen {
                Some(seen) => FillRound::Kept(known(&found, seen.clone())),
                None => FillRound::Written(known(&found, self.desired.seen(&found))),
            };
        }
        let wanted = self.desired.update(&found, &work.removed, &minted);
        match call(self.secrets().replace(&self.desired.object_key.name, &params(), &wanted)).await {
            Ok(written) => {
                let keys: Vec<_> = minted.keys().map(String::as_str).take(LOGGED).collect();
                info!(
                    code = log_code::TOKENS_WRITTEN, secret = %self.desired.object_key, count = minted.len(), minted = ?keys,
                    removed = ?work.removed.iter().take(LOGGED).collect::<Vec<_>>(),
                    "wrote tokens to the Secret"
                );
                let seen = self.desired.seen(&written);
                FillRound::Written(known(&written, seen))
            }
            Err(CallError::Conflict(_) | CallError::NotFound(_)) => FillRound::Again,
            Err(error) => FillRound::Ended(end_of(error)),
        }
    }

    /// Is the resource there, and not being deleted? A watch may be slow to tell.
    async fn is_to_stay(&self) -> Result<bool, CallError> {
        let owner = &self.desired.owner;
        let resources: Api<ServiceToken> = Api::namespaced(self.operator.clone(), &owner.namespace);
        let found = lookup(resources.get_metadata(&owner.name)).await?.map(|found| found.metadata);
        Ok(found.is_some_and(|found| {
            found.uid.as_ref() == Some(&owner.uid) && found.deletion_timestamp.is_none()
        }))
    }

    /// Mints what is due, and was not minted yet for this very Secret.
    async fn mint(&self, work: &SecretWork, uid: &str, minting: &mut MintedTokens) {
        let is_bound =
            |minted: &TokenToWrite| minted.claims.secret.as_ref().is_some_and(|bound| bound.uid == uid);
        let wanted: BTreeSet<&String> = work.to_mint().collect();
        minting.retain(|key, one| wanted.contains(key) && one.as_ref().is_ok_and(is_bound));
        let open = self.asked.tokens.iter().filter(|token| wanted.contains(&token.key));
        let open = open.filter(|token| !minting.contains_key(&token.key));
        let requests: Vec<_> = open.map(|token| self.mint_one(token, uid)).collect();
        let answers: Vec<_> = stream::iter(requests).buffer_unordered(CONCURRENT).collect().await;
        minting.extend(answers);
    }

    async fn mint_one(&self, token: &ValidToken, uid: &str) -> (String, Result<TokenToWrite, MintError>) {
        let account = self.account(&token.account);
        #[expect(clippy::expect_used, reason = "made of an i64 when the token was validated")]
        let seconds = i64::try_from(token.lifetime.as_secs()).expect("a lifetime fits into an i64");
        let spec = TokenRequestSpec {
            audiences: (!token.audiences.is_empty()).then(|| token.audiences.clone()),
            expiration_seconds: Some(seconds),
            bound_object_ref: Some(BoundObjectReference {
                api_version: Some("v1".into()),
                kind: Some("Secret".into()),
                name: Some(self.desired.object_key.name.clone()),
                uid: Some(uid.to_owned()),
            }),
        };
        let writer;
        let identity = if token.generated.is_some() {
            writer = self.tenant.client();
            &writer
        } else {
            self.operator
        };
        let answer = request(identity, &account, spec).await;
        let agreed = |claims: &Claims| matches!(self.accounts.get(&token.account), Some(Ok(plan::AccountState::Allowed { uid })) if *uid == claims.account.uid);
        let minted = answer.and_then(|answer| match Claims::read(answer.secret.expose_secret()) {
            Ok(claims) if agreed(&claims) => Ok(TokenToWrite { token: answer.secret, claims }),
            // It is asked for by name, and anyone who has agreed may be gone since.
            Ok(_) => {
                let reason = "the account was recreated meanwhile".to_owned();
                Err(MintError::Failed { account, reason })
            }
            Err(odd) => Err(MintError::Failed { account, reason: format!("the API server's answer: {odd}") }),
        });
        (token.key.clone(), minted)
    }

    fn account(&self, name: &str) -> Account {
        Account { namespace: self.desired.owner.namespace.clone(), name: name.to_owned() }
    }

    fn secrets(&self) -> Api<Object> {
        let ObjectKey { kind, namespace, .. } = &self.desired.object_key;
        self.tenant.namespaced(kind, namespace)
    }

    /// The plan came to this, and `seen` is there.
    fn done(
        &self,
        end: SecretWrite,
        work: &SecretWork,
        minting: &MintedTokens,
        seen: Option<&SeenSecret>,
    ) -> FillOutcome {
        let is_written = end == SecretWrite::Written;
        let stands = |key: &str| seen.and_then(|seen| seen.keys.get(key)?.as_ref().ok()).cloned();
        let now = self.clock.now();
        let keys = self.asked.tokens.iter().zip(&work.tokens).map(|(asked, (key, verdict))| {
            let (stays, trouble) = match verdict {
                TokenVerdict::Fresh { .. } => (true, None),
                TokenVerdict::Mint(why) => match minting.get(key) {
                    Some(Ok(_)) if is_written => (true, None),
                    Some(Err(MintError::Forbidden(_))) if asked.generated.is_some() => {
                        (*why == MintReason::Due, Some(TokenProblem::WriterMayNotMint))
                    }
                    Some(Err(error)) => {
                        (*why == MintReason::Due, Some(TokenProblem::NotMinted(error.clone())))
                    }
                    _ => (*why == MintReason::Due, Some(TokenProblem::NotWritten)),
                },
                TokenVerdict::NotDue { until, stays } => (*stays, Some(TokenProblem::NotDue(*until))),
                TokenVerdict::Refused(Because::NoAccount) => (false, Some(TokenProblem::NoAccount)),
                TokenVerdict::Refused(Because::NotOurs) => (false, Some(TokenProblem::NotOurs)),
                TokenVerdict::Refused(Because::AccountNotOptedIn) => {
                    (false, Some(TokenProblem::AccountNotOptedIn))
                }
                TokenVerdict::Unknown => {
                    let why = self.accounts.get(&asked.account).and_then(|known| known.clone().err());
                    let is_its = stands(key).is_some_and(|claims| claims.account.name == asked.account);
                    (is_its, Some(TokenProblem::Unknown(why.unwrap_or_default())))
                }
            };
            let present = stands(key).filter(|claims| stays && claims.expires_at > now);
            RequestedToken {
                key: key.clone(),
                account: self.account(&asked.account),
                is_generated: asked.generated.is_some(),
                present,
                trouble,
            }
        });
        let minted = work.tokens.iter().filter_map(|(key, verdict)| match verdict {
            TokenVerdict::Mint(why) if is_written && minting.get(key).is_some_and(Result::is_ok) => {
                Some((key.clone(), *why))
            }
            _ => None,
        });
        let keys = keys.collect();
        let minted: Vec<_> = minted.collect();
        // What was just written has a time of its own.
        let next = seen.and_then(|seen| self.plan(Some(seen)).ok()?.next).or(work.next);
        FillOutcome { end, keys, minted, next, known: None, sent: false }
    }

    /// There is no plan: what was `seen` stays.
    fn failed(&self, end: SecretWrite, seen: Option<&SeenSecret>) -> FillOutcome {
        let now = self.clock.now();
        // The tokens of a Secret that is being deleted are lost, even if it is not ours.
        let seen = seen.filter(|seen| seen.is_ours && !seen.is_terminating);
        let keys = self.asked.tokens.iter().map(|token| {
            let stands = seen.and_then(|seen| seen.keys.get(&token.key)?.clone().ok());
            let is_valid = |claims: &Claims| claims.account.name == token.account && claims.expires_at > now;
            RequestedToken {
                key: token.key.clone(),
                account: self.account(&token.account),
                is_generated: token.generated.is_some(),
                present: stands.filter(is_valid),
                trouble: Some(TokenProblem::NotWritten),
            }
        });
        FillOutcome { end, keys: keys.collect(), minted: Vec::new(), known: None, next: None, sent: false }
    }
}

fn known(object: &Object, seen: SeenSecret) -> Option<KnownSecret> {
    Some(KnownSecret { version: object.metadata.resource_version.clone()?, seen })
}

fn params() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.into()), ..PostParams::default() }
}

fn end_of(error: CallError) -> SecretWrite {
    match error {
        CallError::Forbidden(status) => SecretWrite::Forbidden(status.message),
        CallError::Rejected(status) => SecretWrite::Rejected(status.message),
        other => SecretWrite::Failed(other.to_string()),
    }
}
