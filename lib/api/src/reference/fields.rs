//! What there is to say of one field: for the page, and for anyone who asks.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool, ValidationRule,
};

use super::markdown::{code, inline};

/// One field of a version, in words; texts are Markdown on one line.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Field {
    /// `spec.tokens[].key`, with `[]` for each item of a list and `{}` for each value of a map; the root's is empty.
    pub path: String,
    /// Such as `list of string`.
    pub type_name: String,
    /// Must it be there where the object around it is?
    pub is_required: bool,
    /// The default as JSON; `None` where there is none.
    pub default: Option<String>,
    /// What a value must keep, each as a phrase.
    pub limits: Vec<String>,
    /// The description of the schema.
    pub description: String,
    /// The CEL rules, each after its message.
    pub rules: Vec<String>,
}

/// The fields of a whole schema, the root first. `apiVersion`, `kind` and `metadata` are those of any object.
pub(super) fn of_schema(root: &JSONSchemaProps) -> Vec<Field> {
    let mut fields = Vec::new();
    add(root, "", false, &mut fields);
    fields.retain(|field| !["apiVersion", "kind", "metadata"].contains(&field.path.as_str()));
    fields
}

fn add(schema: &JSONSchemaProps, path: &str, is_required: bool, fields: &mut Vec<Field>) {
    let rules = schema.x_kubernetes_validations.as_deref().unwrap_or_default();
    let this = Field {
        type_name: type_name(schema),
        is_required,
        default: schema.default.as_ref().map(|JSON(value)| value.to_string()),
        limits: limits(schema),
        description: schema.description.as_deref().map(inline).unwrap_or_default(),
        rules: rules.iter().map(with_message).collect(),
        path: path.to_owned(),
    };
    // The type of items and values is shown with the list or map; often there is no more to say.
    let is_inner = path.ends_with("[]") || path.ends_with("{}");
    if !is_inner || !this.limits.is_empty() || !this.description.is_empty() || this.default.is_some() {
        fields.push(this);
    }
    for (name, field) in schema.properties.iter().flatten() {
        let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        add(field, &below, schema.required.iter().flatten().any(|required| required == name), fields);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
        add(items, &format!("{path}[]"), false, fields);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &schema.additional_properties {
        add(values, &format!("{path}{{}}"), false, fields);
    }
}

fn type_name(schema: &JSONSchemaProps) -> String {
    if schema.x_kubernetes_int_or_string == Some(true) {
        return "integer or string".into();
    }
    let stated = schema.type_.as_deref().unwrap_or("anything");
    match (&schema.items, &schema.additional_properties, &schema.format) {
        (Some(JSONSchemaPropsOrArray::Schema(items)), ..) => format!("list of {}", type_name(items)),
        (_, Some(JSONSchemaPropsOrBool::Schema(values)), _) => format!("map of {}", type_name(values)),
        (_, Some(JSONSchemaPropsOrBool::Bool(true)), _) => "map of anything".into(),
        (.., Some(format)) => format!("{stated} ({format})"),
        _ => stated.to_owned(),
    }
}

/// Every limit, in words. The keywords that are no limits are the type, the fields, the default and words.
fn limits(schema: &JSONSchemaProps) -> Vec<String> {
    let all = |values: &[JSON]| -> String {
        values.iter().map(|JSON(value)| code(&plain(value))).collect::<Vec<_>>().join(", ")
    };
    let is = |flag: Option<bool>, words: &str| (flag == Some(true)).then(|| words.to_owned());
    let mut found: Vec<String> = [
        schema.enum_.as_deref().map(|values| format!("one of {}", all(values))),
        range(schema),
        schema.multiple_of.map(|step| format!("multiple of {step}")),
        span(schema.min_length, schema.max_length, ["character", "characters"]),
        schema.pattern.as_deref().map(|pattern| format!("matches {}", code(pattern))),
        span(schema.min_items, schema.max_items, ["item", "items"]),
        list_type(schema),
        is(schema.unique_items, "no duplicates"),
        span(schema.min_properties, schema.max_properties, ["entry", "entries"]),
        (schema.x_kubernetes_map_type.as_deref() == Some("atomic")).then(|| "replaced as a whole".into()),
        is(schema.nullable, "may be null"),
        is(schema.x_kubernetes_preserve_unknown_fields, "other fields are kept"),
        is(schema.x_kubernetes_embedded_resource, "a whole Kubernetes object"),
        alternatives("all of", schema.all_of.as_deref()),
        alternatives("at least one of", schema.any_of.as_deref()),
        alternatives("exactly one of", schema.one_of.as_deref()),
        schema.not.as_deref().map(|not| format!("not {}", json(not))),
    ]
    .into_iter()
    .flatten()
    .collect();
    found.extend(schema.x_kubernetes_validations.iter().flatten().map(message));
    found
}

fn range(schema: &JSONSchemaProps) -> Option<String> {
    let is_open = |flag: Option<bool>| flag == Some(true);
    let (open_below, open_above) = (is_open(schema.exclusive_minimum), is_open(schema.exclusive_maximum));
    if let (Some(min), Some(max), false, false) = (schema.minimum, schema.maximum, open_below, open_above) {
        return Some(format!("{min}..{max}"));
    }
    let below = schema.minimum.map(|min| format!("{} {min}", if open_below { ">" } else { "≥" }));
    let above = schema.maximum.map(|max| format!("{} {max}", if open_above { "<" } else { "≤" }));
    let bounds: Vec<String> = [below, above].into_iter().flatten().collect();
    (!bounds.is_empty()).then(|| bounds.join(", "))
}

/// A number of things, between two limits.
fn span(min: Option<i64>, max: Option<i64>, [one, many]: [&str; 2]) -> Option<String> {
    let of = |count: i64| if count == 1 { one } else { many };
    match (min.filter(|min| *min > 0), max) {
        (None, None) => None,
        (Some(min), None) => Some(format!("≥ {min} {}", of(min))),
        (None, Some(max)) => Some(format!("≤ {max} {}", of(max))),
        (Some(min), Some(max)) if min == max => Some(format!("exactly {max} {}", of(max))),
        (Some(min), Some(max)) => Some(format!("{min}..{max} {}", of(max))),
    }
}

fn list_type(schema: &JSONSchemaProps) -> Option<String> {
    match schema.x_kubernetes_list_type.as_deref()? {
        "set" => Some("a set".into()),
        "map" => {
            let keys = schema.x_kubernetes_list_map_keys.iter().flatten();
            let keys: Vec<String> = keys.map(|key| code(key)).collect();
            Some(format!("one item per {}", keys.join(" and ")))
        }
        _ => None,
    }
}

fn alternatives(how: &str, members: Option<&[JSONSchemaProps]>) -> Option<String> {
    let members: Vec<String> = members?.iter().map(json).collect();
    (!members.is_empty()).then(|| format!("{how} {}", members.join(", ")))
}

/// What the API server says when a rule is broken; it too shows the rule itself where there is no message.
fn message(rule: &ValidationRule) -> String {
    rule.message.as_deref().map_or_else(|| code(&rule.rule), inline)
}

fn with_message(rule: &ValidationRule) -> String {
    let message = rule.message.as_deref().map(|message| format!("{}: ", inline(message))).unwrap_or_default();
    format!("{message}{}", code(&rule.rule))
}

/// A value as one would write it: text without quotes.
fn plain(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// As it is in the definition.
#[expect(clippy::expect_used, reason = "a schema came from JSON or from a type with text keys")]
fn json(schema: &JSONSchemaProps) -> String {
    code(&serde_json::to_string(schema).expect("a schema can be written as JSON"))
}
