use super::*;
use proptest::prelude::*;

fn found(text: &str) -> Vec<(Code, String)> {
    let findings = lint(&TextFile::new("/r.yaml", text), |path| path == "/etc/ca.crt");
    findings.into_iter().map(|finding| (finding.code, finding.message)).collect()
}

#[test]
fn what_k3s_reads_is_left_alone() {
    for text in [
        "",
        "mirrors:\n  docker.io:\n    endpoint: [\"https://mirror.lan:5000/v2\"]\n    rewrite: {\"(.*)\": \"hub/$1\"}\n\
         configs:\n  \"mirror.lan:5000\":\n    auth: {username: u, password: hunter2}\n    tls: {ca_file: /etc/ca.crt}\n",
        "configs:\n  ghcr.io:\n    auth: {token: hunter2}\n",
        "mirrors:\n  \"*\":\n    endpoint:\n    - \"http://registry.lan:5000\"\n",
        "mirrors:\n  docker.io:\n",
        "mirrors:\n  registry.lan: {endpoint: [\"http://a.lan\"]}\nconfigs: {}\nauths: {}\n",
        "mirrors:\n  localhost: {endpoint: [\"http://a.lan:5000\"]}\n  _default: {endpoint: [\"http://a.lan:5000\"]}\n",
        "mirrors:\n  \"*\":\n    endpoint: [\"https://registry.example.com:5000\"]\nconfigs:\n  \"docker.io\":\n  \"*\":\n    tls: {insecure_skip_verify: true}\n",
        "configs:\n  a.lan:\n    auth: {username: 1234, password: 0123}\n    tls: {insecure_skip_verify: yes, ca_file:}\n",
        "mirrors:\n  docker.io: {endpoint: [\"https://a.lan:5000\"]}\nconfigs:\n  a.lan: {}\n  \"a.lan:5000\": {}\n",
        "mirrors:\n  docker.io: {endpoint: [\"https://a.lan:5000\"]}\n  a.lan:\nconfigs:\n  a.lan: {auth: {username: u}}\n",
        "mirrors:\n  a.lan:\n    endpoint: [a.lan/x]\nconfigs:\n  a.lan:\n    auth: {username: u}\n",
    ] {
        assert_eq!(found(text), [], "{text}");
    }
}

#[test]
fn what_has_no_effect_is_named_with_its_line() {
    for (text, want) in [
        (
            "mirrors:\n  abc.local:\n    endpoint: [\"https://abc.local:443\"]\n  configs:\n    \"abc.local:443\":\n      auth: {password: hunter2}\n",
            "/r.yaml:4:3: `configs` is indented below `mirrors`",
        ),
        (
            "mirrors:\n  docker.io:\n    endpoint: [\"https://192.168.1.59/proxy\"]\nconfigs:\n  docker.io:\n    tls: {insecure_skip_verify: true}\n",
            "/r.yaml:5:3: `configs` names the mirrored registry `docker.io`, whose images come from 192.168.1.59",
        ),
        (
            "mirrors:\n  docker.io:\n    endpoint: [192.168.1.59/proxy]\nconfigs:\n  docker.io:\n    tls: {}\n",
            "/r.yaml:5:3: `configs` names the mirrored registry `docker.io`, whose images come from 192.168.1.59",
        ),
        ("mirrors:\n  \"https://a.lan:5000\": {}\n", "/r.yaml:2:3: `mirrors` has a URL or a path"),
        ("mirrors:\n  a.lan/library: {}\n", "/r.yaml:2:3: `mirrors` has a URL or a path"),
        (
            "mirrors:\n  registry-1.docker.io: {}\n",
            "/r.yaml:2:3: images of Docker Hub are those of `docker.io`",
        ),
        (
            "mirrors:\n  a.lan: {endpoint: [\"https://<registry-url>\"]}\n",
            "/r.yaml:2:22: this endpoint has a character that no host has",
        ),
        (
            "mirrors:\n  a.lan: {endpoint: [\"http://harbor.${domain}\"]}\n",
            "/r.yaml:2:22: this endpoint has a character that no host has",
        ),
        (
            "mirrors:\n  a.lan: {endpoint: [\"http://a.lan:5000 \"]}\n",
            "/r.yaml:2:22: an endpoint has a space",
        ),
        ("configs:\n  a.lan: {auth: {user: hunter2}}\n", "/r.yaml:2:18: `auth` has no `user`"),
        ("configs:\n  a.lan: {tls: {caFile: /etc/ca.crt}}\n", "/r.yaml:2:17: `tls` has no `caFile`"),
        ("configs:\n  a.lan: {username: hunter2}\n", "/r.yaml:2:11: an entry of `configs` has no `username`"),
        (
            "mirrors:\n  docker.io: {endpoint: [\"https://a.lan\"]}\nconfigs:\n  \"a.lan:443\": {}\n",
            "/r.yaml:4:3: `configs` has `a.lan:443` and the endpoint is `a.lan`",
        ),
        ("mirrors:\n  a.lan:\n    tls: {}\n", "/r.yaml:3:5: a mirror has no `tls`"),
        (
            "mirrors:\n  a.lan:\n    endpoint: [a.lan]\n    rewrite: {\"^rancher/(.*\": \"p/$1\"}\n",
            "/r.yaml:4:15: this pattern of `rewrite` is no regular expression of Go, and rewrites nothing: a group has no end",
        ),
        (
            "mirrors:\n  a.lan: {endpoint: [a.lan]}\n---\nconfigs:\n  a.lan: {auth: {password: hunter2}}\n",
            "/r.yaml:4: k3s reads only what is above",
        ),
        (
            "mirrors:\n  docker.io: {endpoint: [\"https://a.lan:5000\"]}\nconfigs:\n  a.lan: {auth: {password: hunter2}}\n",
            "/r.yaml:4:3: `configs` has `a.lan`, and the endpoint is `a.lan:5000`",
        ),
        (
            "mirrors:\n  \"a.lan:5000\":\nconfigs:\n  a.lan: {tls: {insecure_skip_verify: true}}\n",
            "/r.yaml:4:3: `configs` has `a.lan`, and the endpoint is `a.lan:5000`",
        ),
        (
            "mirrors:\n  docker.io: {endpoint: [a.lan]}\n  docker.io: {endpoint: [b.lan]}\n",
            "/r.yaml:2:3: `docker.io` is repeated further down",
        ),
        (
            "mirrors:\n  a.lan:\n    endpoint: [a.lan]\n    endpoint: [b.lan]\n",
            "/r.yaml:3:5: `endpoint` is repeated further down",
        ),
        (
            "mirrors:\n  “docker.io”: {endpoint: [a.lan]}\n",
            "/r.yaml:2:3: these quotes are those of a word processor",
        ),
        ("mirrors:\n  a.lan: {endpoint: [\"htp://a.lan\"]}\n", "/r.yaml:2:22: an endpoint begins with"),
        // k3s#2156: pasted from a web page.
        (
            "mirrors:\n  docker.io:\n\u{a0}\u{a0}\u{a0}\u{a0}endpoint:\n      - a.lan\n",
            "/r.yaml:3:1: the blanks here are those of a web page",
        ),
        ("auths:\n  a.lan: {password: hunter2}\n", "/r.yaml:1:1: k3s reads no `auths` here"),
        ("registries: {}\n", "/r.yaml:1:1: k3s reads no `registries` here"),
        (
            "mirrors:\n  ghcr: {endpoint: [\"https://ghcr.io\"]}\n",
            "/r.yaml:2:3: no image is of a registry `ghcr`",
        ),
        ("configs:\n  https://a.lan: {}\n", "/r.yaml:2:3: `configs` has a URL"),
        ("configs:\n  a.lan:\n    tls: {ca_file: /gone.crt}\n", "/r.yaml:3:20: ca_file names /gone.crt"),
    ] {
        let found = found(text);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert_eq!(found[0].0, Code::RegistriesWithoutEffect);
        assert!(found[0].1.starts_with(want), "{text}: {found:?}");
        assert!(!found[0].1.contains("hunter2"));
    }
}

#[test]
fn what_is_at_the_top_belongs_below_one_of_the_two() {
    for (text, want) in [
        ("mirrors:\n\"a.lan:5000\":\n    endpoint: [\"http://a.lan:5000\"]\n", "indent it below `mirrors`"),
        ("configs:\na.lan:\n    auth: {username: u}\n", "indent it below `configs`"),
        ("registries: {}\n", "at the top it reads `mirrors` and `configs`"),
    ] {
        let found = lint(&TextFile::new("/r.yaml", text), |_| true).remove(0);
        let explain = found.remedy.unwrap().explain;
        assert!(explain.starts_with(want), "{text}: {explain}");
    }
}

#[test]
fn a_tab_keeps_k3s_from_starting() {
    let found = found("mirrors:\n  \"registry.lan:5000\":\n\tendpoint:\n");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].0, Code::K3sConfigInvalid);
    assert!(found[0].1.starts_with("/r.yaml:3"), "{}", found[0].1);
}

#[test]
fn a_named_file_that_is_missing_is_named_with_what_names_it() {
    let origin = Place::line("/c.yaml", 2);
    let found = missing(&Setting { value: "/my.yaml".to_owned(), origin });
    assert!(found.message.starts_with("/c.yaml:2: private-registry names /my.yaml, which does not exist"));
    assert_eq!(found.code, Code::RegistriesWithoutEffect);
}

proptest! {
    #[test]
    fn never_panics(text in "\\PC*|(mirrors:|configs:|  a.lan:|    endpoint: |    tls: |- |https://a|\n){0,20}") {
        let _ = lint(&TextFile::new("/r", text), |_| false);
    }
}
