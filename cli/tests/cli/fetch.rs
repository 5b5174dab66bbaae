//! `weaver kubeconfig fetch` as a user runs it: an `ssh` of the test's own runs the command here, as a Pi would.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::pty::openpty;
use sha2::{Digest as _, Sha256};

use crate::find::MdnsNetwork;
use crate::support::tls_server::{Ca, TlsServer, closed_port};
use crate::support::{CERTIFICATE, KEY, k3s_kubeconfig};
use tempfile::TempDir;

/// Another client certificate than [`CERTIFICATE`].
const RENEWED: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1BRUIKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQoK";

/// A Pi with a kubeconfig of k3s, and a laptop with an `ssh`.
struct Scene {
    dir: TempDir,
}

impl Scene {
    fn new(ca: &Ca, server: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let scene = Self { dir };
        fs::write(scene.path("k3s.yaml"), k3s_kubeconfig(ca, server)).unwrap();
        let k3s = scene.path("k3s.yaml").display().to_string();
        scene.program("weaver", &format!("exec {} \"$@\" --kubeconfig {k3s}", env!("CARGO_BIN_EXE_weaver")));
        scene.program("sudo", "test \"$1\" = -n || exit 9\nshift\nexec \"$@\"");
        scene.program("ssh", "echo \"$1 $2\" >&2\nexec sh -c \"$3\"");
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn program(&self, name: &str, script: &str) {
        let path = self.path(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Exit status and messages, which never contain the key.
    fn fetch(&self, arguments: &[&str]) -> (i32, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_weaver"))
            .args(["kubeconfig", "fetch"])
            .args(arguments)
            .env("PATH", format!("{}:/usr/bin:/bin", self.dir.path().display()))
            .env("KUBECONFIG", self.path("config"))
            .output()
            .unwrap();
        assert!(output.stdout.is_empty());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!said.contains(KEY), "{said}");
        (output.status.code().unwrap(), said)
    }

    fn config(&self) -> Option<String> {
        fs::read_to_string(self.path("config")).ok()
    }
}

/// Chooses `answer` on a terminal: exit status, and what was seen there.
fn chosen(scene: &Scene, network: &MdnsNetwork, answer: &str) -> (i32, String) {
    let ends = openpty(None, None).unwrap();
    let far = || Stdio::from(ends.slave.try_clone().unwrap());
    let mut weaver = Command::new(env!("CARGO_BIN_EXE_weaver"))
        .args(["kubeconfig", "fetch", "--timeout", "3"])
        .env("PATH", format!("{}:/usr/bin:/bin", scene.dir.path().display()))
        .env("KUBECONFIG", scene.path("config"))
        .env("WEAVER_MDNS_PORT", network.port.to_string())
        .stdin(far())
        .stdout(far())
        .stderr(far())
        .spawn()
        .unwrap();
    let mut near = fs::File::from(ends.master);
    // The input is in the terminal before the program asks.
    near.write_all(answer.as_bytes()).unwrap();
    let code = weaver.wait().unwrap().code().unwrap();
    drop(ends.slave);
    let mut seen = Vec::new();
    // The end of a terminal is an error.
    let _ = near.read_to_end(&mut seen);
    (code, String::from_utf8(seen).unwrap())
}

/// On a busy machine the first answer may be too late.
fn until_chosen(scene: &Scene, network: &MdnsNetwork, answer: &str) -> (i32, String) {
    let begun = Instant::now();
    loop {
        let (code, seen) = chosen(scene, network, answer);
        if !seen.contains("no card answered") {
            return (code, seen);
        }
        assert!(begun.elapsed() < Duration::from_mins(2), "{seen}");
    }
}

#[test]
fn a_card_that_is_found_is_chosen_on_the_terminal() {
    let ca = Ca::new();
    let server = TlsServer::start(ca.leaf(&["localhost"]));
    let scene = Scene::new(&ca, &format!("https://{}", server.address));
    let network = MdnsNetwork::new();
    let announced = sha256(&ca.pem());
    network.announce(
        "raspi",
        1,
        &[("txtvers", "1"), ("name", "raspi"), ("served", "localhost"), ("ca", &announced)],
    );
    for wrong in ["2\n", "\n", "raspi\n"] {
        let (code, seen) = until_chosen(&scene, &network, wrong);
        assert_eq!((code, scene.config()), (1, None), "{seen}");
        assert!(seen.contains("nothing was changed: that is not one of the numbers"), "{seen}");
    }
    let (code, seen) = until_chosen(&scene, &network, "1\n");
    assert_eq!(code, 0, "{seen}");
    assert!(seen.contains("1  raspi  127.0.0.1") && seen.contains("-- weaver-admin@127.0.0.1"), "{seen}");
    assert!(!seen.contains(KEY) && scene.config().unwrap().contains(KEY), "{seen}");
}

#[test]
fn an_announced_ca_is_no_anchor_and_another_one_is_refused() {
    let (ca, other) = (Ca::new(), Ca::new());
    let server = TlsServer::start(ca.leaf(&["localhost"]));
    let network = MdnsNetwork::new();
    let records = |ca: &Ca| {
        [("txtvers", "1".to_owned()), ("served", "localhost".to_owned()), ("ca", sha256(&ca.pem()))]
    };
    let announce = |instance: &str, ca: &Ca| {
        let records = records(ca);
        network.announce(instance, 1, &records.each_ref().map(|(key, value)| (*key, value.as_str())));
    };
    // The hash of another card's CA.
    announce("card", &other);
    let scene = Scene::new(&ca, &format!("https://{}", server.address));
    let (code, seen) = until_chosen(&scene, &network, "1\n");
    assert_eq!((code, scene.config()), (10, None), "{seen}");
    assert!(seen.contains("another CA than the card that was announced"), "{seen}");
    // A hostile server announces its own hash and sends that CA too: the server of that name proves another.
    let scene = Scene::new(&other, &format!("https://{}", server.address));
    let (code, seen) = until_chosen(&scene, &network, "1\n");
    assert_eq!((code, scene.config()), (10, None), "{seen}");
}

fn sha256(text: &str) -> String {
    format!("{:x}", Sha256::digest(text))
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn what_the_pi_exports_is_merged_here() {
    let ca = Ca::new();
    let server = TlsServer::start(ca.leaf(&["localhost"]));
    let scene = Scene::new(&ca, &format!("https://{}", server.address));
    let (code, said) = scene.fetch(&["pi@localhost", "--context", "it's my pi"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("-- pi@localhost\n") && said.contains("wrote context it's my pi to "), "{said}");
    assert!(!said.contains("cannot be reached"), "{said}");
    let config = scene.config().unwrap();
    let url = format!("https://localhost:{}", server.address.port());
    assert!(config.contains(&url) && config.contains(KEY) && config.contains("name: it's my pi"), "{config}");
    assert!(!config.contains("current-context: it's"), "not asked for: {config}");
    assert_eq!(mode(&scene.path("config")), 0o600);
    // Proven there, and proven here.
    let asked = || [None, Some("localhost".to_owned())];
    assert_eq!(server.asked(), [asked(), asked()].concat());
}

#[test]
fn what_a_hostile_pi_adds_is_not_merged() {
    let ca = Ca::new();
    let server = TlsServer::start(ca.leaf(&["localhost"]));
    let scene = Scene::new(&ca, &format!("https://localhost:{}", server.address.port()));
    let honest = fs::read_to_string(scene.path("k3s.yaml")).unwrap();
    let mine = "kind: Config\ncurrent-context: work\nclusters:\n- {name: work, cluster: {server: 'https://work'}}\n\
        users:\n- {name: admin, user: {token: WORK-TOKEN}}\ncontexts:\n- {name: work, context: {cluster: work, user: admin}}\n";
    let add =
        |list: &str, entry: &str| honest.replace(&format!("{list}:\n"), &format!("{list}:\n- {entry}\n"));
    let sends = |text: &str| {
        fs::write(scene.path("answer"), text).unwrap();
        scene.program("ssh", &format!("cat {}", scene.path("answer").display()));
    };
    for poison in [
        add("clusters", "{name: work, cluster: {server: 'https://evil', insecure-skip-tls-verify: true}}"),
        add("users", "{name: admin, user: {exec: {command: /tmp/pwned.sh}}}"),
        add("contexts", "{name: work, context: {cluster: default, user: default}}"),
        honest.replace("name: default", "name: work").replace("cluster: default", "cluster: work"),
    ] {
        fs::write(scene.path("config"), mine).unwrap();
        sends(&poison);
        let (code, said) = scene.fetch(&["pi@localhost"]);
        let config = scene.config().unwrap();
        if code == 10 {
            assert_eq!(config, mine, "{said}");
        } else {
            assert!(code == 0 && config.contains("server: https://work\n"), "{said}");
            assert!(
                !config.contains("evil")
                    && !config.contains("pwned")
                    && config.matches("name: work").count() == 2
            );
        }
    }
    let (user, cluster) = ("client-certificate-data: ", "    server: ");
    for (poison, want) in [
        (honest.replace(user, "exec: {command: /tmp/pwned.sh}, client-certificate-data: "), "`exec`"),
        (honest.replace(user, "as: root, client-certificate-data: "), "`as`"),
        (honest.replace(cluster, "    proxy-url: http://evil\n    server: "), "`proxy-url`"),
        (honest.replace("https://localhost", "https://work"), "another server than localhost"),
        (honest.replace(cluster, "    tls-server-name: work\n    server: "), "verifies another name"),
        (honest.replace("kind: Config", "kind: Config\n\u{1b}[2J: 1"), "what pi@localhost sent"),
        (
            honest.replace("current-context: default", "current-context: \"\\e]0;owned\\a\""),
            "what pi@localhost sent",
        ),
        ("x".repeat(2 << 20), "more than 1024 KiB"),
        (format!("kind: Config\nclusters: {}1", "[".repeat(100_000)), "what pi@localhost sent"),
    ] {
        assert_ne!(poison, honest, "{want}");
        fs::write(scene.path("config"), mine).unwrap();
        sends(&poison);
        let (code, said) = scene.fetch(&["pi@localhost", "--force"]);
        assert_eq!((code, said.contains(want)), (10, true), "{want}: {said}");
        assert!(!said.contains(|c: char| c.is_control() && c != '\n'), "{said:?}");
        assert_eq!(scene.config().as_deref(), Some(mine));
    }
    scene.program("ssh", "printf '\\033]0;owned\\007\\033[2Jrefused: type this\\r\\n' >&2; exit 1");
    let (_, said) = scene.fetch(&["pi@localhost"]);
    assert!(said.starts_with("pi@localhost: \\u{1b}]0;owned\\u{7}\\u{1b}[2Jrefused"), "{said:?}");
}

/// A Pi whose server is not reachable from here: only the answer shows its CA.
fn unreached(ca: &Ca) -> Scene {
    let scene = Scene::new(ca, &format!("https://localhost:{}", closed_port().port()));
    scene.program("weaver", &format!("cat {}", scene.path("k3s.yaml").display()));
    scene
}

#[test]
fn a_pi_that_was_set_up_again_has_another_ca_and_is_merged_with_force_only() {
    let scene = unreached(&Ca::new());
    let fetch = |more: &[&str]| scene.fetch(&[&["pi@localhost", "--context", "pi"], more].concat());
    assert_eq!(fetch(&[]).0, 0);
    let before = scene.config().unwrap();
    let honest = fs::read_to_string(scene.path("k3s.yaml")).unwrap();
    let server = honest.lines().find_map(|line| line.trim().strip_prefix("server: ")).unwrap();
    fs::write(scene.path("k3s.yaml"), k3s_kubeconfig(&Ca::new(), server)).unwrap();
    for arguments in [&["pi@localhost", "--context", "pi"][..], &["pi@localhost", "--use"]] {
        let (code, said) = scene.fetch(arguments);
        assert_eq!(code, 10, "{said}");
        for want in [
            "cluster `pi` trusts another CA",
            "sudo sha256sum /var/lib/rancher",
            "with --force",
            "nothing was written",
        ] {
            assert!(said.contains(want), "{want}: {said}");
        }
        assert_eq!(scene.config().as_deref(), Some(&*before), "{arguments:?}");
    }
    let (code, said) = fetch(&["--force"]);
    assert_eq!((code, said.contains("; backup: ")), (0, true), "{said}");
    // From then on the new one is trusted.
    let (code, said) = fetch(&[]);
    assert_eq!(code, 0, "{said}");
}

#[test]
fn a_renewed_certificate_of_the_same_ca_is_merged_without_a_question() {
    let scene = unreached(&Ca::new());
    let honest = fs::read_to_string(scene.path("k3s.yaml")).unwrap();
    let user = format!("client-certificate-data: {CERTIFICATE}");
    for renewed in [honest.clone(), honest.replace(&user, &format!("client-certificate-data: {RENEWED}"))] {
        fs::write(scene.path("k3s.yaml"), &renewed).unwrap();
        let (code, said) = scene.fetch(&["pi@localhost", "--context", "pi"]);
        assert_eq!((code, said.contains("wrote context pi")), (0, true), "{said}");
    }
    assert!(scene.config().unwrap().contains(RENEWED));
}

#[test]
fn a_name_that_something_else_has_is_replaced_with_force_only() {
    let scene = unreached(&Ca::new());
    let mine = "kind: Config\nusers:\n- {name: pi, user: {token: mine}}\n";
    fs::write(scene.path("config"), mine).unwrap();
    let arguments = ["pi@localhost", "--context", "pi", "--force"];
    let (code, said) = scene.fetch(&arguments[..3]);
    assert_eq!((code, scene.config().as_deref()), (10, Some(mine)), "{said}");
    let (code, said) = scene.fetch(&arguments);
    assert_eq!(code, 0, "{said}");
    assert_ne!(scene.config().as_deref(), Some(mine));
}

#[test]
fn what_the_pi_refuses_is_refused_and_nothing_is_written() {
    let ca = Ca::new();
    let server = TlsServer::start(ca.leaf(&["raspik3d"]));
    let scene = Scene::new(&ca, &format!("https://{}", server.address));
    let (code, said) = scene.fetch(&["pi@raspi"]);
    assert_eq!(code, 10, "{said}");
    assert!(
        said.contains("raspi is not served") && said.contains("pi@raspi has refused to export raspi"),
        "{said}"
    );
    assert_eq!(scene.config(), None);
}

#[test]
fn someone_elses_server_under_that_name_is_refused() {
    let (ca, other) = (Ca::new(), Ca::new());
    let server = TlsServer::start(other.leaf(&["localhost"]));
    let scene = Scene::new(&ca, &format!("https://localhost:{}", server.address.port()));
    // As if the Pi, where the name leads elsewhere, had proven it.
    scene.program("weaver", &format!("cat {}", scene.path("k3s.yaml").display()));
    let (code, said) = scene.fetch(&["pi@localhost"]);
    assert_eq!(code, 10, "{said}");
    assert!(said.contains("leads to another server") && said.contains("--name"), "{said}");
    assert_eq!(scene.config(), None);
}

#[test]
fn wrong_dates_are_a_note_where_nothing_else_is_wrong_with_the_server() {
    let (ca, other) = (Ca::new(), Ca::new());
    let (expired, early) = ((2020, 2021), (2090, 2100));
    for (what, leaf, want) in [
        ("expired", ca.leaf_of(&["localhost"], expired), Ok("it expired on 2021-01-01")),
        ("not valid yet", ca.leaf_of(&["localhost"], early), Ok("it is valid only from 2090-01-01")),
        ("expired, of another CA", other.leaf_of(&["localhost"], expired), Err("leads to another server")),
        (
            "not valid yet, of another CA",
            other.leaf_of(&["localhost"], early),
            Err("leads to another server"),
        ),
        ("expired, for another name", ca.leaf_of(&["raspi.lan"], expired), Err("leads to another server")),
    ] {
        let server = TlsServer::start(leaf);
        let scene = Scene::new(&ca, &format!("https://localhost:{}", server.address.port()));
        // As the Pi sends it, whose clock agrees with the certificate.
        scene.program("weaver", &format!("cat {}", scene.path("k3s.yaml").display()));
        let (code, said) = scene.fetch(&["pi@localhost"]);
        assert_eq!(code, if want.is_ok() { 0 } else { 10 }, "{what}: {said}");
        assert_eq!(scene.config().is_some(), want.is_ok(), "{what}");
        assert!(said.contains(want.unwrap_or_else(|want| want)), "{what}: {said}");
        if want.is_ok() {
            assert!(said.contains("`timedatectl` here and on the node"), "{what}: {said}");
            assert!(said.contains("sudo systemctl restart k3s"), "{what}: {said}");
            let (_, said) = scene.fetch(&["pi@localhost", "--k3d", "edge"]);
            assert!(said.contains("k3d cluster stop edge && k3d cluster start edge"), "{what}: {said}");
            assert!(!said.contains("systemctl"), "{what}: {said}");
        }
    }
}

#[test]
fn a_server_that_is_not_reached_from_here_is_a_note() {
    let scene = unreached(&Ca::new());
    let (code, said) = scene.fetch(&["pi@localhost"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("cannot be reached from this machine"), "{said}");
    assert!(scene.config().is_some());
}

#[test]
fn each_step_that_fails_says_what_to_do() {
    let scene = Scene::new(&Ca::new(), "https://127.0.0.1:1");
    for (ssh, code, want) in [
        ("exit 255", 1, "pi@raspi refuses the login; try `ssh pi@raspi`"),
        ("echo sudo: a password is required >&2; exit 1", 1, "sudo without a password"),
        ("exit 127", 1, "it needs `weaver` there"),
        ("echo hello", 10, "what pi@raspi sent"),
        ("printf '\\377'", 1, "the output of ssh is not text"),
    ] {
        scene.program("ssh", ssh);
        let (status, said) = scene.fetch(&["pi@raspi"]);
        assert_eq!(status, code, "{said}");
        assert!(said.contains(want), "{said}");
        assert_eq!(scene.config(), None);
    }
    for bad in ["-oProxyCommand=true", "a b", ""] {
        assert_eq!(scene.fetch(&["--", bad]).0, 2, "{bad}");
    }
    let (code, said) = scene.fetch(&["pi@my_alias_"]);
    assert_eq!(code, 10, "{said}");
    assert!(said.contains("pass --name"), "{said}");
}
