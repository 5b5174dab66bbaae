//! What the next reconciliation would change, as `weaver ui` shows it: key by key, and of a dry run before it
//! is written.

use std::sync::Arc;

use http::{Method, Response};
use kube::client::Body;
use serde_json::json;
use weaver_tests::cli::program;
use weaver_tests::person;
use weaver_tests::proxy::Hooks;
use weaver_tests::sync_kinds::SyncedKind;
use weaver_tests::tenant::TARGET;
use weaver_tests::ui::Ui;
use weaver_tests::world::{World, weaver};

/// A line of a diff.
fn line(word: &str, field: &str) -> String {
    format!("<span class=\"hidden\">{word}: </span></span> <code>{field}</code>")
}

/// Of a ResourceSync no value is shown either: any kind may hold a secret.
#[tokio::test]
async fn a_dry_run_is_shown_as_a_diff_of_each_copy_and_nothing_is_written() {
    let world = World::new("ui-plan").await;
    let (team, foo) = world.synced().await;
    let (bar, new) = (world.namespace("bar").await, world.namespace("new").await);
    let ui = Ui::entered(&[]).await;
    for of in SyncedKind::BOTH {
        of.grant(&world, &team, &[&team, &foo, &bar, &new]).await;
        let before = [("a", "1"), ("gone", "x")];
        of.object(&world, &team, &before).await;
        of.sync(&world, &team, of.spec(&world, &team, &[&foo, &bar])).await;
        of.holds(&world, &foo, &before).await;
        of.holds(&world, &bar, &before).await;

        let mut spec = of.spec(&world, &team, &[&bar, &new]);
        spec["dryRun"] = json!(true);
        of.sync(&world, &team, spec).await;
        of.condition(&world, &team, "Paused", "True", "DryRun").await;
        let after = [("a", "hunter2"), ("b", "2")];
        of.object(&world, &team, &after).await;
        let (path, kind) = (of.page(&team), of.kind());
        ui.shows(&format!("syncs?q={team}"), &path).await;
        ui.shows(&path, "A dry run").await;
        let page = ui.page(&format!("{path}/compare")).await;
        for part in [
            "It is a dry run: nothing of this is written".to_owned(),
            "1 to create, 1 to update, 1 to remove.".to_owned(),
            format!("{kind} {bar}/settings: is a copy and differs"),
            format!("{kind} {new}/settings: does not exist"),
            format!("{kind} {foo}/settings: is a copy that the spec does not ask for, and would be deleted"),
            line("changed", &of.field("a")),
            line("added", &of.field("b")),
            line("removed", &of.field("gone")),
        ] {
            assert!(page.contains(&part), "{part} is not in {page}");
        }
        assert!(!page.contains("hunter2") && !page.contains("Missing rights"), "{page}");
        of.holds(&world, &foo, &before).await;
        of.holds(&world, &bar, &before).await;
        // The same in the terminal.
        let (done, said) = weaver(&["sync", "explain", "sync", "-n", &team]);
        let differs = ["a", "b", "gone"].map(|name| of.field(name)).join(", ");
        let lines = [
            format!("{kind} {bar}/settings: is a copy and differs: {differs}"),
            format!("{kind} {foo}/settings: is a copy that the spec does not ask for, and would be deleted"),
        ];
        assert!(done && lines.iter().all(|line| said.contains(line)), "{said}");
        assert!(!said.contains("hunter2"), "{said}");

        // What was planned is what is done.
        of.sync(&world, &team, of.spec(&world, &team, &[&bar, &new])).await;
        for namespace in [&bar, &new] {
            of.holds(&world, namespace, &after).await;
        }
        of.lacks(&world, &foo).await;
        of.condition(&world, &team, "Ready", "True", "Synced").await;
        let page = ui.page(&format!("{path}/compare")).await;
        assert!(page.contains("<p>2 as they should be.</p>"), "{page}");
    }
    world.finish().await;
}

/// A namespace that lets no copies in is not written, whatever a pattern selects.
#[tokio::test]
async fn the_plan_leaves_out_what_the_operator_leaves_alone() {
    let world = World::new("ui-plan-closed").await;
    let (team, _) = world.synced().await;
    let shut = world.target(&team, "shut").await;
    let closed = json!({"annotations": {"weaver.example.com/accept-from": "none"}});
    world.mark_namespace(&shut, closed).await;
    let mut spec = world.spec(&team, &[]);
    spec["targets"] = json!({"patterns": [world.name("shut*")]});
    world.grant(&team, &shut, &TARGET).await;
    world.sync(&team, "sync", spec).await;
    let ui = Ui::entered(&[]).await;
    ui.shows(&format!("syncs?q={team}"), &format!("{team}/sync")).await;
    let page = ui.page(&format!("syncs/{team}/sync/compare")).await;
    assert!(page.contains("is not touched: the namespace accepts no copies from"), "{page}");
    assert!(page.contains("1 not to be touched"), "{page}");
    assert!(!page.contains("to create"), "{page}");
    world.finish().await;
}

/// The watch has not said yet that it is gone.
#[tokio::test]
async fn of_a_sync_that_was_deleted_meanwhile_the_plan_says_so() {
    let world = World::new("ui-plan-deleted").await;
    let (team, foo) = world.synced().await;
    SyncedKind::Gadget.grant(&world, &team, &[&team, &foo]).await;
    SyncedKind::Gadget.object(&world, &team, &[("a", "1")]).await;
    SyncedKind::Gadget.sync(&world, &team, SyncedKind::Gadget.spec(&world, &team, &[&foo])).await;
    SyncedKind::Gadget.condition(&world, &team, "Ready", "True", "Synced").await;
    let mut hooks = Hooks::none();
    hooks.instead = Arc::new(|request| {
        let is_it = request.method == Method::GET && request.uri.path().ends_with("syncs/sync");
        let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 404,
                            "reason": "NotFound", "message": "there is no <sync>"});
        let answer = || Response::builder().status(404).header("content-type", "application/json");
        is_it.then(|| answer().body(Body::from(status.to_string().into_bytes())).unwrap())
    });
    let directory = tempfile::tempdir().unwrap();
    let proxy = person::proxy(hooks).await;
    let kubeconfig = person::kubeconfig(&world, &team, &proxy, directory.path()).await;
    let mut command = program("weaver", &["ui", "--no-browser", "-n", &team]);
    command.env("KUBECONFIG", &kubeconfig);
    let mut ui = Ui::by(command).await;
    ui.enter().await;
    for path in SyncedKind::BOTH.map(|of| of.page(&team)) {
        ui.shows("syncs", &path).await;
        for path in ["compare", "grant"].map(|last| format!("{path}/{last}")) {
            let page = ui.page(&path).await;
            assert!(page.contains("role=\"alert\"") && !page.contains("<form"), "{path}: {page}");
            assert!(!page.contains("to create") && !page.contains("<sync>"), "{path}: {page}");
        }
        let page = ui.page(&path).await;
        assert!(page.contains("there is no &lt;sync&gt;") && page.contains("Ready"), "{path}: {page}");
    }
    world.finish().await;
}
