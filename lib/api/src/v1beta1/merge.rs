//! Merging several sources into one copy.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::SUBDOMAIN_MAX;
use crate::schema;

/// Makes one copy of all sources: it holds the keys of each, `spec.keys` applied, and is called `targets.name`.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Merge {
    /// What happens if two sources have the same key, whatever its values: `Refuse` leaves the copy as it is and names both
    /// sources, `First` takes the value of the source that comes first, `Last` that of the source that comes last. Default:
    /// Refuse.
    pub clash_policy: ClashPolicy,

    /// Keys whose values are joined instead, in the order of the sources, at most 256: a newline is put behind a value that
    /// does not end with one and is followed by another. For text such as certificates in PEM. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 256),
        inner(length(min = 1, max = SUBDOMAIN_MAX), regex(pattern = schema::KEY_PATTERN)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub join: Vec<String>,
}

/// What happens if two sources have the same key.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum ClashPolicy {
    /// The copy stays as it is.
    #[default]
    Refuse,
    /// The first source counts.
    First,
    /// The last source counts.
    Last,
}
