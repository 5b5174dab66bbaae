//! Service tokens: a Secret that is kept filled with fresh tokens of accounts of its namespace.
//!
//! Pure: [`plan`] (which tokens are minted and when, which stay, which leave), [`why`] (for which reasons), [`accounts`]
//! (which accounts are made and removed), [`size`] (whether the tokens fit), [`secret`] (what the Secret looks like),
//! [`outcome`] (what follows from a reconciliation), [`status`] (a reconciliation as the status).
//!
//! Thin: [`fill`] (mints and writes), [`generate`] (makes and removes accounts), [`work`] (one resource),
//! [`reconcile`] (what this kind brings to the frame of each), [`state`] (what is remembered between reconciliations).
//!
//! The Secret is read and written as the tenant's own account, and is deleted with its resource, which owns it.
//! Tokens are minted by the operator, for accounts whose owner has agreed by a label; those of accounts that
//! the resource itself makes, as the tenant's own account, as which they are made too. All are bound to the
//! Secret: deleting it revokes them.

pub mod accounts;
pub mod fill;
pub mod generate;
pub mod outcome;
pub mod plan;
pub mod reconcile;
pub mod secret;
pub mod size;
pub mod state;
pub mod status;
pub mod why;
pub mod work;

/// What every reconcile of a `ServiceToken` has.
pub type Context = crate::controller::kind::Context<weaver_api::v1beta1::ServiceToken>;
