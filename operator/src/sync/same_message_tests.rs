//! What a tenant learns about namespaces in which its account has no right: the same in every world, whether they
//! exist or not, go, are labelled or keep copies out. Statuses are compared byte for byte, events and the time of a
//! deletion too.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::core::PartialObjectMetaExt as _;
use kube::runtime::watcher::Event;
use serde_json::{Value, json};
use tokio::time::{Instant, advance};
use weaver_api::ownership::{ACCEPT_FROM_ANNOTATION, FINALIZER};

use super::outcome::tests::spec;
use super::world::SyncWorld;

/// Namespaces of which the tenant may know nothing: two that it names, and one that only a selector or a pattern may
/// find.
const HIDDEN: [&str; 3] = ["guess-one", "guess-two", "guess-three"];

/// What the operator knows of a hidden namespace.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Hidden {
    Absent,
    There,
    Selected,
    Terminating,
    Closed,
    ClosedAndSelected,
}

const ALL: [Hidden; 6] = [
    Hidden::Absent,
    Hidden::There,
    Hidden::Selected,
    Hidden::Terminating,
    Hidden::Closed,
    Hidden::ClosedAndSelected,
];

async fn becomes(world: &SyncWorld, name: &str, hidden: Hidden) {
    use Hidden::{Absent, Closed, ClosedAndSelected, Selected, Terminating};
    let mut meta = ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() };
    if matches!(hidden, Selected | ClosedAndSelected | Terminating) {
        meta.labels = Some([("tier".to_owned(), "dev".to_owned())].into());
    }
    if matches!(hidden, Closed | ClosedAndSelected) {
        meta.annotations = Some([(ACCEPT_FROM_ANNOTATION.to_owned(), "none".to_owned())].into());
    }
    meta.deletion_timestamp = (hidden == Terminating).then_some(Time(Timestamp::UNIX_EPOCH));
    let namespace = meta.into_response_partial();
    let event = if hidden == Absent { Event::Delete(namespace) } else { Event::Apply(namespace) };
    world.hears(event).await;
}

/// What the source is.
#[derive(Clone, Copy, Debug)]
enum Source {
    Found,
    Missing,
    Forbidden,
    Failed,
    Clash,
    AccountToken,
}

const SOURCES: [Source; 6] =
    [Source::Found, Source::Missing, Source::Forbidden, Source::Failed, Source::Clash, Source::AccountToken];

const SETTINGS: &str = "/api/v1/namespaces/team-a/configmaps/settings";

/// How the resource asks for namespaces that it does not name.
fn selections() -> [Value; 3] {
    [
        json!({}),
        json!({"selector": {"matchLabels": {"tier": "dev"}}}),
        json!({"patterns": ["guess-*", "*-three"]}),
    ]
}

fn asks(world: &SyncWorld, source: Source, selection: &Value, mode: Option<&str>) -> Value {
    let mut spec = spec(&["foo", HIDDEN[0], HIDDEN[1]]);
    match source {
        Source::Found => {}
        Source::Missing => world.remove("team-a", "settings"),
        Source::Forbidden => world.server.forbid("team-a", true),
        Source::Failed => {
            world.server.put(SETTINGS, json!({"metadata": {"name": "settings"}, "data": "unreadable"}));
        }
        Source::Clash => {
            world.edit("team-a", "settings", |object| object["data"] = json!({"a": "1", "b": "2"}));
            spec["keys"] = json!({"rename": {"a": "b"}});
        }
        Source::AccountToken => {
            let secret = json!({"metadata": {"name": "settings", "namespace": "team-a"},
                                "type": "kubernetes.io/service-account-token"});
            world.server.put("/api/v1/namespaces/team-a/secrets/settings", secret);
            spec["source"]["kind"] = "Secret".into();
        }
    }
    spec["targets"].as_object_mut().unwrap().extend(selection.as_object().unwrap().clone());
    if let Some(field) = mode {
        spec[field] = true.into();
    }
    spec
}

/// All that a tenant sees: of each reconciliation the status and when the next one is due, the events, and the
/// deletion.
async fn seen(
    hidden: [Hidden; 3],
    source: Source,
    selection: &Value,
    mode: Option<&str>,
    live: bool,
) -> Vec<String> {
    let world = SyncWorld::new(Duration::from_mins(5)).await;
    fastrand::seed(7);
    for (name, hidden) in HIDDEN.iter().zip(hidden) {
        world.server.forbid(name, true);
        if !live {
            becomes(&world, name, hidden).await;
        }
    }
    let spec = asks(&world, source, selection, mode);
    world.create(&spec, &[FINALIZER]);
    let mut seen = Vec::new();
    let look = async |seen: &mut Vec<String>| {
        let next = world.reconcile().await.unwrap();
        let mut status = world.sync()["status"].clone();
        for condition in status["conditions"].as_array_mut().unwrap() {
            condition["lastTransitionTime"] = Value::Null;
        }
        seen.push(format!("{next:?} {status:#}"));
    };
    look(&mut seen).await;
    for (name, hidden) in HIDDEN.iter().zip(hidden).filter(|_| live) {
        becomes(&world, name, hidden).await;
    }
    look(&mut seen).await;
    world.delete();
    let begun = Instant::now();
    while let Err(why) = world.reconcile().await {
        seen.push(why.to_string());
        advance(Duration::from_secs(1)).await;
    }
    assert!(world.is_deleted());
    seen.push(format!("gone after {} s", begun.elapsed().as_secs()));
    assert!(begun.elapsed() < Duration::from_secs(30), "{seen:#?}");
    seen.extend(world.server.notes());
    seen
}

#[tokio::test(start_paused = true)]
async fn worlds_that_differ_only_in_what_the_account_may_not_see_give_equal_statuses_events_and_deletions() {
    for source in SOURCES {
        for selection in &selections() {
            for mode in [None, Some("suspend"), Some("dryRun")] {
                let nothing = seen([Hidden::Absent; 3], source, selection, mode, false).await;
                for shift in 0..ALL.len() {
                    // Each is at each of the three positions.
                    let hidden = [0, 1, 2].map(|index| ALL[(shift + index * 2) % ALL.len()]);
                    for live in [false, true].into_iter().filter(|live| !live || mode.is_none()) {
                        let there = seen(hidden, source, selection, mode, live).await;
                        let case = format!("{source:?} {hidden:?} {selection} {mode:?} live={live}");
                        assert_eq!(there, nothing, "{case}");
                    }
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_an_account_lacks_is_reported_for_each_named_namespace_or_of_none() {
    let seen = seen([Hidden::Absent; 3], Source::Missing, &json!({}), None, false).await;
    assert!(seen[0].contains("in namespaces guess-one, guess-two\\n"), "{}", seen[0]);
    assert!(seen[0].contains("if the namespace does not exist, the refusal is the same"), "{}", seen[0]);
}

/// Once it had a copy there; then the namespace was deleted, with the rights in it, or was labelled otherwise.
#[tokio::test(start_paused = true)]
async fn of_a_copy_where_the_account_may_not_look_any_more_no_selection_tells_anything() {
    let [_, by_label, by_pattern] = selections();
    for selection in [by_label, by_pattern] {
        tells_nothing_of_a_copy(&selection).await;
    }
}

async fn tells_nothing_of_a_copy(selection: &Value) {
    let mut all = Vec::new();
    for now in ALL {
        let world = SyncWorld::new(Duration::from_mins(5)).await;
        becomes(&world, "guess-one", Hidden::Selected).await;
        let mut spec = spec(&["foo"]);
        spec["targets"].as_object_mut().unwrap().extend(selection.as_object().unwrap().clone());
        world.create(&spec, &[]);
        world.settle().await;
        assert!(world.object("guess-one", "settings").is_some());
        world.server.forbid("guess-one", true);
        becomes(&world, "guess-one", now).await;
        world.settle().await;
        let mut status = world.sync()["status"].clone();
        for condition in status["conditions"].as_array_mut().unwrap() {
            condition["lastTransitionTime"] = Value::Null;
        }
        all.push((now, status));
    }
    for (now, status) in &all {
        assert_eq!(*status, all[0].1, "{now:?} {selection}");
    }
}

/// About which namespaces is asked where nothing but foo may be seen, and what is reported.
async fn asked_for(selection: &Value) -> (Vec<String>, Value) {
    let world = SyncWorld::new(Duration::from_mins(5)).await;
    for name in ["guess-one", "bar", "baz", "team-a"] {
        world.server.forbid(name, name != "team-a");
    }
    becomes(&world, "guess-one", Hidden::Selected).await;
    let mut spec = spec(&["foo"]);
    spec["targets"]["exclude"] = json!(["team-a"]);
    spec["targets"].as_object_mut().unwrap().extend(selection.as_object().unwrap().clone());
    world.create(&spec, &[]);
    world.settle().await;
    world.server.asked();
    world.reconcile().await.unwrap();
    let mut asked = world.server.asked();
    asked.sort();
    let mut status = world.sync()["status"].clone();
    for condition in status["conditions"].as_array_mut().unwrap() {
        condition["lastTransitionTime"] = Value::Null;
    }
    assert_eq!(status["counts"]["desired"], 1, "{status}");
    (asked, status)
}

/// How long a reconciliation takes is seen too, and questions are what takes long. Were they asked only about what a
/// pattern or the label with the name selects, a name could be found letter by letter; and by one that is excluded,
/// whether it is there.
#[tokio::test(start_paused = true)]
async fn a_selection_of_what_the_account_may_not_see_is_as_one_of_nothing() {
    let patterns = ["nothing-*", "guess-o*", "guess-?ne", "*", "foo*"].map(|one| json!({"patterns": [one]}));
    let named = json!([{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["another"]}]);
    let selectors = ["none", "dev"]
        .map(|tier| json!({"selector": {"matchLabels": {"tier": tier}, "matchExpressions": named}}));
    let excluded = [json!(["team-a"]), json!(["team-a", "guess-one"])]
        .map(|names| json!({"selector": {"matchLabels": {"tier": "dev"}}, "exclude": names}));
    for selections in [patterns.to_vec(), selectors.to_vec(), excluded.to_vec()] {
        let expected = asked_for(&selections[0]).await;
        assert!(expected.0.contains(&"guess-one".to_owned()), "{expected:?}");
        for selection in &selections {
            assert_eq!(asked_for(selection).await, expected, "{selection}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_reported_of_copies_in_places_that_someone_only_names() {
    let mut attack = spec(&["kube-system", "team-b", "no-such-namespace"]);
    attack["targets"]["name"] = "k3s-serving".into();
    for refused in [true, false] {
        let world = SyncWorld::new(Duration::from_mins(5)).await;
        for namespace in ["kube-system", "team-b", "no-such-namespace"] {
            world.server.forbid(namespace, refused);
        }
        world.put("kube-system", "k3s-serving", "theirs", &json!({}));
        if !refused {
            // Or without an account at all.
            attack["serviceAccount"] = json!({"name": ""});
        }
        world.create(&attack, &[FINALIZER]);
        world.delete();
        while world.reconcile().await.is_err() {
            advance(Duration::from_secs(5)).await;
        }
        assert!(world.is_deleted());
        assert_eq!(world.server.notes(), Vec::<String>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn of_a_copy_that_stays_its_own_namespace_is_reported() {
    let world = SyncWorld::new(Duration::from_mins(5)).await;
    world.create(&spec(&["foo", "bar"]), &[]);
    world.settle().await;
    world.events();
    world.server.forbid("foo", true);
    world.delete();
    let begun = Instant::now();
    while world.reconcile().await.is_err() {
        advance(Duration::from_secs(1)).await;
    }
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    assert_eq!(world.events(), ["CopyOrphaned ConfigMap settings"]);
    let note = world.server.notes().pop().unwrap();
    assert!(
        note.starts_with("foo/events copy of ConfigMapSync team-a/sync, which no longer exists"),
        "{note}"
    );
    assert!(note.contains("`weaver orphans delete ConfigMap/foo/settings`"), "{note}");
}
