//! The node: memory cgroup, names, size.

use super::Entry;
use super::table::{DRY_RUN, K3S_LOG, K3S_REQUIREMENTS, REPAIR, RESTART_K3S, known};
use crate::finding::Severity::{Fail, Ok, Unknown, Warn};

pub(super) const MEMORY_CGROUP_OK: Entry =
    known(Ok, "The kernel lists it, and nothing in the boot files turns it off.", "", &[], &[]);

pub(super) const MEMORY_CGROUP_ABSENT: Entry = known(
    Fail,
    "Raspberry Pi's kernels have the controller off unless `cgroup_enable=memory` stands on the first line of \
     the boot file; k3s ends itself without it, and starts again for ever.",
    "add the parameter on that same line and reboot; the agent knows which file counts, shows the exact change and \
     makes it",
    &[DRY_RUN, REPAIR, "sudo reboot"],
    &["https://github.com/k3s-io/k3s/issues/2067", K3S_REQUIREMENTS],
);

pub(super) const CGROUP_TOKEN_ON_IGNORED_LINE: Entry = known(
    Fail,
    "The firmware hands only the first line to the kernel, and `echo >>` writes a second one.",
    "join the lines and reboot",
    &[DRY_RUN, REPAIR, "sudo reboot"],
    &["https://github.com/k3d-io/k3d/issues/385"],
);

pub(super) const MEMORY_CGROUP_DISABLED: Entry = known(
    Fail,
    "`cgroup_disable=memory` stands in the boot file behind what would turn the controller on, or on a kernel \
     that obeys it wherever it stands.",
    "remove it and reboot; what a device tree adds stands before the file's parameters and is overruled by them",
    &[DRY_RUN, REPAIR, "sudo reboot"],
    &["https://github.com/raspberrypi/linux/issues/6980"],
);

pub(super) const REBOOT_NEEDED: Entry = known(
    Fail,
    "The boot file is right, and the running kernel was started before it was.",
    "reboot",
    &["sudo reboot"],
    &[],
);

pub(super) const CGROUP_TOKEN_IN_STUB: Entry = known(
    Fail,
    "`/boot/cmdline.txt` is a stub since Raspberry Pi OS bookworm; k3s' own message still names it.",
    "change the file that the firmware reads, which the agent names",
    &[DRY_RUN, REPAIR, "sudo reboot"],
    &[],
);

pub(super) const CGROUP_V1_REFUSED: Entry = known(
    Fail,
    "From Kubernetes 1.35 on the kubelet ends itself on a host with cgroup v1.",
    "boot with cgroup v2 (remove `systemd.unified_cgroup_hierarchy=0` from the kernel's parameters), or let the \
     kubelet run on v1 for as long as it still can",
    &[
        "sudo mkdir -p /etc/rancher/k3s/config.yaml.d",
        "echo 'kubelet-arg+: [\"fail-cgroupv1=false\"]' | sudo tee /etc/rancher/k3s/config.yaml.d/92-cgroupv1.yaml",
        RESTART_K3S,
    ],
    &["https://github.com/kubernetes/enhancements/issues/5573"],
);

pub(super) const NAME_NOT_FOUND: Entry = known(
    Fail,
    "Who connects asks DNS and /etc/hosts; kubectl asks nobody else, so a name in .local is not found by it.",
    "write the address of the Pi into /etc/hosts of the machine that connects (in a container: \
     `--add-host NAME:ADDRESS`), or use the address, where the certificate has it",
    &[],
    &["https://github.com/kubernetes/kubectl/issues/48"],
);

pub(super) const K3D_NODE_RESTARTING: Entry = known(
    Fail,
    "The container's k3s ends itself, mostly because the host's kernel has no memory controller.",
    "read the container's own log; give k3d a limit with `--timeout`",
    &["docker logs --tail 50 k3d-CLUSTER-server-0 2>&1 | weaver explain"],
    &["https://github.com/k3d-io/k3d/issues/853"],
);

pub(super) const MEMORY_CGROUP_LOST_AT_BOOT: Entry = known(
    Warn,
    "The running kernel has the controller, and the boot file does not ask for it any more.",
    "add the parameter before the next boot",
    &[DRY_RUN, REPAIR],
    &[],
);

pub(super) const BOOT_FILE_UNREADABLE: Entry = known(
    Warn,
    "It is empty, no text, or damaged; config.txt names a file that does not exist; or it names one under a filter such as \
     [gpio4=1], which only the firmware can evaluate: then the finding is `unknown` and nothing is repaired.",
    "restore it from a backup or write it anew: one line",
    &["cat /proc/cmdline"],
    &[],
);

pub(super) const MEMORY_CGROUP_UNKNOWN: Entry = known(
    Unknown,
    "/sys/fs/cgroup could not be read, or is none of the layouts known.",
    "nothing is stopped by this; see what k3s says",
    &[K3S_LOG],
    &[],
);

pub(super) const MEMORY_TOO_SMALL: Entry = known(
    Fail,
    "k3s with its own images needs more than 900 MB.",
    "use a board with 1 GB or more; 2 GB is what k3s' documentation asks for",
    &["free -m"],
    &[K3S_REQUIREMENTS],
);

pub(super) const CARD_TOO_SMALL: Entry = known(
    Warn,
    "The root file system has not the room for k3s, its images and its database.",
    "use a larger card; where the card is large, let the partition grow",
    &["sudo systemctl start weaver-grow-root.service", "df -h /"],
    &[],
);

pub(super) const CGROUP_CONTROLLER_MISSING: Entry = known(
    Fail,
    "A parameter such as `cgroup_disable=cpu` turns it off, or the kernel was built without it.",
    "remove the parameter from the kernel's command line and reboot, or use a kernel that has it",
    &["cat /proc/cmdline", "sudo reboot"],
    &[K3S_REQUIREMENTS],
);

pub(super) const CGROUP_ROOT_THREADED: Entry = known(
    Warn,
    "k3s runs in a container whose cgroup was made threaded; the kernel then refuses `+memory` below it.",
    "give the container a cgroup namespace of its own, or run k3s on the host",
    &["docker run --privileged --cgroupns=private rancher/k3s:VERSION"],
    &["https://docs.kernel.org/admin-guide/cgroup-v2.html#threads"],
);

pub(super) const HOST_NAME_UNUSABLE: Entry = known(
    Warn,
    "k3s registers the node under the host's name in lower case, and the API server takes letters, digits, hyphens and dots.",
    "give the host another name: in weaver.toml, or with the first command; then start k3s anew",
    &["sudo hostnamectl set-hostname NAME", RESTART_K3S],
    &["https://kubernetes.io/docs/concepts/overview/working-with-objects/names/"],
);
