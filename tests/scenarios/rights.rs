//! Missing rights are named exactly, and the resource recovers when they are granted.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::ResourceQuota;
use k8s_openapi::api::rbac::v1::Role;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::json;
use weaver_tests::tenant::TARGET;
use weaver_tests::world::{World, eventually, weaver};

#[tokio::test]
async fn missing_rights_are_named_and_the_printed_role_makes_it_ready() {
    let world = World::new("missing-rights").await;
    let team = world.tenant().await;
    let (foo, bar) = (world.target(&team, "foo").await, world.namespace("bar").await);
    world.grant(&team, &bar, &["get", "create"]).await;
    world.config_map(&team, "settings", &[("a", "1")]).await;
    world.sync(&team, "sync", world.spec(&team, &[&foo, &bar])).await;

    let authorized = world.condition(&team, "sync", "Authorized", "False", "MissingRights").await;
    let expected = format!(
        "ServiceAccount {team}/sync may not delete, list, update, watch ConfigMaps in namespace {bar}\n"
    );
    assert!(authorized.message.starts_with(&expected), "{}", authorized.message);
    assert!(!authorized.message.contains(&format!("in namespace {foo}")), "{}", authorized.message);
    world.holds(&foo, "settings", &[("a", "1")]).await;

    let (_, printed) = authorized.message.split_once("grant it with:\n").unwrap();
    world.apply_printed(printed).await;
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    world.holds(&bar, "settings", &[("a", "1")]).await;
    world.finish().await;
}

#[tokio::test]
async fn a_source_that_may_not_be_read_is_named_with_its_role() {
    let world = World::new("source-right").await;
    let team = world.namespace("team").await;
    world.account(&team).await;
    world.allow_minting(&team).await;
    let foo = world.target(&team, "foo").await;
    world.config_map(&team, "settings", &[("a", "1")]).await;
    world.sync(&team, "sync", world.spec(&team, &[&foo])).await;
    let authorized = world.condition(&team, "sync", "Authorized", "False", "MissingRights").await;
    let expected = format!(
        "ServiceAccount {team}/sync may not get, list, watch ConfigMap settings in namespace {team}\n"
    );
    assert!(authorized.message.starts_with(&expected), "{}", authorized.message);
    let (_, printed) = authorized.message.split_once("grant it with:\n").unwrap();
    world.apply_printed(printed).await;
    world.holds(&foo, "settings", &[("a", "1")]).await;
    world.finish().await;
}

#[tokio::test]
async fn without_leave_to_mint_nothing_is_done_and_the_command_is_named() {
    let world = World::new("no-minting").await;
    let (team, foo, authorized) = world.without_minting().await;
    assert!(
        authorized.message.contains(&format!("weaver tenant allow {team} sync")),
        "{}",
        authorized.message
    );
    world.lacks(&foo, "settings").await;
    // The command that the message names, run as the administrator.
    let (done, said) = weaver(&["tenant", "allow", &team, "sync"]);
    assert!(done, "{said}");
    world.holds(&foo, "settings", &[("a", "1")]).await;
    let (fine, said) = weaver(&["tenant", "check", &team, "sync"]);
    assert!(fine && said.contains("the operator may act as it") && !said.contains("WARNING"), "{said}");
    // And back again.
    let roles: Api<Role> = Api::namespaced(world.client.clone(), &team);
    assert!(roles.get_opt("weaver-mint-sync").await.unwrap().is_some());
    for words in ["can mint no more tokens", "was not allowed"] {
        let (done, said) = weaver(&["tenant", "revoke", &team, "sync"]);
        assert!(done && said.contains(words), "{said}");
    }
    assert!(roles.get_opt("weaver-mint-sync").await.unwrap().is_none());
    let (fine, said) = weaver(&["tenant", "check", &team, "sync"]);
    assert!(!fine && said.contains(&format!("weaver tenant allow {team} sync")), "{said}");
    world.finish().await;
}

#[tokio::test]
async fn rights_that_an_account_has_by_its_group_are_rights() {
    let world = World::new("by-group").await;
    let team = world.tenant().await;
    let foo = world.namespace("foo").await;
    let group = json!([{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io",
                        "name": format!("system:serviceaccounts:{team}")}]);
    world.config_map(&team, "settings", &[("a", "1")]).await;
    world.sync(&team, "sync", world.spec(&team, &[&foo])).await;
    world.condition(&team, "sync", "Authorized", "False", "MissingRights").await;
    world.grant_to(&foo, group, &TARGET).await;
    world.holds(&foo, "settings", &[("a", "1")]).await;
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    world.finish().await;
}

#[tokio::test]
async fn resources_of_one_account_share_one_token_and_no_one_reviews_it() {
    let world = World::new("one-token").await;
    let (team, foo) = world.synced().await;
    for number in 0..5 {
        let name = format!("more-{number}");
        let mut spec = world.spec(&team, &[&foo]);
        spec["targets"]["name"] = json!(name);
        world.sync(&team, &name, spec).await;
        world.condition(&team, &name, "Ready", "True", "Synced").await;
    }
    let events = world.audit.events().to_vec();
    let ours = events.iter().filter(|event| {
        event["userAgent"].as_str().is_some_and(|agent| agent.starts_with("weaver-operator/"))
    });
    let asked = |resource: &str, subresource: Option<&str>| {
        let wanted = json!([resource, subresource]);
        ours.clone()
            .filter(|event| {
                json!([event["objectRef"]["resource"], event["objectRef"]["subresource"]]) == wanted
            })
            .filter(|event| subresource.is_none() || event["objectRef"]["namespace"] == json!(team))
            .count()
    };
    assert_eq!(asked("serviceaccounts", Some("token")), 1, "one token for all");
    for review in ["tokenreviews", "subjectaccessreviews"] {
        assert_eq!(asked(review, None), 0, "what the API server decides is not asked beforehand");
    }
    world.finish().await;
}

#[tokio::test]
async fn rights_that_are_taken_away_are_reported_and_come_back() {
    let world = World::new("revoked").await;
    let (team, foo) = world.synced().await;
    world.revoke(&foo).await;
    world.config_map(&team, "settings", &[("a", "2")]).await;
    world.condition(&team, "sync", "Authorized", "False", "MissingRights").await;
    world.holds(&foo, "settings", &[("a", "1")]).await;
    world.grant(&team, &foo, &TARGET).await;
    world.holds(&foo, "settings", &[("a", "2")]).await;
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    world.finish().await;
}

#[tokio::test]
async fn a_right_that_was_taken_away_is_not_read_with_for_longer_than_a_watch_lasts() {
    /// What the stack's operator is given, in seconds; and what the machine may need next to it.
    const WATCH: i64 = 15;
    const SLACK: i64 = 5;
    let world = World::new("bounded").await;
    let (team, foo) = world.synced().await;
    let user = format!("system:serviceaccount:{team}:sync");
    world.revoke(&foo).await;
    let revoked = Timestamp::now();
    let last = eventually("each watch has ended, and the next one is refused", || async {
        let events = world.audit.events();
        let watches = events.iter().filter(|event| {
            event["verb"] == "watch"
                && event["user"]["username"] == user
                && event["objectRef"]["namespace"] == foo
        });
        let of = |stage: &'static str, code: u16| {
            let these = watches.clone();
            these.filter(move |event| event["stage"] == stage && event["responseStatus"]["code"] == code)
        };
        let begun: BTreeSet<_> =
            of("ResponseStarted", 200).filter_map(|event| event["auditID"].as_str()).collect();
        let ended: BTreeSet<_> =
            of("ResponseComplete", 200).filter_map(|event| event["auditID"].as_str()).collect();
        let refused = events.iter().any(|event| {
            event["user"]["username"] == user
                && event["objectRef"]["namespace"] == foo
                && ["list", "watch"].iter().any(|verb| event["verb"] == *verb)
                && event["responseStatus"]["code"] == 403
        });
        let last = of("ResponseComplete", 200).filter_map(|event| event["stageTimestamp"].as_str()).max();
        match last {
            Some(last) if refused && begun.is_subset(&ended) => Ok(last.parse::<Timestamp>().unwrap()),
            _ => Err(format!("{begun:?} {ended:?} {refused}")),
        }
    })
    .await;
    let longer = last.duration_since(revoked).as_secs();
    assert!(longer <= WATCH + SLACK, "a watch went on for {longer} s");
    world.finish().await;
}

#[tokio::test]
async fn one_tenant_without_rights_does_not_stop_another() {
    let world = World::new("two-tenants").await;
    let team = world.tenant().await;
    let foo = world.namespace("foo").await;
    world.config_map(&team, "settings", &[("a", "1")]).await;
    world.sync(&team, "refused", world.spec(&team, &[&foo])).await;
    world.condition(&team, "refused", "Authorized", "False", "MissingRights").await;

    let other = World::new("two-tenants-b").await;
    let team_b = other.tenant().await;
    let bar = other.target(&team_b, "bar").await;
    other.config_map(&team_b, "settings", &[("b", "1")]).await;
    other.sync(&team_b, "sync", other.spec(&team_b, &[&bar])).await;
    other.condition(&team_b, "sync", "Ready", "True", "Synced").await;
    other.finish().await;
    world.finish().await;
}

#[tokio::test]
async fn the_operators_own_account_has_no_right_on_content_and_mints_nothing_by_default() {
    let world = World::new("own-rights").await;
    let team = world.namespace("team").await;
    world.config_map(&team, "settings", &[]).await;
    let may = async |group: &str, resource: &str, subresource: Option<&str>, verb: &str| {
        let what = json!({"group": group, "resource": resource, "subresource": subresource, "verb": verb,
                          "namespace": team});
        world.may("config-weaver", "weaver-operator", &what).await
    };
    for verb in ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"] {
        for resource in ["configmaps", "secrets"] {
            assert!(!may("", resource, None, verb).await, "the operator may {verb} {resource}");
        }
        let ours = ["get", "list", "watch", "patch"].contains(&verb);
        assert_eq!(may("weaver.example.com", "configmapsyncs", None, verb).await, ours, "{verb}");
    }
    for verb in ["impersonate", "create"] {
        assert!(!may("", "serviceaccounts", None, verb).await, "the operator may {verb} accounts");
    }
    assert!(!may("", "serviceaccounts", Some("token"), "create").await);
    world.finish().await;
}

#[tokio::test]
async fn a_copy_is_repaired_by_looking_where_its_watch_was_taken_away() {
    let world = World::new("no-watch").await;
    let (team, foo) = world.synced().await;
    // Upstream's own role. Watches are authorised when they start: a second one is refused at once.
    let bar = world.namespace("bar").await;
    world.grant(&team, &bar, &["get", "create", "update", "delete"]).await;
    world.sync(&team, "sync", world.spec(&team, &[&foo, &bar])).await;
    let copy = world.holds(&bar, "settings", &[("a", "1")]).await;
    let authorized = world.condition(&team, "sync", "Authorized", "False", "MissingRights").await;
    let expected = format!("ServiceAccount {team}/sync may not list, watch ConfigMaps in namespace {bar}\n");
    assert!(authorized.message.starts_with(&expected), "{}", authorized.message);
    let tampered = json!({"data": {"a": "tampered"}});
    world
        .config_maps(&bar)
        .patch("settings", &PatchParams::default(), &Patch::Merge(&tampered))
        .await
        .unwrap();
    let repaired = world.holds(&bar, "settings", &[("a", "1")]).await;
    assert_eq!(repaired.metadata.uid, copy.metadata.uid);
    world.finish().await;
}

#[tokio::test]
async fn a_refusal_by_policy_shows_the_policys_own_words() {
    let world = World::new("quota").await;
    let team = world.tenant().await;
    let foo = world.target(&team, "foo").await;
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"},
                       "spec": {"hard": {"count/configmaps": "0"}}});
    let quotas: Api<ResourceQuota> = Api::namespaced(world.client.clone(), &foo);
    quotas.patch("none", &PatchParams::apply("a-person"), &Patch::Apply(&quota)).await.unwrap();
    eventually("the quota is in force", || async {
        let status = quotas.get("none").await.unwrap().status;
        if status.as_ref().is_some_and(|status| status.hard.is_some()) { Ok(()) } else { Err(status) }
    })
    .await;
    world.config_map(&team, "settings", &[("a", "1")]).await;
    world.sync(&team, "sync", world.spec(&team, &[&foo])).await;
    let ready = world.condition(&team, "sync", "Ready", "False", "TargetsFailed").await;
    assert!(ready.message.contains("exceeded quota"), "{}", ready.message);
    world.condition(&team, "sync", "Authorized", "True", "Allowed").await;
    quotas.delete("none", &DeleteParams::default()).await.unwrap();
    world.holds(&foo, "settings", &[("a", "1")]).await;
    world.finish().await;
}
