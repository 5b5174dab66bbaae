//! What `weaver sync` and `weaver token` do on a real API server: create, show, list, delete.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use http::Method;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use weaver_api::v1beta1::ServiceToken;
use weaver_tests::cli::{done, ended, fed, program, weaver};
use weaver_tests::person;
use weaver_tests::proxy::Hook;
use weaver_tests::world::{World, eventually, given};

#[tokio::test]
async fn a_sync_is_created_shown_and_deleted_and_an_existing_one_never_overwritten() {
    let world = World::new("cli-verbs-sync").await;
    let (team, foo) = (world.tenant().await, world.namespace("foo").await);
    world.config_map(&team, "settings", &[("a", "1")]).await;
    world.grant(&team, &foo, &weaver_tests::tenant::TARGET).await;
    let create =
        ["sync", "create", "mine", "-n", &team, "--account", "sync", "--source", "settings", "--to", &foo];

    let judged = [&create[..], &["--dry-run=server"]].concat();
    assert_eq!(
        done(&judged).await,
        "configmapsync.weaver.example.com/mine created (server dry run: nothing was written)\n"
    );
    assert!(world.syncs(&team).get_opt("mine").await.unwrap().is_none());
    assert_eq!(done(&create).await, "configmapsync.weaver.example.com/mine created\n");
    world.holds(&foo, "settings", &[("a", "1")]).await;
    world.condition(&team, "mine", "Ready", "True", "Synced").await;

    let table = done(&["sync", "get", "mine", "-n", &team]).await;
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["NAME", "READY", "REASON", "SYNCED", "FAILED", "CONFLICTS", "AGE"]);
    assert_eq!(lines[1][..6], ["mine", "True", "Synced", "1/1", "0", "0"], "{table}");
    for format in ["json", "yaml"] {
        let text = done(&["sync", "get", "mine", "-n", &team, "-o", format]).await;
        let read: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(read["spec"]["targets"]["namespaces"], json!([foo]), "{format}");
        assert!(read["metadata"].get("managedFields").is_none());
    }
    let name = done(&["sync", "get", "mine", "-n", &team, "-o", "name"]).await;
    assert_eq!(name, "configmapsync.weaver.example.com/mine\n");

    let before = world.syncs(&team).get("mine").await.unwrap();
    let said = weaver(&create).await;
    said.refused("exists already and was not changed: `weaver sync edit mine");
    assert_eq!(world.syncs(&team).get("mine").await.unwrap().spec, before.spec);

    let said = weaver(&["sync", "get", "mine", "other", "-n", &team, "-o", "name"]).await;
    assert!(!said.done && said.out == name && said.err.contains("there is no ConfigMapSync"), "{said:?}");
    done(&["sync", "delete", "mine", "-n", &team, "--dry-run=server"]).await;
    assert!(world.syncs(&team).get("mine").await.unwrap().metadata.deletion_timestamp.is_none());
    let said = done(&["sync", "delete", "mine", "-n", &team, "--wait"]).await;
    assert_eq!(said, "configmapsync.weaver.example.com/mine deleted\n");
    assert!(world.syncs(&team).get_opt("mine").await.unwrap().is_none());
    world.lacks(&foo, "settings").await;
    world.finish().await;
}

#[tokio::test]
async fn deleting_with_orphan_leaves_the_copies() {
    let world = World::new("cli-verbs-orphan").await;
    let (team, foo) = world.synced().await;
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    let said = done(&["sync", "delete", "sync", "-n", &team, "--orphan", "--wait"]).await;
    let deleted = "configmapsync.weaver.example.com/sync deleted, the objects that it made stay";
    assert!(said.starts_with(&format!("{deleted}\ncopies stay in {foo}: `weaver orphans list`")), "{said}");
    assert!(world.syncs(&team).get_opt("sync").await.unwrap().is_none());
    world.holds(&foo, "settings", &[("a", "1")]).await;
    let said = done(&["orphans", "list", "-n", &foo]).await;
    assert!(said.starts_with(&format!("ConfigMap/{foo}/settings\t")), "{said}");
    world.finish().await;
}

#[tokio::test]
async fn the_copies_stay_although_someone_takes_the_policy_back_at_the_last_moment() {
    let world = World::new("cli-verbs-orphan-race").await;
    let (team, foo) = world.synced().await;
    let (syncs, deletes) = (world.syncs(&team), Arc::new(AtomicU32::new(0)));
    let count = deletes.clone();
    let hook: Hook = Arc::new(move |method, _| {
        let (syncs, is_first) =
            (syncs.clone(), method == Method::DELETE && count.fetch_add(1, Ordering::SeqCst) == 0);
        Box::pin(async move {
            if is_first {
                let patch = Patch::Merge(json!({"spec": {"deletionPolicy": "Delete"}}));
                syncs.patch("sync", &PatchParams::default(), &patch).await.unwrap();
            }
        })
    });
    let proxy = person::proxy(hook.into()).await;
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = person::kubeconfig(&world, &team, &proxy, directory.path()).await;
    let mut command = program("weaver", &["sync", "delete", "sync", "-n", &team, "--orphan", "--wait"]);
    command.env("KUBECONFIG", &kubeconfig);
    let said = ended(command).await;
    assert!(said.done, "{said:?}");
    assert!(deletes.load(Ordering::SeqCst) > 1, "the first attempt was refused");
    world.holds(&foo, "settings", &[("a", "1")]).await;
    world.finish().await;
}

#[tokio::test]
async fn a_delete_that_waits_says_what_holds_the_object() {
    let world = World::new("cli-verbs-held").await;
    let (team, _) = world.synced().await;
    let finalizer = |value: Value| json!({"metadata": {"finalizers": value}});
    let patch = Patch::Merge(finalizer(json!(["weaver.example.com/cleanup", "example.com/mine"])));
    world.syncs(&team).patch("sync", &PatchParams::default(), &patch).await.unwrap();
    let said = weaver(&["sync", "delete", "sync", "-n", &team, "--wait=1"]).await;
    assert!(!said.done && said.err.contains("still exists after 1 s: finalizer"), "{said:?}");
    assert!(said.err.contains("example.com/mine"), "{said:?}");
    let patch = Patch::Merge(finalizer(Value::Null));
    world.syncs(&team).patch("sync", &PatchParams::default(), &patch).await.unwrap();
    eventually("the object is gone", || async {
        world.syncs(&team).get_opt("sync").await.unwrap().map_or(Ok(()), Err)
    })
    .await;
    world.finish().await;
}

#[tokio::test]
async fn a_token_is_created_listed_by_selectors_and_deleted() {
    let world = World::new("cli-verbs-token").await;
    let home = world.namespace("home").await;
    let tokens: Api<ServiceToken> = Api::namespaced(world.client.clone(), &home);
    let token = "registry=robot,audience=registry.test,expires=900";
    let create = ["token", "create", "first", "-n", &home, "--writer", "robot", "--token", token];
    assert_eq!(done(&create).await, "servicetoken.weaver.example.com/first created\n");
    let second = "apiVersion: weaver.example.com/v1beta1\nkind: ServiceToken\nmetadata: {name: second, \
    labels: {tier: dev}}\n\
         spec: {writer: {serviceAccount: {name: other}}, tokens: [{key: a, serviceAccount: {name: b}}]}\n";
    let said = fed(&["token", "create", "-n", &home, "-f", "-"], second).await;
    assert!(said.done, "{said:?}");
    let spec = tokens.get("first").await.unwrap().spec.spec.unwrap();
    assert_eq!((spec.tokens[0].audiences.len(), spec.tokens[0].expiration_seconds), (1, 900));

    for (selectors, expected) in [
        (vec![], "first second"),
        (vec!["--chunk-size", "1"], "first second"),
        (vec!["-l", "tier=dev"], "second"),
        (vec!["-l", "tier!=dev"], "first"),
        (vec!["--field-selector", "spec.writer.serviceAccount.name=other"], "second"),
        (vec!["-l", "tier=prod"], ""),
    ] {
        let line = [&["token", "list", "-n", &home, "-o", "name"][..], &selectors].concat();
        let found = done(&line).await.replace("servicetoken.weaver.example.com/", "");
        assert_eq!(found.split_whitespace().collect::<Vec<_>>().join(" "), expected, "{selectors:?}");
    }
    let said = weaver(&["token", "list", "-n", &world.name("empty")]).await;
    assert!(said.done && said.out.is_empty() && said.err.starts_with("No ServiceTokens found in namespace"));
    let all = done(&["token", "list", "-A"]).await;
    assert!(all.starts_with("NAMESPACE ") && all.contains(&home), "{all}");
    let list: Value =
        serde_json::from_str(&done(&["token", "list", "-n", &home, "-o", "json"]).await).unwrap();
    assert_eq!((list["kind"].as_str(), list["items"].as_array().map(Vec::len)), (Some("List"), Some(2)));

    done(&["token", "delete", "second", "-n", &home, "--wait"]).await;
    assert!(tokens.get_opt("second").await.unwrap().is_none());
    // The API server is asked to leave what belongs to it; that takes its garbage collector a moment.
    done(&["token", "delete", "first", "-n", &home, "--orphan"]).await;
    if let Some(going) = tokens.get_opt("first").await.unwrap() {
        assert!(going.metadata.deletion_timestamp.is_some(), "{going:?}");
        assert!(going.metadata.finalizers.unwrap().contains(&"orphan".to_owned()));
    }
    world.finish().await;
}

#[tokio::test]
async fn what_cannot_be_is_refused_by_its_field_and_changes_nothing() {
    let world = World::new("cli-verbs-refused").await;
    let home = world.namespace("home").await;
    let sync = |spec: &str| {
        format!(
            "apiVersion: weaver.example.com/v1beta1\nkind: ConfigMapSync\nmetadata: {{name: a}}\nspec:\n  \
             serviceAccount: {{name: a}}\n  source: {{namespace: b, name: c}}\n  {spec}\n"
        )
    };
    for (text, words) in [
        (sync("tragets: {namespaces: [d]}\n  targets: {namespaces: [d]}"), "unknown field \"spec.tragets\""),
        (sync("targets: {namespaces: [D]}"), "spec.targets.namespaces[0]"),
        (sync("targets: {namespaces: d}"), "spec.targets.namespaces"),
        (sync("targets: {}").replace("ConfigMapSync", "Secret"), "is a Secret, not a ConfigMapSync"),
        (
            sync("targets: {}").replace("ConfigMapSync", "ServiceToken"),
            "document 1 is a ServiceToken: `weaver token create -f`",
        ),
    ] {
        let said = fed(&["sync", "create", "-n", &home, "-f", "-"], &text).await;
        said.refused(words);
    }
    assert!(world.syncs(&home).list(&ListParams::default()).await.unwrap().items.is_empty());
    world.finish().await;
}

#[tokio::test]
async fn a_missing_namespace_is_reported_and_created_where_that_is_asked_for() {
    let world = World::new("cli-verbs-namespace").await;
    let home = world.name("absent");
    world.namespace("another").await;
    let create = ["token", "create", "a", "-n", &home, "--writer", "b", "--token", "k=b"];
    weaver(&create).await.refused(&format!("`kubectl create namespace {home}`, or pass --create-namespace"));
    let said = weaver(&[&create[..], &["--create-namespace", "--dry-run=server"]].concat()).await;
    assert!(
        said.done && said.err.contains("the API server validates it once its namespace exists"),
        "{said:?}"
    );
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    assert!(namespaces.get_opt(&home).await.unwrap().is_none());
    done(&[&create[..], &["--create-namespace"]].concat()).await;
    namespaces.delete(&home, &DeleteParams::default()).await.unwrap();
    world.finish().await;
}

#[tokio::test]
async fn kubectl_runs_weaver_as_its_own_verb() {
    let world = World::new("cli-verbs-plugin").await;
    let home = world.namespace("home").await;
    let directory = tempfile::tempdir().unwrap();
    let weaver = given("WEAVER_TEST_BIN_DIR").join("weaver");
    std::os::unix::fs::symlink(weaver, directory.path().join("kubectl-weaver")).unwrap();
    let path = format!("{}:{}", directory.path().display(), std::env::var("PATH").unwrap());
    let kubectl = async |arguments: &[&str]| {
        let mut command = tokio::process::Command::new(given("WEAVER_TEST_SERVER_BIN"));
        command.args([&["kubectl", "weaver"], arguments].concat()).env("PATH", &path);
        command.env("KUBECONFIG", given("WEAVER_TEST_KUBECONFIG"));
        ended(command).await
    };
    let said = kubectl(&["token", "create", "a", "-n", &home, "--writer", "b", "--token", "k=b"]).await;
    assert!(said.done && said.out == "servicetoken.weaver.example.com/a created\n", "{said:?}");
    let said = kubectl(&["token", "get", "--help"]).await;
    assert!(said.out.contains("Usage: kubectl weaver token get "), "{said:?}");
    world.finish().await;
}

#[tokio::test]
async fn the_versions_of_all_parts_are_those_that_run() {
    let own = env!("CARGO_PKG_VERSION");
    // The agent's report is written when it has looked at the node.
    let cluster = eventually("every part says its version", || async {
        let said = weaver(&["version", "-o", "json"]).await.json();
        assert_eq!(said["weaver"], own);
        let cluster = &said["cluster"];
        let has_agent =
            cluster["nodes"].as_array().is_some_and(|all| all.iter().any(|node| node["agent"] == own));
        if has_agent && cluster["operator"]["version"] == own { Ok(cluster.clone()) } else { Err(said) }
    })
    .await;
    let syncs = &cluster["definitions"].as_array().unwrap()[0];
    let versions = ["v1beta1", "v1alpha1"];
    assert_eq!(*syncs, json!({"name": "configmapsyncs", "versions": versions, "differs": false}));
    // Its definitions name a URL: as on a card, the webhook is of the agent's package.
    assert_eq!(cluster.get("webhook"), None);
    let table = done(&["version"]).await;
    assert!(table.contains("configmapsyncs  v1beta1 (stored), v1alpha1\n"), "{table}");
    assert_eq!(done(&["version", "--client"]).await, format!("weaver  {own}\n"));
}

#[tokio::test]
async fn a_ca_that_is_of_no_use_is_refused_before_anything_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let authority = directory.path().join("ca.pem");
    std::fs::write(&authority, "not a certificate\n").unwrap();
    let path = directory.path().to_str().unwrap();
    let output = program("weaver", &["crd", "install", "--certificates", path]).output().await.unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(10), "{said}");
    assert!(said.starts_with("refused: ") && said.contains("cannot be used as the webhook's CA"), "{said}");
    assert!(!said.contains("run this as root"), "it would change nothing: {said}");
    assert_eq!(std::fs::read_to_string(&authority).unwrap(), "not a certificate\n");
    assert!(!directory.path().join("leaf.pem").exists());
}
