//! The card's page in a real browser.

use std::fs;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Stdio;

use weaver_tests::browser::{Browser, LOOKS};
use weaver_tests::cli::program;

/// Of a board with too little memory.
const MEMORY: &str = include_str!("../../node-agent/tests/node_agent/support/meminfo");

/// A host of nothing but a name and that memory, as preflight shows it.
async fn publish(root: &Path) {
    for (path, text) in [
        ("usr/lib/systemd/system/weaver-page.socket", ""),
        ("etc/hostname", "raspi\n"),
        ("proc/meminfo", MEMORY),
    ] {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let root = root.to_str().unwrap();
    let flags = ["preflight", "--gate", "--clock-wait", "0", "--root", root];
    let ended = program("weaver-node-agent", &flags).output().await.unwrap();
    assert_eq!(ended.status.code(), Some(10), "{ended:?}");
}

/// In light, in dark and at the width of a phone: nothing in the console, nothing that axe-core finds,
/// nothing wider than the screen, everything accessible by keyboard; a change is seen, and it can be read without
/// JavaScript.
#[tokio::test]
async fn the_cards_page_is_fit_for_eyes_keyboards_and_screen_readers_and_follows_the_node() {
    let root = tempfile::tempdir().unwrap();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/", socket.local_addr().unwrap());
    let file = root.path().join("run/weaver-page.html");
    let mut command = program("weaver-node-agent", &["page", "--file", file.to_str().unwrap()]);
    command.stdin(OwnedFd::from(socket)).stdout(Stdio::null()).stderr(Stdio::null());
    let _page = command.spawn().unwrap();

    let browser = Browser::start().await;
    browser.open(&address).await;
    browser.shows("This node is starting").await;
    let mut wrong = browser.violations().await;
    publish(root.path()).await;
    let text = browser.shows("N-12").await;
    assert!(text.contains("What helps"), "{text}");
    browser.shows(" ago").await;
    let exact = "return Date.parse(document.querySelector('main time').title) > 0";
    assert_eq!(browser.run(exact).await, true);
    // One click selects a whole command: a page without https may not write to the clipboard.
    let selected =
        "const code = document.querySelector('pre code'); return getComputedStyle(code).userSelect";
    assert_eq!(browser.run(selected).await, "all");
    for look in LOOKS {
        browser.look(look).await;
        browser.open(&address).await;
        browser.shows("raspi").await;
        let mut found = browser.violations().await;
        let overflow = browser.overflow().await;
        if overflow > 0 {
            found.push(format!("{overflow} pixels wider than the screen"));
        }
        if look.name == "light" {
            found.extend(browser.not_reached().await);
        }
        found.extend(browser.console().await);
        let replaced = [(root.path().display().to_string(), "")];
        if look.name == "phone" {
            browser.picture("card-page", &replaced).await;
        } else {
            browser.screenshot(&format!("card-{}", look.name), &replaced).await;
        }
        wrong.extend(found.into_iter().map(|one| format!("{}: {one}", look.name)));
    }
    // The entry of a code, in the book of this build; looked at as on a phone, which was the last.
    for (link, part) in
        [("docs/reference/codes.md#n-12-memory-too-small", "memory-too-small"), ("docs/", "Troubleshoot")]
    {
        browser.open(&format!("{address}{link}")).await;
        browser.shows(part).await;
        wrong.extend(browser.violations().await);
        wrong.extend(browser.console().await);
        let overflow = browser.overflow().await;
        wrong.extend((overflow > 0).then(|| format!("{link}: {overflow} pixels wider than the screen")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");

    browser.runs_scripts(false).await;
    browser.open(&address).await;
    browser.shows("N-12").await;
}
