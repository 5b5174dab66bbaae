//! `weaver k3d`: a k3d cluster that laptops reach by name. Prints what k3d is to be given, and runs nothing.

use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use weaver_api::names::dns_label;
use weaver_diagnostics::exit_code::KNOWN_BAD;
use weaver_diagnostics::k3d::create::{Cluster, lint_k3s_arg};
use weaver_diagnostics::san::ServingName;

use crate::kubeconfig::arguments::host;
use crate::stdout::print;

#[derive(Subcommand)]
pub enum Verb {
    /// Print a configuration file for `k3d cluster create --config FILE`, or the command itself
    ///
    /// The API server's certificate gets all names; the kubeconfig gets the first name and the port. Without a
    /// fixed port k3d chooses a random one for each cluster.
    #[command(verbatim_doc_comment)]
    Config(Config),
    /// Check values of `--k3s-arg`
    ///
    /// Exit status: 0 valid; 10 not valid.
    #[command(verbatim_doc_comment)]
    Lint {
        /// Values as k3d takes them: --tls-san=raspi@server:*
        #[arg(required = true, value_name = "VALUE", allow_hyphen_values = true)]
        values: Vec<String>,
    },
}

#[derive(Args)]
pub struct Config {
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
    #[arg(long = "port", value_name = "HERE:THERE", value_parser = ports)]
    ports: Vec<(u16, u16)>,
    /// Registry made by `k3d registry create`: its name in `k3d registry list`, and its port inside the network
    #[arg(long, value_name = "NAME:PORT", value_parser = registry)]
    registry: Option<String>,
    /// Print the command instead of the file; k3d then listens only on the address of the first name
    #[arg(long)]
    command: bool,
}

pub fn run(verb: Verb) -> anyhow::Result<ExitCode> {
    let (text, code) = match verb {
        Verb::Config(options) => {
            let Config { cluster: name, names, api_port, ports, registry, command } = options;
            let cluster = Cluster { name, names, api_port, ports, registry };
            (if command { cluster.command() } else { cluster.config() }, ExitCode::SUCCESS)
        }
        Verb::Lint { values } => {
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

/// As k3d wants it: it becomes part of host names.
fn cluster(text: &str) -> Result<String, &'static str> {
    if text.len() <= 32 && dns_label(text).is_ok() {
        Ok(text.to_owned())
    } else {
        Err("write up to 32 letters a to z, digits and hyphens, none of those at an end")
    }
}

fn ports(text: &str) -> anyhow::Result<(u16, u16)> {
    let port = |text: &str| text.parse().ok().filter(|port| *port > 0);
    let both = text.split_once(':').and_then(|(here, there)| Some((port(here)?, port(there)?)));
    both.context("write two ports, such as 8080:80")
}

fn registry(text: &str) -> Result<String, &'static str> {
    let (host, port) = text.rsplit_once(':').ok_or("write NAME:PORT, such as k3d-registry:5000")?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
    if !host.is_empty() && host.chars().all(is_plain) && port.parse::<u16>().is_ok() {
        Ok(text.to_owned())
    } else {
        Err("write NAME:PORT, such as k3d-registry:5000")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_values_are_taken() {
        assert!(
            cluster("edge-1").is_ok()
                && cluster("").is_err()
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
        assert!(registry("k3d-reg:5000").is_ok() && registry("reg").is_err() && registry("a b:1").is_err());
    }
}
