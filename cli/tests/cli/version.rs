//! `weaver version --releases` as a user runs it, at small servers that have a release, and others.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::support::http::{Heads, answered, path, server};
use crate::support::tls_server::{Ca, closed_port};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
const OWN: &str = env!("CARGO_PKG_VERSION");
/// That of the signed release, and the key that has signed it.
const SIGNED: &str = "0.2.0-rc.1";
const KEY: &str = "5816789DAE322018";

struct Said {
    status: Option<i32>,
    out: String,
    err: String,
}

/// Without a cluster, and trusting what this file has.
fn weaver(arguments: &[&str], ca: Option<&Path>) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weaver"));
    command.args(["version", "--client"]).args(arguments);
    command.env_remove("WEAVER_RELEASES").env_remove("WEAVER_RELEASES_KEY");
    if let Some(ca) = ca {
        command.env("SSL_CERT_FILE", ca);
    }
    said(&mut command)
}

fn said(command: &mut Command) -> Said {
    let done = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Said { status: done.status.code(), out: text(done.stdout), err: text(done.stderr) }
}

fn owner() -> String {
    format!("{FIXTURES}/owner.pub")
}

/// A file of the signed release.
fn fixture(name: &str) -> String {
    fs::read_to_string(format!("{FIXTURES}/release/{name}")).unwrap()
}

/// The signed release below /latest/, and nothing else.
fn signed(head: &str) -> String {
    let name = path(head).strip_prefix("/latest/").unwrap_or_default();
    match name {
        "SHA256SUMS" | "SHA256SUMS.minisig" | "provenance.intoto.json" => {
            answered("200 OK", "", &fixture(name))
        }
        _ => answered("404 Not Found", "", "no"),
    }
}

/// An unsigned release of this version: its list and its provenance.
fn of_version(version: &str) -> [(String, String); 2] {
    let statement = fixture("provenance.intoto.json").replace(SIGNED, version);
    let list = format!("{:x}  provenance.intoto.json\n", Sha256::digest(&statement));
    [("SHA256SUMS".to_owned(), list), ("provenance.intoto.json".to_owned(), statement)]
}

/// A server that has these files.
fn serving(files: Vec<(String, String)>) -> (SocketAddr, Heads) {
    server(None, move |head| {
        let found = files.iter().find(|(name, _)| path(head).strip_prefix('/') == Some(name));
        found.map_or_else(|| answered("404 Not Found", "", "no"), |(_, text)| answered("200 OK", "", text))
    })
}

#[test]
fn a_signed_release_is_verified_and_compared() {
    let (at, heads) = server(None, signed);
    let address = format!("http://{at}/latest/");
    let done = weaver(&["--releases", &address, "--key", &owner()], None);
    assert_eq!((done.status, done.err.as_str()), (Some(0), ""), "{}", done.out);
    let row = format!(" this weaver (signed by the key {KEY}), at http://{at}/latest\n");
    assert!(done.out.contains(&format!("release  {SIGNED}, ")) && done.out.contains(&row), "{}", done.out);
    let asked = heads.lock().unwrap().clone();
    assert_eq!(asked.len(), 3, "{asked:?}");
    assert!(asked[0].to_ascii_lowercase().contains(&format!("user-agent: weaver/{OWN}\r\n")), "{asked:?}");

    // The same by the environment, as JSON.
    let mut command = Command::new(env!("CARGO_BIN_EXE_weaver"));
    command.args(["version", "--client", "-o", "json"]);
    command.env("WEAVER_RELEASES", &address).env("WEAVER_RELEASES_KEY", owner());
    let done = said(&mut command);
    let json: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(done.status, Some(0), "{}", done.err);
    let release = &json["release"];
    assert_eq!((&release["version"], &release["signedBy"]), (&SIGNED.into(), &KEY.into()));
}

#[test]
fn a_release_in_a_directory_is_read_without_a_server() {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in of_version(OWN) {
        fs::write(directory.path().join(name), text).unwrap();
    }
    let done = weaver(&["--releases", &format!("file:{}", directory.path().display())], None);
    assert_eq!((done.status, done.err.as_str()), (Some(0), ""), "{}", done.out);
    let row = format!("{OWN}, the same as this weaver (signature not checked, pass --key), at ");
    assert!(done.out.contains(&row) && !done.out.contains("update"), "{}", done.out);
    fs::remove_file(directory.path().join("SHA256SUMS")).unwrap();
    let done = weaver(&["--releases", &format!("file:{}", directory.path().display())], None);
    assert!(done.status == Some(1) && done.out.contains("unknown: there is no release at "), "{}", done.out);
}

#[test]
fn a_newer_release_leads_to_what_to_type() {
    let (at, _) = serving(of_version("99.0.0").to_vec());
    let address = format!("http://{at}");
    let done = weaver(&["--releases", &address], None);
    assert_eq!(done.status, Some(0), "{}", done.err);
    assert_eq!(
        done.out,
        format!(
            "weaver   {OWN}\n\
             release  99.0.0, newer than this weaver (signature not checked, pass --key), at {address}\n\n\
             older than 99.0.0: weaver\n\
             to update: on a node `sudo weaver node update`; elsewhere download it from {address} and check it with \
             `weaver verify`\n"
        )
    );
    let done = weaver(&["--releases", &address, "-o", "json"], None);
    let json: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(
        json,
        json!({"weaver": OWN, "tooFarBehind": [], "release": {
            "address": address, "version": "99.0.0", "signedBy": null, "is": "newer", "olderParts": ["weaver"],
        }})
    );
}

#[test]
fn without_an_address_no_one_is_asked() {
    let done = weaver(&[], None);
    assert_eq!((done.status, done.out, done.err.as_str()), (Some(0), format!("weaver  {OWN}\n"), ""));
}

#[test]
fn a_redirect_is_followed_and_the_certificate_is_verified() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ca.pem");
    let ca = Ca::new();
    fs::write(&file, ca.pem()).unwrap();
    let (files, _) = server(Some(ca.leaf(&["localhost"])), signed);
    let moved = format!("https://localhost:{}", files.port());
    let (latest, _) = server(Some(ca.leaf(&["localhost"])), move |head| {
        answered("302 Found", &format!("Location: {moved}{}\r\n", path(head)), "")
    });
    let address = format!("https://localhost:{}/latest", latest.port());
    let done = weaver(&["--releases", &address, "--key", &owner()], Some(&file));
    assert!(done.status == Some(0) && done.out.contains("signed by the key"), "{}{}", done.out, done.err);

    let stranger = directory.path().join("stranger.pem");
    fs::write(&stranger, Ca::new().pem()).unwrap();
    let done = weaver(&["--releases", &address], Some(&stranger));
    assert!(
        done.status == Some(1) && done.out.contains("release  unknown: cannot fetch https://"),
        "{}",
        done.out
    );
}

#[test]
fn what_is_no_release_is_unknown_with_the_reason_and_ends_with_1() {
    let html = "<!DOCTYPE html>\n".to_owned();
    let [list, statement] = of_version("latest");
    let onto = |location: String| server(None, move |_| answered("302 Found", &location, "")).0;
    for (at, why) in [
        (closed_port(), "onnection refused"),
        (serving(Vec::new()).0, "has no SHA256SUMS: name the directory that has one"),
        (serving(vec![list, statement]).0, "names no version of Config Weaver"),
        (serving(of_version(OWN)[..1].to_vec()).0, "has no provenance.intoto.json next to it"),
        (server(None, |_| answered("503 Service Unavailable", "", "")).0, "the server answered 503"),
        (serving(vec![("SHA256SUMS".into(), "x".repeat((4 << 20) + 1))]).0, "has more than 4096 KiB"),
        (onto("Location: ftp://127.0.0.1/\r\n".into()), "redirects from http to ftp"),
        (onto(String::new()), "redirects without an address"),
    ] {
        let done = weaver(&["--releases", &format!("http://{at}")], None);
        assert!(done.status == Some(1) && done.out.contains(why), "{why}: {:?} {}", done.status, done.out);
        assert!(done.out.starts_with(&format!("weaver   {OWN}\nrelease  unknown: ")), "{}", done.out);
        assert_eq!(done.out.lines().count(), 2, "{}", done.out);
    }
    let at = serving(vec![("SHA256SUMS".into(), html)]).0;
    let done = weaver(&["--releases", &format!("http://{at}")], None);
    let words = "SHA256SUMS: line 1: it does not begin with a SHA-256";
    assert!(done.status == Some(10) && done.out.contains(words), "{}", done.out);
}

#[test]
fn what_the_key_has_not_signed_ends_with_10() {
    let (at, _) = server(None, signed);
    let address = format!("http://{at}/latest");
    let done = weaver(&["--releases", &address, "--key", &format!("{FIXTURES}/other.pub")], None);
    assert!(done.status == Some(10) && done.out.contains("unknown: http://"), "{}", done.out);
    assert!(
        done.out.contains("SHA256SUMS.minisig: it is by the key") && !done.out.contains("than this"),
        "{}",
        done.out
    );
    let (bare, _) = serving(of_version("99.0.0").to_vec());
    let done = weaver(&["--releases", &format!("http://{bare}"), "--key", &owner()], None);
    assert!(
        done.status == Some(1) && done.out.contains("is not signed: it has no SHA256SUMS.minisig"),
        "{}",
        done.out
    );
}

#[test]
fn a_wrong_address_is_wrong_usage_and_is_not_repeated() {
    for (address, why) in [
        ("https://me:hunter2@files.example.com/latest", "it has a user or a password in it"),
        ("http://nas.lan/latest", "use https, or pass --key"),
        ("latest", "write https://HOST/DIRECTORY or file:/DIRECTORY"),
        ("", "it is empty"),
    ] {
        let done = weaver(&["--releases", address], None);
        assert!(done.status == Some(2) && done.err.contains(why) && done.out.is_empty(), "{}", done.err);
        assert!(!done.err.contains("hunter2"), "{}", done.err);
    }
    let done = weaver(&["--key", &owner()], None);
    assert!(done.status == Some(2) && done.err.contains("--releases"), "{}", done.err);
}

#[test]
fn a_cluster_that_is_not_reached_hides_no_release() {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in of_version("99.0.0") {
        fs::write(directory.path().join(name), text).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_weaver"));
    command.args(["version", "--kubeconfig"]).arg(directory.path().join("none"));
    command.env("WEAVER_RELEASES", format!("file:{}", directory.path().display()));
    let done = said(command.env_remove("WEAVER_RELEASES_KEY"));
    assert_eq!(done.status, Some(0), "{}", done.err);
    assert!(done.out.contains("99.0.0, newer than this weaver"), "{}", done.out);
    assert!(done.out.contains("\ncluster  not reached: cannot read the kubeconfig "), "{}", done.out);
}
