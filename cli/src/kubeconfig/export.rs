//! `weaver kubeconfig export`: a kubeconfig for another machine, by a name that a handshake has just proven.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use weaver_diagnostics::finding::{K3S_STATUS, RESTART_K3S, Severity};
use weaver_diagnostics::k3d::verdict::typed_at;
use weaver_diagnostics::kubeconfig_export::advice::{NotServed, hard_to_find};
use weaver_diagnostics::kubeconfig_export::lint::lint;
use weaver_diagnostics::kubeconfig_export::{ExportRequest, K3S_KUBECONFIG, SourceContext};
use weaver_diagnostics::san::ServingName;
use weaver_diagnostics::serving::HandshakeOutcome;
use weaver_tenant::Account;

use super::account::{account, mint};
use super::arguments::{address, entry_name, host};
use super::deliver::{Destination, deliver};
use super::file;
use super::handshake::{self, anchors};
use super::k3d;
use super::refusal::{KubeconfigRefusal, refusal, refused_file};
use crate::connection;
use crate::stdout::note;

#[derive(Args)]
pub struct Export {
    /// DNS name or address by which the other machine reaches the API server
    #[arg(value_parser = host, required_unless_present = "named")]
    pub name: Option<ServingName>,
    /// NAME as a flag
    #[arg(long = "name", value_name = "NAME", value_parser = host, conflicts_with = "name", hide = true)]
    pub named: Option<ServingName>,
    /// Administrator's kubeconfig to start from
    #[arg(long, value_name = "FILE", default_value = K3S_KUBECONFIG)]
    pub kubeconfig: PathBuf,
    /// Start from the kubeconfig of this k3d cluster on this machine
    #[arg(long, value_name = "CLUSTER", conflicts_with = "kubeconfig")]
    pub k3d: Option<String>,
    /// Port of the API server [default: the port in the kubeconfig]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// Name of the cluster, user and context entries [default: NAME]
    #[arg(long, value_name = "NAME", value_parser = entry_name)]
    pub context: Option<String>,
    /// Served name to verify instead of NAME, if the certificate lacks NAME
    #[arg(long, value_name = "SERVED", value_parser = host)]
    pub tls_server_name: Option<ServingName>,
    /// HOST:PORT to connect to for the certificate [default: the server in the kubeconfig]
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub api_address: Option<String>,
    /// Turn off TLS verification: for diagnosis only
    ///
    /// Omits the CA, since kubectl refuses both together. Any machine that answers at that address gets the
    /// credentials.
    #[arg(long, conflicts_with = "tls_server_name")]
    pub insecure: bool,
    /// Use a token of this ServiceAccount instead of the administrator's credential
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = account)]
    pub as_account: Option<Account>,
    /// Lifetime of that token in days
    #[arg(long, value_name = "NUMBER", default_value_t = 90, requires = "as_account", value_parser = clap::value_parser!(u16).range(1..=3650))]
    pub days: u16,
    #[command(flatten)]
    pub to: Destination,
}

impl Export {
    /// The name by which the other machine connects to the API server.
    fn name(&self) -> anyhow::Result<&ServingName> {
        self.name.as_ref().or(self.named.as_ref()).context("name the server")
    }
}

pub async fn export(arguments: &Export) -> anyhow::Result<()> {
    let name = arguments.name()?;
    let source = match &arguments.k3d {
        Some(cluster) => k3d::source(cluster).await?,
        None => read(&arguments.kubeconfig)?,
    };
    let tls_server_name = arguments.tls_server_name.as_ref().or(source.tls_server_name.as_ref());
    let peer = if arguments.insecure {
        note!(
            "warning: TLS verification is off: any machine that answers at {name} gets these credentials; \
             for diagnosis only"
        );
        None
    } else {
        prove(arguments, &source, tls_server_name).await?
    };
    let context = arguments.context.clone().unwrap_or_else(|| name.to_string());
    let minted = match &arguments.as_account {
        None => None,
        Some(account) => {
            let (client, file) = if arguments.k3d.is_some() {
                (k3d::client(&source).await?, None)
            } else {
                let file = arguments.kubeconfig.as_path();
                (connection::client_of(file).await?, Some(file))
            };
            Some(mint(client, file, account, arguments.days).await?)
        }
    };
    let wanted = ExportRequest {
        host: name,
        port: arguments.port,
        context: &context,
        tls_server_name,
        insecure: arguments.insecure,
        token: minted.as_ref().map(|minted| &*minted.token),
    };
    let document = source.export(&wanted).map_err(refusal)?;
    if let (Some(account), Some(minted)) = (&arguments.as_account, &minted) {
        note!("the token of {account} is valid until {:.0}", minted.expires);
    }
    let credential =
        if arguments.as_account.is_some() { "a credential" } else { "an administrator's credential" };
    deliver(&arguments.to, &document, &context, credential)?;
    if let Some(warning) = hard_to_find(name, outward(peer)) {
        note!("note: {warning}");
    }
    Ok(())
}

/// What can be exported of the administrator's file.
fn read(path: &Path) -> anyhow::Result<SourceContext> {
    let denied = "it holds an administrator's key: run this with sudo, and leave its mode alone";
    let text = file::read(path, denied).map_err(refused_file)?;
    let findings = lint(&text);
    if let Some(finding) = findings.iter().find(|finding| finding.severity() == Severity::Fail) {
        let remedy =
            finding.remedy.as_ref().map(|remedy| format!("; {}", remedy.explain)).unwrap_or_default();
        return Err(refusal(format!("{}{remedy}", finding.message)));
    }
    let source = SourceContext::read(&text).map_err(refusal)?;
    for finding in findings {
        // The export itself is the remedy.
        note!("note: {}", finding.message);
    }
    Ok(source)
}

/// The address of the server that proves the name which the exported file will verify.
async fn prove(
    arguments: &Export,
    source: &SourceContext,
    tls_server_name: Option<&ServingName>,
) -> anyhow::Result<Option<IpAddr>> {
    let file = arguments.k3d.as_ref().map_or_else(
        || arguments.kubeconfig.display().to_string(),
        |cluster| format!("the kubeconfig of the k3d cluster {cluster}"),
    );
    let endpoint = arguments.api_address.clone().unwrap_or_else(|| source.server.authority());
    let anchors = anchors(&source.ca_data).await.map_err(|why| refusal(format!("{file}: {why}")))?;
    let name = tls_server_name.map_or_else(|| arguments.name(), Ok)?;
    let seen = handshake::prove(&endpoint, anchors, name).await;
    match seen.outcome {
        HandshakeOutcome::Proven => Ok(seen.peer),
        HandshakeOutcome::NotServed => {
            let why = NotServed {
                name: name.clone(),
                is_tls_server_name: tls_server_name.is_some(),
                endpoint,
                served: seen.served,
            };
            Err(KubeconfigRefusal(why.to_string().lines().map(str::to_owned).collect()).into())
        }
        HandshakeOutcome::Dates(why) => Err(refusal(format!(
            "the certificate at {endpoint} cannot be used: {why}; compare the clock (`timedatectl`); if it \
             is right, k3s renews its certificate with `{}`",
            typed_at(&RESTART_K3S, arguments.k3d.as_deref(), k3d::program())
        ))),
        HandshakeOutcome::Untrusted(why) => Err(refusal(format!(
            "the certificate at {endpoint} is not signed by the CA in {file}: {why}; name the kubeconfig of \
             the cluster that answers there with --kubeconfig, or the right server with --api-address"
        ))),
        HandshakeOutcome::Unreachable(why) => bail!(
            "{endpoint} sent no certificate, so nothing is proven: {why}; look at `{}`, \
             or name the API server with --api-address HOST:PORT",
            typed_at(&K3S_STATUS, arguments.k3d.as_deref(), k3d::program())
        ),
    }
}

/// The address by which other machines connect to the server that answered, where that is known.
fn outward(peer: Option<IpAddr>) -> Option<IpAddr> {
    let peer = peer?;
    if !peer.is_loopback() {
        return Some(peer);
    }
    // Sends nothing: it looks up in the routing table which of our addresses faces outwards.
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((Ipv4Addr::new(198, 51, 100, 1), 9)).ok()?;
    match socket.local_addr().ok()?.ip() {
        // The dummy interface of a Pi without a network.
        IpAddr::V4(address) if address.is_documentation() || address.is_loopback() => None,
        address => Some(address),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_for_other_machines() {
        let far = IpAddr::from([192, 168, 1, 7]);
        assert_eq!(outward(Some(far)), Some(far));
        assert_eq!(outward(None), None);
        assert!(outward(Some(Ipv4Addr::LOCALHOST.into())).is_none_or(|address| !address.is_loopback()));
    }
}
