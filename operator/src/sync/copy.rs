//! What a copy looks like, and whether a found object looks like it. Pure.
//!
//! `data`, `binaryData` and `immutable` of a copy are wholly ours. Of its metadata only our marks are: labels,
//! annotations, finalizers and owners that other people put there stay.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use sha2::{Digest as _, Sha256};
use weaver_api::marks::Owner;

/// The copy that every target is to hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    /// Whose copy it is.
    pub owner: Owner,
    /// Name of the copy.
    pub name: String,
    /// `<Kind>/<namespace>/<name>` of the source.
    pub source: String,
    /// Digest of content and marks: two copies are equal if it is.
    pub digest: String,
    content: Content,
}

#[derive(Clone, Debug, PartialEq)]
struct Content {
    data: Option<BTreeMap<String, String>>,
    binary_data: Option<BTreeMap<String, ByteString>>,
    immutable: Option<bool>,
}

impl Content {
    /// Empty and absent are one: the API server stores either as it was sent.
    fn of(object: &ConfigMap) -> Self {
        Self {
            data: object.data.clone().filter(|data| !data.is_empty()),
            binary_data: object.binary_data.clone().filter(|data| !data.is_empty()),
            immutable: object.immutable.filter(|immutable| *immutable),
        }
    }
}

impl Desired {
    /// The copies of `source` for `owner`.
    #[must_use]
    pub fn new(owner: Owner, source: &ConfigMap) -> Self {
        let name = source.metadata.name.clone().unwrap_or_default();
        let namespace = source.metadata.namespace.as_deref().unwrap_or_default();
        let reference = source_reference(namespace, &name);
        let content = Content::of(source);
        let digest = digest(&content, &owner, &reference);
        Self { owner, name, source: reference, digest, content }
    }

    /// A new copy in `namespace`.
    #[must_use]
    pub fn create(&self, namespace: &str) -> ConfigMap {
        self.with_content(ObjectMeta {
            name: Some(self.name.clone()),
            namespace: Some(namespace.into()),
            labels: Some(self.owner.labels()),
            annotations: Some(self.owner.annotations(&self.source)),
            ..ObjectMeta::default()
        })
    }

    /// `seen`, made equal. Its uid and resourceVersion go with it and are the precondition of the write.
    #[must_use]
    pub fn update(&self, seen: &ObjectMeta) -> ConfigMap {
        let mut metadata = ObjectMeta { managed_fields: None, ..seen.clone() };
        metadata.labels.get_or_insert_default().extend(self.owner.labels());
        metadata.annotations.get_or_insert_default().extend(self.owner.annotations(&self.source));
        self.with_content(metadata)
    }

    /// Does `meta` carry all our marks, with the right values?
    #[must_use]
    pub fn is_marked(&self, meta: &ObjectMeta) -> bool {
        let holds = |found: &Option<BTreeMap<String, String>>, wanted: BTreeMap<_, _>| {
            wanted.iter().all(|(key, value)| found.as_ref().and_then(|found| found.get(key)) == Some(value))
        };
        holds(&meta.labels, self.owner.labels())
            && holds(&meta.annotations, self.owner.annotations(&self.source))
    }

    /// Is `found` this copy, content and marks?
    #[must_use]
    pub fn equals(&self, found: &ConfigMap) -> bool {
        Content::of(found) == self.content && self.is_marked(&found.metadata)
    }

    /// Can `found` become this copy by an update? Content of an immutable object cannot change, nor can it
    /// become mutable again.
    #[must_use]
    pub fn fits(&self, found: &ConfigMap) -> bool {
        found.immutable != Some(true) || Content::of(found) == self.content
    }

    fn with_content(&self, metadata: ObjectMeta) -> ConfigMap {
        ConfigMap {
            metadata,
            data: self.content.data.clone(),
            binary_data: self.content.binary_data.clone(),
            immutable: self.content.immutable,
        }
    }
}

/// How the copies of a source name it.
#[must_use]
pub fn source_reference(namespace: &str, name: &str) -> String {
    format!("ConfigMap/{namespace}/{name}")
}

fn digest(content: &Content, owner: &Owner, source: &str) -> String {
    let mut hash = Sha256::new();
    let mut part = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    };
    part(owner.to_string().as_bytes());
    part(source.as_bytes());
    part(&[u8::from(content.immutable == Some(true))]);
    part(b"data");
    for (key, value) in content.data.iter().flatten() {
        part(key.as_bytes());
        part(value.as_bytes());
    }
    part(b"binaryData");
    for (key, value) in content.binary_data.iter().flatten() {
        part(key.as_bytes());
        part(&value.0);
    }
    format!("{:x}", hash.finalize())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
    use proptest::prelude::*;
    use weaver_api::marks::{Ownership, ownership};

    use super::*;

    fn owner() -> Owner {
        Owner { namespace: "team-a".into(), name: "settings".into(), uid: "u1".into() }
    }

    fn source(data: &[(&str, &str)]) -> ConfigMap {
        ConfigMap {
            metadata: ObjectMeta {
                name: Some("settings".into()),
                namespace: Some("team-a".into()),
                labels: Some(BTreeMap::from([("team".into(), "a".into())])),
                annotations: Some(BTreeMap::from([(
                    "kubectl.kubernetes.io/last-applied-configuration".into(),
                    "{}".into(),
                )])),
                finalizers: Some(vec!["example.com/keep".into()]),
                owner_references: Some(vec![OwnerReference::default()]),
                ..ObjectMeta::default()
            },
            data: Some(data.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()),
            binary_data: Some(BTreeMap::from([("blob".into(), ByteString((0..=255).collect()))])),
            ..ConfigMap::default()
        }
    }

    #[test]
    fn b11_b27_a_copy_has_the_content_and_nothing_of_the_sources_metadata() {
        let source = source(&[("a", "1")]);
        let copy = Desired::new(owner(), &source).create("foo");
        assert_eq!((&copy.data, &copy.binary_data), (&source.data, &source.binary_data));
        let meta = &copy.metadata;
        assert_eq!(meta.labels, Some(owner().labels()));
        assert_eq!(meta.annotations, Some(owner().annotations("ConfigMap/team-a/settings")));
        assert_eq!((&meta.finalizers, &meta.owner_references), (&None, &None));
        assert!(meta.labels.iter().flatten().all(|(_, value)| value.len() <= 63));
    }

    #[test]
    fn b13_an_update_keeps_other_peoples_metadata_and_carries_its_precondition() {
        let desired = Desired::new(owner(), &source(&[("a", "1")]));
        let seen = ObjectMeta {
            uid: Some("uid".into()),
            resource_version: Some("7".into()),
            labels: Some(BTreeMap::from([("theirs".into(), "x".into())])),
            finalizers: Some(vec!["theirs/f".into()]),
            ..ObjectMeta::default()
        };
        let update = desired.update(&seen);
        assert_eq!(update.metadata.resource_version.as_deref(), Some("7"));
        assert_eq!(update.metadata.uid.as_deref(), Some("uid"));
        assert_eq!(update.metadata.finalizers, seen.finalizers);
        assert_eq!(update.metadata.labels.as_ref().unwrap()["theirs"], "x");
        assert!(desired.equals(&update));
    }

    #[test]
    fn b12_a_change_in_data_binary_data_or_marks_is_seen() {
        let desired = Desired::new(owner(), &source(&[("a", "1")]));
        let copy = desired.create("foo");
        assert!(desired.equals(&copy));
        let changes: [fn(&mut ConfigMap); 5] = [
            |copy| copy.data.as_mut().unwrap().insert("a".into(), "2".into()).map_or((), drop),
            |copy| copy.binary_data = None,
            |copy| copy.immutable = Some(true),
            |copy| copy.metadata.labels = None,
            |copy| copy.metadata.annotations = None,
        ];
        for (index, change) in changes.into_iter().enumerate() {
            let mut tampered = copy.clone();
            change(&mut tampered);
            assert!(!desired.equals(&tampered), "change {index}");
        }
    }

    #[test]
    fn an_immutable_object_of_other_content_cannot_be_updated() {
        let desired = Desired::new(owner(), &source(&[("a", "2")]));
        let mut found = Desired::new(owner(), &source(&[("a", "1")])).create("foo");
        assert!(desired.fits(&found));
        found.immutable = Some(true);
        assert!(!desired.fits(&found));
    }

    proptest! {
        #[test]
        fn the_digest_tells_contents_apart(
            one in proptest::collection::btree_map("[a-c]{1,2}", "[a-c]{0,3}", 0..4),
            two in proptest::collection::btree_map("[a-c]{1,2}", "[a-c]{0,3}", 0..4),
        ) {
            let of = |data: &BTreeMap<String, String>| {
                let pairs: Vec<_> = data.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
                Desired::new(owner(), &source(&pairs))
            };
            prop_assert_eq!(of(&one).digest == of(&two).digest, one == two);
        }

        #[test]
        fn every_copy_is_recognised_as_ours(data in proptest::collection::btree_map("[a-z]{1,9}", ".*", 0..4)) {
            let pairs: Vec<_> = data.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
            let copy = Desired::new(owner(), &source(&pairs)).create("foo");
            prop_assert_eq!(ownership(&owner(), &copy.metadata), Ownership::Ours);
        }
    }
}
