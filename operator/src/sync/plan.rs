//! What is to be done with one target, and with one leftover. Pure: the whole of the product's promise not to
//! touch what is not ours stands in this file.
//!
//! A target is judged twice. First by the metadata that the watch holds, which in the steady state and after an
//! edit of the source is enough. Where it is not (nothing seen, or content not known), the object itself is
//! read and judged. Every step that writes names the state it was decided on, and the write carries that as its
//! precondition ([`super::execute`]).

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use weaver_api::marks::{Owner, Ownership, SOURCE_ANNOTATION, ownership};

use super::copy::{Desired, source_reference};

/// A state of a copy whose content is known to be that of `digest`, because we wrote or read it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Verified {
    /// Uid of the copy.
    pub uid: String,
    /// Its resourceVersion then.
    pub resource_version: String,
    /// Digest of the desired copy that it equalled then.
    pub digest: String,
}

impl Verified {
    /// `meta` is known to hold what `desired` asks for.
    #[must_use]
    pub fn new(meta: &ObjectMeta, desired: &Desired) -> Option<Self> {
        Some(Self {
            uid: meta.uid.clone()?,
            resource_version: meta.resource_version.clone()?,
            digest: desired.digest.clone(),
        })
    }

    fn is_of(&self, meta: &ObjectMeta) -> bool {
        meta.uid.as_ref() == Some(&self.uid) && meta.resource_version.as_ref() == Some(&self.resource_version)
    }
}

/// What to do with a target.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// It is as it should be.
    Keep,
    /// Nothing is there: create, and only create.
    Create,
    /// It is ours: write over exactly this state of it.
    Update(Arc<ObjectMeta>),
    /// It is ours and can only be replaced: delete exactly this state, then create.
    Replace(Arc<ObjectMeta>),
    /// Read the object, then judge again.
    Inspect,
    /// It is not ours. It stays as it is, to the byte.
    Refuse(Foreign),
}

/// Whose an object is that stands in the way.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Foreign {
    /// Made by a person or another tool.
    #[error("an object of this name exists and was not made by this ConfigMapSync")]
    Unmarked,
    /// Held by another `ConfigMapSync`.
    #[error("it is a copy of {0}")]
    Other(String),
    /// A source that carries the marks of its own copies, because it was restored from one.
    #[error("it is marked as the source of copies")]
    Source,
}

/// What a watch shows of a target.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    /// Nothing reliable: there is no watch, or it is not established.
    Unknown,
    /// No object of ours.
    Nothing,
    /// This.
    Object(Arc<ObjectMeta>),
}

/// Judges a target by what the watch has seen of it and by what is known of its content.
#[must_use]
pub fn by_metadata(desired: &Desired, seen: &Seen, known: Option<&Verified>) -> Step {
    let meta = match seen {
        Seen::Unknown => return Step::Inspect,
        Seen::Nothing => return Step::Create,
        Seen::Object(meta) => meta,
    };
    if let Some(foreign) = foreign(&desired.owner, meta) {
        return Step::Refuse(foreign);
    }
    match known.filter(|known| known.is_of(meta)) {
        Some(known) if known.digest == desired.digest => Step::Keep,
        // An immutable copy would refuse the update; then the object is read and replaced.
        Some(_) => Step::Update(meta.clone()),
        None => Step::Inspect,
    }
}

/// Judges a target by the object itself.
#[must_use]
pub fn by_object(desired: &Desired, found: Option<&ConfigMap>) -> Step {
    let Some(found) = found else { return Step::Create };
    if let Some(foreign) = foreign(&desired.owner, &found.metadata) {
        return Step::Refuse(foreign);
    }
    if desired.equals(found) {
        return Step::Keep;
    }
    let meta = Arc::new(found.metadata.clone());
    if desired.fits(found) { Step::Update(meta) } else { Step::Replace(meta) }
}

/// May this object be removed as a leftover of `owner`? `source` is namespace and name of the source as far as
/// the spec names it; it is never removed, whatever marks somebody put on it.
#[must_use]
pub fn may_remove(owner: &Owner, source: (Option<&str>, Option<&str>), meta: &ObjectMeta) -> bool {
    source != (meta.namespace.as_deref(), meta.name.as_deref()) && foreign(owner, meta).is_none()
}

fn foreign(owner: &Owner, meta: &ObjectMeta) -> Option<Foreign> {
    let at = |part: &Option<String>| part.clone().unwrap_or_default();
    let itself = source_reference(&at(&meta.namespace), &at(&meta.name));
    let marked = meta.annotations.as_ref().and_then(|annotations| annotations.get(SOURCE_ANNOTATION));
    if marked == Some(&itself) {
        return Some(Foreign::Source);
    }
    match ownership(owner, meta) {
        Ownership::Ours => None,
        Ownership::Unmarked => Some(Foreign::Unmarked),
        Ownership::Other(other) => Some(Foreign::Other(other)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn owner(uid: &str) -> Owner {
        Owner { namespace: "team-a".into(), name: "settings".into(), uid: uid.into() }
    }

    fn desired(value: &str) -> Desired {
        Desired::new(
            owner("u1"),
            &ConfigMap {
                metadata: ObjectMeta {
                    name: Some("settings".into()),
                    namespace: Some("team-a".into()),
                    ..ObjectMeta::default()
                },
                data: Some(BTreeMap::from([("a".into(), value.into())])),
                ..ConfigMap::default()
            },
        )
    }

    fn stored(mut object: ConfigMap, uid: &str, version: &str) -> ConfigMap {
        object.metadata.uid = Some(uid.into());
        object.metadata.resource_version = Some(version.into());
        object
    }

    fn foreign_object() -> ConfigMap {
        stored(
            ConfigMap {
                metadata: ObjectMeta { name: Some("settings".into()), ..ObjectMeta::default() },
                data: desired("1").create("foo").data,
                ..ConfigMap::default()
            },
            "theirs",
            "1",
        )
    }

    #[test]
    fn an_unchanged_copy_is_kept_without_reading_it() {
        let copy = stored(desired("1").create("foo"), "c", "5");
        let known = Verified::new(&copy.metadata, &desired("1")).unwrap();
        let meta = Arc::new(copy.metadata);
        assert_eq!(by_metadata(&desired("1"), &Seen::Object(meta.clone()), Some(&known)), Step::Keep);
    }

    #[test]
    fn an_edited_source_is_written_without_reading_the_copy() {
        let copy = stored(desired("1").create("foo"), "c", "5");
        let known = Verified::new(&copy.metadata, &desired("1")).unwrap();
        let meta = Arc::new(copy.metadata);
        assert_eq!(
            by_metadata(&desired("2"), &Seen::Object(meta.clone()), Some(&known)),
            Step::Update(meta.clone())
        );
    }

    #[test]
    fn an_edited_or_unknown_copy_is_read_first() {
        let copy = stored(desired("1").create("foo"), "c", "6");
        let known = Verified {
            resource_version: "5".into(),
            ..Verified::new(&copy.metadata, &desired("1")).unwrap()
        };
        let meta = Arc::new(copy.metadata);
        assert_eq!(by_metadata(&desired("1"), &Seen::Object(meta.clone()), Some(&known)), Step::Inspect);
        assert_eq!(by_metadata(&desired("1"), &Seen::Object(meta.clone()), None), Step::Inspect);
    }

    #[test]
    fn what_a_dead_watch_showed_last_decides_nothing() {
        let copy = stored(desired("1").create("foo"), "c", "5");
        let known = Verified::new(&copy.metadata, &desired("1"));
        assert_eq!(by_metadata(&desired("1"), &Seen::Unknown, known.as_ref()), Step::Inspect);
    }

    #[test]
    fn b2_a_foreign_object_is_refused_even_if_its_content_is_equal() {
        assert_eq!(by_object(&desired("1"), Some(&foreign_object())), Step::Refuse(Foreign::Unmarked));
    }

    #[test]
    fn b25_a_copy_of_another_resource_is_refused() {
        let mut other = desired("1");
        other.owner = Owner { namespace: "team-b".into(), name: "other".into(), uid: "u2".into() };
        let found = stored(other.create("foo"), "c", "1");
        let refused = Step::Refuse(Foreign::Other("ConfigMapSync team-b/other".into()));
        assert_eq!(by_object(&desired("1"), Some(&found)), refused);
        assert_eq!(by_metadata(&desired("1"), &Seen::Object(Arc::new(found.metadata)), None), refused);
    }

    #[test]
    fn content_of_an_immutable_copy_is_replaced() {
        let mut found = stored(desired("1").create("foo"), "c", "1");
        found.immutable = Some(true);
        assert!(matches!(by_object(&desired("2"), Some(&found)), Step::Replace(_)));
    }

    #[test]
    fn b3_b6_the_source_is_never_removed_whatever_marks_it_carries() {
        let marked = |namespace: &str| ConfigMap { ..desired("1").create(namespace) }.metadata;
        let named = (Some("team-a"), Some("settings"));
        assert!(may_remove(&owner("u1"), named, &marked("foo")));
        assert!(!may_remove(&owner("u1"), named, &foreign_object().metadata));
        // Restored from one of its copies it carries their marks; and the spec may name another source by now,
        // or none.
        for source in [named, (Some("team-a"), Some("other")), (None, None)] {
            assert!(!may_remove(&owner("u1"), source, &marked("team-a")), "{source:?}");
        }
        let restored = stored(desired("1").create("team-a"), "c", "1");
        assert_eq!(by_object(&desired("2"), Some(&restored)), Step::Refuse(Foreign::Source));
    }

    #[derive(Clone, Copy, Debug)]
    enum Label {
        None,
        Ours,
        Theirs,
    }

    fn any_object() -> impl Strategy<Value = Option<ConfigMap>> {
        let label = prop_oneof![Just(Label::None), Just(Label::Ours), Just(Label::Theirs)];
        proptest::option::of((label, "[12]", any::<bool>()).prop_map(|(label, value, immutable)| {
            let mut object = desired(&value);
            if matches!(label, Label::Theirs) {
                object.owner = Owner { namespace: "b".into(), name: "b".into(), uid: "u2".into() };
            }
            let mut object = stored(object.create("foo"), "c", "1");
            if matches!(label, Label::None) {
                (object.metadata.labels, object.metadata.annotations) = (None, None);
            }
            object.immutable = immutable.then_some(true);
            object
        }))
    }

    proptest! {
        #[test]
        fn only_our_own_objects_are_ever_written(found in any_object()) {
            let step = by_object(&desired("1"), found.as_ref());
            match (&step, &found) {
                (Step::Create, found) => prop_assert!(found.is_none()),
                (Step::Update(meta) | Step::Replace(meta), Some(found)) => {
                    prop_assert_eq!(ownership(&owner("u1"), meta), Ownership::Ours);
                    prop_assert_eq!(&**meta, &found.metadata);
                }
                (Step::Keep, Some(found)) => prop_assert!(desired("1").equals(found)),
                (Step::Refuse(_), Some(found)) => {
                    prop_assert_ne!(ownership(&owner("u1"), &found.metadata), Ownership::Ours);
                }
                (step, found) => prop_assert!(false, "{step:?} for {found:?}"),
            }
        }

        #[test]
        fn an_update_leads_to_keep(found in any_object()) {
            if let (Step::Update(meta), Some(_)) = (by_object(&desired("1"), found.as_ref()), &found) {
                prop_assert_eq!(by_object(&desired("1"), Some(&desired("1").update(&meta))), Step::Keep);
            }
        }
    }
}
