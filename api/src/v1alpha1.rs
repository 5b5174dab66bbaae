//! `weaver.example.com/v1alpha1`: accepts the manifests of the upstream operator unchanged.
//!
//! Nothing is required, not even `spec`, because upstream required nothing: what is missing is said in the
//! status instead ([`crate::validate`]). Fields never get stricter here.

#![allow(clippy::duplicated_attributes, reason = "each printer column has a name, a type and a path")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// The fields of a ConfigMapSync beside `metadata` and `status`.
///
/// `no_spec` lifts them onto the root of the object. That is how `spec` itself becomes optional: kube's derive
/// would make it required, and one object without it would then end the operator's watch.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "weaver.example.com",
    version = "v1alpha1",
    kind = "ConfigMapSync",
    plural = "configmapsyncs",
    singular = "configmapsync",
    shortname = "cms",
    shortname = "cmsync",
    category = "weaver",
    namespaced,
    no_spec,
    status = "ConfigMapSyncStatus",
    doc = "Copies one ConfigMap into other namespaces, with the rights of a ServiceAccount of this namespace and no others.",
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
    printcolumn(name = "Source", type_ = "string", json_path = ".spec.source.name"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct ConfigMapSyncFields {
    /// What to copy, where to, and as whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<ConfigMapSyncSpec>,
}

/// Desired state of a ConfigMapSync.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapSyncSpec {
    /// The ServiceAccount that reads the source and writes the copies. It is one of this resource's own
    /// namespace, always; only what it may do is done. Default: the account `default`.
    #[serde(default = "default_account")]
    pub service_account: ServiceAccountRef,

    /// The ConfigMap that is copied. It is read, never written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,

    /// Names of the namespaces that receive a copy, which has the name of the source. A namespace may come to
    /// exist later; duplicates are harmless.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sync_to_namespaces: Vec<String>,

    /// Has no effect. Kept because upstream's manifests may hold it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_num: Option<i32>,
}

/// Reference to a ServiceAccount of the resource's own namespace; there is no namespace field on purpose.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ServiceAccountRef {
    /// Name of the ServiceAccount: a DNS subdomain of at most 253 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
    )]
    pub name: Option<String>,
}

/// Where the copied ConfigMap is.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Source {
    /// Name of the ConfigMap; the copies have it too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,

    /// Namespace of the ConfigMap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// Observed state of a ConfigMapSync.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ConfigMapSyncStatus {
    /// Ready, SourceFound, Authorized, TargetsSynced, Conflicted: all present from the first visit.
    #[serde(default, deserialize_with = "readable", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,

    /// Has no effect. Kept because upstream's objects may hold it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<String>,
}

/// The conditions that can be read. The API server's idea of a `date-time` is wider than ours, and whoever may
/// write a status must not be able to make the whole object unreadable by it.
fn readable<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Condition>, D::Error> {
    let conditions = Vec::<Value>::deserialize(deserializer)?;
    Ok(conditions.into_iter().filter_map(|condition| serde_json::from_value(condition).ok()).collect())
}

fn default_account() -> ServiceAccountRef {
    ServiceAccountRef { name: Some("default".into()) }
}

impl ConfigMapSync {
    /// The spec, if the object has one.
    #[must_use]
    pub fn desired(&self) -> Option<&ConfigMapSyncSpec> {
        self.spec.spec.as_ref()
    }
}
