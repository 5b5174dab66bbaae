use std::collections::BTreeMap;

use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{
    ApiResource, DynamicObject, GroupVersionKind, PartialObjectMeta, PartialObjectMetaExt as _,
};
use kube::runtime::watcher::{self, Event};

use super::*;
use crate::account::Account;
use crate::watch::consumer::Concerned;
use crate::watch::followed::Item;
use crate::watch::kept::WatchedObjects;
use crate::watch::triggers::Triggers;

/// Keeps who owns an object, and wakes its owner.
struct Owned(Triggers<String>);

impl Consumer for Owned {
    type Object = DynamicObject;
    type Kept = String;
    type User = String;

    fn keep(&self, _: &WatchKey<ApiResource>, meta: ObjectMeta) -> String {
        meta.annotations.unwrap_or_default().remove("owner").unwrap_or_default()
    }

    fn bytes(&self, _: &String) -> usize {
        100
    }

    fn concerned(&self, watch: &WatchKey<ApiResource>, owner: &String) -> Concerned<String> {
        match watch.selector {
            WatchSelector::Name(_) => Concerned::All,
            _ => Concerned::These(vec![owner.clone()]),
        }
    }

    fn wake(&self, user: String) {
        self.0.fire(user);
    }
}

const LIMITS: WatchLimits = WatchLimits { watches: 8, bytes: 1_000, bytes_each: 1_000, lists: 1 };

fn inner(selector: WatchSelector, users: &[&str]) -> (Followed<Owned>, Triggers<String>) {
    let triggers = Triggers::default();
    let key = WatchKey {
        account: Account { namespace: "team-a".into(), name: "robot".into() },
        uid: "u".into(),
        kind: ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget")),
        namespace: Some("foo".into()),
        selector,
    };
    let share = Arc::new(Share::new(LIMITS));
    let backoff = WatchBackoff::of_tenant(Duration::from_mins(1), share.lists.clone());
    let inner = Followed::new(Arc::new(key), share, backoff, Arc::new(Owned(triggers.clone())));
    for name in users {
        inner.users().insert(((*name).to_owned(), 0), BTreeSet::new());
    }
    (inner, triggers)
}

fn object(name: &str, owner: Option<&str>) -> PartialObjectMeta<DynamicObject> {
    ObjectMeta {
        name: Some(name.into()),
        namespace: Some("foo".into()),
        annotations: owner.map(|owner| BTreeMap::from([("owner".to_owned(), owner.to_owned())])),
        ..ObjectMeta::default()
    }
    .into_response_partial()
}

fn woken(triggers: &Triggers<String>) -> Vec<String> {
    let mut due = std::pin::pin!(triggers.stream());
    std::iter::from_fn(|| due.next().now_or_never().flatten()).collect()
}

#[test]
fn only_the_owner_of_an_object_is_woken_and_only_by_a_change() {
    let (inner, triggers) = inner(WatchSelector::All, &["one", "two"]);
    take(&inner, Ok(Event::Apply(object("settings", Some("two")))));
    assert_eq!(woken(&triggers), ["two"]);
    take(&inner, Ok(Event::Apply(object("settings", Some("two")))));
    assert_eq!(woken(&triggers), Vec::<String>::new(), "what is kept is the same");
    take(&inner, Ok(Event::Apply(object("settings", Some("one")))));
    assert_eq!(woken(&triggers), ["one", "two"]);
}

#[test]
fn an_object_that_lost_its_owner_wakes_the_one_it_had() {
    let (inner, triggers) = inner(WatchSelector::All, &["one", "two"]);
    take(&inner, Ok(Event::Apply(object("settings", Some("two")))));
    woken(&triggers);
    take(&inner, Ok(Event::Delete(object("settings", None))));
    assert_eq!(woken(&triggers), ["two"]);
}

#[test]
fn an_object_that_concerns_all_wakes_all() {
    let (inner, triggers) = inner(WatchSelector::Name("settings".into()), &["one", "two"]);
    take(&inner, Ok(Event::Apply(object("settings", Some("one")))));
    assert_eq!(woken(&triggers), ["one", "two"]);
}

#[test]
fn who_does_not_use_the_watch_is_not_woken_by_it() {
    let (inner, triggers) = inner(WatchSelector::All, &["one"]);
    take(&inner, Ok(Event::Apply(object("settings", Some("stranger")))));
    assert_eq!(woken(&triggers), Vec::<String>::new());
}

#[test]
fn an_object_of_another_wakes_who_waits_for_it() {
    let (inner, triggers) = inner(WatchSelector::All, &["one", "two", "three"]);
    let key = |name: &str| ("foo".to_owned(), name.to_owned());
    inner.users().insert(("one".into(), 0), [key("settings")].into());
    inner.users().insert(("two".into(), 0), [key("other")].into());
    take(&inner, Ok(Event::Delete(object("settings", Some("three")))));
    assert_eq!(woken(&triggers), ["one", "three"]);
}

fn take(inner: &Followed<Owned>, event: Item<Owned>) {
    inner.take(event, &mut WatchedObjects::new(inner.share.clone())).unwrap();
}

fn list(inner: &Followed<Owned>, names: &[&str]) {
    let mut listed = WatchedObjects::new(inner.share.clone());
    inner.take(Ok(Event::Init), &mut listed).unwrap();
    for name in names {
        inner.take(Ok(Event::InitApply(object(name, None))), &mut listed).unwrap();
    }
    inner.take(Ok(Event::InitDone), &mut listed).unwrap();
}

#[test]
fn the_first_list_wakes_no_one_who_awaits_it_and_a_relist_everybody() {
    let (inner, triggers) = inner(WatchSelector::All, &["one"]);
    inner.awaited_by.store(1, Ordering::SeqCst);
    list(&inner, &["settings"]);
    assert_eq!(woken(&triggers), Vec::<String>::new());
    assert_eq!(inner.objects().iter().count(), 1);
    list(&inner, &[]);
    assert_eq!(woken(&triggers), ["one"]);
    assert_eq!(inner.objects().iter().count(), 0);
}

#[test]
fn a_first_list_that_no_one_awaits_any_more_wakes_its_users() {
    let (inner, triggers) = inner(WatchSelector::All, &["one"]);
    list(&inner, &["settings"]);
    assert_eq!(woken(&triggers), ["one"]);
}

#[test]
fn a_watch_that_is_lost_wakes_its_users_once() {
    let (inner, triggers) = inner(WatchSelector::All, &["one"]);
    list(&inner, &[]);
    woken(&triggers);
    let lost = || Err(watcher::Error::NoResourceVersion);
    take(&inner, lost());
    assert_eq!(woken(&triggers), ["one"]);
    take(&inner, lost());
    assert_eq!(woken(&triggers), Vec::<String>::new());
}

#[test]
fn a_watch_that_starts_again_after_a_failure_is_up_and_wakes_its_users_once() {
    let (inner, triggers) = inner(WatchSelector::All, &["one"]);
    list(&inner, &["settings"]);
    take(&inner, Err(watcher::Error::NoResourceVersion));
    woken(&triggers);
    for expected in [&["one"][..], &[]] {
        inner.started_again();
        assert_eq!((*inner.state.borrow(), woken(&triggers)), (WatchState::Up, names(expected)));
    }
    assert_eq!(inner.objects().iter().count(), 1);
}

fn names(of: &[&str]) -> Vec<String> {
    of.iter().map(|name| (*name).to_owned()).collect()
}

/// A watch with this share, in that state.
fn watched(share: &Arc<Share>, state: WatchState) -> Arc<Watched<Owned>> {
    let (mut inner, _) = inner(WatchSelector::All, &[]);
    inner.share = share.clone();
    inner.state.send_replace(state);
    Arc::new(Watched::new(Arc::new(inner), tokio::spawn(async {}).abort_handle()))
}

#[tokio::test]
async fn a_tenant_has_so_many_watches_in_whatever_state_and_one_that_ends_makes_room() {
    use WatchState::{Listing, Refused, Up};
    let (share, other) = (Arc::new(Share::new(LIMITS)), Share::new(LIMITS));
    let mut held: Vec<_> = [Listing, Refused, Up]
        .into_iter()
        .cycle()
        .take(LIMITS.watches - 1)
        .map(|state| watched(&share, state))
        .collect();
    assert!(!share.has_most_watches());
    held.push(watched(&share, Up));
    assert!(share.has_most_watches() && !other.has_most_watches());
    held.pop();
    assert!(!share.has_most_watches());
    drop(held);
    assert_eq!(share.watches.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn watches_that_ended_are_forgotten_before_they_are_as_many_as_those_in_use() {
    let share = Arc::new(Share::new(LIMITS));
    let mut open = Open { watches: HashMap::new(), prune_at: 0 };
    let any = inner(WatchSelector::All, &[]).0.key;
    let key = |number: usize| Arc::new(WatchKey { uid: number.to_string(), ..(*any).clone() });
    let held: Vec<_> = (0..100).map(|_| watched(&share, WatchState::Up)).collect();
    held.iter().enumerate().for_each(|(number, watched)| open.insert(key(number), watched));
    for number in 100..10_000 {
        open.insert(key(number), &watched(&share, WatchState::Up));
        assert!(open.watches.len() <= 2 * 101 + 64, "{}", open.watches.len());
    }
    assert_eq!(open.watches.values().filter_map(Weak::upgrade).count(), 100);
}

#[tokio::test]
async fn a_watch_that_shows_more_than_may_be_kept_keeps_nothing_and_says_so() {
    let (inner, triggers) = inner(WatchSelector::All, &["one"]);
    list(&inner, &["settings"]);
    woken(&triggers);
    let endless = (0..).map(|number: usize| Ok(Event::Apply(object(&number.to_string(), None))));
    inner.follow(futures::stream::iter(endless), true).await;
    assert_eq!(*inner.state.borrow(), WatchState::TooLarge);
    assert_eq!(inner.objects().iter().count(), 0);
    assert_eq!(woken(&triggers), ["one"]);
}
