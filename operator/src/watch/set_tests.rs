use std::collections::BTreeMap;

use futures::FutureExt as _;
use kube::core::PartialObjectMetaExt as _;
use weaver_api::marks::SYNC_ANNOTATION;
use weaver_api::v1beta1::SourceKind;

use super::*;
use crate::tenant::Account;
use crate::watch::MOST_WATCHES;

fn inner(what: What, users: &[&str]) -> (Inner, Triggers) {
    let triggers = Triggers::default();
    let account = Account { namespace: "team-a".into(), name: "sync".into() };
    let key = WatchKey {
        account,
        uid: "u".into(),
        kind: SourceKind::ConfigMap,
        namespace: Some("foo".into()),
        what,
    };
    let share = Arc::new(Share::default());
    let patience = Patience::of_tenant(Duration::from_mins(1), share.lists.clone());
    let inner = Inner::new(key, share, patience, triggers.clone());
    inner.users().extend(users.iter().map(|name| ((user(name), 0), BTreeSet::new())));
    (inner, triggers)
}

fn user(name: &str) -> ResourceRef {
    ResourceRef { namespace: "team-a".into(), name: name.into() }
}

fn object(name: &str, sync: Option<&str>) -> PartialObjectMeta<Object> {
    ObjectMeta {
        name: Some(name.into()),
        namespace: Some("foo".into()),
        annotations: sync
            .map(|sync| BTreeMap::from([(SYNC_ANNOTATION.to_owned(), format!("team-a/{sync}/uid"))])),
        ..ObjectMeta::default()
    }
    .into_response_partial()
}

fn woken(triggers: &Triggers) -> Vec<String> {
    let mut due = std::pin::pin!(triggers.stream::<crate::watch::Guarded>());
    std::iter::from_fn(|| due.next().now_or_never().flatten()).map(|sync| sync.name).collect()
}

#[test]
fn only_the_owner_of_a_copy_is_woken() {
    let (inner, triggers) = inner(What::Copies, &["one", "two"]);
    take(&inner, Ok(Event::Apply(object("settings", Some("two")))));
    assert_eq!(woken(&triggers), ["two"]);
}

#[test]
fn b12_a_copy_that_lost_its_marks_wakes_the_owner_it_had() {
    let (inner, triggers) = inner(What::Copies, &["one", "two"]);
    take(&inner, Ok(Event::Apply(object("settings", Some("two")))));
    woken(&triggers);
    take(&inner, Ok(Event::Delete(object("settings", None))));
    assert_eq!(woken(&triggers), ["two"]);
}

#[test]
fn b10_an_edited_source_wakes_every_resource_that_reads_it() {
    let (inner, triggers) = inner(What::Object("settings".into()), &["one", "two"]);
    take(&inner, Ok(Event::Apply(object("settings", Some("one")))));
    assert_eq!(woken(&triggers), ["one", "two"]);
}

#[test]
fn b5_marks_that_name_a_stranger_do_not_wake_it() {
    let (inner, triggers) = inner(What::Copies, &["one"]);
    take(&inner, Ok(Event::Apply(object("settings", Some("stranger")))));
    assert_eq!(woken(&triggers), Vec::<String>::new());
}

#[test]
fn b25_a_place_that_another_holds_wakes_who_waits_for_it() {
    let (inner, triggers) = inner(What::Copies, &["one", "two", "three"]);
    let spot = |name: &str| ("foo".to_owned(), name.to_owned());
    inner.users().insert((user("one"), 0), [spot("settings")].into());
    inner.users().insert((user("two"), 0), [spot("other")].into());
    take(&inner, Ok(Event::Delete(object("settings", Some("three")))));
    assert_eq!(woken(&triggers), ["one", "three"]);
}

fn take(inner: &Inner, event: Told) {
    inner.take(event, &mut Objects::new(inner.share.clone())).unwrap();
}

fn list(inner: &Inner, names: &[&str]) {
    let mut listed = Objects::new(inner.share.clone());
    inner.take(Ok(Event::Init), &mut listed).unwrap();
    for name in names {
        inner.take(Ok(Event::InitApply(object(name, None))), &mut listed).unwrap();
    }
    inner.take(Ok(Event::InitDone), &mut listed).unwrap();
}

#[test]
fn the_first_list_wakes_nobody_who_awaits_it_and_a_relist_everybody() {
    let (inner, triggers) = inner(What::Copies, &["one"]);
    inner.awaited_by.store(1, Ordering::SeqCst);
    list(&inner, &["settings"]);
    assert_eq!(woken(&triggers), Vec::<String>::new());
    assert_eq!(inner.objects().iter().count(), 1);
    list(&inner, &[]);
    assert_eq!(woken(&triggers), ["one"]);
    assert_eq!(inner.objects().iter().count(), 0);
}

#[test]
fn a_first_list_that_nobody_awaits_any_more_wakes_its_users() {
    let (inner, triggers) = inner(What::Copies, &["one"]);
    list(&inner, &["settings"]);
    assert_eq!(woken(&triggers), ["one"]);
}

#[test]
fn a_watch_that_is_lost_wakes_its_users_once() {
    let (inner, triggers) = inner(What::Copies, &["one"]);
    list(&inner, &[]);
    woken(&triggers);
    let lost = || Err(watcher::Error::NoResourceVersion);
    take(&inner, lost());
    assert_eq!(woken(&triggers), ["one"]);
    take(&inner, lost());
    assert_eq!(woken(&triggers), Vec::<String>::new());
}

/// A watch with this share, in that state.
fn watched(share: &Arc<Share>, state: WatchState) -> Arc<Watched> {
    let (mut inner, _) = inner(What::Copies, &[]);
    inner.share = share.clone();
    inner.state.send_replace(state);
    Arc::new(Watched::new(Arc::new(inner), tokio::spawn(async {}).abort_handle()))
}

#[tokio::test]
async fn a_tenant_has_so_many_watches_in_whatever_state_and_one_that_ends_makes_room() {
    use WatchState::{Opening, Refused, Synced};
    let (share, other) = (Arc::new(Share::default()), Share::default());
    let mut held: Vec<_> = [Opening, Refused, Synced]
        .into_iter()
        .cycle()
        .take(MOST_WATCHES - 1)
        .map(|state| watched(&share, state))
        .collect();
    assert!(!share.has_most_watches());
    held.push(watched(&share, Synced));
    assert!(share.has_most_watches() && !other.has_most_watches());
    held.pop();
    assert!(!share.has_most_watches());
    drop(held);
    assert_eq!(share.watches.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn watches_that_ended_are_forgotten_before_they_are_as_many_as_those_in_use() {
    let (share, mut open) = (Arc::new(Share::default()), Open::default());
    let key = |number: usize| WatchKey { uid: number.to_string(), ..inner(What::Copies, &[]).0.key };
    let held: Vec<_> = (0..100).map(|_| watched(&share, WatchState::Synced)).collect();
    held.iter().enumerate().for_each(|(number, watched)| open.insert(key(number), watched));
    for number in 100..10_000 {
        open.insert(key(number), &watched(&share, WatchState::Synced));
        assert!(open.watches.len() <= 2 * 101 + 64, "{}", open.watches.len());
    }
    assert_eq!(open.watches.values().filter_map(Weak::upgrade).count(), 100);
}

#[tokio::test]
async fn a_watch_that_shows_more_than_may_be_kept_keeps_nothing_and_says_so() {
    let (inner, triggers) = inner(What::Copies, &["one"]);
    list(&inner, &["settings"]);
    woken(&triggers);
    let endless = (0..).map(|number: usize| Ok(Event::Apply(object(&number.to_string(), None))));
    inner.follow(futures::stream::iter(endless)).await;
    assert_eq!(*inner.state.borrow(), WatchState::Full);
    assert_eq!(inner.objects().iter().count(), 0);
    assert_eq!(woken(&triggers), ["one"]);
}

/// Only of its own copies does a tenant need the whole metadata.
#[test]
fn of_copies_that_another_tenant_made_the_marks_are_kept() {
    let (inner, _) = inner(What::Copies, &[]);
    let mut theirs = object("theirs", None);
    let mark = (SYNC_ANNOTATION.to_owned(), "team-b/sync/uid".to_owned());
    theirs.metadata.annotations = Some(BTreeMap::from([mark, ("note".to_owned(), "x".to_owned())]));
    for (object, whole) in [(theirs, false), (object("ours", Some("sync")), true)] {
        let (_, held) = inner.hold(object).unwrap();
        assert_eq!(matches!(held.seen(), Seen::Object(_)), whole, "{held:?}");
        assert!(!held.meta.annotations.as_ref().unwrap().contains_key("note"));
    }
}
