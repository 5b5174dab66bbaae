//! Each field of a spec is in a manifest of `docs/reference/api-examples.md`, whose commands are typed by a test.

use serde_json::{Value, json};
use weaver_api::crds;
use weaver_api::reference::fields;
use weaver_tests::monitoring::file;

use crate::page::{Block, blocks};

const PAGE: &str = "docs/reference/api-examples.md";

/// The manifests of the blocks that are typed.
fn manifests(page: &str) -> Vec<Value> {
    let mut manifests = Vec::new();
    for Block { lines, .. } in blocks(page).into_iter().filter(|block| block.kind == "sh run") {
        let mut lines = lines.into_iter();
        while let Some(line) = lines.next() {
            if line == "kubectl apply -f - <<'EOF'" {
                let text: Vec<&str> = lines.by_ref().take_while(|line| *line != "EOF").collect();
                let objects: Vec<Value> = serde_saphyr::from_multiple(&text.join("\n")).unwrap();
                manifests.extend(objects);
            }
        }
    }
    manifests
}

/// Does an object have the field of this path? In a path, `[]` is any item of a list and `{}` any value of a map.
fn has(value: &Value, path: &str) -> bool {
    if let Some(rest) = path.strip_prefix("[]") {
        return value.as_array().into_iter().flatten().any(|item| has(item, rest));
    }
    if let Some(rest) = path.strip_prefix("{}") {
        return value.as_object().into_iter().flatten().any(|(_, value)| has(value, rest));
    }
    let path = path.strip_prefix('.').unwrap_or(path);
    if path.is_empty() {
        return true;
    }
    let (name, rest) = path.split_at(path.find(['.', '[', '{']).unwrap_or(path.len()));
    value.get(name).is_some_and(|value| has(value, rest))
}

#[test]
fn each_field_of_a_spec_is_in_an_example_that_is_applied() {
    let examples = manifests(&file(PAGE));
    let mut found = 0;
    let mut faults = Vec::new();
    for crd in crds::all() {
        for version in &crd.spec.versions {
            let (kind, api_version) = (&crd.spec.names.kind, format!("{}/{}", crd.spec.group, version.name));
            let of_version: Vec<&Value> = examples
                .iter()
                .filter(|example| example["kind"] == *kind && example["apiVersion"] == api_version)
                .collect();
            for field in fields(version).into_iter().filter(|field| field.path.starts_with("spec.")) {
                found += 1;
                if !of_version.iter().any(|example| has(example, &field.path)) {
                    faults.push(format!("{kind} {}: {}", version.name, field.path));
                }
            }
        }
    }
    assert!(found > 100, "{found}");
    assert!(faults.is_empty(), "{PAGE} has no example of\n{}", faults.join("\n"));
}

#[test]
fn a_manifest_counts_where_it_is_typed_and_a_field_where_it_is() {
    let page = "```yaml\na: 1\n```\n```sh run\nkubectl apply -f - <<'EOF'\nb: 1\n---\nc: 1\nEOF\n```\n";
    assert_eq!(manifests(page), [json!({"b": 1}), json!({"c": 1})]);
    let object = json!({"list": [{"a": 1}, {"b": []}], "map": {"x": "y"}});
    for path in ["list", "list[].a", "list[].b", "map{}"] {
        assert!(has(&object, path), "{path}");
    }
    for path in ["a", "list[].c", "list[].b[]", "list{}", "map[]", "map.y"] {
        assert!(!has(&object, path), "{path}");
    }
}
