//! How often things are looked at and written: at once when asked, from time to time where no watch is allowed, and
//! never as often as someone else pleases.

use std::time::Instant;

use kube::api::{Patch, PatchParams};
use serde_json::json;
use weaver_tests::world::{World, eventually};

/// Upstream's own role: everything but `watch`.
const UPSTREAMS: [&str; 5] = ["get", "list", "create", "update", "delete"];

#[tokio::test]
async fn upstreams_role_without_watch_is_enough_and_changes_are_looked_for() {
    let world = World::new("polled").await;
    let team = world.namespace("team").await;
    world.account(&team).await;
    world.allow_minting(&team).await;
    world.grant_as(&team, &team, "source", &["get"]).await;
    let foo = world.namespace("foo").await;
    world.grant(&team, &foo, &UPSTREAMS).await;
    world.config_map(&team, "settings", &[("a", "1")]).await;
    world.sync(&team, "sync", world.spec(&team, &[&foo])).await;
    world.holds(&foo, "settings", &[("a", "1")]).await;
    let authorized = world.condition(&team, "sync", "Authorized", "True", "Polled").await;
    assert!(authorized.message.contains("may not watch ConfigMaps"), "{}", authorized.message);
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    world.config_map(&team, "settings", &[("a", "2")]).await;
    world.holds(&foo, "settings", &[("a", "2")]).await;
    world.config_map(&foo, "settings", &[("a", "tampered")]).await;
    world.holds(&foo, "settings", &[("a", "2")]).await;
    world.finish().await;
}

#[tokio::test]
async fn a_new_value_of_sync_now_has_every_copy_looked_at() {
    let world = World::new("sync-now").await;
    let (team, foo) = world.synced().await;
    let looks = || world.audit.requests(&foo, "get");
    let before = looks();
    for (round, value) in ["now", "again"].into_iter().enumerate() {
        let note = json!({"metadata": {"annotations": {"weaver.example.com/sync-now": value}}});
        world.syncs(&team).patch("sync", &PatchParams::default(), &Patch::Merge(&note)).await.unwrap();
        eventually("the copy has been looked at", || async {
            if looks() > before + round { Ok(()) } else { Err(looks()) }
        })
        .await;
    }
    assert_eq!(world.audit.requests(&foo, "update"), 0, "and found to be right");
    world.finish().await;
}

/// Without a source a reconciliation reads it once, and writes nothing but the status.
#[tokio::test]
async fn a_status_of_the_operators_own_causes_no_reconciliation_and_one_of_others_is_put_right() {
    let world = World::new("own-status").await;
    let team = world.tenant().await;
    let foo = world.target(&team, "foo").await;
    let looks = || world.audit.requests(&team, "get");
    let mut before = 0;
    let rounds = [600, 1_200, 1_800, 2_400, 3_000, 3_600];
    for seconds in rounds {
        let mut spec = world.spec(&team, &[&foo]);
        spec["resyncSeconds"] = json!(seconds);
        world.sync(&team, "sync", spec).await;
        world.condition(&team, "sync", "SourceFound", "False", "SourceMissing").await;
        if seconds == rounds[0] {
            before = looks();
        }
    }
    let theirs = json!({"status": {"conditions": []}});
    let params = PatchParams::default();
    world.syncs(&team).patch_status("sync", &params, &Patch::Merge(&theirs)).await.unwrap();
    world.condition(&team, "sync", "SourceFound", "False", "SourceMissing").await;
    let changes = rounds.len();
    eventually("each change of others was reconciled", || async {
        let seen = looks() - before;
        if seen >= changes { Ok(()) } else { Err(seen) }
    })
    .await;
    // Five of the spec and one of the status; a right that comes late may cause one more. Twice as many if each status of
    // the operator's caused one too.
    let seen = looks() - before;
    assert!(seen <= changes + 2, "{seen} instead of {changes}");
    // A deletion is no status.
    world.delete_sync(&team, "sync").await;
    world.finish().await;
}

/// Each copy that is written comes back as an event.
#[tokio::test]
async fn an_edit_has_the_source_read_once_and_not_again_for_the_operators_own_writes() {
    const EDITS: usize = 10;
    let world = World::new("read-once").await;
    let (team, foo) = world.synced().await;
    let before = world.audit.requests(&team, "get");
    for value in 1..=EDITS {
        let value = format!("edit {value}");
        world.config_map(&team, "settings", &[("a", &value)]).await;
        world.holds(&foo, "settings", &[("a", &value)]).await;
    }
    let reads = || world.audit.requests(&team, "get") - before;
    eventually("the audit log has them", || async { if reads() >= EDITS { Ok(()) } else { Err(reads()) } })
        .await;
    // The copy that was made at first may have come back late. Twice as many, if each had the source read.
    assert!(reads() <= EDITS + EDITS / 3, "{} reads for {EDITS} edits", reads());
    world.finish().await;
}

#[tokio::test]
async fn a_source_that_never_rests_costs_a_bounded_number_of_writes_and_ends_right() {
    let world = World::new("restless").await;
    let (team, foo) = world.synced().await;
    // Where creating is refused each time.
    let bar = world.namespace("bar").await;
    world.grant(&team, &bar, &["get", "list", "watch"]).await;
    world.sync(&team, "sync", world.spec(&team, &[&foo, &bar])).await;
    world.condition(&team, "sync", "Authorized", "False", "MissingRights").await;
    let start = Instant::now();
    let (writes, tries) = (world.audit.requests(&foo, "update"), world.audit.requests(&bar, "create"));
    let reads = world.audit.requests(&team, "get");
    for value in 0..150 {
        world.config_map(&team, "settings", &[("a", &value.to_string())]).await;
    }
    world.config_map(&team, "settings", &[("a", "last")]).await;
    world.holds(&foo, "settings", &[("a", "last")]).await;
    let took = start.elapsed().as_secs();
    let (writes, tries) =
        (world.audit.requests(&foo, "update") - writes, world.audit.requests(&bar, "create") - tries);
    // A burst of twenty and two a second.
    let most = 22 + 2 * usize::try_from(took).unwrap();
    assert!(writes <= most, "{writes} writes in {took} s");
    // And it is copied while it changes, however fast; each look at it comes to a write.
    assert!(writes >= 10, "{writes} writes in {took} s");
    let reads = world.audit.requests(&team, "get") - reads;
    assert!(reads <= most + 10, "{reads} reads in {took} s");
    println!("{writes} writes and {reads} reads in {took} s");
    // At the longest pause of two seconds, which the tests set, one try in a second and a third.
    let most = 4 + usize::try_from(took).unwrap();
    assert!(tries <= most, "{tries} tries in {took} s");
    world.finish().await;
}
