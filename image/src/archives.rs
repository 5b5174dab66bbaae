//! Archives of container images for the card: those of the pinned k3s, or files of the user.
//!
//! They go onto the boot partition, from which boot-config gives them to k3s: there a user can see, remove and replace
//! them. Guarantees: an archive that k3s would not import on the card is refused before the image is begun; the card
//! gets the file that was checked. Failure: names the file and what to do; [`NotFetched`] where the pinned one cannot
//! be fetched.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, anyhow, bail, ensure};
use weaver_devstack::choice;
use weaver_devstack::download::{self, Asset, K3sLock};
use weaver_devstack::files;
use weaver_diagnostics::image_archive::ArchiveFault;
use weaver_diagnostics::registry::api::Platform;
use weaver_diagnostics::weaver_toml::images::DIRECTORY;
use weaver_host::image_archive;

use crate::k3s::{self, CARD, NotFetched, PATIENCE};

/// The word for k3s' own archive in the place of a file.
const PINNED: &str = "pinned";
/// What must stay free on the boot partition, in bytes: Debian writes a new kernel next to the old one.
const RESERVE: u64 = 128 << 20;

/// Where k3s imports from, on the card's disk.
const K3S: &str = "/var/lib/rancher/k3s/agent/images";

/// An archive that goes onto the card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CardArchive {
    /// Its name on the card.
    pub name: String,
    pub path: PathBuf,
    /// Its SHA-256, in lower-case hexadecimal.
    pub sha256: String,
    /// In bytes.
    pub size: u64,
}

/// Finds, fetches and checks what `IMAGES` names; nothing for an empty value. `source` is the checkout.
///
/// # Errors
/// See the module.
pub fn choose(source: &Path, choices: &[PathBuf]) -> Result<Vec<CardArchive>> {
    let mut archives: Vec<CardArchive> = Vec::new();
    for choice in choices.iter().filter(|choice| !choice.as_os_str().is_empty()) {
        let archive = if choice == Path::new(PINNED) {
            pinned(source, &choice::cache_root()?, asset(&source.join("image/k3s.lock"))?)?
        } else {
            given(choice)?
        };
        // The FAT does not tell upper from lower case.
        if let Some(other) = archives.iter().find(|other| other.name.eq_ignore_ascii_case(&archive.name)) {
            bail!(
                "IMAGES: {} and {} have one name on the card; rename one",
                other.path.display(),
                choice.display()
            );
        }
        archives.push(archive);
    }
    Ok(archives)
}

fn asset(lock: &Path) -> Result<Asset> {
    let asset = K3sLock::read(lock)?.images(CARD);
    asset.ok_or_else(|| {
        anyhow!("{} names no archive of images for arm64; add its SHA-256 under `files`", lock.display())
    })
}

fn pinned(source: &Path, cache: &Path, asset: Asset) -> Result<CardArchive> {
    let name = asset.file_name().to_owned();
    let path = k3s::fetched(source, cache, &asset, PATIENCE, "make image IMAGES=FILE")?
        .map_err(|reason| NotFetched::new(asset, reason, "IMAGES"))?;
    read(path, name)
}

fn given(path: &Path) -> Result<CardArchive> {
    let place = || format!("IMAGES={}", path.display());
    let kind = fs::metadata(path).with_context(|| format!("{}: no such file can be read", place()))?;
    ensure!(kind.is_file(), "{} is not a file; name archives that `docker save` wrote", place());
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| anyhow!("{}: its name is not UTF-8; rename it", place()))?;
    read(path.to_owned(), name.to_owned()).with_context(place)
}

fn read(path: PathBuf, name: String) -> Result<CardArchive> {
    image_archive::check(&path, &name, &Platform::linux(CARD))
        .map_err(|ArchiveFault { why, remedy }| anyhow!("{why}; {remedy}"))?;
    let size = fs::metadata(&path).with_context(|| format!("cannot read {}", path.display()))?.len();
    Ok(CardArchive { sha256: download::sha256(&path)?, name, path, size })
}

/// Writes the archives to the files of the boot partition, `boot`, which has `space` bytes.
///
/// # Errors
/// They do not fit, cannot be copied, or have changed since they were chosen.
pub fn put(archives: &[CardArchive], boot: &Path, space: u64, time: SystemTime) -> Result<()> {
    if archives.is_empty() {
        return Ok(());
    }
    let (needed, left) =
        (archives.iter().map(|archive| archive.size).sum::<u64>(), space.saturating_sub(RESERVE));
    let free = left.saturating_sub(size_of(boot)?);
    ensure!(
        needed <= free,
        "IMAGES: the archives have {} MiB, and the boot partition has space for {} MiB; leave some out, and copy them \
         to {K3S} on the card",
        needed.div_ceil(1 << 20),
        free >> 20
    );
    let directory = boot.join(DIRECTORY);
    files::make_dir(&directory)?;
    for CardArchive { name, path, sha256, .. } in archives {
        let to = directory.join(name);
        fs::copy(path, &to).with_context(|| format!("copying {}", path.display()))?;
        ensure!(
            download::sha256(&to)? == *sha256,
            "{} has changed while it was used; run the command again",
            path.display()
        );
        File::options().write(true).open(&to)?.set_modified(time)?;
    }
    Ok(())
}

fn size_of(directory: &Path) -> Result<u64> {
    let mut size = 0;
    for entry in fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))? {
        let (path, metadata) = entry.and_then(|entry| Ok((entry.path(), entry.metadata()?)))?;
        size += if metadata.is_dir() { size_of(&path)? } else { metadata.len() };
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(dir: &Path, name: &str, architecture: &str) -> PathBuf {
        let config = format!(r#"{{"os": "linux", "architecture": "{architecture}"}}"#);
        let mut builder = tar::Builder::new(Vec::new());
        for (path, content) in [("c.json", config.as_str()), ("manifest.json", r#"[{"Config": "c.json"}]"#)] {
            let mut header = tar::Header::new_ustar();
            header.set_size(content.len() as u64);
            builder.append_data(&mut header, path, content.as_bytes()).unwrap();
        }
        let path = dir.join(name);
        fs::write(&path, builder.into_inner().unwrap()).unwrap();
        path
    }

    #[test]
    fn an_archive_for_the_card_is_put_onto_its_boot_partition() {
        let dir = tempfile::tempdir().unwrap();
        let path = archive(dir.path(), "app.tar", "arm64");
        let archives = choose(dir.path(), &[PathBuf::new(), path.clone()]).unwrap();
        assert_eq!(archives.len(), 1);
        assert_eq!(
            (archives[0].name.as_str(), &archives[0].sha256),
            ("app.tar", &download::sha256(&path).unwrap())
        );
        let boot = dir.path().join("boot");
        fs::create_dir(&boot).unwrap();
        let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
        put(&archives, &boot, 512 << 20, time).unwrap();
        let on_card = boot.join("images/app.tar");
        assert_eq!(fs::read(&on_card).unwrap(), fs::read(&path).unwrap());
        assert_eq!(fs::metadata(&on_card).unwrap().modified().unwrap(), time);

        fs::write(boot.join("kernel"), vec![0; 1 << 20]).unwrap();
        let error = put(&archives, &boot, RESERVE + (1 << 20), time).unwrap_err().to_string();
        assert!(error.contains("have 1 MiB") && error.contains("space for 0 MiB"), "{error}");
        fs::write(&path, "other").unwrap();
        let error = put(&archives, &boot, 512 << 20, time).unwrap_err().to_string();
        assert!(error.contains("has changed while it was used"), "{error}");
    }

    #[test]
    fn what_k3s_would_not_import_on_the_card_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let other = archive(dir.path(), "amd64.tar", "amd64");
        let text = dir.path().join("notes.txt");
        fs::write(&text, "x").unwrap();
        let twice = archive(dir.path(), "app.tar", "arm64");
        fs::create_dir(dir.path().join("b")).unwrap();
        let again = archive(&dir.path().join("b"), "App.tar", "arm64");
        for (choices, want) in [
            (vec![other], "its images are for linux/amd64, and this card is linux/arm64"),
            (vec![text], "end in .tar, .tar.gz or .tar.zst"),
            (vec![dir.path().join("none.tar")], "no such file can be read"),
            (vec![dir.path().to_owned()], "is not a file"),
            (vec![twice, again], "have one name on the card"),
        ] {
            let error = format!("{:#}", choose(dir.path(), &choices).unwrap_err());
            assert!(error.contains("IMAGES") && error.contains(want), "{error}");
        }
    }

    #[test]
    fn the_lock_names_the_archive_of_the_card() {
        let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("k3s.lock");
        let asset = asset(&lock).unwrap();
        assert!(asset.url.ends_with("/k3s-airgap-images-arm64.tar.zst"), "{asset:?}");
    }
}
