//! Reads `weaver.toml`, and distinguishes a missing file from a missing partition.
//!
//! The boot partition is mounted `nofail`: where it could not be, the files below its mount point are not its content,
//! and an empty directory is no request to have everything removed. For a file that is elsewhere, and where the mounts
//! are not known, the directory must at least contain something.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::Path,
};

use weaver_diagnostics::{
    config_txt::BOOT_DIR,
    host::storage::{MOUNTS, Mount},
    weaver_toml::FILE_LIMIT,
};

use crate::{facts::mounts::Mounts, host_root::HostRoot};

#[derive(Debug, PartialEq, Eq)]
pub(super) enum WeaverTomlRead {
    /// The partition is there, the file is not.
    Missing,
    /// The file, or so much of it that it is known to be too large.
    Bytes(Vec<u8>),
    /// Why it could not be read.
    Unreadable(String),
}

pub(super) fn read(root: &HostRoot, file: &Path) -> WeaverTomlRead {
    // Before the mounts are read: where the partition is mounted on demand, this mounts it.
    let bytes = read_limited(&root.real(file));
    let directory = file.parent().unwrap_or(Path::new("/"));
    let mounted = match is_mounted(root, directory) {
        Ok(Some(false)) => {
            return WeaverTomlRead::Unreadable(format!("{} is not mounted", directory.display()));
        }
        Ok(mounted) => mounted,
        Err(why) => return WeaverTomlRead::Unreadable(why),
    };
    match bytes {
        Ok(bytes) => WeaverTomlRead::Bytes(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => match mounted {
            Some(_) => WeaverTomlRead::Missing,
            None => missing(root, directory),
        },
        Err(error) => WeaverTomlRead::Unreadable(error.to_string()),
    }
}

/// Whether the boot partition is mounted; `None` for another directory, and where the mounts are not known.
pub(crate) fn is_mounted(root: &HostRoot, directory: &Path) -> Result<Option<bool>, String> {
    if directory != Path::new(BOOT_DIR) {
        return Ok(None);
    }
    let mounts = Mounts::try_read(root).map_err(|error| format!("{MOUNTS}: {error}"))?;
    Ok(mounts.map(|mounts| mounts.at(directory) != Mount::Absent))
}

fn missing(root: &HostRoot, directory: &Path) -> WeaverTomlRead {
    match root.list(directory) {
        Ok(entries) if entries.is_empty() => WeaverTomlRead::Unreadable(format!(
            "{} is empty: its partition is not mounted",
            directory.display()
        )),
        Ok(_) => WeaverTomlRead::Missing,
        Err(error) => WeaverTomlRead::Unreadable(error.to_string()),
    }
}

fn read_limited(real: &Path) -> io::Result<Vec<u8>> {
    // Checked before it is opened: opening a pipe would wait for a writer.
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
            WeaverTomlRead::Unreadable(why) => assert!(why.contains(says), "{why}"),
            other => panic!("{other:?}"),
        };
        unreadable("not mounted");
        fs::create_dir_all(real.parent().unwrap()).unwrap();
        unreadable("not mounted");
        fs::write(root.real("/boot/firmware/config.txt"), "").unwrap();
        assert_eq!(read(&root, file), WeaverTomlRead::Missing);
        fs::write(&real, "a").unwrap();
        assert_eq!(read(&root, file), WeaverTomlRead::Bytes(b"a".to_vec()));
        File::create(&real).unwrap().set_len(10 * 1024 * 1024).unwrap();
        let WeaverTomlRead::Bytes(bytes) = read(&root, file) else { panic!() };
        assert_eq!(bytes.len(), FILE_LIMIT + 1, "no more than is needed to refuse it");
        fs::remove_file(&real).unwrap();
        nix::unistd::mkfifo(&real, nix::sys::stat::Mode::S_IRWXU).unwrap();
        unreadable("not a regular file");
        fs::remove_file(&real).unwrap();
        fs::create_dir(&real).unwrap();
        unreadable("not a regular file");
    }

    #[test]
    fn the_kernel_knows_what_is_mounted() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::new(dir.path().to_owned());
        let file = Path::new("/boot/firmware/weaver.toml");
        for directory in ["/boot/firmware", "/proc/self", "/other"] {
            fs::create_dir_all(root.real(directory)).unwrap();
        }
        let mounts = |text: &[u8]| fs::write(root.real(MOUNTS), text).unwrap();
        mounts(b"36 25 254:1 / /boot/firmware ro - vfat /dev/vda1 rw\n");
        assert_eq!(read(&root, file), WeaverTomlRead::Missing, "it is mounted and empty");
        fs::write(root.real(file), "a").unwrap();
        assert_eq!(read(&root, file), WeaverTomlRead::Bytes(b"a".to_vec()));
        for (text, says) in [(&b""[..], "/boot/firmware is not mounted"), (b"\0", "/proc/self/mountinfo: ")] {
            mounts(text);
            let WeaverTomlRead::Unreadable(why) = read(&root, file) else { panic!("{says}") };
            assert!(why.contains(says), "{why}");
        }
        fs::write(root.real("/other/weaver.toml"), "b").unwrap();
        let other = read(&root, Path::new("/other/weaver.toml"));
        assert_eq!(other, WeaverTomlRead::Bytes(b"b".to_vec()), "a file elsewhere needs no partition");
    }
}
