//! `weaver crd lint` as a user runs it.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

/// A definition whose objects have these fields in `spec`.
fn definition(name: &str, spec: &Value) -> Value {
    let (plural, group) = name.split_once('.').unwrap();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"kind": "Thing", "plural": plural},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": spec}},
            }}}],
        },
    })
}

fn things(spec: &Value) -> Value {
    definition("things.example.com", spec)
}

/// The documents as one file of YAML, of which JSON is a part.
fn stream(documents: &[Value]) -> String {
    let each = documents.iter().map(|document| format!("---\n{document:#}\n"));
    each.collect()
}

struct Files(TempDir);

impl Files {
    fn new(old: &[Value], new: &[Value]) -> Self {
        let files = Self(tempfile::tempdir().unwrap());
        files.write("old.yaml", &stream(old));
        files.write("new.yaml", &stream(new));
        files
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.path().join(name), text).unwrap();
    }

    fn lint(&self, old: &str, new: &str, stdin: &str) -> (Option<i32>, String, String) {
        ran(self.0.path(), old, new, stdin)
    }
}

/// Exit status, standard output and standard error.
fn ran(directory: &Path, old: &str, new: &str, stdin: &str) -> (Option<i32>, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_weaver"))
        .args(["crd", "lint", old, new])
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It does not read what it refuses.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn each_incompatible_change_is_a_line_with_its_field_and_what_to_do() {
    let old = json!({"size": {"type": "integer", "maximum": 9}, "colour": {"type": "string"}});
    let new = json!({"size": {"type": "integer", "maximum": 5}, "shape": {"type": "string"}});
    let files = Files::new(&[things(&old)], &[things(&new)]);
    let (status, said, errors) = files.lint("old.yaml", "new.yaml", "");
    assert_eq!((status, errors.as_str()), (Some(1), ""));
    let expected = "things.example.com v1 spec.colour: the field is gone; keep it, described as deprecated, \
    and leave it \
         out in a new version\n\
         things.example.com v1 spec.size: maximum was 9, is 5; accept what was accepted, and be stricter in \
         a new version\n";
    assert_eq!(said, expected);
}

#[test]
fn what_breaks_nothing_is_no_word_and_success() {
    let old = json!({"size": {"type": "integer", "maximum": 9}});
    let new = json!({"size": {"type": "integer"}, "shape": {"type": "string"}});
    let files = Files::new(&[things(&old)], &[things(&new)]);
    let silent = (Some(0), String::new(), String::new());
    assert_eq!(files.lint("old.yaml", "new.yaml", ""), silent);
    // In the form that a cluster returns.
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [things(&old)]}).to_string();
    assert_eq!(files.lint("-", "new.yaml", &list), silent);
    assert_eq!(files.lint("old.yaml", "-", &things(&new).to_string()), silent);
}

#[test]
fn definitions_are_matched_by_name_and_other_objects_are_passed_over() {
    let (none, one) = (json!({}), json!({"x": {"type": "string"}}));
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}});
    let other = |spec| definition("others.example.com", spec);
    let third = definition("thirds.example.com", &none);
    let files = Files::new(
        &[things(&none), service.clone(), other(&one)],
        &[other(&none), service.clone(), things(&one), third],
    );
    let (status, said, _) = files.lint("old.yaml", "new.yaml", "");
    assert_eq!((status, said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.starts_with("others.example.com v1 spec.x: the field is gone; "), "{said}");

    let files = Files::new(&[things(&none), other(&none)], &[things(&none)]);
    let (status, said, _) = files.lint("old.yaml", "new.yaml", "");
    let gone =
        "others.example.com: the definition is gone; keep it until no object and no client of it is left\n";
    assert_eq!((status, said.as_str()), (Some(1), gone));
}

#[test]
fn files_that_cannot_be_compared_are_errors_that_say_why() {
    let files = Files::new(&[things(&json!({}))], &[definition("others.example.com", &json!({}))]);
    files.write("service.yaml", "kind: Service\n");
    files.write("broken.yaml", "kind: [\n");
    for (old, new, words) in [
        (
            "old.yaml",
            "new.yaml",
            "the files have no definition in common: old.yaml holds things.example.com, and new.yaml \
             holds others.example.com",
        ),
        ("old.yaml", "service.yaml", "service.yaml: it holds no CustomResourceDefinition, only Service"),
        ("broken.yaml", "new.yaml", "broken.yaml: line "),
        ("old.yaml", "-", "standard input holds no object"),
        ("absent.yaml", "new.yaml", "cannot read absent.yaml: "),
        ("-", "-", "only one of the two can be standard input: save the other one to a file"),
    ] {
        let (status, said, errors) = files.lint(old, new, "");
        assert_eq!((status, said.as_str()), (Some(2), ""), "{words}");
        assert!(errors.starts_with(&format!("error: {words}")), "{errors}");
    }
}

#[test]
fn words_of_a_definition_are_not_obeyed_by_a_terminal() {
    let rule = |rule: &str| json!({"x": {"type": "string", "x-kubernetes-validations": [{"rule": rule}]}});
    let files = Files::new(&[things(&rule("true"))], &[things(&rule("self\nerror: forged\u{1b}[2J"))]);
    let (status, said, _) = files.lint("old.yaml", "new.yaml", "");
    assert_eq!((status, said.lines().count()), (Some(1), 1), "{said}");
    assert!(!said.contains('\u{1b}'), "{said}");
}
