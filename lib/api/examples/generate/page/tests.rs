use serde_json::json;

use super::*;

/// A definition with each form that the page can show.
fn fixture() -> CustomResourceDefinition {
    let spec = json!({
        "type": "object",
        "description": "What shall be.",
        "required": ["level", "names"],
        "x-kubernetes-validations": [
            {"rule": "self.level > 0\n  || has(self.any)", "message": "level or any"},
            {"rule": "self.level != 7"},
        ],
        "properties": {
            "level": {"type": "integer", "format": "int32", "minimum": 0, "exclusiveMinimum": true, "maximum": 100,
                      "description": "How high,\nin metres."},
            "between": {"type": "integer", "minimum": 60, "maximum": 86400, "multipleOf": 10, "default": 600},
            "below": {"type": "number", "maximum": 1.5, "exclusiveMaximum": true},
            "names": {"type": "array", "maxItems": 1000, "minItems": 1, "x-kubernetes-list-type": "set",
                      "items": {"type": "string", "minLength": 1, "maxLength": 63, "pattern": "^(a|b)$"}},
            "words": {"type": "array", "items": {"type": "string"}, "uniqueItems": true, "minItems": 0,
                      "maxItems": 1},
            "parts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["key", "zone"],
                      "items": {"type": "object", "description": "One part.", "required": ["key"],
                                "properties": {"key": {"type": "string", "minLength": 2, "maxLength": 2}}}},
            "labels": {"type": "object", "maxProperties": 32,
                       "additionalProperties": {"type": "string", "maxLength": 63}},
            "policy": {"type": "string", "enum": ["Refuse", "Adopt"], "default": "Refuse",
                       "description": "What happens: `Refuse | Adopt`, or <other>."},
            "when": {"type": "string", "format": "date-time", "nullable": true},
            "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    "x-kubernetes-embedded-resource": true},
            "free": {"type": "object", "additionalProperties": true, "x-kubernetes-map-type": "atomic"},
            "port": {"x-kubernetes-int-or-string": true},
            "choice": {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}], "not": {"required": ["c"]}},
        },
    });
    let status = json!({"type": "object", "properties": {
        "count": {"type": "integer", "minimum": 0, "description": "How many."},
    }});
    let schema = json!({
        "type": "object", "description": "A thing.\n\nOf some kind.",
        "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
                       "spec": spec, "status": status},
    });
    serde_json::from_value(json!({
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Thing", "plural": "things", "shortNames": ["th", "tg"], "categories": ["all"]},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                 "selectableFields": [{"jsonPath": ".spec.level"}, {"jsonPath": ".spec.policy"}]},
                {"name": "v1beta1", "served": true, "storage": false, "deprecated": true,
                 "deprecationWarning": "example.com/v1beta1 Thing is deprecated; use v1",
                 "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-validations": [
                    {"rule": "self.metadata.name != 'a'", "message": "not a"}]}}},
                {"name": "v1alpha2", "served": true, "storage": false, "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {"status": {"type": "boolean"}}}}},
                {"name": "v1alpha1", "served": false, "storage": false, "deprecated": true},
            ],
        },
    }))
    .unwrap()
}

#[test]
fn the_page_of_a_definition_with_every_form() {
    let page = reference(&[fixture()]);
    assert!(page == include_str!("golden.md"), "golden.md says otherwise; the page is:\n{page}");
}

#[test]
fn definitions_stand_in_the_order_given() {
    let mut other = fixture();
    other.spec.names.kind = "Another".into();
    let page = reference(&[fixture(), other]);
    assert!(page.find("## Thing").unwrap() < page.find("## Another").unwrap());
    assert!(page.contains("| [Another](#another) | Namespaced | v1, v1beta1, v1alpha2, v1alpha1 |"));
}

#[test]
fn each_row_has_as_many_cells_as_its_table_has_columns() {
    let cells = |line: &str| line.replace(r"\|", "").matches('|').count();
    let page = reference(&weaver_api::crds::all());
    let mut columns = None;
    let mut rows = 0;
    for line in page.lines() {
        match (line.starts_with('|'), columns) {
            (false, _) => columns = None,
            (true, None) => columns = Some(cells(line)),
            (true, Some(columns)) => {
                rows += 1;
                assert_eq!(cells(line), columns, "{line}");
            }
        }
    }
    assert!(rows > 50);
}

#[test]
fn docs_api_md_is_the_generated_one() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/api.md");
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        committed == reference(&weaver_api::crds::all()),
        "docs/reference/api.md is stale: run `make generate`"
    );
}

#[test]
fn bars_stay_in_their_cell() {
    let row = vec!["1".to_owned(), String::new(), code("a || b")];
    let shown = "| a | b | c |\n|---|---|---|\n| 1 | | `a \\|\\| b` |\n";
    assert_eq!(table(&["a", "b", "c"], [row].into_iter()), shown);
    assert_eq!(table(&["a", "b"], std::iter::empty()), "");
}
