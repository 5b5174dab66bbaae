//! A text and the file it came from.

/// A text file that was read, and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextFile {
    /// Its path, as messages name it.
    pub path: String,
    pub text: String,
}

impl TextFile {
    /// A text and its path.
    #[must_use]
    pub fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        Self { path: path.into(), text: text.into() }
    }
}
