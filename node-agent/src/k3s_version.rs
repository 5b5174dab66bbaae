//! The version of the k3s that is installed.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;
use weaver_diagnostics::finding_text;
use weaver_diagnostics::k3s_upgrade::version::Version;

/// For a program of 70 MB to print its version, from a slow card.
const SAYING: Duration = Duration::from_mins(1);
/// The most characters of its output that an error repeats.
const MAX_MESSAGE: usize = 300;

/// The version that a program reports. Run only what is trusted.
///
/// # Errors
/// What it prints or does instead.
pub async fn version_of(program: &Path) -> Result<Version, String> {
    let mut command = Command::new(program);
    command.arg("--version").env_clear().stdin(Stdio::null()).kill_on_drop(true);
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    let output = timeout(SAYING, command.output()).await;
    let output = output.map_err(|_| format!("`--version` printed nothing within {} s", SAYING.as_secs()))?;
    let output = output.map_err(|error| format!("it cannot be run: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(short(&format!("`--version` fails ({}) {}", output.status, said.trim())));
    }
    Version::of_output(&String::from_utf8_lossy(&output.stdout)).map_err(|why| short(&why))
}

/// A reason as an error repeats it.
pub fn short(why: &str) -> String {
    finding_text::cut(why, MAX_MESSAGE)
}
