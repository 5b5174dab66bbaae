//! `weaver kubeconfig merge` as a user runs it, after the file was copied here.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::support::tls_server::{Ca, TlsServer};
use crate::support::{KEY, k3s_kubeconfig};
use tempfile::TempDir;

struct Laptop(TempDir);

impl Laptop {
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Exit status and messages, which never contain the key.
    fn weaver(&self, arguments: &[&str]) -> (i32, String) {
        let mut weaver = Command::new(env!("CARGO_BIN_EXE_weaver"));
        weaver
            .arg("kubeconfig")
            .args(arguments)
            .env("KUBECONFIG", self.path("config"))
            .current_dir(self.0.path());
        let output = weaver.output().unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(!said.contains(KEY), "{said}");
        (output.status.code().unwrap(), said)
    }
}

#[test]
fn what_was_exported_is_merged_on_another_machine() {
    let ca = Ca::new();
    let server = TlsServer::start(ca.leaf(&["raspi.lan"]));
    let laptop = Laptop(tempfile::tempdir().unwrap());
    fs::write(laptop.path("k3s.yaml"), k3s_kubeconfig(&ca, &format!("https://{}", server.address))).unwrap();
    let export = ["export", "--name", "raspi.lan", "--kubeconfig", "k3s.yaml", "--output", "raspi.yaml"];
    let (code, said) = laptop.weaver(&export);
    assert_eq!(code, 0, "{said}");

    let (code, said) = laptop.weaver(&["merge", "raspi.yaml"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("wrote context raspi.lan to"), "{said}");
    let config = fs::read_to_string(laptop.path("config")).unwrap();
    assert!(
        config.contains("raspi.lan")
            && config.contains(KEY)
            && !config.contains("current-context: raspi.lan")
    );
    let (code, said) = laptop.weaver(&["merge", "raspi.yaml", "--use"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("; backup: "), "{said}");
    assert!(fs::read_to_string(laptop.path("config")).unwrap().contains("current-context: raspi.lan"));
    let (code, said) = laptop.weaver(&["merge", "raspi.yaml", "--use"]);
    assert_eq!((code, said.contains("nothing was written")), (0, true), "{said}");
}

#[test]
fn what_would_not_work_here_is_refused() {
    let laptop = Laptop(tempfile::tempdir().unwrap());
    fs::write(laptop.path("k3s.yaml"), k3s_kubeconfig(&Ca::new(), "https://127.0.0.1:6443")).unwrap();
    let whole = fs::read_to_string(laptop.path("k3s.yaml")).unwrap();
    fs::write(laptop.path("torn.yaml"), &whole[..whole.len() / 2]).unwrap();
    fs::write(laptop.path("no.yaml"), "kind: Config\nclusters: []\n").unwrap();
    fs::write(laptop.path("mended.yaml"), whole.replace("127.0.0.1", "raspi.lan")).unwrap();
    let named = whole.replace("127.0.0.1", "raspi.lan").replace("default", "raspi");
    fs::write(laptop.path("paths.yaml"), named.replace("client-key-data:", "client-key:")).unwrap();
    for (file, want) in [
        ("k3s.yaml", "127.0.0.1: this machine, and not the one that k3s runs on; export it on"),
        ("torn.yaml", "torn.yaml"),
        ("no.yaml", "no.yaml"),
        ("none.yaml", "none.yaml does not exist"),
        ("mended.yaml", "as every k3s does"),
        ("paths.yaml", "client-key name files"),
    ] {
        let (code, said) = laptop.weaver(&["merge", file]);
        assert!(matches!(code, 1 | 10), "{said}");
        assert!(said.contains(want), "{file}: {said}");
        assert!(!laptop.path("config").exists(), "{file}");
    }
    let good = named;
    fs::write(laptop.path("config"), &good).unwrap();
    let (code, said) = laptop.weaver(&["merge", "config"]);
    assert_eq!(code, 10, "{said}");
    assert!(said.contains("is the file to merge into"), "{said}");
    assert_eq!(fs::read_to_string(laptop.path("config")).unwrap(), good);
}

#[test]
fn the_name_is_given_once() {
    let laptop = Laptop(tempfile::tempdir().unwrap());
    for arguments in
        [&["export"][..], &["export", "a.lan", "--name", "b.lan"], &["export", "--name", "https://a"]]
    {
        assert_eq!(laptop.weaver(arguments).0, 2, "{arguments:?}");
    }
}

/// The kubeconfig of a raspi, as `weaver kubeconfig export` writes it.
fn exported() -> String {
    k3s_kubeconfig(&Ca::new(), "https://raspi.lan:6443").replace("default", "raspi")
}

const WORK: &str = "kind: Config\ncurrent-context: work\nclusters:\n- {name: work, cluster: {server: 'https://work:6443', \
    proxy-url: 'http://p:1'}}\nusers:\n- {name: admin, user: {token: WORK-TOKEN}}\ncontexts:\n- {name: work, context: \
    {cluster: work, user: admin}}\n";

#[test]
fn a_cluster_of_another_context_is_not_redirected() {
    let laptop = Laptop(tempfile::tempdir().unwrap());
    fs::write(laptop.path("config"), WORK).unwrap();
    // Its cluster is called as one that is here: it gets the name of the context.
    let hostile = exported()
        .replace("cluster: raspi", "cluster: work")
        .replace("clusters:\n- name: raspi", "clusters:\n- name: work");
    fs::write(laptop.path("raspi.yaml"), &hostile).unwrap();
    let (code, said) = laptop.weaver(&["merge", "raspi.yaml"]);
    assert_eq!(code, 0, "{said}");
    let config = fs::read_to_string(laptop.path("config")).unwrap();
    assert!(config.contains("server: https://work:6443") && config.contains("proxy-url"), "{config}");
    assert!(!config.contains("insecure") && config.matches("name: work").count() == 2, "{config}");

    // Its context is.
    fs::write(laptop.path("config"), WORK).unwrap();
    fs::write(
        laptop.path("raspi.yaml"),
        hostile
            .replace("name: raspi\n  context", "name: work\n  context")
            .replace("current-context: raspi", "current-context: work"),
    )
    .unwrap();
    for force in [&[][..], &["--force"]] {
        let other = WORK.replace("name: work, context", "name: other, context");
        for (config, is_refused) in [(WORK, force.is_empty()), (&other, true)] {
            fs::write(laptop.path("config"), config).unwrap();
            let (code, said) = laptop.weaver(&[&["merge", "raspi.yaml"], force].concat());
            assert_eq!(code, if is_refused { 10 } else { 0 }, "{said}");
            if is_refused {
                assert!(said.contains("--context NEW") && said.contains("nothing was written"), "{said}");
                assert_eq!(fs::read_to_string(laptop.path("config")).unwrap(), config);
            }
        }
    }
    fs::write(laptop.path("config"), WORK).unwrap();
    let (code, said) = laptop.weaver(&["merge", "raspi.yaml", "--context", "raspi"]);
    assert_eq!(code, 0, "{said}");
}

#[test]
fn the_same_server_set_up_again_has_another_ca_and_is_merged_with_force_only() {
    let laptop = Laptop(tempfile::tempdir().unwrap());
    fs::write(laptop.path("raspi.yaml"), exported()).unwrap();
    for _ in 0..2 {
        let (code, said) = laptop.weaver(&["merge", "raspi.yaml"]);
        assert_eq!(code, 0, "{said}");
    }
    let before = fs::read_to_string(laptop.path("config")).unwrap();
    fs::write(laptop.path("raspi.yaml"), exported()).unwrap();
    for arguments in [&["merge", "raspi.yaml"][..], &["merge", "raspi.yaml", "--context", "another"]] {
        let (code, said) = laptop.weaver(arguments);
        assert_eq!(code, 10, "{said}");
        assert!(
            said.contains("trusts another CA for raspi.lan:6443")
                && said.contains("\n    sudo sha256sum /var"),
            "{said}"
        );
        assert_eq!(fs::read_to_string(laptop.path("config")).unwrap(), before);
    }
    let (code, said) = laptop.weaver(&["merge", "raspi.yaml", "--force"]);
    assert_eq!(code, 0, "{said}");
    assert_ne!(fs::read_to_string(laptop.path("config")).unwrap(), before);
}

#[test]
fn a_name_in_the_file_of_another_context_of_kubeconfig_is_not_shadowed() {
    let laptop = Laptop(tempfile::tempdir().unwrap());
    fs::write(laptop.path("second"), WORK).unwrap();
    fs::write(laptop.path("raspi.yaml"), exported().replace("raspi\n", "work\n")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_weaver"))
        .args(["kubeconfig", "merge", "raspi.yaml"])
        .env("KUBECONFIG", std::env::join_paths([laptop.path("config"), laptop.path("second")]).unwrap())
        .current_dir(laptop.0.path())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(10), "{said}");
    assert!(!laptop.path("config").exists());
}
