//! What k3s and containerd say of parts of registries.yaml that they do not use.

use super::details::{Details, after, is_plain};
use crate::finding::RESTART_K3S;

/// `0=htp://reg for docker.io: …`: the number, the endpoint and whose mirror it is.
fn endpoint<'a>(line: &'a str, before: &str) -> Option<(&'a str, &'a str)> {
    let (_, rest) = after(line, before, &['\n'])?.split_once('=')?;
    let (endpoint, rest) = rest.split_once(" for ")?;
    Some((endpoint, rest.split([':', '"', ' ']).next().unwrap_or_default()))
}

fn correct(details: Details) -> Details {
    details
        .advice("correct the entry in registries.yaml, and restart k3s")
        .command("sudo grep -nE '://|:$' /etc/rancher/k3s/registries.yaml")
        .command(RESTART_K3S)
}

pub(super) fn invalid_endpoint(line: &str) -> Details {
    endpoint(line, "nvalid endpoint URL ").map_or_else(Details::default, |(endpoint, mirror)| {
        correct(Details::message(format!(
            "k3s ignores `{endpoint}`, an endpoint of {mirror}, which is not a URL"
        )))
    })
}

pub(super) fn same_endpoint(line: &str) -> Details {
    endpoint(line, "uplicate endpoint URL ").map_or_else(Details::default, |(endpoint, mirror)| {
        correct(Details::message(format!(
            "`{endpoint}` is twice among the endpoints of {mirror}, and used once"
        )))
    })
}

pub(super) fn not_generated(line: &str) -> Details {
    after(line, "config for registry ", &['"', ' ']).map_or_else(Details::default, |registry| {
        let registry = registry.trim_end_matches(':');
        correct(Details::message(format!(
            "k3s ignores what registries.yaml has of `{registry}`, which is not a host"
        )))
    })
}

/// k3s applies each file of that directory as objects of Kubernetes. k3s#8677
pub(super) fn among_manifests(line: &str) -> Option<Details> {
    const MISPLACED: &str = "/var/lib/rancher/k3s/server/manifests/registries.yaml";
    let at = line.find("failed to process /")? + "failed to process ".len();
    let path = line[at..].split([':', ' ']).next()?;
    // A file that a pod wrote into its volume must not be moved to where k3s takes it for its own.
    let file = if path == MISPLACED { MISPLACED } else { "FILE" };
    (path.contains("/manifests/") && is_plain(path)).then(|| {
        Details::message(format!(
            "k3s does not read {path}: among the manifests it looks for objects of Kubernetes"
        ))
        .advice("move it to where k3s looks for it")
        .command(format!("sudo mv {file} /etc/rancher/k3s/registries.yaml"))
        .command(RESTART_K3S)
    })
}

/// A template of one's own that leaves the credentials out.
pub(super) fn without_auth(line: &str) -> Details {
    let registries =
        after(line, "registry auth for ", &['"']).and_then(|rest| rest.split_once(" is configured"));
    let whom = registries.map_or("a registry", |(registries, _)| registries);
    Details::message(format!(
        "the credentials for {whom} are not used: the containerd template leaves them out"
    ))
    .advice("begin the template with `{{ template \"base\" . }}`, which has them, or remove the template")
    .command("sudo ls -l /var/lib/rancher/k3s/agent/etc/containerd")
    .command(RESTART_K3S)
}

/// containerd's word of a file that k3s writes from registries.yaml, or that was put next to those.
pub(super) fn hosts_file(_: &str) -> Details {
    Details::message("containerd cannot read a hosts.toml, and ignores what it says of that registry")
        .advice(
            "k3s writes these files from registries.yaml at each start: look there for a value with a quote or a line break. \
             A file that does not begin with k3s' header is your own",
        )
        .command("sudo grep -rn . /var/lib/rancher/k3s/agent/etc/containerd/certs.d")
        .command(RESTART_K3S)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_without_effect_is_named() {
        let invalid = r#"msg="Ignoring invalid endpoint URL 0=https://reg:x for docker.io: parse \"https://reg:x\": invalid port \":x\" after host""#;
        let twice = r#"msg="Skipping duplicate endpoint URL 1=https://reg.lan for docker.io""#;
        let registry =
            r#"msg="Failed to generate config for registry reg:x: invalid endpoint URL reg:x for reg:x""#;
        let auth = r#"msg="Private registry auth for a.lan, b.lan is configured, but not present in the rendered containerd config""#;
        for (details, want) in [
            (invalid_endpoint(invalid), "`https://reg:x`, an endpoint of docker.io,"),
            (same_endpoint(twice), "`https://reg.lan` is twice among the endpoints of docker.io,"),
            (not_generated(registry), "has of `reg:x`,"),
            (without_auth(auth), "the credentials for a.lan, b.lan are not used"),
        ] {
            let message = details.message.unwrap();
            assert!(message.contains(want), "{message}");
        }
        for read in [invalid_endpoint, same_endpoint, not_generated] {
            assert_eq!(read(""), Details::default());
        }
    }
}
