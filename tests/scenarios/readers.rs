//! What anyone who reads a copy sees while it changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use weaver_tests::world::World;

#[tokio::test]
async fn a_reader_never_finds_a_copy_absent_empty_or_of_two_states() {
    let world = World::new("readers").await;
    let (team, foo) = world.synced().await;
    let (done, reads) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    world.config_map(&team, "settings", &[("a", "0"), ("b", "0")]).await;
    world.holds(&foo, "settings", &[("a", "0"), ("b", "0")]).await;
    let reader = {
        let (copies, done, reads) = (world.config_maps(&foo), done.clone(), reads.clone());
        tokio::spawn(async move {
            let mut last = 0;
            while !done.load(Ordering::SeqCst) {
                let copy = copies.get("settings").await.expect("the copy is there");
                let data = copy.data.expect("it is not empty");
                assert_eq!(data["a"], data["b"], "of two states");
                let now: u32 = data["a"].parse().unwrap();
                assert!(now >= last, "{now} after {last}");
                last = now;
                reads.fetch_add(1, Ordering::SeqCst);
            }
        })
    };
    // Fewer than after which the operator would take its time.
    for state in 1..=15 {
        let state = state.to_string();
        world.config_map(&team, "settings", &[("a", &state), ("b", &state)]).await;
        world.holds(&foo, "settings", &[("a", &state), ("b", &state)]).await;
    }
    done.store(true, Ordering::SeqCst);
    reader.await.unwrap();
    assert!(reads.load(Ordering::SeqCst) > 15, "the reader hardly looked");
    world.finish().await;
}
