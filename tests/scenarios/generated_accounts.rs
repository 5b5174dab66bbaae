//! Accounts that a `ServiceToken` makes itself, with its writer's rights, and their tokens in one Secret.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;
use weaver_tenant::claims::Claims;
use weaver_tests::generated::{askers, bots, made, team, there_are};
use weaver_tests::tenant::ACCOUNT;
use weaver_tests::tokens::{spec, user};
use weaver_tests::world::{World, eventually, eventually_within, given};

/// The garbage collector learns of our kinds at its next look, each half a minute.
const COLLECTED: Duration = Duration::from_secs(90);

/// Many tokens are minted on a machine that has other things to do.
const MANY: Duration = Duration::from_mins(3);

/// A client whose only identity is this token.
async fn client_of(token: &str) -> Client {
    let kubeconfig = Kubeconfig::read_from(given("WEAVER_TEST_KUBECONFIG")).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    config.auth_info = AuthInfo { token: Some(token.to_owned().into()), ..AuthInfo::default() };
    Client::try_from(config).unwrap()
}

#[tokio::test]
async fn from_none_to_thirty_and_down_to_five_with_the_writers_rights() {
    let world = World::new("generate-scale").await;
    let team = team(&world).await;
    world.apply_service_token(&team, "bots", bots(30)).await;
    let thirty = world.fresh(&team, "bots").await;
    assert_eq!(thirty.len(), 30);
    for n in [1, 17, 30] {
        let token = &thirty[&format!("{n:03}")];
        assert_eq!(world.user_of(token).await, Some(user(&team, &format!("bot-{n}"))));
        assert!(Claims::read(token).unwrap().secret.is_some_and(|bound| bound.name == "bots"), "bound");
    }
    let status = world.service_tokens(&team).get("bots").await.unwrap().status.unwrap();
    let generated = status.generated.clone().unwrap();
    assert_eq!((generated.desired, generated.accounts, generated.fresh), (30, 30, 30));
    assert!(generated.expires_at.is_some() && generated.problems.is_empty() && status.tokens.is_empty());
    assert_eq!(status.counts.map(|counts| (counts.desired, counts.fresh)), Some((30, 30)));
    // Fewer: the accounts and keys with the highest indexes go, the others stay to the byte.
    world.apply_service_token(&team, "bots", bots(5)).await;
    let five = world.tokens_that(&team, "bots", "are five", |tokens| tokens.len() == 5).await;
    assert!(five.iter().all(|(key, token)| thirty[key] == *token));
    there_are(&world, &team, 5).await;
    world.is_revoked(&thirty["030"]).await;
    eventually("the status counts five", || async {
        let status = world.service_tokens(&team).get("bots").await.unwrap().status.unwrap();
        let found = status.generated.map(|generated| (generated.desired, generated.accounts));
        if found == Some((5, 5)) { Ok(()) } else { Err(found) }
    })
    .await;
    // Tokens as the writer; and nothing as the operator, of whom the audit log has all that it asks for.
    assert_eq!(askers(&world, &team, "create", Some("token")), BTreeSet::from([user(&team, ACCOUNT)]));
    for verb in ["get", "create", "patch", "delete"] {
        assert_eq!(askers(&world, &team, verb, None), BTreeSet::new(), "{verb}");
    }
    world.finish().await;
}

#[tokio::test]
async fn no_accounts_are_wanted_any_more_next_to_those_that_are_listed() {
    let world = World::new("generate-none").await;
    let team = team(&world).await;
    world.robot(&team, "robot").await;
    let mut both = bots(3);
    both["tokens"] = json!([{"key": "a", "serviceAccount": {"name": "robot"}}]);
    world.apply_service_token(&team, "bots", both).await;
    let tokens = world.fresh(&team, "bots").await;
    assert_eq!(tokens.keys().collect::<Vec<_>>(), ["001", "002", "003", "a"]);
    world.apply_service_token(&team, "bots", spec(&[("a", "robot")])).await;
    let left = world.tokens_that(&team, "bots", "are one", |tokens| tokens.len() == 1).await;
    assert_eq!(left["a"], tokens["a"]);
    there_are(&world, &team, 0).await;
    eventually("the status knows of none", || async {
        let status = world.service_tokens(&team).get("bots").await.unwrap().status.unwrap();
        status.generated.map_or(Ok(()), Err)
    })
    .await;
    world.accounts(&team).get("robot").await.unwrap();
    world.finish().await;
}

#[tokio::test]
async fn an_account_that_was_deleted_by_hand_comes_back_with_a_new_token() {
    let world = World::new("generate-again").await;
    let team = team(&world).await;
    world.apply_service_token(&team, "bots", bots(3)).await;
    let before = world.fresh(&team, "bots").await;
    world.remove_account(&team, "bot-2").await;
    let now = world
        .tokens_that(&team, "bots", "have a new second", |now| now.get("002") != before.get("002"))
        .await;
    assert_eq!((&now["001"], &now["003"]), (&before["001"], &before["003"]));
    assert_eq!(world.user_of(&now["002"]).await, Some(user(&team, "bot-2")));
    world.is_revoked(&before["002"]).await;
    world.finish().await;
}

#[tokio::test]
async fn a_workload_with_its_token_may_not_mint_as_the_api_server_tells_it() {
    let world = World::new("generate-workload").await;
    let team = team(&world).await;
    world.apply_service_token(&team, "bots", bots(2)).await;
    let tokens = world.fresh(&team, "bots").await;
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client_of(&tokens["001"]).await);
    for (subresource, name) in [("token", "bot-1"), ("token", "bot-2"), ("token", ACCOUNT), ("", "bot-3")] {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "metadata": {},
            "spec": {"resourceAttributes": {
                "namespace": team, "verb": "create", "resource": "serviceaccounts", "subresource": subresource,
                "name": name,
            }},
        });
        let answer = reviews.create(&PostParams::default(), &serde_json::from_value(review).unwrap()).await;
        assert!(!answer.unwrap().status.unwrap().allowed, "{subresource} {name}");
    }
    world.finish().await;
}

#[tokio::test]
async fn metadata_is_made_of_templates_follows_the_spec_and_leaves_that_of_others() {
    let world = World::new("generate-metadata").await;
    let team = team(&world).await;
    let mut asked = bots(2);
    asked["generate"]["labels"] = json!({"user": "mobu-{{padded}}", "team": "x"});
    asked["generate"]["annotations"] = json!({"example.com/note": "{\"uid\": {{n}}, \"id\": \"{{hash}}\"}"});
    world.apply_service_token(&team, "bots", asked.clone()).await;
    world.fresh(&team, "bots").await;
    let meta = world.accounts(&team).get("bot-2").await.unwrap().metadata;
    let hash = weaver_api::template::hash(&format!("{team}/bots"), 2);
    assert_eq!(meta.labels.as_ref().unwrap()["user"], "mobu-002");
    let note = format!("{{\"uid\": 2, \"id\": \"{hash}\"}}");
    assert_eq!(meta.annotations.as_ref().unwrap()["example.com/note"], note);
    let theirs = json!({"metadata": {"labels": {"theirs": "1"}}, "automountServiceAccountToken": false});
    world.accounts(&team).patch("bot-2", &PatchParams::default(), &Patch::Merge(theirs)).await.unwrap();
    asked["generate"]["labels"] = json!({"user": "u{{n}}"});
    world.apply_service_token(&team, "bots", asked).await;
    let account = eventually("the labels follow", || async {
        let account = world.accounts(&team).get("bot-2").await.unwrap();
        let labels = account.metadata.labels.clone().unwrap();
        if labels["user"] == "u2" { Ok(account) } else { Err(labels) }
    })
    .await;
    let labels = account.metadata.labels.unwrap();
    assert!(labels["theirs"] == "1" && !labels.contains_key("team"), "{labels:?}");
    assert_eq!(account.automount_service_account_token, Some(false), "nothing else is touched");
    world.finish().await;
}

#[tokio::test]
async fn sixty_that_were_minted_together_are_renewed_in_groups() {
    let world = World::new("generate-many").await;
    let team = team(&world).await;
    let mut asked = bots(60);
    asked["generate"]["expirationSeconds"] = json!(600);
    world.apply_service_token(&team, "bots", asked.clone()).await;
    let first = eventually_within(MANY, "sixty tokens", || async {
        let tokens = world.tokens(&team, "bots").await;
        if tokens.len() == 60 { Ok(tokens) } else { Err(tokens.len()) }
    })
    .await;
    // The first group is due at three quarters of this age at the earliest, and that is to come.
    let issued = first.values().map(|token| Claims::read(token).unwrap().issued_at).min().unwrap();
    let age = Timestamp::now().duration_since(issued).as_secs();
    let percent = ((age + 5) * 100 / 450 + 1).max(8);
    asked["renewAtPercent"] = json!(percent);
    world.apply_service_token(&team, "bots", asked).await;
    let renewed = eventually_within(MANY, "some tokens are renewed", || async {
        let now = world.tokens(&team, "bots").await;
        let renewed = now.iter().filter(|(key, token)| first[*key] != **token).count();
        if renewed > 0 { Ok(renewed) } else { Err(now.len()) }
    })
    .await;
    assert!(renewed < 60, "{renewed} were renewed in one write");
    world.finish().await;
}

#[tokio::test]
async fn with_the_resource_all_that_it_made_goes() {
    let world = World::new("generate-delete").await;
    let team = team(&world).await;
    world.apply_service_token(&team, "bots", bots(4)).await;
    let tokens = world.fresh(&team, "bots").await;
    world.service_tokens(&team).delete("bots", &DeleteParams::default()).await.unwrap();
    eventually_within(COLLECTED, "Secret and accounts are gone", || async {
        let secret = world.secrets(&team).get_opt("bots").await.unwrap().map(|_| "the Secret");
        let accounts = made(&world, &team).await.len();
        if secret.is_none() && accounts == 0 { Ok(()) } else { Err((secret, accounts)) }
    })
    .await;
    world.is_revoked(&tokens["004"]).await;
    world.accounts(&team).get(ACCOUNT).await.unwrap();
    world.finish().await;
}
