//! Is the address of a kubeconfig one that anybody can use?
//!
//! Only the cluster in force is looked at. Keys and tokens are never repeated,
//! and of a server only what is named here.

use super::server_url::{ServerUrl, UrlError};
use crate::{
    finding::{Code, Finding, Place, Remedy, Severity},
    kubeconfig::unusable,
    shell::quoted,
    text_file::TextFile,
    yaml_node::{self, Node},
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
#[must_use]
pub fn lint(file: &TextFile) -> Vec<Finding> {
    match unusable(file, None) {
        Some(unusable) => vec![unusable.of_administrator()],
        None => judge(file, None, Here::Server),
    }
}

/// The same for who is about to use it: a file that cannot be used is a failure, and on another machine than the server
/// a loopback address is a fault too. By this context, else by the current one.
#[must_use]
pub fn lint_for_use(file: &TextFile, context: Option<&str>, is_server: bool) -> Vec<Finding> {
    match unusable(file, context) {
        Some(unusable) => vec![unusable.in_use(on_the_pi())],
        None => judge(file, context, if is_server { Here::Server } else { Here::Laptop }),
    }
}

fn judge(file: &TextFile, context: Option<&str>, here: Here) -> Vec<Finding> {
    let Ok(root) = yaml_node::parse(&file.text) else { return Vec::new() };
    let Some((name, cluster)) = cluster_in_force(&root, context) else { return Vec::new() };
    let mut findings = Vec::new();
    if let Some(server) = cluster.get("server") {
        let place = Place::at(&file.path, server.line, server.column);
        findings.extend(address(&place, server.as_str().unwrap_or_default(), here));
    }
    findings.extend(insecure(file, cluster, name));
    findings
}

fn on_the_pi() -> Remedy {
    Remedy::new("export it on the machine that k3s runs on, with a name that the server's certificate has")
        .command("sudo weaver kubeconfig export NAME")
}

/// The cluster of the context in force, and the name of its entry.
fn cluster_in_force<'a>(root: &'a Node, context: Option<&str>) -> Option<(&'a str, &'a Node)> {
    let entry = |list: &str, name: &str| {
        let items = root.get(list)?.items();
        items.iter().find(|item| item.get("name").and_then(Node::as_str) == Some(name))
    };
    let name = context.or_else(|| root.get("current-context")?.as_str())?;
    let name = entry("contexts", name)?.get("context")?.get("cluster")?.as_str()?;
    Some((name, entry("clusters", name)?.get("cluster")?))
}

fn address(place: &Place, server: &str, here: Here) -> Option<Finding> {
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
            ", an address to listen at: from another machine the connection is refused",
        )),
        Ok(url) if here == Here::Laptop && url.is_loopback() => {
            Some(unspecified(&url, ": this machine, and not the one that k3s runs on"))
        }
        Err(UrlError::Fallback) => {
            let message = format!(
                "the server at {place} is localhost:8080: kubectl uses it when it has no kubeconfig, and \
                 there is no cluster"
            );
            let remedy = Remedy::new(
                "name the kubeconfig of the cluster: on the server of k3s it is that of the last command",
            )
            .command(format!("sudo weaver kubeconfig export NAME --kubeconfig {}", super::K3S_KUBECONFIG));
            let finding = Finding::new(Code::KubeconfigFallback, message);
            Some(finding.saw(place.clone(), "localhost:8080").remedy(remedy))
        }
        _ => None,
    }
}

/// With the command, where kubectl's path to the entry can hold its name.
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

fn insecure(file: &TextFile, cluster: &Node, name: &str) -> Option<Finding> {
    let insecure = cluster.get("insecure-skip-tls-verify").filter(|node| node.as_str() == Some("true"))?;
    let place = Place::at(&file.path, insecure.line, insecure.column);
    let has_ca =
        ["certificate-authority-data", "certificate-authority"].iter().any(|key| cluster.get(key).is_some());
    let finding = if has_ca {
        let message = format!(
            "{place} turns verification off although there is a CA to verify by; kubectl refuses the two \
             together"
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
        ] {
            assert_eq!(codes(server, ""), want, "{server}");
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
            let _ = address(&Place::file("/k"), &server, Here::Laptop);
        }
    }
}
