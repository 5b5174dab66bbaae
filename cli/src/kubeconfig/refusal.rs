//! Refusals: what must not be done, and its exit status.

use std::fmt::Display;

use anyhow::anyhow;

use super::authority;
use super::file::FileError;

/// Nothing was written, and a retry does not help.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\n  "))]
pub struct KubeconfigRefusal(pub Vec<String>);

/// The error of something that must not be done.
pub fn refusal(why: impl Display) -> anyhow::Error {
    KubeconfigRefusal(vec![why.to_string()]).into()
}

/// A file that was not read or written.
pub fn refused_file(error: FileError) -> anyhow::Error {
    match error {
        FileError::Authority { path, new } => KubeconfigRefusal(authority::refused(&path, &new)).into(),
        error if error.is_refusal() => refusal(error),
        error => anyhow!(error.to_string()),
    }
}
