//! Who may name a ServiceAccount: only who may impersonate it (deploy/admission/accounts.yaml).
//!
//! Everything is asked as a user whom the cluster knows by name, who may do everything with our kinds in one
//! namespace, and nothing else.

use kube::Client;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use weaver_tests::person::{ClusterUser, refusal};
use weaver_tests::world::{World, eventually};

/// Objects of one of our kinds, at a version, with the client of this user.
fn objects(client: &Client, version: &str, kind: &str, namespace: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk(weaver_api::GROUP, version, kind);
    Api::namespaced_with(client.clone(), namespace, &ApiResource::from_gvk(&kind))
}

fn object(version: &str, kind: &str, name: &str, spec: &Value) -> DynamicObject {
    let kind = GroupVersionKind::gvk(weaver_api::GROUP, version, kind);
    DynamicObject::new(name, &ApiResource::from_gvk(&kind)).data(json!({"spec": spec}))
}

/// Asks until it is refused for want of a right to this account. Nothing is kept.
async fn cannot_create(api: &Api<DynamicObject>, object: &DynamicObject, account: &str) -> String {
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let message =
        eventually("the policy refuses it", || async { refusal(api.create(&params, object).await) }).await;
    assert!(message.contains(&format!("may not name the ServiceAccount {account} of")), "{message}");
    message
}

/// Rights take a moment to be in force.
async fn creates(api: &Api<DynamicObject>, object: &DynamicObject) {
    eventually("it is created", || async { api.create(&PostParams::default(), object).await }).await;
}

fn spec(source: &str) -> Value {
    json!({"serviceAccount": {"name": "robot"}, "source": {"name": source, "namespace": "there"},
           "targets": {"namespaces": ["nowhere"]}})
}

#[tokio::test]
async fn who_may_not_impersonate_an_account_cannot_name_it_and_the_printed_rule_is_enough() {
    let world = World::new("who-names").await;
    let (team, other) = (world.namespace("team").await, world.namespace("other").await);
    let person = ClusterUser::new(&world, &team, "alice").await;
    let syncs = objects(&person.client, "v1beta1", "ConfigMapSync", &team);
    let sync = object("v1beta1", "ConfigMapSync", "sync", &spec("a"));
    // The same account elsewhere, or another one here, is not this one; the other shows that the rights are in force.
    person.may_impersonate(&world, &other, &["robot"]).await;
    person.may_impersonate(&world, &team, &["other"]).await;
    let mut of_other = spec("a");
    of_other["serviceAccount"]["name"] = json!("other");
    creates(&syncs, &object("v1beta1", "ConfigMapSync", "of-other", &of_other)).await;
    let message = cannot_create(&syncs, &sync, "robot").await;
    for words in [person.name.as_str(), &format!("of the namespace {team}"), "the ClusterRole edit"] {
        assert!(message.contains(words), "{words:?} is not in: {message}");
    }
    let printed = message.split_once("this rule: ").unwrap().1.split_once("; ").unwrap().0;
    person
        .granted(&world, &team, "printed", json!([serde_saphyr::from_str::<Value>(printed).unwrap()]))
        .await;
    creates(&syncs, &sync).await;
    world.finish().await;
}

#[tokio::test]
async fn only_what_changes_the_spec_is_refused_at_either_version() {
    let world = World::new("spec-only").await;
    let team = world.namespace("team").await;
    let person = ClusterUser::new(&world, &team, "bob").await;
    world.sync(&team, "sync", spec("a")).await;
    for (version, targets) in [
        ("v1beta1", json!({"targets": {"namespaces": ["x"]}})),
        ("v1alpha1", json!({"syncToNamespaces": ["x"]})),
    ] {
        let syncs = objects(&person.client, version, "ConfigMapSync", &team);
        let patched = async |patch: Value, dry_run: bool| {
            let params = PatchParams { dry_run, ..PatchParams::default() };
            syncs.patch("sync", &params, &Patch::Merge(&patch)).await
        };
        for changed in
            [json!({"source": {"name": "b"}}), targets, json!({"serviceAccount": {"name": "other"}})]
        {
            let account = if changed["serviceAccount"].is_null() { "robot" } else { "other" };
            let message = eventually("the change is refused", || async {
                refusal(patched(json!({"spec": changed}), true).await)
            })
            .await;
            assert!(
                message.contains(&format!("ServiceAccount {account} of the namespace {team}")),
                "{message}"
            );
        }
        for kept in [
            json!({"metadata": {"labels": {"theirs": version}}}),
            json!({"metadata": {"annotations": {"weaver.example.com/sync-now": version}}}),
            json!({"metadata": {"finalizers": ["example.com/theirs"]}}),
            json!({"metadata": {"finalizers": null}}),
            // What is written as it is, is not changed.
            json!({"spec": {"source": {"name": "a"}}}),
        ] {
            patched(kept.clone(), false).await.unwrap_or_else(|error| panic!("{version} {kept}: {error}"));
        }
    }
    let syncs = objects(&person.client, "v1beta1", "ConfigMapSync", &team);
    syncs.delete("sync", &DeleteParams::default()).await.unwrap();
    world.finish().await;
}

#[tokio::test]
async fn at_v1alpha1_the_account_that_is_named_by_default_counts_and_naming_none_is_free() {
    let world = World::new("old-names").await;
    let team = world.namespace("team").await;
    let person = ClusterUser::new(&world, &team, "carol").await;
    let syncs = objects(&person.client, "v1alpha1", "ConfigMapSync", &team);
    let target = json!({"source": {"name": "a", "namespace": "there"}, "syncToNamespaces": ["nowhere"]});
    let named = |account: Value| {
        let mut spec = target.clone();
        spec["serviceAccount"] = account;
        object("v1alpha1", "ConfigMapSync", "sync", &spec)
    };
    let default = object("v1alpha1", "ConfigMapSync", "default", &target);
    cannot_create(&syncs, &default, "default").await;
    cannot_create(&syncs, &named(json!({"name": "robot"})), "robot").await;
    let tokens = objects(&person.client, "v1alpha1", "ServiceToken", &team);
    let token = object("v1alpha1", "ServiceToken", "token", &json!({"serviceAccount": {"name": "robot"}}));
    cannot_create(&tokens, &token, "robot").await;

    creates(&syncs, &named(json!({}))).await;
    creates(
        &syncs,
        &DynamicObject { data: json!({}), ..object("v1alpha1", "ConfigMapSync", "bare", &json!({})) },
    )
    .await;
    let gains = json!({"spec": {"serviceAccount": {"name": "robot"}}});
    refusal(syncs.patch("sync", &PatchParams::default(), &Patch::Merge(&gains)).await).unwrap();
    person.may_impersonate(&world, &team, &["robot", "default"]).await;
    creates(&syncs, &default).await;
    creates(&tokens, &token).await;
    syncs.patch("sync", &PatchParams::default(), &Patch::Merge(&gains)).await.unwrap();
    world.finish().await;
}

#[tokio::test]
async fn a_right_of_a_group_and_the_cluster_role_edit_are_rights() {
    let world = World::new("grouped").await;
    let team = world.namespace("team").await;
    let sync = |name: &str| object("v1beta1", "ConfigMapSync", name, &spec("a"));
    let person = ClusterUser::new(&world, &team, "dora").await;
    let syncs = objects(&person.client, "v1beta1", "ConfigMapSync", &team);
    cannot_create(&syncs, &sync("grouped"), "robot").await;
    person.group_may_impersonate(&world, &team, &["robot"]).await;
    creates(&syncs, &sync("grouped")).await;

    let editor = ClusterUser::new(&world, &team, "emil").await;
    let syncs = objects(&editor.client, "v1beta1", "ConfigMapSync", &team);
    cannot_create(&syncs, &sync("edited"), "robot").await;
    editor.has_cluster_role(&world, &team, "edit").await;
    creates(&syncs, &sync("edited")).await;
    world.finish().await;
}

#[tokio::test]
async fn of_a_service_token_the_writer_and_every_listed_account_count_and_the_missing_one_is_named() {
    let world = World::new("token-names").await;
    let team = world.namespace("team").await;
    let person = ClusterUser::new(&world, &team, "fred").await;
    let tokens = objects(&person.client, "v1beta1", "ServiceToken", &team);
    let token = |name: &str, accounts: &[String]| {
        let listed =
            accounts.iter().map(|account| json!({"key": account, "serviceAccount": {"name": account}}));
        let spec =
            json!({"writer": {"serviceAccount": {"name": "writer"}}, "tokens": listed.collect::<Vec<_>>()});
        object("v1beta1", "ServiceToken", name, &spec)
    };
    let two = token("two", &["one".into(), "two".into()]);
    cannot_create(&tokens, &two, "writer").await;
    person.may_impersonate(&world, &team, &["writer", "one"]).await;
    eventually("the writer and the first are no obstacle any more", || async {
        let message = refusal(tokens.create(&PostParams::default(), &two).await)?;
        if message.contains("the ServiceAccount two of") { Ok(()) } else { Err(message) }
    })
    .await;
    person.may_impersonate(&world, &team, &["writer", "one", "two"]).await;
    creates(&tokens, &two).await;
    // One that is added later counts as well, also where the others stay.
    let added = token("two", &["one".into(), "two".into(), "three".into()]).data;
    let message = refusal(tokens.patch("two", &PatchParams::default(), &Patch::Merge(&added)).await).unwrap();
    assert!(message.contains("the ServiceAccount three of"), "{message}");

    // As many as there can be, of which the last is missing, and then none.
    let many: Vec<String> = (1..=16).map(|number| format!("account-{number}")).collect();
    let mut named: Vec<&str> = many.iter().map(String::as_str).chain(["writer"]).collect();
    let whole = token("many", &many);
    named.retain(|account| *account != "account-16");
    person.may_impersonate(&world, &team, &named).await;
    eventually("only the last is missing", || async {
        let message = refusal(tokens.create(&PostParams::default(), &whole).await)?;
        if message.contains("the ServiceAccount account-16 of") { Ok(()) } else { Err(message) }
    })
    .await;
    named.push("account-16");
    person.may_impersonate(&world, &team, &named).await;
    creates(&tokens, &whole).await;
    world.finish().await;
}
