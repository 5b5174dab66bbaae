//! `weaver sync explain` says what a user wants to know of a resource that is not as it should be.

use serde_json::json;
use weaver_tests::world::{World, weaver};

#[tokio::test]
async fn what_is_desired_what_is_there_and_which_right_is_missing_are_explained() {
    let world = World::new("explain").await;
    let (team, foo) = world.synced().await;
    let (bar, baz) = (world.target(&team, "bar").await, world.namespace("baz").await);
    world.config_map(&bar, "settings", &[("theirs", "hunter2")]).await;
    world.sync(&team, "sync", world.spec(&team, &[&foo, &bar, &baz])).await;
    world.condition(&team, "sync", "Ready", "False", "MissingRights").await;
    let (done, said) = weaver(&["sync", "explain", "sync", "-n", &team]);
    assert!(done, "{said}");
    for line in [
        format!("source ConfigMap {team}/settings exists"),
        format!("ConfigMap {foo}/settings: holds the copy"),
        format!(
            "ConfigMap {bar}/settings: is not touched: an object of this name exists and was not made by this sync"
        ),
        format!("ConfigMap {baz}/settings: does not exist"),
        format!(
            "ServiceAccount {team}/sync may not create, delete, get, list, update, watch ConfigMaps in namespace {baz}"
        ),
        "kind: Role".to_owned(),
    ] {
        assert!(said.lines().any(|found| found == line), "{line} is not in\n{said}");
    }
    // While nothing is written, a copy may differ: by key, and never by value.
    let mut spec = world.spec(&team, &[&foo]);
    spec["suspend"] = json!(true);
    world.sync(&team, "sync", spec).await;
    world.condition(&team, "sync", "Paused", "True", "Suspended").await;
    world.config_map(&team, "settings", &[("a", "hunter2"), ("b", "2")]).await;
    let (done, said) = weaver(&["sync", "explain", "sync", "-n", &team]);
    assert!(done, "{said}");
    let line = format!("ConfigMap {foo}/settings: is a copy and differs: data.a, data.b");
    assert!(said.lines().any(|found| found == line), "{said}");
    assert!(said.contains("holds every right that is needed") && !said.contains("hunter2"), "{said}");
    world.finish().await;
}
