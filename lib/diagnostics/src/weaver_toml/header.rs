//! How a file of ours begins.

/// Its first line.
pub const HEADER: &str = "# Written by weaver-node-agent boot-config from weaver.toml: change it there.\n";

pub(super) fn with_header(text: &str) -> String {
    format!("{HEADER}{text}")
}
