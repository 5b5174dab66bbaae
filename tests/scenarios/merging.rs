//! Several sources that make one copy.

use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use weaver_api::v1beta1::ConfigMapSyncStatus;
use weaver_tests::cli::done;
use weaver_tests::tenant::TARGET;
use weaver_tests::world::{World, eventually};

/// What a source needs.
const READ: [&str; 3] = ["get", "list", "watch"];

/// `roots` and `extra` of `src` as `bundle` in these targets.
fn spec(src: &str, targets: &[&str]) -> Value {
    json!({
        "serviceAccount": {"name": "sync"},
        "source": {"namespace": src, "names": ["roots", "extra"]},
        "targets": {"namespaces": targets, "name": "bundle"},
        "merge": {"join": ["ca.crt"]},
    })
}

async fn status(world: &World, team: &str) -> ConfigMapSyncStatus {
    world.syncs(team).get("sync").await.unwrap().status.unwrap_or_default()
}

async fn share(world: &World, namespace: &str, name: &str, value: Value) {
    let label = json!({"metadata": {"labels": {"ca": value}}});
    let maps = world.config_maps(namespace);
    maps.patch(name, &PatchParams::default(), &Patch::Merge(label)).await.unwrap();
}

#[tokio::test]
async fn sources_that_are_listed_make_one_copy_which_follows_each_of_them() {
    let world = World::new("merged").await;
    let team = world.tenant().await;
    let (src, foo) = (world.target(&team, "src").await, world.target(&team, "foo").await);
    world.config_map(&src, "roots", &[("ca.crt", "one\n"), ("a", "1")]).await;
    world.config_map(&src, "extra", &[("ca.crt", "two"), ("b", "2")]).await;
    let mut spec = spec(&src, &[&foo, &src]);
    spec["dryRun"] = json!(true);
    world.sync(&team, "sync", spec.clone()).await;
    let planned = world.condition(&team, "sync", "TargetsSynced", "False", "DryRun").await;
    assert!(planned.message.contains(&format!("{foo}: would be created")), "{}", planned.message);
    let said = done(&["sync", "explain", "sync", "-n", &team]).await;
    assert!(said.contains(&format!("ConfigMap {foo}/bundle: does not exist")), "{said}");

    spec["dryRun"] = json!(false);
    world.sync(&team, "sync", spec.clone()).await;
    for namespace in [&foo, &src] {
        world.holds(namespace, "bundle", &[("ca.crt", "one\ntwo"), ("a", "1"), ("b", "2")]).await;
    }
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    let reported = status(&world, &team).await;
    let counts = reported.counts.unwrap();
    assert_eq!((counts.desired, counts.synced, counts.sources), (2, 2, Some(2)));
    let sources: Vec<_> = reported.sources.iter().map(|one| (one.name.as_str(), one.synced)).collect();
    assert_eq!(sources, [("extra", 2), ("roots", 2)]);
    let said = done(&["sync", "explain", "sync", "-n", &team]).await;
    assert!(said.contains(&format!("ConfigMap {foo}/bundle: holds the copy")), "{said}");

    // An edit of any of them, and of the order.
    world.config_map(&src, "extra", &[("ca.crt", "three\n"), ("b", "2")]).await;
    world.holds(&foo, "bundle", &[("ca.crt", "one\nthree\n"), ("a", "1"), ("b", "2")]).await;
    spec["source"]["names"] = json!(["extra", "roots"]);
    world.sync(&team, "sync", spec.clone()).await;
    world.holds(&foo, "bundle", &[("ca.crt", "three\none\n"), ("a", "1"), ("b", "2")]).await;

    // A key of two sources is refused with the names of both, and the copy stays, until the policy says whose counts.
    world.config_map(&src, "extra", &[("ca.crt", "three\n"), ("a", "2"), ("b", "2")]).await;
    let refused = world.condition(&team, "sync", "TargetsSynced", "Unknown", "KeyConflict").await;
    assert!(refused.message.contains("a in extra and roots"), "{}", refused.message);
    world.holds(&foo, "bundle", &[("ca.crt", "three\none\n"), ("a", "1"), ("b", "2")]).await;
    let said = done(&["sync", "explain", "sync", "-n", &team]).await;
    assert!(said.contains("a in extra and roots"), "{said}");
    for (policy, expected) in [("First", "2"), ("Last", "1")] {
        spec["merge"]["clashPolicy"] = json!(policy);
        world.sync(&team, "sync", spec.clone()).await;
        world.condition(&team, "sync", "Ready", "True", "Synced").await;
        world.holds(&foo, "bundle", &[("ca.crt", "three\none\n"), ("a", expected), ("b", "2")]).await;
    }

    // A write at the deprecated version, which shows neither names nor merge, loses nothing.
    let change = Patch::Merge(json!({"spec": {"testNum": 1}}));
    world.old_syncs(&team).patch("sync", &PatchParams::default(), &change).await.unwrap();
    let stored = world.syncs(&team).get("sync").await.unwrap().spec.spec.unwrap();
    assert_eq!((stored.source.unwrap().names.len(), stored.merge.unwrap().join.len()), (2, 1));

    // The sources stay what they are.
    world.delete_sync(&team, "sync").await;
    for namespace in [&foo, &src] {
        world.lacks(namespace, "bundle").await;
    }
    world.holds(&src, "roots", &[("ca.crt", "one\n"), ("a", "1")]).await;
    world.finish().await;
}

#[tokio::test]
async fn a_listed_source_that_goes_stops_the_copy_or_takes_its_keys_with_it() {
    let world = World::new("merged-gone").await;
    let team = world.tenant().await;
    let (src, foo) = (world.target(&team, "src").await, world.target(&team, "foo").await);
    world.config_map(&src, "roots", &[("ca.crt", "one"), ("a", "1")]).await;
    let mut spec = spec(&src, &[&foo]);
    world.sync(&team, "sync", spec.clone()).await;
    let missing = world.condition(&team, "sync", "SourceFound", "False", "SourceMissing").await;
    let words = format!("ConfigMap {src}/extra does not exist; the merged copy stays as it is");
    assert_eq!(missing.message, words);
    world.lacks(&foo, "bundle").await;
    world.config_map(&src, "extra", &[("ca.crt", "two"), ("b", "2")]).await;
    world.holds(&foo, "bundle", &[("ca.crt", "one\ntwo"), ("a", "1"), ("b", "2")]).await;

    world.config_maps(&src).delete("roots", &DeleteParams::default()).await.unwrap();
    world.condition(&team, "sync", "SourceFound", "False", "SourceMissing").await;
    world.holds(&foo, "bundle", &[("ca.crt", "one\ntwo"), ("a", "1"), ("b", "2")]).await;
    spec["sourceDeletionPolicy"] = json!("Delete");
    world.sync(&team, "sync", spec).await;
    world.holds(&foo, "bundle", &[("ca.crt", "two"), ("b", "2")]).await;
    world.config_maps(&src).delete("extra", &DeleteParams::default()).await.unwrap();
    world.lacks(&foo, "bundle").await;
    world.finish().await;
}

#[tokio::test]
async fn sources_that_are_selected_make_one_copy_in_the_order_of_their_names() {
    let world = World::new("merged-selected").await;
    let team = world.tenant().await;
    let (src, foo) = (world.target(&team, "src").await, world.target(&team, "foo").await);
    for (name, value) in [("b", "b\n"), ("a", "a\n"), ("c", "c\n")] {
        world.config_map(&src, name, &[("ca.crt", value)]).await;
        share(&world, &src, name, json!("true")).await;
    }
    let mut spec = spec(&src, &[&foo]);
    spec["source"] = json!({"namespace": src, "selector": {"matchLabels": {"ca": "true"}}});
    world.sync(&team, "sync", spec.clone()).await;
    let copy = world.holds(&foo, "bundle", &[("ca.crt", "a\nb\nc\n")]).await;
    assert!(!copy.metadata.labels.unwrap().contains_key("ca"), "labels of sources are theirs");
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    assert_eq!(status(&world, &team).await.counts.unwrap().sources, Some(3));
    share(&world, &src, "b", Value::Null).await;
    world.holds(&foo, "bundle", &[("ca.crt", "a\nc\n")]).await;
    // The last ones: then the policy counts.
    for name in ["a", "c"] {
        share(&world, &src, name, Value::Null).await;
    }
    world.condition(&team, "sync", "SourceFound", "False", "NoSource").await;
    assert!(world.config_maps(&foo).get_opt("bundle").await.unwrap().is_some());
    spec["sourceDeletionPolicy"] = json!("Delete");
    world.sync(&team, "sync", spec.clone()).await;
    world.lacks(&foo, "bundle").await;

    // From all of them to a copy of each: the merged one is deleted.
    share(&world, &src, "a", json!("true")).await;
    world.holds(&foo, "bundle", &[("ca.crt", "a\n")]).await;
    let mut each = spec;
    each.as_object_mut().unwrap().remove("merge");
    each["targets"] = json!({"namespaces": [foo]});
    world.sync(&team, "sync", each).await;
    world.holds(&foo, "a", &[("ca.crt", "a\n")]).await;
    world.lacks(&foo, "bundle").await;
    world.finish().await;
}

#[tokio::test]
async fn each_source_is_read_with_the_accounts_own_right_on_it() {
    let world = World::new("merged-rights").await;
    let team = world.tenant().await;
    let (src, foo) = (world.namespace("src").await, world.target(&team, "foo").await);
    world.config_map(&src, "roots", &[("ca.crt", "one\n")]).await;
    world.config_map(&src, "extra", &[("ca.crt", "two\n")]).await;
    world.grant_source(&team, &src, "roots").await;
    world.sync(&team, "sync", spec(&src, &[&foo])).await;
    let missing = world.condition(&team, "sync", "Ready", "False", "MissingRights").await;
    let words = format!("may not get, list, watch ConfigMap extra in namespace {src}");
    assert!(missing.message.contains(&words), "{}", missing.message);
    assert!(missing.message.contains("source:configmaps:extra"), "{}", missing.message);
    assert!(!missing.message.contains("source:configmaps:roots"), "{}", missing.message);
    world.condition(&team, "sync", "SourceFound", "Unknown", "SourceForbidden").await;
    world.lacks(&foo, "bundle").await;

    // What the condition prints, applied, is enough.
    let (_, printed) = missing.message.split_once("grant it with:\n").unwrap();
    world.apply_printed(printed).await;
    world.holds(&foo, "bundle", &[("ca.crt", "one\ntwo\n")]).await;
    world.condition(&team, "sync", "Authorized", "True", "Allowed").await;
    world.config_map(&src, "extra", &[("ca.crt", "three\n")]).await;
    world.holds(&foo, "bundle", &[("ca.crt", "one\nthree\n")]).await;

    // Taken away again, no copy is made of the rest.
    let bindings: Api<RoleBinding> = Api::namespaced(world.client.clone(), &src);
    bindings.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    let later = json!({"metadata": {"annotations": {"weaver.example.com/sync-now": "1"}}});
    world.syncs(&team).patch("sync", &PatchParams::default(), &Patch::Merge(later)).await.unwrap();
    world.condition(&team, "sync", "Ready", "False", "MissingRights").await;
    world.holds(&foo, "bundle", &[("ca.crt", "one\nthree\n")]).await;
    world.finish().await;
}

#[tokio::test]
async fn secrets_are_merged_into_a_secret_and_a_copy_that_is_too_large_is_refused() {
    let world = World::new("merged-secrets").await;
    let team = world.tenant().await;
    let (src, foo) = (world.namespace("src").await, world.namespace("foo").await);
    world.grant_secrets(&team, &src, &READ).await;
    world.grant_secrets(&team, &foo, &TARGET).await;
    let half = vec![b'x'; 600 << 10];
    world.secret(&src, "roots", "kubernetes.io/tls", &[("tls.crt", b"one"), ("tls.key", b"k")]).await;
    world.secret(&src, "extra", "Opaque", &[("tls.crt", b"two\n"), ("more", b"\xff")]).await;
    world.secret(&src, "large", "Opaque", &[("l", &half)]).await;
    world.secret(&src, "larger", "Opaque", &[("m", &half)]).await;
    let mut spec = spec(&src, &[&foo]);
    spec["source"]["kind"] = json!("Secret");
    spec["merge"]["join"] = json!(["tls.crt"]);
    world.sync(&team, "sync", spec.clone()).await;
    eventually("the bundle is there", || async {
        let found = world.secrets(&foo).get_opt("bundle").await.unwrap();
        let data = found.as_ref().and_then(|found| found.data.clone()).unwrap_or_default();
        let held = |key: &str| data.get(key).map(|value| value.0.clone());
        let expected = [Some(b"one\ntwo\n".to_vec()), Some(b"k".to_vec()), Some(b"\xff".to_vec())];
        let type_ = found.and_then(|found| found.type_);
        let is_it = [held("tls.crt"), held("tls.key"), held("more")] == expected;
        if is_it && type_.as_deref() == Some("Opaque") { Ok(()) } else { Err(type_) }
    })
    .await;
    spec["source"]["names"] = json!(["roots", "large", "larger"]);
    world.sync(&team, "sync", spec).await;
    let refused = world.condition(&team, "sync", "TargetsSynced", "Unknown", "CopyTooLarge").await;
    let words = "at most 1048576 are allowed: large has 614400, larger has 614400";
    assert!(refused.message.contains(words), "{}", refused.message);
    let kept = world.secrets(&foo).get("bundle").await.unwrap();
    assert!(kept.data.unwrap().contains_key("more"), "existing copies stay");
    assert!(world.config_maps(&foo).get_opt("bundle").await.unwrap().is_none());
    world.finish().await;
}

/// Has all copies of a sync looked at again, and waits until that in `target` was.
async fn look_again(world: &World, (team, sync, target): (&str, &str, &str), value: &str) {
    let before = world.audit.requests(target, "get");
    let now = json!({"metadata": {"annotations": {"weaver.example.com/sync-now": value}}});
    world.syncs(team).patch(sync, &PatchParams::default(), &Patch::Merge(now)).await.unwrap();
    eventually("the copy has been looked at", || async {
        let looks = world.audit.requests(target, "get");
        if looks > before { Ok(()) } else { Err(looks) }
    })
    .await;
}

/// It is made of the sources each time, and never of itself.
#[tokio::test]
async fn a_merged_copy_holds_what_its_sources_hold_now_however_often_it_is_made() {
    let world = World::new("merged-again").await;
    let team = world.tenant().await;
    let (src, foo) = (world.target(&team, "src").await, world.target(&team, "foo").await);
    world.config_map(&src, "roots", &[("ca.crt", "one\n"), ("a", "1"), ("old", "x")]).await;
    world.config_map(&src, "extra", &[("ca.crt", "two\n"), ("b", "2")]).await;
    let mut spec = spec(&src, &[&foo]);
    world.sync(&team, "sync", spec.clone()).await;
    let whole = [("ca.crt", "one\ntwo\n"), ("a", "1"), ("b", "2"), ("old", "x")];
    let first = world.holds(&foo, "bundle", &whole).await;
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    for value in ["once", "twice", "thrice"] {
        look_again(&world, (&team, "sync", &foo), value).await;
    }
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    let now = world.config_maps(&foo).get("bundle").await.unwrap();
    assert_eq!(now.metadata.resource_version, first.metadata.resource_version, "it was not written");

    // What someone adds to the copy is not taken for a part of it.
    let more = json!({"data": {"ca.crt": "one\ntwo\nthree\n", "c": "3"}});
    world.config_maps(&foo).patch("bundle", &PatchParams::default(), &Patch::Merge(more)).await.unwrap();
    world.holds(&foo, "bundle", &whole).await;
    // Keys that a source loses go, and so does all of a source that is not listed any more.
    world.config_map(&src, "roots", &[("ca.crt", "1\n")]).await;
    world.holds(&foo, "bundle", &[("ca.crt", "1\ntwo\n"), ("b", "2")]).await;
    spec["source"]["names"] = json!(["roots"]);
    world.sync(&team, "sync", spec).await;
    world.holds(&foo, "bundle", &[("ca.crt", "1\n")]).await;
    world.finish().await;
}

/// Each round adds the roots once more to what is there.
#[tokio::test]
async fn merged_copies_that_are_sources_of_each_other_end_below_the_size_of_an_object() {
    let world = World::new("merged-circle").await;
    let team = world.tenant().await;
    let (src, foo) = (world.target(&team, "src").await, world.target(&team, "foo").await);
    let roots = "x".repeat(300 << 10);
    world.config_map(&src, "roots", &[("ca.crt", roots.as_str())]).await;
    let circle = |names: &[&str], from: &str, to: &str, name: &str| {
        let mut spec = spec(from, &[to]);
        spec["source"]["names"] = json!(names);
        spec["targets"]["name"] = json!(name);
        spec["sourceDeletionPolicy"] = json!("Delete");
        spec
    };
    world.sync(&team, "there", circle(&["roots", "back"], &src, &foo, "bundle")).await;
    world.sync(&team, "back", circle(&["bundle"], &foo, &src, "back")).await;
    world.condition(&team, "there", "TargetsSynced", "Unknown", "CopyTooLarge").await;
    world.condition(&team, "back", "Ready", "True", "Synced").await;
    let holds = async |namespace: &str, name: &str| {
        let copy = world.config_maps(namespace).get(name).await.unwrap();
        copy.data.unwrap().remove("ca.crt").unwrap().len()
    };
    // Three times the roots on lines of their own; a fourth would be too much.
    let most = 3 * roots.len() + 2;
    eventually("the circle has ended", || async {
        let both = (holds(&foo, "bundle").await, holds(&src, "back").await);
        if both == (most, most) { Ok(()) } else { Err(both) }
    })
    .await;
    let writes = || world.audit.requests(&foo, "update") + world.audit.requests(&src, "update");
    let before = writes();
    look_again(&world, (&team, "back", &src), "again").await;
    world.condition(&team, "back", "Ready", "True", "Synced").await;
    assert_eq!(writes(), before, "nothing is written any more");
    world.finish().await;
}
