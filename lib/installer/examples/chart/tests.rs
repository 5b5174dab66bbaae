use serde_json::json;

use super::template::With::{Block, Expression, Lines, More, Optional};
use super::template::{Hole, RenderCondition, document};
use super::*;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn the_committed_chart_is_the_generated_one() {
    let files = files(&root()).unwrap();
    for (file, text) in &files {
        let committed = fs::read_to_string(root().join(file)).unwrap_or_default();
        assert!(committed == *text, "{file} is stale: run `make generate`");
    }
    let templates = fs::read_dir(root().join(CHART).join("templates")).unwrap();
    for entry in templates {
        let file = format!("{CHART}/templates/{}", entry.unwrap().file_name().into_string().unwrap());
        assert!(files.contains_key(&file), "{file} is of no manifest: run `make generate`");
    }
}

#[test]
fn each_value_is_read_by_a_template_and_each_that_is_read_has_a_row() {
    let read = |file: &str| Ok(fs::read_to_string(root().join(file)).unwrap());
    let settings = settings::all(&manifests::read(read).unwrap()).unwrap();
    let files = files(&root()).unwrap();
    let templates: Vec<&String> =
        files.iter().filter(|(file, _)| file.contains("/templates/")).map(|(_, text)| text).collect();
    let named = templates.iter().flat_map(|text| text.split("$.Values.").skip(1)).map(|rest| {
        rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '.').next().unwrap().trim_end_matches('.')
    });
    let mut named: Vec<&str> = named.collect();
    named.sort_unstable();
    named.dedup();
    let mut rows: Vec<&str> = settings.iter().map(|setting| setting.path).collect();
    rows.sort_unstable();
    assert_eq!(named, rows);
}

/// One document with one hole.
fn made(object: &serde_json::Value, at: &'static str, with: template::With) -> Result<String, String> {
    document(object, &[Hole { at, with }], RenderCondition::Always)
}

#[test]
fn a_field_becomes_a_template_where_it_is() {
    let object = json!({"a": {"b": 1, "list": [{"first": {"x": "w"}, "z": 2}]}});
    for (at, with, expected) in [
        ("/a/b", Expression("$.b"), "---\na:\n  b: {{ $.b }}\n  list:\n  - first:\n      x: w\n    z: 2\n"),
        (
            "/a/list/0/first",
            Block("$.c"),
            "---\na:\n  b: 1\n  list:\n  - first:\n      {{- toYaml $.c | nindent 6 }}\n    z: 2\n",
        ),
        (
            "/a/c",
            Optional("$.c"),
            "---\na:\n  b: 1\n  {{- with $.c }}\n  c:\n    {{- toYaml . | nindent 4 }}\n  {{- end }}\n  list:\n  \
             - first:\n      x: w\n    z: 2\n",
        ),
        (
            "/a/list",
            More("{}{{- if $.c }}\n{}- c\n{}{{- end }}"),
            "---\na:\n  b: 1\n  list:\n  - first:\n      x: w\n    z: 2\n  {{- if $.c }}\n  - c\n  {{- end }}\n",
        ),
        (
            "/a/list/0/first",
            Lines("{}{{- if $.c }}\n{}first: 1\n{}{{- end }}"),
            "---\na:\n  b: 1\n  list:\n  -\n    {{- if $.c }}\n    first: 1\n    {{- end }}\n    z: 2\n",
        ),
    ] {
        assert_eq!(made(&object, at, with).unwrap(), expected, "{at} {with:?}");
    }
}

#[test]
fn a_field_that_is_gone_is_an_error_and_braces_of_a_manifest_are_no_template() {
    let object = json!({"a": "{{ $value }} of }}", "list": "none"});
    for (at, with) in
        [("/b", Expression("$")), ("/list", More("")), ("/b/c", Optional("$")), ("/a/b", Block("$"))]
    {
        let said = made(&object, at, with).unwrap_err();
        assert!(said.contains(at), "{said}");
    }
    let text = document(&object, &[], RenderCondition::Always).unwrap();
    assert!(text.contains("{{ \"{{\" }} $value }} of }}"), "{text}");
}

#[test]
fn a_manifest_that_lacks_what_a_value_is_made_of_is_named() {
    let without = |file: &str| {
        let text = fs::read_to_string(root().join(file)).unwrap();
        Ok(text.replace("  replicas: 1\n", ""))
    };
    let said =
        manifests::read(without).and_then(|manifests| settings::all(&manifests)).unwrap_err().to_string();
    assert_eq!(said, "Deployment/weaver-operator: there is no /spec/replicas, of which a value is made");
}
