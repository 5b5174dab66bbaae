//! An API server that comes back with an older state: someone has restored a backup.

use std::path::Path;
use std::process::Command;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::json;
use weaver_tests::alone::Alone;
use weaver_tests::proxy::Hooks;
use weaver_tests::world::eventually;

fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(done.success());
}

#[tokio::test]
async fn after_an_older_state_is_restored_every_watch_sees_what_comes_next() {
    let mut alone = Alone::start_with(|_| Hooks::none(), &["--lease", "12"]).await;
    let world = alone.world("backup");
    let (team, foo) = world.synced().await;
    let (bar, later) = (world.target(&team, "bar").await, world.target(&team, "later").await);
    let writer = world.writer("writer", "tokens").await;
    world.robot(&writer, "robot").await;
    world.service_token(&writer, "tokens", &[("a", "robot")]).await;
    world.fresh(&writer, "tokens").await;

    let (data, backup) = (alone.own.server.data_dir(), alone.own.dir().join("backup"));
    alone.own.server.stop().unwrap();
    copy(&data, &backup);
    alone.own.server.restart_after_stop().unwrap();
    // All of this is going to be undone; and the server's count of changes goes far beyond that of the backup.
    for value in 2..200 {
        world.config_map(&team, "settings", &[("a", &value.to_string())]).await;
    }
    world.holds(&foo, "settings", &[("a", "199")]).await;
    world.sync(&team, "forgotten", world.spec(&team, &[&bar])).await;
    world.holds(&bar, "settings", &[("a", "199")]).await;
    // The lease is renewed in what is going to be undone; it is what shows that.
    let leases: Api<Lease> = Api::namespaced(world.client.clone(), weaver_api::OPERATOR_NAMESPACE);
    let renewed = async || leases.get("weaver-operator").await.unwrap().spec.unwrap().renew_time;
    let before = renewed().await;
    eventually("the lease is renewed", async || Some(renewed().await).filter(|now| *now != before).ok_or(()))
        .await;
    let version = world.config_maps(&foo).get("settings").await.unwrap().metadata.resource_version;

    alone.own.server.stop().unwrap();
    std::fs::remove_dir_all(&data).unwrap();
    copy(&backup, &data);
    alone.own.server.restart_after_stop().unwrap();
    let restored = world.config_maps(&foo).get("settings").await.unwrap();
    let number = |version: Option<String>| version.unwrap().parse::<u64>().unwrap();
    assert!(number(restored.metadata.resource_version) < number(version));
    assert!(world.syncs(&team).get_opt("forgotten").await.unwrap().is_none());

    // It is noticed with the lease's next renewal, and ends the process: watches would be kept waiting in silence until
    // the server has come as far again.
    alone.operator.ends().await;
    let log = alone.operator.log();
    assert!(log.contains("the API server has an older state"), "{log}");
    // As systemd and the kubelet do.
    alone.restart_operator();

    // What comes next is seen by each watch: the resources', the sources', the copies', the namespaces', the Secrets'.
    world.sync(&team, "sync", world.spec(&team, &[&foo, &later])).await;
    world.holds(&later, "settings", &[("a", "1")]).await;
    world.config_map(&team, "settings", &[("a", "3")]).await;
    world.holds(&foo, "settings", &[("a", "3")]).await;
    let tampered = Patch::Merge(json!({"data": {"a": "tampered"}}));
    world.config_maps(&foo).patch("settings", &PatchParams::default(), &tampered).await.unwrap();
    world.holds(&foo, "settings", &[("a", "3")]).await;
    world.secrets(&writer).delete("tokens", &DeleteParams::default()).await.unwrap();
    world.tokens_that(&writer, "tokens", "are there again", |tokens| tokens.len() == 1).await;
    let new = world.target(&team, "new").await;
    let mut spec = world.spec(&team, &[&foo]);
    spec["targets"]["selector"] = json!({"matchLabels": {"chosen": "yes"}});
    world.sync(&team, "sync", spec).await;
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    // Selected only when the right is there: no one tells of a right, and a look without it is believed for minutes.
    world.mark_namespace(&new, json!({"labels": {"chosen": "yes"}})).await;
    world.holds(&new, "settings", &[("a", "3")]).await;
    assert!(!alone.operator.has_ended(), "{}", alone.operator.log());
    world.finish().await;
}
