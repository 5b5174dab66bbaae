//! Labels and annotations of a ServiceToken, which the operator copies to its Secret with the rights of the writer.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use weaver_api::schema::{NEVER_COPIED, RESERVED_PREFIXES};
use weaver_tests::person::{ClusterUser, refusal};
use weaver_tests::world::{World, eventually};

use super::{Attack, MOST, objects, patched, service_token};

#[tokio::test]
async fn labels_and_annotations_that_reach_the_secret_of_a_service_token_are_judged_and_others_are_free() {
    let world = World::new("token-metadata").await;
    let team = service_token(&world).await;
    let attack = Attack::on(&world, &team, "ServiceToken", "tokens").await;
    let mark = json!({"metadata": {"labels": {"team": "a"}, "annotations": {"note": "x"}}});
    patched(&attack.admin, "tokens", &mark).await.unwrap();
    for api in [&attack.new, &attack.old] {
        for (labels, annotations) in [
            (json!({}), json!({"config-syncer.appscode.com/sync": ""})),
            (json!({}), json!({"v1.kubernetes-replicator.olli.com/replication-allowed": "true"})),
            (json!({}), json!({"propagate.hnc.x-k8s.io/all": "true"})),
            (json!({"owner": "helm"}), json!({})),
            (json!({"grafana_dashboard": "1"}), json!({})),
            (json!({"team": null}), json!({})),
            (json!({"team": "b"}), json!({})),
            (json!({}), json!({"note": null})),
            (json!({}), json!({"weaver.example.com/sync-now": "1", "note": "y"})),
        ] {
            let patch = json!({"metadata": {"labels": labels, "annotations": annotations}});
            let message =
                refusal(patched(api, "tokens", &patch).await).unwrap_or_else(|e| panic!("{patch}: {e}"));
            assert!(message.contains("may not name the ServiceAccount sync of"), "{message}");
        }
        // Server-side apply is a write like any other.
        let version = if std::ptr::eq(api, &raw const attack.new) { "v1beta1" } else { "v1alpha1" };
        let applied = json!({"apiVersion": format!("weaver.example.com/{version}"), "kind": "ServiceToken",
                             "metadata": {"name": "tokens", "labels": {"owner": "helm"}}});
        let params = PatchParams::apply("mallory").force();
        refusal(api.patch("tokens", &params, &Patch::Apply(&applied)).await).unwrap();
        for free in [
            json!({"annotations": {"weaver.example.com/sync-now": version}}),
            json!({"annotations": {"kubectl.kubernetes.io/last-applied-configuration": version}}),
            json!({"labels": {"app.kubernetes.io/managed-by": version}}),
            json!({"finalizers": ["example.com/theirs"]}),
            json!({"finalizers": null}),
            json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "b"}]}),
            json!({"ownerReferences": null}),
        ] {
            // An owner that is not there has the object deleted: nothing is kept.
            let params =
                PatchParams { dry_run: !free["ownerReferences"].is_null(), ..PatchParams::default() };
            let patch = json!({"metadata": free});
            api.patch("tokens", &params, &Patch::Merge(&patch))
                .await
                .unwrap_or_else(|e| panic!("{patch}: {e}"));
        }
    }
    let secret = world.secrets(&team).get("tokens").await.unwrap();
    for (key, _) in
        secret.metadata.annotations.iter().flatten().chain(secret.metadata.labels.iter().flatten())
    {
        assert!(!["owner", "config-syncer.appscode.com/sync"].contains(&key.as_str()), "{key}");
    }
    world.finish().await;
}

#[tokio::test]
async fn keys_of_deployment_tools_are_changed_freely_and_reach_no_secret() {
    let world = World::new("tools-metadata").await;
    let team = service_token(&world).await;
    world.sync(&team, "conf", world.spec(&team, &["nowhere"])).await;
    let prefixes: Vec<&str> = RESERVED_PREFIXES.into_iter().chain(NEVER_COPIED).collect();
    for (kind, name) in [("ServiceToken", "tokens"), ("ConfigMapSync", "conf")] {
        let attack = Attack::on(&world, &team, kind, name).await;
        for api in [&attack.new, &attack.old] {
            for value in [json!("one"), json!("two"), Value::Null] {
                let keys: serde_json::Map<String, Value> =
                    prefixes.iter().map(|prefix| (format!("{prefix}chart"), value.clone())).collect();
                let patch = json!({"metadata": {"labels": keys, "annotations": keys}});
                patched(api, name, &patch).await.unwrap_or_else(|error| panic!("{kind} {patch}: {error}"));
            }
            // What only looks like one of them is copied, and so it is judged.
            for key in ["helm.sh", "x.helm.sh/chart", "helm.shx/chart", "cert-manager.io.example.com/x"] {
                let patched = patched(api, name, &json!({"metadata": {"labels": {key: "one"}}})).await;
                match kind {
                    "ServiceToken" => drop(refusal(patched).unwrap_or_else(|done| panic!("{key}: {done}"))),
                    _ => drop(patched.unwrap_or_else(|error| panic!("{key}: {error}"))),
                }
            }
        }
    }
    // As a chart and a Kustomization label what they deploy, and the operator has written the Secret afterwards.
    let tools = json!({"helm.sh/chart": "tokens-2", "kustomize.toolkit.fluxcd.io/name": "apps"});
    let attack = Attack::on(&world, &team, "ServiceToken", "tokens").await;
    patched(&attack.new, "tokens", &json!({"metadata": {"labels": tools}})).await.unwrap();
    patched(&attack.admin, "tokens", &json!({"metadata": {"labels": {"team": "a"}}})).await.unwrap();
    eventually("the Secret has the other label and none of the tools'", || async {
        let labels = world.secrets(&team).get("tokens").await.unwrap().metadata.labels.unwrap_or_default();
        let tools = labels.keys().any(|key| key.contains("chart") || key.contains("fluxcd"));
        if labels.contains_key("team") && !tools { Ok(()) } else { Err(labels) }
    })
    .await;
    world.finish().await;
}

#[tokio::test]
async fn an_object_with_annotations_of_256_kib_and_17_accounts_is_judged_and_not_refused_for_its_size() {
    let world = World::new("large-judged").await;
    let team = world.namespace("team").await;
    let many: Vec<String> = (1..=16).map(|number| format!("account-{number}")).collect();
    let listed = many.iter().map(|account| json!({"key": account, "serviceAccount": {"name": account}}));
    let spec =
        json!({"writer": {"serviceAccount": {"name": "writer"}}, "tokens": listed.collect::<Vec<_>>()});
    world.apply_service_token(&team, "tokens", spec).await;
    let editor = ClusterUser::new(&world, &team, "editor").await;
    let named: Vec<&str> = many.iter().map(String::as_str).chain(["writer"]).collect();
    editor.may_impersonate(&world, &team, &named).await;
    let api = objects(&editor.client, "v1beta1", "ServiceToken", &team);
    let attack = Attack::on(&world, &team, "ServiceToken", "tokens").await;
    let mut measured = Vec::new();
    // Of few large ones, of many small ones.
    for count in [1, 100, 12_000] {
        let left = MOST - 2_000;
        let size = left / count;
        let annotations: serde_json::Map<String, Value> = (0..count)
            .map(|number| (format!("example.com/{number:05}"), json!("x".repeat(size.saturating_sub(17)))))
            .collect();
        let filled = json!({"metadata": {"annotations": annotations}});
        eventually("it is judged and let through", || async { patched(&api, "tokens", &filled).await }).await;
        let started = std::time::Instant::now();
        let touched =
            json!({"metadata": {"annotations": {"weaver.example.com/sync-now": format!("{count}")}}});
        patched(&attack.new, "tokens", &touched).await.unwrap_or_else(|e| panic!("{count}: {e}"));
        measured.push((count, started.elapsed()));
        let last = json!({"metadata": {"annotations": {format!("example.com/{:05}", count - 1): "changed"}}});
        refusal(patched(&attack.new, "tokens", &last).await).unwrap_or_else(|e| panic!("{count}: {e}"));
        let spec = json!({"spec": {"renewAtPercent": 10 + count % 80}});
        patched(&api, "tokens", &spec).await.unwrap_or_else(|e| panic!("{count}: {e}"));
        let none: serde_json::Map<String, Value> =
            (0..count).map(|number| (format!("example.com/{number:05}"), Value::Null)).collect();
        patched(&api, "tokens", &json!({"metadata": {"annotations": none}})).await.unwrap();
    }
    // As many as fit that are judged by their prefix alone, set at once and removed at once.
    let keys = || (0..12_000).map(|number| format!("helm.sh/{number:05}"));
    for value in [json!("x"), Value::Null] {
        let keys: serde_json::Map<String, Value> = keys().map(|key| (key, value.clone())).collect();
        let started = std::time::Instant::now();
        let patch = json!({"metadata": {"annotations": keys}});
        patched(&attack.new, "tokens", &patch).await.unwrap_or_else(|error| panic!("{value}: {error}"));
        measured.push((keys.len(), started.elapsed()));
    }
    println!("{measured:?}");
    world.finish().await;
}
