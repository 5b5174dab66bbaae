//! What wakes the controller, besides the resources themselves.
//!
//! Metadata-only watches on sources and copies, opened *as the tenant*, shared by all resources that use the
//! same account, and closed when the last of them goes; and one watch on namespaces with the operator's own
//! identity, which is never shown to a tenant.

mod backoff;
mod held;
mod key;
mod merge;
mod namespaces;
mod set;
mod triggers;

pub use backoff::{Patience, patient};
pub use held::{MOST_BYTES, MOST_BYTES_EACH, MOST_WATCHES};
pub use key::{WatchKey, WatchState, What};
pub use merge::{is_refused, merged};
pub use namespaces::{Change as NamespaceChange, Consent, Namespaces, Traits};
pub use set::{Interest, WatchSet};
pub use triggers::{Guarded, ResourceRef, Triggers};
