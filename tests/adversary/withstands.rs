//! Attacks that were tried before and refused: they stay refused.

use std::time::Duration;

use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use kube::{Client, Config, ResourceExt as _};
use serde_json::{Value, json};
use weaver_api::ownership::{Owner, SOURCE_ANNOTATION, SYNC_ANNOTATION, UPSTREAM_FINALIZER};
use weaver_api::v1beta1::ConfigMapSync;
use weaver_tests::alone::OwnOperator;
use weaver_tests::person::refusal;
use weaver_tests::tenant::ACCOUNT;
use weaver_tests::world::{World, eventually, given};

fn raw_syncs(client: &Client, namespace: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk(weaver_api::GROUP, "v1beta1", "ConfigMapSync");
    Api::namespaced_with(client.clone(), namespace, &ApiResource::from_gvk(&kind))
}

/// The shared server as someone whom the administrator speaks for.
async fn client_as(user: &str, groups: &[&str]) -> Client {
    let kubeconfig = Kubeconfig::read_from(given("WEAVER_TEST_KUBECONFIG")).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    config.auth_info.impersonate = Some(user.to_owned());
    config.auth_info.impersonate_groups = Some(groups.iter().map(|group| (*group).to_owned()).collect());
    Client::try_from(config).unwrap()
}

#[tokio::test]
async fn a_tenant_who_names_a_neighbours_account_gets_only_its_own() {
    let world = World::new("borrowed").await;
    let (victim, foo) = world.synced().await;
    let mallory = world.namespace("mallory").await;
    world.account(&mallory).await;
    world.allow_minting(&mallory).await;
    let loot = world.namespace("loot").await;
    // The neighbour's account may write there, so it would work as that.
    world.grant_as(&victim, &loot, "victim", &weaver_tests::tenant::TARGET).await;
    let mut spec = world.spec(&victim, &[&loot]);
    spec["serviceAccount"] = json!({"name": ACCOUNT, "namespace": victim, "uid": "x"});
    let sync: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "weaver.example.com/v1beta1", "kind": "ConfigMapSync",
        "metadata": {"name": "borrowed"}, "spec": spec,
    }))
    .unwrap();
    let stored = raw_syncs(&world.client, &mallory).create(&PostParams::default(), &sync).await.unwrap();
    assert_eq!(stored.data["spec"]["serviceAccount"], json!({"name": ACCOUNT}));
    world.condition(&mallory, "borrowed", "Authorized", "False", "MissingRights").await;
    let asked = |event: &&Value| event["objectRef"]["namespace"] == json!(loot);
    let users: Vec<Value> =
        world.audit.events().iter().filter(asked).map(|event| event["user"]["username"].clone()).collect();
    let neighbour = json!(format!("system:serviceaccount:{victim}:{ACCOUNT}"));
    assert!(!users.contains(&neighbour), "{users:?}");
    assert!(world.config_maps(&loot).get_opt("settings").await.unwrap().is_none());
    world.holds(&foo, "settings", &[("a", "1")]).await;
    world.finish().await;
}

#[tokio::test]
async fn a_source_that_someone_marked_as_a_copy_is_neither_written_nor_deleted() {
    let world = World::new("marked-source").await;
    let (team, foo) = world.synced().await;
    let sync = world.syncs(&team).get("sync").await.unwrap();
    let owner = Owner { namespace: team.clone(), name: "sync".into(), uid: sync.uid().unwrap() };
    let ownership = json!({"metadata": {
        "labels": owner.labels(), "annotations": owner.annotations(&format!("ConfigMap/{team}/settings")),
    }});
    let sources = world.config_maps(&team);
    let marked = sources.patch("settings", &PatchParams::default(), &Patch::Merge(&ownership)).await.unwrap();
    // Also where the sync drops its target, moves to another source, and is
    // deleted.
    world.grant(&team, &team, &weaver_tests::tenant::TARGET).await;
    let mut spec = world.spec(&team, &[&team]);
    world.sync(&team, "sync", spec.clone()).await;
    world.lacks(&foo, "settings").await;
    spec["targets"]["name"] = json!("renamed");
    world.sync(&team, "sync", spec).await;
    world.holds(&team, "renamed", &[("a", "1")]).await;
    world.delete_sync(&team, "sync").await;
    world.lacks(&team, "renamed").await;
    assert_eq!(sources.get("settings").await.unwrap(), marked);
    world.finish().await;
}

/// An administrator who reads it decides what is deleted.
#[tokio::test]
async fn a_log_calls_nothing_a_copy_of_upstreams_that_a_spec_only_names_own_server() {
    let alone = OwnOperator::direct(&[]).await;
    let world = alone.world("hearsay");
    let (team, victim) = (world.tenant().await, world.namespace("victim").await);
    let mut spec = world.spec(&team, &["kube-system", &victim]);
    spec["serviceAccount"]["name"] = json!("no-such-account");
    spec["targets"]["name"] = json!("precious");
    let sync: ConfigMapSync = serde_json::from_value(json!({
        "apiVersion": "weaver.example.com/v1beta1", "kind": "ConfigMapSync", "spec": spec,
        "metadata": {"name": "sync", "namespace": team, "finalizers": [UPSTREAM_FINALIZER]},
    }))
    .unwrap();
    world.syncs(&team).create(&PostParams::default(), &sync).await.unwrap();
    world.delete_sync(&team, "sync").await;
    let log = alone.operator.log();
    assert!(log.contains("objects that the upstream operator may have made"), "{log}");
    assert!(!log.contains("/precious"), "{log}");
    world.finish().await;
}

#[tokio::test]
async fn anyone_who_has_the_operators_token_changes_no_spec_and_reads_no_content() {
    let world = World::new("stolen").await;
    let (team, foo) = world.synced().await;
    let thief = client_as(
        "system:serviceaccount:config-weaver:weaver-operator",
        &["system:serviceaccounts", "system:serviceaccounts:config-weaver", "system:authenticated"],
    )
    .await;
    let syncs: Api<ConfigMapSync> = Api::namespaced(thief.clone(), &team);
    for change in [
        json!({"spec": {"source": {"name": "other"}}}),
        json!({"spec": {"targets": {"namespaces": ["kube-system"]}}}),
        json!({"spec": {"serviceAccount": {"name": "default"}}}),
    ] {
        let patched = syncs.patch("sync", &PatchParams::default(), &Patch::Merge(&change)).await;
        refusal(patched).unwrap_or_else(|done| panic!("{change}: {done}"));
    }
    let forbidden = |what: &str, answer: Result<(), kube::Error>| match answer {
        Err(kube::Error::Api(status)) if status.code == 403 => {}
        other => panic!("{what}: {other:?}"),
    };
    let maps: Api<k8s_openapi::api::core::v1::ConfigMap> = Api::namespaced(thief.clone(), &foo);
    let secrets: Api<k8s_openapi::api::core::v1::Secret> = Api::namespaced(thief.clone(), &team);
    forbidden("reading a copy", maps.get("settings").await.map(drop));
    forbidden("deleting a copy", maps.delete("settings", &DeleteParams::default()).await.map(drop));
    forbidden("listing secrets", secrets.list(&ListParams::default()).await.map(drop));
    forbidden("deleting a sync", syncs.delete("sync", &DeleteParams::default()).await.map(drop));
    forbidden("creating a sync", {
        let sync = ConfigMapSync::new("more", weaver_api::v1beta1::ConfigMapSyncFields::default());
        syncs.create(&PostParams::default(), &sync).await.map(drop)
    });
    world.finish().await;
}

#[tokio::test]
async fn sync_now_in_a_loop_keeps_no_neighbour_waiting() {
    let world = World::new("hammered").await;
    let (team, foo) = world.synced().await;
    let other = world.tenant_called("other").await;
    let bar = world.target(&other, "bar").await;
    world.config_map(&other, "settings", &[("a", "1")]).await;
    world.sync(&other, "sync", world.spec(&other, &[&bar])).await;
    world.holds(&bar, "settings", &[("a", "1")]).await;
    let syncs = world.syncs(&team);
    let (began, before) = (tokio::time::Instant::now(), world.audit.requests(&foo, "get"));
    let hammer = async {
        for round in 0.. {
            let note =
                json!({"metadata": {"annotations": {"weaver.example.com/sync-now": format!("{round}")}}});
            syncs.patch("sync", &PatchParams::default(), &Patch::Merge(&note)).await.unwrap();
        }
    };
    let neighbour = async {
        for value in ["2", "3", "4"] {
            world.config_map(&other, "settings", &[("a", value)]).await;
            world.holds(&bar, "settings", &[("a", value)]).await;
        }
    };
    tokio::select! {
        () = hammer => unreachable!(),
        done = tokio::time::timeout(Duration::from_secs(20), neighbour) => done.expect("the neighbour is served"),
    }
    // A burst of twenty and two a second, however many patches there were.
    let most = 24 + 2 * usize::try_from(began.elapsed().as_secs()).unwrap();
    let looks = world.audit.requests(&foo, "get") - before;
    assert!(looks <= most, "{looks} reads of one copy in {:?}", began.elapsed());
    world.finish().await;
}

#[tokio::test]
async fn what_a_neighbour_writes_on_an_object_in_the_way_reaches_the_status_short_and_clean() {
    let world = World::new("graffiti").await;
    let team = world.tenant().await;
    let foo = world.target(&team, "foo").await;
    world.config_map(&foo, "settings", &[("theirs", "x")]).await;
    let words = format!("evil/\u{1b}]0;owned\u{7}\u{1b}[2J\nReady=True\u{202e}{}/uid", "x".repeat(100_000));
    let ownership = json!({"metadata": {
        "labels": {"weaver.example.com/sync-uid": "dead"},
        "annotations": {SYNC_ANNOTATION: words, SOURCE_ANNOTATION: words},
    }});
    let maps = world.config_maps(&foo);
    let theirs = maps.patch("settings", &PatchParams::default(), &Patch::Merge(&ownership)).await.unwrap();
    world.config_map(&team, "settings", &[("a", "1")]).await;
    world.sync(&team, "sync", world.spec(&team, &[&foo])).await;
    world.condition(&team, "sync", "Ready", "False", "Conflict").await;
    let status = eventually("the status is written", || async {
        world.syncs(&team).get("sync").await.unwrap().status.ok_or(())
    })
    .await;
    let text = serde_json::to_value(&status).unwrap();
    let mut strings = Vec::new();
    collect(&text, &mut strings);
    for string in strings {
        assert!(string.len() <= 16 * 1024, "{} bytes", string.len());
        assert!(!string.chars().any(|char| char.is_control() || char == '\u{202e}'), "{string:?}");
    }
    assert_eq!(maps.get("settings").await.unwrap(), theirs);
    world.finish().await;
}

fn collect<'a>(value: &'a Value, strings: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => strings.push(text),
        Value::Array(list) => list.iter().for_each(|value| collect(value, strings)),
        Value::Object(map) => map.values().for_each(|value| collect(value, strings)),
        _ => {}
    }
}
