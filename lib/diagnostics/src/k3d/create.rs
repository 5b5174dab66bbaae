//! k3d: the command, or the configuration file, of a cluster that is reached by chosen names; and what is wrong with a
//! value that ends in a node filter. Pure; of k3d 5.
//!
//! k3d gives each server the name of `--api-port` and every `--tls-san`. By the file the API listens at all
//! addresses; by the command k3d binds what the name means on this machine, which on Debian may be 127.0.1.1.

use std::fmt::Write as _;

use crate::san::ServingName;

/// What a cluster shall be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    /// Its name, without `k3d-`.
    pub name: String,
    /// How laptops call it; the first is in the kubeconfig. At least one.
    pub names: Vec<ServingName>,
    /// Where the API is reached.
    pub api_port: u16,
    /// Of the load balancer: port here and port there.
    pub ports: Vec<(u16, u16)>,
    /// A registry of k3d that is there already, as NAME:PORT.
    pub registry: Option<String>,
}

impl Cluster {
    fn arguments(&self) -> impl Iterator<Item = String> + '_ {
        // The first is k3d's own matter.
        self.names.iter().skip(1).map(|name| format!("--tls-san={name}"))
    }

    #[must_use]
    pub fn command(&self) -> String {
        let mut command = format!("k3d cluster create {}", self.name);
        if let Some(first) = self.names.first() {
            let _ = write!(command, " --api-port {first}:{}", self.api_port);
        }
        for (here, there) in &self.ports {
            let _ = write!(command, " -p '{here}:{there}@loadbalancer'");
        }
        if let Some(registry) = &self.registry {
            let _ = write!(command, " --registry-use {registry}");
        }
        for argument in self.arguments() {
            let _ = write!(command, " --k3s-arg '{argument}@server:*'");
        }
        command + "\n"
    }

    /// The same as a file for `k3d cluster create --config`.
    #[must_use]
    pub fn config(&self) -> String {
        let mut file =
            format!("apiVersion: k3d.io/v1alpha5\nkind: Simple\nmetadata:\n  name: {}\n", self.name);
        if let Some(first) = self.names.first() {
            let _ = write!(
                file,
                "kubeAPI:\n  host: \"{first}\"\n  hostIP: \"0.0.0.0\"\n  hostPort: \"{}\"\n",
                self.api_port
            );
        }
        if !self.ports.is_empty() {
            file.push_str("ports:\n");
        }
        for (here, there) in &self.ports {
            let _ = write!(file, "- port: {here}:{there}\n  nodeFilters: [loadbalancer]\n");
        }
        if let Some(registry) = &self.registry {
            let _ = write!(file, "registries:\n  use: [\"{registry}\"]\n");
        }
        let mut arguments = self.arguments().peekable();
        if arguments.peek().is_some() {
            file.push_str("options:\n  k3s:\n    extraArgs:\n");
        }
        for argument in arguments {
            let _ = write!(file, "    - arg: \"{argument}\"\n      nodeFilters: [\"server:*\"]\n");
        }
        file
    }
}

/// What is wrong with a value of `--k3s-arg`, such as `--tls-san=raspi@server:*`; nothing where all is well.
#[must_use]
pub fn lint_k3s_arg(value: &str) -> Vec<String> {
    let (argument, filters) = value.split_once('@').map_or((value, None), |(a, f)| (a, Some(f)));
    let mut faults = Vec::new();
    if let Some((flag, rest)) = argument.split_once(char::is_whitespace) {
        faults.push(format!(
            "k3s reads `{argument}` as one word and prints \"flag provided but not defined\": write {flag}={}",
            rest.trim()
        ));
    }
    let Some(filters) = filters else {
        faults.push(format!("it names no nodes: write {argument}@server:*"));
        return faults;
    };
    for filter in filters.split(';') {
        match group_of(filter) {
            Err(fault) => faults.push(fault),
            Ok(Group::Agents | Group::All) if argument.starts_with("--tls-san") => faults.push(format!(
                "`{filter}` includes agents, and an agent with --tls-san exits: write {argument}@server:*"
            )),
            Ok(Group::LoadBalancer) => {
                faults.push(format!("`{filter}` runs no k3s: write {argument}@server:*"));
            }
            Ok(_) => {}
        }
    }
    if let Some(name) = argument.strip_prefix("--tls-san=") {
        for name in name.split(',') {
            if let Err(error) = name.parse::<ServingName>() {
                let meant =
                    error.suggestion.as_ref().map_or_else(String::new, |meant| format!("; write {meant}"));
                faults.push(format!("`{name}` is not a valid name for a certificate: {error}{meant}"));
            }
        }
    }
    faults
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    Servers,
    Agents,
    LoadBalancer,
    All,
}

/// The group of `group[:subset[:suffix]]`.
fn group_of(filter: &str) -> Result<Group, String> {
    if let Some((group, rest)) = filter.split_once('[') {
        let subset = rest.trim_end_matches(']');
        return Err(format!("`{filter}` is the form of k3d 4: write {group}:{subset}"));
    }
    let mut parts = filter.splitn(3, ':');
    let group = match parts.next().unwrap_or_default() {
        "server" | "servers" => Group::Servers,
        "agent" | "agents" => Group::Agents,
        "loadbalancer" => Group::LoadBalancer,
        "all" => Group::All,
        other => {
            return Err(format!("`{other}` is not a node filter: use server, agent, loadbalancer or all"));
        }
    };
    match (group, parts.next()) {
        (Group::Servers | Group::Agents, None) => Err(format!(
            "`{filter}` does not say which of them: write {filter}:* for all, {filter}:0 for the first"
        )),
        (_, Some(subset)) if !is_subset(subset) => {
            Err(format!("`{subset}` names no nodes: write *, 0, 0,2 or 1-3"))
        }
        _ => Ok(group),
    }
}

fn is_subset(subset: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let is_bound = |text: &str| is_number(text) || text.is_empty() || text == "*";
    let is_part = |part: &str| match part.split_once('-') {
        Some((from, to)) => is_bound(from) && is_bound(to) && (is_number(from) || is_number(to)),
        None => is_number(part),
    };
    subset == "*" || subset.split(',').all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cluster() -> Cluster {
        Cluster {
            name: "edge".to_owned(),
            names: ["raspik3d", "10.0.0.7"].iter().map(|name| name.parse().unwrap()).collect(),
            api_port: 6443,
            ports: vec![(9000, 80), (8443, 443)],
            registry: Some("k3d-myregistry:5000".to_owned()),
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
        assert_eq!(
            cluster().config(),
            "apiVersion: k3d.io/v1alpha5\nkind: Simple\nmetadata:\n  name: edge\nkubeAPI:\n  host: \
             \"raspik3d\"\n  \
             hostIP: \"0.0.0.0\"\n  hostPort: \"6443\"\nports:\n- port: 9000:80\n  nodeFilters: [loadbalancer]\n- port: \
             8443:443\n  nodeFilters: [loadbalancer]\nregistries:\n  use: [\"k3d-myregistry:5000\"]\noptions:\n  k3s:\n    \
             extraArgs:\n    - arg: \"--tls-san=10.0.0.7\"\n      nodeFilters: [\"server:*\"]\n"
        );
        let least =
            Cluster { ports: vec![], registry: None, names: vec!["pi".parse().unwrap()], ..cluster() };
        let file: serde_json::Value = serde_saphyr::from_str(&least.config()).unwrap();
        assert_eq!(file["kubeAPI"]["host"], "pi");
        assert!(file.get("ports").is_none() && file.get("options").is_none());
    }

    #[test]
    fn node_filters() {
        for (value, want) in [
            ("--tls-san=raspi@server:*", None),
            ("--tls-san=raspi@server:0", None),
            ("--tls-san=raspi,10.0.0.7@servers:0,2", None),
            ("--disable=traefik@server:1-3", None),
            ("--node-label=a=b@agent:*;server:0-", None),
            ("--node-label=a=b@all", None),
            ("--tls-san=raspi@server:0:direct", None),
            ("--tls-san=raspi", Some("write --tls-san=raspi@server:*")),
            ("--tls-san 192.168.1.5@server:0", Some("write --tls-san=192.168.1.5")),
            ("--tls-san=raspi@agent:*", Some("--tls-san exits: write --tls-san=raspi@server:*")),
            ("--tls-san=raspi@all", Some("--tls-san exits")),
            ("--tls-san=raspi@server:0;agent:0", Some("--tls-san exits")),
            ("--tls-san=raspi@loadbalancer", Some("runs no k3s")),
            ("--tls-san=raspi@server[0]", Some("is the form of k3d 4: write server:0")),
            ("--tls-san=raspi@server", Some("write server:* for all")),
            ("--tls-san=raspi@master:0", Some("`master` is not a node filter")),
            ("--tls-san=raspi@server:first", Some("`first` names no nodes")),
            ("--tls-san=raspi@server:", Some("names no nodes")),
            ("--tls-san=raspi@server:-", Some("names no nodes")),
            ("--tls-san=https://raspi@server:0", Some("it is a URL, not a name; write raspi")),
        ] {
            let faults = lint_k3s_arg(value);
            match want {
                None => assert_eq!(faults, Vec::<String>::new(), "{value}"),
                Some(want) => assert!(faults.iter().any(|fault| fault.contains(want)), "{value}: {faults:?}"),
            }
        }
    }

    proptest! {
        #[test]
        fn never_panics_and_what_we_print_is_well(value in "\\PC{0,40}", name in "[a-z][a-z0-9]{0,8}") {
            let _ = lint_k3s_arg(&value);
            prop_assert_eq!(lint_k3s_arg(&format!("--tls-san={name}@server:*")), Vec::<String>::new());
        }
    }
}
