//! Endpoints of `registries.yaml` from which nothing can be fetched. Pure.

use crate::yaml_node::PRINTED_QUOTES;

pub(super) const QUOTED: &str =
    "these quotes are those of a word processor, and YAML takes them as a part of the name";
pub(super) const QUOTES: &str = "write it in plain quotes, as a text editor writes them, or without quotes";

const EXAMPLE: &str = "write the address of the registry: https://HOST:PORT";

/// What is wrong with an endpoint, and what to write. One without a scheme is right: k3s takes https.
pub(super) fn fault(url: &str) -> Option<(&'static str, String)> {
    if url.contains(PRINTED_QUOTES) {
        return Some((QUOTED, QUOTES.to_owned()));
    }
    if url.contains(char::is_whitespace) {
        return Some(("an endpoint has a space in it, so k3s ignores it", "remove the space".to_owned()));
    }
    // A part of a template that was left as it was: `${name}`, `{{ name }}`, `<name>`.
    if url.contains(['<', '>', '{', '}', '$']) {
        let what = "this endpoint has a character that no host has: a part of it was never filled in";
        return Some((what, EXAMPLE.to_owned()));
    }
    let what = "an endpoint begins with something other than http:// and https://, so no image comes from it";
    if lacks_slash(url) {
        let rest = url.trim_start_matches(|c: char| c.is_ascii_alphabetic()).trim_start_matches([':', '/']);
        let scheme = if url.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("https")) {
            "https"
        } else {
            "http"
        };
        return Some((what, format!("write {scheme}://{rest}")));
    }
    let scheme = url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    let is_other = scheme.is_some_and(|scheme| !["http", "https"].contains(&scheme.as_str()));
    is_other.then(|| (what, EXAMPLE.to_owned()))
}

/// `http:/HOST` or `https//HOST`, of which k3s takes the scheme as the host.
pub(super) fn lacks_slash(url: &str) -> bool {
    let url = url.to_ascii_lowercase();
    !url.contains("://")
        && ["http:/", "https:/", "http//", "https//"].iter().any(|start| url.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_from_which_nothing_comes() {
        for (url, want) in [
            ("https://a.lan:5000/v2", None),
            ("HTTP://a.lan", None),
            ("a.lan:5000/proxy", None),
            ("httpd.lan:5000", None),
            ("http.lan", None),
            ("htp://a.lan", Some(EXAMPLE)),
            ("oci://a.lan", Some(EXAMPLE)),
            ("http:/a.lan:5000", Some("write http://a.lan:5000")),
            ("https//a.lan/v2", Some("write https://a.lan/v2")),
            ("“https://a.lan”", Some(QUOTES)),
            ("http://a.lan ", Some("remove the space")),
            ("http://${HOST}", Some(EXAMPLE)),
        ] {
            assert_eq!(fault(url).map(|(_, remedy)| remedy).as_deref(), want, "{url}");
        }
    }
}
