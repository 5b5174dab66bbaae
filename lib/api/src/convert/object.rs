//! One object from one version to the other: the rules for every kind and both directions.
//!
//! A kind says, for each of its versions, how a spec is split into what the other version can show and what
//! it cannot ([`KindVersion`]). The rest follows from two questions. *Would this come back as it was?* If not, its exact
//! form goes into the round-trip annotation. *Does the annotated form still mean what is visible now?* If not, someone
//! has edited the visible fields since, and they win.

use serde_json::Value;

use super::conditions;
use super::fields::{Spec, merge};
use super::kind_version::{KindVersion, NEW, OLD, Split};
use super::round_trip::{self, RoundTrip};
use super::{types, unknown};
use crate::GROUP;
use crate::schema::ROUND_TRIP_FIELD as FIELD;

/// `object`, which is at the version of `here`, at the version of `there`.
///
/// To v1alpha1 nothing is lost, ever: what is stored comes back equal, status counts excepted. The other way only what
/// has no effect at v1beta1 may be.
pub(super) fn convert(object: Value, here: &KindVersion, there: &KindVersion) -> Value {
    // Nothing that could be split: it stays what it is, its annotation too.
    if object.get("spec").is_some_and(|spec| !spec.is_object()) {
        let mut object = object;
        let status = take(&mut object, "status");
        let status = convert_status(status, Spec::new(), &mut RoundTrip::default(), here, there);
        object["apiVersion"] = Value::from(format!("{GROUP}/{}", there.version));
        object.as_object_mut().map(|object| status.map(|status| object.insert("status".into(), status)));
        return object;
    }
    if there.version == OLD { to_old(object, here, there) } else { to_new(object, here, there) }
}

fn to_old(mut stored: Value, new: &KindVersion, old: &KindVersion) -> Value {
    let Some(text) = round_trip::take(&mut stored) else {
        return shown(&stored, &RoundTrip::nothing(OLD), None, new, old).0;
    };
    let mut found = RoundTrip::parse(&text, OLD);
    let mut whole = stored.clone();
    round_trip::annotate(&mut whole, text.clone());
    // Where the annotation was written by hand, or the object was edited since, what conversion makes of it is another:
    // then it travels along as it is.
    for was in [None, Some(&text)] {
        if let (object, true) = shown(&stored, &found, was, new, old)
            && comes_back(&object, &whole, new, old)
        {
            return object;
        }
    }
    // The field needs a spec to be in.
    found.without_spec = false;
    shown(&stored, &found, Some(&text), new, old).0
}

/// An object at v1alpha1, and whether all round-trip data fits.
fn shown(
    stored: &Value,
    found: &RoundTrip,
    was: Option<&String>,
    new: &KindVersion,
    old: &KindVersion,
) -> (Value, bool) {
    let (mut object, round_trip) = translate(stored.clone(), found, new, old);
    let fits = RoundTrip { was: was.cloned(), ..round_trip }.show(&mut object);
    (object, fits)
}

/// Does a write of `shown`, as it is, leave what is stored as it is?
fn comes_back(shown: &Value, stored: &Value, new: &KindVersion, old: &KindVersion) -> bool {
    let back = to_new(shown.clone(), old, new);
    let mut spec = stored.get("spec").cloned();
    if let Some(Value::Object(spec)) = &mut spec {
        (new.fill)(spec);
    }
    back["metadata"] == stored["metadata"] && back.get("spec") == spec.as_ref()
}

fn to_new(mut shown: Value, old: &KindVersion, new: &KindVersion) -> Value {
    let annotation = round_trip::take(&mut shown);
    let field = shown.get_mut("spec").and_then(Value::as_object_mut).and_then(|spec| spec.remove(FIELD));
    // What the annotation may stay as it is for, without the field.
    let kept = annotation.clone().filter(|_| field.is_none());
    let found = RoundTrip::of_v1alpha1(field, annotation.as_deref());
    let (mut stored, round_trip) = translate(shown.clone(), &found, old, new);
    match found.was.filter(|was| was.len() <= round_trip::space_left(&stored)) {
        Some(was) if shows(&stored, &was, &shown, new, old) => round_trip::annotate(&mut stored, was),
        _ => round_trip.store(&mut stored, kept),
    }
    stored
}

/// Is what v1alpha1 shows of `stored` with this annotation still what it `shown`?
fn shows(stored: &Value, annotation: &str, shown: &Value, new: &KindVersion, old: &KindVersion) -> bool {
    let mut found = RoundTrip::parse(annotation, OLD);
    found.without_spec &= shown.get("spec").is_none();
    let (again, _) = translate(stored.clone(), &found, new, old);
    ["spec", "status"].iter().all(|part| again.get(*part) == shown.get(*part))
}

/// An object without its annotation at the other version, and the round-trip data it then needs. `found` is what was.
fn translate(
    mut object: Value,
    found: &RoundTrip,
    here: &KindVersion,
    there: &KindVersion,
) -> (Value, RoundTrip) {
    let mut round_trip = RoundTrip {
        version: here.version.into(),
        ignored: found.ignored.clone(),
        unread: found.unread.clone(),
        dropped: found.dropped,
        ..RoundTrip::default()
    };
    object["apiVersion"] = Value::from(format!("{GROUP}/{}", there.version));
    let status = take(&mut object, "status");
    let spec = take(&mut object, "spec");
    if let Some(spec) = convert_spec(spec, found, &mut round_trip, here, there) {
        object["spec"] = Value::Object(spec);
    }
    if let Some(status) = convert_status(status, found.status.clone(), &mut round_trip, here, there) {
        object["status"] = status;
    }
    (object, round_trip)
}

fn convert_spec(
    spec: Option<Value>,
    found: &RoundTrip,
    round_trip: &mut RoundTrip,
    here: &KindVersion,
    there: &KindVersion,
) -> Option<Spec> {
    let (present, mut spec) = match spec {
        Some(Value::Object(spec)) => (true, spec),
        _ => (false, Spec::new()),
    };
    if here.version == NEW {
        round_trip.unknown_spec = unknown::take(types::schema(here.kind, NEW, "spec"), &mut spec);
    }
    let Split { visible: mut out, hidden } = (here.split)(&spec);
    ignore(round_trip, there, (there.put)(&mut out, found.spec.clone()));
    let meaning = |spec: &Spec| {
        let mut filled = spec.clone();
        (there.fill)(&mut filled);
        (there.split)(&filled)
    };

    let mut exact = out.clone();
    for (field, value) in &found.exact {
        match value {
            Value::Null => drop(exact.remove(field)),
            value if (there.form)(field, value) => drop(exact.insert(field.clone(), value.clone())),
            odd => ignore(round_trip, there, Spec::from_iter([(field.clone(), odd.clone())])),
        }
    }
    if meaning(&exact) == meaning(&out) {
        out = exact;
    }

    // There is none where there was none and nothing has been filled in since.
    let leave_out = found.without_spec && meaning(&out) == (there.split)(&Spec::new());
    round_trip.without_spec = !present;
    if present {
        let mut again = meaning(&out).visible;
        (here.put)(&mut again, hidden.clone());
        (here.fill)(&mut again);
        (here.fill)(&mut spec);
        for field in again.keys().chain(spec.keys()) {
            if again.get(field) != spec.get(field) {
                round_trip.exact.insert(field.clone(), spec.get(field).cloned().unwrap_or_default());
            }
        }
    }
    round_trip.spec = hidden;
    // As the API server does with what it is answered: what was planted in the annotation leaves no trace.
    unknown::take(types::schema(there.kind, there.version, "spec"), &mut out);
    if there.version == NEW {
        ignore(round_trip, there, put_unknown(&mut out, &found.unknown_spec, there));
    }
    // The API server fills in the defaults of what it has stored, not of what it has converted, and takes a spec
    // that gains them with the next write for a changed one: then nothing in it is ratcheted.
    (there.fill)(&mut out);
    (!leave_out).then_some(out)
}

/// Puts back what this program's definitions do not know, whatever the annotation says of the rest. Returns that rest,
/// which conversion does not write there.
fn put_unknown(spec: &mut Spec, found: &Spec, there: &KindVersion) -> Spec {
    let schema = types::schema(there.kind, there.version, "spec");
    let mut rest = found.clone();
    let taken = unknown::take(schema, &mut rest);
    if taken == *found {
        rest.clear();
    }
    // Where v1alpha1 shows no namespaces, nothing else has brought the targets back.
    let mut in_targets = taken.get("targets").and_then(Value::as_object).into_iter().flatten();
    if let Some(targets) = types::known(schema, "targets")
        && in_targets.any(|(field, _)| types::known(targets, field).is_none())
    {
        spec.entry("targets").or_insert_with(|| Value::Object(Spec::new()));
    }
    unknown::put(schema, spec, taken);
    rest
}

/// Notes fields of the version of `there` that cannot be in its spec.
fn ignore(round_trip: &mut RoundTrip, there: &KindVersion, fields: Spec) {
    if !fields.is_empty() {
        let known = round_trip.ignored.entry(there.version).or_insert_with(|| Value::Object(Spec::new()));
        if let Some(known) = known.as_object_mut() {
            merge(known, fields);
        }
    }
}

/// Conditions are the same in both versions but for those that v1alpha1 shows in addition; numbers and lists of targets
/// are computed again, and so is what is not known. The annotation brings nothing into a status at v1beta1: conversion
/// does not see whether its author may write the status.
fn convert_status(
    status: Option<Value>,
    found: Spec,
    round_trip: &mut RoundTrip,
    here: &KindVersion,
    there: &KindVersion,
) -> Option<Value> {
    let mut status = match status {
        Some(Value::Object(status)) => Some(status),
        Some(odd) => {
            round_trip.status = found;
            return Some(odd);
        }
        None => None,
    };
    if let Some(status) = &mut status {
        for field in here.status {
            if let Some(value) = status.remove(*field) {
                round_trip.status.insert((*field).to_owned(), value);
            }
        }
        status.retain(|field, _| field == "conditions");
        if let Some(Value::Array(conditions)) = status.get_mut("conditions") {
            conditions::remove(conditions, here.conditions);
            conditions::add(conditions, there.conditions);
        }
    }
    for (field, value) in found {
        if there.status.contains(&field.as_str()) && value.is_string() {
            status.get_or_insert_default().insert(field, value);
        } else {
            round_trip.status.entry(field).or_insert(value);
        }
    }
    status.map(Value::Object)
}

fn take(object: &mut Value, field: &str) -> Option<Value> {
    object.as_object_mut()?.remove(field)
}
