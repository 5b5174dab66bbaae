//! Paths that `docs/reference/files.md` has of modules that are private.

pub use crate::boot_config::{ROOT_GROWN, STATE_DIR};
pub use crate::data_disk::{FAILURE, RECORD};
