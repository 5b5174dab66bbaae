//! `ConfigMapSync`: copies one object into other namespaces.

#![allow(clippy::duplicated_attributes, reason = "each printer column has a name, a type and a path")]

use std::collections::BTreeMap;
use std::fmt;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::merge::Merge;
use super::selector::Selector;
use super::service_account::ServiceAccountRef;
use super::sync_status::ConfigMapSyncStatus;
use super::targets::Targets;
use crate::names::{LABEL_MAX, LABEL_PATTERN, SUBDOMAIN_MAX, SUBDOMAIN_PATTERN};
use crate::schema;

/// The fields of a ConfigMapSync next to `metadata` and `status`.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "weaver.example.com",
    version = "v1beta1",
    kind = "ConfigMapSync",
    plural = "configmapsyncs",
    singular = "configmapsync",
    shortname = "cms",
    shortname = "cmsync",
    category = "weaver",
    namespaced,
    no_spec,
    status = "ConfigMapSyncStatus",
    doc = "Copies ConfigMaps or Secrets into other namespaces, with the rights of a ServiceAccount of this namespace and no others.",
    selectable = ".spec.serviceAccount.name",
    selectable = ".spec.source.kind",
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
    printcolumn(name = "Desired", type_ = "integer", json_path = ".status.counts.desired"),
    printcolumn(name = "Synced", type_ = "integer", json_path = ".status.counts.synced"),
    printcolumn(name = "Failed", type_ = "integer", json_path = ".status.counts.failed", priority = 1),
    printcolumn(name = "Conflicts", type_ = "integer", json_path = ".status.counts.conflicts", priority = 1),
    printcolumn(name = "Account", type_ = "string", json_path = ".spec.serviceAccount.name", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct ConfigMapSyncFields {
    /// What to copy, where to, and with whose rights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<ConfigMapSyncSpec>,
}

impl ConfigMapSync {
    /// The spec; `None` for an object without spec, which v1alpha1 allows.
    pub fn desired(&self) -> Option<&ConfigMapSyncSpec> {
        self.spec.spec.as_ref()
    }
}

/// Desired state of a ConfigMapSync.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["serviceAccount", "source", "targets"], "x-kubernetes-validations" = [
    // Both are about a new field, so it is plain that no more is refused.
    schema::rule_at(
        "merge",
        "!has(self.merge) || !has(self.source) || !has(self.source.name)",
        "what is merged is listed in names, or selected",
    ),
    // A null is there, and has no size.
    schema::rule_at(
        "targets.name",
        "!has(self.merge) || (has(self.targets) && has(self.targets.name) && size(self.targets.name) > 0)",
        "the merged copy needs a name",
    ),
]))]
pub struct ConfigMapSyncSpec {
    /// The ServiceAccount that reads the source and writes the copies. It must be in this resource's namespace, and
    /// the operator can do only what its RBAC allows. There is no default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account: Option<ServiceAccountRef>,

    /// The object that is copied, or the objects. They are read, never written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,

    /// Where the copies go and what they are called.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [schema::rule(
        // What was released comes first, so that it is plain that no more is refused.
        "(has(self.namespaces) && size(self.namespaces) > 0) || has(self.selector) || \
         (has(self.patterns) && size(self.patterns) > 0)",
        "at least one of namespaces, patterns and selector must say where the copies go",
    )]))]
    pub targets: Option<Targets>,

    /// Which keys are copied, and under what names: letters, digits, `-`, `_` and `.`, at most 253 characters each.
    /// Default: all, unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys: Option<Keys>,

    /// Makes one copy of all sources, called `targets.name`, instead of a copy of each. A merged Secret has the type
    /// Opaque; labels and annotations are those of `targets` alone. One that would have more than 1 MiB is refused.
    /// Default: each source has a copy of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merge: Option<Merge>,

    /// What happens if an object of that name exists without the ownership labels of a ConfigMapSync: `Refuse` leaves
    /// it as it is, `Adopt` takes it over. A copy of another ConfigMapSync is never taken, not even of one that is
    /// gone: `weaver orphans adopt` makes that an ordinary object. One of the same namespace and name counts as the
    /// same ConfigMapSync. Default: Refuse.
    pub conflict_policy: ConflictPolicy,

    /// What happens to the copies when the source is deleted, or no longer has the labels that are asked for: `Retain`
    /// keeps them, `Delete` removes them. A merged copy stays as it is while one of `source.names` does not exist, or
    /// loses its keys; of sources that are selected it always has those that are there. Default: Retain.
    pub source_deletion_policy: SourceDeletionPolicy,

    /// What happens to the copies when this resource is deleted: `Delete` removes them, `Orphan` leaves them
    /// behind, and no other ConfigMapSync takes them. Default: Delete.
    pub deletion_policy: DeletionPolicy,

    /// Interval in seconds at which copies are compared even if no change was seen: 60 to 86400, a multiple of 10.
    /// Default: 600.
    #[schemars(range(min = 60, max = 86_400), extend("multipleOf" = 10))]
    pub resync_seconds: i32,

    /// While true nothing is written; the condition `Paused` says so. If the resource is deleted meanwhile, its copies
    /// stay. Default: false.
    pub suspend: bool,

    /// While true nothing is written, and the status shows what would change. If the resource is deleted meanwhile,
    /// its copies stay. Default: false.
    pub dry_run: bool,
}

impl Default for ConfigMapSyncSpec {
    fn default() -> Self {
        Self {
            service_account: None,
            source: None,
            targets: None,
            keys: None,
            merge: None,
            conflict_policy: ConflictPolicy::default(),
            source_deletion_policy: SourceDeletionPolicy::default(),
            deletion_policy: DeletionPolicy::default(),
            resync_seconds: 600,
            suspend: false,
            dry_run: false,
        }
    }
}

/// The object that is copied, by its name; or the objects, by their labels.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
#[schemars(extend("required" = ["namespace"], "x-kubernetes-validations" = [
    // A name was required, and the selector is new: so it is plain that no more is refused.
    schema::rule(
        "has(self.name) || has(self.selector) || (has(self.names) && size(self.names) > 0)",
        "set one of name, names and selector",
    ),
    schema::rule_at("name", "!has(self.selector) || !has(self.name)", "name and selector exclude each other"),
    schema::rule_at(
        "names",
        "!has(self.names) || size(self.names) == 0 || !(has(self.name) || has(self.selector))",
        "names, name and selector exclude each other",
    ),
]))]
pub struct Source {
    /// Kind of the source, and of its copies. Default: ConfigMap.
    pub kind: SourceKind,

    /// Namespace of the source: a DNS label of at most 63 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = LABEL_MAX), regex(pattern = LABEL_PATTERN))]
    pub namespace: Option<String>,

    /// Name of the source: a DNS subdomain of at most 253 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = SUBDOMAIN_MAX), regex(pattern = SUBDOMAIN_PATTERN))]
    pub name: Option<String>,

    /// Instead of the name, where sources are merged: their names, each once, in their order, at most 32.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        inner(length(min = 1, max = SUBDOMAIN_MAX), regex(pattern = SUBDOMAIN_PATTERN)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub names: Vec<String>,

    /// Instead of the name: each object of the namespace with these labels is copied, at most 256; if more match,
    /// nothing is copied. Copies of a ConfigMapSync and the ConfigMap kube-root-ca.crt are never selected. An object that
    /// is deleted or loses its labels counts as deleted; see `sourceDeletionPolicy`. Merged sources are in the order of
    /// their names. The account needs the right to `list` and `get` all objects of the kind in the namespace, which
    /// gets no copies itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [schema::rule(
        "(has(self.matchLabels) && size(self.matchLabels) > 0) || \
         (has(self.matchExpressions) && size(self.matchExpressions) > 0)",
        "set at least one label",
    )]))]
    pub selector: Option<Selector>,
}

/// What can be copied.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
pub enum SourceKind {
    /// A ConfigMap.
    #[default]
    ConfigMap,
    /// A Secret.
    Secret,
}

impl SourceKind {
    /// Both kinds, in the order of their names.
    pub const ALL: [Self; 2] = [Self::ConfigMap, Self::Secret];

    /// Its name in manifests.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
        }
    }

    /// Its name in paths and Roles.
    pub fn plural(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmaps",
            Self::Secret => "secrets",
        }
    }
}

impl fmt::Display for SourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Which keys of the source are copied, and under what names.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub struct Keys {
    /// Only these keys are copied, at most 256. Default: all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 256),
        inner(length(min = 1, max = SUBDOMAIN_MAX), regex(pattern = schema::KEY_PATTERN)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub include: Vec<String>,

    /// These keys are not copied, at most 256. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 256),
        inner(length(min = 1, max = SUBDOMAIN_MAX), regex(pattern = schema::KEY_PATTERN)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub exclude: Vec<String>,

    /// Names that keys have in the copies, by their names in the source; at most 256. Default: none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend(
        "maxProperties" = 256,
        "additionalProperties" = {"type": "string", "minLength": 1, "maxLength": 253, "pattern": schema::KEY_PATTERN},
    ))]
    pub rename: BTreeMap<String, String>,
}

/// What happens where an object of that name exists without ownership labels.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum ConflictPolicy {
    /// Leave it unchanged.
    #[default]
    Refuse,
    /// Make it a copy.
    Adopt,
}

/// What happens to the copies when the source is deleted.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum SourceDeletionPolicy {
    /// Keep the copies.
    #[default]
    Retain,
    /// Delete the copies.
    Delete,
}

/// What happens to the copies when the ConfigMapSync is deleted.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum DeletionPolicy {
    /// Delete the copies first.
    #[default]
    Delete,
    /// Keep the copies as orphans.
    Orphan,
}
