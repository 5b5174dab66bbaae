//! Archives of container images, as `docker save` and `ctr images export` write them: what k3s imports, and for which
//! processor the images are. Pure.
//!
//! A plain archive is judged by the configurations of its images, a packed one by its first bytes and its name: nothing
//! here unpacks. Guarantees: nothing in an archive makes it panic, and no text of one is repeated but platforms. Form:
//! <https://github.com/opencontainers/image-spec/blob/main/image-layout.md>.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::registry::api::{self, Fit, ImageManifest, Platform};

/// The largest file of an archive that is read: indexes, manifests and configurations, not layers. In bytes.
pub const LARGEST: u64 = 1 << 20;
/// How many bytes of such files an archive may have.
pub const MOST: u64 = 32 << 20;

/// The files of an archive that may describe an image, by path.
pub type Descriptions = BTreeMap<String, Vec<u8>>;

/// Why an archive is of no use, and what to do. Both continue a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveFault {
    pub why: String,
    pub remedy: String,
}

impl ArchiveFault {
    pub fn new(why: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { why: why.into(), remedy: remedy.into() }
    }
}

/// How an archive is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    Plain,
    Gzip,
    Zstd,
}

/// Names that k3s imports by.
const EXTENSIONS: [(&str, Packing); 5] = [
    (".tar", Packing::Plain),
    (".tar.gz", Packing::Gzip),
    (".tgz", Packing::Gzip),
    (".tar.zst", Packing::Zstd),
    (".tzst", Packing::Zstd),
];

impl Packing {
    /// As the name says; k3s goes by it alone.
    ///
    /// # Errors
    /// The name is none of an archive.
    pub fn by_name(name: &str) -> Result<Self, ArchiveFault> {
        let lower = name.to_ascii_lowercase();
        let found = EXTENSIONS.iter().find(|(extension, _)| lower.ends_with(extension));
        found.map(|(_, packing)| *packing).ok_or_else(|| {
            ArchiveFault::new(
                "only archives whose names end in .tar, .tar.gz or .tar.zst are imported",
                "write the archive again with `docker save`, or correct the name",
            )
        })
    }

    fn by_content(start: &[u8]) -> Self {
        match start {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            _ => Self::Plain,
        }
    }

    const fn extension(self) -> &'static str {
        match self {
            Self::Plain => ".tar",
            Self::Gzip => ".tar.gz",
            Self::Zstd => ".tar.zst",
        }
    }
}

/// Judges name and first bytes. The content of one that is plain is left to [`fault`].
///
/// # Errors
/// What is wrong with it.
pub fn packing(name: &str, start: &[u8], wanted: &Platform) -> Result<Packing, ArchiveFault> {
    let packing = Packing::by_name(name)?;
    if start.is_empty() {
        return Err(ArchiveFault::new("it is empty, as damaged files are", "copy it again"));
    }
    let found = Packing::by_content(start);
    if found != packing {
        let (is, says) = (found.extension(), packing.extension());
        let remedy = format!("rename it so that it ends in {is}; if it is damaged, copy it again");
        return Err(ArchiveFault::new(format!("its name ends in {says}, and its content is {is}"), remedy));
    }
    if packing != Packing::Plain
        && let Some(other) = named_for_another(name, &wanted.architecture)
    {
        let wanted = &wanted.architecture;
        let why = format!("its name says {other}, and this card is {wanted}");
        let remedy = format!("put the archive for {wanted} there; if it is that one, rename it");
        return Err(ArchiveFault::new(why, remedy));
    }
    Ok(packing)
}

/// The processor that a name has in it, and not the one that is wanted.
fn named_for_another(name: &str, wanted: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase().replace("x86_64", "amd64").replace("aarch64", "arm64");
    let words: BTreeSet<&str> = name.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let others = ["amd64", "arm64", "ppc64le", "riscv64", "s390x"];
    others.into_iter().find(|other| words.contains(other)).filter(|_| !words.contains(wanted))
}

/// What is wrong with an archive of these files, where none of its images is for `wanted`.
pub fn fault(files: &Descriptions, wanted: &Platform) -> Option<ArchiveFault> {
    let parsed = |path: &str| serde_json::from_slice::<Value>(files.get(path)?).ok();
    let (index, list) = (parsed("index.json"), parsed("manifest.json"));
    let save = "write it with `docker save` or `ctr images export`";
    if index.is_none() && list.is_none() {
        let why = "it is no archive of images: it has neither index.json nor manifest.json";
        return Some(ArchiveFault::new(why, format!("{save}; if it is damaged, copy it again")));
    }
    let mut builds: Vec<Platform> = index.iter().flat_map(|index| of_index(files, index)).collect();
    for image in list.iter().filter_map(Value::as_array).flatten() {
        let config = image.get("Config").and_then(Value::as_str).and_then(|path| files.get(path));
        builds.extend(config.and_then(|config| api::built_for(config)));
    }
    // Attestations of buildx look like images.
    builds.retain(|build| build.os != "unknown");
    if builds.is_empty() {
        return Some(ArchiveFault::new("no image is in it, or none that says its processor", save));
    }
    if api::fit(wanted, &builds) != Fit::None {
        return None;
    }
    let names: BTreeSet<String> = builds.iter().map(shown).collect();
    let names = names.into_iter().collect::<Vec<_>>().join(", ");
    let remedy = format!("write it again with images that were pulled by `docker pull --platform {wanted}`");
    Some(ArchiveFault::new(format!("its images are for {names}, and this card is {wanted}"), remedy))
}

/// A platform is text of the archive.
fn shown(platform: &Platform) -> String {
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || "/_-.".contains(*c);
    platform.to_string().chars().filter(is_plain).take(40).collect()
}

/// The digests that an index lists.
fn children(index: &Value) -> impl Iterator<Item = &str> {
    let listed = index.get("manifests").and_then(Value::as_array).into_iter().flatten();
    listed.filter_map(|child| child.get("digest")?.as_str())
}

/// What the images of an index are built for. A part that is not in the archive is none of its images: an index names
/// all platforms, and one may have been exported.
fn of_index(files: &Descriptions, index: &Value) -> Vec<Platform> {
    let (mut builds, mut seen) = (Vec::new(), BTreeSet::new());
    let mut open: Vec<String> = children(index).map(str::to_owned).collect();
    while let Some(digest) = open.pop() {
        let Some(body) = blob(files, &digest) else { continue };
        if !seen.insert(digest) {
            continue;
        }
        match api::manifest(body) {
            Ok(ImageManifest::Image { config }) => {
                builds.extend(blob(files, &config).and_then(|config| api::built_for(config)));
            }
            Ok(ImageManifest::Index(_)) => {
                let index: Value = serde_json::from_slice(body).unwrap_or_default();
                open.extend(children(&index).map(str::to_owned));
            }
            Err(_) => {}
        }
    }
    builds
}

fn blob<'f>(files: &'f Descriptions, digest: &str) -> Option<&'f Vec<u8>> {
    files.get(&format!("blobs/{}", digest.replacen(':', "/", 1)))
}

#[cfg(test)]
mod tests;
