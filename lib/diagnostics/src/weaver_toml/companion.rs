//! A file that `weaver.toml` may disagree with: what it says, or where and why that is not known.
//!
//! The unknown stops nothing, and its reason has none of the file's text: the file may contain secrets.

use std::fmt::Display;

use crate::{finding::Place, text_file::TextFile, yaml_node::SyntaxError};

/// A file that is there, and cannot be read or is no YAML.
#[derive(Debug, PartialEq, Eq)]
pub struct UnreadableFile {
    /// Where it stops to make sense.
    pub place: Place,
    pub why: String,
}

/// What `read` makes of a file, and nothing where there is none.
///
/// # Errors
/// What it says is not known.
pub fn read<T: Default>(
    path: &str,
    file: Result<Option<TextFile>, impl Display>,
    read: impl Fn(&TextFile) -> Result<T, SyntaxError>,
) -> Result<T, UnreadableFile> {
    match file {
        Ok(None) => Ok(T::default()),
        Ok(Some(file)) => read(&file).map_err(|error| UnreadableFile {
            place: Place { file: path.to_owned(), line: error.line, column: error.column },
            why: error.message,
        }),
        Err(error) => Err(UnreadableFile { place: Place::file(path), why: error.to_string() }),
    }
}
