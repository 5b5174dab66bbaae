//! The command lines of `backup` and `restore`.

use std::path::PathBuf;

use super::seal::Keys;
use crate::host_args::{HostArgs, STATE_DIR, absolute};
use crate::upgrade::args::NodeArgs;

/// What `backup` needs.
#[derive(Debug, Clone, clap::Args)]
pub struct BackupArgs {
    /// File, or directory in which the file gets a name of node and date; not under --root.
    #[arg(value_name = "FILE|DIR", required_unless_present = "show")]
    pub target: Option<PathBuf>,
    /// Show what a backup holds, and check all of it.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["target", "volumes", "keep", "must_be_mounted"])]
    pub show: Option<PathBuf>,
    /// Include the local-path volumes, as they are while pods write to them.
    #[arg(long)]
    pub volumes: bool,
    /// Remove older backups of this node from the directory, down to this many.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub keep: Option<u16>,
    /// Refuse a directory on the file system of `/`.
    #[arg(long)]
    pub must_be_mounted: bool,
    /// Encrypt for this age recipient (age1…), of which only the owner of the identity can read it (repeatable).
    #[arg(long = "recipient", value_name = "AGE1…", conflicts_with_all = ["show", "passphrase_file"])]
    pub recipients: Vec<String>,
    /// With what it is encrypted, or a shown one decrypted.
    #[command(flatten)]
    pub keys: Keys,
    /// Where to look.
    #[command(flatten)]
    pub host: HostArgs,
    /// State directory, which survives a reboot; under --root.
    #[arg(long, value_name = "DIR", default_value = STATE_DIR, value_parser = absolute)]
    pub state_dir: PathBuf,
    /// Path of the installed k3s; under --root.
    #[arg(long, value_name = "PATH", default_value = "/usr/local/bin/k3s", value_parser = absolute, hide = true)]
    pub program: PathBuf,
}

/// What `restore` needs.
#[derive(Debug, Clone, clap::Args)]
pub struct RestoreArgs {
    /// The backup; not under --root.
    #[arg(value_name = "FILE", required_unless_present = "resume")]
    pub file: Option<PathBuf>,
    /// Complete a restore that was interrupted.
    #[arg(long, conflicts_with_all = ["file", "take_name"])]
    pub resume: bool,
    /// Let this node take the name of the backup's node.
    #[arg(long)]
    pub take_name: bool,
    /// With what it is decrypted.
    #[command(flatten)]
    pub keys: Keys,
    /// The node.
    #[command(flatten)]
    pub node: NodeArgs,
}
