//! The root file system of Debian packages, made by mmdebstrap under emulation and cached by content.
//!
//! Guarantees: the key of the cache is the hash of everything that is read here; a directory is in the cache whole or
//! not at all, since it gets its name last, and stays while a build uses it. The archive changes while the key stays
//! the same: `--fresh` reads it again. Failure: mmdebstrap's log is named.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};
use weaver_devstack::files;
use weaver_devstack::steps::say;
use weaver_host::durable_file;

use super::debian_kernel::DebianKernel;
use super::tools::BuildLogs;
use super::{build_dir, packages};

/// The latest date of files in packages: the day of the first card.
pub const EPOCH: u64 = 1_795_219_200;
const SUITE: &str = "trixie";
/// What dpkg leaves out, on the card and here.
const DPKG: &str = "packaging/card/etc/dpkg/dpkg.cfg.d/10-weaver";
/// Files of our own packages that those of Debian read while they are installed: here, and on the card.
const READ_EARLY: [(&str, &str); 5] = [
    (DPKG, "/etc/dpkg/dpkg.cfg.d/10-weaver"),
    ("systemd/sysusers.d/weaver.conf", "/usr/lib/sysusers.d/weaver.conf"),
    ("systemd/sysusers.d/weaver-card.conf", "/usr/lib/sysusers.d/weaver-card.conf"),
    // Copied to the end of config.txt.
    ("packaging/card/etc/default/raspi-firmware-custom", "/etc/default/raspi-firmware-custom"),
    // On the build machine, initramfs-tools would detect no type, and no fsck would ever check the root.
    ("packaging/card/etc/initramfs-tools/conf.d/10-weaver", "/etc/initramfs-tools/conf.d/10-weaver"),
];
/// Upper bounds in bytes: of another root file system in the cache, and of mmdebstrap's tree before it is packed.
pub const SPACE: (u64, u64) = (1 << 30, 1536 << 20);
/// Unused entries of the cache are removed after this.
const KEPT: Duration = Duration::from_hours(14 * 24);

/// The files that decide what comes out, below the checkout.
const INPUTS: [&str; 7] = [
    "image/packages",
    "image/rootfs/before.sh",
    "image/rootfs/essential.sh",
    "image/rootfs/after.sh",
    "image/overlay/etc/apt/sources.list.d/debian.sources",
    "image/src/build/rootfs.rs",
    "image/src/build/debian_kernel.rs",
];

/// A finished root file system, in the cache.
#[derive(Debug)]
pub struct RootFs {
    directory: PathBuf,
    /// No other build removes it meanwhile.
    _in_use: File,
}

impl RootFs {
    fn take(directory: PathBuf) -> Result<Self> {
        let in_use = build_dir::in_use(&directory)?;
        // See the clearing at the end.
        in_use.set_modified(SystemTime::now())?;
        Ok(Self { directory, _in_use: in_use })
    }

    /// The root without the boot partition.
    pub fn tar(&self) -> PathBuf {
        self.directory.join("rootfs.tar")
    }

    /// The content of the boot partition.
    pub fn firmware(&self) -> PathBuf {
        self.directory.join("firmware.tar")
    }

    /// Name, version, architecture, source and its version of each package, by tabs.
    pub fn packages(&self) -> PathBuf {
        self.directory.join("packages.tsv")
    }

    /// Name, version and SHA-256 of each package's file, by tabs.
    pub fn hashes(&self) -> PathBuf {
        self.directory.join("hashes.tsv")
    }

    pub fn os_release(&self) -> PathBuf {
        self.directory.join("os-release")
    }
}

/// The root file system that the cache has for this checkout.
///
/// # Errors
/// When the checkout or the cache cannot be read.
pub fn cached(source: &Path, kernel: DebianKernel, cache: &Path) -> Result<Option<RootFs>> {
    let directory = store(cache).join(key(source, kernel)?);
    if !directory.is_dir() {
        return Ok(None);
    }
    if let Err(error) = is_whole(&directory) {
        say(format_args!("            made again, since what is in the cache is not whole: {error:#}"));
        return Ok(None);
    }
    RootFs::take(directory).map(Some)
}

/// Makes the root file system, replacing the one in the cache; one that another build has made meanwhile is used
/// instead, except for a `fresh` one.
///
/// # Errors
/// When mmdebstrap fails.
pub fn make(
    source: &Path,
    kernel: DebianKernel,
    cache: &Path,
    fresh: bool,
    logs: &BuildLogs,
) -> Result<RootFs> {
    let store = store(cache);
    files::make_dir(&store)?;
    let _alone = build_dir::wait_alone(&store)?;
    if let Some(root) = cached(source, kernel, cache)?.filter(|_| !fresh) {
        return Ok(root);
    }
    build_dir::clear(&store)?;
    let directory = store.join(key(source, kernel)?);
    let partial = tempfile::Builder::new().prefix(build_dir::PARTIAL).tempdir_in(&store)?;
    logs.run("root file system", &mut command(source, kernel, partial.path())?)?;
    is_whole(partial.path()).with_context(|| format!("see {}", logs.path("root file system").display()))?;
    // Their content first, then the name: a power cut must not leave an empty file in the cache.
    for file in fs::read_dir(partial.path())? {
        durable_file::flush(&file?.path())?;
    }
    durable_file::flush(partial.path())?;
    if directory.exists() && !build_dir::remove_unused(&directory)? {
        bail!("another build uses {}; wait until it has ended", directory.display());
    }
    fs::rename(partial.keep(), &directory).context("putting the root file system into the cache")?;
    durable_file::flush(&store)?;
    clear(&store, &directory)?;
    RootFs::take(directory)
}

/// Where the root file systems are kept.
fn store(cache: &Path) -> PathBuf {
    cache.join("rootfs")
}

fn is_whole(directory: &Path) -> Result<()> {
    for (file, least) in [
        ("rootfs.tar", 300 << 20),
        ("firmware.tar", 50 << 20),
        ("packages.tsv", 1 << 10),
        ("hashes.tsv", 1 << 10),
    ] {
        let path = directory.join(file);
        let size = fs::metadata(&path).with_context(|| format!("cannot find {}", path.display()))?.len();
        ensure!(size >= least, "{} has only {size} bytes", path.display());
    }
    Ok(())
}

fn command(source: &Path, kernel: DebianKernel, out: &Path) -> Result<Command> {
    let source = source.canonicalize()?;
    let read = |file: &str| fs::read_to_string(source.join(file)).with_context(|| format!("reading {file}"));
    let list = read("image/packages")?;
    let include = packages::asked(&list).map(|name| kernel.request(name)).collect::<Vec<_>>().join(",");
    let mut command = Command::new("mmdebstrap");
    command
        .current_dir(&source)
        // No newer than what the cards run, without pointer authentication, which costs as much as all the rest.
        .env("QEMU_CPU", "cortex-a72")
        // One initramfs at the end instead of one for each package that asks.
        .env("INITRD", "No")
        .env("SOURCE_DATE_EPOCH", EPOCH.to_string())
        .env("LC_ALL", "C.UTF-8")
        .args(["--variant=minbase", "--architectures=arm64", "--components=main non-free-firmware"])
        .arg(format!("--include={include}"))
        .args(["--aptopt=Acquire::Languages \"none\"", "--aptopt=Acquire::Retries \"3\""])
        // /etc/default/raspi-firmware exists before its package, and is kept.
        .arg("--dpkgopt=force-confold")
        // A file in the root would come too late for the essential packages.
        .args(
            read(DPKG)?
                .lines()
                .filter(|line| line.starts_with("path-"))
                .map(|line| format!("--dpkgopt={line}")),
        )
        .arg(hook("setup", &read("image/rootfs/before.sh")?))
        .args(READ_EARLY.map(|(file, to)| hook("setup", &format!("upload {file} {to}"))))
        .arg(hook("essential", &read("image/rootfs/essential.sh")?))
        .arg(hook("customize", &read("image/rootfs/after.sh")?))
        .arg(hook("customize", &format!("sync-out /weaver-out '{}'", out.display())))
        .arg(hook("customize", r#"rm -r "$1/weaver-out""#))
        .arg(SUITE)
        .arg(out.join("rootfs.tar"))
        .arg("image/overlay/etc/apt/sources.list.d/debian.sources")
        .args(kernel.sources());
    Ok(command)
}

/// A script as text, which runs even where a user's namespace cannot read its file; or one of mmdebstrap's own.
pub(super) fn hook(stage: &str, script: &str) -> String {
    format!("--{stage}-hook={script}")
}

/// The content of everything that decides what comes out.
fn key(source: &Path, kernel: DebianKernel) -> Result<String> {
    let mut hash = Sha256::new();
    // The sources of another kernel are what request it.
    let early = READ_EARLY.map(|(file, _)| file);
    for input in INPUTS.into_iter().chain(early).chain(kernel.sources()) {
        let mut bytes = Vec::new();
        let path = source.join(input);
        File::open(&path)
            .and_then(|mut file| file.read_to_end(&mut bytes))
            .with_context(|| format!("cannot read {}", path.display()))?;
        hash.update(input.as_bytes());
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(&bytes);
    }
    Ok(format!("{:x}", hash.finalize()))
}

/// Removes what was not used for long; each is a gigabyte.
fn clear(store: &Path, but: &Path) -> Result<()> {
    for entry in fs::read_dir(store)?.flatten() {
        let age = entry.metadata()?.modified()?.elapsed().unwrap_or_default();
        if entry.path() != but && age > KEPT {
            build_dir::remove_unused(&entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    fn checkout() -> &'static Path {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
    }

    #[test]
    fn another_kernel_is_another_root_file_system() {
        let key = |kernel| key(checkout(), kernel).unwrap();
        assert_ne!(key(DebianKernel::Trixie), key(DebianKernel::Backports));
    }

    #[test]
    fn only_an_experimental_image_asks_the_backports() {
        for (kernel, backports) in [(DebianKernel::Trixie, false), (DebianKernel::Backports, true)] {
            let command = command(checkout(), kernel, Path::new("/out")).unwrap();
            let words: Vec<_> = command.get_args().filter_map(OsStr::to_str).collect();
            assert_eq!(words.contains(&"image/rootfs/backports.sources"), backports, "{words:?}");
            assert_eq!(words.iter().any(|word| word.contains("/trixie-backports")), backports, "{words:?}");
        }
    }
}
