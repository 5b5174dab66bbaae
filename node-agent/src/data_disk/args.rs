//! The command line of `data-disk`.

use std::path::PathBuf;

use weaver_diagnostics::data_disk::name::DiskName;

use crate::host_args::{STATE_DIR, absolute};

/// Which disk, and which host.
#[derive(Debug, Clone, clap::Args)]
pub struct DataDiskArgs {
    /// The disk's file system, by LABEL=, UUID= or PARTUUID=; without it only a move that was begun is completed.
    #[arg(long, env = "WEAVER_DATA_DISK", value_name = "NAME")]
    pub disk: Option<DiskName>,
    /// Time limit for the disk to appear.
    #[arg(
        long, value_name = "SECONDS", default_value_t = 30,
        value_parser = clap::value_parser!(u64).range(0..=300)
    )]
    pub wait: u64,
    /// Root of the host's file system: prefix for every path.
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
    /// Directory for state that survives a reboot, below --root.
    #[arg(long, value_name = "DIR", default_value = STATE_DIR, value_parser = absolute)]
    pub state_dir: PathBuf,
    /// The systemctl program.
    #[arg(long, value_name = "PATH", default_value = "systemctl", hide = true)]
    pub systemctl: PathBuf,
}
