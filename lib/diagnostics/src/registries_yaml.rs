//! k3s' `registries.yaml`: what keeps k3s from starting, and what it reads without effect. Pure.
//!
//! k3s ignores a misplaced setting, and containerd then fails at the registry with an error that does not name the
//! file. User names and passwords are never repeated. Form:
//! <https://docs.k3s.io/installation/private-registry>.

mod rewrite;
mod shape;

use crate::finding::{Code, Finding, Place, RESTART_K3S, Remedy};
use crate::k3s_config::not_yaml;
use crate::text_file::TextFile;
use crate::yaml_node::{self, YamlNode};

/// Where k3s reads it.
pub const FILE: &str = "/etc/rancher/k3s/registries.yaml";

/// What is wrong with the file; `is_there` says whether a file of the host can be read.
#[must_use]
pub fn lint(file: &TextFile, is_there: impl Fn(&str) -> bool) -> Vec<Finding> {
    let root = match yaml_node::parse(&file.text) {
        Ok(root) => root,
        Err(error) => {
            let place = Place { file: file.path.clone(), line: error.line, column: error.column };
            return vec![not_yaml(place, &error.message)];
        }
    };
    let mut found = RegistriesLint { file, findings: shape::lint(file, &root) };
    if !found.findings.is_empty() {
        // k3s reads nothing of it.
        return found.findings;
    }
    if let Some(line) = yaml_node::second_document(&file.text) {
        let what = "k3s reads only what is above the line `---`, and nothing from here on";
        found.none_at(Place::line(&file.path, line), what, "remove the line `---`, and join the two parts");
    }
    for (key, name) in named(Some(&root)).filter(|(_, name)| !["mirrors", "configs", "auths"].contains(name))
    {
        found.none(
            key,
            &format!("k3s reads no `{name}` here"),
            "at the top it reads `mirrors` and `configs`",
        );
    }
    let mirrors: Vec<Mirror<'_>> =
        named(root.get("mirrors")).map(|(key, name)| found.mirror(&root, key, name)).collect();
    for (key, name) in named(root.get("configs")) {
        found.config(&root, key, name, &mirrors, &is_there);
    }
    found.findings
}

/// Whose images are fetched elsewhere, and where: hosts of the endpoints that are URLs.
struct Mirror<'a> {
    name: &'a str,
    endpoints: Vec<&'a str>,
}

/// The entries of a mapping by their names.
fn named(node: Option<&YamlNode>) -> impl Iterator<Item = (&YamlNode, &str)> {
    node.map_or(&[][..], YamlNode::entries).iter().filter_map(|(key, _)| Some((key, key.as_str()?)))
}

struct RegistriesLint<'a> {
    file: &'a TextFile,
    findings: Vec<Finding>,
}

impl RegistriesLint<'_> {
    fn none(&mut self, at: &YamlNode, what: &str, remedy: &str) {
        self.none_at(Place::at(&self.file.path, at.line, at.column), what, remedy);
    }

    fn none_at(&mut self, place: Place, what: &str, remedy: &str) {
        let message = format!("{place}: {what}");
        let remedy = Remedy::new(format!("{remedy}; k3s reads the file when it starts")).command(RESTART_K3S);
        let finding = Finding::new(Code::RegistriesWithoutEffect, message);
        self.findings.push(finding.saw(place, what).remedy(remedy));
    }

    fn mirror<'r>(&mut self, root: &'r YamlNode, key: &YamlNode, name: &'r str) -> Mirror<'r> {
        let mut mirror = Mirror { name, endpoints: Vec::new() };
        if name.contains('/') {
            let what = "`mirrors` has a URL or a path as a key, which is no image's registry";
            self.none(key, what, "write the host alone, as images name it, with its port: HOST:PORT");
        } else if DOCKER_HUB.contains(&name) {
            self.none(key, "images of Docker Hub are those of `docker.io`", "write `docker.io:`");
        }
        let Some(body) = root.get("mirrors").and_then(|mirrors| mirrors.get(name)) else { return mirror };
        if name == "configs" {
            self.none(
                key,
                "`configs` is indented below `mirrors`, so k3s reads it as a registry of that name",
                "move it to the first column",
            );
            return mirror;
        }
        for (key, field) in named(Some(body)).filter(|(_, field)| !["endpoint", "rewrite"].contains(field)) {
            let remedy = "a mirror has `endpoint` and `rewrite`; credentials and TLS are in `configs`, by the endpoint's host";
            self.none(key, &format!("a mirror has no `{field}`"), remedy);
        }
        for (key, pattern) in named(body.get("rewrite")) {
            if let Some(why) = rewrite::fault(pattern) {
                let what = format!(
                    "this pattern of `rewrite` is no regular expression of Go, and rewrites nothing: {why}"
                );
                self.none(key, &what, "correct the regular expression, in the syntax of Go");
            }
        }
        for node in body.get("endpoint").map_or(&[][..], YamlNode::items) {
            let Some(url) = node.as_str() else { continue };
            if url.contains(char::is_whitespace) {
                self.none(node, "an endpoint has a space in it, so k3s ignores it", "remove the space");
            } else if is_unfilled(url) {
                let what = "this endpoint has a character that no host has: a part of it was never filled in";
                self.none(node, what, "write the address of the registry: https://HOST:PORT");
            }
            mirror.endpoints.extend(host(url));
        }
        mirror
    }

    fn config(
        &mut self,
        root: &YamlNode,
        key: &YamlNode,
        name: &str,
        mirrors: &[Mirror<'_>],
        is_there: &impl Fn(&str) -> bool,
    ) {
        if name.contains('/') {
            self.none(
                key,
                "`configs` has a URL or a path as a key",
                "write the host alone, with its port: HOST:PORT",
            );
        }
        let is_host = name == "*" || mirrors.iter().any(|mirror| mirror.endpoints.contains(&name));
        let elsewhere = mirrors.iter().find(|mirror| mirror.name == name).map(|mirror| &mirror.endpoints);
        if let Some(endpoint) = elsewhere.filter(|_| !is_host).and_then(|endpoints| endpoints.first()) {
            self.none(
                key,
                &format!("`configs` names the mirrored registry `{name}`, whose images come from {endpoint}: it is not used there"),
                &format!("write the endpoint's host as the key: `{endpoint}:`"),
            );
        }
        let plain = |host: &'_ str| host.trim_end_matches(":443").trim_end_matches(":80").to_owned();
        let mut endpoints = mirrors.iter().flat_map(|mirror| &mirror.endpoints);
        let with_other_port = endpoints.find(|endpoint| **endpoint != name && plain(endpoint) == plain(name));
        if let Some(endpoint) = with_other_port.filter(|_| !is_host && elsewhere.is_none()) {
            self.none(
                key,
                &format!("`configs` has `{name}` and the endpoint is `{endpoint}`: k3s compares them as they are written"),
                &format!("write the endpoint's host as the key: `{endpoint}:`"),
            );
        }
        self.fields(root.get("configs").and_then(|configs| configs.get(name)));
        let Some(tls) = root.get("configs").and_then(|configs| configs.get(name)?.get("tls")) else { return };
        for field in ["ca_file", "cert_file", "key_file"] {
            let Some(node) = tls.get(field) else { continue };
            if let Some(path) = node.as_str().filter(|path| !path.is_empty() && !is_there(path)) {
                self.none(
                    node,
                    &format!("{field} names {path}, which cannot be read"),
                    "copy the file to that path, or correct it",
                );
            }
        }
    }

    /// Fields of credentials and of TLS that k3s does not know.
    fn fields(&mut self, body: Option<&YamlNode>) {
        let parts = [("auth", &AUTH[..]), ("tls", &TLS[..])];
        for (key, name) in named(body).filter(|(_, name)| !parts.iter().any(|(part, _)| part == name)) {
            self.none(key, &format!("an entry of `configs` has no `{name}`"), "it has `auth` and `tls`");
        }
        for (part, known) in parts {
            let fields = named(body.and_then(|body| body.get(part)));
            for (key, name) in fields.filter(|(_, name)| !known.contains(name)) {
                let what = format!("`{part}` has no `{name}`");
                self.none(key, &what, &format!("it has {}", known.join(", ")));
            }
        }
    }
}

/// Names of Docker Hub's own servers, which no image names.
const DOCKER_HUB: [&str; 4] =
    ["registry-1.docker.io", "hub.docker.com", "registry.hub.docker.com", "index.docker.io"];
const AUTH: [&str; 6] = ["username", "password", "auth", "token", "identity_token", "identitytoken"];
const TLS: [&str; 4] = ["ca_file", "cert_file", "key_file", "insecure_skip_verify"];

/// A file next to it whose name k3s does not read.
#[must_use]
pub fn misnamed(path: &str) -> Finding {
    let place = Place::file(path);
    let message = format!("{place}: k3s reads {FILE} only");
    let remedy = Remedy::new(format!("rename it to {FILE}; k3s reads the file when it starts"));
    let remedy = remedy.command(format!("sudo mv {path} {FILE}")).command(RESTART_K3S);
    Finding::new(Code::RegistriesWithoutEffect, message).saw(place, "not read").remedy(remedy)
}

/// Whether a part of a template was left as it was: `${name}`, `{{ name }}`, `<name>`.
fn is_unfilled(url: &str) -> bool {
    url.contains(['<', '>', '{', '}', '$'])
}

/// Host and port of an endpoint; `None` for what is none. Without a scheme k3s takes https.
pub(crate) fn host(url: &str) -> Option<&str> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = rest.split('/').next()?;
    (!host.is_empty() && !host.contains(['@', ' '])).then_some(host)
}

#[cfg(test)]
mod tests {
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
            "mirrors:\n  \"*\":\n    endpoint: [\"https://registry.example.com:5000\"]\nconfigs:\n  \"docker.io\":\n  \"*\":\n    tls: {insecure_skip_verify: true}\n",
            "configs:\n  a.lan:\n    auth: {username: 1234, password: 0123}\n    tls: {insecure_skip_verify: yes, ca_file:}\n",
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
            (
                "configs:\n  a.lan: {username: hunter2}\n",
                "/r.yaml:2:11: an entry of `configs` has no `username`",
            ),
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
            ("registries: {}\n", "/r.yaml:1:1: k3s reads no `registries` here"),
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
    fn a_tab_keeps_k3s_from_starting() {
        let found = found("mirrors:\n  \"registry.lan:5000\":\n\tendpoint:\n");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, Code::K3sConfigInvalid);
        assert!(found[0].1.starts_with("/r.yaml:3"), "{}", found[0].1);
    }

    proptest! {
        #[test]
        fn never_panics(text in "\\PC*|(mirrors:|configs:|  a.lan:|    endpoint: |    tls: |- |https://a|\n){0,20}") {
            let _ = lint(&TextFile::new("/r", text), |_| false);
        }
    }
}
