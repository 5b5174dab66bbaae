//! The labels of a Node that say what the board is and how it is. Pure.

use k8s_openapi::api::core::v1::Node;
use kube::core::PartialObjectMeta;
use serde_json::{Value, json};
use weaver_diagnostics::finding::Severity;

use crate::facts::node::NodeFacts;

/// Labels of a Node, below the group of our kinds.
const BOARD: &str = "weaver.example.com/board";
const BOOT_MEDIUM: &str = "weaver.example.com/boot-medium";
const HEALTH: &str = "weaver.example.com/health";

/// The labels of a Node; `null` for what is not known.
pub(super) fn labels(facts: &NodeFacts, health: Severity) -> Value {
    json!({
        BOARD: facts.board.as_deref().and_then(label_value),
        BOOT_MEDIUM: facts.boot_medium,
        HEALTH: health.to_string(),
    })
}

/// As much of a text as a label's value may have: `Raspberry Pi 4 Model B` becomes `raspberry-pi-4-model-b`.
fn label_value(text: &str) -> Option<String> {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let words: String = text.chars().map(plain).collect();
    let words = words.split('-').filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-");
    let value = words[..words.len().min(63)].trim_end_matches('-');
    (!value.is_empty()).then(|| value.to_owned())
}

/// Does the Node lack one of them, or have another value for it?
pub(super) fn differ(node: &PartialObjectMeta<Node>, labels: &Value) -> bool {
    let has = |key: &String| node.metadata.labels.as_ref().and_then(|labels| labels.get(key).cloned());
    labels
        .as_object()
        .is_some_and(|labels| labels.iter().any(|(key, value)| has(key).as_deref() != value.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_as_the_value_of_a_label() {
        for (text, want) in [
            ("Raspberry Pi 4 Model B Rev 1.5", Some("raspberry-pi-4-model-b-rev-1-5")),
            ("  ", None),
            ("größe", Some("gr-e")),
            ("a", Some("a")),
        ] {
            assert_eq!(label_value(text).as_deref(), want, "{text}");
        }
        let long = label_value(&format!("{}-{}", "a".repeat(62), "b".repeat(9))).unwrap();
        assert_eq!(long, "a".repeat(62));
    }

    #[test]
    fn labels_are_written_where_they_differ() {
        let facts = NodeFacts { board: Some("Pi".into()), ..NodeFacts::default() };
        let labels = labels(&facts, Severity::Warn);
        let node = |pairs: &[(&str, &str)]| {
            let mut node = PartialObjectMeta::<Node>::default();
            let pairs = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            node.metadata.labels = Some(pairs.collect());
            node
        };
        let same = [(BOARD, "pi"), (HEALTH, "warn"), ("other", "x")];
        assert!(!differ(&node(&same), &labels));
        assert!(differ(&node(&[(BOARD, "pi"), (HEALTH, "ok")]), &labels));
        assert!(
            differ(&node(&[(BOARD, "pi"), (HEALTH, "warn"), (BOOT_MEDIUM, "sd")]), &labels),
            "not known any more"
        );
        assert!(differ(&PartialObjectMeta::default(), &labels));
    }
}
