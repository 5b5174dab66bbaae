//! A tenant who wants to know, or to say, what is none of its business: which namespaces exist, what others
//! have in them, and whom it can mislead. It may create ConfigMapSyncs and an account of its own, and has no
//! right elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use weaver_api::ownership::FINALIZER;
use weaver_api::v1beta1::ConfigMapSync;
use weaver_tests::alone::OwnOperator;
use weaver_tests::proxy::Hook;
use weaver_tests::world::{World, eventually, eventually_within, weaver};

/// A deletion takes no longer, whatever it was refused.
const PROMPT: Duration = Duration::from_secs(30);

/// The status of a sync for its current generation, without times and generations, and with `guess` where it names
/// one of these.
async fn reported(world: &World, team: &str, name: &str, guesses: &[&str]) -> Result<String, String> {
    let sync = world.syncs(team).get(name).await.unwrap();
    let mut status = serde_json::to_value(sync.status.unwrap_or_default()).unwrap();
    if status["observedGeneration"] != json!(sync.metadata.generation) {
        return Err(format!("not judged yet: {status}"));
    }
    status["observedGeneration"] = Value::Null;
    for condition in status["conditions"].as_array_mut().unwrap() {
        condition["lastTransitionTime"] = Value::Null;
        condition["observedGeneration"] = Value::Null;
    }
    let text = status.to_string();
    Ok(guesses.iter().fold(text, |text, guess| text.replace(guess, "guess")))
}

/// Has the sync judged again, by a change of its spec.
async fn judged_again(world: &World, team: &str, name: &str) {
    let syncs = world.syncs(team);
    let now = syncs.get(name).await.unwrap().spec.spec.unwrap().resync_seconds;
    let spec = json!({"spec": {"resyncSeconds": now + 10}});
    syncs.patch(name, &PatchParams::default(), &Patch::Merge(spec)).await.unwrap();
}

#[tokio::test]
async fn which_namespaces_exist_is_reported_by_no_status_in_any_state_of_the_source() {
    let world = World::new("oracle").await;
    let team = world.tenant().await;
    world.config_map(&team, "settings", &[("a", "1"), ("b", "2")]).await;
    world.grant_source(&team, &team, "absent").await;
    world.grant_secrets(&team, &team, &["get", "list", "watch"]).await;
    let token: Secret = serde_json::from_value(json!({
        "metadata": {"name": "token", "annotations": {"kubernetes.io/service-account.name": "sync"}},
        "type": "kubernetes.io/service-account-token",
    }))
    .unwrap();
    world.secrets(&team).create(&PostParams::default(), &token).await.unwrap();
    // Those of another tenant and of the cluster, and names of equal length that do not exist.
    let neighbour = world.namespace("merger").await;
    let ghost = world.name("ghost");
    let closed = world.namespace("closed").await;
    world.mark_namespace(&closed, json!({"annotations": {"weaver.example.com/accept-from": "none"}})).await;
    let pairs = [["kube-system", "kube-systen"], [&neighbour, &ghost], [&closed, &ghost]];

    let states = [
        ("found", "settings", json!({})),
        ("missing", "absent", json!({})),
        ("forbidden", "not-granted", json!({})),
        ("clash", "settings", json!({"keys": {"rename": {"a": "b"}}})),
        ("token", "token", json!({})),
        ("dry", "settings", json!({"dryRun": true})),
        ("suspended", "settings", json!({"suspend": true})),
    ];
    let mut all = Vec::new();
    for (state, source, more) in &states {
        for (number, pair) in pairs.iter().enumerate() {
            for (side, target) in pair.iter().enumerate() {
                let mut spec = world.spec(&team, &[target]);
                spec["source"]["name"] = json!(source);
                if *state == "token" {
                    spec["source"]["kind"] = json!("Secret");
                }
                spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
                let name = format!("{state}-{number}-{side}");
                world.sync(&team, &name, spec).await;
            }
            all.push((format!("{state}-{number}"), *pair));
        }
    }
    let equal = async |when: &str| {
        for (name, pair) in &all {
            eventually(&format!("{name}: the same is reported of both, {when}"), || async {
                let there = reported(&world, &team, &format!("{name}-0"), pair).await?;
                let absent = reported(&world, &team, &format!("{name}-1"), pair).await?;
                if there == absent { Ok(()) } else { Err(format!("{there}\n{absent}")) }
            })
            .await;
        }
    };
    for (state, reason) in
        [("missing", "MissingRights"), ("found", "MissingRights"), ("token", "MissingRights")]
    {
        let name = format!("{state}-1-1");
        let authorized = world.condition(&team, &name, "Authorized", "False", reason).await;
        assert!(authorized.message.contains(&ghost), "{state}: {}", authorized.message);
        assert!(authorized.message.contains("if the namespace does not exist, the refusal is the same"));
    }
    equal("at first").await;
    // It follows nothing live: what was absent appears.
    let before = reported(&world, &team, "missing-1-1", &[]).await.unwrap();
    assert_eq!(world.namespace("ghost").await, ghost);
    for (state, ..) in &states {
        judged_again(&world, &team, &format!("{state}-1-1")).await;
    }
    equal("after one has appeared").await;
    assert_eq!(reported(&world, &team, "missing-1-1", &[]).await.unwrap(), before);
    world.finish().await;
}

#[tokio::test]
async fn how_long_a_deletion_takes_tells_nothing_of_a_namespace() {
    let world = World::new("deletions").await;
    let team = world.tenant().await;
    let foo = world.target(&team, "foo").await;
    let neighbour = world.namespace("merger").await;
    let ghost = world.name("ghost");
    world.config_map(&team, "settings", &[("a", "1")]).await;
    let pair = [("there", &neighbour), ("absent", &ghost)];
    for (name, target) in pair {
        let mut spec = world.spec(&team, &[&foo, target]);
        spec["targets"]["name"] = json!(name);
        world.sync(&team, name, spec).await;
        world.holds(&foo, name, &[("a", "1")]).await;
    }
    let begun = Instant::now();
    let gone = async |name: &str| {
        let syncs = world.syncs(&team);
        syncs.delete(name, &DeleteParams::default()).await.unwrap();
        eventually(&format!("{name} is gone"), || async {
            syncs.get_opt(name).await.unwrap().map_or(Ok(begun.elapsed()), Err)
        })
        .await
    };
    let (there, absent) = tokio::join!(gone("there"), gone("absent"));
    assert!(there < PROMPT && absent < PROMPT, "{there:?} {absent:?}");
    assert!(there.abs_diff(absent) < Duration::from_secs(8), "{there:?} {absent:?}");
    for (name, _) in pair {
        world.lacks(&foo, name).await;
    }
    world.finish().await;
}

/// One tenant guesses the names of namespaces to come, one selects them by a label, and neither has a right
/// there. A third has: its copies show that the operator has seen each namespace.
#[tokio::test]
async fn a_namespace_that_appears_causes_no_reconciliation_for_an_account_without_a_right_own_server() {
    // Failures in a row, and a time that the retry after them is longer than: that one doubles from a second on. A slow
    // server gets further tries, each with a tenant of its own that guesses one name: several would be tried again one
    // after the other.
    const PAUSES: [(usize, u64); 3] = [(6, 20), (6, 20), (7, 40)];
    let alone = OwnOperator::direct(&["--retry", "3600", "--watch", "300"]).await;
    let audit = alone.own.audit();
    let world = alone.world("appears");
    let mut teams = Vec::new();
    for short in ["guesses-0", "guesses-1", "guesses-2", "selects", "allowed"] {
        let team = world.tenant_called(short).await;
        world.config_map(&team, "settings", &[("a", "1")]).await;
        teams.push(team);
    }
    let [guesses @ .., selects, allowed] = <[String; 5]>::try_from(teams).unwrap();
    // It may list nothing, so the operator has to ask.
    world.grant_everywhere(&allowed, &["get", "create", "update", "delete"]).await;
    let guess = |round: usize| format!("guess-{round}");
    let labels = json!({"world": world.name("selected")});
    for team in [&selects, &allowed] {
        let mut spec = world.spec(team, &[]);
        spec["targets"] = json!({"selector": {"matchLabels": labels}});
        world.sync(team, "sync", spec).await;
    }
    for (round, (failures, pause)) in PAUSES.into_iter().enumerate() {
        let (guesses, target) = (&guesses[round], world.name(&guess(round)));
        world.sync(guesses, "sync", world.spec(guesses, &[&target])).await;
        // So that it is not compared again, as it is every five minutes, while the others are.
        judged_again(&world, &selects, "sync").await;
        eventually("it is judged", || reported(&world, &selects, "sync", &[])).await;
        // Each reconciliation reads the source once. Not each tries the target, and the pause after a try is the longer
        // one; so what is counted are tries, and the time is from before the last of them.
        let reconciled = || [guesses, &selects].map(|team| audit.requests(team, "get"));
        let mut asked = Instant::now();
        let (begun, before) = eventually_within(PROMPT * 6, "the retries are rare", || {
            let begun = std::mem::replace(&mut asked, Instant::now());
            let tries = audit.requests(&target, "get");
            std::future::ready(if tries >= failures { Ok((begun, reconciled())) } else { Err(tries) })
        })
        .await;
        let namespace = world.namespace(&guess(round)).await;
        world.mark_namespace(&namespace, json!({"labels": labels})).await;
        world.holds(&namespace, "settings", &[("a", "1")]).await;
        let after = reconciled();
        if begun.elapsed() < Duration::from_secs(pause) {
            assert_eq!(after, before, "reconciled because of a namespace in which the account has no right");
            world.finish().await;
            return;
        }
    }
    panic!("the server is too slow to tell a reaction from a retry");
}

/// What takes a reconciliation its time are requests. Were the account's rights asked about only where a pattern
/// matches, or where a namespace has the name that a selector asks for, a tenant could measure it, and find a
/// neighbour's name letter by letter.
#[tokio::test]
async fn a_selection_of_a_neighbours_namespace_causes_no_request_more_own_server() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let before: Hook = Arc::new(move |_, path| {
        let is_question = path.ends_with("/selfsubjectrulesreviews");
        count.fetch_add(usize::from(is_question), Ordering::SeqCst);
        Box::pin(std::future::ready(()))
    });
    let alone = OwnOperator::start_with(|_| before, &["--retry", "3600", "--watch", "300"]).await;
    let world = alone.world("letters");
    // An answer is kept for the account, so each selection is another tenant's. The API server itself labels each
    // namespace with its name.
    let patterns = ["mer*", "merg?r", "*", "mes*", "zzz-*"];
    let patterns = patterns.map(|pattern| ("patterns", json!([world.name(pattern)])));
    let names = ["merger", "merges", "zzz"];
    let names = names.map(|name| json!({"matchLabels": {"kubernetes.io/metadata.name": world.name(name)}}));
    let selections = [patterns.to_vec(), names.map(|name| ("selector", name)).to_vec()].concat();
    let (mut teams, foo) = (Vec::new(), world.namespace("foo").await);
    world.namespace("merger").await;
    for number in 0..selections.len() {
        let team = world.tenant_called(&format!("guest-{number}")).await;
        world.config_map(&team, "settings", &[("a", "1")]).await;
        teams.push(team);
    }
    let mut all = Vec::new();
    for (team, (field, selection)) in teams.iter().zip(&selections) {
        world.grant_as(team, &foo, team, &weaver_tests::tenant::TARGET).await;
        let mut spec = world.spec(team, &[&foo]);
        spec["targets"]["name"] = json!(team);
        spec["targets"][*field] = selection.clone();
        spec["targets"]["exclude"] = json!([team]);
        asked.store(0, Ordering::SeqCst);
        world.sync(team, "sync", spec).await;
        world.condition(team, "sync", "Ready", "True", "Synced").await;
        let guesses = [team.as_str()];
        let status = eventually("it is judged", || reported(&world, team, "sync", &guesses)).await;
        all.push((*field, asked.load(Ordering::SeqCst), status));
    }
    assert!(all[0].1 > teams.len(), "each namespace is asked about: {all:?}");
    for (field, asked, status) in &all {
        let (.., expected) = all.iter().find(|(of, ..)| of == field).unwrap();
        assert_eq!((asked, status), (&all[0].1, expected), "{all:#?}");
    }
    world.finish().await;
}

#[tokio::test]
async fn a_finalizer_that_the_creator_set_bears_no_false_witness_against_a_namespace() {
    let world = World::new("witness").await;
    let (team, victim) = (world.tenant().await, world.namespace("victim").await);
    let theirs = world.config_map(&victim, "k3s-serving", &[("a", "theirs")]).await;
    let targets = ["kube-system", &victim, "config-weaver", &world.name("no-such-namespace")];
    // One account is refused everywhere, and one does not exist.
    for (name, account) in [("refused", "sync"), ("innocent", "no-such-account")] {
        let mut spec = world.spec(&team, &targets);
        spec["serviceAccount"]["name"] = json!(account);
        spec["targets"]["name"] = json!("k3s-serving");
        let object: ConfigMapSync = serde_json::from_value(json!({
            "apiVersion": "weaver.example.com/v1beta1", "kind": "ConfigMapSync", "spec": spec,
            "metadata": {"name": name, "namespace": team, "finalizers": [FINALIZER]},
        }))
        .unwrap();
        world.syncs(&team).create(&PostParams::default(), &object).await.unwrap();
    }
    world.condition(&team, "innocent", "Ready", "False", "MintingForbidden").await;
    let begun = Instant::now();
    world.delete_sync(&team, "refused").await;
    assert!(begun.elapsed() < PROMPT);
    // Nor while the namespace is being deleted, which ends the waiting at once.
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    namespaces.delete(&team, &DeleteParams::default()).await.unwrap();
    eventually_within(PROMPT, "the other one is gone too", || async {
        world
            .syncs(&team)
            .get_opt("innocent")
            .await
            .unwrap()
            .map_or(Ok(()), |sync| Err(sync.metadata.finalizers))
    })
    .await;
    let events: Api<Event> = Api::all(world.client.clone());
    let reported: Vec<Event> = events
        .list(&ListParams::default())
        .await
        .unwrap()
        .into_iter()
        .filter(|event| event.reason.as_deref() == Some("CopyOrphaned"))
        .filter(|event| event.note.as_deref().unwrap_or_default().contains(&team))
        .collect();
    assert!(reported.is_empty(), "{reported:#?}");
    assert_eq!(world.config_maps(&victim).get("k3s-serving").await.unwrap(), theirs);
    world.finish().await;
}

#[tokio::test]
async fn a_copy_that_is_left_is_reported_in_its_own_namespace() {
    let world = World::new("left-behind").await;
    let (team, foo) = world.synced().await;
    world.grant(&team, &foo, &["get", "list", "watch"]).await;
    let begun = Instant::now();
    world.delete_sync(&team, "sync").await;
    assert!(begun.elapsed() < PROMPT);
    let events: Api<Event> = Api::namespaced(world.client.clone(), &foo);
    eventually("the owner of the namespace gets an event", || async {
        let found = events.list(&ListParams::default()).await.unwrap().items;
        let reported = found.iter().any(|event| {
            let about = event.regarding.clone().unwrap_or_default();
            event.reason.as_deref() == Some("CopyOrphaned")
                && (about.kind.as_deref(), about.name.as_deref()) == (Some("ConfigMap"), Some("settings"))
        });
        if reported { Ok(()) } else { Err(found) }
    })
    .await;
    let (done, said) = weaver(&["orphans", "delete", &format!("ConfigMap/{foo}/settings")]);
    assert!(done, "{said}");
    world.finish().await;
}

#[tokio::test]
async fn a_copy_that_was_to_stay_is_no_one_elses_to_overwrite() {
    let world = World::new("orphaned").await;
    let (team, foo) = world.synced().await;
    let thief = world.tenant_called("thief").await;
    world.grant_as(&thief, &foo, "thief", &weaver_tests::tenant::TARGET).await;
    world.config_map(&thief, "settings", &[("a", "stolen")]).await;
    world.sync(&thief, "sync", world.spec(&thief, &[&foo])).await;
    world.condition(&thief, "sync", "Ready", "False", "Conflict").await;

    let mut spec = world.spec(&team, &[&foo]);
    spec["deletionPolicy"] = json!("Orphan");
    world.sync(&team, "sync", spec.clone()).await;
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    world.delete_sync(&team, "sync").await;
    let left = world.config_maps(&foo).get("settings").await.unwrap();
    for policy in ["Refuse", "Adopt"] {
        let mut spec = world.spec(&thief, &[&foo]);
        spec["conflictPolicy"] = json!(policy);
        world.sync(&thief, "sync", spec).await;
        judged_again(&world, &thief, "sync").await;
        let refused = world.condition(&thief, "sync", "Ready", "False", "Conflict").await;
        assert!(
            refused.message.contains(&format!("it is a copy of ConfigMapSync {team}/sync")),
            "{}",
            refused.message
        );
        assert!(refused.message.contains("`weaver orphans adopt`"), "{}", refused.message);
        assert_eq!(world.config_maps(&foo).get("settings").await.unwrap(), left, "{policy}");
    }
    world.delete_sync(&thief, "sync").await;
    assert_eq!(world.config_maps(&foo).get("settings").await.unwrap(), left, "and no one else's to remove");

    // Made again under its name, the resource has its copy back.
    world.config_map(&team, "settings", &[("a", "again")]).await;
    world.sync(&team, "sync", spec).await;
    let taken = world.holds(&foo, "settings", &[("a", "again")]).await;
    assert_eq!(taken.metadata.uid, left.metadata.uid);
    // And the way out that the message names is one.
    world.delete_sync(&team, "sync").await;
    let (done, said) = weaver(&["orphans", "adopt", &format!("ConfigMap/{foo}/settings")]);
    assert!(done, "{said}");
    let mut spec = world.spec(&thief, &[&foo]);
    spec["conflictPolicy"] = json!("Adopt");
    world.sync(&thief, "sync", spec).await;
    world.holds(&foo, "settings", &[("a", "stolen")]).await;
    world.finish().await;
}

#[tokio::test]
async fn no_role_is_printed_for_a_namespace_that_does_not_exist() {
    let world = World::new("no-such").await;
    let team = world.tenant().await;
    let (there, absent) = (world.namespace("there").await, world.name("absent"));
    world.config_map(&team, "settings", &[("a", "1")]).await;
    world.sync(&team, "sync", world.spec(&team, &[&there, &absent])).await;
    world.condition(&team, "sync", "Authorized", "False", "MissingRights").await;
    let (done, said) = weaver(&["sync", "explain", "sync", "-n", &team]);
    assert!(done, "{said}");
    assert!(said.contains(&format!("namespace {absent} does not exist: create it")), "{said}");
    assert!(!said.contains(&format!("namespace: {absent}\n")), "{said}");
    assert!(said.contains(&format!("namespace: {there}\n")), "{said}");
    world.finish().await;
}
