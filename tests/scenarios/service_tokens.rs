//! A Secret is filled with tokens of accounts of its namespace, and kept so: what asks for it, when it is
//! written again, and when not.

use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, PropagationPolicy};
use serde_json::{Value, json};
use weaver_tenant::claims::Claims;
use weaver_tests::tokens::{Tokens, spec, user};
use weaver_tests::world::{World, eventually, eventually_within, given};

const KEYS: [(&str, &str); 2] = [("a", "robot"), ("b", "robot")];

/// `tokens` with the keys `a` and `b`, both of the account `robot`.
async fn two_tokens(world: &World) -> (String, Tokens) {
    let team = world.writer("team", "tokens").await;
    world.robot(&team, "robot").await;
    world.service_token(&team, "tokens", &KEYS).await;
    let tokens = world.fresh(&team, "tokens").await;
    (team, tokens)
}

async fn change_secret(world: &World, team: &str, patch: Value) {
    world.secrets(team).patch("tokens", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

#[tokio::test]
async fn each_key_holds_a_token_of_its_account_for_its_audience() {
    let world = World::new("token-keys").await;
    let team = world.writer("team", "tokens").await;
    let robot = world.robot(&team, "robot").await;
    world.robot(&team, "courier").await;
    let mut asked = spec(&[("api", "robot"), ("vault", "courier")]);
    asked["tokens"][1]["audiences"] = json!(["vault", "bank"]);
    asked["tokens"][1]["expirationSeconds"] = json!(7_200);
    world.apply_service_token(&team, "tokens", asked).await;
    let tokens = world.fresh(&team, "tokens").await;
    assert_eq!(tokens.keys().collect::<Vec<_>>(), ["api", "vault"]);
    assert_eq!(world.user_of(&tokens["api"]).await, Some(user(&team, "robot")));
    assert_eq!(world.user_of(&tokens["vault"]).await, None, "not meant for the API server");
    for audience in ["vault", "bank"] {
        let review = world.review(&tokens["vault"], Some(audience)).await;
        assert_eq!(review.authenticated, Some(true), "{review:?}");
        assert_eq!(review.user.unwrap().username, Some(user(&team, "courier")));
        assert_eq!(review.audiences, Some(vec![audience.to_owned()]));
    }
    let status = world.service_tokens(&team).get("tokens").await.unwrap().status.unwrap();
    assert_eq!(status.secret_name.as_deref(), Some("tokens"));
    for reported in &status.tokens {
        let claims = Claims::read(&tokens[&reported.key]).unwrap();
        assert_eq!(reported.expires_at.as_deref(), Some(claims.expires_at.to_string().as_str()));
        assert_eq!(reported.issued_at.as_deref(), Some(claims.issued_at.to_string().as_str()));
        assert_eq!(reported.account_uid.as_ref(), Some(&claims.account.uid));
        assert_eq!(reported.message, "");
    }
    assert_eq!(status.tokens[0].account_uid, robot.metadata.uid);
    let long = Claims::read(&tokens["vault"]).unwrap();
    assert_eq!(long.expires_at.duration_since(long.issued_at).as_secs(), 7_200);
    let said =
        json!(status).to_string() + &std::fs::read_to_string(given("WEAVER_TEST_OPERATOR_LOG")).unwrap();
    for token in tokens.values() {
        assert!(!said.contains(token.as_str()), "a token is shown");
    }
    world.finish().await;
}

#[tokio::test]
async fn one_token_is_minted_again_and_the_other_stays_to_the_byte() {
    let world = World::new("token-cases").await;
    let (team, first) = two_tokens(&world).await;
    // A key that is missing, one with another value, one with another's token.
    let another = world.service_token(&team, "other", &[("x", "courier")]);
    world.robot(&team, "courier").await;
    world.grant_writer(&team, "other").await;
    another.await;
    let others = world.fresh(&team, "other").await;
    let mut before = first.clone();
    for wrong in [None, Some("hunter2"), Some(others["x"].as_str())] {
        let value = wrong.map(|wrong| ByteString(wrong.as_bytes().to_vec()));
        change_secret(&world, &team, json!({"data": {"a": value}})).await;
        let is_again =
            |tokens: &Tokens| tokens.get("a").is_some_and(|a| *a != before["a"] && Some(a.as_str()) != wrong);
        let now = world.tokens_that(&team, "tokens", "hold a new `a`", is_again).await;
        assert_eq!(now["b"], before["b"]);
        assert_eq!(world.user_of(&now["a"]).await, Some(user(&team, "robot")));
        before = now;
    }
    // Other audiences for one of them.
    let mut asked = spec(&KEYS);
    asked["tokens"][0]["audiences"] = json!(["vault"]);
    world.apply_service_token(&team, "tokens", asked).await;
    let now =
        world.tokens_that(&team, "tokens", "hold an `a` for others", |now| now["a"] != before["a"]).await;
    assert_eq!(now["b"], before["b"]);
    assert_eq!(world.review(&now["a"], Some("vault")).await.authenticated, Some(true));
    // A key that is not asked for any more.
    world.service_token(&team, "tokens", &[("b", "robot")]).await;
    let now = world.tokens_that(&team, "tokens", "are one", |now| now.len() == 1).await;
    assert_eq!(now["b"], before["b"]);
    world.finish().await;
}

#[tokio::test]
async fn an_account_that_was_made_again_gets_new_tokens() {
    let world = World::new("token-recreated").await;
    let (team, before) = two_tokens(&world).await;
    world.remove_account(&team, "robot").await;
    let gone = world.token_condition(&team, "tokens", "Ready", "False", "AccountMissing").await;
    assert!(gone.message.contains("kubectl -n"), "{}", gone.message);
    assert!(world.tokens(&team, "tokens").await.is_empty(), "what no one can use does not stay");
    let again = world.robot(&team, "robot").await;
    let now = world.fresh(&team, "tokens").await;
    assert_ne!(now["a"], before["a"]);
    assert_eq!(Some(Claims::read(&now["a"]).unwrap().account.uid), again.metadata.uid);
    assert_eq!(world.user_of(&now["b"]).await, Some(user(&team, "robot")));
    world.finish().await;
}

#[tokio::test]
async fn an_account_that_is_gone_does_not_hold_up_the_others() {
    let world = World::new("token-one-gone").await;
    let team = world.writer("team", "tokens").await;
    world.robot(&team, "robot").await;
    world.bare_account(&team, "shy", &json!({})).await;
    world.bare_account(&team, "secret", &json!({"weaver.example.com/allow-tokens": "true"})).await;
    world
        .service_token(&team, "tokens", &[("a", "robot"), ("b", "ghost"), ("c", "shy"), ("d", "secret")])
        .await;
    let tokens = world.tokens_that(&team, "tokens", "are there", |tokens| !tokens.is_empty()).await;
    assert_eq!(tokens.keys().collect::<Vec<_>>(), ["a"]);
    let ready = world.token_condition(&team, "tokens", "TokensFresh", "False", "AccountMissing").await;
    for part in [
        "1 of 4 tokens are valid",
        "create serviceaccount ghost",
        "label serviceaccount shy weaver.example.com/allow-tokens=true",
        "secret; allow it: weaver tenant allow",
    ] {
        assert!(ready.message.contains(part), "{part}: {}", ready.message);
    }
    // What is typed, as it is printed.
    let agree = json!({"metadata": {"labels": {"weaver.example.com/allow-tokens": "true"}}});
    world.accounts(&team).patch("shy", &PatchParams::default(), &Patch::Merge(agree)).await.unwrap();
    for account in ["shy", "secret"] {
        let (done, said) = weaver_tests::world::weaver(&["tenant", "allow", &team, account]);
        assert!(done, "{said}");
    }
    world.bare_account(&team, "ghost", &json!({"weaver.example.com/allow-tokens": "true"})).await;
    let (done, said) = weaver_tests::world::weaver(&["tenant", "allow", &team, "ghost"]);
    assert!(done, "{said}");
    let all = world.fresh(&team, "tokens").await;
    assert_eq!((all.len(), &all["a"]), (4, &tokens["a"]));
    // And one that is withdrawn takes its token.
    let withdraw = json!({"metadata": {"labels": {"weaver.example.com/allow-tokens": null}}});
    world.accounts(&team).patch("shy", &PatchParams::default(), &Patch::Merge(withdraw)).await.unwrap();
    world.tokens_that(&team, "tokens", "lack `c`", |tokens| !tokens.contains_key("c")).await;
    world.finish().await;
}

#[tokio::test]
async fn deleting_the_secret_revokes_its_tokens_and_makes_another() {
    let world = World::new("token-bound").await;
    let (team, before) = two_tokens(&world).await;
    assert_eq!(world.user_of(&before["a"]).await, Some(user(&team, "robot")));
    world.secrets(&team).delete("tokens", &DeleteParams::default()).await.unwrap();
    let now =
        world.tokens_that(&team, "tokens", "are new", |now| now.len() == 2 && now["a"] != before["a"]).await;
    world.is_revoked(&before["a"]).await;
    assert_eq!(world.user_of(&now["a"]).await, Some(user(&team, "robot")));
    // And with the resource all of it is deleted.
    world.service_tokens(&team).delete("tokens", &DeleteParams::default()).await.unwrap();
    // A garbage collector that was just started learns of our kinds at its next look, each half a minute.
    eventually_within(Duration::from_secs(90), "the Secret is gone", || async {
        world.secrets(&team).get_opt("tokens").await.unwrap().map_or(Ok(()), |secret| Err(secret.type_))
    })
    .await;
    world.is_revoked(&now["b"]).await;
    world.finish().await;
}

#[tokio::test]
async fn one_that_is_made_again_under_its_name_is_looked_after_at_once() {
    let world = World::new("token-again").await;
    let (team, before) = two_tokens(&world).await;
    // As `kubectl replace --force` does it: the Secret stays until the garbage collector has seen it.
    let orphan =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
    world.service_tokens(&team).delete("tokens", &orphan).await.unwrap();
    eventually("the resource is gone", || async {
        world
            .service_tokens(&team)
            .get_opt("tokens")
            .await
            .unwrap()
            .map_or(Ok(()), |left| Err(left.metadata.finalizers))
    })
    .await;
    world.service_token(&team, "tokens", &KEYS).await;
    assert_eq!(world.fresh(&team, "tokens").await, before, "it is known again, and what is right stays");
    // Its watch is its own.
    change_secret(&world, &team, json!({"data": {"a": null}})).await;
    world.tokens_that(&team, "tokens", "are two", |now| now.len() == 2).await;
    world.finish().await;
}

#[tokio::test]
async fn labels_come_and_go_and_no_token_is_minted_for_them() {
    let world = World::new("token-labels").await;
    let (team, before) = two_tokens(&world).await;
    let made = world.secrets(&team).get("tokens").await.unwrap();
    let owner = &made.metadata.owner_references.as_ref().unwrap()[0];
    let resource = world.service_tokens(&team).get("tokens").await.unwrap();
    assert_eq!(Some(&owner.uid), resource.metadata.uid.as_ref());
    let resources = world.service_tokens(&team);
    let mark = async |labels: Value| {
        let patch = json!({"metadata": {"labels": labels, "annotations": {"note": "x"}}});
        let params = PatchParams::default();
        resources.patch("tokens", &params, &Patch::Merge(patch)).await.unwrap();
    };
    let carries = |what: &'static str, wanted: fn(&Secret) -> bool| {
        let secrets = world.secrets(&team);
        async move {
            eventually(what, || async {
                let secret = secrets.get("tokens").await.unwrap();
                if wanted(&secret) { Ok(()) } else { Err(secret.metadata.labels) }
            })
            .await;
        }
    };
    let of =
        |secret: &Secret, key: &str| secret.metadata.labels.as_ref().and_then(|all| all.get(key)).cloned();
    change_secret(&world, &team, json!({"metadata": {"labels": {"theirs": "1"}}})).await;
    mark(json!({"team": "a"})).await;
    carries("the label is there", |secret| {
        secret.metadata.labels.as_ref().is_some_and(|all| all.get("team").is_some_and(|team| team == "a"))
    })
    .await;
    mark(json!({"team": null})).await;
    carries("the label is gone", |secret| {
        secret.metadata.labels.as_ref().is_some_and(|all| !all.contains_key("team"))
    })
    .await;
    // The owner is put back as well.
    change_secret(&world, &team, json!({"metadata": {"ownerReferences": null}})).await;
    carries("the owner is there", |secret| secret.metadata.owner_references.is_some()).await;
    let after = world.secrets(&team).get("tokens").await.unwrap();
    assert_eq!(of(&after, "theirs").as_deref(), Some("1"), "other people's stay");
    assert_eq!(after.metadata.annotations.unwrap()["note"], "x");
    assert_eq!(world.tokens(&team, "tokens").await, before, "to the byte");
    world.finish().await;
}

#[tokio::test]
async fn sixteen_keys_are_one_secret_and_one_write() {
    let world = World::new("token-sixteen").await;
    let team = world.writer("team", "tokens").await;
    let names: Vec<(String, String)> =
        (0..16).map(|n| (format!("key-{n:02}"), format!("robot-{}", n % 4))).collect();
    for account in ["robot-0", "robot-1", "robot-2", "robot-3"] {
        world.robot(&team, account).await;
    }
    let keys: Vec<_> = names.iter().map(|(key, account)| (key.as_str(), account.as_str())).collect();
    world.service_token(&team, "tokens", &keys).await;
    let tokens = world.fresh(&team, "tokens").await;
    assert_eq!(tokens.len(), 16);
    for (key, account) in &keys {
        assert_eq!(world.user_of(&tokens[*key]).await, Some(user(&team, account)), "{key}");
    }
    let writes = ["create", "update"].map(|verb| world.audit.requests(&team, verb));
    let events: Api<Event> = Api::namespaced(world.client.clone(), &team);
    let reported = events.list(&ListParams::default()).await.unwrap().items;
    // A token that could not be minted at once is written later.
    let reported: Vec<_> = reported.into_iter().filter_map(|event| event.note).collect();
    assert_eq!(writes, [1, 1], "an empty Secret, and all of its tokens at once: {reported:?}");
    world.finish().await;
}

#[tokio::test]
async fn a_workload_needs_no_right_to_mint() {
    let world = World::new("token-workload").await;
    let (team, tokens) = two_tokens(&world).await;
    for account in ["robot", weaver_tests::tenant::ACCOUNT] {
        let mints = json!({
            "namespace": team, "verb": "create", "resource": "serviceaccounts", "subresource": "token",
        });
        assert!(!world.may(&team, account, &mints).await, "{account}");
    }
    assert_eq!(world.user_of(&tokens["a"]).await, Some(user(&team, "robot")));
    world.finish().await;
}

#[tokio::test]
async fn a_token_waits_for_its_time_and_one_that_has_passed_is_minted_at_once() {
    let world = World::new("token-not-before").await;
    let team = world.writer("team", "tokens").await;
    world.robot(&team, "robot").await;
    let mut asked = spec(&KEYS);
    asked["tokens"][0]["notBefore"] = json!("2020-01-01T00:00:00+01:00");
    asked["tokens"][1]["notBefore"] = json!("2099-01-01T00:00:00Z");
    world.apply_service_token(&team, "tokens", asked.clone()).await;
    let waiting = world.token_condition(&team, "tokens", "Ready", "False", "NotDue").await;
    assert!(waiting.message.contains("b: not minted before"), "{}", waiting.message);
    assert_eq!(world.tokens(&team, "tokens").await.keys().collect::<Vec<_>>(), ["a"]);
    // In a moment that comes.
    let soon = Timestamp::now() + SignedDuration::from_secs(5);
    asked["tokens"][1]["notBefore"] = json!(soon.to_string());
    world.apply_service_token(&team, "tokens", asked).await;
    let tokens = world.fresh(&team, "tokens").await;
    let issued = Claims::read(&tokens["b"]).unwrap().issued_at;
    assert!(issued >= soon - SignedDuration::from_secs(1), "{issued} is before {soon}");
    world.finish().await;
}

#[tokio::test]
async fn upstreams_origin_one_token_at_v1alpha1_fills_the_same_secret() {
    let world = World::new("token-old").await;
    let team = world.writer("team", "tokens").await;
    // There the account whose token it is writes the Secret.
    world.robot(&team, "robot").await;
    let old: kube::Api<weaver_api::v1alpha1::ServiceToken> =
        kube::Api::namespaced(world.client.clone(), &team);
    let object = json!({
        "apiVersion": "weaver.example.com/v1alpha1", "kind": "ServiceToken", "metadata": {"name": "tokens"},
        "spec": {"serviceAccount": {"name": weaver_tests::tenant::ACCOUNT}},
    });
    old.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    let shy = world.token_condition(&team, "tokens", "Ready", "False", "AccountNotOptedIn").await;
    assert!(shy.message.contains("label serviceaccount sync"), "{}", shy.message);
    let agree = json!({"metadata": {"labels": {"weaver.example.com/allow-tokens": "true"}}});
    let account = weaver_tests::tenant::ACCOUNT;
    world.accounts(&team).patch(account, &PatchParams::default(), &Patch::Merge(agree)).await.unwrap();
    let tokens = world.fresh(&team, "tokens").await;
    assert_eq!(world.user_of(&tokens["token"]).await, Some(user(&team, account)));
    let read = old.get("tokens").await.unwrap();
    assert!(read.status.unwrap().conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True"));
    world.finish().await;
}
