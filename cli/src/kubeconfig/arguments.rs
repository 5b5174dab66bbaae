//! Parsers of arguments, which refuse what cannot be meant.

use weaver_diagnostics::kubeconfig_export::document::is_entry_name;
use weaver_diagnostics::san::ServingName;

/// A name or address that can be a host.
pub fn host(text: &str) -> Result<ServingName, String> {
    match text.parse() {
        Ok(ServingName::Wildcard(rest)) => {
            Err(format!("it is a wildcard: use one of its names, such as pi.{rest}"))
        }
        Ok(ServingName::Ip(address)) if address.is_unspecified() => {
            Err("it is an address to listen on: write one that the other machine can connect to".to_owned())
        }
        Ok(name) => Ok(name),
        Err(error) => Err(match &error.suggestion {
            Some(meant) => format!("{error}: write {meant}"),
            None => error.to_string(),
        }),
    }
}

/// A name of an entry: anything that a user can type after `--context`.
pub fn entry_name(text: &str) -> Result<String, &'static str> {
    is_entry_name(text).then(|| text.to_owned()).ok_or("a context needs a name of printable characters")
}

/// `HOST:PORT`.
pub fn address(text: &str) -> Result<String, &'static str> {
    let port = text
        .rsplit_once(':')
        .filter(|(host, _)| !host.is_empty() && (!host.contains(':') || host.ends_with(']')));
    match port.and_then(|(_, port)| port.parse::<u16>().ok()) {
        Some(1..) => Ok(text.to_owned()),
        _ => Err("write HOST:PORT, and an IPv6 address in brackets"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_hosts_are_taken() {
        for (text, want) in [
            ("Pi.Lan", Ok("pi.lan")),
            ("fd00::1", Ok("fd00::1")),
            ("pi.lan.", Err("it ends in a dot: write pi.lan")),
            ("https://pi:6443", Err("it is a URL, not a name: write pi")),
            ("pi:6443", Err("write pi")),
            ("*.pi.lan", Err("use one of its names, such as pi.pi.lan")),
            ("0.0.0.0", Err("it is an address to listen on")),
            ("::", Err("it is an address to listen on")),
            ("a b", Err("it contains white space")),
        ] {
            match (host(text), want) {
                (Ok(name), Ok(want)) => assert_eq!(name.to_string(), want),
                (Err(why), Err(want)) => assert!(why.contains(want), "{text}: {why}"),
                (got, want) => panic!("{text}: {got:?}, wanted {want:?}"),
            }
        }
    }

    #[test]
    fn which_addresses_are_taken() {
        for good in ["127.0.0.1:6443", "pi.lan:1", "[::1]:6443"] {
            assert_eq!(address(good).as_deref(), Ok(good));
        }
        for bad in ["", "pi", "pi:", ":1", "pi:0", "pi:65536", "::1:6443", "https://pi"] {
            assert!(address(bad).is_err(), "{bad}");
        }
        assert!(entry_name(" ").is_err() && entry_name("a\nb").is_err() && entry_name("my pi").is_ok());
    }
}
