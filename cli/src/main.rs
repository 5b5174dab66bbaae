//! `weaver`: command-line client for the Pi and the laptop.

// Text from elsewhere must not reach a terminal unchanged: only `stdout` prints.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod bounded_file;
mod config;
mod connection;
mod copied_kinds;
mod crd;
mod crd_diff;
mod crd_explain;
mod crd_lint;
mod docs;
mod doctor;
mod examples;
mod exit_status;
mod explain;
mod find;
mod generated;
mod grant;
mod ingress;
mod k3d;
mod kubeconfig;
mod missing;
mod node;
mod orphans;
mod pause;
mod registry;
mod resource;
mod review;
mod screen;
mod status;
mod stdout;
mod support_bundle;
mod sync;
mod tenant;
mod token;
mod ui;
mod uninstall;
mod verify;
mod version;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Command, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::resource::kind::Kind;
use crate::stdout::{failed, note};

/// Check, configure and operate Config Weaver from the Pi or the laptop
#[derive(Parser)]
#[command(name = "weaver", version)]
struct Args {
    #[command(flatten)]
    connection: connection::ConnectionFlags,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Apply manifests of ConfigMapSyncs, ResourceSyncs and ServiceTokens, optionally waiting until they are Ready
    Apply(resource::apply::Apply),
    /// Print a shell completion script
    Completion(generated::Completion),
    /// Create and check the `weaver.toml` of a card
    #[command(subcommand)]
    Config(config::ConfigVerb),
    /// Install, compare and migrate Config Weaver's CustomResourceDefinitions
    #[command(subcommand)]
    Crd(crd::CrdVerb),
    /// Print the documentation of this version; needs no network
    Docs(docs::Docs),
    /// Find out what is wrong, where, and what to type
    ///
    /// Follows the path of kubectl: kubeconfig, name, certificate, credentials, then the CRDs and the
    /// tenants' resources. The first failure is the cause. Run as root on the Pi, it begins with the agent's
    /// report. Changes nothing.
    ///
    /// Exit status: 0 no problem found; 1 could not check; 2 wrong usage; 10 problem found; 11 reboot needed.
    #[command(verbatim_doc_comment)]
    Doctor(doctor::Doctor),
    /// Explain errors of kubectl, k3s, k3d and others: `COMMAND 2>&1 | weaver explain`
    ///
    /// Reads standard input and prints each known error once, as soon as it appears: its code, its meaning,
    /// what to type. With codes as arguments, prints their entries in the catalogue.
    ///
    /// Exit status: 0 input read to its end; 1 input could not be read; 2 wrong usage.
    #[command(verbatim_doc_comment)]
    Explain(explain::Explain),
    /// Find the cards in this network, and their state
    ///
    /// A card whose page is open to the network announces itself by mDNS. An announcement proves nothing: anyone in the
    /// network can announce anything. The state is what the card's page says now. Needs no kubeconfig.
    ///
    /// Exit status: 0 found; 1 none found, or the network could not be queried; 2 wrong usage; 10 two cards have one name.
    #[command(verbatim_doc_comment)]
    Find(find::Find),
    /// Check Ingresses for Traefik
    #[command(subcommand)]
    Ingress(ingress::IngressVerb),
    /// Configure a k3d cluster that laptops can reach by name
    #[command(subcommand)]
    K3d(k3d::K3dVerb),
    /// Export, fetch, merge and check kubeconfigs
    #[command(subcommand)]
    Kubeconfig(kubeconfig::KubeconfigVerb),
    /// Write the man pages to a directory
    #[command(hide = true)]
    Man {
        /// Directory to write to
        directory: PathBuf,
    },
    /// Upgrade, back up, restore and update this node; run as root
    #[command(subcommand)]
    Node(node::NodeVerb),
    /// List, adopt or delete copies whose ConfigMapSync or ResourceSync no longer exists
    #[command(subcommand)]
    Orphans(orphans::OrphansVerb),
    /// Pause the operator's writes, for all resources or for one, until `weaver resume`
    ///
    /// The operator's watches, webhook and health endpoints continue; the condition Paused of each resource gives the
    /// reason. Deleting a ConfigMapSync or ResourceSync waits while all are paused; if only that one is paused, its
    /// copies stay.
    #[command(verbatim_doc_comment)]
    Pause(pause::PauseArgs),
    /// Configure k3s for a private registry, and check one
    #[command(subcommand)]
    Registry(registry::RegistryVerb),
    /// Resume the operator's writes after `weaver pause`
    Resume(pause::PauseTarget),
    /// Show the leader, other candidates, pauses, and how many resources are Ready
    ///
    /// Exit status: 0 printed; 1 some of it is unknown, with the reason; 2 wrong usage.
    #[command(verbatim_doc_comment)]
    Status(status::StatusOptions),
    /// Collect logs, status and configuration for a bug report, without secrets
    ///
    /// Contains doctor's findings, the agent's report, versions, boot files, and the last log lines of k3s,
    /// Config Weaver and the kernel. Tokens, private keys and values after words like `password` are removed;
    /// check it before you share it.
    ///
    /// Exit status: 0 written; 1 not written; 2 wrong usage.
    #[command(verbatim_doc_comment)]
    SupportBundle(support_bundle::SupportBundle),
    /// Create, show and explain ConfigMapSyncs, which copy objects into other namespaces
    #[command(subcommand)]
    Sync(sync::SyncVerb),
    /// Show and change ResourceSyncs, which copy objects of any kind; `weaver sync` creates and explains them
    #[command(subcommand)]
    Resource(resource::ResourceVerb),
    /// Allow or forbid the operator to act as a ServiceAccount
    #[command(subcommand)]
    Tenant(tenant::TenantVerb),
    /// Create and show ServiceTokens, which keep a Secret filled with fresh tokens
    #[command(subcommand)]
    Token(token::TokenVerb),
    /// Show syncs, tokens, nodes and findings in a browser on this machine
    ///
    /// Uses the rights of your kubeconfig, and changes nothing in the cluster that you do not confirm. The pages
    /// are served on 127.0.0.1, to a browser that has opened the printed address, until Ctrl-C. The address
    /// works once; other users of this machine but root, and other web pages, cannot read the pages.
    ///
    /// Exit status: 0 ended by Ctrl-C; 1 could not be served; 2 wrong usage.
    #[command(verbatim_doc_comment)]
    Ui(ui::UiArgs),
    /// Remove Config Weaver from the cluster; keeps the copies unless `--copies delete`
    ///
    /// Lists what exists, asks, then removes all ConfigMapSyncs, ResourceSyncs, ServiceTokens and NodeReports, the
    /// rights of the operator and of the nodes, the admission policies, the lease, the namespace config-weaver and,
    /// last, the CRDs. Leaves other objects alone. Can be interrupted and run again. Does not remove programs from
    /// your machines.
    ///
    /// Exit status: 0 nothing left, or a dry run; 1 something left, with the reason; 2 wrong usage.
    #[command(verbatim_doc_comment)]
    Uninstall(uninstall::Uninstall),
    /// Check downloaded files of a release against SHA256SUMS, its signature and the provenance
    ///
    /// SHA256SUMS, SHA256SUMS.minisig and provenance.intoto.json are those next to the file. In a directory,
    /// every file must be listed and every listed file must exist. Without --key the signature is not checked:
    /// anyone who could replace the file could replace SHA256SUMS as well. Needs no network.
    ///
    /// Exit status: 0 as published; 1 could not check; 2 wrong usage; 10 not as published, or not signed by that key.
    #[command(verbatim_doc_comment)]
    Verify(verify::Verify),
    /// Print the versions of this program, the operator, the webhook, the CRDs and the agents of the nodes
    ///
    /// Asks the API server of the kubeconfig and no one else, unless --releases or `WEAVER_RELEASES` names the
    /// directory of a release, such as the one that `make release` fills: then also compares each part with that
    /// release. With --key, its signature must be right. Names parts that are more than one minor version
    /// behind the newest one: they are not promised to work together. Parts that cannot be reached or may not be
    /// read are shown as unknown, with the reason. A webhook that runs in the cluster is shown with the
    /// tag of its image, which is not compared; on a node it is of the agent's package.
    ///
    /// Exit status: 0 printed, whatever is unknown of the cluster; 1 could not print, or not read the
    /// release; 2 wrong usage; 10 the release is not as published, or not signed by that key.
    #[command(verbatim_doc_comment)]
    Version(version::VersionOptions),
}

/// The name under which users call the program. kubectl finds `kubectl-weaver` in the PATH and runs it as its own verb.
fn called(program: Option<&OsStr>) -> &'static str {
    // Without the `.exe` of Windows.
    let name = program.and_then(|path| Path::new(path).file_stem());
    if name.is_some_and(|name| name == "kubectl-weaver") { "kubectl weaver" } else { "weaver" }
}

/// The command line, as help shows it.
fn command(called: &'static str) -> Command {
    let command = connection::WITHOUT_CLUSTER.iter().fold(Args::command(), |command, path| {
        connection::hidden_in(command, &path.split(' ').collect::<Vec<_>>())
    });
    let command = examples::EXAMPLES.added(resource::with_kinds(command), called);
    exit_status::added(command).bin_name(called)
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
    connection::set(args.connection);
    let done = match args.verb {
        Verb::Apply(options) => resource::apply::run(&options).await,
        Verb::Completion(options) => generated::completion(&options, command("weaver")),
        Verb::Config(verb) => config::run(verb),
        Verb::Crd(verb) => crd::run(verb).await,
        Verb::Docs(options) => docs::run(&options),
        Verb::Doctor(options) => doctor::run(&options).await,
        Verb::Explain(options) => explain::run(&options),
        Verb::Find(options) => find::run(&options).await,
        Verb::Ingress(verb) => ingress::run(verb),
        Verb::K3d(verb) => k3d::run(verb),
        Verb::Kubeconfig(verb) => kubeconfig::run(verb).await,
        Verb::Man { directory } => generated::man(&directory, command("weaver")),
        Verb::Node(verb) => node::run(verb),
        Verb::Orphans(verb) => orphans::run(verb).await,
        Verb::Pause(options) => pause::pause(&options).await.map(|()| ExitCode::SUCCESS),
        Verb::Registry(verb) => registry::run(verb).await,
        Verb::Resume(target) => pause::resume(&target).await.map(|()| ExitCode::SUCCESS),
        Verb::Status(options) if options.watch => {
            status::watch::run(options.output).await.map(|()| ExitCode::SUCCESS)
        }
        Verb::Status(options) => status::run(&options).await.map(|()| ExitCode::SUCCESS),
        Verb::SupportBundle(options) => support_bundle::run(&options).await.map(|()| ExitCode::SUCCESS),
        Verb::Sync(verb) => sync::run(verb).await,
        Verb::Resource(verb) => resource::run(Kind::ResourceSync, verb).await,
        Verb::Tenant(verb) => tenant::run(verb).await.map(|()| ExitCode::SUCCESS),
        Verb::Token(verb) => token::run(verb).await,
        Verb::Ui(options) => ui::run(&options).await,
        Verb::Uninstall(options) => uninstall::run(&options).await.map(|()| ExitCode::SUCCESS),
        Verb::Verify(options) => verify::run(&options),
        Verb::Version(options) => version::run(&options).await,
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
    fn the_help_of_a_command_that_asks_no_api_server_has_no_flags_for_it() {
        let help = |words: &str| {
            let words = ["weaver"].into_iter().chain(words.split(' ')).chain(["--help"]);
            command("weaver").try_get_matches_from(words).unwrap_err().to_string()
        };
        for without in
            connection::WITHOUT_CLUSTER.into_iter().chain(["config check", "k3d lint", "node upgrade"])
        {
            assert!(!help(without).contains("--context"), "{without}");
        }
        for with in ["crd diff", "sync list", "kubeconfig lint", "doctor"] {
            let help = help(with);
            assert!(help.contains("--context") && help.contains("--kubeconfig"), "{with}");
        }
        // They are accepted all the same, for users who have them in an alias.
        let matches = command("weaver")
            .try_get_matches_from(["weaver", "config", "check", "x", "--context", "pi"])
            .unwrap();
        assert_eq!(matches.get_one::<String>("context").map(String::as_str), Some("pi"));
    }

    #[test]
    fn a_time_that_no_clock_counts_is_refused_by_every_command_that_waits() {
        for words in [
            "apply -f x --wait=",
            "find --timeout=",
            "node restore x --wait=",
            "node rollback --wait=",
            "registry check a:1 --timeout=",
            "resource delete x --wait=",
            "sync delete x --wait=",
            "token delete x --wait=",
            "uninstall --wait=",
        ] {
            let parsed = |seconds: &str| {
                let line = format!("weaver {words}{seconds}");
                command("weaver").try_get_matches_from(line.split(' ')).map_err(|error| error.to_string())
            };
            assert_eq!(parsed("60").err(), None, "{words}");
            for seconds in ["86401", "18446744073709551615", "18446744073709551616"] {
                let refused = parsed(seconds).unwrap_err();
                assert!(refused.contains(&format!("invalid value '{seconds}'")), "{refused}");
            }
        }
    }

    #[test]
    fn a_plugin_is_called_as_kubectl_calls_it() {
        for (program, expected) in [
            ("weaver", "weaver"),
            ("/usr/local/bin/kubectl-weaver", "kubectl weaver"),
            ("./kubectl-weaver", "kubectl weaver"),
            ("kubectl-weaver.exe", "kubectl weaver"),
            ("/opt/kubectl-weaver/weaver", "weaver"),
        ] {
            assert_eq!(called(Some(OsStr::new(program))), expected, "{program}");
        }
        assert_eq!(called(None), "weaver");
    }
}
