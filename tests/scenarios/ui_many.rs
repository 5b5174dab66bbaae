//! The budget of `weaver ui` with 1,000 ConfigMapSyncs, measured on a build that is not optimised.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Method, Response};
use kube::api::{Api, ListParams};
use kube::client::Body;
use serde_json::{Value, json};
use weaver_api::v1beta1::ConfigMapSync;
use weaver_tests::cli::program;
use weaver_tests::person;
use weaver_tests::proxy::Hooks;
use weaver_tests::ui::Ui;
use weaver_tests::world::World;

const SYNCS: usize = 1_000;
const TARGETS: usize = 40;
const FIRST_PAGE: Duration = Duration::from_millis(300);
/// Of its own, without the program's file.
const MEMORY_KIB: u64 = 30 << 10;

/// As the operator leaves it: most are fine.
fn sync(number: usize, team: &str) -> Value {
    let is_bad = number.is_multiple_of(50);
    let targets: Vec<Value> = (0..TARGETS)
        .map(|target| {
            let (state, reason) =
                if is_bad && target == 0 { ("Failed", "MissingRights") } else { ("Synced", "Synced") };
            json!({"namespace": format!("n-{:03}", (number + target) % 200), "state": state, "reason": reason})
        })
        .collect();
    let status = if is_bad { "False" } else { "True" };
    json!({
        "apiVersion": "weaver.example.com/v1beta1", "kind": "ConfigMapSync",
        "metadata": {"name": format!("s-{number:04}"), "namespace": team, "generation": 1, "uid": format!("u-{number}"),
                     "resourceVersion": "1"},
        "spec": {"serviceAccount": {"name": format!("account-{:03}", number % 300)},
                 "source": {"namespace": team, "name": "settings"}, "targets": {"patterns": ["n-*"]}},
        "status": {"observedGeneration": 1, "targets": targets, "counts": {"desired": TARGETS, "synced": TARGETS},
                   "conditions": [{"type": "Ready", "status": status, "reason": "Why", "message": "m",
                                   "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
    })
}

/// The value of a parameter of a query.
fn query<'q>(query: &'q str, name: &str) -> Option<&'q str> {
    query.split('&').find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
}

#[tokio::test]
async fn the_first_pages_of_a_thousand_syncs_keep_to_the_budget() {
    let world = World::new("ui-many").await;
    let (team, _) = world.synced().await;
    let namespace = team.clone();
    let syncs: Api<ConfigMapSync> = world.syncs(&team);
    // The watch that follows the list is that of the server.
    let version = syncs.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    // Page by page, as the server has it: the program decides how much it reads at once.
    let page = move |request: &str| {
        let asked = |name: &str| query(request, name).and_then(|value| value.parse::<usize>().ok());
        let first = asked("continue").unwrap_or_default();
        let next = asked("limit").map_or(SYNCS, |limit| (first + limit).min(SYNCS));
        let items: Vec<Value> = (first..next).map(|number| sync(number, &namespace)).collect();
        let more = if next < SYNCS { next.to_string() } else { String::new() };
        json!({"apiVersion": "weaver.example.com/v1beta1", "kind": "ConfigMapSyncList",
               "metadata": {"resourceVersion": version, "continue": more}, "items": items})
    };
    let mut hooks = Hooks::none();
    hooks.instead = Arc::new(move |request| {
        let query = request.uri.query().unwrap_or_default();
        let is_list = request.method == Method::GET && request.uri.path().ends_with("/configmapsyncs");
        (is_list && !query.contains("watch=true")).then(|| {
            let body = Body::from(page(query).to_string().into_bytes());
            Response::builder().header("content-type", "application/json").body(body).unwrap()
        })
    });
    let directory = tempfile::tempdir().unwrap();
    let proxy = person::proxy(hooks).await;
    let kubeconfig = person::kubeconfig(&world, &team, &proxy, directory.path()).await;
    let mut command = program("weaver", &["ui", "--no-browser", "-n", &team]);
    command.env("KUBECONFIG", &kubeconfig);
    let mut ui = Ui::by(command).await;
    ui.enter().await;
    ui.shows("syncs", "1000 in all").await;
    for path in ["", "syncs", "syncs?problems=1&to=n-1", "accounts", "accounts?row=3&column=4", "explain"] {
        // Other tests share the machine: one that is fast enough shows that the page is.
        let mut best = Duration::MAX;
        for _ in 0..20 {
            if best < FIRST_PAGE {
                break;
            }
            let begun = Instant::now();
            let page = ui.page(path).await;
            best = best.min(begun.elapsed());
            assert!(page.len() < 500_000, "{path}: {}", page.len());
        }
        println!("{path}: {best:?}");
        assert!(best < FIRST_PAGE, "{path}: {best:?}");
    }
    let peak = ui.peak_kib();
    println!("{peak} KiB");
    assert!(peak < MEMORY_KIB, "{peak} KiB");
    world.finish().await;
}
