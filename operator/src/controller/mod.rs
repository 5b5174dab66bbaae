//! What the controllers share.
//!
//! Pure: [`allowance`] (how many events a tenant may cause), [`rate_limit`] (when a resource is reconciled
//! again), [`outcome`] (what one reconcile found, as conditions), [`verdicts`] (conditions that each kind
//! has), [`report`] (when the status is written), [`own_status`] (which events are no more than that), [`pause`] (what
//! is paused), [`quiet`] (how often a tenant may cause a line of the log), [`kept`] (what is kept of a resource). Thin:
//! [`frame`] (one reconcile), [`kind`] (what a kind brings to it), [`permits`] (how many run at once), [`events`] (what
//! others see), [`parse_failed`] (an object that cannot be read), [`state`] (what is remembered between reconciles).

pub mod allowance;
pub mod events;
pub mod frame;
pub mod kept;
pub mod kind;
pub mod outcome;
pub mod own_status;
pub mod parse_failed;
pub mod pause;
pub mod permits;
pub mod quiet;
pub mod rate_limit;
pub mod report;
pub mod state;
pub mod verdicts;
