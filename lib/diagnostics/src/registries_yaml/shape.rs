//! Values of `registries.yaml` of another type than k3s has: it then reads nothing of the file, and does not
//! start. Pure.

use crate::finding::{Code, Finding, Place, RESTART_K3S, Remedy};
use crate::text_file::TextFile;
use crate::yaml_node::{YamlNode, YamlValue};

/// What k3s reads a part of the file as. A null value is fine for any of them.
#[derive(Clone, Copy)]
enum Shape {
    Text,
    Bool,
    Texts,
    /// Any names, each with the same shape.
    Named(&'static Shape),
    /// Certain names; others are passed over.
    Fields(&'static [(&'static str, Shape)]),
}

const FILE: Shape = Shape::Fields(&[("mirrors", Shape::Named(&MIRROR)), ("configs", Shape::Named(&CONFIG))]);
const MIRROR: Shape = Shape::Fields(&[("endpoint", Shape::Texts), ("rewrite", Shape::Named(&Shape::Text))]);
const CONFIG: Shape = Shape::Fields(&[("auth", AUTH), ("tls", TLS)]);
const AUTH: Shape =
    Shape::Fields(&[("username", Shape::Text), ("password", Shape::Text), ("auth", Shape::Text)]);
const TLS: Shape = Shape::Fields(&[
    ("ca_file", Shape::Text),
    ("cert_file", Shape::Text),
    ("key_file", Shape::Text),
    ("insecure_skip_verify", Shape::Bool),
]);

/// What is of another type, each with its line.
pub(super) fn lint(file: &TextFile, root: &YamlNode) -> Vec<Finding> {
    let mut findings = Vec::new();
    walk(file, "the file", root, FILE, &mut findings);
    findings
}

fn walk(file: &TextFile, name: &str, node: &YamlNode, shape: Shape, findings: &mut Vec<Finding>) {
    let wanted = match (shape, &node.value) {
        (_, YamlValue::Null) | (Shape::Text, YamlValue::Scalar(_)) => return,
        (Shape::Bool, YamlValue::Scalar(text)) if is_bool(file, node, text) => return,
        (Shape::Texts, YamlValue::List(items)) => {
            return items.iter().for_each(|item| walk(file, name, item, Shape::Text, findings));
        }
        (Shape::Named(of), YamlValue::Map(entries)) => {
            return entries.iter().for_each(|(key, value)| {
                walk(file, key.as_str().unwrap_or(name), value, *of, findings);
            });
        }
        (Shape::Fields(fields), YamlValue::Map(_)) => {
            for (field, of) in fields {
                if let Some(value) = node.get(field) {
                    walk(file, field, value, *of, findings);
                }
            }
            return;
        }
        (Shape::Text, _) => "a string",
        (Shape::Bool, _) => "true or false, without quotes",
        (Shape::Texts, _) => "a list, such as [\"https://HOST\"]",
        (Shape::Named(_) | Shape::Fields(_), _) => "a mapping, with a colon and a space after each name",
    };
    let place = Place::at(&file.path, node.line, node.column);
    let message =
        format!("{place}: `{name}` must be {wanted}: k3s does not start with {}", node.value.kind());
    let remedy = Remedy::new(format!("in {} write `{name}` as {wanted}", place.file));
    findings.push(
        Finding::new(Code::K3sConfigWrongType, message)
            .saw(place, format!("{name} is not {wanted}"))
            .remedy(remedy.command(RESTART_K3S)),
    );
}

/// A word that YAML makes a boolean of; in quotes it is a string.
fn is_bool(file: &TextFile, node: &YamlNode, text: &str) -> bool {
    let at = |number: u64| usize::try_from(number).ok()?.checked_sub(1);
    let start = || file.text.lines().nth(at(node.line)?)?.chars().nth(at(node.column)?);
    let words = ["y", "yes", "n", "no", "on", "off", "true", "false"];
    words.contains(&text.to_ascii_lowercase().as_str()) && !matches!(start(), Some('"' | '\''))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;
    use crate::registries_yaml;

    #[test]
    fn values_of_another_type_stop_k3s() {
        for (text, want) in [
            ("mirrors:\n  a.lan:\n    endpoint: https://a.lan\n", "/r.yaml:3:15: `endpoint` must be a list"),
            (
                "mirrors:\n  a.lan:\n    endpoint = [\"https://a.lan\"]\n",
                "/r.yaml:3:5: `a.lan` must be a mapping",
            ),
            ("mirrors:\n  a.lan:\n    endpoint: [{a: b}]\n", "/r.yaml:3:16: `endpoint` must be a string"),
            (
                "mirrors:\n  a.lan:\n    rewrite:\n    - \"^(.*)$\": \"p/$1\"\n",
                "/r.yaml:4:7: `rewrite` must be a mapping",
            ),
            ("mirrors:\n- docker.io:\n", "/r.yaml:2:3: `mirrors` must be a mapping"),
            ("configs: [a.lan]\n", "/r.yaml:1:10: `configs` must be a mapping"),
            ("configs:\n  a.lan: {auth: hunter2}\n", "/r.yaml:2:17: `auth` must be a mapping"),
            (
                "configs:\n  a.lan: {tls: {insecure_skip_verify: \"true\"}}\n",
                "/r.yaml:2:39: `insecure_skip_verify` must be true or false",
            ),
            (
                "configs:\n  a.lan: {tls: {insecure_skip_verify: yes please}}\n",
                "/r.yaml:2:39: `insecure_skip_verify` must be true or false",
            ),
            ("- mirrors\n", "/r.yaml:1:1: `the file` must be a mapping"),
            ("mirrors\n", "/r.yaml:1:1: `the file` must be a mapping"),
        ] {
            let found = registries_yaml::lint(&TextFile::new("/r.yaml", text), |_| true);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert_eq!((found[0].code, found[0].severity()), (Code::K3sConfigWrongType, Severity::Fail));
            assert!(found[0].message.starts_with(want), "{text}: {found:?}");
            assert!(!format!("{found:?}").contains("hunter2"));
        }
    }
}
