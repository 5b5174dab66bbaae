use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::Status;
use tokio::time::{advance, sleep, timeout};

use super::*;

const FIVE_MINUTES: Duration = Duration::from_mins(5);

type Item = Result<Event<ConfigMap>, Error>;

fn refusal() -> kube::Error {
    kube::Error::Api(Status::failure("no", "Forbidden").with_code(403).boxed())
}

/// How often `attempt` begins within five minutes: one round of a watcher, which yields those items, each after
/// that time.
async fn attempts(backoff: WatchBackoff, attempt: fn(usize) -> Vec<(Duration, Item)>) -> usize {
    let begun = Arc::new(AtomicUsize::new(0));
    let counted = begun.clone();
    let rounds = stream::iter(0..).flat_map(move |round| {
        let counted = counted.clone();
        stream::iter(attempt(round)).enumerate().then(move |(number, (lasts, item))| {
            counted.fetch_add(usize::from(number == 0), Ordering::SeqCst);
            async move {
                sleep(lasts).await;
                item
            }
        })
    });
    let mut events = std::pin::pin!(with_backoff(rounds, backoff));
    let _ = timeout(FIVE_MINUTES, async { while events.next().await.is_some() {} }).await;
    begun.load(Ordering::SeqCst)
}

fn tenants() -> WatchBackoff {
    WatchBackoff::of_tenant(Duration::from_mins(1), Arc::new(Semaphore::new(1)))
}

const SOON: Duration = Duration::from_millis(20);

#[tokio::test(start_paused = true)]
async fn a_list_that_is_refused_is_tried_a_few_times_in_five_minutes() {
    let refused = |_| vec![(SOON, Ok(Event::Init)), (SOON, Err(Error::InitialListFailed(refusal())))];
    let tried = attempts(tenants(), refused).await;
    assert!((4..=8).contains(&tried), "{tried}");
    // A slow answer is a refusal like a quick one.
    let slowly = |_| {
        let lasts = Duration::from_secs(10);
        vec![(SOON, Ok(Event::Init)), (lasts, Err(Error::InitialListFailed(refusal())))]
    };
    assert!(attempts(tenants(), slowly).await <= 8);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_refused_after_its_list_is_tried_as_rarely() {
    // kube repeats the watch alone.
    let refused = |round| {
        let list = vec![(SOON, Ok(Event::Init)), (SOON, Ok(Event::InitDone))];
        let watch = (SOON, Err(Error::WatchStartFailed(refusal())));
        if round == 0 { list.into_iter().chain([watch]).collect() } else { vec![watch] }
    };
    let tried = attempts(tenants(), refused).await;
    assert!((4..=8).contains(&tried), "{tried}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_right_after_each_list_is_no_list_storm() {
    let gone = |_| {
        let gone = Status::failure("too old", "Expired").with_code(410).boxed();
        vec![
            (SOON, Ok(Event::Init)),
            (SOON, Ok(Event::InitApply(ConfigMap::default()))),
            (SOON, Ok(Event::InitDone)),
            (SOON, Err(Error::WatchError(gone))),
        ]
    };
    let tried = attempts(tenants(), gone).await;
    assert!((8..=16).contains(&tried), "{tried}");
    let own = attempts(WatchBackoff::up_to(Duration::from_secs(5)), gone).await;
    assert!((60..=90).contains(&own), "a program's own watches return soon: {own}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_lasted_is_back_at_once() {
    let mut attempts = Attempts { failures: 7, since: Instant::now() };
    advance(Duration::from_secs(290)).await;
    assert_eq!(attempts.failed(&tenants(), false, Instant::now(), 0.0), SHORTEST);
    attempts.since = Instant::now();
    assert_eq!(attempts.failed(&tenants(), false, Instant::now(), 0.0), SHORTEST * 2, "and fails at once");
    // Without a failure there is no pause at all.
    let events = stream::iter((0..3).map(|_| Ok(Event::Apply(ConfigMap::default()))));
    let begun = Instant::now();
    assert_eq!(with_backoff(events, tenants()).collect::<Vec<Item>>().await.len(), 3);
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_is_asked_for_ends_a_long_pause_and_no_short_one() {
    let again = Notify::new();
    again.notify_one();
    let begun = Instant::now();
    rest(FIVE_MINUTES, &again).await;
    assert_eq!(begun.elapsed().as_secs(), FIRST_DENIED.as_secs());
    rest(FIVE_MINUTES, &again).await;
    assert!(begun.elapsed() >= FIVE_MINUTES, "one request is one retry");
}

#[tokio::test(start_paused = true)]
async fn lists_of_one_tenant_wait_for_a_permit_and_give_it_back() {
    let lists = Arc::new(Semaphore::new(1));
    let reported = Arc::new(Mutex::new(Vec::new()));
    let watch = |name: &'static str| {
        let (lists, reported) = (lists.clone(), reported.clone());
        tokio::spawn(async move {
            let list =
                [Ok(Event::Init), Ok(Event::InitDone)].map(|item: Item| (Duration::from_secs(1), item));
            let list = stream::iter(list).then(|(lasts, item)| async move {
                sleep(lasts).await;
                item
            });
            let mut events = std::pin::pin!(with_backoff(list, WatchBackoff::of_tenant(FIVE_MINUTES, lists)));
            while let Some(event) = events.next().await {
                reported.lock().unwrap().push((name, matches!(event, Ok(Event::InitDone))));
            }
        })
    };
    let (one, two) = (watch("one"), watch("two"));
    one.await.unwrap();
    two.await.unwrap();
    let order: Vec<_> =
        reported.lock().unwrap().iter().map(|(name, done)| format!("{name} {done}")).collect();
    assert_eq!(order, ["one false", "one true", "two false", "two true"]);
    assert_eq!(lists.available_permits(), 1);
}
