//! One object from one version to the other: what holds for every kind and both directions.
//!
//! A kind says, for each of its versions, how a spec comes apart into what the other version can show and what
//! it cannot ([`Side`]). The rest follows from two questions. *Would this come back as it was?* If not, its exact
//! form is carried. *Does a carried form still mean what is visible now?* If not, somebody has edited the visible
//! fields since, and they win.

use serde_json::Value;

use super::carried::Carried;
use super::fields::{Spec, merge};
use crate::GROUP;

/// One version of a kind.
pub(super) struct Side {
    /// Its name.
    pub version: &'static str,
    /// A spec of this version, apart.
    pub apart: fn(&Spec) -> Apart,
    /// Puts hidden fields of this version into a spec of it; returns those that have another type there.
    pub put: fn(&mut Spec, Spec) -> Spec,
    /// May a carried exact form stand in this field?
    pub form: fn(&str, &Value) -> bool,
    /// Fills in the defaults of this version's schema that [`Side::apart`] could see.
    pub fill: fn(&mut Spec),
    /// Fields of a status that the other version does not have and that nobody could compute again; all are text.
    pub status: &'static [&'static str],
}

/// A spec, apart. Equal parts have equal meaning.
#[derive(Debug, PartialEq)]
pub(super) struct Apart {
    /// What the other version can show, in its form.
    pub visible: Spec,
    /// What it cannot.
    pub hidden: Spec,
}

/// `object`, which is at the version of `here`, at the version of `there`.
pub(super) fn convert(mut object: Value, here: &Side, there: &Side) -> Value {
    let found = Carried::take(&mut object, there.version);
    let mut carried = Carried {
        version: here.version.into(),
        ignored: found.ignored.clone(),
        unread: found.unread.clone(),
        dropped: found.dropped,
        ..Carried::default()
    };
    object["apiVersion"] = Value::from(format!("{GROUP}/{}", there.version));

    let status = take(&mut object, "status");
    match take(&mut object, "spec") {
        // Nothing that could be taken apart: it stays what it is.
        Some(odd) if !odd.is_object() => {
            ignore(&mut carried, there, found.spec.clone());
            object["spec"] = odd;
        }
        spec => {
            if let Some(spec) = convert_spec(spec, &found, &mut carried, here, there) {
                object["spec"] = Value::Object(spec);
            }
        }
    }
    if let Some(status) = convert_status(status, found.status, &mut carried, here, there) {
        object["status"] = status;
    }
    carried.put(&mut object);
    object
}

fn convert_spec(
    spec: Option<Value>,
    found: &Carried,
    carried: &mut Carried,
    here: &Side,
    there: &Side,
) -> Option<Spec> {
    let (present, mut spec) = match spec {
        Some(Value::Object(spec)) => (true, spec),
        _ => (false, Spec::new()),
    };
    let Apart { visible: mut out, hidden } = (here.apart)(&spec);
    ignore(carried, there, (there.put)(&mut out, found.spec.clone()));
    let meaning = |spec: &Spec| {
        let mut filled = spec.clone();
        (there.fill)(&mut filled);
        (there.apart)(&filled)
    };

    let mut exact = out.clone();
    for (field, value) in &found.exact {
        match value {
            Value::Null => drop(exact.remove(field)),
            value if (there.form)(field, value) => drop(exact.insert(field.clone(), value.clone())),
            odd => ignore(carried, there, Spec::from_iter([(field.clone(), odd.clone())])),
        }
    }
    if meaning(&exact) == meaning(&out) {
        out = exact;
    }

    // v1beta1 always has a spec; v1alpha1 has none where there was none and nothing has been filled in since.
    let leave_out = found.without_spec && meaning(&out) == meaning(&Spec::new());
    carried.without_spec = !present && here.version == super::OLD;
    if present {
        let mut again = meaning(&out).visible;
        (here.put)(&mut again, hidden.clone());
        (here.fill)(&mut again);
        (here.fill)(&mut spec);
        for field in again.keys().chain(spec.keys()) {
            if again.get(field) != spec.get(field) {
                carried.exact.insert(field.clone(), spec.get(field).cloned().unwrap_or_default());
            }
        }
    }
    carried.spec = hidden;
    // The API server fills in the defaults of what it has stored, not of what it has converted, and takes a spec
    // that gains them with the next write for a changed one: then nothing in it is ratcheted.
    (there.fill)(&mut out);
    (!leave_out).then_some(out)
}

/// Notes fields of the version of `there` that cannot stand in its spec.
fn ignore(carried: &mut Carried, there: &Side, fields: Spec) {
    if !fields.is_empty() {
        let known = carried.ignored.entry(there.version).or_insert_with(|| Value::Object(Spec::new()));
        if let Some(known) = known.as_object_mut() {
            merge(known, fields);
        }
    }
}

/// Conditions are the same in both versions, numbers and lists of targets are computed again.
fn convert_status(
    status: Option<Value>,
    found: Spec,
    carried: &mut Carried,
    here: &Side,
    there: &Side,
) -> Option<Value> {
    let mut status = match status {
        Some(Value::Object(status)) => Some(status),
        Some(odd) => {
            carried.status = found;
            return Some(odd);
        }
        None => None,
    };
    if let Some(status) = &mut status {
        for field in here.status {
            if let Some(value) = status.remove(*field) {
                carried.status.insert((*field).to_owned(), value);
            }
        }
        status.retain(|field, _| field == "conditions");
    }
    for (field, value) in found {
        if there.status.contains(&field.as_str()) && value.is_string() {
            status.get_or_insert_default().insert(field, value);
        } else {
            carried.status.entry(field).or_insert(value);
        }
    }
    status.map(Value::Object)
}

fn take(object: &mut Value, field: &str) -> Option<Value> {
    object.as_object_mut()?.remove(field)
}
