//! What vouches for the files of a release: its list, the signature of the list, and its provenance. Pure.
//!
//! Guarantee: of a list that is signed nothing is used before its signature was verified. Failure: what is not as
//! published, with the place where it was read.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail, ensure};
use sha2::{Digest as _, Sha256};
use weaver_diagnostics::version_gap;

use super::provenance::Provenance;
use super::signature::{self, MinisignKey};
use super::sums;

pub const SUMS: &str = "SHA256SUMS";
pub const SIGNATURE: &str = ".minisig";
pub const PROVENANCE: &str = "provenance.intoto.json";
/// More bytes than any list, signature, key or statement of a release has.
pub const LIMIT: usize = 4 << 20;
/// How the comment begins that packaging/release.sh has signed with the list; the version follows.
const SIGNED: &str = "Config Weaver ";

/// Not as published, unlike what could not be read.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotAsPublished(String);

pub struct ReadFile {
    pub at: String,
    pub bytes: Vec<u8>,
}

pub struct Release {
    /// Where the list was read.
    list: String,
    sums: BTreeMap<String, String>,
    provenance: Option<Provenance>,
    /// The comment that was signed with the list, where a key was given.
    pub signed: Option<String>,
}

impl Release {
    /// Judges the list by key and signature, where there is a key, and the provenance by the list.
    ///
    /// # Errors
    /// [`NotAsPublished`]
    pub fn judge(
        list: &ReadFile,
        signature: Option<(&MinisignKey, &ReadFile)>,
        provenance: Option<&ReadFile>,
        wanted: Option<&str>,
    ) -> anyhow::Result<Self> {
        let judged = Self::judged(list, signature, provenance, wanted);
        judged.map_err(|error| NotAsPublished(format!("{error:#}")).into())
    }

    fn judged(
        list: &ReadFile,
        signature: Option<(&MinisignKey, &ReadFile)>,
        provenance: Option<&ReadFile>,
        wanted: Option<&str>,
    ) -> anyhow::Result<Self> {
        let comment = |(key, file): (&MinisignKey, &ReadFile)| {
            let text = str::from_utf8(&file.bytes)
                .map_err(|_| anyhow::anyhow!("it is not UTF-8 text; download it again"));
            let comment = text.and_then(|text| signature::check(key, text, &list.bytes));
            comment.and_then(|comment| is_of(wanted, comment)).with_context(|| file.at.clone())
        };
        let signed = signature.map(comment).transpose()?;
        let sums = sums::parse(&list.bytes).with_context(|| list.at.clone())?;
        let mut release = Self { list: list.at.clone(), sums, provenance: None, signed };
        if let Some(statement) = provenance {
            let sum = release.check_sum(PROVENANCE, &format!("{:x}", Sha256::digest(&statement.bytes)));
            let read = sum.and_then(|()| Provenance::parse(&statement.bytes));
            release.provenance = Some(read.with_context(|| statement.at.clone())?);
        }
        Ok(release)
    }

    /// Names of the listed files.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.sums.keys()
    }

    /// Is the file of this name and SHA-256 one of this release?
    pub fn check(&self, name: &str, sha256: &str) -> anyhow::Result<()> {
        self.check_sum(name, sha256)?;
        match &self.provenance {
            Some(provenance) if name != PROVENANCE => provenance.check(name, sha256).context(PROVENANCE),
            _ => Ok(()),
        }
    }

    fn check_sum(&self, name: &str, sha256: &str) -> anyhow::Result<()> {
        match self.sums.get(name) {
            None => {
                bail!("{} does not list {name}: it is not part of this release, or was renamed", self.list)
            }
            Some(published) if published != sha256 => bail!(
                "its SHA-256 is {sha256}, and {published} was published: it is cut off, changed or of another release; \
                 download it again"
            ),
            Some(_) => Ok(()),
        }
    }

    pub fn built(&self) -> String {
        let commit = self.provenance.as_ref().and_then(|provenance| provenance.commit.as_ref());
        commit.map_or_else(String::new, |commit| format!(", built of commit {commit}"))
    }

    /// The version that was signed with the list, else the one that the provenance names.
    pub fn version(&self) -> anyhow::Result<&str> {
        let said = match (&self.signed, &self.provenance) {
            (Some(comment), _) => comment.strip_prefix(SIGNED),
            (None, Some(provenance)) => provenance.version.as_deref(),
            (None, None) => bail!("{} has no {PROVENANCE} next to it, which names the version", self.list),
        };
        said.filter(|said| version_gap::parse(said).is_some())
            .with_context(|| format!("{} is of a release that names no version of Config Weaver", self.list))
    }
}

/// The signed comment, if it names the release that is wanted.
fn is_of(wanted: Option<&str>, comment: String) -> anyhow::Result<String> {
    let Some(wanted) = wanted else { return Ok(comment) };
    let number = wanted.strip_prefix('v').unwrap_or(wanted);
    ensure!(
        comment == format!("{SIGNED}{number}"),
        "it is of another release, signed as `{comment}`, and {wanted} is wanted: the server has that one under this address"
    );
    Ok(comment)
}
