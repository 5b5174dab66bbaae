//! The walk through two schemas of one version, field by field.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};

use super::change::SchemaChange;
use super::limits;

/// The schema of a field without a description that keeps everything.
pub(super) fn anything() -> JSONSchemaProps {
    JSONSchemaProps { x_kubernetes_preserve_unknown_fields: Some(true), ..JSONSchemaProps::default() }
}

/// Adds what breaks at `path` and below.
///
/// A changed type ends the walk there: what was below described values of the other type. A new field is
/// not walked into, since no stored object has it yet; so a new optional object may have any required fields.
pub(super) fn compare(
    old: &JSONSchemaProps,
    new: &JSONSchemaProps,
    path: &str,
    found: &mut Vec<(String, SchemaChange)>,
) {
    let (was, is) = (type_name(old), type_name(new));
    if was != is {
        let change = SchemaChange::TypeChanged { was: was.to_owned(), is: is.to_owned() };
        return found.push((path.to_owned(), change));
    }
    let default = |schema: &JSONSchemaProps| schema.default.as_ref().map(|JSON(value)| value.to_string());
    if default(old) != default(new) {
        let change = SchemaChange::DefaultChanged { was: default(old), is: default(new) };
        found.push((path.to_owned(), change));
    }
    found.extend(limits::tightened(old, new).into_iter().map(|change| (path.to_owned(), change)));
    compare_fields(old, new, path, found);
    compare_others(old, new, path, found);
    match (items(old), items(new)) {
        (None, None) => {}
        (was, is) => {
            let free = anything();
            compare(was.unwrap_or(&free), is.unwrap_or(&free), &format!("{path}[]"), found);
        }
    }
}

/// The fields that are described by name.
fn compare_fields(
    old: &JSONSchemaProps,
    new: &JSONSchemaProps,
    path: &str,
    found: &mut Vec<(String, SchemaChange)>,
) {
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    let field = |schema: &JSONSchemaProps, name: &str| schema.properties.as_ref()?.get(name).cloned();
    for (name, was) in old.properties.iter().flatten() {
        match field(new, name) {
            Some(is) => compare(was, &is, &below(name), found),
            None => found.push((below(name), SchemaChange::FieldGone)),
        }
    }
    // A field that only the newer schema names may have been written before, where others were kept.
    for (name, is) in new.properties.iter().flatten().filter(|(name, _)| field(old, name).is_none()) {
        match others(old) {
            Others::Dropped => {}
            Others::Anything => compare(&anything(), is, &below(name), found),
            Others::Like(was) => compare(was, is, &below(name), found),
        }
    }
    let required =
        |schema: &JSONSchemaProps, name: &String| schema.required.iter().flatten().any(|r| r == name);
    for name in new.required.iter().flatten().filter(|name| !required(old, name)) {
        found.push((below(name), SchemaChange::FieldRequired));
    }
}

/// The fields that are not described by name; the values of a map are such fields.
fn compare_others(
    old: &JSONSchemaProps,
    new: &JSONSchemaProps,
    path: &str,
    found: &mut Vec<(String, SchemaChange)>,
) {
    let values = format!("{path}{{}}");
    match (others(old), others(new)) {
        (Others::Dropped, _) | (Others::Anything, Others::Anything) => {}
        (_, Others::Dropped) => found.push((path.to_owned(), SchemaChange::OthersDropped)),
        (Others::Anything, Others::Like(is)) => compare(&anything(), is, &values, found),
        (Others::Like(was), Others::Anything) => compare(was, &anything(), &values, found),
        (Others::Like(was), Others::Like(is)) => compare(was, is, &values, found),
    }
}

/// What becomes of fields that are not described by name.
enum Others<'a> {
    Dropped,
    /// They are kept as they are.
    Anything,
    /// They are kept and must be like this.
    Like(&'a JSONSchemaProps),
}

fn others(schema: &JSONSchemaProps) -> Others<'_> {
    match &schema.additional_properties {
        Some(JSONSchemaPropsOrBool::Schema(values)) => Others::Like(values),
        Some(JSONSchemaPropsOrBool::Bool(true)) => Others::Anything,
        _ if schema.x_kubernetes_preserve_unknown_fields == Some(true) => Others::Anything,
        _ => Others::Dropped,
    }
}

/// The schema of a list's items. The form with one schema per index is refused by the API server.
fn items(schema: &JSONSchemaProps) -> Option<&JSONSchemaProps> {
    match &schema.items {
        Some(JSONSchemaPropsOrArray::Schema(items)) => Some(items),
        _ => None,
    }
}

fn type_name(schema: &JSONSchemaProps) -> &str {
    match (schema.x_kubernetes_int_or_string, schema.type_.as_deref()) {
        (Some(true), _) => "integer or string",
        (_, stated) => stated.unwrap_or("anything"),
    }
}
