//! What wakes the controller, besides the resources themselves.
//!
//! Metadata-only watches on sources and copies, opened *as the tenant*, shared by all resources that use the
//! same account, and closed when the last of them is gone; and one watch on namespaces with the operator's own
//! identity, which is never shown to a tenant.

mod held;
mod merged_watches;
mod namespaces;
mod resource;

use weaver_api::kind::ObjectKind;
use weaver_tenant::watch;

pub use held::{CopyWatches, LIMITS, WatchedObject, is_on_sources, seen};
pub use merged_watches::merged;
pub use namespaces::{Consent, NamespaceChange, Namespaces};
pub use resource::{ResourceRef, due};

/// The watches of a controller of ours.
pub type WatchSet = watch::WatchSet<CopyWatches>;
/// One of them, and a resource that uses it.
pub type Interest = watch::Interest<CopyWatches>;
pub type WatchKey = watch::WatchKey<ObjectKind>;
/// Resources that are due to be reconciled.
pub type Triggers = watch::Triggers<ResourceRef>;
