//! Service tokens: a Secret that is kept filled with fresh tokens of accounts of its namespace.
//!
//! Pure: [`plan`] (which tokens are minted, which stay, which leave), [`secret`] (what the Secret looks like), [`outcome`]
//! (what follows from a visit), [`status`] (a visit as the status).
//!
//! Thin: [`fill`] (mints and writes), [`visit`] (one resource), [`reconcile`] (what kube's controller calls).
//!
//! The Secret is read and written as the tenant's own account, and goes with its resource: it is owned by it. Tokens are
//! minted by the operator, for accounts whose owner has agreed by a label, and bound to the Secret: deleting it revokes
//! them.

pub mod context;
pub mod fill;
pub mod outcome;
pub mod plan;
pub mod reconcile;
pub mod secret;
pub mod status;
pub mod visit;
