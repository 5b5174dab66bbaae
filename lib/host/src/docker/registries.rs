//! Containers of this machine that run a registry: those that k3d made, and those of the usual image.

use std::net::{IpAddr, Ipv4Addr};

use weaver_diagnostics::k3d::cluster::PublishedPort;
use weaver_diagnostics::k3d::engine::EngineProgram;
use weaver_diagnostics::k3d::registry::{PORT, RegistryContainer};

use super::shown::{Listed, ListedPort};
use super::{Engine, EngineError};

impl Engine {
    /// The registries by name, stopped ones too.
    ///
    /// # Errors
    /// The engine does not answer as it should.
    pub async fn registries(&self) -> Result<Vec<RegistryContainer>, EngineError> {
        let listed: Vec<Listed> =
            self.questions().get("/containers/json?all=true").await.map_err(|error| self.failed(&error))?;
        let of_engine = |one: RegistryContainer| RegistryContainer { engine: self.program(), ..one };
        let mut found: Vec<_> = listed.iter().filter_map(container).map(of_engine).collect();
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }
}

/// `None` for one that runs no registry.
fn container(listed: &Listed) -> Option<RegistryContainer> {
    let is_of_k3d = listed.label("k3d.role") == Some("registry");
    if !is_of_k3d && !listed.image.as_deref().is_some_and(is_registry) {
        return None;
    }
    let ports = listed.ports.as_deref().unwrap_or_default();
    // k3d says `k3s` in this one.
    let said = listed.label("k3s.registry.port.internal").and_then(|port| port.parse().ok());
    let networks = listed.network_settings.as_ref().and_then(|settings| settings.networks.as_ref());
    let mut networks: Vec<_> = networks
        .into_iter()
        .flat_map(|networks| networks.keys().filter(|network| network.starts_with("k3d-")).cloned())
        .collect();
    networks.sort();
    let mut published: Vec<_> = ports.iter().filter_map(published).collect();
    published.sort_by_key(|port| (port.inside, port.at));
    Some(RegistryContainer {
        name: listed.name().to_owned(),
        is_running: listed.state.as_deref() == Some("running"),
        is_of_k3d,
        inside: said.or_else(|| published.first().map(|port| port.inside)).unwrap_or(PORT),
        published,
        networks,
        // Only the connection says whose it is.
        engine: EngineProgram::default(),
    })
}

/// `registry:2`, with or without a registry in front of it.
fn is_registry(image: &str) -> bool {
    let last = image.rsplit('/').next().unwrap_or(image);
    last.split([':', '@']).next() == Some("registry")
}

fn published(port: &ListedPort) -> Option<PublishedPort> {
    let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let ip = port.ip.as_deref().filter(|ip| !ip.is_empty()).map_or(Some(any), |ip| ip.parse().ok())?;
    Some(PublishedPort { inside: port.private_port, at: (ip, port.public_port?).into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// As Docker's list shows it.
    fn listed(image: &str, labels: &serde_json::Value) -> Listed {
        serde_json::from_value(json!({
            "Names": ["/k3d-registry.localhost"], "Image": image, "State": "running", "Labels": labels,
            "Ports": [
                {"IP": "::", "PrivatePort": 5000, "PublicPort": 5111, "Type": "tcp"},
                {"IP": "0.0.0.0", "PrivatePort": 5000, "PublicPort": 5111, "Type": "tcp"},
                {"PrivatePort": 5001, "Type": "tcp"},
            ],
            "NetworkSettings": {"Networks": {"bridge": {}, "k3d-demo": {}}},
        }))
        .unwrap()
    }

    #[test]
    fn a_registry_of_k3d_has_both_its_ports() {
        let labels = json!({"k3d.role": "registry", "k3s.registry.port.internal": "5000"});
        let container = container(&listed("docker.io/library/registry:2", &labels)).unwrap();
        assert_eq!((container.name.as_str(), container.inside), ("k3d-registry.localhost", 5000));
        assert_eq!(container.here().as_deref(), Some("localhost:5111"));
        assert_eq!(container.networks, ["k3d-demo"]);
        assert!(container.is_running && container.is_of_k3d);
    }

    #[test]
    fn a_registry_of_podman_that_is_about_to_start_is_one_that_does_not_run() {
        let mut starting = listed("docker.io/library/registry:2", &json!({}));
        starting.state = Some("initialized".to_owned());
        starting.ports = None;
        let container = container(&starting).unwrap();
        assert!(!container.is_running && container.published.is_empty());
    }

    #[test]
    fn which_containers_run_a_registry() {
        for (image, role, want) in [
            ("registry:2", "", Some(false)),
            ("mirror.lan:5000/library/registry@sha256:00", "", Some(false)),
            ("zot:latest", "registry", Some(true)),
            ("rancher/k3s:v1.36.3-k3s1", "server", None),
            ("registry-ui:2", "", None),
        ] {
            let found = container(&listed(image, &json!({"k3d.role": role})));
            assert_eq!(found.map(|found| found.is_of_k3d), want, "{image}");
        }
    }
}
