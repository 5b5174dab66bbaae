//! What is copied: a `ConfigMap`, a `Secret` or an object of any other kind, as one type.
//!
//! The API server shows the values of a Secret and those of `binaryData` in base64, always in the same form. A copy
//! needs them in no other, so nothing is decoded here and two equal values are equal texts.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::DynamicResourceScope;
use serde::de::{DeserializeOwned, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use weaver_api::json::outside_texts;
use weaver_api::kind::ObjectKind;
use weaver_api::validate::ValidSync;
use weaver_tenant::review::GroupResource;

/// Fields of an object next to its metadata.
pub type Fields = BTreeMap<String, Value>;

/// An object; of which kind, the [`ObjectKind`] says by which it is asked for.
#[derive(Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Object {
    /// `v1`; absent in the items of a list.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// Absent in the items of a list.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Labels, annotations and the rest.
    pub metadata: ObjectMeta,
    /// Text in a `ConfigMap`, base64 in a `Secret`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<BTreeMap<String, String>>,
    /// Base64; a `ConfigMap`'s alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binary_data: Option<BTreeMap<String, String>>,
    /// A `Secret`'s alone. It never changes.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// No content of a `ConfigMap` or `Secret` can be changed any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub immutable: Option<bool>,
    /// The fields of any other kind, whatever they are called.
    #[serde(flatten)]
    pub rest: Fields,
}

impl Object {
    /// Is it a Secret that is the token of one account, made and kept by the API server's controllers?
    pub fn is_account_token(&self) -> bool {
        self.type_.as_deref() == Some("kubernetes.io/service-account-token")
    }

    /// Is it a `ConfigMap` or a `Secret`?
    pub fn is_of_config_map_sync(&self) -> bool {
        let is_it = |kind: &ObjectKind| self.kind == kind.as_str() && self.api_version == kind.version();
        self.kind.is_empty() || ObjectKind::OF_CONFIG_MAP_SYNC.iter().any(is_it)
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor)
    }
}

/// Values in an object of a kind that is not a ConfigMap or a Secret, at most: in memory each takes many times its
/// JSON.
const VALUES: usize = 10_000;

/// Reads the fields of an object. Which of them its kind has, is known when all are read: `kind` may be behind them.
struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Object;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of Kubernetes")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
        let mut object = Object::default();
        let mut rest: BTreeMap<String, Box<RawValue>> = BTreeMap::new();
        while let Some(field) = map.next_key::<String>()? {
            match field.as_str() {
                "apiVersion" => object.api_version = map.next_value()?,
                "kind" => object.kind = map.next_value()?,
                "metadata" => object.metadata = map.next_value()?,
                _ => drop(rest.insert(field, map.next_value()?)),
            }
        }
        if object.is_of_config_map_sync() {
            for (field, value) in rest {
                match field.as_str() {
                    "data" => object.data = part(&value)?,
                    "binaryData" => object.binary_data = part(&value)?,
                    "type" => object.type_ = part(&value)?,
                    "immutable" => object.immutable = part(&value)?,
                    _ => {}
                }
            }
            return Ok(object);
        }
        if rest.values().map(|value| values(value.get())).sum::<usize>() > VALUES {
            return Err(A::Error::custom(format_args!(
                "an object with more than {VALUES} values is not copied"
            )));
        }
        for (field, value) in rest {
            object.rest.insert(field, part(&value)?);
        }
        Ok(object)
    }
}

/// How many values there are in this JSON.
fn values(json: &str) -> usize {
    1 + outside_texts(json).filter(|byte| matches!(byte, b',' | b'{' | b'[')).count()
}

/// The parser's words would show the value.
fn part<T: DeserializeOwned, E: serde::de::Error>(value: &RawValue) -> Result<T, E> {
    serde_json::from_str(value.get())
        .map_err(|_| E::custom("a field of the content has another type than it may have"))
}

/// Kind, namespace and name of an object.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ObjectKey {
    pub kind: ObjectKind,
    pub namespace: String,
    pub name: String,
}

impl ObjectKey {
    /// Of an object of `kind` with this metadata; `None` if namespace or name is missing.
    pub fn of(kind: ObjectKind, meta: &ObjectMeta) -> Option<Self> {
        Some(Self { kind, namespace: meta.namespace.clone()?, name: meta.name.clone()? })
    }

    /// Of the source of `spec` that is called `name`.
    pub fn of_source(spec: &ValidSync, name: &str) -> Self {
        Self { kind: spec.source_kind, namespace: spec.source_namespace.clone(), name: name.to_owned() }
    }

    /// Of the copy in `namespace` that `spec` asks for and that is called `name`.
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
    fn an_object_of_very_many_values_is_refused_and_texts_are_no_values() {
        let policy = |rules: usize, text: &str| {
            let from = json!({"from": [{"podSelector": {}}]});
            let spec = json!({"ingress": vec![from; rules], "note": text});
            let object = json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "spec": spec});
            serde_json::from_value::<Object>(object).map_err(|error| error.to_string())
        };
        assert!(policy(1_000, &"[{,\"\\".repeat(20_000)).is_ok());
        assert_eq!(policy(10_000, "").unwrap_err(), "an object with more than 10000 values is not copied");
        let data: BTreeMap<_, _> = (0..20_000).map(|key| (format!("k{key}"), "v")).collect();
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data});
        assert!(serde_json::from_value::<Object>(map).is_ok(), "its values are texts");
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
