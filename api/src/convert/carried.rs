//! The one annotation in which conversion carries what the other version has no field for.
//!
//! Anybody may edit it, so it is input like any other: text that is not of this form travels along untouched and
//! is used for nothing.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::OLD;
use super::fields::Spec;
use super::object::Side;

/// Key of the annotation, at every version.
pub const ANNOTATION: &str = "weaver.example.com/converted";

/// What all annotations of an object may have together, keys and values in bytes. The API server refuses an answer
/// with more, and with it every list that the object is in.
const MOST: usize = 256 * 1024;

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
    /// By version, fields that somebody wrote into the annotation and that could not stand in a spec. They travel
    /// along and are never used.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub ignored: Map<String, Value>,
    /// Something did not fit, and was lost with a write at v1alpha1.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dropped: bool,
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
    fn text(&self) -> Option<String> {
        let nothing = Self { version: self.version.clone(), ..Self::default() };
        if *self == nothing {
            return None;
        }
        // As it was found, so that it is still what it was when it comes back; unless it would be taken for
        // something that is carried here.
        if let (Some(text), true) = (&self.unread, *self == Self { unread: self.unread.clone(), ..nothing })
            && Self::parse(text, &self.version).unread.is_some()
        {
            return Some(text.clone());
        }
        // Strings and JSON values only: it cannot fail.
        serde_json::to_string(self).ok()
    }

    /// The text within `room` bytes. What means least goes first: the exact form of what is visible anyway, text
    /// of a status that nobody reads, text that nobody could read; then, and that is said, the rest.
    fn within(mut self, room: usize) -> Option<String> {
        let sheds: [fn(&mut Self); 5] = [
            |carried| carried.exact = Map::new(),
            |carried| carried.status = Map::new(),
            |carried| carried.unread = None,
            |carried| {
                carried.dropped |= !carried.ignored.is_empty();
                carried.ignored = Map::new();
            },
            |carried| {
                carried.dropped |= !carried.spec.is_empty();
                carried.spec = Map::new();
            },
        ];
        for shed in sheds {
            match self.text() {
                Some(text) if text.len() > room => shed(&mut self),
                fits => return fits,
            }
        }
        self.text().filter(|text| text.len() <= room)
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
    pub fn put(self, object: &mut Value) {
        let others = object["metadata"]["annotations"].as_object().into_iter().flatten();
        let taken: usize = others.map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
        let Some(text) = self.within(MOST.saturating_sub(taken + ANNOTATION.len())) else { return };
        let annotations = &mut object["metadata"]["annotations"];
        if !annotations.is_object() {
            *annotations = Value::Object(Map::new());
        }
        annotations[ANNOTATION] = Value::String(text);
    }
}

/// What is wrong with the annotation of an object at v1beta1.
pub(super) fn faults(text: &str, old: &Side) -> Vec<String> {
    let carried = Carried::parse(text, OLD);
    let mut faults = Vec::new();
    if carried.dropped {
        faults.push(
            "a write at v1alpha1 lost what was too long to be carried: fill in the spec, then remove the annotation"
                .to_owned(),
        );
    }
    if carried.unread.is_some() {
        faults.push("it holds text that conversion has not written there".to_owned());
    }
    for (version, fields) in &carried.ignored {
        for field in fields.as_object().into_iter().flat_map(paths) {
            faults.push(format!("spec.{field} cannot stand in {version}"));
        }
    }
    let refused = (old.put)(&mut Spec::new(), carried.spec);
    faults.extend(paths(&refused).into_iter().map(|field| format!("spec.{field} cannot stand in {OLD}")));
    let not_text = carried
        .status
        .iter()
        .filter(|(field, value)| !old.status.contains(&field.as_str()) || !value.is_string());
    faults.extend(not_text.map(|(field, _)| format!("status.{field} cannot stand in {OLD}")));
    faults
}

/// Paths of the fields of a map, two levels deep: `targets.name`, `keys`.
fn paths(fields: &Spec) -> Vec<String> {
    let below = |(name, value): (&String, &Value)| match (name.as_str(), value.as_object()) {
        ("source" | "targets", Some(inner)) => inner.keys().map(|field| format!("{name}.{field}")).collect(),
        _ => vec![name.clone()],
    };
    fields.iter().flat_map(below).collect()
}
