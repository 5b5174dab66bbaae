//! The command line.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{CommandFactory as _, Parser, Subcommand, ValueEnum};

/// No pause and no life is worth more; larger numbers would overflow a clock.
const DAY: u64 = 86_400;

/// Proves the host fit for k3s and the names served, then opens the gate for the operator.
#[derive(Debug, Parser)]
#[command(name = "weaver-node-agent", version)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check the host and the served names; exit 0, 10 (known bad) or 11 (reboot needed).
    Check {
        /// Where to look.
        #[command(flatten)]
        host: HostArgs,
        /// How to print the findings.
        #[arg(short, long, value_enum, default_value_t = Output::Text)]
        output: Output,
    },
    /// Check what must hold before k3s starts; no network.
    Preflight {
        /// Where to look.
        #[command(flatten)]
        host: HostArgs,
        /// How to print the findings.
        #[arg(short, long, value_enum, default_value_t = Output::Text)]
        output: Output,
    },
    /// Keep checking, open the gate when the names are proven, keep the operator's token fresh.
    Run(RunArgs),
}

/// Formats of the findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For a person.
    Text,
    /// For a program.
    Json,
}

/// Where the host's files and the API server are.
#[derive(Debug, Clone, clap::Args)]
pub struct HostArgs {
    /// Directory put in front of every path.
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
    /// Configuration of k3s [default: what k3s' unit says, else /etc/rancher/k3s/config.yaml].
    #[arg(long, value_name = "FILE")]
    pub k3s_config: Option<PathBuf>,
    /// Data of k3s [default: what its configuration says, else /var/lib/rancher/k3s].
    #[arg(long, value_name = "DIR")]
    pub k3s_data_dir: Option<PathBuf>,
    /// Unit that starts k3s, for its flags; a missing file means no flags.
    #[arg(long, value_name = "FILE", default_value = "/etc/systemd/system/k3s.service")]
    pub k3s_unit: PathBuf,
    /// Kubeconfig of the administrator.
    #[arg(long, value_name = "FILE", default_value = "/etc/rancher/k3s/k3s.yaml")]
    pub admin_kubeconfig: PathBuf,
    /// API server [default: 127.0.0.1 and the configured https-listen-port, else 6443].
    #[arg(long, value_name = "IP:PORT")]
    pub api_address: Option<SocketAddr>,
    /// How long to go on probing before a name counts as not served.
    #[arg(long, value_name = "SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=DAY))]
    pub probe_timeout: u64,
}

impl Args {
    /// Makes the paths of the host absolute.
    ///
    /// # Errors
    /// A relative path under another root than `/`, where it could mean two
    /// places.
    pub fn resolve(mut self) -> Result<Self, clap::Error> {
        let host = match &mut self.command {
            Command::Check { host, .. } | Command::Preflight { host, .. } => host,
            Command::Run(run) => &mut run.host,
        };
        host.resolve()?;
        Ok(self)
    }
}

impl HostArgs {
    fn resolve(&mut self) -> Result<(), clap::Error> {
        let is_real = self.root == Path::new("/");
        let always = [("--k3s-unit", &mut self.k3s_unit), ("--admin-kubeconfig", &mut self.admin_kubeconfig)];
        let config = self.k3s_config.as_mut().map(|path| ("--k3s-config", path));
        let data_dir = self.k3s_data_dir.as_mut().map(|path| ("--k3s-data-dir", path));
        for (flag, path) in always.into_iter().chain(config).chain(data_dir) {
            if path.is_absolute() {
                continue;
            }
            let refuse = |why: &str| {
                let message = format!("{flag} {}: {why}", path.display());
                Args::command().error(clap::error::ErrorKind::ValueValidation, message)
            };
            if !is_real {
                return Err(refuse("with --root, name the path from the host's `/` on"));
            }
            *path = std::path::absolute(&*path).map_err(|error| refuse(&error.to_string()))?;
        }
        Ok(())
    }

    /// How long to go on probing.
    #[must_use]
    pub const fn probe_patience(&self) -> Duration {
        Duration::from_secs(self.probe_timeout)
    }
}

/// What `run` needs besides.
#[derive(Debug, Clone, clap::Args)]
pub struct RunArgs {
    /// Where to look.
    #[command(flatten)]
    pub host: HostArgs,
    /// Directory of the operator's credentials and the report.
    #[arg(long, value_name = "DIR", default_value = "/run/weaver")]
    pub runtime_dir: PathBuf,
    /// Program to start as the operator once the gate is open; absent: start none.
    #[arg(long, value_name = "PATH")]
    pub operator: Option<PathBuf>,
    /// Program to start as the conversion webhook, at once and whatever the gate says; absent: start none.
    #[arg(long, value_name = "PATH")]
    pub webhook: Option<PathBuf>,
    /// Where the API server reaches the webhook.
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:9443")]
    pub webhook_address: SocketAddr,
    /// Directory of the webhook's CA and certificate, which the agent makes and renews.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/weaver/webhook")]
    pub certificates: PathBuf,
    /// Pause between checks while the gate is shut.
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=DAY))]
    pub retry_seconds: u64,
    /// Pause between checks while the gate is open.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=DAY))]
    pub recheck_seconds: u64,
    /// Lifetime to ask for the operator's token (the API server allows 600 and more).
    #[arg(long, value_name = "SECONDS", default_value_t = 21_600, value_parser = clap::value_parser!(i64).range(600..=86_400))]
    pub token_seconds: i64,
    /// Renew the operator's token this often, and never later than at 80 % of its life.
    #[arg(long, value_name = "SECONDS", default_value_t = 1_800, value_parser = clap::value_parser!(u64).range(1..=DAY))]
    pub token_renew_seconds: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn relative_paths_start_at_the_working_directory_or_are_refused() {
        let config = |flags: &[&str]| {
            let words = ["weaver-node-agent", "check"].iter().chain(flags);
            match Args::try_parse_from(words).unwrap().resolve() {
                Ok(Args { command: Command::Check { host, .. } }) => Ok(host.k3s_config.unwrap()),
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
            &["fly"],
        ] {
            let args = std::iter::once("weaver-node-agent").chain(wrong.iter().copied());
            assert!(Args::try_parse_from(args).is_err(), "{wrong:?}");
        }
    }
}
