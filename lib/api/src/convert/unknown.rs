//! Fields that a schema of this program does not have.
//!
//! The API server prunes what its own definition does not have, so such a field is one of a newer definition: during an
//! upgrade, or after a rollback of the programs. Conversion takes them out of what is stored, works on the rest, and
//! puts them back when it returns. They keep their place: an entry of a list is found by the keys that its schema names,
//! or by its position.

use serde_json::Value;

use super::fields::Spec;
use super::types::known;

/// Takes out of `fields` what `schema` does not have, at every depth. The objects around it are taken along without
/// what is known of them, but for the keys of a list's entry.
pub(super) fn take(schema: &Value, fields: &mut Spec) -> Spec {
    let mut taken = Spec::new();
    fields.retain(|name, value| {
        let schema = known(schema, name);
        let found = match schema {
            Some(schema) => take_below(schema, value),
            None => Some(value.take()),
        };
        taken.extend(found.map(|found| (name.clone(), found)));
        schema.is_some()
    });
    taken
}

fn take_below(schema: &Value, value: &mut Value) -> Option<Value> {
    match value {
        Value::Object(fields) if schema["type"] == "object" => {
            let taken = take(schema, fields);
            (!taken.is_empty()).then_some(Value::Object(taken))
        }
        Value::Array(items) if schema["items"]["type"] == "object" => {
            let taken: Vec<Value> = items.iter_mut().map(|item| take_entry(schema, item)).collect();
            taken.iter().any(Value::is_object).then_some(Value::Array(taken))
        }
        _ => None,
    }
}

/// Null where there is nothing, so that every entry keeps its position.
fn take_entry(list: &Value, item: &mut Value) -> Value {
    let Some(fields) = item.as_object_mut() else { return Value::Null };
    let mut taken = take(&list["items"], fields);
    if taken.is_empty() {
        return Value::Null;
    }
    taken.extend(keys(list).filter_map(|key| Some((key.to_owned(), fields.get(key)?.clone()))));
    Value::Object(taken)
}

/// Puts back what [`take`] took, next to what is there now. What was in an object or an entry that is gone goes too:
/// an object that is made again says something by itself, as a selector without terms selects everything.
pub(super) fn put(schema: &Value, fields: &mut Spec, taken: Spec) {
    for (name, value) in taken {
        let Some(schema) = known(schema, &name) else {
            fields.insert(name, value);
            continue;
        };
        match value {
            Value::Object(taken) if schema["type"] == "object" => {
                if let Some(fields) = fields.get_mut(&name).and_then(Value::as_object_mut) {
                    put(schema, fields, taken);
                }
            }
            Value::Array(taken) => {
                if let Some(items) = fields.get_mut(&name).and_then(Value::as_array_mut) {
                    put_entries(schema, items, taken);
                }
            }
            _ => {}
        }
    }
}

fn put_entries(list: &Value, items: &mut [Value], taken: Vec<Value>) {
    let keys: Vec<&str> = keys(list).collect();
    for (position, entry) in taken.into_iter().enumerate() {
        let Value::Object(entry) = entry else { continue };
        let item = if keys.is_empty() {
            items.get_mut(position)
        } else {
            items.iter_mut().find(|item| keys.iter().all(|key| item.get(key) == entry.get(*key)))
        };
        if let Some(fields) = item.and_then(Value::as_object_mut) {
            put(&list["items"], fields, entry);
        }
    }
}

/// The fields by which entries of a list are distinguished.
fn keys(list: &Value) -> impl Iterator<Item = &str> {
    list["x-kubernetes-list-map-keys"].as_array().into_iter().flatten().filter_map(Value::as_str)
}
