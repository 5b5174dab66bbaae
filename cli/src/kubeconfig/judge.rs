//! `weaver kubeconfig lint`: what is wrong with a kubeconfig, without connecting.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use jiff::Timestamp;
use weaver_diagnostics::exit_code;
use weaver_diagnostics::finding::Finding;
use weaver_diagnostics::finding_text;
use weaver_diagnostics::kubeconfig::{exposed, exposed_copy};
use weaver_diagnostics::kubeconfig_export::K3S_KUBECONFIG;
use weaver_diagnostics::kubeconfig_export::client_certificate::{
    self, ClientCertificate, Dates, Whose, other_key,
};
use weaver_diagnostics::kubeconfig_export::lint::lint_for_use;
use weaver_diagnostics::kubeconfig_export::references::{self, KubectlEnvironment};
use weaver_diagnostics::kubeconfig_export::refused;
use weaver_diagnostics::kubeconfig_export::several;
use weaver_diagnostics::text_file::TextFile;
use weaver_host::key_pair::{self, Pair, PairFault};
use weaver_host::platform::{self, CAN_BE_NODE};

use super::file;
use super::refusal::refused_file;
use crate::stdout::{say, show};
use crate::{bounded_file, connection};

pub fn judge(file: Option<PathBuf>) -> anyhow::Result<ExitCode> {
    let paths = file.map_or_else(connection::kubeconfig_files, |file| vec![file]);
    let texts =
        file::read_all(&paths, "run this as the user whose kubeconfig it is").map_err(refused_file)?;
    let (text, context) = match several::in_force(&texts, connection::context()) {
        Ok(chosen) => chosen.context("name a kubeconfig")?,
        Err(finding) => {
            show(finding_text::text(&finding) + "\n");
            return Ok(exit_code::of(&[*finding]).into());
        }
    };
    let context = context.as_deref().or(connection::context());
    let file = Path::new(&text.path);
    // Where k3s has its own, this is the machine that it runs on.
    let is_server = CAN_BE_NODE && Path::new(K3S_KUBECONFIG).exists();
    let mut findings = lint(text, context, is_server);
    let is_k3s_own = fs::canonicalize(file).is_ok_and(|path| path == Path::new(K3S_KUBECONFIG));
    let whose = if is_k3s_own { Whose::K3s } else { Whose::Copy };
    findings.extend(of_dates(text, context, whose, Timestamp::now()));
    let mode = fs::metadata(file).ok().and_then(|metadata| platform::owner(&metadata).mode);
    let judge = if is_k3s_own { exposed } else { exposed_copy };
    findings.extend(mode.and_then(|mode| judge(&text.path, mode)));
    for finding in &findings {
        show(finding_text::text(finding) + "\n");
    }
    if findings.is_empty() {
        say(format_args!("nothing is wrong with {}", text.path));
    }
    Ok(exit_code::of(&findings).into())
}

/// What is wrong with a kubeconfig for the user of this machine, by this context, else by its current one.
pub fn lint(text: &TextFile, context: Option<&str>, is_server: bool) -> Vec<Finding> {
    let repeated = references::repeated(text);
    let findings = lint_for_use(text, context, is_server).into_iter();
    let missing =
        references::missing(text, context, &Here).into_iter().chain(refused::refused(text, context));
    let (certificate, no_pem) = client_certificate::find(text, context, read);
    let other_key = certificate.and_then(|held| is_of_another(&held).then(|| other_key(&held.place)));
    findings.chain(repeated).chain(missing).chain(no_pem).chain(other_key).collect()
}

/// The file that the kubeconfig names.
fn read(path: &Path) -> Option<String> {
    Here.is_file(path).then(|| bounded_file::text(path, file::LARGEST).ok())?
}

/// What the dates of the client certificate are by this clock.
fn of_dates(text: &TextFile, context: Option<&str>, whose: Whose, now: Timestamp) -> Option<Finding> {
    let (held, _) = client_certificate::find(text, context, read);
    let held = held?;
    let (begins, ends) = key_pair::validity(held.certificate.as_bytes())?;
    let day = |at: Timestamp| at.strftime("%Y-%m-%d").to_string();
    let dates = match () {
        () if now > ends => Dates::Expired(day(ends)),
        () if now < begins => Dates::NotYet(day(begins)),
        () => return None,
    };
    Some(client_certificate::dates(&held, &dates, whose))
}

/// Whether the key is known to be that of another certificate.
fn is_of_another(held: &ClientCertificate) -> bool {
    held.key.as_ref().is_some_and(|key| {
        let pair = Pair::parse(format!("{}\n{key}", held.certificate).as_bytes());
        pair.is_err_and(|fault| fault == PairFault::Mismatch)
    })
}

struct Here;

impl KubectlEnvironment for Here {
    fn is_file(&self, path: &Path) -> bool {
        fs::File::open(path).and_then(|file| file.metadata()).is_ok_and(|metadata| metadata.is_file())
    }

    fn is_program(&self, name: &str) -> bool {
        let is_there = |directory: PathBuf| platform::is_program(&directory, name);
        std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(is_there))
    }
}
