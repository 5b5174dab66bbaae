//! Reads `rules.yaml`, the table of every rule of a spec with an object that keeps it and one that does not.
//!
//! The notation is described there. A mistake in the table is an error that names its line; nothing is
//! skipped. Any judge can use it: the pure rules, the schemas, and the API server of the scenario tests, which
//! include this file by its path. Needs `serde`, `serde-saphyr` and `serde_json`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

const TABLE: &str = include_str!("../rules.yaml");

/// Who can tell an accepted object from a refused one.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Judge {
    Validate,
    /// The types: the refused object does not parse.
    Parser,
    /// CEL rules, evaluated without a server.
    Cel,
    Server,
}

#[derive(Debug)]
pub struct RuleCase {
    /// What is demanded, as a sentence.
    pub rule: String,
    /// The keyword of the definition: `maxItems`, `x-kubernetes-validations`.
    pub keyword: String,
    /// Kind of the objects.
    pub kind: String,
    /// Version at which they are written.
    pub version: String,
    /// Path of the field that a refusal names: `spec.targets.namespaces[1]`.
    pub field: String,
    /// The judges that distinguish the two.
    pub judges: Vec<Judge>,
    /// The object that is changed into either; only for rules about changes.
    pub from: Option<Value>,
    /// An object that keeps the rule.
    pub accepted: Value,
    /// What the API server answers has all of this, nulls included.
    pub returned: Option<Value>,
    /// An object that breaks this rule and no other; none where the rule is to accept.
    pub refused: Option<Value>,
}

/// The table as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    base: Value,
    rules: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    keyword: String,
    field: String,
    rule: String,
    judges: Option<Vec<Judge>>,
    #[serde(default, deserialize_with = "stated")]
    from: Option<Value>,
    #[serde(default, deserialize_with = "stated")]
    accepted: Option<Value>,
    returned: Option<Value>,
    #[serde(default, deserialize_with = "stated")]
    refused: Option<Value>,
}

/// A null that is written down is not an absent field.
fn stated<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// The whole table, by kind and version, in its order.
///
/// # Errors
/// What is wrong with the table, and where.
pub fn cases() -> Result<Vec<RuleCase>, String> {
    read(TABLE)
}

/// [`cases`] of another table.
///
/// # Errors
/// What is wrong with the table, and where.
pub fn read(table: &str) -> Result<Vec<RuleCase>, String> {
    let sections: BTreeMap<String, Section> =
        serde_saphyr::from_str(table).map_err(|error| format!("rules.yaml: {error}"))?;
    let mut cases = Vec::new();
    for (of, section) in sections {
        let (kind, version) =
            of.split_once(' ').ok_or_else(|| format!("rules.yaml: {of:?} is not a kind and a version"))?;
        for entry in section.rules {
            let place = format!("rules.yaml: {of}: {} {}", entry.keyword, entry.field);
            let object = |patch: &Value| {
                let spec =
                    patched(&section.base, &expanded(patch).map_err(|error| format!("{place}: {error}"))?);
                Ok::<_, String>(object(kind, version, spec))
            };
            let judges = entry.judges.clone().unwrap_or_else(|| {
                let is_cel = entry.keyword == "x-kubernetes-validations";
                let local = (version == "v1beta1").then_some(Judge::Validate);
                [local, is_cel.then_some(Judge::Cel), Some(Judge::Server)].into_iter().flatten().collect()
            });
            cases.push(RuleCase {
                from: entry.from.as_ref().map(object).transpose()?,
                accepted: object(entry.accepted.as_ref().unwrap_or(&json!({})))?,
                refused: entry.refused.as_ref().map(object).transpose()?,
                returned: entry.returned,
                kind: kind.to_owned(),
                version: version.to_owned(),
                keyword: entry.keyword,
                field: entry.field,
                rule: entry.rule,
                judges,
            });
        }
    }
    Ok(cases)
}

/// An object that can be sent; a null spec is none.
fn object(kind: &str, version: &str, spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": format!("weaver.example.com/{version}"), "kind": kind, "metadata": {"name": "rule"},
    });
    if !spec.is_null() {
        object["spec"] = spec;
    }
    object
}

/// A JSON merge patch, in which an object with numbers for keys patches items of a list.
fn patched(target: &Value, patch: &Value) -> Value {
    let Value::Object(fields) = patch else { return patch.clone() };
    if let Some(exact) = fields.get("exactly") {
        return exact.clone();
    }
    if let Value::Array(items) = target {
        let mut items = items.clone();
        for (index, patch) in fields {
            match index.parse::<usize>().ok().and_then(|index| items.get_mut(index)) {
                Some(item) => *item = patched(item, patch),
                None => return patch.clone(),
            }
        }
        return Value::Array(items);
    }
    let mut merged = target.as_object().cloned().unwrap_or_default();
    for (name, patch) in fields {
        if patch.is_null() {
            merged.remove(name);
        } else {
            let before = merged.get(name).cloned().unwrap_or_default();
            merged.insert(name.clone(), patched(&before, patch));
        }
    }
    Value::Object(merged)
}

/// Values that are too long to be written down, written out.
fn expanded(value: &Value) -> Result<Value, String> {
    match value {
        Value::Array(items) => items.iter().map(expanded).collect(),
        Value::Object(fields) => {
            let times = |key: &str| {
                fields.get(key).and_then(Value::as_u64).ok_or_else(|| format!("{key} needs a whole number"))
            };
            if let Some(item) = fields.get("repeat") {
                return Ok((0..times("times")?).map(|number| numbered(item, number)).collect());
            }
            if let Some(Value::String(key)) = fields.get("entries") {
                let value = fields.get("value").ok_or("entries needs a value")?;
                let entry = |number| (with_number(key, number), numbered(value, number));
                return Ok(Value::Object((0..times("times")?).map(entry).collect()));
            }
            if fields.contains_key("letters") {
                let letters = usize::try_from(times("letters")?).map_err(|error| error.to_string())?;
                return Ok(Value::from("a".repeat(letters)));
            }
            fields.iter().map(|(name, value)| Ok((name.clone(), expanded(value)?))).collect()
        }
        plain => Ok(plain.clone()),
    }
}

fn with_number(text: &str, number: u64) -> String {
    text.replace("{}", &number.to_string())
}

/// `value` with a number for each `{}` in it.
fn numbered(value: &Value, number: u64) -> Value {
    match value {
        Value::String(text) => Value::from(with_number(text, number)),
        Value::Array(items) => items.iter().map(|item| numbered(item, number)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), numbered(value, number))).collect()
        }
        plain => plain.clone(),
    }
}
