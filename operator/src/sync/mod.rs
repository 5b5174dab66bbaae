//! What is done for one `ConfigMapSync`, or one resource of another kind that asks for copies ([`declared`]).
//!
//! What a copy contains and what to do with a target is decided in [`weaver_copies`].
//!
//! Pure: [`targets`] (which changes of a namespace matter), [`outcome`] (what follows from a reconciliation),
//! [`verdicts`] and [`source_verdicts`] (its work as conditions), [`needed`] (rights), [`status`] (as a whole
//! status), [`backoff`] (when a target is tried again), [`cleanup_verdict`] (how long a deleted one waits).
//!
//! Thin: [`execute`] (one target, by [`write`]), [`fan_out`] (all of them), [`listed`] (many that are in sync, by one
//! list), [`progress`] (how far that is), [`sources`] (which there are), [`merging`] (several as one), [`work`] (one
//! resource), [`cleanup`] (a deleted one), [`events`], [`stale_copies`] (finding copies that are not wanted any more)
//! and `remove` (one of them), [`watches`], [`finalizer`], [`kinds`] (which the API server serves), [`reconcile`]
//! (what this kind adds to the reconcile loop), [`state`] (what is remembered between reconciliations), [`reactions`]
//! (which changes of namespaces cause a reconciliation) and [`access_checks`] (whose rights are asked for before one
//! of these).

pub mod access_checks;
pub mod backoff;
pub mod cleanup;
pub mod cleanup_verdict;
pub mod declared;
pub mod events;
pub mod execute;
pub mod fan_out;
pub mod finalizer;
pub mod kinds;
mod listed;
pub mod merging;
mod needed;
pub mod outcome;
pub mod progress;
pub mod reactions;
pub mod reconcile;
mod remove;
mod source_verdicts;
pub mod sources;
pub mod stale_copies;
pub mod state;
pub mod status;
pub mod targets;
pub mod verdicts;
pub mod watches;
pub mod work;
mod write;

/// What every reconcile of a `ConfigMapSync` has, or of another kind that asks for copies.
pub type Context<K = weaver_api::v1beta1::ConfigMapSync> = crate::controller::kind::Context<K>;

#[cfg(test)]
mod backoff_tests;
#[cfg(test)]
mod fake_server;
#[cfg(test)]
mod policies_tests;
#[cfg(test)]
mod reconcile_tests;
#[cfg(test)]
mod same_message_tests;
#[cfg(test)]
mod upgrade_tests;
#[cfg(test)]
mod world;
