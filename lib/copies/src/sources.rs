//! Which objects are the sources of a resource, and which of its copies are still wanted. Pure.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use weaver_api::kind::ObjectKind;
use weaver_api::ownership::{Owner, SYNC_ANNOTATION, SYNC_UID_LABEL};
use weaver_api::v1beta1::{Selector, Source, SourceDeletionPolicy};
use weaver_api::validate::{Sources, ValidSync};

use crate::copy::source_reference;
use crate::object::ObjectKey;

/// Most sources that one selector may select.
pub const MAX_SOURCES: usize = 256;

/// Most copies of the sources that one selector selects: each may be refused, and what was said is kept.
pub const MAX_COPIES: usize = 10_000;

/// Kubernetes itself puts it into each namespace, so no copy of it could ever be made.
const IN_EACH_NAMESPACE: &str = "kube-root-ca.crt";

/// What a list of the sources that `selector` selects asks for: copies, which have the labels of their source, are left
/// out.
pub fn query(selector: &Selector) -> String {
    format!("{},!{SYNC_UID_LABEL}", selector.query())
}

/// May an object with this metadata be one of them? A copy of any resource never is: it would be copied in
/// turn forever. The ownership label or annotation alone is enough. Nor is a Secret with tokens of a `ServiceToken`:
/// anyone who may label it would share them.
pub fn may_be_source(meta: &ObjectMeta) -> bool {
    let is_copy = meta.labels.iter().flatten().any(|(key, _)| key == SYNC_UID_LABEL)
        || meta.annotations.iter().flatten().any(|(key, _)| key == SYNC_ANNOTATION);
    !is_copy && Owner::of_tokens(meta).is_none() && meta.name.as_deref() != Some(IN_EACH_NAMESPACE)
}

/// The source, as far as a spec names it, valid or not.
#[derive(Clone, Debug)]
pub struct SpecSource {
    pub kind: ObjectKind,
    pub namespace: Option<String>,
    pub name: Option<String>,
    /// Names of several, where they are merged.
    pub names: Vec<String>,
    /// Labels say which it is.
    pub is_selected: bool,
}

impl SpecSource {
    pub fn of(kind: ObjectKind, source: &Source) -> Self {
        let Source { namespace, name, names, selector, .. } = source.clone();
        Self { kind, namespace, name, names, is_selected: selector.is_some() }
    }

    /// Does it name the object of this kind and metadata?
    pub fn names(&self, kind: ObjectKind, meta: &ObjectMeta) -> bool {
        let is_listed = || meta.name.as_ref().is_some_and(|name| self.names.contains(name));
        kind.is_same(self.kind) && meta.namespace == self.namespace && (meta.name == self.name || is_listed())
    }
}

impl From<&Source> for SpecSource {
    fn from(source: &Source) -> Self {
        Self::of(source.kind.into(), source)
    }
}

impl From<&ValidSync> for SpecSource {
    fn from(spec: &ValidSync) -> Self {
        let (kind, namespace) = (spec.source_kind, Some(spec.source_namespace.clone()));
        let (name, names) = (spec.source_name().map(str::to_owned), spec.source_names().to_vec());
        Self { kind, namespace, name, names, is_selected: matches!(spec.sources, Sources::Selected(_)) }
    }
}

pub struct WantedCopies<'a> {
    pub spec: &'a ValidSync,
    /// The namespaces that are asked for.
    pub namespaces: &'a BTreeSet<String>,
    /// Names of the copies of each source that is there; `None` where that is not known.
    pub names: Option<BTreeSet<String>>,
}

impl WantedCopies<'_> {
    /// Is the copy `object_key` wanted? So is that of a source which is gone, where the spec says so: if it has the name
    /// that the spec gives such a copy, and is of such a source, as far as it is known which one it names.
    pub fn has(&self, object_key: &ObjectKey, source: Option<&str>) -> bool {
        let Self { spec, namespaces, names } = self;
        let is_there = |names: &BTreeSet<String>| names.contains(&object_key.name);
        let keeps_gone = spec.source_deletion_policy == SourceDeletionPolicy::Retain;
        object_key.kind.is_same(spec.source_kind)
            && namespaces.contains(&object_key.namespace)
            && (names.as_ref().is_none_or(is_there) || keeps_gone && self.is_of_such(object_key, source))
    }

    fn is_of_such(&self, object_key: &ObjectKey, source: Option<&str>) -> bool {
        if let Some(merged) = self.spec.merged_name() {
            return object_key.name == merged;
        }
        let Some(name) = self.spec.source_of(&object_key.name) else { return false };
        let reference = || source_reference(&ObjectKey::of_source(self.spec, name));
        // Where it is named, another source's copy of that name is written over.
        self.spec.source_name().is_some() || source.is_none_or(|source| source == reference())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use weaver_api::kind::ObjectKind;
    use weaver_api::ownership::TOKEN_ANNOTATION;

    use super::*;
    use crate::specs::valid;

    fn spec(source: &Value, policy: &str) -> ValidSync {
        valid(json!({
            "serviceAccount": {"name": "sync"}, "source": source, "sourceDeletionPolicy": policy,
            "targets": {"namespaces": ["foo"], "namePrefix": "a-"},
        }))
    }

    #[test]
    fn no_copy_is_a_source() {
        let meta = |labels: Value, annotations: Value| -> ObjectMeta {
            serde_json::from_value(json!({"name": "x", "labels": labels, "annotations": annotations}))
                .unwrap()
        };
        let share = json!({"share": "true"});
        for (meta, expected) in [
            (meta(share.clone(), json!({})), true),
            (meta(json!({"share": "true", SYNC_UID_LABEL: "u"}), json!({})), false),
            (meta(share, json!({SYNC_ANNOTATION: "a/b/u"})), false),
            (meta(json!({"share": "true"}), json!({TOKEN_ANNOTATION: "a/b/u"})), false),
            (ObjectMeta { name: Some("kube-root-ca.crt".into()), ..ObjectMeta::default() }, false),
        ] {
            assert_eq!(may_be_source(&meta), expected, "{meta:?}");
        }
        let selector = serde_json::from_value(json!({"matchLabels": {"share": "true"}})).unwrap();
        assert_eq!(query(&selector), "share=true,!weaver.example.com/sync-uid");
    }

    #[test]
    fn a_copy_is_wanted_while_its_source_is_there_and_as_the_spec_says_when_it_is_gone() {
        let selected = json!({"namespace": "src", "selector": {"matchLabels": {"share": "true"}}});
        let named = json!({"namespace": "src", "name": "x"});
        let of_y = Some("ConfigMap/src/y");
        // The source `x` is there, and `y` is gone.
        for (source, policy, at, of, expected) in [
            (&selected, "Retain", ("foo", "a-x"), None, true),
            (&selected, "Retain", ("foo", "a-y"), of_y, true),
            (&selected, "Retain", ("foo", "a-y"), None, true),
            (&selected, "Delete", ("foo", "a-x"), None, true),
            (&selected, "Delete", ("foo", "a-y"), of_y, false),
            // Of other names, of other namespaces, and where none is asked for.
            (&selected, "Retain", ("foo", "y"), of_y, false),
            (&selected, "Retain", ("foo", "a-y"), Some("ConfigMap/src/a-y"), false),
            (&selected, "Retain", ("foo", "a-y"), Some("ConfigMap/other/y"), false),
            (&selected, "Retain", ("bar", "a-x"), None, false),
            (&named, "Delete", ("foo", "a-x"), of_y, true),
            (&named, "Retain", ("foo", "a-y"), of_y, false),
        ] {
            let (spec, namespaces) = (spec(source, policy), BTreeSet::from(["foo".to_owned()]));
            let object_key = |kind| ObjectKey { kind, namespace: at.0.into(), name: at.1.into() };
            let there =
                WantedCopies { spec: &spec, namespaces: &namespaces, names: Some(["a-x".to_owned()].into()) };
            assert_eq!(
                there.has(&object_key(ObjectKind::CONFIG_MAP), of),
                expected,
                "{source} {policy} {at:?} {of:?}"
            );
            assert!(!there.has(&object_key(ObjectKind::SECRET), of));
            // Of what could not be listed nothing is removed.
            let unknown = WantedCopies { names: None, ..there };
            let expected = at.0 == "foo";
            assert_eq!(
                unknown.has(&object_key(ObjectKind::CONFIG_MAP), of),
                expected,
                "{source} {policy} {at:?} {of:?}"
            );
        }
        // A named one that is gone: none is there.
        for (policy, expected) in [("Retain", true), ("Delete", false)] {
            let (spec, namespaces) = (spec(&named, policy), BTreeSet::from(["foo".to_owned()]));
            let object_key =
                ObjectKey { kind: ObjectKind::CONFIG_MAP, namespace: "foo".into(), name: "a-x".into() };
            let gone = WantedCopies { spec: &spec, namespaces: &namespaces, names: Some(BTreeSet::new()) };
            assert_eq!(gone.has(&object_key, None), expected, "{policy}");
        }
    }
}
