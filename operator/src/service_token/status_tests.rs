use k8s_openapi::jiff::Timestamp;
use weaver_api::conditions::{MIGRATED, READY};
use weaver_api::validate::validate_token;
use weaver_copies::rights::for_writer;
use weaver_tenant::claims::{Claims, ObjectIdentity};

use super::super::outcome::tests::{key, work};
use super::*;

fn folded(reconciled: &TokenOutcome) -> ServiceTokenStatus {
    status(&ServiceTokenStatus::default(), reconciled, &[], Some(1), &Time(Timestamp::UNIX_EPOCH))
}

fn of(work: TokenWork) -> ServiceTokenStatus {
    folded(&TokenOutcome::Worked(Box::new(work)))
}

/// A condition as one line.
fn shown(status: &ServiceTokenStatus, kind: &str) -> String {
    let found = status.conditions.iter().find(|condition| condition.type_ == kind).unwrap();
    format!("{}/{}: {}", found.status, found.reason, found.message)
}

fn robot() -> Account {
    Account { namespace: "team-a".into(), name: "robot".into() }
}

fn claims() -> Claims {
    let named = |name: &str, uid: &str| ObjectIdentity { name: name.into(), uid: uid.into() };
    Claims {
        account: named("robot", "u-1"),
        namespace: "team-a".into(),
        audiences: vec!["api".into()],
        secret: Some(named("tokens", "s-1")),
        issued_at: Timestamp::from_second(0).unwrap(),
        expires_at: Timestamp::from_second(3_600).unwrap(),
    }
}

#[test]
fn each_key_tells_of_its_token_and_never_the_token() {
    let status = of(work(vec![RequestedToken { present: Some(claims()), ..key(None) }]));
    assert_eq!(shown(&status, READY), "True/Fresh: 1 of 1 tokens are valid");
    assert_eq!(status.secret_name.as_deref(), Some("tokens"));
    assert_eq!(status.counts, Some(TokenCounts { desired: 1, fresh: 1 }));
    let reported = json!({
        "key": "a", "accountUid": "u-1", "issuedAt": "1970-01-01T00:00:00Z",
        "expiresAt": "1970-01-01T01:00:00Z",
    });
    assert_eq!(json!(status.tokens), json!([reported]));
}

#[test]
fn every_type_is_there_from_the_first_reconciliation_and_an_equal_reconciliation_writes_nothing() {
    let first = of(work(vec![key(None)]));
    let types: Vec<_> = first.conditions.iter().map(|condition| condition.type_.as_str()).collect();
    assert_eq!(types, TOKEN_ORDER);
    let reconciled = TokenOutcome::Worked(Box::new(work(vec![key(None)])));
    let again = status(&first, &reconciled, &[], Some(1), &Time(Timestamp::from_second(99).unwrap()));
    assert_eq!(again, first);
}

#[test]
fn what_is_in_the_way_is_named_with_its_remedy() {
    for (trouble, reason, remedy) in [
        (
            TokenProblem::NoAccount,
            "AccountMissing",
            "create it: kubectl -n team-a create serviceaccount robot",
        ),
        (
            TokenProblem::AccountNotOptedIn,
            "AccountNotOptedIn",
            "kubectl -n team-a label serviceaccount robot weaver.example.com/allow-tokens=true",
        ),
        (
            TokenProblem::NotMinted(MintError::Forbidden(robot())),
            "MintingForbidden",
            "allow it: weaver tenant allow team-a robot",
        ),
        (
            TokenProblem::NotMinted(MintError::Failed { account: robot(), reason: "away".into() }),
            "NotMinted",
            "minting a token for ServiceAccount team-a/robot failed: away",
        ),
        (TokenProblem::Unknown("away".into()), "AccountUnknown", "could not be read: away"),
        (
            TokenProblem::NotDue(Timestamp::UNIX_EPOCH),
            "NotDue",
            "not minted before 1970-01-01T00:00:00Z (spec.tokens[].notBefore)",
        ),
    ] {
        let status = of(work(vec![key(Some(trouble.clone()))]));
        let ready = shown(&status, READY);
        assert!(
            ready.starts_with(&format!("False/{reason}: ")) && ready.contains(remedy),
            "{trouble:?}: {ready}"
        );
        assert!(status.tokens[0].message.contains(remedy), "{:?}", status.tokens);
    }
}

#[test]
fn an_account_that_is_gone_does_not_hide_the_other_keys() {
    let well = RequestedToken { key: "b".into(), present: Some(claims()), ..key(None) };
    let status = of(work(vec![key(Some(TokenProblem::NoAccount)), well]));
    let fresh = shown(&status, TOKENS_FRESH);
    assert!(fresh.starts_with("False/AccountMissing: 1 of 2 tokens are valid; a: "), "{fresh}");
    assert!(status.tokens[1].message.is_empty() && status.tokens[1].expires_at.is_some());
}

#[test]
fn a_secret_that_is_not_ours_is_a_conflict() {
    let status = of(TokenWork {
        end: SecretWrite::Refused(SecretRefusal::Foreign),
        ..work(vec![key(Some(TokenProblem::NotWritten))])
    });
    let conflicted = shown(&status, CONFLICTED);
    assert!(conflicted.starts_with("True/SecretNotOurs: Secret team-a/tokens exists"), "{conflicted}");
    assert!(shown(&status, READY).starts_with("False/SecretNotOurs: "));
}

#[test]
fn how_the_secret_could_not_be_written_is_the_reason() {
    for (end, reason) in [
        (SecretWrite::Refused(SecretRefusal::Immutable), "SecretImmutable"),
        (SecretWrite::Refused(SecretRefusal::Terminating), "SecretTerminating"),
        (SecretWrite::Rejected("too big".into()), "Rejected"),
        (SecretWrite::Failed("away".into()), "NotWritten"),
    ] {
        let status = of(TokenWork { end: end.clone(), ..work(vec![key(Some(TokenProblem::NotWritten))]) });
        assert!(
            shown(&status, READY).starts_with(&format!("False/{reason}: Secret team-a/tokens: ")),
            "{end:?}"
        );
    }
}

#[test]
fn a_writer_without_rights_sees_the_role() {
    let missing = || Ok(for_writer("team-a", "tokens").into_iter().collect());
    let status = of(TokenWork {
        end: SecretWrite::Forbidden("no".into()),
        missing: missing(),
        ..work(vec![key(Some(TokenProblem::NotWritten))])
    });
    let ready = shown(&status, READY);
    assert!(ready.starts_with("False/MissingRights: ") && ready.contains("kind: RoleBinding"), "{ready}");
    let blind = for_writer("team-a", "tokens").into_iter().filter(Right::is_for_watching);
    let status = of(TokenWork { missing: Ok(blind.collect()), ..work(vec![key(None)]) });
    assert!(shown(&status, AUTHORIZED).starts_with("True/Polled: "));
    assert!(shown(&status, READY).starts_with("True/Fresh: "));
}

#[test]
fn no_token_for_the_writer_explains_all() {
    for (error, ready) in [
        (MintError::Forbidden(robot()), "False/MintingForbidden: the operator may not mint tokens"),
        (
            MintError::AccountMissing(robot()),
            "False/AccountMissing: ServiceAccount team-a/robot does not exist",
        ),
        (
            MintError::Failed { account: robot(), reason: "away".into() },
            "False/TokenFailed: minting a token for ServiceAccount team-a/robot failed: away",
        ),
    ] {
        let status = folded(&TokenOutcome::NoToken(error));
        assert!(shown(&status, READY).starts_with(ready), "{}", shown(&status, READY));
        assert!(status.counts.is_none() && status.tokens.is_empty());
    }
}

#[test]
fn an_incomplete_spec_is_not_migrated_and_one_that_is_wrong_is_named_by_field() {
    let status = folded(&TokenOutcome::InvalidSpec(validate_token(None).unwrap_err()));
    assert!(shown(&status, MIGRATED).starts_with("False/Incomplete: spec.writer.serviceAccount.name"));
    assert!(shown(&status, READY).starts_with("False/InvalidSpec: "));
    let odd = folded(&TokenOutcome::ParseFailed(vec!["spec.tokens: a word".into()]));
    assert!(shown(&odd, READY).contains("spec.tokens: a word"));
}

/// A reconciliation that has made so many accounts, with these troubles of the first ones.
fn making(count: usize, troubles: &[TokenProblem]) -> TokenWork {
    let keys = (1..=count).map(|n| {
        let account = Account { namespace: "team-a".into(), name: format!("bot-{n}") };
        let trouble = troubles.get(n - 1).cloned();
        let present = trouble.is_none().then(claims);
        RequestedToken { key: format!("{n:03}"), account, is_generated: true, present, trouble }
    });
    let generated = GeneratedAccounts { owner: "bots".into(), there: count, not_removed: Vec::new() };
    TokenWork { generated: Some(generated), ..work(keys.collect()) }
}

#[test]
fn generated_accounts_are_counted_and_only_those_with_a_problem_are_named() {
    let status = of(making(30, &[]));
    assert_eq!(shown(&status, READY), "True/Fresh: 30 of 30 tokens are valid");
    assert_eq!(status.counts, Some(TokenCounts { desired: 30, fresh: 30 }));
    assert_eq!(status.tokens, []);
    let generated = status.generated.unwrap();
    assert_eq!((generated.desired, generated.accounts, generated.fresh), (30, 30, 30));
    assert_eq!(generated.expires_at.as_deref(), Some("1970-01-01T01:00:00Z"));
    let status = of(making(500, &vec![TokenProblem::NotOurs; 40]));
    let generated = status.generated.clone().unwrap();
    assert_eq!((generated.fresh, generated.problems.len()), (460, MAX_PROBLEMS_SHOWN));
    assert!(
        shown(&status, CONFLICTED)
            .starts_with("True/AccountNotOurs: 001: ServiceAccount team-a/bot-1 exists")
    );
    let ready = shown(&status, READY);
    assert!(ready.starts_with("False/AccountNotOurs: ") && ready.ends_with("; and 30 more"), "{ready}");
}

#[test]
fn a_writer_that_may_not_make_accounts_sees_the_role() {
    let needed =
        || weaver_copies::account_rights::for_accounts("team-a", ["bot-1"].into_iter()).into_iter().collect();
    let troubles = [TokenProblem::Unknown("no".into())];
    let status = of(TokenWork { missing_of_accounts: Ok(needed()), ..making(1, &troubles) });
    let ready = shown(&status, READY);
    assert!(
        ready.starts_with("False/MissingRights: ServiceAccount team-a/writer may not create, list"),
        "{ready}"
    );
    assert!(ready.contains("name: weaver:team-a:writer:accounts:bots"), "{ready}");
    assert_eq!(ready.matches("kind: RoleBinding").count(), 1);
    // Both at once.
    let missing = Ok(for_writer("team-a", "tokens").into_iter().collect());
    let both = of(TokenWork { missing_of_accounts: Ok(needed()), missing, ..making(1, &troubles) });
    let ready = shown(&both, READY);
    assert!(ready.contains("name: weaver:team-a:writer:tokens:tokens"), "{ready}");
    assert_eq!(ready.matches("kind: RoleBinding").count(), 2);
}

#[test]
fn accounts_that_could_not_be_removed_are_reported_and_counted_until_they_are_gone() {
    let left = GeneratedAccounts { owner: "bots".into(), there: 2, not_removed: vec!["bot-2: away".into()] };
    let status = of(TokenWork { generated: Some(left), ..making(1, &[]) });
    let ready = shown(&status, READY);
    assert!(ready.starts_with("False/AccountCleanupPending: ") && ready.ends_with("bot-2: away"), "{ready}");
    let generated = status.generated.unwrap();
    assert_eq!((generated.desired, generated.accounts), (1, 2));
    let gone = GeneratedAccounts { owner: "bots".into(), there: 0, not_removed: Vec::new() };
    assert_eq!(of(TokenWork { generated: Some(gone), ..work(vec![key(None)]) }).generated, None);
}

#[test]
fn what_is_known_of_generated_tokens_ends_when_the_first_expires() {
    let before = of(making(3, &[]));
    let nothing = TokenOutcome::NoToken(MintError::AccountMissing(robot()));
    for (second, fresh) in [(3_599, 3), (3_600, 0)] {
        let now = Time(Timestamp::from_second(second).unwrap());
        let after = status(&before, &nothing, &[], Some(1), &now).generated.unwrap();
        assert_eq!((after.fresh, after.accounts), (fresh, 3), "{second}");
    }
}

#[test]
fn a_patch_takes_away_what_is_not_said_any_more() {
    let patched = patch(&folded(&TokenOutcome::NoToken(MintError::AccountMissing(robot()))));
    assert_eq!(patched["status"]["tokens"], Value::Null);
    assert_eq!(patched["status"]["counts"], Value::Null);
    assert_eq!(patched["status"]["generated"], Value::Null);
}
