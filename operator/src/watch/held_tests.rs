use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use weaver_api::marks::{KEYS_ANNOTATION, Owner, Ownership, ownership};

use super::*;

fn owner() -> Owner {
    Owner { namespace: "team-a".into(), name: "sync".into(), uid: "u1".into() }
}

/// A copy of [`owner`] with an annotation of so many bytes.
fn copy(name: &str, bytes: usize) -> ObjectMeta {
    let mut annotations = owner().annotations("ConfigMap/team-a/settings");
    annotations.insert("note".into(), "x".repeat(bytes));
    annotations.insert(KEYS_ANNOTATION.into(), "{}".into());
    ObjectMeta {
        name: Some(name.into()),
        namespace: Some("foo".into()),
        uid: Some("c1".into()),
        resource_version: Some("7".into()),
        labels: Some(owner().labels()),
        annotations: Some(annotations),
        ..ObjectMeta::default()
    }
}

fn spot(name: &str) -> Spot {
    ("foo".into(), name.into())
}

#[test]
fn an_ordinary_copy_is_kept_whole_and_a_large_one_by_what_says_whose_it_is() {
    assert_eq!(Held::of(copy("a", 1_000), true).seen(), Seen::Object(Arc::new(copy("a", 1_000))));
    for (meta, may_be_whole) in [(copy("a", 250_000), true), (copy("a", 1_000), false)] {
        let held = Held::of(meta, may_be_whole);
        assert!(held.bytes() < 2_048, "{}", held.bytes());
        let Seen::Marks(kept) = held.seen() else { panic!("{held:?}") };
        assert_eq!(ownership(&owner(), &kept), Ownership::Ours);
        assert_eq!(Owner::of(&kept), Some(owner()));
        assert_eq!((kept.uid.as_deref(), kept.resource_version.as_deref()), (Some("c1"), Some("7")));
    }
}

/// Ownership annotations are text of the tenant's, too.
#[test]
fn nothing_that_a_tenant_can_write_is_kept_at_any_length() {
    let long = || "é".repeat(120_000);
    let mut meta = copy("a", 0);
    let annotations = meta.annotations.get_or_insert_default();
    for key in [SYNC_ANNOTATION, SOURCE_ANNOTATION, TOKEN_ANNOTATION, KEYS_ANNOTATION] {
        annotations.insert(key.into(), long());
    }
    meta.finalizers = Some(vec![long()]);
    meta.generate_name = Some(long());
    let stranger = OwnerReference { kind: long(), ..OwnerReference::default() };
    meta.owner_references = Some(vec![stranger; 50]);
    let kept = Held::of(meta, true);
    assert!(serde_json::to_string(&*kept.meta).unwrap().len() < 1_024, "{:?}", kept.meta);
    // Its label still says so.
    assert_eq!(ownership(&owner(), &kept.meta), Ownership::Ours);
}

#[test]
fn the_watches_of_one_tenant_share_what_they_may_keep_and_give_it_back() {
    let share = Arc::new(Share::default());
    let (mut one, mut two) = (Objects::new(share.clone()), Objects::new(share.clone()));
    let many = MOST_BYTES / (EACH + size(&marks(copy("a", 0))));
    let small = || Held::of(copy("a", 0), false);
    for number in 0..many {
        let objects = if number % 2 == 0 { &mut one } else { &mut two };
        assert_eq!(objects.put(spot(&number.to_string()), small(), 0), Ok(None));
    }
    assert_eq!(two.put(spot("1"), small(), 0), Ok(Some(small())), "one that is there costs nothing more");
    assert_eq!(two.put(spot("more"), small(), 0), Err(TooMuch));
    drop(two);
    // A list of all objects does not count twice.
    let mut listed = Objects::new(share.clone());
    for number in 0..many / 2 {
        assert_eq!(listed.put(spot(&number.to_string()), small(), one.bytes()), Ok(None), "{number}");
    }
    drop((one, listed));
    assert_eq!(share.bytes.load(Ordering::Relaxed), 0);
}

/// A neighbour who fills a namespace that one of them is on.
#[test]
fn one_watch_leaves_the_others_of_its_tenant_what_they_need() {
    let share = Arc::new(Share::default());
    let (mut filled, mut other) = (Objects::new(share.clone()), Objects::new(share));
    let small = || Held::of(copy("a", 0), false);
    let fits = (0..MOST_BYTES)
        .take_while(|number| filled.put(spot(&number.to_string()), small(), 0).is_ok())
        .count();
    assert!(
        (MOST_BYTES_EACH - small().bytes()..=MOST_BYTES_EACH).contains(&(fits * small().bytes())),
        "{fits}"
    );
    filled.clear();
    for number in 0..fits {
        assert_eq!(filled.put(spot(&number.to_string()), small(), 0), Ok(None));
    }
    for number in 0..fits / 2 {
        assert_eq!(other.put(spot(&number.to_string()), small(), 0), Ok(None));
    }
}
