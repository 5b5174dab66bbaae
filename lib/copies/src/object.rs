//! What is copied: a `ConfigMap` or a `Secret`, as one type.
//!
//! The API server shows the values of a Secret and those of `binaryData` in base64, always in the same form. A copy
//! needs them in no other, so nothing is decoded here and two equal values are equal texts.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::DynamicResourceScope;
use serde::{Deserialize, Serialize};
use weaver_api::kind::ObjectKind;
use weaver_api::validate::ValidSync;
use weaver_tenant::review::GroupResource;

/// A `ConfigMap` or a `Secret`; which of them, the [`ObjectKind`] says by which it is asked for.
#[derive(Clone, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Object {
    /// `v1`; absent in the items of a list.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// Absent in the items of a list.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Labels, annotations and the rest.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// Text in a `ConfigMap`, base64 in a `Secret`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<BTreeMap<String, String>>,
    /// Base64; a `ConfigMap`'s alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binary_data: Option<BTreeMap<String, String>>,
    /// A `Secret`'s alone. It never changes.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// No content can be changed any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub immutable: Option<bool>,
}

/// Where an object stands.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ObjectKey {
    pub kind: ObjectKind,
    pub namespace: String,
    pub name: String,
}

impl ObjectKey {
    /// Of an object of `kind` with this metadata; `None` where that names no place.
    #[must_use]
    pub fn of(kind: ObjectKind, meta: &ObjectMeta) -> Option<Self> {
        Some(Self { kind, namespace: meta.namespace.clone()?, name: meta.name.clone()? })
    }

    /// Of the source of `spec` that is called `name`.
    #[must_use]
    pub fn of_source(spec: &ValidSync, name: &str) -> Self {
        Self { kind: spec.source_kind, namespace: spec.source_namespace.clone(), name: name.to_owned() }
    }

    /// Of the copy in `namespace` that `spec` asks for and that is called `name`.
    #[must_use]
    pub fn of_copy(spec: &ValidSync, namespace: &str, name: &str) -> Self {
        Self { kind: spec.source_kind, namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// Names the object and shows nothing of it.
impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |part: &Option<String>| part.clone().unwrap_or_default();
        write!(f, "{} {}/{}", self.kind, at(&self.metadata.namespace), at(&self.metadata.name))
    }
}

/// How rules of RBAC name a kind.
#[must_use]
pub fn resource(kind: ObjectKind) -> GroupResource {
    GroupResource::of::<Object>(&kind)
}

impl Resource for Object {
    type DynamicType = ObjectKind;
    type Scope = DynamicResourceScope;

    fn kind(kind: &ObjectKind) -> Cow<'_, str> {
        kind.as_str().into()
    }

    fn group(kind: &ObjectKind) -> Cow<'_, str> {
        kind.group().into()
    }

    fn version(kind: &ObjectKind) -> Cow<'_, str> {
        kind.version().into()
    }

    fn plural(kind: &ObjectKind) -> Cow<'_, str> {
        kind.plural().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    use serde_json::json;

    use super::*;

    #[test]
    fn both_kinds_survive_with_every_byte() {
        let every_byte = BTreeMap::from([("blob".to_owned(), ByteString((0..=255).collect()))]);
        let map = ConfigMap {
            data: Some(BTreeMap::from([("a".into(), "ä\0".into())])),
            binary_data: Some(every_byte.clone()),
            immutable: Some(true),
            ..ConfigMap::default()
        };
        let secret = Secret {
            data: Some(every_byte),
            type_: Some("kubernetes.io/tls".into()),
            immutable: Some(false),
            ..Secret::default()
        };
        for stored in [json!(map), json!(secret)] {
            let object: Object = serde_json::from_value(stored.clone()).unwrap();
            assert_eq!(json!(object), stored);
        }
    }

    #[test]
    fn debug_output_shows_no_content() {
        let object: Object = serde_json::from_value(json!({
            "kind": "Secret", "metadata": {"namespace": "a", "name": "b", "annotations": {"x": "hunter2"}},
            "data": {"password": "aHVudGVyMg=="}, "type": "Opaque",
        }))
        .unwrap();
        assert_eq!(format!("{object:?}"), "Secret a/b");
    }
}
