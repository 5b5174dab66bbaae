//! Selecting namespaces and sources by their labels, as `kubectl` users know it.

use std::collections::{BTreeMap, BTreeSet};

use kube::core::SelectorExt as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// Selects by labels; all requirements must hold.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Selector {
    /// Labels that must exist with exactly these values, at most 32; values of at most 63 characters. Default: none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend(
        "maxProperties" = 32,
        "additionalProperties" = {"type": "string", "maxLength": 63, "pattern": schema::LABEL_VALUE_PATTERN},
    ))]
    pub match_labels: BTreeMap<String, String>,

    /// Further requirements, at most 16. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub match_expressions: Vec<Expression>,
}

impl Selector {
    /// Does it ask for anything?
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }

    /// Keys of the labels that it looks at.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        let expressions = self.match_expressions.iter().map(|one| &one.key);
        self.match_labels.keys().chain(expressions).map(String::as_str)
    }

    /// As a list asks for it: `tier=dev,team in (a,b),!test`. What selects the same is the same text,
    /// whatever the order of its values.
    pub fn query(&self) -> String {
        let equal = self.match_labels.iter().map(|(key, value)| format!("{key}={value}"));
        equal.chain(self.match_expressions.iter().map(Expression::query)).collect::<Vec<_>>().join(",")
    }

    /// Does it select what has these labels? An expression without operator, which the schema refuses,
    /// selects nothing.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let equal = |(key, value): (&String, &String)| labels.get(key) == Some(value);
        self.match_labels.iter().all(equal) && self.match_expressions.iter().all(|one| one.matches(labels))
    }
}

impl Expression {
    fn query(&self) -> String {
        let Self { key, operator, values } = self;
        let values = || values.iter().map(String::as_str).collect::<BTreeSet<_>>();
        let values = || values().into_iter().collect::<Vec<_>>().join(",");
        match operator {
            Some(Operator::In) => format!("{key} in ({})", values()),
            Some(Operator::NotIn) => format!("{key} notin ({})", values()),
            Some(Operator::Exists) => key.clone(),
            Some(Operator::DoesNotExist) => format!("!{key}"),
            // Selects nothing, as [`Selector::matches`] has it.
            None => format!("{key},!{key}"),
        }
    }

    fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let (key, values) = (self.key.clone(), self.values.iter().cloned().collect());
        let expression = match self.operator {
            None => return false,
            Some(Operator::In) => kube::core::Expression::In(key, values),
            Some(Operator::NotIn) => kube::core::Expression::NotIn(key, values),
            Some(Operator::Exists) => kube::core::Expression::Exists(key),
            Some(Operator::DoesNotExist) => kube::core::Expression::DoesNotExist(key),
        };
        expression.matches(labels)
    }
}

/// A requirement on one label: either an operator that takes values and at least one of them, or one that
/// takes none.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
#[schemars(extend("x-kubernetes-validations" = [schema::rule_at(
    "values",
    "(self.operator in ['Exists', 'DoesNotExist']) != (has(self.values) && size(self.values) > 0)",
    "exactly one of: values, or an operator that takes none (Exists, DoesNotExist)",
)]))]
#[schemars(extend("required" = ["key", "operator"]))]
pub struct Expression {
    /// Key of the label, at most 317 characters.
    #[schemars(length(min = 1, max = 317))]
    pub key: String,

    /// How the label is compared: `In` and `NotIn` take values, `Exists` and `DoesNotExist` take none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator: Option<Operator>,

    /// Values of the label, each once, at most 64, of at most 63 characters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        inner(length(max = 63), regex(pattern = schema::LABEL_VALUE_PATTERN)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub values: Vec<String>,
}

/// How the label is compared: `In` and `NotIn` take values, `Exists` and `DoesNotExist` take none.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum Operator {
    /// The label has one of the values.
    In,
    /// The label has none of the values, or does not exist.
    NotIn,
    /// The label exists.
    Exists,
    /// The label does not exist.
    DoesNotExist,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_is_asked_for_in_the_words_of_the_api() {
        let selector: Selector = serde_json::from_value(json!({
            "matchLabels": {"tier": "dev", "a/b": ""},
            "matchExpressions": [
                {"key": "c", "operator": "In", "values": ["z", "y"]}, {"key": "d", "operator": "NotIn", "values": ["x"]},
                {"key": "e", "operator": "Exists"}, {"key": "f", "operator": "DoesNotExist"}, {"key": "g"},
            ],
        }))
        .unwrap();
        assert_eq!(selector.query(), "a/b=,tier=dev,c in (y,z),d notin (x),e,!f,g,!g");
        assert!(!selector.is_empty() && Selector::default().is_empty());
    }

    #[test]
    fn namespaces_are_selected_as_kubectl_selects_them() {
        let labels = [("tier", "dev"), ("team", "a")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        let labels = BTreeMap::from(labels);
        let expression = |key: &str, operator: &str, values: &[&str]| {
            let values = if values.is_empty() { json!([]) } else { json!(values) };
            json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]})
        };
        for (selector, expected) in [
            (json!({}), true),
            (json!({"matchLabels": {"tier": "dev"}}), true),
            (json!({"matchLabels": {"tier": "dev", "team": "b"}}), false),
            (json!({"matchLabels": {"none": ""}}), false),
            (expression("tier", "In", &["prod", "dev"]), true),
            (expression("none", "In", &["dev"]), false),
            (expression("tier", "NotIn", &["dev"]), false),
            (expression("none", "NotIn", &["dev"]), true),
            (expression("tier", "Exists", &[]), true),
            (expression("none", "Exists", &[]), false),
            (expression("tier", "DoesNotExist", &[]), false),
            (expression("none", "DoesNotExist", &[]), true),
            (json!({"matchExpressions": [{"key": "tier"}]}), false),
            (
                json!({"matchLabels": {"team": "a"}, "matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}),
                false,
            ),
        ] {
            let parsed: Selector = serde_json::from_value(selector.clone()).unwrap();
            assert_eq!(parsed.matches(&labels), expected, "{selector}");
        }
    }
}
