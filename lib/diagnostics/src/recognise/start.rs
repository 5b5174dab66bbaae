//! What k3s says at its start, of its settings, its ports and its datastore.

use super::details::{Details, after, is_plain};
use crate::finding::Remedy;

/// Is it k3s that speaks? Other programs have the same libraries.
fn is_of_k3s(line: &str) -> bool {
    ["level=fatal", "level=error", "level=panic", "FATA[", "ERRO[", "k3s"]
        .iter()
        .any(|words| line.contains(words))
        && !line.contains("app=")
}

/// SQLite's words are those of each program that has it inside.
pub(super) fn of_kine(line: &str) -> Option<Details> {
    (is_of_k3s(line) || line.contains("kine") || line.contains("/registry/")).then(Details::default)
}

pub(super) fn of_etcd(line: &str) -> Option<Details> {
    ["etcd", "\"caller\":", "member/"].iter().any(|words| line.contains(words)).then(Details::default)
}

/// What is encrypted elsewhere is not decrypted with the same words, as a vault or a backup.
pub(super) fn of_the_datastore(line: &str) -> Option<Details> {
    ["bootstrap", "preparing server", "starting kubernetes", "Failed to reconcile"]
        .iter()
        .any(|words| line.contains(words))
        .then(Details::default)
}

pub(super) fn config_location(line: &str) -> Option<Details> {
    line.contains(": yaml: ").then(Details::default)
}

/// The ports of k3s and of what it starts.
const PORTS: &[&str] =
    &["6443", "6444", "2379", "2380", "8472", "10248", "10249", "10250", "10256", "10257", "10258", "10259"];

pub(super) fn port_taken(line: &str) -> Option<Details> {
    let place = after(line, "listen tcp ", &[' ']).or_else(|| after(line, "listen udp ", &[' ']))?;
    let port = place.trim_end_matches(':').rsplit_once(':')?.1;
    if !PORTS.contains(&port) {
        return None;
    }
    Some(
        Details::message(format!("port {port}, which k3s needs, is in use")).remedy(
            Remedy::new(
                "find out which program listens there and stop it; it can also be an old k3s that did not exit, or \
                the agent unit running next to the server unit",
            )
            .command(format!("sudo ss -lntup 'sport = :{port}'"))
            .command("systemctl list-units 'k3s*'"),
        ),
    )
}

pub(super) fn unknown_flag(line: &str) -> Option<Details> {
    let flag = after(line, "Unknown flag ", &[' '])?;
    (line.contains(" found in config.yaml") && is_plain(flag.trim_start_matches('-'))).then(|| {
        Details::message(format!("k3s does not know `{}`, and ignores it", flag.trim_start_matches('-')))
    })
}

pub(super) fn unknown_kubelet_flag(line: &str) -> Details {
    let flag = after(line, "unknown flag: --", &['"', ' ', '\\', '\n']).unwrap_or_default();
    Details::message(format!("the kubelet does not know `{flag}`, and does not start")).remedy(
        Remedy::new(
            "remove it from `kubelet-arg`: flags are removed from one version of Kubernetes to the next",
        )
        .command("sudo grep -rn kubelet-arg /etc/rancher/k3s /etc/systemd/system/k3s*.service"),
    )
}
