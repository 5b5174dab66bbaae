//! The codes of findings, one row each.
//!
//! A code is stable forever: scripts, the override file and the documentation refer to it.

use std::{borrow::Cow, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::category::Category;
use crate::finding::{
    remedy::{
        Command, K3S_LOG, K3S_LOG_OF_CONTAINERD, K3S_LOG_OF_FLAGS, K3S_LOG_OF_KUBELET, K3S_STATUS,
        K3S_STATUS_ANYWHERE, RESTART_K3S, Remedy, START_K3S, STOP_K3S,
    },
    severity::Severity,
};

const K3S_CONFIGURATION: &str = "https://docs.k3s.io/installation/configuration";
const K3S_CERTIFICATES: &str = "https://docs.k3s.io/cli/certificate";
const K3S_REQUIREMENTS: &str = "https://docs.k3s.io/installation/requirements";
const K3S_CONTAINERD: &str = "https://docs.k3s.io/advanced";
const K3S_REGISTRIES: &str = "https://docs.k3s.io/installation/private-registry";
const K3S_ACCESS: &str = "https://docs.k3s.io/cluster-access";
const K3S_AIRGAP: &str = "https://docs.k3s.io/installation/airgap";
const K3S_TOKEN: &str = "https://docs.k3s.io/cli/token";
const RBAC: &str = "https://kubernetes.io/docs/reference/access-authn-authz/rbac/";
const ADMISSION: &str =
    "https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/";

const CHECK: Command = text("sudo weaver-node-agent check");
const DRY_RUN: Command = text("sudo weaver-node-agent repair --dry-run");
const REPAIR: Command = text("sudo weaver-node-agent repair");

const fn text(command: &'static str) -> Command {
    Command::Text(Cow::Borrowed(command))
}

macro_rules! command {
    ($text:literal) => {
        text($text)
    };
    ($name:ident) => {
        $name
    };
}

/// What is known of a code, whatever the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeRow {
    pub category: Category,
    /// The short id, such as `N-02`.
    pub id: &'static str,
    /// The readable name, such as `cgroup-parameter-on-second-line`.
    pub name: &'static str,
    /// The name as the reason of a condition or an event, such as `MemoryCgroupAbsent`.
    pub reason: &'static str,
    /// The worst severity that a finding of this code can have.
    pub severity: Severity,
    /// What is the case, in a sentence.
    pub title: &'static str,
    /// Why it happens, in whole sentences.
    pub cause: &'static str,
    /// What to do, in words; empty where there is nothing to do.
    pub remedy: &'static str,
    /// What to type, in order; words in capitals are placeholders.
    pub commands: &'static [Command],
    pub links: &'static [&'static str],
}

impl CodeRow {
    /// The remedy as a finding has it.
    pub fn remedy(&self) -> Remedy {
        Remedy { commands: self.commands.to_vec(), ..Remedy::new(self.remedy) }
    }

    /// The same with `value` for a word in capitals of its commands.
    pub fn remedy_for(&self, word: &str, value: &str) -> Remedy {
        let commands = self.commands.iter().map(|command| match command {
            Command::Text(text) => text.replace(word, value).into(),
            other => other.clone(),
        });
        Remedy { commands: commands.collect(), ..Remedy::new(self.remedy) }
    }
}

/// Makes the enum and its table from the rows of all parts, which hand them on from one to the next.
macro_rules! codes {
    ([] $($category:ident { $(
        $variant:ident = $id:literal $name:literal $severity:ident {
            title: $title:literal,
            cause: $cause:literal,
            $(remedy: $remedy:literal,)?
            $(commands: [$($command:tt),* $(,)?],)?
            $(links: [$($link:expr),* $(,)?],)?
        }
    )* })*) => {
        /// The stable code of a finding.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code { $($(#[doc = $title] $variant,)*)* }

        impl Code {
            /// Every code there is.
            pub const ALL: &'static [Self] = &[$($(Self::$variant,)*)*];

            /// What is known of the code.
            #[allow(clippy::too_many_lines, reason = "a row for each code")]
            pub const fn row(self) -> &'static CodeRow {
                match self { $($(Self::$variant => &CodeRow {
                    category: Category::$category,
                    id: $id,
                    name: $name,
                    reason: stringify!($variant),
                    severity: Severity::$severity,
                    title: $title,
                    cause: $cause,
                    remedy: concat!($($remedy)?),
                    commands: const { &[$($(command!($command)),*)?] },
                    links: &[$($($link),*)?],
                },)*)* }
            }
        }
    };
}

node_rows! { [tls_rows k3s_rows k3d_rows connection_rows weaver_toml_rows join_rows cluster_rows host_rows codes] }

impl Code {
    /// The short id, such as `N-02`.
    pub const fn id(self) -> &'static str {
        self.row().id
    }

    /// What is the case, in a sentence.
    pub const fn title(self) -> &'static str {
        self.row().title
    }

    /// The name as the reason of a condition or an event, such as `MemoryCgroupAbsent`.
    pub const fn reason(self) -> &'static str {
        self.row().reason
    }

    /// The readable name, such as `cgroup-parameter-on-second-line`.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// The code of this id; `None` where this version has none.
    pub fn of_id(id: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.id() == id)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.id(), self.name())
    }
}

impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let id = String::deserialize(deserializer)?;
        Self::of_id(&id).ok_or_else(|| de::Error::custom(format!("{id:?} is not a code of this version")))
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id())
    }
}

impl JsonSchema for Code {
    fn schema_name() -> Cow<'static, str> {
        "Code".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let ids: Vec<_> = Self::ALL.iter().map(|code| code.id()).collect();
        json_schema!({ "description": "A stable code; `weaver explain CODE` explains it.", "type": "string", "enum": ids })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn ids_and_names_are_unique() {
        let ids: BTreeSet<_> = Code::ALL.iter().map(|c| c.id()).collect();
        let names: BTreeSet<_> = Code::ALL.iter().map(|c| c.name()).collect();
        assert_eq!(ids.len(), Code::ALL.len());
        assert_eq!(names.len(), Code::ALL.len());
    }
}
