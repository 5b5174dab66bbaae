//! What stays on a terminal while someone looks: a table that is redrawn in place, and the status.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::Response;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use weaver_tests::cli::program;
use weaver_tests::person;
use weaver_tests::proxy::Hooks;
use weaver_tests::terminal::Terminal;
use weaver_tests::world::{SOON, World, eventually};

/// `weaver` with its standard output on a terminal of this size.
fn on_terminal(mut command: Command, rows: u16, columns: u16) -> (Child, Terminal) {
    let (terminal, far) = Terminal::open(rows, columns);
    (command.env("TERM", "xterm-256color").stdout(far.stream()).spawn().unwrap(), terminal)
}

async fn shows(terminal: &Terminal, what: &str, is: impl Fn(&str) -> bool) {
    eventually(what, || async {
        let screen = terminal.screen();
        if is(&screen) { Ok(()) } else { Err(screen) }
    })
    .await;
}

/// Ctrl-C, after which it ends well.
async fn interrupted(mut child: Child) {
    let pid = child.id().unwrap().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let ended = tokio::time::timeout(SOON, child.wait()).await.unwrap().unwrap();
    assert!(ended.success(), "{ended:?}");
}

#[tokio::test]
async fn a_watch_on_a_terminal_is_one_table_of_its_size_and_says_while_it_is_cut() {
    let world = World::new("cli-terminal-watch").await;
    let home = world.namespace("home").await;
    let is_down = Arc::new(AtomicBool::new(false));
    let mut hooks = Hooks::none();
    let down = is_down.clone();
    hooks.instead = Arc::new(move |request| {
        let is_watch = request.uri.query().is_some_and(|query| query.contains("watch=true"));
        let answer = || Response::builder().status(503).body(Body::from(b"overloaded".to_vec())).unwrap();
        (is_watch && down.load(Ordering::SeqCst)).then(answer)
    });
    let proxy = person::proxy(hooks).await;
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = person::kubeconfig(&world, &home, &proxy, directory.path()).await;
    is_down.store(true, Ordering::SeqCst);
    let mut command = program("weaver", &["sync", "watch", "-n", &home]);
    command.env("KUBECONFIG", &kubeconfig);
    let (child, terminal) = on_terminal(command, 10, 40);
    shows(&terminal, "the watch is cut", |screen| {
        screen.starts_with("No ConfigMapSyncs found in namespace")
            && screen.contains("\nthe watch failed and")
    })
    .await;
    is_down.store(false, Ordering::SeqCst);

    let mut spec = world.spec(&home, &["foo"]);
    spec["suspend"] = json!(true);
    for number in 0..12 {
        world.sync(&home, &format!("number-{number:02}"), spec.clone()).await;
    }
    shows(&terminal, "what fits, and how many there are besides", |screen| {
        let lines: Vec<_> = screen.lines().collect();
        lines.len() == 9
            && lines[0].starts_with("NAME")
            && lines[8].starts_with("5 more, 5 of them not Ready: `w")
    })
    .await;
    for number in 1..12 {
        world.delete_sync(&home, &format!("number-{number:02}")).await;
    }
    shows(&terminal, "what is left", |screen| {
        screen.lines().count() == 2 && screen.lines().nth(1).unwrap().starts_with("number-00")
    })
    .await;
    interrupted(child).await;
    let (screen, written) = terminal.end();
    assert!(screen.starts_with("NAME") && !screen.contains("the watch failed"), "{screen}");
    assert!(written.len() < 100_000, "{} bytes for some changes", written.len());
    world.finish().await;
}

#[tokio::test]
async fn the_status_stays_on_a_terminal_that_says_no_size() {
    let (child, terminal) = on_terminal(program("weaver", &["status", "--watch"]), 0, 0);
    shows(&terminal, "the status", |screen| {
        let begins = ["leader ", "paused ", "syncs ", "tokens "].map(|begin| screen.matches(begin).count());
        screen.starts_with("leader ") && begins == [1; 4]
    })
    .await;
    interrupted(child).await;
}

#[tokio::test]
async fn a_program_gets_the_status_again_when_it_is_another_one() {
    let world = World::new("cli-status-watch").await;
    let home = world.namespace("home").await;
    let mut child = program("weaver", &["status", "--watch", "-o", "json"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = async || -> Value {
        let line = tokio::time::timeout(SOON, lines.next_line()).await.unwrap().unwrap().unwrap();
        serde_json::from_str(&line).unwrap()
    };
    let paused = |status: &Value| status["syncs"]["paused"].as_u64().unwrap();
    let mut before = next().await;
    assert!(before["leader"]["holder"].is_string() || before["leader"].is_null(), "{before}");
    let mut spec = world.spec(&home, &["foo"]);
    spec["suspend"] = json!(true);
    world.sync(&home, "paused", spec).await;
    // Others make and pause theirs meanwhile.
    loop {
        let now = next().await;
        let bare = |mut status: Value| {
            status["leader"].as_object_mut().map(|leader| leader.remove("renewedSecondsAgo"));
            for candidate in status["candidates"].as_array_mut().unwrap() {
                candidate.as_object_mut().unwrap().remove("at");
            }
            status
        };
        assert_ne!(bare(now.clone()), bare(before.clone()), "nothing is printed twice");
        if paused(&now) > paused(&before) {
            break;
        }
        before = now;
    }
    interrupted(child).await;
    world.finish().await;
}
