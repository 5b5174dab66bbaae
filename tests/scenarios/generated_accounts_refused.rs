//! What is in the way of accounts that a `ServiceToken` is to make: other people's, rights, quotas, and what
//! is asked for.

use std::time::Duration;

use k8s_openapi::api::core::v1::ResourceQuota;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use weaver_api::ownership::TOKEN_UID_LABEL;
use weaver_tests::generated::{askers, bots, grant, made, team, there_are};
use weaver_tests::tenant::ACCOUNT;
use weaver_tests::tokens::{spec, user};
use weaver_tests::world::{World, eventually, eventually_within};

/// Many tokens are minted on a machine that has other things to do.
const MANY: Duration = Duration::from_mins(3);

#[tokio::test]
async fn accounts_that_may_not_be_listed_any_more_are_not_forgotten() {
    let world = World::new("generate-forgotten").await;
    let team = team(&world).await;
    world.robot(&team, "robot").await;
    world.apply_service_token(&team, "bots", bots(2)).await;
    world.fresh(&team, "bots").await;
    grant(&world, &team, &["create"]).await;
    world.apply_service_token(&team, "bots", spec(&[("a", "robot")])).await;
    let rights = world.token_condition(&team, "bots", "Authorized", "False", "MissingRights").await;
    assert!(rights.message.contains("may not list ServiceAccounts"), "{}", rights.message);
    let left = world.service_tokens(&team).get("bots").await.unwrap().status.unwrap().generated;
    assert_eq!(left.map(|left| (left.desired, left.accounts)), Some((0, 2)));
    grant(&world, &team, &["create", "list", "patch", "delete"]).await;
    there_are(&world, &team, 0).await;
    world.fresh(&team, "bots").await;
    world.finish().await;
}

#[tokio::test]
async fn an_account_of_someone_elses_is_refused_and_the_others_are_made() {
    let world = World::new("generate-foreign").await;
    let team = team(&world).await;
    // Even one whose owner lets tokens of it be kept in Secrets, and one with our label alone.
    let agrees = json!({"weaver.example.com/allow-tokens": "true"});
    let theirs = world.bare_account(&team, "bot-2", &agrees).await;
    world.apply_service_token(&team, "bots", bots(3)).await;
    let conflict = world.token_condition(&team, "bots", "Conflicted", "True", "AccountNotOurs").await;
    assert!(
        conflict.message.contains("bot-2 exists, was not made by this ServiceToken"),
        "{}",
        conflict.message
    );
    let ready = world.token_condition(&team, "bots", "Ready", "False", "AccountNotOurs").await;
    assert!(ready.message.contains("delete it, or write another spec.generate.name"), "{}", ready.message);
    let tokens = world.tokens_that(&team, "bots", "are two", |tokens| tokens.len() == 2).await;
    assert!(!tokens.contains_key("002"));
    let uid = world.service_tokens(&team).get("bots").await.unwrap().metadata.uid.unwrap();
    let forge = json!({"metadata": {"labels": {TOKEN_UID_LABEL: uid}}});
    world.accounts(&team).patch("bot-2", &PatchParams::default(), &Patch::Merge(forge)).await.unwrap();
    // Scaled down to where it is not wanted, it stays too.
    world.apply_service_token(&team, "bots", bots(1)).await;
    world.fresh(&team, "bots").await;
    there_are(&world, &team, 2).await;
    let after = world.accounts(&team).get("bot-2").await.unwrap();
    assert_eq!(after.metadata.uid, theirs.metadata.uid);
    assert_eq!(after.metadata.owner_references, None);
    assert!(askers(&world, &team, "create", Some("token")).len() == 1, "bot-1 and bot-3 have tokens");
    let asked_for = |event: &&Value| {
        event["objectRef"]["namespace"] == team.as_str()
            && event["objectRef"]["name"] == "bot-2"
            && event["objectRef"]["subresource"] == "token"
    };
    let of_theirs = world.audit.events().iter().filter(asked_for).count();
    assert_eq!(of_theirs, 0, "no token of it was ever asked for");
    // Once it is gone, the name is free.
    world.remove_account(&team, "bot-2").await;
    world.apply_service_token(&team, "bots", bots(2)).await;
    assert_eq!(world.fresh(&team, "bots").await.len(), 2);
    world.finish().await;
}

#[tokio::test]
async fn two_resources_for_one_name_the_first_has_it() {
    let world = World::new("generate-two").await;
    let team = team(&world).await;
    world.grant_writer(&team, "more").await;
    world.apply_service_token(&team, "bots", bots(2)).await;
    let first = world.fresh(&team, "bots").await;
    world.apply_service_token(&team, "more", bots(3)).await;
    let conflict = world.token_condition(&team, "more", "Conflicted", "True", "AccountNotOurs").await;
    assert!(
        conflict.message.contains("bot-1") && !conflict.message.contains("bot-3"),
        "{}",
        conflict.message
    );
    let second = world.tokens_that(&team, "more", "are one", |tokens| tokens.len() == 1).await;
    assert_eq!(world.user_of(&second["003"]).await, Some(user(&team, "bot-3")));
    assert_eq!(world.fresh(&team, "bots").await, first, "to the byte");
    world.finish().await;
}

#[tokio::test]
async fn a_quota_stops_it_and_what_was_made_has_its_token() {
    let world = World::new("generate-quota").await;
    let team = team(&world).await;
    let there = world.accounts(&team).list(&ListParams::default()).await.unwrap().items.len();
    let quotas: Api<ResourceQuota> = Api::namespaced(world.client.clone(), &team);
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"},
        "spec": {"hard": {"count/serviceaccounts": (there + 3).to_string()}},
    });
    quotas.create(&PostParams::default(), &serde_json::from_value(quota).unwrap()).await.unwrap();
    // Until it was counted, the API server makes none.
    eventually("the quota is counted", || async {
        let status = quotas.get("few").await.unwrap().status.unwrap_or_default();
        if status.used.is_some() { Ok(()) } else { Err(status) }
    })
    .await;
    world.apply_service_token(&team, "bots", bots(30)).await;
    let stopped = world.token_condition(&team, "bots", "TokensFresh", "False", "AccountUnknown").await;
    assert!(
        stopped.message.contains("could not be made: ") && stopped.message.contains("exceeded quota"),
        "{}",
        stopped.message
    );
    world.token_condition(&team, "bots", "Authorized", "True", "Allowed").await;
    assert_eq!(world.tokens_that(&team, "bots", "are three", |tokens| tokens.len() == 3).await.len(), 3);
    let generated = world.service_tokens(&team).get("bots").await.unwrap().status.unwrap().generated.unwrap();
    assert_eq!((generated.desired, generated.problems.len()), (30, 16));
    quotas.delete("few", &DeleteParams::default()).await.unwrap();
    assert_eq!(world.fresh(&team, "bots").await.len(), 30);
    world.finish().await;
}

#[tokio::test]
async fn a_missing_right_names_the_role_and_what_is_printed_cures_it() {
    let world = World::new("generate-rights").await;
    let team = world.namespace("team").await;
    world.account(&team).await;
    world.allow_minting(&team).await;
    world.apply_service_token(&team, "bots", bots(3)).await;
    // What is not known of is asked for when it is refused, so a second Role may follow the first.
    for _ in 0..2 {
        let rights = world.token_condition(&team, "bots", "Authorized", "False", "MissingRights").await;
        let (said, roles) = rights.message.split_once("grant it with:\n").unwrap();
        assert!(said.contains("ServiceAccount"), "{said}");
        world.apply_printed(roles).await;
        let is_ready = eventually("it is ready, or more is missing", || async {
            let status = world.service_tokens(&team).get("bots").await.unwrap().status.unwrap_or_default();
            let found = |kind: &str| status.conditions.iter().find(|one| one.type_ == kind).cloned();
            let ready = found("Ready").is_some_and(|ready| ready.status == "True");
            let other =
                found("Authorized").is_some_and(|now| now.status == "False" && now.message != rights.message);
            if ready || other { Ok(ready) } else { Err(status.conditions) }
        })
        .await;
        if is_ready {
            break;
        }
    }
    assert_eq!(world.fresh(&team, "bots").await.len(), 3);
    // The Role is for these accounts and no others.
    let mint = |name: &str| json!({"namespace": team, "verb": "create", "resource": "serviceaccounts", "subresource": "token", "name": name});
    assert!(
        world.may(&team, ACCOUNT, &mint("bot-3")).await && !world.may(&team, ACCOUNT, &mint("default")).await
    );
    // And so it is where a right is taken away: what is there stays.
    world.apply_service_token(&team, "bots", bots(4)).await;
    let rights = world.token_condition(&team, "bots", "Authorized", "False", "MissingRights").await;
    assert!(rights.message.contains("may not create tokens of ServiceAccount bot-4"), "{}", rights.message);
    assert_eq!(world.tokens(&team, "bots").await.len(), 3);
    let (_, roles) = rights.message.split_once("grant it with:\n").unwrap();
    world.apply_printed(roles).await;
    assert_eq!(world.fresh(&team, "bots").await.len(), 4);
    world.finish().await;
}

#[tokio::test]
async fn bad_templates_are_refused_at_once_and_keys_that_clash_before_an_account_is_made() {
    let world = World::new("generate-bad").await;
    let team = team(&world).await;
    let tokens = world.service_tokens(&team);
    for (change, expected) in [
        (json!({"name": "bot"}), "two accounts would have one name"),
        (json!({"name": "bot-{{hash}}"}), "two accounts would have one name"),
        (json!({"key": "token"}), "two tokens would have one key"),
        (json!({"count": 0}), "spec.generate.count"),
        (json!({"count": 501}), "spec.generate.count"),
        (json!({"name": "Bot-{{n}}"}), "spec.generate.name"),
        (json!({"name": "bot-{{index}}"}), "spec.generate.name"),
        (json!({"name": format!("{{{{n}}}}{}", "a".repeat(60))}), "spec.generate.name"),
        (json!({"labels": {"weaver.example.com/allow-tokens": "true"}}), "spec.generate.labels"),
    ] {
        let mut asked = bots(2);
        asked["generate"].as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let object = json!({
            "apiVersion": "weaver.example.com/v1beta1", "kind": "ServiceToken", "metadata": {"name": "bad"},
            "spec": asked,
        });
        let answer = tokens.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await;
        let words = answer.unwrap_err().to_string();
        assert!(words.contains(expected), "{change}: {words}");
    }
    // Keys that clash with those that are listed.
    let mut asked = bots(2);
    asked["tokens"] = json!([{"key": "002", "serviceAccount": {"name": "robot"}}]);
    world.apply_service_token(&team, "bots", asked).await;
    let invalid = world.token_condition(&team, "bots", "Ready", "False", "InvalidSpec").await;
    assert!(invalid.message.contains("spec.tokens[0].key"), "{}", invalid.message);
    assert_eq!(made(&world, &team).await.len(), 0, "nothing was made");
    world.finish().await;
}

#[tokio::test]
async fn as_many_as_are_said_to_fit_do_and_fill_the_secret() {
    let world = World::new("generate-full").await;
    let team = team(&world).await;
    let mut asked = bots(500);
    let audiences: Vec<String> = (0..16).map(|n| format!("{n:0250}")).collect();
    asked["generate"]["audiences"] = json!(audiences);
    world.apply_service_token(&team, "bots", asked.clone()).await;
    let large = world.token_condition(&team, "bots", "Ready", "False", "InvalidSpec").await.message;
    assert!(large.contains("a Secret holds 1048576"), "{large}");
    assert_eq!(made(&world, &team).await.len(), 0, "nothing was made");
    assert!(world.secrets(&team).get_opt("bots").await.unwrap().is_none());
    let fits = large.split("at most ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    let fits: usize = fits.parse().unwrap();
    asked["generate"]["count"] = json!(fits);
    world.apply_service_token(&team, "bots", asked).await;
    let tokens = eventually_within(MANY, "as many as fit", || async {
        let tokens = world.tokens(&team, "bots").await;
        if tokens.len() == fits { Ok(tokens) } else { Err(tokens.len()) }
    })
    .await;
    let bytes: usize = tokens.values().map(String::len).sum();
    assert!((1_020_000..=1_048_576).contains(&bytes), "{fits} tokens have {bytes} bytes");
    world.finish().await;
}
