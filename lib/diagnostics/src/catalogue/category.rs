//! The categories of the catalogue.

/// A category of codes, and the letter with which its ids begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Category {
    Node,
    Host,
    /// T: certificates and their names.
    Tls,
    /// K: kubeconfigs and connections.
    Connection,
    /// F: the files and the start of k3s.
    K3s,
    /// D: k3d and the container engine.
    K3d,
    /// B: `weaver.toml`.
    WeaverToml,
    /// J: a node that joins a server.
    Join,
    /// R: registries, images, ingress.
    Images,
    /// C: kinds and their objects.
    Kinds,
    /// A: accounts and their rights.
    Accounts,
    Leases,
}

impl Category {
    /// Each category with its letter and its title, in the order of the page.
    pub const ALL: [(Self, char, &'static str); 12] = [
        (Self::Node, 'N', "The node: memory cgroup, names, size"),
        (Self::Host, 'H', "The host: power, card, clock, route"),
        (Self::Tls, 'T', "TLS: certificates and their names"),
        (Self::Connection, 'K', "Kubeconfig and connection"),
        (Self::K3s, 'F', "k3s: its files and its start"),
        (Self::K3d, 'D', "k3d and the container engine"),
        (Self::WeaverToml, 'B', "Boot: weaver.toml"),
        (Self::Join, 'J', "Joining a server"),
        (Self::Images, 'R', "Registries, images, ingress"),
        (Self::Kinds, 'C', "Kinds and objects"),
        (Self::Accounts, 'A', "Accounts and rights"),
        (Self::Leases, 'L', "Leases"),
    ];
}
