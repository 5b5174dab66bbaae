//! kubectl on this machine, as a laptop would run it: under a name that the API serves, with a kubeconfig fetched from
//! the guest.
//!
//! Guarantee: the kubeconfig is 0600 in the machine's directory and is removed with it. Failure: the guest's or
//! kubectl's own message.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use weaver_devstack::choice::ServerBinary;
use weaver_devstack::files;

use super::host_names::HostNames;
use super::machine::Machine;
use super::programs;

impl Machine {
    /// Fetches a kubeconfig for `name` from the guest, as a newcomer would, and runs kubectl with it on this machine,
    /// where `name` means the forwarded port.
    ///
    /// # Errors
    /// When the guest refuses the name, or kubectl fails: with their own message.
    pub fn kubectl(&self, name: &str, arguments: &[&str]) -> Result<String> {
        programs::require(&["kubectl", "unshare"])?;
        let kubeconfig = self.kubeconfig(name)?;
        let names = HostNames::write(&self.dir.path().join("hosts"), &[name.to_owned()])?;
        let mut command = names.command("timeout");
        command.args(["--kill-after=5", "180", "kubectl", "--request-timeout=150s", "--kubeconfig"]);
        command.arg(&kubeconfig).args(arguments).env("KUBECACHEDIR", self.dir.path().join("kube-cache"));
        let made = programs::run(&mut command);
        let made = made.with_context(|| format!("kubectl {} as {name}", arguments.join(" ")))?;
        Ok(String::from_utf8_lossy(&made).into_owned())
    }

    /// The file that [`Self::kubectl`] uses, fetched once; started again, the machine has another port.
    ///
    /// # Errors
    /// When the guest refuses.
    pub fn kubeconfig(&self, name: &str) -> Result<PathBuf> {
        let port = self.running.ports.api;
        let path = self.dir.path().join(format!("kubeconfig-{name}-{port}"));
        if !path.exists() {
            let text = self.run(&export_command(name, port))?;
            files::replace(&path, text.as_bytes(), 0o600)?;
        }
        Ok(path)
    }
}

/// A kubectl for a user: the one on the `PATH`, else the one inside an API server for this machine.
///
/// # Errors
/// When there is neither.
pub fn program() -> Result<Vec<String>> {
    if programs::require(&["kubectl"]).is_ok() {
        return Ok(vec!["kubectl".to_owned()]);
    }
    let server = ServerBinary::choose(Path::new("."))?;
    Ok(vec![server.path.display().to_string(), "kubectl".to_owned()])
}

/// What a user types on the Pi for a kubeconfig of the laptop.
pub fn export_command(name: &str, port: u16) -> String {
    format!("weaver kubeconfig export {name} --port {port}")
}
