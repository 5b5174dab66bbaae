//! What a `registries.yaml` says of one registry, as k3s gives it to containerd. Pure.
//!
//! Guarantees: credentials are in no `Debug` and in no error. Form:
//! <https://docs.k3s.io/installation/private-registry>.

use std::fmt;

use crate::registries_yaml::host;
use crate::yaml_node::{self, SyntaxError, YamlNode};

/// The part of the file that is about one registry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Configured {
    /// Where its images are fetched, in this order; last of all, https at the registry itself.
    pub endpoints: Vec<Endpoint>,
    /// File on each node with the CA of its certificate.
    pub ca_file: Option<String>,
    /// Its certificate is not verified.
    pub is_unverified: bool,
    pub credentials: Option<Credentials>,
}

/// A URL of `endpoint`, without its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub is_https: bool,
    /// HOST or HOST:PORT.
    pub host: String,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.is_https { "https" } else { "http" }, self.host)
    }
}

/// What containerd sends to a registry that asks for it.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    Password {
        username: String,
        password: String,
    },
    /// The base64 of user name and password, as in a file of Docker.
    Encoded(String),
    /// A token, which only an exchange would prove.
    Token,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}

impl Configured {
    /// Reads what the file says of `registry` (HOST or HOST:PORT).
    ///
    /// # Errors
    /// The file is no YAML.
    pub fn read(text: &str, registry: &str) -> Result<Self, SyntaxError> {
        let root = yaml_node::parse(text)?;
        let of = |section: &str, name: &str| root.get(section).and_then(|all| all.get(name));
        let mirror = of("mirrors", registry).or_else(|| of("mirrors", "*"));
        let urls = mirror.and_then(|mirror| mirror.get("endpoint")).map_or(&[][..], YamlNode::items);
        let endpoints: Vec<Endpoint> = urls.iter().filter_map(|url| endpoint(url.as_str()?)).collect();
        let config = of("configs", registry).or_else(|| of("configs", "*"));
        let field = |section: &str, name: &str| {
            let value = config.and_then(|config| config.get(section)?.text(name));
            value.filter(|value| !value.is_empty()).map(str::to_owned)
        };
        let password = field("auth", "username").zip(field("auth", "password"));
        let token = field("auth", "identity_token").or_else(|| field("auth", "token"));
        let credentials = password
            .map(|(username, password)| Credentials::Password { username, password })
            .or_else(|| field("auth", "auth").map(Credentials::Encoded))
            .or_else(|| token.map(|_| Credentials::Token));
        Ok(Self {
            endpoints,
            ca_file: field("tls", "ca_file"),
            is_unverified: field("tls", "insecure_skip_verify").is_some_and(|value| value == "true"),
            credentials,
        })
    }

    /// Whether the file has the registry asked over plain HTTP.
    pub fn is_plain(&self, registry: &str) -> bool {
        self.endpoints.iter().any(|endpoint| !endpoint.is_https && endpoint.host == registry)
    }

    /// The first endpoint, where all of them are other hosts than the registry itself.
    pub fn elsewhere(&self, registry: &str) -> Option<&Endpoint> {
        let is_there = self.endpoints.iter().any(|endpoint| endpoint.host == registry);
        self.endpoints.first().filter(|_| !is_there)
    }
}

fn endpoint(url: &str) -> Option<Endpoint> {
    let (scheme, _) = url.split_once("://").filter(|(scheme, _)| ["http", "https"].contains(scheme))?;
    Some(Endpoint { is_https: scheme == "https", host: host(url)?.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_says_of_a_registry() {
        let file = "mirrors:\n  reg.lan:5000:\n    endpoint: ['http://reg.lan:5000', 'ftp://x', 'https://u@h']\n  \
                    docker.io:\n    endpoint: ['https://mirror.lan/v2']\n\
                    configs:\n  reg.lan:5000:\n    auth: {username: me, password: hunter2}\n    \
                    tls: {ca_file: /etc/ca.crt, insecure_skip_verify: true}\n";
        let read = Configured::read(file, "reg.lan:5000").unwrap();
        assert!(read.is_plain("reg.lan:5000") && read.elsewhere("reg.lan:5000").is_none());
        assert_eq!((read.ca_file.as_deref(), read.is_unverified), (Some("/etc/ca.crt"), true));
        let credentials = Credentials::Password { username: "me".to_owned(), password: "hunter2".to_owned() };
        assert_eq!(read.credentials, Some(credentials));
        assert!(!format!("{read:?}").contains("hunter2") && !format!("{read:?}").contains("\"me\""));

        let mirrored = Configured::read(file, "docker.io").unwrap();
        assert_eq!(mirrored.elsewhere("docker.io").unwrap().to_string(), "https://mirror.lan");
        assert_eq!(Configured::read(file, "other.lan").unwrap(), Configured::default());
        assert_eq!(Configured::read("", "other.lan").unwrap(), Configured::default());
    }

    #[test]
    fn each_form_of_credentials() {
        for (auth, want) in [
            ("auth: aGk6aGk=", Some(Credentials::Encoded("aGk6aGk=".to_owned()))),
            ("identity_token: x", Some(Credentials::Token)),
            ("token: x", Some(Credentials::Token)),
            ("username: me", None),
            ("password: ''", None),
        ] {
            let file = format!("configs:\n  '*':\n    auth: {{{auth}}}\n");
            assert_eq!(Configured::read(&file, "a.lan").unwrap().credentials, want, "{auth}");
        }
        let error = Configured::read("configs:\n\ta: hunter2", "a").unwrap_err();
        assert!(!format!("{error:?}").contains("hunter2"));
    }

    #[test]
    fn the_star_is_for_registries_that_are_not_named() {
        let file = "mirrors: {'*': {endpoint: ['http://a.lan']}, b.lan: {endpoint: ['http://b.lan']}}\n";
        assert!(Configured::read(file, "b.lan").unwrap().is_plain("b.lan"));
        assert!(Configured::read(file, "c.lan").unwrap().elsewhere("c.lan").is_some());
    }
}
