//! `weaver apply` makes objects what a file says, waits for the operator, and undoes what does not become Ready.

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use weaver_tests::cli::{Said, done, fed, program, weaver};
use weaver_tests::world::{World, eventually};

fn manifest(namespace: &str, name: &str, spec: &Value) -> String {
    json!({
        "apiVersion": "weaver.example.com/v1beta1", "kind": "ConfigMapSync",
        "metadata": {"name": name, "namespace": namespace}, "spec": spec,
    })
    .to_string()
}

async fn apply(flags: &[&str], manifests: &[String]) -> Said {
    fed(&[&["apply", "-f", "-"], flags].concat(), &manifests.join("\n---\n")).await
}

/// The usual start, made by `weaver apply`: a tenant and where its `settings` are copied to.
async fn applied(world: &World) -> (String, String) {
    let team = world.tenant().await;
    let foo = world.target(&team, "foo").await;
    world.config_map(&team, "settings", &[("a", "1")]).await;
    let said = apply(&["--wait"], &[manifest(&team, "sync", &world.spec(&team, &[&foo]))]).await;
    assert!(said.done && said.out.ends_with("/sync ready\n") && said.err.is_empty(), "{said:?}");
    world.holds(&foo, "settings", &[("a", "1")]).await;
    (team, foo)
}

#[tokio::test]
async fn what_is_applied_is_waited_for_and_applied_again_changes_nothing() {
    let world = World::new("cli-apply").await;
    let (team, foo) = applied(&world).await;
    let sync = manifest(&team, "mine", &world.spec(&team, &[&foo]));
    let token = "{apiVersion: weaver.example.com/v1beta1, kind: ServiceToken, metadata: {name: t}, spec: \
    {writer: \
                 {serviceAccount: {name: a}}, tokens: [{key: k, serviceAccount: {name: a}}]}}";
    let both = [sync.clone(), token.to_owned()];

    let said = apply(&["-n", &team, "--dry-run=server"], &both).await;
    assert!(said.done && said.out.matches("applied (server dry run").count() == 2, "{said:?}");
    assert!(world.syncs(&team).get_opt("mine").await.unwrap().is_none());
    let said = apply(&["-n", &team], &both).await;
    let created =
        "configmapsync.weaver.example.com/mine created\nservicetoken.weaver.example.com/t created\n";
    assert!(said.done && said.out == created && said.err.is_empty(), "{said:?}");

    let said = apply(&[], &[manifest(&team, "sync", &world.spec(&team, &[&foo]))]).await;
    assert!(said.done && said.out == "configmapsync.weaver.example.com/sync unchanged\n", "{said:?}");
    // What is shown of an object in a cluster is a manifest, too.
    let shown = done(&["sync", "get", "sync", "-n", &team, "-o", "yaml"]).await;
    let said = apply(&["--wait"], &[shown.replace("resyncSeconds: 600", "resyncSeconds: 900")]).await;
    assert!(
        said.done && said.out.ends_with("/sync configured\nconfigmapsync.weaver.example.com/sync ready\n"),
        "{said:?}"
    );
    assert_eq!(world.syncs(&team).get("sync").await.unwrap().spec.spec.unwrap().resync_seconds, 900);
    world.finish().await;
}

#[tokio::test]
async fn nothing_is_applied_if_one_of_them_cannot_be() {
    let world = World::new("cli-apply-refused").await;
    let home = world.namespace("home").await;
    let good = manifest(&home, "good", &world.spec(&home, &["foo"]));
    let mut unknown = world.spec(&home, &["foo"]);
    unknown["tragets"] = json!({});
    let elsewhere = world.name("absent");
    for (bad, words) in [
        (manifest(&home, "bad", &unknown), "tragets"),
        (manifest(&home, "bad", &world.spec(&home, &["X"])), "spec.targets.namespaces[0]"),
        (manifest(&elsewhere, "bad", &world.spec(&home, &["foo"])), "`kubectl create namespace"),
        ("{apiVersion: v1, kind: Secret, data: {a: hunter2}}".into(), "is a Secret, not a ConfigMapSync"),
    ] {
        let said = apply(&[], &[good.clone(), bad]).await;
        said.refused(words);
        assert!(!said.err.contains("hunter2"));
        assert!(world.syncs(&home).get_opt("good").await.unwrap().is_none());
    }
    // What someone else has set is taken over only if that is said.
    let mut spec = world.spec(&home, &["foo"]);
    spec["suspend"] = json!(true);
    world.sync(&home, "good", spec).await;
    let mut other = world.spec(&home, &["foo"]);
    other["suspend"] = json!(false);
    let ours = [manifest(&home, "good", &other)];
    apply(&[], &ours).await.refused("`--force-conflicts` takes these fields over");
    assert!(apply(&["--force-conflicts"], &ours).await.done);
    assert!(!world.syncs(&home).get("good").await.unwrap().spec.spec.unwrap().suspend);
    world.finish().await;
}

#[tokio::test]
async fn what_does_not_become_ready_is_undone_and_why_is_said() {
    let world = World::new("cli-apply-undone").await;
    let (team, foo) = applied(&world).await;
    let before = world.syncs(&team).get("sync").await.unwrap();
    let mut spec = world.spec(&team, &[&foo]);
    spec["serviceAccount"] = json!({"name": "ghost"});
    spec["targets"]["exclude"] = json!(["baz"]);
    let hopeless = manifest(&team, "sync", &spec);

    let said = apply(&["--wait=5", "--rollback-on-failure"], std::slice::from_ref(&hopeless)).await;
    assert!(!said.done && said.err.contains("is not Ready, not within 5 s: Ready=False ("), "{said:?}");
    assert!(said.err.ends_with("sync: its previous state is restored\n"), "{said:?}");
    let after = world.syncs(&team).get("sync").await.unwrap();
    assert_eq!(after.spec.spec, before.spec.spec);
    assert_eq!(after.metadata.labels, before.metadata.labels);
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    world.holds(&foo, "settings", &[("a", "1")]).await;
    // The next apply meets no field of another owner.
    let mut next = world.spec(&team, &[&foo]);
    next["resyncSeconds"] = json!(900);
    let said = apply(&["--wait"], &[manifest(&team, "sync", &next)]).await;
    assert!(said.done, "{said:?}");

    // One that did not exist before is deleted again.
    let new = manifest(&team, "new", &spec);
    let said = apply(&["--wait=1", "--rollback-on-failure"], std::slice::from_ref(&new)).await;
    assert!(!said.done && said.err.contains("it did not exist before and was deleted again"), "{said:?}");
    eventually("the new one is gone", || async {
        world.syncs(&team).get_opt("new").await.unwrap().map_or(Ok(()), Err)
    })
    .await;
    // And where nothing is undone, it stays.
    let said = apply(&["--wait=1"], &[new]).await;
    assert!(!said.done && said.err.contains("`weaver sync explain new -n"), "{said:?}");
    assert!(world.syncs(&team).get_opt("new").await.unwrap().is_some());
    world.finish().await;
}

#[tokio::test]
async fn what_someone_else_changed_meanwhile_is_not_undone() {
    let world = World::new("cli-apply-theirs").await;
    let (team, foo) = applied(&world).await;
    let mut spec = world.spec(&team, &[&foo]);
    spec["serviceAccount"] = json!({"name": "ghost"});
    let mut command = program("weaver", &["apply", "-f", "-", "--wait=5", "--rollback-on-failure"]);
    let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(manifest(&team, "sync", &spec).as_bytes()).await.unwrap();
    eventually("it is applied", || async {
        let spec = world.syncs(&team).get("sync").await.unwrap().spec.spec.unwrap();
        if spec.service_account.as_ref().unwrap().name.as_deref() == Some("ghost") {
            Ok(())
        } else {
            Err(spec)
        }
    })
    .await;
    let theirs = r#"{"spec": {"resyncSeconds": 1200}}"#;
    let said = weaver(&["sync", "edit", "sync", "-n", &team, "--patch", theirs]).await;
    assert!(said.done, "{said:?}");
    let output = child.wait_with_output().await.unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.contains("nothing was undone: its spec was changed since"), "{err}");
    let spec = world.syncs(&team).get("sync").await.unwrap().spec.spec.unwrap();
    assert_eq!(spec.resync_seconds, 1200);
    world.finish().await;
}
