//! Objects of any kind: each is copied, followed and removed by the account of the tenant, or refused with the reason.

use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::json;
use weaver_tests::resources::{condition, define, delete, grant, objects, shows, spec, sync};
use weaver_tests::tenant::ACCOUNT;
use weaver_tests::world::{World, eventually};

use crate::resource_kinds::copied;

async fn definitions(world: &World) {
    define(world, "traefik.io", "Middleware", "middlewares", &["v1alpha1"]).await;
    define(world, "traefik.io", "IngressRoute", "ingressroutes", &["v1alpha1"]).await;
    define(world, "gadgets.example.com", "Gadget", "gadgets", &["v1"]).await;
}

#[tokio::test]
async fn each_kind_is_copied_followed_and_removed_by_the_tenants_account_alone() {
    let world = World::new("any-kind").await;
    definitions(&world).await;
    let team = world.tenant().await;
    let foo = world.target(&team, "foo").await;
    let kinds = copied();
    assert!(kinds.len() >= 20, "{}", kinds.len());
    for (version, kind, plural, object, ..) in &kinds {
        let group = version.split_once('/').map_or("", |(group, _)| group);
        grant(&world, &team, &[&team, &foo], group, plural).await;
        let mut object = object.clone();
        object["apiVersion"] = json!(version);
        object["kind"] = json!(kind);
        object["metadata"] =
            json!({"name": "it", "labels": {"mine": "yes"}, "finalizers": ["example.com/keep"]});
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let sources = objects(&world, version, kind, plural, &team);
        sources.create(&PostParams::default(), &object).await.unwrap();
        sync(&world, &team, plural, spec(&team, version, kind, "it", &[&foo])).await;
    }
    for (version, kind, plural, _, edit, pointer, expected) in &kinds {
        condition(&world, &team, plural, "Ready", "True", "Synced").await;
        let (sources, copies) =
            (objects(&world, version, kind, plural, &team), objects(&world, version, kind, plural, &foo));
        let copy = copies.get("it").await.unwrap();
        let of = |meta: &kube::core::ObjectMeta| meta.annotations.clone().unwrap_or_default();
        let source = &of(&copy.metadata)["weaver.example.com/source"];
        assert!(source.starts_with(kind) && source.ends_with("/it"), "{source}");
        assert_eq!(json!(copy.metadata.labels)["mine"], "yes", "{kind}");
        let finalizers = copy.metadata.finalizers.unwrap_or_default();
        assert!(!finalizers.iter().any(|one| one == "example.com/keep"), "{kind}: {finalizers:?}");
        assert_eq!(copy.metadata.owner_references, None, "{kind}");
        sources.patch("it", &PatchParams::default(), &Patch::Merge(edit)).await.unwrap();
        shows(&copies, "it", pointer, expected).await;
        condition(&world, &team, plural, "Ready", "True", "Synced").await;
    }
    // What the cluster gave each Service is its own, and an edit of the source does not take it away.
    let [theirs, ours] =
        [&team, &foo].map(|namespace| objects(&world, "v1", "Service", "services", namespace));
    let [theirs, ours] =
        [theirs.get("it").await.unwrap(), ours.get("it").await.unwrap()].map(|found| json!(found));
    for pointer in ["/spec/clusterIP", "/spec/ports/0/nodePort"] {
        let both = [&theirs, &ours].map(|service| service.pointer(pointer).cloned().unwrap_or_default());
        assert!(!both[0].is_null() && !both[1].is_null() && both[0] != both[1], "{pointer}: {both:?}");
    }

    // A copy that someone edits is put right, and one that someone deletes comes back.
    let policies = objects(&world, "networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", &foo);
    let opened = Patch::Merge(json!({"spec": {"policyTypes": ["Ingress"]}}));
    policies.patch("it", &PatchParams::default(), &opened).await.unwrap();
    shows(&policies, "it", "/spec/policyTypes/1", &json!("Egress")).await;
    policies.delete("it", &DeleteParams::default()).await.unwrap();
    shows(&policies, "it", "/spec/policyTypes/1", &json!("Egress")).await;

    for (version, kind, plural, ..) in &kinds {
        delete(&world, &team, plural).await;
        let (sources, copies) =
            (objects(&world, version, kind, plural, &team), objects(&world, version, kind, plural, &foo));
        eventually(&format!("the copy of {kind} is gone"), || async {
            // Claims keep a controller's finalizer until it has checked them.
            let there = copies.get_opt("it").await.unwrap();
            let left = there.filter(|copy| copy.metadata.deletion_timestamp.is_none());
            left.map_or(Ok(()), |copy| Err(copy.metadata.finalizers))
        })
        .await;
        let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        sources.patch("it", &PatchParams::default(), &free).await.unwrap();
    }

    // Each request of the operator for one of these objects was made by the tenant.
    let account = format!("system:serviceaccount:{team}:{ACCOUNT}");
    let mut seen = 0;
    for event in world.audit.events().iter() {
        let ours = event["userAgent"].as_str().is_some_and(|agent| agent.starts_with("weaver-operator/"));
        let resource = event["objectRef"]["resource"].as_str().unwrap_or_default();
        let here = [&team, &foo].iter().any(|namespace| event["objectRef"]["namespace"] == json!(namespace));
        let is_token = event["objectRef"]["subresource"] == "token";
        if ours && here && !is_token && kinds.iter().any(|(_, _, plural, ..)| *plural == resource) {
            assert_eq!(event["user"]["username"], account.as_str(), "{event:#}");
            seen += 1;
        }
    }
    // All that the operator's own account asks for is logged; of tenants, what is about NetworkPolicies.
    assert!(seen > 5, "{seen}");
    world.finish().await;
}

#[tokio::test]
async fn a_kind_that_is_not_copied_is_refused_with_the_reason() {
    let world = World::new("no-kind").await;
    let team = world.tenant().await;
    for (number, (version, kind, reason, words)) in [
        ("v1", "Pod", "KindNotCopied", "a Pod is bound to a node"),
        ("v1", "Endpoints", "KindNotCopied", "copy the Service"),
        ("v1", "Event", "KindNotCopied", "in its own namespace"),
        ("v1", "Binding", "KindNotCopied", "does not support delete, get, list"),
        ("v1", "Namespace", "KindNotCopied", "Namespace is cluster-scoped"),
        ("apps/v1", "ReplicaSet", "KindNotCopied", "copy the Deployment"),
        ("apps/v1", "ControllerRevision", "KindNotCopied", "is made by a StatefulSet"),
        ("batch/v1", "Job", "KindNotCopied", "copy a CronJob"),
        ("coordination.k8s.io/v1", "Lease", "KindNotCopied", "is renewed by its holder"),
        ("discovery.k8s.io/v1", "EndpointSlice", "KindNotCopied", "copy the Service"),
        ("rbac.authorization.k8s.io/v1", "ClusterRole", "KindNotCopied", "is cluster-scoped"),
        ("authorization.k8s.io/v1", "LocalSubjectAccessReview", "KindNotCopied", "does not support"),
        ("apps/v1", "TokenRequest", "KindNotServed", "serves no TokenRequest of apps/v1"),
        ("v1", "TokenRequest", "KindNotServed", "serves no TokenRequest of v1"),
        (
            "apps/v9",
            "Deployment",
            "KindNotServed",
            "serves Deployment at apps/v1 only: set spec.source.apiVersion",
        ),
        ("nowhere.example.com/v1", "Thing", "KindNotServed", "install its CustomResourceDefinition"),
        ("apps/v1", "deployments", "KindNotServed", "serves no deployments of apps/v1"),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("it-{number}");
        sync(&world, &team, &name, spec(&team, version, kind, "it", &[&team])).await;
        let ready = condition(&world, &team, &name, "Ready", "False", reason).await;
        assert!(ready.message.contains(words), "{version} {kind}: {}", ready.message);
        delete(&world, &team, &name).await;
    }
    world.config_map(&team, "touched", &[]).await;
    world.finish().await;
}
