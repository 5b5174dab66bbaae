//! One tar out of two: the root file system of packages, and our files on top.
//!
//! Guarantees: entries of the base are passed on byte for byte, extended headers (ACLs, capabilities) included; a file
//! of the layer replaces the base's; directories that are in neither are made; the same input gives the same bytes.
//! Failure: an entry that cannot be read, a directory where the layer has a file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use tar::{Archive, Builder, EntryType, Header};

/// What is in the layer at one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LayerEntry {
    /// A file with its content.
    Bytes(Vec<u8>, u32),
    /// A file whose content is copied from this machine.
    File(PathBuf, u32),
    /// A symbolic link to this.
    Link(PathBuf),
    Directory(u32),
}

/// What is put on top of the packages: path below `/`, without a leading one, to what is there. All of it is
/// root's.
pub type Layer = BTreeMap<PathBuf, LayerEntry>;

/// Writes `base` and `layer` as one tar.
///
/// # Errors
/// See the module.
pub fn merge(base: impl Read, layer: &Layer, epoch: u64, to: impl Write) -> Result<()> {
    let mut out = Builder::new(to);
    let directories = pass_on(base, layer, &mut out)?;
    put_on_top(layer, directories, epoch, &mut out)?;
    out.finish().context("writing the end of the tar")
}

/// Copies the entries of the base that stay, and returns its directories.
fn pass_on(base: impl Read, layer: &Layer, out: &mut Builder<impl Write>) -> Result<BTreeSet<PathBuf>> {
    let mut directories = BTreeSet::new();
    // Headers that describe the entry after them.
    let mut pending: Vec<(Header, Vec<u8>)> = Vec::new();
    let mut archive = Archive::new(base);
    for entry in archive.entries().context("reading the base")?.raw(true) {
        let mut entry = entry.context("reading an entry of the base")?;
        let header = entry.header().clone();
        let kind = header.entry_type();
        if kind.is_pax_local_extensions() || kind.is_gnu_longname() || kind.is_gnu_longlink() {
            let mut data = Vec::new();
            entry.read_to_end(&mut data).context("reading an extended header of the base")?;
            pending.push((header, data));
            continue;
        }
        let path = plain(&long_name(&pending).map_or_else(|| entry.path().map(Into::into), Ok)?)?;
        if kind.is_dir() {
            if let Some(node) = layer.get(&path)
                && !matches!(node, LayerEntry::Directory(_))
            {
                bail!("/{} is a directory of the packages and would become a file", path.display());
            }
            directories.insert(path);
        } else if layer.contains_key(&path) {
            pending.clear();
            continue;
        }
        for (header, data) in pending.drain(..) {
            out.append(&header, &*data)?;
        }
        out.append(&header, &mut entry)?;
    }
    ensure!(directories.len() > 1, "the base is empty");
    Ok(directories)
}

fn put_on_top(
    layer: &Layer,
    mut directories: BTreeSet<PathBuf>,
    epoch: u64,
    out: &mut Builder<impl Write>,
) -> Result<()> {
    for (path, node) in layer {
        let parents: Vec<_> = path.ancestors().skip(1).filter(|p| !p.as_os_str().is_empty()).collect();
        for parent in parents.into_iter().rev() {
            if !layer.contains_key(parent) && directories.insert(parent.to_owned()) {
                add(out, parent, &LayerEntry::Directory(0o755), epoch)?;
            }
        }
        let is_there = matches!(node, LayerEntry::Directory(_)) && !directories.insert(path.clone());
        if !is_there {
            add(out, path, node, epoch).with_context(|| format!("adding /{}", path.display()))?;
        }
    }
    Ok(())
}

fn add(out: &mut Builder<impl Write>, path: &Path, node: &LayerEntry, epoch: u64) -> Result<()> {
    let mut header = Header::new_gnu();
    header.set_mtime(epoch);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(0);
    match node {
        LayerEntry::Bytes(bytes, mode) => {
            header.set_mode(*mode);
            header.set_size(bytes.len() as u64);
            out.append_data(&mut header, path, &**bytes)?;
        }
        LayerEntry::File(from, mode) => {
            let file = File::open(from).with_context(|| format!("cannot read {}", from.display()))?;
            header.set_mode(*mode);
            header.set_size(file.metadata()?.len());
            out.append_data(&mut header, path, file)?;
        }
        LayerEntry::Link(target) => {
            header.set_entry_type(EntryType::Symlink);
            header.set_mode(0o777);
            out.append_link(&mut header, path, target)?;
        }
        LayerEntry::Directory(mode) => {
            header.set_entry_type(EntryType::Directory);
            header.set_mode(*mode);
            out.append_data(&mut header, path, std::io::empty())?;
        }
    }
    Ok(())
}

/// The path that extended headers give the entry after them.
fn long_name(pending: &[(Header, Vec<u8>)]) -> Option<PathBuf> {
    pending.iter().rev().find_map(|(header, data)| match header.entry_type() {
        kind if kind.is_gnu_longname() => {
            Some(PathBuf::from(String::from_utf8_lossy(data).trim_end_matches('\0')))
        }
        kind if kind.is_pax_local_extensions() => tar::PaxExtensions::new(data)
            .flatten()
            .find(|extension| extension.key() == Ok("path"))
            .and_then(|extension| extension.value().ok().map(PathBuf::from)),
        _ => None,
    })
}

/// `./etc/x/` as `etc/x`.
fn plain(path: &Path) -> Result<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::CurDir | Component::RootDir => {}
            _ => bail!("{} is no path of a root file system", path.display()),
        }
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base() -> Vec<u8> {
        let mut out = Builder::new(Vec::new());
        let file = |text: &str| LayerEntry::Bytes(text.as_bytes().to_vec(), 0o644);
        for (path, node) in [
            ("./", LayerEntry::Directory(0o755)),
            ("./etc/", LayerEntry::Directory(0o755)),
            ("./etc/old", file("old")),
            ("./etc/kept", file("kept")),
            ("./bin", LayerEntry::Link("usr/bin".into())),
        ] {
            // Paths as mmdebstrap writes them, which `append_data` would tidy up.
            let mut header = Header::new_gnu();
            header.set_mtime(7);
            header.set_size(0);
            let (kind, data) = match &node {
                LayerEntry::Bytes(bytes, _) => (EntryType::Regular, bytes.clone()),
                LayerEntry::Link(_) => (EntryType::Symlink, Vec::new()),
                _ => (EntryType::Directory, Vec::new()),
            };
            header.set_entry_type(kind);
            header.set_size(data.len() as u64);
            header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_cksum();
            out.append(&header, &*data).unwrap();
        }
        let long = format!("./etc/{}", "x".repeat(150));
        let pax = [("path", long.as_bytes()), ("SCHILY.xattr.user.a", b"1".as_slice())];
        out.append_pax_extensions(pax).unwrap();
        let mut header = Header::new_gnu();
        header.set_size(1);
        header.set_path("short").unwrap();
        header.set_cksum();
        out.append(&header, &b"L"[..]).unwrap();
        out.into_inner().unwrap()
    }

    fn paths(tar: &[u8]) -> Vec<(String, String)> {
        let mut archive = Archive::new(tar);
        let read = |entry: std::io::Result<tar::Entry<'_, &[u8]>>| {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().display().to_string();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            (path, text)
        };
        archive.entries().unwrap().map(read).collect()
    }

    fn merged(layer: &Layer) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        merge(&base()[..], layer, 9, &mut out).map(|()| out)
    }

    #[test]
    fn the_layer_wins_and_missing_directories_are_made() {
        let layer = Layer::from([
            ("etc/old".into(), LayerEntry::Bytes(b"new".to_vec(), 0o600)),
            ("usr/lib/weaver/x".into(), LayerEntry::Bytes(b"x".to_vec(), 0o755)),
            ("etc".into(), LayerEntry::Directory(0o755)),
        ]);
        let tar = merged(&layer).unwrap();
        let all = paths(&tar);
        let text = |name: &str| all.iter().find(|(path, _)| path == name).map(|(_, text)| text.as_str());
        assert_eq!(
            (text("etc/old"), text("./etc/old"), text("./etc/kept")),
            (Some("new"), None, Some("kept"))
        );
        let order: Vec<_> = all.iter().map(|(path, _)| path.trim_end_matches('/')).collect();
        assert!(order.windows(3).any(|w| w == ["usr", "usr/lib", "usr/lib/weaver"]), "{order:?}");
        assert_eq!(tar, merged(&layer).unwrap(), "the same bytes each time");
    }

    #[test]
    fn extended_headers_stay_with_their_entry_and_leave_with_it() {
        let long = format!("etc/{}", "x".repeat(150));
        let tar = merged(&Layer::new()).unwrap();
        let mut archive = Archive::new(&tar[..]);
        let mut entry = archive
            .entries()
            .unwrap()
            .map(Result::unwrap)
            .find(|e| e.path().unwrap().ends_with(&long[4..]))
            .unwrap();
        let attributes: Vec<_> =
            entry.pax_extensions().unwrap().unwrap().map(|e| e.unwrap().key().unwrap().to_owned()).collect();
        assert_eq!(attributes, ["path", "SCHILY.xattr.user.a"]);

        let replaced = Layer::from([(long.clone().into(), LayerEntry::Bytes(b"ours".to_vec(), 0o644))]);
        let all = paths(&merged(&replaced).unwrap());
        let found: Vec<_> = all.iter().filter(|(path, _)| path.contains("xxx")).collect();
        assert_eq!(found, [&(long, "ours".to_owned())]);
    }

    #[test]
    fn a_directory_never_becomes_a_file_and_an_empty_base_is_refused() {
        let layer = Layer::from([("etc".into(), LayerEntry::Bytes(Vec::new(), 0o644))]);
        let error = merged(&layer).unwrap_err().to_string();
        assert!(error.contains("/etc is a directory"), "{error}");
        let error = merge(&[0; 1024][..], &Layer::new(), 0, Vec::new()).unwrap_err().to_string();
        assert!(error.contains("empty"), "{error}");
    }

    #[test]
    fn a_path_that_leaves_the_root_is_refused() {
        assert!(plain(Path::new("./a/../../b")).is_err());
        assert_eq!(plain(Path::new("./a/b/")).unwrap(), Path::new("a/b"));
    }
}
