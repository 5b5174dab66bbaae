//! `weaver verify`: is a file the one that was published? Uses no network.
//!
//! The key vouches for SHA256SUMS, SHA256SUMS for every file, the provenance among them. Guarantees: no list is used
//! before its signature was verified, where a key is given; what could not be read never counts as good. Failure: the
//! first thing that is wrong with the list, or each file that is not as published.

mod provenance;
pub mod release;
pub mod signature;
mod sums;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};
use clap::{Args, ValueHint};
use sha2::{Digest as _, Sha256};
use weaver_diagnostics::exit_code::KNOWN_BAD;
use weaver_host::durable_file::with_suffix;

use self::release::{LIMIT, NotAsPublished, PROVENANCE, ReadFile, Release, SIGNATURE, SUMS};
use self::signature::MinisignKey;
use crate::stdout::{ErrorLines, failed, note, say};

#[derive(Args)]
pub struct Verify {
    /// Files of one release, or the directory that has all of it
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::AnyPath)]
    files: Vec<PathBuf>,
    /// Public key of minisign: a file, or the key itself
    #[arg(long, value_name = "PUBKEY", value_hint = ValueHint::FilePath)]
    key: Option<String>,
    /// Expected version, such as 0.2.0; without it, an older signed release is accepted
    #[arg(long, value_name = "VERSION", requires = "key")]
    release: Option<String>,
    /// SHA256SUMS file [default: the one next to the file]
    #[arg(long, value_name = "SHA256SUMS", value_hint = ValueHint::FilePath)]
    sums: Option<PathBuf>,
}

pub fn run(options: &Verify) -> anyhow::Result<ExitCode> {
    match verify(options) {
        Err(error) if error.is::<NotAsPublished>() || error.is::<ErrorLines>() => {
            failed("error", &error);
            Ok(KNOWN_BAD.into())
        }
        done => done.map(|()| ExitCode::SUCCESS),
    }
}

fn verify(options: &Verify) -> anyhow::Result<()> {
    let Verify { files, key, release: wanted, sums } = options;
    let key = key.as_deref().map(read_key).transpose()?;
    let mut releases = BTreeMap::new();
    let mut bad = Vec::new();
    for path in files {
        let meta = fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
        ensure!(meta.is_file() || meta.is_dir(), "{} is neither a file nor a directory", path.display());
        let list = match sums {
            Some(list) => list.clone(),
            None if meta.is_dir() => path.join(SUMS),
            None => path.with_file_name(SUMS),
        };
        let release = match releases.entry(list.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let release = read_release(new.key(), key.as_ref(), wanted.as_deref())?;
                new.insert(release)
            }
        };
        let names = if meta.is_dir() { all(release, path)? } else { vec![name(&list, path)?] };
        for (name, path) in names {
            match release.check(&name, &hash(&path)?) {
                Ok(()) if key.is_none() => say(format_args!("{name}: as its SHA256SUMS says")),
                Ok(()) => say(format_args!("{name}: as published{}", release.built())),
                Err(why) => bad.push(format!("{name}: {why:#}")),
            }
        }
    }
    if key.is_none() {
        note!(
            "The signature was not checked, so SHA256SUMS may be anyone's: pass --key with the key of who publishes the release."
        );
    }
    if bad.is_empty() { Ok(()) } else { Err(listed("not as published, do not use:", bad)) }
}

fn listed(what: &str, bad: Vec<String>) -> anyhow::Error {
    let mut lines = vec![what.to_owned()];
    lines.extend(bad);
    ErrorLines(lines).into()
}

/// A key file's path, or the key itself.
pub fn read_key(given: &str) -> anyhow::Result<MinisignKey> {
    // First: a file of that name may come with the files.
    if let Ok(key) = signature::key(given) {
        return Ok(key);
    }
    let path = Path::new(given);
    if path.exists() {
        let text = String::from_utf8(read(path)?).map_err(|_| anyhow::anyhow!("it is not UTF-8 text"));
        return text
            .and_then(|text| signature::key(&text))
            .with_context(|| format!("the key {}", path.display()));
    }
    signature::key(given)
        .with_context(|| format!("--key {given} is neither an existing file nor a minisign public key"))
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LIMIT as u64 + 1).read_to_end(&mut bytes));
    read.with_context(|| format!("cannot read {}", path.display()))?;
    ensure!(bytes.len() <= LIMIT, "{} has more than {} MiB", path.display(), LIMIT >> 20);
    Ok(bytes)
}

/// A file that may be missing.
pub fn read_if_there(path: &Path) -> anyhow::Result<Option<ReadFile>> {
    let at = path.display().to_string();
    if path.try_exists().with_context(|| format!("cannot read {at}"))? {
        return Ok(Some(ReadFile { bytes: read(path)?, at }));
    }
    Ok(None)
}

/// Judges the list and the files next to it.
fn read_release(list: &Path, key: Option<&MinisignKey>, wanted: Option<&str>) -> anyhow::Result<Release> {
    let bytes =
        read(list).context("where is the list? pass --sums, or download SHA256SUMS next to the file")?;
    let sums = ReadFile { at: list.display().to_string(), bytes };
    let signature = |key| {
        let path = with_suffix(list, SIGNATURE);
        let file = read_if_there(&path)?
            .with_context(|| format!("there is no {}: download it next to the list", path.display()))?;
        anyhow::Ok((key, file))
    };
    let signature = key.map(signature).transpose()?;
    let provenance = read_if_there(&list.with_file_name(PROVENANCE))?;
    let signed = signature.as_ref().map(|(key, file)| (*key, file));
    let release = Release::judge(&sums, signed, provenance.as_ref(), wanted)?;
    if let (Some(key), Some(comment)) = (key, &release.signed) {
        say(format_args!("{}: signed by the key {}: {comment}", sums.at, key.id));
    }
    Ok(release)
}

/// The names and paths of the files below a directory; the list and its signature are no files of the list.
fn all(release: &Release, directory: &Path) -> anyhow::Result<Vec<(String, PathBuf)>> {
    let mut found = BTreeSet::new();
    below(directory, "", &mut found)?;
    for own in [SUMS.to_owned(), format!("{SUMS}{SIGNATURE}")] {
        found.remove(&own);
    }
    let missing: Vec<String> = release.names().filter(|name| !found.contains(*name)).cloned().collect();
    if !missing.is_empty() {
        let what = format!(
            "{} is not all of the release; name the files to check, or download:",
            directory.display()
        );
        return Err(listed(&what, missing));
    }
    Ok(found.into_iter().map(|name| (name.clone(), directory.join(name))).collect())
}

/// What the list calls this file: its path from the directory of the list, or its name where it is elsewhere.
fn name(list: &Path, path: &Path) -> anyhow::Result<(String, PathBuf)> {
    let absolute = |path: &Path| {
        std::path::absolute(path).with_context(|| format!("cannot tell where {} is", path.display()))
    };
    let (list, file) = (absolute(list)?, absolute(path)?);
    let name = list
        .parent()
        .and_then(|directory| file.strip_prefix(directory).ok())
        .or_else(|| file.file_name().map(Path::new));
    let name =
        name.and_then(Path::to_str).with_context(|| format!("{} has no name in UTF-8", path.display()))?;
    ensure!(name != SUMS, "{name} is the list itself: name the file that you downloaded, or the directory");
    Ok((name.replace(std::path::MAIN_SEPARATOR, "/"), path.to_owned()))
}

/// Names of the files below `directory`, with `/` on every system.
fn below(directory: &Path, prefix: &str, found: &mut BTreeSet<String>) -> anyhow::Result<()> {
    let cannot = || format!("cannot read {}", directory.display());
    for entry in fs::read_dir(directory).with_context(cannot)? {
        let entry = entry.with_context(cannot)?;
        let path = entry.path();
        let kind = entry.file_type().with_context(cannot)?;
        let Ok(name) = entry.file_name().into_string() else {
            bail!("{} has no name in UTF-8, and is not part of a release", path.display());
        };
        let name = format!("{prefix}{name}");
        if kind.is_dir() {
            below(&path, &format!("{name}/"), found)?;
        } else if kind.is_file() {
            found.insert(name);
        } else {
            bail!("{} is neither a file nor a directory, and no release has such", path.display());
        }
    }
    Ok(())
}

fn hash(path: &Path) -> anyhow::Result<String> {
    let cannot = || format!("cannot read {}", path.display());
    let mut hasher = Sha256::new();
    io::copy(&mut File::open(path).with_context(cannot)?, &mut hasher).with_context(cannot)?;
    Ok(format!("{:x}", hasher.finalize()))
}
