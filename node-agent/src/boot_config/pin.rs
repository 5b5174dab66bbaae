//! Where the node's name is remembered.

use std::path::{Path, PathBuf};

use weaver_diagnostics::weaver_toml::RoleSetting;

pub(super) const NODE_NAME: &str = "node-name";

/// The file with the node's name. One for each role: a server that becomes a server again after it was an agent finds
/// its node again.
pub(super) fn pin_path(state_dir: &Path, role: &RoleSetting) -> PathBuf {
    state_dir.join(match role {
        RoleSetting::Server => NODE_NAME,
        RoleSetting::Agent(_) => "agent-name",
    })
}
