//! Another user of the laptop on which `weaver ui` runs, a web page in the same browser, and a tenant whose
//! texts its pages show.

use k8s_openapi::api::core::v1::Event;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{Api, ListParams, PostParams};
use serde_json::json;
use weaver_tests::ui::{Answer, Ui, confirmation};
use weaver_tests::world::{World, eventually};

/// What would run, load or send something, or leave the text that it is in.
const EVIL: &str =
    "</code></pre></textarea><script>alert(1)</script><img src=x onerror=alert(1)>\"'><a href=javascript:x>";

fn is_refused(answer: &Answer) {
    assert_eq!(answer.status, 403, "{answer:?}");
    assert_eq!(answer.header("set-cookie"), "", "{answer:?}");
    let body = &answer.body;
    assert!(body.contains("Not allowed") && !body.contains("ConfigMapSync"), "{body}");
    is_sealed(answer);
}

/// Nothing foreign is run, loaded or framed, and nothing is kept.
fn is_sealed(answer: &Answer) {
    let policy = answer.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'; style-src 'self'; script-src 'self'; "), "{policy}");
    assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{policy}");
    assert_eq!(answer.header("cache-control"), "no-store");
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
    assert_eq!(answer.header("cross-origin-resource-policy"), "same-origin");
}

/// Another user of this machine connects to the port, knows the paths, and tries what comes to mind.
#[tokio::test]
async fn without_the_token_no_page_is_answered_and_the_address_works_once() {
    let mut ui = Ui::start(&[]).await;
    let host = ui.host.clone();
    let own = ("host", host.as_str());
    let paths =
        ["/", "/favicon.ico", "/syncs", "/ui.css", "/..%2f", &ui.prefix, &format!("{}syncs", ui.prefix)];
    for path in paths {
        for headers in
            [vec![own], vec![own, ("cookie", "weaver-ui=AAAA")], vec![own, ("cookie", "weaver-ui=")]]
        {
            is_refused(&ui.ask("GET", path, &headers, "").await);
        }
    }
    let token = &ui.token;
    let short = &token[..token.len() - 1];
    for query in ["token=", "token=a", short, &format!("{token}a"), &format!("x=1&{token}")] {
        is_refused(&ui.ask("GET", &format!("{}?{query}", ui.prefix), &[own], "").await);
    }
    is_refused(&ui.ask("GET", &format!("/?{token}"), &[own], "").await);
    is_refused(&ui.ask("POST", &ui.address(), &[own], "").await);

    let first = ui.ask("GET", &ui.address(), &[own], "").await;
    assert_eq!(first.status, 200, "{first:?}");
    is_sealed(&first);
    assert!(!first.body.contains(ui.token.trim_start_matches("token=")), "{}", first.body);
    let set = first.header("set-cookie").to_owned();
    assert!(set.ends_with(&format!("; Path={}; HttpOnly; SameSite=Strict", ui.prefix)), "{set}");
    // Who has seen the address, in a list of processes or over the shoulder, comes too late.
    is_refused(&ui.ask("GET", &ui.address(), &[own], "").await);
    set.split(';').next().unwrap().clone_into(&mut ui.cookie);
    let page = ui.get("").await;
    assert_eq!(page.status, 200, "{page:?}");
    is_sealed(&page);
}

/// A page of another site, of another port of this machine, or of a name that its owner points at 127.0.0.1,
/// in the browser that has the cookie.
#[tokio::test]
async fn another_page_in_the_same_browser_gets_nothing_even_with_the_cookie() {
    let ui = Ui::entered(&[]).await;
    let (host, cookie) = (ui.host.as_str(), ("cookie", ui.cookie.as_str()));
    let port = host.rsplit(':').next().unwrap();
    let rebound = [
        format!("evil.test:{port}"),
        "127.0.0.1".into(),
        format!("127.0.0.1:{port}.evil.test"),
        format!("[::1]:{port}"),
    ];
    for name in &rebound {
        is_refused(&ui.ask("GET", &ui.prefix, &[("host", name), cookie], "").await);
    }
    is_refused(&ui.ask("GET", &ui.prefix, &[("host", host), ("host", "evil.test"), cookie], "").await);
    is_refused(
        &ui.ask("GET", &format!("http://evil.test{}", ui.prefix), &[("host", host), cookie], "").await,
    );
    let own = ("host", host);
    let origins = [
        "http://evil.test",
        "null",
        "http://127.0.0.1:1",
        &format!("https://{host}"),
        &format!("http://{host}.evil.test"),
    ];
    for origin in origins {
        for (method, path) in [("GET", ""), ("GET", "events"), ("POST", "explain"), ("GET", "syncs")] {
            let target = format!("{}{path}", ui.prefix);
            is_refused(&ui.ask(method, &target, &[own, cookie, ("origin", origin)], "text=a").await);
        }
    }
    for site in ["cross-site", "same-site", "x"] {
        is_refused(&ui.ask("GET", &ui.prefix, &[own, cookie, ("sec-fetch-site", site)], "").await);
    }
    // A form of another page, from a browser that says neither.
    is_refused(&ui.ask("POST", &format!("{}explain", ui.prefix), &[own, cookie], "text=a").await);
    // To a page that may not read the answer, the answer says nothing about who is allowed to.
    for headers in [vec![own, cookie], vec![own]] {
        let answer = ui.ask("GET", &ui.prefix, &headers, "").await;
        assert_eq!(answer.header("access-control-allow-origin"), "", "{answer:?}");
    }
    for method in ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"] {
        let answer =
            ui.ask(method, &ui.prefix, &[own, cookie, ("origin", &format!("http://{host}"))], "").await;
        assert!([403, 404, 405].contains(&answer.status), "{method}: {answer:?}");
    }
    assert_eq!(ui.get("syncs").await.status, 200, "it still answers");
    // By this a page that is left open knows the next program at the port: it is in no request and in no other run.
    let run = async |ui: &Ui| {
        let page = ui.page("syncs").await;
        let (_, rest) = page.split_once("data-run=\"").unwrap();
        rest.split('"').next().unwrap().to_owned()
    };
    let (first, again, other) = (run(&ui).await, run(&ui).await, run(&Ui::entered(&[]).await).await);
    assert!(first == again && first != other && first.len() > 40, "{first} {again} {other}");
    assert!(!format!("{}{}{}", ui.prefix, ui.token, ui.cookie).contains(&first), "{first}");
}

#[tokio::test]
async fn what_a_tenant_writes_is_text_on_every_page_of_the_ui() {
    let world = World::new("other-page-text").await;
    let (team, _) = world.synced().await;
    let sync = world.syncs(&team).get("sync").await.unwrap();
    // The reason of a pause becomes part of a condition, and who may write events has the operator seem to say it.
    let paused = json!({"metadata": {"annotations": {"weaver.example.com/paused": EVIL}}});
    let params = kube::api::PatchParams::default();
    world.syncs(&team).patch("sync", &params, &kube::api::Patch::Merge(paused)).await.unwrap();
    let event: Event = serde_json::from_value(json!({
        "metadata": {"name": "forged", "namespace": team},
        "involvedObject": {"kind": "ConfigMapSync", "namespace": team, "name": "sync", "uid": sync.metadata.uid},
        "reason": "<script>alert(2)</script>", "message": EVIL, "type": "Warning",
    }))
    .unwrap();
    let events: Api<Event> = Api::namespaced(world.client.clone(), &team);
    events.create(&PostParams::default(), &event).await.unwrap();
    world.condition(&team, "sync", "Paused", "True", "PauseRequested").await;

    let ui = Ui::entered(&[]).await;
    let path = format!("syncs/{team}/sync");
    ui.shows(&format!("accounts?q={team}"), &format!("{team}/sync")).await;
    let account = ui.page(&format!("accounts/{team}/sync")).await;
    let accounts = ui.page("accounts?q=%3Cimg%20src=x%20onerror=alert(1)%3E").await;
    let page = eventually("pause and event are shown", || async {
        let page = ui.get(&path).await.body;
        let both = page.contains("PauseRequested") && page.contains("alert(2)") && page.contains("onerror");
        if both { Ok(page) } else { Err(page) }
    })
    .await;
    let query = "q=%3Cscript%3Ealert(1)%3C%2Fscript%3E&to=%22%3E%3Cimg%20src=x%20onerror=alert(1)%3E";
    let filtered = ui.page(&format!("syncs?{query}")).await;
    let compared = ui.page(&format!("{path}/compare")).await;
    let all = ui.page(&format!("syncs?q={team}")).await;
    let overview = ui.shows("", "Checked ").await;
    for page in [page, filtered, compared, all, overview, account, accounts] {
        for harm in ["<script>", "<img", "<a href=javascript", "</textarea>"] {
            assert!(!page.contains(harm), "{harm}: {page}");
        }
        assert_eq!(page.matches("<script").count(), 1, "our own, and no other: {page}");
    }
    let absent = ui.get("syncs/a/%3Cscript%3Ealert(1)%3C%2Fscript%3E").await;
    assert!(absent.status == 404 && !absent.body.contains("<script>"), "{absent:?}");
    world.finish().await;
}

/// Another page tries to have rights granted; and a tenant changes what is asked for while the administrator reads.
#[tokio::test]
async fn only_what_was_shown_is_granted_once_and_only_by_the_page_that_showed_it() {
    let world = World::new("other-page-grant").await;
    let (team, foo) = world.synced().await;
    let (baz, qux) = (world.namespace("baz").await, world.namespace("qux").await);
    world.sync(&team, "sync", world.spec(&team, &[&foo, &baz])).await;
    world.sync(&team, "other", world.spec(&team, &[&baz])).await;
    world.condition(&team, "sync", "Ready", "False", "MissingRights").await;
    let ui = Ui::entered(&[]).await;
    ui.shows(&format!("syncs?q={team}/sync"), "MissingRights").await;
    let path = format!("syncs/{team}/sync/grant");
    let page = ui.page(&path).await;
    let token = confirmation(&page);
    let form = format!("confirmation={token}");
    assert!(page.contains("kind: RoleBinding") && !page.contains(&qux), "{page}");

    // To look is not to agree, whatever the address says.
    ui.page(&format!("{path}?{form}")).await;
    let (host, cookie) = (("host", ui.host.as_str()), ("cookie", ui.cookie.as_str()));
    let kind = ("content-type", "application/x-www-form-urlencoded");
    let target = format!("{}{path}", ui.prefix);
    let own = format!("http://{}", ui.host);
    for origin in ["http://evil.test", "null", "http://127.0.0.1:1"] {
        is_refused(&ui.ask("POST", &target, &[host, cookie, kind, ("origin", origin)], &form).await);
    }
    is_refused(&ui.ask("POST", &target, &[host, cookie, kind], &form).await);
    is_refused(&ui.ask("POST", &target, &[host, kind, ("origin", &own)], &form).await);
    let short = &form[..form.len() - 1];
    for wrong in ["", "confirmation=", "confirmation=AAAA", short, &format!("{form}A"), &format!("x={token}")]
    {
        let answer = ui.post(&path, wrong).await;
        assert!(answer.status == 403 && answer.body.contains("Nothing was granted"), "{wrong}: {answer:?}");
    }
    let answer = ui.post(&format!("syncs/{team}/other/grant"), &form).await;
    assert_eq!(answer.status, 403, "of another page: {answer:?}");
    let plain = ("content-type", "text/plain");
    let answer = ui.ask("POST", &target, &[host, cookie, plain, ("origin", &own)], &form).await;
    assert_eq!(answer.status, 403, "{answer:?}");
    let bound = async |namespace: &str| {
        let bindings: Api<RoleBinding> = Api::namespaced(world.client.clone(), namespace);
        bindings.list(&ListParams::default()).await.unwrap().items.len()
    };
    assert_eq!((bound(&baz).await, bound(&qux).await), (0, 0));

    world.sync(&team, "sync", world.spec(&team, &[&foo, &baz, &qux])).await;
    let answer = ui.post(&path, &form).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    is_sealed(&answer);
    assert_eq!((bound(&baz).await, bound(&qux).await), (1, 0), "what was shown, and no more");
    world.holds(&baz, "settings", &[("a", "1")]).await;
    let again = ui.post(&path, &form).await;
    assert!(again.status == 409 && again.body.contains("This was confirmed before"), "{again:?}");
    assert!(!again.body.contains("Nothing was granted"), "{again:?}");
    assert_eq!((bound(&baz).await, bound(&qux).await), (1, 0), "again");

    // One of another run of the program.
    let stranger = Ui::entered(&[]).await;
    let page = eventually("the other run knows the sync", || async {
        let answer = stranger.get(&path).await;
        if answer.status == 200 { Ok(answer.body) } else { Err(answer) }
    })
    .await;
    let answer = ui.post(&path, &format!("confirmation={}", confirmation(&page))).await;
    assert_eq!(answer.status, 403, "{answer:?}");
    assert_eq!(bound(&qux).await, 0);
    world.finish().await;
}
