//! What the API server would say to a spec by the schema alone: the keywords, and the CEL rules by kube-cel,
//! which judges nothing else.
//!
//! It knows the keywords that our definitions use and panics at any other, so none is passed over. That it
//! judges as the server does is shown by the table: each of its entries is judged by both.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use kube_cel::cel::{Context, Program, Value as CelValue};
use kube_cel::{CompiledSchema, Validator, compile_schema};
use serde_json::{Map, Value};

use crate::definitions;

/// A broken rule: path of the field, and keyword.
pub type SchemaFault = (String, String);

pub struct SchemaJudge {
    schema: &'static Value,
    rules: CompiledSchema,
    validator: Validator,
}

impl SchemaJudge {
    /// Compiled once: that takes longer than to judge all of the table.
    pub fn of(kind: &str, version: &str) -> Rc<Self> {
        thread_local! {
            static JUDGES: RefCell<HashMap<(String, String), Rc<SchemaJudge>>> = RefCell::default();
        }
        let which = (kind.to_owned(), version.to_owned());
        let judge = || Rc::new(Self::compiled(kind, version));
        JUDGES.with_borrow_mut(|judges| judges.entry(which).or_insert_with(judge).clone())
    }

    fn compiled(kind: &str, version: &str) -> Self {
        let schema = definitions::schema(kind, version);
        let rules = compile_schema(schema);
        assert!(!rules.has_errors(), "{:?}", rules.compilation_errors());
        Self { schema, rules, validator: Validator::new() }
    }

    /// Every broken rule but those in CEL.
    pub fn keywords(&self, object: &Value) -> Vec<SchemaFault> {
        let mut faults = Vec::new();
        judge(&self.schema["properties"]["spec"], object.get("spec"), "spec", &mut faults);
        faults
    }

    /// Fields whose rules in CEL are broken, with what is said.
    pub fn cel(&self, object: &Value, old: Option<&Value>) -> Vec<SchemaFault> {
        let verdict = self.validator.validate_compiled(&self.rules, object, old);
        let errors = verdict.err().map(kube_cel::ValidationErrors::into_vec).unwrap_or_default();
        errors.into_iter().map(|error| (error.field_path, error.message)).collect()
    }
}

fn judge(schema: &Value, value: Option<&Value>, path: &str, faults: &mut Vec<SchemaFault>) {
    let Some(value) = value else { return };
    if value.is_null() && schema["nullable"] == true {
        return;
    }
    if !has_type(schema["type"].as_str().unwrap(), value) {
        faults.push((path.to_owned(), "type".into()));
        return;
    }
    for (keyword, limit) in schema.as_object().unwrap() {
        if !keeps(keyword, limit, schema, value) {
            faults.push((path.to_owned(), keyword.clone()));
        }
    }
    match value {
        Value::Object(fields) => judge_fields(schema, fields, path, faults),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                judge(&schema["items"], Some(item), &format!("{path}[{index}]"), faults);
            }
            judge_duplicates(schema, items, path, faults);
        }
        _ => {}
    }
}

fn judge_fields(schema: &Value, fields: &Map<String, Value>, path: &str, faults: &mut Vec<SchemaFault>) {
    let known = schema["properties"].as_object();
    // A null that is not meant is as good as absent.
    let is_there = |name: &str| {
        fields
            .get(name)
            .is_some_and(|value| !value.is_null() || schema["properties"][name]["nullable"] == true)
    };
    for required in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !is_there(required) {
            faults.push((format!("{path}.{required}"), "required".into()));
        }
    }
    for (name, value) in fields {
        let inner = known.and_then(|known| known.get(name)).filter(|_| is_there(name));
        let inner = inner.or_else(|| schema.get("additionalProperties"));
        if let Some(inner) = inner {
            judge(inner, Some(value), &format!("{path}.{name}"), faults);
        }
    }
}

fn judge_duplicates(schema: &Value, items: &[Value], path: &str, faults: &mut Vec<SchemaFault>) {
    let keyword = match schema["x-kubernetes-list-type"].as_str() {
        Some("set") => "x-kubernetes-list-type",
        Some("map") => "x-kubernetes-list-map-keys",
        Some("atomic") | None => return,
        Some(other) => panic!("{path} is a list of type {other}, which this judge does not know"),
    };
    let mut seen = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let keys = schema["x-kubernetes-list-map-keys"].as_array();
        let identity = keys.map_or_else(
            || item.to_string(),
            |keys| keys.iter().map(|key| item[key.as_str().unwrap()].to_string()).collect(),
        );
        if !seen.insert(identity) {
            faults.push((format!("{path}[{index}]"), keyword.into()));
        }
    }
}

fn has_type(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        other => panic!("this judge does not know the type {other}"),
    }
}

/// Does `value`, which has the right type, keep one keyword? Those that are judged elsewhere are kept.
fn keeps(keyword: &str, limit: &Value, schema: &Value, value: &Value) -> bool {
    let (bound, number) = (limit.as_f64().unwrap_or_default(), value.as_f64().unwrap_or_default());
    let is_open = |flag: &str| schema[flag] == true;
    let as_count = |count: Option<usize>| count.unwrap_or_default() as u64;
    let characters = || as_count(value.as_str().map(|text| text.chars().count()));
    let items = || as_count(value.as_array().map(Vec::len));
    let fields = || as_count(value.as_object().map(Map::len));
    let limit_count = || limit.as_u64().unwrap();
    match keyword {
        // An open bound is named by the keyword that opens it.
        "minimum" => is_open("exclusiveMinimum") || number >= bound,
        "maximum" => is_open("exclusiveMaximum") || number <= bound,
        "exclusiveMinimum" => number > schema["minimum"].as_f64().unwrap(),
        "exclusiveMaximum" => number < schema["maximum"].as_f64().unwrap(),
        "multipleOf" => number % bound == 0.0,
        "minLength" => characters() >= limit_count(),
        "maxLength" => characters() <= limit_count(),
        "pattern" => matches(limit.as_str().unwrap(), value.as_str().unwrap()),
        "minItems" => items() >= limit_count(),
        "maxItems" => items() <= limit_count(),
        "maxProperties" => fields() <= limit_count(),
        "enum" => limit.as_array().unwrap().contains(value),
        "format" => match limit.as_str().unwrap() {
            "int32" => value.as_i64().is_some_and(|number| i32::try_from(number).is_ok()),
            "int64" => value.is_i64(),
            "date-time" => is_date_time(value.as_str().unwrap()),
            other => panic!("this judge does not know the format {other}"),
        },
        "description"
        | "type"
        | "default"
        | "nullable"
        | "properties"
        | "items"
        | "additionalProperties"
        | "required"
        | "x-kubernetes-list-type"
        | "x-kubernetes-list-map-keys"
        | "x-kubernetes-validations" => true,
        other => panic!("this judge does not know the keyword {other}"),
    }
}

/// CEL's regular expressions are those of the API server, RE2. Each evaluation compiles its pattern again, so
/// the verdicts are kept: lists and random specs repeat their names.
pub fn matches(pattern: &str, text: &str) -> bool {
    thread_local! {
        static VERDICTS: RefCell<HashMap<(String, String), bool>> = RefCell::default();
    }
    let verdict = || {
        let mut context = Context::default();
        context.add_variable_from_value("text", text.to_owned());
        context.add_variable_from_value("pattern", pattern.to_owned());
        let program = Program::compile("text.matches(pattern)").unwrap();
        program.execute(&context).unwrap() == CelValue::Bool(true)
    };
    let question = (pattern.to_owned(), text.to_owned());
    VERDICTS.with_borrow_mut(|verdicts| *verdicts.entry(question).or_insert_with(verdict))
}

/// As in k8s.io/kube-openapi/pkg/validation/strfmt.
fn is_date_time(text: &str) -> bool {
    let text = text.to_lowercase();
    let mut parts = text.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    let form = "^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$";
    matches("^[0-9]{4}-[0-9]{2}-[0-9]{2}$", date)
        && date.parse::<k8s_openapi::jiff::civil::Date>().is_ok()
        && matches(form, time)
        && time[..2] <= *"23"
        && time[3..5] <= *"59"
        && time[6..8] <= *"59"
}
