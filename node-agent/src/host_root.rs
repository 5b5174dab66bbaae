//! Reads the host's files under a directory that replaces `/`.
//!
//! Every file is read with a limit and only if it is a regular file, so that a device, a pipe or a file that grew
//! without end cannot hang the agent or fill its memory. A message names the path as the host knows it.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use procfs_core::process::MountInfo;
use weaver_diagnostics::hidden::{OF_USERS, TEMPORARY};
use weaver_diagnostics::host::storage::MOUNTS;
use weaver_diagnostics::text_file::TextFile;

/// No file that is read here has a reason to be larger.
pub const LIMIT: u64 = 256 * 1024;

/// Links that are followed from one to the next.
const LINKS: usize = 8;

/// What systemd mounts where a unit of ours may not see what is there.
const IN_ITS_PLACE: [&str; 2] = ["/systemd/inaccessible/", "/systemd-private-"];

/// Why a file could not be read as text.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A directory, device or pipe.
    #[error("it is not a regular file")]
    NotAFile,
    #[error("it is larger than {} KiB", LIMIT / 1024)]
    TooLarge,
    /// Control characters, or not UTF-8.
    #[error("it is binary, not text")]
    Binary,
    /// Below this directory, of which the process sees nothing.
    #[error("the service does not see what is in {}", .0.display())]
    Hidden(PathBuf),
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// The directory that replaces `/`.
#[derive(Debug, Clone)]
pub struct HostRoot(PathBuf);

impl HostRoot {
    pub const fn new(directory: PathBuf) -> Self {
        Self(directory)
    }

    /// The root of this machine; `None` for a directory that replaces one.
    pub fn host(&self) -> Option<&Path> {
        (self.0 == Path::new("/")).then_some(&self.0)
    }

    /// The real path of a host path.
    pub fn real(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The text of a file, `None` where there is no such file.
    ///
    /// # Errors
    /// It is there and cannot be read as text.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<Option<TextFile>, ReadError> {
        let path = path.as_ref();
        let Some(bytes) = self.read_bytes(path)? else { return Ok(None) };
        let text = String::from_utf8(bytes).map_err(|_| ReadError::Binary)?;
        if has_control_characters(&text) {
            return Err(ReadError::Binary);
        }
        Ok(Some(TextFile::new(path.display().to_string(), text)))
    }

    /// The text of a file that may be missing or unreadable without harm.
    pub fn read_if_possible(&self, path: impl AsRef<Path>) -> Option<TextFile> {
        self.read(path).ok().flatten()
    }

    /// The board's name; the device tree ends it with a NUL.
    pub fn device_model(&self) -> Option<String> {
        let bytes = fs::read(self.real("/proc/device-tree/model")).ok()?;
        let text = String::from_utf8(bytes).ok()?;
        Some(text.trim_end_matches('\0').trim().to_owned())
    }

    /// The text of a file whose comments may be in any encoding, and why [`Self::read`] would refuse it; `None` where
    /// there is no such file.
    ///
    /// # Errors
    /// It is there and cannot be read.
    pub fn read_lossy(
        &self,
        path: impl AsRef<Path>,
    ) -> Result<Option<(String, Option<ReadError>)>, ReadError> {
        let Some(bytes) = self.read_bytes(path.as_ref())? else { return Ok(None) };
        let lossy = |bytes: &[u8]| (String::from_utf8_lossy(bytes).into_owned(), Some(ReadError::Binary));
        Ok(Some(String::from_utf8(bytes).map_or_else(
            |error| lossy(error.as_bytes()),
            |text| {
                let damage = has_control_characters(&text).then_some(ReadError::Binary);
                (text, damage)
            },
        )))
    }

    /// The board's serial number, sixteen hexadecimal digits in the device tree.
    pub fn device_serial(&self) -> Option<u64> {
        let text = fs::read_to_string(self.real("/proc/device-tree/serial-number")).ok()?;
        u64::from_str_radix(text.trim_end_matches('\0').trim(), 16).ok()
    }

    /// Whether there is a file.
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.real(path).exists()
    }

    fn read_bytes(&self, path: &Path) -> Result<Option<Vec<u8>>, ReadError> {
        let real = self.real(path);
        // Checked before it is opened: opening a pipe would wait for a writer.
        let metadata = match fs::metadata(&real) {
            Ok(metadata) => metadata,
            Err(error) => {
                return match self.hidden_by(&real, LINKS) {
                    Some(directory) => Err(ReadError::Hidden(directory)),
                    None if is_absent(&error) => Ok(None),
                    None => Err(error.into()),
                };
            }
        };
        if !metadata.is_file() {
            return Err(ReadError::NotAFile);
        }
        let mut bytes = Vec::new();
        // Files under /proc have no size to go by: read one byte too many.
        File::open(&real)?.take(LIMIT + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > LIMIT {
            return Err(ReadError::TooLarge);
        }
        Ok(Some(bytes))
    }

    /// Whether this process does not see what is at a path, because its unit hides it.
    pub fn hides(&self, path: impl AsRef<Path>) -> bool {
        self.hidden_by(&self.real(path), LINKS).is_some()
    }

    /// The directory that hides a path which is not found, by links too: systemd mounts an empty one in the place of each
    /// that a unit shall not see (`ProtectHome=`, `PrivateTmp=`). By hand nothing is hidden.
    fn hidden_by(&self, path: &Path, links: usize) -> Option<PathBuf> {
        let (nearest, about) =
            path.ancestors().find_map(|ancestor| Some((ancestor, fs::symlink_metadata(ancestor).ok()?)))?;
        if about.is_symlink() {
            let target = nearest.parent()?.join(fs::read_link(nearest).ok()?);
            return self.hidden_by(&target, links.checked_sub(1)?);
        }
        let (top, real) = (fs::canonicalize(&self.0).ok()?, fs::canonicalize(nearest).ok()?);
        let here = Path::new("/").join(real.strip_prefix(top).ok()?);
        let directory =
            OF_USERS.into_iter().chain(TEMPORARY).find(|directory| here.starts_with(directory))?;
        // `30 25 0:26 /systemd/inaccessible/dir /home ro - tmpfs tmpfs rw`
        let mounts = fs::read_to_string(self.real(MOUNTS)).ok()?;
        let mut mounts = mounts.lines().rev().filter_map(|line| MountInfo::from_line(line).ok());
        let mount = mounts.find(|mount| mount.mount_point == Path::new(directory))?;
        IN_ITS_PLACE.iter().any(|place| mount.root.contains(place)).then(|| directory.into())
    }

    pub fn is_dir(&self, path: impl AsRef<Path>) -> bool {
        self.real(path).is_dir()
    }

    /// The names in a directory, sorted by bytes; none where there is no such
    /// directory.
    ///
    /// # Errors
    /// It is there and cannot be listed.
    pub fn list(&self, path: impl AsRef<Path>) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(self.real(path)) {
            Ok(entries) => entries,
            Err(error) if is_absent(&error) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut names = entries
            .map(|entry| entry.map(|e| e.file_name().to_string_lossy().into_owned()))
            .collect::<io::Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    }
}

fn has_control_characters(text: &str) -> bool {
    text.chars().any(|c| c.is_control() && !matches!(c, '\t' | '\n' | '\r'))
}

pub(crate) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// A host of a test's own.
#[cfg(test)]
pub(crate) mod fixture {
    use super::*;

    /// A host that has these files, until the directory is dropped.
    pub(crate) fn host(files: &[(&str, &str)]) -> (tempfile::TempDir, HostRoot) {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path.trim_start_matches('/'));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let root = HostRoot::new(dir.path().to_owned());
        (dir, root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_and_the_missing_file() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::new(dir.path().to_owned());
        fs::create_dir(dir.path().join("etc")).unwrap();
        fs::write(dir.path().join("etc/good"), "text\r\n").unwrap();
        fs::write(dir.path().join("etc/nul"), b"a\0b").unwrap();
        fs::write(dir.path().join("etc/latin"), b"\xff\xfe").unwrap();
        fs::write(dir.path().join("etc/large"), vec![b'a'; 256 * 1024 + 1]).unwrap();
        nix::unistd::mkfifo(&dir.path().join("etc/pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();

        assert_eq!(root.read("/etc/good").unwrap().unwrap(), TextFile::new("/etc/good", "text\r\n"));
        assert!(root.read("/etc/none").unwrap().is_none());
        assert!(root.read("/etc/good/below").unwrap().is_none());
        assert!(matches!(root.read("/etc/nul"), Err(ReadError::Binary)));
        assert!(matches!(root.read("/etc/latin"), Err(ReadError::Binary)));
        assert!(matches!(root.read("/etc/large"), Err(ReadError::TooLarge)));
        assert!(matches!(root.read("/etc"), Err(ReadError::NotAFile)));
        assert!(matches!(root.read("/etc/pipe"), Err(ReadError::NotAFile)));
        assert_eq!(root.list("/etc").unwrap(), ["good", "large", "latin", "nul", "pipe"]);
        assert!(root.list("/none").unwrap().is_empty());
    }

    #[test]
    fn what_is_hidden_is_not_missing() {
        const SHOWN: &str =
            "25 1 254:2 / / rw - ext4 /dev/vda2 rw\n26 25 8:1 / /home rw - ext4 /dev/sda1 rw\n";
        const HIDDEN: &str = "31 25 0:26 /systemd/inaccessible/dir /home ro - tmpfs tmpfs rw\n";
        let (dir, root) = fixture::host(&[("/etc/x", ""), ("/home/x", ""), (MOUNTS, SHOWN)]);
        for (link, target) in [("file", "../home/me/file"), ("directory", "../home/me"), ("loop", "loop")] {
            std::os::unix::fs::symlink(target, dir.path().join("etc").join(link)).unwrap();
        }
        let below = ["/home/me/file", "/etc/file", "/etc/directory/file"];
        for path in below {
            assert!(root.read(path).unwrap().is_none(), "{path}: by hand");
        }
        fs::write(dir.path().join("proc/self/mountinfo"), format!("{SHOWN}{HIDDEN}")).unwrap();
        for path in below {
            let read = root.read(path);
            assert!(
                matches!(&read, Err(ReadError::Hidden(by)) if by == Path::new("/home")),
                "{path}: {read:?}"
            );
        }
        // `/tmp` of the root's disk, and one in memory.
        for mounted in
            ["/tmp/systemd-private-1f-weaver.service-a/tmp", "/systemd-private-1f-weaver.service-a/tmp"]
        {
            let mounts = format!("{SHOWN}32 25 0:30 {mounted} /tmp rw - tmpfs tmpfs rw\n");
            fs::write(dir.path().join("proc/self/mountinfo"), mounts).unwrap();
            fs::create_dir_all(dir.path().join("tmp")).unwrap();
            let read = root.read("/tmp/k3s.yaml");
            assert!(matches!(&read, Err(ReadError::Hidden(by)) if by == Path::new("/tmp")), "{read:?}");
        }
        assert!(matches!(root.read("/etc/loop"), Err(ReadError::Io(_))));
        assert!(root.read("/etc/none/file").unwrap().is_none());
        assert!(root.read("/homes/file").unwrap().is_none());
    }
}
