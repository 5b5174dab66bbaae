//! A visit as the whole status of its resource. Pure.
//!
//! The fold looks at nothing but the visit, the object's generation and the conditions that were there before, so an
//! unchanged world gives an unchanged status and no write. Of a token it tells when it was issued, when it expires and
//! for which account, and nothing by which it could be used.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use weaver_api::conditions::{
    self, AUTHORIZED, CONFLICTED, MIGRATED, PAUSED, READY, TOKEN_ORDER, TOKENS_FRESH, Truth, Verdict,
};
use weaver_api::marks::ALLOW_TOKENS_LABEL;
use weaver_api::minting;
use weaver_api::v1beta1::{ServiceTokenStatus, TokenCounts, TokenStatus};
use weaver_tenant::Account;
use weaver_tenant::token::MintError;

use super::outcome::{End, Key, Trouble, Visit, Work};
use super::plan::Refusal;
use crate::controller::pause;
use crate::controller::verdicts::{listed, migrated, unauthorized};
use weaver_copies::rights::{Right, explain_writer};

/// Longest message about one token, in bytes.
const MAX_MESSAGE: usize = 512;

/// What the status of a resource should be after `visit`. `before` is what it was; `carried` is what is wrong with the
/// content that conversion carries.
#[must_use]
pub fn status(
    before: &ServiceTokenStatus,
    visit: &Visit,
    carried: &[String],
    generation: Option<i64>,
    now: &Time,
) -> ServiceTokenStatus {
    let verdicts = verdicts(visit, carried);
    let mut status = ServiceTokenStatus {
        observed_generation: generation,
        conditions: conditions::fold(&TOKEN_ORDER, &before.conditions, &verdicts, generation, now),
        ..ServiceTokenStatus::default()
    };
    if let Visit::Worked(work) = visit {
        status.secret_name = Some(work.secret.clone());
        status.tokens = work.keys.iter().map(of_key).collect();
    } else {
        // Where nothing was looked at, what was there stays until it expires.
        status.secret_name.clone_from(&before.secret_name);
        status.tokens = before.tokens.iter().map(|token| until_expiry(token, now)).collect();
    }
    status.counts = counts(&status.tokens);
    status
}

fn until_expiry(token: &TokenStatus, now: &Time) -> TokenStatus {
    let expires = token.expires_at.as_ref().and_then(|text| text.parse::<Timestamp>().ok());
    let is_valid = expires.is_some_and(|expires| expires > now.0);
    if is_valid { token.clone() } else { TokenStatus { key: token.key.clone(), ..TokenStatus::default() } }
}

fn counts(tokens: &[TokenStatus]) -> Option<TokenCounts> {
    let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    let fresh = tokens.iter().filter(|token| token.expires_at.is_some()).count();
    (!tokens.is_empty()).then(|| TokenCounts { desired: number(tokens.len()), fresh: number(fresh) })
}

/// The merge patch that writes `status`.
#[must_use]
pub fn patch(status: &ServiceTokenStatus) -> Value {
    let ServiceTokenStatus { observed_generation, conditions, secret_name, counts, tokens } = status;
    json!({"status": {
        "observedGeneration": observed_generation,
        "conditions": conditions,
        "secretName": secret_name,
        "counts": counts,
        "tokens": (!tokens.is_empty()).then_some(tokens),
    }})
}

fn of_key(key: &Key) -> TokenStatus {
    let present = key.present.as_ref();
    let message = key.trouble.as_ref().map(|trouble| words(key, trouble)).unwrap_or_default();
    TokenStatus {
        key: key.key.clone(),
        account_uid: present.map(|claims| claims.account.uid.clone()),
        issued_at: present.map(|claims| claims.issued_at.to_string()),
        expires_at: present.map(|claims| claims.expires_at.to_string()),
        message: conditions::bounded(&message, MAX_MESSAGE),
    }
}

/// What stands in the way of a token, and what to do.
fn words(key: &Key, trouble: &Trouble) -> String {
    let Account { namespace, name } = &key.account;
    match trouble {
        Trouble::NotYet(until) => format!("it is not minted before {until}"),
        Trouble::NoAccount => format!(
            "{} does not exist; create it: kubectl -n {namespace} create serviceaccount {name}",
            key.account
        ),
        Trouble::NotAgreed => format!(
            "the owner of {} has not agreed; if they do: kubectl -n {namespace} label serviceaccount {name} \
             {ALLOW_TOKENS_LABEL}=true",
            key.account
        ),
        Trouble::Unknown(words) => format!("{} could not be looked up: {words}", key.account),
        Trouble::NotMinted(error @ MintError::Forbidden(_)) => {
            format!("{error}; allow it: {}", minting::command(namespace, name))
        }
        Trouble::NotMinted(error) => error.to_string(),
        Trouble::NotWritten => "the Secret could not be written".to_owned(),
    }
}

fn verdicts(visit: &Visit, carried: &[String]) -> Vec<Verdict> {
    let mut verdicts = match visit {
        Visit::NotUnderstood(words) => {
            refused("NotUnderstood", &format!("the object cannot be understood: {}", listed(words)))
        }
        Visit::InvalidSpec(faults) => {
            let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
            refused("InvalidSpec", &faults.join("; "))
        }
        Visit::Paused(words) => refused("Paused", words),
        Visit::NoToken(error) => {
            let authorized = unauthorized(error);
            let unknown = |kind| {
                let words = "not looked at: there is no token for the writer";
                Verdict::new(kind, Truth::Unknown, authorized.reason, words)
            };
            vec![authorized.clone(), unknown(CONFLICTED), unknown(TOKENS_FRESH)]
        }
        // A Secret that is another's, or a missing right, explains missing tokens: so they come first in `Ready`.
        Visit::Worked(work) => vec![work.conflicted(), work.authorized(), work.tokens_fresh()],
    };
    verdicts.push(pause::verdict(if let Visit::Paused(words) = visit { Some(words) } else { None }));
    verdicts.push(match visit {
        Visit::NotUnderstood(_) => Verdict::new(MIGRATED, Truth::Unknown, "NotUnderstood", ""),
        Visit::InvalidSpec(faults) => migrated(faults, carried),
        _ => migrated(&[], carried),
    });
    verdicts.insert(0, ready(&verdicts));
    verdicts
}

/// `Ready` is the first thing in the way, or that there is none.
fn ready(others: &[Verdict]) -> Verdict {
    let wanted = |kind| if [CONFLICTED, PAUSED].contains(&kind) { Truth::False } else { Truth::True };
    // What is not known is the worse explanation.
    let in_the_way = |unknown: bool| {
        let mut others = others.iter().filter(|verdict| verdict.truth != wanted(verdict.kind));
        others.find(|verdict| unknown || verdict.truth != Truth::Unknown)
    };
    if let Some(cause) = in_the_way(false).or_else(|| in_the_way(true)) {
        return Verdict::new(READY, Truth::False, cause.reason, cause.message.clone());
    }
    let fresh = others.iter().find(|verdict| verdict.kind == TOKENS_FRESH);
    Verdict::new(READY, Truth::True, "Fresh", fresh.map_or_else(String::new, |v| v.message.clone()))
}

/// Nothing was looked at, because of the object itself.
fn refused(reason: &'static str, message: &str) -> Vec<Verdict> {
    let message = format!("{message}; nothing was changed");
    vec![
        Verdict::new(CONFLICTED, Truth::Unknown, reason, ""),
        Verdict::new(AUTHORIZED, Truth::Unknown, reason, message.clone()),
        Verdict::new(TOKENS_FRESH, Truth::False, reason, message),
    ]
}

impl Work {
    fn conflicted(&self) -> Verdict {
        let secret = format!("Secret {}/{}", self.writer.namespace, self.secret);
        match self.end {
            End::Refused(Refusal::Foreign) => {
                let message = format!(
                    "{secret} exists, was not made by this ServiceToken and was left untouched; rename or delete it, or \
                     make another ServiceToken with another spec.secretName"
                );
                Verdict::new(CONFLICTED, Truth::True, "SecretNotOurs", message)
            }
            End::Written | End::Refused(_) => Verdict::new(CONFLICTED, Truth::False, "NoConflict", ""),
            _ => Verdict::new(
                CONFLICTED,
                Truth::Unknown,
                "NotLooked",
                "the Secret could not be read or written",
            ),
        }
    }

    fn authorized(&self) -> Verdict {
        match &self.missing {
            // What was refused is the watch, and all is well but that.
            Err(words) if self.end == End::Written => {
                let message = format!(
                    "changes of the Secret are not seen at once, there is a look from time to time instead; which right \
                     is missing could not be asked: {words}"
                );
                return Verdict::new(AUTHORIZED, Truth::True, "Polled", message);
            }
            Err(words) => {
                let message =
                    format!("something was refused, and the writer's rights are not known: {words}");
                return Verdict::new(AUTHORIZED, Truth::Unknown, "RightsUnknown", message);
            }
            Ok(missing) if !missing.iter().all(Right::is_for_watching) => {
                let message = explain_writer(&self.writer, &self.secret, missing);
                return Verdict::new(AUTHORIZED, Truth::False, "MissingRights", message);
            }
            Ok(_) => {}
        }
        let forbidden =
            self.troubles(|trouble| matches!(trouble, Trouble::NotMinted(MintError::Forbidden(_))));
        if !forbidden.is_empty() {
            return Verdict::new(AUTHORIZED, Truth::False, "MintingForbidden", listed(&forbidden));
        }
        let not_agreed = self.troubles(|trouble| *trouble == Trouble::NotAgreed);
        if !not_agreed.is_empty() {
            return Verdict::new(AUTHORIZED, Truth::False, "NotAgreed", listed(&not_agreed));
        }
        match &self.missing {
            Ok(missing) if !missing.is_empty() => {
                let message = format!(
                    "changes of the Secret are not seen at once, there is a look from time to time instead: {}",
                    explain_writer(&self.writer, &self.secret, missing)
                );
                Verdict::new(AUTHORIZED, Truth::True, "Polled", message)
            }
            _ => {
                let message = format!("{} holds every right that was needed", self.writer);
                Verdict::new(AUTHORIZED, Truth::True, "Allowed", message)
            }
        }
    }

    /// The keys in such trouble, with what to do.
    fn troubles(&self, wanted: impl Fn(&Trouble) -> bool) -> Vec<String> {
        let all = self.keys.iter().filter_map(|key| Some((key, key.trouble.as_ref()?)));
        let wanted = all.filter(|(_, trouble)| wanted(trouble));
        wanted.map(|(key, trouble)| format!("{}: {}", key.key, words(key, trouble))).collect()
    }

    fn tokens_fresh(&self) -> Verdict {
        let secret = format!("Secret {}/{}", self.writer.namespace, self.secret);
        let (reason, words) = match &self.end {
            End::Written => return self.fresh_keys(),
            End::Refused(Refusal::Foreign) => ("SecretNotOurs", "it is not this ServiceToken's".to_owned()),
            End::Refused(Refusal::Immutable) => (
                "SecretImmutable",
                "somebody has made it immutable, so no token in it can be renewed; delete it, and it is made anew".to_owned(),
            ),
            End::Refused(Refusal::Terminating) => {
                ("SecretTerminating", "it is being deleted; once it is gone it is made anew".to_owned())
            }
            End::Forbidden(words) => ("Forbidden", words.clone()),
            End::Rejected(words) => ("Rejected", words.clone()),
            End::Failed(words) => ("NotWritten", words.clone()),
        };
        Verdict::new(TOKENS_FRESH, Truth::False, reason, format!("{secret}: {words}"))
    }

    fn fresh_keys(&self) -> Verdict {
        let troubles = self.troubles(|_| true);
        let fresh = self.keys.iter().filter(|key| key.present.is_some()).count();
        let message = format!("{fresh} of {} tokens are valid", self.keys.len());
        let Some(first) = self.keys.iter().find_map(|key| key.trouble.as_ref()) else {
            return Verdict::new(TOKENS_FRESH, Truth::True, "Fresh", message);
        };
        let reason = match first {
            Trouble::NotYet(_) => "NotYet",
            Trouble::NoAccount => "AccountMissing",
            Trouble::NotAgreed => "NotAgreed",
            Trouble::Unknown(_) => "AccountUnknown",
            Trouble::NotMinted(MintError::Forbidden(_)) => "MintingForbidden",
            Trouble::NotMinted(_) => "NotMinted",
            Trouble::NotWritten => "NotWritten",
        };
        Verdict::new(TOKENS_FRESH, Truth::False, reason, format!("{message}; {}", listed(&troubles)))
    }
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
