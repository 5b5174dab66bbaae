//! The limits on one value: which of them accept less than before.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt::Display;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSON, JSONSchemaProps, ValidationRule,
};

use super::change::SchemaChange;

/// Takes a schema apart without `..`: a keyword that a later Kubernetes adds does not compile until it is in one of the
/// groups.
macro_rules! all_keywords {
    ($($keyword:ident)*) => {
        const _: fn(&JSONSchemaProps) = |schema| {
            let JSONSchemaProps { $($keyword: _),* } = schema;
        };
    };
}

all_keywords! {
    // Judged by `bounds`.
    minimum maximum exclusive_minimum exclusive_maximum multiple_of
    min_length max_length min_items max_items min_properties max_properties
    // Judged by `forms`.
    pattern format nullable unique_items all_of any_of one_of not
    x_kubernetes_embedded_resource x_kubernetes_list_map_keys x_kubernetes_list_type x_kubernetes_map_type
    // Judged by `tightened`.
    enum_ x_kubernetes_validations
    // Judged by the walk.
    additional_properties default items properties required type_
    x_kubernetes_int_or_string x_kubernetes_preserve_unknown_fields
    // For readers: they limit nothing.
    description example external_docs title
    // Refused by the API server in a definition.
    additional_items definitions dependencies id pattern_properties ref_path schema
}

/// Every limit of `new` that is tighter than in `old`, both of the same type.
pub(super) fn tightened(old: &JSONSchemaProps, new: &JSONSchemaProps) -> Vec<SchemaChange> {
    let mut found: Vec<SchemaChange> =
        bounds(old, new).into_iter().chain(forms(old, new)).flatten().collect();
    found.extend(values_gone(old.enum_.as_ref(), new.enum_.as_ref()));
    found.extend(rules_added(
        (old, new),
        old.x_kubernetes_validations.as_deref().unwrap_or_default(),
        new.x_kubernetes_validations.as_deref().unwrap_or_default(),
    ));
    found
}

/// The limits that are numbers.
fn bounds(old: &JSONSchemaProps, new: &JSONSchemaProps) -> [Option<SchemaChange>; 9] {
    let lower = |schema: &JSONSchemaProps| (schema.minimum, schema.exclusive_minimum);
    let upper = |schema: &JSONSchemaProps| (schema.maximum, schema.exclusive_maximum);
    // Clients kept to the format before it was spelled out as bounds.
    let (least_of_format, most_of_format) = match old.format.as_deref() {
        Some("int32") => (Some(f64::from(i32::MIN)), Some(f64::from(i32::MAX))),
        _ => (None, None),
    };
    let (was_lower, was_upper) = (lower(old), upper(old));
    let was_lower = (was_lower.0.or(least_of_format), was_lower.1);
    let was_upper = (was_upper.0.or(most_of_format), was_upper.1);
    [
        bound(["minimum", "exclusiveMinimum"], Ordering::Greater, was_lower, lower(new)),
        bound(["maximum", "exclusiveMaximum"], Ordering::Less, was_upper, upper(new)),
        multiple(old.multiple_of, new.multiple_of),
        least("minLength", old.min_length, new.min_length),
        most("maxLength", old.max_length, new.max_length),
        least("minItems", old.min_items, new.min_items),
        most("maxItems", old.max_items, new.max_items),
        least("minProperties", old.min_properties, new.min_properties),
        most("maxProperties", old.max_properties, new.max_properties),
    ]
}

/// The limits that have another form.
fn forms(old: &JSONSchemaProps, new: &JSONSchemaProps) -> [Option<SchemaChange>; 11] {
    let embedded = |schema: &JSONSchemaProps| schema.x_kubernetes_embedded_resource;
    let not = |schema: &JSONSchemaProps| schema.not.as_deref().map(json);
    [
        replaced("pattern", old.pattern.as_ref(), new.pattern.as_ref()),
        replaced("format", old.format.as_ref(), new.format.as_ref()),
        turned("nullable", false, old.nullable, new.nullable),
        turned("uniqueItems", true, old.unique_items, new.unique_items),
        turned("x-kubernetes-embedded-resource", true, embedded(old), embedded(new)),
        list_type(old, new),
        map_type(old, new),
        alternatives("allOf", old.all_of.as_ref(), new.all_of.as_ref()),
        alternatives("anyOf", old.any_of.as_ref(), new.any_of.as_ref()),
        alternatives("oneOf", old.one_of.as_ref(), new.one_of.as_ref()),
        (new.not.is_some() && new.not != old.not).then(|| tighter("not", not(old), not(new))),
    ]
}

fn tighter(keyword: &'static str, was: Option<impl Display>, is: Option<impl Display>) -> SchemaChange {
    SchemaChange::Tightened { keyword, was: was.map(|was| was.to_string()), is: is.map(|is| is.to_string()) }
}

/// A bound and whether it is itself excluded. `tighter_is` is the ordering of the newer bound to the older at which it
/// accepts less.
fn bound(
    [bound, exclusive]: [&'static str; 2],
    tighter_is: Ordering,
    was: (Option<f64>, Option<bool>),
    is: (Option<f64>, Option<bool>),
) -> Option<SchemaChange> {
    let (Some(new), old) = (is.0, was.0) else { return None };
    match old.and_then(|old| new.partial_cmp(&old)) {
        Some(Ordering::Equal) => turned(exclusive, true, was.1, is.1),
        Some(order) if order != tighter_is => None,
        _ => Some(tighter(bound, old, Some(new))),
    }
}

/// Every multiple of the older step must be one of the newer step.
fn multiple(was: Option<f64>, is: Option<f64>) -> Option<SchemaChange> {
    let whole = |quotient: f64| (quotient - quotient.round()).abs() < 1e-9;
    let divides = |new: f64| was.is_some_and(|old| whole(old / new));
    is.filter(|new| !divides(*new)).map(|new| tighter("multipleOf", was, Some(new)))
}

fn least(keyword: &'static str, was: Option<i64>, is: Option<i64>) -> Option<SchemaChange> {
    (is.unwrap_or(0) > was.unwrap_or(0)).then(|| tighter(keyword, was, is))
}

fn most(keyword: &'static str, was: Option<i64>, is: Option<i64>) -> Option<SchemaChange> {
    (is.unwrap_or(i64::MAX) < was.unwrap_or(i64::MAX)).then(|| tighter(keyword, was, is))
}

/// What cannot be compared may only go.
fn replaced(keyword: &'static str, was: Option<&String>, is: Option<&String>) -> Option<SchemaChange> {
    (is.is_some() && is != was).then(|| tighter(keyword, was, is))
}

/// A switch that became `to`.
fn turned(keyword: &'static str, to: bool, was: Option<bool>, is: Option<bool>) -> Option<SchemaChange> {
    (is.unwrap_or(false) == to && was.unwrap_or(false) != to).then(|| tighter(keyword, was, is))
}

/// A set, and a map by its keys, refuse duplicates that an atomic list takes.
fn list_type(old: &JSONSchemaProps, new: &JSONSchemaProps) -> Option<SchemaChange> {
    let stated = |schema: &JSONSchemaProps| schema.x_kubernetes_list_type.clone();
    let (was, is) = (stated(old), stated(new));
    let name = |list: &Option<String>| list.clone().unwrap_or_else(|| "atomic".into());
    if name(&was) != name(&is) {
        return (name(&is) != "atomic").then(|| tighter("x-kubernetes-list-type", was, is));
    }
    let keys = |schema: &JSONSchemaProps| -> BTreeSet<String> {
        schema.x_kubernetes_list_map_keys.iter().flatten().cloned().collect()
    };
    let listed = |keys: BTreeSet<String>| keys.into_iter().collect::<Vec<_>>().join(", ");
    let (was, is) = (keys(old), keys(new));
    (was != is).then(|| tighter("x-kubernetes-list-map-keys", Some(listed(was)), Some(listed(is))))
}

/// Decides who owns what under server-side apply, so neither direction is the looser one.
fn map_type(old: &JSONSchemaProps, new: &JSONSchemaProps) -> Option<SchemaChange> {
    let (was, is) = (old.x_kubernetes_map_type.as_deref(), new.x_kubernetes_map_type.as_deref());
    let name = |map: Option<&str>| map.unwrap_or("granular").to_owned();
    (name(was) != name(is)).then(|| tighter("x-kubernetes-map-type", was, is))
}

/// `allOf` may lose members and `anyOf` may gain some; any change of `oneOf` can refuse what it took.
fn alternatives(
    keyword: &'static str,
    was: Option<&Vec<JSONSchemaProps>>,
    is: Option<&Vec<JSONSchemaProps>>,
) -> Option<SchemaChange> {
    let (old, new) = (was.map_or(&[][..], Vec::as_slice), is.map_or(&[][..], Vec::as_slice));
    let added = new.iter().any(|member| !old.contains(member));
    let lost = old.iter().any(|member| !new.contains(member));
    let is_tighter = !new.is_empty()
        && match keyword {
            "allOf" => added,
            "anyOf" => lost || old.is_empty(),
            _ => added || lost,
        };
    let listed = |members: &Vec<JSONSchemaProps>| {
        let members: Vec<String> = members.iter().map(json).collect();
        format!("[{}]", members.join(","))
    };
    is_tighter.then(|| tighter(keyword, was.map(listed), is.map(listed)))
}

fn values_gone(was: Option<&Vec<JSON>>, is: Option<&Vec<JSON>>) -> Vec<SchemaChange> {
    let text = |JSON(value): &JSON| value.to_string();
    match (was, is) {
        (_, None) => Vec::new(),
        (None, Some(new)) => {
            let values: Vec<String> = new.iter().map(text).collect();
            vec![tighter("enum", None::<String>, Some(values.join(", ")))]
        }
        (Some(old), Some(new)) => old
            .iter()
            .filter(|value| !new.contains(value))
            .map(|value| SchemaChange::ValueGone { value: text(value) })
            .collect(),
    }
}

fn rules_added(
    schemas: (&JSONSchemaProps, &JSONSchemaProps),
    was: &[ValidationRule],
    is: &[ValidationRule],
) -> Vec<SchemaChange> {
    // A rule about the older value runs on creation too only where `optionalOldSelf` says so.
    let on_creation = |rule: &ValidationRule| rule.optional_old_self == Some(true);
    let stood = |new: &ValidationRule| {
        was.iter().any(|old| allows_more(&old.rule, &new.rule) && (on_creation(old) || !on_creation(new)))
    };
    let added = is.iter().filter(|rule| !stood(rule) && !always_held(schemas, &rule.rule));
    added.map(|rule| SchemaChange::RuleAdded { rule: rule.rule.clone() }).collect()
}

/// Did each value that was accepted keep this rule? So it is where its first alternative is that a field is
/// there which was required, `has(self.a) || …`, or that one is not there which was not known, `!has(self.a)
/// || …`. One with a default is always there; some are at the top of each object without being listed; and
/// CEL writes some names with `__`.
fn always_held((old, new): (&JSONSchemaProps, &JSONSchemaProps), rule: &str) -> bool {
    let Some((first, others)) = rule.split_once(" || ") else { return false };
    let field = |start: &str| {
        let field = first.strip_prefix(start)?.strip_suffix(')')?;
        let is_name = field.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        (is_name && !field.contains("__")).then_some(field)
    };
    let is_required = |field: &str| old.required.iter().flatten().any(|required| required == field);
    let keeps_unknown =
        old.additional_properties.is_some() || old.x_kubernetes_preserve_unknown_fields == Some(true);
    let is_unknown = |field: &str| {
        let has_default =
            |new: &JSONSchemaProps| new.properties.as_ref()?.get(field)?.default.as_ref().map(drop);
        !keeps_unknown
            && !["apiVersion", "kind", "metadata"].contains(&field)
            && has_default(new).is_none()
            && old.properties.as_ref().is_some_and(|known| !known.contains_key(field))
    };
    is_alternative(others)
        && (field("has(self.").is_some_and(is_required) || field("!has(self.").is_some_and(is_unknown))
}

/// One with a `?` may be a condition, which would take what is before for its own. One with `oldSelf` makes it a
/// transition rule, and those do not pass over what an update leaves as it was.
fn is_alternative(text: &str) -> bool {
    !["?", "oldSelf"].iter().any(|part| text.contains(part))
}

/// Is `new` the rule `old`, or with an alternative behind it?
fn allows_more(old: &str, new: &str) -> bool {
    let alternative = || new.strip_prefix(old)?.strip_prefix(" || ");
    old == new || alternative().is_some_and(is_alternative)
}

/// As it is in the definition.
#[expect(clippy::expect_used, reason = "a schema came from JSON or from a type with text keys")]
fn json(schema: &JSONSchemaProps) -> String {
    serde_json::to_string(schema).expect("a schema can be written as JSON")
}
