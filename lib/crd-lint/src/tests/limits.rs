use super::*;

/// An older schema, a newer one, what breaks by it, and a newer one that breaks nothing.
macro_rules! rows {
    ($($old:tt => $breaking:tt, $said:literal, not $fine:tt;)*) => {
        [$((json!($old), json!($breaking), $said, json!($fine))),*]
    };
}

#[test]
fn numbers() {
    proven_of_x(
        &json!({"type": "number"}),
        rows! {
            {"minimum": 1} => {"minimum": 2}, ": minimum was 1, is 2", not {"minimum": 0};
            {} => {"minimum": -5}, ": minimum was absent, is -5", not {"title": "words"};
            {"maximum": 9} => {"maximum": 8}, ": maximum was 9, is 8", not {"maximum": 10};
            {} => {"maximum": 9}, ": maximum was absent, is 9", not {"description": "words"};
            {"minimum": 1} => {"minimum": 1, "exclusiveMinimum": true},
                ": exclusiveMinimum was absent, is true", not {"minimum": 0, "exclusiveMinimum": true};
            {"maximum": 9, "exclusiveMaximum": false} => {"maximum": 9, "exclusiveMaximum": true},
                ": exclusiveMaximum was false, is true", not {"maximum": 10, "exclusiveMaximum": true};
            {"minimum": 0, "exclusiveMinimum": true} => {"minimum": 0.5},
                ": minimum was 0, is 0.5", not {"minimum": 0};
            {"multipleOf": 10} => {"multipleOf": 20}, ": multipleOf was 10, is 20", not {"multipleOf": 5};
            {"multipleOf": 10} => {"multipleOf": 4}, ": multipleOf was 10, is 4", not {};
            {} => {"multipleOf": 2}, ": multipleOf was absent, is 2", not {"nullable": true};
            // What the format allows is no new bound.
            {"format": "int32"} => {"format": "int32", "minimum": -5},
                ": minimum was -2147483648, is -5",
                not {"format": "int32", "minimum": -2_147_483_648_i64, "maximum": 2_147_483_647};
            // 0.3 / 0.1 is not 3 to a computer.
            {"multipleOf": 0.3} => {"multipleOf": 0.2}, ": multipleOf was 0.3, is 0.2", not {"multipleOf": 0.1};
        },
    );
}

#[test]
fn text() {
    proven_of_x(
        &json!({"type": "string"}),
        rows! {
            {"minLength": 1} => {"minLength": 2}, ": minLength was 1, is 2", not {};
            {} => {"minLength": 1}, ": minLength was absent, is 1", not {"minLength": 0};
            {"maxLength": 63} => {"maxLength": 62}, ": maxLength was 63, is 62", not {"maxLength": 253};
            {"nullable": true} => {"nullable": true, "maxLength": 9},
                ": maxLength was absent, is 9", not {"nullable": true, "title": "words"};
            {"pattern": "^a"} => {"pattern": "^b"}, ": pattern was ^a, is ^b", not {};
            {} => {"pattern": "^b"}, ": pattern was absent, is ^b", not {"example": "b"};
            {"format": "date"} => {"format": "date-time"}, ": format was date, is date-time", not {};
            {} => {"format": "date"}, ": format was absent, is date", not {"nullable": true};
            {"enum": ["A", "B"]} => {"enum": ["B", "C"]},
                r#": value "A" is not accepted any more"#, not {"enum": ["B", "C", "A"]};
            {} => {"enum": ["A", "B"]},
                r#": enum was absent, is "A", "B""#, not {"externalDocs": {"url": "https://example.com"}};
            {"nullable": true} => {}, ": nullable was true, is absent", not {"nullable": true, "minLength": 0};
            {"nullable": true} => {"nullable": false},
                ": nullable was true, is false", not {"nullable": true, "title": "words"};
        },
    );
}

#[test]
fn lists() {
    proven_of_x(
        &json!({"type": "array", "items": {"type": "string"}}),
        rows! {
            {"minItems": 1} => {"minItems": 2}, ": minItems was 1, is 2", not {"minItems": 0};
            {} => {"maxItems": 5}, ": maxItems was absent, is 5", not {"minItems": 0};
            {"maxItems": 1000} => {"maxItems": 500}, ": maxItems was 1000, is 500", not {"maxItems": 1001};
            {} => {"uniqueItems": true}, ": uniqueItems was absent, is true", not {"uniqueItems": false};
            {} => {"x-kubernetes-list-type": "set"},
                ": x-kubernetes-list-type was absent, is set", not {"x-kubernetes-list-type": "atomic"};
            {"x-kubernetes-list-type": "set"}
                => {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]},
                ": x-kubernetes-list-type was set, is map", not {"x-kubernetes-list-type": "atomic"};
            {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b"]}
                => {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]},
                ": x-kubernetes-list-map-keys was a, b, is a",
                not {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["b", "a"]};
        },
    );
}

#[test]
fn maps() {
    proven_of_x(
        &json!({"type": "object", "additionalProperties": {"type": "string"}}),
        rows! {
            {} => {"minProperties": 1}, ": minProperties was absent, is 1", not {"minProperties": 0};
            {"maxProperties": 32} => {"maxProperties": 31},
                ": maxProperties was 32, is 31", not {"maxProperties": 33};
            {} => {"x-kubernetes-map-type": "atomic"},
                ": x-kubernetes-map-type was absent, is atomic", not {"x-kubernetes-map-type": "granular"};
            {"x-kubernetes-preserve-unknown-fields": true}
                => {"x-kubernetes-preserve-unknown-fields": true, "x-kubernetes-embedded-resource": true},
                ": x-kubernetes-embedded-resource was absent, is true",
                not {"x-kubernetes-preserve-unknown-fields": true, "x-kubernetes-embedded-resource": false};
        },
    );
}

#[test]
fn rules() {
    let text = json!({"type": "string"});
    let with = |rules: Value| json!({"x-kubernetes-validations": rules});
    let rows = rows! {
        [{"rule": "self != 'a'"}] => [{"rule": "self != 'b'", "message": "not b"}],
            "self != 'b'", not [{"rule": "self != 'a'", "message": "words", "reason": "FieldValueForbidden"}];
        [{"rule": "self != 'a'"}, {"rule": "self != 'b'"}] => [{"rule": "self != 'b'"}, {"rule": "self != 'c'"}],
            "self != 'c'", not [{"rule": "self != 'b'"}, {"rule": "self != 'a'"}];
        [{"rule": "self == 'a'"}] => [{"rule": "self == 'a' || self == 'b' ? self == 'b' : true"}],
            "self == 'a' || self == 'b' ? self == 'b' : true", not [{"rule": "self == 'a' || self == 'b'"}];
        [{"rule": "self == 'a'"}] => [{"rule": "self == 'a' || self == oldSelf"}],
            "self == 'a' || self == oldSelf", not [{"rule": "self == 'a' || self == 'old'"}];
        [{"rule": "self == 'a'"}] => [{"rule": "self == 'b' || self == 'a'"}],
            "self == 'b' || self == 'a'", not [{"rule": "self == 'a' || self == 'b' || self == 'c'"}];
        [{"rule": "self == oldSelf"}] => [{"rule": "self == oldSelf", "optionalOldSelf": true}],
            "self == oldSelf", not [{"rule": "self == oldSelf", "optionalOldSelf": false}];
        [{"rule": "self == oldSelf", "optionalOldSelf": true}] => [{"rule": "self==oldSelf"}],
            "self==oldSelf", not [{"rule": "self == oldSelf"}];
    };
    for (old, breaking, rule, fine) in rows {
        proven_of_x(&text, [(with(old), with(breaking), &*format!(": rule is new: {rule}"), with(fine))]);
    }
    let first = with(json!([{"rule": "self != 'a'"}]));
    proven_of_x(&text, [(json!({}), first, ": rule is new: self != 'a'", with(json!([])))]);
}

/// A field that was required, `a`, and one that is new, `b`.
#[test]
fn rules_that_each_older_value_keeps() {
    let with = |rule: &str, more: Value| {
        let fields = json!({"a": {"type": "string"}, "b": {"type": "string"}});
        let schema = json!({"properties": fields, "x-kubernetes-validations": [{"rule": rule}]});
        merged(&schema, &more)
    };
    let plain = |rule| with(rule, json!({}));
    let old = || json!({"properties": {"a": {"type": "string"}}, "required": ["a"]});
    let fine = || plain("has(self.a) || has(self.b)");
    let optional = || json!({"properties": {"a": {"type": "string"}}});
    for (old, rule, fine) in [
        (old(), "has(self.b) || has(self.a)", fine()),
        (old(), "!has(self.a) || !has(self.b)", plain("!has(self.b) || !has(self.a)")),
        (old(), "has(self.a) || true ? false : true", fine()),
        (old(), "has(self.a) || oldSelf.b == 'b'", fine()),
        (old(), "has(self.a) && (self.a == 'b') || has(self.b)", fine()),
        (optional(), "has(self.a) || has(self.b)", plain("!has(self.b) || has(self.a)")),
        // Each object has its name without a list.
        (old(), "!has(self.metadata) || has(self.b)", fine()),
    ] {
        let said = format!(": rule is new: {rule}");
        proven_of_x(&json!({"type": "object"}), [(old, plain(rule), &*said, fine)]);
    }
    proven_of_x(
        &json!({"type": "object"}),
        [
            // Each older object gets it, and would then have to keep the rest.
            (
                old(),
                with(
                    "!has(self.b) || self.a == 'z'",
                    json!({"properties": {"a": {"type": "string"}, "b": {"type": "string", "default": "x"}}}),
                ),
                ": rule is new: !has(self.b) || self.a == 'z'",
                fine(),
            ),
            // CEL writes the known `a-a` so.
            (
                merged(&old(), &json!({"properties": {"a": {"type": "string"}, "a-a": {"type": "string"}}})),
                with(
                    "!has(self.a__dash__a) || has(self.b)",
                    json!({"properties": {"a": {"type": "string"}, "b": {"type": "string"}, "a-a": {"type": "string"}}}),
                ),
                ": rule is new: !has(self.a__dash__a) || has(self.b)",
                with(
                    "has(self.a) || has(self.b)",
                    json!({"properties": {"a": {"type": "string"}, "b": {"type": "string"}, "a-a": {"type": "string"}}}),
                ),
            ),
        ],
    );
    let kept = json!({"x-kubernetes-preserve-unknown-fields": true});
    let unknown = merged(&old(), &kept);
    let rule = "!has(self.b) || !has(self.a)";
    let spec = |x: &Value| {
        with_spec(&json!({"type": "object", "properties": {"x": merged(&json!({"type": "object"}), x)}}))
    };
    let broken = breaks(&spec(&unknown), &spec(&with(rule, kept)));
    assert!(
        broken.iter().any(|change| change.to_string().contains(rule)),
        "what is kept unknown may have been there"
    );
}

#[test]
fn alternatives() {
    let (short, long) = (json!({"maxLength": 1}), json!({"minLength": 9}));
    proven_of_x(
        &json!({"type": "string"}),
        rows! {
            {"allOf": [short]} => {"allOf": [short, long]},
                r#": allOf was [{"maxLength":1}], is [{"maxLength":1},{"minLength":9}]"#, not {"allOf": []};
            {"anyOf": [short, long]} => {"anyOf": [long]},
                r#": anyOf was [{"maxLength":1},{"minLength":9}], is [{"minLength":9}]"#,
                not {"anyOf": [long, short, {"pattern": "^a"}]};
            {} => {"anyOf": [long]}, r#": anyOf was absent, is [{"minLength":9}]"#, not {"anyOf": []};
            {"oneOf": [short]} => {"oneOf": [short, long]},
                r#": oneOf was [{"maxLength":1}], is [{"maxLength":1},{"minLength":9}]"#, not {};
            {"oneOf": [short, long]} => {"oneOf": [short]},
                r#": oneOf was [{"maxLength":1},{"minLength":9}], is [{"maxLength":1}]"#,
                not {"oneOf": [long, short]};
            {"not": short} => {"not": long}, r#": not was {"maxLength":1}, is {"minLength":9}"#, not {};
            {} => {"not": short}, r#": not was absent, is {"maxLength":1}"#, not {"title": "words"};
        },
    );
}
