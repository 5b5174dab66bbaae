//! The account that a resource names.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::{SUBDOMAIN_MAX, SUBDOMAIN_PATTERN};

/// Reference to a ServiceAccount of the resource's own namespace; there is no namespace field on purpose.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[schemars(extend("required" = ["name"]))]
pub struct ServiceAccountRef {
    /// Name of the ServiceAccount: a DNS subdomain of at most 253 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = SUBDOMAIN_MAX), regex(pattern = SUBDOMAIN_PATTERN))]
    pub name: Option<String>,
}
