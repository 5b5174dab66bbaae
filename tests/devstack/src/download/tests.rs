//! Against a local server: the right file, one flipped bit, no server.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use proptest::prelude::*;

use super::*;

const CONTENT: &[u8] = b"#!/bin/sh\necho k3s\n";

/// Serves `body` to every request; counts the requests.
fn serve(status: &'static str, body: Vec<u8>) -> (String, Arc<AtomicUsize>) {
    serve_announced(status, body.len(), body)
}

/// The same with another `Content-Length` than the body's own.
fn serve_announced(status: &'static str, length: usize, body: Vec<u8>) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            for line in lines.map_while(Result::ok) {
                if line.is_empty() {
                    break;
                }
            }
            counter.fetch_add(1, Ordering::SeqCst);
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
            stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body)).unwrap();
        }
    });
    (address, count)
}

fn asset(address: &str) -> Asset {
    let hash = format!("{:x}", Sha256::digest(CONTENT));
    let text = format!("version: v1\naddress: {address}\nfiles:\n  k3s: {hash}\n");
    K3sLock::parse(&text).unwrap().program("x86_64").unwrap()
}

fn names(dir: &Path) -> Vec<String> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn the_right_file_is_stored_executable_and_fetched_once() {
    let (address, count) = serve("200 OK", CONTENT.to_vec());
    let root = tempfile::tempdir().unwrap();
    let asset = asset(&address);
    let cache = Cache::new(root.path(), &asset);
    assert_eq!(cache.found().unwrap(), None);
    let Fetched::Stored(path) = cache.fetch(&asset).unwrap() else { panic!("not stored") };
    assert_eq!(cache.found().unwrap(), Some(path.clone()));
    assert_eq!(fs::read(&path).unwrap(), CONTENT);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o755);
    assert_eq!(count.load(Ordering::SeqCst), 1);
    assert_eq!(names(&cache.dir), ["k3s"]);
}

#[test]
fn what_is_cached_is_checked_again_and_mended() {
    let (address, count) = serve("200 OK", CONTENT.to_vec());
    let root = tempfile::tempdir().unwrap();
    let asset = asset(&address);
    let cache = Cache::new(root.path(), &asset);
    for foreign in [&b"#!/bin/sh\necho else\n"[..], b"", &CONTENT[..CONTENT.len() - 1]] {
        fs::create_dir_all(&cache.dir).unwrap();
        fs::write(cache.program(), foreign).unwrap();
        assert_eq!(cache.found().unwrap(), None);
        assert!(names(&cache.dir).is_empty(), "it is removed");
        cache.fetch(&asset).unwrap();
        assert_eq!(fs::read(cache.found().unwrap().unwrap()).unwrap(), CONTENT);
    }
    assert_eq!(count.load(Ordering::SeqCst), 3);
}

#[test]
fn another_hash_is_another_place() {
    let one = asset("http://a");
    let other = Asset { sha256: "0".repeat(64), ..asset("http://a") };
    let root = Path::new("cache");
    assert_ne!(Cache::new(root, &one).program(), Cache::new(root, &other).program());
}

#[test]
fn one_flipped_bit_is_an_error_and_nothing_is_kept() {
    let mut content = CONTENT.to_vec();
    content[3] ^= 1;
    let (address, _) = serve("200 OK", content);
    let root = tempfile::tempdir().unwrap();
    let asset = asset(&address);
    let cache = Cache::new(root.path(), &asset);
    let text = cache.fetch(&asset).unwrap_err().to_string();
    assert!(text.contains("was not kept") && text.contains(&asset.sha256), "{text}");
    assert!(text.contains("K3S_BIN=/path/to/k3s"), "{text}");
    let text = Cache::new(root.path(), &asset).instead("K3S=FILE").fetch(&asset).unwrap_err().to_string();
    assert!(text.contains("To go on without: K3S=FILE"), "{text}");
    assert_eq!(cache.found().unwrap(), None);
    assert_eq!(names(&cache.dir), Vec::<String>::new());
    assert_eq!(cache.failed(), None, "tampering is reported each time, never remembered");
}

#[test]
fn no_one_there_is_remembered_for_an_hour() {
    // Bound and dropped: nothing listens there now.
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let root = tempfile::tempdir().unwrap();
    let asset = asset(&format!("http://127.0.0.1:{port}"));
    let cache = Cache::new(root.path(), &asset);
    assert_eq!(cache.failed(), None);
    let Fetched::Unreachable(reason) = cache.fetch(&asset).unwrap() else { panic!("stored") };
    assert!(reason.starts_with("curl: (7)"), "{reason}");
    assert!(cache.failed().unwrap() < RETRY_AFTER);
    assert_eq!(cache.found().unwrap(), None);

    let earlier = SystemTime::now() - RETRY_AFTER;
    File::options().write(true).open(cache.failure()).unwrap().set_modified(earlier).unwrap();
    assert_eq!(cache.failed(), None, "after an hour it is tried again");
}

#[test]
fn a_server_that_says_nothing_is_given_up() {
    // The kernel takes the connection, and it is never read from or answered.
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let root = tempfile::tempdir().unwrap();
    let asset = asset(&format!("http://{}", silent.local_addr().unwrap()));
    let cache = Cache::new(root.path(), &asset).patience(Patience { connect: 1, stall: 1 });
    let Fetched::Unreachable(reason) = cache.fetch(&asset).unwrap() else { panic!("stored") };
    assert!(reason.starts_with("curl: (28)"), "{reason}");
    assert_eq!(cache.found().unwrap(), None);
}

#[test]
fn a_file_that_ends_early_is_not_kept() {
    let (address, _) = serve_announced("200 OK", CONTENT.len() + 1, CONTENT.to_vec());
    let root = tempfile::tempdir().unwrap();
    let asset = asset(&address);
    let cache = Cache::new(root.path(), &asset);
    let Fetched::Unreachable(reason) = cache.fetch(&asset).unwrap() else { panic!("stored") };
    assert!(reason.starts_with("curl: (18)"), "{reason}");
    assert_eq!(names(&cache.dir), ["unreachable"]);
}

#[test]
fn an_error_page_is_not_a_file() {
    let (address, _) = serve("404 Not Found", b"no".to_vec());
    let root = tempfile::tempdir().unwrap();
    let asset = asset(&address);
    let Fetched::Unreachable(reason) = Cache::new(root.path(), &asset).fetch(&asset).unwrap() else {
        panic!("stored")
    };
    assert!(reason.contains("404"), "{reason}");
}

#[test]
fn the_committed_lock_has_both_architectures() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../image/k3s.lock");
    let lock = K3sLock::read(&path).unwrap();
    let (amd64, arm64) = (lock.program("x86_64").unwrap(), lock.program("aarch64").unwrap());
    assert!(amd64.url.ends_with("%2Bk3s1/k3s") && arm64.url.ends_with("/k3s-arm64"));
    assert_ne!(amd64.sha256, arm64.sha256);
    assert_eq!(lock.program("riscv64"), None);
}

#[test]
fn a_broken_lock_is_named_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("k3s.lock");
    for (text, wanted) in [
        ("version: v1\naddress: [\n", "line"),
        ("version: v1\naddress: a\nfiles: {}\nmore: 1\n", "more"),
        ("version: v1\naddress: a\nfiles: {k3s: ABC}\n", "hash of k3s"),
        ("version: ../v1\naddress: a\nfiles: {}\n", "plain name"),
    ] {
        fs::write(&path, text).unwrap();
        let error = format!("{:#}", K3sLock::read(&path).unwrap_err());
        assert!(error.contains("k3s.lock") && error.contains(wanted), "{error}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_without_a_panic(text in "(version|address|files|:|[ \n\\[\\]{}]|[a-f0-9]{1,3}){0,40}") {
        let _ = K3sLock::parse(&text);
    }
}
