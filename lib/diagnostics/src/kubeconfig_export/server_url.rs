//! The address of an API server in a kubeconfig, and the same with another host.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    str::FromStr,
};

use crate::san::ServingName;

/// The port of `https` where a URL names none.
const HTTPS: u16 = 443;

/// `https://HOST[:PORT][/PATH]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerUrl {
    /// Name or address, without brackets.
    pub host: String,
    /// The port, if it is written.
    port: Option<u16>,
    /// From the path on.
    rest: String,
}

/// Why a server's address cannot be exported. It never quotes the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    #[error(
        "is localhost:8080, which kubectl uses when it has no kubeconfig: name the one of the cluster with \
         --kubeconfig"
    )]
    Fallback,
    #[error("does not begin with https://: without TLS no name can be proven")]
    NotHttps,
    /// `USER:PASSWORD@`.
    #[error("contains a user name: remove it")]
    UserInfo,
    /// No host, or no port after its colon.
    #[error("has no host, or an invalid port: write https://HOST:PORT")]
    NoAuthority,
    /// Digits and dots, and no address of four numbers up to 255: it is looked up as a name, which none has.
    #[error("is not an IP address: write https://ADDRESS:PORT")]
    NoAddress,
    /// A query, a fragment, or characters of no URL.
    #[error("has a query, a fragment or invalid characters: write https://HOST:PORT")]
    NotPlain,
}

impl FromStr for ServerUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let bare = text.strip_prefix("http://").unwrap_or(text);
        if bare.trim_end_matches('/') == "localhost:8080" {
            return Err(UrlError::Fallback);
        }
        let scheme = text.get(..8).filter(|scheme| scheme.eq_ignore_ascii_case("https://"));
        let after = scheme.map(|_| &text[8..]).ok_or(UrlError::NotHttps)?;
        let (authority, rest) = after.split_at(after.find(['/', '?', '#']).unwrap_or(after.len()));
        if authority.contains('@') {
            return Err(UrlError::UserInfo);
        }
        let (host, port) = match authority.strip_prefix('[') {
            Some(v6) => {
                let (host, port) = v6.split_once(']').ok_or(UrlError::NoAuthority)?;
                let address = without_zone(host);
                address.parse::<std::net::Ipv6Addr>().map_err(|_| UrlError::NoAuthority)?;
                (host, port)
            }
            None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
        };
        let port = match port.strip_prefix(':') {
            Some(port) => Some(port.parse().ok().filter(|port| *port != 0).ok_or(UrlError::NoAuthority)?),
            None if port.is_empty() => None,
            None => return Err(UrlError::NoAuthority),
        };
        // A placeholder from a guide: `https://<SERVER>:6443`.
        let is_of_no_host = |c: char| c.is_whitespace() || c.is_control() || "<>{}|\\^`\"$;,“”".contains(c);
        if host.is_empty() || host.contains(is_of_no_host) {
            return Err(UrlError::NoAuthority);
        }
        let is_of_numbers = host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        if is_of_numbers && host.parse::<Ipv4Addr>().is_err() {
            return Err(UrlError::NoAddress);
        }
        Ok(Self { host: host.to_owned(), port, rest: rest.to_owned() })
    }
}

impl From<SocketAddr> for ServerUrl {
    fn from(address: SocketAddr) -> Self {
        Self { host: address.ip().to_string(), port: Some(address.port()), rest: String::new() }
    }
}

/// An address without its zone, whose sign a URL writes as `%25`: `fe80::1%25eth0`.
fn without_zone(host: &str) -> &str {
    host.split_once("%25").filter(|(_, zone)| !zone.is_empty()).map_or(host, |(address, _)| address)
}

/// Whether a host, an IPv6 address without brackets, means the machine that connects.
pub fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

impl ServerUrl {
    /// The port to connect to.
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(HTTPS)
    }

    /// The same, where the part behind the port is a plain path or nothing.
    ///
    /// # Errors
    /// A client could understand the rest differently.
    pub fn plain(self) -> Result<Self, UrlError> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/-._~%:@!$&'()*+,;=".contains(c);
        if self.rest.chars().all(is_plain) { Ok(self) } else { Err(UrlError::NotPlain) }
    }

    /// Whether the host is 0.0.0.0 or `::`: an address to listen on, not one to connect to.
    pub fn is_unspecified(&self) -> bool {
        self.host.parse().is_ok_and(|address: IpAddr| address.is_unspecified())
    }

    /// Whether the host means the machine that connects.
    pub fn is_loopback(&self) -> bool {
        is_loopback(&self.host)
    }

    /// The same URL with another host, and with another port where one is given.
    pub fn to(&self, host: &ServingName, port: Option<u16>) -> String {
        let host = match host {
            ServingName::Ip(IpAddr::V6(address)) => address.to_string(),
            other => other.to_string(),
        };
        Self { host, port: port.or(self.port), rest: self.rest.clone() }.to_string()
    }

    /// Host and port to connect to from the machine of the file.
    pub fn authority(&self) -> String {
        let host = match self.host.parse() {
            Ok(IpAddr::V4(address)) if address.is_unspecified() => "127.0.0.1",
            Ok(IpAddr::V6(address)) if address.is_unspecified() => "::1",
            _ => &self.host,
        };
        // Outside of a URL the zone has its own sign.
        format!("{}:{}", Bracketed(&host.replacen("%25", "%", 1)), self.port())
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "https://{}", Bracketed(&self.host))?;
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        f.write_str(&self.rest)
    }
}

/// A host as URLs write it.
struct Bracketed<'a>(&'a str);

impl fmt::Display for Bracketed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.contains(':') { write!(f, "[{}]", self.0) } else { f.write_str(self.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(text: &str) -> ServingName {
        text.parse().unwrap()
    }

    #[test]
    fn only_host_and_port_change() {
        for (from, host, port, want) in [
            ("https://127.0.0.1:6443", "pi.lan", None, "https://pi.lan:6443"),
            ("https://127.0.0.1:6443", "pi.lan", Some(9), "https://pi.lan:9"),
            ("https://0.0.0.0:34067", "fd00::1", None, "https://[fd00::1]:34067"),
            ("https://[::1]:6443/a/b?c#d", "10.0.0.1", None, "https://10.0.0.1:6443/a/b?c#d"),
            ("https://rancher/k8s/clusters/x", "pi", None, "https://pi/k8s/clusters/x"),
            ("https://rancher", "pi", Some(6443), "https://pi:6443"),
            ("HTTPS://h:1/", "pi", None, "https://pi:1/"),
        ] {
            assert_eq!(from.parse::<ServerUrl>().unwrap().to(&name(host), port), want);
        }
    }

    #[test]
    fn where_to_connect() {
        for (from, want) in [
            ("https://0.0.0.0:34067", "127.0.0.1:34067"),
            ("https://[::]:1", "[::1]:1"),
            ("https://[fd00::1]", "[fd00::1]:443"),
            ("https://pi.lan:6443/x", "pi.lan:6443"),
            ("https://[fe80::1%25eth0]:6443", "[fe80::1%eth0]:6443"),
        ] {
            assert_eq!(from.parse::<ServerUrl>().unwrap().authority(), want);
        }
    }

    #[test]
    fn what_cannot_be_exported() {
        use UrlError::*;
        for (text, want) in [
            ("localhost:8080", Fallback),
            ("http://localhost:8080", Fallback),
            ("http://localhost:8080/", Fallback),
            ("http://pi:6443", NotHttps),
            ("pi:6443", NotHttps),
            ("", NotHttps),
            ("https:/€", NotHttps),
            ("https://u:p@pi:6443", UserInfo),
            ("https://", NoAuthority),
            ("https://:6443", NoAuthority),
            ("https://<SERVER>:6443", NoAuthority),
            ("https://${IP}:6443", NoAuthority),
            ("https://pi:", NoAuthority),
            ("https://pi:0", NoAuthority),
            ("https://pi:65536", NoAuthority),
            ("https://fd00::1:6443", NoAuthority),
            ("https://[fd00::1", NoAuthority),
            ("https://[fe80::1%eth0]:6443", NoAuthority),
            ("https://[fe80::1%25]:6443", NoAuthority),
            ("https://[pi]:1", NoAuthority),
            ("https://[::1]x", NoAuthority),
            ("https://a b:1", NoAuthority),
            ("https://pi,lan:1", NoAuthority),
            ("https://192.168.1.500:1", NoAddress),
            ("https://192.168.1:1", NoAddress),
            ("https://192.168.001.005:1", NoAddress),
            ("https://6443", NoAddress),
        ] {
            assert_eq!(text.parse::<ServerUrl>(), Err(want), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_parses_is_written_back(text in "\\PC*|https://[a-z0-9:.\\[\\]@/?#-]{0,20}") {
            if let Ok(url) = text.parse::<ServerUrl>() {
                prop_assert_eq!(url.to_string().parse(), Ok(url));
            }
        }
    }
}
