//! What a registry answers, read: pages of names, manifests, what it wants for access. Pure.
//!
//! Guarantees: nothing in an answer makes it panic, and a next page is never of another host. Form:
//! <https://github.com/opencontainers/distribution-spec/blob/main/spec.md>.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The media types of manifests that containerd pulls.
pub const MANIFESTS: &str = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json";

/// Where its names begin.
pub const CATALOGUE: &str = "/v2/_catalog?n=100";

/// Where the tags of a repository begin.
pub fn tags_path(repository: &str) -> String {
    format!("/v2/{repository}/tags/list?n=100")
}

/// The names in a page of the catalogue.
///
/// # Errors
/// It is no such page.
pub fn repositories(body: &[u8]) -> Result<Vec<String>, &'static str> {
    names(body, "repositories")
}

/// The tags in a page of a repository's; none where all were deleted.
///
/// # Errors
/// It is no such page.
pub fn tags(body: &[u8]) -> Result<Vec<String>, &'static str> {
    names(body, "tags")
}

fn names(body: &[u8], key: &str) -> Result<Vec<String>, &'static str> {
    const NONE: &str = "the answer is not what a registry answers";
    let answer: Value = serde_json::from_slice(body).map_err(|_| NONE)?;
    match answer.get(key) {
        Some(Value::Null) => Ok(Vec::new()),
        Some(list) => Vec::deserialize(list).map_err(|_| NONE),
        None => Err(NONE),
    }
}

/// The path of the next page, by the header Link; `None` where it is of another host than `origin`
/// (`http://HOST:PORT`), which is not followed.
pub fn next_page(link: &str, origin: &str) -> Option<String> {
    let (target, parameters) = link.trim().strip_prefix('<')?.split_once('>')?;
    let is_next = parameters.split(';').any(|parameter| {
        let parameter = parameter.split(',').next().unwrap_or_default().trim();
        parameter.eq_ignore_ascii_case("rel=\"next\"") || parameter.eq_ignore_ascii_case("rel=next")
    });
    let path = target.strip_prefix(origin).unwrap_or(target);
    (is_next && path.starts_with("/v2/")).then(|| path.to_owned())
}

/// What a registry wants for access, by the header WWW-Authenticate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Challenge {
    /// `Basic`, `Bearer` or another.
    pub scheme: String,
    /// Of a password: what for. Of a token: the URL that gives one.
    pub realm: String,
    #[serde(skip)]
    pub service: Option<String>,
    #[serde(skip)]
    pub scope: Option<String>,
}

/// Reads the first challenge of the header.
pub fn challenge(header: &str) -> Option<Challenge> {
    let (scheme, parameters) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
    let is_scheme = !scheme.is_empty() && scheme.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-');
    is_scheme.then(|| Challenge {
        scheme: scheme.to_owned(),
        realm: parameter(parameters, "realm").unwrap_or_default(),
        service: parameter(parameters, "service"),
        scope: parameter(parameters, "scope"),
    })
}

/// A value of `name="value", other=value`; a quoted one may contain commas.
fn parameter(parameters: &str, name: &str) -> Option<String> {
    let mut rest = parameters;
    loop {
        let (key, behind) = rest.split_once('=')?;
        let (value, more) = match behind.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => behind.split_once(',').unwrap_or((behind, "")),
        };
        if key.trim_matches([' ', ',']).eq_ignore_ascii_case(name) {
            return Some(value.trim().to_owned());
        }
        rest = more;
    }
}

/// For which machine an image is built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Platform {
    pub os: String,
    pub architecture: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
}

impl Platform {
    /// Linux on a processor as Rust names it, such as `aarch64`.
    pub fn linux(processor: &str) -> Self {
        let architecture = match processor {
            "aarch64" => "arm64",
            "x86_64" => "amd64",
            other => other,
        };
        Self { os: "linux".to_owned(), architecture: architecture.to_owned(), variant: None }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        self.variant.iter().try_for_each(|variant| write!(f, "/{variant}"))
    }
}

/// Reads `linux/arm64`.
///
/// # Errors
/// What to write.
pub fn platform(text: &str) -> Result<Platform, &'static str> {
    let parts: Vec<&str> = text.split('/').collect();
    let is_word = |part: &&str| !part.is_empty() && part.bytes().all(|c| c.is_ascii_alphanumeric());
    match parts[..] {
        [os, architecture, ref variant @ ..] if variant.len() < 2 && parts.iter().all(is_word) => {
            Ok(Platform {
                os: os.to_owned(),
                architecture: architecture.to_owned(),
                variant: variant.first().map(|&variant| variant.to_owned()),
            })
        }
        _ => Err("write OS/ARCHITECTURE, such as linux/arm64"),
    }
}

/// The manifest that a tag points to.
#[derive(Debug, PartialEq, Eq)]
pub enum ImageManifest {
    /// Builds for these machines.
    Index(Vec<Platform>),
    /// One build; what it is for is in the blob of this digest.
    Image { config: String },
}

/// Reads a manifest.
///
/// # Errors
/// Why containerd cannot use it.
pub fn manifest(body: &[u8]) -> Result<ImageManifest, &'static str> {
    let answer: Value = serde_json::from_slice(body).map_err(|_| "the manifest is not JSON")?;
    if let Some(Value::Array(builds)) = answer.get("manifests") {
        let platforms = builds.iter().filter_map(|build| of_object(build.get("platform")?));
        // Attestations of buildx are listed like builds.
        return Ok(ImageManifest::Index(platforms.filter(|platform| platform.os != "unknown").collect()));
    }
    if answer.get("schemaVersion") == Some(&Value::from(1)) {
        return Err("its manifest is of schema 1, which containerd no longer pulls: push it again");
    }
    let digest = answer.pointer("/config/digest").and_then(Value::as_str).filter(|digest| is_digest(digest));
    digest
        .map(|digest| ImageManifest::Image { config: digest.to_owned() })
        .ok_or("the response is not an image manifest")
}

/// For which machine an image is built, by its configuration.
pub fn built_for(config: &[u8]) -> Option<Platform> {
    of_object(&serde_json::from_slice(config).ok()?)
}

fn of_object(object: &Value) -> Option<Platform> {
    let text = |key| object.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    Some(Platform {
        os: text("os")?.to_owned(),
        architecture: text("architecture")?.to_owned(),
        variant: text("variant").map(str::to_owned),
    })
}

/// Which images a machine's containerd takes: an arm64 also one for 32-bit arm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    Native,
    Arm32,
    None,
}

/// How well the best of these fits the machine.
pub fn fit(wanted: &Platform, builds: &[Platform]) -> Fit {
    let is_native = |build: &&Platform| {
        let is_variant = match (&wanted.variant, &build.variant) {
            // An arm takes what is built for an older one.
            (Some(v), Some(build)) => v == build || (wanted.architecture == "arm" && build < v),
            _ => true,
        };
        build.os == wanted.os && build.architecture == wanted.architecture && is_variant
    };
    let is_arm32 = |build: &&Platform| build.os == wanted.os && build.architecture == "arm";
    if builds.iter().any(|build| is_native(&build)) {
        Fit::Native
    } else if wanted.architecture == "arm64" && builds.iter().any(|build| is_arm32(&build)) {
        Fit::Arm32
    } else {
        Fit::None
    }
}

/// An image of one registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ImageReference {
    pub repository: String,
    /// A tag or a digest.
    pub reference: String,
}

impl ImageReference {
    pub fn path(&self) -> String {
        format!("/v2/{}/manifests/{}", self.repository, self.reference)
    }
}

impl fmt::Display for ImageReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.reference.contains(':') { '@' } else { ':' };
        write!(f, "{}{sign}{}", self.repository, self.reference)
    }
}

/// Reads an image's name, with or without this registry in front; without a tag it is `latest`.
///
/// # Errors
/// What is wrong with it.
pub fn image(text: &str, registry: &str) -> Result<ImageReference, String> {
    let name = text.strip_prefix(registry).and_then(|rest| rest.strip_prefix('/')).unwrap_or(text);
    let (repository, reference) = name
        .split_once('@')
        .or_else(|| name.rsplit_once(':').filter(|(_, tag)| !tag.contains('/')))
        .unwrap_or((name, "latest"));
    repository_name(repository)?;
    let is_tag = !reference.is_empty()
        && reference.len() <= 128
        && !reference.starts_with(['.', '-'])
        && reference.bytes().all(|c| c.is_ascii_alphanumeric() || b"._-".contains(&c));
    if !(is_digest(reference) || (is_tag && !name.contains('@'))) {
        return Err(format!("`{text}` has no valid tag: write NAME:TAG or NAME@sha256:DIGEST"));
    }
    Ok(ImageReference { repository: repository.to_owned(), reference: reference.to_owned() })
}

/// Whether this can be the name of a repository.
///
/// # Errors
/// What is wrong with it.
pub fn repository_name(text: &str) -> Result<String, String> {
    let is_plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_part = |part: &str| {
        part.bytes().all(|c| is_plain(c) || b"._-".contains(&c))
            && part.bytes().next().is_some_and(is_plain)
            && part.bytes().last().is_some_and(is_plain)
    };
    if text.len() <= 255 && text.split('/').all(is_part) {
        return Ok(text.to_owned());
    }
    let first = text.split('/').next().unwrap_or_default();
    let why = if text.bytes().any(|c| c.is_ascii_uppercase()) {
        "a repository's name has no capital letters"
    } else if text.contains('/') && first.contains(':') {
        "it begins with another registry: write the registry once, as the first argument"
    } else {
        "write letters a to z, digits, and . _ - / between them"
    };
    Err(format!("`{text}` is not a valid repository name: {why}"))
}

fn is_digest(text: &str) -> bool {
    text.split_once(':').is_some_and(|(algorithm, hex)| {
        !algorithm.is_empty()
            && algorithm.bytes().all(|c| c.is_ascii_alphanumeric())
            && (32..=128).contains(&hex.len())
            && hex.bytes().all(|c| c.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests;
