//! `ResourceSync`: copies objects of any namespaced kind into other namespaces.

#![allow(clippy::duplicated_attributes, reason = "each printer column has a name, a type and a path")]

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::config_map_sync::{
    ConfigMapSyncSpec, ConflictPolicy, DeletionPolicy, Source, SourceDeletionPolicy,
};
use super::selector::Selector;
use super::service_account::ServiceAccountRef;
use super::sync_status::ConfigMapSyncStatus;
use super::targets::Targets;
use crate::names::{LABEL_MAX, LABEL_PATTERN, SUBDOMAIN_MAX, SUBDOMAIN_PATTERN};
use crate::schema;

/// Longest `apiVersion`: a group, `/` and a version.
const API_VERSION_MAX: usize = SUBDOMAIN_MAX + 1 + LABEL_MAX;
/// What an `apiVersion` may be: `v1`, `apps/v1`.
const API_VERSION_PATTERN: &str =
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[a-z]([-a-z0-9]*[a-z0-9])?$";
/// What a kind may be called.
const KIND_PATTERN: &str = "^[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?$";

/// The fields of a ResourceSync next to `metadata` and `status`.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "weaver.example.com",
    version = "v1beta1",
    kind = "ResourceSync",
    plural = "resourcesyncs",
    singular = "resourcesync",
    shortname = "rsync",
    category = "weaver",
    namespaced,
    no_spec,
    status = "ConfigMapSyncStatus",
    doc = "Copies objects of any namespaced kind into other namespaces, with the rights of a ServiceAccount of this namespace and no others. A ConfigMapSync is for ConfigMaps and Secrets.",
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
    printcolumn(name = "Kind", type_ = "string", json_path = ".spec.source.kind"),
    printcolumn(name = "Source", type_ = "string", json_path = ".spec.source.name"),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".status.counts.desired"),
    printcolumn(name = "Synced", type_ = "integer", json_path = ".status.counts.synced"),
    printcolumn(name = "Failed", type_ = "integer", json_path = ".status.counts.failed", priority = 1),
    printcolumn(name = "Conflicts", type_ = "integer", json_path = ".status.counts.conflicts", priority = 1),
    printcolumn(name = "Account", type_ = "string", json_path = ".spec.serviceAccount.name", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct ResourceSyncFields {
    /// What to copy, where to, and with whose rights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<ResourceSyncSpec>,
}

impl ResourceSync {
    /// The spec; `None` for an object without spec.
    pub fn desired(&self) -> Option<&ResourceSyncSpec> {
        self.spec.spec.as_ref()
    }
}

/// Desired state of a ResourceSync.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["serviceAccount", "source", "targets"]))]
pub struct ResourceSyncSpec {
    /// The ServiceAccount that reads the source and writes the copies. It must be in this resource's namespace, and
    /// the operator can do only what its RBAC allows. There is no default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account: Option<ServiceAccountRef>,

    /// The object that is copied, or the objects. They are read, never written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<ResourceSource>,

    /// Where the copies go and what they are called.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [schema::rule(
        "(has(self.namespaces) && size(self.namespaces) > 0) || has(self.selector) || \
         (has(self.patterns) && size(self.patterns) > 0)",
        "at least one of namespaces, patterns and selector must say where the copies go",
    )]))]
    pub targets: Option<Targets>,

    /// What happens if an object of that name exists without the ownership labels of a ResourceSync: `Refuse` leaves
    /// it as it is, `Adopt` takes it over. A copy of another ResourceSync is never taken. Default: Refuse.
    pub conflict_policy: ConflictPolicy,

    /// What happens to a copy that cannot be updated because a field of it is immutable: `Refuse` leaves it as it is
    /// and says which field, `Replace` deletes it and creates it again. Default: Refuse.
    pub immutable_policy: ImmutablePolicy,

    /// What happens to the copies when the source is deleted, or no longer has the labels that are asked for: `Retain`
    /// keeps them, `Delete` removes them. Default: Retain.
    pub source_deletion_policy: SourceDeletionPolicy,

    /// What happens to the copies when this resource is deleted: `Delete` removes them, `Orphan` leaves them
    /// behind, and no other ResourceSync takes them. Default: Delete.
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

impl Default for ResourceSyncSpec {
    fn default() -> Self {
        let of_config_maps = ConfigMapSyncSpec::default();
        Self {
            service_account: None,
            source: None,
            targets: None,
            conflict_policy: ConflictPolicy::default(),
            immutable_policy: ImmutablePolicy::default(),
            source_deletion_policy: SourceDeletionPolicy::default(),
            deletion_policy: DeletionPolicy::default(),
            resync_seconds: of_config_maps.resync_seconds,
            suspend: of_config_maps.suspend,
            dry_run: of_config_maps.dry_run,
        }
    }
}

/// All but the kind and what becomes of immutable copies, as a ConfigMapSync says it: both are carried out alike.
impl From<ResourceSyncSpec> for ConfigMapSyncSpec {
    fn from(spec: ResourceSyncSpec) -> Self {
        let source = |ResourceSource { namespace, name, selector, .. }| Source {
            namespace,
            name,
            selector,
            ..Source::default()
        };
        Self {
            service_account: spec.service_account,
            source: spec.source.map(source),
            targets: spec.targets,
            keys: None,
            merge: None,
            conflict_policy: spec.conflict_policy,
            source_deletion_policy: spec.source_deletion_policy,
            deletion_policy: spec.deletion_policy,
            resync_seconds: spec.resync_seconds,
            suspend: spec.suspend,
            dry_run: spec.dry_run,
        }
    }
}

/// The object that is copied, by its kind and name; or the objects, by their labels.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["apiVersion", "kind", "namespace"], "x-kubernetes-validations" = [
    schema::rule("has(self.name) || has(self.selector)", "set one of name and selector"),
    schema::rule_at("name", "!has(self.selector) || !has(self.name)", "name and selector exclude each other"),
    schema::rule_at(
        "kind",
        "self.kind == oldSelf.kind && (self.apiVersion.contains('/') ? self.apiVersion.split('/')[0] : '') == \
         (oldSelf.apiVersion.contains('/') ? oldSelf.apiVersion.split('/')[0] : '')",
        "kind and API group cannot be changed, only the version: make a second ResourceSync for another kind",
    ),
    schema::rule_at(
        "apiVersion",
        "!(self.apiVersion == 'v1' && self.kind in ['ConfigMap', 'Secret']) && \
         !self.apiVersion.startsWith('weaver.example.com/')",
        "ConfigMaps and Secrets are copied by a ConfigMapSync, and kinds of weaver.example.com are never copied",
    ),
]))]
pub struct ResourceSource {
    /// API group and version of the source and of its copies, at most 317 characters: `apps/v1`, or `v1` for the core
    /// group. The group cannot be changed. There is no default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = API_VERSION_MAX), regex(pattern = API_VERSION_PATTERN))]
    pub api_version: Option<String>,

    /// Kind of the source, such as `Deployment`, of at most 63 characters, and of its copies; it cannot be changed.
    /// Some kinds are never copied: docs/how-to/copy-any-kind.md has the list. There is no default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = LABEL_MAX), regex(pattern = KIND_PATTERN))]
    pub kind: Option<String>,

    /// Namespace of the source: a DNS label of at most 63 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = LABEL_MAX), regex(pattern = LABEL_PATTERN))]
    pub namespace: Option<String>,

    /// Name of the source: a DNS subdomain of at most 253 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = SUBDOMAIN_MAX), regex(pattern = SUBDOMAIN_PATTERN))]
    pub name: Option<String>,

    /// Instead of the name: each object of the kind with these labels in the namespace is copied, at most 256; if
    /// more match, nothing is copied. Copies are never selected. An object that is deleted or loses its labels counts as
    /// deleted; see `sourceDeletionPolicy`. The account needs the right to `list` and `get` all objects of the kind in the
    /// namespace, which gets no copies itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [schema::rule(
        "(has(self.matchLabels) && size(self.matchLabels) > 0) || \
         (has(self.matchExpressions) && size(self.matchExpressions) > 0)",
        "set at least one label",
    )]))]
    pub selector: Option<Selector>,
}

/// What happens to a copy of which an immutable field differs from the source.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum ImmutablePolicy {
    /// Leave it unchanged.
    #[default]
    Refuse,
    /// Delete it and create it again.
    Replace,
}
