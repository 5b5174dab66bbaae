use proptest::prelude::*;
use serde_json::json;

use super::*;

fn card() -> Platform {
    api::platform("linux/arm64").unwrap()
}

fn files(all: &[(&str, Value)]) -> Descriptions {
    all.iter().map(|(path, value)| ((*path).to_owned(), value.to_string().into_bytes())).collect()
}

fn digest(letter: char) -> String {
    format!("sha256:{}", String::from(letter).repeat(64))
}

fn blob_path(letter: char) -> String {
    format!("blobs/sha256/{}", String::from(letter).repeat(64))
}

/// An OCI layout whose index names the manifest a, whose configuration is c.
fn layout(architecture: &str) -> Descriptions {
    files(&[
        ("index.json", json!({"schemaVersion": 2, "manifests": [{"digest": digest('a')}]})),
        (&blob_path('a'), json!({"schemaVersion": 2, "config": {"digest": digest('c')}})),
        (&blob_path('c'), json!({"os": "linux", "architecture": architecture})),
    ])
}

fn saved(architectures: &[&str]) -> Descriptions {
    let config = |at: usize| format!("{at}.json");
    let list: Vec<_> =
        (0..architectures.len()).map(|at| json!({"Config": config(at), "Layers": []})).collect();
    let mut all = files(&[("manifest.json", Value::Array(list))]);
    for (at, architecture) in architectures.iter().enumerate() {
        let content = json!({"os": "linux", "architecture": architecture}).to_string();
        all.insert(config(at), content.into_bytes());
    }
    all
}

#[test]
fn an_archive_with_an_image_for_the_card_is_fine() {
    for archive in [layout("arm64"), layout("arm"), saved(&["arm64"]), saved(&["amd64", "arm64"])] {
        assert_eq!(fault(&archive, &card()), None);
    }
}

#[test]
fn one_for_another_processor_is_refused_with_what_to_type() {
    for archive in [layout("amd64"), saved(&["amd64", "amd64"])] {
        let ArchiveFault { why, remedy } = fault(&archive, &card()).unwrap();
        assert_eq!(why, "its images are for linux/amd64, and this card is linux/arm64");
        assert!(remedy.contains("docker pull --platform linux/arm64"), "{remedy}");
    }
}

#[test]
fn of_an_index_counts_what_was_exported() {
    let mut archive = layout("amd64");
    let platform = |architecture: &str| json!({"os": "linux", "architecture": architecture});
    let nested = json!({"manifests": [
        {"digest": digest('b'), "platform": platform("arm64")},
        {"digest": digest('d'), "platform": platform("amd64")},
        {"digest": digest('e'), "platform": {"os": "unknown", "architecture": "unknown"}},
    ]});
    archive.insert(blob_path('a'), nested.to_string().into_bytes());
    let manifest = |config: char| json!({"config": {"digest": digest(config)}}).to_string().into_bytes();
    archive.insert(blob_path('d'), manifest('c'));
    archive.insert(blob_path('e'), manifest('f'));
    archive.insert(blob_path('f'), br#"{"os": "unknown", "architecture": "unknown"}"#.to_vec());
    let found = fault(&archive, &card()).unwrap();
    assert_eq!(found.why, "its images are for linux/amd64, and this card is linux/arm64");
}

#[test]
fn an_index_that_names_itself_ends() {
    let archive = files(&[
        ("index.json", json!({"manifests": [{"digest": digest('a')}]})),
        (&blob_path('a'), json!({"manifests": [{"digest": digest('a')}]})),
    ]);
    assert!(fault(&archive, &card()).unwrap().why.starts_with("no image is in it"));
}

#[test]
fn what_is_no_archive_of_images_says_how_to_write_one() {
    for (archive, want) in [
        (Descriptions::new(), "neither index.json nor manifest.json"),
        (files(&[("etc/passwd", json!({}))]), "neither index.json nor manifest.json"),
        (files(&[("index.json", json!({"manifests": []}))]), "no image is in it"),
        (files(&[("manifest.json", json!([{"Config": "gone.json"}]))]), "no image is in it"),
    ] {
        let ArchiveFault { why, remedy } = fault(&archive, &card()).unwrap();
        assert!(why.contains(want) && remedy.contains("docker save"), "{why}; {remedy}");
    }
}

#[test]
fn name_and_first_bytes_of_an_archive_agree() {
    const GZIP: &[u8] = &[0x1f, 0x8b, 8];
    const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
    for (name, start, want) in [
        ("app.tar", &b"index.json"[..], Packing::Plain),
        ("APP.TAR", b"i", Packing::Plain),
        ("app-amd64.tar", b"i", Packing::Plain),
        ("app.tar.gz", GZIP, Packing::Gzip),
        ("app.tgz", GZIP, Packing::Gzip),
        ("k3s-airgap-images-arm64.tar.zst", ZSTD, Packing::Zstd),
        ("amd64-and-aarch64.tzst", ZSTD, Packing::Zstd),
        ("x86.tar.zst", ZSTD, Packing::Zstd),
    ] {
        assert_eq!(packing(name, start, &card()), Ok(want), "{name}");
    }
    for (name, start, want) in [
        ("app.tar", &b""[..], "it is empty, as damaged files are; copy it again"),
        ("app.tar", GZIP, "its content is .tar.gz; rename it so that it ends in .tar.gz"),
        ("app.tar.zst", GZIP, "ends in .tar.zst, and its content is .tar.gz"),
        ("app.tar.zst", b"i", "its content is .tar; rename it"),
        ("app.tar.xz", b"i", "end in .tar, .tar.gz or .tar.zst"),
        ("app.zip", b"i", "end in .tar, .tar.gz or .tar.zst"),
        ("k3s-airgap-images-amd64.tar.zst", ZSTD, "its name says amd64, and this card is arm64; put"),
        ("app_x86_64.tgz", GZIP, "its name says amd64"),
    ] {
        let ArchiveFault { why, remedy } = packing(name, start, &card()).unwrap_err();
        assert!(format!("{why}; {remedy}").contains(want), "{name}: {why}; {remedy}");
    }
}

proptest! {
    #[test]
    fn never_panics(name in "\\PC{0,12}(\\.tar(\\.gz)?)?", index in "\\PC*", blob in "\\PC*") {
        let _ = packing(&name, index.as_bytes(), &card());
        let all = [("index.json".to_owned(), index.into_bytes()), (name, blob.into_bytes())];
        let _ = fault(&Descriptions::from(all), &card());
    }
}
