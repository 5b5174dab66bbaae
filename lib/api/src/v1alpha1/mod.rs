//! `weaver.example.com/v1alpha1`: deprecated, served for as long as manifests of it are kept.
//!
//! `ConfigMapSync` accepts what the upstream operator's users have written, unchanged; `ServiceToken` is one
//! token. Nothing is required here and nothing gets stricter: what is missing is said in the status instead.
//! Everything is stored as [`crate::v1beta1`]; [`crate::convert`] loses nothing on the way.

mod config_map_sync;
mod service_token;

pub use config_map_sync::{
    ConfigMapSync, ConfigMapSyncFields, ConfigMapSyncSpec, ConfigMapSyncStatus, ServiceAccountRef, Source,
};
pub use service_token::{ServiceToken, ServiceTokenFields, ServiceTokenSpec, ServiceTokenStatus};
