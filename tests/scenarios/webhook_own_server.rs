//! The webhook may be away: what is stored at v1beta1 continues, and v1alpha1 says what is wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, Config};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::json;
use weaver_installer as installer;
use weaver_tests::alone::OwnOperator;
use weaver_tests::own::OwnServer;
use weaver_tests::world::{World, eventually};

/// A world with one sync created at v1alpha1 and one at v1beta1, both done.
async fn two_syncs(alone: &OwnOperator, name: &str) -> (World, String, String, String) {
    let world = alone.world(name);
    let (team, foo) = world.synced().await;
    let bar = world.target(&team, "bar").await;
    world.old_sync(&team, "old", world.old_spec(&team, &[&bar])).await;
    world.condition(&team, "old", "Ready", "True", "Synced").await;
    (world, team, foo, bar)
}

#[tokio::test]
async fn without_the_webhook_what_is_stored_at_v1beta1_continues_and_v1alpha1_says_why_not() {
    let mut alone = OwnOperator::direct(&[]).await;
    let (world, team, foo, bar) = two_syncs(&alone, "webhook-down").await;
    alone.own.webhook.kill();

    let error = eventually("v1alpha1 is not served from a cache", || async {
        world.old_syncs(&team).get("old").await.map_or_else(Ok, |_| Err("it was answered"))
    })
    .await
    .to_string();
    for words in
        ["conversion webhook for weaver.example.com/v1beta1, Kind=ConfigMapSync failed", "connection refused"]
    {
        assert!(error.contains(words), "{error}");
    }
    // The operator's own writes: copies as the tenant, then status and, for a new one, the finalizer.
    world.config_map(&team, "settings", &[("a", "2")]).await;
    world.holds(&foo, "settings", &[("a", "2")]).await;
    world.holds(&bar, "settings", &[("a", "2")]).await;
    for name in ["sync", "old"] {
        let edit =
            json!({"spec": {"targets": {"namespaces": [&foo, &bar, "not-there"]}, "resyncSeconds": 60}});
        world.syncs(&team).patch(name, &PatchParams::default(), &Patch::Merge(&edit)).await.unwrap();
        eventually("the status follows the new generation", || async {
            let sync = world.syncs(&team).get(name).await.unwrap();
            let status = sync.status.unwrap_or_default();
            if status.observed_generation == sync.metadata.generation { Ok(()) } else { Err(status) }
        })
        .await;
    }
    world.delete_sync(&team, "old").await;
    let baz = world.target(&team, "baz").await;
    world.sync(&team, "new", world.spec(&team, &[&baz])).await;
    world.holds(&baz, "settings", &[("a", "2")]).await;
    assert!(world.syncs(&team).get("new").await.unwrap().metadata.finalizers.is_some());

    alone.own.webhook.start();
    eventually("v1alpha1 is served again", || async {
        world.old_syncs(&team).list(&ListParams::default()).await
    })
    .await;
    world.old_sync(&team, "again", world.old_spec(&team, &[&bar])).await;
    world.finish().await;
}

#[tokio::test]
async fn a_namespace_with_syncs_can_be_deleted_without_the_webhook() {
    let mut alone = OwnOperator::direct(&[]).await;
    let (world, team, ..) = two_syncs(&alone, "namespace-goes").await;
    alone.own.webhook.kill();
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    namespaces.delete(&team, &DeleteParams::default()).await.unwrap();
    eventually("the namespace is gone", || async {
        namespaces.get_opt(&team).await.unwrap().map_or(Ok(()), |namespace| Err(namespace.status))
    })
    .await;
    world.finish().await;
}

/// Asks on a connection of its own, which it opens with the CA of the definitions.
async fn newcomer(webhook: &installer::Webhook) -> Result<String, kube::Error> {
    let mut config = Config::new(webhook.url.trim_end_matches("/convert").parse().unwrap());
    let ca = CertificateDer::from_pem_slice(webhook.ca_bundle.as_bytes()).unwrap();
    config.root_cert = Some(vec![ca.to_vec()]);
    let health = http::Request::get("/healthz").body(Vec::new()).unwrap();
    Client::try_from(config)?.request_text(health).await
}

#[tokio::test]
async fn the_certificate_is_renewed_at_50_requests_a_second_without_one_that_fails() {
    let own = OwnServer::start().await;
    own.install().await.unwrap();
    let world = World::on(own.client.clone(), "renewal", own.logs());
    let team = world.namespace("team").await;
    world.old_sync(&team, "sync", world.old_spec(&team, &["foo"])).await;
    let (asked, failed) = (Arc::new(AtomicUsize::new(0)), Arc::new(std::sync::Mutex::new(Vec::new())));
    let load = {
        let (asked, failed, syncs) = (asked.clone(), failed.clone(), world.old_syncs(&team));
        tokio::spawn(async move {
            let mut tick = tokio::time::interval(Duration::from_millis(20));
            let mut requests = tokio::task::JoinSet::new();
            loop {
                tick.tick().await;
                let (asked, failed, syncs) = (asked.clone(), failed.clone(), syncs.clone());
                requests.spawn(async move {
                    // Served from storage, so converted each time.
                    if let Err(error) = syncs.get("sync").await {
                        failed.lock().unwrap().push(error.to_string());
                    }
                    asked.fetch_add(1, Ordering::SeqCst);
                });
                while requests.try_join_next().is_some() {}
            }
        })
    };
    // The API server keeps its connection; who connects again gets the new certificate, and must trust it.
    let newcomers = {
        let (failed, webhook) = (failed.clone(), own.webhook.address());
        tokio::spawn(async move {
            loop {
                if let Err(error) = newcomer(&webhook).await {
                    failed.lock().unwrap().push(error.to_string());
                }
            }
        })
    };
    for renewal in 1..=3 {
        let before = asked.load(Ordering::SeqCst);
        own.webhook.renew();
        eventually("the new certificate is in use, under load", || async {
            let swaps = own.webhook.log().matches("serving a certificate").count();
            let since = asked.load(Ordering::SeqCst) - before;
            if swaps > renewal && since >= 100 { Ok(()) } else { Err((swaps, since)) }
        })
        .await;
    }
    assert!(own.webhook.log().matches("accepted a connection").count() > 10, "no one connected again");
    load.abort();
    newcomers.abort();
    assert_eq!(*failed.lock().unwrap(), Vec::<String>::new(), "of {}", asked.load(Ordering::SeqCst));
}

/// Prints what the README says of it: `cargo nextest run -p weaver-tests --run-ignored only list_of_1000`.
#[tokio::test]
#[ignore = "a measurement, not a check"]
async fn measure_a_list_of_1000_at_v1alpha1_after_a_restart_of_the_api_server() {
    let mut own = OwnServer::start().await;
    own.install().await.unwrap();
    let world = World::on(own.client.clone(), "thousand", own.logs());
    let team = world.namespace("team").await;
    let syncs = world.old_syncs(&team);
    for number in 0..1_000 {
        let object = json!({
            "apiVersion": "weaver.example.com/v1alpha1", "kind": "ConfigMapSync",
            "metadata": {"name": format!("sync-{number}")}, "spec": world.old_spec(&team, &["foo", "bar"]),
        });
        syncs.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    }
    own.server.restart().unwrap();
    let counted = |word: &str| own.webhook.log().lines().filter(|line| line.contains(word)).count();
    let before = (counted("answered a review"), counted("accepted a connection"));
    for what in ["first", "second"] {
        let begun = Instant::now();
        let list = eventually("the list", || async { syncs.list(&ListParams::default()).await }).await;
        println!(
            "{what} LIST of {}: {} ms; {} reviews and {} connections so far",
            list.items.len(),
            begun.elapsed().as_millis(),
            counted("answered a review") - before.0,
            counted("accepted a connection") - before.1,
        );
    }
}
