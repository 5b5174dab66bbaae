//! `ConfigMapSync` as the upstream operator defined it.

#![allow(clippy::duplicated_attributes, reason = "each printer column has a name, a type and a path")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conditions::readable;
use crate::names::{SUBDOMAIN_MAX, SUBDOMAIN_PATTERN};

/// The fields of a ConfigMapSync next to `metadata` and `status`.
///
/// `no_spec` lifts them onto the root of the object. That is how `spec` itself becomes optional: kube's derive
/// would make it required, and one object without it would then end a client's watch.
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
    storage = false,
    deprecated = "weaver.example.com/v1alpha1 ConfigMapSync is deprecated; use weaver.example.com/v1beta1 (`kubectl get cms -o yaml` shows yours in it)",
    status = "ConfigMapSyncStatus",
    doc = "Copies one ConfigMap into other namespaces, with the rights of a ServiceAccount of this namespace and no others.",
    selectable = ".spec.serviceAccount.name",
    selectable = ".spec.source.namespace",
    selectable = ".spec.source.name",
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
    /// What to copy, where to, and with whose rights.
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
    // Not every API server holds to `format: int32`: that of k3s 1.36 does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = i32::MIN, max = i32::MAX))]
    pub test_num: Option<i32>,

    /// What v1alpha1 cannot show and the annotation `weaver.example.com/converted` is too small for. Written by
    /// conversion: it cannot be changed, added or removed at v1alpha1. Edit such an object at v1beta1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip: Option<String>,
}

/// Reference to a ServiceAccount of the resource's own namespace; there is no namespace field on purpose.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ServiceAccountRef {
    /// Name of the ServiceAccount: a DNS subdomain of at most 253 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = SUBDOMAIN_MAX), regex(pattern = SUBDOMAIN_PATTERN))]
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
    /// Ready, SourceFound, Authorized, TargetsSynced, Conflicted, Paused, Migrated, Progressing: all present from the
    /// first reconciliation. Available, SourceConfigMapFound and AllTargetsSynced are Ready, SourceFound and
    /// TargetsSynced under upstream's names.
    #[serde(default, deserialize_with = "readable", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,

    /// Has no effect. Kept because upstream's objects may hold it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<String>,
}

fn default_account() -> ServiceAccountRef {
    ServiceAccountRef { name: Some("default".into()) }
}
