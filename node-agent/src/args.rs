//! The command line of `weaver-node-agent`: its verbs, and their flags with defaults and limits.

use std::{net::SocketAddr, path::PathBuf};

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum, error::ErrorKind};
use weaver_host::{examples::Examples, metrics_page::MetricsAddress};

use crate::{
    backup::args::{BackupArgs, RestoreArgs},
    boot_config::BootConfigArgs,
    card_page::PageArgs,
    data_disk::DataDiskArgs,
    host_args::{DAY, HostArgs, RUNTIME_DIR, STATE_DIR, absolute},
    publish::announce::Choice,
    update::args::UpdateArgs,
    upgrade::args::{RollbackArgs, UpgradeArgs},
};

/// Check the host and the served names, then open the gate for the operator.
#[derive(Debug, Parser)]
#[command(name = "weaver-node-agent", version)]
pub struct AgentArgs {
    #[command(subcommand)]
    pub command: AgentCommand,
}

#[derive(Debug, Subcommand)]
pub enum AgentCommand {
    /// Check the host and the served names; exit 0, 10 (a check failed) or 11 (reboot needed).
    Check {
        #[command(flatten)]
        host: HostArgs,
        /// Output format.
        #[arg(short, long, value_enum, default_value_t = FindingsOutput::Text)]
        output: FindingsOutput,
        /// Also measure the disk under k3s: writes 800 KB in small synchronous writes and removes them.
        #[arg(long)]
        disk: bool,
    },
    /// Check the host before k3s starts, without network. Changes nothing without --gate.
    Preflight(PreflightArgs),
    /// Apply weaver.toml to the host, early in the boot and without network.
    BootConfig(BootConfigArgs),
    /// Make the changes to boot files that `check` shows, without a reboot; `repair names` for the certificate.
    Repair(RepairArgs),
    /// Install another k3s version, verify it, and roll back automatically if it fails; run as root.
    Upgrade(UpgradeArgs),
    /// Reinstall the k3s version that ran before the last upgrade; run as root.
    Rollback(RollbackArgs),
    /// Save the state of k3s to one file while it runs; run as root.
    Backup(BackupArgs),
    /// Replace the state of k3s with that of a backup; run as root.
    Restore(RestoreArgs),
    /// Move the data of k3s to a disk, before k3s starts; weaver-data-disk.service starts it.
    DataDisk(DataDiskArgs),
    /// Install newer packages of Config Weaver, verify them, and roll back automatically if they fail; run as root.
    Update(UpdateArgs),
    /// Serve the last report to browsers, read-only; weaver-page.socket starts it.
    Page(PageArgs),
    /// Check continuously, open the gate when all names are served, and renew the operator's token.
    Run(RunArgs),
}

/// Formats of the findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FindingsOutput {
    /// Human-readable text.
    Text,
    /// One JSON document.
    Json,
}

const EXAMPLES: Examples = Examples { program: "weaver-node-agent", text: include_str!("examples.txt") };

impl AgentArgs {
    /// Those of this process; exits where they are wrong, or help was requested.
    pub fn of_process() -> Self {
        let matches = EXAMPLES.added(Self::command(), EXAMPLES.program).get_matches();
        let args = Self::from_arg_matches(&matches).and_then(Self::resolve);
        args.unwrap_or_else(|error| error.exit())
    }

    /// Makes the paths of the host absolute.
    ///
    /// # Errors
    /// A relative path under another root than `/`, where it could mean two paths.
    pub fn resolve(mut self) -> Result<Self, clap::Error> {
        let host = match &mut self.command {
            AgentCommand::Check { host, .. } => host,
            // Its paths are judged as they are parsed.
            AgentCommand::BootConfig(_) | AgentCommand::DataDisk(_) | AgentCommand::Page(_) => {
                return Ok(self);
            }
            AgentCommand::Repair(repair) => match &mut repair.what {
                Some(RepairWhat::Names(names)) => &mut names.host,
                None => return Ok(self),
            },
            AgentCommand::Upgrade(upgrade) => &mut upgrade.node.host,
            AgentCommand::Rollback(rollback) => &mut rollback.node.host,
            AgentCommand::Backup(backup) => &mut backup.host,
            AgentCommand::Restore(restore) => &mut restore.node.host,
            AgentCommand::Update(update) => &mut update.node.host,
            AgentCommand::Preflight(preflight) => {
                preflight.host.root_default(&mut preflight.runtime_dir);
                &mut preflight.host
            }
            AgentCommand::Run(run) => {
                run.host.root_default(&mut run.runtime_dir);
                &mut run.host
            }
        };
        let refuse = |message| AgentArgs::command().error(ErrorKind::ValueValidation, message);
        host.resolve().map_err(refuse)?;
        Ok(self)
    }
}

/// What `preflight` needs besides.
#[derive(Debug, Clone, clap::Args)]
pub struct PreflightArgs {
    #[command(flatten)]
    pub host: HostArgs,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = FindingsOutput::Text)]
    pub output: FindingsOutput,
    /// Act as the gate of k3s: wait for the clock, block k3s on a failed check, publish the report.
    #[arg(long)]
    pub gate: bool,
    /// Time limit for clock synchronisation if there is a default route.
    #[arg(
        long, env = "WEAVER_CLOCK_WAIT", value_name = "SECONDS", default_value_t = 30,
        value_parser = clap::value_parser!(u64).range(0..=300)
    )]
    pub clock_wait: u64,
    /// Without a network, give k3s a route and an address until the next boot.
    #[arg(long, requires = "gate")]
    pub offline_start: bool,
    /// Time limit for a default route before the start counts as one without a network.
    #[arg(
        long, value_name = "SECONDS", default_value_t = 20, requires = "offline_start",
        value_parser = clap::value_parser!(u64).range(0..=60)
    )]
    pub route_wait: u64,
    /// The `ip` program.
    #[arg(long, value_name = "PATH", default_value = "ip", hide = true, requires = "offline_start")]
    pub ip: PathBuf,
    /// Directory of the block file and the report, not under --root [default: /run/weaver under --root].
    #[arg(long, value_name = "DIR", default_value = RUNTIME_DIR, hide_default_value = true)]
    pub runtime_dir: PathBuf,
    /// Directory for state that survives a reboot, below --root.
    #[arg(long, value_name = "DIR", default_value = STATE_DIR)]
    pub state_dir: PathBuf,
}

/// What `repair` is to mend.
#[derive(Debug, Clone, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct RepairArgs {
    /// Something other than the boot files.
    #[command(subcommand)]
    pub what: Option<RepairWhat>,
    #[command(flatten)]
    pub files: RepairFilesArgs,
}

/// What `repair` mends besides boot files.
#[derive(Debug, Clone, Subcommand)]
pub enum RepairWhat {
    /// Make k3s serve every configured name, and remove others with --remove; restarts k3s if needed.
    Names(RepairNamesArgs),
}

/// What `repair names` needs.
#[derive(Debug, Clone, clap::Args)]
pub struct RepairNamesArgs {
    #[command(flatten)]
    pub host: HostArgs,
    /// Directory for state that survives a reboot, below --root.
    #[arg(long, value_name = "DIR", default_value = STATE_DIR, value_parser = absolute)]
    pub state_dir: PathBuf,
    /// Show the steps without doing them.
    #[arg(long)]
    pub dry_run: bool,
    /// Remove a name from the certificate that is not configured (repeatable).
    #[arg(long, value_name = "NAME")]
    pub remove: Vec<String>,
    /// Time limit for k3s to come back.
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=DAY))]
    pub start_timeout: u64,
    /// The k3s program, for `k3s certificate rotate`.
    #[arg(long, value_name = "PATH", default_value = "k3s")]
    pub k3s: PathBuf,
    /// The systemctl program.
    #[arg(long, value_name = "PATH", default_value = "systemctl", hide = true)]
    pub systemctl: PathBuf,
}

/// What `repair` of boot files needs.
#[derive(Debug, Clone, clap::Args)]
pub struct RepairFilesArgs {
    /// Root of the host's file system: prefix for every path.
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
    /// Directory for state that survives a reboot, below --root.
    #[arg(long, value_name = "DIR", default_value = STATE_DIR, value_parser = absolute)]
    pub state_dir: PathBuf,
    /// Show the exact changes without making them.
    #[arg(long)]
    pub dry_run: bool,
    /// Revert the last repair.
    #[arg(long, conflicts_with = "dry_run")]
    pub undo: bool,
}

/// What `run` needs besides.
#[derive(Debug, Clone, clap::Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub host: HostArgs,
    /// Directory of the operator's credentials and the report, not under --root [default: /run/weaver under --root].
    #[arg(long, value_name = "DIR", default_value = RUNTIME_DIR, hide_default_value = true)]
    pub runtime_dir: PathBuf,
    /// Directory for state that survives a reboot, below --root.
    #[arg(long, value_name = "DIR", default_value = STATE_DIR)]
    pub state_dir: PathBuf,
    /// Start systemd units: k3s when it is no longer blocked, the operator when the gate opens.
    #[arg(long, conflicts_with_all = ["operator", "webhook"])]
    pub systemd: bool,
    /// The systemctl program.
    #[arg(long, value_name = "PATH", default_value = "systemctl", hide = true, requires = "systemd")]
    pub systemctl: PathBuf,
    /// Program to start as the operator when the gate opens [default: none].
    #[arg(long, value_name = "PATH")]
    pub operator: Option<PathBuf>,
    /// Program to start at once as the conversion webhook [default: none].
    #[arg(long, value_name = "PATH")]
    pub webhook: Option<PathBuf>,
    /// Address at which the API server reaches the webhook.
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:9443")]
    pub webhook_address: SocketAddr,
    /// Directory of the webhook's CA and certificate, which the agent creates and renews.
    #[arg(long, value_name = "DIR", default_value = weaver_api::webhook::DIRECTORY)]
    pub certificates: PathBuf,
    /// Address and port of the metrics endpoint, without authentication, or `none`.
    #[arg(long, env = "WEAVER_AGENT_METRICS", value_name = "ADDR", default_value = "none")]
    pub metrics: MetricsAddress,
    /// Announce the node by mDNS, where avahi is installed; auto: if anyone may look at the card's page.
    #[arg(long, env = "WEAVER_ANNOUNCE", value_enum, value_name = "auto|yes|no", default_value_t = Choice::Auto, hide_possible_values = true)]
    pub announce: Choice,
    /// Shortest interval between checks; grows while nothing changes, to 10 s while the gate is shut.
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=DAY))]
    pub retry_seconds: u64,
    /// Longest interval between checks of the names while the gate is open, and of the CRDs.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=DAY))]
    pub recheck_seconds: u64,
    /// Requested lifetime of the operator's token.
    #[arg(long, value_name = "SECONDS", default_value_t = 21_600, value_parser = clap::value_parser!(i64).range(600..=86_400))]
    pub token_seconds: i64,
    /// Interval at which the operator's token is renewed, at the latest at 80 % of its lifetime.
    #[arg(long, value_name = "SECONDS", default_value_t = 1_800, value_parser = clap::value_parser!(u64).range(1..=DAY))]
    pub token_renew_seconds: u64,
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn each_command_has_an_example_that_can_be_typed() {
        assert_eq!(EXAMPLES.faults(&AgentArgs::command()), Vec::<String>::new());
    }

    #[test]
    fn the_command_line_is_consistent() {
        AgentArgs::command().debug_assert();
    }

    #[test]
    fn relative_paths_start_at_the_working_directory_or_are_refused() {
        let config = |flags: &[&str]| {
            let words = ["weaver-node-agent", "check"].iter().chain(flags);
            match AgentArgs::try_parse_from(words).unwrap().resolve() {
                Ok(AgentArgs { command: AgentCommand::Check { host, .. } }) => Ok(host.k3s_config.unwrap()),
                Ok(other) => panic!("{other:?}"),
                Err(error) => Err(error.to_string()),
            }
        };
        let here = std::env::current_dir().unwrap();
        assert_eq!(config(&["--k3s-config", "a/b.yaml"]).unwrap(), here.join("a/b.yaml"));
        assert_eq!(config(&["--k3s-config", "/a.yaml", "--root", "/x"]).unwrap(), Path::new("/a.yaml"));
        let refused = config(&["--k3s-config", "a.yaml", "--root", "/x"]).unwrap_err();
        assert!(refused.contains("--k3s-config a.yaml: with --root"), "{refused}");
    }

    #[test]
    fn a_fixture_hosts_runtime_directory_is_its_own() {
        for (flags, want) in [
            (&["run"][..], "/run/weaver"),
            (&["run", "--root", "/x"], "/x/run/weaver"),
            (&["run", "--root", "/x", "--runtime-dir", "/y"], "/y"),
            (&["preflight", "--root", "/x"], "/x/run/weaver"),
            (&["preflight"], "/run/weaver"),
        ] {
            let words = ["weaver-node-agent"].iter().chain(flags);
            let directory = match AgentArgs::try_parse_from(words).unwrap().resolve().unwrap().command {
                AgentCommand::Run(run) => run.runtime_dir,
                AgentCommand::Preflight(preflight) => preflight.runtime_dir,
                other => panic!("{other:?}"),
            };
            assert_eq!(directory, Path::new(want), "{flags:?}");
        }
    }

    #[test]
    fn wrong_values_are_refused() {
        for wrong in [
            &["check", "-o", "yaml"][..],
            &["check", "--api-address", "localhost:6443"],
            &["run", "--token-seconds", "300"],
            &["run", "--retry-seconds", "0"],
            &["run", "--retry-seconds", "86401"],
            &["run", "--recheck-seconds", "18446744073709551615"],
            &["run", "--token-seconds", "86401"],
            &["run", "--token-renew-seconds", "18446744073709551615"],
            &["check", "--probe-timeout", "18446744073709551615"],
            &["check", "--probe-timeout", "0"],
            &["preflight", "--clock-wait", "301"],
            &["preflight", "--clock-wait", "-1"],
            &["preflight", "--offline-start"],
            &["preflight", "--gate", "--ip", "/bin/true"],
            &["run", "--systemd", "--operator", "/bin/true"],
            &["run", "--systemd", "--webhook", "/bin/true"],
            &["run", "--systemctl", "/bin/true"],
            &["run", "--metrics", "9446"],
            &["run", "--announce", "maybe"],
            &["fly"],
        ] {
            let args = std::iter::once("weaver-node-agent").chain(wrong.iter().copied());
            assert!(AgentArgs::try_parse_from(args).is_err(), "{wrong:?}");
        }
    }
}
