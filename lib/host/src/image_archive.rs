//! Reads of an archive of container images what says which processor they are for.
//!
//! Guarantees: layers are skipped and not read, so that a large archive costs little; what is read is limited, whatever
//! the archive says of itself. Failure: why the archive is of no use, and what to do.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

use weaver_diagnostics::image_archive::{self, ArchiveFault, Descriptions, LARGEST, MOST, Packing};
use weaver_diagnostics::registry::api::Platform;

use crate::tar_headers::HeadersLimit;

const AGAIN: &str = "copy it again";

/// Judges the archive at `path`, which k3s is to import by this name on a machine of this platform.
///
/// # Errors
/// What is wrong with it.
pub fn check(path: &Path, name: &str, wanted: &Platform) -> Result<(), ArchiveFault> {
    let mut file = File::open(path).map_err(|error| unread(&error))?;
    let size = file.metadata().map_err(|error| unread(&error))?.len();
    let mut start = Vec::new();
    (&mut file).take(4).read_to_end(&mut start).map_err(|error| unread(&error))?;
    if image_archive::packing(name, &start, wanted)? != Packing::Plain {
        return Ok(());
    }
    file.rewind().map_err(|error| unread(&error))?;
    image_archive::fault(&descriptions(file, size)?, wanted).map_or(Ok(()), Err)
}

/// What may describe an image: the small files that are JSON.
fn descriptions(archive: impl Read + Seek, size: u64) -> Result<Descriptions, ArchiveFault> {
    let limit = HeadersLimit::default();
    let mut archive = tar::Archive::new(limit.over(archive));
    let (mut files, mut left) = (Descriptions::new(), MOST);
    let mut entries = archive.entries_with_seek().map_err(|error| no_archive(&error))?;
    while let Some(entry) = limit.next_of(&mut entries) {
        let mut entry = entry.map_err(|error| no_archive(&error))?;
        if entry.raw_file_position().saturating_add(entry.size()) > size {
            return Err(ArchiveFault::new("it ends in the middle of a file", AGAIN));
        }
        if !entry.header().entry_type().is_file() || entry.size() > LARGEST {
            continue;
        }
        let Some(rest) = left.checked_sub(entry.size()) else {
            let why = "it has more small files than an archive of images";
            return Err(ArchiveFault::new(why, "save its images into several archives"));
        };
        let path = entry.path().map_err(|error| no_archive(&error))?;
        let path = path.strip_prefix(".").unwrap_or(&path).to_string_lossy().into_owned();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).map_err(|error| no_archive(&error))?;
        if matches!(content.first(), Some(b'{' | b'[')) {
            left = rest;
            files.insert(path, content);
        }
    }
    Ok(files)
}

fn unread(error: &io::Error) -> ArchiveFault {
    ArchiveFault::new(format!("it cannot be read: {error}"), AGAIN)
}

/// Only the system's errors are repeated: others quote what is in the archive.
fn no_archive(error: &io::Error) -> ArchiveFault {
    if error.raw_os_error().is_some() {
        return unread(error);
    }
    ArchiveFault::new("it is no tar archive, or a damaged one", AGAIN)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;
    use weaver_diagnostics::registry::api;

    use super::*;

    /// An archive with a layer and what `docker save` says of an image for this architecture.
    fn archive(architecture: &str) -> Vec<u8> {
        let config = json!({"os": "linux", "architecture": architecture}).to_string();
        let list =
            json!([{"Config": "c.json", "RepoTags": ["app:1"], "Layers": ["l/layer.tar"]}]).to_string();
        let layer = vec![0; 3 << 20];
        let mut builder = tar::Builder::new(Vec::new());
        for (path, content) in
            [("l/layer.tar", &layer[..]), ("./c.json", config.as_bytes()), ("manifest.json", list.as_bytes())]
        {
            let mut header = tar::Header::new_ustar();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            builder.append_data(&mut header, path, content).unwrap();
        }
        builder.into_inner().unwrap()
    }

    /// What is wrong with an archive of this content; empty where nothing is.
    fn checked(name: &str, content: &[u8]) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        fs::write(&path, content).unwrap();
        let wanted = api::platform("linux/arm64").unwrap();
        let fault = check(&path, name, &wanted).err();
        fault.map_or_else(String::new, |ArchiveFault { why, remedy }| format!("{why}; {remedy}"))
    }

    #[test]
    fn an_archive_is_judged_by_what_it_says_of_its_images() {
        let (fits, other) = (archive("arm64"), archive("amd64"));
        assert_eq!(checked("a.tar", &fits), "");
        let why = checked("a.tar", &other);
        assert!(why.starts_with("its images are for linux/amd64, and this card is linux/arm64"), "{why}");
    }

    #[test]
    fn a_damaged_archive_is_named_as_such() {
        let whole = archive("arm64");
        for (content, want) in [
            (&whole[..2 << 20], "it ends in the middle of a file; copy it again"),
            (&whole[..300], "it is no tar archive, or a damaged one; copy it again"),
            (&[b'x'; 2048], "it is no tar archive, or a damaged one; copy it again"),
            (&[0; 2048], "it has neither index.json nor manifest.json"),
            (&[], "it is empty"),
        ] {
            let why = checked("a.tar", content);
            assert!(why.contains(want), "{want}: {why}");
        }
        let dir = tempfile::tempdir().unwrap();
        let wanted = api::platform("linux/arm64").unwrap();
        let missing = check(&dir.path().join("a.tar"), "a.tar", &wanted).unwrap_err();
        assert!(missing.why.starts_with("it cannot be read: No such file"), "{missing:?}");
    }

    #[test]
    fn a_packed_archive_is_judged_by_its_name() {
        let zstd = [0x28, 0xb5, 0x2f, 0xfd, 0];
        assert_eq!(checked("k3s-airgap-images-arm64.tar.zst", &zstd), "");
        assert!(checked("k3s-airgap-images-amd64.tar.zst", &zstd).contains("amd64"));
    }

    #[test]
    fn a_name_that_is_longer_than_any_path_is_not_read_to_its_end() {
        for (length, want) in
            [(4_000, "it has neither index.json nor manifest.json"), (1 << 20, "a damaged one")]
        {
            let mut builder = tar::Builder::new(Vec::new());
            let mut header = tar::Header::new_gnu();
            header.set_size(2);
            builder.append_data(&mut header, "a".repeat(length), &b"{}"[..]).unwrap();
            let why = checked("a.tar", &builder.into_inner().unwrap());
            assert!(why.contains(want), "{length}: {why}");
        }
    }

    #[test]
    fn an_archive_of_small_files_without_end_is_refused() {
        let mut builder = tar::Builder::new(Vec::new());
        let content = vec![b'{'; 1 << 20];
        for number in 0..33 {
            let mut header = tar::Header::new_ustar();
            header.set_size(content.len() as u64);
            builder.append_data(&mut header, format!("{number}.json"), &content[..]).unwrap();
        }
        let why = checked("a.tar", &builder.into_inner().unwrap());
        assert!(why.contains("more small files than"), "{why}");
    }
}
