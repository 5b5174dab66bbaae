//! What k3s says at its start, of its settings, its ports and its datastore.

use std::net::IpAddr;

use super::details::{Details, after, has_any, is_plain};
use crate::finding::{RESTART_K3S, Remedy};
use crate::k3s_config::files::without_empty_files;

/// SQLite's words are those of each program that has it inside.
pub(super) fn of_kine(line: &str) -> Option<Details> {
    ["kine", "preparing server", "error in txn", "range on /registry/", "Compact failed", "k3s[", " k3s: "]
        .iter()
        .any(|words| line.contains(words))
        .then(Details::default)
}

pub(super) fn of_etcd(line: &str) -> Option<Details> {
    has_any(line, &["etcd", "\"caller\":", "member/"]).then(Details::default)
}

/// The ports of k3s and of what it starts.
const PORTS: &[&str] =
    &["6443", "6444", "2379", "2380", "8472", "10248", "10249", "10250", "10256", "10257", "10258", "10259"];

pub(super) fn port_taken(line: &str) -> Option<Details> {
    let endpoint = after(line, "listen tcp ", &[' ']).or_else(|| after(line, "listen udp ", &[' ']))?;
    let port = endpoint.trim_end_matches(':').rsplit_once(':')?.1;
    if !PORTS.contains(&port) {
        return None;
    }
    Some(
        Details::message(format!("port {port}, which k3s needs, is in use"))
            .advice(
                "find out which program listens there and stop it; it can also be an old k3s that did not exit, or \
                the agent unit running next to the server unit",
            )
            .command(format!("sudo ss -lntup 'sport = :{port}'"))
            .command("systemctl list-units 'k3s*'"),
    )
}

/// An address to listen at that the machine has no more, as after another lease of DHCP.
pub(super) fn not_its_address(line: &str) -> Option<Details> {
    let endpoint = after(line, "listen tcp ", &[' '])?.trim_end_matches(':');
    let (address, port) = endpoint.rsplit_once(':')?;
    if !PORTS.contains(&port) {
        return None;
    }
    let ip = address.trim_matches(['[', ']']).parse::<IpAddr>().ok();
    if let Some(loopback) = ip.filter(IpAddr::is_loopback) {
        return Some(not_on_lo(loopback));
    }
    Some(
        Details::message(format!("k3s is to listen at {address}, which is no address of this machine"))
            .advice(
                "the network gave the machine another address, or `bind-address` or `node-ip` is wrong: reserve the address in the \
                 router, or correct the setting",
            )
            .command("ip -brief address")
            .command("sudo grep -rnE 'bind-address|node-ip|advertise-address' /etc/rancher/k3s /etc/systemd/system/k3s*.service"),
    )
}

/// Each machine has these addresses by itself, unless the configuration of its network takes them away.
fn not_on_lo(address: IpAddr) -> Details {
    let details =
        Details::message(format!("k3s is to listen at {address}, which the loopback interface `lo` lacks"));
    let remedy = if address.is_ipv4() {
        Remedy::new(
            "bring `lo` up and give it the address; that it stays so, `auto lo` and `iface lo inet loopback` belong in \
             /etc/network/interfaces where that file configures the network",
        )
        .command("ip address show lo")
        .command("sudo ip link set lo up")
        .command("sudo ip address add 127.0.0.1/8 dev lo")
        .command("grep -rnw lo /etc/network/interfaces /etc/netplan /etc/systemd/network")
    } else {
        Remedy::new("IPv6 is turned off for it: turn it on, or have k3s use IPv4 only")
            .command("ip address show lo")
            .command("sudo sysctl net.ipv6.conf.lo.disable_ipv6=0")
    };
    details.remedy(remedy)
}

/// The network policies of k3s look for the address that the node says it has.
pub(super) fn node_ip_gone(_: &str) -> Details {
    Details::message("`node-ip`, or the address that this node registered with, is on none of its interfaces")
        .advice(
            "correct or remove `node-ip`, or reserve the old address in the router; where the address comes late, as that of a \
             VPN, have k3s start after it",
        )
        .command("ip -brief address")
        .command("sudo grep -rnE 'node-ip|flannel-iface' /etc/rancher/k3s /etc/systemd/system/k3s*.service")
        .command(RESTART_K3S)
}

/// kube-router in k3s, which wants an address of each family of the cluster from the Node. A node that has just joined
/// may get its second one a moment later. k3s#8281, k3s#9071, k3s#9946
pub(super) fn family_gone(line: &str) -> Option<Details> {
    let family = after(line, " but no ", &[' ']).filter(|family| ["IPv4", "IPv6"].contains(family))?;
    Some(
        Details::message(format!("the Node of this machine has no {family} address, which `cluster-cidr` asks for"))
            .advice(
                "if it comes back at each start, give the interface such an address before k3s starts, and name one of each family \
                 in `node-ip`, with a comma; or leave the family out of `cluster-cidr` and `service-cidr`, which a cluster keeps \
                 from its first start",
            )
            .command("ip -brief address")
            .command("kubectl get nodes -o wide")
            .command("sudo grep -rnE 'cidr|node-ip' /etc/rancher/k3s /etc/systemd/system/k3s*.service")
            .command(RESTART_K3S)
            .hint(),
    )
}

/// Where the installer puts k3s, on a read-only system the last; and packages.
const INSTALLED: [&str; 3] = ["/usr/local/bin/k3s", "/usr/bin/k3s", "/opt/bin/k3s"];

/// A program of k3s that systemd may not start.
pub(super) fn not_executable(line: &str) -> Option<Details> {
    let program = after(line, "spawning ", &[':', ' ']).filter(|program| is_plain(program))?;
    let known = INSTALLED.into_iter().find(|known| *known == program).unwrap_or("PROGRAM");
    (program.ends_with("/k3s") && line.contains("Permission denied")).then(|| {
        Details::message(format!("systemd may not run {program}"))
            .advice("it is not executable, is on a file system mounted with `noexec`, or SELinux forbids it")
            .command(format!("sudo chmod 0755 {known}"))
            .command(format!("findmnt -T {known}"))
            .command("getenforce")
    })
}

/// In the wording of newer Docker: `0.0.0.0:6443/tcp`, or `for 0.0.0.0:6443:172.31.0.2:6443/tcp`.
pub(super) fn port_not_bound(line: &str) -> Option<Details> {
    let endpoint = after(line, "failed to bind host port ", &['/', '\n'])?;
    let endpoint = endpoint.strip_prefix("for ").unwrap_or(endpoint);
    let published =
        endpoint.strip_prefix('[').map_or(endpoint, |v6| v6.split_once(']').map_or("", |(_, rest)| rest));
    published_port(line, published.split(':').nth(1)?)
}

/// A port that Docker publishes for a container, as k3d asks it to.
pub(super) fn port_allocated(line: &str) -> Option<Details> {
    let endpoint = after(line, "ind for ", &[' '])?;
    published_port(line, endpoint.rsplit_once(':')?.1)
}

/// Docker Desktop, which publishes ports by a program on Windows or macOS.
pub(super) fn port_of_docker_desktop(line: &str) -> Option<Details> {
    let port = after(line, "exposing port TCP ", &[' '])?.rsplit_once(':')?.1;
    if !is_port(port) {
        return None;
    }
    let details =
        Details::message(format!("port {port}, which Docker Desktop is to publish, is not available"));
    Some(if line.contains("forbidden by its access permissions") {
        details
            .advice(
                "Windows keeps ranges of ports for itself, which the command lists: publish another port (`--port`, `--api-port`)",
            )
            .command("netsh interface ipv4 show excludedportrange protocol=tcp")
    } else {
        details
            .advice(
                "another program or container has it: stop that one, or publish another port (`--port`, `--api-port`)",
            )
            .command("docker ps")
            .command(format!("lsof -nP -iTCP:{port} -sTCP:LISTEN   # on macOS"))
    })
}

fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok_and(|number| number.to_string() == text)
}

fn published_port(line: &str, port: &str) -> Option<Details> {
    let is_ours = line.contains("k3d-") || PORTS.contains(&port);
    (is_ours && is_port(port)).then(|| {
        Details::message(format!("port {port}, which a container is to publish, is in use"))
            .advice(
                "another container has it, often that of another cluster of k3d, or a program of this machine: stop that one, \
                 or publish another port (`--port`, `--api-port`)",
            )
            .command(format!("docker ps --filter publish={port}"))
            .command(format!("sudo ss -lntup 'sport = :{port}'"))
    })
}

/// kubeadm looks at the ports before it starts.
pub(super) fn port_of_kubeadm(line: &str) -> Option<Details> {
    let port = after(&line.to_ascii_lowercase(), "[error port-", &[']'])?.to_owned();
    (PORTS.contains(&port.as_str()) && line.contains(" is in use"))
        .then(|| Details::message(format!("port {port}, which Kubernetes needs, is in use")))
}

fn is_fatal(line: &str) -> bool {
    has_any(line, &["level=fatal", "FATA[", "k3s[", "Incorrect Usage"])
}

/// A value of a flag, of k3s or of what it starts.
pub(super) fn wrong_value(line: &str) -> Option<Details> {
    let flag = after(line, "\" for flag -", &[':', ' ']).or_else(|| after(line, "\" for \"--", &['"']))?;
    let is_ours = is_fatal(line) || line.contains("kubelet") || line.contains("k3s");
    (is_ours && is_plain(flag.trim_start_matches('-'))).then(|| {
        Details::message(format!("`{}` has a value that cannot be read", flag.trim_start_matches('-')))
    })
}

/// A file of settings that is no list of settings.
pub(super) fn wrong_type(line: &str) -> Option<Details> {
    (is_fatal(line) && line.contains("into yaml.MapSlice"))
        .then(|| Details::message("config.yaml of k3s is no list of settings: each line is `key: value`"))
}

/// A file without which k3s does not start.
pub(super) fn unreadable(line: &str) -> Option<Details> {
    let why = ["permission denied", "input/output error"].into_iter().find(|why| line.contains(why))?;
    let file = after(line, "open ", &[':', ' ', '"'])
        .or_else(|| after(line, "mkdir ", &[':', ' ', '"']))
        .filter(|file| file.starts_with('/') && is_plain(file))?;
    (is_fatal(line) && !line.contains("/volumes/")).then(|| {
        let details = Details::message(format!("k3s cannot read {file}: {why}"));
        if why == "permission denied" {
            return details
                .advice("k3s runs as root: start it by systemd or with sudo; the rights of the file")
                .command(format!("sudo ls -l {file}"));
        }
        details
    })
}

/// A key or a certificate that k3s was writing when the power was cut: it asks whether the file is there, and takes it.
pub(super) fn empty_key(line: &str) -> Option<Details> {
    let starts = has_any(line, &["preparing server", "starting kubernetes"]);
    starts.then(|| {
        let message = "a key or certificate of k3s is empty or damaged: one that it was writing when the power was cut, or one of \
                       yours, as for the datastore";
        Details::message(message).remedy(without_empty_files("/var/lib/rancher/k3s/server/tls"))
    })
}

/// The same where k3s names the file. `<nil>` is its error of an empty one.
pub(super) fn empty_key_file(line: &str) -> Option<Details> {
    let file = after(line, "error loading key from ", &[':', ' ', '"'])?;
    let directory = file.rsplit_once('/')?.0;
    (file.contains("/rancher/k3s/") && is_plain(file) && line.contains("<nil>")).then(|| {
        let message = format!("{file} is empty, as a power cut leaves a file that is being written");
        Details::message(message).remedy(without_empty_files(&format!("{directory} -maxdepth 1")))
    })
}

/// What proves a node to its server: the server's word of one that is empty.
pub(super) fn empty_password(line: &str) -> Option<Details> {
    line.contains(" 400 response to ").then(|| {
        let message = "a node has an empty password, as a power cut leaves a file that is being written: \
                       /etc/rancher/node/password on it";
        Details::message(message)
            .advice(
                "on that node, remove the file and start k3s again, which makes another; on the server, delete what it has noted \
                 of the old one",
            )
            .command("sudo find /etc/rancher/node/password -empty -print -delete")
            .command(RESTART_K3S)
            .command("sudo k3s kubectl -n kube-system delete secret NODE.node-password.k3s")
    })
}

/// containerd takes registries from a directory or from its own file, and k3s writes the directory.
pub(super) fn containerd_mirrors(line: &str) -> Option<Details> {
    line.contains("config_path").then(|| {
        Details::message(
            "containerd's configuration has both `mirrors` and `config_path`, and containerd takes no images",
        )
        .advice(
            "remove the table `registry.mirrors` from the template, and write the mirrors into \
             /etc/rancher/k3s/registries.yaml",
        )
        .command("sudo grep -rn mirrors /var/lib/rancher/k3s/agent/etc/containerd")
        .command(RESTART_K3S)
    })
}

/// Of the kubelet's own file, and not the one that kubeadm has not written yet.
pub(super) fn kubelet_file(line: &str) -> Option<Details> {
    (!line.contains("no such file or directory"))
        .then(|| Details::message("the kubelet cannot read its configuration file"))
}

/// A kubelet that refuses cgroup v1 says so in these words too, and its configuration has no fault.
pub(super) fn kubelet_refuses_configuration(line: &str) -> Option<Details> {
    (!line.contains("cgroup v1")).then(Details::default)
}

/// What the kubelet requires: others run a program of their writer's choice, as `kernel.core_pattern`.
const REQUIRED: [&str; 6] = [
    "vm.overcommit_memory=1",
    "vm.panic_on_oom=0",
    "kernel.panic=10",
    "kernel.panic_on_oops=1",
    "kernel.keys.root_maxkeys=1000000",
    "kernel.keys.root_maxbytes=25000000",
];

/// `protect-kernel-defaults`: the kubelet ends where it would have to set a parameter.
pub(super) fn kernel_parameter(line: &str) -> Details {
    let lower = line.to_ascii_lowercase();
    let wanted: Vec<&str> = lower
        .split("invalid kernel flag: ")
        .skip(1)
        .filter_map(|rest| {
            let value = after(rest, "expected value: ", &[',', ']'])?;
            let setting = format!("{}={value}", rest.split(',').next()?.replace('/', "."));
            REQUIRED.into_iter().find(|required| *required == setting)
        })
        .collect();
    if wanted.is_empty() {
        return Details::default();
    }
    let wanted = wanted.join(" ");
    Details::message(format!("the kubelet is to protect kernel parameters, and requires {wanted}"))
        .advice("set them, or take `protect-kernel-defaults` out of k3s' configuration")
        .command(format!("printf '%s\\n' {wanted} | sudo tee /etc/sysctl.d/90-kubelet.conf"))
        .command("sudo sysctl --system")
        .command(RESTART_K3S)
}

pub(super) fn unknown_flag(line: &str) -> Option<Details> {
    let flag = after(line, "Unknown flag ", &[' ', '='])?;
    (line.contains(" found in config.yaml") && is_plain(flag.trim_start_matches('-'))).then(|| {
        Details::message(format!("k3s does not know `{}`, and ignores it", flag.trim_start_matches('-')))
    })
}

/// The library of k3s, and of k3d before 3; others use it too.
pub(super) fn undefined_flag(line: &str) -> Option<Details> {
    let flag = after(line, "not defined: ", &[' ', '=', '"'])?.trim_start_matches('-');
    if !is_plain(flag) {
        return None;
    }
    if has_any(line, &["level=fatal", "FATA["]) {
        return Some(Details::message(format!("the flag `--{flag}` is not known, and k3s does not start")));
    }
    // crictl, ctr and the other commands of k3s say it too.
    line.contains("Incorrect Usage").then(|| {
        let details = Details::message(format!("the program does not know the flag `--{flag}`"));
        details.advice("its `--help` lists those of this version; where it is k3s, it does not start").hint()
    })
}

pub(super) fn unknown_kubelet_flag(line: &str) -> Details {
    let flag = after(line, "unknown flag: --", &['"', ' ', '\\', '\n']).unwrap_or_default();
    Details::message(format!("the kubelet does not know `{flag}`, and does not start"))
        .advice("remove it from `kubelet-arg`: flags are removed from one version of Kubernetes to the next")
        .command("sudo grep -rn kubelet-arg /etc/rancher/k3s /etc/systemd/system/k3s*.service")
}
