//! Service tokens: a Secret that is kept filled with fresh tokens of accounts of its namespace.
//!
//! - [`plan`]: which tokens are minted, which stay, which leave the Secret.

pub mod plan;
