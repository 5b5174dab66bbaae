//! `weaver-client` on a real API server, as a program of someone else's uses it: writes that are undone, waits that end
//! with a reason, watches that continue.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::TryStreamExt as _;
use http::Response;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ObjectMeta, Patch, PatchParams};
use kube::client::Body;
use kube::runtime::watcher;
use serde_json::json;
use tokio::sync::Notify;
use weaver_client::rollback::{Rollback, UndoOutcome, scope};
use weaver_client::{
    Change, Conflicts, Error, Objects, Refusal, Updated, WaitProgress, Why, WriteMode, conditions,
};
use weaver_tests::person;
use weaver_tests::proxy::Hooks;
use weaver_tests::world::{SOON, World, client_of};

fn maps(world: &World, namespace: &str) -> Objects<ConfigMap> {
    Objects::new(world.config_maps(namespace), "a-program")
}

fn map(name: &str, data: &[(&str, &str)]) -> ConfigMap {
    let data = data.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() },
        data: Some(data.collect()),
        ..ConfigMap::default()
    }
}

/// The change that someone else makes.
async fn theirs(maps: &Objects<ConfigMap>, name: &str, change: serde_json::Value) {
    maps.api().patch(name, &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
}

fn with(map: &ConfigMap, key: &str, value: &str) -> ConfigMap {
    let mut map = map.clone();
    map.data.get_or_insert_default().insert(key.into(), value.into());
    map
}

#[tokio::test]
async fn a_scope_that_fails_undoes_its_own_writes_and_leaves_those_of_others() {
    let world = World::new("client-rollback").await;
    let home = world.namespace("home").await;
    let maps = maps(&world, &home);
    for name in ["applied", "theirs", "updated", "deleted"] {
        maps.create(name, &map(name, &[("a", "1")]), WriteMode::Persist).await.unwrap();
    }
    let deleted = maps.read("deleted").await.unwrap();

    let failed = scope(async |writes: &mut Rollback| -> Result<(), Error> {
        for name in ["applied", "theirs"] {
            writes.apply(&maps, name, &map(name, &[("a", "2"), ("b", "2")]), Conflicts::Force).await?;
        }
        let seen = maps.read("updated").await?;
        writes.update(&maps, &seen, |map| Ok::<_, Error>(Some(with(map, "a", "2")))).await?;
        writes.delete(&maps, &deleted, DeleteParams::default()).await?;
        writes.create(&maps, "created", &map("created", &[])).await?;
        theirs(&maps, "theirs", json!({"data": {"a": "3"}})).await;
        theirs(&maps, "updated", json!({"metadata": {"labels": {"theirs": "yes"}}})).await;
        maps.read("missing").await.map(|_| ())
    });
    let failed = failed.await.unwrap_err();
    assert!(failed.error.is_not_found(), "{failed}");
    let said: Vec<String> = failed.undone.iter().map(|undone| undone.outcome.to_string()).collect();
    let expected = [
        "it did not exist before and was deleted again",
        "it was created again",
        "its previous state is restored",
        "nothing was undone: another client has changed data.a since",
        "its previous state is restored",
    ];
    assert_eq!(said, expected, "the last write first");
    assert_eq!(failed.undone[0].object, format!("ConfigMap {home}/created"));

    world.lacks(&home, "created").await;
    for (name, data) in [("applied", "1"), ("updated", "1"), ("deleted", "1")] {
        world.holds(&home, name, &[("a", data)]).await;
    }
    world.holds(&home, "theirs", &[("a", "3"), ("b", "2")]).await;
    assert_eq!(maps.read("updated").await.unwrap().labels()["theirs"], "yes");
    assert_ne!(maps.read("deleted").await.unwrap().uid(), deleted.uid());
    world.finish().await;
}

#[tokio::test]
async fn what_is_kept_stays_and_a_scope_that_is_cut_off_is_undone() {
    let world = World::new("client-scope").await;
    let home = world.namespace("home").await;
    let maps = maps(&world, &home);
    let kept = scope(async |writes: &mut Rollback| writes.create(&maps, "kept", &map("kept", &[])).await);
    kept.await.unwrap();
    // A write whose answer is lost is not undone.
    let is_answered = Notify::new();
    let cut_off = scope(async |writes: &mut Rollback| -> Result<(), Error> {
        writes.create(&maps, "cut-off", &map("cut-off", &[("a", "1")])).await?;
        is_answered.notify_one();
        std::future::pending().await
    });
    tokio::select! {
        _ = cut_off => panic!("it does not end"),
        () = is_answered.notified() => {}
    }
    world.lacks(&home, "cut-off").await;
    assert!(maps.get("kept").await.unwrap().is_some());
    world.finish().await;
}

#[tokio::test]
async fn a_change_is_repeated_on_the_newer_object_and_never_made_on_another_one() {
    let world = World::new("client-update").await;
    let home = world.namespace("home").await;
    let maps = maps(&world, &home);
    let seen = maps.create("a", &map("a", &[("ours", "1")]), WriteMode::Persist).await.unwrap();
    theirs(&maps, "a", json!({"data": {"theirs": "1"}})).await;
    let mut calls = 0;
    let change = |map: &ConfigMap| {
        calls += 1;
        Ok::<_, Error>(Some(with(map, "ours", "2")))
    };
    let updated = maps.update(seen.clone(), WriteMode::Rehearsed, change).await.unwrap();
    assert!(matches!(updated, Updated::Changed(_)) && calls == 2, "{updated:?}");
    world.holds(&home, "a", &[("ours", "2"), ("theirs", "1")]).await;

    maps.delete(&seen, DeleteParams::default()).await.unwrap();
    maps.gone(&seen, SOON).await.unwrap();
    maps.create("a", &map("a", &[]), WriteMode::Persist).await.unwrap();
    let change = |map: &ConfigMap| Ok::<_, Error>(Some(with(map, "ours", "3")));
    let error = maps.update(seen.clone(), WriteMode::Persist, change).await.unwrap_err();
    assert_eq!((&error.why, error.object), (&Why::Replaced, format!("ConfigMap {home}/a")));
    assert!(maps.delete(&seen, DeleteParams::default()).await.unwrap_err().is_conflict());

    let misspelt = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}, "dta": {}});
    let error = maps.create("b", &misspelt, WriteMode::Persist).await.unwrap_err();
    assert_eq!(error.refusal(), Some(Refusal::FieldUnknown), "{error}");
    maps.create("b", &map("b", &[]), WriteMode::DryRun).await.unwrap();
    assert_eq!(maps.get("b").await.unwrap(), None);
    world.finish().await;
}

#[tokio::test]
async fn a_wait_that_times_out_says_what_was_missing() {
    let world = World::new("client-wait").await;
    let home = world.namespace("home").await;
    let syncs = Objects::new(world.syncs(&home), "a-program");
    let is_ready = |found: Option<&_>| conditions::is_true(found, "Ready");
    let second = Duration::from_secs(1);
    let error = syncs.wait("sync", second, is_ready).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("waiting for ConfigMapSync {home}/sync: not within 1 s: it does not exist")
    );
    let never = |found: Option<&_>| match found {
        Some(_) => WaitProgress::Reached,
        None => WaitProgress::Never("someone deleted it".into()),
    };
    assert!(matches!(syncs.wait("sync", SOON, never).await.unwrap_err().why, Why::Never(_)));

    let seen = world.sync(&home, "sync", world.spec(&home, &["foo"])).await;
    world.condition(&home, "sync", "Ready", "False", "MintingForbidden").await;
    let error = syncs.wait("sync", second, is_ready).await.unwrap_err().to_string();
    assert!(error.contains("not within 1 s: Ready=False (MintingForbidden) "), "{error}");
    let is_paused = |found: Option<&_>| conditions::is_true(found, "Paused");
    let patch = Patch::Merge(json!({"spec": {"suspend": true}}));
    syncs.api().patch("sync", &PatchParams::default(), &patch).await.unwrap();
    let found = syncs.wait("sync", SOON, is_paused).await.unwrap().unwrap();
    assert!(found.metadata.generation > seen.metadata.generation);

    let finalizers = |names: &[&str]| json!({"metadata": {"finalizers": names}});
    let patch = Patch::Merge(finalizers(&["example.com/mine"]));
    syncs.api().patch("sync", &PatchParams::default(), &patch).await.unwrap();
    syncs.delete(&seen, DeleteParams::default()).await.unwrap();
    let error = syncs.gone(&seen, second).await.unwrap_err().to_string();
    assert!(error.ends_with("not within 1 s: finalizer example.com/mine holds it"), "{error}");
    let patch = Patch::Merge(finalizers(&[]));
    syncs.api().patch("sync", &PatchParams::default(), &patch).await.unwrap();
    syncs.gone(&seen, SOON).await.unwrap();
    world.finish().await;
}

#[tokio::test]
async fn a_watch_begins_again_where_the_api_server_has_forgotten_its_place() {
    let world = World::new("client-watch").await;
    let home = world.namespace("home").await;
    for name in ["goes", "stays"] {
        world.config_map(&home, name, &[("a", "1")]).await;
    }
    // Each request to watch is refused as too old until the objects have been listed for the third time.
    let (lists, refused) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let mut hooks = Hooks::none();
    let (counted, reported) = (lists.clone(), refused.clone());
    hooks.instead = Arc::new(move |request| {
        if !request.uri.path().ends_with("/configmaps") {
            return None;
        }
        if !request.uri.query().is_some_and(|query| query.contains("watch=true")) {
            counted.fetch_add(1, Ordering::SeqCst);
            return None;
        }
        if counted.load(Ordering::SeqCst) > 2 {
            return None;
        }
        reported.fetch_add(1, Ordering::SeqCst);
        let gone = r#"{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"}"#;
        Some(Response::builder().status(410).body(Body::from(gone.as_bytes().to_vec())).unwrap())
    });
    let proxy = person::proxy(hooks).await;
    let directory = tempfile::tempdir().unwrap();
    let client = client_of(&person::kubeconfig(&world, &home, &proxy, directory.path()).await).await;
    let maps: Objects<ConfigMap> = Objects::new(Api::namespaced(client, &home), "a-program");
    let only = watcher::Config::default().fields("metadata.name!=kube-root-ca.crt");
    let mut changes = pin!(maps.watch(only));
    let mut next = async || loop {
        // An error is reported, and the stream continues.
        match tokio::time::timeout(SOON, changes.try_next()).await.unwrap() {
            Ok(batch) => break batch.unwrap(),
            Err(error) => eprintln!("{error}"),
        }
    };
    let names = |batch: &[Change<ConfigMap>]| {
        batch.iter().map(|change| change.object().name_any()).collect::<Vec<_>>()
    };
    assert_eq!(names(&next().await), ["goes", "stays"]);
    // While it has no watch: seen by the next list.
    world.config_maps(&home).delete("goes", &DeleteParams::default()).await.unwrap();
    let change = loop {
        if let Some(change) = next().await.pop() {
            break change;
        }
    };
    assert!(matches!(&change, Change::Deleted(map) if map.name_any() == "goes"), "{change:?}");
    world.config_map(&home, "stays", &[("a", "2")]).await;
    let change = loop {
        if let Some(change) = next().await.pop() {
            break change;
        }
    };
    assert!(matches!(&change, Change::Modified(map) if map.name_any() == "stays"), "{change:?}");
    assert!(refused.load(Ordering::SeqCst) > 0 && lists.load(Ordering::SeqCst) > 1);
    world.finish().await;
}

#[tokio::test]
async fn outcomes_without_an_answer_are_left_alone() {
    let world = World::new("client-unanswered").await;
    let home = world.namespace("home").await;
    let mut hooks = Hooks::none();
    hooks.instead = Arc::new(|request| {
        let is_write = request.method == http::Method::POST && request.uri.path().ends_with("/configmaps");
        is_write.then(|| Response::builder().status(502).body(Body::empty()).unwrap())
    });
    let proxy = person::proxy(hooks).await;
    let directory = tempfile::tempdir().unwrap();
    let client = client_of(&person::kubeconfig(&world, &home, &proxy, directory.path()).await).await;
    let maps: Objects<ConfigMap> = Objects::new(Api::namespaced(client, &home), "a-program");
    let mut writes = Rollback::new();
    let error = writes.create(&maps, "a", &map("a", &[])).await.unwrap_err();
    assert!(error.may_be_done() && error.to_string().contains("may have been done"), "{error}");
    assert_eq!(writes.written(), [format!("ConfigMap {home}/a")]);
    let undone = writes.undo().await;
    assert!(
        matches!(&undone[0].outcome, UndoOutcome::Nothing(why) if why == "it is as it was before"),
        "{undone:?}"
    );
    world.finish().await;
}
