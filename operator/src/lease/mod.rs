//! One operator writes at a time, by a Lease.
//!
//! Pure: [`plan`] (when a candidate takes over, and for how long a leader may write), [`weaver_api::lease`]
//! (what a Lease says), [`holder`] (who holds it, and whether that process is gone). Thin: [`hold`]
//! (acquires, renews, releases), [`lead`] (or does without), [`fence`] (stops writes below any retry).
//!
//! Guarantees: a process writes only within 55 s after it *sent* a renewal that succeeded, by a clock that counts
//! suspension; others take over once they have seen no change for 60 s by theirs. No clock of another machine, and no
//! timestamp, is ever compared. What a stopped process had sent before is made harmless by preconditions; only a
//! status has none, and is right again with the leader's next reconciliation.

pub mod fence;
pub mod hold;
pub mod holder;
pub mod lead;
pub mod plan;
