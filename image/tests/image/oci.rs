//! Container images of small programs in C, each read back as a registry client would, and started.
//!
//! Needs gcc and gcc-aarch64-linux-gnu with their static libc, and unshare.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use weaver_image::oci::image;
use weaver_image::oci::layout::{ImageMetadata, OciPlatform};

/// 2026-11-23T02:00:00Z.
const CREATED: u64 = 1_795_399_200;

fn about() -> ImageMetadata {
    ImageMetadata { version: "1.2.3".into(), revision: "0123abcd".into(), created: CREATED }
}

fn compiled(platform: OciPlatform, flags: &[&str]) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("tool.c"), dir.path().join("tool"));
    fs::write(&from, "#include <stdio.h>\nint main(void) { puts(\"weaver-operator 1.2.3\"); }\n").unwrap();
    let gcc = format!("{}-gcc", platform.target().replace("-unknown", ""));
    let status = Command::new(gcc).args(flags).arg("-o").args([&to, &from]).status().unwrap();
    assert!(status.success());
    fs::read(to).unwrap()
}

fn programs() -> Vec<(OciPlatform, Vec<u8>)> {
    OciPlatform::ALL.into_iter().map(|platform| (platform, compiled(platform, &["-static"]))).collect()
}

/// The content of each file of an archive.
fn files(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut archive = tar::Archive::new(archive);
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        (entry.path().unwrap().to_str().unwrap().to_owned(), content)
    });
    entries.collect()
}

/// What a descriptor names; size and digest have to be those of what is there.
fn blob<'a>(files: &'a BTreeMap<String, Vec<u8>>, descriptor: &Value) -> &'a [u8] {
    let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
    let bytes = &files[&format!("blobs/sha256/{digest}")];
    assert_eq!(format!("{:x}", Sha256::digest(bytes)), digest);
    assert_eq!(descriptor["size"], bytes.len());
    bytes
}

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

#[test]
fn every_digest_is_right_and_each_platform_has_its_program_to_the_byte() {
    let programs = programs();
    let image = image(&programs, &about()).unwrap();
    let files = files(&image.archive);
    assert_eq!(json(&files["oci-layout"]), json!({"imageLayoutVersion": "1.0.0"}));
    let top = json(&files["index.json"]);
    let [index] = &top["manifests"].as_array().unwrap()[..] else { panic!("{top:#}") };
    assert_eq!(index["digest"], image.digest);
    assert_eq!(index["annotations"]["io.containerd.image.name"], "localhost/weaver-operator:1.2.3");
    assert_eq!(index["annotations"]["org.opencontainers.image.ref.name"], "1.2.3");
    let index = json(blob(&files, index));
    // The others: an index, and for each platform a manifest, a configuration and a layer.
    assert_eq!(files.len(), 2 + 1 + 3 * programs.len());
    for (manifest, (platform, program)) in index["manifests"].as_array().unwrap().iter().zip(&programs) {
        let wanted = json!({"os": "linux", "architecture": platform.architecture()});
        assert_eq!(manifest["platform"], wanted);
        let manifest = json(blob(&files, manifest));
        let config = json(blob(&files, &manifest["config"]));
        assert_eq!(config["architecture"], platform.architecture());
        assert_eq!(config["created"], "2026-11-23T02:00:00Z");
        let run = &config["config"];
        assert_eq!(
            (&run["User"], &run["Entrypoint"]),
            (&json!("65532:65532"), &json!(["/usr/bin/weaver-operator"]))
        );
        assert_eq!(run["Labels"]["org.opencontainers.image.revision"], "0123abcd");
        let [layer] = &manifest["layers"].as_array().unwrap()[..] else { panic!("{manifest:#}") };
        assert_eq!(config["rootfs"]["diff_ids"], json!([layer["digest"]]));
        let layer = blob(&files, layer);
        assert_eq!(&self::files(layer)["usr/bin/weaver-operator"], program);
    }
}

#[test]
fn nothing_in_a_layer_has_setuid_or_can_be_written() {
    let image = image(&programs(), &about()).unwrap();
    let mut seen = Vec::new();
    for (name, layer) in files(&image.archive) {
        // Blobs that are no archives begin as JSON does.
        if !name.starts_with("blobs/") || layer.starts_with(b"{") {
            continue;
        }
        for entry in tar::Archive::new(&layer[..]).entries().unwrap() {
            let entry = entry.unwrap();
            let header = entry.header();
            let path = entry.path().unwrap().to_str().unwrap().to_owned();
            let owner = (header.uid().unwrap(), header.gid().unwrap());
            seen.push((path, header.mode().unwrap(), owner));
            assert_eq!(header.mtime().unwrap(), CREATED);
        }
    }
    let root = |path: &str| (path.to_owned(), 0o755, (0, 0));
    let program = ("usr/bin/weaver-operator".to_owned(), 0o555, (65_532, 65_532));
    let one = [root("usr/"), root("usr/bin/"), program];
    assert_eq!(seen, [&one[..], &one[..]].concat());
}

#[test]
fn the_same_programs_of_the_same_commit_are_the_same_image() {
    let programs = programs();
    let made = |about: &ImageMetadata| image(&programs, about).unwrap();
    let (one, same) = (made(&about()), made(&about()));
    assert!(one.archive == same.archive && one.digest == same.digest);
    let later = made(&ImageMetadata { created: CREATED + 1, ..about() });
    assert_ne!(one.digest, later.digest);
}

#[test]
fn unpacked_it_starts_with_nothing_next_to_it() {
    let image = image(&programs(), &about()).unwrap();
    let files = files(&image.archive);
    let index = json(blob(&files, &json(&files["index.json"])["manifests"][0]));
    let here = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => panic!("there is no image for {other}"),
    };
    let manifests = index["manifests"].as_array().unwrap();
    let ours = manifests.iter().find(|manifest| manifest["platform"]["architecture"] == here).unwrap();
    let manifest = json(blob(&files, ours));
    let entrypoint = &json(blob(&files, &manifest["config"]))["config"]["Entrypoint"][0];
    let root = tempfile::tempdir().unwrap();
    tar::Archive::new(blob(&files, &manifest["layers"][0])).unpack(root.path()).unwrap();
    let said = started(root.path(), entrypoint.as_str().unwrap());
    assert_eq!(said, "weaver-operator 1.2.3\n");
}

/// The version that a program prints, whose root this directory is.
fn started(root: &Path, program: &str) -> String {
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--root"]).arg(root).args([program, "--version"]).env_clear();
    let output = command.env("PATH", "/usr/bin:/bin").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn what_would_not_start_is_refused_by_name() {
    let fit = compiled(OciPlatform::Amd64, &["-static"]);
    for (what, platform, program, words) in [
        (
            "dynamic",
            OciPlatform::Amd64,
            compiled(OciPlatform::Amd64, &[]),
            "needs /lib64/ld-linux-x86-64.so.2, libc.so.6",
        ),
        (
            "of another processor",
            OciPlatform::Arm64,
            fit,
            "it is for x86-64, 64 bits, little-endian, not for AArch64",
        ),
        ("no program", OciPlatform::Amd64, b"#!/bin/sh\n".to_vec(), "not an ELF program"),
    ] {
        let refusal = format!("{:#}", image(&[(platform, program)], &about()).unwrap_err());
        assert!(refusal.contains(words) && refusal.contains(platform.architecture()), "{what}: {refusal}");
    }
}
