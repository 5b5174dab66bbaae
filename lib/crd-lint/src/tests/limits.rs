use super::*;

#[test]
fn numbers() {
    proven_of_x(
        &json!({"type": "number"}),
        [
            (json!({"minimum": 1}), json!({"minimum": 2}), ": minimum was 1, is 2", json!({"minimum": 0})),
            (json!({}), json!({"minimum": -5}), ": minimum was absent, is -5", json!({"title": "words"})),
            (json!({"maximum": 9}), json!({"maximum": 8}), ": maximum was 9, is 8", json!({"maximum": 10})),
            (json!({}), json!({"maximum": 9}), ": maximum was absent, is 9", json!({"description": "words"})),
            (
                json!({"minimum": 1}),
                json!({"minimum": 1, "exclusiveMinimum": true}),
                ": exclusiveMinimum was absent, is true",
                json!({"minimum": 0, "exclusiveMinimum": true}),
            ),
            (
                json!({"maximum": 9, "exclusiveMaximum": false}),
                json!({"maximum": 9, "exclusiveMaximum": true}),
                ": exclusiveMaximum was false, is true",
                json!({"maximum": 10, "exclusiveMaximum": true}),
            ),
            (
                json!({"minimum": 0, "exclusiveMinimum": true}),
                json!({"minimum": 0.5}),
                ": minimum was 0, is 0.5",
                json!({"minimum": 0}),
            ),
            (
                json!({"multipleOf": 10}),
                json!({"multipleOf": 20}),
                ": multipleOf was 10, is 20",
                json!({"multipleOf": 5}),
            ),
            (json!({"multipleOf": 10}), json!({"multipleOf": 4}), ": multipleOf was 10, is 4", json!({})),
            (json!({}), json!({"multipleOf": 2}), ": multipleOf was absent, is 2", json!({"nullable": true})),
            // What the format allows is no new bound.
            (
                json!({"format": "int32"}),
                json!({"format": "int32", "minimum": -5}),
                ": minimum was -2147483648, is -5",
                json!({"format": "int32", "minimum": -2_147_483_648_i64, "maximum": 2_147_483_647}),
            ),
            // 0.3 / 0.1 is not 3 to a computer.
            (
                json!({"multipleOf": 0.3}),
                json!({"multipleOf": 0.2}),
                ": multipleOf was 0.3, is 0.2",
                json!({"multipleOf": 0.1}),
            ),
        ],
    );
}

#[test]
fn text() {
    proven_of_x(
        &json!({"type": "string"}),
        [
            (json!({"minLength": 1}), json!({"minLength": 2}), ": minLength was 1, is 2", json!({})),
            (json!({}), json!({"minLength": 1}), ": minLength was absent, is 1", json!({"minLength": 0})),
            (
                json!({"maxLength": 63}),
                json!({"maxLength": 62}),
                ": maxLength was 63, is 62",
                json!({"maxLength": 253}),
            ),
            (
                json!({"nullable": true}),
                json!({"nullable": true, "maxLength": 9}),
                ": maxLength was absent, is 9",
                json!({"nullable": true, "title": "words"}),
            ),
            (json!({"pattern": "^a"}), json!({"pattern": "^b"}), ": pattern was ^a, is ^b", json!({})),
            (json!({}), json!({"pattern": "^b"}), ": pattern was absent, is ^b", json!({"example": "b"})),
            (
                json!({"format": "date"}),
                json!({"format": "date-time"}),
                ": format was date, is date-time",
                json!({}),
            ),
            (json!({}), json!({"format": "date"}), ": format was absent, is date", json!({"nullable": true})),
            (
                json!({"enum": ["A", "B"]}),
                json!({"enum": ["B", "C"]}),
                r#": value "A" is not accepted any more"#,
                json!({"enum": ["B", "C", "A"]}),
            ),
            (
                json!({}),
                json!({"enum": ["A", "B"]}),
                r#": enum was absent, is "A", "B""#,
                json!({"externalDocs": {"url": "https://example.com"}}),
            ),
            (
                json!({"nullable": true}),
                json!({}),
                ": nullable was true, is absent",
                json!({"nullable": true, "minLength": 0}),
            ),
            (
                json!({"nullable": true}),
                json!({"nullable": false}),
                ": nullable was true, is false",
                json!({"nullable": true, "title": "words"}),
            ),
        ],
    );
}

#[test]
fn lists() {
    proven_of_x(
        &json!({"type": "array", "items": {"type": "string"}}),
        [
            (
                json!({"minItems": 1}),
                json!({"minItems": 2}),
                ": minItems was 1, is 2",
                json!({"minItems": 0}),
            ),
            (json!({}), json!({"maxItems": 5}), ": maxItems was absent, is 5", json!({"minItems": 0})),
            (
                json!({"maxItems": 1000}),
                json!({"maxItems": 500}),
                ": maxItems was 1000, is 500",
                json!({"maxItems": 1001}),
            ),
            (
                json!({}),
                json!({"uniqueItems": true}),
                ": uniqueItems was absent, is true",
                json!({"uniqueItems": false}),
            ),
            (
                json!({}),
                json!({"x-kubernetes-list-type": "set"}),
                ": x-kubernetes-list-type was absent, is set",
                json!({"x-kubernetes-list-type": "atomic"}),
            ),
            (
                json!({"x-kubernetes-list-type": "set"}),
                json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}),
                ": x-kubernetes-list-type was set, is map",
                json!({"x-kubernetes-list-type": "atomic"}),
            ),
            (
                json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b"]}),
                json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}),
                ": x-kubernetes-list-map-keys was a, b, is a",
                json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["b", "a"]}),
            ),
        ],
    );
}

#[test]
fn maps() {
    proven_of_x(
        &json!({"type": "object", "additionalProperties": {"type": "string"}}),
        [
            (
                json!({}),
                json!({"minProperties": 1}),
                ": minProperties was absent, is 1",
                json!({"minProperties": 0}),
            ),
            (
                json!({"maxProperties": 32}),
                json!({"maxProperties": 31}),
                ": maxProperties was 32, is 31",
                json!({"maxProperties": 33}),
            ),
            (
                json!({}),
                json!({"x-kubernetes-map-type": "atomic"}),
                ": x-kubernetes-map-type was absent, is atomic",
                json!({"x-kubernetes-map-type": "granular"}),
            ),
            (
                json!({"x-kubernetes-preserve-unknown-fields": true}),
                json!({"x-kubernetes-preserve-unknown-fields": true, "x-kubernetes-embedded-resource": true}),
                ": x-kubernetes-embedded-resource was absent, is true",
                json!({"x-kubernetes-preserve-unknown-fields": true, "x-kubernetes-embedded-resource": false}),
            ),
        ],
    );
}

#[test]
fn rules() {
    let rules = |rules: Value| json!({"x-kubernetes-validations": rules});
    proven_of_x(
        &json!({"type": "string"}),
        [
            (
                rules(json!([{"rule": "self != 'a'"}])),
                rules(json!([{"rule": "self != 'b'", "message": "not b"}])),
                ": rule is new: self != 'b'",
                rules(json!([{"rule": "self != 'a'", "message": "words", "reason": "FieldValueForbidden"}])),
            ),
            (
                rules(json!([{"rule": "self != 'a'"}, {"rule": "self != 'b'"}])),
                rules(json!([{"rule": "self != 'b'"}, {"rule": "self != 'c'"}])),
                ": rule is new: self != 'c'",
                rules(json!([{"rule": "self != 'b'"}, {"rule": "self != 'a'"}])),
            ),
            (
                rules(json!([{"rule": "self == 'a'"}])),
                rules(json!([{"rule": "self == 'a' || self == 'b' ? self == 'b' : true"}])),
                ": rule is new: self == 'a' || self == 'b' ? self == 'b' : true",
                rules(json!([{"rule": "self == 'a' || self == 'b'"}])),
            ),
            (
                rules(json!([{"rule": "self == 'a'"}])),
                rules(json!([{"rule": "self == 'a' || self == oldSelf"}])),
                ": rule is new: self == 'a' || self == oldSelf",
                rules(json!([{"rule": "self == 'a' || self == 'old'"}])),
            ),
            (
                rules(json!([{"rule": "self == 'a'"}])),
                rules(json!([{"rule": "self == 'b' || self == 'a'"}])),
                ": rule is new: self == 'b' || self == 'a'",
                rules(json!([{"rule": "self == 'a' || self == 'b' || self == 'c'"}])),
            ),
            (
                json!({}),
                rules(json!([{"rule": "self != 'a'"}])),
                ": rule is new: self != 'a'",
                rules(json!([])),
            ),
            (
                rules(json!([{"rule": "self == oldSelf"}])),
                rules(json!([{"rule": "self == oldSelf", "optionalOldSelf": true}])),
                ": rule is new: self == oldSelf",
                rules(json!([{"rule": "self == oldSelf", "optionalOldSelf": false}])),
            ),
            (
                rules(json!([{"rule": "self == oldSelf", "optionalOldSelf": true}])),
                rules(json!([{"rule": "self==oldSelf"}])),
                ": rule is new: self==oldSelf",
                rules(json!([{"rule": "self == oldSelf"}])),
            ),
        ],
    );
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
    proven_of_x(
        &json!({"type": "object"}),
        [
            (old(), plain("has(self.b) || has(self.a)"), ": rule is new: has(self.b) || has(self.a)", fine()),
            (
                old(),
                plain("!has(self.a) || !has(self.b)"),
                ": rule is new: !has(self.a) || !has(self.b)",
                plain("!has(self.b) || !has(self.a)"),
            ),
            (
                old(),
                plain("has(self.a) || true ? false : true"),
                ": rule is new: has(self.a) || true ? false : true",
                fine(),
            ),
            (
                old(),
                plain("has(self.a) || oldSelf.b == 'b'"),
                ": rule is new: has(self.a) || oldSelf.b == 'b'",
                fine(),
            ),
            (
                old(),
                plain("has(self.a) && (self.a == 'b') || has(self.b)"),
                ": rule is new: has(self.a) && (self.a == 'b') || has(self.b)",
                fine(),
            ),
            (
                json!({"properties": {"a": {"type": "string"}}}),
                fine(),
                ": rule is new: has(self.a) || has(self.b)",
                plain("!has(self.b) || has(self.a)"),
            ),
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
            // CEL writes the known `a-a` so; and each object has its name without a list.
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
            (
                old(),
                plain("!has(self.metadata) || has(self.b)"),
                ": rule is new: !has(self.metadata) || has(self.b)",
                fine(),
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
        [
            (
                json!({"allOf": [short]}),
                json!({"allOf": [short, long]}),
                r#": allOf was [{"maxLength":1}], is [{"maxLength":1},{"minLength":9}]"#,
                json!({"allOf": []}),
            ),
            (
                json!({"anyOf": [short, long]}),
                json!({"anyOf": [long]}),
                r#": anyOf was [{"maxLength":1},{"minLength":9}], is [{"minLength":9}]"#,
                json!({"anyOf": [long, short, {"pattern": "^a"}]}),
            ),
            (
                json!({}),
                json!({"anyOf": [long]}),
                r#": anyOf was absent, is [{"minLength":9}]"#,
                json!({"anyOf": []}),
            ),
            (
                json!({"oneOf": [short]}),
                json!({"oneOf": [short, long]}),
                r#": oneOf was [{"maxLength":1}], is [{"maxLength":1},{"minLength":9}]"#,
                json!({}),
            ),
            (
                json!({"oneOf": [short, long]}),
                json!({"oneOf": [short]}),
                r#": oneOf was [{"maxLength":1},{"minLength":9}], is [{"maxLength":1}]"#,
                json!({"oneOf": [long, short]}),
            ),
            (
                json!({"not": short}),
                json!({"not": long}),
                r#": not was {"maxLength":1}, is {"minLength":9}"#,
                json!({}),
            ),
            (
                json!({}),
                json!({"not": short}),
                r#": not was absent, is {"maxLength":1}"#,
                json!({"title": "words"}),
            ),
        ],
    );
}
