//! Metadata-only watches as accounts: shared, counted, bounded, and backing off by kind of failure.
//!
//! A program has one [`WatchSet`] for each of its controllers. Its [`Consumer`] says what is kept of an object
//! and who is woken. A reconciliation joins the watches that it needs by their [`WatchKey`]s, keeps the
//! [`Interest`]s, looks at what they show, and leaves those that it does not need any more by dropping them.
//! [`Triggers`] carry what is due to the controller.
//!
//! What a watch shows is a reason to look and a way to spare a read. It is never the reason for a write without a
//! precondition: it may be late.

mod backoff;
mod consumer;
mod followed;
mod kept;
mod key;
mod list_watch;
mod set;
mod triggers;
mod users;

pub use backoff::{WatchBackoff, is_refused, with_backoff};
pub use consumer::{Concerned, Consumer, KindOf};
pub use kept::{NamespacedName, WatchLimits};
pub use key::{Sight, WatchKey, WatchSelector, WatchState};
pub use set::{Interest, SETTLE, WatchSet};
pub use triggers::Triggers;
