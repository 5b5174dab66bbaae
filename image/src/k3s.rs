//! The k3s for the card: the pinned one, a file of the user, or the testbed.
//!
//! Guarantees: the program is for the card's processor; a pinned one has the pinned SHA-256; anything else is labelled
//! ([`Variant`]), so that no image looks like a release that is none; a user's file is copied first and then checked,
//! so that the checked file is the one used. Failure: a wrong hash, a wrong file and a failed build are errors with
//! their remedy; where the pinned k3s cannot be fetched the error is a [`NotFetched`], at most 30 s after the start,
//! and the program exits with [`NotFetched::EXIT_CODE`].

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use weaver_devstack::choice::{self, TestbedFor};
use weaver_devstack::download::{self, Asset, Cache, Fetched, K3sLock, Patience};
use weaver_devstack::files;

use crate::elf::{self, ProgramOrigin};
use crate::programs::emulation;

/// The card's processor, as Rust names it.
pub(crate) const CARD: &str = "aarch64";

/// One redirection is usual (to the files of a release), which makes two connections and two waits: 2 × (4 + 10) s is
/// less than the 30 s that a user waits for a refusal.
pub(crate) const PATIENCE: Patience = Patience { connect: 4, stall: 10 };

/// The user's choice with `K3S`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum K3sChoice {
    /// Nothing: the k3s of `image/k3s.lock`.
    Pinned,
    /// `testbed`: an image for tests.
    Testbed,
    File(PathBuf),
}

impl K3sChoice {
    /// From the value of `K3S`; unset and empty are the same. A file called `testbed` is `./testbed`.
    pub fn of(value: Option<&OsStr>) -> Self {
        match value {
            None => Self::Pinned,
            Some(value) if value.is_empty() => Self::Pinned,
            Some(value) if value == "testbed" => Self::Testbed,
            Some(value) => Self::File(value.into()),
        }
    }
}

/// The kind of image that a k3s makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// With the pinned k3s.
    Release,
    /// With a k3s that the user vouches for.
    CustomK3s,
    /// With the testbed: test equipment, never for use.
    Test,
}

impl Variant {
    /// `VARIANT_ID` of os-release and a part of the image's name; a release has none.
    pub fn id(self) -> Option<&'static str> {
        match self {
            Self::Release => None,
            Self::CustomK3s => Some("custom-k3s"),
            Self::Test => Some("test"),
        }
    }

    /// The name of an image that is no release, on the console and in Imager.
    pub const fn spoken(self) -> Option<&'static str> {
        match self {
            Self::Release => None,
            Self::CustomK3s => Some("with a k3s that is not the pinned one"),
            Self::Test => Some("TEST IMAGE: no k3s but test equipment in its place"),
        }
    }
}

/// The program that the card gets as `k3s`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct K3s {
    pub path: PathBuf,
    /// Its SHA-256, in lower-case hexadecimal.
    pub sha256: String,
    /// Such as `v1.36.4+k3s1`.
    pub version: String,
    /// What it makes of the image.
    pub variant: Variant,
}

impl K3s {
    /// Writes it to `to`, mode 0755, with its hash checked once more on the copy.
    ///
    /// # Errors
    /// When it cannot be read or written, or has changed since it was chosen.
    pub fn copy_to(&self, to: &Path) -> Result<()> {
        let copied = copy(&self.path, to)?;
        ensure!(
            copied == self.sha256,
            "{} has changed while it was used; run the command again",
            self.path.display()
        );
        Ok(())
    }
}

/// The pinned k3s, or the archive of its images, could not be fetched, and no other was requested.
#[derive(Debug, PartialEq, Eq)]
pub struct NotFetched {
    asset: Asset,
    reason: String,
    /// The option of make that takes a file instead.
    option: &'static str,
}

impl NotFetched {
    /// The program's exit code, distinct from that of failures that need a closer look.
    pub const EXIT_CODE: u8 = 3;

    pub(crate) const fn new(asset: Asset, reason: String, option: &'static str) -> Self {
        Self { asset, reason, option }
    }
}

impl std::fmt::Display for NotFetched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { asset, reason, option } = self;
        let (name, Asset { version, url, sha256 }) = (asset.file_name(), asset);
        let what = if *option == "K3S" { "k3s" } else { "the archive of images of k3s" };
        write!(
            f,
            "{what} {version} for the card could not be fetched ({reason}).\n\
             \x20 address  {url}\n\
             \x20 SHA-256  {sha256}\n\
             \x20 file     {name}\n\
             Fetch it on a machine that reaches the address, bring it here, then\n\
             \x20   make image {option}=/path/to/{name}        (make image {option}=FILE)"
        )?;
        if *option != "K3S" {
            return Ok(());
        }
        f.write_str(
            "\nor, for an image that serves tests only, with the testbed in its place\n\
             \x20   make image K3S=testbed",
        )
    }
}

impl std::error::Error for NotFetched {}

/// Finds, fetches or builds the requested k3s. `source` is the checkout; a copy of a user's file is kept in `work`.
///
/// # Errors
/// When it is not fit for the card, its hash is wrong, a build fails; [`NotFetched`] when it cannot be fetched.
pub fn choose(source: &Path, choice_of_k3s: &K3sChoice, work: &Path) -> Result<K3s> {
    let asset = pinned_asset(&source.join("image/k3s.lock"))?;
    match choice_of_k3s {
        K3sChoice::Pinned => pinned(source, &choice::cache_root()?, asset, PATIENCE),
        K3sChoice::Testbed => testbed(choice::build_testbed(source, TestbedFor::Arm64)?),
        K3sChoice::File(path) => given(path, &asset, work),
    }
}

fn pinned_asset(lock: &Path) -> Result<Asset> {
    K3sLock::read(lock)?
        .program(CARD)
        .ok_or_else(|| anyhow!("{} names no k3s-arm64; add its SHA-256 under `files`", lock.display()))
}

/// A pinned file from the cache or its address, or why that cannot be reached. A failed attempt is not remembered as
/// `make up` does: a user who requests an image expects a fresh attempt.
pub(crate) fn fetched(
    source: &Path,
    cache: &Path,
    asset: &Asset,
    patience: Patience,
    instead: &'static str,
) -> Result<Result<PathBuf, String>> {
    let cache = Cache::new(cache, asset).patience(patience).instead(instead);
    if let Some(path) = cache.found()? {
        return Ok(Ok(path));
    }
    Ok(match choice::fetch(source, &cache, asset)? {
        Fetched::Stored(path) => Ok(path),
        Fetched::Unreachable(reason) => Err(reason),
    })
}

fn pinned(source: &Path, cache: &Path, asset: Asset, patience: Patience) -> Result<K3s> {
    let path = match fetched(source, cache, &asset, patience, "make image K3S=FILE")? {
        Ok(path) => path,
        Err(reason) => return Err(NotFetched::new(asset, reason, "K3S").into()),
    };
    fit(&path).with_context(|| format!("{} is what image/k3s.lock asks for", asset.url))?;
    Ok(K3s { path, sha256: asset.sha256, version: asset.version, variant: Variant::Release })
}

fn testbed(path: PathBuf) -> Result<K3s> {
    fit(&path).with_context(|| format!("the testbed {} cannot go onto the card", path.display()))?;
    Ok(K3s { sha256: download::sha256(&path)?, version: version(&path)?, path, variant: Variant::Test })
}

/// A user's file: its content decides, not its name.
fn given(path: &Path, pinned: &Asset, work: &Path) -> Result<K3s> {
    let setting = format!("K3S={}", path.display());
    let kind = fs::metadata(path)
        .with_context(|| format!("{setting}: no such file can be read; name a k3s program for arm64"))?;
    ensure!(kind.is_file(), "{setting} is not a file; name the k3s program itself");
    files::make_dir(work)?;
    let copied = work.join("k3s");
    let sha256 = copy(path, &copied).with_context(|| format!("{setting} cannot be used"))?;
    fit(&copied).with_context(|| format!("{setting} cannot go onto the card"))?;
    if sha256 == pinned.sha256 {
        let version = pinned.version.clone();
        return Ok(K3s { path: copied, sha256, version, variant: Variant::Release });
    }
    let version = version(&copied).with_context(|| format!("{setting} is not accepted as k3s"))?;
    let variant = variant_of(&version);
    eprintln!(
        "!!! {setting} reports k3s {version}, and is not the pinned {}: its SHA-256 is {sha256}.\n\
         !!! The image is marked {:?}; only you know where this file comes from.",
        pinned.version,
        variant.id().unwrap_or_default()
    );
    Ok(K3s { path: copied, sha256, version, variant })
}

/// For a k3s without a pinned hash. The testbed identifies itself, wherever it came from.
fn variant_of(version: &str) -> Variant {
    if version.contains("testbed") { Variant::Test } else { Variant::CustomK3s }
}

/// Refuses what the card's processor or glibc cannot run.
fn fit(path: &Path) -> Result<()> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let faults = elf::read(&bytes)?.faults(ProgramOrigin::Foreign);
    let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
    ensure!(faults.is_empty(), "{}", faults.join("; "));
    Ok(())
}

/// The version that a program reports.
fn version(path: &Path) -> Result<String> {
    let said = emulation::version(path)?;
    let first = said.lines().next().unwrap_or_default();
    match first.strip_prefix("k3s version ").and_then(|rest| rest.split_whitespace().next()) {
        Some(version) => Ok(version.to_owned()),
        None => bail!("`--version` printed {first:?} instead of `k3s version …`"),
    }
}

/// Copies whole or not at all, mode 0755; the hash of what was copied.
fn copy(from: &Path, to: &Path) -> Result<String> {
    let dir = to.parent().ok_or_else(|| anyhow!("{} has no directory", to.display()))?;
    let mut source = File::open(from).with_context(|| format!("cannot read {}", from.display()))?;
    let mut file = tempfile::Builder::new()
        .prefix(".k3s-")
        .permissions(fs::Permissions::from_mode(0o755))
        .tempfile_in(dir)
        .map_err(|error| files::explained(to, error))?;
    io::copy(&mut source, &mut file).map_err(|error| files::explained(to, error))?;
    // The umask was applied when the file was made.
    let mode = file.as_file().set_permissions(fs::Permissions::from_mode(0o755));
    mode.and_then(|()| file.as_file().sync_all()).map_err(|error| files::explained(to, error))?;
    let sha256 = download::sha256(file.path())?;
    file.persist(to).map_err(|failed| files::explained(to, failed.error))?;
    Ok(sha256)
}

#[cfg(test)]
mod tests;
