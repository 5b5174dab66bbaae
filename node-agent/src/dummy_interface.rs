//! The interface that a start without a network needs, made and removed by the program `ip`.
//!
//! Guarantee: what is there already is not made again. Failure: `ip`'s own message.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use weaver_diagnostics::{
    finding_text,
    host::network::{OFFLINE_ADDRESS as ADDRESS, OFFLINE_DEVICE as DEVICE},
};

use crate::host_root::HostRoot;

/// The other address of its network, which no host has.
const GATEWAY: &str = "203.0.113.255";
/// Behind every route that a real network brings.
const METRIC: &str = "65535";
/// The most characters of the program's own message that are shown.
const MAX_MESSAGE: usize = 300;

/// Makes interface, address and route; blocks for a moment.
pub(crate) fn make(root: &HostRoot, ip: &Path) -> Result<(), String> {
    if !exists(root) {
        call(ip, &["link", "add", DEVICE, "type", "dummy"])?;
    }
    call(ip, &["address", "replace", &format!("{ADDRESS}/31"), "dev", DEVICE])?;
    call(ip, &["link", "set", DEVICE, "up"])?;
    call(ip, &["route", "replace", "default", "via", GATEWAY, "dev", DEVICE, "metric", METRIC])
}

/// Removes it, and with it address and route.
///
/// # Errors
/// It is there and could not be removed.
pub(crate) fn remove(root: &HostRoot, ip: &Path) -> Result<(), String> {
    if exists(root) { call(ip, &["link", "delete", DEVICE]) } else { Ok(()) }
}

fn exists(root: &HostRoot) -> bool {
    root.is_dir(Path::new("/sys/class/net").join(DEVICE))
}

/// It talks to the kernel only, so it does not block.
fn call(ip: &Path, arguments: &[&str]) -> Result<(), String> {
    let shown = arguments.join(" ");
    let output = Command::new(ip).args(arguments).env("LC_ALL", "C").stdin(Stdio::null()).output();
    let output =
        output.map_err(|error| format!("cannot run {}: {error}; it belongs to iproute2", ip.display()))?;
    if output.status.success() {
        return Ok(());
    }
    let message = finding_text::cut(String::from_utf8_lossy(&output.stderr).trim(), MAX_MESSAGE);
    Err(format!("`ip {shown}` failed ({}): {message}", output.status))
}
