//! Which version wrote a record of the state directory: after a downgrade, and in the middle of an update, it may be
//! another one.

use std::path::Path;

use weaver_diagnostics::k3s_upgrade::plan::UpgradeRefusal;

/// The version of this program, which is written into its records.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Why a record cannot be acted on, and what to do. It is `of` this, and `by` the version that wrote it, if it says
/// so.
pub fn unusable(path: &Path, of: &str, by: Option<&str>) -> UpgradeRefusal {
    let path = path.display();
    let discard = format!("move it away, which also discards the record of {of}");
    match by.filter(|by| *by != VERSION) {
        None => UpgradeRefusal::new(format!("{path} is damaged"), discard),
        Some(by) => UpgradeRefusal::new(
            format!("{path} was written by Config Weaver {by}, and {VERSION} cannot act on it"),
            format!("install {by} again, which can, or {discard}"),
        ),
    }
}
