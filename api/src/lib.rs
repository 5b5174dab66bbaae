//! The Kubernetes API of Config Weaver: kinds, marks, conditions and the rules a spec must keep.
//!
//! Everything here is pure: no file, no network, no clock but what is passed in. The operator, the node
//! agent and the `weaver` tool agree on names and rules by using this crate and nothing else.

pub mod compatibility;
pub mod conditions;
pub mod convert;
pub mod crds;
pub mod marks;
pub mod minting;
pub mod names;
pub mod reference;
pub mod schema;
pub mod v1alpha1;
pub mod v1beta1;
pub mod validate;
pub mod versions;

/// The API group of all our kinds.
pub const GROUP: &str = "weaver.example.com";

/// Namespace of the operator's own account (`deploy/rbac/operator.yaml`).
pub const OPERATOR_NAMESPACE: &str = "config-weaver";

/// The operator's own `ServiceAccount`, in [`OPERATOR_NAMESPACE`].
pub const OPERATOR_ACCOUNT: &str = "weaver-operator";
