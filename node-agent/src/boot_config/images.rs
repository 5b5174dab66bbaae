//! Reads the archives of images on the boot partition, and the links that k3s has to them.
//!
//! Failure: what cannot be listed changes nothing.

use std::{
    env,
    fs::{self, DirEntry},
    path::Path,
};

use weaver_diagnostics::{
    image_archive::ArchiveFault,
    registry::api::Platform,
    weaver_toml::images::{self, ArchiveOnCard, CardImages, DIRECTORY, OF_K3S},
};
use weaver_host::image_archive;

use super::root_grown;
use crate::{facts::storage, host_root::HostRoot};

/// Each is opened while the boot waits.
const MOST: usize = 100;

/// What k3s shall find in its directory. The boot partition is mounted.
pub(super) fn look(root: &HostRoot, weaver_toml: &Path, data_dir: &str) -> CardImages {
    let directory = weaver_toml.with_file_name(DIRECTORY);
    let Ok(names) = root.list(&directory) else { return CardImages::default() };
    let names: Vec<_> = names.into_iter().filter(|name| images::is_meant(name)).collect();
    if names.len() > MOST {
        return CardImages { findings: vec![images::too_many(&directory, MOST)], ..CardImages::default() };
    }
    let on_card: Vec<_> = names.into_iter().map(|name| read(root, &directory, name)).collect();
    let into = Path::new(data_dir).join(OF_K3S);
    let made = links(root, &into, &directory);
    images::plan(&directory, &on_card, &into, &made, free(root, data_dir))
}

fn read(root: &HostRoot, directory: &Path, name: String) -> ArchiveOnCard {
    let real = root.real(directory.join(&name));
    // Not opened otherwise: a pipe would wait for a writer.
    let size = fs::metadata(&real).ok().filter(fs::Metadata::is_file).map(|metadata| metadata.len());
    let fault = match size {
        None => Some(ArchiveFault::new("it is not a regular file", "delete it, or copy it again")),
        Some(_) => image_archive::check(&real, &name, &Platform::linux(env::consts::ARCH)).err(),
    };
    ArchiveOnCard { name, size: size.unwrap_or_default(), fault }
}

/// The names of our links in k3s' directory.
fn links(root: &HostRoot, into: &Path, directory: &Path) -> Vec<String> {
    let is_ours = |entry: &DirEntry| {
        let target = fs::read_link(entry.path()).ok();
        target.is_some_and(|target| images::is_ours(&entry.file_name().to_string_lossy(), &target, directory))
    };
    let entries = fs::read_dir(root.real(into)).into_iter().flatten().flatten();
    let mut names: Vec<_> =
        entries.filter(is_ours).map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The free bytes of the disk of k3s' data. Not known until the root fills the card, which happens after this at the
/// first boot.
fn free(root: &HostRoot, data_dir: &str) -> Option<u64> {
    if !root_grown::is_grown(root) {
        return None;
    }
    // The directory is made by k3s.
    Some(storage::space(storage::existing(&root.real(data_dir))?)?.1)
}
