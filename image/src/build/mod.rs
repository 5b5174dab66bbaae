//! `weaver-image build`: from a checkout and Debian's archive to `out/`.
//!
//! Debian's packages are made into a root while our programs compile, our own are installed in it, and the files of no
//! package are added while the file system is written; the result gets its name when it is whole. Failure: a step names
//! its log; what was made before stays in the cache, and an interrupted build leaves nothing that looks finished.
//!
//! - [`rootfs`], [`packages`], [`debian_kernel`], [`prerequisites`]: Debian's part.
//! - [`own_packages`]: ours. [`layer`], [`tar_merge`]: the files of the image alone, and both as one.
//! - [`disk`], [`bootable`], [`cpio`]: partitions, and whether they can start.
//! - [`image_name`], [`publish`], [`sbom`], [`os_list`]: the image's name, and the files next to it.
//! - [`build_dir`]: where all of it is written.

pub mod bootable;
pub mod build_dir;
pub mod cpio;
pub mod debian_kernel;
pub mod disk;
pub mod image_name;
pub mod layer;
mod options;
pub mod os_list;
pub mod own_packages;
pub mod packages;
pub mod prerequisites;
pub mod publish;
pub mod rootfs;
pub mod sbom;
pub mod tar_merge;
pub mod tools;

use std::fs::{self, File, Permissions};
use std::io::BufReader;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, anyhow};
use tempfile::{NamedTempFile, TempDir};
use weaver_devstack::choice::cache_root;
use weaver_devstack::files;
use weaver_devstack::steps::{Progress, Steps, say};

use self::image_name::ImageName;
use self::layer::LayerInputs;
pub use self::options::{BuildOptions, RootOptions};
use self::rootfs::RootFs;
use self::tools::{BuildLogs, output};
use crate::archives::{self, CardArchive};
use crate::k3s::{self, K3s, K3sChoice};
use crate::programs::{self, CardProgram, Profile};

/// The most that `out/` needs: image, packed image, root, boot files, packages, symbols.
const SPACE_FOR_OUT: u64 = 3 << 30;
/// What a build starts, but for the compilers.
const TOOLS: [&str; 11] = [
    "mmdebstrap",
    "mke2fs",
    "mkfs.vfat",
    "mmd",
    "mcopy",
    "sfdisk",
    "zstd",
    "xz",
    "dpkg-buildpackage",
    "dh",
    "help2man",
];

#[derive(Debug)]
pub struct BuiltImage {
    /// The image, not compressed.
    pub raw: PathBuf,
    pub k3s: K3s,
}

/// Makes the root file system of Debian's packages for later builds: where machines are created for each build, next to
/// other work, since it occupies one processor for a quarter of an hour.
///
/// # Errors
/// See the module.
pub fn root(options: &RootOptions) -> Result<()> {
    let RootOptions { source, kernel } = options;
    let mut steps = Steps::begin();
    let logs = BuildLogs::below(&source.join("target/image/logs"))?;
    let cache = cache()?;
    let cached = rootfs::cached(source, *kernel, &cache)?;
    is_fit(&[], &cache, cached.is_some())?;
    let origin = announced(cached.as_ref(), &logs);
    let progress = making(&logs);
    cached.map_or_else(|| rootfs::make(source, *kernel, &cache, false, &logs), Ok)?;
    drop(progress);
    steps.done("root file system", origin);
    Ok(())
}

/// Builds the image.
///
/// # Errors
/// See the module; [`k3s::NotFetched`] where the k3s of the lock cannot be fetched.
pub fn build(options: &BuildOptions) -> Result<BuiltImage> {
    let BuildOptions { source, out, kernel, .. } = options;
    let mut steps = Steps::begin();
    let logs = BuildLogs::below(&source.join("target/image/logs"))?;
    files::make_dir(out)?;
    let _alone = build_dir::alone(out)?;
    build_dir::clear(out)?;
    let cache = cache()?;
    let cached = if options.fresh { None } else { rootfs::cached(source, *kernel, &cache)? };
    is_fit(&[(out, SPACE_FOR_OUT)], &cache, cached.is_some())?;
    let epoch = epoch(source)?;

    let choice_of_k3s = K3sChoice::of(options.k3s.as_deref());
    let work = source.join("target/image");
    // Until they are on the card: a parallel build would overwrite them with its own.
    let programs_at = work.join("programs");
    files::make_dir(&programs_at)?;
    let _programs = build_dir::wait_alone(&programs_at)?;
    let archives = archives::choose(source, &options.images)?;
    let choose = || k3s::choose(source, &choice_of_k3s, &work.join("k3s"));
    // First, since this is what most often cannot be fetched; but a testbed is compiled, next to the packages.
    let chosen = if choice_of_k3s == K3sChoice::Testbed { None } else { Some(choose()?) };
    let usual = if choice_of_k3s == K3sChoice::Testbed { Profile::Dev } else { Profile::Release };
    let profile = options.programs.unwrap_or(usual);
    let origin = announced(cached.as_ref(), &logs);
    let (root, k3s) = thread::scope(|scope| -> Result<_> {
        let root = scope.spawn(|| match cached {
            Some(root) => Ok(root),
            None => rootfs::make(source, *kernel, &cache, options.fresh, &logs),
        });
        let others = || -> Result<_> {
            let k3s = chosen.map_or_else(choose, Ok)?;
            steps.done("k3s", format_args!("{} ({})", k3s.version, k3s.path.display()));
            let programs = programs::build(source, profile, &programs_at, &out.join("symbols"))?;
            for CardProgram { name, size, .. } in &programs {
                say(format_args!("            {:5} KiB  {name}", size >> 10));
            }
            steps.done("programs", "stripped, symbols next to the image");
            Ok(k3s)
        };
        let others = others();
        // Not before: cargo has drawn its own until now.
        let _progress = making(&logs);
        let root = root.join().map_err(|_| anyhow!("making the root file system panicked"))?;
        let k3s = others?;
        Ok((root?, k3s))
    })?;
    steps.done("root file system", origin);

    let named = ImageName::of(k3s.variant, *kernel);
    let progress = Progress::waiting("making the bill of materials");
    let lists = publish::lists(options, &root, &k3s, &archives)?;
    steps.done("bill of materials", format_args!("{} packages", lists.packages));
    progress.text("installing our own packages");
    let work = partial_directory(out)?;
    let tar = own_packages::install(source, &root, &programs_at, work.path(), epoch, &logs)?;
    steps.done("own packages", own_packages::NAMES.join(", "));
    progress.text("writing partitions and file systems");
    let image = put_together(options, &named, &root, &tar, (&k3s, &archives), epoch, &logs)?;
    drop(work);
    let name = &named.stem;
    steps.done("image", format_args!("{name}.img"));
    let packed = if options.raw {
        None
    } else {
        progress.text("compressing");
        let packed = publish::pack(image.path(), partial(out)?, &archives, &logs)?;
        steps.done("compressed", format_args!("{name}.img.xz"));
        Some(packed)
    };
    let raw = publish::put(out, &named, epoch, &lists, image, packed)?;
    Ok(BuiltImage { raw, k3s })
}

/// Where root file systems are kept.
fn cache() -> Result<PathBuf> {
    let cache = cache_root()?.join("image");
    files::make_dir(&cache)?;
    Ok(cache)
}

/// Where the root file system comes from; the message about a new one comes before its long silence.
fn announced(cached: Option<&RootFs>, logs: &BuildLogs) -> &'static str {
    if cached.is_some() {
        return "from the cache";
    }
    let log = logs.path("root file system");
    say(format_args!(
        "            root file system begun, a quarter of an hour under emulation: {}",
        log.display()
    ));
    "made new"
}

/// Reports that a root file system is being made: its log shows the progress.
fn making(logs: &BuildLogs) -> Progress {
    Progress::waiting(&format!("root file system: {}", logs.path("root file system").display()))
}

/// Whether this machine can make what is still missing: checked before the first minute is spent.
fn is_fit(needs: &[(&Path, u64)], cache: &Path, has_root: bool) -> Result<()> {
    let temporary = std::env::temp_dir();
    let mut needs = needs.to_vec();
    needs.push((&temporary, rootfs::SPACE.1));
    if !has_root {
        needs.push((cache, rootfs::SPACE.0));
    }
    build_dir::require(&needs)?;
    crate::boot::programs::require(&TOOLS)?;
    prerequisites::check()
}

fn put_together(
    options: &BuildOptions,
    named: &ImageName,
    root: &RootFs,
    tar: &Path,
    (k3s, archives): (&K3s, &[CardArchive]),
    epoch: u64,
    logs: &BuildLogs,
) -> Result<NamedTempFile> {
    let BuildOptions { source, out, kernel, .. } = options;
    let work = partial_directory(out)?;
    let boot = work.path().join("boot");
    let firmware = File::open(root.firmware()).context("cannot read the boot files in the cache")?;
    tar::Archive::new(BufReader::new(firmware)).unpack(&boot).context("unpacking the boot files")?;
    bootable::verify(&boot, &bootable::Kernel::in_root(tar)?, *kernel)?;
    copy_boot_overlay(&source.join("image/overlay-boot"), &boot, epoch)?;
    archives::put(archives, &boot, disk::FAT_SIZE, time(epoch))?;
    // The card gets exactly what the SBOM lists, even if the file is changed meanwhile.
    let own_k3s = work.path().join("k3s");
    k3s.copy_to(&own_k3s)?;

    let os_release = fs::read_to_string(root.os_release()).context("reading os-release in the cache")?;
    let built = LayerInputs {
        k3s: &own_k3s,
        os_release: &os_release,
        version: env!("CARGO_PKG_VERSION"),
        variant: named.variant.as_ref().map(|(id, spoken)| (id.as_str(), spoken.as_str())),
        sources: kernel.sources().map(|file| source.join(file)),
    };
    let layer = layer::layer(source, &built)?;
    let image = partial(out)?;
    disk::assemble(image.path(), &boot, tar, &layer, epoch, logs)?;
    Ok(image)
}

fn copy_boot_overlay(from: &Path, to: &Path, epoch: u64) -> Result<()> {
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        fs::copy(entry.path(), &to).with_context(|| format!("copying {}", entry.path().display()))?;
        File::options().write(true).open(&to)?.set_modified(time(epoch))?;
    }
    Ok(())
}

fn time(epoch: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(epoch)
}

/// A directory that is removed in the end.
fn partial_directory(directory: &Path) -> Result<TempDir> {
    tempfile::Builder::new()
        .prefix(build_dir::PARTIAL)
        .tempdir_in(directory)
        .with_context(|| format!("cannot write to {}", directory.display()))
}

/// A file that gets its name when it is whole.
fn partial(directory: &Path) -> Result<NamedTempFile> {
    tempfile::Builder::new()
        .prefix(build_dir::PARTIAL)
        .permissions(Permissions::from_mode(0o644))
        .tempfile_in(directory)
        .with_context(|| format!("cannot write to {}", directory.display()))
}

/// The timestamp of our files: `SOURCE_DATE_EPOCH`, else the last commit's.
pub(crate) fn epoch(source: &Path) -> Result<u64> {
    if let Ok(text) = std::env::var("SOURCE_DATE_EPOCH") {
        let seconds: u64 =
            text.parse().with_context(|| format!("SOURCE_DATE_EPOCH={text} is not a number of seconds"))?;
        return Ok(seconds.max(rootfs::EPOCH));
    }
    let mut git = Command::new("git");
    let text = output(git.arg("-C").arg(source).args(["log", "-1", "--format=%ct"]))
        .context("the last commit's time is not known; set SOURCE_DATE_EPOCH")?;
    let seconds: u64 = text.trim().parse().context("git printed no time")?;
    Ok(seconds.max(rootfs::EPOCH))
}
