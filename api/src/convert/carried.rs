//! The one annotation in which conversion carries what the other version has no field for.
//!
//! Anybody may edit it, so it is input like any other: text that is not of this form travels along untouched and
//! is used for nothing.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::OLD;
use super::config_map_sync::{new_refusals, old_refusals};

/// Key of the annotation, at every version.
pub const ANNOTATION: &str = "weaver.example.com/converted";

/// Longest annotation, in bytes, that still holds exact forms. All annotations of an object together may have
/// 256 KiB; a list so long that its repeated names do not fit comes back with each name once.
const LONGEST: usize = 128 * 1024;

/// What travels along.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Carried {
    /// The version that the fields below belong to: not that of the object which carries them.
    pub version: String,
    /// Fields of its spec that have no counterpart.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub spec: Map<String, Value>,
    /// Fields of its status that have no counterpart.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub status: Map<String, Value>,
    /// How fields of its spec that do have a counterpart were written, where they would come back otherwise;
    /// null for one that was absent. Used only while it still means the same.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub exact: Map<String, Value>,
    /// There was no spec. Used only while nothing has been filled in.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub without_spec: bool,
    /// Fields of this object's own version that somebody wrote into the annotation and that break a rule.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub ignored: Map<String, Value>,
    /// Text that was found in the annotation and is not of this form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
}

impl Carried {
    /// Reads the text of an annotation that should carry fields of `version`.
    pub fn parse(text: &str, version: &str) -> Self {
        let parsed: Option<Self> = serde_json::from_str(text).ok();
        parsed.filter(|carried| carried.version == version).unwrap_or_else(|| Self {
            version: version.into(),
            unread: Some(text.to_owned()),
            ..Self::default()
        })
    }

    /// The text to write; `None` where there is nothing to carry.
    pub fn text(&self) -> Option<String> {
        let nothing = Self { version: self.version.clone(), ..Self::default() };
        if *self == nothing {
            return None;
        }
        // As it was found, so that it is still what it was when it comes back.
        if let (Some(text), true) = (&self.unread, *self == Self { unread: self.unread.clone(), ..nothing }) {
            return Some(text.clone());
        }
        // Strings and JSON values only: it cannot fail.
        let text = serde_json::to_string(self).unwrap_or_default();
        if text.len() > LONGEST && !self.exact.is_empty() {
            return Self { exact: Map::new(), ..self.clone() }.text();
        }
        Some(text)
    }

    /// Takes the annotation out of an object's metadata.
    pub fn take(object: &mut Value, version: &str) -> Self {
        let empty = Self { version: version.into(), ..Self::default() };
        let Some(annotations) = object["metadata"].get_mut("annotations").and_then(Value::as_object_mut)
        else {
            return empty;
        };
        let found = annotations.remove(ANNOTATION);
        if found.is_some() && annotations.is_empty() {
            object["metadata"].as_object_mut().map(|metadata| metadata.remove("annotations"));
        }
        // The API server lets annotations be strings only.
        found.as_ref().and_then(Value::as_str).map_or(empty, |text| Self::parse(text, version))
    }

    /// Writes the annotation into an object's metadata, where there is something to carry.
    pub fn put(&self, object: &mut Value) {
        let Some(text) = self.text() else { return };
        let annotations = &mut object["metadata"]["annotations"];
        if !annotations.is_object() {
            *annotations = Value::Object(Map::new());
        }
        annotations[ANNOTATION] = Value::String(text);
    }
}

/// What is wrong with the annotation of a `ConfigMapSync` at v1beta1.
pub(super) fn faults(text: &str) -> Vec<String> {
    let carried = Carried::parse(text, OLD);
    let mut faults = Vec::new();
    if carried.unread.is_some() {
        faults.push("it holds text that conversion has not written there".to_owned());
    }
    faults.extend(new_refusals(carried.ignored));
    faults.extend(old_refusals(carried.spec));
    let not_text = carried.status.iter().filter(|(field, value)| *field != "test" || !value.is_string());
    faults.extend(not_text.map(|(field, _)| format!("status.{field} is no text field of {OLD}'s status")));
    faults
}
