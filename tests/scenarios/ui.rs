//! `weaver ui`: its pages show what the cluster has, and follow it.

use kube::api::{Patch, PatchParams};
use kube::config::Kubeconfig;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use weaver_tests::cli::program;
use weaver_tests::person;
use weaver_tests::proxy::Hooks;
use weaver_tests::resources;
use weaver_tests::tenant::{ACCOUNT, TARGET};
use weaver_tests::ui::{Ui, confirmation};
use weaver_tests::world::{World, eventually, given};

#[tokio::test]
async fn a_page_shows_a_sync_follows_its_changes_and_leads_to_the_missing_right() {
    let world = World::new("ui").await;
    let (team, foo) = world.synced().await;
    let baz = world.namespace("baz").await;
    let ui = Ui::entered(&[]).await;
    let of_team = format!("syncs?q={team}");
    let page = ui.shows(&of_team, &format!("{team}/sync")).await;
    assert!(page.contains(&format!("<th scope=\"col\">{foo}</th>")), "{page}");
    assert!(page.contains("class=\"mark ok\"") && page.contains("1/1"), "{page}");
    assert!(page.contains(&format!("data-events=\"{}events\"", ui.prefix)), "{page}");

    let mut changes = ui.changes().await;
    world.sync(&team, "sync", world.spec(&team, &[&foo, &baz])).await;
    world.condition(&team, "sync", "Ready", "False", "MissingRights").await;
    // Other tests change other things: one of the changes is this one.
    let path = format!("syncs/{team}/sync");
    let page = loop {
        changes.next().await;
        let page = ui.page(&path).await;
        if page.contains("MissingRights") {
            break page;
        }
    };
    let compare = format!("{}{path}/compare", ui.prefix);
    assert!(page.contains(&format!("<a class=\"button\" href=\"{compare}\">Find out why</a>")), "{page}");
    assert!(page.contains(&format!("<code>{baz}</code>")), "{page}");
    let page = ui.page(&format!("{path}/compare")).await;
    for part in [
        format!("ConfigMap {foo}/settings: holds the copy"),
        format!("ConfigMap {baz}/settings: does not exist"),
        "1 to create, 1 as they should be.".to_owned(),
        "<span class=\"hidden\">added: </span></span> <code>data.a</code>".to_owned(),
        format!("may not create, delete, get, list, update, watch ConfigMaps in namespace {baz}"),
        "kind: RoleBinding".to_owned(),
        // Another context may become current before it is pasted.
        format!("weaver sync explain sync -n {team} --context default --grant"),
    ] {
        assert!(page.contains(&part), "{part} is not in {page}");
    }

    world.delete_sync(&team, "sync").await;
    eventually("it is gone from the page", || async {
        let answer = ui.get(&path).await;
        if answer.status == 404 { Ok(()) } else { Err(answer) }
    })
    .await;
    world.finish().await;
}

#[tokio::test]
async fn the_overview_says_what_doctor_says_and_an_error_is_explained() {
    let world = World::new("ui-overview").await;
    let (team, _) = world.synced().await;
    let ui = Ui::entered(&[]).await;
    let page = ui.shows("", "checks found nothing wrong").await;
    assert!(page.contains("<code>K-00</code>"), "{page}");
    // The first look of doctor was asked for by the page itself.
    assert!(!page.contains("Checking…"), "{page}");

    let pasted = format!(
        "text=x509%3A+certificate+is+valid+for+kubernetes%2C+not+pi.lan%0A%3Cscript%3Ealert({team})%3C%2Fscript%3E"
    );
    let answer = ui.post("explain", &pasted).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(
        answer.body.contains("1 known error in 2 lines") && answer.body.contains("What helps:"),
        "{answer:?}"
    );
    assert!(!answer.body.contains("<script>alert"), "{answer:?}");
    assert_eq!(ui.post("explain", "other=field").await.status, 400);
    // Whatever is wrong with an address, the menu still works.
    for (path, status) in [
        ("syncs?row=-1", 400),
        ("accounts?row=x", 400),
        ("syncs/%ff/x", 400),
        ("nodes/%ff", 400),
        ("nodes/no-such-node", 404),
        ("accounts/a/b", 404),
        ("nothing", 404),
        ("syncs/a", 404),
    ] {
        let answer = ui.get(path).await;
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        assert!(answer.body.contains("<nav aria-label=\"Pages\">"), "{path}: {answer:?}");
    }
    let refused = ui.post("syncs", "a=b").await;
    assert!(
        refused.status == 405 && refused.body.contains("<nav") && !refused.header("allow").is_empty(),
        "{refused:?}"
    );
    world.finish().await;
}

/// The other tenants' resources are not theirs to list; of their own namespace they see all, and nothing is written.
#[tokio::test]
async fn a_tenant_sees_its_namespace_and_whatever_page_is_opened_nothing_is_written() {
    let world = World::new("ui-tenant").await;
    let (team, foo) = world.synced().await;
    let directory = tempfile::tempdir().unwrap();
    let proxy = person::proxy(Hooks::none()).await;
    let kubeconfig = person::kubeconfig(&world, &team, &proxy, directory.path()).await;
    let start = async |options: &[&str]| {
        let mut command = program("weaver", &[&["ui", "--no-browser"], options].concat());
        command.env("KUBECONFIG", &kubeconfig);
        let mut ui = Ui::by(command).await;
        ui.enter().await;
        ui
    };
    let all = start(&[]).await;
    let page = all.shows("syncs", "could not be listed with your rights").await;
    assert!(page.contains("weaver ui -n NAMESPACE") && !page.contains(&format!("{team}/sync")), "{page}");
    let page = all.shows("", "Checked ").await;
    assert!(
        page.contains("<strong>Syncs</strong> not known") && page.contains("listing ConfigMapSyncs"),
        "{page}"
    );
    let own = start(&["-n", &team]).await;
    own.shows("syncs", &format!("{team}/sync")).await;
    own.shows("nodes", "Tenants do not need them").await;
    own.shows("tokens", "There is no ServiceToken yet").await;
    let page = own.page(&format!("syncs/{team}/sync/compare")).await;
    assert!(page.contains("could not be read with your rights"), "{page}");
    let page = own.page(&format!("syncs/{team}/sync/grant")).await;
    assert!(
        page.contains("Your own rights do not allow you to grant it") && !page.contains("<form"),
        "{page}"
    );
    assert!(page.contains(&format!("create roles.rbac.authorization.k8s.io in namespace {foo}")), "{page}");
    let page = own.shows("", "Checked ").await;
    assert!(page.contains("1 of 1 ready") && !page.contains("listing ConfigMapSyncs"), "{page}");

    let account = kubeconfig.file_stem().unwrap().to_str().unwrap().to_owned();
    let user = format!("system:serviceaccount:{team}:{account}");
    let events = eventually("the audit log has seen this person", || async {
        let mut events = world.audit.events().to_vec();
        events.retain(|event| event["user"]["username"] == user.as_str());
        if events.is_empty() { Err(()) } else { Ok(events) }
    })
    .await;
    for event in events {
        let verb = event["verb"].as_str().unwrap();
        let is_dry = event["requestURI"].as_str().unwrap().contains("dryRun=All");
        let is_question = event["objectRef"]["apiGroup"] == "authorization.k8s.io";
        assert!(["get", "list", "watch"].contains(&verb) || is_dry || is_question, "{event:#}");
    }
    world.holds(&foo, "settings", &[("a", "1")]).await;
    world.finish().await;
}

#[tokio::test]
async fn the_pages_have_what_a_person_may_not_read_in_a_secret_nowhere() {
    let world = World::new("ui-secret").await;
    let (team, foo) = world.synced().await;
    world.grant_writer(&team, "tokens").await;
    world.robot(&team, "robot").await;
    world.service_token(&team, "tokens", &[("api", "robot")]).await;
    let tokens = world.fresh(&team, "tokens").await;
    world.secret(&team, "password", "Opaque", &[("key", b"hunter2-of-the-ui")]).await;
    let mut spec = world.spec(&team, &[&foo]);
    spec["source"] = json!({"kind": "Secret", "name": "password", "namespace": team});
    world.sync(&team, "secret", spec).await;
    world.condition(&team, "secret", "Ready", "False", "MissingRights").await;

    let ui = Ui::entered(&[]).await;
    ui.shows("tokens", &format!("{team}/tokens")).await;
    ui.shows("", "Checked ").await;
    world.grant_secrets(&team, &foo, &TARGET).await;
    world.grant_secrets(&team, &team, &["get", "list", "watch"]).await;
    world.condition(&team, "secret", "Ready", "True", "Synced").await;
    // A copy that differs, so that its key is in the plan.
    let edited = json!({"stringData": {"key": "hunter3-of-the-ui"}});
    let mut paused = world.syncs(&team).get("secret").await.unwrap().spec.spec.unwrap();
    paused.dry_run = true;
    world.sync(&team, "secret", json!(paused)).await;
    world.condition(&team, "secret", "Paused", "True", "DryRun").await;
    world.secrets(&foo).patch("password", &PatchParams::default(), &Patch::Merge(edited)).await.unwrap();
    let paths = [
        String::new(),
        "tokens".into(),
        "nodes".into(),
        format!("syncs?q={team}"),
        format!("syncs/{team}/secret"),
        format!("syncs/{team}/secret/compare"),
    ];
    for path in paths {
        let page = ui.page(&path).await;
        // Raw, in base64, and the token.
        if path.ends_with("compare") {
            assert!(
                page.contains("changed: </span></span> <code>data.key</code>")
                    && page.contains("No page shows a value of a Secret"),
                "{page}"
            );
        }
        for secret in
            ["of-the-ui", "aHVudGVyMi1vZi10aGUtdWk", "aHVudGVyMy1vZi10aGUtdWk", tokens["api"].as_str(), "eyJ"]
        {
            assert!(!page.contains(secret), "{path}: {page}");
        }
    }
    world.finish().await;
}

/// Neither of them may ask what rights the account has: what it needs is granted once more.
#[tokio::test]
async fn who_administers_both_namespaces_grants_by_the_page_and_no_one_grants_more_than_they_hold() {
    let world = World::new("ui-person").await;
    let (team, foo) = world.synced().await;
    let (bar, baz) = (world.namespace("bar").await, world.namespace("baz").await);
    world.sync(&team, "sync", world.spec(&team, &[&bar])).await;
    world.condition(&team, "sync", "Ready", "False", "MissingRights").await;
    let directory = tempfile::tempdir().unwrap();
    let proxy = person::proxy(Hooks::none()).await;
    let kubeconfig = person::kubeconfig(&world, &team, &proxy, directory.path()).await;
    let name = kubeconfig.file_stem().unwrap().to_str().unwrap();
    let subjects = json!([{"kind": "ServiceAccount", "name": name, "namespace": team}]);
    let grant = async |namespace: &str, rules: Value| {
        world.apply_role(namespace, "person", rules, subjects.clone()).await;
    };
    let all = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    // To write Roles and bindings, and no right on what they grant.
    let roles = json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"],
                        "verbs": ["get", "create", "patch"]}]);
    grant(&bar, roles).await;
    let mut command = program("weaver", &["ui", "--no-browser", "-n", &team]);
    command.env("KUBECONFIG", &kubeconfig);
    let mut ui = Ui::by(command).await;
    ui.enter().await;
    ui.shows("syncs", "MissingRights").await;
    let (compare, path) = (format!("syncs/{team}/sync/compare"), format!("syncs/{team}/sync/grant"));
    let page = ui.page(&path).await;
    let lacking = format!("<li>create configmaps in namespace {bar}</li>");
    assert!(page.contains(&lacking) && !page.contains("create roles") && !page.contains("<form"), "{page}");

    grant(&bar, all.clone()).await;
    let page = ui.page(&compare).await;
    assert!(page.contains("Grant what is missing"), "{page}");
    let confirmed = async || format!("confirmation={}", confirmation(&ui.page(&path).await));
    // Taken away between the question and the answer.
    let late = confirmed().await;
    grant(&bar, json!([])).await;
    let answer = ui.post(&path, &late).await;
    assert!(answer.status == 502 && answer.body.contains("is forbidden"), "{answer:?}");
    assert_eq!(world.granted(&bar).await, Vec::<String>::new());
    grant(&bar, all).await;
    let answer = ui.post(&path, &confirmed().await).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    world.holds(&bar, "settings", &[("a", "1")]).await;

    // What cannot be granted, since it is not known where, or since the spec is wrong.
    for (targets, words) in [
        (json!({"patterns": [world.name("*")]}), "nothing was granted: which namespaces"),
        (json!({"namespaces": [baz]}), "Your own rights do not allow you to grant it"),
    ] {
        let mut spec = world.spec(&team, &[&foo]);
        spec["targets"] = targets;
        world.sync(&team, "sync", spec).await;
        let page = ui.page(&path).await;
        assert!(page.contains(words) && !page.contains("<form"), "{words}: {page}");
    }
    world.finish().await;
}

/// Another program makes another context current meanwhile.
#[tokio::test]
async fn all_pages_stay_with_the_cluster_of_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kubeconfig");
    let mut kubeconfig = Kubeconfig::read_from(given("WEAVER_TEST_KUBECONFIG")).unwrap();
    let mut elsewhere = kubeconfig.clusters[0].clone();
    elsewhere.name = "elsewhere".into();
    elsewhere.cluster.as_mut().unwrap().server = Some("https://127.0.0.1:1".into());
    kubeconfig.clusters.push(elsewhere);
    let mut context = kubeconfig.contexts[0].clone();
    context.name = "elsewhere".into();
    context.context.as_mut().unwrap().cluster = "elsewhere".into();
    kubeconfig.contexts.push(context);
    std::fs::write(&file, json!(kubeconfig).to_string()).unwrap();
    let mut command = program("weaver", &["ui", "--no-browser"]);
    command.env("KUBECONFIG", &file);
    let mut ui = Ui::by(command).await;
    kubeconfig.current_context = Some("elsewhere".into());
    std::fs::write(&file, json!(kubeconfig).to_string()).unwrap();
    ui.enter().await;
    let page = ui.shows("", "Checked ").await;
    assert!(page.contains("checks found nothing wrong") && !page.contains("127.0.0.1:1<"), "{page}");
    assert!(!page.contains("The fault is"), "{page}");
}

/// Its status has the form of a ConfigMapSync's: it is counted, found, and has its own page.
#[tokio::test]
async fn a_resource_sync_is_among_the_syncs_and_has_a_page() {
    let world = World::new("ui-resource").await;
    let (team, foo) = world.synced().await;
    let spec = resources::spec(&team, "networking.k8s.io/v1", "NetworkPolicy", "deny", &[&foo]);
    resources::sync(&world, &team, "policies", spec).await;
    resources::condition(&world, &team, "policies", "Ready", "False", "MissingRights").await;
    let ui = Ui::entered(&["-n", &team]).await;
    let path = format!("resources/{team}/policies");
    let page = ui.shows("syncs", &format!("{}{path}", ui.prefix)).await;
    assert!(page.contains("NetworkPolicy ") && page.contains("<small>ResourceSync</small>"), "{page}");
    let page = ui.page(&path).await;
    assert!(page.contains("MissingRights") && page.contains("Find out why"), "{page}");
    let page = ui.page(&format!("{path}/compare")).await;
    for part in [
        format!("source NetworkPolicy.networking.k8s.io {team}/deny does not exist"),
        format!("may not get, list, watch NetworkPolicy.networking.k8s.io deny in namespace {team}"),
        format!(
            "may not create, delete, get, list, update, watch networkpolicies.networking.k8s.io in namespace {foo}"
        ),
        format!("name: weaver:{team}:{ACCOUNT}:target:networkpolicies.networking.k8s.io"),
        "Grant what is missing".to_owned(),
        format!("weaver sync explain policies -n {team} --context default --grant"),
    ] {
        assert!(page.contains(&part), "{part} is not in {page}");
    }
    let page = ui.shows("", &format!("{}{path}", ui.prefix)).await;
    assert!(page.contains("<strong>Syncs</strong> 1 of 2 ready"), "{page}");
    let page = ui.page("accounts").await;
    assert!(page.contains(&format!("{team}/{ACCOUNT}")) && page.contains("<td>2</td>"), "{page}");
    for (namespace, parts) in [
        (
            &team,
            [
                ">may not</span> get NetworkPolicy.networking.k8s.io deny",
                ">may</span> get ConfigMap settings",
            ],
        ),
        (&foo, [">may not</span> create networkpolicies.networking.k8s.io", ">may</span> create ConfigMaps"]),
    ] {
        let page = ui.page(&format!("accounts/{team}/{ACCOUNT}?in={namespace}")).await;
        assert!(parts.iter().all(|part| page.contains(part)), "{parts:?}: {page}");
    }
    resources::delete(&world, &team, "policies").await;
    eventually("it is gone from the page", || async {
        let answer = ui.get(&path).await;
        if answer.status == 404 { Ok(()) } else { Err(answer) }
    })
    .await;
    world.finish().await;
}

/// No watch of the operator has ended since: the status still says that all is well.
#[tokio::test]
async fn a_right_that_is_missing_can_be_granted_although_the_status_does_not_say_so_yet() {
    let world = World::new("ui-revoked").await;
    let (team, foo) = world.synced().await;
    let ui = Ui::entered(&["-n", &team]).await;
    ui.shows("syncs", &format!("{team}/sync")).await;
    let compare = format!("syncs/{team}/sync/compare");
    assert!(!ui.page(&compare).await.contains("Grant what is missing"));
    world.revoke(&foo).await;
    let page = ui.shows(&compare, "Grant what is missing").await;
    assert!(page.contains("kind: RoleBinding"), "{page}");
    world.finish().await;
}

/// The API server is asked only where a user asks, in a namespace that it has named itself.
#[tokio::test]
async fn what_an_account_may_do_is_asked_for_one_namespace_at_a_time() {
    let world = World::new("ui-rights").await;
    let (team, foo) = world.synced().await;
    let baz = world.namespace("baz").await;
    world.sync(&team, "sync", world.spec(&team, &[&foo, &baz])).await;
    world.condition(&team, "sync", "Ready", "False", "MissingRights").await;
    let ui = Ui::entered(&["-n", &team]).await;
    let path = format!("accounts/{team}/{ACCOUNT}");
    ui.shows("syncs", "MissingRights").await;
    let page = ui.page(&format!("{path}?in={foo}")).await;
    assert!(page.contains(">may</span> create") && !page.contains(">may not</span>"), "{page}");
    let page = ui.page(&format!("{path}?in={baz}")).await;
    assert!(page.contains(">may not</span> create") && !page.contains(">may</span>"), "{page}");
    let page = ui.page(&format!("{path}?in=kube-system")).await;
    assert!(!page.contains("kube-system"), "{page}");
    world.finish().await;
}

/// Anyone on the machine may connect: who has the cookie keeps the stream of changes, and gets its pages.
#[tokio::test]
async fn strangers_that_hold_connections_keep_no_one_out() {
    let ui = Ui::entered(&[]).await;
    let mut changes = ui.changes().await;
    let mut held = Vec::new();
    for _ in 0..200 {
        held.push(TcpStream::connect(&ui.host).await.unwrap());
    }
    ui.shows("", "Checked ").await;
    changes.next().await;
    drop(held);
}
