use super::*;

/// An older schema, a newer one, what breaks by it, and a newer one that breaks nothing.
macro_rules! rows {
    ($($old:expr => $breaking:expr, $said:expr, not $fine:expr;)*) => {
        [$(($old, $breaking, $said, $fine)),*]
    };
}

fn text() -> Value {
    json!({"type": "string"})
}

/// An object with a field `z` that is required or not.
fn with_z(required: bool) -> Value {
    json!({"type": "object", "properties": {"z": text()}, "required": if required { vec!["z"] } else { vec![] }})
}

#[test]
fn fields_that_go_or_become_required() {
    let spec = |required: Value| json!({"type": "object", "properties": {"x": text(), "y": text()}, "required": required});
    let only_x = json!({"type": "object", "properties": {"x": text()}});
    proven(
        &spec(json!([])),
        &only_x,
        "spec.y: the field is gone",
        &json!({"type": "object", "properties": {"x": text(), "y": text(), "z": text()}}),
    );
    proven(
        &spec(json!(["x"])),
        &spec(json!(["x", "y"])),
        "spec.y: the field is now required",
        &spec(json!([])),
    );
    proven(&only_x, &spec(json!(["y"])), "spec.y: the field is now required", &spec(json!([])));
}

#[test]
fn a_new_object_may_require_what_it_likes_unless_it_is_required_itself() {
    let spec = |required: Value| json!({"type": "object", "properties": {"x": text(), "y": with_z(true)}, "required": required});
    let only_x = json!({"type": "object", "properties": {"x": text()}});
    proven(&only_x, &spec(json!(["y"])), "spec.y: the field is now required", &spec(json!([])));
}

#[test]
fn fields_of_fields_of_items_and_of_values() {
    let list = |items: Value| json!({"type": "array", "items": items});
    let map = |values: Value| json!({"type": "object", "additionalProperties": values});
    let required = "the field is now required";
    proven_of_x(
        &json!({}),
        rows! {
            with_z(false) => with_z(true),
                &*format!(".z: {required}"), not merged(&with_z(false), &json!({"title": "words"}));
            list(with_z(true)) => list(json!({"type": "object"})), "[].z: the field is gone", not list(with_z(false));
            list(list(with_z(false))) => list(list(with_z(true))),
                &*format!("[][].z: {required}"), not list(list(merged(&with_z(false), &json!({"nullable": true}))));
            map(with_z(false)) => map(with_z(true)),
                &*format!("{{}}.z: {required}"), not map(merged(&with_z(false), &json!({"nullable": true})));
            map(with_z(true)) => map(json!({"type": "object"})), "{}.z: the field is gone", not map(with_z(false));
        },
    );
}

#[test]
fn types() {
    let number = json!({"type": "integer"});
    let either = json!({"x-kubernetes-int-or-string": true});
    let list = |items: &Value| json!({"type": "array", "items": items});
    let words = |schema: &Value| merged(schema, &json!({"description": "words"}));
    proven_of_x(
        &json!({}),
        rows! {
            number.clone() => text(), ": type was integer, is string", not words(&number);
            number.clone() => json!({"type": "number"}), ": type was integer, is number", not words(&number);
            number.clone() => either.clone(), ": type was integer, is integer or string", not words(&number);
            either.clone() => number.clone(), ": type was integer or string, is integer", not words(&either);
            json!({}) => number.clone(), ": type was anything, is integer", not words(&json!({}));
            // One word about the type, none about all that stood below it.
            json!({"type": "object", "properties": {"y": number}, "default": {}})
                => json!({"type": "string", "maxLength": 1}),
                ": type was object, is string",
                not json!({"type": "object", "properties": {"y": number, "z": number}, "default": {}});
            list(&number) => list(&text()), "[]: type was integer, is string", not list(&words(&number));
            json!({"type": "array"}) => list(&text()),
                "[]: type was anything, is string", not words(&json!({"type": "array"}));
            list(&text()) => json!({"type": "array"}), "[]: type was string, is anything", not words(&list(&text()));
        },
    );
}

#[test]
fn defaults() {
    proven_of_x(
        &json!({"type": "integer"}),
        rows! {
            json!({"default": 1}) => json!({"default": 2}),
                ": default was 1, is 2", not json!({"default": 1, "maximum": null, "title": "words"});
            json!({"default": 1}) => json!({}),
                ": default was 1, is absent", not json!({"default": 1, "nullable": true});
            json!({}) => json!({"default": 2}), ": default was absent, is 2", not json!({"nullable": true});
        },
    );
    // No one has left out a field that was not there.
    proven(
        &json!({"type": "object"}),
        &json!({"type": "object", "default": {}}),
        "spec: default was absent, is {}",
        &json!({"type": "object", "properties": {"x": {"type": "integer", "default": 1}}}),
    );
}

#[test]
fn fields_that_are_not_described() {
    let kept = json!({"x-kubernetes-preserve-unknown-fields": true});
    let values = |values: Value| json!({"additionalProperties": values});
    let dropped = ": fields that are not described were kept, are dropped";
    proven_of_x(
        &json!({"type": "object"}),
        rows! {
            kept.clone() => json!({}), dropped, not values(json!(true));
            values(json!(true)) => json!({}), dropped, not kept.clone();
            values(text()) => values(json!(false)), dropped, not values(json!({"type": "string", "minLength": 0}));
            values(text()) => values(json!({"type": "integer"})),
                "{}: type was string, is integer", not values(merged(&text(), &json!({"nullable": true})));
            values(json!(true)) => values(text()), "{}: type was anything, is string", not values(kept.clone());
            values(text()) => kept.clone(),
                "{}: type was string, is anything", not values(merged(&text(), &json!({"title": "words"})));
            json!({}) => json!({"additionalProperties": text(), "minProperties": 1}),
                ": minProperties was absent, is 1", not values(text());
        },
    );
}

#[test]
fn a_name_under_which_anything_could_be_written_before() {
    let kept = |fields: Value| json!({"x-kubernetes-preserve-unknown-fields": true, "properties": fields});
    let texts = |fields: Value| json!({"additionalProperties": text(), "properties": fields});
    proven_of_x(
        &json!({"type": "object"}),
        rows! {
            kept(json!({})) => kept(json!({"y": text()})),
                ".y: type was anything, is string",
                not kept(json!({"y": {"x-kubernetes-preserve-unknown-fields": true}}));
            kept(json!({}))
                => kept(json!({"y": {"x-kubernetes-preserve-unknown-fields": true, "properties": {"z": text()}}})),
                ".y.z: type was anything, is string",
                not kept(json!({"y": {"x-kubernetes-preserve-unknown-fields": true, "title": "words"}}));
            texts(json!({})) => texts(json!({"y": {"type": "string", "maxLength": 1}})),
                ".y: maxLength was absent, is 1", not texts(json!({"y": text()}));
        },
    );
}

#[test]
fn schemas_that_no_api_server_takes_are_compared_all_the_same() {
    let tuple = json!({"type": "array", "items": [{"type": "string"}]});
    assert_eq!(breaks(&with_spec(&tuple), &with_spec(&tuple)), []);
    assert_eq!(breaks(&with_spec(&json!({"multipleOf": 2})), &with_spec(&json!({"multipleOf": 0}))).len(), 1);
    let some = with_spec(&json!({"type": "object"}));
    let mut none = some.clone();
    none.spec.versions[0].schema = None;
    assert_eq!(breaks(&none, &none), []);
    assert_eq!(breaks(&none, &some)[0].to_string(), "things.example.com v1: type was anything, is object");
}
