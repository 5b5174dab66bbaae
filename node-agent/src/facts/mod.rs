//! Readers: each fills a struct of `weaver_diagnostics` from the files of the host, and judges nothing.
//!
//! Guarantees: everything is read below the root directory that replaces `/`; a line that cannot be understood hides no
//! other. Failure: what cannot be read is `None`.

pub(crate) mod board;
pub(crate) mod certificate_dates;
pub(crate) mod identity;
pub(crate) mod kernel;
pub(crate) mod load;
pub(crate) mod mounts;
pub(crate) mod names;
pub(crate) mod network;
pub(crate) mod node;
pub(crate) mod runtime_files;
pub(crate) mod security;
pub(crate) mod storage;
pub(crate) mod system;
