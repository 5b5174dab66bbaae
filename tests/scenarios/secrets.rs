//! Secrets are copied as ConfigMaps are, with rights of their own, and nothing of them is shown.

use serde_json::{Value, json};
use weaver_tests::tenant::TARGET;
use weaver_tests::world::{World, eventually, given};

/// A tenant and a target, with rights on Secrets and on nothing else.
async fn tenant_of_secrets(world: &World) -> (String, String) {
    let team = world.namespace("team").await;
    let foo = world.namespace("foo").await;
    world.account(&team).await;
    world.allow_minting(&team).await;
    world.grant_secrets(&team, &team, &["get", "list", "watch"]).await;
    world.grant_secrets(&team, &foo, &TARGET).await;
    (team, foo)
}

fn secret_spec(world: &World, team: &str, targets: &[&str]) -> Value {
    let mut spec = world.spec(team, targets);
    spec["source"]["kind"] = json!("Secret");
    spec
}

#[tokio::test]
async fn every_type_but_account_tokens_is_copied_whole() {
    let world = World::new("secret-types").await;
    let (team, foo) = tenant_of_secrets(&world).await;
    let every_byte: Vec<u8> = (0..=255).collect();
    let auths = br#"{"auths":{"registry.example.com":{"auth":"dTpw"}}}"#;
    for (name, kind, data) in [
        ("opaque", "Opaque", vec![("bytes", every_byte.as_slice()), ("empty", b"")]),
        ("own", "example.com/licence", vec![("key", b"value")]),
        ("tls", "kubernetes.io/tls", vec![("tls.crt", b"certificate".as_slice()), ("tls.key", b"key")]),
        ("pull", "kubernetes.io/dockerconfigjson", vec![(".dockerconfigjson", auths.as_slice())]),
        ("old-pull", "kubernetes.io/dockercfg", vec![(".dockercfg", b"{}".as_slice())]),
        ("login", "kubernetes.io/basic-auth", vec![("username", b"u".as_slice()), ("password", b"p")]),
        ("ssh", "kubernetes.io/ssh-auth", vec![("ssh-privatekey", b"key".as_slice())]),
        ("join", "bootstrap.kubernetes.io/token", vec![("token-id", b"abcdef".as_slice())]),
    ] {
        let source = world.secret(&team, name, kind, &data).await;
        let mut spec = secret_spec(&world, &team, &[&foo]);
        spec["source"]["name"] = json!(name);
        world.sync(&team, name, spec).await;
        world.holds_secret(&foo, name, &source).await;
        world.condition(&team, name, "Ready", "True", "Synced").await;
    }
    world.finish().await;
}

#[tokio::test]
async fn the_token_of_an_account_is_never_copied() {
    let world = World::new("account-token").await;
    let (team, foo) = tenant_of_secrets(&world).await;
    let token = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": {"name": "settings", "annotations": {"kubernetes.io/service-account.name": "sync"}},
    });
    let token = serde_json::from_value(token).unwrap();
    world.secrets(&team).create(&kube::api::PostParams::default(), &token).await.unwrap();
    world.sync(&team, "sync", secret_spec(&world, &team, &[&foo])).await;
    let ready = world.condition(&team, "sync", "Ready", "False", "SourceNotCopied").await;
    assert!(ready.message.contains("is never copied"), "{}", ready.message);
    assert!(world.secrets(&foo).get_opt("settings").await.unwrap().is_none());
    world.finish().await;
}

#[tokio::test]
async fn a_source_of_the_other_kind_takes_the_place_of_the_one_before() {
    let world = World::new("other-kind").await;
    let (team, foo) = world.synced().await;
    world.grant_secrets(&team, &team, &["get", "list", "watch"]).await;
    world.grant_secrets(&team, &foo, &TARGET).await;
    let source = world.secret(&team, "settings", "Opaque", &[("a", b"1")]).await;
    world.sync(&team, "sync", secret_spec(&world, &team, &[&foo])).await;
    world.holds_secret(&foo, "settings", &source).await;
    world.lacks(&foo, "settings").await;
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    let map = world.config_maps(&team).get("settings").await.unwrap();
    assert_eq!(map.data.unwrap()["a"], "1", "the source before stays");
    world.delete_sync(&team, "sync").await;
    assert!(world.secrets(&foo).get_opt("settings").await.unwrap().is_none());
    world.finish().await;
}

#[tokio::test]
async fn a_secret_made_again_with_another_type_replaces_its_copies() {
    let world = World::new("other-type").await;
    let (team, foo) = tenant_of_secrets(&world).await;
    world.secret(&team, "settings", "Opaque", &[("username", b"u"), ("password", b"p")]).await;
    world.sync(&team, "sync", secret_spec(&world, &team, &[&foo])).await;
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    world.secrets(&team).delete("settings", &kube::api::DeleteParams::default()).await.unwrap();
    let data: [(&str, &[u8]); 2] = [("username", b"u"), ("password", b"q")];
    let source = world.secret(&team, "settings", "kubernetes.io/basic-auth", &data).await;
    world.holds_secret(&foo, "settings", &source).await;
    world.finish().await;
}

#[tokio::test]
async fn a_missing_right_on_secrets_is_printed_as_a_role_that_works() {
    let world = World::new("secret-rights").await;
    // All the rights there are on ConfigMaps, and none on Secrets.
    let team = world.tenant().await;
    let foo = world.target(&team, "foo").await;
    let source = world.secret(&team, "settings", "Opaque", &[("a", b"1")]).await;
    world.sync(&team, "sync", secret_spec(&world, &team, &[&foo])).await;
    for _ in 0..2 {
        // First the source is refused, and then the target.
        let syncs = world.syncs(&team);
        let printed = eventually("a Role is printed, or none is needed", || async {
            let status = syncs.get("sync").await.unwrap().status.unwrap_or_default();
            let of = |kind: &str| status.conditions.iter().find(|condition| condition.type_ == kind).cloned();
            let authorized = of("Authorized").filter(|found| found.reason == "MissingRights");
            let done = of("Ready").filter(|found| found.status == "True").map(|_| String::new());
            authorized.map(|found| found.message).or(done).ok_or(status.conditions)
        })
        .await;
        assert!(!printed.contains("configmaps"), "{printed}");
        world.apply_printed(printed.split_once("grant it with:\n").map_or("", |(_, yaml)| yaml)).await;
    }
    world.holds_secret(&foo, "settings", &source).await;
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    world.finish().await;
}

#[tokio::test]
async fn no_value_of_a_secret_reaches_a_log_or_a_status() {
    let world = World::new("secret-values").await;
    let (team, foo) = tenant_of_secrets(&world).await;
    let (plain, encoded) = ("hunter2-of-this-test", "aHVudGVyMi1vZi10aGlzLXRlc3Q=");
    let source = world.secret(&team, "settings", "Opaque", &[("password", plain.as_bytes())]).await;
    world.sync(&team, "sync", secret_spec(&world, &team, &[&foo])).await;
    world.holds_secret(&foo, "settings", &source).await;
    // What is refused has words of the API server in the status.
    let mut spec = secret_spec(&world, &team, &[&foo]);
    spec["targets"]["name"] = json!("taken");
    world.secret(&foo, "taken", "Opaque", &[("password", b"theirs")]).await;
    world.sync(&team, "sync", spec).await;
    world.condition(&team, "sync", "Ready", "False", "Conflict").await;
    let status = serde_json::to_string(&world.syncs(&team).get("sync").await.unwrap()).unwrap();
    let log = std::fs::read_to_string(given("WEAVER_TEST_OPERATOR_LOG")).unwrap();
    assert!(log.contains(&team), "the log tells of this world");
    for text in [status, log] {
        assert!(!text.contains(plain) && !text.contains(encoded));
    }
    world.finish().await;
}
