//! `ServiceToken` with one token.

#![allow(clippy::duplicated_attributes, reason = "each printer column has a name, a type and a path")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::config_map_sync::ServiceAccountRef;
use crate::conditions::readable;
use crate::names::{SUBDOMAIN_MAX, SUBDOMAIN_PATTERN};

/// The fields of a ServiceToken next to `metadata` and `status`.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "weaver.example.com",
    version = "v1alpha1",
    kind = "ServiceToken",
    plural = "servicetokens",
    singular = "servicetoken",
    shortname = "svctok",
    category = "weaver",
    namespaced,
    no_spec,
    storage = false,
    deprecated = "weaver.example.com/v1alpha1 ServiceToken is deprecated; use weaver.example.com/v1beta1 (`kubectl get svctok -o yaml` shows yours in it)",
    status = "ServiceTokenStatus",
    doc = "Keeps a Secret of this namespace filled with a fresh token of one ServiceAccount, under the key `token`.",
    selectable = ".spec.serviceAccount.name",
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
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct ServiceTokenFields {
    /// Whose token, and where to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<ServiceTokenSpec>,
}

/// Desired state of a ServiceToken.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [crate::schema::immutable("secretName")]))]
pub struct ServiceTokenSpec {
    /// The ServiceAccount of this namespace whose token it is; it also writes the Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<ServiceAccountRef>,

    /// Name of the Secret: a DNS subdomain of at most 253 characters. Default: the name of this resource. Cannot be
    /// changed, added or removed later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = SUBDOMAIN_MAX), regex(pattern = SUBDOMAIN_PATTERN))]
    pub secret_name: Option<String>,

    /// Audiences of the token, at most 16, of at most 253 characters each. Default: the API server's own audience.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 253)), extend("x-kubernetes-list-type" = "set"))]
    pub audiences: Vec<String>,

    /// Lifetime of the token in seconds, 600 to 86400. Default: 3600.
    #[serde(default = "default_lifetime")]
    #[schemars(range(min = 600, max = 86_400))]
    pub expiration_seconds: i64,

    /// What v1alpha1 cannot show and the annotation `weaver.example.com/converted` is too small for. Written by
    /// conversion: it cannot be changed, added or removed at v1alpha1. Edit such an object at v1beta1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip: Option<String>,
}

/// Observed state of a ServiceToken.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ServiceTokenStatus {
    /// Ready, Authorized, TokensFresh, Conflicted, Paused, Migrated: all present from the first reconciliation.
    /// Available is Ready.
    #[serde(default, deserialize_with = "readable", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

fn default_lifetime() -> i64 {
    3_600
}
