//! One object at two versions, seen through the API server: nothing is lost on the way, and who still writes
//! v1alpha1 is reported.

use std::process::Command;

use futures::{StreamExt as _, TryStreamExt as _};
use kube::api::{Api, ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchParams};
use kube::core::WatchEvent;
use serde_json::{Value, json};
use weaver_api::convert::ANNOTATION;
use weaver_api::{v1alpha1, v1beta1};
use weaver_tests::world::{World, eventually, given};

/// Objects of a kind and version as they come over the wire.
fn raw<K: kube::Resource<DynamicType = ()>>(world: &World, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(world.client.clone(), namespace, &ApiResource::erase::<K>(&()))
}

fn old(world: &World, namespace: &str) -> Api<DynamicObject> {
    raw::<v1alpha1::ConfigMapSync>(world, namespace)
}

fn new(world: &World, namespace: &str) -> Api<DynamicObject> {
    raw::<v1beta1::ConfigMapSync>(world, namespace)
}

async fn create(
    api: &Api<DynamicObject>,
    version: &str,
    kind: &str,
    name: &str,
    rest: Value,
) -> DynamicObject {
    let mut object = json!({"apiVersion": format!("weaver.example.com/{version}"), "kind": kind,
                            "metadata": {"name": name}});
    object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
}

/// Runs kubectl as the administrator; what it printed, and what it warned of.
fn kubectl(arguments: &[&str]) -> (String, String) {
    let output = Command::new(given("WEAVER_TEST_SERVER_BIN"))
        .arg("kubectl")
        .args(arguments)
        .env("KUBECONFIG", given("WEAVER_TEST_KUBECONFIG"))
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", text(output.stderr));
    (text(output.stdout), text(output.stderr))
}

#[tokio::test]
async fn what_is_sent_at_v1alpha1_comes_back_with_its_defaults_and_no_annotation() {
    let world = World::new("sent-old").await;
    let team = world.namespace("team").await;
    for (name, sent, expected) in [
        ("bare", json!({}), None),
        ("empty", json!({"spec": {}}), Some(json!({"serviceAccount": {"name": "default"}}))),
        ("no-account", json!({"spec": {"serviceAccount": {}}}), Some(json!({"serviceAccount": {}}))),
        (
            "whole",
            json!({"spec": {"source": {"name": "s", "namespace": "n"}, "syncToNamespaces": ["b", "a", "b"], "testNum": 7}}),
            Some(json!({"serviceAccount": {"name": "default"}, "source": {"name": "s", "namespace": "n"},
                        "syncToNamespaces": ["b", "a", "b"], "testNum": 7})),
        ),
    ] {
        create(&old(&world, &team), "v1alpha1", "ConfigMapSync", name, sent).await;
        let read = old(&world, &team).get(name).await.unwrap();
        assert_eq!(read.data.get("spec"), expected.as_ref(), "{name}");
        assert_eq!(read.metadata.annotations, None, "{name}");
    }
    let stored = new(&world, &team).get("whole").await.unwrap();
    assert_eq!(stored.data["spec"]["targets"]["namespaces"], json!(["b", "a"]));
    assert_eq!(stored.data["spec"]["conflictPolicy"], "Refuse", "defaults of v1beta1 are filled in");
    assert!(stored.metadata.annotations.unwrap()[ANNOTATION].contains("testNum"));
    world.config_map(&team, "touched", &[]).await;
    world.finish().await;
}

#[tokio::test]
async fn what_is_written_at_v1beta1_survives_an_edit_at_v1alpha1() {
    let world = World::new("edited-old").await;
    let team = world.namespace("team").await;
    let spec = json!({
        "serviceAccount": {"name": "sync"}, "source": {"kind": "Secret", "namespace": &team, "name": "s"},
        "targets": {"namespaces": ["a"], "selector": {"matchLabels": {"x": "y"}}, "labels": {"l": "1"}, "name": null},
        "keys": {"include": ["k"]}, "conflictPolicy": "Adopt", "resyncSeconds": 60, "suspend": true,
    });
    create(&new(&world, &team), "v1beta1", "ConfigMapSync", "sync", json!({"spec": spec})).await;
    let before = new(&world, &team).get("sync").await.unwrap();
    let shown = old(&world, &team).get("sync").await.unwrap();
    assert_eq!(
        shown.data["spec"],
        json!({"serviceAccount": {"name": "sync"}, "source": {"namespace": &team, "name": "s"}, "syncToNamespaces": ["a"]})
    );
    let edit = json!({"spec": {"syncToNamespaces": ["b", "c"]}});
    old(&world, &team).patch("sync", &PatchParams::default(), &Patch::Merge(&edit)).await.unwrap();
    let mut expected = before.data["spec"].clone();
    expected["targets"]["namespaces"] = json!(["b", "c"]);
    let after = new(&world, &team).get("sync").await.unwrap();
    assert_eq!((&after.data["spec"], &after.metadata.annotations), (&expected, &before.metadata.annotations));
    world.config_map(&team, "touched", &[]).await;
    world.finish().await;
}

#[tokio::test]
async fn one_token_of_v1alpha1_and_many_of_v1beta1_are_the_same_object() {
    let world = World::new("tokens").await;
    let team = world.namespace("team").await;
    let old = raw::<v1alpha1::ServiceToken>(&world, &team);
    let new = raw::<v1beta1::ServiceToken>(&world, &team);
    let one = json!({"spec": {"serviceAccount": {"name": "bot"}}});
    create(&old, "v1alpha1", "ServiceToken", "one", one).await;
    let tokens = json!([{"key": "token", "serviceAccount": {"name": "bot"}, "expirationSeconds": 3600}]);
    assert_eq!(new.get("one").await.unwrap().data["spec"]["tokens"], tokens);
    let add = json!([{"op": "add", "path": "/spec/tokens/-", "value": {"key": "ci", "serviceAccount": {"name": "ci"}}}]);
    let add: kube::api::Patch<()> = Patch::Json(serde_json::from_value(add).unwrap());
    new.patch("one", &PatchParams::default(), &add).await.unwrap();
    let edit = json!({"spec": {"expirationSeconds": 600}});
    old.patch("one", &PatchParams::default(), &Patch::Merge(&edit)).await.unwrap();
    assert_eq!(
        new.get("one").await.unwrap().data["spec"]["tokens"],
        json!([{"key": "token", "serviceAccount": {"name": "bot"}, "expirationSeconds": 600},
               {"key": "ci", "serviceAccount": {"name": "ci"}, "expirationSeconds": 3600}])
    );
    world.config_map(&team, "touched", &[]).await;
    world.finish().await;
}

#[tokio::test]
async fn a_list_and_a_watch_at_v1alpha1_show_what_changes_at_v1beta1() {
    let world = World::new("old-watch").await;
    let team = world.namespace("team").await;
    let (old, new) = (old(&world, &team), new(&world, &team));
    let spec = |namespaces: Value| {
        json!({"spec": {"serviceAccount": {"name": "a"}, "source": {"namespace": "n", "name": "s"},
                        "targets": {"namespaces": namespaces}}})
    };
    create(&new, "v1beta1", "ConfigMapSync", "first", spec(json!(["a"]))).await;
    let list = old.list(&ListParams::default()).await.unwrap();
    assert_eq!(list.items[0].data["spec"]["syncToNamespaces"], json!(["a"]));

    let version = list.metadata.resource_version.unwrap();
    let mut events = old.watch(&WatchParams::default().timeout(60), &version).await.unwrap().boxed();
    create(&new, "v1beta1", "ConfigMapSync", "second", spec(json!(["b"]))).await;
    let edit = json!({"spec": {"targets": {"namespaces": ["b", "c"]}}});
    new.patch("second", &PatchParams::default(), &Patch::Merge(&edit)).await.unwrap();
    new.delete("second", &kube::api::DeleteParams::default()).await.unwrap();
    let mut seen = Vec::new();
    while let Some(event) = events.try_next().await.unwrap() {
        let (what, object) = match event {
            WatchEvent::Added(object) => ("added", object),
            WatchEvent::Modified(object) => ("modified", object),
            WatchEvent::Deleted(object) => ("deleted", object),
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(error) => panic!("{error:?}"),
        };
        if object.metadata.name.as_deref() != Some("second") {
            continue;
        }
        assert_eq!(object.types.unwrap().api_version, "weaver.example.com/v1alpha1");
        // The operator's own writes of the status come in between.
        seen.push((what, object.data["spec"]["syncToNamespaces"].clone()));
        if what == "deleted" {
            break;
        }
    }
    seen.dedup();
    let expected = [("added", json!(["b"])), ("modified", json!(["b", "c"])), ("deleted", json!(["b", "c"]))];
    let seen: Vec<_> = seen.into_iter().filter(|event| *event != ("modified", json!(["b"]))).collect();
    assert_eq!(seen, expected);
    world.config_map(&team, "touched", &[]).await;
    world.finish().await;
}

#[tokio::test]
async fn what_waits_for_conditions_of_the_upstream_operator_is_answered() {
    let world = World::new("upstream-conditions").await;
    let (team, _) = world.synced().await;
    for condition in ["Available", "SourceConfigMapFound", "AllTargetsSynced"] {
        let condition = format!("--for=condition={condition}");
        let resource = "configmapsyncs.v1alpha1.weaver.example.com/sync";
        kubectl(&["wait", "-n", &team, &condition, "--timeout=30s", resource]);
    }
    let stored = new(&world, &team).get("sync").await.unwrap();
    let stored = stored.data["status"]["conditions"].as_array().unwrap().clone();
    let types: Vec<_> = stored.iter().map(|condition| condition["type"].as_str().unwrap()).collect();
    assert_eq!(types, weaver_api::conditions::ORDER);
    world.finish().await;
}

#[tokio::test]
async fn without_a_spec_everything_but_the_spec_can_be_written_and_others_go_on() {
    let world = World::new("no-spec-writes").await;
    let (team, _) = world.synced().await;
    create(&old(&world, &team), "v1alpha1", "ConfigMapSync", "bare", json!({})).await;
    let migrated = world.condition(&team, "bare", "Migrated", "False", "Incomplete").await;
    assert!(migrated.message.contains("spec.serviceAccount"), "{}", migrated.message);
    let new = new(&world, &team);
    let patch = |patch: Value| Patch::Merge(patch);
    let params = PatchParams::default();
    for change in [
        json!({"metadata": {"labels": {"a": "b"}}}),
        json!({"metadata": {"finalizers": ["example.com/mine"]}}),
        json!({"metadata": {"finalizers": null, "annotations": {"a": "b"}}}),
    ] {
        new.patch("bare", &params, &patch(change)).await.unwrap();
    }
    new.patch_status("bare", &params, &patch(json!({"status": {"observedGeneration": 1}}))).await.unwrap();
    let none: Value =
        old(&world, &team).get("bare").await.unwrap().data.get("spec").cloned().unwrap_or_default();
    assert_eq!(none, Value::Null, "still nothing is guessed");
    world.config_map(&team, "settings", &[("a", "2")]).await;
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    world.finish().await;
}

#[tokio::test]
async fn a_client_of_v1alpha1_does_not_take_numbers_and_targets_from_the_status_for_good() {
    let world = World::new("old-status").await;
    let (team, foo) = world.synced().await;
    let edit = json!({"metadata": {"labels": {"seen": "yes"}}});
    old(&world, &team).patch("sync", &PatchParams::default(), &Patch::Merge(&edit)).await.unwrap();
    eventually("counts and targets are there again", || async {
        let status = world.syncs(&team).get("sync").await.unwrap().status.unwrap_or_default();
        let synced = status.counts.map(|counts| (counts.desired, counts.synced));
        let targets: Vec<_> = status.targets.iter().map(|target| target.namespace.clone()).collect();
        if synced == Some((1, 1)) && targets == [foo.clone()] { Ok(()) } else { Err((synced, targets)) }
    })
    .await;
    world.finish().await;
}

#[tokio::test]
async fn kubectl_warns_of_v1alpha1_and_only_of_it() {
    let world = World::new("warning").await;
    let team = world.namespace("team").await;
    let (_, warned) = kubectl(&["-n", &team, "get", "configmapsyncs.v1alpha1.weaver.example.com"]);
    assert!(warned.contains("Warning: weaver.example.com/v1alpha1 ConfigMapSync is deprecated"), "{warned}");
    let (_, quiet) = kubectl(&["-n", &team, "get", "cms"]);
    assert!(!quiet.contains("Warning"), "{quiet}");
    world.config_map(&team, "touched", &[]).await;
    world.finish().await;
}

#[tokio::test]
async fn kubectl_explains_every_field() {
    let explained = kubectl(&["explain", "cms.spec", "--api-version=weaver.example.com/v1beta1"]).0;
    for words in [
        "serviceAccount\t<Object> -required-",
        "resyncSeconds\t<integer>",
        "Default: 600.",
        "enum: Refuse, Adopt",
    ] {
        assert!(explained.contains(words), "{words:?} is not in:\n{explained}");
    }
    let columns = kubectl(&["get", "cms", "-A"]).0;
    let header = columns.lines().next().unwrap_or_default();
    // Where there is none at all, kubectl prints no header.
    assert!(
        header.is_empty()
            || ["READY", "REASON", "DESIRED", "SYNCED", "AGE"].iter().all(|c| header.contains(c)),
        "{header}"
    );
    assert!(kubectl(&["api-resources", "--categories", "weaver", "-o", "name"]).0.lines().count() == 4);
}

#[tokio::test]
async fn a_field_selector_finds_the_syncs_of_one_account() {
    let world = World::new("selectable").await;
    let team = world.namespace("team").await;
    for (name, account) in [("one", "a"), ("two", "b"), ("three", "a")] {
        let spec = json!({"spec": {"serviceAccount": {"name": account}, "source": {"name": "s", "namespace": "n"}, "syncToNamespaces": ["x"]}});
        create(&old(&world, &team), "v1alpha1", "ConfigMapSync", name, spec).await;
    }
    for api in [old(&world, &team), new(&world, &team)] {
        let found = api.list(&ListParams::default().fields("spec.serviceAccount.name=a")).await.unwrap();
        let names: Vec<_> = found.items.iter().filter_map(|item| item.metadata.name.as_deref()).collect();
        assert_eq!(names, ["one", "three"]);
    }
    world.config_map(&team, "touched", &[]).await;
    world.finish().await;
}

#[tokio::test]
async fn a_sync_with_a_name_of_253_characters_copies() {
    let world = World::new("long-name").await;
    let team = world.tenant().await;
    let foo = world.target(&team, "foo").await;
    world.config_map(&team, "settings", &[("a", "1")]).await;
    let name = "n".repeat(253);
    world.old_sync(&team, &name, world.old_spec(&team, &[&foo])).await;
    world.holds(&foo, "settings", &[("a", "1")]).await;
    world.delete_sync(&team, &name).await;
    world.lacks(&foo, "settings").await;
    world.finish().await;
}
