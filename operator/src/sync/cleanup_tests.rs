use serde_json::json;

use super::*;

fn given(taken: bool, namespace_goes: bool, patience_ends: bool) -> Circumstances {
    Circumstances { taken, namespace_goes, patience_ends }
}

#[test]
fn b24_a_resource_is_never_stuck_for_ever_because_rights_are_gone() {
    let refused = Pass::Refused("why".into());
    assert_eq!(verdict(&refused, given(true, false, false)), Verdict::Wait("why".into()));
    assert_eq!(verdict(&refused, given(true, false, true)), Verdict::ReleaseWithLeftovers("why".into()));
    assert_eq!(verdict(&refused, given(true, true, false)), Verdict::ReleaseWithLeftovers("why".into()));
}

#[test]
fn an_unreachable_server_never_makes_us_leave_copies_behind() {
    let failed = Pass::Failed("why".into());
    assert_eq!(verdict(&failed, given(true, false, true)), Verdict::Wait("why".into()));
    assert_eq!(verdict(&failed, given(true, true, false)), Verdict::ReleaseWithLeftovers("why".into()));
    assert_eq!(verdict(&Pass::Clean(BTreeSet::new()), given(true, false, false)), Verdict::Release);
}

#[test]
fn what_only_upstreams_finalizer_holds_waits_for_nothing() {
    for pass in [Pass::Refused("why".into()), Pass::Failed("why".into())] {
        assert_eq!(verdict(&pass, given(false, false, false)), Verdict::ReleaseWithLeftovers("why".into()));
    }
}

#[test]
fn copies_that_are_to_stay_are_never_waited_for() {
    let orphaned = Pass::NotWanted("spec.deletionPolicy: Orphan");
    assert_eq!(verdict(&orphaned, given(true, false, false)), Verdict::Release);
}

fn spec(value: serde_json::Value) -> ConfigMapSyncSpec {
    serde_json::from_value(value).unwrap()
}

#[test]
fn orphan_wins_over_everything_else_and_where_nothing_is_written_nothing_is_removed() {
    for (value, expected) in [
        (json!({}), None),
        (json!({"deletionPolicy": "Delete"}), None),
        (json!({"deletionPolicy": "Orphan"}), Some("spec.deletionPolicy: Orphan")),
        (
            json!({"deletionPolicy": "Orphan", "source": {"kind": "Secret"}, "suspend": true}),
            Some("spec.deletionPolicy: Orphan"),
        ),
        (json!({"suspend": true}), Some("spec.suspend")),
        (json!({"dryRun": true}), Some("spec.dryRun")),
    ] {
        assert_eq!(leaves_copies(&spec(value.clone())), expected, "{value}");
    }
}

#[test]
fn places_are_named_by_any_spec_that_names_them() {
    let kind = SourceKind::ConfigMap;
    let place = |namespace: &str, name: &str| Place { kind, namespace: namespace.into(), name: name.into() };
    for (value, expected) in [
        (json!({}), vec![]),
        (json!({"targets": {"namespaces": ["foo"]}}), vec![]),
        (json!({"source": {"name": "a/../b"}, "targets": {"namespaces": ["foo"]}}), vec![]),
        (
            json!({"source": {"name": "a"}, "targets": {"namespaces": ["foo", "No", "bar", "baz"], "exclude": ["baz"]}}),
            vec![place("bar", "a"), place("foo", "a")],
        ),
        (
            json!({"source": {"name": "a"}, "targets": {"namespaces": ["foo"], "name": "b"}}),
            vec![place("foo", "b")],
        ),
    ] {
        assert_eq!(named_places(&spec(value.clone())).into_iter().collect::<Vec<_>>(), expected, "{value}");
    }
}
