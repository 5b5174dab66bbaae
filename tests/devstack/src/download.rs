//! The pinned k3s: fetched once, checked, cached.
//!
//! Guarantees: only a file with the pinned SHA-256 is ever used, be it fresh or
//! cached; it is put into the cache by a rename; a machine without the network
//! loses five seconds an hour. Failure: a wrong hash is an error and nothing is
//! kept; what in the cache has one is removed and fetched again; a server that
//! cannot be reached is a reason to use something else, not an error.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, IsTerminal};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::files;

/// After a failed attempt the next one waits this long.
pub const RETRY_AFTER: Duration = Duration::from_hours(1);

/// Version, address and hashes of the k3s that ships (`image/k3s.lock`).
#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct K3sLock {
    version: String,
    address: String,
    files: BTreeMap<String, String>,
}

/// One file of a [`K3sLock`].
#[derive(Debug, PartialEq, Eq)]
pub struct Asset {
    /// The version it belongs to.
    pub version: String,
    /// Where it is fetched from.
    pub url: String,
    /// What it must hash to, in lower-case hexadecimal.
    pub sha256: String,
}

impl Asset {
    /// The last part of its address.
    pub fn file_name(&self) -> &str {
        self.url.rsplit('/').next().unwrap_or(&self.url)
    }
}

impl K3sLock {
    /// Reads a lock.
    ///
    /// # Errors
    /// With file, line and column of what is wrong.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("{} is not a lock of k3s", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let lock: Self = serde_saphyr::from_str(text)?;
        for (file, hash) in &lock.files {
            let hex = hash.len() == 64 && hash.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
            ensure!(hex, "the hash of {file} must be 64 characters of 0-9 and a-f, and is {hash:?}");
        }
        // Both become parts of a path.
        for name in lock.files.keys().chain([&lock.version]) {
            ensure!(!name.contains('/') && !name.starts_with('.'), "{name:?} must be a plain name");
        }
        Ok(lock)
    }

    /// The k3s program for an architecture as Rust names it.
    pub fn program(&self, architecture: &str) -> Option<Asset> {
        self.asset(match architecture {
            "x86_64" => "k3s",
            "aarch64" => "k3s-arm64",
            _ => return None,
        })
    }

    /// The archive of k3s' own images for an architecture as Rust names it.
    pub fn images(&self, architecture: &str) -> Option<Asset> {
        self.asset(match architecture {
            "x86_64" => "k3s-airgap-images-amd64.tar.zst",
            "aarch64" => "k3s-airgap-images-arm64.tar.zst",
            _ => return None,
        })
    }

    fn asset(&self, file: &str) -> Option<Asset> {
        Some(Asset {
            version: self.version.clone(),
            url: format!("{}/{file}", self.address),
            sha256: self.files.get(file)?.clone(),
        })
    }
}

/// How long a server may keep us waiting before it counts as unreachable.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Seconds for each connection, the look-up of its name included.
    pub connect: u64,
    /// Seconds in which less than 10 KiB/s arrive, silence included.
    pub stall: u64,
}

impl Default for Patience {
    fn default() -> Self {
        Self { connect: 5, stall: 20 }
    }
}

/// Where checked files are kept: one directory per version and hash.
pub struct Cache {
    dir: PathBuf,
    sha256: String,
    patience: Patience,
    instead: &'static str,
}

/// What became of a download.
#[derive(Debug, PartialEq, Eq)]
pub enum Fetched {
    /// It is in the cache now.
    Stored(PathBuf),
    /// The server did not answer; curl's own words.
    Unreachable(String),
}

impl Cache {
    /// The cache of one asset below `root`.
    pub fn new(root: &Path, asset: &Asset) -> Self {
        let name = format!("{}-{}", asset.version, asset.sha256);
        Self {
            dir: root.join("k3s").join(name),
            sha256: asset.sha256.clone(),
            patience: Patience::default(),
            instead: "K3S_BIN=/path/to/k3s",
        }
    }

    /// Waits as long as this for a server.
    #[must_use]
    pub fn patience(self, patience: Patience) -> Self {
        Self { patience, ..self }
    }

    /// What to type instead, for the message about a wrong hash.
    #[must_use]
    pub fn instead(self, instead: &'static str) -> Self {
        Self { instead, ..self }
    }

    fn program(&self) -> PathBuf {
        self.dir.join("k3s")
    }

    fn failure(&self) -> PathBuf {
        self.dir.join("unreachable")
    }

    /// The program, if it is there; checked again, since a disk or a user may
    /// have changed it since it was stored. What is not the pinned one is removed.
    ///
    /// # Errors
    /// When it cannot be read, or the wrong one cannot be removed.
    pub fn found(&self) -> Result<Option<PathBuf>> {
        let path = self.program();
        if !path.is_file() {
            return Ok(None);
        }
        if sha256(&path)? == self.sha256 {
            return Ok(Some(path));
        }
        eprintln!("{} is not the pinned k3s; it is removed", path.display());
        files::remove(&path)?;
        Ok(None)
    }

    /// Remembers that the program cannot be fetched now.
    ///
    /// # Errors
    /// When the cache cannot be written.
    pub fn unreachable(&self, reason: String) -> Result<Fetched> {
        files::make_dir(&self.dir)?;
        // Only its age is asked for. Two that fail at once may both write it.
        fs::write(self.failure(), &reason).map_err(|error| files::explained(&self.failure(), error))?;
        Ok(Fetched::Unreachable(reason))
    }

    /// How long ago the last attempt failed, when it was less than [`RETRY_AFTER`].
    pub fn failed(&self) -> Option<Duration> {
        let at = fs::metadata(self.failure()).and_then(|meta| meta.modified()).ok()?;
        // A clock that was set back makes an old failure look like a future one.
        SystemTime::now().duration_since(at).ok().filter(|ago| *ago < RETRY_AFTER)
    }

    /// Fetches, checks and stores the program.
    ///
    /// # Errors
    /// When the hash is wrong, or the cache cannot be written.
    pub fn fetch(&self, asset: &Asset) -> Result<Fetched> {
        files::make_dir(&self.dir)?;
        let file = tempfile::Builder::new()
            .prefix(".fetching-")
            .permissions(fs::Permissions::from_mode(0o755))
            .tempfile_in(&self.dir)
            .map_err(|error| files::explained(&self.program(), error))?;
        if let Some(reason) = download(&asset.url, file.path(), self.patience)? {
            return self.unreachable(reason);
        }
        let found = sha256(file.path())?;
        if found != asset.sha256 {
            bail!(
                "{} has the wrong content and was not kept: its SHA-256 is {found}, pinned is {}. \
                 Either the download was tampered with or the lock is wrong; do not use it. \
                 To go on without: {}",
                asset.url,
                asset.sha256,
                self.instead
            );
        }
        // Its content first, then its name: a power cut must not leave an empty file there.
        file.as_file()
            .sync_all()
            .and_then(|()| file.persist(self.program()).map_err(|failed| failed.error))
            .map_err(|error| files::explained(&self.program(), error))?;
        files::remove(&self.failure())?;
        Ok(Fetched::Stored(self.program()))
    }
}

/// Fetches to a file; the reason if the server could not deliver.
fn download(url: &str, to: &Path, patience: Patience) -> Result<Option<String>> {
    // curl knows the machine's proxies and certificates; a stalled transfer ends.
    let mut command = Command::new("curl");
    command.args(["--fail", "--location", "--show-error", "--speed-limit", "10240"]);
    command.args(["--connect-timeout", &patience.connect.to_string()]);
    command.args(["--speed-time", &patience.stall.to_string()]);
    command.arg(if io::stderr().is_terminal() { "--progress-bar" } else { "--silent" });
    let output = command
        .arg("--output")
        .arg(to)
        .arg("--")
        .arg(url)
        .stdin(Stdio::null())
        .output()
        .context("cannot start curl; `apt-get install curl` brings it")?;
    if output.status.success() {
        return Ok(None);
    }
    // 23: what arrived could not be written here, which no other server mends.
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    ensure!(output.status.code() != Some(23), "cannot store {url} in {}: {said}", to.display());
    Ok(Some(said.lines().last().unwrap_or("curl failed").to_owned()))
}

/// A file's SHA-256, in lower-case hexadecimal.
///
/// # Errors
/// When it cannot be read.
pub fn sha256(path: &Path) -> Result<String> {
    let mut hash = Sha256::new();
    let read = File::open(path).and_then(|mut file| io::copy(&mut file, &mut hash));
    read.with_context(|| format!("cannot read {}", path.display()))?;
    Ok(format!("{:x}", hash.finalize()))
}

#[cfg(test)]
mod tests;
