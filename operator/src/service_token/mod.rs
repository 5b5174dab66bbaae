//! Service tokens: a Secret that is kept filled with fresh tokens of accounts of its namespace.
//!
//! - [`claims`]: what a token says of itself.
//! - [`plan`]: which tokens are minted, which stay, which leave the Secret.

pub mod claims;
pub mod plan;
