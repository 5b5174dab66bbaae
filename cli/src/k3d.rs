//! `weaver k3d`: a k3d cluster that laptops connect to by name. Prints the arguments for k3d, and runs nothing.

use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use clap::{Args, Subcommand};
use weaver_api::names::dns_label;
use weaver_diagnostics::exit_code::KNOWN_BAD;
use weaver_diagnostics::k3d::create::{NewCluster, NewRegistry, Volume, volume};
use weaver_diagnostics::k3d::node_filter::lint_k3s_arg;
use weaver_diagnostics::san::ServingName;

use crate::kubeconfig::arguments::host;
use crate::stdout::print;

#[derive(Subcommand)]
pub enum K3dVerb {
    /// Print a configuration file for `k3d cluster create --config FILE`, or the command itself
    ///
    /// The API server's certificate gets all names; the kubeconfig gets the port and the first name that is no
    /// IPv6 address. Without a fixed port k3d chooses a random one for each cluster.
    #[command(verbatim_doc_comment)]
    Config(K3dConfigArgs),
    /// Check values of `--k3s-arg`
    ///
    /// Exit status: 0 valid; 2 wrong usage; 10 not valid.
    #[command(verbatim_doc_comment)]
    Lint {
        /// Values in the form of `k3d --k3s-arg`: '--tls-san=raspi@server:*'
        #[arg(required = true, value_name = "VALUE", allow_hyphen_values = true)]
        values: Vec<String>,
    },
}

#[derive(Args)]
pub struct K3dConfigArgs {
    /// Name of the cluster
    #[arg(value_parser = cluster)]
    cluster: String,
    /// DNS name or address by which laptops reach the API server (repeatable)
    #[arg(long = "name", required = true, value_parser = host)]
    names: Vec<ServingName>,
    /// Port of the API server on this machine
    #[arg(long, default_value = "6443", value_parser = clap::value_parser!(u16).range(1..))]
    api_port: u16,
    /// Forward a port of this machine to a port of the cluster's load balancer (repeatable)
    #[arg(long = "port", value_name = "PORT:CLUSTERPORT", value_parser = ports)]
    ports: Vec<(u16, u16)>,
    /// Registry made by `k3d registry create`: its name in `k3d registry list`, and its port inside the network
    #[arg(long, value_name = "NAME:PORT", value_parser = registry)]
    registry: Option<String>,
    /// Create a registry with the cluster; images are pushed to PORT of this machine [default: a random port]
    #[arg(long, value_name = "NAME[:PORT]", value_parser = new_registry, conflicts_with = "registry")]
    registry_create: Option<NewRegistry>,
    /// Number of server nodes: 1, or an odd number from 3 up (etcd)
    #[arg(long, default_value = "1", value_parser = servers)]
    servers: u16,
    /// Number of agent nodes
    #[arg(long, default_value = "0", value_parser = clap::value_parser!(u16).range(..=100))]
    agents: u16,
    /// k3s image, such as rancher/k3s:v1.36.3-k3s1 [default: that of k3d]
    #[arg(long, value_parser = image)]
    image: Option<String>,
    /// Mount a directory of this machine into nodes, such as /srv/data:/data@agent:0; without a filter into all
    /// (repeatable)
    #[arg(long = "volume", value_name = "SOURCE:PATH[:ro][@FILTER]", value_parser = volume)]
    volumes: Vec<Volume>,
    /// Print the command instead of the file; k3d then listens only on the address of the kubeconfig's name
    #[arg(long)]
    command: bool,
}

pub fn run(verb: K3dVerb) -> anyhow::Result<ExitCode> {
    let (text, code) = match verb {
        K3dVerb::Config(options) => {
            let cluster = NewCluster {
                name: options.cluster,
                names: options.names,
                api_port: options.api_port,
                ports: options.ports,
                registry: options.registry.map(NewRegistry::Use).or(options.registry_create),
                servers: options.servers,
                agents: options.agents,
                image: options.image,
                volumes: options.volumes,
            };
            ensure!(
                cluster.host().is_some(),
                "k3d publishes the API server at IPv4 addresses only: add --name with an IPv4 address of this machine, or \
                 with a DNS name that leads to one; the IPv6 addresses stay names of the certificate"
            );
            (if options.command { cluster.command() } else { cluster.config() }, ExitCode::SUCCESS)
        }
        K3dVerb::Lint { values } => {
            let faults: String = values
                .iter()
                .flat_map(|value| {
                    lint_k3s_arg(value).into_iter().map(move |fault| format!("{value}: {fault}\n"))
                })
                .collect();
            let code = if faults.is_empty() { ExitCode::SUCCESS } else { KNOWN_BAD.into() };
            (faults, code)
        }
    };
    print(&text)?;
    Ok(code)
}

/// A name that k3d accepts: it becomes part of host names.
fn cluster(text: &str) -> Result<String, &'static str> {
    let is_part = |part: &str| dns_label(&part.to_ascii_lowercase()).is_ok();
    let is_name = text.len() <= 32 && text.split('.').all(is_part);
    is_name.then(|| text.to_owned()).ok_or(
        "use up to 32 letters, digits, hyphens and dots; no hyphen at the beginning or end, or next to a dot",
    )
}

fn ports(text: &str) -> anyhow::Result<(u16, u16)> {
    let port = |text: &str| text.parse().ok().filter(|port| *port > 0);
    let both = text.split_once(':').and_then(|(here, there)| Some((port(here)?, port(there)?)));
    both.context("write two ports, such as 8080:80")
}

fn registry(text: &str) -> Result<String, &'static str> {
    const WRITE: &str = "write NAME:PORT, such as k3d-registry:5000";
    let (host, port) = text.rsplit_once(':').ok_or(WRITE)?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
    let is_address = !host.is_empty() && host.chars().all(is_plain) && port.parse::<u16>().is_ok();
    if is_address { Ok(text.to_owned()) } else { Err(WRITE) }
}

fn new_registry(text: &str) -> Result<NewRegistry, &'static str> {
    const WRITE: &str = "write NAME or NAME:PORT, such as registry.localhost:5000";
    let (name, port) = match text.split_once(':') {
        Some((name, port)) => (name, Some(port.parse().ok().filter(|port| *port > 0).ok_or(WRITE)?)),
        None => (text, None),
    };
    let is_name = name.len() <= 63 && name.split('.').all(|label| dns_label(label).is_ok());
    if is_name { Ok(NewRegistry::Create { name: name.to_owned(), port }) } else { Err(WRITE) }
}

fn servers(text: &str) -> Result<u16, &'static str> {
    match text.parse() {
        Ok(number @ 1..=9) if number % 2 == 1 => Ok(number),
        Ok(2..=9) => {
            Err("an even number of etcd servers tolerates no more failures than one fewer: use an odd number")
        }
        _ => Err("write 1, 3, 5, 7 or 9"),
    }
}

fn image(text: &str) -> Result<String, &'static str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._/:@".contains(c);
    let is_good =
        !text.is_empty() && text.chars().all(is_plain) && !text.starts_with(['-', '.', '/', ':', '@']);
    if is_good { Ok(text.to_owned()) } else { Err("write an image's name, such as rancher/k3s:v1.36.3-k3s1") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_values_are_taken() {
        assert!(
            cluster("edge-1").is_ok()
                && cluster("Edge.lab").is_ok()
                && cluster("").is_err()
                && cluster("edge..lab").is_err()
                && cluster("édge").is_err()
                && cluster("a b").is_err()
                && cluster("-a").is_err()
        );
        assert!(
            host("raspi").is_ok()
                && host("0.0.0.0").is_err()
                && host("*.pi").is_err()
                && host("a;b").is_err()
        );
        assert_eq!(ports("8080:80").unwrap(), (8080, 80));
        assert!(["80", "0:80", "80:", "x:y"].iter().all(|text| ports(text).is_err()));
        assert!(servers("1").is_ok() && servers("3").is_ok());
        assert!(["0", "2", "11", "x"].iter().all(|text| servers(text).is_err()));
        assert!(
            image("rancher/k3s:v1.36.3-k3s1").is_ok() && image("registry.lan:5000/k3s@sha256:0a").is_ok()
        );
        assert!(["", "a b", "-x", "a;b"].iter().all(|text| image(text).is_err()));
        assert!(new_registry("registry.localhost").is_ok() && new_registry("reg:5000").is_ok());
        assert!(["", "a:b", "a:0", "a b", "a:1:2"].iter().all(|text| new_registry(text).is_err()));
        assert!(registry("k3d-reg:5000").is_ok() && registry("reg").is_err() && registry("a b:1").is_err());
    }
}
