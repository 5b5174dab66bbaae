//! The manifest of a backup, and whether what was read is what it lists.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::left_out::LeftOut;
use super::volumes::VOLUMES;
use crate::finding_text::cut;

/// The last member of a backup: without it the file was cut short.
pub const MANIFEST: &str = "manifest.json";
/// The format that this version writes and reads.
pub const FORMAT: u32 = 1;
/// The datastore among the members.
pub const DATASTORE: &str = "k3s/server/db/state.db";
/// Of `/var/lib/weaver`: what is no longer in `weaver.toml`, and what boot-config must remember.
pub const OF_STATE: [&str; 4] =
    ["k3s.token", "wifi.password", "boot-config/node-name", "boot-config/last-good.toml"];
/// The highest work factor of a passphrase that is tried: scrypt takes 2^(10 + 19) bytes of memory for it, half of a Pi
/// with 1 GiB.
pub const HIGHEST_WORK_FACTOR: u8 = 19;
/// Longest text of a backup that is printed, in characters.
const LONGEST: usize = 200;

/// A text of a backup as it is printed: someone else may have made the file.
pub fn printed(text: &str) -> String {
    cut(text, LONGEST)
}

/// What a backup says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupManifest {
    pub format: u32,
    /// The name of the node in its cluster.
    pub node: String,
    /// The version of its k3s, where it is known.
    pub k3s: Option<String>,
    /// The data directory of its k3s.
    pub data_dir: String,
    /// When it was made, by a clock that may be wrong.
    pub made: String,
    /// The datastore's last revision.
    pub revision: i64,
    /// Rows of the datastore.
    pub rows: i64,
    /// Whether local-path volumes are in it.
    pub volumes: bool,
    /// What of the volumes is not in it. Earlier versions left nothing out.
    #[serde(default, skip_serializing_if = "LeftOut::is_empty")]
    pub left_out: LeftOut,
    /// The SHA-256 of each file, by its name in the archive.
    pub members: BTreeMap<String, String>,
}

/// Why a file is not a whole backup.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    #[error("it is not a backup of a node: it does not begin with a member of one")]
    NoBackup,
    #[error("it is cut short: copy it again, or use another backup")]
    CutShort,
    #[error("it is damaged ({}): copy it again, or use another backup", printed(.0))]
    Broken(String),
    #[error("it is encrypted: add --identity FILE or --passphrase-file FILE")]
    Locked,
    #[error("the passphrase or identity is not the one that it was encrypted for: use another")]
    WrongKey,
    #[error(
        "its passphrase has a work factor of {0}, and this version tries up to {HIGHEST_WORK_FACTOR} (512 MiB of \
         memory): decrypt it with `age --decrypt` on a machine with more memory, and use the result"
    )]
    Work(u8),
    #[error("its manifest cannot be read ({}): use another backup", printed(.0))]
    Manifest(String),
    #[error("its format is {0}, and this version reads {FORMAT}: update Config Weaver on this node first")]
    Format(u32),
    #[error("{} has another hash than its manifest says: the file is damaged; use another backup", printed(.0))]
    Hash(String),
    #[error("{} is missing in it: the file is damaged; use another backup", printed(.0))]
    Missing(String),
    #[error("{} is not in its manifest: it was not made by `weaver node backup`", printed(.0))]
    Unlisted(String),
    #[error("its member {} points outside of the archive: it was not made by `weaver node backup`", printed(.0))]
    Path(String),
    #[error(
        "its member {} is not one that this version restores: if a newer Config Weaver made the backup, update this \
         node first; else use another backup",
        printed(.0)
    )]
    Unplaced(String),
}

impl BackupManifest {
    /// Reads a manifest.
    ///
    /// # Errors
    /// It is no manifest, or of a later format.
    pub fn parse(text: &[u8]) -> Result<Self, Damage> {
        /// Of a later format nothing else may be the same.
        #[derive(Deserialize)]
        struct ManifestFormat {
            format: u32,
        }
        let unreadable = |error: serde_json::Error| Damage::Manifest(error.to_string());
        let ManifestFormat { format } = serde_json::from_slice(text).map_err(unreadable)?;
        if format != FORMAT {
            return Err(Damage::Format(format));
        }
        serde_json::from_slice(text).map_err(unreadable)
    }

    /// Whether what was read is what is listed: the SHA-256 of each file by its name.
    ///
    /// # Errors
    /// The first difference.
    pub fn agrees_with(&self, read: &BTreeMap<String, String>) -> Result<(), Damage> {
        if let Some(name) = read.keys().find(|name| !self.members.contains_key(*name)) {
            return Err(Damage::Unlisted(name.clone()));
        }
        for (name, hash) in &self.members {
            match read.get(name) {
                None => return Err(Damage::Missing(name.clone())),
                Some(found) if found != hash => return Err(Damage::Hash(name.clone())),
                Some(_) => {}
            }
        }
        if read.contains_key(DATASTORE) { Ok(()) } else { Err(Damage::Missing(DATASTORE.to_owned())) }
    }
}

/// Where a member belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BackupRoot {
    /// `server` below k3s' data.
    Server,
    /// `storage` below k3s' data.
    Volumes,
    /// `/etc/rancher/k3s`.
    Configuration,
    /// `/etc/rancher/node`.
    NodePassword,
    /// `/var/lib/weaver`.
    State,
    /// `weaver.toml` on the boot partition.
    WeaverToml,
}

impl BackupRoot {
    pub const ALL: [Self; 6] =
        [Self::Server, Self::Volumes, Self::Configuration, Self::NodePassword, Self::State, Self::WeaverToml];

    /// What the names of its members begin with.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Server => "k3s/server/",
            Self::Volumes => VOLUMES,
            Self::Configuration => "etc/rancher/k3s/",
            Self::NodePassword => "etc/rancher/node/",
            Self::State => "weaver/state/",
            Self::WeaverToml => "weaver/boot/",
        }
    }

    /// The part of a member, and its name below that.
    ///
    /// # Errors
    /// The name points outside of the archive, or is of no part that this version knows.
    pub fn of(name: &str) -> Result<(Self, &str), Damage> {
        let is_plain = |step: &str| !step.is_empty() && step != "." && step != ".." && !step.contains('\0');
        if !name.trim_end_matches('/').split('/').all(is_plain) {
            return Err(Damage::Path(name.escape_debug().to_string()));
        }
        // The manifest comes last, so a newer format shows by a member first.
        let unplaced = || Damage::Unplaced(name.escape_debug().to_string());
        let part = Self::ALL.into_iter().find(|part| name.starts_with(part.prefix())).ok_or_else(unplaced)?;
        let below = name.strip_prefix(part.prefix()).unwrap_or_default().trim_end_matches('/');
        // Of these parts there are files that a boot obeys: no others than those that a backup takes.
        let is_ours = match part {
            Self::State => OF_STATE.contains(&below),
            Self::WeaverToml => below == "weaver.toml",
            _ => true,
        };
        if below.is_empty() || !is_ours {
            return Err(unplaced());
        }
        Ok((part, below))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> BackupManifest {
        let members = [(DATASTORE, "a"), ("etc/rancher/node/password", "b")];
        BackupManifest {
            format: FORMAT,
            node: "raspi".to_owned(),
            k3s: Some("v1.36.4+k3s1".to_owned()),
            data_dir: "/var/lib/rancher/k3s".to_owned(),
            made: "2026-11-27T08:00:00Z".to_owned(),
            revision: 7,
            rows: 3,
            volumes: false,
            left_out: LeftOut::default(),
            members: members.map(|(name, hash)| (name.to_owned(), hash.to_owned())).into(),
        }
    }

    #[test]
    fn what_is_written_is_read_again_and_another_format_is_named() {
        let text = serde_json::to_string(&manifest()).unwrap();
        assert_eq!(BackupManifest::parse(text.as_bytes()), Ok(manifest()));
        assert_eq!(BackupManifest::parse(b"{\"format\": 2, \"other\": []}"), Err(Damage::Format(2)));
        for wrong in ["", "{}", "[]", "{\"format\": 1}", "{\"format\": -1}", "\0"] {
            assert!(matches!(BackupManifest::parse(wrong.as_bytes()), Err(Damage::Manifest(_))), "{wrong}");
        }
    }

    #[test]
    fn what_a_later_version_adds_to_a_manifest_of_this_format_is_ignored() {
        let mut json = serde_json::to_value(manifest()).unwrap();
        json["newer"] = serde_json::json!({"x": 1});
        assert_eq!(BackupManifest::parse(json.to_string().as_bytes()), Ok(manifest()));
    }

    #[test]
    fn one_of_an_earlier_version_has_nothing_left_out_and_a_later_one_says_what() {
        let text = serde_json::to_string(&manifest()).unwrap();
        assert!(!text.contains("left_out"), "{text}");
        let mut left_out = LeftOut::default();
        left_out.push("k3s/storage/pvc-1/data", "it cannot be read");
        let with = BackupManifest { left_out, ..manifest() };
        let text = serde_json::to_string(&with).unwrap();
        assert_eq!(BackupManifest::parse(text.as_bytes()), Ok(with));
    }

    #[test]
    fn a_text_of_a_backup_is_shown_and_not_obeyed() {
        let hostile = || "\u{1b}[2J\nrestored\u{202e}".repeat(999);
        for damage in [
            Damage::Broken(hostile()),
            Damage::Manifest(hostile()),
            Damage::Hash(hostile()),
            Damage::Missing(hostile()),
            Damage::Unlisted(hostile()),
            Damage::Path(hostile()),
            Damage::Unplaced(hostile()),
        ] {
            let shown = damage.to_string();
            assert!(!shown.contains(crate::finding_text::is_unprintable), "{shown:?}");
            assert!(shown.contains("\\u{1b}[2J\\nrestored") && shown.len() < 9 * LONGEST, "{shown:?}");
        }
    }

    #[test]
    fn every_difference_is_named() {
        let name = || "etc/rancher/node/password".to_owned();
        for (read, want) in [
            (&[(DATASTORE, "a"), ("etc/rancher/node/password", "b")][..], Ok(())),
            (&[(DATASTORE, "a"), ("etc/rancher/node/password", "c")], Err(Damage::Hash(name()))),
            (&[(DATASTORE, "a")], Err(Damage::Missing(name()))),
            (&[("etc/rancher/node/password", "b")], Err(Damage::Missing(DATASTORE.to_owned()))),
            (
                &[(DATASTORE, "a"), ("etc/rancher/node/password", "b"), ("etc/rancher/k3s/c.yaml", "d")],
                Err(Damage::Unlisted("etc/rancher/k3s/c.yaml".to_owned())),
            ),
        ] {
            let read = read.iter().map(|(name, hash)| ((*name).to_owned(), (*hash).to_owned())).collect();
            assert_eq!(manifest().agrees_with(&read), want, "{read:?}");
        }
        let without = BackupManifest { members: BTreeMap::new(), ..manifest() };
        assert_eq!(without.agrees_with(&BTreeMap::new()), Err(Damage::Missing(DATASTORE.to_owned())));
    }

    #[test]
    fn a_name_is_of_a_part_and_stays_in_it() {
        for (name, want) in [
            (DATASTORE, Some((BackupRoot::Server, "db/state.db"))),
            ("k3s/storage/pvc-1/data/", Some((BackupRoot::Volumes, "pvc-1/data"))),
            (
                "etc/rancher/k3s/config.yaml.d/90-weaver.yaml",
                Some((BackupRoot::Configuration, "config.yaml.d/90-weaver.yaml")),
            ),
            ("etc/rancher/node/password", Some((BackupRoot::NodePassword, "password"))),
            ("weaver/state/boot-config/node-name", Some((BackupRoot::State, "boot-config/node-name"))),
            ("weaver/boot/weaver.toml", Some((BackupRoot::WeaverToml, "weaver.toml"))),
            ("weaver/state/webhook/ca.key", None),
            ("weaver/state/restore.json", None),
            ("weaver/boot/cmdline.txt", None),
            ("weaver/boot/overlays/x", None),
            ("k3s/server/../../../etc/shadow", None),
            ("k3s/server/./x", None),
            ("k3s/server//x", None),
            ("k3s/server/", None),
            ("/etc/rancher/k3s/x", None),
            ("etc/shadow", None),
            ("", None),
        ] {
            assert_eq!(BackupRoot::of(name).ok(), want, "{name}");
        }
        let outside = "k3s/server/../../../etc/shadow";
        assert_eq!(BackupRoot::of(outside), Err(Damage::Path(outside.to_owned())));
        for newer in ["weaver/state/newer.json", "weaver/newer/x", "k3s/server/"] {
            assert_eq!(BackupRoot::of(newer), Err(Damage::Unplaced(newer.to_owned())), "update first");
        }
    }
}
