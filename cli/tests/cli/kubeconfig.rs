//! `weaver kubeconfig export` as a user runs it, against a TLS server.

use std::fs;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;

use crate::support::tls_server::{Ca, TlsServer, closed_port};
use crate::support::{CERTIFICATE, KEY, k3s_kubeconfig};
use k8s_openapi::ByteString;
use serde_json::Value;
use tempfile::TempDir;
use weaver_diagnostics::laptop::System;
use weaver_host::platform::{owner, set_path_mode};

/// A directory with the kubeconfig of a k3s, whose CA is `ca` and which listens at `server`.
struct Scene {
    dir: TempDir,
    k3s: PathBuf,
}

impl Scene {
    fn new(ca: &Ca, server: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let k3s = dir.path().join("k3s.yaml");
        fs::write(&k3s, k3s_kubeconfig(ca, server)).unwrap();
        Self { dir, k3s }
    }

    /// With a server that has a certificate for these names.
    fn serving(names: &[&str]) -> (Self, TlsServer) {
        let ca = Ca::new();
        let server = TlsServer::start(ca.leaf(names));
        (Self::new(&ca, &format!("https://{}", server.address)), server)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn change(&self, from: &str, to: &str) {
        let text = fs::read_to_string(&self.k3s).unwrap();
        assert!(text.contains(from), "{from}");
        fs::write(&self.k3s, text.replace(from, to)).unwrap();
    }

    /// Runs `weaver kubeconfig export`. No message may contain the key.
    fn run(&self, arguments: &[&str]) -> Output {
        let output = Command::new(env!("CARGO_BIN_EXE_weaver"))
            .args(["kubeconfig", "export", "--kubeconfig"])
            .arg(&self.k3s)
            .args(arguments)
            .current_dir(self.dir.path())
            .output()
            .unwrap();
        assert!(!words(&output).contains(KEY), "{}", words(&output));
        output
    }

    /// What is printed to be used.
    fn exported(&self, arguments: &[&str]) -> (Value, String) {
        let output = self.run(arguments);
        assert!(output.status.success(), "{}", words(&output));
        (parsed(&output.stdout), words(&output))
    }

    /// The exit status is `code`, the message contains these texts, and nothing was printed or made.
    fn fails(&self, code: i32, arguments: &[&str], want: &[&str]) {
        let before = entries(self.dir.path());
        let output = self.run(arguments);
        let words = words(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {words}");
        for want in want {
            assert!(words.contains(want), "{arguments:?}: {words}\nwanted: {want}");
        }
        assert!(output.stdout.is_empty(), "{arguments:?}");
        assert_eq!(entries(self.dir.path()), before, "{arguments:?}");
    }
}

fn words(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn parsed(text: &[u8]) -> Value {
    serde_saphyr::from_str(std::str::from_utf8(text).unwrap()).unwrap()
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    entries
}

#[test]
fn a_served_name_is_exported() {
    let (scene, server) = Scene::serving(&["kubernetes", "pi.lan"]);
    let (config, words) = scene.exported(&["Pi.lan"]);
    let url = format!("https://pi.lan:{}", server.address.port());
    assert_eq!(config["clusters"][0]["cluster"]["server"], url.as_str());
    for list in ["clusters", "users", "contexts"] {
        assert_eq!(config[list][0]["name"], "pi.lan");
    }
    assert_eq!(config["current-context"], "pi.lan");
    assert_eq!(config["users"][0]["user"]["client-key-data"], KEY);
    assert_eq!(words, "");
    assert_eq!(server.asked(), [None, Some("pi.lan".to_owned())]);
}

#[test]
fn addresses_ports_and_other_names() {
    let (scene, server) = Scene::serving(&["192.168.1.7", "fd00::7"]);
    let (config, _) = scene.exported(&["192.168.1.7", "--context", "my pi", "--port", "9"]);
    assert_eq!(config["clusters"][0]["cluster"]["server"], "https://192.168.1.7:9");
    assert_eq!(config["contexts"][0]["name"], "my pi");
    assert_eq!(config["contexts"][0]["context"]["user"], "my pi");
    let (config, _) = scene.exported(&["fd00::7", "--api-address", &server.address.to_string()]);
    let url = format!("https://[fd00::7]:{}", server.address.port());
    assert_eq!(config["clusters"][0]["cluster"]["server"], url.as_str());
    // An address is never sent by name.
    assert_eq!(server.asked(), [None, None]);
}

#[test]
fn a_name_under_a_wildcard_is_served() {
    let (scene, _server) = Scene::serving(&["*.pi.lan"]);
    let (config, _) = scene.exported(&["box.pi.lan"]);
    assert_eq!(config["current-context"], "box.pi.lan");
    scene.fails(10, &["pi.lan"], &["served: *.pi.lan"]);
}

#[test]
fn a_name_that_is_not_served_is_refused_and_never_asked_for() {
    let (scene, server) = Scene::serving(&["kubernetes", "raspik3d"]);
    scene.fails(
        10,
        &["raspi", "--output", "pi.yaml"],
        &[
            "refused: raspi is not served",
            "served: kubernetes, raspik3d",
            "nearest: raspik3d",
            "names = [\"raspi\"]",
            "tls-san+: [\"raspi\"]",
            "weaver kubeconfig export raspi --tls-server-name raspik3d",
        ],
    );
    assert_eq!(server.asked(), [None]);
    let printed = words(&scene.run(&["raspi"]));
    assert!(printed.lines().any(|line| line.trim() == "nearest: raspik3d"), "its lines are lines: {printed}");
}

#[test]
fn another_served_name_can_be_verified_instead() {
    let (scene, server) = Scene::serving(&["raspik3d"]);
    let (config, _) = scene.exported(&["raspi.lan", "--tls-server-name", "raspik3d"]);
    let cluster = &config["clusters"][0]["cluster"];
    assert_eq!(cluster["tls-server-name"], "raspik3d");
    assert_eq!(cluster["server"], format!("https://raspi.lan:{}", server.address.port()));
    scene.fails(
        10,
        &["raspi.lan", "--tls-server-name", "raspi"],
        &["raspi is not served", "nearest: raspik3d", "give --tls-server-name one of the served names"],
    );
    // The source's own `tls-server-name` is proven, since it stays in the file.
    scene.change("    server:", "    tls-server-name: box\n    server:");
    scene.fails(10, &["raspik3d"], &["box is not served"]);
    scene.change("tls-server-name: box", "tls-server-name: raspik3d");
    assert_eq!(scene.exported(&["box.lan"]).0["clusters"][0]["cluster"]["tls-server-name"], "raspik3d");
    scene.change("tls-server-name: raspik3d", "tls-server-name: 'a b'");
    scene.fails(10, &["raspik3d"], &["k3s.yaml: tls-server-name \"a b\": it contains white space"]);
}

#[test]
fn a_certificate_that_cannot_be_trusted_is_refused() {
    let (ca, other) = (Ca::new(), Ca::new());
    for (leaf, want) in [
        (other.leaf(&["pi.lan"]), ["not signed by the CA in", "it is signed by another CA"]),
        (ca.leaf_of(&["pi.lan"], (2001, 2002)), ["it expired on 2002-01-01", "timedatectl"]),
        (ca.leaf_of(&["pi.lan"], (2090, 2091)), ["it is valid only from 2090-01-01", "timedatectl"]),
    ] {
        let server = TlsServer::start(leaf);
        Scene::new(&ca, &format!("https://{}", server.address)).fails(10, &["pi.lan"], &want);
    }
}

#[test]
fn a_server_that_does_not_answer_proves_nothing() {
    let (scene, _server) = Scene::serving(&["pi.lan"]);
    let address = closed_port().to_string();
    scene.fails(
        1,
        &["pi.lan", "--api-address", &address],
        &["error: ", "sent no certificate", "systemctl status k3s", "--api-address HOST:PORT"],
    );
    scene.fails(1, &["pi.lan", "--api-address", "no-such-host.invalid:1"], &["sent no certificate"]);
}

#[test]
fn a_server_that_closes_a_connection_while_it_starts_is_asked_again() {
    let (scene, server) = Scene::serving(&["pi.lan"]);
    // Like k3d's published port, behind which k3s does not listen yet.
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = port.local_addr().unwrap().to_string();
    let behind = server.address;
    thread::spawn(move || {
        drop(port.accept());
        loop {
            let (here, there) = (port.accept().unwrap().0, TcpStream::connect(behind).unwrap());
            let (back, forth) = ((there.try_clone().unwrap(), here.try_clone().unwrap()), (here, there));
            for (mut from, mut to) in [back, forth] {
                thread::spawn(move || io::copy(&mut from, &mut to));
            }
        }
    });
    scene.exported(&["pi.lan", "--api-address", &address]);
}

#[test]
fn a_source_that_cannot_be_exported_is_refused() {
    let scene = || Scene::serving(&["pi.lan"]);
    for (from, to, want) in [
        ("server: https://", "server: http://localhost:8080 #", "refused: the server at "),
        ("kind: Config", "kind: Pod", "its kind is not `Config`"),
        ("current-context: default", "current-context: other", "context `other` is not in it"),
        ("client-key-data", "client-key", "client-key name files"),
        ("preferences: {}", "preferences: {", "not valid YAML"),
        ("certificate-authority-data: ", "certificate-authority-data: '!' #", "is not the base64 of PEM"),
        (
            "    certificate-authority-data",
            "    insecure-skip-tls-verify: true\n    certificate-authority-data",
            "remove insecure-skip-tls-verify",
        ),
    ] {
        let (scene, _server) = scene();
        scene.change(from, to);
        scene.fails(10, &["pi.lan"], &[want, "k3s.yaml"]);
        assert_eq!(words(&scene.run(&["pi.lan"])).lines().count(), 1, "{to}: said once");
    }
    let (scene, _server) = scene();
    fs::remove_file(&scene.k3s).unwrap();
    scene.fails(1, &["pi.lan"], &["error: cannot read", "k3s writes it when it starts"]);
}

#[test]
fn an_address_to_listen_at_is_noted_and_replaced() {
    let (scene, server) = Scene::serving(&["pi.lan"]);
    scene.change("https://127.0.0.1", "https://0.0.0.0");
    let (config, words) = scene.exported(&["pi.lan"]);
    assert!(words.starts_with("note: ") && words.contains("an address to listen on"), "{words}");
    let url = format!("https://pi.lan:{}", server.address.port());
    assert_eq!(config["clusters"][0]["cluster"]["server"], url.as_str());
}

#[test]
fn a_name_that_kubectl_may_not_find_is_noted() {
    let (scene, _server) = Scene::serving(&["pi.local", "pi", "localhost"]);
    for (name, want) in [
        ("pi.local", " pi.local'"),
        ("pi", " pi'"),
        ("localhost", "localhost means the machine that uses it"),
    ] {
        let (_, words) = scene.exported(&[name]);
        assert!(words.starts_with("note: ") && words.contains(want), "{words}");
        assert!(name == "localhost" || words.contains(System::HERE.hosts_file()), "{words}");
    }
}

#[test]
fn a_file_of_its_own() {
    let (scene, _server) = Scene::serving(&["pi.lan"]);
    let output = scene.run(&["pi.lan", "--output", "pi.yaml"]);
    assert!(output.status.success() && output.stdout.is_empty(), "{}", words(&output));
    assert_eq!(words(&output), "wrote pi.yaml: it holds an administrator's credential\n");
    let path = scene.path("pi.yaml");
    assert_eq!(owner(&fs::metadata(&path).unwrap()).mode, cfg!(unix).then_some(0o600));
    assert_eq!(parsed(&fs::read(&path).unwrap()), scene.exported(&["pi.lan"]).0);
    scene.fails(10, &["pi.lan", "--output", "pi.yaml"], &["refused: pi.yaml exists", "--force"]);
    assert!(scene.run(&["pi.lan", "--output", "pi.yaml", "--force"]).status.success());
    scene.fails(
        1,
        &["pi.lan", "--output", "no/pi.yaml"],
        &["error: cannot write no/pi.yaml", "create its directory"],
    );
}

#[test]
fn a_merge() {
    let (scene, _server) = Scene::serving(&["pi.lan"]);
    let path = scene.path("config");
    let theirs = "kind: Config\ncurrent-context: work\ncontexts:\n- name: work\n  context: {cluster: pi.lan, user: w}\n\
        clusters:\n- name: pi.lan\n  cluster: {server: 'https://old:1'}\n";
    fs::write(&path, theirs).unwrap();
    // With its own token, the user's credential would go to the exported server.
    let refused = ["context `work` uses cluster or user `pi.lan`", "--context NEW", "nothing was written"];
    scene.fails(10, &["pi.lan", "--merge", "config"], &refused);
    scene.fails(10, &["pi.lan", "--merge", "config", "--force"], &refused);
    let theirs = theirs.replace("{cluster: pi.lan, user: w}", "{cluster: c, user: w}");
    fs::write(&path, &theirs).unwrap();
    scene.fails(10, &["pi.lan", "--merge", "config"], &["cluster `pi.lan` exists", "--force"]);
    let output = scene.run(&["pi.lan", "--merge", "config", "--force"]);
    assert!(output.status.success() && output.stdout.is_empty());
    let said = words(&output);
    for want in ["wrote context pi.lan to config; backup: ", "`kubectl --context pi.lan --kubeconfig config`"]
    {
        assert!(said.contains(want), "{said}");
    }
    let merged = parsed(&fs::read(&path).unwrap());
    assert_eq!(merged["current-context"], "work");
    assert_eq!(merged["users"][0], scene.exported(&["pi.lan"]).0["users"][0]);
    let backup = entries(scene.dir.path()).into_iter().find(|path| path.to_string_lossy().contains(".bak-"));
    assert_eq!(fs::read_to_string(backup.unwrap()).unwrap(), theirs);

    let output = scene.run(&["pi.lan", "--merge", "config"]);
    assert!(words(&output).contains("already has context pi.lan; nothing was written"));
    assert!(scene.run(&["pi.lan", "--merge", "config", "--use"]).status.success());
    assert_eq!(parsed(&fs::read(&path).unwrap())["current-context"], "pi.lan");

    fs::write(&path, "kind: Pod\n").unwrap();
    scene.fails(10, &["pi.lan", "--merge", "config"], &["refused: config is not a kubeconfig"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), "kind: Pod\n");
}

#[test]
fn wrong_usage_is_reported_before_anything_is_read() {
    let (scene, server) = Scene::serving(&["pi.lan"]);
    for (arguments, want) in [
        (&["pi.lan."][..], "it ends in a dot: write pi.lan"),
        (&["*.pi.lan"], "use one of its names"),
        (&["0.0.0.0"], "an address to listen on"),
        (&["pi.lan", "--port", "0"], "--port"),
        (&["pi.lan", "--context", " "], "printable"),
        (&["pi.lan", "--api-address", "pi"], "write HOST:PORT"),
        (&["pi.lan", "--use"], "--merge"),
        (&["pi.lan", "--force"], "--output"),
        (&["pi.lan", "--output", "a", "--merge", "b"], "--merge"),
        (&[], "NAME"),
    ] {
        scene.fails(2, arguments, &[want]);
    }
    assert!(server.asked().is_empty());
}

/// `weaver kubeconfig lint`: exit code and messages.
fn lint(file: Option<&Path>, kubeconfig: Option<&Path>) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weaver"));
    command
        .args(["kubeconfig", "lint"])
        .args(file)
        .env_remove("KUBECONFIG")
        .env("HOME", "/nowhere")
        .env_remove("USERPROFILE")
        .env_remove("HOMEPATH");
    if let Some(path) = kubeconfig {
        command.env("KUBECONFIG", path);
    }
    let output = command.output().unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(!said.contains(KEY), "{said}");
    (output.status.code().unwrap(), said)
}

#[test]
fn a_copy_that_kubectl_would_refuse_is_not_called_fine_and_k3s_is_left_alone() {
    let scene = Scene::new(&Ca::new(), "https://pi.lan:6443");
    set_path_mode(&scene.k3s, 0o600).unwrap();
    let refused = |said: &str, want: &str| {
        let (code, shown) = lint(Some(&scene.k3s), None);
        assert_eq!(code, 10, "{said}: {shown}");
        assert!(shown.contains("K-06  FAIL") && shown.contains(want), "{said}: {shown}");
        assert!(!shown.contains("systemctl restart k3s"), "{said}: {shown}");
    };
    scene.change("https://pi.lan:6443", "https://2001:db8::10:6443");
    refused("an address without brackets", "write https://[2001:db8::10]:6443");
    scene.change("https://2001:db8::10:6443", "http://pi.lan:6443");
    refused("no TLS", "write https://pi.lan:6443");
    scene.change("http://pi.lan:6443", "https://pi.lan:6443");
    scene.change("certificate-authority-data:", "certificate-authority: gone.crt\n    unused:");
    refused("a CA that is not there", "gone.crt, which cannot be read");
}

#[test]
fn a_client_certificate_that_has_expired_or_whose_key_is_anothers_is_reported() {
    let encoded = |text: String| serde_json::to_string(&ByteString(text.into_bytes())).unwrap();
    let (own, other) = (rcgen::KeyPair::generate().unwrap(), rcgen::KeyPair::generate().unwrap());
    let certificate = |begins, ends| {
        let mut params = rcgen::CertificateParams::default();
        params.not_before = rcgen::date_time_ymd(begins, 1, 1);
        params.not_after = rcgen::date_time_ymd(ends, 1, 1);
        encoded(params.self_signed(&own).unwrap().pem())
    };
    for (certificate, key, code, want) in [
        (certificate(2020, 2199), &own, 0, "nothing is wrong"),
        (certificate(2020, 2021), &own, 10, "the client certificate expired on 2021-01-01"),
        (certificate(2190, 2199), &own, 10, "the client certificate is not valid before 2190-01-01"),
        (certificate(2020, 2199), &other, 10, "the client key does not belong to the client certificate"),
        ("DATA+OMITTED".to_owned(), &own, 10, "client-certificate-data was left out"),
    ] {
        let scene = Scene::new(&Ca::new(), "https://pi.lan:6443");
        set_path_mode(&scene.k3s, 0o600).unwrap();
        scene.change(CERTIFICATE, &certificate);
        scene.change(KEY, &encoded(key.serialize_pem()));
        let (status, said) = lint(Some(&scene.k3s), None);
        assert!(status == code && said.contains(want), "{want}: {status} {said}");
        assert!(!said.contains("$ sudo systemctl restart k3s"), "it is a copy: {said}");
    }
}

#[test]
fn a_kubeconfig_is_judged_without_a_connection() {
    let scene = Scene::new(&Ca::new(), "https://pi.lan:6443");
    set_path_mode(&scene.k3s, 0o600).unwrap();
    let fine = (0, format!("nothing is wrong with {}\n", scene.k3s.display()));
    assert_eq!(lint(Some(&scene.k3s), None), fine);
    assert_eq!(lint(None, Some(&scene.k3s)), fine);

    set_path_mode(&scene.k3s, 0o644).unwrap();
    scene.change("https://pi.lan:6443", "https://0.0.0.0:34067");
    let (code, said) = lint(Some(&scene.k3s), None);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("K-01  WARN") && said.contains("K-07  WARN") == cfg!(unix), "{said}");

    scene.change("    server:", "    insecure-skip-tls-verify: true\n    server:");
    let (code, said) = lint(Some(&scene.k3s), None);
    assert_eq!(code, 10, "{said}");
    assert!(said.contains("K-03  FAIL"), "{said}");
}

#[test]
fn what_cannot_be_a_kubeconfig_or_read_is_reported() {
    let scene = Scene::new(&Ca::new(), "https://pi.lan:6443");
    scene.change("current-context: default\n", "");
    let (code, said) = lint(Some(&scene.k3s), None);
    assert_eq!(code, 10, "{said}");
    assert!(said.starts_with("K-06  FAIL") && said.contains("config use-context default\n"), "{said}");
    let (code, said) = lint(None, None);
    assert_eq!(code, 1, "{said}");
    let home = Path::new("/nowhere").join(".kube").join("config").display().to_string();
    assert!(said.contains(&home), "{said}");
}

#[test]
fn without_verification_there_is_no_ca_and_a_warning() {
    let (scene, server) = Scene::serving(&["kubernetes"]);
    let (config, words) = scene.exported(&["raspi", "--insecure"]);
    let cluster = config["clusters"][0]["cluster"].as_object().unwrap();
    assert_eq!(cluster["insecure-skip-tls-verify"], true);
    assert_eq!(cluster["server"], format!("https://raspi:{}", server.address.port()).as_str());
    assert!(!cluster.keys().any(|key| key.starts_with("certificate-authority")), "{cluster:?}");
    assert!(
        words.starts_with("warning: TLS verification is off") && words.contains("diagnosis only"),
        "{words}"
    );
    assert!(server.asked().is_empty(), "no name may be learned by the server");
    scene.fails(2, &["raspi", "--insecure", "--tls-server-name", "kubernetes"], &["cannot be used with"]);
}
