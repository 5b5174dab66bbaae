//! `weaver find` as a user runs it, in a network of the test's own: this machine's loopback, at an mDNS port that
//! nothing else uses.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use mdns_sd::{Error, ServiceDaemon, ServiceInfo};
use serde_json::Value;

/// Cards on a busy machine are slow.
const PATIENCE: Duration = Duration::from_mins(2);
const KIND: &str = "_weaver._tcp.local.";

pub struct MdnsNetwork {
    daemon: ServiceDaemon,
    pub port: u16,
}

impl MdnsNetwork {
    pub fn new() -> Self {
        let port = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap().local_addr().unwrap().port();
        Self { daemon: ServiceDaemon::new_with_port(port).unwrap(), port }
    }

    pub fn announce(&self, instance: &str, port: u16, records: &[(&str, &str)]) {
        self.announce_at("127.0.0.1", instance, port, records);
    }

    fn announce_at(&self, address: &str, instance: &str, port: u16, records: &[(&str, &str)]) {
        let records: HashMap<_, _> =
            records.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        // Each card is a host of its own.
        let number = instance.bytes().fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        let host = format!("h{number}.local.");
        let mut card = ServiceInfo::new(KIND, instance, &host, address, port, records).unwrap();
        card.set_requires_probe(false);
        let begun = Instant::now();
        // Its queue may be full.
        while let Err(error) = self.daemon.register(card.clone()) {
            assert!(matches!(error, Error::Again) && begun.elapsed() < PATIENCE, "{error}");
            thread::yield_now();
        }
    }

    fn weaver(&self, arguments: &[&str]) -> (i32, String, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_weaver"))
            .args(arguments)
            .env("WEAVER_MDNS_PORT", self.port.to_string())
            .env("KUBECONFIG", "/nowhere/config")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    /// The first answer in which all of `count` cards are.
    fn found(&self, count: usize) -> (i32, Value, String) {
        let begun = Instant::now();
        loop {
            let (code, json, said) = self.weaver(&["find", "-o", "json", "--timeout", "2"]);
            let json: Value = serde_json::from_str(&json).unwrap();
            if json["cards"].as_array().unwrap().len() >= count {
                return (code, json, said);
            }
            assert!(begun.elapsed() < PATIENCE, "{json:#} {said}");
        }
    }
}

impl Drop for MdnsNetwork {
    fn drop(&mut self) {
        drop(self.daemon.shutdown());
    }
}

/// A page that gives this answer to every request.
fn page(answer: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 1024];
            let count = stream.read(&mut head).unwrap_or(0);
            let asked = head[..count].starts_with(b"GET /state HTTP/1.1\r\n");
            let is_bare = !String::from_utf8_lossy(&head[..count]).to_lowercase().contains("authorization");
            // The client may be gone.
            let _ =
                stream.write_all(if asked && is_bare { answer } else { "HTTP/1.1 400 x\r\n\r\n" }.as_bytes());
        }
    });
    port
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

#[test]
fn a_card_is_found_with_the_state_that_its_page_says() {
    let network = MdnsNetwork::new();
    let (ca, port) = ("0a".repeat(32), page(OK));
    let records = [
        ("txtvers", "1"),
        ("name", "raspi"),
        ("version", "0.1.0"),
        ("role", "server"),
        ("port", "page"),
        ("ca", ca.as_str()),
        ("served", "raspi.lan"),
    ];
    network.announce("raspi", port, &records);
    let (code, found, said) = network.found(1);
    assert_eq!((code, said.as_str()), (0, ""), "{found:#}");
    let want = serde_json::json!({
        "name": "raspi", "addresses": ["127.0.0.1"], "port": port, "page": true, "state": "ok",
        "version": "0.1.0", "role": "server", "ca": ca, "served": "raspi.lan",
    });
    assert_eq!(found["cards"], serde_json::json!([want]));
    let (code, table, _) = network.weaver(&["find", "--timeout", "2"]);
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!((code, &lines[0][..]), (0, &["NAME", "ADDRESS", "STATE", "VERSION", "CA"][..]));
    assert_eq!(lines[1], ["raspi", "127.0.0.1", "ok", "0.1.0", "0a0a0a0a0a0a0a0a"]);
}

#[test]
fn two_cards_of_one_name_are_both_listed_and_the_clash_is_named() {
    let network = MdnsNetwork::new();
    let records = [("txtvers", "1"), ("name", "raspi"), ("port", "page")];
    network.announce("raspi", page(OK), &records);
    network.announce("raspi #2", page("HTTP/1.1 503 x\r\n\r\n"), &records);
    let (code, found, said) = network.found(2);
    assert_eq!(code, 10, "{said}");
    let mut states: Vec<_> =
        found["cards"].as_array().unwrap().iter().map(|card| card["state"].as_str().unwrap()).collect();
    states.sort_unstable();
    assert_eq!(states, ["ok", "unknown"], "an agent that says nothing is not well");
    assert!(found["cards"].as_array().unwrap().iter().all(|card| card["name"] == "raspi"), "{found:#}");
    assert!(
        said.starts_with("note: 2 cards have the name raspi (") && said.contains("rename-a-node"),
        "{said}"
    );
}

#[test]
fn where_no_card_answers_it_is_said_what_to_check() {
    let network = MdnsNetwork::new();
    for arguments in [&["find", "--timeout", "1"][..], &["kubeconfig", "fetch", "--timeout", "1"]] {
        let (code, list, said) = network.weaver(arguments);
        assert_eq!((code, list.as_str()), (1, ""), "{said}");
        for part in
            ["error: no card answered within 1 s", "multicast", "UDP port 5353", "WSL", "announce = false"]
        {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
    let (code, list, _) = network.weaver(&["find", "--timeout", "1", "-o", "json"]);
    assert_eq!(
        (code, serde_json::from_str(&list).unwrap()),
        (1, serde_json::json!({"cards": [], "clashes": []}))
    );
}

#[test]
fn hostile_announcements_are_bounded_and_not_obeyed() {
    let network = MdnsNetwork::new();
    let evil = "\u{1b}]0;owned\u{7}\u{202e}x";
    let page = page("HTTP/1.1 200 OK\r\ncontent-length: 9999999\r\n\r\n\u{1b}[2Jok");
    let records = [
        ("txtvers", "1"),
        ("name", "-oProxyCommand=reboot"),
        ("version", evil),
        ("port", "page"),
        ("ca", evil),
        ("served", "$(reboot)"),
    ];
    network.announce(evil, page, &records);
    // An address that this machine does not have is answered for on no interface of it.
    network.announce_at("198.51.100.1", "elsewhere", page, &records);
    let (_, found, _) = network.found(1);
    let card = &found["cards"][0];
    assert_eq!((&card["version"], &card["ca"], &card["served"]), (&Value::Null, &Value::Null, &Value::Null));
    assert_eq!(card["state"], "unknown", "{card:#}");
    for arguments in [&["find", "--timeout", "2"][..], &["kubeconfig", "fetch", "--timeout", "2"]] {
        let (_, list, said) = network.weaver(arguments);
        let all = list + &said;
        assert!(all.contains("\\u{1b}]0;owned"), "{all}");
        assert!(!all.contains(|c: char| (c.is_control() && c != '\n') || c == '\u{202e}'), "{all:?}");
        assert!(!all.contains("ProxyCommand") && !all.contains("reboot"), "{all}");
    }

    for number in 0..120 {
        network.announce(&format!("crowd-{number}"), 1, &[("txtvers", "1")]);
    }
    let (_, found, said) = network.found(100);
    assert_eq!(found["cards"].as_array().unwrap().len(), 100);
    assert!(said.contains("more than 100 announcements"), "{said}");
}

#[test]
fn without_a_terminal_fetch_lists_what_to_type_and_changes_nothing() {
    let network = MdnsNetwork::new();
    network.announce("raspi", 1, &[("txtvers", "1"), ("name", "raspi"), ("served", "raspi.lan")]);
    network.announce("worker", 1, &[("txtvers", "1"), ("name", "worker"), ("role", "agent")]);
    network.found(2);
    let begun = Instant::now();
    loop {
        let (code, list, said) = network.weaver(&["kubeconfig", "fetch", "--user", "pi", "--timeout", "2"]);
        if code == 2 {
            assert!(list.contains("raspi  127.0.0.1"), "{list}");
            assert!(list.ends_with("\n\nweaver kubeconfig fetch pi@127.0.0.1 --name raspi.lan\n"), "{list}");
            assert!(!list.contains("worker"), "it has none to give: {list}");
            assert!(said.contains("no terminal to choose on, and nothing was changed"), "{said}");
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{said}");
    }
    for bad in
        [&["pi@raspi.lan", "--user", "pi"][..], &["--user", "-x"], &["--user", "a@b"], &["--timeout", "0"]]
    {
        let (code, _, said) = network.weaver(&[&["kubeconfig", "fetch"][..], bad].concat());
        assert_eq!(code, 2, "{bad:?}: {said}");
    }
}
