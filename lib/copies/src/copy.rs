//! What a copy looks like, and whether a found object looks like it. Pure.
//!
//! `data`, `binaryData`, `type` and `immutable` of a copy are wholly ours. Its metadata is shared with other people
//! ([`super::metadata`]).

use std::sync::OnceLock;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt as _};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use weaver_api::kind::ObjectKind;
use weaver_api::ownership::{Owner, SOURCE_ANNOTATION};
use weaver_api::validate::ValidSync;
use weaver_diagnostics::finding_text::clean;
use weaver_diagnostics::shell::quoted;

use super::content::{Content, Difference};
use super::metadata::Metadata;
use serde_json::Value;

use crate::kinds::put_back;
use crate::object::{Object, ObjectKey};

/// How a copy of several sources names them; no object is called so.
const MERGED: &str = "*";

/// Identity of a resource as its copies carry it.
pub fn owner(sync: &impl Resource) -> Owner {
    Owner {
        namespace: sync.namespace().unwrap_or_default(),
        name: sync.name_any(),
        uid: sync.uid().unwrap_or_default(),
    }
}

/// The copy that every target should have.
#[derive(Clone)]
pub struct DesiredCopy {
    /// Whose copy it is.
    pub owner: Owner,
    /// Kind of the copy, and of the source.
    pub kind: ObjectKind,
    pub name: String,
    /// Digest of content and metadata: two copies are equal if it is.
    pub digest: String,
    metadata: Metadata,
    content: Content,
    /// The content as JSON, once something was written.
    content_json: OnceLock<Vec<u8>>,
}

/// What stands before the content.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Head<'a> {
    api_version: String,
    kind: &'a str,
    metadata: &'a ObjectMeta,
}

impl DesiredCopy {
    /// The copies of `kind` for `owner`, called `name`.
    pub fn new(owner: Owner, kind: ObjectKind, name: &str, metadata: Metadata, content: Content) -> Self {
        let digest = digest(&metadata, &content);
        let content_json = OnceLock::new();
        Self { owner, kind, name: name.to_owned(), digest, metadata, content, content_json }
    }

    /// The copy that the sources of `spec` make together. It carries what the spec adds, and nothing of theirs.
    pub fn merged(owner: Owner, spec: &ValidSync, name: &str, content: Content) -> Self {
        let sources = ObjectKey::of_source(spec, MERGED);
        let metadata = Metadata::new(&owner, &source_reference(&sources), &ObjectMeta::default(), spec);
        Self::new(owner, spec.source_kind, name, metadata, content)
    }

    /// The source, as its copies name it.
    pub fn source(&self) -> &str {
        self.metadata.source()
    }

    pub fn object_key(&self, namespace: &str) -> ObjectKey {
        ObjectKey { kind: self.kind, namespace: namespace.to_owned(), name: self.name.clone() }
    }

    /// A new copy in `namespace`, as JSON.
    pub fn create_json(&self, namespace: &str) -> Vec<u8> {
        self.json(&self.metadata.of_new(namespace, &self.name), &[])
    }

    /// `seen`, made equal. Its uid and resourceVersion go with it and are the precondition of the write.
    pub fn update_metadata(&self, seen: &ObjectMeta) -> ObjectMeta {
        self.metadata.put_on(seen)
    }

    /// The copy with this metadata, and with what has to stay of the object that is there, as JSON. The content, up to a
    /// megabyte, is made JSON once for all targets.
    pub fn json(&self, metadata: &ObjectMeta, staying: &[(&'static [&'static str], Value)]) -> Vec<u8> {
        if !staying.is_empty() {
            let mut object = self.content.with(self.kind, metadata.clone());
            put_back(&mut object.rest, staying);
            return to_json(&object);
        }
        let mut json =
            to_json(&Head { api_version: self.kind.api_version(), kind: self.kind.as_str(), metadata });
        let content = self.content_json.get_or_init(|| to_json(&self.content));
        // Two objects become one; the second may be empty.
        if content.len() > "{}".len() {
            json.reserve_exact(content.len());
            json.pop();
            json.push(b',');
            json.extend_from_slice(&content[1..]);
        }
        json
    }

    /// Is `found` this copy, content and metadata?
    pub fn equals(&self, found: &Object) -> bool {
        Content::of(found) == self.content && self.metadata.is_on(&found.metadata)
    }

    /// How `found` differs: names of keys, without their values.
    pub fn differences(&self, found: &Object) -> Vec<Difference> {
        [self.content.differences(found), self.metadata.differences(&found.metadata)].concat()
    }

    /// The keys of a new copy.
    pub fn additions(&self) -> Vec<Difference> {
        self.content.additions()
    }

    /// Bytes of its content, about as many as its JSON has.
    pub fn size(&self) -> usize {
        self.content.size()
    }

    /// Can `found` become this copy by an update?
    pub fn fits(&self, found: &Object) -> bool {
        self.content.fits(found)
    }
}

/// Is it marked as a copy of itself? A source that was restored from one of its copies is.
pub fn is_own_source(kind: ObjectKind, meta: &ObjectMeta) -> bool {
    let marked = meta.annotations.as_ref().and_then(|annotations| annotations.get(SOURCE_ANNOTATION));
    ObjectKey::of(kind, meta).is_some_and(|object_key| marked == Some(&source_reference(&object_key)))
}

/// How the copies of a source name it.
pub fn source_reference(ObjectKey { kind, namespace, name }: &ObjectKey) -> String {
    format!("{kind}/{namespace}/{name}")
}

/// An object as it is typed to `weaver orphans`. Of a Role almost any text is a name, to a shell and to a terminal too.
pub fn typed_reference(key: &ObjectKey) -> String {
    quoted(&clean(&source_reference(key)))
}

#[expect(clippy::expect_used, reason = "each key is a text")]
fn to_json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("objects with texts as keys can be written as JSON")
}

fn digest(metadata: &Metadata, content: &Content) -> String {
    let mut hash = Sha256::new();
    let mut part = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    };
    metadata.parts(&mut part);
    content.parts(&mut part);
    format!("{:x}", hash.finalize())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::json;
    use weaver_api::ownership::{Ownership, ownership};

    use super::*;
    use crate::specs::{created, spec, updated, valid};

    #[test]
    fn what_a_shell_or_a_terminal_would_obey_in_a_name_is_typed_as_text() {
        for (name, typed) in [
            ("settings", "ConfigMap/foo/settings"),
            ("system:x", "ConfigMap/foo/system:x"),
            ("a;reboot", "'ConfigMap/foo/a;reboot'"),
            ("a'$(reboot)", r"'ConfigMap/foo/a'\''$(reboot)'"),
            ("a\u{1b}[2J\n", r"'ConfigMap/foo/a\u{1b}[2J\n'"),
        ] {
            let key = ObjectKey { kind: ObjectKind::CONFIG_MAP, namespace: "foo".into(), name: name.into() };
            assert_eq!(typed_reference(&key), typed);
        }
    }

    fn owner() -> Owner {
        Owner { namespace: "team-a".into(), name: "settings".into(), uid: "u1".into() }
    }

    fn source(data: &[(&str, &str)]) -> Object {
        Object {
            data: Some(data.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()),
            binary_data: Some(BTreeMap::from([("blob".into(), "AAEC/w==".into())])),
            ..Object::default()
        }
    }

    /// A copy of all of it, under its own name.
    fn whole(source: &Object) -> DesiredCopy {
        let metadata =
            Metadata::new(&owner(), "ConfigMap/team-a/settings", &source.metadata, &valid(spec(&["foo"])));
        DesiredCopy::new(owner(), ObjectKind::CONFIG_MAP, "settings", metadata, Content::of(source))
    }

    #[test]
    fn a_copy_has_the_content_and_is_recognised() {
        let source = source(&[("a", "1")]);
        let copy = created(&whole(&source), "foo");
        assert_eq!((&copy.data, &copy.binary_data), (&source.data, &source.binary_data));
        assert!(whole(&source).equals(&copy));
    }

    #[test]
    fn what_is_written_is_the_object() {
        let text = |json: Vec<u8>| String::from_utf8(json).unwrap();
        let mut secret = source(&[]);
        (secret.type_, secret.immutable) = (Some("Opaque".into()), Some(true));
        let other = json!({"apiVersion": "example.com/v1", "kind": "Widget", "spec": {"a": [1, "\""]}});
        let other: Object = serde_json::from_value(other).unwrap();
        for source in [source(&[("a", "\"ä\n\\"), ("b", "")]), Object::default(), secret, other] {
            let desired = whole(&source);
            let object = |metadata| desired.content.with(ObjectKind::CONFIG_MAP, metadata);
            let seen = ObjectMeta { resource_version: Some("7".into()), ..ObjectMeta::default() };
            let update = desired.update_metadata(&seen);
            for (written, object) in [
                (desired.create_json("foo"), object(desired.metadata.of_new("foo", "settings"))),
                (desired.create_json("bar"), object(desired.metadata.of_new("bar", "settings"))),
                (desired.json(&update, &[]), object(update.clone())),
            ] {
                assert_eq!(text(written), serde_json::to_string(&object).unwrap());
            }
            let status: &[&str] = &["status"];
            let mut left = object(update);
            left.rest.insert("status".into(), json!({"ready": true}));
            let written = desired.json(&left.metadata, &[(status, json!({"ready": true}))]);
            assert_eq!(text(written), serde_json::to_string(&left).unwrap());
        }
    }

    #[test]
    fn an_update_carries_its_precondition() {
        let desired = whole(&source(&[("a", "1")]));
        let seen = ObjectMeta {
            uid: Some("uid".into()),
            resource_version: Some("7".into()),
            ..ObjectMeta::default()
        };
        let update = updated(&desired, &seen);
        assert_eq!(update.metadata.resource_version.as_deref(), Some("7"));
        assert_eq!(update.metadata.uid.as_deref(), Some("uid"));
        assert!(desired.equals(&update));
    }

    #[test]
    fn a_change_in_content_or_ownership_labels_is_seen() {
        let desired = whole(&source(&[("a", "1")]));
        let copy = created(&desired, "foo");
        assert!(desired.equals(&copy));
        let changes: [fn(&mut Object); 6] = [
            |copy| copy.data.as_mut().unwrap().insert("a".into(), "2".into()).map_or((), drop),
            |copy| copy.binary_data = None,
            |copy| copy.immutable = Some(true),
            |copy| copy.type_ = Some("Opaque".into()),
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
        let desired = whole(&source(&[("a", "2")]));
        let mut found = created(&whole(&source(&[("a", "1")])), "foo");
        assert!(desired.fits(&found));
        found.immutable = Some(true);
        assert!(!desired.fits(&found));
    }

    #[test]
    fn a_secret_of_another_type_cannot_be_updated() {
        let mut source = source(&[]);
        source.type_ = Some("kubernetes.io/tls".into());
        let desired = whole(&source);
        let mut found = created(&desired, "foo");
        assert!(desired.fits(&found));
        found.type_ = Some("Opaque".into());
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
                whole(&source(&pairs))
            };
            prop_assert_eq!(of(&one).digest == of(&two).digest, one == two);
            let mut labelled = source(&[]);
            labelled.metadata.labels = Some(one.clone());
            let first = whole(&labelled).digest;
            labelled.metadata.labels = Some(two.clone());
            prop_assert_eq!(first == whole(&labelled).digest, one == two);
        }

        #[test]
        fn every_copy_is_recognised_as_ours(data in proptest::collection::btree_map("[a-z]{1,9}", ".*", 0..4)) {
            let pairs: Vec<_> = data.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
            let copy = created(&whole(&source(&pairs)), "foo");
            prop_assert_eq!(ownership(&owner(), &copy.metadata), Ownership::Ours);
        }
    }
}
