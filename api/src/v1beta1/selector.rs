//! Selecting namespaces by their labels, as `kubectl` users know it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// Selects namespaces by their labels; all that is said must hold.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Selector {
    /// Labels that a namespace must have with exactly these values, at most 32.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend(
        "maxProperties" = 32,
        "additionalProperties" = {"type": "string", "maxLength": 63, "pattern": schema::LABEL_VALUE_PATTERN},
    ))]
    pub match_labels: BTreeMap<String, String>,

    /// Further requirements, at most 16.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub match_expressions: Vec<Expression>,
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

    /// Values of the label, each once, at most 64.
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
    /// It has none of them, or is not there.
    NotIn,
    /// It is there.
    Exists,
    /// It is not.
    DoesNotExist,
}
