//! Is the address of a kubeconfig one that anyone can use?
//!
//! Only the cluster in force is looked at. Keys and tokens are never repeated,
//! and of a server only what is named here.

use super::server_url::{ServerUrl, UrlError};
use crate::{
    finding::{Code, Finding, Place, Remedy, Severity},
    kubeconfig::{in_force, unusable},
    shell::quoted,
    text_file::TextFile,
    yaml_node::{self, YamlNode},
};

/// Where a kubeconfig is looked at.
#[derive(Clone, Copy, PartialEq)]
enum Here {
    /// On the machine that k3s runs on, or where nothing of that matters.
    Server,
    /// On another one: its loopback addresses lead elsewhere.
    Laptop,
}

/// What is wrong with it; nothing where all is well.
pub fn lint(file: &TextFile) -> Vec<Finding> {
    match unusable(file, None) {
        Some(unusable) => vec![unusable.of_administrator()],
        None => judge(file, None, Here::Server),
    }
}

/// The same for who is about to use it: a file that cannot be used is a failure, and on another machine than the server
/// a loopback address is a fault too. By this context, else by the current one.
pub fn lint_for_use(file: &TextFile, context: Option<&str>, is_server: bool) -> Vec<Finding> {
    match unusable(file, context) {
        Some(unusable) => vec![unusable.in_use(on_the_pi())],
        None => judge(file, context, if is_server { Here::Server } else { Here::Laptop }),
    }
}

fn judge(file: &TextFile, context: Option<&str>, here: Here) -> Vec<Finding> {
    let Ok(root) = yaml_node::parse(&file.text) else { return Vec::new() };
    let Ok([(name, cluster), (_, user)]) = in_force(&root, context) else { return Vec::new() };
    let mut findings = Vec::new();
    if let Some(server) = cluster.get("server") {
        let place = Place::at(&file.path, server.line, server.column);
        let has_tls = has_tls(cluster, user);
        findings.extend(address(&place, server.as_str().unwrap_or_default(), has_tls, here));
    }
    findings.extend(insecure(file, cluster, name));
    findings
}

/// For who has a copy of the kubeconfig, and not the file that k3s writes.
pub fn on_the_pi() -> Remedy {
    Remedy::new("export it on the machine that k3s runs on, with a name that the server's certificate has")
        .command("sudo weaver kubeconfig export NAME")
}

/// Whether kubectl takes https for an address without a scheme.
fn has_tls(cluster: &YamlNode, user: &YamlNode) -> bool {
    let has = |body: &YamlNode, keys: &[&str]| {
        keys.iter().any(|key| body.text(key).is_some_and(|text| !text.is_empty()))
    };
    let is_insecure = cluster.text("insecure-skip-tls-verify") == Some("true");
    is_insecure
        || has(cluster, &["certificate-authority-data", "certificate-authority"])
        || has(user, &["client-certificate-data", "client-certificate"])
}

fn address(place: &Place, server: &str, has_tls: bool, here: Here) -> Option<Finding> {
    let unspecified = |url: &ServerUrl, what: &str| {
        let message = format!("the server at {place} is {}{what}", url.host);
        Finding::new(Code::KubeconfigUnspecified, message)
            // Nothing was connected to: it may be used where it is right, or through a tunnel.
            .milder(Severity::Warn)
            .saw(place.clone(), format!("host {}", url.host))
            .remedy(on_the_pi())
    };
    match server.parse::<ServerUrl>() {
        Ok(url) if url.is_unspecified() => Some(unspecified(
            &url,
            ", an address to listen on: from another machine the connection is refused",
        )),
        Ok(url) if here == Here::Laptop && url.is_loopback() => {
            Some(unspecified(&url, ": this machine, and not the one that k3s runs on"))
        }
        Err(UrlError::Fallback) => {
            let message = format!(
                "the server at {place} is localhost:8080: kubectl uses it when it has no kubeconfig, and there is no cluster"
            );
            let remedy = Remedy::new(
                "pass the kubeconfig of the cluster with --kubeconfig; on the k3s server, export one with the command below",
            )
            .command(format!("sudo weaver kubeconfig export NAME --kubeconfig {}", super::K3S_KUBECONFIG));
            let finding = Finding::new(Code::KubeconfigFallback, message);
            Some(finding.saw(place.clone(), "localhost:8080").remedy(remedy))
        }
        Err(error) => {
            let is_bare = error == UrlError::NotHttps && is_host_port(server);
            let message = match (is_bare, has_tls) {
                (true, true) => {
                    format!("the server at {place} has no scheme: kubectl takes https, other programs do not")
                }
                (true, false) => format!(
                    "the server at {place} has no scheme, and there is no CA: kubectl takes http, which the API server refuses"
                ),
                (false, _) => format!("the server at {place} {error}"),
            };
            let remedy = meant(server).map_or_else(on_the_pi, |meant| Remedy::new(format!("write {meant}")));
            let finding =
                Finding::new(Code::KubeconfigUnusable, message).saw(place.clone(), error.to_string());
            // kubectl takes a name and a password in it.
            Some(
                if error == UrlError::UserInfo || is_bare && has_tls {
                    finding.milder(Severity::Warn)
                } else {
                    finding
                }
                .remedy(remedy),
            )
        }
        Ok(_) => {
            // The last group of an address that has no port behind it.
            let start = server.strip_suffix(":6443]").filter(|start| !start.ends_with(':'))?;
            let message = format!(
                "the port of the server at {place} is within the brackets, so it is a part of the address"
            );
            Some(
                Finding::new(Code::KubeconfigUnusable, message)
                    .milder(Severity::Warn)
                    .saw(place.clone(), "[…:6443]")
                    .remedy(Remedy::new(format!("write {start}]:6443"))),
            )
        }
    }
}

/// `HOST[:PORT]`, and nothing after it but a slash.
fn is_host_port(server: &str) -> bool {
    let authority = server.strip_suffix('/').unwrap_or(server);
    !authority.contains(['/', '?', '#']) && format!("https://{authority}").parse::<ServerUrl>().is_ok()
}

/// What was meant by an address that is no URL, if it can be guessed.
fn meant(server: &str) -> Option<String> {
    // A zone of an address, whose sign a URL writes as %25.
    let zoned =
        server.split_once('%').filter(|(before, zone)| before.contains('[') && !zone.starts_with("25"));
    if let Some((before, zone)) = zoned.filter(|(_, zone)| zone.contains(']')) {
        return Some(format!("{before}%25{zone}"));
    }
    let server = server.trim();
    if server.parse::<ServerUrl>().is_ok() {
        return Some(server.to_owned());
    }
    let (scheme, rest) = split_scheme(server);
    let (authority, _) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let authority = authority.trim_end_matches(':');
    if authority.contains('@') || !["http", "https"].contains(&scheme.to_ascii_lowercase().as_str()) {
        return None;
    }
    let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port != 0);
    let (host, number) =
        authority.rsplit_once(':').map_or((authority, None), |(host, last)| (host, port(last)));
    let twice = host.rsplit_once(':').filter(|(_, last)| port(last) == number && number.is_some());
    let is_v6 = |text: &str| text.parse::<std::net::Ipv6Addr>().is_ok();
    let url = match (number, twice) {
        // The last group is a port rather than a part of the address, which mostly has one.
        (Some(number), _) if is_v6(host) => format!("https://[{host}]:{number}"),
        _ if is_v6(authority) => format!("https://[{authority}]:6443"),
        (Some(number), Some((host, _))) => format!("https://{host}:{number}"),
        // A port alone, and no host to go with it.
        (Some(_), None) if host.is_empty() => return None,
        (Some(_), None) => format!("https://{authority}"),
        _ => format!("https://{authority}:6443"),
    };
    url.parse::<ServerUrl>().is_ok().then_some(url)
}

/// The scheme, with whatever number of slashes after it, and the rest.
fn split_scheme(server: &str) -> (&str, &str) {
    let starts = ["https:/", "http:/", "https//", "http//"];
    let lower = server.to_ascii_lowercase();
    if starts.iter().any(|start| lower.starts_with(start))
        && let Some(end) = server.find([':', '/'])
    {
        return (&server[..end], server[end..].trim_start_matches([':', '/']));
    }
    server.split_once("://").unwrap_or(("https", server.trim_start_matches('/')))
}

/// With the command, where the name can be part of kubectl's path to the entry.
fn verified(file: &TextFile, name: &str) -> Remedy {
    let remedy = Remedy::new("remove insecure-skip-tls-verify: an exported name is verified");
    let is_plain =
        |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '/'));
    if !is_plain(name) {
        return remedy;
    }
    let file = quoted(&file.path);
    remedy
        .command(format!("kubectl --kubeconfig {file} config unset clusters.{name}.insecure-skip-tls-verify"))
}

fn insecure(file: &TextFile, cluster: &YamlNode, name: &str) -> Option<Finding> {
    let insecure = cluster.get("insecure-skip-tls-verify").filter(|node| node.as_str() == Some("true"))?;
    let place = Place::at(&file.path, insecure.line, insecure.column);
    let has_ca =
        ["certificate-authority-data", "certificate-authority"].iter().any(|key| cluster.get(key).is_some());
    let finding = if has_ca {
        let message = format!(
            "{place} turns verification off although there is a CA to verify by; kubectl refuses the two together"
        );
        Finding::new(Code::KubeconfigInsecureWithCa, message).remedy(verified(file, name))
    } else {
        let message = format!(
            "{place} turns verification off: any machine that answers at that address gets your credentials"
        );
        Finding::new(Code::KubeconfigInsecure, message).remedy(on_the_pi())
    };
    Some(finding.saw(place, "insecure-skip-tls-verify: true"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn codes(server: &str, more: &str) -> Vec<(Code, Severity)> {
        let text = format!(
            "current-context: a\ncontexts:\n- {{name: a, context: {{cluster: c, user: u}}}}\nusers:\n- \
             {{name: u, \
             user: {{token: hunter2}}}}\nclusters:\n- name: other\n  cluster: {{server: 'localhost:8080'}}\n- name: c\n  \
             cluster:\n    server: {server}\n{more}"
        );
        lint(&TextFile::new("/k", text))
            .into_iter()
            .map(|finding| {
                assert!(!format!("{finding:?}").contains("hunter2"), "{finding:?}");
                assert!(finding.remedy.is_some());
                assert!(finding.message.contains("/k"), "{}", finding.message);
                (finding.code, finding.severity())
            })
            .collect()
    }

    #[test]
    fn each_address() {
        use {Code::*, Severity::*};
        for (server, want) in [
            ("https://127.0.0.1:6443", vec![]),
            ("https://pi.lan:6443", vec![]),
            ("https://0.0.0.0:34067", vec![(KubeconfigUnspecified, Warn)]),
            ("https://[::]:6443", vec![(KubeconfigUnspecified, Warn)]),
            ("http://localhost:8080", vec![(KubeconfigFallback, Fail)]),
            ("localhost:8080", vec![(KubeconfigFallback, Fail)]),
            ("https://2001:db8::10:6443", vec![(KubeconfigUnusable, Fail)]),
            ("https://192.168.1.5:6443:6443", vec![(KubeconfigUnusable, Fail)]),
            ("http://raspi.lan:6443", vec![(KubeconfigUnusable, Fail)]),
            ("raspi.lan:6443", vec![(KubeconfigUnusable, Fail)]),
            ("https://:6443", vec![(KubeconfigUnusable, Fail)]),
            ("'https://raspi.lan:'", vec![(KubeconfigUnusable, Fail)]),
            ("//raspi.lan:6443", vec![(KubeconfigUnusable, Fail)]),
            ("https://192.168.1.500:6443", vec![(KubeconfigUnusable, Fail)]),
            ("https://192.168.001.005:6443", vec![(KubeconfigUnusable, Fail)]),
            ("https://raspi.lan;6443", vec![(KubeconfigUnusable, Fail)]),
            ("'https://[2001:db8::10:6443]'", vec![(KubeconfigUnusable, Warn)]),
            ("'https://[fd00::6443]'", vec![]),
            ("https://", vec![(KubeconfigUnusable, Fail)]),
            ("https://raspi:port", vec![(KubeconfigUnusable, Fail)]),
            ("https://me:hunter2@raspi:6443", vec![(KubeconfigUnusable, Warn)]),
            ("https:/192.168.1.10:6443", vec![(KubeconfigUnusable, Fail)]),
            ("https//192.168.1.10:6443", vec![(KubeconfigUnusable, Fail)]),
            ("raspi.lan:6443/path", vec![(KubeconfigUnusable, Fail)]),
            ("'[fe80::1%25eth0]:6443'", vec![(KubeconfigUnusable, Fail)]),
            ("'https://[fe80::1%25eth0]:6443'", vec![]),
        ] {
            assert_eq!(codes(server, ""), want, "{server}");
        }
    }

    /// kubernetes#136497: kubectl adds https only to what it is to prove by a CA or to prove itself to.
    #[test]
    fn an_address_without_a_scheme_is_a_failure_where_kubectl_takes_http() {
        let ca = "    certificate-authority-data: QUJD\n";
        assert_eq!(codes("raspi.lan:6443", ca), [(Code::KubeconfigUnusable, Severity::Warn)]);
        assert_eq!(codes("raspi.lan:6443", ""), [(Code::KubeconfigUnusable, Severity::Fail)]);
    }

    #[test]
    fn what_was_meant_is_a_url_or_is_not_guessed() {
        for (server, want) in [
            ("https://2001:db8::10:6443", Some("https://[2001:db8::10]:6443")),
            ("https://[fe80::1%eth0]:6443", Some("https://[fe80::1%25eth0]:6443")),
            ("https://raspi.lan:6443 ", Some("https://raspi.lan:6443")),
            ("https://fe80::1", Some("https://[fe80::1]:6443")),
            ("https://192.168.1.5:6443:6443", Some("https://192.168.1.5:6443")),
            ("http://raspi.lan:6443", Some("https://raspi.lan:6443")),
            ("http://raspi.lan/", Some("https://raspi.lan:6443")),
            ("raspi.lan:6443", Some("https://raspi.lan:6443")),
            ("raspi.lan", Some("https://raspi.lan:6443")),
            ("https:/192.168.1.10:6443", Some("https://192.168.1.10:6443")),
            ("https:///192.168.1.10:6443", Some("https://192.168.1.10:6443")),
            ("https//raspi", Some("https://raspi:6443")),
            ("https://raspi.lan:", Some("https://raspi.lan:6443")),
            ("//raspi.lan", Some("https://raspi.lan:6443")),
            ("https://", None),
            ("https://:6443", None),
            ("https://192.168.1.500:6443", None),
            ("ftp://raspi", None),
            ("https://me:hunter2@raspi:6443", None),
        ] {
            assert_eq!(meant(server).as_deref(), want, "{server}");
        }
    }

    #[test]
    fn a_ca_and_no_verification() {
        let both = "    certificate-authority-data: QUJD\n    insecure-skip-tls-verify: true\n";
        assert_eq!(codes("https://pi:1", both), [(Code::KubeconfigInsecureWithCa, Severity::Fail)]);
        let without_ca = codes("https://pi:1", "    insecure-skip-tls-verify: true\n");
        assert_eq!(without_ca, [(Code::KubeconfigInsecure, Severity::Warn)]);
        assert_eq!(codes("https://pi:1", &both.replace("true", "false")), []);
    }

    #[test]
    fn a_loopback_address_is_a_fault_on_another_machine_only() {
        for (server, want) in [
            ("https://127.0.0.1:6443", 1),
            ("https://localhost:6443", 1),
            ("https://[::1]:6443", 1),
            ("https://pi.lan:6443", 0),
            ("https://0.0.0.0:6443", 1),
            ("http://localhost:8080", 1),
        ] {
            let text = format!(
                "current-context: a\ncontexts:\n- {{name: a, context: {{cluster: c, user: u}}}}\nusers:\n- \
                 {{name: u, \
                 user: {{token: x}}}}\nclusters:\n- name: c\n  cluster: {{server: '{server}'}}\n"
            );
            let file = TextFile::new("/k", text);
            assert_eq!(lint_for_use(&file, None, false).len(), want, "{server}");
            assert_eq!(lint_for_use(&file, None, true), lint(&file), "{server}");
        }
    }

    #[test]
    fn a_file_without_a_cluster() {
        let found = lint(&TextFile::new("/k", "kind: Config\n"));
        assert_eq!(found.iter().map(|f| f.code).collect::<Vec<_>>(), [Code::KubeconfigUnusable]);
        let found = lint_for_use(&TextFile::new("/k", "kind: Config\n"), None, true).remove(0);
        assert_eq!((found.code, found.severity()), (Code::KubeconfigUnusable, Severity::Fail));
    }

    proptest! {
        #[test]
        fn never_panics(text in "\\PC*", server in "\\PC{0,20}") {
            let _ = lint_for_use(&TextFile::new("/k", text), None, false);
            let _ = address(&Place::file("/k"), &server, false, Here::Laptop);
            let _ = meant(&server);
        }
    }
}
