//! Reads `weaver.toml`, and tells a file that is not there from a partition
//! that is not.
//!
//! The boot partition is mounted `nofail`: where it could not be, its
//! directory is empty, and that is no wish to have everything removed.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::Path,
};

use weaver_diagnostics::weaver_toml::FILE_LIMIT;

use crate::host_root::HostRoot;

/// What was found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The partition is there, the file is not.
    Missing,
    /// The file, or so much of it that it is known to be too large.
    Bytes(Vec<u8>),
    /// Why it could not be read.
    Unreadable(String),
}

pub(super) fn read(root: &HostRoot, file: &Path) -> Source {
    match read_limited(&root.real(file)) {
        Ok(bytes) => Source::Bytes(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => missing(root, file),
        Err(error) => Source::Unreadable(error.to_string()),
    }
}

fn missing(root: &HostRoot, file: &Path) -> Source {
    let directory = file.parent().unwrap_or(Path::new("/"));
    match root.list(directory) {
        Ok(entries) if entries.is_empty() => {
            Source::Unreadable(format!("{} is empty: its partition is not mounted", directory.display()))
        }
        Ok(_) => Source::Missing,
        Err(error) => Source::Unreadable(error.to_string()),
    }
}

fn read_limited(real: &Path) -> io::Result<Vec<u8>> {
    // Looked at before it is opened: opening a pipe would wait for a writer.
    if !fs::metadata(real)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(real)?.take(FILE_LIMIT as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_source() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::new(dir.path().to_owned());
        let file = Path::new("/boot/firmware/weaver.toml");
        let real = root.real(file);
        let unreadable = |says: &str| match read(&root, file) {
            Source::Unreadable(why) => assert!(why.contains(says), "{why}"),
            other => panic!("{other:?}"),
        };
        unreadable("not mounted");
        fs::create_dir_all(real.parent().unwrap()).unwrap();
        unreadable("not mounted");
        fs::write(root.real("/boot/firmware/config.txt"), "").unwrap();
        assert_eq!(read(&root, file), Source::Missing);
        fs::write(&real, "a").unwrap();
        assert_eq!(read(&root, file), Source::Bytes(b"a".to_vec()));
        File::create(&real).unwrap().set_len(10 * 1024 * 1024).unwrap();
        let Source::Bytes(bytes) = read(&root, file) else { panic!() };
        assert_eq!(bytes.len(), FILE_LIMIT + 1, "no more than is needed to refuse it");
        fs::remove_file(&real).unwrap();
        nix::unistd::mkfifo(&real, nix::sys::stat::Mode::S_IRWXU).unwrap();
        unreadable("not a regular file");
        fs::remove_file(&real).unwrap();
        fs::create_dir(&real).unwrap();
        unreadable("not a regular file");
    }
}
