//! What is copied, and how. No I/O: plain values in, a plan out.
//!
//! - [`object`]: an object of any kind, as one type; [`kinds`]: what is copied of one, and which kinds are not.
//! - [`content`] and [`metadata`]: content and metadata that a copy takes from its source, or from several
//!   ([`content::merge`]); [`copy`]: what one looks like.
//! - [`plan`]: what to do with one target, and with a stale copy.
//! - [`namespace`]: which namespaces a resource selects, and which let copies in.
//! - [`sources`]: which objects a resource copies where labels say so, and which of its copies are still wanted.
//! - [`finalizers`]: which finalizers a deleted resource waits for, and whether its copies are deleted with it.
//! - [`rights`]: which rights the work needs, and the Role that grants them; [`account_rights`]: the same of accounts
//!   that are made.
//!
//! The operator does what is decided here, with the tenant's rights; `weaver sync explain` and `weaver
//! uninstall` judge by the same functions. Of a Secret's content nothing is shown: not in an error, and not by `Debug`.

pub mod account_rights;
pub mod content;
pub mod copy;
pub mod finalizers;
pub mod kinds;
pub mod metadata;
pub mod namespace;
pub mod object;
pub mod plan;
pub mod rights;
pub mod sources;

#[cfg(test)]
mod specs;
