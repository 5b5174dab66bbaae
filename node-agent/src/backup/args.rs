//! The command lines of `backup` and `restore`.

use std::path::PathBuf;

use weaver_diagnostics::when::When;

use super::seal::DecryptionArgs;
use crate::host_args::{HostArgs, STATE_DIR, absolute};
use crate::upgrade::args::NodeArgs;

#[derive(Debug, Clone, clap::Args)]
pub struct BackupArgs {
    /// File, or directory in which the file is named after node and date; not under --root.
    #[arg(value_name = "FILE|DIR", required_unless_present = "show")]
    pub target: Option<PathBuf>,
    /// Show the contents of a backup and verify every hash.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["target", "volumes", "keep", "when", "must_be_mounted"])]
    pub show: Option<PathBuf>,
    /// Include the local-path volumes, as they are while pods write to them.
    #[arg(long)]
    pub volumes: bool,
    /// Keep only this many backups of this node in the directory; remove older ones.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub keep: Option<u16>,
    /// Run only if the last run with this option is older; record the result for the node's report.
    #[arg(long, value_name = "hourly|daily|weekly", value_parser = interval)]
    pub when: Option<When>,
    /// Refuse a directory on the file system of `/`.
    #[arg(long)]
    pub must_be_mounted: bool,
    /// Encrypt for this age recipient (age1…): only those who have its identity file can read the backup (repeatable).
    #[arg(long = "recipient", value_name = "AGE1…", conflicts_with_all = ["show", "passphrase_file"])]
    pub recipients: Vec<String>,
    /// With what it is encrypted, or a shown one decrypted.
    #[command(flatten)]
    pub keys: DecryptionArgs,
    #[command(flatten)]
    pub host: HostArgs,
    /// Directory for state that survives a reboot, below --root.
    #[arg(long, value_name = "DIR", default_value = STATE_DIR, value_parser = absolute)]
    pub state_dir: PathBuf,
    /// Path of the installed k3s; under --root.
    #[arg(long, value_name = "PATH", default_value = "/usr/local/bin/k3s", value_parser = absolute, hide = true)]
    pub program: PathBuf,
}

#[derive(Debug, Clone, clap::Args)]
pub struct RestoreArgs {
    /// The backup; not under --root.
    #[arg(value_name = "FILE", required_unless_present = "resume")]
    pub file: Option<PathBuf>,
    /// Complete a restore that was interrupted.
    #[arg(long, conflicts_with_all = ["file", "take_name"])]
    pub resume: bool,
    /// Rename this node to the node of the backup.
    #[arg(long)]
    pub take_name: bool,
    /// With what it is decrypted.
    #[command(flatten)]
    pub keys: DecryptionArgs,
    #[command(flatten)]
    pub node: NodeArgs,
}

fn interval(text: &str) -> Result<When, &'static str> {
    When::of(text).ok_or("must be hourly, daily or weekly")
}
