//! `ServiceToken`: keeps a Secret filled with fresh tokens.

#![allow(clippy::duplicated_attributes, reason = "each printer column has a name, a type and a path")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::generate::{Generate, GeneratedStatus};
use super::service_account::ServiceAccountRef;
use crate::conditions::readable;
use crate::names::{SUBDOMAIN_MAX, SUBDOMAIN_PATTERN};
use crate::schema;

/// The fields of a ServiceToken next to `metadata` and `status`.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "weaver.example.com",
    version = "v1beta1",
    kind = "ServiceToken",
    plural = "servicetokens",
    singular = "servicetoken",
    shortname = "svctok",
    category = "weaver",
    namespaced,
    no_spec,
    status = "ServiceTokenStatus",
    doc = "Keeps a Secret of this namespace filled with fresh tokens of ServiceAccounts of this namespace, one key each.",
    selectable = ".spec.writer.serviceAccount.name",
    selectable = ".spec.secretName",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].reason"#
    ),
    printcolumn(name = "Secret", type_ = "string", json_path = ".status.secretName"),
    printcolumn(name = "Tokens", type_ = "integer", json_path = ".status.counts.desired"),
    printcolumn(name = "Fresh", type_ = "integer", json_path = ".status.counts.fresh"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct ServiceTokenFields {
    /// Which tokens, in which Secret, and with whose rights it is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<ServiceTokenSpec>,
}

impl ServiceToken {
    /// The spec; `None` for an object without spec, which v1alpha1 allows.
    pub fn desired(&self) -> Option<&ServiceTokenSpec> {
        self.spec.spec.as_ref()
    }
}

/// Desired state of a ServiceToken.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    schema::immutable("secretName"),
    // Tokens were required, so no more is refused.
    schema::rule_at(
        "tokens",
        "has(self.tokens) || has(self.generate)",
        "one of tokens and generate must say whose tokens are kept",
    ),
]))]
#[schemars(extend("required" = ["writer"]))]
pub struct ServiceTokenSpec {
    /// Account that writes the Secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writer: Option<Writer>,

    /// Name of the Secret: a DNS subdomain of at most 253 characters. Default: the name of this resource; the status
    /// has the name in use. Cannot be changed, added or removed later.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = SUBDOMAIN_MAX), regex(pattern = SUBDOMAIN_PATTERN))]
    pub secret_name: Option<String>,

    /// The tokens of accounts that exist, 1 to 16, each under a key of its own. Required without `generate`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 16),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key"])
    )]
    pub tokens: Vec<Token>,

    /// Accounts that are created, each with a token in the same Secret. The writer needs the right to `create`, `list`,
    /// `patch` and `delete` each ServiceAccount and to `create` its tokens. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generate: Option<Generate>,

    /// Share of a token's lifetime, in percent, after which it is renewed: more than 0 and less than 100.
    /// Default: 80.
    #[schemars(extend(
        "minimum" = 0, "exclusiveMinimum" = true, "maximum" = 100, "exclusiveMaximum" = true,
    ))]
    pub renew_at_percent: i32,
}

impl Default for ServiceTokenSpec {
    fn default() -> Self {
        Self { writer: None, secret_name: None, tokens: Vec::new(), generate: None, renew_at_percent: 80 }
    }
}

/// Account that writes the Secret.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["serviceAccount"]))]
pub struct Writer {
    /// The ServiceAccount that writes the Secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account: Option<ServiceAccountRef>,
}

/// A token and the key that holds it.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["key", "serviceAccount"]))]
pub struct Token {
    /// Key of the Secret that holds the token: letters, digits, `-`, `_` and `.`, at most 253.
    #[schemars(length(min = 1, max = SUBDOMAIN_MAX), regex(pattern = schema::KEY_PATTERN))]
    pub key: String,

    /// Account that the token is of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account: Option<ServiceAccountRef>,

    /// Audiences of the token, at most 16, of at most 253 characters each. Default: the API server's own audience.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 253)), extend("x-kubernetes-list-type" = "set"))]
    pub audiences: Vec<String>,

    /// Lifetime of the token in seconds, 600 to 86400. Default: 3600.
    #[schemars(range(min = 600, max = 86_400))]
    pub expiration_seconds: i64,

    /// The token is not minted before this time (RFC 3339). Default: no delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub not_before: Option<String>,
}

impl Default for Token {
    fn default() -> Self {
        Self {
            key: String::new(),
            service_account: None,
            audiences: Vec::new(),
            expiration_seconds: 3_600,
            not_before: None,
        }
    }
}

/// Observed state of a ServiceToken.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServiceTokenStatus {
    /// Generation of the spec that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Ready, Authorized, TokensFresh, Conflicted, Paused, Migrated: all present from the first reconciliation.
    #[serde(deserialize_with = "readable", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,

    /// Name of the Secret in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_name: Option<String>,

    /// Number of tokens by state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counts: Option<TokenCounts>,

    /// Number of created accounts and of their tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generated: Option<GeneratedStatus>,

    /// The tokens of `spec.tokens` one by one. Never a token itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key"])
    )]
    pub tokens: Vec<TokenStatus>,
}

/// Number of tokens by state.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
#[schemars(extend("required" = ["desired", "fresh"]))]
pub struct TokenCounts {
    /// Tokens that the Secret should hold.
    pub desired: i32,
    /// Valid tokens that the Secret holds.
    pub fresh: i32,
}

/// What is known of one token.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["key"]))]
pub struct TokenStatus {
    /// Key of the Secret that holds the token.
    pub key: String,

    /// Uid of the ServiceAccount that it was minted for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account_uid: Option<String>,

    /// When it was issued (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub issued_at: Option<String>,

    /// When it expires (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub expires_at: Option<String>,

    /// Why the token is missing or not valid, if it is.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}
