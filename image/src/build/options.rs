//! Options of a build.

use std::ffi::OsString;
use std::path::PathBuf;

use super::debian_kernel::DebianKernel;
use crate::programs::Profile;

#[derive(Debug, Clone, clap::Args)]
pub struct RootOptions {
    /// The checkout.
    #[arg(long, default_value = ".")]
    pub source: PathBuf,
    /// Debian's kernel for the card.
    #[arg(long, env = "KERNEL", value_enum, default_value_t)]
    pub kernel: DebianKernel,
}

#[derive(Debug, Clone, clap::Args)]
pub struct BuildOptions {
    /// The checkout.
    #[arg(long, default_value = ".")]
    pub source: PathBuf,
    /// Where the image goes.
    #[arg(long, default_value = "out")]
    pub out: PathBuf,
    /// k3s for the card: a file, or `testbed` for a test image [default: what image/k3s.lock names, downloaded].
    #[arg(long, env = "K3S", value_name = "FILE|testbed")]
    pub k3s: Option<OsString>,
    /// Archives of container images for the boot partition, separated by spaces: files, or `pinned` for those of
    /// image/k3s.lock, downloaded.
    #[arg(long, env = "IMAGES", value_name = "FILE|pinned", value_delimiter = ' ')]
    pub images: Vec<PathBuf>,
    /// Debian's kernel for the card; that of its backports makes an experimental image, for a Pi 5 as well.
    #[arg(long, env = "KERNEL", value_enum, default_value_t)]
    pub kernel: DebianKernel,
    /// Ask Debian's archive again instead of taking the root file system from the cache.
    #[arg(long)]
    pub fresh: bool,
    /// Stop at the image, without compressing it.
    #[arg(long)]
    pub raw: bool,
    /// cargo's profile of our programs [default: release, and dev with the testbed].
    #[arg(long, value_name = "PROFILE", value_enum)]
    pub programs: Option<Profile>,
}
