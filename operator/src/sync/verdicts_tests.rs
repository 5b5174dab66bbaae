use weaver_api::conditions::{MIGRATED, ORDER, PROGRESSING, READY};
use weaver_api::kind::ObjectKind;
use weaver_api::v1beta1::{ConfigMapSyncSpec, Source, Targets};
use weaver_api::validate::validate;
use weaver_copies::object::ObjectKey;
use weaver_copies::plan::Foreign;
use weaver_copies::rights::for_target;
use weaver_tenant::token::MintError;

use super::super::outcome::tests::{account, clash, forbidden, selected, synced, without_copies, work};
use super::super::outcome::{SourceState, SyncOutcome, Unlisted, WatchGaps};
use super::*;
use crate::controller::verdicts::migrated;

fn verdict(reconciled: &SyncOutcome, kind: &str) -> (Truth, &'static str, String) {
    let found = reconciled.verdicts(&[]).into_iter().find(|verdict| verdict.kind == kind).unwrap();
    (found.truth, found.reason, found.message)
}

#[test]
fn all_is_well() {
    let reconciled = SyncOutcome::Worked(Box::new(work(&[("foo", synced()), ("bar", synced())])));
    assert_eq!(verdict(&reconciled, READY), (Truth::True, "Synced", "2 of 2 targets hold the copy".into()));
    assert!(!reconciled.wants_retry());
}

#[test]
fn a_target_that_was_not_written_is_never_reported_as_synced() {
    for state in [forbidden(), TargetState::Failed("x".into()), TargetState::Rejected("x".into())] {
        let reconciled = SyncOutcome::Worked(Box::new(work(&[("foo", synced()), ("bar", state)])));
        let (truth, _, message) = verdict(&reconciled, TARGETS_SYNCED);
        assert_eq!(truth, Truth::False);
        assert!(message.starts_with("1 of 2 targets hold the copy; bar: "), "{message}");
        assert_eq!(verdict(&reconciled, READY).0, Truth::False);
    }
}

#[test]
fn a_missing_namespace_is_a_state_of_that_target_not_an_error() {
    let reconciled =
        SyncOutcome::Worked(Box::new(work(&[("foo", synced()), ("later", TargetState::NamespaceMissing)])));
    let (truth, _, message) = verdict(&reconciled, READY);
    assert_eq!(
        (truth, message.as_str()),
        (Truth::True, "1 of 2 targets hold the copy; waiting for namespaces that do not exist: later")
    );
}

#[test]
fn a_conflict_names_the_object_and_the_remedy() {
    let reconciled =
        SyncOutcome::Worked(Box::new(work(&[("foo", TargetState::Conflict(Foreign::Unlabeled))])));
    let (truth, reason, message) = verdict(&reconciled, CONFLICTED);
    assert_eq!((truth, reason), (Truth::True, "Conflict"));
    assert!(message.starts_with("ConfigMap foo/settings was left untouched"), "{message}");
    assert!(message.ends_with("set conflictPolicy: Adopt to take it over"), "{message}");
    assert_eq!(verdict(&reconciled, READY).1, "Conflict");
    // A copy of another resource is never adopted.
    let other = TargetState::Conflict(Foreign::Other {
        holder: "ConfigMapSync team-b/other".into(),
        uid: "u2".into(),
    });
    let message = verdict(&SyncOutcome::Worked(Box::new(work(&[("foo", other)]))), CONFLICTED).2;
    assert!(message.contains("run `weaver orphans adopt`"), "{message}");
}

#[test]
fn a_missing_right_in_one_namespace_is_named_and_the_others_are_synced() {
    let mut work = work(&[("foo", synced()), ("bar", forbidden())]);
    work.rights.missing = Ok(for_target(ObjectKind::CONFIG_MAP, "bar").into_iter().collect());
    let reconciled = SyncOutcome::Worked(Box::new(work));
    let (truth, reason, message) = verdict(&reconciled, READY);
    assert_eq!((truth, reason), (Truth::False, "MissingRights"));
    assert!(message.contains("may not create, delete, get, list, update, watch ConfigMaps in namespace bar"));
    assert!(reconciled.wants_retry());
}

#[test]
fn a_refusal_that_is_no_missing_right_shows_the_servers_own_reason() {
    let reconciled = SyncOutcome::Worked(Box::new(work(&[("foo", forbidden())])));
    assert_eq!(verdict(&reconciled, AUTHORIZED).0, Truth::True);
    assert!(verdict(&reconciled, READY).2.contains("exceeded quota"));
}

#[test]
fn a_missing_source_leaves_the_copies_and_says_so() {
    let reconciled = SyncOutcome::Worked(Box::new(without_copies(SourceState::Missing)));
    assert_eq!(verdict(&reconciled, READY).1, "SourceMissing");
    assert_eq!(verdict(&reconciled, TARGETS_SYNCED).0, Truth::Unknown);
    assert!(!reconciled.wants_retry(), "the watch on the source announces it");
}

#[test]
fn keys_that_clash_are_named_with_the_remedy_and_the_copies_stay() {
    let reconciled = SyncOutcome::Worked(Box::new(without_copies(SourceState::Clash(clash()))));
    assert_eq!(verdict(&reconciled, SOURCE_FOUND).0, Truth::True);
    for kind in [READY, TARGETS_SYNCED, CONFLICTED] {
        let (truth, reason, message) = verdict(&reconciled, kind);
        assert!(truth != Truth::True && reason == "KeyConflict", "{kind}: {truth:?} {reason}");
        assert!(
            message.starts_with("spec.keys.rename gives key a the name b, which another key"),
            "{message}"
        );
        assert!(message.ends_with("; existing copies stay as they are"), "{message}");
    }
    assert!(!reconciled.wants_retry(), "the watch on the source announces its change");
}

#[test]
fn a_key_that_the_source_does_not_have_is_named_and_stops_nothing() {
    let mut work = work(&[("foo", synced())]);
    for source in work.sources.values_mut() {
        source.absent_keys = vec!["x".into(), "y".into()];
    }
    let reconciled = SyncOutcome::Worked(Box::new(work));
    assert_eq!(verdict(&reconciled, SOURCE_FOUND).2, "ConfigMap team-a/settings; it has no key x; y");
    assert_eq!(verdict(&reconciled, READY).0, Truth::True);
}

#[test]
fn selected_sources_are_counted_and_one_that_is_not_copied_stops_no_other() {
    let both = |state: TargetState| [("bar", synced()), ("foo", state)];
    let well =
        selected(&[("a", SourceState::Found, &both(synced())), ("b", SourceState::Found, &both(synced()))]);
    let reconciled = SyncOutcome::Worked(Box::new(well));
    let those = "ConfigMaps in team-a that spec.source.selector selects";
    assert_eq!(verdict(&reconciled, SOURCE_FOUND), (Truth::True, "Found", format!("2 {those} found")));
    assert_eq!(
        verdict(&reconciled, READY),
        (Truth::True, "Synced", "4 of 4 copies of 2 sources exist".into())
    );

    let partly = selected(&[
        ("a", SourceState::Found, &both(TargetState::Conflict(Foreign::Unlabeled))),
        ("b", SourceState::Clash(clash()), &[]),
        ("c", SourceState::NameTooLong(254), &[]),
        ("d", SourceState::Found, &both(TargetState::NamespaceMissing)),
    ]);
    let reconciled = SyncOutcome::Worked(Box::new(partly));
    let (truth, reason, message) = verdict(&reconciled, TARGETS_SYNCED);
    assert_eq!((truth, reason), (Truth::False, "TargetsFailed"));
    for part in [
        "2 of 4 copies of 4 sources exist; waiting for namespaces that do not exist: foo; ",
        "foo/x-a: conflict",
        "ConfigMap team-a/b: spec.keys.rename gives",
        "ConfigMap team-a/c: the name of its copies would have 254 characters",
    ] {
        assert!(message.contains(part), "{message}");
    }
    let (_, _, message) = verdict(&reconciled, CONFLICTED);
    assert!(message.starts_with("ConfigMap foo/x-a was left untouched"), "{message}");
}

#[test]
fn where_no_source_is_selected_or_too_many_or_they_may_not_be_listed_it_is_said() {
    for (unlisted, truth, reason, words, retries) in [
        (None, Truth::False, "NoSource", "no ConfigMaps in team-a that", false),
        (
            Some(Unlisted::TooMany),
            Truth::False,
            "TooManySources",
            "more than 256 ConfigMaps in team-a",
            false,
        ),
        (
            Some(Unlisted::TooManyCopies { sources: 256, targets: 1_000 }),
            Truth::False,
            "TooManySources",
            "256 ConfigMaps in team-a that spec.source.selector selects for 1000 namespaces would be 256000 copies",
            false,
        ),
        (
            Some(Unlisted::Forbidden("may not list".into())),
            Truth::Unknown,
            "SourceForbidden",
            "may not list",
            true,
        ),
        (Some(Unlisted::Failed("late".into())), Truth::Unknown, "SourceUnknown", "late", true),
    ] {
        let reconciled = SyncOutcome::Worked(Box::new(SyncWork { unlisted, ..selected(&[]) }));
        let found = verdict(&reconciled, SOURCE_FOUND);
        assert_eq!((found.0, found.1), (truth, reason));
        assert!(found.2.starts_with(words), "{}", found.2);
        assert_eq!(verdict(&reconciled, TARGETS_SYNCED).0, Truth::Unknown);
        assert_eq!((verdict(&reconciled, READY).1, reconciled.wants_retry()), (reason, retries));
        assert!(!reconciled.ends_upgrade());
    }
    // One that may not be read counts for all.
    let unread = selected(&[
        ("a", SourceState::Found, &[("foo", synced())]),
        ("b", SourceState::Forbidden("may not get".into()), &[]),
    ]);
    let reconciled = SyncOutcome::Worked(Box::new(unread));
    assert_eq!(verdict(&reconciled, SOURCE_FOUND), (Truth::Unknown, "SourceForbidden", "may not get".into()));
    assert!(reconciled.wants_retry());
}

#[test]
fn every_fault_of_a_spec_is_named_at_once() {
    let faults = validate(Some(&ConfigMapSyncSpec::default())).unwrap_err();
    let reconciled = SyncOutcome::InvalidSpec(faults);
    let (truth, reason, message) = verdict(&reconciled, READY);
    assert_eq!((truth, reason), (Truth::False, "InvalidSpec"));
    for field in ["spec.serviceAccount.name", "spec.source.name", "spec.source.namespace", "spec.targets"] {
        assert!(message.contains(field), "{message}");
    }
    assert!(!reconciled.wants_retry());
}

#[test]
fn minting_that_is_not_allowed_prints_the_command() {
    let reconciled = SyncOutcome::NoToken(MintError::Forbidden(account()));
    assert_eq!(verdict(&reconciled, AUTHORIZED).1, "MintingForbidden");
    assert!(verdict(&reconciled, READY).2.contains("weaver tenant allow team-a sync"));
    assert!(reconciled.wants_retry());
}

#[test]
fn a_thousand_failures_do_not_fill_the_status() {
    let names: Vec<String> = (0..1_000).map(|n| format!("ns-{n:04}")).collect();
    let targets: Vec<(&str, TargetState)> = names.iter().map(|name| (name.as_str(), forbidden())).collect();
    let message = verdict(&SyncOutcome::Worked(Box::new(work(&targets))), TARGETS_SYNCED).2;
    assert!(message.len() < 1_000 && message.ends_with("; and 990 more"), "{message}");
}

#[test]
fn every_condition_is_judged_in_every_reconciliation() {
    for reconciled in [
        SyncOutcome::ParseFailed(vec!["spec: no".into()]),
        SyncOutcome::InvalidSpec(validate(None).unwrap_err()),
        SyncOutcome::Suspended,
        SyncOutcome::NoToken(MintError::AccountMissing(account())),
        SyncOutcome::Worked(Box::new(work(&[("foo", synced())]))),
    ] {
        let mut kinds: Vec<_> = reconciled.verdicts(&[]).iter().map(|verdict| verdict.kind).collect();
        kinds.sort_unstable();
        // What runs is no part of an outcome.
        let mut all: Vec<_> = ORDER.into_iter().filter(|kind| *kind != PROGRESSING).collect();
        all.sort_unstable();
        assert_eq!(kinds, all, "{reconciled:?}");
    }
}

#[test]
fn rights_that_could_not_be_asked_about_are_not_reported_as_held() {
    let mut work = work(&[("foo", forbidden())]);
    work.rights.missing = Err("no answer".into());
    let reconciled = SyncOutcome::Worked(Box::new(work));
    assert_eq!(verdict(&reconciled, AUTHORIZED).0, Truth::Unknown);
    assert!(reconciled.wants_retry());
}

#[test]
fn a_suspended_resource_is_not_ready_and_says_what_a_deletion_would_leave() {
    let reconciled = SyncOutcome::Suspended;
    assert_eq!(
        verdict(&reconciled, READY),
        (Truth::False, "Suspended", "spec.suspend is true; no object was changed".into())
    );
    let (truth, reason, message) = verdict(&reconciled, PAUSED);
    assert_eq!((truth, reason), (Truth::True, "Suspended"));
    assert!(message.ends_with("its copies stay"), "{message}");
    assert!(!reconciled.wants_retry() && !reconciled.wants_finalizer() && !reconciled.ends_upgrade());
}

#[test]
fn a_dry_run_says_what_it_would_do_and_is_never_ready() {
    let dry = |targets: &[(&str, TargetState)]| {
        let mut work = work(targets);
        work.spec.dry_run = true;
        work
    };
    let mut planning = dry(&[
        ("bar", TargetState::Planned(CopyChange::Create)),
        ("baz", synced()),
        ("foo", TargetState::Planned(CopyChange::Update(PreviousOwner::Ours))),
    ]);
    let (kind, namespace, name) = (ObjectKind::CONFIG_MAP, "old".into(), "settings".into());
    planning.stale.planned = [ObjectKey { kind, namespace, name }].into();
    let reconciled = SyncOutcome::Worked(Box::new(planning));
    let plan = "1 of 3 targets hold the copy; bar: would be created; foo: would be updated; \
                ConfigMap old/settings: would be removed";
    assert_eq!(verdict(&reconciled, TARGETS_SYNCED), (Truth::False, "DryRun", plan.into()));
    assert_eq!(verdict(&reconciled, READY), (Truth::False, "DryRun", plan.into()));
    assert_eq!(verdict(&reconciled, PAUSED).1, "DryRun");
    assert!(!reconciled.wants_retry() && !reconciled.wants_finalizer());
    let nothing_to_do = SyncOutcome::Worked(Box::new(dry(&[("foo", synced())])));
    assert_eq!(verdict(&nothing_to_do, TARGETS_SYNCED).0, Truth::True);
    assert_eq!(verdict(&nothing_to_do, READY).1, "DryRun");
}

#[test]
fn what_cannot_be_understood_is_said_by_field() {
    let reconciled = SyncOutcome::ParseFailed(vec!["spec.suspend: invalid type".into()]);
    let (truth, reason, message) = verdict(&reconciled, READY);
    assert_eq!((truth, reason), (Truth::False, "ParseFailed"));
    assert!(message.contains("spec.suspend: invalid type"), "{message}");
    assert!(message.ends_with("no object was changed"), "{message}");
    assert_eq!(verdict(&reconciled, MIGRATED).0, Truth::Unknown);
    assert!(!reconciled.wants_retry() && !reconciled.wants_finalizer());
}

#[test]
fn an_object_of_v1alpha1_that_lacks_what_is_required_is_refused_with_what_to_fill_in() {
    let spec = ConfigMapSyncSpec {
        source: Some(Source {
            namespace: Some("No".into()),
            name: Some("settings".into()),
            ..Source::default()
        }),
        targets: Some(Targets { namespaces: vec!["foo".into()], ..Targets::default() }),
        ..ConfigMapSyncSpec::default()
    };
    let reconciled = SyncOutcome::InvalidSpec(validate(Some(&spec)).unwrap_err());
    let (truth, reason, message) = verdict(&reconciled, MIGRATED);
    assert_eq!((truth, reason), (Truth::False, "Incomplete"));
    assert!(message.starts_with("spec.serviceAccount.name is missing: "), "{message}");
    assert!(!message.contains("spec.source"), "a bad name is not a missing one: {message}");
    assert_eq!(verdict(&reconciled, READY).1, "InvalidSpec");

    let (_, reason, message) = verdict(&SyncOutcome::InvalidSpec(validate(None).unwrap_err()), MIGRATED);
    assert_eq!(reason, "Incomplete");
    assert!(message.starts_with("spec"), "{message}");
}

#[test]
fn a_name_that_is_wrong_is_not_a_matter_of_migration() {
    let spec = ConfigMapSyncSpec {
        service_account: Some(weaver_api::v1beta1::ServiceAccountRef { name: Some("sync".into()) }),
        source: Some(Source {
            namespace: Some("team-a".into()),
            name: Some("settings".into()),
            ..Source::default()
        }),
        targets: Some(Targets { namespaces: vec!["Foo".into()], ..Targets::default() }),
        ..ConfigMapSyncSpec::default()
    };
    let reconciled = SyncOutcome::InvalidSpec(validate(Some(&spec)).unwrap_err());
    assert_eq!(verdict(&reconciled, MIGRATED), (Truth::True, "Complete", String::new()));
}

#[test]
fn round_trip_content_that_is_not_used_is_said_and_what_is_visible_is_done() {
    let reconciled = SyncOutcome::Worked(Box::new(work(&[("foo", synced())])));
    let annotation_faults = ["spec.dryRun: invalid type".to_owned()];
    let verdicts = reconciled.verdicts(&annotation_faults);
    let of = |kind| verdicts.iter().find(|verdict| verdict.kind == kind).unwrap();
    assert_eq!((of(MIGRATED).truth, of(MIGRATED).reason), (Truth::False, "RoundTripAnnotationIgnored"));
    let message = &of(MIGRATED).message;
    assert!(message.contains("weaver.example.com/converted") && message.contains("spec.dryRun"), "{message}");
    assert_eq!(of(TARGETS_SYNCED).truth, Truth::True);
    assert_eq!(of(READY).reason, "RoundTripAnnotationIgnored", "not all that was asked for is done");

    let both = migrated(&validate(None).unwrap_err(), &annotation_faults);
    assert_eq!(both.reason, "Incomplete");
    assert!(both.message.contains("spec.dryRun"), "{}", both.message);
}

#[test]
fn ready_names_the_first_thing_in_the_way() {
    let mut work = work(&[("foo", TargetState::Conflict(Foreign::Unlabeled)), ("bar", forbidden())]);
    let reason = |work: SyncWork| verdict(&SyncOutcome::Worked(Box::new(work)), READY).1;
    work.rights.missing = Err("no answer".into());
    assert_eq!(reason(work), "RightsUnknown");
    let mut work = super::super::outcome::tests::work(&[("foo", TargetState::Conflict(Foreign::Unlabeled))]);
    assert_eq!(reason(work), "Conflict");
    work = super::super::outcome::tests::work(&[("foo", forbidden())]);
    assert_eq!(reason(work), "TargetsFailed");
}

#[test]
fn a_tenant_with_more_watches_than_one_may_have_sees_that_and_what_helps() {
    let reconciled = SyncOutcome::Worked(Box::new(SyncWork {
        watched: WatchGaps { blind: true, beyond: 3 },
        ..work(&[("foo", synced())])
    }));
    let (truth, reason, message) = verdict(&reconciled, AUTHORIZED);
    assert_eq!((truth, reason), (Truth::True, "Polled"));
    for part in
        ["3 namespaces are polled", "1024 watches", "16 MiB", "Grant list and watch in all namespaces"]
    {
        assert!(message.contains(part), "{message}");
    }
}
