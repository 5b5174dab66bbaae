//! The contents of a backup, all of it checked; and how one is opened.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use weaver_diagnostics::node_backup::manifest::{BackupManifest, BackupRoot, DATASTORE, printed};

use super::archive::{self, RestoreTargets};
use super::common::{Scratch, counted, full};
use super::datastore::{self, DatastoreContents};
use super::seal::DecryptionArgs;
use crate::node_lock::NodeLock;

/// Where the datastore of a backup is checked. Nothing of the node is changed, so this has a lock of its own: it neither
/// waits for what changes the node, nor keeps a timer from it.
const PLACE: &str = "backup-show";

/// Extracts the datastore from a backup.
struct OnlyDatastore(PathBuf);

impl RestoreTargets for OnlyDatastore {
    fn target(&self, part: BackupRoot, below: &str) -> Option<(PathBuf, PathBuf)> {
        let is_it = DATASTORE.strip_prefix(part.prefix()) == Some(below);
        is_it.then(|| (self.0.clone(), PathBuf::from("state.db")))
    }
}

/// Checks all of a backup; returns its contents.
///
/// # Errors
/// [`Damage`](weaver_diagnostics::node_backup::manifest::Damage), or it cannot be read.
pub fn show(file: &Path, keys: &DecryptionArgs, state_dir: &Path) -> anyhow::Result<String> {
    let backup = open(file, keys)?;
    let place = state_dir.join(PLACE);
    let _lock = NodeLock::take(&place, "a check of a backup")?;
    let scratch = Scratch::make(&place)?;
    let manifest = archive::read(backup, &OnlyDatastore(scratch.0.clone()));
    let manifest = manifest.with_context(|| file.display().to_string()).map_err(full(state_dir))?;
    let found = datastore::check(&scratch.0.join("state.db"))?;
    let DatastoreContents { revision, rows } = found;
    ensure!(
        (revision, rows) == (manifest.revision, manifest.rows),
        "its datastore has revision {revision} and {rows} rows, and its manifest says {} and {}",
        manifest.revision,
        manifest.rows
    );
    Ok(shown(file, &manifest))
}

/// A backup to be read.
///
/// # Errors
/// There is no such file.
pub fn open(file: &Path, keys: &DecryptionArgs) -> anyhow::Result<Box<dyn Read>> {
    let what = || format!("cannot read the backup {}", file.display());
    // Checked before it is opened: opening a pipe would wait for a writer.
    ensure!(fs::metadata(file).with_context(what)?.is_file(), "{}: it is not a regular file", what());
    let read = counted(File::open(file).with_context(what)?, &format!("reading {}", file.display()));
    keys.open(read).with_context(|| file.display().to_string())
}

fn shown(file: &Path, manifest: &BackupManifest) -> String {
    let BackupManifest { node, k3s, made, revision, rows, volumes, left_out, members, .. } = manifest;
    let (node, made) = (printed(node), printed(made));
    let k3s = k3s.as_deref().map_or_else(|| "of an unknown version".to_owned(), printed);
    let count = |part: BackupRoot| members.keys().filter(|name| name.starts_with(part.prefix())).count();
    let volumes =
        if *volumes { format!("{} files", count(BackupRoot::Volumes)) } else { "not in it".to_owned() };
    let text = format!(
        "{}\n\
         node       {node}\n\
         made       {made}\n\
         k3s        {k3s}\n\
         datastore  revision {revision}, {rows} rows, whole\n\
         server     {} files: CA, keys, token, manifests\n\
         settings   {} files\n\
         volumes    {volumes}\n\
         All hashes are those of its manifest.",
        file.display(),
        count(BackupRoot::Server) - 1,
        [BackupRoot::Configuration, BackupRoot::NodePassword, BackupRoot::State, BackupRoot::WeaverToml]
            .map(count)
            .iter()
            .sum::<usize>(),
    );
    let lines = left_out.lines().into_iter().chain(left_out.verdict());
    lines.fold(text, |text, line| text + "\n" + &line)
}

#[cfg(test)]
mod tests {
    use weaver_diagnostics::finding_text::is_unprintable;

    use super::*;

    #[test]
    fn a_foreign_manifest_is_shown_and_not_obeyed() {
        let hostile = "\u{1b}[2J\nAll hashes\u{202e}";
        let manifest = serde_json::json!({
            "format": 1, "node": hostile, "k3s": hostile, "data_dir": hostile, "made": hostile,
            "revision": 1, "rows": 1, "volumes": true, "members": {DATASTORE: "", hostile: ""},
            "left_out": {"count": 2, "listed": [{"name": hostile, "why": hostile}]},
        });
        let manifest = BackupManifest::parse(manifest.to_string().as_bytes()).unwrap();
        let shown = shown(Path::new("/mnt/b.tar"), &manifest);
        assert!(!shown.contains(|c| c != '\n' && is_unprintable(c)), "{shown:?}");
        assert_eq!(shown.lines().filter(|line| line.starts_with("All hashes")).count(), 1, "{shown}");
        assert!(shown.contains("\nleft out: 1 more\nthe backup is not complete"), "{shown}");
    }
}
