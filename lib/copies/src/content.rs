//! What copies contain of their source: of a `ConfigMap` or a `Secret` the keys that the spec lets through, under the
//! names it gives them; of any other kind what [`kinds`] lets through. Pure.
//!
//! `data` and `binaryData` share one set of keys, as the API server has it. A key keeps its kind. If two keys would get
//! the same name, neither is chosen: a copy never contains one of them by chance. A Secret keeps its type.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use weaver_api::kind::ObjectKind;
use weaver_api::v1beta1::Keys;

use serde_json::Value;

use crate::kinds;
use crate::object::{Fields, Object};

pub mod merge;

/// Content of an object. Empty and absent are equal: the API server stores either as it was sent.
#[derive(Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Content {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    data: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    binary_data: BTreeMap<String, String>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    type_: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    immutable: bool,
    /// Of any other kind: all that is copied.
    #[serde(flatten)]
    rest: Fields,
}

/// A key of the source has the name that another one is given. Which keys a source has, `validate` cannot know.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "spec.keys.rename gives key {key} the name {name}, which another key of the source has: \
     rename that one too, or name it in spec.keys.exclude"
)]
pub struct Clash {
    key: String,
    name: String,
}

impl Content {
    pub fn of(object: &Object) -> Self {
        Self {
            data: object.data.clone().unwrap_or_default(),
            binary_data: object.binary_data.clone().unwrap_or_default(),
            type_: object.type_.clone(),
            immutable: object.immutable == Some(true),
            rest: kinds::copied(object),
        }
    }

    /// What `keys` choose of it.
    ///
    /// # Errors
    /// If two keys would get one name.
    pub fn chosen(self, keys: &Keys) -> Result<Self, Clash> {
        let mut names = BTreeSet::new();
        Ok(Self {
            data: chosen(self.data, keys, &mut names)?,
            binary_data: chosen(self.binary_data, keys, &mut names)?,
            type_: self.type_,
            immutable: self.immutable,
            rest: self.rest,
        })
    }

    /// Keys that the spec names and the source does not have.
    pub fn absent(&self, keys: &Keys) -> Vec<String> {
        let asked: BTreeSet<&String> = keys.include.iter().chain(keys.rename.keys()).collect();
        let is_absent = |key: &&String| {
            !(self.data.contains_key(*key)
                || self.binary_data.contains_key(*key)
                || keys.exclude.contains(*key))
        };
        asked.into_iter().filter(is_absent).cloned().collect()
    }

    /// Can an object with the content `found` be updated to this? Content of an immutable one cannot change, nor can
    /// it become mutable again; and a Secret keeps its type.
    pub fn fits(&self, found: &Object) -> bool {
        let immutable = found.immutable == Some(true) && Self::of(found) != *self;
        found.type_ == self.type_ && !immutable
    }

    /// In what `found` differs: `data.a`, `binaryData.b`, `type`, `immutable`.
    pub fn differences(&self, found: &Object) -> Vec<Difference> {
        let found = Self::of(found);
        let changed = |field: &str| Difference { change: FieldEffect::Changed, field: field.to_owned() };
        let mut all = self.unequal_keys(&found);
        all.extend((self.type_ != found.type_).then(|| changed("type")));
        all.extend((self.immutable != found.immutable).then(|| changed("immutable")));
        all.extend(unequal_fields(&self.rest, &found.rest));
        all
    }

    /// The keys of a new object.
    pub fn additions(&self) -> Vec<Difference> {
        let fields =
            self.rest.keys().map(|field| Difference { change: FieldEffect::Added, field: field.clone() });
        self.unequal_keys(&Self::default()).into_iter().chain(fields).collect()
    }

    fn unequal_keys(&self, found: &Self) -> Vec<Difference> {
        let mut all = unequal("data", &self.data, &found.data);
        all.extend(unequal("binaryData", &self.binary_data, &found.binary_data));
        all
    }

    /// An object of `kind` with this content.
    pub fn with(&self, kind: ObjectKind, metadata: ObjectMeta) -> Object {
        Object {
            api_version: kind.api_version(),
            kind: kind.as_str().into(),
            metadata,
            type_: self.type_.clone(),
            data: (!self.data.is_empty()).then(|| self.data.clone()),
            binary_data: (!self.binary_data.is_empty()).then(|| self.binary_data.clone()),
            immutable: self.immutable.then_some(true),
            rest: self.rest.clone(),
        }
    }

    /// Bytes of all its parts.
    pub(crate) fn size(&self) -> usize {
        let mut bytes = 0;
        self.parts(|part| bytes += part.len());
        bytes
    }

    /// Gives each part of it in a fixed order: together they identify the content.
    pub(crate) fn parts(&self, mut part: impl FnMut(&[u8])) {
        part(&[u8::from(self.immutable)]);
        part(self.type_.as_deref().unwrap_or_default().as_bytes());
        part(b"data");
        for (key, value) in &self.data {
            part(key.as_bytes());
            part(value.as_bytes());
        }
        part(b"binaryData");
        for (key, value) in &self.binary_data {
            part(key.as_bytes());
            part(value.as_bytes());
        }
        // Of a ConfigMap and a Secret there is nothing.
        for (field, value) in &self.rest {
            part(field.as_bytes());
            part(value.to_string().as_bytes());
        }
    }
}

/// What a write does to a field.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FieldEffect {
    Added,
    Removed,
    Changed,
}

/// A field that a write changes: its name, without its value.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Difference {
    pub change: FieldEffect,
    /// `data.a`, `metadata.labels.b`, `type`.
    pub field: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.field)
    }
}

/// The keys that are in one of the two only, or with another value: what makes `found` equal to `wanted`.
pub(crate) fn unequal(
    part: &str,
    wanted: &BTreeMap<String, String>,
    found: &BTreeMap<String, String>,
) -> Vec<Difference> {
    let changes = changes(wanted, found).into_iter();
    changes.map(|(key, change)| Difference { change, field: format!("{part}.{key}") }).collect()
}

fn changes<'a, V: PartialEq>(
    wanted: &'a BTreeMap<String, V>,
    found: &'a BTreeMap<String, V>,
) -> Vec<(&'a String, FieldEffect)> {
    let keys: BTreeSet<&String> = wanted.keys().chain(found.keys()).collect();
    let change = |key: &String| match (wanted.get(key), found.get(key)) {
        (wanted, found) if wanted == found => None,
        (_, None) => Some(FieldEffect::Added),
        (None, _) => Some(FieldEffect::Removed),
        _ => Some(FieldEffect::Changed),
    };
    keys.into_iter().filter_map(|key| Some((key, change(key)?))).collect()
}

/// The fields that differ, and of those that are objects in both, the fields in them.
fn unequal_fields(wanted: &Fields, found: &Fields) -> Vec<Difference> {
    let flat = |fields: &Fields| -> BTreeMap<String, Value> {
        let of = |(field, value): (&String, &Value)| match value {
            Value::Object(inner) if !inner.is_empty() => {
                inner.iter().map(|(name, value)| (format!("{field}.{name}"), value.clone())).collect()
            }
            value => vec![(field.clone(), value.clone())],
        };
        fields.iter().flat_map(of).collect()
    };
    let (wanted, found) = (flat(wanted), flat(found));
    let changes = changes(&wanted, &found).into_iter();
    changes.map(|(field, change)| Difference { change, field: field.clone() }).collect()
}

/// `names` are those that are given already.
fn chosen<V>(
    all: BTreeMap<String, V>,
    keys: &Keys,
    names: &mut BTreeSet<String>,
) -> Result<BTreeMap<String, V>, Clash> {
    let included = |key: &String| keys.include.is_empty() || keys.include.contains(key);
    let mut chosen = BTreeMap::new();
    for (key, value) in all.into_iter().filter(|(key, _)| included(key) && !keys.exclude.contains(key)) {
        let name = keys.rename.get(&key).cloned().unwrap_or(key);
        if !names.insert(name.clone()) {
            // Of the two only one is renamed to it; the spec is valid.
            let key = keys.rename.iter().find(|(_, to)| **to == name).map(|(key, _)| key.clone());
            return Err(Clash { key: key.unwrap_or_default(), name });
        }
        chosen.insert(name, value);
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// A source of these keys, each with itself as its value; a key in capitals is binary.
    fn source(keys: &[&str]) -> Content {
        let (binary, text): (Vec<&str>, Vec<&str>) = keys.iter().partition(|key| **key == key.to_uppercase());
        Content {
            data: text.into_iter().map(|key| (key.to_owned(), key.to_owned())).collect(),
            binary_data: binary.into_iter().map(|key| (key.to_owned(), key.to_owned())).collect(),
            ..Content::default()
        }
    }

    fn keys(keys: &Value) -> Keys {
        serde_json::from_value(keys.clone()).unwrap()
    }

    /// `name=value`, of both kinds.
    fn shown(content: &Content) -> Vec<String> {
        let text = content.data.iter().map(|(name, value)| format!("{name}={value}"));
        let binary = content.binary_data.iter();
        text.chain(binary.map(|(name, value)| format!("{name}={value}!"))).collect()
    }

    #[test]
    fn keys_are_chosen_and_renamed() {
        let all = source(&["a", "b", "c", "X"]);
        for (spec, expected) in [
            (json!({}), vec!["a=a", "b=b", "c=c", "X=X!"]),
            (json!({"include": ["b", "X"]}), vec!["b=b", "X=X!"]),
            (json!({"exclude": ["b", "X"]}), vec!["a=a", "c=c"]),
            (json!({"include": ["a", "b"], "exclude": ["b"]}), vec!["a=a"]),
            (json!({"include": ["a"], "rename": {"a": "z"}}), vec!["z=a"]),
            (json!({"exclude": ["X"], "rename": {"a": "b", "b": "a"}}), vec!["a=b", "b=a", "c=c"]),
            (json!({"include": ["X"], "rename": {"X": "a"}}), vec!["a=X!"]),
            (json!({"include": ["none"]}), vec![]),
        ] {
            assert_eq!(shown(&all.clone().chosen(&keys(&spec)).unwrap()), expected, "{spec}");
        }
    }

    #[test]
    fn two_keys_never_get_one_name_not_even_across_data_and_binary_data() {
        for (present, spec) in [
            (["a", "z"], json!({"rename": {"a": "z"}})),
            (["z", "a"], json!({"rename": {"a": "z"}})),
            (["a", "Z"], json!({"rename": {"a": "Z"}})),
            (["A", "z"], json!({"rename": {"A": "z"}})),
        ] {
            let clash = source(&present).chosen(&keys(&spec)).err().unwrap().to_string();
            let (key, name) = (spec["rename"].as_object().unwrap().iter().next()).unwrap();
            let expected =
                format!("spec.keys.rename gives key {key} the name {}, which", name.as_str().unwrap());
            assert!(clash.starts_with(&expected), "{clash}");
        }
        let mended = json!({"exclude": ["z"], "rename": {"a": "z"}});
        assert_eq!(shown(&source(&["a", "z"]).chosen(&keys(&mended)).unwrap()), ["z=a"]);
    }

    #[test]
    fn differences_are_reported_by_key_and_never_by_value() {
        let (one, mut other) = (source(&["a", "b", "X"]), source(&["b", "c", "X"]));
        other.data.insert("b".into(), "another".into());
        other.type_ = Some("Opaque".into());
        let found = other.with(ObjectKind::CONFIG_MAP, ObjectMeta::default());
        let words = |found: &[Difference]| {
            found.iter().map(|one| format!("{:?} {one}", one.change)).collect::<Vec<_>>()
        };
        assert_eq!(
            words(&one.differences(&found)),
            ["Added data.a", "Changed data.b", "Removed data.c", "Changed type"]
        );
        assert_eq!(words(&other.differences(&found)), [""; 0]);
        assert_eq!(words(&one.additions()), ["Added data.a", "Added data.b", "Added binaryData.X"]);
    }

    #[test]
    fn what_is_asked_for_by_name_and_not_there_is_reported() {
        let spec = keys(&json!({"include": ["a", "X", "q"], "rename": {"q": "r"}}));
        assert_eq!(source(&["a", "b", "X"]).absent(&spec), ["q"]);
        assert_eq!(source(&["a"]).absent(&keys(&json!({"rename": {"n": "m"}}))), ["n"]);
        assert_eq!(source(&["a"]).absent(&keys(&json!({"include": ["a", "b"], "exclude": ["b"]}))), [""; 0]);
        assert_eq!(source(&["a"]).absent(&Keys::default()), [""; 0]);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_or_made_up(
            present in proptest::collection::btree_set("[a-dA-D]", 0..6),
            include in proptest::collection::btree_set("[a-dA-D]", 0..4),
            exclude in proptest::collection::btree_set("[a-dA-D]", 0..3),
            from in proptest::collection::btree_set("[a-dA-D]", 0..3),
            to in proptest::collection::btree_set("[a-h]", 3),
        ) {
            let rename: BTreeMap<String, String> = from.into_iter().zip(to).collect();
            let spec = Keys {
                include: include.iter().cloned().collect(),
                exclude: exclude.iter().cloned().collect(),
                rename: rename.clone(),
            };
            let keys: Vec<&str> = present.iter().map(String::as_str).collect();
            // The naive model: a list of the expected keys, clashes included.
            let wanted: Vec<(String, &String)> = present
                .iter()
                .filter(|key| include.is_empty() || include.contains(*key))
                .filter(|key| !exclude.contains(*key))
                .map(|key| (rename.get(key).unwrap_or(key).clone(), key))
                .collect();
            let names: BTreeSet<&String> = wanted.iter().map(|(name, _)| name).collect();
            match source(&keys).chosen(&spec) {
                Err(_) => prop_assert!(names.len() < wanted.len()),
                Ok(content) => {
                    prop_assert_eq!(names.len(), wanted.len());
                    prop_assert_eq!(content.data.len() + content.binary_data.len(), wanted.len());
                    for (name, key) in wanted {
                        let text = content.data.get(&name).cloned();
                        let held = text.or_else(|| content.binary_data.get(&name).cloned());
                        prop_assert_eq!(held.as_ref(), Some(key));
                    }
                }
            }
        }
    }
}
