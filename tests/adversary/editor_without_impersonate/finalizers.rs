//! Metadata that the operator obeys: its finalizer, the upstream operator's, the pinned source of an upgrade,
//! and a pause.

use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::config::KubeConfigOptions;
use kube::{Client, Config};
use serde_json::{Value, json};
use weaver_api::ownership::{
    FINALIZER, PAUSED_ANNOTATION, SYNC_NOW_ANNOTATION, UPSTREAM_FINALIZER, UPSTREAM_SOURCE_ANNOTATION,
};
use weaver_tests::own::OwnServer;
use weaver_tests::person::{ClusterUser, refusal};
use weaver_tests::world::{World, eventually};

use super::{Attack, objects, patched, service_token};

fn finalizers(names: impl Into<Value>) -> Value {
    json!({"metadata": {"finalizers": names.into()}})
}

fn annotated(key: &str, value: impl Into<Value>) -> Value {
    json!({"metadata": {"annotations": {key: value.into()}}})
}

/// The policy refuses this patch.
async fn refused(api: &Api<DynamicObject>, name: &str, patch: &Value) {
    let said = refusal(patched(api, name, patch).await).unwrap_or_else(|done| panic!("{patch}: {done}"));
    assert!(said.contains("or change what Config Weaver does as that account"), "{said}");
}

async fn allowed(api: &Api<DynamicObject>, name: &str, patch: &Value) {
    patched(api, name, patch).await.unwrap_or_else(|error| panic!("{patch}: {error}"));
}

#[tokio::test]
async fn our_finalizer_cannot_be_removed_so_a_deletion_takes_the_copies_with_it() {
    let world = World::new("finalizer-removed").await;
    let (team, foo) = world.synced().await;
    let attack = Attack::on(&world, &team, "ConfigMapSync", "sync").await;
    let held = async || attack.admin.get("sync").await.unwrap().metadata.finalizers;
    for api in [&attack.new, &attack.old] {
        for others in
            [json!(null), json!([]), json!(["example.com/theirs"]), json!(["weaver.example.com/cleanup2"])]
        {
            refused(api, "sync", &finalizers(others)).await;
        }
        // The operator writes the status meanwhile, and then the object is read again.
        eventually("a replacement without it is refused", || async {
            let mut object = api.get("sync").await.unwrap();
            object.metadata.finalizers = None;
            refusal(api.replace("sync", &PostParams::default(), &object).await)
        })
        .await;
        let status = json!({"metadata": {"finalizers": null}, "status": {}});
        api.patch_status("sync", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
        assert_eq!(held().await, Some(vec![FINALIZER.to_owned()]));
        // Finalizers of others are free.
        for others in [json!([FINALIZER, "example.com/theirs"]), json!([FINALIZER])] {
            allowed(api, "sync", &finalizers(others)).await;
        }
    }
    attack.new.delete("sync", &DeleteParams::default()).await.unwrap();
    world.lacks(&foo, "settings").await;
    eventually("it is gone", || async { attack.admin.get_opt("sync").await.unwrap().map_or(Ok(()), Err) })
        .await;
    world.finish().await;
}

#[tokio::test]
async fn an_upgrade_from_upstream_cannot_be_feigned_to_take_over_an_object() {
    let world = World::new("feigned-upgrade").await;
    let team = world.tenant().await;
    let (foo, bar) = (world.target(&team, "foo").await, world.target(&team, "bar").await);
    world.config_map(&team, "settings", &[("a", "1")]).await;
    world.config_map(&foo, "settings", &[("of", "theirs")]).await;
    let ownership = json!({"metadata": {
        "annotations": {"configmapsync.io/owner-name": "sync", "configmapsync.io/owner-namespace": team},
        "labels": {"cmsOwnerName": "sync", "cmsOwnerNamespace": team},
    }});
    let maps = world.config_maps(&foo);
    let theirs = maps.patch("settings", &PatchParams::default(), &Patch::Merge(&ownership)).await.unwrap();
    world.sync(&team, "sync", world.spec(&team, &[&foo])).await;
    world.condition(&team, "sync", "Conflicted", "True", "Conflict").await;

    let attack = Attack::on(&world, &team, "ConfigMapSync", "sync").await;
    eventually("the operator has set its finalizer", || async {
        let found = attack.admin.get("sync").await.unwrap().metadata.finalizers;
        if found == Some(vec![FINALIZER.to_owned()]) { Ok(()) } else { Err(found) }
    })
    .await;
    let source = format!("{team}/settings");
    for api in [&attack.new, &attack.old] {
        let mut both = finalizers(json!([FINALIZER, UPSTREAM_FINALIZER]));
        both["metadata"]["annotations"] =
            json!({UPSTREAM_SOURCE_ANNOTATION: source, SYNC_NOW_ANNOTATION: "1"});
        for patch in [
            both,
            // The operator itself would add the annotation.
            finalizers(json!([FINALIZER, UPSTREAM_FINALIZER])),
            finalizers(json!(["example.com/theirs", UPSTREAM_FINALIZER, FINALIZER])),
            annotated(UPSTREAM_SOURCE_ANNOTATION, json!(source)),
        ] {
            refused(api, "sync", &patch).await;
        }
    }
    // The operator has reconciled all of it when it has written the other copy.
    world.sync(&team, "sync", world.spec(&team, &[&foo, &bar])).await;
    world.holds(&bar, "settings", &[("a", "1")]).await;
    assert_eq!(maps.get("settings").await.unwrap(), theirs);

    // A user who may impersonate the account may have it taken over.
    let editor = ClusterUser::new(&world, &team, "editor").await;
    editor.may_impersonate(&world, &team, &["sync"]).await;
    let api = objects(&editor.client, "v1beta1", "ConfigMapSync", &team);
    let mut begin = annotated(SYNC_NOW_ANNOTATION, json!("look at the conflict again"));
    begin["metadata"]["finalizers"] = json!([FINALIZER, UPSTREAM_FINALIZER]);
    eventually("the editor may", || async { patched(&api, "sync", &begin).await }).await;
    world.holds(&foo, "settings", &[("a", "1")]).await;
    eventually("the operator has ended the upgrade", || async {
        let metadata = attack.admin.get("sync").await.unwrap().metadata;
        let pinned = metadata.annotations.iter().flatten().any(|(key, _)| key == UPSTREAM_SOURCE_ANNOTATION);
        let ended = metadata.finalizers == Some(vec![FINALIZER.to_owned()]) && !pinned;
        if ended { Ok(()) } else { Err(metadata) }
    })
    .await;
    world.finish().await;
}

#[tokio::test]
async fn a_pause_is_set_and_lifted_only_by_a_user_who_may_impersonate_the_accounts() {
    let world = World::new("pauses").await;
    let team = service_token(&world).await;
    world.sync(&team, "conf", world.spec(&team, &["nowhere"])).await;
    let editor = ClusterUser::new(&world, &team, "editor").await;
    editor.may_impersonate(&world, &team, &["sync", "robot"]).await;
    for (kind, name) in [("ConfigMapSync", "conf"), ("ServiceToken", "tokens")] {
        let attack = Attack::on(&world, &team, kind, name).await;
        let permitted = objects(&editor.client, "v1beta1", kind, &team);
        for api in [&attack.new, &attack.old] {
            refused(api, name, &annotated(PAUSED_ANNOTATION, json!("mine"))).await;
            // An empty reason is a pause too.
            refused(api, name, &annotated(PAUSED_ANNOTATION, json!(""))).await;
            eventually("the editor may", || async {
                patched(&permitted, name, &annotated(PAUSED_ANNOTATION, json!("an audit"))).await
            })
            .await;
            refused(api, name, &annotated(PAUSED_ANNOTATION, Value::Null)).await;
            refused(api, name, &annotated(PAUSED_ANNOTATION, json!("another reason"))).await;
            allowed(&permitted, name, &annotated(PAUSED_ANNOTATION, Value::Null)).await;
            allowed(api, name, &annotated(SYNC_NOW_ANNOTATION, json!("again"))).await;
            allowed(api, name, &annotated(SYNC_NOW_ANNOTATION, Value::Null)).await;
        }
    }
    world.finish().await;
}

/// A server without an operator: each write of an upgrade, and of a deletion, is made by hand.
#[tokio::test]
async fn each_write_of_the_operator_is_allowed_to_it_alone_and_no_other_is_own_server() {
    let own = OwnServer::start().await;
    own.install().await.unwrap();
    own.apply("deploy/rbac/operator.yaml").await;
    let world = World::on(own.client.clone(), "operator-writes", own.logs());
    let team = world.namespace("team").await;
    let kubeconfig = own.kubeconfig_of(weaver_api::OPERATOR_NAMESPACE, weaver_api::OPERATOR_ACCOUNT).await;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let operator = objects(&Client::try_from(config).unwrap(), "v1beta1", "ConfigMapSync", &team);
    let administrator = own.server.kubeconfig();
    let mallory = ClusterUser::by(&administrator, &world, &team, "mallory").await;
    let mallory = objects(&mallory.client, "v1beta1", "ConfigMapSync", &team);
    let editor = ClusterUser::by(&administrator, &world, &team, "editor").await;
    editor.may_impersonate(&world, &team, &["sync"]).await;
    let editor = objects(&editor.client, "v1beta1", "ConfigMapSync", &team);
    let admin = objects(&own.client, "v1beta1", "ConfigMapSync", &team);
    let (ours, upstreams) = (FINALIZER, UPSTREAM_FINALIZER);
    let pinned = |source: Value| annotated(UPSTREAM_SOURCE_ANNOTATION, source);

    let sync: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "weaver.example.com/v1beta1", "kind": "ConfigMapSync",
        "metadata": {"name": "sync", "finalizers": [upstreams]}, "spec": world.spec(&team, &["nowhere"]),
    }))
    .unwrap();
    eventually("the kind is served", || async { admin.create(&PostParams::default(), &sync).await }).await;
    eventually("the policy is in force", || async {
        refusal(patched(&mallory, "sync", &finalizers(Value::Null)).await)
    })
    .await;

    // The operator pins the source, once.
    refused(&mallory, "sync", &pinned(json!("a/b"))).await;
    allowed(&operator, "sync", &pinned(json!("a/b"))).await;
    for source in [json!("a/c"), Value::Null] {
        refused(&operator, "sync", &pinned(source.clone())).await;
        refused(&mallory, "sync", &pinned(source)).await;
    }
    // It sets its finalizer, and does not remove it.
    refused(&mallory, "sync", &finalizers(json!([upstreams, ours]))).await;
    allowed(&operator, "sync", &finalizers(json!([upstreams, ours]))).await;
    refused(&operator, "sync", &finalizers(json!([upstreams]))).await;
    refused(&operator, "sync", &annotated(PAUSED_ANNOTATION, json!("a reason"))).await;
    // It ends the upgrade, and does not begin it again.
    let mut end = finalizers(json!([ours]));
    end["metadata"]["annotations"] = json!({UPSTREAM_SOURCE_ANNOTATION: null});
    refused(&mallory, "sync", &end).await;
    allowed(&operator, "sync", &end).await;
    refused(&operator, "sync", &finalizers(json!([ours, upstreams]))).await;
    refused(&operator, "sync", &pinned(json!("a/b"))).await;

    // A deleted object is released by the operator, or by a user who may impersonate the account.
    mallory.delete("sync", &DeleteParams::default()).await.unwrap();
    refused(&mallory, "sync", &finalizers(Value::Null)).await;
    refused(&mallory, "sync", &json!({"metadata": {"finalizers": null}, "spec": null})).await;
    for api in [&editor, &admin] {
        let dry_run = PatchParams { dry_run: true, ..PatchParams::default() };
        let release = finalizers(Value::Null);
        eventually("it may be released", || async {
            api.patch("sync", &dry_run, &Patch::Merge(&release)).await
        })
        .await;
    }
    assert!(admin.get("sync").await.unwrap().metadata.deletion_timestamp.is_some());
    allowed(&operator, "sync", &finalizers(json!([]))).await;
    eventually("it is gone", || async { admin.get_opt("sync").await.unwrap().map_or(Ok(()), Err) }).await;
}
