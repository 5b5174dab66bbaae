//! `weaver sync edit` next to others who write: nothing is lost, neither theirs nor what was typed.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use http::Method;
use kube::api::{Api, Patch, PatchParams};
use kube::client::Body;
use serde_json::json;
use tempfile::TempDir;
use weaver_api::v1beta1::{ConfigMapSync, ConfigMapSyncSpec};
use weaver_tests::cli::{Said, done, editor, ended, program, weaver};
use weaver_tests::person;
use weaver_tests::proxy::{Hook, Hooks, Proxy};
use weaver_tests::world::{World, given};

/// A sync that the operator leaves alone, so that only this test writes it.
async fn suspended(world: &World) -> String {
    let home = world.namespace("home").await;
    let mut spec = world.spec(&home, &["foo"]);
    spec["suspend"] = json!(true);
    world.sync(&home, "sync", spec).await;
    world.condition(&home, "sync", "Paused", "True", "Suspended").await;
    home
}

async fn spec(world: &World, home: &str) -> ConfigMapSyncSpec {
    world.syncs(home).get("sync").await.unwrap().spec.spec.unwrap()
}

/// Runs `weaver sync edit` with this script as the editor.
async fn edit(directory: &TempDir, home: &str, script: &str) -> Said {
    let path = directory.path().join("editor.sh");
    editor(&path, script);
    let mut command = program("weaver", &["sync", "edit", "sync", "-n", home]);
    command.env("EDITOR", &path).env("TMPDIR", directory.path());
    ended(command).await
}

/// The texts that were kept.
fn kept(directory: &TempDir) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|end| end == "yaml")).collect()
}

#[tokio::test]
async fn an_editors_text_a_patch_and_a_file_each_change_an_object() {
    let world = World::new("cli-edit").await;
    let home = suspended(&world).await;
    let directory = tempfile::tempdir().unwrap();
    let script = "stat -c %a \"$1\" > \"$(dirname \"$0\")/rights\"; sed -i 's/resyncSeconds: \
        600/resyncSeconds: 900/' \"$1\"";
    let said = edit(&directory, &home, script).await;
    assert!(said.done && said.out == "configmapsync.weaver.example.com/sync edited\n", "{said:?}");
    assert_eq!(spec(&world, &home).await.resync_seconds, 900);
    assert_eq!(std::fs::read_to_string(directory.path().join("rights")).unwrap(), "600\n");
    assert_eq!(kept(&directory), Vec::<PathBuf>::new());
    let said = edit(&directory, &home, "true").await;
    assert!(said.done && said.out.ends_with(" unchanged: the object has this content already\n"), "{said:?}");

    let patch = r#"{"spec": {"resyncSeconds": 1200}, "metadata": {"labels": {"a": "b"}}}"#;
    done(&["sync", "edit", "sync", "-n", &home, "--patch", patch, "--dry-run=server"]).await;
    assert_eq!(spec(&world, &home).await.resync_seconds, 900);
    done(&["sync", "edit", "sync", "-n", &home, "--patch", patch]).await;
    assert_eq!(spec(&world, &home).await.resync_seconds, 1200);

    let file = directory.path().join("sync.manifest");
    let shown = done(&["sync", "get", "sync", "-n", &home, "-o", "yaml"]).await;
    std::fs::write(&file, shown.replace("resyncSeconds: 1200", "resyncSeconds: 1800")).unwrap();
    done(&["sync", "edit", "sync", "-n", &home, "-f", file.to_str().unwrap()]).await;
    let changed = world.syncs(&home).get("sync").await.unwrap();
    assert_eq!(changed.spec.spec.unwrap().resync_seconds, 1800);
    assert_eq!(changed.metadata.labels.unwrap()["a"], "b");
    // The file is about a state that is past by now.
    let said = weaver(&["sync", "edit", "sync", "-n", &home, "-f", file.to_str().unwrap()]).await;
    said.refused("since this text was read");
    let said = weaver(&["sync", "edit", "sync", "-n", &home]).await;
    said.refused("there is no editor (VISUAL, EDITOR) and no terminal");
    world.finish().await;
}

#[tokio::test]
async fn a_change_that_cannot_be_leaves_the_object_and_keeps_the_text() {
    let world = World::new("cli-edit-invalid").await;
    let home = suspended(&world).await;
    let before = world.syncs(&home).get("sync").await.unwrap();
    for (script, words) in [
        ("sed -i 's/resyncSeconds: 600/resyncSeconds: 601/' \"$1\"", "spec.resyncSeconds 601 is not allowed"),
        ("sed -i 's/resyncSeconds:/resynkSeconds:/' \"$1\"", "unknown field \"spec.resynkSeconds\""),
        ("echo '  : [' >> \"$1\"", "is not valid YAML"),
        ("sed -i 's/name: sync$/name: other/' \"$1\"", "the text is not about ConfigMapSync"),
        ("echo typed >> \"$1\"; exit 3", "failed (exit status: 3)"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let said = edit(&directory, &home, script).await;
        said.refused("nothing was changed; your text is kept: correct it, then `weaver sync edit sync -n");
        said.refused(words);
        let kept = kept(&directory);
        assert!(kept.len() == 1 && said.err.contains(kept[0].to_str().unwrap()), "{kept:?}: {said:?}");
        let rights = std::fs::metadata(&kept[0]).unwrap().permissions().mode() & 0o777;
        let text = std::fs::read_to_string(&kept[0]).unwrap();
        assert!(rights == 0o600 && text.contains("source:"), "{rights:o} {text}");
    }
    for (patch, words) in [
        (r#"{"spec": {"targets": {"namespaces": ["X"]}}}"#, "spec.targets.namespaces[0]"),
        (r#"{"spec": {"tragets": {}}}"#, "unknown field \"spec.tragets\""),
        (r#"{"metadata": {"name": "b"}}"#, "metadata.name cannot be changed here"),
        ("{", "--patch is not JSON at column"),
    ] {
        weaver(&["sync", "edit", "sync", "-n", &home, "--patch", patch]).await.refused(words);
    }
    let after = world.syncs(&home).get("sync").await.unwrap();
    assert_eq!(after.metadata.resource_version, before.metadata.resource_version);
    world.finish().await;
}

#[tokio::test]
async fn a_text_meets_what_someone_else_changed_while_it_was_open() {
    let world = World::new("cli-edit-open").await;
    let home = suspended(&world).await;
    let directory = tempfile::tempdir().unwrap();
    let weaver = given("WEAVER_TEST_BIN_DIR").join("weaver");
    let other = |patch: &str| format!("{} sync edit sync -n {home} --patch '{patch}' >&2", weaver.display());
    let change = "sed -i 's/resyncSeconds: 600/resyncSeconds: 900/' \"$1\"";
    // Another field: both changes stand.
    let said = edit(&directory, &home, &format!("{}; {change}", other(r#"{"spec":{"dryRun":true}}"#))).await;
    assert!(said.done, "{said:?}");
    let both = spec(&world, &home).await;
    assert!(both.dry_run && both.resync_seconds == 900);
    // The same field: theirs stays in the cluster, ours is kept in the file.
    let change = "sed -i 's/resyncSeconds: 900/resyncSeconds: 1000/' \"$1\"";
    let theirs = other(r#"{"spec":{"resyncSeconds":1100}}"#);
    let said = edit(&directory, &home, &format!("{theirs}; {change}")).await;
    said.refused("spec.resyncSeconds was changed meanwhile");
    assert_eq!(spec(&world, &home).await.resync_seconds, 1100);
    let text = std::fs::read_to_string(&kept(&directory)[0]).unwrap();
    assert!(text.contains("resyncSeconds: 1000"), "{text}");
    world.finish().await;
}

#[tokio::test]
async fn a_patch_is_made_again_where_others_are_faster_but_not_forever() {
    let world = World::new("cli-edit-retry").await;
    let home = suspended(&world).await;
    let directory = tempfile::tempdir().unwrap();
    for (faster, result) in [(3, true), (u32::MAX, false)] {
        let writes = Arc::new(AtomicU32::new(0));
        let proxy = between_read_and_write(&world, &home, faster, &writes).await;
        let kubeconfig = person::kubeconfig(&world, &home, &proxy, directory.path()).await;
        let before = spec(&world, &home).await.resync_seconds;
        let patch = json!({"spec": {"resyncSeconds": before + 60}}).to_string();
        let mut command = program("weaver", &["sync", "edit", "sync", "-n", &home, "--patch", &patch]);
        command.env("KUBECONFIG", &kubeconfig);
        let said = ended(command).await;
        assert_eq!(said.done, result, "{said:?}");
        let after = world.syncs(&home).get("sync").await.unwrap();
        let label = after.metadata.labels.unwrap()["writes"].parse::<u32>().unwrap();
        let found = after.spec.spec.unwrap().resync_seconds;
        if result {
            assert_eq!((label, found), (3, before + 60), "both changes stand");
        } else {
            assert!(said.err.contains("at each of 6 attempts; your change was not written"), "{said:?}");
            assert_eq!((label, found), (6, before), "so often was it tried");
        }
    }
    world.finish().await;
}

#[tokio::test]
async fn a_write_without_an_answer_is_not_said_to_have_failed() {
    let world = World::new("cli-edit-unanswered").await;
    let home = suspended(&world).await;
    let directory = tempfile::tempdir().unwrap();
    let mut hooks = Hooks::none();
    hooks.instead = Arc::new(|request| {
        let is_dry_run = request.uri.query().is_some_and(|query| query.contains("dryRun=All"));
        let is_write = request.method == Method::PUT && !is_dry_run;
        is_write.then(|| http::Response::builder().status(502).body(Body::empty()).unwrap())
    });
    let proxy = person::proxy(hooks).await;
    let kubeconfig = person::kubeconfig(&world, &home, &proxy, directory.path()).await;
    let path = directory.path().join("editor.sh");
    editor(&path, "sed -i 's/resyncSeconds: 600/resyncSeconds: 900/' \"$1\"");
    let mut command = program("weaver", &["sync", "edit", "sync", "-n", &home]);
    command.env("KUBECONFIG", &kubeconfig).env("EDITOR", &path).env("TMPDIR", directory.path());
    let said = ended(command).await;
    said.refused("error: your text is kept: correct it, then `weaver sync edit sync -n");
    said.refused("was changed: check it before you try again");
    assert_eq!(kept(&directory).len(), 1);
    world.finish().await;
}

/// A proxy behind which someone labels the object before each of the first `faster` attempts to replace it.
async fn between_read_and_write(world: &World, home: &str, faster: u32, writes: &Arc<AtomicU32>) -> Proxy {
    let (syncs, writes): (Api<ConfigMapSync>, _) = (world.syncs(home), writes.clone());
    let hook: Hook = Arc::new(move |method, _| {
        let (syncs, writes) = (syncs.clone(), writes.clone());
        Box::pin(async move {
            if method == Method::PUT && writes.load(Ordering::SeqCst) < faster {
                let count = writes.fetch_add(1, Ordering::SeqCst) + 1;
                let label = json!({"metadata": {"labels": {"writes": count.to_string()}}});
                syncs.patch("sync", &PatchParams::default(), &Patch::Merge(label)).await.unwrap();
            }
        })
    });
    person::proxy(hook.into()).await
}
