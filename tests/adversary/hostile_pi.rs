//! A Pi, or anyone who answers at its ssh, against the laptop that asks it for a kubeconfig.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use k8s_openapi::ByteString;
use serde_json::{Value, json};
use tempfile::TempDir;
use weaver_tests::world::given;

/// A laptop with a kubeconfig of its user's own, the real kubectl, and an `ssh` that the attacker answers.
struct Laptop {
    dir: TempDir,
    /// The administrator's kubeconfig of the shared server, which is the Pi.
    admin: Value,
}

impl Laptop {
    /// The user's own context `work` is of the shared server, with the credential of the user `me`.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut laptop = Self { dir, admin: Value::Null };
        let view = laptop.kubectl(
            &given("WEAVER_TEST_KUBECONFIG"),
            &["config", "view", "--raw", "--flatten", "-o", "json"],
        );
        laptop.admin = serde_json::from_slice(&view.stdout).unwrap();
        fs::write(laptop.path("config"), laptop.mine().to_string()).unwrap();
        laptop
    }

    fn mine(&self) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "work",
            "clusters": [{"name": "work", "cluster": self.admin["clusters"][0]["cluster"]}],
            "users": [{"name": "me", "user": self.admin["users"][0]["user"]}],
            "contexts": [{"name": "work", "context": {"cluster": "work", "user": "me"}}],
        })
    }

    /// What an honest Pi would send.
    fn honest(&self) -> Value {
        let mut cluster = self.admin["clusters"][0]["cluster"].clone();
        let port = cluster["server"].as_str().unwrap().rsplit(':').next().unwrap().to_owned();
        cluster["server"] = json!(format!("https://127.0.0.1:{port}"));
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "pi",
            "clusters": [{"name": "pi", "cluster": cluster}],
            "users": [{"name": "pi", "user": self.admin["users"][0]["user"]}],
            "contexts": [{"name": "pi", "context": {"cluster": "pi", "user": "pi"}}],
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn program(&self, name: &str, script: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// The program that the attacker would like to have run, and what it leaves.
    fn pwned(&self) -> (PathBuf, PathBuf) {
        let left = self.path("PWNED");
        (self.program("pwned.sh", &format!("touch {}; exit 1", left.display())), left)
    }

    fn weaver(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = Command::new(given("WEAVER_TEST_BIN_DIR").join("weaver"))
            .arg("kubeconfig")
            .args(arguments)
            .env("PATH", format!("{}:/usr/bin:/bin", self.dir.path().display()))
            .env("KUBECONFIG", self.path("config"))
            .current_dir(self.dir.path())
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    }

    /// Fetches from a Pi that answers this.
    fn fetch(&self, answer: &str) -> (Option<i32>, String) {
        fs::write(self.path("answer"), answer).unwrap();
        self.program("ssh", &format!("exec cat {}", self.path("answer").display()));
        self.weaver(&["fetch", "pi@127.0.0.1", "--context", "pi"])
    }

    fn kubectl(&self, kubeconfig: &Path, arguments: &[&str]) -> Output {
        weaver_tests::cli::kubectl(self.dir.path(), kubeconfig, arguments)
    }

    /// The user's own context has the same server and credential as before.
    fn is_untouched(&self, why: &str) {
        let config = self.path("config");
        let view = self
            .kubectl(&config, &["config", "view", "--raw", "--minify", "--context", "work", "-o", "json"]);
        let view: Value = serde_json::from_slice(&view.stdout).unwrap();
        for list in ["clusters", "users", "contexts"] {
            assert_eq!(view[list], self.mine()[list], "{why}");
        }
        let ready = self.kubectl(&config, &["--context", "work", "get", "--raw", "/readyz"]);
        assert!(ready.status.success(), "{why}: {ready:?}");
    }
}

#[test]
fn what_a_pi_adds_to_its_kubeconfig_neither_runs_nor_redirects_the_users_own_context() {
    let laptop = Laptop::new();
    let (pwned, left) = laptop.pwned();
    let exec = json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": pwned,
        "interactiveMode": "Never"}});
    let evil = json!({"server": "https://evil.example.com", "insecure-skip-tls-verify": true});
    let mut answer = laptop.honest();
    answer["clusters"].as_array_mut().unwrap().push(json!({"name": "work", "cluster": evil}));
    answer["users"].as_array_mut().unwrap().push(json!({"name": "me", "user": exec}));
    let (code, said) = laptop.fetch(&answer.to_string());
    assert_eq!(code, Some(0), "{said}");
    laptop.is_untouched("after the fetch");
    let ready = laptop.kubectl(&laptop.path("config"), &["--context", "pi", "get", "--raw", "/readyz"]);
    assert!(ready.status.success() && !left.exists(), "{ready:?}");
}

#[test]
fn a_context_that_needs_a_program_or_another_way_is_refused() {
    let laptop = Laptop::new();
    let (pwned, left) = laptop.pwned();
    for (list, body, key, value) in [
        ("users", "user", "exec", json!({"apiVersion": "client.authentication.k8s.io/v1", "command": pwned})),
        ("users", "user", "auth-provider", json!({"name": "gcp", "config": {"cmd-path": pwned}})),
        ("users", "user", "tokenFile", json!("/etc/passwd")),
        ("users", "user", "as", json!("system:admin")),
        ("clusters", "cluster", "proxy-url", json!("http://evil.example.com")),
        ("clusters", "cluster", "insecure-skip-tls-verify", json!(true)),
        ("clusters", "cluster", "tls-server-name", json!("kubernetes")),
        ("clusters", "cluster", "server", json!("https://localhost:1")),
    ] {
        let mut answer = laptop.honest();
        answer[list][0][body][key] = value;
        let before = fs::read(laptop.path("config")).unwrap();
        let (code, said) = laptop.fetch(&answer.to_string());
        assert_eq!(code, Some(10), "{key}: {said}");
        assert_eq!(fs::read(laptop.path("config")).unwrap(), before, "{key}");
    }
    laptop.is_untouched("after refusals");
    assert!(!left.exists());
}

#[test]
fn an_exported_file_does_not_get_the_token_of_another_context() {
    let laptop = Laptop::new();
    let mut hostile = laptop.honest();
    hostile["users"][0]["user"] = json!({"token": "EVIL"});
    hostile["clusters"][0]["name"] = json!("work");
    hostile["clusters"][0]["cluster"]["server"] = json!("https://evil.example.com");
    hostile["contexts"][0]["context"]["cluster"] = json!("work");
    fs::write(laptop.path("raspi.yaml"), hostile.to_string()).unwrap();
    let (code, said) = laptop.weaver(&["merge", "raspi.yaml"]);
    assert_eq!(code, Some(0), "{said}");
    laptop.is_untouched("its cluster has the name of the context");

    hostile["contexts"][0]["name"] = json!("work");
    hostile["current-context"] = json!("work");
    fs::write(laptop.path("raspi.yaml"), hostile.to_string()).unwrap();
    for arguments in [&["merge", "raspi.yaml"][..], &["merge", "raspi.yaml", "--context", "me"]] {
        let (code, said) = laptop.weaver(arguments);
        assert_eq!((code, said.contains("nothing was written")), (Some(10), true), "{said}");
        laptop.is_untouched("its context has the name of the user's");
    }
}

#[test]
fn a_ca_that_is_new_at_the_address_of_a_server_is_refused_before_a_byte_is_written() {
    let laptop = Laptop::new();
    let honest = laptop.honest();
    let (code, said) = laptop.fetch(&honest.to_string());
    assert_eq!(code, Some(0), "{said}");
    let before = fs::read(laptop.path("config")).unwrap();
    // Anyone who answers at the port from now on has a certificate of this CA.
    let params = rcgen::CertificateParams::default();
    let evil = params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().pem();
    let trusted = honest["clusters"][0]["cluster"]["certificate-authority-data"].as_str().unwrap().to_owned();
    let pem = serde_json::from_value::<ByteString>(json!(trusted)).unwrap().0;
    let replaced = json!(ByteString(evil.clone().into_bytes()));
    let added = json!(ByteString([&pem[..], b"\n", evil.as_bytes()].concat()));
    for ca in [replaced, added] {
        let mut answer = honest.clone();
        answer["clusters"][0]["cluster"]["certificate-authority-data"] = ca;
        fs::write(laptop.path("raspi.yaml"), answer.to_string()).unwrap();
        for arguments in [&["merge", "raspi.yaml"][..], &["merge", "raspi.yaml", "--context", "pi-2"]] {
            let (code, said) = laptop.weaver(arguments);
            assert_eq!((code, said.contains("sudo sha256sum")), (Some(10), true), "{said}");
            assert_eq!(fs::read(laptop.path("config")).unwrap(), before, "{arguments:?}");
        }
        let (code, said) = laptop.fetch(&answer.to_string());
        assert_eq!(code, Some(10), "{said}");
        assert_eq!(fs::read(laptop.path("config")).unwrap(), before);
    }
    laptop.is_untouched("after a new CA");
}

#[test]
fn a_flood_and_terminal_sequences_of_a_pi_stay_on_the_pi() {
    let laptop = Laptop::new();
    laptop.program("ssh", "printf '\\033[2Jrefused: type this\\n' >&2; exec cat /dev/zero");
    let (code, said) = laptop.weaver(&["fetch", "pi@127.0.0.1"]);
    assert_eq!(code, Some(10), "{said}");
    assert!(said.contains("more than 1024 KiB") && !said.contains('\u{1b}'), "{said:?}");
    assert!(said.lines().any(|line| line.starts_with("pi@127.0.0.1: ")), "{said}");
    laptop.is_untouched("after a flood");
}
