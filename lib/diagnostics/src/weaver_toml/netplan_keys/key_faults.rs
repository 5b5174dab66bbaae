//! What is wrong in a `network-config`, and where.

use crate::yaml_node::YamlNode;

pub(super) const KINDS: [&str; 7] =
    ["ethernets", "wifis", "bridges", "bonds", "vlans", "tunnels", "dummy-devices"];

/// A part of the file that is wrong.
pub struct KeyFault<'n> {
    pub at: &'n YamlNode,
    pub what: String,
    pub remedy: String,
}

pub(super) struct KeyFaults<'n>(pub Vec<KeyFault<'n>>);

impl<'n> KeyFaults<'n> {
    pub(super) fn add(&mut self, at: &'n YamlNode, what: impl Into<String>, remedy: impl Into<String>) {
        self.0.push(KeyFault { at, what: what.into(), remedy: remedy.into() });
    }

    /// A key that netplan does not have, `of` where, and what is meant by it.
    pub(super) fn unknown(&mut self, key: &'n YamlNode, of: &str, meant: &str) {
        let what = format!("netplan has no `{}`{of}, and refuses the file", key.as_str().unwrap_or_default());
        let is_text = meant.starts_with("the ");
        self.add(key, what, if is_text { format!("write {meant}") } else { format!("write `{meant}`") });
    }
}
