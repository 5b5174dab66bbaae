use kube::core::Status;
use weaver_api::v1alpha1::ConfigMapSyncSpec;

use super::super::plan::{Foreign, Verified};
use super::*;
use crate::tenant::rights::for_target;

fn account() -> Account {
    Account { namespace: "team-a".into(), name: "sync".into() }
}

fn synced() -> TargetState {
    TargetState::Synced(Verified { uid: "u".into(), resource_version: "1".into(), digest: "d".into() })
}

fn forbidden() -> TargetState {
    TargetState::Forbidden(Status::failure("exceeded quota", "Forbidden").boxed())
}

fn work(targets: &[(&str, TargetState)]) -> Work {
    Work {
        account: account(),
        spec: ValidSync {
            account: "sync".into(),
            source_namespace: "team-a".into(),
            source_name: "settings".into(),
            targets: targets.iter().map(|(namespace, _)| (*namespace).to_owned()).collect(),
            names_source_namespace: false,
        },
        source: SourceState::Found,
        targets: targets.iter().map(|(namespace, state)| ((*namespace).to_owned(), state.clone())).collect(),
        leftovers: BTreeMap::new(),
        search_failed: None,
        missing: Ok(BTreeSet::new()),
        unexplained: 0,
    }
}

fn verdict(visit: &Visit, kind: &str) -> (Truth, &'static str, String) {
    let found = visit.verdicts().into_iter().find(|verdict| verdict.kind == kind).unwrap();
    (found.truth, found.reason, found.message)
}

#[test]
fn all_is_well() {
    let visit = Visit::Worked(Box::new(work(&[("foo", synced()), ("bar", synced())])));
    assert_eq!(verdict(&visit, READY), (Truth::True, "Synced", "2 of 2 targets hold the copy".into()));
    assert!(!visit.wants_retry());
}

#[test]
fn b15_a_target_that_was_not_written_is_never_reported_as_synced() {
    for state in [forbidden(), TargetState::Failed("x".into()), TargetState::Rejected("x".into())] {
        let visit = Visit::Worked(Box::new(work(&[("foo", synced()), ("bar", state)])));
        let (truth, _, message) = verdict(&visit, TARGETS_SYNCED);
        assert_eq!(truth, Truth::False);
        assert!(message.starts_with("1 of 2 targets hold the copy; bar: "), "{message}");
        assert_eq!(verdict(&visit, READY).0, Truth::False);
    }
}

#[test]
fn b16_a_missing_namespace_is_a_state_of_that_target_not_an_error() {
    let visit = Visit::Worked(Box::new(work(&[("foo", synced()), ("later", TargetState::NamespaceMissing)])));
    let (truth, _, message) = verdict(&visit, READY);
    assert_eq!(
        (truth, message.as_str()),
        (Truth::True, "1 of 2 targets hold the copy; not there yet: later")
    );
}

#[test]
fn b2_a_conflict_names_the_object_and_the_remedy() {
    let visit = Visit::Worked(Box::new(work(&[("foo", TargetState::Conflict(Foreign::Unmarked))])));
    let (truth, reason, message) = verdict(&visit, CONFLICTED);
    assert_eq!((truth, reason), (Truth::True, "Conflict"));
    assert!(message.starts_with("ConfigMap foo/settings was left untouched"), "{message}");
    assert!(message.ends_with("or drop the namespace from spec.syncToNamespaces"), "{message}");
    assert_eq!(verdict(&visit, READY).1, "Conflict");
}

#[test]
fn b17_a_missing_right_in_one_namespace_is_named_and_the_others_are_synced() {
    let mut work = work(&[("foo", synced()), ("bar", forbidden())]);
    work.missing = Ok(for_target("bar").into_iter().collect());
    let visit = Visit::Worked(Box::new(work));
    let (truth, reason, message) = verdict(&visit, READY);
    assert_eq!((truth, reason), (Truth::False, "MissingRights"));
    assert!(message.contains("may not create, delete, get, list, update, watch ConfigMaps in namespace bar"));
    assert!(visit.wants_retry());
}

#[test]
fn a_refusal_that_is_no_missing_right_shows_the_servers_own_reason() {
    let visit = Visit::Worked(Box::new(work(&[("foo", forbidden())])));
    assert_eq!(verdict(&visit, AUTHORIZED).0, Truth::True);
    assert!(verdict(&visit, READY).2.contains("exceeded quota"));
}

#[test]
fn b22_a_missing_source_leaves_the_copies_and_says_so() {
    let mut work = work(&[]);
    work.source = SourceState::Missing;
    let visit = Visit::Worked(Box::new(work));
    assert_eq!(verdict(&visit, READY).1, "SourceMissing");
    assert_eq!(verdict(&visit, TARGETS_SYNCED).0, Truth::Unknown);
    assert!(!visit.wants_retry(), "the watch on the source announces it");
}

#[test]
fn b29_every_fault_of_a_spec_is_named_at_once() {
    let faults = weaver_api::validate::validate(Some(&ConfigMapSyncSpec::default())).unwrap_err();
    let visit = Visit::InvalidSpec(faults);
    let (truth, reason, message) = verdict(&visit, READY);
    assert_eq!((truth, reason), (Truth::False, "InvalidSpec"));
    for field in
        ["spec.serviceAccount.name", "spec.source.name", "spec.source.namespace", "spec.syncToNamespaces"]
    {
        assert!(message.contains(field), "{message}");
    }
    assert!(!visit.wants_retry());
}

#[test]
fn minting_that_is_not_allowed_prints_the_command() {
    let visit = Visit::NoToken(MintError::Forbidden(account()));
    assert_eq!(verdict(&visit, AUTHORIZED).1, "MintingForbidden");
    assert!(verdict(&visit, READY).2.contains("weaver tenant allow team-a sync"));
    assert!(visit.wants_retry());
}

#[test]
fn a_thousand_failures_do_not_fill_the_status() {
    let names: Vec<String> = (0..1_000).map(|n| format!("ns-{n:04}")).collect();
    let targets: Vec<(&str, TargetState)> = names.iter().map(|name| (name.as_str(), forbidden())).collect();
    let message = verdict(&Visit::Worked(Box::new(work(&targets))), TARGETS_SYNCED).2;
    assert!(message.len() < 1_000 && message.ends_with("; and 990 more"), "{message}");
}

#[test]
fn every_condition_is_judged_in_every_visit() {
    for visit in [
        Visit::InvalidSpec(vec![SpecFault::NoSpec]),
        Visit::NoToken(MintError::AccountMissing(account())),
        Visit::Worked(Box::new(work(&[("foo", synced())]))),
    ] {
        let mut kinds: Vec<_> = visit.verdicts().iter().map(|verdict| verdict.kind).collect();
        kinds.sort_unstable();
        let mut all = weaver_api::conditions::ORDER;
        all.sort_unstable();
        assert_eq!(kinds, all, "{visit:?}");
    }
}

#[test]
fn rights_that_could_not_be_asked_about_are_not_reported_as_held() {
    let mut work = work(&[("foo", forbidden())]);
    work.missing = Err("no answer".into());
    let visit = Visit::Worked(Box::new(work));
    assert_eq!(verdict(&visit, AUTHORIZED).0, Truth::Unknown);
    assert!(visit.wants_retry());
}
