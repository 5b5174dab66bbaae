use k8s_openapi::jiff::Timestamp;
use weaver_api::validate::validate;
use weaver_tenant::token::MintError;

use super::super::outcome::tests::{account, clash, forbidden, selected, synced, without_copies, work};
use super::*;

fn at(second: i64) -> Time {
    Time(Timestamp::from_second(second).unwrap())
}

fn fold(before: &ConfigMapSyncStatus, reconciled: &SyncOutcome, second: i64) -> ConfigMapSyncStatus {
    status(before, reconciled, &[], Some(3), &at(second))
}

fn worked(targets: &[(&str, TargetState)]) -> SyncOutcome {
    SyncOutcome::Worked(Box::new(work(targets)))
}

fn shown(status: &ConfigMapSyncStatus) -> Vec<(&str, &str, &str)> {
    status.targets.iter().map(|t| (t.namespace.as_str(), t.state.as_str(), t.reason.as_str())).collect()
}

#[test]
fn targets_are_counted_and_shown_those_with_a_problem_first() {
    let reconciled = worked(&[
        ("a", synced()),
        ("b", TargetState::NamespaceMissing),
        ("c", TargetState::Failed("x".into())),
        ("d", TargetState::Conflict(Foreign::Unlabeled)),
        ("e", forbidden()),
        ("f", TargetState::NamespaceTerminating),
        ("g", TargetState::Rejected("x".into())),
        ("h", synced()),
        ("i", TargetState::Conflict(Foreign::Other { holder: "ConfigMapSync b/b".into(), uid: "u2".into() })),
        ("j", TargetState::Conflict(Foreign::Source)),
        ("k", TargetState::NotServed),
    ]);
    let status = fold(&ConfigMapSyncStatus::default(), &reconciled, 1);
    assert_eq!(
        status.counts,
        Some(Counts { desired: 11, synced: 2, failed: 4, conflicts: 3, sources: None })
    );
    assert_eq!(
        shown(&status),
        [
            ("c", "Failed", "NotWritten"),
            ("d", "Conflict", "NotOurs"),
            ("e", "Failed", "Forbidden"),
            ("g", "Failed", "Rejected"),
            ("i", "Conflict", "CopyOfAnother"),
            ("j", "Conflict", "MarkedAsSource"),
            ("k", "Failed", "NotServed"),
            ("b", "Waiting", "NamespaceMissing"),
            ("f", "Waiting", "NamespaceTerminating"),
            ("a", "Synced", "Synced"),
            ("h", "Synced", "Synced"),
        ]
    );
    assert!(!status.truncated);
    assert_eq!(status.observed_generation, Some(3));
}

#[test]
fn a_dry_run_shows_each_target_with_what_would_become_of_it() {
    let planned = [
        CopyChange::Create,
        CopyChange::Update(PreviousOwner::Ours),
        CopyChange::Update(PreviousOwner::Upstreams),
        CopyChange::Replace,
    ]
    .map(TargetState::Planned);
    let names = ["a", "b", "c", "d"];
    let targets: Vec<_> = names.into_iter().zip(planned).chain([("e", synced())]).collect();
    let status = fold(&ConfigMapSyncStatus::default(), &worked(&targets), 1);
    assert_eq!(
        shown(&status),
        [
            ("a", "Waiting", "WouldBeCreated"),
            ("b", "Waiting", "WouldBeUpdated"),
            ("c", "Waiting", "WouldBeTakenOver"),
            ("d", "Waiting", "WouldBeReplaced"),
            ("e", "Synced", "Synced"),
        ]
    );
}

#[test]
fn without_a_source_every_target_waits() {
    for (source, reason) in [
        (SourceState::Missing, "SourceMissing"),
        (SourceState::Forbidden("no".into()), "SourceForbidden"),
        (SourceState::Failed("no".into()), "SourceUnknown"),
        (SourceState::Clash(clash()), "KeyConflict"),
    ] {
        let work = without_copies(source);
        let status = fold(&ConfigMapSyncStatus::default(), &SyncOutcome::Worked(Box::new(work)), 1);
        assert_eq!(status.counts, Some(Counts { desired: 1, ..Counts::default() }));
        assert_eq!(shown(&status), [("foo", "Waiting", reason)]);
    }
}

#[test]
fn where_nothing_was_looked_at_no_target_is_spoken_of() {
    let before = fold(&ConfigMapSyncStatus::default(), &worked(&[("foo", synced())]), 1);
    assert!(before.counts.is_some());
    for reconciled in [
        SyncOutcome::ParseFailed(vec!["spec: no".into()]),
        SyncOutcome::InvalidSpec(validate(None).unwrap_err()),
        SyncOutcome::Suspended,
        SyncOutcome::NoToken(MintError::AccountMissing(account())),
    ] {
        let status = fold(&before, &reconciled, 2);
        assert_eq!(
            (status.counts, status.targets.len(), status.truncated),
            (None, 0, false),
            "{reconciled:?}"
        );
        let patch = &patch(&status)["status"];
        for field in ["counts", "sources", "targets", "truncated"] {
            assert_eq!(patch.get(field), Some(&Value::Null), "{field} has to go away");
        }
    }
}

#[test]
fn an_unchanged_world_gives_an_unchanged_status() {
    let reconciled = || worked(&[("foo", synced()), ("bar", forbidden())]);
    let first = fold(&ConfigMapSyncStatus::default(), &reconciled(), 1);
    assert_eq!(fold(&first, &reconciled(), 99), first);
    // What is stored is read again as what was written.
    let stored = serde_json::to_value(&first).unwrap();
    assert_eq!(fold(&serde_json::from_value(stored).unwrap(), &reconciled(), 99), first);
}

#[test]
fn what_a_client_of_v1alpha1_dropped_is_restored() {
    let reconciled = || worked(&[("foo", synced())]);
    let written = fold(&ConfigMapSyncStatus::default(), &reconciled(), 1);
    let dropped =
        ConfigMapSyncStatus { conditions: written.conditions.clone(), ..ConfigMapSyncStatus::default() };
    let restored = fold(&dropped, &reconciled(), 99);
    assert_ne!(restored, dropped, "so it is written");
    assert_eq!(restored, written, "and no transition time has moved");
}

#[test]
fn a_patch_says_only_what_is_ours_and_replaces_lists_whole() {
    let status = fold(&ConfigMapSyncStatus::default(), &worked(&[("foo", synced())]), 1);
    let patch = patch(&status);
    let fields: Vec<&str> = patch["status"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(patch.as_object().unwrap().len(), 1);
    assert_eq!(fields, ["conditions", "counts", "observedGeneration", "sources", "targets", "truncated"]);
    assert_eq!(
        patch["status"]["targets"][0],
        json!({"namespace": "foo", "state": "Synced", "reason": "Synced"})
    );
    assert_eq!(patch["status"]["truncated"], Value::Null);
}

#[test]
fn of_several_sources_a_target_shows_the_copy_with_a_problem_and_each_source_is_counted() {
    let work = selected(&[
        ("a", SourceState::Found, &[("bar", synced()), ("foo", synced())]),
        ("b", SourceState::Found, &[("bar", synced()), ("foo", TargetState::Failed("no".into()))]),
        ("c", SourceState::NameTooLong(254), &[]),
    ]);
    let status = fold(&ConfigMapSyncStatus::default(), &SyncOutcome::Worked(Box::new(work)), 1);
    let counts = Counts { desired: 2, failed: 1, sources: Some(3), ..Counts::default() };
    assert_eq!(status.counts, Some(counts));
    assert_eq!(shown(&status), [("foo", "Failed", "NotWritten"), ("bar", "Waiting", "CopyNameTooLong")]);
    assert_eq!(status.targets[0].message, "x-b: no");
    let sources: Vec<_> = status
        .sources
        .iter()
        .map(|one| (one.name.as_str(), one.synced, one.failed, one.reason.as_str()))
        .collect();
    assert_eq!(sources, [("b", 1, 1, ""), ("c", 0, 0, "CopyNameTooLong"), ("a", 2, 0, "")]);

    let none = SyncWork { unlisted: Some(Unlisted::TooMany), ..selected(&[]) };
    let status = fold(&ConfigMapSyncStatus::default(), &SyncOutcome::Worked(Box::new(none)), 1);
    assert_eq!(status.counts, Some(Counts { desired: 2, sources: Some(0), ..Counts::default() }));
    assert!(status.targets.iter().all(|target| target.reason == "TooManySources"), "{:?}", status.targets);
}

/// The most sources with the longest names, none of which can be copied.
#[test]
fn the_most_sources_do_not_fill_the_status() {
    let names: Vec<String> = (0..256).map(|n| format!("{n:0253}")).collect();
    let failing = [("foo", forbidden()), ("bar", forbidden())];
    let sources: Vec<_> =
        names.iter().map(|name| (name.as_str(), SourceState::NameTooLong(9_999), &failing[..])).collect();
    let status = fold(&ConfigMapSyncStatus::default(), &SyncOutcome::Worked(Box::new(selected(&sources))), 1);
    assert_eq!((status.sources.len(), status.truncated), (MAX_SOURCES_SHOWN, true));
    let bytes = serde_json::to_vec(&status).unwrap().len();
    assert!(bytes < 256 * 1024, "{bytes} bytes");
}

/// 1,000 targets with the longest names, each refused in more words than anyone says, all to be escaped.
#[test]
fn a_thousand_failing_targets_do_not_fill_the_status() {
    let words = "\"\n".repeat(8_192);
    let failing = TargetState::Forbidden(words.as_str().into());
    let names: Vec<String> = (0..1_000).map(|n| format!("{n:063}")).collect();
    let targets: Vec<(&str, TargetState)> =
        names.iter().map(|name| (name.as_str(), failing.clone())).collect();
    let mut work = work(&targets);
    work.rights.missing = Err(words);
    let status = fold(&ConfigMapSyncStatus::default(), &SyncOutcome::Worked(Box::new(work)), 1);
    assert_eq!(status.counts, Some(Counts { desired: 1_000, failed: 1_000, ..Counts::default() }));
    assert_eq!((status.targets.len(), status.truncated), (MAX_TARGETS_SHOWN, true));
    assert!(status.targets.iter().all(|target| target.message.len() <= MAX_MESSAGE + 16));
    let bytes = serde_json::to_vec(&status).unwrap().len();
    assert!(bytes < 512 * 1024, "{bytes} bytes");
}

#[test]
fn a_failing_target_is_shown_wherever_its_name_stands() {
    let names: Vec<String> = (0..200).map(|n| format!("ns-{n:03}")).collect();
    let mut targets: Vec<(&str, TargetState)> = names.iter().map(|name| (name.as_str(), synced())).collect();
    targets[199].1 = forbidden();
    let status = fold(&ConfigMapSyncStatus::default(), &worked(&targets), 1);
    assert_eq!(shown(&status)[0], ("ns-199", "Failed", "Forbidden"));
    assert_eq!(status.counts, Some(Counts { desired: 200, synced: 199, failed: 1, ..Counts::default() }));
}
