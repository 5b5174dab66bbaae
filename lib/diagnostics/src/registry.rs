//! k3s' `registries.yaml` for a registry of one's own. Pure.
//!
//! containerd asks every registry by HTTPS, and when that fails, shows the error of that last attempt and not of the
//! endpoint that was configured. Form: <https://docs.k3s.io/installation/private-registry>.

pub mod api;
pub mod check;
pub mod configured;

use std::fmt::Write as _;

/// A registry, and how it is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registry {
    /// HOST or HOST:PORT, as it is in front of images' names.
    pub name: String,
    /// How to speak with it.
    pub by: By,
}

/// How to speak with a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum By {
    Http,
    /// HTTPS, with a certificate of a CA that every system knows.
    Https,
    /// HTTPS, with a certificate of the CA in this file of each node.
    HttpsWithCa(String),
}

impl Registry {
    pub fn config(&self) -> String {
        let Self { name, by } = self;
        let scheme = if *by == By::Http { "http" } else { "https" };
        let mut file = format!(
            "# {}: on each node; k3s reads it when it starts.\nmirrors:\n  \"{name}\":\n    endpoint:\n      - \"{scheme}://{name}\"\n",
            Self::FILE
        );
        if let By::HttpsWithCa(ca) = by {
            let _ = write!(file, "configs:\n  \"{name}\":\n    tls:\n      ca_file: \"{ca}\"\n");
        }
        file
    }

    /// Where k3s reads it.
    pub const FILE: &str = "/etc/rancher/k3s/registries.yaml";

    /// What is typed besides: on the nodes, and to push.
    pub fn commands(&self) -> Vec<String> {
        let plain = if self.by == By::Http { " --dest-tls-verify=false" } else { "" };
        vec![
            "sudo systemctl restart k3s".to_owned(),
            format!("skopeo copy{plain} docker-daemon:IMAGE:TAG docker://{}/IMAGE:TAG", self.name),
        ]
    }
}

/// The registry of an image's name, where it has one: without a dot, a colon or `localhost` in its first part,
/// an image is looked for on docker.io.
///
/// # Errors
/// What is wrong with it.
pub fn name(text: &str) -> Result<String, &'static str> {
    let (host, port) = text.rsplit_once(':').map_or((text, None), |(host, port)| (host, Some(port)));
    let is_host =
        !host.is_empty() && host.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'-'));
    if text.contains('/') {
        return Err("write the host and the port alone, such as registry.lan:5000");
    }
    if !is_host || port.is_some_and(|port| port.parse::<u16>().is_err()) {
        return Err("write HOST or HOST:PORT, such as registry.lan:5000");
    }
    if port.is_none() && !host.contains('.') && host != "localhost" {
        return Err(
            "an image of that name would be pulled from docker.io: write a name with a dot, or with the port",
        );
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml_node::{YamlNode, parse};

    #[test]
    fn each_way_to_speak_with_a_registry() {
        for (by, endpoint, ca) in [
            (By::Http, "http://registry.lan:5000", None),
            (By::Https, "https://registry.lan:5000", None),
            (
                By::HttpsWithCa("/etc/ssl/my.crt".to_owned()),
                "https://registry.lan:5000",
                Some("/etc/ssl/my.crt"),
            ),
        ] {
            let registry = Registry { name: "registry.lan:5000".to_owned(), by };
            let root = parse(&registry.config()).unwrap();
            let of = |key: &str| root.get(key).and_then(|all| all.get("registry.lan:5000"));
            let endpoints = of("mirrors").unwrap().get("endpoint").unwrap().items();
            assert_eq!(endpoints[0].as_str(), Some(endpoint));
            let file =
                of("configs").and_then(|config| config.get("tls")?.get("ca_file")).and_then(YamlNode::as_str);
            assert_eq!(file, ca);
            assert_eq!(registry.commands()[1].contains("--dest-tls-verify=false"), registry.by == By::Http);
        }
    }

    #[test]
    fn which_names_are_a_registrys() {
        for good in ["registry.lan", "registry:5000", "localhost", "192.168.1.7:5000"] {
            assert_eq!(name(good).as_deref(), Ok(good));
        }
        for bad in ["", "registry", "http://registry.lan", "registry.lan/app", "a b:1", "registry.lan:x"] {
            assert!(name(bad).is_err(), "{bad}");
        }
    }
}
