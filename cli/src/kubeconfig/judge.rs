//! `weaver kubeconfig lint`: what is wrong with a kubeconfig, without connecting.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use weaver_diagnostics::exit_code;
use weaver_diagnostics::finding::Finding;
use weaver_diagnostics::finding_text;
use weaver_diagnostics::kubeconfig::exposed;
use weaver_diagnostics::kubeconfig_export::K3S_KUBECONFIG;
use weaver_diagnostics::kubeconfig_export::lint::lint_for_use;
use weaver_diagnostics::kubeconfig_export::references::{self, Surroundings};
use weaver_diagnostics::text_file::TextFile;

use super::file;
use super::refusal::told;
use crate::connection;
use crate::stdout::{say, show};

pub fn judge(file: Option<PathBuf>) -> anyhow::Result<ExitCode> {
    let file = file.or_else(connection::kubeconfig_file).context("name a kubeconfig")?;
    let text = file::read(&file, "run this as the user whose kubeconfig it is").map_err(told)?;
    // Where k3s has its own, this is the machine that it runs on.
    let is_server = Path::new(K3S_KUBECONFIG).exists();
    let mut findings = lint(&text, is_server);
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

/// What is wrong with a kubeconfig for who uses it on this machine.
pub fn lint(text: &TextFile, is_server: bool) -> Vec<Finding> {
    let context = connection::context();
    let repeated = references::repeated(text);
    let findings = lint_for_use(text, context, is_server).into_iter();
    findings.chain(repeated).chain(references::missing(text, context, &Here)).collect()
}

/// This machine.
struct Here;

impl Surroundings for Here {
    fn is_file(&self, path: &Path) -> bool {
        std::fs::File::open(path).and_then(|file| file.metadata()).is_ok_and(|metadata| metadata.is_file())
    }

    fn is_program(&self, name: &str) -> bool {
        let is_there = |directory: PathBuf| {
            let metadata = std::fs::metadata(directory.join(name));
            metadata.is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
        };
        std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(is_there))
    }
}
