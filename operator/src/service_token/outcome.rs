//! What one reconcile found and did, and what is to follow from it. Pure, and without a secret.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use weaver_tenant::Account;
use weaver_tenant::claims::Claims;
use weaver_tenant::token::MintError;

use super::plan::SecretRefusal;
use super::why::MintReason;
use crate::controller::outcome::Reconciled;
use weaver_copies::account_rights::AccountRight;
use weaver_copies::rights::Right;

/// One reconcile of a `ServiceToken`.
pub type TokenOutcome = Reconciled<TokenWork>;

/// What was found and done.
#[derive(Debug)]
pub struct TokenWork {
    /// Who writes the Secret.
    pub writer: Account,
    pub secret: String,
    pub end: SecretWrite,
    /// Each token that is asked for, in the order of the spec.
    pub keys: Vec<RequestedToken>,
    /// Those that were minted and written, and why.
    pub minted: Vec<(String, MintReason)>,
    /// Rights that the writer was found to lack, or why it could not be asked.
    pub missing: Result<BTreeSet<Right>, String>,
    /// The same for accounts to generate.
    pub missing_of_accounts: Result<BTreeSet<AccountRight>, String>,
    /// What became of the accounts that are made, where there are or were such.
    pub generated: Option<GeneratedAccounts>,
    /// A token was minted, or a write of the Secret was tried.
    pub sent: bool,
    /// When something is due by the clock, and what that shows now.
    pub next: Option<(Timestamp, Timestamp)>,
}

/// Accounts of the resource's own making.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct GeneratedAccounts {
    /// Name of the resource, which its Role has.
    pub owner: String,
    /// How many there are.
    pub there: usize,
    /// What is in the way of removing and changing them.
    pub not_removed: Vec<String>,
}

/// How the reconciliation of the Secret ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SecretWrite {
    /// It has all tokens that could be minted.
    Written,
    /// It is not written, because of what it is.
    Refused(SecretRefusal),
    /// The API server refused the writer with these words: for want of rights, or by a quota, a policy or a webhook.
    Forbidden(String),
    /// Refused for what it is, by the API server, a policy or a webhook.
    Rejected(String),
    /// It failed otherwise, with this message, and is tried again.
    Failed(String),
}

/// One token that is asked for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RequestedToken {
    /// Key of the Secret.
    pub key: String,
    pub account: Account,
    /// Whether the account is one of the resource's own making.
    pub is_generated: bool,
    /// The valid one in the Secret.
    pub present: Option<Claims>,
    /// Why it is not there, or is not renewed.
    pub trouble: Option<TokenProblem>,
}

/// Why a token is not as it should be.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum TokenProblem {
    /// It is not minted before this time.
    NotDue(Timestamp),
    /// There is no such account.
    NoAccount,
    /// The account's owner has not agreed.
    AccountNotOptedIn,
    /// The account was to be made, and another one of its name is there.
    NotOurs,
    /// The writer may not mint for the account that was made.
    WriterMayNotMint,
    /// The account could not be asked for, or made.
    Unknown(String),
    /// There was none available.
    NotMinted(MintError),
    /// The Secret could not be written.
    NotWritten,
}

impl TokenWork {
    /// Is there something that another reconcile may cure without any event that would announce the cure?
    pub(super) fn may_be_cured(&self) -> bool {
        let may_pass = |key: &RequestedToken| {
            matches!(
                key.trouble,
                Some(TokenProblem::Unknown(_) | TokenProblem::NotMinted(_) | TokenProblem::WriterMayNotMint)
            )
        };
        matches!(self.end, SecretWrite::Forbidden(_) | SecretWrite::Rejected(_) | SecretWrite::Failed(_))
            || self.keys.iter().any(may_pass)
            || self.generated.as_ref().is_some_and(|generated| !generated.not_removed.is_empty())
    }

    /// The time after which a token is due.
    pub(super) fn due(&self) -> Option<Duration> {
        let (due, now) = self.next?;
        // A second more, since the API server's clock is reported in seconds.
        Some(Duration::try_from(due.duration_since(now)).unwrap_or_default() + Duration::from_secs(1))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{OperatorArgs, OperatorVerb, RunOptions};

    /// A reconciliation with these keys.
    pub fn work(keys: Vec<RequestedToken>) -> TokenWork {
        TokenWork {
            writer: Account { namespace: "team-a".into(), name: "writer".into() },
            secret: "tokens".into(),
            end: SecretWrite::Written,
            keys,
            minted: Vec::new(),
            missing: Ok(BTreeSet::new()),
            missing_of_accounts: Ok(BTreeSet::new()),
            generated: None,
            sent: false,
            next: None,
        }
    }

    /// The token `a` of `robot`.
    pub fn key(trouble: Option<TokenProblem>) -> RequestedToken {
        RequestedToken {
            key: "a".into(),
            account: Account { namespace: "team-a".into(), name: "robot".into() },
            is_generated: false,
            present: None,
            trouble,
        }
    }

    fn options() -> RunOptions {
        match OperatorArgs::try_parse_from(["weaver-operator", "run"]).unwrap().verb {
            OperatorVerb::Run(options) => options,
            OperatorVerb::Webhook(_) | OperatorVerb::Install(_) => unreachable!(),
        }
    }

    #[test]
    fn what_no_event_would_cure_is_tried_again() {
        let account = || Account { namespace: "team-a".into(), name: "robot".into() };
        for (trouble, expected) in [
            (None, false),
            (Some(TokenProblem::NoAccount), false),
            (Some(TokenProblem::AccountNotOptedIn), false),
            (Some(TokenProblem::NotOurs), false),
            (Some(TokenProblem::WriterMayNotMint), true),
            (Some(TokenProblem::NotDue(Timestamp::UNIX_EPOCH)), false),
            (Some(TokenProblem::Unknown("away".into())), true),
            (Some(TokenProblem::NotMinted(MintError::Forbidden(account()))), true),
        ] {
            let reconciled = TokenOutcome::Worked(Box::new(work(vec![key(trouble.clone())])));
            assert_eq!(reconciled.wants_retry(), expected, "{trouble:?}");
        }
        for (end, expected) in [
            (SecretWrite::Refused(SecretRefusal::Foreign), false),
            (SecretWrite::Forbidden("no".into()), true),
            (SecretWrite::Rejected("no".into()), true),
            (SecretWrite::Failed("away".into()), true),
        ] {
            let reconciled =
                TokenOutcome::Worked(Box::new(TokenWork { end: end.clone(), ..work(Vec::new()) }));
            assert_eq!(reconciled.wants_retry(), expected, "{end:?}");
        }
        assert!(TokenOutcome::NoToken(MintError::Forbidden(account())).wants_retry());
        assert!(!TokenOutcome::InvalidSpec(Vec::new()).wants_retry());
    }

    #[test]
    fn the_next_reconciliation_is_when_a_token_is_due_and_no_later_than_accounts_are_looked_at() {
        let at = |second| Timestamp::from_second(second).unwrap();
        for (next, expected) in [
            (None, 60),
            (Some((at(20), at(10))), 11),
            (Some((at(900), at(10))), 60),
            (Some((at(0), at(9))), 1),
        ] {
            let reconciled = TokenOutcome::Worked(Box::new(TokenWork { next, ..work(Vec::new()) }));
            assert_eq!(reconciled.resync(&options()).as_secs(), expected, "{next:?}");
        }
    }
}
