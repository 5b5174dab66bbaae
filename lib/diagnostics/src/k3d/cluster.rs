//! The clusters of k3d on a machine, from what the container engine shows of their containers.
//!
//! k3d keeps the cluster's token in the labels, the environment and the arguments of its containers: no type here
//! has a field for it.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use super::engine::EngineProgram;
use crate::{
    finding::Place,
    k3s_config::{self, Effective},
    k3s_unit::{self, Flag},
};

/// Port of the API server inside a container, and on the machine unless another was chosen.
pub const API: u16 = 6443;
/// The arguments of k3s that are kept.
const KEPT: [&str; 5] = ["tls-san", "node-name", "node-ip", "disable-agent", "https-listen-port"];
/// What k3d adds to the names by itself: any address.
const ANY: [&str; 2] = ["0.0.0.0", "::"];
/// The ranges of networks that are not part of the internet, each with the length of its prefix: RFC 1918, RFC 6598, RFC
/// 4193 and this machine's own.
const PRIVATE: [(IpAddr, u8); 7] = [
    (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 0)), 8),
    (IpAddr::V4(Ipv4Addr::new(172, 16, 0, 0)), 12),
    (IpAddr::V4(Ipv4Addr::new(192, 168, 0, 0)), 16),
    (IpAddr::V4(Ipv4Addr::new(100, 64, 0, 0)), 10),
    (IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), 8),
    (IpAddr::V6(Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0)), 7),
    (IpAddr::V6(Ipv6Addr::LOCALHOST), 128),
];

/// What a container does in its cluster, by k3d's label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContainerRole {
    Server,
    LoadBalancer,
    /// An agent, a registry, a tool.
    Other,
}

/// A port of a container that the engine publishes on the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublishedPort {
    pub inside: u16,
    /// Where it listens, which may be any address.
    pub at: SocketAddr,
}

/// The address of this machine in a network of the engine, and how many bits of it are the network's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gateway {
    pub ip: IpAddr,
    pub prefix: u8,
}

impl Gateway {
    /// Whether the whole network is private: else the webhook listens on each address of this machine, or lets the
    /// internet in.
    pub fn is_private(self) -> bool {
        PRIVATE.iter().any(|&(range, bits)| {
            let is_inside = match (self.ip, range) {
                (IpAddr::V4(ip), IpAddr::V4(range)) => (u32::from(ip) ^ u32::from(range)) >> (32 - bits) == 0,
                (IpAddr::V6(ip), IpAddr::V6(range)) => {
                    (u128::from(ip) ^ u128::from(range)) >> (128 - bits) == 0
                }
                _ => false,
            };
            is_inside && self.prefix >= bits
        })
    }
}

/// A container of k3d.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    pub name: String,
    pub cluster: String,
    pub role: ContainerRole,
    /// The engine's word, such as `running` or `exited`.
    pub state: String,
    /// The engine's sentence, such as `Up 3 minutes`.
    pub status: String,
    /// How often the engine has started it again.
    pub restarts: u32,
    /// What k3s is given.
    pub flags: Vec<Flag>,
    pub published: Vec<PublishedPort>,
    /// This machine in the cluster's network, as the engine names it.
    pub gateway: Option<Gateway>,
    /// The engine is that of a user without rights. Its networks are in a name space of its own, where this machine has
    /// no address; and it can name any address of this machine, to have the webhook listen there.
    pub is_of_user: bool,
    /// The program that shows it.
    pub engine: EngineProgram,
}

/// The arguments that matter here, of all that a container's k3s is given.
pub fn flags(container: &str, arguments: &[String]) -> Vec<Flag> {
    let origin = Place::file(format!("arguments of {container}"));
    let mut flags = k3s_unit::flags_of(arguments, &origin);
    flags.retain(|flag| KEPT.contains(&flag.name.as_str()));
    flags
}

/// The API server in a cluster of `--network host`: nothing is published there, for its ports are the machine's.
pub fn on_host(flags: &[Flag]) -> PublishedPort {
    let chosen = flags.iter().rfind(|flag| flag.name == "https-listen-port");
    let port = chosen.and_then(|flag| flag.value.parse().ok()).unwrap_or(API);
    PublishedPort { inside: API, at: (Ipv4Addr::UNSPECIFIED, port).into() }
}

impl Container {
    pub fn is_running(&self) -> bool {
        self.state == "running"
    }

    fn api(&self) -> Option<SocketAddr> {
        let at = self.published.iter().find(|port| port.inside == API)?.at;
        let ip = match at.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        Some((ip, at.port()).into())
    }
}

/// The containers of one cluster that has a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct K3dCluster {
    pub name: String,
    /// By name, so the first is the one that k3d made first.
    pub servers: Vec<Container>,
    pub load_balancer: Option<Container>,
}

/// The clusters by name.
pub fn clusters(containers: impl IntoIterator<Item = Container>) -> Vec<K3dCluster> {
    let mut clusters: BTreeMap<String, K3dCluster> = BTreeMap::new();
    for container in containers {
        let cluster = clusters.entry(container.cluster.clone()).or_insert_with(|| K3dCluster {
            name: container.cluster.clone(),
            servers: Vec::new(),
            load_balancer: None,
        });
        match container.role {
            ContainerRole::Server => cluster.servers.push(container),
            ContainerRole::LoadBalancer => cluster.load_balancer = Some(container),
            ContainerRole::Other => {}
        }
    }
    let mut clusters: Vec<_> = clusters.into_values().filter(|one| !one.servers.is_empty()).collect();
    for cluster in &mut clusters {
        cluster.servers.sort_by(|a, b| a.name.cmp(&b.name));
    }
    clusters
}

impl K3dCluster {
    /// Address of the API from this machine: the load balancer's published port, without one a server's.
    pub fn api(&self) -> Option<SocketAddr> {
        self.load_balancer.iter().chain(&self.servers).find_map(Container::api)
    }

    /// Its servers, and its load balancer where one of them runs: k3d starts that last.
    pub fn nodes(&self) -> impl Iterator<Item = &Container> {
        let balancer = self.load_balancer.as_ref().filter(|_| self.running().is_some());
        self.servers.iter().chain(balancer)
    }

    /// A server that runs.
    pub fn running(&self) -> Option<&Container> {
        self.servers.iter().find(|server| server.is_running())
    }

    /// This machine as the servers reach it; `None` too where that is not in a private network, or where a user says it.
    pub fn gateway(&self) -> Option<Gateway> {
        let by_root = self.servers.iter().filter(|server| !server.is_of_user);
        by_root.filter_map(|server| server.gateway).find(|gateway| gateway.is_private())
    }

    /// What k3s acts on: the arguments of all servers, which k3d gives to each of them and which override every file.
    /// 0.0.0.0, which k3d adds where no host was chosen, is not a name to connect by.
    pub fn effective(&self) -> Effective {
        let flags: Vec<_> = self.servers.iter().flat_map(|server| server.flags.clone()).collect();
        let mut effective = k3s_config::merge(&[], &flags);
        effective.tls_san.retain(|name| !ANY.contains(&name.value.as_str()));
        effective
    }

    /// The names that the certificate has without being asked for: those of the servers and of the load balancer, which
    /// k3d names in the arguments where there is none too.
    pub fn own_names(&self) -> Vec<String> {
        let servers = self.servers.iter().map(|server| server.name.clone());
        servers.chain([format!("k3d-{}-serverlb", self.name)]).collect()
    }

    /// The names that clients are meant to use.
    pub fn names(&self) -> Vec<String> {
        let own = self.own_names();
        let names = self.effective().tls_san.into_iter().map(|name| name.value);
        names.filter(|name| !own.contains(name)).collect()
    }

    /// The cluster of this name; without a name the only one.
    ///
    /// # Errors
    /// There is none of this name, or not exactly one.
    pub fn choose<'a>(clusters: &'a [Self], name: Option<&str>) -> Result<&'a Self, NotChosen> {
        let names = || clusters.iter().map(|cluster| cluster.name.clone()).collect();
        match (name, clusters) {
            (Some(name), _) => clusters
                .iter()
                .find(|cluster| cluster.name == name)
                .ok_or_else(|| NotChosen::Missing { name: name.to_owned(), there: names() }),
            (None, [only]) => Ok(only),
            (None, []) => Err(NotChosen::None),
            (None, _) => Err(NotChosen::Several(names())),
        }
    }
}

/// Whether k3d may have given a cluster this name. What else a certificate or a label says is not for a command: of k3d
/// `-a` means all clusters.
pub fn is_cluster_name(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(is_part)
}

/// The cluster that a certificate with these names is of: it has those of the cluster's own containers.
pub fn of_served(served: &[String]) -> Option<&str> {
    served.iter().find_map(|name| {
        let name = name.strip_prefix("k3d-")?;
        let (cluster, end) = name.rsplit_once("-server").filter(|(cluster, _)| is_cluster_name(cluster))?;
        let is_container = end == "lb" || end.strip_prefix('-').is_some_and(|n| n.parse::<u32>().is_ok());
        is_container.then_some(cluster)
    })
}

/// Why no cluster was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotChosen {
    None,
    Missing { name: String, there: Vec<String> },
    Several(Vec<String>),
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A server as k3d 5.9 makes it with `--no-lb`.
    pub(crate) fn server(cluster: &str, arguments: &[&str]) -> Container {
        let name = format!("k3d-{cluster}-server-0");
        let arguments: Vec<_> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        Container {
            flags: flags(&name, &arguments),
            name,
            cluster: cluster.to_owned(),
            role: ContainerRole::Server,
            state: "running".to_owned(),
            status: "Up 2 minutes".to_owned(),
            restarts: 0,
            published: vec![PublishedPort { inside: API, at: ([0, 0, 0, 0], 34067).into() }],
            gateway: Some(Gateway { ip: [172, 18, 0, 1].into(), prefix: 16 }),
            is_of_user: false,
            engine: EngineProgram::Docker,
        }
    }

    pub(crate) fn load_balancer(cluster: &str) -> Container {
        let name = format!("k3d-{cluster}-serverlb");
        Container { name, role: ContainerRole::LoadBalancer, flags: Vec::new(), ..server(cluster, &[]) }
    }

    const ARGUMENTS: [&str; 7] =
        ["server", "--tls-san", "0.0.0.0", "--tls-san", "k3d-edge-serverlb", "--tls-san=raspi", "--token=x"];

    #[test]
    fn the_names_are_those_of_the_arguments() {
        let [edge] = &clusters([server("edge", &ARGUMENTS)])[..] else { panic!() };
        let effective = edge.effective();
        let names: Vec<_> = effective.tls_san.iter().map(|name| name.value.as_str()).collect();
        assert_eq!(names, ["k3d-edge-serverlb", "raspi"]);
        assert_eq!(effective.tls_san[1].origin, Place::file("arguments of k3d-edge-server-0"));
        assert_eq!(edge.names(), ["raspi"]);
        assert!(!format!("{edge:?}").contains("token"), "{edge:?}");
    }

    /// As podman shows what it starts with `init`, which k3d asks for.
    #[test]
    fn the_arguments_behind_an_init_are_those_of_k3s() {
        let arguments = ["--", "/bin/k3d-entrypoint.sh", "server", "--tls-san", "raspi"];
        assert_eq!(clusters([server("edge", &arguments)])[0].names(), ["raspi"]);
    }

    #[test]
    fn the_names_of_its_containers_are_not_for_clients() {
        let second = |mut server: Container| {
            server.name = "k3d-edge-server-1".to_owned();
            server
        };
        let arguments =
            ["server", "--tls-san=k3d-edge-serverlb", "--tls-san=k3d-edge-registry", "--tls-san=raspi"];
        let [edge] = &clusters([server("edge", &arguments), second(server("edge", &[]))])[..] else {
            panic!()
        };
        assert_eq!(edge.own_names(), ["k3d-edge-server-0", "k3d-edge-server-1", "k3d-edge-serverlb"]);
        assert_eq!(edge.names(), ["k3d-edge-registry", "raspi"]);
    }

    #[test]
    fn the_api_is_where_the_load_balancer_publishes_it_else_where_a_server_does() {
        let mut alone = server("edge", &ARGUMENTS);
        assert_eq!(clusters([alone.clone()])[0].api(), Some(([127, 0, 0, 1], 34067).into()));
        let at = ([192, 168, 1, 5], 6443).into();
        let balancer =
            Container { published: vec![PublishedPort { inside: API, at }], ..load_balancer("edge") };
        assert_eq!(clusters([alone.clone(), balancer])[0].api(), Some(at));
        alone.published = vec![PublishedPort { inside: 80, at: ([0, 0, 0, 0], 9000).into() }];
        assert_eq!(clusters([alone])[0].api(), None);
    }

    #[test]
    fn in_the_network_of_the_machine_the_api_is_where_k3s_listens() {
        for (arguments, want) in [
            (&["server"][..], 6443),
            (&["server", "--https-listen-port=7443"], 7443),
            (&["server", "--https-listen-port", "7443", "--https-listen-port=8443"], 8443),
        ] {
            let alone = server("edge", arguments);
            let alone = Container { published: vec![on_host(&alone.flags)], ..alone };
            assert_eq!(clusters([alone])[0].api(), Some(([127, 0, 0, 1], want).into()), "{arguments:?}");
        }
    }

    #[test]
    fn a_gateway_is_used_only_where_its_whole_network_is_private() {
        for (ip, prefix, want) in [
            ("172.18.0.1", 16, true),
            ("10.88.0.1", 8, true),
            ("192.168.1.1", 32, true),
            ("100.64.0.1", 10, true),
            ("127.0.0.2", 32, true),
            ("fd00::1", 64, true),
            ("::1", 128, true),
            ("0.0.0.0", 32, false),
            ("::", 128, false),
            ("203.0.113.1", 24, false),
            ("2001:db8::1", 64, false),
            ("224.0.0.1", 32, false),
            ("255.255.255.255", 32, false),
            ("169.254.1.1", 16, false),
            ("fe80::1", 64, false),
            ("::ffff:10.0.0.1", 128, false),
            ("172.32.0.1", 16, false),
            ("172.18.0.1", 11, false),
            ("10.0.0.1", 0, false),
            ("127.0.0.1", 1, false),
            ("fd00::1", 0, false),
        ] {
            let gateway = Gateway { ip: ip.parse().unwrap(), prefix };
            assert_eq!(gateway.is_private(), want, "{gateway:?}");
            let shown = Container { gateway: Some(gateway), ..server("edge", &[]) };
            assert_eq!(clusters([shown])[0].gateway(), want.then_some(gateway));
        }
    }

    #[test]
    fn a_certificate_tells_its_cluster() {
        for (names, want) in [
            (&["kubernetes", "k3d-mycluster-server-0"][..], Some("mycluster")),
            (&["k3d-a-server-b-serverlb"], Some("a-server-b")),
            (&["kubernetes", "raspik3d", "k3d-reg"], None),
            (&["k3d--serverlb", "k3d-a-server-x", "k3d-a-agent-0"], None),
            (&["k3d--a-server-0", "k3d---all-serverlb", "k3d-a;reboot-server-0", "k3d-a b-server-0"], None),
        ] {
            let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
            assert_eq!(of_served(&names), want, "{names:?}");
        }
    }

    #[test]
    fn one_is_chosen_by_its_name_or_because_it_is_the_only_one() {
        let other = Container { role: ContainerRole::Other, ..server("registry", &[]) };
        let all = clusters([server("edge", &[]), load_balancer("edge"), server("lab", &[]), other]);
        let names: Vec<_> = all.iter().map(|cluster| cluster.name.as_str()).collect();
        assert_eq!(names, ["edge", "lab"]);
        assert_eq!(K3dCluster::choose(&all, Some("lab")), Ok(&all[1]));
        assert_eq!(K3dCluster::choose(&all[..1], None), Ok(&all[0]));
        let there = vec!["edge".to_owned(), "lab".to_owned()];
        assert_eq!(K3dCluster::choose(&all, None), Err(NotChosen::Several(there.clone())));
        assert_eq!(K3dCluster::choose(&[], None), Err(NotChosen::None));
        let missing = NotChosen::Missing { name: "pi".to_owned(), there };
        assert_eq!(K3dCluster::choose(&all, Some("pi")), Err(missing));
    }
}
