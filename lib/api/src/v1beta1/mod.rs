//! `weaver.example.com/v1beta1`: what is stored, and the only version that the programs work on.
//!
//! In serde every field of a spec is optional, `spec` included; `required` is in the schema only. The API
//! server validates the version that a request names, so an object written as v1alpha1 may be stored without
//! what is required here, and one that cannot be read must not blind a watch. [`crate::validate`] says what is
//! wrong with it.
//!
//! There is no rule at the root of an object, and no `required` but for the spec of a kind that never was without
//! one: below an unchanged `spec` both are ratcheted, so that a status, a label or a finalizer can still be written.

mod config_map_sync;
mod generate;
mod merge;
mod node_report;
mod resource_sync;
mod selector;
mod service_account;
mod service_token;
mod sync_status;
mod targets;

pub use config_map_sync::*;
pub use generate::*;
pub use merge::*;
pub use node_report::*;
pub use resource_sync::*;
pub use selector::*;
pub use service_account::*;
pub use service_token::*;
pub use sync_status::*;
pub use targets::*;
