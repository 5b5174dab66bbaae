//! What a deleted resource has left behind is found, and handed on or removed, by a user.

use kube::api::{Patch, PatchParams};
use serde_json::json;
use weaver_api::ownership::SYNC_UID_LABEL;
use weaver_tests::world::{World, weaver};

#[tokio::test]
async fn copies_of_a_deleted_resource_are_listed_adopted_and_deleted() {
    let world = World::new("orphans").await;
    let (team, foo) = world.synced().await;
    let bar = world.target(&team, "bar").await;
    let mut spec = world.spec(&team, &[&foo, &bar]);
    spec["deletionPolicy"] = json!("Orphan");
    world.sync(&team, "sync", spec).await;
    world.holds(&bar, "settings", &[("a", "1")]).await;
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    let objects = [&foo, &bar].map(|namespace| format!("ConfigMap/{namespace}/settings"));
    // While its resource lives, a copy is no orphan.
    assert_eq!(weaver(&["orphans", "list", "-n", &foo]), (true, String::new()));
    let (done, said) = weaver(&["orphans", "delete", &objects[0]]);
    assert!(!done && said.contains("is not an orphan"), "{said}");

    world.delete_sync(&team, "sync").await;
    let (_, said) = weaver(&["orphans", "list"]);
    for object in &objects {
        let line = format!("{object}\tcopy of ConfigMapSync {team}/sync\tfrom ConfigMap/{team}/settings");
        assert!(said.lines().any(|found| found == line), "{said}");
    }
    let (done, said) = weaver(&["orphans", "adopt", &objects[0]]);
    assert!(done, "{said}");
    let kept = world.holds(&foo, "settings", &[("a", "1")]).await;
    assert!(!kept.metadata.labels.unwrap_or_default().contains_key(SYNC_UID_LABEL));
    // One that was someone's before is not deleted,
    let mark = |value| json!({"metadata": {"annotations": {"weaver.example.com/adopted": value}}});
    let params = PatchParams::default();
    world.config_maps(&bar).patch("settings", &params, &Patch::Merge(mark(Some("true")))).await.unwrap();
    let (done, said) = weaver(&["orphans", "delete", &objects[1]]);
    assert!(!done && said.contains("existed before a sync adopted it"), "{said}");
    world.config_map(&bar, "planted", &[("a", "1")]).await;
    let label = json!({"metadata": {"labels": {SYNC_UID_LABEL: "u0"}}});
    world.config_maps(&bar).patch("planted", &params, &Patch::Merge(label)).await.unwrap();
    let (done, said) = weaver(&["orphans", "delete", "-n", &bar, "--all"]);
    assert!(done && said.contains("existed before a sync adopted it"), "{said}");
    world.holds(&bar, "settings", &[("a", "1")]).await;
    world.config_maps(&bar).patch("settings", &params, &Patch::Merge(mark(None))).await.unwrap();
    // and any other is, also where someone has planted a label.
    let (done, said) = weaver(&["orphans", "delete", "-n", &bar, "--all"]);
    assert!(
        done && said.contains(&format!("ConfigMap/{bar}/planted does not say whose copy it was")),
        "{said}"
    );
    world.lacks(&bar, "settings").await;
    world.holds(&bar, "planted", &[("a", "1")]).await;
    world.finish().await;
}
