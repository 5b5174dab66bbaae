//! Names that can be in a certificate: what is one, and which served name looks most like a wanted one.
//!
//! The rules are the stricter of what k3s' listener accepts (it drops other
//! names with a log line only) and what a client can verify; an error says
//! which of the two refuses.

use std::{fmt, net::IpAddr, str::FromStr};

/// A name that can be served and verified.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ServingName {
    /// A DNS name in lower case.
    Dns(String),
    /// `*.REST`; the rest in lower case.
    Wildcard(String),
    Ip(IpAddr),
}

impl ServingName {
    /// Whether the name is one that mDNS answers for, and so none that kubectl finds: it asks DNS and /etc/hosts only
    /// (kubernetes/kubectl#48).
    pub fn is_mdns(&self) -> bool {
        matches!(self, Self::Dns(name) if name.rsplit_once('.').is_some_and(|(_, last)| last == "local"))
    }
}

impl fmt::Display for ServingName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dns(name) => f.write_str(name),
            Self::Wildcard(rest) => write!(f, "*.{rest}"),
            Self::Ip(address) => address.fmt(f),
        }
    }
}

/// What becomes of a text that is no name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// k3s drops it with a log line and starts without it.
    Dropped,
    /// k3s serves it, and no client can ask for it.
    Unusable,
    /// k3s serves it and some clients take it; the agent's own TLS does not,
    /// so it cannot be proven.
    Unprovable,
}

/// Why a text is no name, and what was probably meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct NameError {
    /// What is wrong with it.
    pub why: &'static str,
    /// What k3s and clients make of it.
    pub fate: Fate,
    /// The name that was probably meant.
    pub suggestion: Option<String>,
}

impl FromStr for ServingName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Ip(address));
        }
        let (rest, wildcard) = text.strip_prefix("*.").map_or((text, false), |rest| (rest, true));
        if let Some((why, meant)) = mistake(text, rest) {
            // Only a suggestion that is itself a name is worth making.
            let suggestion = meant.filter(|meant| meant != text && meant.parse::<Self>().is_ok());
            let fate = fate(text, rest);
            return Err(NameError { why, fate, suggestion });
        }
        let name = rest.to_ascii_lowercase();
        Ok(if wildcard { Self::Wildcard(name) } else { Self::Dns(name) })
    }
}

/// The first mistake, and what the text may have been meant to say.
/// `rest` is the text without a leading `*.`.
fn mistake(text: &str, rest: &str) -> Option<(&'static str, Option<String>)> {
    let owned = |text: &str| Some(text.to_owned());
    if text.trim().is_empty() {
        return Some(("it is empty", None));
    }
    if text.contains(char::is_whitespace) {
        return Some(("it contains white space", owned(text.trim())));
    }
    if let Some((_, after)) = text.split_once("://") {
        let host = after.split(['/', '?', '#']).next().unwrap_or_default();
        return Some(("it is a URL, not a name", owned(without_port(host))));
    }
    if let Some((host, _)) = text.split_once('/') {
        return Some(("it contains a slash: networks and paths are not names", owned(host)));
    }
    if text.starts_with('[') {
        return Some(("it has brackets or a port", owned(without_port(text))));
    }
    if text.contains(':') {
        return Some((
            "it contains a colon but is not an IPv6 address: remove the port",
            owned(without_port(text)),
        ));
    }
    if !text.is_ascii() {
        return Some(("it has letters outside ASCII: write the punycode form (xn--…)", None));
    }
    if let Some(name) = text.strip_suffix('.') {
        return Some(("it ends in a dot", owned(name)));
    }
    if rest.contains('*') {
        return Some(("`*` is allowed only as the whole first label, as in *.example", None));
    }
    if text.starts_with('_') || text.ends_with('_') {
        return Some(("it starts or ends with an underscore", owned(text.trim_matches('_'))));
    }
    if rest.len() > 253 {
        return Some(("it is longer than 253 characters", None));
    }
    for label in rest.split('.') {
        if label.is_empty() {
            return Some(("it has an empty label: two dots, or one in front", owned(text.trim_matches('.'))));
        }
        if label.len() > 63 {
            return Some(("a label is longer than 63 characters", None));
        }
        if label.starts_with('-') || label.ends_with('-') {
            return Some(("a label starts or ends with a hyphen", owned(text.trim_matches('-'))));
        }
        if !label.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')) {
            return Some(("it has characters other than letters, digits, hyphens and dots", None));
        }
    }
    if has_numeric_end(rest) {
        return Some(("it ends in a number like an IP address but is not one", None));
    }
    // k3s has the last word on the characters at both ends.
    (!is_taken_by_k3s(rest)).then_some(("k3s' pattern of names does not match it", None))
}

fn has_numeric_end(rest: &str) -> bool {
    rest.rsplit('.').next().is_some_and(|last| last.chars().all(|c| c.is_ascii_digit()))
}

/// k3s' pattern, `^(\*\.)?([A-Za-z0-9:][-A-Za-z0-9_.:]*)?[A-Za-z0-9:]$`, for
/// the part after `*.`.
fn is_taken_by_k3s(rest: &str) -> bool {
    let at_an_end = |c: char| c.is_ascii_alphanumeric() || c == ':';
    rest.starts_with(at_an_end)
        && rest.ends_with(at_an_end)
        && rest.chars().all(|c| at_an_end(c) || matches!(c, '-' | '_' | '.'))
}

/// Of a text that is no name. `rest` is the text without a leading `*.`.
fn fate(text: &str, rest: &str) -> Fate {
    let has_label = |test: fn(&str) -> bool| rest.split('.').any(test);
    if !is_taken_by_k3s(rest) {
        Fate::Dropped
    } else if text.contains(':') || rest.len() > 253 || has_label(|l| l.is_empty() || l.len() > 63) {
        Fate::Unusable
    } else {
        Fate::Unprovable
    }
}

/// The host of `host:port` or `[v6]:port`.
fn without_port(host: &str) -> &str {
    if let Some((v6, _)) = host.strip_prefix('[').and_then(|h| h.split_once(']')) {
        return v6;
    }
    host.split(':').next().unwrap_or(host)
}

/// Names that are in every certificate of k3s and are of no use from another machine.
pub fn is_inner(served: &str) -> bool {
    served.starts_with("kubernetes") || served == "localhost" || served == "::1"
}

/// The served name that looks most like the wanted one, where one does. A certificate may have any text in the place
/// of a name, which is not for a user to type.
pub fn nearest<'a>(wanted: &str, served: &'a [String]) -> Option<&'a str> {
    served
        .iter()
        .filter(|name| !is_inner(name) && name.parse::<ServingName>().is_ok())
        .map(|name| (strsim::jaro_winkler(wanted, &name.to_ascii_lowercase()), name.as_str()))
        .filter(|(likeness, _)| *likeness > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_a_name() {
        for (text, want) in [
            ("pi", "pi"),
            ("Pi.Example", "pi.example"),
            ("a_b.example", "a_b.example"),
            ("3com.com", "3com.com"),
            ("*.pi.example", "*.pi.example"),
            ("192.168.1.7", "192.168.1.7"),
            ("FD00::1", "fd00::1"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ] {
            assert_eq!(text.parse::<ServingName>().unwrap().to_string(), want);
        }
    }

    #[test]
    fn what_is_not_a_name_and_what_was_meant() {
        for (text, why, meant) in [
            ("", "empty", None),
            ("pi.example.", "ends in a dot", Some("pi.example")),
            ("_pi", "underscore", Some("pi")),
            (" 1.2.3.4", "white space", Some("1.2.3.4")),
            ("a b", "white space", None),
            ("pi:6443", "port", Some("pi")),
            ("[fd00::1]:6443", "brackets", Some("fd00::1")),
            ("https://pi.example:6443/x", "URL", Some("pi.example")),
            ("https://[fd00::1]:6443", "URL", Some("fd00::1")),
            ("10.0.0.0/8", "slash", Some("10.0.0.0")),
            ("10.0.0.256", "number like an IP", None),
            ("1.2.3", "number like an IP", None),
            ("pi_", "underscore", Some("pi")),
            ("a..b", "empty label", None),
            (".pi", "empty label", Some("pi")),
            ("-pi", "hyphen", Some("pi")),
            ("a.*.b", "`*`", None),
            ("*", "`*`", None),
            ("*.", "ends in a dot", None),
            ("bücher.example", "punycode", None),
            ("pi!", "characters", None),
        ] {
            let error = text.parse::<ServingName>().unwrap_err();
            assert!(error.why.contains(why), "{text:?}: {error}");
            assert_eq!(error.suggestion.as_deref(), meant, "{text:?}");
        }
        assert!("a".repeat(64).parse::<ServingName>().is_err());
        assert!(vec!["a"; 128].join(".").parse::<ServingName>().is_err());
    }

    #[test]
    fn what_becomes_of_it() {
        use Fate::{Dropped, Unprovable, Unusable};
        for (text, want) in [
            ("pi.example.", Dropped),
            ("_pi", Dropped),
            ("pi_", Dropped),
            ("-pi", Dropped),
            ("10.0.0.0/8", Dropped),
            (" pi", Dropped),
            ("https://pi", Dropped),
            ("*", Dropped),
            ("bücher.example", Dropped),
            ("pi:6443", Unusable),
            ("a..b", Unusable),
            (&"a".repeat(64), Unusable),
            ("node.1", Unprovable),
            ("42", Unprovable),
            ("*.node.1", Unprovable),
            ("a-.b", Unprovable),
        ] {
            assert_eq!(text.parse::<ServingName>().unwrap_err().fate, want, "{text:?}");
        }
    }

    #[test]
    fn the_nearest_name() {
        let served: Vec<_> =
            ["kubernetes", "localhost", "10.43.0.1", "raspik3d", "box.example"].map(str::to_owned).into();
        assert_eq!(nearest("raspi", &served), Some("raspik3d"));
        assert_eq!(nearest("bux.example", &served), Some("box.example"));
        assert_eq!(nearest("zzz", &served), None);
        for hostile in ["raspi;reboot", "raspi$(reboot)", "raspi reboot", "raspi\nreboot", "-raspi"] {
            assert_eq!(nearest("raspi", &[hostile.to_owned()]), None, "{hostile:?}");
        }
    }

    proptest! {
        #[test]
        fn parsing_never_panics_and_is_idempotent(text in "\\PC*|[-a-c.*_:\\[\\]/ 0-9]{0,12}") {
            match text.parse::<ServingName>() {
                Ok(name) => {
                    let shown = name.to_string();
                    prop_assert!(is_taken_by_k3s(shown.strip_prefix("*.").unwrap_or(&shown)));
                    prop_assert_eq!(name.to_string().parse::<ServingName>(), Ok(name));
                }
                Err(error) => prop_assert!(error.suggestion.is_none_or(|s| s.parse::<ServingName>().is_ok())),
            }
        }
    }
}
