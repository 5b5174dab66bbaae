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
/// Fewer, since each has a hundred times as much.
const LONG_SYNCS: usize = 300;
const FIRST_PAGE: Duration = Duration::from_millis(300);
/// Of its own, without the program's file.
const MEMORY_KIB: u64 = 30 << 10;
/// The same, where each status is as long as the operator writes it.
const MEMORY_OF_LONG_KIB: u64 = 40 << 10;

/// As the operator leaves it: most are fine.
fn short(number: usize) -> Value {
    let is_bad = number.is_multiple_of(50);
    let target = |target: usize| {
        let (state, reason) =
            if is_bad && target == 0 { ("Failed", "MissingRights") } else { ("Synced", "Synced") };
        json!({"namespace": namespace(number + target), "state": state, "reason": reason})
    };
    let targets: Vec<Value> = (0..40).map(target).collect();
    let counts = json!({"desired": 40, "synced": 40 - usize::from(is_bad)});
    json!({"targets": targets, "counts": counts, "conditions": [ready(!is_bad, "m")]})
}

/// As a webhook that is gone leaves it: each target that a status names has a message, and so has the condition. Pages
/// of the list are in memory one after the other, so that the first ones are enough.
fn long(number: usize) -> Value {
    let (message, all) = if number < 100 { (512, 16 << 10) } else { (32, 512) };
    let message = "x".repeat(message);
    let target = |target: usize| json!({"namespace": namespace(number + target), "state": "Failed", "reason": "NotWritten", "message": message});
    let targets: Vec<Value> = (0..128).map(target).collect();
    let counts = json!({"desired": 500, "failed": 500});
    let conditions = json!([ready(false, &"x".repeat(all))]);
    json!({"targets": targets, "counts": counts, "truncated": true, "conditions": conditions})
}

fn namespace(number: usize) -> String {
    format!("n-{:03}", number % 200)
}

fn ready(is_ready: bool, message: &str) -> Value {
    json!({"type": "Ready", "status": if is_ready { "True" } else { "False" }, "reason": "Why", "message": message,
           "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

fn sync(number: usize, team: &str, mut status: Value) -> Value {
    status["observedGeneration"] = json!(1);
    json!({
        "apiVersion": "weaver.example.com/v1beta1", "kind": "ConfigMapSync",
        "metadata": {"name": format!("s-{number:04}"), "namespace": team, "generation": 1, "uid": format!("u-{number}"),
                     "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"serviceAccount": {"name": format!("account-{:03}", number % 300)},
                 "source": {"namespace": team, "name": "settings"}, "targets": {"patterns": ["n-*"]}},
        "status": status,
    })
}

/// The value of a parameter of a query.
fn query<'q>(query: &'q str, name: &str) -> Option<&'q str> {
    query.split('&').find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
}

/// The pages, whose API server has a thousand syncs with these statuses.
async fn opened(name: &str, syncs_in_all: usize, status: fn(usize) -> Value) -> (World, Ui) {
    let world = World::new(name).await;
    let (team, _) = world.synced().await;
    let namespace = team.clone();
    let syncs: Api<ConfigMapSync> = world.syncs(&team);
    // The watch that follows the list is that of the server.
    let version = syncs.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    // Page by page, as the server has it: the program decides how much it reads at once.
    let page = move |request: &str| {
        let asked = |name: &str| query(request, name).and_then(|value| value.parse::<usize>().ok());
        let first = asked("continue").unwrap_or_default();
        let next = asked("limit").map_or(syncs_in_all, |limit| (first + limit).min(syncs_in_all));
        let items: Vec<Value> =
            (first..next).map(|number| sync(number, &namespace, status(number))).collect();
        let more = if next < syncs_in_all { next.to_string() } else { String::new() };
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
    let mut ui = Ui::by(command).await.keeping((directory, proxy));
    ui.enter().await;
    ui.shows("syncs", &format!("{syncs_in_all} in all")).await;
    (world, ui)
}

#[tokio::test]
async fn the_first_pages_of_a_thousand_syncs_keep_to_the_budget() {
    let (world, ui) = opened("ui-many", SYNCS, short).await;
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

/// Tenants and their webhooks decide how long a status is.
#[tokio::test]
async fn hundreds_of_syncs_with_a_long_message_for_each_target_do_not_fill_the_memory() {
    let (world, ui) = opened("ui-long", LONG_SYNCS, long).await;
    // Doctor lists them too.
    ui.shows("", "290 more ConfigMapSyncs have problems").await;
    for path in ["syncs", "syncs?q=s-02&to=n-1", "accounts"] {
        let page = ui.page(path).await;
        assert!(page.len() < 500_000, "{path}: {}", page.len());
    }
    let peak = ui.peak_kib();
    println!("{peak} KiB");
    assert!(peak < MEMORY_OF_LONG_KIB, "{peak} KiB");
    world.finish().await;
}
