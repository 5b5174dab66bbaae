//! k3d: the command, or the configuration file, of a cluster with chosen names. Pure; of k3d 5.
//!
//! k3d gives each server the name of `--api-port` and every `--tls-san`. By the file the API listens at all
//! addresses; by the command k3d binds what the name means on this machine, which on Debian may be 127.0.1.1.

use std::fmt::Write as _;
use std::net::IpAddr;

use serde_json::json;

use super::node_filter::{Group, escaped, group_of, split_filters};
use crate::san::ServingName;
use crate::shell::quoted;
use crate::yaml_text::{Ordered, write};

/// What Docker and podman take behind a volume's path, without those of other systems.
const OPTIONS: [&str; 14] = [
    "ro",
    "rw",
    "z",
    "Z",
    "nocopy",
    "cached",
    "delegated",
    "consistent",
    "private",
    "rprivate",
    "shared",
    "rshared",
    "slave",
    "rslave",
];
/// k3d's names for files and directories of k3s in the nodes.
const PLACES: [&str; 6] = [
    "k3s-storage",
    "k3s-manifests",
    "k3s-manifests-custom",
    "k3s-containerd",
    "k3s-containerd-tmpl",
    "k3s-registry-config",
];

/// What a cluster shall be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCluster {
    /// Its name, without `k3d-`.
    pub name: String,
    /// How laptops call it; the first that is no IPv6 address is in the kubeconfig. At least one.
    pub names: Vec<ServingName>,
    /// Where the API is reached.
    pub api_port: u16,
    /// Of the load balancer: port here and port there.
    pub ports: Vec<(u16, u16)>,
    /// Where its images come from, besides registries of the internet.
    pub registry: Option<NewRegistry>,
    /// Nodes that run the API server; 1 unless said otherwise.
    pub servers: u16,
    /// Nodes that do not.
    pub agents: u16,
    /// Of k3s; k3d has one of its own release.
    pub image: Option<String>,
    /// Directories of this machine in the nodes.
    pub volumes: Vec<Volume>,
}

/// A registry next to the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewRegistry {
    /// One that `k3d registry create` made, as NAME:PORT.
    Use(String),
    /// One that is made with the cluster, and the port of this machine by which images are pushed; else a random one.
    Create { name: String, port: Option<u16> },
}

/// A directory of this machine in some nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// SOURCE:PATH, as Docker takes it; may end in `:ro`.
    pub volume: String,
    /// Which nodes have it; all without one.
    pub filters: Vec<String>,
}

impl NewCluster {
    /// The name that k3d writes into the kubeconfig. It publishes the API server at IPv4 addresses, and takes no other
    /// as its host.
    pub fn host(&self) -> Option<&ServingName> {
        self.names.iter().find(|name| !matches!(name, ServingName::Ip(IpAddr::V6(_))))
    }

    fn arguments(&self) -> impl Iterator<Item = String> + '_ {
        let host = self.host();
        // The host is k3d's own matter.
        let others = self.names.iter().filter(move |&name| Some(name) != host);
        others.map(|name| format!("--tls-san={name}"))
    }

    fn filters<'a>(&self, volume: &'a Volume) -> Vec<&'a str> {
        if !volume.filters.is_empty() {
            return volume.filters.iter().map(String::as_str).collect();
        }
        // `all` would be the load balancer too; a filter that fits no node is refused by k3d.
        if self.agents == 0 { vec!["server:*"] } else { vec!["server:*", "agent:*"] }
    }

    pub fn command(&self) -> String {
        let mut command = format!("k3d cluster create {}", self.name);
        if let Some(host) = self.host() {
            let _ = write!(command, " --api-port {host}:{}", self.api_port);
        }
        for (here, there) in &self.ports {
            let _ = write!(command, " -p '{here}:{there}@loadbalancer'");
        }
        if self.servers != 1 {
            let _ = write!(command, " --servers {}", self.servers);
        }
        if self.agents != 0 {
            let _ = write!(command, " --agents {}", self.agents);
        }
        if let Some(image) = &self.image {
            let _ = write!(command, " --image {}", quoted(image));
        }
        for volume in &self.volumes {
            let all = format!("{}@{}", escaped(&volume.volume), self.filters(volume).join(";"));
            let _ = write!(command, " --volume {}", quoted(&all));
        }
        match &self.registry {
            Some(NewRegistry::Use(registry)) => {
                let _ = write!(command, " --registry-use {registry}");
            }
            Some(NewRegistry::Create { name, port: None }) => {
                let _ = write!(command, " --registry-create {name}");
            }
            Some(NewRegistry::Create { name, port: Some(port) }) => {
                let _ = write!(command, " --registry-create {name}:0.0.0.0:{port}");
            }
            None => {}
        }
        for argument in self.arguments() {
            let _ = write!(command, " --k3s-arg '{argument}@server:*'");
        }
        command + "\n"
    }

    /// The same as a file for `k3d cluster create --config`.
    pub fn config(&self) -> String {
        let mut file = vec![
            ("apiVersion", json!("k3d.io/v1alpha5")),
            ("kind", json!("Simple")),
            ("metadata", json!({"name": self.name})),
        ];
        if self.servers != 1 {
            file.push(("servers", json!(self.servers)));
        }
        if self.agents != 0 {
            file.push(("agents", json!(self.agents)));
        }
        file.extend(self.image.as_ref().map(|image| ("image", json!(image))));
        if let Some(host) = self.host() {
            let port = self.api_port.to_string();
            let api = json!({"host": host.to_string(), "hostIP": "0.0.0.0", "hostPort": port});
            file.push(("kubeAPI", api));
        }
        let ports = self
            .ports
            .iter()
            .map(|(here, there)| json!({"port": format!("{here}:{there}"), "nodeFilters": ["loadbalancer"]}));
        let volumes = self
            .volumes
            .iter()
            .map(|volume| json!({"volume": volume.volume, "nodeFilters": self.filters(volume)}));
        for (field, all) in [("ports", ports.collect::<Vec<_>>()), ("volumes", volumes.collect())] {
            if !all.is_empty() {
                file.push((field, all.into()));
            }
        }
        file.extend(self.registry.as_ref().map(|registry| match registry {
            NewRegistry::Use(name) => ("registries", json!({"use": [name]})),
            NewRegistry::Create { name, port: None } => ("registries", json!({"create": {"name": name}})),
            NewRegistry::Create { name, port: Some(port) } => {
                let create = json!({"name": name, "host": "0.0.0.0", "hostPort": port.to_string()});
                ("registries", json!({"create": create}))
            }
        }));
        let arguments = self.arguments().map(|arg| json!({"arg": arg, "nodeFilters": ["server:*"]}));
        let arguments: Vec<_> = arguments.collect();
        if !arguments.is_empty() {
            file.push(("options", json!({"k3s": {"extraArgs": arguments}})));
        }
        write(&Ordered(file))
    }
}

/// A volume as k3d's `--volume` takes it, SOURCE:PATH[:OPTIONS][@FILTER].
///
/// # Errors
/// What is wrong with it, and what to write.
pub fn volume(text: &str) -> Result<Volume, String> {
    let (volume, filters) = split_filters(text)?;
    let parts: Vec<&str> = volume.split(':').collect();
    let (&[here, there] | &[here, there, _]) = &parts[..] else {
        return Err(format!("`{volume}` is not SOURCE:PATH: write such as /srv/data:/data"));
    };
    let mut options = parts.get(2).into_iter().flat_map(|options| options.split(','));
    if let Some(other) = options.find(|option| !OPTIONS.contains(option)) {
        return Err(format!(
            "`{other}` is no option of a volume: write {here}:{there}, or {here}:{there}:ro"
        ));
    }
    if here.is_empty() || !(there.starts_with('/') || PLACES.contains(&there)) {
        return Err(format!("`{volume}` needs a directory or volume here and an absolute path in the nodes"));
    }
    if here.starts_with(['.', '~']) || (here.contains('/') && !here.starts_with('/')) {
        return Err(format!(
            "`{here}` is relative, and k3d takes it from where it is started: write its absolute path"
        ));
    }
    if let Some(line) = volume.chars().find(|c| c.is_control()) {
        return Err(format!("`{}` cannot be in a path", line.escape_default()));
    }
    for filter in &filters {
        if group_of(filter)? == Group::LoadBalancer {
            return Err(format!("`{filter}` runs no pods: write server:* or agent:*"));
        }
    }
    Ok(Volume { volume, filters })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster() -> NewCluster {
        NewCluster {
            name: "edge".to_owned(),
            names: ["raspik3d", "10.0.0.7"].iter().map(|name| name.parse().unwrap()).collect(),
            api_port: 6443,
            ports: vec![(9000, 80), (8443, 443)],
            registry: Some(NewRegistry::Use("k3d-myregistry:5000".to_owned())),
            servers: 1,
            agents: 0,
            image: None,
            volumes: vec![],
        }
    }

    #[test]
    fn the_command() {
        assert_eq!(
            cluster().command(),
            "k3d cluster create edge --api-port raspik3d:6443 -p '9000:80@loadbalancer' -p \
             '8443:443@loadbalancer' \
             --registry-use k3d-myregistry:5000 --k3s-arg '--tls-san=10.0.0.7@server:*'\n"
        );
    }

    #[test]
    fn the_file() {
        let file: serde_json::Value = serde_saphyr::from_str(&cluster().config()).unwrap();
        assert_eq!(
            file,
            json!({
                "apiVersion": "k3d.io/v1alpha5", "kind": "Simple", "metadata": {"name": "edge"},
                "kubeAPI": {"host": "raspik3d", "hostIP": "0.0.0.0", "hostPort": "6443"},
                "ports": [{"port": "9000:80", "nodeFilters": ["loadbalancer"]},
                          {"port": "8443:443", "nodeFilters": ["loadbalancer"]}],
                "registries": {"use": ["k3d-myregistry:5000"]},
                "options": {"k3s": {"extraArgs": [{"arg": "--tls-san=10.0.0.7", "nodeFilters": ["server:*"]}]}},
            })
        );
        let least =
            NewCluster { ports: vec![], registry: None, names: vec!["pi".parse().unwrap()], ..cluster() };
        assert_eq!(
            least.config(),
            "apiVersion: k3d.io/v1alpha5\nkind: Simple\nmetadata:\n  name: edge\n\
             kubeAPI:\n  host: pi\n  hostIP: \"0.0.0.0\"\n  hostPort: \"6443\"\n"
        );
    }

    #[test]
    fn agents_an_image_volumes_and_a_registry_of_its_own() {
        let all = NewCluster {
            servers: 3,
            agents: 2,
            image: Some("rancher/k3s:v1.36.3-k3s1".to_owned()),
            volumes: ["/srv/it's/x:/data@agent:0", "/mnt:/mnt"].map(|text| volume(text).unwrap()).into(),
            registry: Some(NewRegistry::Create { name: "registry.localhost".to_owned(), port: Some(5000) }),
            ports: vec![],
            names: vec!["pi".parse().unwrap()],
            ..cluster()
        };
        let file: serde_json::Value = serde_saphyr::from_str(&all.config()).unwrap();
        assert_eq!(
            file,
            json!({
                "apiVersion": "k3d.io/v1alpha5", "kind": "Simple", "metadata": {"name": "edge"},
                "kubeAPI": {"host": "pi", "hostIP": "0.0.0.0", "hostPort": "6443"},
                "servers": 3, "agents": 2, "image": "rancher/k3s:v1.36.3-k3s1",
                "volumes": [{"volume": "/srv/it's/x:/data", "nodeFilters": ["agent:0"]},
                            {"volume": "/mnt:/mnt", "nodeFilters": ["server:*", "agent:*"]}],
                "registries": {"create": {"name": "registry.localhost", "host": "0.0.0.0", "hostPort": "5000"}},
            })
        );
        assert_eq!(
            all.command(),
            "k3d cluster create edge --api-port pi:6443 --servers 3 --agents 2 --image rancher/k3s:v1.36.3-k3s1 \
             --volume '/srv/it'\\''s/x:/data@agent:0' --volume '/mnt:/mnt@server:*;agent:*' \
             --registry-create registry.localhost:0.0.0.0:5000\n"
        );
        let one = NewCluster { agents: 0, ..all };
        assert!(one.command().contains("'/mnt:/mnt@server:*'"));
    }

    #[test]
    fn an_ipv6_address_is_a_name_of_the_certificate_and_not_the_host_that_k3d_publishes() {
        let names =
            |all: &[&str]| all.iter().map(|name| name.parse::<ServingName>().unwrap()).collect::<Vec<_>>();
        let both = NewCluster { names: names(&["fd00::1", "raspi", "10.0.0.7"]), ..cluster() };
        let command = both.command();
        assert!(command.contains(" --api-port raspi:6443 "), "{command}");
        assert!(
            command.contains("'--tls-san=fd00::1@server:*' --k3s-arg '--tls-san=10.0.0.7@server:*'"),
            "{command}"
        );
        assert!(both.config().contains("  host: raspi\n"), "{}", both.config());
        let only = NewCluster { names: names(&["fd00::1"]), ..cluster() };
        assert_eq!(only.host(), None);
    }

    #[test]
    fn an_at_sign_in_a_path_is_escaped_for_the_command_only() {
        let volumes = vec![volume(r"/srv/a\@b:/data@server:0").unwrap()];
        let all = NewCluster { volumes, ..cluster() };
        assert!(all.command().contains(r"--volume '/srv/a\@b:/data@server:0'"), "{}", all.command());
        let file: serde_json::Value = serde_saphyr::from_str(&all.config()).unwrap();
        assert_eq!(file["volumes"], json!([{"volume": "/srv/a@b:/data", "nodeFilters": ["server:0"]}]));
    }

    #[test]
    fn a_backslash_at_the_end_of_a_path_takes_no_node_filter_away() {
        for (text, command, of_file) in [
            (r"/a:/b\", r"--volume '/a:/b\\@server:*'", r"/a:/b\"),
            (r"/a:/b\\@server:0", r"--volume '/a:/b\\@server:0'", r"/a:/b\"),
            (r"/a\b:/c", r"--volume '/a\b:/c@server:*'", r"/a\b:/c"),
        ] {
            let all = NewCluster { volumes: vec![volume(text).unwrap()], ..cluster() };
            assert!(all.command().contains(command), "{text}: {}", all.command());
            let file: serde_json::Value = serde_saphyr::from_str(&all.config()).unwrap();
            assert_eq!(file["volumes"][0]["volume"], of_file, "{text}");
        }
    }

    #[test]
    fn which_volumes_are_taken() {
        for good in [
            "/a:/b",
            "/a:/b:ro",
            "/a:/b:shared",
            "/a:/b:ro,rslave",
            "data:/b",
            "/a:k3s-storage",
            "/a:/b@server:0;agent:*",
        ] {
            assert!(volume(good).is_ok(), "{good}");
        }
        for (bad, want) in [
            ("/a", "write such as /srv/data:/data"),
            ("/a:b", "an absolute path in the nodes"),
            ("./a:/b", "write its absolute path"),
            ("a/b:/b", "write its absolute path"),
            ("/a:/b@loadbalancer", "runs no pods"),
            ("/a:/b@agent", "write agent:* for all"),
            ("/a:/b:rx", "`rx` is no option of a volume: write /a:/b, or /a:/b:ro"),
            ("/a:/b:ro:z", "is not SOURCE:PATH"),
            ("/a:/b@server:0:direct", "for ports only: write server:0"),
            ("/a@b:/c@server:*", r"write \@ for each"),
            ("/a\n:/b", "cannot be in a path"),
        ] {
            let fault = volume(bad).unwrap_err();
            assert!(fault.contains(want), "{bad}: {fault}");
        }
    }
}
