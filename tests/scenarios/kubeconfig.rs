//! A kubeconfig for another machine: `weaver kubeconfig export`, and kubectl with what it wrote.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;
use weaver_tests::world::given;

/// A name that the shared server is asked to serve.
const SERVED: &str = "weaver.test";

/// A laptop: a directory with kubeconfigs, and kubectl.
struct Laptop {
    dir: TempDir,
}

impl Laptop {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs the export on the machine of the server.
    fn export(&self, arguments: &[&str]) -> Output {
        Command::new(given("WEAVER_TEST_BIN_DIR").join("weaver"))
            .args(["kubeconfig", "export", "--kubeconfig"])
            .arg(given("WEAVER_TEST_KUBECONFIG"))
            .args(arguments)
            .current_dir(self.dir.path())
            .output()
            .unwrap()
    }

    fn exported(&self, arguments: &[&str]) {
        let output = self.export(arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn kubectl(&self, kubeconfig: &Path, arguments: &[&str]) -> Output {
        weaver_tests::cli::kubectl(self.dir.path(), kubeconfig, arguments)
    }

    fn answer(&self, kubeconfig: &Path, arguments: &[&str]) -> String {
        let output = self.kubectl(kubeconfig, arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// A kubeconfig as kubectl reads it.
    fn view(&self, kubeconfig: &Path) -> Value {
        serde_json::from_str(&self.answer(kubeconfig, &["config", "view", "--raw", "-o", "json"])).unwrap()
    }
}

fn port(view: &Value) -> String {
    view["clusters"][0]["cluster"]["server"].as_str().unwrap().rsplit(':').next().unwrap().to_owned()
}

#[test]
fn kubectl_reaches_the_server_by_a_served_name() {
    let laptop = Laptop::new();
    let (admin, pi) = (given("WEAVER_TEST_KUBECONFIG"), laptop.path("pi.yaml"));
    laptop.exported(&[SERVED, "--output", "pi.yaml"]);

    // As kubectl reads them, the files differ in the host and the names only.
    let (mut want, found) = (laptop.view(&admin), laptop.view(&pi));
    let port = port(&want);
    want["clusters"][0]["cluster"]["server"] = json!(format!("https://{SERVED}:{port}"));
    want["contexts"][0]["context"]["cluster"] = json!(SERVED);
    want["contexts"][0]["context"]["user"] = json!(SERVED);
    want["current-context"] = json!(SERVED);
    for list in ["clusters", "contexts", "users"] {
        want[list][0]["name"] = json!(SERVED);
    }
    assert_eq!(found, want);

    // Only the look-up of the name is taken off kubectl; it verifies the same name by the same CA.
    let server = format!("--server=https://127.0.0.1:{port}");
    let who = ["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"];
    let by_name = [&who[..], &[&server, "--tls-server-name=weaver.test"]].concat();
    assert_eq!(laptop.answer(&pi, &by_name), laptop.answer(&admin, &who));
    let by_another = [&who[..], &[&server, "--tls-server-name=other.test"]].concat();
    let refused = laptop.kubectl(&pi, &by_another);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("not other.test"), "{refused:?}");
}

#[test]
fn kubectl_verifies_another_served_name_where_the_file_says_so() {
    let laptop = Laptop::new();
    // An address that kubectl can connect to, under a name that only the certificate knows.
    laptop.exported(&["127.0.0.1", "--tls-server-name", SERVED, "--context", "pi", "--output", "pi.yaml"]);
    let pi = laptop.path("pi.yaml");
    assert_eq!(laptop.view(&pi)["clusters"][0]["cluster"]["tls-server-name"], SERVED);
    assert_eq!(laptop.answer(&pi, &["get", "--raw", "/readyz"]), "ok");
    assert_eq!(laptop.answer(&pi, &["config", "current-context"]).trim(), "pi");
}

#[test]
fn a_name_that_is_not_served_is_refused_and_not_added() {
    let laptop = Laptop::new();
    for _ in 0..2 {
        // The second time shows whether the first had it added to the certificate.
        let output = laptop.export(&["weaver.tost", "--output", "pi.yaml"]);
        let words = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(10), "{words}");
        for want in
            ["refused: weaver.tost is not served", "nearest: weaver.test", "tls-san+: [\"weaver.tost\"]"]
        {
            assert!(words.contains(want), "{words}");
        }
        assert!(!laptop.path("pi.yaml").exists());
    }
}

#[test]
fn a_merged_file_means_the_same_to_kubectl() {
    let laptop = Laptop::new();
    let config = laptop.path("config");
    // Strings that one version of YAML or another takes for something else.
    let theirs = "\
# my clusters
apiVersion: v1
kind: Config
current-context: 'yes'
preferences: {colors: true}
clusters:
- name: '012'
  cluster: {server: 'https://work:6443', insecure-skip-tls-verify: true, extensions: [{name: e, extension: {a: '1_0', b: [0x10, 1.5, null, \"é\\u0085\"]}}]}
- name: pi
  cluster: {server: 'https://old:6443', proxy-url: 'http://p:1'}
contexts:
- name: 'yes'
  context: {cluster: '012', user: '~', namespace: on-call}
users:
- name: '~'
  user:
    token: '1e3'
    username: |
      a
      b: #c
    password: \"0o17\"
";
    fs::write(&config, theirs).unwrap();
    let before = laptop.view(&config);
    // The cluster that has the name is another one.
    let refused = laptop.export(&[SERVED, "--context", "pi", "--merge", "config"]);
    assert_eq!(refused.status.code(), Some(10), "{refused:?}");
    assert_eq!(fs::read_to_string(&config).unwrap(), theirs);
    laptop.exported(&[SERVED, "--context", "pi", "--merge", "config", "--force"]);

    let mut after = laptop.view(&config);
    assert_eq!(after["current-context"], "yes");
    let admin = laptop.view(&given("WEAVER_TEST_KUBECONFIG"));
    for list in ["clusters", "contexts", "users"] {
        let entries = after[list].as_array_mut().unwrap();
        let at = entries.iter().position(|entry| entry["name"] == "pi").unwrap();
        let pi = entries.remove(at);
        if list == "users" {
            assert_eq!(pi["user"], admin["users"][0]["user"]);
        }
        let mut kept = before[list].as_array().unwrap().clone();
        kept.retain(|entry| entry["name"] != "pi");
        assert_eq!(*entries, kept, "{list}");
    }
    for key in ["apiVersion", "kind", "preferences"] {
        assert_eq!(after[key], before[key], "{key}");
    }
    // No lock is left behind: kubectl can change the file.
    laptop.answer(&config, &["config", "use-context", "pi"]);
    assert_eq!(laptop.view(&config)["current-context"], "pi");
}

#[test]
fn kubectl_takes_a_kubeconfig_without_verification() {
    let laptop = Laptop::new();
    let insecure = laptop.path("insecure.yaml");
    laptop.exported(&["127.0.0.1", "--insecure", "--output", "insecure.yaml"]);
    assert!(laptop.answer(&insecure, &["get", "namespaces"]).contains("kube-system"));
}

#[test]
fn kubectl_takes_a_token_of_a_limited_account() {
    let laptop = Laptop::new();
    let admin = given("WEAVER_TEST_KUBECONFIG");
    let refused = laptop.export(&["127.0.0.1", "--as-account", "laptops/viewer", "--output", "pi.yaml"]);
    let words = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(10), "{words}");
    assert!(!laptop.path("pi.yaml").exists());
    // What is printed is what is typed.
    for command in words.lines().filter_map(|line| line.trim().strip_prefix("kubectl ")) {
        laptop.answer(&admin, &command.split(' ').collect::<Vec<_>>());
    }
    laptop.exported(&["127.0.0.1", "--as-account", "laptops/viewer", "--days", "1", "--output", "pi.yaml"]);
    let pi = laptop.path("pi.yaml");
    let user = &laptop.view(&pi)["users"][0]["user"];
    assert_eq!(user.as_object().unwrap().keys().collect::<Vec<_>>(), ["token"]);
    let who = laptop.answer(&pi, &["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"]);
    assert_eq!(who, "system:serviceaccount:laptops:viewer");
    assert!(laptop.answer(&pi, &["get", "configmaps", "-n", "default"]).contains("kube-root-ca.crt"));
    assert!(!laptop.kubectl(&pi, &["get", "secrets", "-A"]).status.success());
    laptop.answer(&admin, &["delete", "clusterrolebinding", "laptops-viewer-view"]);
    laptop.answer(&admin, &["delete", "namespace", "laptops", "--wait=false"]);
}

#[test]
fn a_file_for_each_name_and_kubectl_takes_it() {
    let laptop = Laptop::new();
    let output = Command::new(given("WEAVER_TEST_BIN_DIR").join("weaver"))
        .args(["kubeconfig", "export-all", "files", "--kubeconfig"])
        .arg(given("WEAVER_TEST_KUBECONFIG"))
        .current_dir(laptop.dir.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let port = port(&laptop.view(&given("WEAVER_TEST_KUBECONFIG")));
    let mut names = Vec::new();
    for entry in fs::read_dir(laptop.path("files")).unwrap() {
        let file = entry.unwrap().path();
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        // Only the look-up of the name is taken off kubectl.
        let verified = laptop.view(&file)["clusters"][0]["cluster"]["server"].as_str().unwrap().to_owned();
        assert!(verified.ends_with(&format!(":{port}")), "{verified}");
        let host = verified
            .trim_start_matches("https://")
            .rsplit_once(':')
            .unwrap()
            .0
            .trim_matches(['[', ']'])
            .to_owned();
        let server = format!("--server=https://127.0.0.1:{port}");
        let verify = format!("--tls-server-name={host}");
        assert!(
            laptop.answer(&file, &["get", "namespaces", &server, &verify]).contains("kube-system"),
            "{name}"
        );
        names.push(name);
    }
    assert!(names.contains(&SERVED.to_owned()), "{names:?}");
    assert!(!names.iter().any(|name| name.starts_with("kubernetes") || name == "localhost"), "{names:?}");
}
