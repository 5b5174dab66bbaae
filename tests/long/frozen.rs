//! A watch falls silent: its stream stays open, its connection is well, and nothing comes by it any more. That befalls
//! each kind of watch in turn, and what it would have reported is done all the same, since a silent one is opened
//! again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use http::request::Parts;
use kube::api::DeleteParams;
use serde_json::json;
use weaver_tests::alone::OwnOperator;
use weaver_tests::proxy::Hooks;
use weaver_tests::tokens::Tokens;
use weaver_tests::world::World;

/// The watches that were opened.
#[derive(Clone, Default)]
struct Streams(Arc<Mutex<Vec<Stream>>>);

struct Stream {
    kind: String,
    /// By name, by label, or of all.
    selects: String,
    frozen: Arc<AtomicBool>,
}

impl Streams {
    fn hooks(&self) -> Hooks {
        let streams = self.clone();
        let frozen = move |request: &Parts| streams.opened(request);
        Hooks { frozen: Arc::new(frozen), ..Hooks::none() }
    }

    fn opened(&self, request: &Parts) -> Arc<AtomicBool> {
        let frozen = Arc::<AtomicBool>::default();
        let query = request.uri.query().unwrap_or_default();
        if query.contains("watch=true") {
            let kind = request.uri.path().rsplit('/').next().unwrap_or_default().to_owned();
            let selector =
                query.split('&').find(|pair| pair.split('=').next().unwrap().ends_with("Selector"));
            let selects = selector.and_then(|pair| pair.split('=').next()).unwrap_or_default().to_owned();
            self.0.lock().unwrap().push(Stream { kind, selects, frozen: frozen.clone() });
        }
        frozen
    }

    /// How many there were of these, and all of them frozen.
    fn freeze(&self, kind: &str, selects: &str) -> usize {
        let streams = self.0.lock().unwrap();
        let those = streams.iter().filter(|stream| stream.kind == kind && stream.selects == selects);
        those.inspect(|stream| stream.frozen.store(true, Ordering::SeqCst)).count()
    }
}

/// Changes that still take effect while the watch for them is silent.
async fn happens(world: &World, (team, foo): (&str, &str), kind: &str, selects: &str) {
    match (kind, selects) {
        ("configmapsyncs", _) => {
            world.sync(team, "another", renamed(world.spec(team, &[foo]), "another")).await;
            world.holds(foo, "another", &[("a", "1")]).await;
        }
        ("namespaces", _) => {
            let mut spec = renamed(world.spec(team, &[]), "selected");
            spec["targets"]["selector"] = json!({"matchLabels": {"chosen": "yes"}});
            world.sync(team, "selecting", spec).await;
            world.condition(team, "selecting", "Ready", "True", "Synced").await;
            let late = world.target(team, "late").await;
            world.mark_namespace(&late, json!({"labels": {"chosen": "yes"}})).await;
            world.holds(&late, "selected", &[("a", "1")]).await;
        }
        ("configmaps", "fieldSelector") => {
            world.config_map(team, "settings", &[("a", "2")]).await;
            world.holds(foo, "settings", &[("a", "2")]).await;
        }
        ("configmaps", _) => {
            world.config_maps(foo).delete("settings", &DeleteParams::default()).await.unwrap();
            world.holds(foo, "settings", &[("a", "2")]).await;
        }
        ("servicetokens", _) => {
            world.grant_writer(team, "more").await;
            world.service_token(team, "more", &[("a", "robot")]).await;
            world.fresh(team, "more").await;
        }
        _ => {
            let before = world.tokens(team, "tokens").await;
            world.secrets(team).delete("tokens", &DeleteParams::default()).await.unwrap();
            let again = |now: &Tokens| !now.is_empty() && *now != before;
            world.tokens_that(team, "tokens", "are other ones", again).await;
        }
    }
}

fn renamed(mut spec: serde_json::Value, name: &str) -> serde_json::Value {
    spec["targets"]["name"] = json!(name);
    spec
}

#[tokio::test]
#[ignore = "takes minutes: make test-long"]
async fn own_server_each_watch_that_falls_silent_is_opened_again() {
    let streams = Streams::default();
    let hooks = streams.hooks();
    let mut alone = OwnOperator::start_with(|_| hooks, &["--watch", "5"]).await;
    let world = alone.world("frozen");
    let (team, foo) = world.synced().await;
    world.robot(&team, "robot").await;
    world.grant_writer(&team, "tokens").await;
    world.service_token(&team, "tokens", &[("a", "robot")]).await;
    world.fresh(&team, "tokens").await;
    for (kind, selects) in [
        ("configmapsyncs", ""),
        ("servicetokens", ""),
        ("namespaces", ""),
        ("configmaps", "fieldSelector"),
        ("configmaps", "labelSelector"),
        ("secrets", "fieldSelector"),
    ] {
        let frozen = streams.freeze(kind, selects);
        assert!(frozen > 0, "no watch on {kind} by {selects}");
        happens(&world, (&team, &foo), kind, selects).await;
        let again = streams.freeze(kind, selects) - frozen;
        println!(
            "{kind} {selects}: of {frozen} watches so far none speaks any more; {again} were opened since"
        );
        assert!(again > 0, "what happened to {kind} was known by another way");
    }
    let (alive, health) = alone.operator.health("/livez").await;
    assert!(alive && !alone.operator.has_ended(), "{health:#}");
    world.finish().await;
}
