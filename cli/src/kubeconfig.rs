//! `weaver kubeconfig`: a kubeconfig by which another machine reaches this cluster, and what is wrong with one.
//!
//! Guarantees: it is exported only for a name that a handshake has just proven, but for `--insecure`, which says what it
//! costs; what leaves is the administrator's own credential, so it is written with mode 0600 and never part of a message.
//! Failure: nothing is written, and the message names the remedy.

mod account;
mod authority;
mod deliver;
mod every;
mod fetch;
pub mod file;
pub mod handshake;
mod judge;
mod merge;
mod remote;

use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use kube::config::{KubeConfigOptions, Kubeconfig};
use rustls::RootCertStore;
use serde_json::json;
use weaver_diagnostics::finding::Severity;
use weaver_diagnostics::kubeconfig_export::advice::{NotServed, hard_to_find};
use weaver_diagnostics::kubeconfig_export::document::is_entry_name;
use weaver_diagnostics::kubeconfig_export::lint::lint;
use weaver_diagnostics::kubeconfig_export::{K3S_KUBECONFIG, Source, Wanted};
use weaver_diagnostics::san::ServingName;
use weaver_diagnostics::serving::Outcome;
use weaver_operator::tenant::Account;

use account::{account, mint};
use deliver::{deliver, told};
use every::{ExportAll, export_all};

use crate::stdout::{Lines, failed, note};
pub use fetch::default_kubeconfig;
use fetch::{Fetch, fetch};
use judge::judge;
use merge::{Merge, merge};

/// What we know must not be done.
const REFUSED: u8 = 10;

#[derive(Subcommand)]
pub enum Verb {
    /// Print a kubeconfig for another machine, on which the server is called NAME
    ///
    /// A handshake proves first that the API server has a certificate for NAME. What is printed has the server, its
    /// CA and one credential, and no other setting. It is an administrator's credential: whoever has it has the
    /// cluster.
    ///
    /// Exit status: 0 done; 1 a step failed, try again; 2 wrong usage; 10 refused, see the way out.
    #[command(verbatim_doc_comment)]
    Export(Export),
    /// Write a kubeconfig for each name that the certificate has, ready to be carried away
    ///
    /// Exit status: 0 done; 1 a step failed, try again; 2 wrong usage; 10 refused, see the way out.
    #[command(verbatim_doc_comment)]
    ExportAll(ExportAll),
    /// Export on the Pi over ssh, and merge it here
    ///
    /// Runs `sudo -n weaver kubeconfig export NAME` there. The name must lead to the same cluster from here, where
    /// it leads anywhere. Of the answer, the CA and the credential are used and nothing else. An entry that exists is
    /// replaced only if it is an earlier export of the same server with the same CA: whether a CA that has changed is the
    /// node's, the message tells how to check. The kubeconfig that was there before is kept beside.
    ///
    /// Exit status: 0 done; 1 a step failed, try again; 2 wrong usage; 10 refused, see the way out.
    #[command(verbatim_doc_comment)]
    Fetch(Fetch),
    /// Merge a kubeconfig that was carried here into the one that kubectl reads
    ///
    /// An entry that exists is replaced only if it is an earlier export of the same server with the same CA: whether a CA
    /// that has changed is the node's, the message tells how to check. All else stays, and so does the current context
    /// without --use. The kubeconfig that was there before is kept beside.
    ///
    /// Exit status: 0 done; 1 a step failed, try again; 2 wrong usage; 10 refused, see the way out.
    #[command(verbatim_doc_comment)]
    Merge(Merge),
    /// Say what is wrong with a kubeconfig, without connecting
    ///
    /// Looks at the context in force: address of the server, CA, verification, who may read the file.
    ///
    /// Exit status: 0 nothing that kubectl would refuse; 1 it could not be read; 10 it cannot work.
    #[command(verbatim_doc_comment)]
    Lint {
        /// The kubeconfig [default: the first of KUBECONFIG, else ~/.kube/config]
        file: Option<PathBuf>,
    },
}

#[derive(Args)]
pub struct Export {
    /// DNS name or address by which the other machine reaches the API server
    #[arg(value_parser = host, required_unless_present = "named")]
    name: Option<ServingName>,
    /// The same, for who writes it so
    #[arg(long = "name", value_name = "NAME", value_parser = host, conflicts_with = "name", hide = true)]
    named: Option<ServingName>,
    /// The administrator's kubeconfig to start from
    #[arg(long, value_name = "FILE", default_value = K3S_KUBECONFIG)]
    kubeconfig: PathBuf,
    /// Port of the server, where it is not the one in the kubeconfig
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// What cluster, user and context are called, where not NAME
    #[arg(long, value_name = "NAME", value_parser = entry_name)]
    context: Option<String>,
    /// A served name to verify, where the certificate does not have NAME
    #[arg(long, value_name = "SERVED", value_parser = host)]
    tls_server_name: Option<ServingName>,
    /// Where to look at the certificate, as HOST:PORT; the server in the kubeconfig where not given
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    api_address: Option<String>,
    /// Turn verification off, where the name is not served and cannot be: for diagnosis only
    ///
    /// The CA goes, as kubectl refuses the two together. Whoever answers at that address gets the credentials.
    #[arg(long, conflicts_with = "tls_server_name")]
    insecure: bool,
    /// With a token of this account instead of the administrator's credential
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = account)]
    as_account: Option<Account>,
    /// How long that token is good: days
    #[arg(long, value_name = "NUMBER", default_value_t = 90, requires = "as_account", value_parser = clap::value_parser!(u16).range(1..=3650))]
    days: u16,
    /// Write to a new file instead, with mode 0600
    #[arg(long, value_name = "FILE", group = "file")]
    output: Option<PathBuf>,
    /// Replace the file of --output, or the entries of this context in that of --merge, if they exist
    #[arg(long, requires = "file")]
    force: bool,
    /// Merge into this kubeconfig instead: all other entries stay, the old file is kept beside
    #[arg(long, value_name = "FILE", group = "file")]
    merge: Option<PathBuf>,
    /// Make the merged context the current one
    #[arg(long = "use", requires = "merge")]
    switch: bool,
}

impl Export {
    /// By which the other machine reaches the API server.
    fn name(&self) -> anyhow::Result<&ServingName> {
        self.name.as_ref().or(self.named.as_ref()).context("name the server")
    }
}

/// Nothing was written, and trying again does not help.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\n  "))]
struct Refusal(Vec<String>);

fn refusal(why: impl Display) -> anyhow::Error {
    Refusal(vec![why.to_string()]).into()
}

pub async fn run(verb: Verb) -> anyhow::Result<ExitCode> {
    let done = match verb {
        Verb::Export(arguments) => export(&arguments).await,
        Verb::ExportAll(arguments) => export_all(&arguments).await,
        Verb::Fetch(arguments) => fetch(&arguments).await,
        Verb::Merge(arguments) => merge(&arguments).await,
        Verb::Lint { file } => return judge(file),
    };
    match done.map_err(anyhow::Error::downcast::<Refusal>) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(Ok(Refusal(lines))) => {
            failed("refused", &Lines(lines).into());
            Ok(ExitCode::from(REFUSED))
        }
        Err(Err(error)) => Err(error),
    }
}

async fn export(arguments: &Export) -> anyhow::Result<()> {
    let name = arguments.name()?;
    let denied = "it holds an administrator's key: run this with sudo, and leave its mode alone";
    let text = file::read(&arguments.kubeconfig, denied).map_err(told)?;
    let findings = lint(&text);
    if let Some(finding) = findings.iter().find(|finding| finding.severity == Severity::Fail) {
        let remedy =
            finding.remedy.as_ref().map(|remedy| format!("; {}", remedy.explain)).unwrap_or_default();
        return Err(refusal(format!("{}{remedy}", finding.message)));
    }
    let source = Source::read(&text).map_err(refusal)?;
    for finding in findings {
        // The export itself is the remedy.
        note!("note: {}", finding.message);
    }
    let tls_server_name = arguments.tls_server_name.as_ref().or(source.tls_server_name.as_ref());
    let peer = if arguments.insecure {
        note!(
            "warning: nothing is proven and nothing will be verified: whoever answers at {name} gets these credentials; \
             for diagnosis only"
        );
        None
    } else {
        prove(arguments, &source, tls_server_name).await?
    };
    let context = arguments.context.clone().unwrap_or_else(|| name.to_string());
    let minted = match &arguments.as_account {
        None => None,
        Some(account) => Some(mint(&arguments.kubeconfig, account, arguments.days).await?),
    };
    let wanted = Wanted {
        host: name,
        port: arguments.port,
        context: &context,
        tls_server_name,
        insecure: arguments.insecure,
        token: minted.as_ref().map(|minted| &*minted.token),
    };
    let document = source.export(&wanted).map_err(refusal)?;
    if let (Some(account), Some(minted)) = (&arguments.as_account, &minted) {
        note!("the token of {account} is good until {:.0}", minted.expires);
    }
    deliver(arguments, &document, &context)?;
    if let Some(warning) = hard_to_find(name, outward(peer)) {
        note!("note: {warning}");
    }
    Ok(())
}

/// The address of the server that proves the name which the exported file will verify.
async fn prove(
    arguments: &Export,
    source: &Source,
    tls_server_name: Option<&ServingName>,
) -> anyhow::Result<Option<IpAddr>> {
    let file = arguments.kubeconfig.display();
    let endpoint = arguments.api_address.clone().unwrap_or_else(|| source.server.authority());
    let anchors = anchors(&source.ca_data).await.map_err(|why| refusal(format!("{file}: {why}")))?;
    let name = tls_server_name.map_or_else(|| arguments.name(), Ok)?;
    let seen = handshake::prove(&endpoint, anchors, name).await;
    match seen.outcome {
        Outcome::Proven => Ok(seen.peer),
        Outcome::NotServed => Err(refusal(NotServed {
            name: name.clone(),
            is_tls_server_name: tls_server_name.is_some(),
            endpoint,
            served: seen.served,
        })),
        Outcome::Dates(why) => Err(refusal(format!(
            "the certificate at {endpoint} cannot be used: {why}; compare the clock (`timedatectl`); if it is right, \
             k3s renews its certificate with `sudo systemctl restart k3s`"
        ))),
        Outcome::Untrusted(why) => Err(refusal(format!(
            "the certificate at {endpoint} is not one of the CA in {file}: {why}; name the kubeconfig of the cluster \
             that answers there with --kubeconfig, or the right server with --api-address"
        ))),
        Outcome::Unreachable(why) => bail!(
            "{endpoint} showed no certificate, so nothing is proven: {why}; look at `systemctl status k3s`, or name \
             the API server with --api-address HOST:PORT"
        ),
    }
}

/// The CA of a kubeconfig, decoded by the means of kube's client.
async fn anchors(ca_data: &str) -> Result<RootCertStore, &'static str> {
    const BAD: &str =
        "certificate-authority-data is not the base64 of PEM certificates: take a fresh copy of the file";
    // Only decoded, never connected to.
    let cluster = json!({"server": "https://localhost", "certificate-authority-data": ca_data});
    let kubeconfig: Kubeconfig = serde_json::from_value(json!({
        "clusters": [{"name": "ca", "cluster": cluster}],
        "contexts": [{"name": "ca", "context": {"cluster": "ca"}}],
        "current-context": "ca",
    }))
    .map_err(|_| BAD)?;
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|_| BAD)?;
    let mut anchors = RootCertStore::empty();
    for certificate in config.root_cert.unwrap_or_default() {
        anchors.add(certificate.into()).map_err(|_| BAD)?;
    }
    if anchors.is_empty() { Err(BAD) } else { Ok(anchors) }
}

/// The address by which other machines reach the server that answered, where that can be told.
fn outward(peer: Option<IpAddr>) -> Option<IpAddr> {
    let peer = peer?;
    if !peer.is_loopback() {
        return Some(peer);
    }
    // Sends nothing: it asks the routing table which of our addresses faces outwards.
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((Ipv4Addr::new(198, 51, 100, 1), 9)).ok()?;
    match socket.local_addr().ok()?.ip() {
        // The dummy interface of a Pi without a network.
        IpAddr::V4(address) if address.is_documentation() || address.is_loopback() => None,
        address => Some(address),
    }
}

/// A name or address that can be a host.
pub fn host(text: &str) -> Result<ServingName, String> {
    match text.parse() {
        Ok(ServingName::Wildcard(rest)) => {
            Err(format!("it stands for many names: write one of them, such as pi.{rest}"))
        }
        Ok(ServingName::Ip(address)) if address.is_unspecified() => {
            Err("it is an address to listen at: write one that the other machine can connect to".to_owned())
        }
        Ok(name) => Ok(name),
        Err(error) => Err(match &error.suggestion {
            Some(meant) => format!("{error}: write {meant}"),
            None => error.to_string(),
        }),
    }
}

/// A name of an entry: anything that a person can type after `--context`.
fn entry_name(text: &str) -> Result<String, &'static str> {
    if is_entry_name(text) {
        Ok(text.to_owned())
    } else {
        Err("a context needs a name of printable characters")
    }
}

fn address(text: &str) -> Result<String, &'static str> {
    let port = text
        .rsplit_once(':')
        .filter(|(host, _)| !host.is_empty() && (!host.contains(':') || host.ends_with(']')));
    match port.and_then(|(_, port)| port.parse::<u16>().ok()) {
        Some(1..) => Ok(text.to_owned()),
        _ => Err("write HOST:PORT, and an IPv6 address in brackets"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_hosts_are_taken() {
        for (text, want) in [
            ("Pi.Lan", Ok("pi.lan")),
            ("fd00::1", Ok("fd00::1")),
            ("pi.lan.", Err("it ends in a dot: write pi.lan")),
            ("https://pi:6443", Err("it is a URL, not a name: write pi")),
            ("pi:6443", Err("write pi")),
            ("*.pi.lan", Err("write one of them, such as pi.pi.lan")),
            ("0.0.0.0", Err("it is an address to listen at")),
            ("::", Err("it is an address to listen at")),
            ("a b", Err("it contains white space")),
        ] {
            match (host(text), want) {
                (Ok(name), Ok(want)) => assert_eq!(name.to_string(), want),
                (Err(why), Err(want)) => assert!(why.contains(want), "{text}: {why}"),
                (got, want) => panic!("{text}: {got:?}, wanted {want:?}"),
            }
        }
    }

    #[test]
    fn which_addresses_are_taken() {
        for good in ["127.0.0.1:6443", "pi.lan:1", "[::1]:6443"] {
            assert_eq!(address(good).as_deref(), Ok(good));
        }
        for bad in ["", "pi", "pi:", ":1", "pi:0", "pi:65536", "::1:6443", "https://pi"] {
            assert!(address(bad).is_err(), "{bad}");
        }
        assert!(entry_name(" ").is_err() && entry_name("a\nb").is_err() && entry_name("my pi").is_ok());
    }

    #[tokio::test]
    async fn a_ca_that_is_none_is_told_without_its_text() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        for data in ["!", "aHVudGVyMg==", "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg=="] {
            let why = anchors(data).await.unwrap_err();
            assert!(why.contains("take a fresh copy"), "{data}: {why}");
        }
    }

    #[test]
    fn the_address_for_other_machines() {
        let far = IpAddr::from([192, 168, 1, 7]);
        assert_eq!(outward(Some(far)), Some(far));
        assert_eq!(outward(None), None);
        assert!(outward(Some(Ipv4Addr::LOCALHOST.into())).is_none_or(|address| !address.is_loopback()));
    }
}
