//! From the last release to this one: nothing is lost, and no copy is written again.

use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use weaver_api::v1alpha1;
use weaver_tests::alone::OwnOperator;
use weaver_tests::cli::{ended, weaver_on};
use weaver_tests::own::OwnServer;
use weaver_tests::releases::{another_release, change_to, server, stored, this_release};
use weaver_tests::world::eventually;

const RELEASED: [&str; 3] = ["configmapsyncs", "servicetokens", "nodereports"];

/// Installs the definitions of the last release as its installer did: with the webhook and the CA to trust.
async fn install_released(own: &OwnServer) {
    let address = own.webhook.address();
    let webhook = json!([
        {"op": "replace", "path": "/spec/conversion/webhook/clientConfig",
         "value": {"url": address.url, "caBundle": k8s_openapi::ByteString(address.ca_bundle.into_bytes())}},
    ]);
    for name in RELEASED {
        own.apply(&format!("deploy/crds/released/{name}.yaml")).await;
        let crd = format!("{name}.weaver.example.com");
        own.kubectl(&["patch", "crd", &crd, "--type=json", "-p", &webhook.to_string()]);
        own.kubectl(&["wait", "--for=condition=Established", &format!("crd/{crd}")]);
    }
}

async fn create_old(own: &OwnServer, resource: &ApiResource, namespace: &str, name: &str, spec: Value) {
    let api: Api<DynamicObject> = Api::namespaced_with(own.client.clone(), namespace, resource);
    let object = json!({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}, "spec": spec});
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    eventually("v1alpha1 is served", || async { api.create(&PostParams::default(), &object).await }).await;
}

#[tokio::test]
async fn what_the_last_release_made_is_neither_lost_nor_written_again() {
    let own = OwnServer::start().await;
    install_released(&own).await;
    nothing_is_lost_or_written_again(own).await;
}

#[tokio::test]
#[ignore = "needs programs of another release: make test-skew PREVIOUS=DIR"]
async fn what_programs_of_another_release_made_is_neither_lost_nor_written_again() {
    let old = another_release();
    nothing_is_lost_or_written_again(server(&old, &old, &old).await).await;
}

async fn nothing_is_lost_or_written_again(own: OwnServer) {
    let mut alone = OwnOperator::direct_on(own, &[]).await;
    let world = alone.world("last-release");
    let (team, foo) = world.synced().await;
    let bar = world.target(&team, "bar").await;
    let mut old_spec = world.old_spec(&team, &[&bar]);
    old_spec["testNum"] = json!(5);
    create_old(&alone.own, &ApiResource::erase::<v1alpha1::ConfigMapSync>(&()), &team, "old", old_spec).await;
    world.holds(&bar, "settings", &[("a", "1")]).await;
    world.condition(&team, "old", "Ready", "True", "Synced").await;
    for name in ["tokens", "sync-token"] {
        world.grant_writer(&team, name).await;
    }
    world.robot(&team, "robot").await;
    world.service_token(&team, "tokens", &[("a", "robot")]).await;
    world.fresh(&team, "tokens").await;
    // At v1alpha1 one account writes the Secret and is whose token it is.
    let agrees = json!({"metadata": {"labels": {"weaver.example.com/allow-tokens": "true"}}});
    world.accounts(&team).patch("sync", &PatchParams::default(), &Patch::Merge(agrees)).await.unwrap();
    let spec = json!({"serviceAccount": {"name": "sync"}});
    create_old(&alone.own, &ApiResource::erase::<v1alpha1::ServiceToken>(&()), &team, "sync-token", spec)
        .await;
    world.fresh(&team, "sync-token").await;

    let made = || async {
        (
            [
                world.config_maps(&foo).get("settings").await.unwrap(),
                world.config_maps(&bar).get("settings").await.unwrap(),
            ],
            [
                world.secrets(&team).get("tokens").await.unwrap().metadata,
                world.secrets(&team).get("sync-token").await.unwrap().metadata,
            ],
        )
    };
    let (copies, before) = (made().await, stored(&alone.own));
    assert_eq!(before.len(), 8, "each of four at two versions: {before:#?}");
    let said = change_to(&mut alone, &this_release()).await;
    assert!(said.done, "{said:?}");
    assert!(!alone.own.install().await.unwrap().changed(), "all is today's");
    assert_eq!(stored(&alone.own), before);

    // Each is reconciled by the new operator: a change that no copy shows has it judge its new generation.
    for name in ["sync", "old"] {
        let change = json!({"spec": {"resyncSeconds": 610}});
        world.syncs(&team).patch(name, &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
        world.condition(&team, name, "Ready", "True", "Synced").await;
    }
    for name in ["tokens", "sync-token"] {
        let change = json!({"spec": {"renewAtPercent": 81}});
        world
            .service_tokens(&team)
            .patch(name, &PatchParams::default(), &Patch::Merge(&change))
            .await
            .unwrap();
        world.token_condition(&team, name, "Ready", "True", "Fresh").await;
    }
    assert_eq!(made().await, copies, "no copy and no Secret is written again");

    // And the new one does continue with what the old one made.
    world.config_map(&team, "settings", &[("a", "2")]).await;
    for namespace in [&foo, &bar] {
        world.holds(namespace, "settings", &[("a", "2")]).await;
    }
    for name in ["sync", "old"] {
        world.delete_sync(&team, name).await;
    }
    for namespace in [&foo, &bar] {
        world.lacks(namespace, "settings").await;
    }
    world.finish().await;
}

/// An upgrade that has come as far as operator and `weaver`, and not to the definitions.
#[tokio::test]
async fn operator_and_weaver_of_today_work_on_the_definitions_of_the_last_release() {
    let own = OwnServer::start().await;
    install_released(&own).await;
    let alone = OwnOperator::direct_on(own, &[]).await;
    let world = alone.world("skew");
    let (team, foo) = world.synced().await;
    let bar = world.target(&team, "bar").await;
    world.holds(&foo, "settings", &[("a", "1")]).await;
    let weaver = async |words: &[&str]| ended(weaver_on(&alone.own, words)).await;

    // What both releases know.
    let create = ["sync", "create", "mine", "-n", &team, "--account", "sync", "--source", "settings"];
    let said = weaver(&[&create[..], &["--to", &bar]].concat()).await;
    assert!(said.done, "{said:?}");
    world.holds(&bar, "settings", &[("a", "1")]).await;
    world.condition(&team, "mine", "Ready", "True", "Synced").await;
    let said =
        weaver(&["sync", "edit", "mine", "-n", &team, "--patch", r#"{"spec": {"resyncSeconds": 610}}"#])
            .await;
    assert!(said.done, "{said:?}");
    let said = weaver(&["sync", "list", "-n", &team]).await;
    assert!(said.done && said.out.contains("\nmine   True    Synced"), "{said:?}");

    // That the definitions are old is found.
    let said = weaver(&["crd", "diff"]).await;
    assert!(!said.done && said.out.contains("+                  selector:"), "{said:?}");
    let said = weaver(&["doctor"]).await;
    assert!(said.out.contains("weaver crd diff"), "{said:?}");

    // What only this one knows is refused, with what to do, and never written without it.
    let selecting = ["--source", "*", "--source-selector", "share=true", "--to", &bar];
    let select = ["sync", "create", "many", "-n", &team, "--account", "sync"];
    let generate =
        ["token", "create", "many", "-n", &team, "--writer", "sync", "--generate", "3=bot-{{padded}}"];
    let words: [(Vec<&str>, &str); 3] = [
        ([&select[..], &selecting].concat(), "unknown field \"spec.source.selector\""),
        (generate.to_vec(), "unknown field \"spec.generate\""),
        (
            vec![
                "sync",
                "edit",
                "mine",
                "-n",
                &team,
                "--patch",
                r#"{"spec": {"targets": {"patterns": ["a-*"]}}}"#,
            ],
            "unknown field",
        ),
    ];
    for (words, why) in &words {
        let said = weaver(words).await;
        assert!(!said.done && said.err.contains(why), "{words:?}: {said:?}");
        assert!(
            said.err.contains("`weaver crd diff` says whether the cluster's CRDs are of an older one"),
            "{said:?}"
        );
    }
    for kind in ["sync", "token"] {
        assert!(!weaver(&[kind, "get", "many", "-n", &team]).await.done);
    }

    // With the definitions of this release it is accepted; what was made before stays as it is.
    alone.own.install().await.unwrap();
    let sync = world.syncs(&team).get("mine").await.unwrap();
    let said = weaver(&[&select[..], &selecting].concat()).await;
    assert!(said.done, "{said:?}");
    let again = world.syncs(&team).get("mine").await.unwrap();
    assert_eq!(
        (sync.metadata.uid, sync.metadata.generation),
        (again.metadata.uid, again.metadata.generation)
    );
    world.finish().await;
}
