//! Names in `weaver.toml`: the host's, those of the API server, time servers.

use super::{
    fault::{Mistake, shown},
    limits::is_of_no_host,
};
use crate::san::ServingName;

/// A host name: one label of RFC 1123 in lower case that a certificate can be checked for.
pub(super) fn host_name(text: &str) -> Result<String, Mistake> {
    let Some(why) = host_name_mistake(text) else { return Ok(text.to_owned()) };
    let first = text.trim().split('.').next().unwrap_or_default().to_ascii_lowercase();
    let meant = first.replace([' ', '_'], "-");
    let meant = meant.trim_matches('-');
    let remedy = if text.contains('.') && host_name_mistake(meant).is_none() {
        format!("write \"{meant}\" here and the full name among the names of [api]")
    } else if host_name_mistake(meant).is_none() {
        format!("write \"{meant}\"")
    } else {
        "write up to 63 lower-case letters, digits and hyphens, such as \"raspi\"".to_owned()
    };
    Err(Mistake::new(format!("the host name {} {why}", shown(text)), remedy))
}

fn host_name_mistake(text: &str) -> Option<&'static str> {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if text.is_empty() {
        Some("is empty")
    } else if text.contains(char::is_whitespace) {
        Some("contains white space")
    } else if text.contains('.') {
        Some("is more than one label")
    } else if text.contains(|c: char| c.is_ascii_uppercase()) {
        Some("is not in lower case")
    } else if !text.chars().all(is_part) {
        Some("has characters other than letters, digits and hyphens")
    } else if text.len() > 63 {
        Some("is longer than 63 characters")
    } else if text.starts_with('-') || text.ends_with('-') {
        Some("starts or ends with a hyphen")
    } else if text.chars().all(|c| c.is_ascii_digit()) {
        Some("is only digits, for which no certificate can be checked")
    } else if text == "localhost" {
        Some("is the name of every host for itself")
    } else {
        None
    }
}

/// A name or an address that should be in the API server's certificate.
pub(super) fn api_name(text: &str) -> Result<String, Mistake> {
    let wrong =
        |why: &str, remedy: String| Err(Mistake::new(format!("the name {} {why}", shown(text)), remedy));
    if text.contains(',') {
        return wrong("contains a comma", "write each name as an entry of its own".to_owned());
    }
    if text.contains('*') {
        return wrong("is a wildcard", "write out each name that is used, as an entry of its own".to_owned());
    }
    match text.parse::<ServingName>() {
        Ok(ServingName::Ip(address)) if is_of_no_host(address) => wrong(
            "is not the address of a host",
            "write the address of this host, such as 192.168.1.20".to_owned(),
        ),
        Ok(name) => Ok(name.to_string()),
        Err(error) => {
            let example = || "write a name such as raspi.lan or an address such as 192.168.1.20".to_owned();
            let remedy = error.suggestion.map_or_else(example, |meant| format!("write \"{meant}\""));
            wrong(&format!("is not valid: {}", error.why), remedy)
        }
    }
}

/// A server of NTP.
pub(super) fn time_server(text: &str) -> Result<String, Mistake> {
    api_name(text)
        .map_err(|mistake| Mistake { remedy: mistake.remedy.replace("raspi.lan", "pool.ntp.org"), ..mistake })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(judge: fn(&str) -> Result<String, Mistake>, text: &str, why: &str, remedy: &str) {
        let mistake = judge(text).unwrap_err();
        assert!(mistake.message.contains(why), "{text:?}: {mistake:?}");
        assert!(mistake.remedy.contains(remedy), "{text:?}: {mistake:?}");
    }

    #[test]
    fn host_names() {
        for good in ["raspi", "a", "pi-4", "4pi", &"a".repeat(63)] {
            assert_eq!(host_name(good).unwrap(), good);
        }
        for (text, why, remedy) in [
            ("", "is empty", "such as \"raspi\""),
            ("my pi", "white space", "write \"my-pi\""),
            (" raspi", "white space", "write \"raspi\""),
            ("raspi.lan", "more than one label", "write \"raspi\" here and the full name"),
            ("raspi.", "more than one label", "write \"raspi\" here"),
            ("Raspi", "lower case", "write \"raspi\""),
            ("my_pi", "characters other", "write \"my-pi\""),
            ("-pi", "hyphen", "write \"pi\""),
            ("bücher", "characters other", "such as \"raspi\""),
            ("42", "only digits", "such as \"raspi\""),
            ("localhost", "every host", "such as \"raspi\""),
            (&"a".repeat(64), "longer than 63", "such as \"raspi\""),
            ("*", "characters other", "such as \"raspi\""),
        ] {
            check(host_name, text, why, remedy);
        }
    }

    #[test]
    fn api_names() {
        for (good, want) in [
            ("raspi", "raspi"),
            ("Raspi.Local", "raspi.local"),
            ("192.168.1.20", "192.168.1.20"),
            ("FD00::1", "fd00::1"),
        ] {
            assert_eq!(api_name(good).unwrap(), want);
        }
        for (text, why, remedy) in [
            ("*.lan", "is a wildcard", "write out each name"),
            ("raspi.lan.", "ends in a dot", "write \"raspi.lan\""),
            ("raspi.lan ", "white space", "write \"raspi.lan\""),
            ("raspi lan", "white space", "write a name such as"),
            ("raspi.lan,pi.lan", "comma", "an entry of its own"),
            ("raspi.lan:6443", "port", "write \"raspi.lan\""),
            ("https://raspi.lan:6443", "URL", "write \"raspi.lan\""),
            ("192.168.1.20/24", "slash", "write \"192.168.1.20\""),
            ("", "empty", "write a name such as"),
            ("1.2.3.400", "is not valid", "write a name such as"),
            ("0.0.0.0", "not the address of a host", "the address of this host"),
            ("::", "not the address of a host", "the address of this host"),
            ("224.0.0.1", "not the address of a host", "the address of this host"),
        ] {
            check(api_name, text, why, remedy);
        }
    }

    #[test]
    fn time_servers() {
        assert_eq!(time_server("pool.ntp.org").unwrap(), "pool.ntp.org");
        check(time_server, "ntp://pool.ntp.org", "URL", "write \"pool.ntp.org\"");
        check(time_server, "", "empty", "such as pool.ntp.org");
    }
}
