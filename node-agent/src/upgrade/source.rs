//! Where the new program comes from: a file, a release of the project, or the one that was kept.
//!
//! Guarantees: the checked file is the one used, since the copy next to the old program is checked; nothing is run
//! before its hash is right. Failure: names the file or the address, and what to do.

use std::env::consts::ARCH;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, ensure};
use weaver_diagnostics::k3s_upgrade::plan::{Hash, UpgradeCandidate};
use weaver_diagnostics::k3s_upgrade::program::{self, HEAD};
use weaver_diagnostics::k3s_upgrade::release::{self, ReleaseFiles};
use weaver_diagnostics::k3s_upgrade::version::Version;
use weaver_installer::download;

use super::args::UpgradeArgs;
use super::program_files::{ProgramFiles, sha256};
use super::say::say;
use crate::k3s_version::version_of;

/// Bytes of a list of hashes.
const LIST: usize = 64 * 1024;

/// How this program names itself to the server of the releases.
const USER_AGENT: &str = "weaver-node-agent";

/// Where from, and the hash that was named for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum K3sSource {
    File {
        path: PathBuf,
        /// The hash that was named.
        sha256: Option<String>,
    },
    /// A release of the project.
    Release {
        version: Version,
        releases: String,
        /// Its files for this machine.
        files: ReleaseFiles,
        /// The hash that was named.
        sha256: Option<String>,
    },
    /// The program that ran before.
    Previous {
        /// The hash that it had then, where that is known.
        sha256: Option<String>,
    },
}

impl K3sSource {
    /// The source by the options; a file that is called like a version is `./v1.36.4+k3s1`.
    ///
    /// # Errors
    /// The project has no k3s for this machine.
    pub fn of(args: &UpgradeArgs) -> anyhow::Result<Self> {
        let UpgradeArgs { k3s, sha256, releases, no_backup: _, node: _ } = args;
        let sha256 = sha256.clone();
        let Ok(version) = k3s.parse() else { return Ok(Self::File { path: k3s.into(), sha256 }) };
        let files = release::files(ARCH);
        let files = files.with_context(|| format!("no k3s is released for {ARCH}: name a FILE"))?;
        Ok(Self::Release { version, releases: releases.clone(), files, sha256 })
    }

    /// What is known of it before anything is written.
    pub async fn look(&self, program: &ProgramFiles) -> anyhow::Result<UpgradeCandidate> {
        Ok(match self {
            Self::File { path, sha256 } => {
                let expected = expected(path, sha256.as_deref())?;
                let missing =
                    || Hash::Missing { list: release::files(ARCH).map_or("list", |f| f.sums).to_owned() };
                UpgradeCandidate { hash: expected.map_or_else(missing, |_| Hash::Unknown), ..of_file(path)? }
            }
            Self::Release { version, releases, files, .. } => UpgradeCandidate {
                shown: release::address(releases, version, files.program),
                kind: None,
                hash: Hash::Unknown,
                asked: Some(version.clone()),
                version: None,
                size: None,
            },
            Self::Previous { sha256 } => {
                let path = program.previous();
                ensure!(
                    path.exists(),
                    "there is no earlier k3s at {}: no upgrade has been made here",
                    path.display()
                );
                let mut candidate = of_file(&path)?;
                // It is there already.
                candidate.size = None;
                judge(&path, sha256.as_deref(), &mut candidate).await?;
                candidate
            }
        })
    }

    /// Checks a file without copying it, for a dry run. One that may not be run does not report its version.
    pub async fn judge_in_place(&self, candidate: &mut UpgradeCandidate) -> anyhow::Result<()> {
        let Self::File { path, sha256: named } = self else { return Ok(()) };
        let Some(wanted) = expected(path, named.as_deref())? else { return Ok(()) };
        if fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o111 != 0) {
            return judge(path, Some(&wanted), candidate).await;
        }
        candidate.hash = compare(Some(&wanted), sha256(path)?);
        Ok(())
    }

    /// Writes it next to the installed program, and checks it there.
    pub async fn stage(
        &self,
        program: &ProgramFiles,
        candidate: &mut UpgradeCandidate,
    ) -> anyhow::Result<()> {
        let wanted = match self {
            Self::File { path, sha256 } => {
                let wanted = expected(path, sha256.as_deref())?;
                let (program, path) = (program.clone(), path.clone());
                let copying = move || {
                    let mut writing = program.begin()?;
                    writing.copy(&path)?;
                    writing.end()
                };
                tokio::task::spawn_blocking(copying).await.context("copying the new program")??;
                wanted
            }
            Self::Release { version, releases, files, sha256 } => {
                let fetched = fetch(program, version, releases, *files, sha256.as_deref()).await;
                Some(fetched.map_err(|error| {
                    anyhow!(
                        "{error:#}; nothing was changed. Fetch {} and {} of {version} on a machine that \
                         reaches the address, copy both here, then `sudo weaver node upgrade --k3s \
                         /path/to/{}`",
                        files.program,
                        files.sums,
                        files.program
                    )
                })?)
            }
            Self::Previous { sha256 } => {
                program.take_previous()?;
                sha256.clone()
            }
        };
        let path = program.staged();
        let UpgradeCandidate { kind, size, .. } = of_file(&path)?;
        (candidate.kind, candidate.size) = (kind, size);
        judge(&path, wanted.as_deref(), candidate).await
    }
}

/// Fetches a release's program and returns the hash that it should have.
async fn fetch(
    program: &ProgramFiles,
    version: &Version,
    releases: &str,
    files: ReleaseFiles,
    named: Option<&str>,
) -> anyhow::Result<String> {
    let wanted = if let Some(named) = named {
        named.to_owned()
    } else {
        let list = release::address(releases, version, files.sums);
        let bytes = download::whole(&list, USER_AGENT, LIST).await?;
        let text = String::from_utf8(bytes).with_context(|| format!("{list} is not text"))?;
        let reported = release::hash_in(&text, &[files.program]);
        reported.with_context(|| format!("{list} has no hash of {}", files.program))?
    };
    let address = release::address(releases, version, files.program);
    say(&format!("Fetching {address}"));
    let mut writing = program.begin()?;
    download::fetch(&address, USER_AGENT, |bytes| writing.more(bytes)).await?;
    writing.end()?;
    Ok(wanted)
}

/// The hash that a file should have: the given one, else that of the release's list next to it.
fn expected(path: &Path, named: Option<&str>) -> anyhow::Result<Option<String>> {
    if let Some(named) = named {
        return Ok(Some(named.to_owned()));
    }
    let Some(ReleaseFiles { program, sums }) = release::files(ARCH) else { return Ok(None) };
    let list = path.with_file_name(sums);
    if !list.is_file() {
        return Ok(None);
    }
    let mut text = String::new();
    let read = File::open(&list).and_then(|file| file.take(LIST as u64).read_to_string(&mut text));
    read.with_context(|| format!("cannot read {}", list.display()))?;
    let own = path.file_name().and_then(|name| name.to_str()).unwrap_or(program);
    Ok(release::hash_in(&text, &[own, program]))
}

/// The facts from its metadata and its first bytes.
fn of_file(path: &Path) -> anyhow::Result<UpgradeCandidate> {
    let shown = path.display().to_string();
    let what = format!("there is no readable file {shown}");
    // Checked before it is opened: opening a pipe would wait for a writer.
    let metadata = fs::metadata(path).with_context(|| what.clone())?;
    let kind = if metadata.is_file() {
        let mut head = Vec::new();
        let read = File::open(path).and_then(|file| file.take(HEAD as u64).read_to_end(&mut head));
        read.context(what)?;
        program::judge(&head, ARCH)
    } else {
        Err("it is not a regular file".to_owned())
    };
    let size = metadata.is_file().then_some(metadata.len());
    Ok(UpgradeCandidate { shown, kind: Some(kind), hash: Hash::Unknown, asked: None, version: None, size })
}

/// Its hash; and its version, if it may be run.
async fn judge(path: &Path, wanted: Option<&str>, candidate: &mut UpgradeCandidate) -> anyhow::Result<()> {
    let reading = path.to_owned();
    let found =
        tokio::task::spawn_blocking(move || sha256(&reading)).await.context("reading a program")??;
    candidate.hash = compare(wanted, found);
    if candidate.hash == Hash::Right && !matches!(candidate.kind, Some(Err(_))) {
        candidate.version = Some(version_of(path).await);
    }
    Ok(())
}

/// Without a hash to compare with it is a program that was kept here.
fn compare(wanted: Option<&str>, found: String) -> Hash {
    match wanted {
        Some(wanted) if wanted != found => Hash::Wrong { wanted: wanted.to_owned(), found },
        _ => Hash::Right,
    }
}
