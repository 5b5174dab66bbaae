//! Accounts that a `ServiceToken` makes itself, and what is observed of them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::LABEL_MAX;
use crate::schema;
use crate::template::{KEY_TEMPLATE, LABEL_TEMPLATE, NAME_TEMPLATE, TEXT_TEMPLATE};

/// Accounts of one resource.
pub const MAX_GENERATED: i32 = 500;

/// Accounts that are made with the writer's rights, each with a token in the Secret. They are owned by this
/// resource and deleted with it. An account that exists already is never taken over.
///
/// Names, keys and values are templates: `{{n}}` is the index, from 1 on; `{{padded}}` the index of three
/// digits; `{{hash}}` the first eight hexadecimal digits of the SHA-256 of `NAMESPACE/NAME/n`, with namespace
/// and name of this resource.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["count", "name"], "x-kubernetes-validations" = [
    schema::rule_at(
        "name",
        "self.count <= 1 || self.name.contains('{{n}}') || self.name.contains('{{padded}}')",
        "two accounts would have one name: write {{n}} or {{padded}}",
    ),
    schema::rule_at(
        "key",
        "self.count <= 1 || !has(self.key) || self.key.contains('{{n}}') || self.key.contains('{{padded}}')",
        "two tokens would have one key: write {{n}} or {{padded}}",
    ),
]))]
pub struct Generate {
    /// How many accounts, 1 to 500. With fewer, those with the highest indexes are deleted.
    #[schemars(range(min = 1, max = MAX_GENERATED))]
    pub count: i32,

    /// Name of each account, with `{{n}}` or `{{padded}}` where there are several: a DNS label, at most 63
    /// characters as it is written here.
    #[schemars(length(min = 1, max = LABEL_MAX), regex(pattern = NAME_TEMPLATE))]
    pub name: String,

    /// Key of the Secret that holds its token: at most 63 characters as it is written here. Default: the name of the
    /// account.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = LABEL_MAX), regex(pattern = KEY_TEMPLATE))]
    pub key: Option<String>,

    /// Labels of the accounts, at most 16; values are templates of at most 63 characters. Keys of Kubernetes' own, of
    /// this operator's and of tools that track what they deploy are refused. Default: none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend(
        "maxProperties" = 16,
        "additionalProperties" = {"type": "string", "maxLength": LABEL_MAX, "pattern": LABEL_TEMPLATE},
        "x-kubernetes-validations" = [schema::no_reserved_key()],
    ))]
    pub labels: BTreeMap<String, String>,

    /// Annotations of the accounts, at most 16; values are templates of at most 256 characters. The same keys are
    /// refused. Default: none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend(
        "maxProperties" = 16,
        "additionalProperties" = {"type": "string", "maxLength": 256, "pattern": TEXT_TEMPLATE},
        "x-kubernetes-validations" = [schema::no_reserved_key()],
    ))]
    pub annotations: BTreeMap<String, String>,

    /// Audiences of the tokens, at most 16, of at most 253 characters each. Default: the API server's own audience.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 253)), extend("x-kubernetes-list-type" = "set"))]
    pub audiences: Vec<String>,

    /// Lifetime of the tokens in seconds, 600 to 86400. Default: 3600.
    #[schemars(range(min = 600, max = 86_400))]
    pub expiration_seconds: i64,
}

impl Default for Generate {
    fn default() -> Self {
        Self {
            count: 0,
            name: String::new(),
            key: None,
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            audiences: Vec::new(),
            expiration_seconds: 3_600,
        }
    }
}

/// Most accounts whose problem a status shows.
pub const MAX_PROBLEMS_SHOWN: usize = 16;

/// What is known of generated accounts.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["desired", "accounts", "fresh"]))]
pub struct GeneratedStatus {
    /// Accounts that there should be.
    pub desired: i32,
    /// Accounts of this resource's making that there are; more than are desired while some are still to be deleted.
    pub accounts: i32,
    /// Those whose token is in the Secret and valid.
    pub fresh: i32,

    /// When the first of these tokens expires (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub expires_at: Option<String>,

    /// The accounts with a problem, at most 16.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = MAX_PROBLEMS_SHOWN),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["account"])
    )]
    pub problems: Vec<AccountProblem>,
}

/// Why a generated account is not there, or its token is not valid.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
#[schemars(extend("required" = ["account"]))]
pub struct AccountProblem {
    /// Name of the account.
    pub account: String,
    /// What is wrong, and what to do.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}
