//! What a copy of any kind may not do, or cannot: rights, immutable fields, kinds that come and go.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::json;
use weaver_tests::resources::{condition, define, delete, grant, objects, shows, spec, sync, syncs};
use weaver_tests::tenant::ACCOUNT;
use weaver_tests::world::{World, eventually};

#[tokio::test]
async fn a_role_that_grants_more_than_the_account_has_is_refused_by_the_api_server() {
    const RBAC: &str = "rbac.authorization.k8s.io/v1";
    let world = World::new("escalates").await;
    let team = world.tenant().await;
    let foo = world.target(&team, "foo").await;
    let group = "rbac.authorization.k8s.io";
    grant(&world, &team, &[&team, &foo], group, "roles").await;
    grant(&world, &team, &[&team, &foo], group, "rolebindings").await;
    let role = |resource: &str| -> DynamicObject {
        serde_json::from_value(json!({"apiVersion": RBAC, "kind": "Role", "metadata": {"name": "it"},
            "rules": [{"apiGroups": [""], "resources": [resource], "verbs": ["get"]}]}))
        .unwrap()
    };
    let roles = objects(&world, RBAC, "Role", "roles", &team);
    roles.create(&PostParams::default(), &role("secrets")).await.unwrap();
    sync(&world, &team, "role", spec(&team, RBAC, "Role", "it", &[&foo])).await;
    // A binding to what may do anything escalates as well.
    let binding = serde_json::from_value(
        json!({"apiVersion": RBAC, "kind": "RoleBinding", "metadata": {"name": "all"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": team}]}),
    )
    .unwrap();
    let bindings = objects(&world, RBAC, "RoleBinding", "rolebindings", &team);
    bindings.create(&PostParams::default(), &binding).await.unwrap();
    // In the tenant's own namespace it would count at once: bound there, it may read what it copies, and no more.
    sync(&world, &team, "binding", spec(&team, RBAC, "RoleBinding", "all", &[&foo])).await;
    for name in ["role", "binding"] {
        let reported = condition(&world, &team, name, "TargetsSynced", "False", "TargetsFailed").await;
        let words = format!("user \"system:serviceaccount:{team}:{ACCOUNT}\"");
        assert!(
            reported.message.contains("is attempting to grant RBAC permissions not currently held"),
            "{}",
            reported.message
        );
        assert!(reported.message.contains(&words), "{}", reported.message);
    }
    assert!(objects(&world, RBAC, "Role", "roles", &foo).get_opt("it").await.unwrap().is_none());
    assert!(
        objects(&world, RBAC, "RoleBinding", "rolebindings", &foo).get_opt("all").await.unwrap().is_none()
    );

    // The rights that the account has there, it may grant there.
    let less =
        Patch::Merge(json!({"rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]}));
    roles.patch("it", &PatchParams::default(), &less).await.unwrap();
    condition(&world, &team, "role", "Ready", "True", "Synced").await;
    delete(&world, &team, "role").await;
    delete(&world, &team, "binding").await;
    world.finish().await;
}

#[tokio::test]
async fn missing_rights_are_named_with_a_role_for_that_kind() {
    const KIND: (&str, &str, &str) = ("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies");
    let world = World::new("kind-rights").await;
    let team = world.tenant().await;
    let foo = world.target(&team, "foo").await;
    let [sources, copies] = [&team, &foo].map(|namespace| objects(&world, KIND.0, KIND.1, KIND.2, namespace));
    for name in ["a", "b"] {
        let policy = json!({"apiVersion": KIND.0, "kind": KIND.1, "metadata": {"name": name, "labels": {"share": "true"}},
            "spec": {"podSelector": {}}});
        sources.create(&PostParams::default(), &serde_json::from_value(policy).unwrap()).await.unwrap();
    }
    let mut spec = spec(&team, KIND.0, KIND.1, "a", &[&foo]);
    spec["source"]["name"].take();
    spec["source"] = json!({"apiVersion": KIND.0, "kind": KIND.1, "namespace": team, "selector": {"matchLabels": {"share": "true"}}});
    sync(&world, &team, "sync", spec.clone()).await;
    for _ in 0..2 {
        let reported = eventually("its rights are there, or are named", || async {
            let sync = syncs(&world, &team).get("sync").await.unwrap();
            let conditions = sync.status.unwrap_or_default().conditions;
            let of = |kind: &str| conditions.iter().find(|condition| condition.type_ == kind).cloned();
            match (of("Ready"), of("Authorized")) {
                (Some(ready), _) if ready.status == "True" => Ok(None),
                (_, Some(lacks)) if lacks.reason == "MissingRights" => Ok(Some(lacks.message)),
                _ => Err(conditions),
            }
        })
        .await;
        let Some(reported) = reported else { break };
        assert!(reported.contains("networkpolicies.networking.k8s.io in namespace"), "{reported}");
        let (_, roles) = reported.split_once("grant it with:\n").unwrap();
        world.apply_printed(roles).await;
        let again = Patch::Merge(
            json!({"metadata": {"annotations": {"weaver.example.com/sync-now": reported.len().to_string()}}}),
        );
        syncs(&world, &team).patch("sync", &PatchParams::default(), &again).await.unwrap();
        eventually("what was missing is not any more", || async {
            let sync = syncs(&world, &team).get("sync").await.unwrap();
            let conditions = sync.status.unwrap_or_default().conditions;
            let same = conditions.iter().any(|condition| condition.message == reported);
            if same { Err(conditions) } else { Ok(()) }
        })
        .await;
    }
    condition(&world, &team, "sync", "Ready", "True", "Synced").await;
    for name in ["a", "b"] {
        shows(&copies, name, "/spec/policyTypes/0", &json!("Ingress")).await;
    }
    // The copy of a deleted one stays, or is deleted, as the spec says.
    spec["sourceDeletionPolicy"] = json!("Delete");
    sync(&world, &team, "sync", spec).await;
    sources.delete("b", &DeleteParams::default()).await.unwrap();
    eventually("its copy is gone", || async { copies.get_opt("b").await.unwrap().map_or(Ok(()), Err) }).await;
    delete(&world, &team, "sync").await;
    world.finish().await;
}

#[tokio::test]
async fn an_immutable_field_is_named_and_replaced_only_where_the_spec_says_so() {
    const KIND: (&str, &str, &str) = ("apps/v1", "Deployment", "deployments");
    let world = World::new("immutable").await;
    let team = world.tenant().await;
    let foo = world.target(&team, "foo").await;
    grant(&world, &team, &[&team, &foo], "apps", "deployments").await;
    let [sources, copies] = [&team, &foo].map(|namespace| objects(&world, KIND.0, KIND.1, KIND.2, namespace));
    let deployment = |app: &str| -> DynamicObject {
        let labels = json!({"app": app});
        serde_json::from_value(json!({"apiVersion": KIND.0, "kind": KIND.1, "metadata": {"name": "web"}, "spec": {
            "replicas": 0, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}},
        }}))
        .unwrap()
    };
    sources.create(&PostParams::default(), &deployment("one")).await.unwrap();
    let mut spec = spec(&team, KIND.0, KIND.1, "web", &[&foo]);
    sync(&world, &team, "sync", spec.clone()).await;
    let before = shows(&copies, "web", "/spec/selector/matchLabels/app", &json!("one")).await;
    condition(&world, &team, "sync", "Ready", "True", "Synced").await;

    sources.delete("web", &DeleteParams::default()).await.unwrap();
    sources.create(&PostParams::default(), &deployment("two")).await.unwrap();
    let reported = condition(&world, &team, "sync", "TargetsSynced", "False", "TargetsFailed").await;
    assert!(reported.message.contains("spec.selector"), "{}", reported.message);
    assert!(reported.message.contains("spec.immutablePolicy: Replace"), "{}", reported.message);
    assert_eq!(copies.get("web").await.unwrap().metadata.uid, before.metadata.uid);

    spec["immutablePolicy"] = json!("Replace");
    sync(&world, &team, "sync", spec).await;
    let after = shows(&copies, "web", "/spec/selector/matchLabels/app", &json!("two")).await;
    assert_ne!(after.metadata.uid, before.metadata.uid);
    condition(&world, &team, "sync", "Ready", "True", "Synced").await;
    delete(&world, &team, "sync").await;
    world.finish().await;
}

#[tokio::test]
async fn a_kind_that_comes_changes_its_version_and_goes_is_found_without_a_restart() {
    let world = World::new("kind-comes").await;
    let team = world.tenant().await;
    let foo = world.target(&team, "foo").await;
    let group = format!("{}.example.com", world.name("w"));
    let of = |version: &str| format!("{group}/{version}");
    grant(&world, &team, &[&team, &foo], &group, "widgets").await;
    let mut spec = spec(&team, &of("v1"), "Widget", "it", &[&foo]);
    sync(&world, &team, "sync", spec.clone()).await;
    let reported = condition(&world, &team, "sync", "Ready", "False", "KindNotServed").await;
    assert!(reported.message.contains("install its CustomResourceDefinition"), "{}", reported.message);

    define(&world, &group, "Widget", "widgets", &["v1", "v2"]).await;
    let widgets =
        |version: &str, namespace: &str| objects(&world, &of(version), "Widget", "widgets", namespace);
    let widget =
        json!({"apiVersion": of("v1"), "kind": "Widget", "metadata": {"name": "it"}, "spec": {"size": 1}});
    widgets("v1", &team)
        .create(&PostParams::default(), &serde_json::from_value(widget).unwrap())
        .await
        .unwrap();
    let copy = shows(&widgets("v1", &foo), "it", "/spec/size", &json!(1)).await;
    condition(&world, &team, "sync", "Ready", "True", "Synced").await;

    // A version that is not served any more says nothing of the objects.
    spec["sourceDeletionPolicy"] = json!("Delete");
    sync(&world, &team, "sync", spec.clone()).await;
    condition(&world, &team, "sync", "Ready", "True", "Synced").await;
    let definitions: Api<CustomResourceDefinition> = Api::all(world.client.clone());
    let definition = format!("widgets.{group}");
    let mut changed = definitions.get(&definition).await.unwrap();
    changed.spec.versions.iter_mut().for_each(|version| {
        (version.served, version.storage) = (version.name == "v2", version.name == "v2");
    });
    changed.metadata.managed_fields = None;
    definitions.replace(&definition, &PostParams::default(), &changed).await.unwrap();
    let again = Patch::Merge(json!({"metadata": {"annotations": {"weaver.example.com/sync-now": "1"}}}));
    eventually("the API server has stopped serving it", || async {
        let served = widgets("v1", &team).get_opt("it").await.is_ok_and(|found| found.is_some());
        if served { Err("it is served") } else { Ok(()) }
    })
    .await;
    syncs(&world, &team).patch("sync", &PatchParams::default(), &again).await.unwrap();
    let reported = condition(&world, &team, "sync", "Ready", "False", "KindNotServed").await;
    assert!(
        reported.message.contains(&format!("serves Widget at {} only", of("v2"))),
        "{}",
        reported.message
    );
    assert!(reported.message.contains("existing copies stay"), "{}", reported.message);
    let there = widgets("v2", &foo).get("it").await.unwrap();
    assert_eq!(there.metadata.uid, copy.metadata.uid);

    // Another kind, or another group, is another ResourceSync.
    for (version, kind) in [(of("v2"), "Gadget"), ("apps/v1".to_owned(), "Widget")] {
        let source = Patch::Merge(json!({"spec": {"source": {"apiVersion": version, "kind": kind}}}));
        let refused = syncs(&world, &team).patch("sync", &PatchParams::default(), &source).await.unwrap_err();
        assert!(refused.to_string().contains("spec.source.kind"), "{refused}");
    }
    let without = Patch::Merge(json!({"spec": null}));
    let refused = syncs(&world, &team).patch("sync", &PatchParams::default(), &without).await.unwrap_err();
    assert!(refused.to_string().contains("spec: Required"), "{refused}");
    spec["source"]["apiVersion"] = json!(of("v2"));
    sync(&world, &team, "sync", spec).await;
    condition(&world, &team, "sync", "Ready", "True", "Synced").await;
    let edit = Patch::Merge(json!({"spec": {"size": 2}}));
    widgets("v2", &team).patch("it", &PatchParams::default(), &edit).await.unwrap();
    let followed = shows(&widgets("v2", &foo), "it", "/spec/size", &json!(2)).await;
    assert_eq!(followed.metadata.uid, copy.metadata.uid);

    // With its definition all its objects go; the resource says so, and does not hang when it is deleted.
    definitions.delete(&definition, &DeleteParams::default()).await.unwrap();
    eventually("the definition is gone", || async {
        definitions.get_opt(&definition).await.unwrap().map_or(Ok(()), |found| Err(found.metadata.finalizers))
    })
    .await;
    let again = Patch::Merge(json!({"metadata": {"annotations": {"weaver.example.com/sync-now": "2"}}}));
    syncs(&world, &team).patch("sync", &PatchParams::default(), &again).await.unwrap();
    condition(&world, &team, "sync", "Ready", "False", "KindNotServed").await;
    delete(&world, &team, "sync").await;
    world.finish().await;
}
