//! A tenant whose account has too few rights, or who writes without end: other tenants must not be affected.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::{StreamExt as _, stream};
use http::Request;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Resource};
use serde_json::{Value, json};
use weaver_api::ownership::{ACCEPT_FROM_ANNOTATION, SYNC_NOW_ANNOTATION, SYNC_UID_LABEL, TOKEN_ANNOTATION};
use weaver_tests::alone::OwnOperator;
use weaver_tests::audit::Audit;
use weaver_tests::memory::ProcessMemory;
use weaver_tests::tenant::TARGET;
use weaver_tests::world::{World, eventually, eventually_within, given, weaver};

/// How long a watch that is refused is looked at.
const MINUTE: Duration = Duration::from_mins(1);

/// Requests of this account to list or watch, by the audit log, and the time between the first and now.
fn attempts(audit: &Audit, user: &str) -> (usize, Duration) {
    let events = audit.events();
    let is_attempt = |event: &&Value| {
        event["user"]["username"] == user && (event["verb"] == "list" || event["verb"] == "watch")
    };
    let mut times: Vec<Timestamp> = events
        .iter()
        .filter(is_attempt)
        .filter_map(|event| event["requestReceivedTimestamp"].as_str()?.parse().ok())
        .collect();
    times.sort_unstable();
    let first = times.first().copied().unwrap_or_else(Timestamp::now);
    (times.len(), Timestamp::now().duration_since(first).unsigned_abs())
}

/// "Polled" without `list` is a supported state, so honest tenants have it too.
#[tokio::test]
async fn an_account_that_may_only_get_costs_a_handful_of_refused_lists_a_minute() {
    let world = World::new("greedy-get").await;
    let team = world.namespace("team").await;
    world.account(&team).await;
    world.allow_minting(&team).await;
    world.grant_as(&team, &team, "get-only", &["get"]).await;
    let foo = world.namespace("foo").await;
    world.grant(&team, &foo, &["get", "create", "update", "delete"]).await;
    world.config_map(&team, "settings", &[("a", "1")]).await;
    world.sync(&team, "sync", world.spec(&team, &[&foo])).await;
    world.holds(&foo, "settings", &[("a", "1")]).await;

    let user = format!("system:serviceaccount:{team}:sync");
    // Two watches are refused: that of the source, and that of the copies.
    let tried = eventually_within(MINUTE, "a third of a minute has passed", || async {
        let (tried, lasted) = attempts(&world.audit, &user);
        if lasted > MINUTE / 3 { Ok(tried) } else { Err(lasted) }
    })
    .await;
    assert!((2..=8).contains(&tried), "{tried} lists in a third of a minute");
    let log = std::fs::read_to_string(given("WEAVER_TEST_OPERATOR_LOG")).unwrap();
    let lines = log.lines().filter(|line| line.contains(&team)).count();
    assert!(lines <= 20, "{lines} lines of the log are about it");

    // What it lacks is granted, and an edit is seen without a look from time to time.
    world.grant_source(&team, &team, "settings").await;
    world.grant(&team, &foo, &TARGET).await;
    world.condition(&team, "sync", "Authorized", "True", "Allowed").await;
    world.config_map(&team, "settings", &[("a", "2")]).await;
    world.holds(&foo, "settings", &[("a", "2")]).await;
    world.finish().await;
}

#[tokio::test]
async fn a_namespace_that_is_born_without_consent_never_holds_a_copy() {
    const ROUNDS: usize = 3;
    let world = World::new("greedy-born").await;
    let team = world.tenant().await;
    world.grant_everywhere(&team, &TARGET).await;
    world.config_map(&team, "settings", &[("a", "1")]).await;
    let names: Vec<String> = (0..20 * ROUNDS).map(|number| world.name(&format!("born-{number}"))).collect();
    let targets: Vec<&str> = names.iter().map(String::as_str).collect();
    world.sync(&team, "sync", world.spec(&team, &targets)).await;
    world.condition(&team, "sync", "Ready", "True", "Synced").await;

    let syncs = world.syncs(&team);
    let insist = async {
        for number in 0_u64.. {
            let now = json!({"metadata": {"annotations": {SYNC_NOW_ANNOTATION: number.to_string()}}});
            syncs.patch("sync", &PatchParams::default(), &Patch::Merge(now)).await.unwrap();
            // However many there are, the operator looks twice a second (`withstands.rs`).
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    let annotations = BTreeMap::from([(ACCEPT_FROM_ANNOTATION.to_owned(), "none".to_owned())]);
    let give_birth = async {
        for round in names.chunks(20) {
            for name in round {
                let metadata = ObjectMeta {
                    name: Some(name.clone()),
                    annotations: Some(annotations.clone()),
                    ..ObjectMeta::default()
                };
                let namespace = Namespace { metadata, ..Namespace::default() };
                namespaces.create(&PostParams::default(), &namespace).await.unwrap();
            }
            eventually("each is seen, and was not written to", || async {
                let status = syncs.get("sync").await.unwrap().status.unwrap_or_default();
                let refused = status.counts.map_or(0, |counts| counts.failed);
                let born = names.iter().position(|name| name == &round[19]).unwrap_or_default() + 1;
                if usize::try_from(refused) == Ok(born) { Ok(()) } else { Err(refused) }
            })
            .await;
        }
    };
    tokio::select! {
        () = insist => {}
        () = give_birth => {}
    }
    for name in &names {
        let copy = world.config_maps(name).get_opt("settings").await.unwrap();
        assert_eq!(copy.map(|copy| copy.metadata.name), None, "{name} holds a copy");
    }
    for name in &names {
        namespaces.delete(name, &kube::api::DeleteParams::default()).await.unwrap();
    }
    world.finish().await;
}

/// A `ConfigMap` with the label of copies and as large an annotation as there may be.
fn giant(number: usize) -> ConfigMap {
    let annotations = BTreeMap::from([("note".to_owned(), "x".repeat(250_000))]);
    let metadata = ObjectMeta {
        name: Some(format!("giant-{number}")),
        labels: Some([(SYNC_UID_LABEL.to_owned(), "someone".to_owned())].into()),
        annotations: Some(annotations),
        ..ObjectMeta::default()
    };
    ConfigMap { metadata, ..ConfigMap::default() }
}

#[tokio::test]
async fn labelled_giants_do_not_fill_the_operators_memory_own_server() {
    /// 30 MB in all.
    const GIANTS: usize = 120;
    /// In MiB. What is kept of them is less than one; of a list, 8 are read.
    const SLACK: f64 = 20.0;
    let (mut alone, _wire) = OwnOperator::behind_wire(&[]).await;
    let world = alone.world("greedy-giants");
    let (team, foo) = world.synced().await;
    let before = ProcessMemory::of(alone.operator.pid()).now;
    let maps = world.config_maps(&foo);
    stream::iter(0..GIANTS)
        .for_each_concurrent(4, |number| {
            let maps = maps.clone();
            async move { drop(maps.create(&PostParams::default(), &giant(number)).await.unwrap()) }
        })
        .await;
    // The watch reports it after the giants.
    let tampered = Patch::Merge(json!({"data": {"a": "tampered"}}));
    maps.patch("settings", &PatchParams::default(), &tampered).await.unwrap();
    world.holds(&foo, "settings", &[("a", "1")]).await;
    let by_events = ProcessMemory::of(alone.operator.pid());

    alone.operator.kill();
    alone.restart_operator();
    maps.patch("settings", &PatchParams::default(), &tampered).await.unwrap();
    world.holds(&foo, "settings", &[("a", "1")]).await;
    let by_list = ProcessMemory::of(alone.operator.pid());
    for (way, memory) in [("events", by_events), ("a list", by_list)] {
        assert!(memory.peak < before + SLACK, "{before} MiB before, {memory:?} by {way}");
    }
    // The list is longer than what is read of it, and the status says why its changes are not seen.
    let polled = world.condition(&team, "sync", "Authorized", "True", "Polled").await;
    assert!(polled.message.contains("MiB of metadata"), "{}", polled.message);
    world.finish().await;
}

/// Of each sync what is in the way of its copy is remembered, and who wrote that decides how long its owner's name is.
#[tokio::test]
async fn long_words_in_annotations_are_not_kept_for_each_sync_own_server() {
    const SYNCS: usize = 30;
    /// In MiB; kept for each sync it would be 7 MB of what is in the way of its copy, and 15 of its own annotation. Of
    /// twice as many, 3 MiB were seen.
    const SLACK: f64 = 5.0;
    let (alone, _wire) = OwnOperator::behind_wire(&[]).await;
    let world = alone.world("greedy-words");
    let (honest, foo) = world.synced().await;
    let greedy = world.tenant_called("greedy").await;
    let bar = world.target(&greedy, "bar").await;
    world.config_map(&greedy, "settings", &[("a", "1")]).await;
    let mut blocker = giant(0);
    let words = "x".repeat(250_000);
    blocker.metadata.annotations = Some([(TOKEN_ANNOTATION.to_owned(), format!("a/{words}/u"))].into());
    blocker.metadata.labels = None;
    world.config_maps(&bar).create(&PostParams::default(), &blocker).await.unwrap();
    let before = ProcessMemory::of(alone.operator.pid()).now;
    let note = Patch::Merge(json!({"metadata": {"annotations": {SYNC_NOW_ANNOTATION: words}}}));
    stream::iter(0..SYNCS)
        .for_each_concurrent(4, |number| {
            let mut spec = world.spec(&greedy, &[&bar]);
            spec["targets"]["name"] = json!("giant-0");
            let (world, greedy, note) = (&world, &greedy, &note);
            async move {
                let name = format!("sync-{number}");
                world.sync(greedy, &name, spec).await;
                world.syncs(greedy).patch(&name, &PatchParams::default(), note).await.unwrap();
            }
        })
        .await;
    // One by one: a list of all of them is 7 MB, too much to be read again and again.
    let deadline = Instant::now() + MINUTE * 2;
    for number in 0..SYNCS {
        let name = format!("sync-{number}");
        eventually_within(deadline - Instant::now(), &format!("{name} names what is in its way"), || async {
            let status = world.syncs(&greedy).get(&name).await.unwrap().status.unwrap_or_default();
            if status.counts.is_some_and(|counts| counts.conflicts == 1) {
                Ok(())
            } else {
                Err(status.counts)
            }
        })
        .await;
    }
    world.config_map(&honest, "settings", &[("a", "2")]).await;
    world.holds(&foo, "settings", &[("a", "2")]).await;
    let after = ProcessMemory::of(alone.operator.pid());
    assert!(after.now < before + SLACK, "{before} MiB before, {after:?} after");
    world.finish().await;
}

/// Puts into `metadata.managedFields` what the API server keeps and no parser of Rust takes: a time after the year 9999,
/// and two hundred levels of fields.
async fn poison<K: Resource>(client: &Client, objects: &Api<K>, name: &str) {
    let deep = (0..200).fold(json!({}), |fields, _| json!({"f:a": fields}));
    let entry = |manager: &str, fields: Value| {
        json!({"op": "add", "path": "/metadata/managedFields/-", "value": {
            "manager": manager, "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "time": "9999-12-31T00:00:00Z", "fieldsV1": {"f:metadata": {"f:labels": fields}}}})
    };
    let patch = json!([entry("mallory", json!({"f:x": {}})), entry("moses", json!({"f:x": deep}))]);
    let patch = Patch::Json::<()>(serde_json::from_value(patch).unwrap());
    let requests = kube::core::Request::new(objects.resource_url());
    let request = requests.patch(name, &PatchParams::default(), &patch).unwrap();
    client.request_text(request).await.unwrap();
}

#[tokio::test]
async fn an_object_that_no_parser_takes_stops_no_one_else_own_server() {
    let (mut alone, _wire) = OwnOperator::behind_wire(&[]).await;
    let world = alone.world("greedy-fields");
    let (team, foo) = world.synced().await;
    let mallory = world.tenant_called("mallory").await;
    world.sync(&mallory, "sync", world.spec(&mallory, &["nowhere"])).await;
    let uid = world.syncs(&team).get("sync").await.unwrap().metadata.uid.unwrap();
    let mut planted = giant(0);
    planted.metadata.labels = Some([(SYNC_UID_LABEL.to_owned(), uid)].into());
    world.config_maps(&foo).create(&PostParams::default(), &planted).await.unwrap();
    poison(&world.client, &world.syncs(&mallory), "sync").await;
    poison(&world.client, &world.config_maps(&foo), "giant-0").await;
    poison(&world.client, &Api::<Namespace>::all(world.client.clone()), &mallory).await;

    alone.operator.kill();
    alone.restart_operator();
    world.config_map(&team, "settings", &[("a", "2")]).await;
    world.holds(&foo, "settings", &[("a", "2")]).await;
    // At the old version the webhook converts it.
    let old = "/apis/weaver.example.com/v1alpha1/configmapsyncs";
    let listed = world.client.request_text(Request::get(old).body(Vec::new()).unwrap()).await.unwrap();
    assert!(listed.contains(&team) && listed.contains(&mallory), "{listed}");
    let kubeconfig = alone.own.server.kubeconfig();
    for words in ["sync list -A", "orphans list"] {
        let to = ["--kubeconfig", kubeconfig.to_str().unwrap()];
        let (is_done, said) = weaver(&to.into_iter().chain(words.split(' ')).collect::<Vec<_>>());
        assert!(is_done, "{words}: {said}");
        assert!(
            words != "sync list -A" || [&team, &mallory].iter().all(|home| said.contains(*home)),
            "{said}"
        );
    }
    world.syncs(&team).delete("sync", &kube::api::DeleteParams::default()).await.unwrap();
    world.lacks(&foo, "settings").await;
    eventually("the sync goes", || async {
        match world.syncs(&team).get_opt("sync").await.unwrap() {
            None => Ok(()),
            Some(sync) => Err(sync.metadata.finalizers),
        }
    })
    .await;
    world.finish().await;
}

#[tokio::test]
async fn a_hundred_resources_that_name_what_they_may_not_list_do_not_delay_another_tenant_own_server() {
    const LATE: Duration = Duration::from_secs(10);
    let (alone, _wire) = OwnOperator::behind_wire(&[]).await;
    let world = alone.world("greedy-many");
    let (honest, foo) = world.synced().await;
    let greedy = world.tenant_called("greedy").await;
    let bar = world.namespace("bar").await;
    stream::iter(0..100)
        .for_each_concurrent(8, |number| {
            let mut spec = world.spec(&greedy, &[&bar]);
            spec["source"]["name"] = json!(format!("no-{number}"));
            let (world, greedy) = (&world, &greedy);
            async move { drop(world.sync(greedy, &format!("sync-{number}"), spec).await) }
        })
        .await;
    eventually_within(MINUTE * 2, "each has been tried", || async {
        let reasons = world.syncs(&greedy).list(&kube::api::ListParams::default()).await.unwrap();
        let tried = reasons.items.iter().filter(|sync| sync.status.is_some()).count();
        if tried == 100 { Ok(()) } else { Err(tried) }
    })
    .await;
    for value in 0..10 {
        let value = value.to_string();
        let begun = tokio::time::Instant::now();
        world.config_map(&honest, "settings", &[("a", &value)]).await;
        world.holds(&foo, "settings", &[("a", &value)]).await;
        assert!(begun.elapsed() < LATE, "an edit took {:?}", begun.elapsed());
    }
    let log = alone.operator.log();
    let refusals = log.lines().filter(|line| line.contains("403")).count();
    assert!(refusals <= 10, "{refusals} lines of the log are refusals");
    world.finish().await;
}

#[tokio::test]
async fn giants_that_a_neighbour_labels_as_copies_keep_no_sync_from_being_deleted() {
    let world = World::new("planted").await;
    let (team, foo) = world.synced().await;
    let bar = world.target(&team, "bar").await;
    world.sync(&team, "sync", world.spec(&team, &[&foo, &bar])).await;
    let copy = world.holds(&bar, "settings", &[("a", "1")]).await;
    let ownership =
        json!({"metadata": {"labels": copy.metadata.labels, "annotations": {"pad": "x".repeat(250_000)}}});
    // Together longer than what is read of an answer.
    stream::iter(0..40)
        .for_each_concurrent(4, |number| {
            let (ownership, maps) = (ownership.clone(), world.config_maps(&bar));
            async move {
                let mut planted: ConfigMap = serde_json::from_value(ownership).unwrap();
                planted.metadata.name = Some(format!("planted-{number}"));
                maps.create(&PostParams::default(), &planted).await.unwrap();
            }
        })
        .await;
    // So that it has to be searched for: all is not well with it.
    world.sync(&team, "sync", world.spec(&team, &[&foo, &bar, &world.name("nowhere")])).await;
    world.condition(&team, "sync", "Ready", "False", "MissingRights").await;
    world.delete_sync(&team, "sync").await;
    world.lacks(&foo, "settings").await;
    world.lacks(&bar, "settings").await;
    world.finish().await;
}
