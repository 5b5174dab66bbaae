//! What is observed of a `ConfigMapSync`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conditions::readable;

/// Observed state of a ConfigMapSync.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ConfigMapSyncStatus {
    /// Generation of the spec that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Ready, SourceFound, Authorized, TargetsSynced, Conflicted, Paused, Migrated, Progressing: all present from the
    /// first reconciliation.
    #[serde(deserialize_with = "readable", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,

    /// The targets in numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counts: Option<Counts>,

    /// The sources one by one where there may be several, at most 128, those with a problem first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = MAX_SOURCES_SHOWN),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub sources: Vec<SourceStatus>,

    /// The targets one by one, at most 128, those with a problem first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = MAX_TARGETS_SHOWN),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["namespace"])
    )]
    pub targets: Vec<TargetStatus>,

    /// There are more targets or sources than are shown one by one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// Most targets that a status shows one by one.
pub const MAX_TARGETS_SHOWN: usize = 128;

/// Most sources that a status shows one by one.
pub const MAX_SOURCES_SHOWN: usize = 128;

/// Number of targets by state.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
#[schemars(extend("required" = ["desired", "synced", "failed", "conflicts"]))]
pub struct Counts {
    /// Namespaces that should have a copy of each source.
    pub desired: i32,
    /// Namespaces that have all copies.
    pub synced: i32,
    /// Namespaces in which a copy could not be written.
    pub failed: i32,
    /// Targets with a conflicting object that is not a copy.
    pub conflicts: i32,
    /// Sources, where there may be several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sources: Option<i32>,
}

/// State of one source.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
#[schemars(extend("required" = ["name", "synced", "failed", "conflicts"]))]
pub struct SourceStatus {
    /// Name of the source.
    pub name: String,
    /// Namespaces that hold its copy.
    pub synced: i32,
    /// Targets whose copy could not be written.
    pub failed: i32,
    /// Targets with a conflicting object that is not a copy.
    pub conflicts: i32,
    /// Machine-readable reason why it is not copied.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Human-readable message; never contains the content of an object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// State of one target namespace.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
#[schemars(extend("required" = ["namespace", "state"]))]
pub struct TargetStatus {
    /// Name of the target namespace.
    pub namespace: String,
    /// Synced, Waiting, Conflict or Failed.
    pub state: String,
    /// Machine-readable reason in CamelCase.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Human-readable message; never contains the content of an object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}
