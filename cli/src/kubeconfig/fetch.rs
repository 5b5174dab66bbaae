//! `weaver kubeconfig fetch`: export on the Pi over ssh, and merge here.
//!
//! The name is proven twice: on the Pi by the export, and here, where it must lead to the same cluster. Someone else's
//! server under that name is refused, in or out of its certificate's dates; one that cannot be reached from here is a
//! note, for the Pi has proven the name. So is one of this CA and name whose certificate only has wrong dates:
//! a Pi has no clock that runs without power, and kubectl refuses the server until the clocks agree.
//! The other machine is not trusted with this one: of its answer, the CA, the port and the credential are used, under
//! names that were asked for; the answer, its messages and the time it takes are limited.
//! What comes over ssh is an administrator's credential: it is in no message and in no file but the one that is merged.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::Args;
use tokio::process::Command;
use weaver_diagnostics::exit_code::KNOWN_BAD;
use weaver_diagnostics::finding::RESTART_K3S;
use weaver_diagnostics::k3d::cluster::is_cluster_name;
use weaver_diagnostics::k3d::engine::EngineProgram;
use weaver_diagnostics::k3d::verdict::typed_at;
use weaver_diagnostics::kubeconfig_export::advice::hard_to_find;
use weaver_diagnostics::kubeconfig_export::{ExportRequest, SourceContext};
use weaver_diagnostics::san::ServingName;
use weaver_diagnostics::serving::HandshakeOutcome;
use weaver_diagnostics::shell::posix;
use weaver_diagnostics::text_file::TextFile;
use weaver_diagnostics::weaver_toml::plan::ADMIN;
use weaver_host::platform::SSH_MISSING;
use weaver_tenant::Account;

use super::account::account;
use super::arguments::{entry_name, host};
use super::authority;
use super::choose::{self, SshTarget};
use super::deliver::merged;
use super::file::{MergeOptions, default_kubeconfig};
use super::handshake::{self, anchors};
use super::refusal::{KubeconfigRefusal, refusal};
use super::remote::{self, RemoteError, RemoteLimits};
use crate::find::Search;
use crate::stdout::note;

/// Exit status of ssh where the connection itself failed.
const SSH_FAILED: i32 = 255;

#[derive(Args)]
pub struct Fetch {
    /// SSH destination: HOST, USER@HOST, or a Host of your ssh configuration [default: a card that is found]
    #[arg(value_name = "[USER@]HOST", value_parser = destination)]
    from: Option<String>,
    /// User to log in as on a card that is found
    #[arg(long, value_name = "NAME", value_parser = user, default_value = ADMIN, conflicts_with = "from")]
    user: String,
    #[command(flatten)]
    search: Search,
    /// DNS name or address by which this machine reaches the API server [default: HOST]
    #[arg(long, value_parser = host)]
    name: Option<ServingName>,
    /// Export from this k3d cluster on the Pi
    #[arg(long, value_name = "CLUSTER", value_parser = k3d_cluster)]
    k3d: Option<String>,
    /// Name of the cluster, user and context entries [default: NAME]
    #[arg(long, value_name = "NAME", value_parser = entry_name)]
    context: Option<String>,
    /// Use a token of this ServiceAccount instead of the administrator's credential
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = account)]
    as_account: Option<Account>,
    /// Merge into this kubeconfig [default: the first of KUBECONFIG, else ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    merge: Option<PathBuf>,
    /// Replace any existing entries of this context and trust the new CA
    #[arg(long)]
    force: bool,
    /// Make the context the current one
    #[arg(long = "use")]
    switch: bool,
}

/// Somewhere to log in, and never a flag of ssh.
fn destination(text: &str) -> Result<String, &'static str> {
    let is_odd = |c: char| c.is_whitespace() || c.is_control();
    let is_plain = !text.is_empty() && !text.starts_with('-') && !text.contains(is_odd);
    if is_plain { Ok(text.to_owned()) } else { Err("write HOST or USER@HOST") }
}

/// The user part of such a destination.
fn user(text: &str) -> Result<String, &'static str> {
    destination(text).ok().filter(|text| !text.contains('@')).ok_or("write the name of a user of the card")
}

/// A name that k3d accepts, and never a flag.
fn k3d_cluster(text: &str) -> Result<String, &'static str> {
    let name = is_cluster_name(text).then(|| text.to_owned());
    name.ok_or("write the cluster's name as `k3d cluster list` has it")
}

impl Fetch {
    /// The named destination, or the one chosen among the cards that were found; `None` where it could not be chosen.
    pub async fn target(&self) -> anyhow::Result<Option<SshTarget>> {
        match &self.from {
            Some(from) => Ok(Some(SshTarget { from: from.clone(), name: None, ca: None })),
            None => choose::target(&self.search, &self.user).await,
        }
    }
}

pub async fn fetch(arguments: &Fetch, target: &SshTarget) -> anyhow::Result<()> {
    let from = &*target.from;
    let machine = from.rsplit_once('@').map_or(from, |(_, machine)| machine);
    let name = arguments.name.clone().or_else(|| target.name.clone()).map_or_else(
        || {
            host(machine).map_err(|why| {
                refusal(format!("{machine} is not a valid name to connect to: {why}; pass --name"))
            })
        },
        Ok,
    )?;
    let path =
        arguments.merge.clone().or_else(default_kubeconfig).context("name a kubeconfig with --merge")?;
    let text = TextFile::new(format!("what {from} sent"), exported(arguments, from, &name).await?);
    let source = SourceContext::read(&text).map_err(refusal)?;
    if let Some(announced) = &target.ca {
        authority::is_announced(&source.ca_data, announced, from).map_err(KubeconfigRefusal)?;
    }
    let context = arguments.context.clone().unwrap_or_else(|| name.to_string());
    let wanted = ExportRequest {
        host: &name,
        port: None,
        context: &context,
        tls_server_name: None,
        insecure: false,
        token: None,
    };
    is_as_asked(&source, &name).map_err(|why| refusal(format!("{} {why}", text.path)))?;
    let document = source.export(&wanted).map_err(refusal)?;
    let note = reached(&source, &name, arguments.k3d.as_deref()).await?;
    merged(&path, &document, &context, MergeOptions { switch: arguments.switch, force: arguments.force })?;
    if let Some(note) = note {
        note!("note: {note}");
    }
    Ok(())
}

/// Whether the answer is about the requested server. The name is the user's, never the answer's.
fn is_as_asked(source: &SourceContext, name: &ServingName) -> Result<(), String> {
    if source.server.host.parse().as_ref() != Ok(name) {
        return Err(format!("leads to another server than {name}: it is not used"));
    }
    match &source.tls_server_name {
        Some(other) if other != name => Err(format!(
            "verifies another name than {name}: remove tls-server-name from the kubeconfig there, or export \
             on the Pi and copy the file here for `weaver kubeconfig merge`"
        )),
        _ => Ok(()),
    }
}

/// What the export on the other machine printed; its notes and refusals are shown as they come.
async fn exported(arguments: &Fetch, from: &str, name: &ServingName) -> anyhow::Result<String> {
    let context = arguments.context.iter().map(|context| format!(" --context {}", posix(context)));
    let account = arguments.as_account.iter();
    let account = account.map(|account| format!(" --as-account {}/{}", account.namespace, account.name));
    let k3d = arguments.k3d.iter().map(|cluster| format!(" --k3d {}", posix(cluster)));
    let flags: String = k3d.chain(context).chain(account).collect();
    let export = format!("sudo -n weaver kubeconfig export {name}{flags}");
    let mut ssh = Command::new("ssh");
    ssh.args(["--", from, &export]);
    let done = match remote::answer(ssh, from, RemoteLimits::default()).await {
        Ok(done) => done,
        Err(RemoteError::Run(error)) => {
            return Err(error).with_context(|| {
                format!("ssh cannot be run: {SSH_MISSING}, or export on the Pi and copy the file")
            });
        }
        Err(failed) => return Err(refusal(format!("{from} {failed}: its output is not used"))),
    };
    match done.code {
        Some(0) => {}
        Some(SSH_FAILED) => bail!("{from} refuses the login; try `ssh {from}`"),
        Some(code) if code == i32::from(KNOWN_BAD) => {
            return Err(refusal(format!("{from} has refused to export {name}, see above")));
        }
        _ => bail!(
            "`{export}` failed on {from}, see above: it needs `weaver` there, and sudo without a password; \
             else run it \
             there with --output, and copy the file"
        ),
    }
    // Never part of a message: it contains a key.
    String::from_utf8(done.stdout).ok().context("the output of ssh is not text")
}

/// Does the name lead to that cluster from here? A note where that is not known.
async fn reached(
    source: &SourceContext,
    name: &ServingName,
    k3d: Option<&str>,
) -> anyhow::Result<Option<String>> {
    let anchors = anchors(&source.ca_data).await.map_err(refusal)?;
    let endpoint = source.server.authority();
    let seen = handshake::prove(&endpoint, anchors, name).await;
    match seen.outcome {
        HandshakeOutcome::Proven => Ok(None),
        HandshakeOutcome::Unreachable(why) => {
            let advice = hard_to_find(name, None).map_or_else(String::new, |advice| format!("; {advice}"));
            Ok(Some(format!("{endpoint} cannot be reached from this machine: {why}{advice}")))
        }
        HandshakeOutcome::NotServed | HandshakeOutcome::Untrusted(_) => Err(refusal(format!(
            "{endpoint} leads to another server than the one that exported the kubeconfig: give the name or \
             the address by \
             which this machine reaches it with --name"
        ))),
        // Only the dates are wrong: the clock of the node was wrong at its start, or that of this machine is.
        HandshakeOutcome::Dates(why) => Ok(Some(format!(
            "the server at {endpoint} has a certificate of this CA for {name}, but by the clock of this \
             machine {why}, and kubectl refuses it until that is fixed: compare `timedatectl` here and on \
             the node; if both clocks are right, type on the node:\n    {}",
            typed_at(&RESTART_K3S, k3d, EngineProgram::default())
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_to_log_in_is_never_a_flag() {
        for good in ["pi", "pi@raspi.lan", "admin@192.168.1.7", "my-alias"] {
            assert_eq!(destination(good).as_deref(), Ok(good));
        }
        for bad in ["", "-oProxyCommand=reboot", "a b"] {
            assert!(destination(bad).is_err(), "{bad}");
        }
    }
}
