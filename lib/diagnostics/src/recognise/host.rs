//! What the kernel and k3s say of the host: its controllers, its power, its card.

use super::details::{Details, after, has_any, is_plain};
use super::disks::is_number;
use super::in_container;
use crate::power;

/// A kubelet on cgroup v1. Its line can have other names, too.
pub(super) fn memory_required(line: &str) -> Option<Details> {
    (required(&line.to_ascii_lowercase())? == "memory").then(Details::default)
}

fn required(lower: &str) -> Option<&str> {
    after(lower, "for required subsystem: ", &['"', ' ', ',', ';'])
}

pub(super) fn controller(line: &str) -> Option<Details> {
    let lower = line.to_ascii_lowercase();
    let named = required(&lower)
        .or_else(|| after(&lower, "failed to find ", &[' ']))
        .or_else(|| after(&lower, "missing required cgroups: ", &['"']))
        .or_else(|| after(&lower, "cgroup subsystem not mounted: [", &[']']))
        .or_else(|| after(&lower, "missing controllers: ", &['"']))?;
    if named.contains("memory") {
        return None;
    }
    let details = Details::message(format!("the kernel has no {} controller, which k3s needs", named.trim()));
    // In the journal of a host it is the kernel.
    let is_of_a_host = line.contains("k3s[") || !line.contains("(v2)");
    Some(if is_of_a_host { details } else { details.remedy(in_container::delegation()) })
}

/// The kubelet's cgroup lacks this controller, and has others: where it lacks all, the parent cgroup does not delegate
/// them.
pub(super) fn memory_alone(line: &str) -> Option<Details> {
    (missing_controllers(line)? == "memory").then(Details::default)
}

pub(super) fn no_controllers(line: &str) -> Option<Details> {
    let missing = missing_controllers(line)?;
    (missing.contains("memory") && missing.contains("cpu")).then(|| {
        Details::message(
            "the cgroup of the pods has none of its controllers: the one above it does not hand them down",
        )
    })
}

fn missing_controllers(line: &str) -> Option<&str> {
    after(line, "missing controllers: ", &['"', '\n']).map(str::trim)
}

/// A row of /proc/cgroups, whose last column is 1 where the controller is on. raspberrypi/linux#5933, k3s#9524
pub(super) fn listed_off(line: &str) -> Option<Details> {
    let columns: Vec<&str> = line.split_whitespace().collect();
    let ["memory", hierarchy, groups, "0"] = columns[..] else { return None };
    (is_number(hierarchy) && is_number(groups))
        .then(|| Details::message("the kernel's memory controller is off, as /proc/cgroups shows"))
}

/// runc and crun in front of a container with a limit, which the kernel cannot keep.
pub(super) fn of_a_container(line: &str) -> Option<Details> {
    // Who looks at a container that has just ended finds its files gone, too.
    let is_of_a_runtime = has_any(line, &["OCI runtime", "procHooks", "runc ", "crun: "]);
    is_of_a_runtime.then(|| {
        Details::message(
            "a container with a memory limit does not start: the kernel's memory controller is off",
        )
    })
}

pub(super) fn throttled(line: &str) -> Option<Details> {
    let flags = after(line, "throttled=0x", &[' ', '"', ','])?;
    let reported = power::reported(u32::from_str_radix(flags.trim(), 16).ok()?);
    (!reported.is_empty())
        .then(|| Details::message(format!("the board has reported {}", reported.join(", "))))
}

/// The process that the kernel says is blocked: `INFO: task k3s-server:812 blocked for more than 120 seconds.`
pub(crate) fn blocked_task(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("task ")?;
    let (name, _) = rest.split_once(" blocked for more than ")?.0.rsplit_once(':')?;
    Some(name)
}

/// How the names of tasks begin that wait for storage: of the kernel, of a node, of what writes much. A vendor's threads
/// are reported too while nothing is wrong; what they wait for is only in the lines of the stack.
const WRITERS: [&str; 26] = [
    "btrfs-",
    "containerd",
    "coredns",
    "dockerd",
    "etcd",
    "ext4",
    "f2fs_",
    "flanneld",
    "influxd",
    "java",
    "jbd2/",
    "k3s",
    "kswapd",
    "kubelet",
    "kworker/u",
    "mmcqd/",
    "mongod",
    "mysqld",
    "php-fpm",
    "postgres",
    "prometheus",
    "python3",
    "rsyslogd",
    "systemd-journal",
    "traefik",
    "usb-storage",
];
/// The whole names of others.
const COMMANDS: [&str; 8] = ["apt-get", "cp", "dd", "dpkg", "rsync", "sync", "tar", "umount"];

/// A task that got no further: on a board it is the storage that it waits for.
pub(super) fn stuck(line: &str) -> Option<Details> {
    let name = blocked_task(line)?;
    let writes = COMMANDS.contains(&name)
        || name.contains("flush-")
        || WRITERS.iter().any(|writer| name.starts_with(writer));
    (writes && line.contains("seconds.")).then(|| {
        Details::message(format!("{name} was blocked for minutes; it usually waits for storage"))
            .advice("look for errors of the card or the disk next to it; move other writers off the card")
            .command("sudo dmesg --level err,warn")
    })
}

/// A kubelet that runs looks at its routes every ten seconds, also while the network goes away and comes back.
const NODE_STATUS: &str = "Failed to set some node status fields";

pub(super) fn no_route(line: &str) -> Option<Details> {
    (!line.contains(NODE_STATUS)).then(Details::default)
}

pub(super) fn no_route_again(line: &str) -> Option<Details> {
    (line.contains(NODE_STATUS) && line.contains("no default routes found")).then(Details::default)
}

pub(super) fn no_vxlan(line: &str) -> Option<Details> {
    let is_unsupported = ["operation not supported", "unknown device type"]
        .iter()
        .any(|words| line.to_ascii_lowercase().contains(words));
    is_unsupported.then(vxlan_missing)
}

fn vxlan_missing() -> Details {
    Details::message("the kernel cannot create a vxlan device, which connects pods on different nodes")
        .advice("Ubuntu for the Pi has the module in a package of its own")
        .command("sudo apt install linux-modules-extra-raspi")
}

/// Flannel without a word of what is not supported, and the devices of pods.
pub(super) fn flannel(line: &str) -> Option<Details> {
    // k3s#11166
    if line.contains("could not create wireguard interface") {
        return Some(
            Details::message("the kernel cannot create a wireguard device, which `flannel-backend: wireguard-native` needs")
                .advice(
                    "load its module. If it is not there, reboot after an upgrade of the kernel; Linux before 5.6 has none, and \
                     needs a package of the distribution or another backend, on all nodes alike",
                )
                .command("sudo modprobe wireguard")
                .command("sudo reboot"),
        );
    }
    if line.contains("flannel exited: ") || line.contains("Error registering network: ") {
        return Some(vxlan_missing());
    }
    // The last is Docker's, of a container. k3d#644
    let is_of_pods =
        has_any(line, &["failed to make veth pair", "could not add \"cni0\"", ") pair interfaces: "]);
    is_of_pods.then(|| {
        Details::message("the kernel cannot create the devices that connect pods and containers: their modules are missing")
            .advice("reboot if the kernel was upgraded: the modules of the running one were removed")
            .command("sudo reboot")
    })
}

pub(super) fn no_br_netfilter(line: &str) -> Option<Details> {
    let lower = line.to_ascii_lowercase();
    (lower.contains("no such file or directory") || lower.contains("does not exist")).then(|| {
        Details::message(
            "the kernel module br_netfilter is not loaded, without which Services do not reach pods",
        )
        .advice("load it; k3s loads it at start if it is allowed to")
        .command("sudo modprobe br_netfilter")
    })
}

pub(super) fn shut_down_hot(_: &str) -> Details {
    Details::message("the board overheated and the kernel shut it down")
        .advice("cool it: use a heat sink or a fan, and an open case")
        .command("vcgencmd measure_temp")
}

/// A port that the board turns off for a moment; some say it once when they are plugged in.
pub(super) fn over_current(line: &str) -> Option<Details> {
    let is_of_usb = has_any(line, &["usb", "hub "]);
    (is_of_usb && !line.contains("no over-current")).then(|| {
        Details::message("USB ports are turned off because what is connected draws too much current")
            .advice(
                "use a powered hub for disks. A Pi 5 gives its ports 0.6 A unless the supply is one of 5 A: with a supply that \
                 can, add `usb_max_current_enable=1` to config.txt",
            )
            .command("vcgencmd get_throttled")
    })
}

/// The lock of apt or of dpkg; who may not open it is not root.
pub(super) fn package_lock(line: &str) -> Option<Details> {
    let is_of_packages = has_any(line, &["/lib/dpkg/", "/lib/apt/", "/cache/apt/"]);
    let may_not = has_any(line, &["ermission denied", "are you root"]);
    (is_of_packages && !may_not).then(|| packages_locked(line))
}

pub(super) fn packages_locked(line: &str) -> Details {
    let holder = after(line, "is held by process ", &[')', '.'])
        .and_then(|holder| holder.split_once(" (").map(|(_, name)| name))
        .filter(|name| is_plain(name));
    Details::message(holder.map_or_else(
        || "another program installs packages at the moment".to_owned(),
        |name| format!("another program installs packages at the moment: {name}"),
    ))
}

/// Each Pod of a `DaemonSet` tolerates it.
pub(super) fn tainted(line: &str) -> Option<Details> {
    (line.contains("untolerated taint") || line.contains("had taint")).then(Details::default)
}

/// Much is read-only in a container, and should be.
pub(super) fn read_only(line: &str) -> Option<Details> {
    // A volume of a pod may be mounted so on purpose.
    let is_volume = line.contains("/volumes/") || line.contains("/volume-subpaths/");
    let is_ours = [
        "/var/lib/rancher",
        "/var/lib/kubelet",
        "/etc/rancher",
        "/var/lib/apt/",
        "/var/lib/dpkg/",
        "/var/cache/apt/",
    ]
    .iter()
    .any(|path| line.contains(path));
    (is_ours && !is_volume).then(Details::default)
}

pub(super) fn evicting(line: &str) -> Option<Details> {
    let lower = line.to_ascii_lowercase();
    has_any(&lower, &["attempting to reclaim", "must evict pod(s) to reclaim"]).then(Details::default)
}

/// cadvisor and others that watch cgroups; a directory that is gone is none of this.
pub(super) fn watches(line: &str) -> Option<Details> {
    let lower = line.to_ascii_lowercase();
    (lower.contains("no space left on device") || lower.contains("too many open files"))
        .then(Details::default)
}

/// What a shell says that writes to a cgroup's list of controllers.
pub(super) fn delegation(line: &str) -> Option<Details> {
    ["operation not supported", "device or resource busy"]
        .iter()
        .any(|why| line.to_ascii_lowercase().contains(why))
        .then(Details::default)
}

/// kubeadm looks at the memory before it starts.
pub(super) fn too_little_memory(line: &str) -> Option<Details> {
    let has = after(line, "the system RAM (", &[')'])?;
    Some(Details::message(format!(
        "the board has {has} of memory, which is too little for a server of kubeadm; k3s needs less"
    )))
}

/// The kubelet where it may not run with swap, which k3s allows it unless `kubelet-arg` says otherwise; kubeadm.
pub(super) fn swap_refused(_: &str) -> Details {
    Details::message("the kubelet is not to run with swap, and swap is on")
        .advice(
            "take `fail-swap-on` out of the configuration of k3s, which runs with swap. For a kubelet of kubeadm turn swap off, \
             also at the next boot: swap on the card by dphys-swapfile or rpi-swap, and zram as well",
        )
        .command("swapon --show")
        .command("sudo grep -rn fail-swap-on /etc/rancher/k3s /etc/systemd/system/k3s*.service")
        .command("# only for a kubelet of kubeadm: sudo swapoff -a")
}

/// A package whose script failed, or that waits for such a one. bookworm-feedback#424, raspberrypi/firmware#1963
pub(super) fn not_configured(line: &str) -> Option<Details> {
    let (package, step) = after(line, "error processing package ", &['\n'])?.split_once(" (--")?;
    ["configure)", "install)"].iter().any(|begun| step.starts_with(begun)).then(|| {
        Details::message(format!(
            "dpkg has not finished the installation of {package}: its script failed, or it waits for another package"
        ))
        .advice(
            "the lines before say why: a program that is missing, a boot partition that is full or not mounted. Correct that, \
             then have dpkg finish",
        )
        .command("sudo dpkg --configure -a")
        .command("sudo apt-get install --fix-broken")
    })
}

/// dpkg's own files, as a power loss leaves them.
pub(super) fn damaged_list(line: &str) -> Option<Details> {
    let name = after(line, "file for package '", &['\''])?;
    (line.contains("missing final newline") || line.contains("contains empty filename"))
        .then(|| Details::message(format!("dpkg's list of the files of {name} is damaged")))
}

/// dpkg's record of what is installed, and the changes that it had not taken over yet.
pub(super) fn damaged_status(line: &str) -> Option<Details> {
    let file = after(line, "parsing file '", &['\'']).filter(|file| is_plain(file))?;
    // debootstrap begins with a record that lacks fields, and each image that it makes keeps that log.
    if line.contains("warning: parsing file") {
        return None;
    }
    let details = Details::message(format!("dpkg cannot read its record {file}: it is damaged"));
    let number = file.strip_prefix("/var/lib/dpkg/updates/").filter(|name| is_number(name));
    Some(if let Some(number) = number {
        details
            .advice("move the file away, and have dpkg finish what it had begun")
            .command(format!("sudo mv /var/lib/dpkg/updates/{number} /root/"))
            .command("sudo dpkg --configure -a")
    } else if file == "/var/lib/dpkg/status" {
        details
            .advice("put back the copy that Debian keeps of each day; what was installed since then is installed again")
            .command("ls -lt /var/backups/dpkg.status*")
            .command("sudo cp -a /var/lib/dpkg/status /root/status.damaged")
            .command("sudo cp /var/backups/dpkg.status.0 /var/lib/dpkg/status")
    } else {
        details
    })
}

/// netplan's own word for them.
pub(super) fn two_routes(_: &str) -> Details {
    Details::message(
        "two interfaces have a default route of the same metric, and netplan keeps only one of them",
    )
    .advice("remove one of the routes, or give one of them a higher `metric`")
    .command("sudo grep -rnE 'gateway4|to: (default|0.0.0.0/0)|metric' /etc/netplan")
    .command("sudo netplan try")
}

/// cloud-init's word for a card that was set up in another board.
pub(super) fn other_board(_: &str) -> Details {
    Details::message("network-config names an interface by a hardware address that this board does not have")
        .advice(
            "name the interface instead (`eth0`, `wlan0`), or write the address of this board; cloud-init reads the file \
             at the next start once its state is removed",
        )
        .command("ip -brief link")
        .command("sudo cloud-init clean")
}
