//! kubectl, as the API server's own binary carries it.
//!
//! Guarantee: every call has a deadline. Failure: kubectl's own words.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::files::quoted;

/// Seconds after which a call is ended from outside.
const LIMIT: &str = "30";

/// kubectl with one kubeconfig.
#[derive(Clone, Debug)]
pub struct Kubectl {
    binary: PathBuf,
    kubeconfig: PathBuf,
}

impl Kubectl {
    /// Uses `binary kubectl` with the given kubeconfig.
    pub fn new(binary: &Path, kubeconfig: &Path) -> Self {
        Self { binary: binary.to_owned(), kubeconfig: kubeconfig.to_owned() }
    }

    /// The command to run, with its deadline.
    pub fn command(&self, args: &[&str]) -> Command {
        // `timeout` is in every Debian; kubectl's own time-out covers one request only.
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", LIMIT]).arg(&self.binary).arg("kubectl");
        command.arg("--kubeconfig").arg(&self.kubeconfig).arg("--request-timeout=10s").args(args);
        // The discovery cache belongs to the stack, not to the user's home.
        command.env("KUBECACHEDIR", self.kubeconfig.with_file_name("kube-cache"));
        command.env_remove("KUBECONFIG").stdin(Stdio::null());
        command
    }

    /// A shell script that runs kubectl with this kubeconfig, for a user.
    pub fn script(&self) -> String {
        format!(
            "#!/bin/sh\n# kubectl for this stack, as an administrator; in a shell that has read env, as KUBECONFIG says.\n\
             [ -n \"${{KUBECONFIG-}}\" ] && [ \"${{WEAVER_STACK-}}\" = {} ] || KUBECONFIG={}\nexport KUBECONFIG\n\
             exec {} kubectl \"$@\"\n",
            quoted(self.kubeconfig.parent().unwrap_or(Path::new("/"))),
            quoted(&self.kubeconfig),
            quoted(&self.binary)
        )
    }

    /// Runs kubectl and gives what it printed.
    ///
    /// # Errors
    /// With what kubectl printed on its standard error.
    pub fn run(&self, args: &[&str]) -> Result<String> {
        let output = self
            .command(args)
            .output()
            .with_context(|| format!("cannot start {} kubectl", self.binary.display()))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = if output.status.code() == Some(124) {
                format!("no answer in {LIMIT} s\n{said}").into()
            } else {
                said
            };
            bail!("kubectl {}: {}", args.join(" "), said.trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs `kubectl ARGS -o json` and reads the answer.
    ///
    /// # Errors
    /// As [`Self::run`], and when the answer is not JSON.
    pub fn json(&self, args: &[&str]) -> Result<Value> {
        let text = self.run(&[args, &["-o", "json"]].concat())?;
        serde_json::from_str(&text)
            .with_context(|| format!("kubectl {}: the answer is not JSON", args.join(" ")))
    }

    /// Whether the API server says that it is ready.
    ///
    /// # Errors
    /// With its own words when it does not.
    pub fn ready(&self) -> Result<()> {
        self.run(&["get", "--raw=/readyz"]).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_kubectls_own_words() {
        let dir = tempfile::tempdir().unwrap();
        let fake = dir.path().join("fake");
        std::fs::write(&fake, "#!/bin/sh\necho \"no such $5\" >&2\nexit 3\n").unwrap();
        std::fs::set_permissions(&fake, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let kubectl = Kubectl::new(&fake, &dir.path().join("config"));
        let text = kubectl.run(&["get", "thing"]).unwrap_err().to_string();
        assert_eq!(text, "kubectl get thing: no such get");
    }

    #[test]
    fn the_script_survives_odd_paths() {
        let dir = tempfile::tempdir().unwrap();
        let fake = dir.path().join("it's k3s");
        std::fs::write(&fake, "#!/bin/sh\necho \"$KUBECONFIG|$*\"\n").unwrap();
        std::fs::set_permissions(&fake, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let script = Kubectl::new(&fake, Path::new("/a b/config")).script();
        let asked = |stack: &str| {
            let mut shell = Command::new("sh");
            shell
                .args(["-c", &script, "sh", "get", "pods"])
                .env("KUBECONFIG", "/mine")
                .env("WEAVER_STACK", stack);
            String::from_utf8(shell.output().unwrap().stdout).unwrap()
        };
        // A user's own kubeconfig never points a stack's kubectl to another cluster.
        assert_eq!(asked(""), "/a b/config|kubectl get pods\n");
        assert_eq!(asked("/another stack"), "/a b/config|kubectl get pods\n");
        assert_eq!(asked("/a b"), "/mine|kubectl get pods\n");
    }

    #[test]
    fn a_missing_program_is_named() {
        let kubectl = Kubectl::new(Path::new("/nowhere/k3s"), Path::new("config"));
        let text = format!("{:#}", kubectl.ready().unwrap_err());
        assert!(text.contains("/nowhere/k3s"), "{text}");
    }
}
