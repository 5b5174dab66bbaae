//! The operator as a container image, made without a container engine: [`layout`] writes it, here its programs are
//! built.
//!
//! An image contains one file. The program is linked statically, so that it needs no libc next to it, whose updates
//! would have to be followed. Guarantees: the content is a static program for the platform that the image names, within
//! the budget of a program for the card; the same sources make the same image, whose date is that of the last commit.
//! Failure: the message names the platform and what is wrong; an existing image stays.

pub mod layout;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use weaver_devstack::files;
use weaver_devstack::steps::Steps;

use self::layout::{ImageMetadata, OciImage, OciPlatform};
use crate::build::epoch;
use crate::elf;
use crate::programs::{self, Profile};

/// The program that an image starts.
pub const PROGRAM: &str = "weaver-operator";

/// Links glibc into the program. Names are resolved by files and DNS as before; from 2.34 on both are part of it.
const STATIC: &str = "-Ctarget-feature=+crt-static";

#[derive(Debug, Clone, clap::Args)]
pub struct OciOptions {
    /// The checkout
    #[arg(long, default_value = ".")]
    source: PathBuf,
    /// Directory for the image
    #[arg(long, default_value = "out")]
    out: PathBuf,
}

/// Builds the programs, and of them the image.
///
/// # Errors
/// A build fails, a program is not fit for the image, or it cannot be written.
pub fn run(options: &OciOptions) -> Result<ExitCode> {
    let mut steps = Steps::begin();
    let about = about(&options.source)?;
    let mut programs = Vec::new();
    for platform in OciPlatform::ALL {
        let program = compiled(&options.source, platform)?;
        let bytes = fs::read(&program).with_context(|| format!("cannot read {}", program.display()))?;
        steps.done(platform.architecture(), format_args!("{} bytes, static", bytes.len()));
        programs.push((platform, bytes));
    }
    let image = image(&programs, &about)?;
    files::make_dir(&options.out)?;
    let path = options.out.join(format!("{PROGRAM}-{}.oci.tar", about.version));
    files::replace(&path, &image.archive, 0o644)?;
    steps.done(&image.digest, format_args!("{} in {}", image.reference, path.display()));
    Ok(ExitCode::SUCCESS)
}

/// The image of these programs, if each is fit for it.
///
/// # Errors
/// With the platform and every fault of its program.
pub fn image(programs: &[(OciPlatform, Vec<u8>)], about: &ImageMetadata) -> Result<OciImage> {
    for (platform, program) in programs {
        judge(*platform, program).with_context(|| {
            format!("the program for {} cannot go into an image", platform.architecture())
        })?;
    }
    layout::image(programs, about)
}

fn judge(platform: OciPlatform, program: &[u8]) -> Result<()> {
    let facts = elf::read(program)?;
    let (machine, size) = (platform.machine(), program.len() as u64);
    ensure!(facts.machine == machine, "it is for {}, not for {machine}", facts.processor());
    ensure!(facts.executable, "it is an ELF file, but no program");
    let needs = facts.loader.iter().chain(&facts.libraries).cloned().collect::<Vec<_>>().join(", ");
    ensure!(
        needs.is_empty(),
        "it needs {needs}, and nothing is next to it there; link it statically ({STATIC})"
    );
    let budget = Profile::Release.budget();
    ensure!(size < budget, "it has {size} bytes, the budget is {} MiB", budget >> 20);
    Ok(())
}

/// The metadata of the image: of which commit it is.
fn about(source: &Path) -> Result<ImageMetadata> {
    let mut git = Command::new("git");
    let said = git.arg("-C").arg(source).args(["rev-parse", "HEAD"]).output().context("cannot start git")?;
    ensure!(
        said.status.success(),
        "the last commit is not known: {}",
        String::from_utf8_lossy(&said.stderr).trim()
    );
    let revision = String::from_utf8_lossy(&said.stdout).trim().to_owned();
    Ok(ImageMetadata { version: env!("CARGO_PKG_VERSION").to_owned(), revision, created: epoch(source)? })
}

/// The program for this platform, stripped.
fn compiled(source: &Path, platform: OciPlatform) -> Result<PathBuf> {
    let mut command = programs::cargo(source, Profile::Release, platform.target(), &[STATIC])?;
    command.args(["-p", PROGRAM]);
    command.env("CARGO_PROFILE_RELEASE_STRIP", "symbols");
    // Other flags than those of `make image`: in one directory each of the two would undo the other's work.
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| source.join("target"), PathBuf::from);
    command.arg("--target-dir").arg(std::path::absolute(target.join("oci"))?);
    let mut built = programs::built(&mut command)?;
    built
        .remove(PROGRAM)
        .with_context(|| format!("cargo built no program {PROGRAM} for {}", platform.target()))
}
