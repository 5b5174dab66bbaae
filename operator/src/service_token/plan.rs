//! What to do for one `ServiceToken`: which tokens are minted, which stay to the byte, which are removed from the
//! Secret. Pure, and without a secret: of what is in the Secret it knows the claims.
//!
//! A token is judged by its claims, by the uid of its account and by that of the Secret that it is bound to; the clock
//! is that of the API server, which issues and judges them. What cannot be known just now changes nothing.
//! Whether the API server would take a token is not asked: one that was revoked otherwise, as by new signing
//! keys, is not seen.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use weaver_api::validate::{ValidServiceToken, ValidToken};
use weaver_tenant::claims::{Claims, NotAToken};

use super::why::MintReason;

/// Share of the age at which it is renewed by which a token is renewed earlier than asked, so that many that were made
/// together are not renewed together, and by which one that is nearly due joins one that is: percent.
const SPREAD: i32 = 5;

/// Groups into which generated tokens fall by their index, each renewed earlier than the one before it by
/// `STEP`, so that hundreds that were minted together are not minted together again; and the share of the age
/// by which one joins those of its group that are due, percent.
const GROUPS: u16 = 10;
const STEP: i32 = 2;
const JOINED: i32 = 1;

/// No token is renewed before this age: one that is due when it is minted would be minted forever.
const SHORTEST_AGE: SignedDuration = SignedDuration::from_secs(30);

/// How far in the future the API server takes a token's start.
const LEEWAY: SignedDuration = SignedDuration::from_secs(60);

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SeenSecret {
    pub uid: String,
    /// Whether this resource has made it.
    pub is_ours: bool,
    /// No content can be changed any more.
    pub is_immutable: bool,
    /// It is on its way out, and nothing can be bound to it any more.
    pub is_terminating: bool,
    /// The value of each key.
    pub keys: BTreeMap<String, Result<Claims, NotAToken>>,
}

/// What was seen of an account.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum AccountState {
    /// It lets itself be minted for.
    Allowed {
        uid: String,
    },
    /// It exists, and has not the label by which its owner agrees.
    NotAllowed,
    Missing,
    /// It was to be made, and another one of its name is there.
    Foreign,
    /// It could not be asked for.
    Unknown,
}

#[derive(Clone, Copy, Debug)]
pub struct TokenFacts<'a> {
    pub asked: &'a ValidServiceToken,
    /// Uid of the resource.
    pub uid: &'a str,
    /// The Secret, where there is one.
    pub secret: Option<&'a SeenSecret>,
    /// The accounts of the tokens, by name; one that is absent here is not known.
    pub accounts: &'a BTreeMap<String, AccountState>,
    /// A token of the API server's own audiences, which a token has for whom none is asked; `None` where none is known.
    pub own: Option<&'a Claims>,
    /// No token gets older than this, whatever is asked for.
    pub oldest: Option<Duration>,
    /// The API server's clock.
    pub now: Timestamp,
}

/// What to do with the Secret.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SecretPlan {
    /// Nothing, for this reason.
    Refuse(SecretRefusal),
    Act(SecretWork),
}

/// Why the Secret is not written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SecretRefusal {
    /// Someone else made it.
    Foreign,
    /// Someone has made it immutable.
    Immutable,
    /// It is being deleted: what comes after it is another one.
    Terminating,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SecretWork {
    /// Each token that is asked for, in the order of the spec.
    pub tokens: Vec<(String, TokenVerdict)>,
    /// Keys that leave the Secret.
    pub removed: BTreeSet<String>,
    /// When something is due next by the clock. What is minted, refused or not known the caller must check again: no
    /// watch reports changes of an account.
    pub next: Option<Timestamp>,
}

impl SecretWork {
    /// Keys whose token must be minted.
    pub fn to_mint(&self) -> impl Iterator<Item = &String> {
        self.tokens.iter().filter(|(_, verdict)| matches!(verdict, TokenVerdict::Mint(_))).map(|(key, _)| key)
    }

    /// Does the content of the Secret change?
    pub fn changes_content(&self) -> bool {
        self.to_mint().next().is_some() || !self.removed.is_empty()
    }
}

/// What becomes of one token.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum TokenVerdict {
    /// It stays to the byte, until then.
    Fresh {
        /// When it is due.
        renewed_at: Timestamp,
    },
    Mint(MintReason),
    /// It is not minted before.
    NotDue {
        until: Timestamp,
        /// Whether what is there is what was asked for, but for its age: else it does not stay.
        stays: bool,
    },
    /// It may not be minted, and does not stay.
    Refused(Because),
    /// Whether it may be minted is not known: what is there stays.
    Unknown,
}

/// Why a token may not be minted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Because {
    /// There is no such account.
    NoAccount,
    /// Its owner has not agreed.
    AccountNotOptedIn,
    /// It was not made by this resource.
    NotOurs,
}

/// The plan for these facts.
pub fn plan(facts: &TokenFacts<'_>) -> SecretPlan {
    match facts.secret {
        Some(secret) if !secret.is_ours => return SecretPlan::Refuse(SecretRefusal::Foreign),
        Some(secret) if secret.is_terminating => return SecretPlan::Refuse(SecretRefusal::Terminating),
        Some(secret) if secret.is_immutable => return SecretPlan::Refuse(SecretRefusal::Immutable),
        _ => {}
    }
    let mut tokens: Vec<_> =
        facts.asked.tokens.iter().map(|token| (token.key.clone(), facts.judge(token))).collect();
    if tokens.iter().any(|(_, verdict)| matches!(verdict, TokenVerdict::Mint(_))) {
        facts.join_nearly_due(&mut tokens);
    }
    let is_kept = |key: &str| {
        let leaves = |verdict: &TokenVerdict| {
            matches!(verdict, TokenVerdict::Refused(_) | TokenVerdict::NotDue { stays: false, .. })
        };
        tokens.iter().any(|(asked, verdict)| asked == key && !leaves(verdict))
    };
    let present = facts.secret.iter().flat_map(|secret| secret.keys.keys());
    let removed = present.filter(|key| !is_kept(key)).cloned().collect();
    let next = tokens.iter().filter_map(|(_, verdict)| match verdict {
        TokenVerdict::Fresh { renewed_at: time } | TokenVerdict::NotDue { until: time, .. } => Some(*time),
        _ => None,
    });
    SecretPlan::Act(SecretWork { next: next.min(), tokens, removed })
}

impl TokenFacts<'_> {
    fn judge(&self, token: &ValidToken) -> TokenVerdict {
        let uid = match self.accounts.get(&token.account) {
            Some(AccountState::Allowed { uid }) => uid,
            Some(AccountState::NotAllowed) => return TokenVerdict::Refused(Because::AccountNotOptedIn),
            Some(AccountState::Foreign) => return TokenVerdict::Refused(Because::NotOurs),
            Some(AccountState::Missing) => return TokenVerdict::Refused(Because::NoAccount),
            Some(AccountState::Unknown) | None => return TokenVerdict::Unknown,
        };
        match self.fresh_until(token, uid) {
            Ok(renewed_at) => TokenVerdict::Fresh { renewed_at },
            Err(why) => match token.not_before {
                Some(until) if until > self.now => TokenVerdict::NotDue {
                    until,
                    stays: matches!(why, MintReason::Due | MintReason::NotYetValid),
                },
                _ => TokenVerdict::Mint(why),
            },
        }
    }

    /// When the token that is there is due; or why it is not the one that is asked for.
    fn fresh_until(&self, token: &ValidToken, account_uid: &str) -> Result<Timestamp, MintReason> {
        let secret = self.secret.ok_or(MintReason::Missing)?;
        let claims = secret.keys.get(&token.key).ok_or(MintReason::Missing)?;
        let claims = claims.as_ref().map_err(|NotAToken| MintReason::NotAToken)?;
        if claims.account.name != token.account {
            return Err(MintReason::OtherAccount);
        }
        if claims.account.uid != account_uid {
            return Err(MintReason::AccountRecreated);
        }
        // The API server's own may have changed since ours was issued; then the two still have one in common.
        let is_later = |own: &Claims| own.issued_at > claims.issued_at;
        let own = self.own.filter(|own| is_later(own) || disjoint(&own.audiences, &claims.audiences));
        let asked =
            if token.audiences.is_empty() { own.map(|own| &own.audiences) } else { Some(&token.audiences) };
        if asked.is_some_and(|asked| !same(asked, &claims.audiences)) {
            return Err(MintReason::OtherAudiences);
        }
        if claims.secret.as_ref().is_none_or(|bound| bound.uid != secret.uid) {
            return Err(MintReason::OtherSecret);
        }
        if claims.issued_at.duration_since(self.now) > LEEWAY {
            return Err(MintReason::NotYetValid);
        }
        if claims.expires_at <= self.now {
            return Err(MintReason::Expired);
        }
        let renewed_at = self.renewed_at(claims, token);
        if renewed_at <= self.now { Err(MintReason::Due) } else { Ok(renewed_at) }
    }

    /// After the asked share of its life. A shorter life that is asked for since counts at once; a longer one from the
    /// next token on.
    fn renewed_at(&self, claims: &Claims, token: &ValidToken) -> Timestamp {
        let life = claims.expires_at.duration_since(claims.issued_at);
        let life = life
            .min(SignedDuration::try_from(token.lifetime).unwrap_or(SignedDuration::MAX))
            .max(SignedDuration::ZERO);
        claims.issued_at.saturating_add(self.age(token, life)).unwrap_or(Timestamp::MAX)
    }

    /// The age at which a token of this life is renewed, never so short that it would be due when it is minted.
    fn age(&self, token: &ValidToken, life: SignedDuration) -> SignedDuration {
        let group = i32::from(token.generated.unwrap_or_default() % GROUPS);
        let spread = self.spread() + group * STEP * 100;
        let percent = i32::from(self.asked.renew_at_percent) * (10_000 - spread) / 100;
        let age = (life / 10_000 * percent).max(SHORTEST_AGE.min(life));
        let oldest = self.oldest.and_then(|oldest| SignedDuration::try_from(oldest).ok());
        oldest.map_or(age, |oldest| age.min(oldest))
    }

    /// Hundredths of a percent below `SPREAD`, the same for each token of a resource and other ones for another
    /// resource.
    fn spread(&self) -> i32 {
        let mut hasher = DefaultHasher::new();
        self.uid.hash(&mut hasher);
        #[expect(clippy::expect_used, reason = "the rest of a division by 500")]
        let spread =
            i32::try_from(hasher.finish() % u64::from(SPREAD.unsigned_abs() * 100)).expect("it is small");
        spread
    }

    /// Those that would be due a moment later: one write instead of two.
    fn join_nearly_due(&self, tokens: &mut [(String, TokenVerdict)]) {
        for (token, (_, verdict)) in self.asked.tokens.iter().zip(tokens) {
            let life = SignedDuration::try_from(token.lifetime).unwrap_or(SignedDuration::MAX);
            let share = if token.generated.is_some() { JOINED } else { SPREAD };
            let early = self.age(token, life) / 100 * share;
            let is_nearly_due = |at: Timestamp| at.duration_since(self.now) <= early;
            let may_be_minted = token.not_before.is_none_or(|time| time <= self.now);
            if may_be_minted
                && matches!(verdict, TokenVerdict::Fresh { renewed_at } if is_nearly_due(*renewed_at))
            {
                *verdict = TokenVerdict::Mint(MintReason::Due);
            }
        }
    }
}

fn disjoint(one: &[String], other: &[String]) -> bool {
    !one.iter().any(|audience| other.contains(audience))
}

fn same(one: &[String], other: &[String]) -> bool {
    one.iter().collect::<BTreeSet<_>>() == other.iter().collect()
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
