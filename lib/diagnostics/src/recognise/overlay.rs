//! What k3s, containerd and the kernel say of overlayfs, of which the file systems of containers are made.

use super::details::Details;

/// The kernel knows no such file system: another directory or snapshotter would only hide that.
const NO_MODULE: &str = "no such device";

/// Nothing may be mounted, whatever the file system is.
const NO_RIGHT: &str = "operation not permitted";

/// k3s' own test, at each start.
pub(super) fn cannot_be_enabled(line: &str) -> Option<Details> {
    if line.contains(NO_MODULE) {
        return None;
    }
    Some(if line.contains(NO_RIGHT) { not_permitted() } else { Details::default() })
}

/// containerd in front of each container, where k3s has not tested it: before 1.20 and without root.
pub(super) fn rootfs_refused(line: &str) -> Option<Details> {
    if !line.contains("&{overlay ") {
        return None;
    }
    if line.contains(NO_RIGHT) {
        return Some(not_permitted());
    }
    line.contains("]}: invalid argument").then(|| {
        Details::message(
            "no container starts: overlayfs does not work on the file system of containerd's directory",
        )
    })
}

fn not_permitted() -> Details {
    Details::message("k3s may not mount an overlay, as in a container without privileges or without root")
        .advice(
            "give a container of k3s all privileges, and one of LXC nesting (`features: nesting=1`). On a host run k3s as root, \
             or with `--rootless` choose `--snapshotter=native`, which is slower and needs more space",
        )
        .command("docker run --privileged --cgroupns=private rancher/k3s:VERSION")
}

/// containerd's mount for a container, Docker's and k3s' test of it.
pub(super) fn no_module(line: &str) -> Option<Details> {
    line.contains(NO_MODULE).then(|| {
        Details::message("the kernel cannot mount the file system of containers: its module is missing")
            .advice("reboot if the kernel was upgraded: the modules of the running one were removed")
            .command("sudo modprobe overlay")
            .command("sudo reboot")
    })
}
