//! Our own Debian packages on the card: made of the programs that were built, and installed by the card's own dpkg.
//!
//! The root file system of Debian's packages stays in the cache as it is, and ours are added to it at each build, so
//! that a changed program costs a minute and not a quarter of an hour. Guarantees: our files on the card are those of
//! `make deb`, with an entry in dpkg's database, so that apt on the card can replace them; the same input gives the
//! same bytes. Failure: the log of the step is named.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::rootfs::{RootFs, hook};
use super::tools::BuildLogs;

/// What they are called.
pub const NAMES: [&str; 3] = ["config-weaver", "config-weaver-card", "weaver"];

/// Makes the packages of the `programs`, installs them in the root, and returns its tar, which is below `work`.
///
/// # Errors
/// When packaging/build.sh or mmdebstrap fails; the latter most often in one of the packages' scripts.
pub fn install(
    source: &Path,
    root: &RootFs,
    programs: &Path,
    work: &Path,
    epoch: u64,
    logs: &BuildLogs,
) -> Result<PathBuf> {
    // Both programs start elsewhere.
    let source = source.canonicalize()?;
    let work = work.canonicalize()?;
    let (packages, tar) = (work.join("packages"), work.join("root.tar"));

    let mut command = Command::new(source.join("packaging/build.sh"));
    command.arg("of").arg(programs.canonicalize()?).arg(&packages);
    logs.run("packages", command.env("SOURCE_DATE_EPOCH", epoch.to_string()))?;

    let script = source.join("image/rootfs/own.sh");
    let script = fs::read_to_string(&script).with_context(|| format!("cannot read {}", script.display()))?;
    let base = root.tar().canonicalize()?;
    let mut command = Command::new("mmdebstrap");
    command
        // The same processor as for the root itself.
        .env("QEMU_CPU", "cortex-a72")
        .env("INITRD", "No")
        .env("LC_ALL", "C.UTF-8")
        .env("SOURCE_DATE_EPOCH", epoch.to_string())
        // All packages are local: nothing is fetched, and no suite is named.
        .args(["--variant=custom", "--architectures=arm64", "--skip=update,setup,cleanup,tar-in/mknod"])
        .arg(hook("setup", &format!("tar-in '{}' /", base.display())))
        .arg(hook("setup", r#"mkdir "$1/weaver-packages""#))
        .arg(hook("setup", &format!("sync-in '{}' /weaver-packages", packages.display())))
        .arg(hook("customize", &script))
        .arg("")
        .arg(&tar);
    logs.run("own packages", &mut command)?;
    Ok(tar)
}
