//! `weaver kubeconfig lint`: what is wrong with a kubeconfig, without connecting.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use weaver_diagnostics::exit_code;
use weaver_diagnostics::finding_text;
use weaver_diagnostics::kubeconfig::exposed;
use weaver_diagnostics::kubeconfig_export::K3S_KUBECONFIG;
use weaver_diagnostics::kubeconfig_export::lint::lint_for_use;

use super::file;
use super::refusal::told;
use crate::connection;
use crate::stdout::{say, show};

pub fn judge(file: Option<PathBuf>) -> anyhow::Result<ExitCode> {
    let file = file.or_else(connection::kubeconfig_file).context("name a kubeconfig")?;
    let text = file::read(&file, "run this as the user whose kubeconfig it is").map_err(told)?;
    // Where k3s has its own, this is the machine that it runs on.
    let is_server = Path::new(K3S_KUBECONFIG).exists();
    let mut findings = lint_for_use(&text, connection::context(), is_server);
    let mode = std::fs::metadata(&file).map(|metadata| metadata.permissions().mode());
    findings.extend(mode.ok().and_then(|mode| exposed(&text.path, mode)));
    for finding in &findings {
        show(finding_text::text(finding) + "\n");
    }
    if findings.is_empty() {
        say(format_args!("nothing is wrong with {}", text.path));
    }
    Ok(exit_code::of(&findings).into())
}
