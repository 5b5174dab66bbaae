//! `weaver`: the person's tool, on the Pi and on the laptop.

// What others wrote must not reach a terminal as it is: `stdout` is the one place that prints.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod config;
mod connection;
mod crd;
mod crd_diff;
mod crd_explain;
mod crd_lint;
mod doctor;
mod examples;
mod explain;
mod generated;
mod ingress;
mod k3d;
mod kubeconfig;
mod node;
mod orphans;
mod pause;
mod registry;
mod resource;
mod review;
mod status;
mod stdout;
mod support_bundle;
mod sync;
mod tenant;
mod token;
mod uninstall;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Command, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::stdout::{failed, note};

/// Config Weaver's tool for people.
#[derive(Parser)]
#[command(name = "weaver", version)]
struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Make objects of our kinds what manifests say, and wait until the operator has done it
    Apply(resource::apply::Apply),
    /// What a shell needs to complete what you type
    Completion(generated::Completion),
    /// The `weaver.toml` of a card
    Config {
        #[command(subcommand)]
        verb: config::Verb,
    },
    /// The kinds that Config Weaver adds to Kubernetes
    Crd {
        #[command(subcommand)]
        verb: crd::Verb,
    },
    /// Is all well, and if not, whose fault is it?
    ///
    /// Goes the way that kubectl goes: kubeconfig, name, certificate, credentials, then our kinds and what tenants asked
    /// for. The first failure is the cause. On the Pi, as root, the agent's report comes first. Changes nothing.
    ///
    /// Exit status: 0 nothing known to be bad; 1 it could not look; 2 wrong usage; 10 known bad; 11 a reboot is missing.
    #[command(verbatim_doc_comment)]
    Doctor(doctor::Doctor),
    /// What the errors of kubectl, k3s, k3d and others mean: `COMMAND 2>&1 | weaver explain`
    ///
    /// Tells each thing that is recognised once, as soon as it is there: its code, what it means here, what to type.
    /// With codes: what stands in the catalogue.
    ///
    /// Exit status: 0 all was read, whatever was found; 1 it could not be read; 2 wrong usage.
    #[command(verbatim_doc_comment)]
    Explain(explain::Explain),
    /// What Traefik makes of Ingresses
    Ingress {
        #[command(subcommand)]
        verb: ingress::Verb,
    },
    /// A k3d cluster that laptops reach by name
    K3d {
        #[command(subcommand)]
        verb: k3d::Verb,
    },
    /// Reaching this cluster from another machine
    Kubeconfig {
        #[command(subcommand)]
        verb: kubeconfig::Verb,
    },
    /// Write the man pages to a directory
    #[command(hide = true)]
    Man {
        /// The directory
        directory: PathBuf,
    },
    /// The node itself, typed there and as root
    Node {
        #[command(subcommand)]
        verb: node::Verb,
    },
    /// Copies whose ConfigMapSync is gone
    Orphans {
        #[command(subcommand)]
        verb: orphans::Verb,
    },
    /// Have nothing written, for all resources or for one, until `weaver resume`
    ///
    /// Watches, webhook and health of the operator go on; the condition Paused of each resource says why. A ConfigMapSync
    /// that is deleted while all are paused waits; one that is deleted while it alone is paused leaves its copies.
    #[command(verbatim_doc_comment)]
    Pause(pause::Pause),
    /// A registry of one's own
    Registry {
        #[command(subcommand)]
        verb: registry::Verb,
    },
    /// End what `weaver pause` began
    Resume(pause::Resume),
    /// Who leads, who else would, what is paused, and how many resources are ready
    Status(status::Options),
    /// What somebody who is to help needs to see, in one file, without secrets
    ///
    /// doctor's findings, the agent's report, versions, boot files, and the last lines of the logs of k3s, of ours and of the
    /// kernel. Tokens, private keys and what stands behind words like `password` are left out; look through it all the same.
    ///
    /// Exit status: 0 written; 1 it could not be; 2 wrong usage.
    #[command(verbatim_doc_comment)]
    SupportBundle(support_bundle::SupportBundle),
    /// ConfigMapSync: one object copied into other namespaces
    Sync {
        #[command(subcommand)]
        verb: sync::Verb,
    },
    /// Which accounts the operator may act as
    Tenant {
        #[command(subcommand)]
        verb: tenant::Verb,
    },
    /// ServiceToken: a Secret kept filled with fresh tokens
    Token {
        #[command(subcommand)]
        verb: token::Verb,
    },
    /// Take Config Weaver out of the cluster; the copies stay, unless `--copies delete`
    ///
    /// Says what there is, asks, and then removes all resources of ours, the operator's and the nodes' rights,
    /// the admission policies, the lease, the namespace config-weaver and, last, the definitions. What is not ours is left alone. It may be
    /// interrupted, and goes on where it was when it is run again. The programs on your machines stay.
    ///
    /// Exit status: 0 nothing is left, or a dry run; 1 something is, and why is said; 2 wrong usage.
    #[command(verbatim_doc_comment)]
    Uninstall(uninstall::Uninstall),
}

/// How people call a program of this name. kubectl finds `kubectl-weaver` in the PATH and runs it as its own verb.
fn called(program: Option<&OsStr>) -> &'static str {
    let name = program.and_then(|path| Path::new(path).file_name());
    if name.is_some_and(|name| name == "kubectl-weaver") { "kubectl weaver" } else { "weaver" }
}

/// The command line, as help shows it.
fn command(called: &'static str) -> Command {
    examples::added(Args::command(), called).bin_name(called)
}

#[tokio::main]
async fn main() -> ExitCode {
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        note!("error: another TLS provider is installed already");
        return ExitCode::FAILURE;
    }
    let called = called(std::env::args_os().next().as_deref());
    let matches = command(called).get_matches();
    let args = Args::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let done = match args.verb {
        Verb::Apply(options) => resource::apply::run(&options).await,
        Verb::Completion(options) => generated::completion(&options, command("weaver")),
        Verb::Config { verb } => config::run(verb),
        Verb::Crd { verb } => crd::run(verb).await,
        Verb::Doctor(options) => doctor::run(&options).await,
        Verb::Explain(options) => explain::run(&options),
        Verb::Ingress { verb } => ingress::run(verb),
        Verb::K3d { verb } => k3d::run(verb),
        Verb::Kubeconfig { verb } => kubeconfig::run(verb).await,
        Verb::Man { directory } => generated::man(&directory, command("weaver")),
        Verb::Node { verb } => node::run(verb),
        Verb::Orphans { verb } => orphans::run(verb).await.map(|()| ExitCode::SUCCESS),
        Verb::Pause(options) => pause::pause(&options).await.map(|()| ExitCode::SUCCESS),
        Verb::Registry { verb } => Ok(registry::run(verb)),
        Verb::Resume(options) => pause::resume(&options).await.map(|()| ExitCode::SUCCESS),
        Verb::Status(options) => status::run(&options).await.map(|()| ExitCode::SUCCESS),
        Verb::SupportBundle(options) => support_bundle::run(&options).await.map(|()| ExitCode::SUCCESS),
        Verb::Sync { verb } => sync::run(verb).await,
        Verb::Tenant { verb } => tenant::run(verb).await.map(|()| ExitCode::SUCCESS),
        Verb::Token { verb } => token::run(verb).await,
        Verb::Uninstall(options) => uninstall::run(&options).await.map(|()| ExitCode::SUCCESS),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            failed("error", &error);
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command("weaver").debug_assert();
    }

    #[test]
    fn a_plugin_is_called_as_kubectl_calls_it() {
        for (program, expected) in [
            ("weaver", "weaver"),
            ("/usr/local/bin/kubectl-weaver", "kubectl weaver"),
            ("./kubectl-weaver", "kubectl weaver"),
            ("/opt/kubectl-weaver/weaver", "weaver"),
        ] {
            assert_eq!(called(Some(OsStr::new(program))), expected, "{program}");
        }
        assert_eq!(called(None), "weaver");
    }
}
