//! What to do about a finding.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The last command of a repair that the running kernel does not know of yet.
pub const REBOOT: &str = "sudo reboot";

/// What to do about it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Remedy {
    /// What to do, in words.
    pub explain: String,
    /// The commands, in order, to be typed as they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
    /// The change to a file, as a unified diff.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// The same for `repair`, which makes it.
    #[serde(skip)]
    pub changes: Vec<Change>,
}

/// A file as it was seen and as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Its path, as the host knows it.
    pub file: String,
    /// Its text; `None` where there is no such file.
    pub from: Option<String>,
    /// What it should be.
    pub to: String,
}

impl Change {
    /// As a unified diff.
    #[must_use]
    pub fn diff(&self) -> String {
        let old = self.from.as_deref().unwrap_or_default();
        let name = if self.from.is_some() { &self.file } else { "/dev/null" };
        similar::TextDiff::from_lines(old, &self.to).unified_diff().header(name, &self.file).to_string()
    }
}

impl Remedy {
    /// A remedy in words.
    #[must_use]
    pub fn new(explain: impl Into<String>) -> Self {
        Self { explain: explain.into(), ..Self::default() }
    }

    /// Adds a command.
    #[must_use]
    pub fn command(mut self, command: impl Into<String>) -> Self {
        self.commands.push(command.into());
        self
    }
}
