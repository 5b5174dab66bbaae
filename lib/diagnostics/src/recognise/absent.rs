//! What is said of images and charts that a registry does not have, by who asked for them.

use super::details::{Details, after};
use super::images::{END, is_image};
use crate::finding::{RESTART_K3S, Remedy};

/// A registry that has the repository and not the tag, in containerd's wording.
pub(super) fn not_found(line: &str) -> Option<Details> {
    let image = after(line, "failed to resolve reference \"", &['"'])?;
    line.trim_end_matches(['"', ' ']).contains(": not found").then(|| absent(image))
}

fn absent(image: &str) -> Details {
    let own = if image.starts_with("docker.io/library/") {
        "; where it is an image of your own, its name lacks the registry in front"
    } else {
        ""
    };
    Details::message(format!("the registry has no `{image}`{own}"))
}

/// What stands between `before` and `: not found`, if it is a name with a registry in front.
fn not_found_after<'a>(line: &'a str, before: &str) -> Option<&'a str> {
    let (name, _) = line.split_once(before)?.1.split_once(": not found")?;
    let name = name.rsplit(": ").next().unwrap_or(name);
    let (registry, _) = name.split_once('/')?;
    let has_registry = registry.contains(['.', ':']) || registry == "localhost";
    (has_registry && is_image(name)).then_some(name)
}

/// The same since containerd 2.
pub(super) fn image_not_found(line: &str) -> Option<Details> {
    not_found_after(line, "failed to resolve image: ").map(absent)
}

/// A chart in a registry, as helm says it before and since 3.18.
pub(super) fn chart_not_found(line: &str) -> Option<Details> {
    let chart = not_found_after(line, "Error: ").or_else(|| not_found_after(line, "\" on source: "))?;
    let is_named = line.contains(&format!("resolve {chart}: {chart}: ")) || line.contains("\" on source: ");
    is_named.then(|| Details::message(format!("the registry has no `{chart}`")))
}

/// Docker up to 18, which does not add what the registry says.
pub(super) fn manifest_not_found(line: &str) -> Option<Details> {
    let image = after(line, "manifest for ", END)?;
    line.contains(&format!("manifest for {image} not found"))
        .then(|| Details::message(format!("the registry has no `{image}`")))
}

/// A registry whose repositories are made by hand, such as Amazon's.
pub(super) fn repository_unknown(line: &str) -> Option<Details> {
    let repository = after(line, "repository ", END).filter(|name| is_image(name))?;
    Some(Details::message(format!("the registry has no repository `{repository}`")))
}

/// The image of each pod's first process, without which none starts. k3s#14187
pub(super) fn of_the_sandbox(line: &str) -> Option<Details> {
    let image =
        after(line, "failed to get sandbox image \"", &['"', '\\']).filter(|image| is_image(image))?;
    let message =
        format!("no pod starts, because the node does not get `{image}`, of which each pod has one");
    let has_registry = image.split_once('/').is_some_and(|(registry, _)| registry.contains('.'));
    let remedy = if has_registry {
        Remedy::new("check that the node reaches the registry, or import the image from a file")
    } else {
        with_registry(image)
    };
    Some(Details::message(message).remedy(remedy.command("sudo k3s crictl images")))
}

/// The image that runs in each pod is not one that a line chooses: only k3s' own is written into its configuration.
fn with_registry(image: &str) -> Remedy {
    let remedy = Remedy::new(
        "its name has no registry in front, which some versions of containerd do not add: write the whole name as `pause-image` \
         into k3s' configuration",
    );
    let tag = image.strip_prefix("rancher/mirrored-pause:");
    let is_version = |tag: &&str| !tag.is_empty() && tag.chars().all(|c| c.is_ascii_digit() || c == '.');
    let Some(tag) = tag.filter(is_version) else { return remedy };
    remedy
        .command("sudo mkdir -p /etc/rancher/k3s/config.yaml.d")
        .command(format!(
            "echo 'pause-image: docker.io/rancher/mirrored-pause:{tag}' | sudo tee \
             /etc/rancher/k3s/config.yaml.d/92-pause-image.yaml"
        ))
        .command(RESTART_K3S)
}

/// Docker's words for the same.
pub(super) fn tag_not_found(line: &str) -> Option<Details> {
    let tag = after(line, "Tag ", &[' '])?;
    let repository = after(line, "not found in repository ", END)?;
    Some(Details::message(format!("`{repository}` has no tag `{tag}`")))
}
