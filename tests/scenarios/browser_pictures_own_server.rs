//! The pictures of `weaver ui` in the documentation: taken here, and of this build as long as the pages say the same.

use serde_json::json;
use weaver_tests::alone::OwnOperator;
use weaver_tests::browser::{Browser, LOOKS};
use weaver_tests::cli::weaver_on;
use weaver_tests::ui::Ui;

#[tokio::test]
async fn the_pictures_in_the_documentation_are_of_this_build() {
    let alone = OwnOperator::direct(&[]).await;
    let world = alone.world("pictures");
    let (team, foo) = world.synced().await;
    let (bar, baz, new) =
        (world.target(&team, "bar").await, world.namespace("baz").await, world.target(&team, "new").await);
    world.sync(&team, "sync", world.spec(&team, &[&foo])).await;
    world.grant_source(&team, &team, "preview").await;
    world.config_map(&team, "preview", &[("greeting", "1"), ("old", "1"), ("same", "1")]).await;
    let mut spec = world.spec(&team, &[&foo, &bar]);
    spec["source"]["name"] = json!("preview");
    world.sync(&team, "preview", spec.clone()).await;
    world.condition(&team, "preview", "Ready", "True", "Synced").await;
    spec["dryRun"] = json!(true);
    spec["targets"]["namespaces"] = json!([bar, new]);
    world.sync(&team, "preview", spec).await;
    world.config_map(&team, "preview", &[("greeting", "2"), ("new", "1"), ("same", "1")]).await;
    world.condition(&team, "preview", "Paused", "True", "DryRun").await;
    world.sync(&team, "settings", world.spec(&team, &[&bar, &baz])).await;
    world.condition(&team, "settings", "Ready", "False", "MissingRights").await;

    let ui = Ui::by(weaver_on(&alone.own, &["ui", "--no-browser"])).await;
    let browser = Browser::start().await;
    browser.look(LOOKS[0]).await;
    browser.open(&format!("http://{}{}", ui.host, ui.address())).await;
    browser.shows("Checked ").await;
    let port = alone.own.server.port().to_string();
    let replaced = [
        (world.name(""), ""),
        (format!("127.0.0.1:{port}"), "raspi:6443"),
        (alone.own.server.kubeconfig().display().to_string(), "~/.kube/config"),
    ];
    for (name, path, words) in [
        ("ui-overview", String::new(), format!("Open {team}/settings")),
        ("ui-sync", format!("syncs/{team}/settings"), "MissingRights".to_owned()),
        ("ui-plan", format!("syncs/{team}/preview/compare"), "It is a dry run".to_owned()),
    ] {
        browser.open(&format!("http://{}{}{path}", ui.host, ui.prefix)).await;
        browser.shows(&words).await;
        browser.picture(name, &replaced).await;
    }
    world.finish().await;
}
