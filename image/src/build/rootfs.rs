//! The root file system of Debian packages, made by mmdebstrap under emulation and kept by content.
//!
//! Guarantees: the key of the cache is the hash of everything that is read here; a directory stands in the cache
//! whole or not at all, since it gets its name last. The archive moves on beneath the same key: `--fresh` asks
//! it again. Failure: what the machine lacks is named before anything is fetched.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};

use super::packages;
use super::tools::Logs;

/// What the files of packages are dated to, at the latest: the day of the first card.
pub const EPOCH: u64 = 1_795_219_200;
/// Debian's release.
const SUITE: &str = "trixie";
/// Unused entries of the cache are removed after this.
const KEPT: Duration = Duration::from_hours(14 * 24);

/// The files that decide what comes out, below the checkout.
const INPUTS: [&str; 7] = [
    "image/packages",
    "image/rootfs/before.sh",
    "image/rootfs/essential.sh",
    "image/rootfs/after.sh",
    "image/overlay/etc/apt/sources.list.d/debian.sources",
    "systemd/sysusers.d/weaver.conf",
    "image/src/build/rootfs.rs",
];

/// A finished root file system, in the cache.
#[derive(Debug, Clone)]
pub struct RootFs {
    directory: PathBuf,
}

impl RootFs {
    /// The root without the boot partition.
    #[must_use]
    pub fn tar(&self) -> PathBuf {
        self.directory.join("rootfs.tar")
    }

    /// The content of the boot partition.
    #[must_use]
    pub fn firmware(&self) -> PathBuf {
        self.directory.join("firmware.tar")
    }

    /// Name, version, architecture, source and its version of each package, by tabs.
    #[must_use]
    pub fn packages(&self) -> PathBuf {
        self.directory.join("packages.tsv")
    }

    /// Name, version and SHA-256 of each package's file, by tabs.
    #[must_use]
    pub fn hashes(&self) -> PathBuf {
        self.directory.join("hashes.tsv")
    }

    /// Debian's os-release.
    #[must_use]
    pub fn os_release(&self) -> PathBuf {
        self.directory.join("os-release")
    }
}

/// Takes the root file system out of the cache, or makes it.
///
/// # Errors
/// When the machine lacks something or mmdebstrap fails.
pub fn make(source: &Path, cache: &Path, fresh: bool, logs: &Logs) -> Result<(RootFs, bool)> {
    let store = cache.join("rootfs");
    let directory = store.join(key(source)?);
    if directory.is_dir() && !fresh {
        // In use: see the clearing at the end.
        File::open(&directory)?.set_modified(SystemTime::now())?;
        return Ok((RootFs { directory }, true));
    }
    super::emulation::check()?;
    fs::create_dir_all(&store).with_context(|| format!("cannot make {}", store.display()))?;
    let partial = tempfile::Builder::new().prefix(".partial-").tempdir_in(&store)?;
    logs.run("root file system", &mut command(source, partial.path())?)?;
    for (file, least) in [("rootfs.tar", 300 << 20), ("firmware.tar", 50 << 20), ("packages.tsv", 1 << 10)] {
        let path = partial.path().join(file);
        let size = fs::metadata(&path).with_context(|| format!("{file} was not made"))?.len();
        ensure!(
            size >= least,
            "{file} has only {size} bytes; see {}",
            logs.path("root file system").display()
        );
    }
    if directory.exists() {
        fs::remove_dir_all(&directory).with_context(|| format!("cannot remove {}", directory.display()))?;
    }
    fs::rename(partial.keep(), &directory).context("putting the root file system into the cache")?;
    clear(&store, &directory)?;
    Ok((RootFs { directory }, false))
}

fn command(source: &Path, out: &Path) -> Result<Command> {
    let source = source.canonicalize()?;
    let read = |file: &str| fs::read_to_string(source.join(file)).with_context(|| format!("reading {file}"));
    let list = read("image/packages")?;
    let include = packages::asked(&list).collect::<Vec<_>>().join(",");
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
        // /etc/default/raspi-firmware is there before its package, and stays.
        .arg("--dpkgopt=force-confold")
        .arg(hook("setup", &read("image/rootfs/before.sh")?))
        .arg(hook("setup", "upload systemd/sysusers.d/weaver.conf /usr/lib/sysusers.d/weaver.conf"))
        .arg(hook("essential", &read("image/rootfs/essential.sh")?))
        .arg(hook("customize", &read("image/rootfs/after.sh")?))
        .arg(hook("customize", &format!("sync-out /weaver-out '{}'", out.display())))
        .arg(hook("customize", r#"rm -r "$1/weaver-out""#))
        .arg(SUITE)
        .arg(out.join("rootfs.tar"))
        .arg("image/overlay/etc/apt/sources.list.d/debian.sources");
    Ok(command)
}

/// A script by its text, which runs even where a user's namespace cannot read his files; or one of mmdebstrap's own.
fn hook(stage: &str, script: &str) -> String {
    format!("--{stage}-hook={script}")
}

/// The content of everything that decides what comes out.
fn key(source: &Path) -> Result<String> {
    let mut hash = Sha256::new();
    for input in INPUTS {
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
            fs::remove_dir_all(entry.path())
                .with_context(|| format!("removing {}", entry.path().display()))?;
        }
    }
    Ok(())
}
