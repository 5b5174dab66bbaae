//! The operator's own rights are what it needs: each is used, nothing else is asked for, and one that is
//! missing is named.

use std::collections::BTreeSet;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, PostParams};
use kube::core::GroupVersionKind;
use serde_json::json;
use weaver_api::GROUP;
use weaver_tests::alone::OwnOperator;
use weaver_tests::audit;
use weaver_tests::operator_rights::grant_all_but;
use weaver_tests::own::OwnServer;
use weaver_tests::rbac::{RbacRight, granted};
use weaver_tests::resources;
use weaver_tests::tokens::spec;
use weaver_tests::world::{World, eventually};

/// The shortest one, so that it is renewed while one looks.
const SHORT: [&str; 2] = ["--lease", "12"];

/// A tenant with a ConfigMapSync `sync` and a ServiceToken `tokens`, both ready, and one of each that cannot be
/// understood.
struct RbacScene {
    team: String,
    foo: String,
}

impl RbacScene {
    async fn made(own: &OwnServer, world: &World) -> Self {
        let (team, foo) = world.synced().await;
        world.grant_writer(&team, "tokens").await;
        world.robot(&team, "robot").await;
        world.service_token(&team, "tokens", &[("a", "robot")]).await;
        world.fresh(&team, "tokens").await;
        // Of a kind on which the account needs no right more.
        resources::grant(world, &team, &[&team, &foo], "", "limitranges").await;
        resources::sync(world, &team, "ranges", resources::spec(&team, "v1", "LimitRange", "it", &[&foo]))
            .await;
        resources::condition(world, &team, "ranges", "SourceFound", "False", "SourceMissing").await;
        let range = json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "it"}, "spec": {"limits": [{"type": "Container", "max": {"cpu": "4"}}]}});
        let ranges = resources::objects(world, "v1", "LimitRange", "limitranges", &team);
        ranges.create(&PostParams::default(), &serde_json::from_value(range).unwrap()).await.unwrap();
        resources::condition(world, &team, "ranges", "Ready", "True", "Synced").await;
        odd(own, world, &team).await;
        Self { team, foo }
    }
}

/// What makes the operator use a right.
#[derive(Clone, Copy)]
enum Cause {
    Start,
    /// That it starts where there is no lease.
    FirstStart,
    NewSync,
    /// One that is stopped and continued, twice, so that the same is reported twice.
    Again,
    NewToken,
    NewResource,
}

impl Cause {
    async fn before_the_start(self, world: &World) {
        if let Self::FirstStart = self {
            let leases: Api<Lease> = Api::namespaced(world.client.clone(), weaver_api::OPERATOR_NAMESPACE);
            leases.delete("weaver-operator", &DeleteParams::default()).await.unwrap();
        }
    }

    async fn after_the_start(self, world: &World, scene: &RbacScene, name: &str) {
        let RbacScene { team, foo } = scene;
        match self {
            Self::Start | Self::FirstStart => {}
            Self::NewSync => {
                let mut spec = world.spec(team, &[foo]);
                spec["targets"]["name"] = json!(name);
                world.sync(team, name, spec).await;
            }
            Self::Again => {
                let mut spec = world.spec(team, &[foo]);
                for (suspend, ready, reason) in
                    [(true, "False", "Suspended"), (false, "True", "Synced")].repeat(2)
                {
                    spec["suspend"] = json!(suspend);
                    world.sync(team, "sync", spec.clone()).await;
                    world.condition(team, "sync", "Ready", ready, reason).await;
                }
            }
            Self::NewResource => {
                let mut spec = resources::spec(team, "v1", "LimitRange", "it", &[foo]);
                spec["targets"]["name"] = json!(name);
                resources::sync(world, team, name, spec).await;
            }
            Self::NewToken => {
                world.grant_writer(team, name).await;
                world.service_token(team, name, &[("a", "robot")]).await;
            }
        }
    }
}

/// An object of each kind that a newer release, which the definitions are of from here on, has accepted.
async fn odd(own: &OwnServer, world: &World, team: &str) {
    const SPEC: &str = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    let later = json!({"type": "string"});
    for (plural, field, mut object) in [
        (
            "configmapsyncs",
            "conflictPolicy",
            json!({"kind": "ConfigMapSync", "metadata": {"name": "odd"}, "spec": world.spec(team, &["foo"])}),
        ),
        (
            "resourcesyncs",
            "conflictPolicy",
            json!({"kind": "ResourceSync", "metadata": {"name": "odd"},
                "spec": resources::spec(team, "v1", "LimitRange", "it", &["foo"])}),
        ),
        (
            "servicetokens",
            "renewAtPercent",
            json!({"kind": "ServiceToken", "metadata": {"name": "odd"}, "spec": spec(&[("a", "robot")])}),
        ),
    ] {
        let patch = json!([{"op": "replace", "path": format!("{SPEC}/{field}"), "value": later}]).to_string();
        own.kubectl(&["patch", "crd", &format!("{plural}.{GROUP}"), "--type=json", "-p", &patch]);
        object["apiVersion"] = json!(format!("{GROUP}/v1beta1"));
        object["spec"][field] = json!("Later");
        let kind = GroupVersionKind::gvk(GROUP, "v1beta1", object["kind"].as_str().unwrap());
        let kind = ApiResource::from_gvk_with_plural(&kind, plural);
        let api: Api<DynamicObject> = Api::namespaced_with(world.client.clone(), team, &kind);
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        eventually("the newer release's definition accepts it", || async {
            api.create(&PostParams::default(), &object).await
        })
        .await;
    }
}

#[tokio::test]
async fn every_right_is_used_and_nothing_else_is_asked_for() {
    let mut alone = OwnOperator::direct(&SHORT).await;
    let world = alone.world("rights-used");
    let scene = RbacScene::made(&alone.own, &world).await;
    // Its lease is its predecessor's now.
    alone.operator.kill();
    alone.restart_operator();
    for cause in [Cause::Again, Cause::NewToken] {
        cause.after_the_start(&world, &scene, "more").await;
    }
    world.delete_sync(&scene.team, "sync").await;
    let audit = alone.own.audit();
    eventually("each right was used", || async {
        let events = audit.events();
        let unused: Vec<RbacRight> = granted()
            .into_iter()
            .filter(|right| !audit::own(&events).any(|event| right.covers(event)))
            .collect();
        if unused.is_empty() { Ok(()) } else { Err(unused) }
    })
    .await;
    // That nothing else was asked for is what each world is judged by.
    world.finish().await;
}

/// Resource, verb, what makes the operator use it, and what it says besides the API server's own words.
const MISSING: [(&str, &str, Cause, &str); 22] = [
    ("configmapsyncs", "get", Cause::Start, "reconciliation failed"),
    (
        "configmapsyncs",
        "list",
        Cause::Start,
        "may not list ConfigMapSyncs: on a card the node agent grants it",
    ),
    (
        "configmapsyncs",
        "watch",
        Cause::Start,
        "a watch on ConfigMapSyncs, ResourceSyncs or ServiceTokens failed",
    ),
    ("configmapsyncs", "patch", Cause::NewSync, "reconciliation failed"),
    ("resourcesyncs", "get", Cause::Start, "reconciliation failed"),
    ("resourcesyncs", "list", Cause::Start, "ResourceSyncs are not reconciled"),
    (
        "resourcesyncs",
        "watch",
        Cause::Start,
        "a watch on ConfigMapSyncs, ResourceSyncs or ServiceTokens failed",
    ),
    ("resourcesyncs", "patch", Cause::NewResource, "reconciliation failed"),
    ("resourcesyncs/status", "patch", Cause::NewResource, "reconciliation failed"),
    ("servicetokens", "get", Cause::Start, "reconciliation failed"),
    ("servicetokens", "list", Cause::Start, "ServiceTokens are not reconciled"),
    (
        "servicetokens",
        "watch",
        Cause::Start,
        "a watch on ConfigMapSyncs, ResourceSyncs or ServiceTokens failed",
    ),
    ("serviceaccounts", "get", Cause::NewToken, "could not be read"),
    ("configmapsyncs/status", "patch", Cause::NewSync, "reconciliation failed"),
    ("servicetokens/status", "patch", Cause::NewToken, "reconciliation failed"),
    ("namespaces", "list", Cause::Start, "the watch on namespaces failed"),
    ("namespaces", "watch", Cause::Start, "the watch on namespaces failed"),
    ("events", "create", Cause::NewSync, "an event could not be recorded"),
    ("events", "patch", Cause::Again, "an event could not be recorded"),
    ("leases", "get", Cause::Start, "the lease is not available: apply deploy/rbac/operator.yaml"),
    ("leases", "update", Cause::Start, "the lease is not available: apply deploy/rbac/operator.yaml"),
    ("leases", "create", Cause::FirstStart, "the lease is not available: apply deploy/rbac/operator.yaml"),
];

#[tokio::test]
async fn each_right_that_is_missing_is_named() {
    let rights = granted();
    let in_table: BTreeSet<_> = MISSING.iter().map(|(resource, verb, ..)| (*resource, *verb)).collect();
    let in_manifest: BTreeSet<_> =
        rights.iter().map(|right| (right.resource.as_str(), right.verb.as_str())).collect();
    assert_eq!(in_table, in_manifest);

    let mut alone = OwnOperator::direct(&SHORT).await;
    let world = alone.world("rights-missing");
    let scene = RbacScene::made(&alone.own, &world).await;
    for (number, (resource, verb, cause, words)) in MISSING.into_iter().enumerate() {
        let missing =
            rights.iter().find(|right| (right.resource.as_str(), right.verb.as_str()) == (resource, verb));
        alone.operator.kill();
        let said_before = alone.operator.log().len();
        cause.before_the_start(&world).await;
        grant_all_but(&world, missing).await;
        alone.restart_operator();
        cause.after_the_start(&world, &scene, &format!("case-{number}")).await;
        let named = format!("cannot {verb} resource \"{resource}\"");
        eventually(&format!("{verb} {resource}: {words:?}, {named:?}"), || async {
            let said = said(&alone, &world, &scene, said_before).await;
            if said.lines().any(|line| line.contains(words) && line.contains(&named)) {
                Ok(())
            } else {
                Err(said)
            }
        })
        .await;
    }
    // With all of them it does its work again.
    alone.operator.kill();
    grant_all_but(&world, None).await;
    alone.restart_operator();
    world.config_map(&scene.team, "settings", &[("a", "at last")]).await;
    world.holds(&scene.foo, "settings", &[("a", "at last")]).await;
    world.finish().await;
}

/// The operator's log from there on, and what the conditions of `ServiceToken`s say.
async fn said(alone: &OwnOperator, world: &World, scene: &RbacScene, from: usize) -> String {
    let version = format!("{GROUP}/v1beta1");
    let tokens = resources::objects(world, &version, "ServiceToken", "servicetokens", &scene.team);
    let tokens = tokens.list(&ListParams::default()).await.unwrap();
    let conditions =
        tokens.iter().filter_map(|token| token.data["status"]["conditions"].as_array()).flatten();
    let messages: Vec<_> = conditions.filter_map(|condition| condition["message"].as_str()).collect();
    alone.operator.log().split_off(from) + &messages.join("\n")
}
