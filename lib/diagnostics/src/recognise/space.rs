//! What is full: the node's own file system, or another one.

use super::details::{Details, has_any, is_plain};
use super::docker;

/// Where the node keeps its own files, which is on the root file system.
const OWN: &[&str] = &[
    "/var/lib/rancher/",
    "/var/lib/kubelet/",
    "/var/lib/containerd/",
    "/var/lib/docker/",
    "/var/lib/dpkg/",
    "/var/lib/apt/",
    "/var/cache/",
    "/var/log/",
    "/etc/",
    "/usr/",
    "/lib/",
];

/// Who writes nowhere else. The path of a layer is one in an image.
const SPEAKERS: &[&str] =
    &["k3s[", "kubelet", "containerd", "Error response from daemon", "dockerd[", "dpkg"];
const LAYERS: &[&str] = &["failed to register layer", "failed to extract layer", "failed to pull and unpack"];

/// What is no disk says the same: a cgroup that cannot be made, a watch on a file that is one too many, memory that is
/// shared as files, a buffer of the kernel's.
const NO_DISK: &[&str] = &[
    "/sys/fs/cgroup",
    "inotify",
    "fsnotify",
    "shared memory",
    "shm_open",
    "/postgresql.",
    "bpf",
    "perf_event",
    "semget",
    // Of PyTorch, which shares memory so.
    "</torch_",
    "keyring",
    "kmsg",
];

/// Who writes to a device until it ends means no file system; the other two are the kernel's.
const NO_FILES: &[&str] = &["/dev/", "/sys/", "/proc/"];

pub(super) fn full(line: &str) -> Option<Details> {
    let lower = line.to_ascii_lowercase();
    if NO_DISK.iter().any(|words| lower.contains(words)) {
        return None;
    }
    if LAYERS.iter().any(|words| line.contains(words)) {
        return Some(own(line));
    }
    let at = lower.find("no space left on device").unwrap_or(line.len());
    match path(line, at) {
        Some(path) if NO_FILES.iter().any(|prefix| path.starts_with(prefix)) => None,
        Some(path) if is_own(path) => Some(own(line)),
        Some(path) => Some(another(path)),
        None if SPEAKERS.iter().any(|who| line.contains(who)) => Some(own(line)),
        None => Some(unnamed("a file system is full")),
    }
}

/// The root file system, which Docker fills with what it has itself.
fn own(line: &str) -> Details {
    // Its own programs: until they are there, it removes no images. kairos#1599
    if has_any(line, &["extracting data: ", "error extracting tarball"]) {
        return Details::message("k3s has no space below /var/lib/rancher for its own programs")
            .advice("free space there, or make the partition larger: some systems have a small one for it")
            .command("df -h /var/lib/rancher")
            .command("sudo du -xh /var/lib/rancher | sort -h | tail -n 20");
    }
    docker::advised(Details::default(), line, docker::full)
}

/// SQLite's words; k3s' own database is on the root file system.
pub(super) fn database(line: &str) -> Details {
    let is_of_kine = has_any(line, &["error in txn", "kine", "/registry/", "k3s["]);
    if is_of_kine {
        return Details::default();
    }
    unnamed("an SQLite database cannot grow, because its file system is full")
}

fn is_own(path: &str) -> bool {
    // Of a pod, and what is below is anything but the node's disk, unless it is an emptyDir.
    let is_volume = path.contains("/volumes/") && !path.contains("~empty-dir");
    !is_volume && OWN.iter().any(|prefix| path.starts_with(prefix) || path == prefix.trim_end_matches('/'))
}

/// The last path before `at`, or else the first one after it.
fn path(line: &str, at: usize) -> Option<&str> {
    let (before, after) = line.split_at_checked(at)?;
    paths(before).last().or_else(|| paths(after).next())
}

fn paths(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_whitespace() || "\"'`‘’=,;".contains(c))
        .map(|word| word.trim_start_matches(['(', '[']).trim_end_matches([':', '.', ')', ']']))
        .filter(|word| word.len() > 1 && word.starts_with('/'))
}

fn another(path: &str) -> Details {
    let directory = path.rsplit_once('/').map_or(path, |(directory, _)| directory);
    let directory = if directory.is_empty() { path } else { directory };
    // Within a path the sign of a home directory is only a letter: `kubernetes.io~csi`.
    if !is_plain(&directory.replace('~', "")) {
        return unnamed("a file system is full");
    }
    Details::message(format!("the file system of {directory} is full"))
        .advice(
            "remove what is not needed there. If a program in a pod says it, the path is the pod's: it is on a volume, or on \
             the root file system of the node",
        )
        .command(format!("df -h {directory}"))
        .command(format!("df -i {directory}"))
        .command(format!("kubectl exec -n NAMESPACE POD -- df -h {directory}"))
        .hint()
}

fn unnamed(message: &str) -> Details {
    Details::message(message)
        .advice("see which one it is, and remove what is not needed there")
        .command("df -h")
        .command("df -i")
        .hint()
}
