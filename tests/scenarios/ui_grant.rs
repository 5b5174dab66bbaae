//! What `weaver ui` grants, for whom, and what it says where that is not all.

use std::sync::Arc;

use http::{Method, Response, StatusCode};
use kube::client::Body;
use serde_json::{Value, json};
use weaver_tests::cli::program;
use weaver_tests::person;
use weaver_tests::proxy::Hooks;
use weaver_tests::sync_kinds::SyncedKind;
use weaver_tests::ui::{Ui, confirmation};
use weaver_tests::world::World;

/// As someone who may do everything in the namespace `team`, and in `namespace` what these rules say.
async fn as_person(world: &World, team: &str, namespace: &str, rules: Value, hooks: Hooks) -> Ui {
    let directory = tempfile::tempdir().unwrap();
    let proxy = person::proxy(hooks).await;
    let kubeconfig = person::kubeconfig(world, team, &proxy, directory.path()).await;
    let name = kubeconfig.file_stem().unwrap().to_str().unwrap();
    let subjects = json!([{"kind": "ServiceAccount", "name": name, "namespace": team}]);
    world.apply_role(namespace, "person", rules, subjects).await;
    let mut command = program("weaver", &["ui", "--no-browser", "-n", team]);
    command.env("KUBECONFIG", &kubeconfig);
    let mut ui = Ui::by(command).await.keeping((directory, proxy));
    ui.enter().await;
    ui.shows("syncs", "MissingRights").await;
    ui
}

fn roles(verbs: &[&str]) -> Value {
    json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"], "verbs": verbs}])
}

/// Those who are trusted with both verbs may grant more than they have; the API server agrees. What was confirmed for
/// one sync grants nothing for that of the other kind, although both have one name.
#[tokio::test]
async fn who_may_escalate_and_bind_grants_without_holding_the_rights() {
    let world = World::new("ui-escalate").await;
    let (team, _) = world.synced().await;
    let bar = world.namespace("bar").await;
    for of in SyncedKind::BOTH {
        of.grant(&world, &team, &[&team]).await;
        of.object(&world, &team, &[("a", "1")]).await;
        of.sync(&world, &team, of.spec(&world, &team, &[&bar])).await;
        of.condition(&world, &team, "Ready", "False", "MissingRights").await;
    }
    let paths = SyncedKind::BOTH.map(|of| format!("{}/grant", of.page(&team)));
    let some = roles(&["get", "create", "patch", "escalate"]);
    let ui = as_person(&world, &team, &bar, some, Hooks::none()).await;
    for (of, path) in SyncedKind::BOTH.into_iter().zip(&paths) {
        ui.shows("syncs", &of.page(&team)).await;
        let page = ui.page(path).await;
        let lacking = format!("<li>create {} in namespace {bar}</li>", of.several().to_lowercase());
        assert!(page.contains("Your own rights do not allow you to grant it"), "{page}");
        assert!(page.contains(&lacking) && !page.contains("<form"), "{lacking}: {page}");
    }

    let all = roles(&["get", "create", "patch", "escalate", "bind"]);
    let ui = as_person(&world, &team, &bar, all, Hooks::none()).await;
    for (of, path) in SyncedKind::BOTH.into_iter().zip(&paths) {
        ui.shows("syncs", &of.page(&team)).await;
        let page = ui.page(path).await;
        let form = format!("confirmation={}", confirmation(&page));
        for other in paths.iter().filter(|other| *other != path) {
            let answer = ui.post(other, &form).await;
            assert!(answer.status == 403 && answer.body.contains("Nothing was granted"), "{answer:?}");
        }
        of.lacks(&world, &bar).await;
        let answer = ui.post(path, &form).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        of.holds(&world, &bar, &[("a", "1")]).await;
    }
    world.finish().await;
}

/// The rights are there, and only the request to retry at once is refused: that is no grant in part.
#[tokio::test]
async fn a_retry_that_is_refused_is_not_said_to_be_a_grant_in_part() {
    let world = World::new("ui-no-retry").await;
    let (team, _) = world.synced().await;
    let bar = world.namespace("bar").await;
    world.sync(&team, "sync", world.spec(&team, &[&bar])).await;
    world.condition(&team, "sync", "Ready", "False", "MissingRights").await;
    let mut hooks = Hooks::none();
    hooks.instead = Arc::new(|request| {
        let is_retry = request.method == Method::PATCH && request.uri.path().contains("/configmapsyncs/");
        let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 403,
                            "reason": "Forbidden", "message": "no one may patch <this>"});
        let body = Body::from(status.to_string().into_bytes());
        is_retry.then(|| Response::builder().status(StatusCode::FORBIDDEN).body(body).unwrap())
    });
    let all = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    let ui = as_person(&world, &team, &bar, all, hooks).await;
    let path = format!("syncs/{team}/sync/grant");
    let form = format!("confirmation={}", confirmation(&ui.page(&path).await));
    let answer = ui.post(&path, &form).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    for part in ["Everything was granted", "no one may patch &lt;this&gt;", "<h1>Rights granted</h1>"] {
        assert!(answer.body.contains(part), "{part} is not in {answer:?}");
    }
    assert!(!answer.body.contains("Not everything was granted"), "{answer:?}");
    assert_ne!(world.granted(&bar).await, Vec::<String>::new());
    let again = ui.post(&path, &form).await;
    assert!(again.status == 409 && again.body.contains("This was confirmed before"), "{again:?}");
    world.finish().await;
}

/// The account has every right, and the operator may not act as it: the page says the one thing that is missing.
#[tokio::test]
async fn where_only_the_operators_own_right_is_missing_the_page_says_so_and_grants_it() {
    let world = World::new("ui-minting").await;
    let (team, foo, _) = world.without_minting().await;
    let ui = Ui::entered(&[]).await;
    ui.shows(&format!("syncs?q={team}"), "MintingForbidden").await;
    let page = ui.page(&format!("syncs/{team}/sync/compare")).await;
    for part in ["Missing rights", "the operator may not request tokens for", "Grant what is missing"] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    assert!(!page.contains("holds every right"), "{page}");
    let path = format!("syncs/{team}/sync/grant");
    let page = ui.page(&path).await;
    assert!(page.contains("weaver-mint-sync"), "{page}");
    let answer = ui.post(&path, &format!("confirmation={}", confirmation(&page))).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    world.holds(&foo, "settings", &[("a", "1")]).await;
    world.finish().await;
}
