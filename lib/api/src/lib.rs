//! The Kubernetes API of Config Weaver: kinds, ownership labels, conditions and the rules a spec must keep.
//!
//! Everything here is pure: no file, no network, no clock but what is passed in. The operator, the node
//! agent and the `weaver` tool agree on names and rules by using this crate and nothing else.
//!
//! # For other programs
//!
//! The types are those of [`kube`], so whatever it can do with a kind it can do with these. The crate is not published:
//! depend on it by path or by git, next to the `kube` and `k8s-openapi` of the same major versions as here. It
//! enables no `v1_*` feature of k8s-openapi: your program chooses one. The API server must be 1.33 or later.
//!
//! ```toml
//! [dependencies]
//! weaver-api = { path = "config-weaver/lib/api" }
//! kube = { version = "5", features = ["client", "runtime"] }
//! k8s-openapi = { version = "0.29", features = ["v1_36"] }
//! ```
//!
//! | module | for |
//! |---|---|
//! | [`v1beta1`] | the kinds themselves: `ConfigMapSync`, `ResourceSync`, `ServiceToken`, `NodeReport`; the version to use |
//! | [`validate`] | what is wrong with a spec, field by field, before anything is sent |
//! | [`conditions`] | names of the conditions in a status |
//! | [`kind`] | a kind of objects that are copied |
//! | [`names`] | what Kubernetes lets objects and namespaces be called |
//! | [`pattern`] | patterns of names: what one may be, and what it matches |
//! | [`ownership`] | ownership labels and annotations of copies: whose copy an object is |
//! | [`lease`] | what the operator's Lease says, and who else would lead |
//! | [`minting`] | the Role by which the operator may act as an account; tokens are minted by `weaver-tenant` |
//! | [`json`] | how many values a JSON text holds, before it is parsed |
//! | [`template`] | names and labels of what is generated in a number |
//! | [`crds`], [`reference`], [`schema`] | the definitions, and what they say of each field |
//! | [`v1alpha1`], [`convert`] | the deprecated version, and how versions are kept alike |
//! | [`webhook`] | where the conversion webhook is, and what it answers |
//!
//! ```
//! use weaver_api::v1beta1::{ConfigMapSync, ConfigMapSyncFields, ConfigMapSyncSpec};
//! use weaver_api::validate::validate;
//!
//! let mut spec: ConfigMapSyncSpec = serde_json::from_value(serde_json::json!({
//!     "serviceAccount": {"name": "team-a-sync"},
//!     "source": {"namespace": "team-a", "name": "settings"},
//!     "targets": {"namespaces": ["foo", "Bar"]},
//! }))?;
//! let faults = validate(Some(&spec)).unwrap_err();
//! assert_eq!(faults[0].field(), "spec.targets.namespaces[1]");
//!
//! spec.targets.get_or_insert_default().namespaces.pop();
//! assert!(validate(Some(&spec)).is_ok());
//! let sync = ConfigMapSync::new("settings", ConfigMapSyncFields { spec: Some(spec) });
//! assert_eq!(sync.metadata.name.as_deref(), Some("settings"));
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! The crate `weaver-client` creates, reads, lists, changes, watches and deletes objects of these kinds and of
//! any other.

#![warn(missing_docs)]

pub mod conditions;
pub mod convert;
pub mod crds;
pub mod json;
pub mod kind;
pub mod lease;
pub mod minting;
pub mod names;
pub mod ownership;
pub mod pattern;
pub mod reference;
pub mod schema;
pub mod template;
pub mod v1alpha1;
pub mod v1beta1;
pub mod validate;
#[cfg(test)]
mod versions_tests;
pub mod webhook;

/// The API group of all our kinds.
pub const GROUP: &str = "weaver.example.com";

/// Namespace of the operator's own account (`deploy/rbac/operator.yaml`).
pub const OPERATOR_NAMESPACE: &str = "config-weaver";

/// The operator's own `ServiceAccount`, in [`OPERATOR_NAMESPACE`].
pub const OPERATOR_ACCOUNT: &str = "weaver-operator";
