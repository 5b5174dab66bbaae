use serde_json::json;

use super::*;

/// Held by our finalizer, in a namespace that stays, after so many seconds of a patience of 300.
fn after(seconds: u64) -> Circumstances {
    let waited = Waited::of(Duration::from_secs(seconds), Duration::from_mins(5));
    Circumstances { taken: true, namespace_goes: false, waited }
}

#[test]
fn a_resource_is_never_stuck_for_ever_and_a_refusal_is_final_soon() {
    let (refused, hindered) = (CleanupResult::Refused("why".into()), CleanupResult::Hindered("why".into()));
    for (pass, seconds, released) in [
        (&refused, 0, false),
        (&refused, 9, false),
        (&refused, 10, true),
        (&hindered, 10, false),
        (&hindered, 299, false),
        (&hindered, 300, true),
    ] {
        let words = "why".to_owned();
        let expected =
            if released { CleanupVerdict::ReleaseWithOrphans(words) } else { CleanupVerdict::Wait(words) };
        assert_eq!(verdict(pass, after(seconds)), expected, "{pass:?} after {seconds} s");
        let goes = Circumstances { namespace_goes: true, ..after(0) };
        assert_eq!(verdict(pass, goes), CleanupVerdict::ReleaseWithOrphans("why".into()));
    }
}

#[test]
fn an_unreachable_server_never_makes_us_leave_copies_behind() {
    let failed = CleanupResult::Failed("why".into());
    assert_eq!(verdict(&failed, after(1_000)), CleanupVerdict::Wait("why".into()));
    let goes = Circumstances { namespace_goes: true, ..after(0) };
    assert_eq!(verdict(&failed, goes), CleanupVerdict::ReleaseWithOrphans("why".into()));
    assert_eq!(verdict(&CleanupResult::Clean(BTreeSet::new()), after(0)), CleanupVerdict::Release);
}

#[test]
fn what_only_upstreams_finalizer_holds_waits_for_nothing() {
    let pending = [
        CleanupResult::Refused("why".into()),
        CleanupResult::Hindered("why".into()),
        CleanupResult::Failed("why".into()),
    ];
    for pass in pending {
        let untaken = Circumstances { taken: false, ..after(0) };
        assert_eq!(verdict(&pass, untaken), CleanupVerdict::ReleaseWithOrphans("why".into()));
    }
}

#[test]
fn copies_that_are_to_stay_are_never_waited_for() {
    let orphaned = CleanupResult::NotWanted("spec.deletionPolicy: Orphan");
    assert_eq!(verdict(&orphaned, after(0)), CleanupVerdict::Release);
}

#[test]
fn a_thousand_refusals_fit_into_a_line_of_the_log() {
    let refusals: Vec<String> = (0..1_000).map(|n| format!("ConfigMap {n:063}/{n:0253}: {n:0512}")).collect();
    let words = line(&[refusals[..1].to_vec(), refusals[1..].to_vec()]);
    assert!(words.len() <= MAX_LEFT + 16, "{}", words.len());
    assert_eq!(line(&[vec!["a".into()], vec!["b".into(); 10]]).split("; ").last(), Some("and 1 more"));
}

fn spec(value: serde_json::Value) -> ConfigMapSyncSpec {
    serde_json::from_value(value).unwrap()
}

#[test]
fn places_are_named_by_any_spec_that_names_them() {
    let kind = ObjectKind::CONFIG_MAP;
    let key =
        |namespace: &str, name: &str| ObjectKey { kind, namespace: namespace.into(), name: name.into() };
    for (value, expected) in [
        (json!({}), vec![]),
        (json!({"targets": {"namespaces": ["foo"]}}), vec![]),
        (json!({"source": {"name": "a/../b"}, "targets": {"namespaces": ["foo"]}}), vec![]),
        (
            json!({"source": {"name": "a"}, "targets": {"namespaces": ["foo", "No", "bar", "baz"], "exclude": ["baz"]}}),
            vec![key("bar", "a"), key("foo", "a")],
        ),
        (
            json!({"source": {"name": "a"}, "targets": {"namespaces": ["foo"], "name": "b"}}),
            vec![key("foo", "b")],
        ),
        (
            json!({"source": {"name": "a"}, "targets": {"namespaces": ["foo"], "namePrefix": "x-"}}),
            vec![key("foo", "x-a")],
        ),
    ] {
        let found = named_copies(kind, &spec(value.clone()), &BTreeSet::new());
        assert_eq!(found.into_iter().collect::<Vec<_>>(), expected, "{value}");
    }
    let several = spec(json!({
        "source": {"namespace": "team-a", "selector": {"matchLabels": {"a": "b"}}},
        "targets": {"namespaces": ["foo"], "nameSuffix": ".x"},
    }));
    let selected = ["b".to_owned(), "c".repeat(253)].into();
    assert_eq!(named_copies(kind, &several, &selected), [key("foo", "b.x")].into());
}
