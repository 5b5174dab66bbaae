//! An image as a file: an OCI layout in a tar archive. Pure: programs in, bytes out, the same for the same input.
//!
//! The archive's index has one entry, the image's own index, which has a manifest for each platform; so one name covers
//! all of them. No layer is compressed: a registry client does that, and the bytes depend on no compressor.

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tar::{Builder, EntryType, Header};

/// Numeric, since the image has no `/etc/passwd`; not the one that systems use for files without an owner.
const USER: u32 = 65_532;
/// The path of the program.
const PATH: &str = "usr/bin/weaver-operator";
/// Before the tag. No registry: the image is loaded from the file.
const NAME: &str = "localhost/weaver-operator";

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// What an image can be for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OciPlatform {
    Amd64,
    Arm64,
}

impl OciPlatform {
    /// In the order of the index.
    pub const ALL: [Self; 2] = [Self::Amd64, Self::Arm64];

    /// The name in the image's metadata.
    pub const fn architecture(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// Rust's name of the target.
    pub const fn target(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-unknown-linux-gnu",
            Self::Arm64 => "aarch64-unknown-linux-gnu",
        }
    }

    /// The name that [`crate::elf`] uses.
    pub const fn machine(self) -> &'static str {
        match self {
            Self::Amd64 => "x86-64",
            Self::Arm64 => "AArch64",
        }
    }
}

#[derive(Clone, Debug)]
pub struct ImageMetadata {
    pub version: String,
    pub revision: String,
    /// The commit's date, in seconds since 1970.
    pub created: u64,
}

#[derive(Clone, Debug)]
pub struct OciImage {
    pub archive: Vec<u8>,
    /// The digest of the image's index, by which a registry would identify it.
    pub digest: String,
    /// Its name, with the tag.
    pub reference: String,
}

/// The image of these programs.
///
/// # Errors
/// The date is out of range. (Writing to memory does not fail.)
pub fn image(programs: &[(OciPlatform, Vec<u8>)], about: &ImageMetadata) -> Result<OciImage> {
    let mut blobs = Blobs::default();
    let manifests: Result<Vec<Value>> =
        programs.iter().map(|(platform, program)| manifest(&mut blobs, *platform, program, about)).collect();
    let index = json!({
        "schemaVersion": 2, "mediaType": INDEX, "manifests": manifests?, "annotations": labels(about)?,
    });
    let mut top = blobs.add_json(INDEX, &index);
    let digest = top["digest"].as_str().unwrap_or_default().to_owned();
    let reference = format!("{NAME}:{}", about.version);
    // containerd uses the first to name what it imports, skopeo and podman the second to find it in the file.
    top["annotations"] = json!({
        "io.containerd.image.name": reference, "org.opencontainers.image.ref.name": about.version,
    });
    let layout = json!({"imageLayoutVersion": "1.0.0"}).to_string();
    let top = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [top]}).to_string();
    let mut archive = Archive::new(about.created);
    archive.file("oci-layout", layout.as_bytes(), 0o644, 0)?;
    archive.file("index.json", top.as_bytes(), 0o644, 0)?;
    for (digest, bytes) in blobs.0 {
        archive.file(&format!("blobs/sha256/{digest}"), &bytes, 0o644, 0)?;
    }
    Ok(OciImage { archive: archive.finish()?, digest, reference })
}

/// The manifest of one platform, with all that it names.
fn manifest(
    blobs: &mut Blobs,
    platform: OciPlatform,
    program: &[u8],
    about: &ImageMetadata,
) -> Result<Value> {
    let mut layer = Archive::new(about.created);
    layer.directory("usr/")?;
    layer.directory("usr/bin/")?;
    // Not for its own user to write to, and with no bit that would raise anyone.
    layer.file(PATH, program, 0o555, USER)?;
    let layer = blobs.add(LAYER, layer.finish()?);
    let created = created(about)?;
    let config = json!({
        "created": created, "architecture": platform.architecture(), "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"), "Entrypoint": [format!("/{PATH}")], "Labels": labels(about)?,
        },
        // It is not compressed, so both digests are one.
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
        "history": [{"created": created, "created_by": "weaver-image oci"}],
    });
    let config = blobs.add_json(CONFIG, &config);
    let manifest = json!({
        "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer],
    });
    let mut manifest = blobs.add_json(MANIFEST, &manifest);
    manifest["platform"] = json!({"architecture": platform.architecture(), "os": "linux"});
    Ok(manifest)
}

fn created(about: &ImageMetadata) -> Result<String> {
    let seconds = i64::try_from(about.created).context("the commit's date")?;
    Ok(Timestamp::from_second(seconds).context("the commit's date")?.to_string())
}

fn labels(about: &ImageMetadata) -> Result<Value> {
    Ok(json!({
        "org.opencontainers.image.title": "weaver-operator",
        "org.opencontainers.image.description":
            "Copies configuration between namespaces with the tenant's own rights and no others",
        "org.opencontainers.image.version": about.version,
        "org.opencontainers.image.revision": about.revision,
        "org.opencontainers.image.created": created(about)?,
        // Ours, and glibc's, which is linked in.
        "org.opencontainers.image.licenses": "Apache-2.0 AND LGPL-2.1-or-later",
    }))
}

/// What is named by its digest, in the order in which it was added.
#[derive(Default)]
struct Blobs(Vec<(String, Vec<u8>)>);

impl Blobs {
    /// Adds one and describes it.
    fn add(&mut self, media_type: &str, bytes: Vec<u8>) -> Value {
        let digest = format!("{:x}", Sha256::digest(&bytes));
        let descriptor =
            json!({"mediaType": media_type, "digest": format!("sha256:{digest}"), "size": bytes.len()});
        if self.0.iter().all(|(known, _)| *known != digest) {
            self.0.push((digest, bytes));
        }
        descriptor
    }

    fn add_json(&mut self, media_type: &str, value: &Value) -> Value {
        self.add(media_type, value.to_string().into_bytes())
    }
}

/// A tar archive that is independent of this machine and the time.
struct Archive {
    tar: Builder<Vec<u8>>,
    modified: u64,
}

impl Archive {
    fn new(modified: u64) -> Self {
        Self { tar: Builder::new(Vec::new()), modified }
    }

    fn file(&mut self, path: &str, content: &[u8], mode: u32, owner: u32) -> Result<()> {
        self.entry(EntryType::Regular, path, content, mode, owner)
    }

    fn directory(&mut self, path: &str) -> Result<()> {
        self.entry(EntryType::Directory, path, &[], 0o755, 0)
    }

    fn entry(&mut self, kind: EntryType, path: &str, content: &[u8], mode: u32, owner: u32) -> Result<()> {
        let mut header = Header::new_ustar();
        header.set_entry_type(kind);
        header.set_size(content.len() as u64);
        header.set_mode(mode);
        header.set_uid(owner.into());
        header.set_gid(owner.into());
        header.set_mtime(self.modified);
        self.tar.append_data(&mut header, path, content).with_context(|| format!("adding {path}"))
    }

    fn finish(self) -> Result<Vec<u8>> {
        self.tar.into_inner().context("ending an archive")
    }
}
