//! What is generated for a release, read back as its readers do.

use serde_json::json;

use super::*;

const VERSION: &str = "0.2.0-rc.1";
const URL: &str = "https://example.com/weaver/0.2.0-rc.1";

fn hashed(names: &[&str]) -> BTreeMap<String, String> {
    names.iter().enumerate().map(|(number, name)| ((*name).to_owned(), format!("{number:064x}"))).collect()
}

fn release() -> BTreeMap<String, String> {
    hashed(&[
        "weaver-0.2.0-rc.1-darwin-arm64.tar.gz",
        "weaver-0.2.0-rc.1-linux-amd64-musl.tar.gz",
        "weaver-0.2.0-rc.1-linux-amd64.tar.gz",
        "weaver-0.2.0-rc.1-windows-amd64.zip",
        "weaver-0.2.0-rc.1.cdx.json",
        "weaver-operator-0.2.0-rc.1.oci.tar",
        "weaver_0.2.0~rc.1_amd64.deb",
    ])
}

#[test]
fn archives_are_found_by_their_names() {
    let found = archives(VERSION, &release());
    let found: Vec<_> = found
        .iter()
        .map(|archive| (archive.os.as_str(), archive.architecture.as_str(), &archive.sha256[63..]))
        .collect();
    assert_eq!(found, [("darwin", "arm64", "0"), ("linux", "amd64", "2"), ("windows", "amd64", "3")]);
    assert_eq!(archives("0.2.0", &release()), [], "another version's, though its name begins alike");
}

#[test]
fn a_bill_has_the_crates_of_the_targets_that_its_program_is_built_for() {
    let targets = |package: &str| {
        let all = ["aarch64-unknown-linux-gnu", "x86_64-unknown-linux-musl", "x86_64-pc-windows-gnu"];
        all.into_iter().filter(|target| is_built_for(package, target)).count()
    };
    assert_eq!(PROGRAMS.map(|(package, _)| targets(package)), [3, 1, 1]);
}

#[test]
fn krew_finds_address_hash_and_program_of_each_system() {
    let text = krew::manifest(VERSION, URL, &archives(VERSION, &release()));
    let manifest: Value = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(manifest["metadata"]["name"], "weaver");
    assert_eq!(manifest["spec"]["version"], "v0.2.0-rc.1");
    let platforms = manifest["spec"]["platforms"].as_array().unwrap();
    assert_eq!(platforms.len(), 3);
    assert_eq!(platforms[1]["selector"]["matchLabels"], json!({"os": "linux", "arch": "amd64"}));
    assert_eq!(platforms[1]["uri"], format!("{URL}/weaver-0.2.0-rc.1-linux-amd64.tar.gz"));
    assert_eq!(platforms[1]["sha256"], format!("{:064x}", 2));
    assert_eq!(platforms[1]["files"][0], json!({"from": "weaver-0.2.0-rc.1-linux-amd64/weaver", "to": "."}));
    assert_eq!(platforms[2]["bin"], "weaver.exe");
}

#[test]
fn homebrew_finds_address_and_hash_of_its_systems() {
    let text = formula::formula(VERSION, URL, &archives(VERSION, &release())).unwrap();
    let ours = format!(
        "  on_linux do\n    on_intel do\n      url \"{URL}/weaver-0.2.0-rc.1-linux-amd64.tar.gz\"\n      sha256 \"{:064x}\"\n    end\n  end\n",
        2
    );
    assert!(text.contains(&ours) && text.contains("on_macos do\n    on_arm do"), "{text}");
    assert!(!text.contains("musl") && !text.contains("windows"), "{text}");
    assert_eq!(
        formula::formula(VERSION, URL, &archives(VERSION, &hashed(&["weaver-0.2.0-rc.1-windows-amd64.zip"]))),
        None
    );
}

#[test]
fn the_provenance_names_every_file_and_the_commit() {
    let built =
        BuildFacts { version: VERSION, url: Some(URL), commit: "c0ffee", builder: "urn:x", rustc: "rustc 1" };
    let statement: Value = serde_json::from_str(&provenance::statement(&built, &release()).unwrap()).unwrap();
    assert_eq!(statement["subject"].as_array().unwrap().len(), release().len());
    assert_eq!(
        statement["subject"][2],
        json!({"name": "weaver-0.2.0-rc.1-linux-amd64.tar.gz", "digest": {"sha256": format!("{:064x}", 2)}})
    );
    let definition = &statement["predicate"]["buildDefinition"];
    assert_eq!(definition["resolvedDependencies"][0]["digest"]["gitCommit"], "c0ffee");
    assert_eq!(definition["externalParameters"], json!({"version": VERSION, "address": URL}));
    assert_eq!(statement["predicate"]["runDetails"]["builder"]["id"], "urn:x");
}

#[test]
fn imager_is_led_to_the_address_and_only_to_what_is_there() {
    let list = |hash: &str| {
        json!({"os_list": [{"name": "x", "url": "file:///tmp/out/card.img.xz", "image_download_sha256": hash}]}).to_string()
    };
    let sums = BTreeMap::from([("card.img.xz".to_owned(), "aa".to_owned())]);
    let moved_list: Value = serde_json::from_str(&moved(&list("aa"), URL, &sums).unwrap()).unwrap();
    assert_eq!(moved_list["os_list"][0]["url"], format!("{URL}/card.img.xz"));
    assert_eq!(moved_list["os_list"][0]["name"], "x");
    for (list, sums, why) in [
        (list("bb"), sums.clone(), "another file"),
        (list("aa"), BTreeMap::new(), "not in the release"),
        ("{}".to_owned(), sums.clone(), "lists no image"),
        ("{".to_owned(), sums, "no JSON"),
    ] {
        let said = format!("{:#}", moved(&list, URL, &sums).unwrap_err());
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn an_address_that_would_break_a_manifest_is_refused() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("weaver-1.0.0-linux-amd64.tar.gz"), "x").unwrap();
    for url in [
        "example.com",
        "ftp://example.com",
        "https://e.com/\"; system(\"x",
        "https://e.com/a b",
        "https://e.com/a?b=c",
        "",
    ] {
        let said = address(url, home.path(), "1.0.0").unwrap_err().to_string();
        assert!(said.contains("begins with https://"), "{url}: {said}");
    }
    address("https://example.com/dir/", home.path(), "1.0.0").unwrap();
    let manifest = fs::read_to_string(home.path().join("weaver.yaml")).unwrap();
    assert!(
        manifest.contains("uri: \"https://example.com/dir/weaver-1.0.0-linux-amd64.tar.gz\"\n"),
        "{manifest}"
    );
}

#[test]
fn each_file_below_is_listed_and_nothing_but_files() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir_all(home.path().join("apt/pool")).unwrap();
    fs::write(home.path().join("apt/pool/a.deb"), "a program\n").unwrap();
    let listed = sums(home.path()).unwrap();
    let hash = "8c304c3a2ac9924f351532af4cc90c1b6198e9cc578d70a6bca945c7300116a8";
    assert_eq!(listed, BTreeMap::from([("apt/pool/a.deb".to_owned(), hash.to_owned())]));
    std::os::unix::fs::symlink("/etc/passwd", home.path().join("link")).unwrap();
    assert!(sums(home.path()).unwrap_err().to_string().contains("link is neither a file nor a directory"));
}
