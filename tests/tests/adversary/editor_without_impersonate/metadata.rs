//! Labels and annotations of a ServiceToken, which the operator copies to its Secret with the rights of the writer.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use weaver_tests::person::{Person, refusal};
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
            json!({"annotations": {"weaver.example.com/paused": "a reason"}}),
            json!({"annotations": {"weaver.example.com/paused": null}}),
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
async fn an_object_with_annotations_of_256_kib_and_17_accounts_is_judged_and_not_refused_for_its_size() {
    let world = World::new("large-judged").await;
    let team = world.namespace("team").await;
    let many: Vec<String> = (1..=16).map(|number| format!("account-{number}")).collect();
    let listed = many.iter().map(|account| json!({"key": account, "serviceAccount": {"name": account}}));
    let spec =
        json!({"writer": {"serviceAccount": {"name": "writer"}}, "tokens": listed.collect::<Vec<_>>()});
    world.apply_service_token(&team, "tokens", spec).await;
    let editor = Person::new(&world, &team, "editor").await;
    let named: Vec<&str> = many.iter().map(String::as_str).chain(["writer"]).collect();
    editor.may_impersonate(&world, &team, &named).await;
    let api = objects(&editor.client, "v1beta1", "ServiceToken", &team);
    let attack = Attack::on(&world, &team, "ServiceToken", "tokens").await;
    let mut measured = Vec::new();
    // Of few large ones, of many small ones.
    for count in [1, 100, 4_000, 12_000] {
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
    println!("{measured:?}");
    world.finish().await;
}
