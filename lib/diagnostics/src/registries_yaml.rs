//! k3s' `registries.yaml`: what keeps k3s from starting, and what it reads without effect. Pure.
//!
//! k3s ignores a misplaced setting, and containerd then fails at the registry with an error that does not name the
//! file. User names and passwords are never repeated. Form:
//! <https://docs.k3s.io/installation/private-registry>.

mod endpoint;
mod rewrite;
mod shape;

use crate::finding::{Code, Finding, Place, RESTART_K3S, Remedy};
use crate::k3s_config::{Setting, not_yaml};
use crate::text_file::TextFile;
use crate::yaml_node::{self, ODD_INDENT, PRINTED_QUOTES, YamlNode};

/// Where k3s reads it.
pub const FILE: &str = "/etc/rancher/k3s/registries.yaml";

/// What is wrong with the file; `is_there` says whether a file of the host can be read.
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
    if let Some(key) = root.odd_indent(&file.text) {
        found.none(key, ODD_INDENT.0, ODD_INDENT.1);
        return found.findings;
    }
    if let Some(line) = yaml_node::second_document(&file.text) {
        let what = "k3s reads only what is above the line `---`, and nothing from here on";
        found.none_at(Place::line(&file.path, line), what, "remove the line `---`, and join the two parts");
    }
    for (key, name) in named(Some(&root)).filter(|(_, name)| !["mirrors", "configs"].contains(name)) {
        let has = |field: &str| root.get(name).is_some_and(|body| body.get(field).is_some());
        let remedy = match name {
            // As k3d's first guides have it, next to nothing.
            "auths" if root.get(name).is_none_or(is_empty) => continue,
            "auths" => "write the credentials below `configs`: HOST:PORT, below it `auth`",
            _ if has("endpoint") => "indent it below `mirrors`, with all that belongs to it",
            _ if has("auth") || has("tls") => "indent it below `configs`, with all that belongs to it",
            _ => "at the top it reads `mirrors` and `configs`",
        };
        found.none(key, &format!("k3s reads no `{name}` here"), remedy);
    }
    for list in ["mirrors", "configs"] {
        found.doubles(root.get(list));
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

/// The entries of a mapping by their names; of a name that is repeated, the last, which k3s uses.
fn named(node: Option<&YamlNode>) -> impl Iterator<Item = (&YamlNode, &str)> {
    let entries = node.map_or(&[][..], YamlNode::entries);
    entries.iter().enumerate().filter_map(|(at, (key, _))| {
        let name = key.as_str()?;
        (!is_repeated(&entries[at + 1..], name)).then_some((key, name))
    })
}

fn is_empty(node: &YamlNode) -> bool {
    node.as_str().is_none() && node.items().is_empty() && node.entries().is_empty()
}

/// Whether images with this name in front of their own are those of Docker Hub below it: to be a registry's, a name
/// needs a dot or a port (<https://docs.k3s.io/installation/private-registry>). `_default` is containerd's word for all.
fn is_of_docker_hub(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(is_plain)
        && !["localhost", "configs"].contains(&name)
}

fn is_repeated(later: &[(YamlNode, YamlNode)], name: &str) -> bool {
    later.iter().any(|(key, _)| key.as_str() == Some(name))
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
        let remedy = Remedy::new(format!("{remedy}; k3s reads the file when it starts")).command(RESTART_K3S);
        self.findings.push(Finding::at(Code::RegistriesWithoutEffect, place, what).remedy(remedy));
    }

    /// A name that is repeated: k3s reads the last entry only.
    fn doubles(&mut self, node: Option<&YamlNode>) {
        let entries = node.map_or(&[][..], YamlNode::entries);
        for (at, (key, _)) in entries.iter().enumerate() {
            if let Some(name) = key.as_str().filter(|name| is_repeated(&entries[at + 1..], name)) {
                let what = format!("`{name}` is repeated further down, which replaces this one");
                self.none(key, &what, "write all of it below one of them");
            }
        }
    }

    /// A name in the quotes of a word processor, which are a part of it.
    fn printed_quotes(&mut self, key: &YamlNode, name: &str) {
        if name.contains(PRINTED_QUOTES) {
            self.none(key, endpoint::QUOTED, endpoint::QUOTES);
        }
    }

    fn mirror<'r>(&mut self, root: &'r YamlNode, key: &YamlNode, name: &'r str) -> Mirror<'r> {
        let mut mirror = Mirror { name, endpoints: Vec::new() };
        self.printed_quotes(key, name);
        if name.contains('/') {
            let what = "`mirrors` has a URL or a path as a key, which is no image's registry";
            self.none(key, what, "write the host alone, as images name it, with its port: HOST:PORT");
        } else if DOCKER_HUB.contains(&name) {
            self.none(key, "images of Docker Hub are those of `docker.io`", "write `docker.io:`");
        } else if is_of_docker_hub(name) {
            let what = format!(
                "no image is of a registry `{name}`: without a dot or a port in the name, {name}/IMAGE is of docker.io"
            );
            self.none(key, &what, "write the name as images have it, such as ghcr.io or registry:5000");
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
        self.doubles(Some(body));
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
        for node in body.list("endpoint") {
            let Some(url) = node.as_str() else { continue };
            if let Some((what, remedy)) = endpoint::fault(url) {
                self.none(node, what, &remedy);
            }
            mirror.endpoints.extend(host(url).filter(|_| !endpoint::lacks_slash(url)));
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
        self.printed_quotes(key, name);
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
        if with_other_port.is_none() && !is_host && elsewhere.is_none() {
            self.without_port(root, key, name, mirrors);
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

    /// A key without a port whose host is an endpoint with one. It may be meant for images that name the host alone.
    fn without_port(&mut self, root: &YamlNode, key: &YamlNode, name: &str, mirrors: &[Mirror<'_>]) {
        let has_entry = |host: &str| root.get("configs").is_some_and(|configs| configs.get(host).is_some());
        let is_of_host = |host: &&str| host.rsplit_once(':').is_some_and(|(host, _)| host == name);
        // Without an endpoint a registry is its own.
        let own = mirrors.iter().filter(|mirror| mirror.endpoints.is_empty()).map(|mirror| mirror.name);
        let mut hosts = mirrors.iter().flat_map(|mirror| mirror.endpoints.iter().copied()).chain(own);
        if let Some(host) = hosts.find(is_of_host).filter(|host| !has_entry(host)) {
            let what =
                format!("`configs` has `{name}`, and the endpoint is `{host}`: k3s does not use it there");
            self.none(
                key,
                &what,
                &format!("if it is meant for that endpoint, write its port too: `{host}:`"),
            );
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

/// A file that the setting `private-registry` names, and that is not there: k3s then does without any.
pub fn missing(named: &Setting) -> Finding {
    let Setting { value: path, origin } = named;
    let what =
        format!("private-registry names {path}, which does not exist, so k3s has no registry settings");
    let remedy = Remedy::new(format!("write {path}, or correct its name; k3s reads the file when it starts"));
    let finding = Finding::at(Code::RegistriesWithoutEffect, origin.clone(), &what);
    finding.remedy(remedy.command(RESTART_K3S))
}

/// Names that files next to it have, and that k3s does not read.
pub const MISNAMED: [&str; 4] = ["registries.yml", "registry.yaml", "registry.yml", "registries.json"];

/// A file next to it whose name k3s does not read.
pub fn misnamed(path: &str) -> Finding {
    let place = Place::file(path);
    let message = format!("{place}: k3s reads {FILE} only");
    let remedy = Remedy::new(format!("rename it to {FILE}; k3s reads the file when it starts"));
    let remedy = remedy.command(format!("sudo mv {path} {FILE}")).command(RESTART_K3S);
    Finding::new(Code::RegistriesWithoutEffect, message).saw(place, "not read").remedy(remedy)
}

/// Host and port of an endpoint; `None` for what is none. Without a scheme k3s takes https.
pub(crate) fn host(url: &str) -> Option<&str> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = rest.split('/').next()?;
    (!host.is_empty() && !host.contains(['@', ' '])).then_some(host)
}

#[cfg(test)]
mod tests;
