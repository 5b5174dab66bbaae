//! `weaver ui` in a real browser.

use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use weaver_api::v1beta1::NodeReport;
use weaver_tests::browser::{Browser, LOOKS};
use weaver_tests::resources;
use weaver_tests::tenant::ACCOUNT;
use weaver_tests::ui::Ui;
use weaver_tests::world::{World, eventually, given};

/// Every page with real data, in light, dark and at the width of a phone: nothing in the console, nothing
/// that axe-core finds, nothing wider than the screen, everything accessible by keyboard; and each can be read without
/// JavaScript.
#[tokio::test]
async fn every_page_is_fit_for_eyes_keyboards_and_screen_readers() {
    let world = World::new("browser-pages").await;
    let (team, foo) = world.synced().await;
    let (bar, baz) = (world.target(&team, "bar").await, world.namespace("baz").await);
    dry_run(&world, &team, [&foo, &bar]).await;
    world.sync(&team, "settings", world.spec(&team, &[&bar, &baz])).await;
    world.condition(&team, "settings", "Ready", "False", "MissingRights").await;
    let long = long_names(&world, &team, &bar).await;
    resources::sync(&world, &team, "policies", policies(&team, &foo)).await;
    resources::condition(&world, &team, "policies", "Ready", "False", "MissingRights").await;
    world.grant_writer(&team, "tokens").await;
    world.robot(&team, "robot").await;
    world.service_token(&team, "tokens", &[("api", "robot")]).await;
    world.fresh(&team, "tokens").await;
    let nodes: Api<NodeReport> = Api::all(world.client.clone());
    let reports = nodes.list(&ListParams::default()).await.unwrap();
    let node = reports.items.first().expect("the agent of the stack reports").name_any();

    let (ui, browser) = (Ui::start(&[]).await, Browser::start().await);
    let address = |path: &str| format!("http://{}{}{path}", ui.host, ui.prefix);
    browser.open(&format!("http://{}{}", ui.host, ui.address())).await;
    browser.shows("Checked ").await;
    assert_eq!(browser.address().await, address(""), "the token is not in the address any more");

    let broken = format!("{team}/settings");
    let pages = [
        ("overview", String::new(), "Checked "),
        ("syncs", format!("syncs?q={team}"), broken.as_str()),
        ("syncs-none", "syncs?q=no-such-sync".to_owned(), "No sync is selected"),
        ("sync", format!("syncs/{broken}"), "MissingRights"),
        ("compare", format!("syncs/{broken}/compare"), "What the next reconciliation would change"),
        ("plan", format!("syncs/{team}/preview/compare"), "It is a dry run"),
        ("grant", format!("syncs/{broken}/grant"), "would be granted"),
        ("accounts", format!("accounts?q={team}"), "Writes in"),
        ("accounts-none", "accounts?q=no-such-account".to_owned(), "No account is selected"),
        ("account", format!("accounts/{team}/{ACCOUNT}"), "Writes in 4"),
        ("rights", format!("accounts/{team}/{ACCOUNT}?in={baz}"), "may not create ConfigMaps"),
        ("resource", format!("resources/{team}/policies"), "MissingRights"),
        ("resource-compare", format!("resources/{team}/policies/compare"), "Missing rights"),
        ("resource-grant", format!("resources/{team}/policies/grant"), "would be granted"),
        ("long", format!("syncs/{team}/{long}"), "Conditions"),
        ("long-account", format!("accounts/{team}/{long}"), "What uses it"),
        ("tokens", "tokens".to_owned(), "robot"),
        ("nodes", "nodes".to_owned(), "booted"),
        ("boot", format!("nodes/{node}"), "Each step in the journal"),
        ("explain", "explain".to_owned(), "An error, or a piece of a log"),
        ("absent", "syncs/a/b".to_owned(), "There is no such ConfigMapSync"),
    ];
    let kubeconfig = given("WEAVER_TEST_KUBECONFIG").display().to_string();
    let replaced = [(world.name(""), ""), (kubeconfig, "~/.kube/config")];
    let mut wrong = Vec::new();
    for look in LOOKS {
        browser.look(look).await;
        for (name, path, words) in &pages {
            browser.open(&address(path)).await;
            browser.shows(words).await;
            let mut found = browser.violations().await;
            found.extend(browser.not_as_in(look).await);
            let overflow = browser.overflow().await;
            if overflow > 0 {
                found.push(format!("{overflow} pixels wider than the screen"));
            }
            if browser.run(COVERED).await == true {
                found.push("the names of rows cover the table".to_owned());
            }
            if look.name == "light" {
                found.extend(browser.not_reached().await);
            }
            browser.screenshot(&format!("{name}-{}", look.name), &replaced).await;
            // That this one page is not there is no fault of it.
            let is_known =
                |line: &str| *name == "absent" && line.contains(path) && line.contains("status of 404");
            found.extend(browser.console().await.into_iter().filter(|line| !is_known(line)));
            wrong.extend(found.into_iter().map(|one| format!("{name}, {}: {one}", look.name)));
        }
    }
    browser.open(&address("explain")).await;
    let typed =
        "document.querySelector('textarea').value = 'x509: certificate is valid for raspi, not pi.lan'";
    browser.run(&format!("{typed}; document.forms[0].requestSubmit()")).await;
    browser.shows("1 known error in 1 line").await;
    wrong.extend(browser.violations().await);
    wrong.extend(browser.console().await);
    assert!(wrong.is_empty(), "{wrong:#?}");

    browser.runs_scripts(false).await;
    for (_, path, words) in &pages {
        browser.open(&address(path)).await;
        browser.shows(words).await;
    }
    world.finish().await;
}

/// Whether the first column, which stays while one scrolls, takes more than a part of the screen.
const COVERED: &str = "return [...document.querySelectorAll('.matrix tbody th')]
    .some((one) => getComputedStyle(one).position === 'sticky' && one.offsetWidth > window.innerWidth / 3)";

/// The longest names that the API server takes, without a position where a line would break: of a sync, its source and
/// its account, which is also the name that is returned.
async fn long_names(world: &World, team: &str, target: &str) -> String {
    let long = "a".repeat(253);
    let mut spec = world.spec(team, &[target]);
    spec["serviceAccount"]["name"] = json!(long);
    spec["source"]["name"] = json!(long);
    world.sync(team, &long, spec).await;
    long
}

/// Of a ResourceSync whose account may not do it.
fn policies(team: &str, target: &str) -> serde_json::Value {
    resources::spec(team, "networking.k8s.io/v1", "NetworkPolicy", "deny", &[target])
}

/// A ConfigMapSync `preview` that was changed to a dry run: of its two copies one would be deleted and one
/// changed, and a third would be made.
async fn dry_run(world: &World, team: &str, [old, kept]: [&str; 2]) {
    let new = world.target(team, "new").await;
    world.grant_source(team, team, "preview").await;
    world.config_map(team, "preview", &[("greeting", "1"), ("old", "1"), ("same", "1")]).await;
    let mut spec = world.spec(team, &[old, kept]);
    spec["source"]["name"] = json!("preview");
    world.sync(team, "preview", spec.clone()).await;
    world.condition(team, "preview", "Ready", "True", "Synced").await;
    spec["dryRun"] = json!(true);
    spec["targets"]["namespaces"] = json!([kept, new]);
    world.sync(team, "preview", spec).await;
    world.config_map(team, "preview", &[("greeting", "2"), ("new", "1"), ("same", "1")]).await;
    world.condition(team, "preview", "Paused", "True", "DryRun").await;
}

/// A page at this machine, as another program would serve it: in the same browser and of the same site, with
/// the cookie of the pages and all that they know.
async fn another_page(html: String) -> String {
    another_page_at("127.0.0.1:0", html).await
}

/// The same at this address and port, where it answers each request for changes that there are some.
async fn another_page_at(at: &str, html: String) -> String {
    let listener = TcpListener::bind(at).await.unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4_096];
            let read = stream.read(&mut request).await.unwrap_or_default();
            let is_events = String::from_utf8_lossy(&request[..read]).contains("/events HTTP/1.1");
            let (kind, body) = if is_events {
                ("text/event-stream", "event: change\ndata: new\n\n")
            } else {
                ("text/html", html.as_str())
            };
            let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n");
            let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
        }
    });
    address
}

/// After Ctrl-C another program of this machine gets the port, and all that the page that is still open asks for.
#[tokio::test]
async fn a_page_that_is_left_open_shows_nothing_of_the_next_program_at_its_port() {
    let (ui, browser) = (Ui::start(&[]).await, Browser::start().await);
    browser.open(&format!("http://{}{}", ui.host, ui.address())).await;
    browser.shows("Live.").await;
    let (host, prefix) = (ui.host.clone(), ui.prefix.clone());
    ui.end().await;
    // It knows the way to the pages by what it is asked for, and what a page looks like; not of which run this one is.
    let evil = format!(
        "<!DOCTYPE html><body data-run=\"guessed\" data-events=\"{prefix}events\"><main id=main><h1>Overview</h1>\
         <p>Type your password</p></main><footer><time>x</time><span id=live></span></footer>"
    );
    another_page_at(&host, evil).await;
    let text = browser.shows("No longer served (200)").await;
    assert!(text.contains("Overview") && !text.contains("password"), "{text}");
}

#[tokio::test]
async fn a_broken_sync_is_led_to_its_cure_by_clicks_alone() {
    let world = World::new("browser-cure").await;
    let (team, foo) = world.synced().await;
    let (baz, qux) = (world.namespace("baz").await, world.namespace("qux").await);
    let (ui, browser) = (Ui::start(&[]).await, Browser::start().await);
    browser.open(&format!("http://{}{}", ui.host, ui.address())).await;
    browser.click("Syncs").await;
    browser.click(&format!("{team}/sync")).await;
    browser.shows("Copies: 1 of 1 synced").await;

    // A change is seen while the page stays.
    browser.run("window.stays = true").await;
    world.sync(&team, "sync", world.spec(&team, &[&foo, &baz])).await;
    browser.shows("Not ready").await;
    assert_eq!(browser.run("return window.stays").await, true);
    browser.click("Find out why").await;
    browser.shows("kind: RoleBinding").await;
    browser.click("Grant what is missing").await;
    browser.shows("Nothing has been changed yet").await;
    assert_eq!(browser.console().await, Vec::<String>::new());

    // Another page knows the address and the confirmation, and the browser sends it the cookie.
    let confirmation = browser.run("return document.querySelector('[name=confirmation]').value").await;
    let confirmation = confirmation.as_str().unwrap();
    let form = format!(
        "<form method=post action=\"http://{}{}syncs/{team}/sync/grant\">\
         <input type=hidden name=confirmation value=\"{confirmation}\"><button>Win</button></form>",
        ui.host, ui.prefix
    );
    browser.open(&another_page(form).await).await;
    browser.click("Win").await;
    browser.shows("Not allowed: another page asked for this one").await;
    assert_eq!(world.granted(&baz).await, Vec::<String>::new());

    browser.open(&format!("http://{}{}syncs/{team}/sync/grant", ui.host, ui.prefix)).await;
    browser.click("Grant these rights").await;
    browser.shows(&format!("The operator retries {team}/sync now.")).await;
    assert_eq!(browser.violations().await, Vec::<String>::new());
    browser.click("Show the current state").await;
    browser.shows("Copies: 2 of 2 synced").await;
    world.holds(&baz, "settings", &[("a", "1")]).await;

    // The same without JavaScript, where a page is as it was when it was opened.
    world.sync(&team, "sync", world.spec(&team, &[&foo, &baz, &qux])).await;
    browser.shows("Not ready").await;
    browser.runs_scripts(false).await;
    browser.open(&format!("http://{}{}syncs/{team}/sync", ui.host, ui.prefix)).await;
    for link in ["Find out why", "Grant what is missing", "Grant these rights"] {
        browser.click(link).await;
    }
    browser.shows(&format!("The operator retries {team}/sync now.")).await;
    world.holds(&qux, "settings", &[("a", "1")]).await;
    world.finish().await;
}

/// Who knows nothing but the address finds why a copy is missing after a right was taken away, and puts it right.
#[tokio::test]
async fn a_right_that_was_taken_away_is_given_back_by_clicks_from_the_overview() {
    let world = World::new("browser-revoked").await;
    let (team, foo) = world.synced().await;
    world.revoke(&foo).await;
    world.config_maps(&foo).delete("settings", &DeleteParams::default()).await.unwrap();
    world.condition(&team, "sync", "Ready", "False", "MissingRights").await;
    let (ui, browser) = (Ui::start(&["-n", &team]).await, Browser::start().await);
    browser.open(&format!("http://{}{}", ui.host, ui.address())).await;
    for link in [&format!("Open {team}/sync"), "Find out why", "Grant what is missing", "Grant these rights"]
    {
        browser.click(link).await;
    }
    browser.shows(&format!("The operator retries {team}/sync now.")).await;
    browser.click("Show the current state").await;
    browser.shows("Copies: 1 of 1 synced").await;
    world.holds(&foo, "settings", &[("a", "1")]).await;
    world.finish().await;
}

/// Two findings of one kind: what a user has opened stays open when the page is loaded again.
#[tokio::test]
async fn what_was_opened_stays_open_when_something_changes() {
    let world = World::new("browser-opened").await;
    let (team, _) = world.synced().await;
    let bar = world.namespace("bar").await;
    for name in ["one", "two"] {
        world.sync(&team, name, world.spec(&team, &[&bar])).await;
        world.condition(&team, name, "Ready", "False", "MissingRights").await;
    }
    let (ui, browser) = (Ui::start(&["-n", &team]).await, Browser::start().await);
    browser.open(&format!("http://{}{}", ui.host, ui.address())).await;
    browser.shows(&format!("Open {team}/two")).await;
    let loaded = "document.querySelector('main h1').dataset.old = 'yes';
                  document.querySelector('article details').open = true";
    browser.run(loaded).await;
    world.sync(&team, "one", world.spec(&team, &[&bar, &world.namespace("baz").await])).await;
    eventually("the page is loaded again", || async {
        let old = browser.run("return document.querySelector('main h1').dataset.old ?? null").await;
        if old.is_null() { Ok(()) } else { Err(old) }
    })
    .await;
    let open = "return [...document.querySelectorAll('article details')].map((one) => one.open)";
    let open = browser.run(open).await;
    let open: Vec<bool> = open.as_array().unwrap().iter().map(|one| one.as_bool().unwrap()).collect();
    assert!(open[0] && !open[1..].contains(&true), "{open:?}");
    world.finish().await;
}
