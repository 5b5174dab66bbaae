//! Changes to the host, each only where something differs.

use std::{
    cell::Cell,
    error::Error as _,
    fs::{self, File, OpenOptions, Permissions},
    io,
    os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, symlink},
    path::Path,
};

use weaver_diagnostics::weaver_toml::{self, images::Link, plan};
use weaver_host::durable_file::{self, WriteError, flush_directory_of};

use crate::{
    fat_file,
    host_root::{HostRoot, is_absent},
};

/// Of a file that is searched for a secret: weaver.toml has 64 KiB at most, a cluster 32.
const SAVED_LIMIT: u64 = 128 << 10;

/// Something could not be set.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {why}")]
pub(super) struct SetError {
    /// What, as the host knows it.
    pub path: String,
    pub why: String,
}

impl SetError {
    pub fn new(path: impl Into<String>, why: impl Into<String>) -> Self {
        Self { path: path.into(), why: why.into() }
    }
}

pub(super) struct HostFiles<'a> {
    root: &'a HostRoot,
    networks_changed: Cell<bool>,
}

impl<'a> HostFiles<'a> {
    pub const fn new(root: &'a HostRoot) -> Self {
        Self { root, networks_changed: Cell::new(false) }
    }

    /// Whether a file that netplan reads was written or removed.
    pub const fn networks_changed(&self) -> bool {
        self.networks_changed.get()
    }

    fn changed(&self, path: &str) {
        let is_netplans = Path::new(path).parent().is_some_and(|directory| directory.ends_with("netplan"));
        self.networks_changed.set(self.networks_changed() || is_netplans);
    }

    /// Writes a file with its directories, where it differs.
    pub fn write(&self, file: &plan::File) -> Result<(), SetError> {
        self.write_in(file, 0o755)
    }

    /// The same below k3s' data, whose directories are root's alone.
    pub fn write_to_k3s(&self, file: &plan::File) -> Result<(), SetError> {
        self.write_in(file, 0o700)
    }

    fn write_in(&self, file: &plan::File, mode_of_directories: u32) -> Result<(), SetError> {
        let real = self.root.real(&file.path);
        if is_as_planned(&real, file) {
            return Ok(());
        }
        let refused = |why: String| SetError::new(&file.path, why);
        make_directory(real.parent().unwrap_or(Path::new("/")), mode_of_directories)
            .map_err(|error| refused(error.to_string()))?;
        let written = durable_file::replace(&real, file.content.as_bytes(), file.mode);
        written.map_err(|error| refused(cause(&error)))?;
        tracing::info!("wrote {}", file.path);
        self.changed(&file.path);
        Ok(())
    }

    /// Makes a symbolic link of ours below k3s' data, where there is none or another one.
    pub fn link_for_k3s(&self, link: &Link) -> Result<(), SetError> {
        let real = self.root.real(&link.path);
        let refused = |why: String| SetError::new(&link.path, why);
        match fs::read_link(&real) {
            Ok(target) if target == Path::new(&link.target) => return Ok(()),
            Ok(_) => {}
            Err(error) if is_absent(&error) => {}
            Err(_) => return Err(refused("a file that boot-config did not make has this name".to_owned())),
        }
        make_directory(real.parent().unwrap_or(Path::new("/")), 0o700)
            .and_then(|()| replace_link(&real, Path::new(&link.target)))
            .map_err(|error| refused(error.to_string()))?;
        tracing::info!("linked {} to {}", link.path, link.target);
        Ok(())
    }

    /// Removes a file where there is one.
    pub fn remove(&self, path: &str) -> Result<(), SetError> {
        let real = self.root.real(path);
        let removed = fs::remove_file(&real).and_then(|()| flush_directory_of(&real));
        match removed {
            Ok(()) => {
                tracing::info!("removed {path}");
                self.changed(path);
            }
            Err(error) if is_absent(&error) => {}
            Err(error) => return Err(SetError::new(path, error.to_string())),
        }
        Ok(())
    }

    /// Replaces the content of a file that is there, leaves its permissions, and overwrites what was in it: on
    /// a FAT the secret would stay in clusters that are free then.
    pub fn replace_secret(&self, path: &Path, content: &[u8]) -> Result<(), SetError> {
        let real = self.root.real(path);
        let refused = |why: String| SetError::new(path.display().to_string(), why);
        let old = OpenOptions::new().write(true).open(&real).map_err(|error| refused(error.to_string()))?;
        let mode = old.metadata().map_err(|error| refused(error.to_string()))?.permissions().mode() & 0o7777;
        fat_file::replace(&real, content, mode).map_err(|error| refused(cause(&error)))?;
        overwrite(&old)
            .map_err(|error| refused(format!("the old content on the card was not overwritten: {error}")))
    }

    /// Removes what `fsck.vfat` saved in a directory after an interrupted boot, where it contains this secret.
    pub fn remove_saved(&self, directory: &Path, secret: &str) -> Result<(), SetError> {
        let Ok(entries) = fs::read_dir(self.root.real(directory)) else { return Ok(()) };
        for name in entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
            let path = directory.join(&name);
            if !is_saved(&name) || !holds(&self.root.real(&path), secret) {
                continue;
            }
            let shown = path.display().to_string();
            let overwritten = OpenOptions::new().write(true).open(self.root.real(&path));
            let overwritten = overwritten.and_then(|file| write_zeros(&file));
            overwritten.map_err(|error| SetError::new(&shown, error.to_string()))?;
            self.remove(&shown)?;
        }
        Ok(())
    }

    /// Sets the running kernel's host name, where this host is the one we run on.
    pub fn set_hostname(&self, name: &str) -> Result<(), SetError> {
        if self.root.host().is_none() || nix::unistd::gethostname().is_ok_and(|present| present == *name) {
            return Ok(());
        }
        nix::unistd::sethostname(name).map_err(|error| {
            SetError::new(plan::HOSTNAME_FILE, format!("the kernel's host name stays: {error}"))
        })
    }
}

/// A reader sees the old link or the new one.
fn replace_link(real: &Path, target: &Path) -> io::Result<()> {
    // k3s knows no file by this extension.
    let temporary = real.with_added_extension("new");
    durable_file::if_there(fs::remove_file(&temporary))?;
    symlink(target, &temporary)?;
    fs::rename(&temporary, real)?;
    flush_directory_of(real)
}

fn is_as_planned(real: &Path, file: &plan::File) -> bool {
    // Not followed: the target of a link belongs to someone else.
    let Ok(metadata) = fs::symlink_metadata(real) else { return false };
    let is_alike = metadata.is_file()
        && metadata.permissions().mode() & 0o7777 == file.mode
        && metadata.len() == file.content.len() as u64;
    is_alike && fs::read(real).is_ok_and(|content| content == file.content.as_bytes())
}

/// Overwrites a file that has lost its last name, and no other.
fn overwrite(file: &File) -> io::Result<()> {
    if file.metadata()?.nlink() == 0 { write_zeros(file) } else { Ok(()) }
}

fn write_zeros(file: &File) -> io::Result<()> {
    let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
    file.write_all_at(&vec![0; length], 0)?;
    file.sync_all()
}

/// A name that `fsck.vfat` gives to clusters without one.
fn is_saved(name: &str) -> bool {
    let digits = name.strip_prefix("FSCK").and_then(|rest| rest.strip_suffix(".REC"));
    digits.is_some_and(|digits| digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether a file that is no longer than a weaver.toml and the rest of its last cluster contains this, literally or as
/// TOML escapes it.
fn holds(real: &Path, secret: &str) -> bool {
    let is_small = fs::metadata(real).is_ok_and(|data| data.len() <= SAVED_LIMIT);
    let content = if is_small { fs::read(real).unwrap_or_default() } else { Vec::new() };
    let asked = content.split(|byte| *byte == 0).next().unwrap_or_default();
    content.windows(secret.len().max(1)).any(|window| window == secret.as_bytes())
        || weaver_toml::parse(asked)
            .is_ok_and(|read| read.config.secrets().any(|imported| imported.expose() == secret))
}

/// With its parents, each on the disk before it is used.
fn make_directory(directory: &Path, mode: u32) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    if let Some(parent) = directory.parent() {
        make_directory(parent, mode)?;
    }
    fs::create_dir(directory)?;
    fs::set_permissions(directory, Permissions::from_mode(mode))?;
    flush_directory_of(directory)
}

/// The system's error: the path is reported separately.
fn cause(error: &WriteError) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, mode: u32, content: &str) -> plan::File {
        plan::File { path: path.to_owned(), mode, content: content.to_owned() }
    }

    #[test]
    fn a_file_is_written_only_where_something_differs() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::new(dir.path().to_owned());
        let host = HostFiles::new(&root);
        let real = root.real("/a/b/f");
        let state = || fs::metadata(&real).map(|m| (m.ino(), m.mtime_nsec(), m.mode() & 0o7777)).unwrap();
        host.write(&file("/a/b/f", 0o600, "one")).unwrap();
        // Kept open, so that its inode number is not given to the next file.
        let _held = File::open(&real).unwrap();
        let first = state();
        assert_eq!(first.2, 0o600);
        assert_eq!(fs::metadata(root.real("/a")).unwrap().mode() & 0o7777, 0o755);
        host.write(&file("/a/b/f", 0o600, "one")).unwrap();
        assert_eq!(state(), first);
        host.write(&file("/a/b/f", 0o644, "one")).unwrap();
        assert_eq!(state().2, 0o644);
        host.write(&file("/a/b/f", 0o644, "two")).unwrap();
        assert_eq!(fs::read(&real).unwrap(), b"two");
        assert_ne!(state().0, first.0);
    }

    #[test]
    fn a_link_is_replaced_and_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::new(dir.path().to_owned());
        fs::write(root.real("/other"), "x").unwrap();
        symlink(root.real("/other"), root.real("/f")).unwrap();
        HostFiles::new(&root).write(&file("/f", 0o644, "x")).unwrap();
        assert!(fs::symlink_metadata(root.real("/f")).unwrap().is_file());
    }

    /// The old one is kept open here, as its clusters would remain on a card.
    #[test]
    fn what_was_in_a_file_with_a_secret_is_overwritten_unless_it_has_another_name() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::new(dir.path().to_owned());
        let host = HostFiles::new(&root);
        let held = |name: &str| {
            fs::write(root.real("/f"), "hunter2").unwrap();
            let held = File::open(root.real("/f")).unwrap();
            if !name.is_empty() {
                fs::hard_link(root.real("/f"), root.real(name)).unwrap();
            }
            host.replace_secret(Path::new("/f"), b"blank").unwrap();
            assert_eq!(fs::read(root.real("/f")).unwrap(), b"blank");
            let mut content = [0; 7];
            held.read_exact_at(&mut content, 0).unwrap();
            content
        };
        assert_eq!(&held(""), &[0; 7]);
        assert_eq!(&held("/other"), b"hunter2");
    }

    #[test]
    fn a_link_is_made_once_and_replaces_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::new(dir.path().to_owned());
        let host = HostFiles::new(&root);
        let link = |path: &str, target: &str| Link { path: path.to_owned(), target: target.to_owned() };
        let state = || {
            let metadata = fs::symlink_metadata(root.real("/k3s/images/a.tar")).unwrap();
            (metadata.ino(), metadata.mtime_nsec(), fs::read_link(root.real("/k3s/images/a.tar")).unwrap())
        };
        host.link_for_k3s(&link("/k3s/images/a.tar", "/b/a.tar")).unwrap();
        let first = state();
        assert_eq!(first.2, Path::new("/b/a.tar"));
        assert_eq!(fs::metadata(root.real("/k3s/images")).unwrap().mode() & 0o7777, 0o700);
        host.link_for_k3s(&link("/k3s/images/a.tar", "/b/a.tar")).unwrap();
        assert_eq!(state(), first);
        host.link_for_k3s(&link("/k3s/images/a.tar", "/b/A.tar")).unwrap();
        assert_eq!(state().2, Path::new("/b/A.tar"));
        fs::write(root.real("/k3s/images/own.tar"), "x").unwrap();
        let error = host.link_for_k3s(&link("/k3s/images/own.tar", "/b/own.tar")).unwrap_err();
        assert!(error.path == "/k3s/images/own.tar" && error.why.contains("did not make"), "{error}");
        assert_eq!(fs::read(root.real("/k3s/images/own.tar")).unwrap(), b"x");
        assert_eq!(fs::read_dir(root.real("/k3s/images")).unwrap().count(), 2);
    }

    #[test]
    fn removing_what_is_not_there_is_fine() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::new(dir.path().to_owned());
        let host = HostFiles::new(&root);
        fs::write(root.real("/f"), "x").unwrap();
        for path in ["/f", "/f", "/none/f"] {
            host.remove(path).unwrap();
        }
        assert!(!root.real("/f").exists());
    }

    #[test]
    fn a_refusal_names_the_path_of_the_host() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::new(dir.path().to_owned());
        let host = HostFiles::new(&root);
        fs::write(root.real("/file"), "").unwrap();
        fs::create_dir_all(root.real("/full/f")).unwrap();
        fs::write(root.real("/full/f/inner"), "").unwrap();
        for error in [
            host.write(&file("/file/f", 0o644, "x")).unwrap_err(),
            host.write(&file("/full/f", 0o644, "x")).unwrap_err(),
            host.remove("/full/f").unwrap_err(),
            host.replace_secret(Path::new("/none"), b"x").unwrap_err(),
        ] {
            assert!(error.path.starts_with('/') && !error.path.contains("tmp"), "{error:?}");
            assert!(!error.why.is_empty(), "{error:?}");
        }
    }

    #[test]
    fn this_hosts_name_is_not_touched_for_another_root() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::new(dir.path().to_owned());
        let before = nix::unistd::gethostname().unwrap();
        HostFiles::new(&root).set_hostname("weaver-test-name").unwrap();
        assert_eq!(nix::unistd::gethostname().unwrap(), before);
    }
}
