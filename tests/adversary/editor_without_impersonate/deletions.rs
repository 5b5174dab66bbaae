//! `kubectl delete --cascade=orphan` of a ConfigMapSync, by anyone who may delete it: the API server would take
//! the finalizer `orphan` off before the operator sees the deletion, and the copies would be removed.

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, PostParams};
use serde_json::{Value, json};
use weaver_tests::person::refusal_by;
use weaver_tests::world::{World, eventually};

use super::{objects, patched};

/// Every way to ask for a deletion that would orphan.
async fn orphaned(api: &Api<DynamicObject>, name: &str, options: &Value) -> kube::Result<String> {
    let path = format!("{}/{name}", api.resource_url());
    let request = http::Request::delete(path).header("content-type", "application/json");
    api.clone().into_client().request_text(request.body(options.to_string().into_bytes()).unwrap()).await
}

#[tokio::test]
async fn a_deletion_that_would_orphan_is_refused_and_the_copies_stay() {
    let world = World::new("cascade-orphan").await;
    let (team, foo) = world.synced().await;
    let copy = world.config_maps(&foo).get("settings").await.unwrap();
    for version in ["v1beta1", "v1alpha1"] {
        let api = objects(&world.client, version, "ConfigMapSync", &team);
        for options in [
            json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Orphan"}),
            json!({"apiVersion": "v1", "kind": "DeleteOptions", "orphanDependents": true}),
        ] {
            let said = refusal_by("weaver-deletions", orphaned(&api, "sync", &options).await).unwrap();
            for words in [
                &format!(
                    "kubectl -n {team} patch cms sync --type=merge -p '{{\"spec\":{{\"deletionPolicy\":\"Orphan\"}}}}'"
                ),
                &format!("weaver sync delete sync -n {team} --orphan"),
            ] {
                assert!(said.contains(words.as_str()), "{words:?} is not in: {said}");
            }
        }
        for finalizers in [json!(["orphan"]), json!(["weaver.example.com/cleanup", "orphan"])] {
            let patch = json!({"metadata": {"finalizers": finalizers}});
            refusal_by("weaver-deletions", patched(&api, "sync", &patch).await).unwrap();
        }
        let orphan = DeleteParams {
            propagation_policy: Some(kube::api::PropagationPolicy::Orphan),
            ..DeleteParams::default()
        };
        let collection = api.delete_collection(&orphan, &ListParams::default()).await;
        refusal_by("weaver-deletions", collection).unwrap();
        let mut created = api.get("sync").await.unwrap();
        created.metadata = kube::core::ObjectMeta {
            name: Some("born".into()),
            finalizers: Some(vec!["orphan".into()]),
            ..kube::core::ObjectMeta::default()
        };
        refusal_by("weaver-deletions", api.create(&PostParams::default(), &created).await).unwrap();
    }
    for flag in ["--cascade=orphan", "--cascade=false"] {
        let output = std::process::Command::new(weaver_tests::world::given("WEAVER_TEST_SERVER_BIN"))
            .args(["kubectl", "-n", &team, "delete", "configmapsync", "sync", flag])
            .env("KUBECONFIG", weaver_tests::world::given("WEAVER_TEST_KUBECONFIG"))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        // kubectl of some release does not know the older spelling any more, and then asks for nothing.
        let refused =
            said.contains("weaver-deletions") || flag == "--cascade=false" && said.contains("invalid");
        assert!(!output.status.success() && refused, "{flag}: {said}");
    }
    assert_eq!(world.config_maps(&foo).get("settings").await.unwrap().metadata.uid, copy.metadata.uid);
    let admin = objects(&world.client, "v1beta1", "ConfigMapSync", &team);
    assert!(admin.get("sync").await.unwrap().metadata.deletion_timestamp.is_none());

    // What was said instead does keep them; other deletions continue, that of the namespace too.
    let kept = json!({"spec": {"deletionPolicy": "Orphan"}});
    patched(&admin, "sync", &kept).await.unwrap();
    let foreground = DeleteParams::foreground();
    admin.delete("sync", &foreground).await.unwrap();
    eventually("it is gone", || async { admin.get_opt("sync").await.unwrap().map_or(Ok(()), Err) }).await;
    assert_eq!(world.config_maps(&foo).get("settings").await.unwrap().metadata.uid, copy.metadata.uid);
    world.sync(&team, "again", world.spec(&team, &["nowhere"])).await;
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    namespaces.delete(&team, &DeleteParams::default()).await.unwrap();
    eventually("the namespace is gone", || async {
        namespaces.get_opt(&team).await.unwrap().map_or(Ok(()), |left| Err(left.status))
    })
    .await;
    world.finish().await;
}
