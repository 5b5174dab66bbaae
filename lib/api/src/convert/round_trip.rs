//! What conversion carries where the other version has no field for it: in one annotation, and at v1alpha1, where it
//! does not fit next to other annotations, in `spec.roundTrip`.
//!
//! Any client may edit the annotation, so it is input like any other: text that is not of this form, is nested too
//! deeply or holds too much, travels along untouched and is used for nothing. A review has no place for a warning; the
//! condition `Migrated` reports it ([`faults`]), since what is written at v1alpha1 and not used is in what is stored.
//! Its length has a bound already: the API server's, and the webhook's for a whole request.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::fields::Spec;
use super::kind_version::{KindVersion, NEW, OLD};
use crate::json::outside_texts;
use crate::schema::ROUND_TRIP_FIELD as FIELD;

/// Key of the annotation, at every version.
pub const ANNOTATION: &str = "weaver.example.com/converted";

/// What all annotations of an object may have together, keys and values in bytes. The API server refuses an answer
/// with more, and with it every list that the object is in.
const MOST: usize = 256 * 1024;

/// How deeply the annotation of an object at v1beta1 may be nested. A parser takes [`serde_json`]'s 128 levels, and
/// conversion adds some to what it carries: text that was just readable would come back as text that is not, and with it
/// all that v1alpha1 cannot show.
const DEEPEST: usize = 64;

/// How many arrays and objects the annotation of an object at v1beta1 may hold; what conversion writes there holds some
/// ten. An object of 7 bytes takes 700 in memory, and conversion has the annotation there up to ten times: 256 KiB of
/// them would take more than the webhook may have.
pub(super) const CONTAINERS: usize = 2_048;

/// Content of the round-trip annotation: the fields that the other version cannot show.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RoundTrip {
    /// The version that the fields below belong to: not that of the object which carries them.
    pub version: String,
    /// Fields of its spec that have no counterpart.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub spec: Map<String, Value>,
    /// Fields of its status that have no counterpart.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub status: Map<String, Value>,
    /// Fields of its spec that this program does not know: those of a newer definition ([`super::unknown`]). Only at
    /// v1alpha1.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub unknown_spec: Map<String, Value>,
    /// How fields of its spec that do have a counterpart were written, where they would come back otherwise;
    /// null for one that was absent. Used only while it still means the same.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub exact: Map<String, Value>,
    /// There was no spec. Used only while nothing has been filled in.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub without_spec: bool,
    /// By version, fields that were written into the annotation by hand and that could not be part of a spec. They
    /// travel along and are never used. Text next to them: see [`RoundTrip::of_v1alpha1`].
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub ignored: Map<String, Value>,
    /// An older release lost with a write at v1alpha1 what did not fit. Never set by this one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dropped: bool,
    /// Text that was found in the annotation and is not of this form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
    /// The annotation as it was found, where the rest alone would bring back another. Used only while the rest
    /// still means the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub was: Option<String>,
}

impl RoundTrip {
    /// Reads the text of an annotation that should carry fields of `version`.
    pub fn parse(text: &str, version: &str) -> Self {
        // At v1alpha1 there are those of v1beta1, and the fields of the spec, which has some hundred.
        let most = if version == NEW { 2 * CONTAINERS } else { CONTAINERS };
        let parsed: Option<Self> =
            if containers(text) > most { None } else { serde_json::from_str(text).ok() };
        let ours = |found: &Self| found.version == version && (version == NEW || found.is_of_v1beta1());
        parsed.filter(ours).unwrap_or_else(|| Self {
            version: version.into(),
            // Whatever else the text is: nothing may be concluded from an object that an older release reduced.
            dropped: is_dropped(text),
            unread: Some(text.to_owned()),
            ..Self::default()
        })
    }

    /// May an object at v1beta1 have it in its annotation?
    fn is_of_v1beta1(&self) -> bool {
        let maps = [&self.spec, &self.status, &self.exact, &self.ignored];
        let is_flat = |map: &Map<String, Value>| levels(map.values()) + 2 <= DEEPEST;
        self.unknown_spec.is_empty() && maps.into_iter().all(is_flat)
    }

    /// Round-trip data of an object at v1alpha1. The field wins over the annotation, because the API server does not
    /// let anyone change it. The other of the two is kept as text under `ignored`, and so is a field that is not of
    /// this form.
    pub fn of_v1alpha1(field: Option<Value>, annotation: Option<&str>) -> Self {
        let mut of_annotation =
            annotation.map_or_else(|| Self::nothing(NEW), |annotation| Self::parse(annotation, NEW));
        let Some(field) = field else { return of_annotation };
        let of_field = field.as_str().map(|text| Self::parse(text, NEW));
        let Some(mut of_field) = of_field.filter(|round_trip| round_trip.unread_whole().is_none()) else {
            of_annotation.ignored.insert(FIELD.into(), field);
            return of_annotation;
        };
        of_field.dropped |= of_annotation.dropped;
        of_field.ignored.extend(annotation.map(|text| ("annotation".to_owned(), Value::from(text))));
        of_field
    }

    pub fn nothing(version: &str) -> Self {
        Self { version: version.into(), ..Self::default() }
    }

    /// The text, where there is nothing else, and where it would not be read as round-trip data of ours.
    fn unread_whole(&self) -> Option<&String> {
        self.unread.as_ref().filter(|text| Self::parse(text, &self.version) == *self)
    }

    /// The text to write; `None` where there is nothing to carry.
    fn text(&self) -> Option<String> {
        if *self == Self::nothing(&self.version) {
            return None;
        }
        // As it was found, so that it is still what it was when it comes back.
        Some(self.unread_whole().cloned().unwrap_or_else(|| self.json()))
    }

    #[expect(clippy::expect_used, reason = "texts and JSON values")]
    fn json(&self) -> String {
        serde_json::to_string(self).expect("round-trip content can be written as JSON")
    }

    /// The text for the annotation at v1beta1, within `space_left` bytes. What has no effect there is dropped: how
    /// something was written at v1alpha1, and its fields `testNum` and `status.test`. If that is not enough the
    /// annotation stays as it was `found`, which nothing at v1beta1 takes for its own. The rest is never shed: text
    /// that is too long is refused by the API server, and with it the write.
    fn within(mut self, space_left: usize, found: Option<String>) -> Option<String> {
        let sheds: [fn(&mut Self); 4] = [
            |round_trip| round_trip.exact = Map::new(),
            |round_trip| round_trip.status = Map::new(),
            |round_trip| round_trip.spec = Map::new(),
            |round_trip| round_trip.without_spec = false,
        ];
        for shed in sheds {
            match self.text() {
                Some(text) if text.len() > space_left => shed(&mut self),
                fits => return fits,
            }
        }
        match (self.text(), found) {
            (Some(text), Some(found)) if text.len() > space_left => Some(found),
            (Some(text), None) if text.len() > space_left => {
                self.unread = None;
                self.text()
            }
            (fits, _) => fits,
        }
    }

    /// Writes it into an object at v1alpha1: into the annotation, or whole into the field. `false` where it fits
    /// into the field only, and there is no spec.
    pub fn show(&self, object: &mut Value) -> bool {
        let Some(text) = self.text() else { return true };
        if text.len() <= space_left(object) {
            annotate(object, text);
            return true;
        }
        let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return false };
        spec.insert(FIELD.into(), Value::from(self.json())).is_none()
    }

    /// Writes the annotation of an object at v1beta1, where there is something to carry.
    pub fn store(self, object: &mut Value, found: Option<String>) {
        if let Some(text) = self.within(space_left(object), found) {
            annotate(object, text);
        }
    }
}

/// How many arrays and objects a text of JSON holds.
fn containers(text: &str) -> usize {
    outside_texts(text).filter(|byte| matches!(byte, b'{' | b'[')).count()
}

/// Does an object have the field `dropped`, and is it true? Of the others no value is parsed.
fn is_dropped(text: &str) -> bool {
    let fields: Option<BTreeMap<String, &RawValue>> = serde_json::from_str(text).ok();
    fields.is_some_and(|fields| fields.get("dropped").is_some_and(|value| value.get() == "true"))
}

/// How many arrays and objects are within one another, at most.
fn levels<'a>(values: impl Iterator<Item = &'a Value>) -> usize {
    values
        .map(|value| match value {
            Value::Array(items) => 1 + levels(items.iter()),
            Value::Object(fields) => 1 + levels(fields.values()),
            _ => 0,
        })
        .max()
        .unwrap_or(0)
}

/// How long the text of the annotation may be.
pub(super) fn space_left(object: &Value) -> usize {
    let others = object["metadata"]["annotations"].as_object().into_iter().flatten();
    let taken: usize = others.map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    MOST.saturating_sub(taken + ANNOTATION.len())
}

/// Takes the annotation out of an object's metadata. The API server lets annotations be strings only.
pub(super) fn take(object: &mut Value) -> Option<String> {
    let annotations = object["metadata"].get_mut("annotations").and_then(Value::as_object_mut)?;
    let found = annotations.remove(ANNOTATION)?;
    if annotations.is_empty() {
        object["metadata"].as_object_mut().map(|metadata| metadata.remove("annotations"));
    }
    found.as_str().map(str::to_owned)
}

/// Writes the annotation into an object's metadata.
pub(super) fn annotate(object: &mut Value, text: String) {
    let annotations = &mut object["metadata"]["annotations"];
    if !annotations.is_object() {
        *annotations = Value::Object(Map::new());
    }
    annotations[ANNOTATION] = Value::String(text);
}

/// What is wrong with the annotation of an object at v1beta1.
pub(super) fn faults(text: &str, old: &KindVersion) -> Vec<String> {
    let round_trip = RoundTrip::parse(text, OLD);
    let mut faults = Vec::new();
    if round_trip.dropped {
        faults.push(
            "a write in v1alpha1 lost content that was too long to be preserved: complete the spec, then \
             remove the annotation"
                .to_owned(),
        );
    }
    if containers(text) > CONTAINERS {
        faults.push(format!("it holds more than {CONTAINERS} arrays and objects, and none of it is used"));
    } else if round_trip.unread.is_some() {
        faults.push("it holds text that conversion has not written there".to_owned());
    }
    for (key, fields) in &round_trip.ignored {
        match (key.as_str(), fields.as_object()) {
            (FIELD, _) => {
                faults.push(format!("spec.{FIELD} at {OLD} held what conversion has not written there"));
            }
            (_, Some(fields)) => {
                faults.extend(
                    paths(fields).iter().map(|field| format!("spec.{field} cannot be stored in {key}")),
                );
            }
            (_, None) => {
                faults.push(format!("it was written at {OLD} next to spec.{FIELD}, which is used instead"));
            }
        }
    }
    let refused = (old.put)(&mut Spec::new(), round_trip.spec);
    faults.extend(
        paths(&refused).into_iter().map(|field| format!("spec.{field} cannot be represented in {OLD}")),
    );
    let not_text = round_trip
        .status
        .iter()
        .filter(|(field, value)| !old.status.contains(&field.as_str()) || !value.is_string());
    faults.extend(not_text.map(|(field, _)| format!("status.{field} cannot be represented in {OLD}")));
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
