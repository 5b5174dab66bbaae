//! What the next boot finds on the root file system after a cut, its journal replayed.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use ext4_view::{Ext4, Ext4Error, Ext4Read};
use sha2::{Digest as _, Sha256};
use weaver_image::boot::card::temporary_dir;
use weaver_image::boot::programs;
use weaver_image::build::disk::ROOT_START;

/// Files of the identity and of the import, with their directories' others: each is whole, as it was before, or
/// not there.
const WATCHED: [&str; 20] = [
    "/etc/machine-id",
    "/etc/hostname",
    "/etc/ssh/ssh_host_ed25519_key",
    "/etc/ssh/ssh_host_ed25519_key.pub",
    "/etc/ssh/ssh_host_ecdsa_key",
    "/etc/ssh/ssh_host_ecdsa_key.pub",
    NODE_PASSWORD,
    "/etc/rancher/k3s/config.yaml.d/90-weaver.yaml",
    "/etc/netplan/90-weaver.yaml",
    "/etc/fstab",
    "/etc/hosts",
    "/etc/cloud/cloud.cfg.d/98-weaver-hostname.cfg",
    "/etc/ssh/weaver_keys/weaver-admin",
    "/etc/systemd/timesyncd.conf.d/90-weaver.conf",
    "/etc/weaver/boot-config.env",
    "/var/lib/weaver/boot-config/node-name",
    TOKEN_FILE,
    "/var/lib/weaver/boot-config/last-good.toml",
    "/etc/default/raspi-extra-cmdline",
    "/etc/default/raspi-firmware",
];
/// Directories all of whose files are watched: what k3s makes once and lives by.
const IDENTITY: [&str; 2] = [K3S_TLS, "/var/lib/weaver/webhook"];
/// A real k3s does not flush these: a cut may leave them empty. The drop-in of k3s.service removes those.
const UNFLUSHED: [&str; 2] = [K3S_TLS, NODE_PASSWORD];
const K3S_TLS: &str = "/var/lib/rancher/k3s/server/tls";
const NODE_PASSWORD: &str = "/etc/rancher/node/password";
pub const TOKEN_FILE: &str = "/var/lib/weaver/k3s.token";
pub const K3S: &str = "/usr/local/bin/k3s";
pub const UPGRADE: &str = "/var/lib/weaver/k3s-upgrade.json";

pub type FileContents = BTreeMap<String, Vec<u8>>;

/// A file and where the file system begins in it.
struct Partition(File, u64);

impl Ext4Read for Partition {
    fn read(&mut self, at: u64, into: &mut [u8]) -> Result<(), Box<dyn Error + Send + Sync + 'static>> {
        Ok(self.0.read_exact_at(into, self.1 + at)?)
    }
}

/// The root file system of a card, read with its journal replayed in memory.
pub struct ReplayedRoot(Ext4);

impl ReplayedRoot {
    pub fn of(card: &Path) -> Result<Self, String> {
        Self::at(card, ROOT_START)
    }

    fn at(card: &Path, start: u64) -> Result<Self, String> {
        let file = File::open(card).map_err(|error| error.to_string())?;
        Ext4::load(Box::new(Partition(file, start)))
            .map(Self)
            .map_err(|error| format!("the root cannot be read: {error}"))
    }

    /// A file's content; `None` where there is none.
    pub fn read(&self, path: &str) -> Result<Option<Vec<u8>>, String> {
        match self.0.read(path) {
            Err(Ext4Error::NotFound) => Ok(None),
            read => read.map(Some).map_err(|error| format!("{path} cannot be read: {error}")),
        }
    }

    /// All that is watched.
    pub fn watched(&self) -> Result<FileContents, String> {
        let mut found = FileContents::new();
        for path in WATCHED {
            if let Some(content) = self.read(path)? {
                found.insert(path.to_owned(), content);
            }
        }
        let mut open: Vec<_> = IDENTITY.map(str::to_owned).into();
        while let Some(directory) = open.pop() {
            let reported = |error: Ext4Error| format!("{directory} cannot be read: {error}");
            let entries = match self.0.read_dir(directory.as_str()) {
                Err(Ext4Error::NotFound) => continue,
                entries => entries.map_err(reported)?,
            };
            for entry in entries {
                let entry = entry.map_err(reported)?;
                let path = entry.path().display().to_string();
                match entry.file_type().map_err(reported)? {
                    kind if kind.is_dir() && !path.ends_with('.') => open.push(path),
                    kind if kind.is_regular_file() => {
                        found.insert(path.clone(), self.read(&path)?.unwrap_or_default());
                    }
                    _ => {}
                }
            }
        }
        Ok(found)
    }

    /// The SHA-256 of a program, in hexadecimal digits; `None` where there is none.
    pub fn hash(&self, path: &str) -> Result<Option<String>, String> {
        let content = self.read(path)?;
        Ok(content.map(|content| format!("{:x}", Sha256::digest(content))))
    }
}

/// What a card that came up must have of that; else nothing is judged by what is seen of it.
pub fn missing(on_card: &FileContents) -> Vec<&'static str> {
    let keys = WATCHED.into_iter().filter(|path| path.starts_with("/etc/ssh/ssh_host_"));
    let missing = keys.chain([TOKEN_FILE]).filter(|path| !on_card.contains_key(*path));
    let is_empty = |directory: &&str| !on_card.keys().any(|path| path.starts_with(*directory));
    missing.chain(IDENTITY.into_iter().filter(is_empty)).collect()
}

/// What is wrong with files that are watched, where each may be as it was before, as it is after or, if it was
/// not there before, absent.
pub fn judge(now: &FileContents, before: &FileContents, after: &FileContents) -> Vec<String> {
    let mut wrong = Vec::new();
    let is_made_again = |path: &str, content: &[u8]| !before.contains_key(path) && is_removed(path, content);
    let seen = now.iter().filter(|(path, content)| !is_passing(path) && !is_made_again(path, content));
    for (path, content) in seen {
        if before.get(path) != Some(content) && after.get(path) != Some(content) {
            wrong.push(format!("{path} ({} bytes) is neither the old one nor the new one", content.len()));
        }
    }
    let stays = before.keys().filter(|path| after.contains_key(*path) && !is_passing(path));
    wrong.extend(stays.filter(|path| !now.contains_key(*path)).map(|path| format!("{path} is gone")));
    wrong
}

/// Whether k3s' next start removes it, and k3s makes it again.
fn is_removed(path: &str, content: &[u8]) -> bool {
    content.is_empty() && UNFLUSHED.iter().any(|of_k3s| Path::new(path).starts_with(of_k3s))
}

/// What is written next to a file before it takes its name, by us and by k3s, and what k3s writes more than once.
fn is_passing(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    Path::new(name).extension().is_some_and(|end| end == "new")
        || name.starts_with('.')
        || name == "dynamic-cert.json"
}

/// Replays the journal on a copy as the next boot does, checks the whole file system, and gives what is in it then.
pub fn mended(card: &Path) -> Result<(tempfile::TempDir, ReplayedRoot), String> {
    let dir = temporary_dir().map_err(|error| format!("{error:#}"))?;
    // Out of the card: e2fsck forgets an offset when it opens the file system again after the journal.
    let copy = dir.path().join("root");
    let mut command = programs::command("dd");
    command.args(["bs=1M", "conv=sparse", "status=none"]).arg(format!("skip={}", ROOT_START >> 20));
    for (word, path) in [("if", card), ("of", &copy)] {
        command.arg(format!("{word}={}", path.display()));
    }
    programs::run(&mut command).map_err(|error| format!("{error:#}"))?;
    for (how, best) in [("-p", 1), ("-fn", 0)] {
        let mut command = programs::command("e2fsck");
        let output = command.arg(how).arg(&copy).output();
        let output = output.map_err(|error| error.to_string())?;
        if output.status.code().is_none_or(|code| code > best) {
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            return Err(format!(
                "e2fsck {how} ends with {}: {}",
                output.status,
                said.trim().replace('\n', "; ")
            ));
        }
    }
    let root = ReplayedRoot::at(&copy, 0)?;
    Ok((dir, root))
}
