//! What is done for one `ConfigMapSync`.
//!
//! Pure: [`copy`] (what a copy looks like), [`plan`] (what is to be done with one target), [`outcome`] (what
//! the outcomes mean as conditions), [`backoff`]. Thin: [`execute`] (one target), [`visit`] (one resource),
//! [`cleanup`] (a deleted one), [`leftovers`] (finding copies that are not wanted any more), [`reconcile`] (what
//! kube's controller calls), [`state`] (what is remembered between visits).

pub mod backoff;
pub mod cleanup;
pub mod copy;
pub mod execute;
pub mod leftovers;
pub mod outcome;
pub mod plan;
pub mod reconcile;
pub mod state;
pub mod visit;
