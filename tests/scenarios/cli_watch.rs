//! `weaver sync watch`: each change once, whatever happens to the connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use http::Response;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use weaver_tests::cli::program;
use weaver_tests::person;
use weaver_tests::proxy::Hooks;
use weaver_tests::world::{SOON, World, eventually};

#[tokio::test]
async fn a_watch_tells_each_change_in_a_line_and_ends_when_no_one_reads() {
    let world = World::new("cli-verbs-watch").await;
    let home = world.name("home");
    let mut child = program("weaver", &["sync", "watch", "-n", &home, "-o", "json"]).spawn().unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap()).lines();
    let said = tokio::time::timeout(SOON, errors.next_line()).await.unwrap().unwrap().unwrap();
    assert!(said.starts_with("NamespaceMissing: ") && said.ends_with("still watching"), "{said}");
    assert_eq!(world.namespace("home").await, home);

    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = async || -> Value {
        let line = tokio::time::timeout(SOON, lines.next_line()).await.unwrap().unwrap().unwrap();
        serde_json::from_str(&line).unwrap()
    };
    let mut spec = world.spec(&home, &["foo"]);
    spec["suspend"] = json!(true);
    world.sync(&home, "watched", spec.clone()).await;
    let added = next().await;
    assert_eq!((&added["type"], &added["object"]["metadata"]["name"]), (&json!("ADDED"), &json!("watched")));
    spec["resyncSeconds"] = json!(1200);
    world.sync(&home, "watched", spec).await;
    // The operator's own writes are changes too.
    loop {
        let event = next().await;
        assert_eq!(event["type"], "MODIFIED");
        if event["object"]["spec"]["resyncSeconds"] == 1200 {
            break;
        }
    }
    world.delete_sync(&home, "watched").await;
    while next().await["type"] != "DELETED" {}
    drop(lines);
    let ended = tokio::time::timeout(Duration::from_secs(20), child.wait()).await;
    assert!(ended.expect("it ends although nothing changes any more").unwrap().success());
    world.finish().await;
}

#[tokio::test]
async fn a_watch_of_one_object_has_a_table_and_ends_well_on_ctrl_c() {
    let world = World::new("cli-verbs-ctrl-c").await;
    let (team, _) = world.synced().await;
    let mut child = program("weaver", &["sync", "watch", "sync", "-n", &team]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = async || tokio::time::timeout(SOON, lines.next_line()).await.unwrap().unwrap().unwrap();
    assert!(next().await.starts_with("CHANGE "));
    assert!(next().await.starts_with("ADDED      sync   True"));
    let pid = child.id().unwrap().to_string();
    let killed = std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap();
    assert!(killed.success());
    let ended = tokio::time::timeout(SOON, child.wait()).await.unwrap().unwrap();
    assert!(ended.success(), "{ended:?}");
    world.finish().await;
}

#[tokio::test]
async fn a_watch_that_is_cut_or_too_old_continues_and_repeats_nothing() {
    let world = World::new("cli-watch-cut").await;
    let home = world.namespace("home").await;
    let mut spec = world.spec(&home, &["foo"]);
    spec["suspend"] = json!(true);
    for name in ["stays", "goes"] {
        world.sync(&home, name, spec.clone()).await;
        world.condition(&home, name, "Paused", "True", "Suspended").await;
    }
    // The second and the third request to watch are answered with what ends a watch; the first one is cut short.
    let watches = Arc::new(AtomicU32::new(0));
    let mut hooks = Hooks::none();
    let count = watches.clone();
    hooks.instead = Arc::new(move |request| {
        let is_watch = request.uri.query().is_some_and(|query| query.contains("watch=true"));
        let (code, answer) = match is_watch.then(|| count.fetch_add(1, Ordering::SeqCst)) {
            Some(0) => (200, String::new()),
            Some(1) => (
                410,
                r#"{"status": "Failure", "code": 410, "reason": "Expired", "message": "too old"}"#.into(),
            ),
            Some(2) => (503, "no".into()),
            _ => return None,
        };
        Some(Response::builder().status(code).body(Body::from(answer.into_bytes())).unwrap())
    });
    let proxy = person::proxy(hooks).await;
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = person::kubeconfig(&world, &home, &proxy, directory.path()).await;
    let mut command = program("weaver", &["sync", "watch", "-n", &home, "-o", "json"]);
    let mut child = command.env("KUBECONFIG", &kubeconfig).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = async || -> (String, String) {
        let line = tokio::time::timeout(SOON, lines.next_line()).await.unwrap().unwrap().unwrap();
        let event: Value = serde_json::from_str(&line).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        (text(&event["type"]), text(&event["object"]["metadata"]["name"]))
    };
    let is = |change: &str, name: &str| (change.to_owned(), name.to_owned());
    assert_eq!([next().await, next().await], [is("ADDED", "goes"), is("ADDED", "stays")]);
    eventually("the watch is begun again", || async {
        let watches = watches.load(Ordering::SeqCst);
        if watches > 3 { Ok(()) } else { Err(watches) }
    })
    .await;
    world.delete_sync(&home, "goes").await;
    while next().await != is("DELETED", "goes") {}
    spec["resyncSeconds"] = json!(1200);
    world.sync(&home, "stays", spec).await;
    assert_eq!(next().await, is("MODIFIED", "stays"));
    world.finish().await;
}
