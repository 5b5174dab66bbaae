//! What a trial asks of apt, dpkg and the tools of a kernel.

use std::ffi::OsStr;
use std::path::Path;

use anyhow::Context as _;
use weaver_diagnostics::kernel_trial::packages::{AptStanza, stanza};
use weaver_diagnostics::package_update::dpkg::InstalledPackage;

use crate::update::programs::ProgramSource;

/// Packages with a kernel, or with a part of one ([`AptStanza::parts`]).
const KERNELS: [&str; 1] = ["linux-*"];

impl ProgramSource {
    /// The packages of kernels that are there.
    ///
    /// # Errors
    /// dpkg does not say.
    pub(super) async fn kernels(&self) -> anyhow::Result<Vec<InstalledPackage>> {
        self.matching(&KERNELS).await
    }

    /// The version of a package that apt would install.
    ///
    /// # Errors
    /// apt does not know it.
    pub(super) async fn candidate(&self, name: &str) -> anyhow::Result<AptStanza> {
        let answer = self.answer("apt-cache", ["show", "--no-all-versions", name]).await?;
        stanza(&answer).with_context(|| format!("apt-cache does not show {name}"))
    }

    /// Unpacks a package's file without installing it.
    ///
    /// # Errors
    /// It is no package, or the disk is full.
    pub(super) async fn extract(&self, package: &Path, into: &Path) -> anyhow::Result<()> {
        let words = [OsStr::new("--extract"), package.as_os_str(), into.as_os_str()];
        self.answer("dpkg-deb", words).await.map(drop)
    }

    /// Lists what the modules of a kernel need, and makes its initramfs.
    ///
    /// # Errors
    /// A program is not there, or fails.
    pub(super) async fn make_initramfs(&self, release: &str, to: &Path) -> anyhow::Result<()> {
        self.answer("depmod", [release]).await?;
        let words = [OsStr::new("-o"), to.as_os_str(), OsStr::new(release)];
        self.answer("mkinitramfs", words).await.map(drop)
    }
}
