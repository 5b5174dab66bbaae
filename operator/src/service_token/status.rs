//! A reconciliation as the whole status of its resource. Pure.
//!
//! The fold looks at nothing but the reconciliation, the object's generation and the conditions that were there
//! before, so an unchanged world gives an unchanged status and no write. Of a token it reports when it was
//! issued, when it expires and for which account, and nothing by which it could be used.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use weaver_api::conditions::{self, AUTHORIZED, CONFLICTED, TOKEN_ORDER, TOKENS_FRESH, Truth, Verdict};
use weaver_api::minting;
use weaver_api::ownership::ALLOW_TOKENS_LABEL;
use weaver_api::v1beta1::{
    AccountProblem, GeneratedStatus, MAX_PROBLEMS_SHOWN, ServiceTokenStatus, TokenCounts, TokenStatus,
};
use weaver_tenant::Account;
use weaver_tenant::token::MintError;

use super::outcome::{GeneratedAccounts, RequestedToken, SecretWrite, TokenOutcome, TokenProblem, TokenWork};
use super::plan::SecretRefusal;
use crate::args::RunOptions;
use crate::controller;
use crate::controller::verdicts::listed;
use weaver_copies::account_rights::{AccountRight, explain_accounts};
use weaver_copies::rights::{Right, explain_writer, writer_role, yaml};

/// Longest message about one token, in bytes.
const MAX_MESSAGE: usize = 512;

/// What the status of a resource should be after `outcome`. `before` is what it was; `annotation_faults` is what is
/// wrong with the content that conversion carries.
pub fn status(
    before: &ServiceTokenStatus,
    outcome: &TokenOutcome,
    annotation_faults: &[String],
    generation: Option<i64>,
    now: &Time,
) -> ServiceTokenStatus {
    let verdicts = outcome.verdicts(annotation_faults);
    let mut status = ServiceTokenStatus {
        observed_generation: generation,
        conditions: conditions::fold(&TOKEN_ORDER, &before.conditions, &verdicts, generation, now),
        ..ServiceTokenStatus::default()
    };
    if let Some(work) = outcome.work() {
        status.secret_name = Some(work.secret.clone());
        status.tokens = work.keys.iter().filter(|key| !key.is_generated).map(of_key).collect();
        status.generated = work.generated.as_ref().and_then(|made| generated(made, &work.keys));
    } else {
        // Where nothing was looked at, what was there stays until it expires.
        status.secret_name.clone_from(&before.secret_name);
        status.tokens = before.tokens.iter().map(|token| until_expiry(token, now)).collect();
        status.generated = before.generated.clone().map(|before| until_first_expiry(before, now));
    }
    status.counts = counts(&status.tokens, status.generated.as_ref());
    status
}

/// The accounts that were made; nothing where there are none and none are wanted any more.
fn generated(made: &GeneratedAccounts, keys: &[RequestedToken]) -> Option<GeneratedStatus> {
    let keys: Vec<&RequestedToken> = keys.iter().filter(|key| key.is_generated).collect();
    let present = || keys.iter().filter_map(|key| key.present.as_ref());
    let problem = |key: &&RequestedToken| {
        let message = conditions::bounded(&explained(key, key.trouble.as_ref()?), MAX_MESSAGE);
        Some(AccountProblem { account: key.account.name.clone(), message })
    };
    (!keys.is_empty() || made.there > 0).then(|| GeneratedStatus {
        desired: number(keys.len()),
        accounts: number(made.there),
        fresh: number(present().count()),
        expires_at: present().map(|claims| claims.expires_at).min().map(|first| first.to_string()),
        problems: keys.iter().filter_map(problem).take(MAX_PROBLEMS_SHOWN).collect(),
    })
}

/// Of generated tokens it is known when the first expires, and that is when it is no longer known how many are valid.
fn until_first_expiry(before: GeneratedStatus, now: &Time) -> GeneratedStatus {
    let expires = before.expires_at.as_ref().and_then(|text| text.parse::<Timestamp>().ok());
    if expires.is_some_and(|expires| expires > now.0) {
        return before;
    }
    GeneratedStatus { fresh: 0, expires_at: None, ..before }
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

fn until_expiry(token: &TokenStatus, now: &Time) -> TokenStatus {
    let expires = token.expires_at.as_ref().and_then(|text| text.parse::<Timestamp>().ok());
    let is_valid = expires.is_some_and(|expires| expires > now.0);
    if is_valid { token.clone() } else { TokenStatus { key: token.key.clone(), ..TokenStatus::default() } }
}

fn counts(tokens: &[TokenStatus], generated: Option<&GeneratedStatus>) -> Option<TokenCounts> {
    let fresh = tokens.iter().filter(|token| token.expires_at.is_some()).count();
    let (more, more_fresh) = generated.map_or((0, 0), |made| (made.desired, made.fresh));
    (!tokens.is_empty() || generated.is_some())
        .then(|| TokenCounts { desired: number(tokens.len()) + more, fresh: number(fresh) + more_fresh })
}

/// The merge patch that writes `status`.
pub fn patch(status: &ServiceTokenStatus) -> Value {
    let ServiceTokenStatus { observed_generation, conditions, secret_name, counts, generated, tokens } =
        status;
    json!({"status": {
        "observedGeneration": observed_generation,
        "conditions": conditions,
        "secretName": secret_name,
        "counts": counts,
        // A merge patch keeps what it does not name.
        "generated": generated.as_ref().map(|generated| json!({
            "desired": generated.desired,
            "accounts": generated.accounts,
            "fresh": generated.fresh,
            "expiresAt": generated.expires_at,
            "problems": (!generated.problems.is_empty()).then_some(&generated.problems),
        })),
        "tokens": (!tokens.is_empty()).then_some(tokens),
    }})
}

fn of_key(key: &RequestedToken) -> TokenStatus {
    let present = key.present.as_ref();
    let message = key.trouble.as_ref().map(|trouble| explained(key, trouble)).unwrap_or_default();
    TokenStatus {
        key: key.key.clone(),
        account_uid: present.map(|claims| claims.account.uid.clone()),
        issued_at: present.map(|claims| claims.issued_at.to_string()),
        expires_at: present.map(|claims| claims.expires_at.to_string()),
        message: conditions::bounded(&message, MAX_MESSAGE),
    }
}

/// What is in the way of a token, and what to do.
fn explained(key: &RequestedToken, trouble: &TokenProblem) -> String {
    let Account { namespace, name } = &key.account;
    match trouble {
        TokenProblem::NotDue(until) => format!("not minted before {until} (spec.tokens[].notBefore)"),
        TokenProblem::NoAccount => format!(
            "{} does not exist; create it: kubectl -n {namespace} create serviceaccount {name}",
            key.account
        ),
        TokenProblem::AccountNotOptedIn => format!(
            "the owner of {} has not allowed tokens; to allow them: kubectl -n {namespace} label \
             serviceaccount {name} {ALLOW_TOKENS_LABEL}=true",
            key.account
        ),
        TokenProblem::NotOurs => format!(
            "{} exists, was not made by this ServiceToken and was left untouched: delete it, or write another \
             spec.generate.name",
            key.account
        ),
        TokenProblem::WriterMayNotMint => format!("the writer may not mint tokens for {}", key.account),
        TokenProblem::Unknown(message) if key.is_generated => {
            format!("{} could not be made: {message}", key.account)
        }
        TokenProblem::Unknown(message) => format!("{} could not be read: {message}", key.account),
        TokenProblem::NotMinted(error @ MintError::Forbidden(_)) => {
            format!("{error}; allow it: {}", minting::command(namespace, name))
        }
        TokenProblem::NotMinted(error) => error.to_string(),
        TokenProblem::NotWritten => "the Secret could not be written".to_owned(),
    }
}

impl controller::outcome::TenantWork for TokenWork {
    const ABOUT: &'static [&'static str] = &[TOKENS_FRESH];
    const DONE: &'static str = "Fresh";
    const ACCOUNT: &'static str = "writer";

    /// A Secret that is another's, or a missing right, explains missing tokens.
    fn verdicts(&self) -> Vec<Verdict> {
        vec![self.conflicted(), self.authorized(), self.tokens_fresh()]
    }

    /// What is not known is the worse explanation.
    fn cause<'a>(in_the_way: &[&'a Verdict]) -> Option<&'a Verdict> {
        let known = in_the_way.iter().find(|verdict| verdict.truth != Truth::Unknown);
        known.or(in_the_way.first()).copied()
    }

    fn wants_retry(&self) -> bool {
        self.may_be_cured()
    }

    /// One key in trouble does not let the others expire.
    fn retry_within(&self) -> Option<Duration> {
        self.due()
    }

    /// No watch covers accounts: whether one was deleted, created again, or its owner has agreed.
    fn resync(&self, options: &RunOptions) -> Duration {
        self.due().map_or(options.retry, |due| due.min(options.retry))
    }
}

impl TokenWork {
    fn conflicted(&self) -> Verdict {
        let secret = format!("Secret {}/{}", self.writer.namespace, self.secret);
        match self.end {
            SecretWrite::Refused(SecretRefusal::Foreign) => {
                let message = format!(
                    "{secret} exists, was not made by this ServiceToken and was left untouched; rename or \
                     delete it, or \
                     make another ServiceToken with another spec.secretName"
                );
                Verdict::new(CONFLICTED, Truth::True, "SecretNotOurs", message)
            }
            SecretWrite::Written | SecretWrite::Refused(_) => {
                let foreign = self.troubles(|trouble| *trouble == TokenProblem::NotOurs);
                if foreign.is_empty() {
                    return Verdict::new(CONFLICTED, Truth::False, "NoConflict", "");
                }
                Verdict::new(CONFLICTED, Truth::True, "AccountNotOurs", listed(&foreign))
            }
            _ => Verdict::new(
                CONFLICTED,
                Truth::Unknown,
                "NotChecked",
                "the Secret could not be read or written",
            ),
        }
    }

    fn authorized(&self) -> Verdict {
        match &self.missing_of_accounts {
            Err(why) => {
                let message = format!("a request was refused, and the writer's rights are unknown: {why}");
                return Verdict::new(AUTHORIZED, Truth::Unknown, "RightsUnknown", message);
            }
            Ok(missing) if !missing.is_empty() => {
                return Verdict::new(AUTHORIZED, Truth::False, "MissingRights", self.explained(missing));
            }
            Ok(_) => {}
        }
        match &self.missing {
            // What was refused is the watch, and all is well but that.
            Err(why) if self.end == SecretWrite::Written => {
                let message = format!(
                    "the Secret is polled instead of watched, and the missing right could not be determined: {why}"
                );
                return Verdict::new(AUTHORIZED, Truth::True, "Polled", message);
            }
            Err(why) => {
                let message = format!("a request was refused, and the writer's rights are unknown: {why}");
                return Verdict::new(AUTHORIZED, Truth::Unknown, "RightsUnknown", message);
            }
            Ok(missing) if !missing.iter().all(Right::is_for_watching) => {
                let message = explain_writer(&self.writer, &self.secret, missing);
                return Verdict::new(AUTHORIZED, Truth::False, "MissingRights", message);
            }
            Ok(_) => {}
        }
        let is_forbidden = |trouble: &TokenProblem| {
            matches!(
                trouble,
                TokenProblem::NotMinted(MintError::Forbidden(_)) | TokenProblem::WriterMayNotMint
            )
        };
        let forbidden = self.troubles(is_forbidden);
        if !forbidden.is_empty() {
            return Verdict::new(AUTHORIZED, Truth::False, "MintingForbidden", listed(&forbidden));
        }
        let not_opted_in = self.troubles(|trouble| *trouble == TokenProblem::AccountNotOptedIn);
        if !not_opted_in.is_empty() {
            return Verdict::new(AUTHORIZED, Truth::False, "AccountNotOptedIn", listed(&not_opted_in));
        }
        match &self.missing {
            Ok(missing) if !missing.is_empty() => {
                let message = format!(
                    "the Secret is polled instead of watched: {}",
                    explain_writer(&self.writer, &self.secret, missing)
                );
                Verdict::new(AUTHORIZED, Truth::True, "Polled", message)
            }
            _ => {
                let message = format!("{} has every right that is needed", self.writer);
                Verdict::new(AUTHORIZED, Truth::True, "Allowed", message)
            }
        }
    }

    /// What the writer lacks to make accounts, and what else it lacks, with the Roles that grant both.
    fn explained(&self, missing: &BTreeSet<AccountRight>) -> String {
        let is_foreign = |key: &&RequestedToken| key.trouble == Some(TokenProblem::NotOurs);
        let foreign: BTreeSet<&str> =
            self.keys.iter().filter(is_foreign).map(|key| &*key.account.name).collect();
        let generated = self.keys.iter().filter(|key| key.is_generated).map(|key| &key.account.name);
        // Those to remove are no longer generated.
        let names: BTreeSet<&String> =
            generated.chain(missing.iter().filter_map(|right| right.name.as_ref())).collect();
        let names: Vec<String> =
            names.into_iter().filter(|name| !foreign.contains(name.as_str())).cloned().collect();
        let owner = self.generated.as_ref().map_or("", |generated| &generated.owner);
        let text = explain_accounts(&self.writer, owner, &names, missing);
        match &self.missing {
            Ok(others) if !others.iter().all(Right::is_for_watching) => {
                text + "---\n" + &yaml(&writer_role(&self.writer, &self.secret))
            }
            _ => text,
        }
    }

    /// The keys in such trouble, with what to do.
    fn troubles(&self, wanted: impl Fn(&TokenProblem) -> bool) -> Vec<String> {
        let all = self.keys.iter().filter_map(|key| Some((key, key.trouble.as_ref()?)));
        let wanted = all.filter(|(_, trouble)| wanted(trouble));
        wanted.map(|(key, trouble)| format!("{}: {}", key.key, explained(key, trouble))).collect()
    }

    fn tokens_fresh(&self) -> Verdict {
        let secret = format!("Secret {}/{}", self.writer.namespace, self.secret);
        let (reason, message) = match &self.end {
            SecretWrite::Written => return self.fresh_keys(),
            SecretWrite::Refused(SecretRefusal::Foreign) => {
                ("SecretNotOurs", "it is not this ServiceToken's".to_owned())
            }
            SecretWrite::Refused(SecretRefusal::Immutable) => (
                "SecretImmutable",
                "it is immutable, so its tokens cannot be renewed; delete it, and it is created again"
                    .to_owned(),
            ),
            SecretWrite::Refused(SecretRefusal::Terminating) => {
                ("SecretTerminating", "it is being deleted and is created again once it is gone".to_owned())
            }
            SecretWrite::Forbidden(message) => ("Forbidden", message.clone()),
            SecretWrite::Rejected(message) => ("Rejected", message.clone()),
            SecretWrite::Failed(message) => ("NotWritten", message.clone()),
        };
        Verdict::new(TOKENS_FRESH, Truth::False, reason, format!("{secret}: {message}"))
    }

    fn fresh_keys(&self) -> Verdict {
        let troubles = self.troubles(|_| true);
        let fresh = self.keys.iter().filter(|key| key.present.is_some()).count();
        let message = format!("{fresh} of {} tokens are valid", self.keys.len());
        let Some(first) = self.keys.iter().find_map(|key| key.trouble.as_ref()) else {
            let left = self.generated.iter().flat_map(|generated| &generated.not_removed);
            let left: Vec<String> = left.cloned().collect();
            if !left.is_empty() {
                let message = format!(
                    "{message}; some accounts could not be created, changed or deleted: {}",
                    listed(&left)
                );
                return Verdict::new(TOKENS_FRESH, Truth::False, "AccountCleanupPending", message);
            }
            return Verdict::new(TOKENS_FRESH, Truth::True, "Fresh", message);
        };
        let reason = match first {
            TokenProblem::NotDue(_) => "NotDue",
            TokenProblem::NoAccount => "AccountMissing",
            TokenProblem::AccountNotOptedIn => "AccountNotOptedIn",
            TokenProblem::Unknown(_) => "AccountUnknown",
            TokenProblem::NotOurs => "AccountNotOurs",
            TokenProblem::NotMinted(MintError::Forbidden(_)) | TokenProblem::WriterMayNotMint => {
                "MintingForbidden"
            }
            TokenProblem::NotMinted(_) => "NotMinted",
            TokenProblem::NotWritten => "NotWritten",
        };
        Verdict::new(TOKENS_FRESH, Truth::False, reason, format!("{message}; {}", listed(&troubles)))
    }
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
