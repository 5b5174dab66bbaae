//! `weaver kubeconfig export-all`: a file for each name in the server's certificate, ready to copy to other machines.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use weaver_diagnostics::kubeconfig_export::K3S_KUBECONFIG;
use weaver_diagnostics::kubeconfig_export::SourceContext;
use weaver_diagnostics::san::{ServingName, is_inner};
use weaver_host::platform;
use weaver_tenant::Account;

use super::account::account;
use super::arguments::{address, host};
use super::deliver::Destination;
use super::export::{Export, export};
use super::file;
use super::handshake::{self, anchors};
use super::refusal::{refusal, refused_file};

#[derive(Args)]
pub struct ExportAll {
    /// Directory for the files NAME.yaml; created if missing
    directory: PathBuf,
    /// Administrator's kubeconfig to start from
    #[arg(long, value_name = "FILE", default_value = K3S_KUBECONFIG)]
    kubeconfig: PathBuf,
    /// HOST:PORT to connect to for the certificate [default: the server in the kubeconfig]
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    api_address: Option<String>,
    /// Use a token of this ServiceAccount instead of the administrator's credential
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = account)]
    as_account: Option<Account>,
    /// Lifetime of that token in days
    #[arg(long, value_name = "NUMBER", default_value_t = 90, requires = "as_account", value_parser = clap::value_parser!(u16).range(1..=3650))]
    days: u16,
    /// Replace existing files
    #[arg(long)]
    force: bool,
}

/// Exports them, one after the other.
pub async fn export_all(arguments: &ExportAll) -> anyhow::Result<()> {
    let denied = "it holds an administrator's key: run this with sudo, and leave its mode alone";
    let text = file::read(&arguments.kubeconfig, denied).map_err(refused_file)?;
    let source = SourceContext::read(&text).map_err(refusal)?;
    let endpoint = arguments.api_address.clone().unwrap_or_else(|| source.server.authority());
    let anchors = anchors(&source.ca_data).await.map_err(refusal)?;
    // Every certificate of k3s has this one.
    let localhost = ServingName::Dns("localhost".to_owned());
    let seen = handshake::prove(&endpoint, anchors, &localhost).await;
    let names: Vec<_> = seen.served.iter().filter_map(|served| of_use(served)).collect();
    if names.is_empty() {
        return Err(refusal(format!(
            "the certificate at {endpoint} has no name that another machine could use ({:?})",
            seen.outcome
        )));
    }
    let directory = &arguments.directory;
    let file_of = |name: &ServingName| directory.join(name.to_string().replace(':', "-") + ".yaml");
    // Before the first is written: a partial set would block the next attempt.
    if let Some(there) = names.iter().map(file_of).find(|file| !arguments.force && file.exists()) {
        return Err(refusal(format!("{} exists; --force replaces such files", there.display())));
    }
    platform::create_directories(directory, 0o700)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    for name in names {
        let file = file_of(&name);
        let one = Export {
            name: Some(name),
            named: None,
            k3d: None,
            kubeconfig: arguments.kubeconfig.clone(),
            port: None,
            context: None,
            tls_server_name: None,
            api_address: Some(endpoint.clone()),
            insecure: false,
            as_account: arguments.as_account.clone(),
            days: arguments.days,
            to: Destination { output: Some(file), force: arguments.force, merge: None, switch: false },
        };
        let shown = directory.display();
        export(&one).await.with_context(|| format!("{shown} is incomplete; repeat with --force"))?;
    }
    Ok(())
}

/// Whether another machine can connect by it; no inner name of the cluster, no address of this machine only.
fn of_use(served: &str) -> Option<ServingName> {
    let name = host(served).ok().filter(|_| !is_inner(served))?;
    match &name {
        // The first address of the cluster's own services is no address of a machine.
        ServingName::Ip(address) if address.is_loopback() || served == "10.43.0.1" => None,
        _ => Some(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_names_get_a_file() {
        for name in ["pi", "pi.lan", "192.168.1.7", "fd00::7"] {
            assert!(of_use(name).is_some(), "{name}");
        }
        for name in
            ["kubernetes.default.svc", "localhost", "127.0.0.1", "::1", "10.43.0.1", "*.lan", "0.0.0.0"]
        {
            assert!(of_use(name).is_none(), "{name}");
        }
    }
}
