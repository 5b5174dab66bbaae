//! JSON merge patches (RFC 7396) that can be repeated on a newer object. Pure.
//!
//! A list is one value, and `null` is a field that is not there.

use serde_json::{Map, Value, json};

/// The object with the patch applied to it.
#[must_use]
pub fn merged(mut object: Value, patch: &Value) -> Value {
    json_patch::merge(&mut object, patch);
    object
}

/// The patch that turns `before` into `after`; `{}` where they are equal.
#[must_use]
pub fn difference(before: &Value, after: &Value) -> Value {
    let (Value::Object(was), Value::Object(is)) = (before, after) else { return after.clone() };
    let mut patch = Map::new();
    for field in was.keys().filter(|field| is.get(*field).is_none_or(Value::is_null)) {
        if !was[field].is_null() {
            patch.insert(field.clone(), Value::Null);
        }
    }
    for (field, value) in is.iter().filter(|(_, value)| !value.is_null()) {
        match was.get(field) {
            Some(same) if same == value => {}
            Some(other) if other.is_object() && value.is_object() => {
                patch.insert(field.clone(), difference(other, value));
            }
            _ => {
                patch.insert(field.clone(), value.clone());
            }
        }
    }
    Value::Object(patch)
}

/// The first field of the patch that differs between `seen` and `newer`, as a path: `spec.source.name`. There
/// the patch was made without knowing what is there now.
#[must_use]
pub fn overtaken(seen: &Value, newer: &Value, patch: &Value) -> Option<String> {
    let Value::Object(fields) = patch else { return (seen != newer).then(String::new) };
    if !(seen.is_object() && newer.is_object()) {
        return (seen != newer).then(String::new);
    }
    fields.iter().find_map(|(field, value)| {
        let below = overtaken(&seen[field.as_str()], &newer[field.as_str()], value)?;
        Some(if below.is_empty() { field.clone() } else { format!("{field}.{below}") })
    })
}

/// What users write of an object: labels, annotations, and all fields but `apiVersion`, `kind`, `metadata`
/// and `status`. Finalizers and owner references are left out: controllers write them.
#[must_use]
pub fn content(object: &Value) -> Value {
    let fields = object.as_object().into_iter().flatten();
    let own =
        fields.filter(|(field, _)| !["apiVersion", "kind", "metadata", "status"].contains(&field.as_str()));
    let mut content: Map<_, _> = own.map(|(field, value)| (field.clone(), value.clone())).collect();
    let mut metadata = json!({});
    for field in ["annotations", "labels"] {
        if let Some(value) = object["metadata"].get(field).filter(|value| !value.is_null()) {
            metadata[field] = value.clone();
        }
    }
    content.insert("metadata".into(), metadata);
    Value::Object(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_are_applied_as_in_the_rfc() {
        for (object, patch, expected) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!({"a": "foo"}), json!("bar"), json!("bar")),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ] {
            assert_eq!(merged(object.clone(), &patch), expected, "{object} {patch}");
        }
    }

    #[test]
    fn a_difference_applied_again_gives_the_same() {
        for (before, after, patch) in [
            (json!({"a": 1, "b": {"c": 2}}), json!({"a": 1, "b": {"c": 2}}), json!({})),
            (json!({"a": 1, "b": {"c": 2}}), json!({"b": {"c": 3}}), json!({"a": null, "b": {"c": 3}})),
            (json!({"a": [1, 2]}), json!({"a": [2]}), json!({"a": [2]})),
            (json!({"a": 1}), json!({"a": {"b": 1}}), json!({"a": {"b": 1}})),
            (json!({}), json!({"a": null, "b": {}}), json!({"b": {}})),
        ] {
            assert_eq!(difference(&before, &after), patch, "{before} {after}");
            let again = merged(before, &patch);
            assert_eq!(difference(&again, &after), json!({}), "{again} {after}");
        }
    }

    #[test]
    fn a_change_is_overtaken_only_where_it_is_made() {
        let seen = json!({"spec": {"a": 1, "list": [1], "b": {"c": 1}}, "status": 1});
        let newer = json!({"spec": {"a": 2, "list": [1, 2], "b": {"c": 1, "d": 2}}, "status": 2});
        for (patch, expected) in [
            (json!({"spec": {"b": {"c": 5}}}), None),
            (json!({"spec": {"new": true}}), None),
            (json!({"spec": {"a": 5}}), Some("spec.a")),
            (json!({"spec": {"list": [7]}}), Some("spec.list")),
            (json!({"spec": {"b": {"d": null}}}), Some("spec.b.d")),
            (json!({"spec": {"b": null}}), Some("spec.b")),
        ] {
            assert_eq!(overtaken(&seen, &newer, &patch).as_deref(), expected, "{patch}");
        }
    }

    #[test]
    fn the_content_is_what_users_write() {
        let object = json!({
            "kind": "A", "metadata": {"name": "a", "labels": {"b": "c"}, "annotations": null, "finalizers": ["d"]},
            "spec": {"e": 1}, "data": {"f": "g"}, "status": {},
        });
        let expected = json!({"metadata": {"labels": {"b": "c"}}, "spec": {"e": 1}, "data": {"f": "g"}});
        assert_eq!(content(&object), expected);
        assert_eq!(content(&Value::Null), json!({"metadata": {}}));
    }
}
