//! The names of the host and of its node: can a node have that name, does the host find itself by it, and is the node
//! still the one that registered?

use crate::finding::{Code, Finding, Place, RESTART_K3S, Remedy};
use crate::k3s_upgrade::Role;
use crate::shell::quoted;

/// The host's name, as the kernel has it.
pub const HOST_NAME: &str = "/proc/sys/kernel/hostname";
/// The names that need no name server.
pub const HOSTS: &str = "/etc/hosts";
/// By what names are looked up.
pub const NSSWITCH: &str = "/etc/nsswitch.conf";
pub const RESOLV: &str = "/etc/resolv.conf";

/// The name under which k3s would register the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeName {
    /// As it is written.
    pub name: String,
    pub place: Place,
    /// Why Kubernetes takes no such name, in lower case as the kubelet registers it.
    pub fault: Option<String>,
}

impl NodeName {
    /// A warning where no node can have it.
    pub fn judge(&self) -> Option<Finding> {
        let Self { name, place, fault } = self;
        let is_everyones = name.eq_ignore_ascii_case(LOCALHOST);
        let why = match fault {
            Some(fault) => fault,
            None if is_everyones => {
                "every machine calls itself by this name: two such nodes would be the same Node, and no laptop can resolve it"
            }
            None => return None,
        };
        let message = format!("the node would be called `{name}`: {why}");
        let finding = Finding::new(Code::HostNameUnusable, message).saw(place.clone(), name);
        if place.file == HOST_NAME {
            return Some(finding);
        }
        let explain = format!(
            "write another name at {place}, or remove it there, so that k3s takes that of the host; then restart k3s"
        );
        Some(finding.remedy(Remedy::new(explain).command(RESTART_K3S)))
    }
}

/// How the host looks up its own name: the texts of the files, empty where there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnName {
    pub name: String,
    pub hosts: String,
    pub nsswitch: String,
    pub resolv: String,
}

/// Modules that answer for the own name by themselves: nss-myhostname(8), nss-resolve(8).
const MODULES: [&str; 2] = ["myhostname", "resolve"];
/// Where systemd-resolved listens, which knows the own name without any other server.
const STUBS: [&str; 2] = ["127.0.0.53", "127.0.0.54"];

impl OwnName {
    /// A warning where it takes a name server: a network that is not there must not take the name away.
    pub fn judge(&self) -> Option<Finding> {
        let Self { name, hosts, nsswitch, resolv } = self;
        let lines = hosts.lines().map(without_comment);
        let mut known = lines.flat_map(|line| line.split_whitespace().skip(1));
        if known.any(|known| known.eq_ignore_ascii_case(name)) {
            return None;
        }
        let lookup = nsswitch.lines().find_map(|line| line.trim_start().strip_prefix("hosts:"));
        let lookup = without_comment(lookup.unwrap_or("files dns"));
        let has = |module: &str| lookup.split_whitespace().any(|word| word == module);
        let mut servers = resolv.lines().filter_map(|line| line.strip_prefix("nameserver")).map(str::trim);
        if MODULES.into_iter().any(has) || has("dns") && servers.any(|server| STUBS.contains(&server)) {
            return None;
        }
        let message = format!("this host cannot resolve its own name {name} without a DNS server");
        let command = format!("echo {} | sudo tee -a /etc/hosts", quoted(&format!("127.0.1.1 {name}")));
        Some(
            Finding::new(Code::OwnNameNotFound, message)
                .saw(Place::file(HOSTS), "no line has it")
                .saw(Place::file(NSSWITCH), format!("hosts:{lookup}").trim_end())
                .remedy(Remedy::new(Code::OwnNameNotFound.row().remedy).command(command)),
        )
    }
}

fn without_comment(line: &str) -> &str {
    line.split('#').next().unwrap_or_default()
}

/// The name that every machine has for itself.
pub const LOCALHOST: &str = "localhost";

/// A warning where a Node of that name is not ready and the node of this host, `own`, has another: k3s was
/// started there once, before the host had its name, and its Node stays.
pub fn left_behind(own: &str, is_ready: bool) -> Option<Finding> {
    (own != LOCALHOST && !is_ready).then(|| {
        let message = format!(
            "the cluster has a Node {LOCALHOST} that is not Ready: k3s was once started before the host had its name"
        );
        Finding::new(Code::StaleLocalhostNode, message).saw(Place::file(format!("Node {LOCALHOST}")), "not Ready")
    })
}

/// The name that a node registered with, and the one that it would start with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub certificate: String,
    /// The node's name in it.
    pub registered: String,
    /// The name that k3s would start it with, in lower case.
    pub wanted: String,
    /// Where that is written.
    pub wanted_at: Place,
}

impl Identity {
    /// A warning where they differ: k3s would register a second node, and what ran on the first stays there,
    /// unreachable (k3s-io/k3s#5787).
    pub fn judge(&self, role: Role) -> Option<Finding> {
        let Self { certificate, registered, wanted, wanted_at } = self;
        // With `with-node-id` k3s adds a number of its own.
        let is_same = registered.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || is_node_id(rest));
        if is_same || wanted.is_empty() {
            return None;
        }
        let mut remedy = if registered == LOCALHOST {
            // No one wants that name back.
            Remedy::new(
                "first copy data from its local volumes; let k3s start under the new name; then delete the old Node",
            )
            .command(format!("sudo k3s kubectl delete node {LOCALHOST}"))
        } else {
            Code::IdentityDrift.row().remedy_for("OLD", &quoted(registered))
        };
        if role == Role::Agent {
            // Who may delete a node is on the server.
            remedy.explain += "; type the `k3s kubectl` commands on the server";
        }
        let message = format!(
            "this node registered as {registered}, but k3s would start it as {wanted}, as a second Node"
        );
        Some(
            Finding::new(Code::IdentityDrift, message)
                .saw(Place::file(certificate), format!("system:node:{registered}"))
                .saw(wanted_at.clone(), wanted)
                .remedy(remedy),
        )
    }
}

/// What `with-node-id` adds: a hyphen and eight hexadecimal digits.
fn is_node_id(rest: &str) -> bool {
    rest.strip_prefix('-').is_some_and(|id| id.len() == 8 && id.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_localhost_that_is_not_ready_is_left_over_from_a_start_without_a_name() {
        for (own, is_ready, want) in [
            ("raspi", false, true),
            ("raspi", true, false),
            ("localhost", false, false),
            ("localhost", true, false),
        ] {
            let found = left_behind(own, is_ready);
            assert_eq!(found.is_some(), want, "{own} {is_ready}");
            let deletes = |found: &Finding| {
                let commands = &found.remedy.as_ref().unwrap().commands;
                commands.iter().any(|command| command.ends_with("delete node localhost"))
            };
            assert!(found.as_ref().is_none_or(deletes));
        }
    }

    #[test]
    fn a_name_that_no_one_wants_is_not_kept() {
        let identity = Identity {
            certificate: "/c".into(),
            registered: LOCALHOST.into(),
            wanted: "raspi".into(),
            wanted_at: Place::file(HOST_NAME),
        };
        for role in [Role::Server, Role::Agent] {
            let remedy = identity.judge(role).unwrap().remedy.unwrap();
            assert_eq!(remedy.commands, ["sudo k3s kubectl delete node localhost"], "{role:?}");
            assert_eq!(remedy.explain.contains("on the server"), role == Role::Agent);
        }
    }

    #[test]
    fn names_that_no_node_can_have() {
        for (name, fault, is_bad) in [
            ("raspi", None, false),
            ("Raspi.LAN", None, false),
            ("my_pi", Some("is not a valid name"), true),
            ("localhost", None, true),
            ("LocalHost", None, true),
        ] {
            let node =
                NodeName { name: name.into(), place: Place::file(HOST_NAME), fault: fault.map(Into::into) };
            let found = node.judge();
            assert_eq!(found.is_some(), is_bad, "{node:?}");
            assert!(found.is_none_or(|found| {
                found.message.starts_with(&format!("the node would be called `{name}`"))
            }));
        }
    }

    #[test]
    fn a_name_that_k3s_configuration_sets_is_changed_there() {
        let judged = |place| {
            let fault = Some("is not a valid name".to_owned());
            let node = NodeName { name: "my_pi".into(), place, fault };
            node.judge().unwrap().remedy.unwrap()
        };
        let of_host = judged(Place::file(HOST_NAME));
        assert!(of_host.commands.iter().any(|command| command.contains("set-hostname")), "{of_host:?}");
        let of_k3s = judged(Place::at("/etc/rancher/k3s/config.yaml", 3, 12));
        assert!(of_k3s.explain.contains("at /etc/rancher/k3s/config.yaml:3:12"), "{of_k3s:?}");
        assert_eq!(of_k3s.commands, ["sudo systemctl restart k3s"]);
    }

    #[test]
    fn what_answers_for_the_own_name() {
        let judged = |hosts: &str, nsswitch: &str, resolv: &str| {
            let (hosts, nsswitch, resolv) = (hosts.into(), nsswitch.into(), resolv.into());
            OwnName { name: "raspi".into(), hosts, nsswitch, resolv }.judge()
        };
        for (hosts, nsswitch, is_found) in [
            ("127.0.0.1 localhost\n127.0.1.1 raspi\n", "", true),
            ("127.0.1.1\tpi.lan RASPI # mine\n", "", true),
            ("127.0.0.1 localhost\n", "", false),
            ("127.0.0.1 localhost # raspi\n", "hosts: files dns\n", false),
            ("127.0.0.1 localhost\n", "passwd: files\n hosts: files mdns4_minimal dns\n", false),
            ("127.0.0.1 localhost\n", "hosts: files myhostname dns\n", true),
            ("127.0.0.1 localhost\n", "hosts: files resolve [!UNAVAIL=return] dns\n", true),
            ("127.0.0.1 localhost\n", "hosts: files dns # resolve\n", false),
        ] {
            assert_eq!(judged(hosts, nsswitch, "").is_none(), is_found, "{hosts:?} {nsswitch:?}");
        }
        for (server, is_found) in [("127.0.0.53", true), ("192.168.1.1", false)] {
            let resolv = format!("# x\nnameserver {server}\n");
            assert_eq!(judged("127.0.0.1 localhost\n", "", &resolv).is_none(), is_found, "{server}");
        }
        let finding = judged("127.0.0.1 localhost\n", "", "").unwrap();
        assert_eq!(finding.evidence[1].to_string(), "/etc/nsswitch.conf: hosts:files dns");
        assert_eq!(finding.remedy.unwrap().commands, ["echo '127.0.1.1 raspi' | sudo tee -a /etc/hosts"]);
    }

    #[test]
    fn a_node_that_would_start_under_another_name() {
        for (registered, wanted, want) in [
            ("raspi", "raspi", None),
            ("raspi-1a2b3c4d", "raspi", None),
            ("raspi", "", None),
            ("raspi", "other", Some("registered as raspi, but k3s would start it as other")),
            ("raspi-2", "raspi", Some("would start it as raspi")),
        ] {
            let identity = Identity {
                certificate: "/k3s/client-kubelet.crt".into(),
                registered: registered.into(),
                wanted: wanted.into(),
                wanted_at: Place::file(HOST_NAME),
            };
            let found = identity.judge(Role::Server);
            assert_eq!(found.is_some(), want.is_some(), "{identity:?}");
            let (Some(found), Some(want)) = (found, want) else { continue };
            assert!(found.message.contains(want), "{}", found.message);
            let seen = format!("/k3s/client-kubelet.crt: system:node:{registered}");
            assert_eq!(found.evidence[0].to_string(), seen);
            let remedy = found.remedy.unwrap();
            assert!(remedy.commands[1].contains(&format!("node-name: {registered}")));
            let joined = identity.judge(Role::Agent).unwrap().remedy.unwrap();
            assert_eq!(joined.explain, remedy.explain + "; type the `k3s kubectl` commands on the server");
        }
    }
}
