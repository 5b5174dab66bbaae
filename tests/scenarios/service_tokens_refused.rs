//! What a `ServiceToken` may not have, and what is said of it: by the API server at once, or by the status.

use std::time::Duration;

use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use weaver_tests::tokens::{spec, user};
use weaver_tests::world::{World, eventually, eventually_within};

/// What the API server says of such a spec, with strict validation of fields.
async fn refusal(world: &World, team: &str, spec: Value) -> String {
    let object = json!({
        "apiVersion": "weaver.example.com/v1beta1", "kind": "ServiceToken",
        "metadata": {"name": "tokens", "namespace": team}, "spec": spec,
    });
    let request = http::Request::post(format!(
        "/apis/weaver.example.com/v1beta1/namespaces/{team}/servicetokens?dryRun=All&fieldValidation=Strict"
    ))
    .header("content-type", "application/json")
    .body(object.to_string().into_bytes())
    .unwrap();
    match world.client.request::<Value>(request).await {
        Ok(stored) => panic!("taken: {stored:#}"),
        Err(kube::Error::Api(status)) => status.message,
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn bad_specs_are_refused_by_the_api_server_with_the_field() {
    let world = World::new("token-bad-spec").await;
    let team = world.namespace("team").await;
    let with = |path: &str, value: Value| {
        let mut spec = spec(&[("a", "robot")]);
        *spec.pointer_mut(path).unwrap() = value;
        spec
    };
    let token = |more: Value| {
        let mut spec = spec(&[("a", "robot")]);
        spec["tokens"][0].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    for (spec, expected) in [
        (with("/tokens/0/key", json!("no key")), "spec.tokens[0].key"),
        (with("/tokens/0/key", json!("..")), "spec.tokens[0].key"),
        (with("/tokens/0/key", json!("")), "spec.tokens[0].key"),
        (with("/tokens", json!([])), "spec.tokens"),
        (spec(&[("a", "robot"), ("a", "courier")]), "spec.tokens[1]: Duplicate value"),
        (spec(&vec![("a", "robot"); 17]), "spec.tokens"),
        (token(json!({"audiences": ["x".repeat(10 * 1_024)]})), "spec.tokens[0].audiences[0]"),
        (token(json!({"audiences": ["x", "x"]})), "spec.tokens[0].audiences[1]: Duplicate value"),
        (token(json!({"expirationSeconds": 599})), "spec.tokens[0].expirationSeconds"),
        (token(json!({"expirationSeconds": 86_401})), "spec.tokens[0].expirationSeconds"),
        (token(json!({"notBefore": "tomorrow"})), "spec.tokens[0].notBefore"),
        (
            with("/tokens/0/serviceAccount", json!({"name": "a", "namespace": "kube-system"})),
            "serviceAccount.namespace",
        ),
        (
            with("/writer/serviceAccount", json!({"name": "a", "namespace": "kube-system"})),
            "serviceAccount.namespace",
        ),
        (with("/tokens/0/serviceAccount/name", json!("kube-system/default")), "serviceAccount.name"),
        (with("/writer", json!({})), "spec.writer.serviceAccount"),
    ] {
        let words = refusal(&world, &team, spec.clone()).await;
        assert!(words.contains(expected), "{expected} is not in {words} ({spec})");
    }
    world.finish().await;
}

#[tokio::test]
async fn a_secret_of_someone_elses_is_left_to_the_byte() {
    let world = World::new("token-foreign").await;
    let team = world.writer("team", "tokens").await;
    world.robot(&team, "robot").await;
    let theirs = world.secret(&team, "tokens", "Opaque", &[("a", b"theirs")]).await;
    world.service_token(&team, "tokens", &[("a", "robot")]).await;
    let conflict = world.token_condition(&team, "tokens", "Conflicted", "True", "SecretNotOurs").await;
    assert!(conflict.message.contains("rename or delete it"), "{}", conflict.message);
    world.token_condition(&team, "tokens", "Ready", "False", "SecretNotOurs").await;
    assert_eq!(world.secrets(&team).get("tokens").await.unwrap(), theirs);
    world.secrets(&team).delete("tokens", &DeleteParams::default()).await.unwrap();
    world.fresh(&team, "tokens").await;
    world.finish().await;
}

#[tokio::test]
async fn two_resources_for_one_secret_the_first_has_it_and_then_the_other() {
    let world = World::new("token-two").await;
    let team = world.writer("team", "shared").await;
    world.robot(&team, "robot").await;
    world.robot(&team, "courier").await;
    let asked = |account| {
        let mut asked = spec(&[("a", account)]);
        asked["secretName"] = json!("shared");
        asked
    };
    world.apply_service_token(&team, "first", asked("robot")).await;
    world.token_condition(&team, "first", "Ready", "True", "Fresh").await;
    let held = world.tokens(&team, "shared").await;
    world.apply_service_token(&team, "second", asked("courier")).await;
    world.token_condition(&team, "second", "Ready", "False", "SecretNotOurs").await;
    world.token_condition(&team, "first", "Ready", "True", "Fresh").await;
    assert_eq!(world.tokens(&team, "shared").await, held);
    world.service_tokens(&team).delete("first", &DeleteParams::default()).await.unwrap();
    // A garbage collector that was just started learns of our kinds at its next look, each half a minute.
    eventually_within(Duration::from_secs(90), "the Secret is the second one's", || async {
        let tokens = world.tokens(&team, "shared").await;
        if tokens.get("a").is_some_and(|token| *token != held["a"]) { Ok(()) } else { Err(tokens.len()) }
    })
    .await;
    world.token_condition(&team, "second", "Ready", "True", "Fresh").await;
    let now = world.tokens(&team, "shared").await;
    assert_eq!(world.user_of(&now["a"]).await, Some(user(&team, "courier")));
    world.finish().await;
}

#[tokio::test]
async fn a_writer_without_rights_sees_the_role_and_what_is_printed_cures_it() {
    let world = World::new("token-writer").await;
    let team = world.namespace("team").await;
    world.account(&team).await;
    world.robot(&team, "robot").await;
    world.service_token(&team, "tokens", &[("a", "robot")]).await;
    let minting = world.token_condition(&team, "tokens", "Ready", "False", "MintingForbidden").await;
    assert!(minting.message.contains(&format!("weaver tenant allow {team} sync")), "{}", minting.message);
    world.allow_minting(&team).await;
    let rights = world.token_condition(&team, "tokens", "Authorized", "False", "MissingRights").await;
    let (said, role) = rights.message.split_once("grant it with:\n").unwrap();
    assert!(said.contains("may not get, list, update, watch Secret tokens"), "{said}");
    assert!(said.contains("may not create Secrets"), "{said}");
    world.apply_printed(role).await;
    world.fresh(&team, "tokens").await;
    world.token_condition(&team, "tokens", "Authorized", "True", "Allowed").await;
    world.finish().await;
}

#[tokio::test]
async fn an_immutable_secret_is_named_and_made_again_when_it_is_deleted() {
    let world = World::new("token-immutable").await;
    let team = world.writer("team", "tokens").await;
    world.robot(&team, "robot").await;
    world.service_token(&team, "tokens", &[("a", "robot")]).await;
    let before = world.fresh(&team, "tokens").await;
    let freeze = Patch::Merge(json!({"immutable": true}));
    world.secrets(&team).patch("tokens", &PatchParams::default(), &freeze).await.unwrap();
    let frozen = world.token_condition(&team, "tokens", "Ready", "False", "SecretImmutable").await;
    assert!(frozen.message.contains("delete it, and it is created again"), "{}", frozen.message);
    let status = world.service_tokens(&team).get("tokens").await.unwrap().status.unwrap();
    assert_eq!(status.counts.unwrap().fresh, 1, "it can be used until it expires");
    world.secrets(&team).delete("tokens", &DeleteParams::default()).await.unwrap();
    let now = world.fresh(&team, "tokens").await;
    assert_ne!(now["a"], before["a"]);
    world.finish().await;
}

#[tokio::test]
async fn a_secret_that_does_not_go_is_waited_for() {
    let world = World::new("token-terminating").await;
    let team = world.writer("team", "tokens").await;
    world.robot(&team, "robot").await;
    world.service_token(&team, "tokens", &[("a", "robot")]).await;
    world.fresh(&team, "tokens").await;
    let hold = |finalizers: Value| {
        let patch = Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
        let secrets = world.secrets(&team);
        async move { secrets.patch("tokens", &PatchParams::default(), &patch).await.unwrap() }
    };
    hold(json!(["tests.weaver.example.com/hold"])).await;
    world.secrets(&team).delete("tokens", &DeleteParams::default()).await.unwrap();
    world.token_condition(&team, "tokens", "Ready", "False", "SecretTerminating").await;
    let status = world.service_tokens(&team).get("tokens").await.unwrap().status.unwrap();
    assert_eq!(status.counts.unwrap().fresh, 0, "they go with it");
    hold(Value::Null).await;
    world.fresh(&team, "tokens").await;
    world.finish().await;
}

#[tokio::test]
async fn a_sync_that_adopts_leaves_a_secret_of_tokens_alone() {
    let world = World::new("token-adopt").await;
    let team = world.writer("team", "tokens").await;
    world.robot(&team, "robot").await;
    world.service_token(&team, "tokens", &[("a", "robot")]).await;
    let before = world.fresh(&team, "tokens").await;
    let home = world.namespace("home").await;
    world.secret(&home, "tokens", "Opaque", &[("a", b"other")]).await;
    world.grant_secrets(&team, &home, &["get", "list", "watch"]).await;
    world.grant_secrets(&team, &team, &weaver_tests::tenant::TARGET).await;
    let mut adopts = world.spec(&home, &[&team]);
    adopts["source"] = json!({"kind": "Secret", "namespace": home, "name": "tokens"});
    adopts["conflictPolicy"] = json!("Adopt");
    world.sync(&team, "sync", adopts).await;
    let conflict = world.condition(&team, "sync", "Conflicted", "True", "Conflict").await;
    assert!(
        conflict.message.contains(&format!("it holds the tokens of ServiceToken {team}/tokens")),
        "{}",
        conflict.message
    );
    assert_eq!(world.tokens(&team, "tokens").await, before);
    world.finish().await;
}

#[tokio::test]
async fn one_that_is_written_over_and_over_is_not_written_back_as_often() {
    let world = World::new("token-storm").await;
    let team = world.writer("team", "tokens").await;
    world.robot(&team, "robot").await;
    world.service_token(&team, "tokens", &[("a", "robot")]).await;
    world.fresh(&team, "tokens").await;
    // Someone who writes it a hundred times, and takes the token away each time.
    for round in 0..100 {
        let change =
            Patch::Merge(json!({"data": null, "metadata": {"labels": {"round": round.to_string()}}}));
        world.secrets(&team).patch("tokens", &PatchParams::default(), &change).await.unwrap();
        tokio::time::sleep(Duration::from_millis(60)).await;
    }
    eventually("it is minted at last", || async {
        let tokens = world.tokens(&team, "tokens").await;
        if tokens.contains_key("a") { Ok(()) } else { Err(tokens.len()) }
    })
    .await;
    // The burst, a few rounds of each, and one for each ten seconds since.
    let writes = world.audit.requests(&team, "update");
    assert!(writes < 50, "{writes} writes of the Secret");
    world.finish().await;
}

#[tokio::test]
async fn what_was_never_understood_is_reported_and_can_be_deleted() {
    let world = World::new("token-incomplete").await;
    let team = world.namespace("team").await;
    let old: kube::Api<weaver_api::v1alpha1::ServiceToken> =
        kube::Api::namespaced(world.client.clone(), &team);
    let object = json!({"apiVersion": "weaver.example.com/v1alpha1", "kind": "ServiceToken", "metadata": {"name": "tokens"}});
    old.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    let said = world.token_condition(&team, "tokens", "Migrated", "False", "Incomplete").await;
    assert!(said.message.contains("spec.writer.serviceAccount.name"), "{}", said.message);
    world.token_condition(&team, "tokens", "Ready", "False", "InvalidSpec").await;
    old.delete("tokens", &DeleteParams::default()).await.unwrap();
    eventually("it is gone", || async { old.get_opt("tokens").await.unwrap().map_or(Ok(()), Err) }).await;
    world.finish().await;
}
