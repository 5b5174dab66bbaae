//! Modules of the kernel that k3s needs, and that are missing or refused.

use super::details::{Details, after};
use crate::finding::RESTART_K3S;

/// Whether k3s does not work without a module. It tries many others.
fn is_needed(name: &str) -> bool {
    [
        "br_netfilter",
        "overlay",
        "vxlan",
        "nf_conntrack",
        "ip_tables",
        "iptable_",
        "ip6table_",
        "xt_",
        "veth",
        "bridge",
        "nf_nat",
        "ip_set",
        "wireguard",
    ]
    .iter()
    .any(|needed| name.starts_with(needed))
}

/// The program that k3s, Docker and the plugins of CNI set up the network of pods with. k3s#2940, k3s-ansible#176
pub(super) fn no_iptables(_: &str) -> Details {
    Details::message("iptables is not installed, without which pods have no network")
        .advice("install it; k3s also brings one, which it uses by itself with `prefer-bundled-bin: true` in its configuration")
        .command("sudo apt-get install iptables")
        .command(RESTART_K3S)
}

pub(super) fn missing(line: &str) -> Option<Details> {
    let name = after(line, "FATAL: Module ", &[' ', '"'])
        .or_else(|| after(line, "WARNING: Module ", &[' ', '"']))?;
    is_needed(name).then(|| Details::message(format!("the kernel has no module {name}, which k3s needs")))
}

/// The module that was to be loaded, by its name or its file, as kmod, busybox and systemd say it.
pub(super) fn refused(line: &str) -> Option<&str> {
    let before = [
        "ould not insert ",
        "rror inserting ",
        "can't insert ",
        "can't load module ",
        "ailed to insert module ",
    ];
    let named = before.into_iter().find_map(|before| {
        let rest = &line[line.find(before)? + before.len()..];
        rest.strip_prefix("module ").unwrap_or(rest).trim_start_matches('\'').split(['\'', ':', ' ']).next()
    })?;
    let file = named.rsplit('/').next()?;
    file.split('.').next()
}

/// A module that was built for another kernel than the one that runs.
pub(super) fn of_another_kernel(line: &str) -> Option<Details> {
    // The kernel's own words have the name in front.
    let of_the_kernel = [": version magic '", ": disagrees about version of symbol "]
        .into_iter()
        .find_map(|words| line.split_once(words)?.0.rsplit([' ', ':', ']']).next());
    let name = of_the_kernel.or_else(|| refused(line)).filter(|name| is_needed(name))?;
    Some(
        Details::message(format!(
            "the module {name}, which k3s needs, is of another kernel than the running one"
        ))
        .advice(
            "reboot if the kernel was upgraded. If it stays so, the boot partition has another kernel than \
                 /lib/modules: install the kernel's package again with the boot partition mounted",
        )
        .command("sudo dmesg | grep -E 'version magic|disagrees about version'")
        .command("uname -r; ls /lib/modules")
        .command("sudo reboot"),
    )
}

/// A pod that makes rules, as that of a Service of type `LoadBalancer`, loads no modules. klipper-lb#34, k3d#1021
pub(super) fn no_table(line: &str) -> Option<Details> {
    // A user without the right gets the same words before.
    if line.contains("Permission denied") {
        return None;
    }
    let family = if line.contains("initialize ip6tables") { "ip6table" } else { "iptable" };
    let table = after(line, "table `", &['\'']).or_else(|| after(line, "table '", &['\'']))?;
    let module = ["filter", "nat", "mangle", "raw", "security"]
        .contains(&table)
        .then(|| format!("{family}_{table}"))?;
    let details = Details::message(format!(
        "{family}s lacks the table {table}: the module {module} is not loaded, or is missing"
    ));
    Some(details
        .advice(
            "load it on the node, and at each start: a pod cannot. If it is not there, reboot after an upgrade of the kernel; on \
             Ubuntu install the package with the extra modules",
        )
        .command(format!("sudo modprobe {module}"))
        .command(format!("echo {module} | sudo tee /etc/modules-load.d/{module}.conf"))
        .command("sudo reboot")
        .command("sudo apt-get install linux-modules-extra-raspi"))
}

/// ipset, by which k3s applies network policies. A user without the right gets other words.
pub(super) fn no_ip_set(line: &str) -> Option<Details> {
    line.contains("ipset").then(|| {
        Details::message("the kernel has no module ip_set, without which network policies have no effect")
            .advice(
                "load it, and restart k3s. If it is not there, reboot after an upgrade of the kernel; on Ubuntu install the package \
                 with the extra modules",
            )
            .command("sudo modprobe ip_set")
            .command(RESTART_K3S)
            .command("sudo apt-get install linux-modules-extra-raspi")
    })
}
