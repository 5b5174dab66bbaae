//! Secrets of `weaver.toml`: imported once, then empty in the file.
//!
//! None of them is in a fault or a `Debug`.

use std::{fmt, ops::Range};

use super::{
    fault::{Faults, Mistake},
    section::SpannedText,
};

/// What is to become of a secret.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SecretSetting {
    /// The file does not mention it.
    #[default]
    None,
    /// It was imported earlier and stays.
    Keep,
    Import(Secret),
}

#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// A secret that was imported earlier.
    pub const fn new(value: String) -> Self {
        Self(value)
    }

    /// The secret itself, for the file it is written to.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The setting of a key, and the position of a secret to import. `mistake` must not repeat the
/// value.
pub(super) fn read(
    text: SpannedText<'_>,
    mistake: impl Fn(&str) -> Option<Mistake>,
    faults: &mut Faults<'_>,
) -> (SecretSetting, Option<Range<usize>>) {
    let SpannedText { value, span } = text;
    if value.is_empty() {
        return (SecretSetting::Keep, None);
    }
    if let Some(mistake) = mistake(value) {
        faults.add(span.as_ref(), mistake);
        return (SecretSetting::None, None);
    }
    (SecretSetting::Import(Secret::new(value.to_owned())), span)
}
