//! Registries in containers next to k3d: where each is reached from this machine, and where from a cluster.

use std::fmt;
use std::net::SocketAddr;

use serde::Serialize;

use super::cluster::PublishedPort;
use super::engine::EngineProgram;
use crate::shell::quoted;

/// The port of a registry in its container, unless it was configured otherwise.
pub const PORT: u16 = 5000;

/// A container that runs a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryContainer {
    /// By which containers of its networks find it.
    pub name: String,
    pub is_running: bool,
    /// k3d made it, and so writes it into the registries.yaml of a cluster.
    pub is_of_k3d: bool,
    /// Where it listens in the container.
    pub inside: u16,
    pub published: Vec<PublishedPort>,
    /// The networks of k3d's clusters that it is in.
    pub networks: Vec<String>,
    /// The program that shows it.
    pub engine: EngineProgram,
}

/// From where a name and a port reach a registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReachedFrom {
    Here,
    /// The nodes of k3d.
    Nodes,
}

impl RegistryContainer {
    /// Where this machine reaches it.
    pub fn here(&self) -> Option<String> {
        let at = self.published.iter().find(|port| port.inside == self.inside)?.at;
        Some(if at.ip().is_unspecified() || at.ip().is_loopback() {
            format!("localhost:{}", at.port())
        } else {
            at.to_string()
        })
    }

    /// Where the nodes of k3d reach it.
    pub fn in_nodes(&self) -> String {
        format!("{}:{}", self.name, self.inside)
    }

    /// From where a host and a port reach it, if they mean it at all; `is_here`: the host leads to
    /// this machine.
    pub fn viewpoint(&self, host: &str, port: u16, is_here: bool) -> Option<ReachedFrom> {
        let is_published = self.port_here() == Some(port);
        let is_name = self.name == host || self.name.strip_prefix("k3d-") == Some(host);
        match (is_name || is_here, is_published) {
            (true, true) => Some(ReachedFrom::Here),
            // 5000 of this machine may be anything.
            (true, false) if port == self.inside && (is_name || self.is_of_k3d) => Some(ReachedFrom::Nodes),
            _ => None,
        }
    }

    fn port_here(&self) -> Option<u16> {
        self.published.iter().find(|port| port.inside == self.inside).map(|port| port.at.port())
    }

    /// Its addresses from either, for a program.
    pub fn summary(&self) -> RegistrySummary<'_> {
        RegistrySummary {
            name: &self.name,
            running: self.is_running,
            made_by_k3d: self.is_of_k3d,
            push_to: self.here(),
            published: self.published.iter().map(|port| port.at).collect(),
            in_image_names: self.in_nodes(),
            networks: &self.networks,
        }
    }
}

/// What a program reads of a [`RegistryContainer`], as JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RegistrySummary<'a> {
    name: &'a str,
    running: bool,
    made_by_k3d: bool,
    push_to: Option<String>,
    published: Vec<SocketAddr>,
    in_image_names: String,
    networks: &'a [String],
}

impl fmt::Display for RegistryContainer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, is_running, networks, engine, .. } = self;
        if !is_running {
            return write!(f, "container {name}: it does not run ({engine} start {})", quoted(name));
        }
        match self.here() {
            Some(here) => write!(f, "container {name}: push to {here}")?,
            None => write!(f, "container {name}: no port is published on this machine")?,
        }
        write!(f, "; in image names write {}", self.in_nodes())?;
        if networks.is_empty() {
            f.write_str("; it is in the network of no cluster yet")
        } else {
            write!(f, "; networks {}", networks.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registry() -> RegistryContainer {
        RegistryContainer {
            name: "k3d-registry.localhost".to_owned(),
            is_running: true,
            is_of_k3d: true,
            inside: PORT,
            published: vec![PublishedPort { inside: PORT, at: ([0, 0, 0, 0], 5111).into() }],
            networks: vec!["k3d-demo".to_owned()],
            engine: EngineProgram::Docker,
        }
    }

    #[test]
    fn both_sides_are_named() {
        assert_eq!(
            registry().to_string(),
            "container k3d-registry.localhost: push to localhost:5111; in image names write \
             k3d-registry.localhost:5000; networks k3d-demo"
        );
        let at = |ip: [u8; 4]| vec![PublishedPort { inside: PORT, at: (ip, 5111).into() }];
        let one = RegistryContainer { published: at([192, 168, 1, 7]), ..registry() };
        assert_eq!(one.here().as_deref(), Some("192.168.1.7:5111"));
        let hidden = RegistryContainer { published: Vec::new(), networks: Vec::new(), ..registry() };
        assert!(
            hidden.to_string().contains("no port is published") && hidden.to_string().contains("no cluster")
        );
        let stopped = RegistryContainer { is_running: false, ..registry() };
        for (engine, want) in [
            (EngineProgram::Docker, "(docker start k3d-registry.localhost)"),
            (EngineProgram::Podman, "(podman start k3d-registry.localhost)"),
            (EngineProgram::PodmanOfRoot, "(sudo podman start k3d-registry.localhost)"),
        ] {
            let stopped = RegistryContainer { engine, ..stopped.clone() };
            assert!(stopped.to_string().ends_with(want), "{stopped}");
        }
    }

    #[test]
    fn which_side_is_meant() {
        for (host, port, is_here, want) in [
            ("k3d-registry.localhost", 5111, false, Some(ReachedFrom::Here)),
            ("k3d-registry.localhost", 5000, false, Some(ReachedFrom::Nodes)),
            ("registry.localhost", 5000, true, Some(ReachedFrom::Nodes)),
            ("localhost", 5111, true, Some(ReachedFrom::Here)),
            ("localhost", 5000, true, Some(ReachedFrom::Nodes)),
            ("raspi.lan", 5111, false, None),
            ("localhost", 80, true, None),
            ("k3d-registry.localhost", 80, false, None),
        ] {
            assert_eq!(registry().viewpoint(host, port, is_here), want, "{host}:{port}");
        }
        let other = RegistryContainer { is_of_k3d: false, name: "cache".to_owned(), ..registry() };
        assert_eq!(other.viewpoint("localhost", 5000, true), None);
        assert_eq!(other.viewpoint("cache", 5000, false), Some(ReachedFrom::Nodes));
    }
}
