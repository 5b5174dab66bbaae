//! What is said of images and registries. A registry is another server than the API server, and what is wrong with an
//! image is not what is wrong with the way to it.

use super::details::{CONTAINERD_AWAY, Details, after, has_any, is_plain};
use super::peer::asks_the_api_server;
use super::{docker, helm, pods, tls};
use crate::finding::{Remedy, STOP_K3S};

/// Ends of an image's name.
pub(super) const END: &[char] = &[' ', '"', ',', '@', '\''];

pub(super) fn registry_service(line: &str) -> Option<Details> {
    let name = after(line, "services \"", &['"'])?;
    (line.contains("not found") && name.contains("registry")).then(|| {
        Details::message(format!("`{name}` is looked up as a Service, and a registry of k3d is not one"))
    })
}

/// podman, skopeo and CRI-O, which read no registries.yaml.
fn is_of_podman(line: &str) -> bool {
    has_any(line, &["nitializing source docker://", "pinging docker registry", "pinging container registry"])
}

/// A client of a registry: who answers such a client badly is a server of any kind.
fn asks_a_registry(line: &str) -> bool {
    // The first path of Docker before 18.
    has_any(line, &["/v2/", "/v1/_ping", "docker registry"]) || is_of_podman(line)
}

pub(super) fn plain_http(line: &str) -> Option<Details> {
    let is_of_a_server = line.contains("handshake error from");
    if is_of_a_server || !asks_a_registry(line) || asks_the_api_server(line) {
        return None;
    }
    let server = after(line, "https://", &['/', '"', ' '])
        .or_else(|| after(line, "container registry ", &[' ', ':', '"']))
        .filter(|server| !server.is_empty());
    let Some(server) = server else { return Some(Details::default()) };
    let details = Details::message(format!("{server} speaks plain HTTP but was contacted over HTTPS"));
    // Whom a machine trusts, a line does not choose.
    Some(if is_of_podman(line) {
        details
            .advice(
                "podman and skopeo: say so in /etc/containers/registries.conf.d, or pass `--tls-verify=false`. k3s has its own \
                 list: the last command prints what to add to /etc/rancher/k3s/registries.yaml",
            )
            .command(
                "printf '[[registry]]\\nlocation = \"REGISTRY:PORT\"\\ninsecure = true\\n' | sudo tee \
                 /etc/containers/registries.conf.d/50-http.conf",
            )
            .command("weaver registry config REGISTRY:PORT --http")
    } else {
        docker::advised(details, line, docker::plain_http)
    })
}

/// A repository that docker.io does not have: a tag that it lacks is said otherwise.
pub(super) fn without_registry(line: &str) -> Option<Details> {
    let image = after(line, "docker.io/library/", END)?;
    let lower = line.to_ascii_lowercase();
    let refused = has_any(&lower, &["pull access denied", "insufficient_scope", "authorization failed"]);
    refused.then(|| without(image))
}

fn without(image: &str) -> Details {
    Details::message(format!(
        "`{}` has no registry in front, so it is pulled from docker.io, which does not have it",
        image.trim_end_matches(':')
    ))
}

/// Of an image, and not of any other thing that is asked for too often.
pub(super) fn too_many(line: &str) -> Option<Details> {
    let words = [
        "failed to pull",
        "pulling",
        "ErrImagePull",
        "/manifests/",
        "/blobs/",
        "docker.io",
        "toomanyrequests:",
    ];
    let lower = line.to_ascii_lowercase();
    (words.iter().any(|words| line.contains(words)) || lower.contains("failed to pull image"))
        .then(|| limited(line))
}

pub(super) fn limited(line: &str) -> Details {
    docker::advised(Details::default(), line, docker::limited)
}

/// The kubelet's own limit, in words that name no registry.
pub(super) fn late(line: &str) -> Option<Details> {
    let image = after(line, "ailed to pull image \"", &['"'])?;
    let is_late = line.contains("context deadline exceeded") && !line.contains("/v2/");
    is_late.then(|| {
        Details::message(format!("the image {image} was not pulled in time: the network or the registry is slow"))
            .advice("the kubelet tries again; import a large image from a file, or pull it by hand, which waits longer")
            .command("kubectl get events -A --field-selector reason=Failed")
            .command("sudo k3s ctr images import FILE.tar")
    })
}

/// A name that only a registry of one's own has, without it.
pub(super) fn short_name_denied(line: &str) -> Option<Details> {
    let image = after(line, "pull access denied for ", END)?;
    (!image.contains(['/', '.']) && !image.is_empty()).then(|| without(image))
}

pub(super) fn short_name(line: &str) -> Details {
    after(line, "short-name \"", &['"']).map_or_else(Details::default, |image| {
        Details::message(format!(
            "`{image}` has no registry in front, and podman has no unqualified-search registries configured"
        ))
    })
}

pub(super) fn pull_secret(line: &str) -> Details {
    let names = after(line, "pull secrets (", &[')']).unwrap_or_default();
    Details::message(format!("the pod names the pull secret `{names}`, which is not in its namespace"))
}

/// Of a registry: k3s neither made its certificate nor renews it.
pub(super) fn certificate(line: &str) -> Option<Details> {
    let host = after(line, "https://", &['/', '"', ' '])?;
    if !asks_a_registry(line) || asks_the_api_server(line) {
        return None;
    }
    let lower = line.to_ascii_lowercase();
    if lower.contains("has expired") || tls::is_early(&lower) {
        let what = tls::outside(&lower)
            .replace("the certificate", &format!("the certificate of the registry {host}"));
        return Some(
            Details::message(what)
                .advice(
                    "compare the clock of the node first: a Pi has no battery for it. If the clock is right, the \
                     registry needs a new certificate",
                )
                .command("timedatectl"),
        );
    }
    let details = Details::message(format!("the certificate of the registry {host} is not trusted"));
    Some(if is_of_podman(line) {
        details
            .advice(
                "podman and skopeo: copy the CA certificate into the directory below. k3s has its own list: the last command \
                 prints what to add to /etc/rancher/k3s/registries.yaml",
            )
            .command("sudo install -D -m 644 CA.crt /etc/containers/certs.d/REGISTRY:PORT/ca.crt")
            .command("weaver registry config REGISTRY:PORT --ca-file /etc/rancher/k3s/registry-ca.crt")
    } else {
        docker::advised(details, line, docker::untrusted)
    })
}

/// Refused by a registry, and not by any server.
pub(super) fn denied(line: &str) -> Option<Details> {
    [
        "/manifests/",
        "/blobs/",
        "/v2/\"",
        "/v2/ ",
        "[manifests ",
        "failed to pull",
        "Failed to pull",
        "pull access",
        "pull of ",
        "failed to authorize",
        "failed to resolve reference",
        "oauth token",
        "anonymous token",
        "nitializing source docker://",
        "from daemon",
        "docker.io",
        "ghcr.io",
        "quay.io",
        "reading manifest",
    ]
    .iter()
    .any(|words| line.contains(words))
    .then(|| refused(line))
}

pub(super) fn refused(line: &str) -> Details {
    helm::chart_refused(line).unwrap_or_else(|| docker::advised(Details::default(), line, docker::refused))
}

/// A line of `kubectl get pods`.
pub(super) fn waiting(line: &str) -> Option<Details> {
    const STATES: &[&str] = &["ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName"];
    let (pod, status) = pods::listed(line, STATES)?;
    Some(
        Details::message(format!("the pod {} waits for its image ({status})", pod.name))
            .advice("the events of the pod say why")
            .command(format!("kubectl describe pod{} {}", pod.namespace, pod.name)),
    )
}

/// A part of an image that containerd has on record and not on its disk, in its words for layers and for images.
pub(super) fn incomplete(line: &str) -> Option<Details> {
    let unpacks = ["failed to extract layer", "unpacking image", "unpack image", "failed to resolve rootfs"];
    if !line.contains(": not found") || !unpacks.iter().any(|words| line.contains(words)) {
        return None;
    }
    let image = ["pull and unpack image \"", "ailed to pull image \"", "PullImage \""]
        .into_iter()
        .find_map(|before| after(line, before, &['"']))
        .filter(|image| is_image(image))
        .unwrap_or("IMAGE");
    let remedy = Remedy::new(
        "a pull or an import was interrupted, as by a power loss: remove the image, and pull it again. One that was imported \
         from a file is imported again, from a file for this processor",
    )
    .command(format!("sudo k3s crictl rmi {image}"));
    let blob = after(line, "blob sha256:", &[' ', ':']).filter(|hash| is_hash(hash));
    let remedy = match blob {
        Some(hash) => remedy.command(format!("sudo k3s ctr content rm sha256:{hash}")),
        None => remedy,
    };
    let details = Details::message("a part of an image is missing in containerd's store on this node");
    Some(details.remedy(remedy.command(format!("sudo k3s crictl pull {image}"))))
}

/// A layer that containerd has unpacked, and that is gone from its records or from its disk. containerd#3671 and #3369
pub(super) fn layer_gone(line: &str) -> Option<Details> {
    let is_gone = line.contains("bucket: not found")
        || line.contains("/snapshots/") && line.contains("no such file or directory");
    let image =
        after(line, "pull and unpack image \"", &['"']).filter(|image| is_image(image)).unwrap_or("IMAGE");
    is_gone.then(|| {
        Details::message("a layer of an image, or of one that it is built on, is missing in containerd's store on this node")
            .advice(
                "as after a power loss: remove the image, and pull it again. If that does not help, move containerd's directory \
                 away and reboot: images are pulled again, and those that you imported have to be imported again; volumes and the \
                 datastore stay. Delete containerd.broken once all runs",
            )
            .command(format!("sudo k3s crictl rmi {image}"))
            .command("# if that does not help:")
            .command(STOP_K3S)
            .command(CONTAINERD_AWAY)
            .command("sudo reboot")
    })
}

/// `imagePullPolicy: Never`, most often with an image that Docker built: k3s' containerd does not see those.
pub(super) fn never_pulled(line: &str) -> Details {
    let image = after(line, "Container image \"", &['"', '\\']).filter(|image| is_image(image));
    let message = image.map_or_else(
        || "the node does not have the image, and its pull policy is Never".to_owned(),
        |image| format!("the node does not have the image {image}, and its pull policy is Never"),
    );
    let image = image.unwrap_or("IMAGE");
    Details::message(message)
        .advice(
            "import it on each node that may run the pod: k3s does not see the images of Docker; or push it to a registry, and \
             remove `imagePullPolicy: Never`",
        )
        .command(format!("docker save {image} | sudo k3s ctr images import -"))
        .command("sudo k3s ctr images ls -q")
}

fn is_hash(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|c| c.is_ascii_hexdigit())
}

pub(super) fn is_image(image: &str) -> bool {
    image.starts_with(|c: char| c.is_ascii_alphanumeric()) && is_plain(&image.replace([':', '@'], "."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_that_is_never_pulled_is_imported_by_name() {
        for (line, want) in [
            (r#"Container image "myapp:latest" is not present with pull policy of Never"#, "myapp:latest"),
            (r#"Container image "$(reboot)" is not present with pull policy of Never"#, "IMAGE"),
            ("Error: ErrImageNeverPull", "IMAGE"),
        ] {
            let commands = never_pulled(line).remedy.unwrap().commands;
            assert_eq!(commands[0].to_string(), format!("docker save {want} | sudo k3s ctr images import -"));
        }
    }

    #[test]
    fn an_incomplete_image_is_removed_by_name_and_by_the_part_that_is_missing() {
        let commands = |line| {
            let commands = incomplete(line).unwrap().remedy.unwrap().commands;
            commands.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        };
        assert_eq!(
            commands(
                r#"failed to pull and unpack image "a/b:1": failed to extract layer sha256:0: blob sha256:9e expected at /x: blob not found: not found"#
            ),
            "sudo k3s crictl rmi a/b:1; sudo k3s ctr content rm sha256:9e; sudo k3s crictl pull a/b:1"
        );
        assert_eq!(
            commands(
                r#"Failed to pull image "$(reboot)": failed to extract layer sha256:0: blob sha256:;reboot: not found"#
            ),
            "sudo k3s crictl rmi IMAGE; sudo k3s crictl pull IMAGE"
        );
        assert_eq!(incomplete("failed to extract layer sha256:0: no space left on device"), None);
    }
}
