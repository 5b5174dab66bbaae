use std::collections::BTreeMap;

use futures::FutureExt as _;
use kube::core::PartialObjectMetaExt as _;
use weaver_api::marks::SYNC_ANNOTATION;

use super::*;

fn inner(what: What, users: &[&str]) -> (Inner, Triggers) {
    let triggers = Triggers::default();
    let account = Account { namespace: "team-a".into(), name: "sync".into() };
    let inner = Inner {
        key: WatchKey {
            account,
            uid: "u".into(),
            kind: SourceKind::ConfigMap,
            namespace: Some("foo".into()),
            what,
        },
        state: watch::Sender::new(WatchState::Opening),
        awaited_by: AtomicUsize::new(0),
        objects: Mutex::default(),
        users: Mutex::new(users.iter().map(|name| ((user(name), 0), BTreeSet::new())).collect()),
        triggers: triggers.clone(),
    };
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
    inner.take(Ok(Event::Apply(object("settings", Some("two")))), &mut BTreeMap::new());
    assert_eq!(woken(&triggers), ["two"]);
}

#[test]
fn b12_a_copy_that_lost_its_marks_wakes_the_owner_it_had() {
    let (inner, triggers) = inner(What::Copies, &["one", "two"]);
    inner.take(Ok(Event::Apply(object("settings", Some("two")))), &mut BTreeMap::new());
    woken(&triggers);
    inner.take(Ok(Event::Delete(object("settings", None))), &mut BTreeMap::new());
    assert_eq!(woken(&triggers), ["two"]);
}

#[test]
fn b10_an_edited_source_wakes_every_resource_that_reads_it() {
    let (inner, triggers) = inner(What::Object("settings".into()), &["one", "two"]);
    inner.take(Ok(Event::Apply(object("settings", Some("one")))), &mut BTreeMap::new());
    assert_eq!(woken(&triggers), ["one", "two"]);
}

#[test]
fn b5_marks_that_name_a_stranger_do_not_wake_it() {
    let (inner, triggers) = inner(What::Copies, &["one"]);
    inner.take(Ok(Event::Apply(object("settings", Some("stranger")))), &mut BTreeMap::new());
    assert_eq!(woken(&triggers), Vec::<String>::new());
}

#[test]
fn b25_a_place_that_another_holds_wakes_who_waits_for_it() {
    let (inner, triggers) = inner(What::Copies, &["one", "two", "three"]);
    let spot = |name: &str| ("foo".to_owned(), name.to_owned());
    inner.users().insert((user("one"), 0), [spot("settings")].into());
    inner.users().insert((user("two"), 0), [spot("other")].into());
    inner.take(Ok(Event::Delete(object("settings", Some("three")))), &mut BTreeMap::new());
    assert_eq!(woken(&triggers), ["one", "three"]);
}

fn list(inner: &Inner, names: &[&str]) {
    let mut listed = BTreeMap::new();
    inner.take(Ok(Event::Init), &mut listed);
    for name in names {
        inner.take(Ok(Event::InitApply(object(name, None))), &mut listed);
    }
    inner.take(Ok(Event::InitDone), &mut listed);
}

#[test]
fn the_first_list_wakes_nobody_who_awaits_it_and_a_relist_everybody() {
    let (inner, triggers) = inner(What::Copies, &["one"]);
    inner.awaited_by.store(1, Ordering::SeqCst);
    list(&inner, &["settings"]);
    assert_eq!(woken(&triggers), Vec::<String>::new());
    assert_eq!(inner.objects().len(), 1);
    list(&inner, &[]);
    assert_eq!(woken(&triggers), ["one"]);
    assert!(inner.objects().is_empty());
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
    inner.take(lost(), &mut BTreeMap::new());
    assert_eq!(woken(&triggers), ["one"]);
    inner.take(lost(), &mut BTreeMap::new());
    assert_eq!(woken(&triggers), Vec::<String>::new());
}
