//! Against a local server and files made here; no test needs a k3s.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::process::Command;
use std::thread;

use super::*;
use crate::elf::tests::{static_program, x86_program};

const QUICK: Patience = Patience { connect: 1, stall: 1 };

/// Answers every request with `body`, announced with `length`.
fn serve(length: usize, body: Vec<u8>) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            lines.map_while(Result::ok).find(String::is_empty);
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
            stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body)).unwrap();
        }
    });
    address
}

/// A checkout whose lock pins `content` at `address`; its `cache/` is the cache.
struct Checkout {
    dir: tempfile::TempDir,
    asset: Asset,
}

impl Checkout {
    fn new(address: &str, content: &[u8]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::create_dir_all(path("image")).unwrap();
        fs::create_dir_all(path("tests/devstack")).unwrap();
        fs::write(path("content"), content).unwrap();
        let hash = download::sha256(&path("content")).unwrap();
        let lock = format!("version: v1.2.3+k3s1\naddress: {address}\nfiles:\n  k3s-arm64: {hash}\n");
        fs::write(path("image/k3s.lock"), lock).unwrap();
        // curl is there, as in the checkout that this test is a part of.
        fs::write(path("tests/devstack/prerequisites.sh"), "#!/bin/sh\ntest \"$*\" = curl\n").unwrap();
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(path("tests/devstack/prerequisites.sh"), mode).unwrap();
        let asset = pinned_asset(&path("image/k3s.lock")).unwrap();
        Self { dir, asset }
    }

    fn pinned(&self) -> Result<K3s> {
        let asset = pinned_asset(&self.dir.path().join("image/k3s.lock"))?;
        pinned(self.dir.path(), &self.dir.path().join("cache"), asset, QUICK)
    }

    fn given(&self, content: &[u8]) -> Result<K3s> {
        let file = self.dir.path().join("given");
        fs::write(&file, content)?;
        given(&file, &self.asset, &self.dir.path().join("work"))
    }

    /// Every k3s in the cache.
    fn cached(&self) -> Vec<PathBuf> {
        let mut find = Command::new("find");
        let found = find.arg(self.dir.path().join("cache")).args(["-type", "f", "-size", "+0"]);
        let text = String::from_utf8(found.output().unwrap().stdout).unwrap();
        text.lines().map(PathBuf::from).filter(|path| !path.ends_with("unreachable")).collect()
    }
}

fn said<T: std::fmt::Debug>(result: Result<T>) -> String {
    format!("{:#}", result.unwrap_err())
}

#[test]
fn the_setting_is_a_word_a_file_or_none() {
    for (value, choice_of_k3s) in [
        (None, K3sChoice::Pinned),
        (Some(""), K3sChoice::Pinned),
        (Some("testbed"), K3sChoice::Testbed),
        (Some("./testbed"), K3sChoice::File("./testbed".into())),
        (Some("k3s-arm64"), K3sChoice::File("k3s-arm64".into())),
    ] {
        assert_eq!(K3sChoice::of(value.map(OsStr::new)), choice_of_k3s);
    }
}

#[test]
fn the_pinned_one_is_fetched_once_and_makes_a_release() {
    let content = static_program();
    let checkout = Checkout::new(&serve(content.len(), content.clone()), &content);
    let k3s = checkout.pinned().unwrap();
    assert_eq!((k3s.version.as_str(), k3s.variant), ("v1.2.3+k3s1", Variant::Release));
    assert_eq!(k3s.variant.id(), None);
    assert_eq!(k3s.sha256, checkout.asset.sha256);
    assert_eq!(fs::read(&k3s.path).unwrap(), content);
    assert_eq!(checkout.cached(), [k3s.path]);
}

#[test]
fn one_flipped_bit_stops_the_build_and_is_not_unreachable() {
    let mut content = static_program();
    let right = content.clone();
    *content.last_mut().unwrap() ^= 1;
    let checkout = Checkout::new(&serve(content.len(), content), &right);
    let error = checkout.pinned().unwrap_err();
    assert!(!error.is::<NotFetched>(), "{error:#}");
    let text = format!("{error:#}");
    assert!(text.contains("wrong content") && text.contains(&checkout.asset.sha256), "{text}");
    assert!(text.contains("make image K3S=FILE"), "{text}");
    assert_eq!(checkout.cached(), Vec::<PathBuf>::new());
}

#[test]
fn a_download_cut_short_or_a_silent_server_or_none_is_unreachable_with_all_that_is_needed() {
    let content = static_program();
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    for (address, curl) in [
        (serve(content.len(), content[..content.len() / 2].to_vec()), "curl: (18)"),
        (format!("http://{}", silent.local_addr().unwrap()), "curl: (28)"),
        (format!("http://{free}"), "curl: (7)"),
    ] {
        let checkout = Checkout::new(&address, &content);
        let error = checkout.pinned().unwrap_err();
        assert!(error.is::<NotFetched>(), "{error:#}");
        let text = error.to_string();
        for words in [
            curl,
            "v1.2.3+k3s1",
            &format!("{address}/k3s-arm64"),
            &checkout.asset.sha256,
            "make image K3S=FILE",
            "make image K3S=testbed",
        ] {
            assert!(text.contains(words), "{words} is missing in:\n{text}");
        }
        assert_eq!(checkout.cached(), Vec::<PathBuf>::new());
        // A user who tries again does not have to wait.
        assert!(checkout.pinned().unwrap_err().to_string().contains(curl));
    }
}

#[test]
fn the_refusal_comes_within_half_a_minute() {
    let connections = 2;
    assert!(connections * (PATIENCE.connect + PATIENCE.stall) < 30);
    assert_eq!(NotFetched::EXIT_CODE, 3);
}

#[test]
fn a_lock_without_the_card_s_file_says_what_to_add() {
    let checkout = Checkout::new("http://127.0.0.1:1", b"x");
    let lock = checkout.dir.path().join("image/k3s.lock");
    fs::write(&lock, "version: v1\naddress: a\nfiles: {}\n").unwrap();
    let text = said(choose(checkout.dir.path(), &K3sChoice::Pinned, checkout.dir.path()));
    assert!(text.contains("image/k3s.lock names no k3s-arm64"), "{text}");
}

#[test]
fn a_person_s_copy_of_the_pinned_k3s_makes_a_release() {
    let content = static_program();
    let checkout = Checkout::new("http://127.0.0.1:1", &content);
    let k3s = checkout.given(&content).unwrap();
    assert_eq!((k3s.version.as_str(), k3s.variant), ("v1.2.3+k3s1", Variant::Release));
    assert_eq!(k3s.path, checkout.dir.path().join("work/k3s"));
    assert_eq!(fs::metadata(&k3s.path).unwrap().permissions().mode() & 0o777, 0o755);
}

#[test]
fn a_file_for_another_machine_is_refused_with_both_machines() {
    let content = x86_program();
    // Even where it matches the lock's hash.
    for pinned in [&content[..], b"else"] {
        let text = said(Checkout::new("http://127.0.0.1:1", pinned).given(&content));
        assert!(text.contains("K3S=") && text.contains("x86-64") && text.contains("AArch64"), "{text}");
    }
}

#[test]
fn what_is_no_program_is_refused_as_what_it_is() {
    let checkout = Checkout::new("http://127.0.0.1:1", b"else");
    let whole = static_program();
    for (content, words) in [
        (&b"#!/bin/sh\necho k3s version v1.36.4+k3s1\n"[..], "a script"),
        (b"", "empty"),
        (b"\x28\xb5\x2f\xfd images", "a compressed archive"),
        (b"<html>not found</html>", "a web page"),
        (&whole[..whole.len() - 9], "damaged"),
    ] {
        let text = said(checkout.given(content));
        assert!(text.contains("K3S=") && text.contains("cannot go onto the card"), "{text}");
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn no_file_or_a_directory_is_named() {
    let checkout = Checkout::new("http://127.0.0.1:1", b"else");
    for (path, words) in [("/nowhere/k3s", "no such file can be read"), ("/", "is not a file")] {
        let text = said(choose(checkout.dir.path(), &K3sChoice::File(path.into()), checkout.dir.path()));
        assert!(text.contains(&format!("K3S={path}")) && text.contains(words), "{text}");
    }
}

#[test]
fn only_a_testbed_makes_a_test_image() {
    assert_eq!(variant_of("v1.36.3+testbed1"), Variant::Test);
    assert_eq!(variant_of("v1.36.4+k3s1"), Variant::CustomK3s);
    assert_eq!(Variant::Test.id(), Some("test"));
    assert_eq!(Variant::CustomK3s.id(), Some("custom-k3s"));
}

#[test]
fn a_file_that_changes_after_it_was_chosen_is_noticed() {
    let content = static_program();
    let checkout = Checkout::new("http://127.0.0.1:1", &content);
    let k3s = checkout.given(&content).unwrap();
    let to = checkout.dir.path().join("copy");
    k3s.copy_to(&to).unwrap();
    assert_eq!(fs::read(&to).unwrap(), content);
    fs::write(&k3s.path, "else").unwrap();
    assert!(said(k3s.copy_to(&to)).contains("has changed"));
}
