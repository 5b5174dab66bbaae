//! The files next to the image: the packed file, its sum, the lists.
//!
//! Guarantee: nothing is named before all of it is made, the sums of older images are removed first and the new one
//! comes last; so where `….sha256` exists, the packed image and the lists are of the same build. Failure: the old files
//! stay.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use tempfile::NamedTempFile;
use weaver_devstack::download::sha256;
use weaver_devstack::files;
use weaver_devstack::steps::say;
use weaver_host::durable_file;

use super::image_name::ImageName;
use super::options::BuildOptions;
use super::rootfs::RootFs;
use super::tools::{self, BuildLogs, output};
use super::{os_list, packages, sbom};
use crate::archives::CardArchive;
use crate::k3s::K3s;
use crate::programs;

const MODE: u32 = 0o644;

/// Upper bound of the packed image, in bytes. The budget of a release, without images for an offline start; a
/// test image keeps it too, though its programs are twice as large.
const BUDGET: u64 = 400 << 20;

/// What is on the card.
#[derive(Debug)]
pub struct Lists {
    /// How many packages of Debian's.
    pub packages: usize,
    lock: String,
    bill: String,
}

/// Checks the names of the packages, reports which versions changed since the last build, and makes both lists.
///
/// # Errors
/// A package that was not reviewed, or one that is gone; a list that cannot be read.
pub fn lists(options: &BuildOptions, root: &RootFs, k3s: &K3s, archives: &[CardArchive]) -> Result<Lists> {
    let BuildOptions { source, out, kernel, .. } = options;
    let read =
        |path: PathBuf| fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()));
    let installed = packages::installed(&read(root.packages())?, &read(root.hashes())?)?;
    if let Some(package) = installed.iter().find(|package| package.sha256.is_none()) {
        bail!("Debian's lists had no hash for {}; ask them again: weaver-image build --fresh", package.name);
    }
    let lock = packages::lock(&installed);
    if let Some(before) = files::read_if_there(&out.join("packages.lock"))? {
        for line in lock.lines().filter(|line| !before.lines().any(|b| b == *line)) {
            say(format_args!("            changed since the last build: {}", line.replace('\t', " ")));
        }
    }
    let mut expected = read(source.join("image/packages.installed"))?;
    if let Some(more) = kernel.installed() {
        expected.push_str(&read(source.join(more))?);
    }
    packages::compare(&expected, &installed)?;
    let crates = sbom::crates(source, programs::TARGET, &programs::PROGRAMS.map(|(_, package)| package))?;
    let k3s = sbom::K3sComponent { version: &k3s.version, sha256: &k3s.sha256 };
    let bill = sbom::cyclonedx(env!("CARGO_PKG_VERSION"), &installed, &crates, &k3s, archives)?;
    Ok(Lists { packages: installed.len(), lock, bill })
}

#[derive(Debug)]
pub struct Packed {
    file: NamedTempFile,
    /// SHA-256 of the image, and of the packed file.
    hashes: (String, String),
}

/// Packs the image into `file`, fast: on two cores 53 s for 320 MiB, where `xz -6` is not done after 200 s.
///
/// # Errors
/// When xz fails, or what it made is over the budget.
pub fn pack(image: &Path, file: NamedTempFile, archives: &[CardArchive], logs: &BuildLogs) -> Result<Packed> {
    let step = "compressing";
    let mut command = Command::new("xz");
    command.args(["-T0", "-0", "-c"]).arg(image).stdout(file.reopen()?).stderr(logs.create(step)?);
    let status = command.status().map_err(|error| tools::cannot_start(&command, error))?;
    if !status.success() {
        return Err(logs.failed(step, &status));
    }
    // They are packed already.
    let images = archives.iter().map(|archive| archive.size).sum();
    within_budget(file.as_file().metadata()?.len(), images)?;
    file.as_file().sync_all()?;
    let hashes = (sha256(image)?, sha256(file.path())?);
    Ok(Packed { file, hashes })
}

fn within_budget(size: u64, images: u64) -> Result<()> {
    let budget = BUDGET + images;
    ensure!(
        size < budget,
        "the packed image has {} MiB, and may have less than {}; what was added to image/packages or our programs?",
        size >> 20,
        budget >> 20
    );
    Ok(())
}

/// Gives all files their names. Returns the image's.
///
/// # Errors
/// A file that cannot be written; the sum is missing then.
pub fn put(
    out: &Path,
    named: &ImageName,
    epoch: u64,
    lists: &Lists,
    image: NamedTempFile,
    packed: Option<Packed>,
) -> Result<PathBuf> {
    let name = &named.stem;
    let raw = out.join(format!("{name}.img"));
    let xz = out.join(format!("{name}.img.xz"));
    let sum = out.join(format!("{name}.img.xz.sha256"));
    for entry in fs::read_dir(out).with_context(|| format!("cannot read {}", out.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "sha256") {
            files::remove(&path)?;
        }
    }
    let extract_size = image.as_file().metadata()?.len();
    persist(image, &raw)?;
    files::replace(&out.join("packages.lock"), lists.lock.as_bytes(), MODE)?;
    files::replace(&out.join("sbom.cdx.json"), lists.bill.as_bytes(), MODE)?;
    let Some(Packed { file, hashes }) = packed else { return Ok(raw) };

    let date = output(Command::new("date").args(["-u", "+%F", "-d"]).arg(format!("@{epoch}")))?;
    let url = format!("file://{}/{name}.img.xz", out.canonicalize()?.display());
    let list = os_list::list(&os_list::ImageFacts {
        version: env!("CARGO_PKG_VERSION"),
        variant: named.spoken(),
        devices: &named.devices,
        url: &url,
        date: date.trim(),
        sizes: (extract_size, file.as_file().metadata()?.len()),
        hashes: (&hashes.0, &hashes.1),
    })?;
    persist(file, &xz)?;
    files::replace(&out.join("os-list.json"), list.as_bytes(), MODE)?;
    files::replace(&sum, format!("{}  {name}.img.xz\n", hashes.1).as_bytes(), MODE)?;
    durable_file::flush(out)?;
    Ok(raw)
}

fn persist(file: NamedTempFile, to: &Path) -> Result<()> {
    file.persist(to).map(drop).map_err(|failed| files::explained(to, failed.error))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    const NAME: &str = "config-weaver-1-test-arm64";

    #[test]
    fn a_packed_image_over_its_budget_is_refused() {
        within_budget((400 << 20) - 1, 0).unwrap();
        within_budget(500 << 20, 200 << 20).unwrap();
        let error = within_budget(400 << 20, 0).unwrap_err().to_string();
        assert!(error.contains("has 400 MiB") && error.contains("image/packages"), "{error}");
    }

    fn publish(out: &Path, content: &[u8], packs: bool) -> PathBuf {
        let logs = BuildLogs::below(&out.join("logs")).unwrap();
        let lists = Lists { packages: 1, lock: "a\t1\t00\n".to_owned(), bill: "{}".to_owned() };
        let mut image = NamedTempFile::new_in(out).unwrap();
        image.write_all(content).unwrap();
        let file = NamedTempFile::new_in(out).unwrap();
        let packed = packs.then(|| pack(image.path(), file, &[], &logs).unwrap());
        let variant = Some(("test".to_owned(), "TEST IMAGE".to_owned()));
        let named = ImageName { stem: NAME.to_owned(), variant, devices: vec!["pi4-64bit"] };
        put(out, &named, 1_795_219_200, &lists, image, packed).unwrap()
    }

    #[test]
    fn what_lies_next_to_an_image_is_of_its_build() {
        let home = tempfile::tempdir().unwrap();
        let out = home.path();
        let older = out.join("config-weaver-1-arm64.img.xz.sha256");
        fs::write(&older, "of a release, whose lists are about to go").unwrap();
        let content: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
        let raw = publish(out, &content, true);
        assert_eq!(fs::read(&raw).unwrap(), content);
        assert!(!older.exists());
        let checked = Command::new("sha256sum")
            .arg("-c")
            .arg(format!("{NAME}.img.xz.sha256"))
            .current_dir(out)
            .output();
        assert!(checked.unwrap().status.success());
        let unpacked =
            Command::new("xz").args(["-dc"]).arg(out.join(format!("{NAME}.img.xz"))).output().unwrap();
        assert_eq!(unpacked.stdout, content);
        let list: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(out.join("os-list.json")).unwrap()).unwrap();
        let system = &list["os_list"][0];
        assert_eq!(system["extract_sha256"], sha256(&raw).unwrap());
        assert_eq!(system["extract_size"], content.len());
        assert_eq!(system["release_date"], "2026-11-21");
        assert_eq!(fs::read_to_string(out.join("sbom.cdx.json")).unwrap(), "{}");
    }

    #[test]
    fn an_image_that_is_not_packed_leaves_no_sum_of_an_older_one() {
        let home = tempfile::tempdir().unwrap();
        publish(home.path(), b"first", true);
        publish(home.path(), b"second", false);
        assert!(!home.path().join(format!("{NAME}.img.xz.sha256")).exists());
        assert_eq!(fs::read(home.path().join(format!("{NAME}.img"))).unwrap(), b"second");
    }
}
