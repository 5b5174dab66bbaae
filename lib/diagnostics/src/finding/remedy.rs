//! What to do about a finding.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A command to be typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    Text(Cow<'static, str>),
    /// The last one of a repair that the running kernel does not know of yet.
    Reboot,
    /// One for k3s' unit, as it is typed on a server and on a node that joins one.
    Unit {
        does: UnitAction,
        server: &'static str,
        agent: &'static str,
    },
}

/// What a command does to k3s' unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnitAction {
    Start,
    Stop,
    Restart,
    Show,
}

macro_rules! of_unit {
    ($does:ident, $before:literal, $after:literal) => {
        Command::Unit {
            does: UnitAction::$does,
            server: concat!($before, " k3s", $after),
            agent: concat!($before, " k3s-agent", $after),
        }
    };
}

pub const START_K3S: Command = of_unit!(Start, "sudo systemctl start", "");
pub const STOP_K3S: Command = of_unit!(Stop, "sudo systemctl stop", "");
pub const RESTART_K3S: Command = of_unit!(Restart, "sudo systemctl restart", "");
pub const K3S_STATUS: Command = of_unit!(Show, "systemctl status", "");
pub const K3S_STATUS_ANYWHERE: Command = Command::Unit {
    does: UnitAction::Show,
    server: "systemctl status k3s k3s-agent",
    agent: "systemctl status k3s k3s-agent",
};
pub const K3S_LOG: Command = of_unit!(Show, "journalctl -u", " -n 50");
pub const K3S_LOG_END: Command = of_unit!(Show, "sudo journalctl -b -u", " | tail -n 50");
pub const K3S_LOG_OF_FLAGS: Command = of_unit!(Show, "sudo journalctl -b -u", " | grep 'Unknown flag'");
pub const K3S_LOG_OF_CONTAINERD: Command = of_unit!(Show, "sudo journalctl -b -u", " | grep -i containerd");
pub const K3S_LOG_OF_KUBELET: Command = of_unit!(Show, "sudo journalctl -b -u", " | grep -i kubelet");

impl Deref for Command {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Reboot => "sudo reboot",
            Self::Unit { server, .. } => server,
        }
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl<T: Into<Cow<'static, str>>> From<T> for Command {
    fn from(text: T) -> Self {
        Self::Text(text.into())
    }
}

impl Serialize for Command {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for Command {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

impl PartialEq<&str> for Command {
    fn eq(&self, text: &&str) -> bool {
        **self == **text
    }
}

/// What to do about it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Remedy {
    /// What to do, in words.
    pub explain: String,
    /// The commands, in order, to be typed as they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub commands: Vec<Command>,
    /// The change to a file, as a unified diff.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// The same for `repair`, which makes it.
    #[serde(skip)]
    pub changes: Vec<FileChange>,
}

/// A file as it was seen and as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// Its path, as the host knows it.
    pub file: String,
    /// Its text; `None` where there is no such file.
    pub from: Option<String>,
    /// What it should be.
    pub to: String,
}

impl FileChange {
    /// As a unified diff.
    pub fn diff(&self) -> String {
        let old = self.from.as_deref().unwrap_or_default();
        let name = if self.from.is_some() { &self.file } else { "/dev/null" };
        similar::TextDiff::from_lines(old, &self.to).unified_diff().header(name, &self.file).to_string()
    }
}

impl Remedy {
    /// A remedy in words.
    pub fn new(explain: impl Into<String>) -> Self {
        Self { explain: explain.into(), ..Self::default() }
    }

    #[must_use]
    pub fn command(mut self, command: impl Into<Command>) -> Self {
        self.commands.push(command.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    /// Files below a directory, with their texts.
    fn sources(directory: &Path, into: &mut Vec<(String, String)>) {
        for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                sources(&path, into);
            } else {
                into.push((path.display().to_string(), fs::read_to_string(&path).unwrap()));
            }
        }
    }

    #[test]
    fn no_plain_text_is_a_command_for_the_unit_of_k3s() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut files = Vec::new();
        for directory in ["src", "../../node-agent/src"] {
            sources(&root.join(directory), &mut files);
        }
        let mut commands = 0;
        for (file, text) in files {
            let shipped = text.split("\n#[cfg(test)]").next().unwrap();
            for typed in shipped.split(".command(\"").skip(1) {
                let typed = typed.split('"').next().unwrap();
                commands += 1;
                let is_of_unit = typed.contains("systemctl ") || typed.contains("journalctl ");
                assert!(!(is_of_unit && typed.contains(" k3s")), "{file}: {typed}");
            }
        }
        assert!(commands > 50, "{commands}");
    }
}
