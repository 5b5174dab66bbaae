//! Our own programs for the card: built, stripped, checked; their symbols in separate files.
//!
//! Guarantees: a program in the programs' directory is for the card's processor and glibc ([`crate::elf`]), within its
//! [budget](Profile::budget), and printed the workspace's version when it ran (`programs/emulation.rs`); each is put
//! there by a rename, so an interrupted build leaves the old one or none. The symbols' file of a program is there
//! before the program. Failure: the message names the program and every fault of it; nothing of it is kept.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::{env, fs};

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::Deserialize;
use weaver_devstack::steps::say;
use weaver_devstack::{download, files};
use weaver_host::durable_file;

use crate::build::build_dir;
use crate::elf::{self, ElfFacts, ProgramOrigin};

pub mod emulation;

/// Rust's name for the card.
pub const TARGET: &str = "aarch64-unknown-linux-gnu";

/// Each program and the package that it is built from.
pub const PROGRAMS: [(&str, &str); 3] = [
    ("weaver-node-agent", "weaver-node-agent"),
    ("weaver-operator", "weaver-operator"),
    ("weaver", "weaver-cli"),
];

const OBJCOPY: &str = "aarch64-linux-gnu-objcopy";

/// A program that is ready for the card.
#[derive(Clone, Debug)]
pub struct CardProgram {
    /// Its name on the card.
    pub name: &'static str,
    pub path: PathBuf,
    pub size: u64,
    /// SHA-256 of the stripped program, in lower-case hexadecimal.
    pub sha256: String,
    /// What it demands of the card.
    pub facts: ElfFacts,
    /// Its symbols and line tables; the program names this file, and both have the same build id.
    pub symbols: PathBuf,
}

#[derive(Debug, Clone, clap::Args)]
pub struct ProgramOptions {
    /// The checkout.
    #[arg(long, default_value = ".")]
    source: PathBuf,
    /// Where the stripped programs go.
    #[arg(long, default_value = "target/image/programs")]
    programs: PathBuf,
    /// Where their symbols go.
    #[arg(long, default_value = "out/symbols")]
    symbols: PathBuf,
}

/// Builds all programs and prints the results, a line each.
///
/// # Errors
/// As [`build`].
pub fn run(options: &ProgramOptions) -> Result<ExitCode> {
    files::make_dir(&options.programs)?;
    let _alone = build_dir::wait_alone(&options.programs)?;
    for program in build(&options.source, Profile::Release, &options.programs, &options.symbols)? {
        say(line(&program));
    }
    Ok(ExitCode::SUCCESS)
}

fn line(program: &CardProgram) -> String {
    let CardProgram { path, size, facts, symbols, .. } = program;
    let tenths = size * 10 / (1 << 20);
    let glibc = facts.glibc.map(|version| format!("glibc {version} or later, ")).unwrap_or_default();
    let (path, symbols) = (path.display(), symbols.display());
    format!("  {:3}.{} MiB  {path}  ({glibc}symbols in {symbols})", tenths / 10, tenths % 10)
}

/// How much the compiler optimises and checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Profile {
    /// All it can: what ships.
    Release,
    /// Only the code, in a third of the time, and with the checks of a debug build: for an image that never ships.
    Dev,
}

impl Profile {
    /// The workspace's name of the profile.
    const fn name(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Dev => "dev",
        }
    }

    /// How large a stripped program may be, in bytes: less than this.
    pub const fn budget(self) -> u64 {
        match self {
            Self::Release => 20 << 20,
            Self::Dev => 56 << 20,
        }
    }
}

/// Builds all programs: stripped into `programs`, their symbols into `symbols`. `source` is the checkout.
///
/// # Errors
/// When the build fails, or a program is not fit for the card.
pub fn build(source: &Path, profile: Profile, programs: &Path, symbols: &Path) -> Result<Vec<CardProgram>> {
    let built = compile(source, profile)?;
    files::make_dir(programs)?;
    files::make_dir(symbols)?;
    for directory in [programs, symbols] {
        build_dir::clear(directory)?;
    }
    let ids = symbols.join(".build-id");
    if ids.exists() {
        fs::remove_dir_all(&ids).with_context(|| format!("cannot clear {}", ids.display()))?;
    }
    PROGRAMS
        .into_iter()
        .map(|(name, package)| {
            let built = built
                .get(name)
                .ok_or_else(|| anyhow!("cargo built no program {name} from the package {package}"))?;
            prepare(name, built, env!("CARGO_PKG_VERSION"), profile.budget(), programs, symbols)
                .with_context(|| format!("the program {name} cannot go onto the card"))
        })
        .collect()
}

/// Builds with the plain toolchain: name and path of each program, with symbols and line tables.
fn compile(source: &Path, profile: Profile) -> Result<BTreeMap<String, PathBuf>> {
    let mut command = cargo(source, profile, TARGET, &[])?;
    for (_, package) in PROGRAMS {
        command.args(["-p", package]);
    }
    // The profile strips line tables from every program; here they are wanted, in a file of their own.
    command.env("CARGO_PROFILE_RELEASE_STRIP", "none");
    built(&mut command)
}

/// cargo, set up to build for `target` with these flags of rustc; the caller adds what to build.
pub(crate) fn cargo(source: &Path, profile: Profile, target: &str, flags: &[&str]) -> Result<Command> {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(source);
    command.args(["build", "--locked", "--profile", profile.name(), "--target", target]);
    command.args(["--message-format", "json-render-diagnostics"]);
    // No path of this machine in a program, so that another one builds the same.
    let remapped = remapped(source)?;
    command.env("CARGO_ENCODED_RUSTFLAGS", [&[remapped.as_str()], flags].concat().join("\x1f"));
    // The variables that an outer `cargo run` sets for its own package would make ring's build script run each time.
    for (name, _) in env::vars_os().filter(|(name, _)| is_outer_package(name)) {
        command.env_remove(name);
    }
    Ok(command)
}

/// Runs it: name and path of each program.
pub(crate) fn built(command: &mut Command) -> Result<BTreeMap<String, PathBuf>> {
    command.stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().context("cannot start cargo; https://rustup.rs installs it")?;
    ensure!(output.status.success(), "cargo build failed ({}); see its messages above", output.status);
    Ok(executables(&String::from_utf8_lossy(&output.stdout)))
}

/// Flags that replace the paths of this machine by names that are the same on all machines.
fn remapped(source: &Path) -> Result<String> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")));
    let home = home.context("neither CARGO_HOME nor HOME is set; set one of them")?;
    let source = source.canonicalize().with_context(|| format!("cannot find {}", source.display()))?;
    let flag = |from: &Path, to: &str| format!("--remap-path-prefix={}={to}", from.display());
    Ok([flag(&home, "/cargo"), flag(&source, "/source")].join("\x1f"))
}

fn is_outer_package(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
}

/// A line of cargo's report; of each kind only what is needed here.
#[derive(Deserialize)]
struct Message {
    reason: String,
    target: Option<CargoTarget>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct CargoTarget {
    name: String,
}

/// The programs of cargo's own report: no guessing at names and paths.
fn executables(report: &str) -> BTreeMap<String, PathBuf> {
    let messages = report.lines().filter_map(|line| serde_json::from_str::<Message>(line).ok());
    messages
        .filter(|message| message.reason == "compiler-artifact")
        .filter_map(|message| Some((message.target?.name, message.executable?)))
        .collect()
}

/// Splits one built program into program and symbols, checks the program and writes both. `version` is what it must
/// print for `--version`, after a name; `budget` is in bytes.
///
/// # Errors
/// When it is not fit for the card; the old files in both directories stay.
pub fn prepare(
    name: &'static str,
    built: &Path,
    version: &str,
    budget: u64,
    programs: &Path,
    symbols: &Path,
) -> Result<CardProgram> {
    let next_to = |dir: &Path| {
        let made = tempfile::Builder::new().prefix(build_dir::PARTIAL).tempdir_in(dir);
        made.map_err(|error| files::explained(&dir.join(name), error))
    };
    let (new_program, new_symbols) = (next_to(programs)?, next_to(symbols)?);
    let stripped = new_program.path().join(name);
    let debug = new_symbols.path().join(format!("{name}.debug"));
    objcopy(&[OsStr::new("--only-keep-debug"), built.as_os_str(), debug.as_os_str()])?;
    let mut link = OsString::from("--add-gnu-debuglink=");
    link.push(&debug);
    objcopy(&[OsStr::new("--strip-all"), &link, built.as_os_str(), stripped.as_os_str()])?;

    let bytes = fs::read(&stripped).with_context(|| format!("cannot read {}", stripped.display()))?;
    let facts = elf::read(&bytes)?;
    let size = bytes.len() as u64;
    judge(&facts, size, budget)?;
    let said = emulation::version(&stripped)?;
    ensure!(
        said.split_whitespace().last() == Some(version),
        "it reports {:?}, and should be version {version}; was it built from this checkout?",
        said.trim()
    );

    let in_place = |from: &Path, dir: &Path| -> Result<PathBuf> {
        let to = dir.join(from.file_name().unwrap_or_default());
        // Its content first, then its name: a power cut must not leave an empty file there.
        durable_file::flush(from)?;
        fs::rename(from, &to).map_err(|error| files::explained(&to, error))?;
        Ok(to)
    };
    let sha256 = download::sha256(&stripped)?;
    let symbols_file = in_place(&debug, symbols)?;
    if let Some(id) = &facts.build_id {
        link_by_id(symbols, id, name)?;
    }
    Ok(CardProgram { name, path: in_place(&stripped, programs)?, size, sha256, facts, symbols: symbols_file })
}

/// All checks that need no run.
fn judge(facts: &ElfFacts, size: u64, budget: u64) -> Result<()> {
    let mut faults: Vec<String> = facts.faults(ProgramOrigin::Ours).iter().map(ToString::to_string).collect();
    if size >= budget {
        faults.push(format!(
            "it has {size} bytes stripped, the budget is {} MiB; look for a new dependency or feature",
            budget >> 20
        ));
    }
    ensure!(faults.is_empty(), "{}", faults.join("; "));
    Ok(())
}

/// Where debuggers look after `set debug-file-directory SYMBOLS`.
fn link_by_id(symbols: &Path, id: &str, name: &str) -> Result<()> {
    let Some((first, rest)) = id.split_at_checked(2).filter(|(_, rest)| !rest.is_empty()) else {
        bail!("its build id {id:?} is too short; link it again");
    };
    let dir = symbols.join(".build-id").join(first);
    files::make_dir(&dir)?;
    let link = dir.join(format!("{rest}.debug"));
    files::remove(&link)?;
    std::os::unix::fs::symlink(format!("../../{name}.debug"), &link)
        .map_err(|error| files::explained(&link, error))
}

fn objcopy(arguments: &[&OsStr]) -> Result<()> {
    let output = Command::new(OBJCOPY).args(arguments).stdin(Stdio::null()).output().with_context(|| {
        format!("cannot start {OBJCOPY}; `apt-get install binutils-aarch64-linux-gnu` brings it")
    })?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{OBJCOPY} failed: {}", said.trim());
    Ok(())
}

#[cfg(test)]
mod tests;
