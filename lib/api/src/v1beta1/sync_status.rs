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

/// The targets in numbers.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
#[schemars(extend("required" = ["desired", "synced", "failed", "conflicts"]))]
pub struct Counts {
    /// Namespaces that shall hold a copy, or one of each source.
    pub desired: i32,
    /// Those that hold it, or all of them.
    pub synced: i32,
    /// Those where one could not be written.
    pub failed: i32,
    /// Targets with another object of that name.
    pub conflicts: i32,
    /// Sources, where there may be several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sources: Option<i32>,
}

/// One source of several.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
#[schemars(extend("required" = ["name", "synced", "failed", "conflicts"]))]
pub struct SourceStatus {
    /// Its name.
    pub name: String,
    /// Namespaces that hold its copy.
    pub synced: i32,
    /// Targets whose copy could not be written.
    pub failed: i32,
    /// Targets with another object of that name.
    pub conflicts: i32,
    /// One stable word for programs: why it is not copied.
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
    /// The namespace.
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
