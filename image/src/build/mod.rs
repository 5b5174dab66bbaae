//! `weaver-image build`: from a checkout and Debian's archive to `out/`.
//!
//! Packages are made into a root beside the compilers; our layer is put on top while the file system is written;
//! the result gets its name when it is whole. Failure: a step names its log; what was made before stays in the
//! cache, and an interrupted build leaves nothing that looks finished.
//!
//! - [`rootfs`], [`packages`], [`emulation`]: Debian's part.
//! - [`layer`], [`merge`]: ours, and both as one.
//! - [`disk`], [`boot_files`], [`cpio`]: partitions, and whether they can start.
//! - [`sbom`], [`os_list`]: what lies beside the image.

pub mod boot_files;
pub mod cpio;
pub mod disk;
pub mod emulation;
pub mod layer;
pub mod merge;
pub mod os_list;
pub mod packages;
pub mod rootfs;
pub mod sbom;
pub mod tools;

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io::BufReader;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, anyhow, bail};
use tempfile::NamedTempFile;
use weaver_devstack::choice::cache_root;
use weaver_devstack::download::sha256;
use weaver_devstack::files;
use weaver_devstack::steps::{Steps, say};

use self::layer::Built;
use self::rootfs::RootFs;
use self::tools::{Logs, output};
use crate::k3s::{self, K3s, Variant, Wish};
use crate::programs::{self, Profile, Program};

/// How files begin that are being written.
const PARTIAL: &str = ".partial-";
/// What `out/` takes at most: image, packed image, boot files, symbols.
const SPACE_FOR_OUT: u64 = 2 << 30;
/// What another root file system takes in the cache.
const SPACE_FOR_ROOT: u64 = 1 << 30;

/// Options of `build`.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// The checkout.
    #[arg(long, default_value = ".")]
    pub source: PathBuf,
    /// Where the image goes.
    #[arg(long, default_value = "out")]
    pub out: PathBuf,
    /// k3s for the card: a file, or `testbed` for a test image [default: what image/k3s.lock names, downloaded].
    #[arg(long, env = "K3S", value_name = "FILE|testbed")]
    pub k3s: Option<OsString>,
    /// Ask Debian's archive again instead of taking the root file system from the cache.
    #[arg(long)]
    pub fresh: bool,
    /// Stop at the image, without compressing it.
    #[arg(long)]
    pub raw: bool,
}

/// What was built.
#[derive(Debug)]
pub struct Image {
    /// The image, not compressed.
    pub raw: PathBuf,
    /// What k3s on it is.
    pub k3s: K3s,
}

/// Builds the image.
///
/// # Errors
/// See the module; [`k3s::NotFetched`] where the k3s of the lock cannot be fetched.
pub fn build(options: &Options) -> Result<Image> {
    let Options { source, out, .. } = options;
    let mut steps = Steps::begin();
    let logs = Logs::below(&source.join("target/image/logs"))?;
    fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    clear_partial(out)?;
    files::require_space(out, SPACE_FOR_OUT)?;
    let cache = cache_root()?.join("image");
    files::make_dir(&cache)?;
    files::require_space(&cache, SPACE_FOR_ROOT)?;
    let epoch = epoch(source)?;

    let wish = Wish::of(options.k3s.as_deref());
    let work = source.join("target/image");
    let choose = || k3s::choose(source, &wish, &work.join("k3s"));
    // First, since it is what most often cannot be had; but a testbed is compiled, beside the packages.
    let chosen = if wish == Wish::Testbed { None } else { Some(choose()?) };
    let profile = if wish == Wish::Testbed { Profile::TestCard } else { Profile::Release };
    let (root, k3s, programs) = thread::scope(|scope| -> Result<_> {
        let root = scope.spawn(|| rootfs::make(source, &cache, options.fresh, &logs));
        let others = || -> Result<_> {
            let k3s = chosen.map_or_else(choose, Ok)?;
            steps.done("k3s", format_args!("{} ({})", k3s.version, k3s.path.display()));
            let programs = programs::build(source, profile, &work.join("programs"), &out.join("symbols"))?;
            for Program { name, size, .. } in &programs {
                say(format_args!("            {:5} KiB  {name}", size >> 10));
            }
            steps.done("programs", "stripped, symbols beside the image");
            Ok((k3s, programs))
        };
        let others = others();
        let root = root.join().map_err(|_| anyhow!("making the root file system panicked"))?;
        let (k3s, programs) = others?;
        Ok((root?, k3s, programs))
    })?;
    let (root, cached) = root;
    steps.done("root file system", if cached { "from the cache" } else { "made new" });

    let packages = lists(options, &root, &k3s)?;
    steps.done("bill of materials", format_args!("{packages} packages"));
    let image = put_together(options, &root, &programs, &k3s, epoch, &logs)?;
    steps.done("image", image.display());
    if !options.raw {
        let packed = publish(&image, k3s.variant == Variant::Release, epoch, &logs)?;
        steps.done("compressed", packed.display());
    }
    Ok(Image { raw: image, k3s })
}

fn put_together(
    options: &Options,
    root: &RootFs,
    programs: &[Program],
    k3s: &K3s,
    epoch: u64,
    logs: &Logs,
) -> Result<PathBuf> {
    let Options { source, out, .. } = options;
    let work = tempfile::Builder::new().prefix(PARTIAL).tempdir_in(out);
    let work = work.with_context(|| format!("cannot write to {}", out.display()))?;
    let boot = work.path().join("boot");
    let firmware = File::open(root.firmware()).context("cannot read the boot files in the cache")?;
    tar::Archive::new(BufReader::new(firmware)).unpack(&boot).context("unpacking the boot files")?;
    boot_files::verify(&boot, &boot_files::Kernel::in_root(&root.tar())?)?;
    copy_boot_overlay(&source.join("image/overlay-boot"), &boot, epoch)?;
    date_directories(&boot, epoch)?;
    // What is on the card is what the bill says, whoever changes the file meanwhile.
    let own_k3s = work.path().join("k3s");
    k3s.copy_to(&own_k3s)?;

    let os_release = fs::read_to_string(root.os_release()).context("reading os-release in the cache")?;
    let built = Built {
        programs: &programs.iter().map(|program| program.path.clone()).collect::<Vec<_>>(),
        k3s: &own_k3s,
        os_release: &os_release,
        version: env!("CARGO_PKG_VERSION"),
        variant: k3s.variant.id().zip(spoken(k3s.variant)),
    };
    let layer = layer::layer(source, &built)?;
    let partial = partial(out)?;
    disk::assemble(partial.path(), &boot, &root.tar(), &layer, epoch, logs)?;
    let image = out.join(format!("{}.img", stem(k3s)));
    partial.persist(&image).with_context(|| format!("naming {}", image.display()))?;
    Ok(image)
}

/// What an image that is no release is called on the console.
const fn spoken(variant: Variant) -> Option<&'static str> {
    match variant {
        Variant::Release => None,
        Variant::CustomK3s => Some("with a k3s that is not the pinned one"),
        Variant::Test => Some("TEST IMAGE: no k3s but test equipment in its place"),
    }
}

/// `config-weaver-VERSION[-VARIANT]-arm64`.
fn stem(k3s: &K3s) -> String {
    let variant = k3s.variant.id().map(|id| format!("-{id}")).unwrap_or_default();
    format!("config-weaver-{}{variant}-arm64", env!("CARGO_PKG_VERSION"))
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

/// Unpacked files have the time of their entry; their directories that of now, which mcopy would keep.
fn date_directories(directory: &Path, epoch: u64) -> Result<()> {
    for entry in fs::read_dir(directory)?.flatten().filter(|entry| entry.path().is_dir()) {
        date_directories(&entry.path(), epoch)?;
    }
    let dated = File::open(directory).and_then(|file| file.set_modified(time(epoch)));
    dated.with_context(|| format!("dating {}", directory.display()))
}

/// Writes packages.lock and the bill, compares the names, says what moved. Returns the number of packages.
fn lists(options: &Options, root: &RootFs, k3s: &K3s) -> Result<usize> {
    let Options { source, out, .. } = options;
    let read =
        |path: PathBuf| fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()));
    let installed = packages::installed(&read(root.packages())?, &read(root.hashes())?)?;
    if let Some(package) = installed.iter().find(|package| package.sha256.is_none()) {
        bail!("Debian's lists had no hash for {}; ask them again: weaver-image build --fresh", package.name);
    }
    let lock = packages::lock(&installed);
    let path = out.join("packages.lock");
    if let Ok(before) = fs::read_to_string(&path) {
        for line in lock.lines().filter(|line| !before.lines().any(|b| b == *line)) {
            say(format_args!("            changed since the last build: {}", line.replace('\t', " ")));
        }
    }
    packages::compare(&read(source.join("image/packages.installed"))?, &installed)?;
    fs::write(&path, &lock).with_context(|| format!("cannot write {}", path.display()))?;

    let crates = sbom::crates(source, programs::TARGET, &programs::PROGRAMS.map(|(_, package)| package))?;
    let k3s = sbom::K3s { version: &k3s.version, sha256: &k3s.sha256 };
    let bill = sbom::cyclonedx(env!("CARGO_PKG_VERSION"), &installed, &crates, &k3s)?;
    let path = out.join("sbom.cdx.json");
    fs::write(&path, bill).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(installed.len())
}

/// Compresses the image and writes what lies beside it. A release is packed well, any other fast.
fn publish(image: &Path, is_release: bool, epoch: u64, logs: &Logs) -> Result<PathBuf> {
    let packed = image.with_extension("img.xz");
    let partial = partial(image.parent().unwrap_or(image))?;
    let log = logs.create("compressing")?;
    let mut command = Command::new("xz");
    command.args(["-T0", if is_release { "-6" } else { "-0" }, "-c"]).arg(image);
    command.stdout(partial.reopen()?).stderr(log);
    let status = command.status().map_err(|error| tools::cannot_start(&command, error))?;
    if !status.success() {
        return Err(logs.failed("compressing", &status));
    }
    partial.as_file().sync_all()?;
    partial.persist(&packed).with_context(|| format!("naming {}", packed.display()))?;

    let name = packed.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let hashes = (sha256(image)?, sha256(&packed)?);
    let list = os_list::list(&os_list::Published {
        version: env!("CARGO_PKG_VERSION"),
        url: &format!("file://{}", packed.canonicalize()?.display()),
        date: output(Command::new("date").args(["-u", "+%F", "-d"]).arg(format!("@{epoch}")))?.trim(),
        sizes: (fs::metadata(image)?.len(), fs::metadata(&packed)?.len()),
        hashes: (&hashes.0, &hashes.1),
    })?;
    fs::write(packed.with_file_name("os-list.json"), list).context("writing os-list.json")?;
    let sum = format!("{}  {name}\n", hashes.1);
    fs::write(packed.with_file_name(name + ".sha256"), sum).context("writing the sum")?;
    Ok(packed)
}

/// A file that gets its name when it is whole.
fn partial(directory: &Path) -> Result<NamedTempFile> {
    tempfile::Builder::new()
        .prefix(PARTIAL)
        .permissions(Permissions::from_mode(0o644))
        .tempfile_in(directory)
        .with_context(|| format!("cannot write to {}", directory.display()))
}

/// Removes what an interrupted build has left.
fn clear_partial(directory: &Path) -> Result<()> {
    for entry in
        fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?.flatten()
    {
        if entry.file_name().to_string_lossy().starts_with(PARTIAL) {
            let path = entry.path();
            let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            removed.with_context(|| format!("removing {}", path.display()))?;
        }
    }
    Ok(())
}

/// The time that our files get: `SOURCE_DATE_EPOCH`, else the last commit's.
fn epoch(source: &Path) -> Result<u64> {
    if let Ok(text) = std::env::var("SOURCE_DATE_EPOCH") {
        let seconds: u64 =
            text.parse().with_context(|| format!("SOURCE_DATE_EPOCH={text} is no number of seconds"))?;
        return Ok(seconds.max(rootfs::EPOCH));
    }
    let mut git = Command::new("git");
    let text = output(git.arg("-C").arg(source).args(["log", "-1", "--format=%ct"]))
        .context("the last commit's time is not known; set SOURCE_DATE_EPOCH")?;
    let seconds: u64 = text.trim().parse().context("git printed no time")?;
    Ok(seconds.max(rootfs::EPOCH))
}
