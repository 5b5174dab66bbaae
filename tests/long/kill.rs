//! The operator is killed once before and once after each of its writes. Whatever it had done by then, the next one
//! makes everything right: no copy is lost, none is left behind, and the source is never touched.

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::FutureExt as _;
use http::Method;
use kube::api::ListParams;
use weaver_api::ownership::SYNC_UID_LABEL;
use weaver_tests::alone::OwnOperator;
use weaver_tests::proxy::{Hook, Hooks};
use weaver_tests::world::World;

/// When the operator dies.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Moment {
    /// The API server never sees the write.
    Before,
    /// It is done, and the operator never learns.
    After,
}

/// Counts writes, and kills the operator at one of them.
#[derive(Default)]
struct Reaper {
    pid: AtomicU32,
    /// Writes that went out, and that were answered, since it was armed.
    seen: [AtomicUsize; 2],
    /// The write at which it strikes, from 1, and when.
    at: AtomicUsize,
    moment: OnceLock<Moment>,
    struck: AtomicBool,
}

impl Reaper {
    fn hooks(self: &Arc<Self>) -> Hooks {
        let [before, after] = [Moment::Before, Moment::After].map(|moment| self.clone().hook(moment));
        Hooks { before, after, ..Hooks::none() }
    }

    fn hook(self: Arc<Self>, moment: Moment) -> Hook {
        Arc::new(move |method, path| {
            let reaper = self.clone();
            async move {
                if is_write(&method, &path) && reaper.strikes(moment) {
                    let pid = reaper.pid.load(Ordering::SeqCst).to_string();
                    assert!(Command::new("kill").args(["-KILL", &pid]).status().unwrap().success());
                    // No one is there any more to hear of it.
                    std::future::pending::<()>().await;
                }
            }
            .boxed()
        })
    }

    fn strikes(&self, moment: Moment) -> bool {
        let number = self.seen[moment as usize].fetch_add(1, Ordering::SeqCst) + 1;
        self.moment.get() == Some(&moment)
            && number == self.at.load(Ordering::SeqCst)
            && !self.struck.swap(true, Ordering::SeqCst)
    }
}

/// Questions and events change nothing that could be lost; the lease has tests of its own.
fn is_write(method: &Method, path: &str) -> bool {
    let asks = ["/token", "reviews"].iter().any(|end| path.ends_with(end));
    let aside = ["/events", "/leases"].iter().any(|part| path.contains(part));
    *method != Method::GET && !asks && !aside
}

/// Copies appear, follow, move and go.
async fn story(world: &World) {
    let team = world.tenant().await;
    let foo = world.target(&team, "foo").await;
    let bar = world.target(&team, "bar").await;
    let baz = world.target(&team, "baz").await;
    let source = world.config_map(&team, "settings", &[("a", "1")]).await;
    world.sync(&team, "sync", world.spec(&team, &[&foo, &bar])).await;
    world.holds(&foo, "settings", &[("a", "1")]).await;
    world.holds(&bar, "settings", &[("a", "1")]).await;
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    world.config_map(&team, "settings", &[("a", "2")]).await;
    world.holds(&foo, "settings", &[("a", "2")]).await;
    world.holds(&bar, "settings", &[("a", "2")]).await;
    world.sync(&team, "sync", world.spec(&team, &[&foo, &baz])).await;
    world.holds(&baz, "settings", &[("a", "2")]).await;
    world.lacks(&bar, "settings").await;
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    world.delete_sync(&team, "sync").await;
    for namespace in [&team, &foo, &bar, &baz] {
        let left =
            world.config_maps(namespace).list(&ListParams::default().labels(SYNC_UID_LABEL)).await.unwrap();
        assert!(left.items.is_empty(), "{:?}", left.items);
    }
    let now = world.config_maps(&team).get("settings").await.unwrap();
    assert_eq!(now.metadata.uid, source.metadata.uid);
    assert_eq!(now.metadata.labels, source.metadata.labels);
    assert_eq!(now.metadata.annotations, source.metadata.annotations);
}

/// Starts the operator again whenever it has ended, as systemd does.
async fn supervise(alone: &mut OwnOperator, reaper: &Reaper) {
    loop {
        if alone.operator.has_ended() {
            alone.restart_operator();
            reaper.pid.store(alone.operator.pid(), Ordering::SeqCst);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
#[ignore = "takes minutes: make test-long"]
async fn own_server_a_kill_before_any_write_loses_no_copy_and_leaves_none() {
    killed_at_each_write(Moment::Before).await;
}

#[tokio::test]
#[ignore = "takes minutes: make test-long"]
async fn own_server_a_kill_after_any_write_loses_no_copy_and_leaves_none() {
    killed_at_each_write(Moment::After).await;
}

async fn killed_at_each_write(moment: Moment) {
    let reaper = Arc::new(Reaper::default());
    reaper.moment.set(moment).unwrap();
    let mut alone = OwnOperator::start(|_| reaper.hooks()).await;
    reaper.pid.store(alone.operator.pid(), Ordering::SeqCst);
    let mut kills = 0;
    for write in 1.. {
        for seen in &reaper.seen {
            seen.store(0, Ordering::SeqCst);
        }
        reaper.at.store(write, Ordering::SeqCst);
        reaper.struck.store(false, Ordering::SeqCst);
        let world = alone.world(&format!("kill-{write}"));
        tokio::select! {
            () = story(&world) => {}
            () = supervise(&mut alone, &reaper) => {}
        }
        world.finish().await;
        if !reaper.struck.load(Ordering::SeqCst) {
            break;
        }
        kills += 1;
    }
    // Two finalizers, four creates or updates at the least, three deletes, a status or more.
    assert!(kills >= 10, "{kills} kills {moment:?} a write");
    println!("{kills} kills, each {moment:?} a write");
}
