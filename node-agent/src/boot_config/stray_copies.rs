//! Finds copies of `weaver.toml` on the boot partition, trash included. No file is opened.

use std::{fs, path::Path};

use weaver_diagnostics::{finding::Finding, weaver_toml::stray_copies};

use crate::host_root::HostRoot;

/// Directories within each other: `.Trash-1000/files`, `nppBackup`.
const DEPTH: usize = 3;
/// The most entries that are read, since a card may be anyone's; Raspberry Pi's own files are some 400.
const ENTRIES: usize = 10_000;

/// The finding about those in `directory` and below.
///
/// Failure: what cannot be listed is left out, for it must not stop a boot.
pub(super) fn look(root: &HostRoot, directory: &Path) -> Option<Finding> {
    let mut paths = Vec::new();
    let mut left = ENTRIES;
    walk(&root.real(directory), "", DEPTH, &mut left, &mut paths);
    paths.sort();
    stray_copies::finding(&directory.display().to_string(), &paths)
}

fn walk(real: &Path, below: &str, depth: usize, left: &mut usize, paths: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(real) else { return };
    for entry in entries.flatten() {
        let Some(fewer) = left.checked_sub(1) else { return };
        *left = fewer;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
        // The type of the entry itself: the target of a link is not on the partition.
        let Ok(kind) = entry.file_type() else { continue };
        // A file in a directory is one that was moved there, whatever case its name has.
        let is_moved = !below.is_empty() && name.eq_ignore_ascii_case("weaver.toml");
        if kind.is_dir() {
            if depth > 1 {
                walk(&entry.path(), &path, depth - 1, left, paths);
            }
        } else if stray_copies::is_copy(&name) || is_moved {
            paths.push(path);
        }
    }
}
