//! `weaver sync explain` says what a user wants to know of a resource that is not as it should be.

use serde_json::json;
use weaver_tests::sync_kinds::SyncedKind;
use weaver_tests::world::{World, weaver};

/// Where there is one of each kind under a name, both are explained.
#[tokio::test]
async fn what_is_desired_what_is_there_and_which_right_is_missing_are_explained() {
    let world = World::new("explain").await;
    let (team, foo) = world.synced().await;
    let (bar, baz) = (world.namespace("bar").await, world.namespace("baz").await);
    for of in SyncedKind::BOTH {
        let (kind, several) = (of.kind(), of.several());
        of.grant(&world, &team, &[&team, &foo, &bar]).await;
        of.object(&world, &team, &[("a", "1")]).await;
        of.object(&world, &bar, &[("theirs", "hunter2")]).await;
        of.sync(&world, &team, of.spec(&world, &team, &[&foo, &bar, &baz])).await;
        of.holds(&world, &foo, &[("a", "1")]).await;
        of.condition(&world, &team, "Ready", "False", "MissingRights").await;
        let (done, said) = weaver(&["sync", "explain", "sync", "-n", &team]);
        assert!(done, "{said}");
        for line in [
            format!("source {kind} {team}/settings exists"),
            format!("{kind} {foo}/settings: holds the copy"),
            format!(
                "{kind} {bar}/settings: is not touched: an object of this name exists and was not made by this sync"
            ),
            format!("{kind} {baz}/settings: does not exist"),
            format!(
                "ServiceAccount {team}/sync may not create, delete, get, list, update, watch {several} in namespace {baz}"
            ),
            "kind: Role".to_owned(),
        ] {
            assert!(said.lines().any(|found| found == line), "{line} is not in\n{said}");
        }
        // While nothing is written, a copy may differ: by key, and never by value.
        let mut spec = of.spec(&world, &team, &[&foo]);
        spec["suspend"] = json!(true);
        of.sync(&world, &team, spec).await;
        of.condition(&world, &team, "Paused", "True", "Suspended").await;
        of.object(&world, &team, &[("a", "hunter2"), ("b", "2")]).await;
        let (done, said) = weaver(&["sync", "explain", "sync", "-n", &team]);
        assert!(done, "{said}");
        let fields = ["a", "b"].map(|name| of.field(name)).join(", ");
        let line = format!("{kind} {foo}/settings: is a copy and differs: {fields}");
        assert!(said.lines().any(|found| found == line), "{said}");
        assert!(said.contains("holds every right that is needed") && !said.contains("hunter2"), "{said}");
    }
    world.finish().await;
}
