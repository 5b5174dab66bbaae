//! `weaver registry check` as a user runs it, at small servers that answer as registries and others do.

use std::fs;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::http::{Heads, answered, path, serve, server};
use crate::support::tls_server::{Ca, closed_port};

/// 127.0.0.1 by a name, since containerd makes an exception of localhost.
const HERE: &str = "0x7f000001";

const INDEX: &str = r#"{"schemaVersion":2,"manifests":[{"platform":{"os":"linux","architecture":"amd64"}}]}"#;

/// What a registry with two repositories answers; the second is on the next page.
fn registry(head: &str) -> String {
    let body = match path(head) {
        "/v2/" => "{}",
        "/v2/_catalog?n=100" => {
            let link = "Link: </v2/_catalog?last=app&n=100>; rel=\"next\"\r\n";
            return answered("200 OK", link, r#"{"repositories":["app"]}"#);
        }
        "/v2/_catalog?last=app&n=100" => r#"{"repositories":["team/web"]}"#,
        "/v2/app/tags/list?n=100" => r#"{"name":"app","tags":["1.0","latest"]}"#,
        "/v2/team/web/tags/list?n=100" => r#"{"name":"team/web","tags":null}"#,
        "/v2/app/manifests/1.0" => INDEX,
        _ => return answered("404 Not Found", "", r#"{"errors":[{"code":"NAME_UNKNOWN"}]}"#),
    };
    answered("200 OK", "", body)
}

/// The same for clients that know the password of `me`, hunter2.
fn locked(head: &str) -> String {
    if head.to_ascii_lowercase().contains("authorization: basic bwu6ahvudgvymg==\r\n") {
        return registry(head);
    }
    answered("401 Unauthorized", "WWW-Authenticate: Basic realm=\"mine\"\r\n", "{}")
}

fn check(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weaver"))
        .args(["registry", "check"])
        .args(arguments)
        .env("DOCKER_HOST", "unix:///nowhere/docker.sock")
        .env_remove("KUBECONFIG")
        .output()
        .unwrap()
}

fn said(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn registries_yaml(directory: &Path, registry: &str, scheme: &str, password: &str) -> String {
    let file = directory.join("registries.yaml");
    let text = format!(
        "mirrors:\n  \"{registry}\":\n    endpoint: [\"{scheme}://{registry}\"]\n\
         configs:\n  \"{registry}\":\n    auth: {{username: me, password: {password}}}\n"
    );
    fs::write(&file, text).unwrap();
    file.display().to_string()
}

#[test]
fn a_registry_without_tls_and_what_is_in_it() {
    let address = format!("{HERE}:{}", server(None, registry).0.port());
    let done = check(&[&address]);
    let text = said(&done);
    assert_eq!(done.status.code(), Some(0), "{text}");
    assert!(text.contains("http   a registry (GET /v2/ answers 200)\n"), "{text}");
    assert!(text.contains("2 repositories\n  app: 1.0, latest\n  team/web: no tags\n"), "{text}");
    assert!(text.contains("R-01  WARN"), "{text}");
    assert!(text.contains(&format!("- \"http://{address}\"")), "{text}");
    assert!(text.contains("k3d    not looked for: unix:///nowhere/docker.sock: "), "{text}");

    let json: Value = serde_json::from_slice(&check(&[&address, "-o", "json"]).stdout).unwrap();
    assert_eq!(json["http"]["registry"], true);
    assert_eq!(json["repositories"][0]["tags"][1], "latest");
    assert_eq!((&json["exitCode"], &json["findings"][0]["code"]), (&0.into(), &"R-01".into()));

    let one = check(&[&address, "--repository", "app"]);
    assert!(said(&one).contains("1 repository\n  app: 1.0, latest\n"), "{}", said(&one));
    let none = check(&[&address, "--repository", "gone"]);
    assert!(none.status.code() == Some(10) && said(&none).contains("R-06  FAIL"), "{}", said(&none));
}

#[test]
fn an_image_that_a_pi_cannot_run() {
    let (address, _) = server(None, registry);
    let registry = address.to_string();
    let pi = check(&[&registry, "--image", "app:1.0"]);
    assert_eq!(pi.status.code(), Some(10), "{}", said(&pi));
    assert!(said(&pi).contains("R-05  FAIL") && said(&pi).contains("is for linux/amd64"), "{}", said(&pi));
    let pc = check(&[&registry, "--image", &format!("{registry}/app:1.0"), "--platform", "linux/amd64"]);
    assert_eq!(pc.status.code(), Some(0), "{}", said(&pc));
    let gone = check(&[&registry, "--image", "app:2.0"]);
    assert!(gone.status.code() == Some(10) && said(&gone).contains("R-06  FAIL"), "{}", said(&gone));
    let wrong = check(&[&registry, "--image", "App:2.0"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("no capital letters"));
}

#[test]
fn a_certificate_of_ones_own_ca() {
    let directory = tempfile::tempdir().unwrap();
    let ca = Ca::new();
    let file = directory.path().join("ca.crt");
    fs::write(&file, ca.pem()).unwrap();
    let file = file.display().to_string();
    let (address, _) = server(Some(ca.leaf(&[HERE])), registry);
    let registry_name = format!("{HERE}:{}", address.port());

    let unknown = check(&[&registry_name]);
    assert_eq!(unknown.status.code(), Some(10), "{}", said(&unknown));
    assert!(
        said(&unknown).contains("R-10  FAIL") && said(&unknown).contains("app: 1.0"),
        "{}",
        said(&unknown)
    );
    let known = check(&[&registry_name, "--ca", &file]);
    assert_eq!(known.status.code(), Some(0), "{}", said(&known));
    assert!(
        said(&known).contains("https  certificate trusted, for 0x7f000001; a registry"),
        "{}",
        said(&known)
    );
    assert!(said(&known).ends_with("nothing is wrong with it\n"), "{}", said(&known));

    let (other, _) = server(Some(ca.leaf(&["reg.lan"])), registry);
    let other = check(&[&other.to_string(), "--ca", &file]);
    assert!(
        said(&other).contains("R-10  WARN") && said(&other).contains("is for reg.lan, and not for 127.0.0.1"),
        "{}",
        said(&other)
    );
    let (old, _) = server(Some(ca.leaf_of(&["127.0.0.1"], (2020, 2021))), registry);
    let old = check(&[&old.to_string(), "--ca", &file]);
    assert!(said(&old).contains("it expired on 2021-01-01"), "{}", said(&old));
}

#[test]
fn credentials_go_only_where_they_are_safe_and_are_never_shown() {
    let directory = tempfile::tempdir().unwrap();
    let shown = |done: &Output| {
        let all = format!("{}{}", said(done), String::from_utf8_lossy(&done.stderr));
        assert!(!all.contains("hunter2") && !all.contains("bWU6aHVudGVyMg"), "{all}");
        all
    };
    let (address, heads) = server(None, locked);
    let registry = address.to_string();
    let without = check(&[&registry]);
    assert!(
        shown(&without).contains("R-09  WARN") && without.status.code() == Some(0),
        "{}",
        shown(&without)
    );

    let file = registries_yaml(directory.path(), &registry, "http", "hunter2");
    let right = check(&[&registry, "--registries", &file]);
    assert_eq!(right.status.code(), Some(0), "{}", shown(&right));
    assert!(shown(&right).contains("with the credentials of registries.yaml"), "{}", shown(&right));
    assert!(shown(&right).contains("app: 1.0, latest"), "{}", shown(&right));
    let json = check(&[&registry, "--registries", &file, "-o", "json"]);
    assert!(shown(&json).contains("\"credentials\": \"yes\""), "{}", shown(&json));

    let file = registries_yaml(directory.path(), &registry, "http", "wrong");
    let wrong = check(&[&registry, "--registries", &file]);
    assert!(wrong.status.code() == Some(10) && shown(&wrong).contains("R-09  FAIL"), "{}", shown(&wrong));

    // Plain HTTP that was not chosen, and a certificate of anyone.
    heads.lock().unwrap().clear();
    let file = registries_yaml(directory.path(), &registry, "https", "hunter2");
    let unsafe_ = check(&[&registry, "--registries", &file]);
    assert!(shown(&unsafe_).contains("were not sent"), "{}", shown(&unsafe_));
    let (anyone, anyones) = server(Some(Ca::new().leaf(&["127.0.0.1"])), locked);
    let file = registries_yaml(directory.path(), &anyone.to_string(), "https", "hunter2");
    let done = check(&[&anyone.to_string(), "--registries", &file]);
    assert!(shown(&done).contains("were not sent") && shown(&done).contains("R-10"), "{}", shown(&done));
    for heads in [heads, anyones] {
        let heads = heads.lock().unwrap();
        assert!(!heads.is_empty());
        assert!(!heads.iter().any(|head| head.to_ascii_lowercase().contains("authorization")), "{heads:?}");
    }
}

#[test]
fn a_token_is_asked_of_the_registry_itself_only() {
    let directory = tempfile::tempdir().unwrap();
    let (elsewhere, others) = server(None, |_: &str| answered("200 OK", "", r#"{"token":"t"}"#));
    for own in [true, false] {
        let (address, heads) = server(None, move |head: &str| {
            let host = head
                .lines()
                .find_map(|line| line.to_ascii_lowercase().strip_prefix("host: ").map(str::to_owned));
            let realm = if own { host.unwrap() } else { elsewhere.to_string() };
            match path(head) {
                path if path.starts_with("/token?service=mine") => {
                    answered("200 OK", "", r#"{"token":"t0"}"#)
                }
                _ if head.contains("Bearer t0\r\n") => registry(head),
                _ => answered(
                    "401 Unauthorized",
                    &format!("WWW-Authenticate: Bearer realm=\"http://{realm}/token\",service=\"mine\"\r\n"),
                    "{}",
                ),
            }
        });
        let registry = address.to_string();
        let file = registries_yaml(directory.path(), &registry, "http", "hunter2");
        let done = check(&[&registry, "--registries", &file]);
        assert_eq!(said(&done).contains("app: 1.0"), own, "{}", said(&done));
        let asked_with =
            heads.lock().unwrap().iter().any(|head| head.contains("GET /token") && head.contains("Basic "));
        assert_eq!(asked_with, own);
    }
    assert!(others.lock().unwrap().is_empty(), "{others:?}");
}

#[test]
fn what_is_no_registry_is_said_and_ends() {
    let html = |_: &str| answered("200 OK", "content-type: text/html\r\n", "<html>welcome</html>");
    let endless = |_: &str| "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n".to_owned() + &" ".repeat(9 << 20);
    let garbage = |_: &str| "SSH-2.0-OpenSSH_9.2\r\n\u{1b}[2J".to_owned();
    let loops = |_: &str| answered("307 Temporary Redirect", "Location: /v2/\r\n", "");
    for (name, address, words) in [
        ("page", server(None, html).0, "another server than a registry answers"),
        ("endless", server(None, endless).0, "longer than 4 MiB"),
        ("garbage", server(None, garbage).0, "no registry answers"),
        ("loop", server(None, loops).0, "too many redirects"),
        ("closed", closed_port(), "onnection refused"),
    ] {
        let done = check(&[&address.to_string(), "--timeout", "20"]);
        let text = said(&done);
        assert!(done.status.code() == Some(10) && text.contains("R-08  FAIL"), "{name}: {text}");
        assert!(text.contains(words) && !text.contains('\u{1b}'), "{name}: {text}");
    }
    let none = check(&["no-such-host.invalid:5000"]);
    assert!(said(&none).contains("cannot resolve no-such-host.invalid"), "{}", said(&none));
}

#[test]
fn one_that_hangs_is_left_when_time_is_up() {
    // It listens and never accepts: the kernel completes the connection.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let begun = Instant::now();
    let done = check(&[&silent.local_addr().unwrap().to_string(), "--timeout", "2"]);
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    assert!(done.status.code() == Some(10) && said(&done).contains("no answer in time"), "{}", said(&done));
}

#[test]
fn nothing_is_asked_of_another_host() {
    let (other, asked) = server(None, registry);
    let (address, _) = server(None, move |head: &str| match path(head) {
        "/v2/" => registry(head),
        "/v2/_catalog?n=100" => {
            let link = format!("Link: <http://{other}/v2/_catalog?last=b>; rel=\"next\"\r\n");
            answered("200 OK", &link, r#"{"repositories":["moved","../../x"]}"#)
        }
        _ => answered("302 Found", &format!("Location: http://{other}/v2/\r\n"), ""),
    });
    let done = check(&[&address.to_string()]);
    assert!(said(&done).contains("2 repositories, and more\n"), "{}", said(&done));
    assert!(said(&done).contains("moved: the registry answers 302"), "{}", said(&done));
    let (moved, _) = server(None, move |_: &str| {
        answered("301 Moved Permanently", &format!("Location: https://{other}/v2/\r\n"), "")
    });
    let done = check(&[&moved.to_string()]);
    assert!(
        said(&done).contains(&format!("redirects to another host: \"https://{other}/v2/\"")),
        "{}",
        said(&done)
    );
    assert!(asked.lock().unwrap().is_empty(), "{asked:?}");
}

#[test]
fn a_container_of_k3d_has_two_addresses() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("docker.sock");
    let (address, _) = server(None, registry);
    let containers = format!(
        r#"[{{"Id":"1","Names":["/k3d-reg.localhost"],"Image":"registry:2","State":"running",
             "Labels":{{"app":"k3d","k3d.role":"registry"}},
             "Ports":[{{"IP":"0.0.0.0","PrivatePort":5000,"PublicPort":{},"Type":"tcp"}}],
             "NetworkSettings":{{"Networks":{{"k3d-demo":{{}}}}}}}}]"#,
        address.port()
    );
    let listener = UnixListener::bind(&socket).unwrap();
    thread::spawn(move || {
        let answer = move |_: &str| answered("200 OK", "content-type: application/json\r\n", &containers);
        listener.incoming().for_each(|stream| serve(stream.unwrap(), &Heads::default(), &answer));
    });
    let by_engine = |registry: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weaver"));
        command
            .args(["registry", "check", registry])
            .env("DOCKER_HOST", format!("unix://{}", socket.display()));
        command.output().unwrap()
    };
    let push_to = format!("push to localhost:{}", address.port());
    let outer = by_engine(&address.to_string());
    assert!(outer.status.success() && !said(&outer).contains("R-01"), "{}", said(&outer));
    let line = format!(
        "k3d    container k3d-reg.localhost: {push_to}; in image names write k3d-reg.localhost:5000; networks k3d-demo\n"
    );
    assert!(said(&outer).contains(&line), "{}", said(&outer));
    let inner = by_engine("k3d-reg.localhost:5000");
    assert!(inner.status.code() == Some(10) && said(&inner).contains("R-08  FAIL"), "{}", said(&inner));
    assert!(said(&inner).contains(&format!("not on this machine; {push_to}")), "{}", said(&inner));
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = |text: &str| {
        let file = directory.path().join("file");
        fs::write(&file, text).unwrap();
        file.display().to_string()
    };
    for (flag, text, words) in [
        ("--ca", "", "has no certificate"),
        ("--ca", "-----BEGIN CERTIFICATE-----\nhunter2\n", "not a valid PEM"),
        ("--ca", "-----BEGIN CERTIFICATE-----\naHVudGVyMg==\n-----END CERTIFICATE-----\n", "cannot be read"),
    ] {
        let done = check(&["a.lan:1", flag, &file(text)]);
        let error = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.code() == Some(1) && error.contains(words), "{text}: {error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
    let gone = check(&["a.lan:1", "--registries", "/nowhere/r.yaml"]);
    assert!(String::from_utf8_lossy(&gone.stderr).contains("cannot open /nowhere/r.yaml"));
    let usage = check(&["http://a.lan:1"]);
    assert_eq!(usage.status.code(), Some(2));
    let tab = check(&["127.0.0.1:1", "--registries", &file("configs:\n\ta: hunter2\n")]);
    assert!(said(&tab).contains("F-01") && !said(&tab).contains("hunter2"), "{}", said(&tab));
}
