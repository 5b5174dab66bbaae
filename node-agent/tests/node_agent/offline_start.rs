//! `preflight --gate --offline-start` on fixture hosts: k3s gets an address where there is no network, the owner's is
//! kept, and the changes are undone.

use std::{fs, os::unix::fs::PermissionsExt as _, process::Stdio, time::Duration};

use crate::support::host::{AgentOutput, CONFIG, TestHost};

const PAGE: &str = "/boot/firmware/NODE-STATUS.txt";
const HEAD: &str = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n";
const WIRED: &str = "eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n";
const ROUTES: &str = "/proc/net/route";
const OFFLINE: &str = "/run/weaver/k3s-offline.env";

/// With an `ip` that records its arguments and then does `then`.
fn flags(host: &TestHost, then: &str, wait: &str) -> [String; 4] {
    let program = host.path("/ip");
    let log = host.path("/ip.log");
    fs::write(&program, format!("#!/bin/sh\necho \"$*\" >> '{}'\n{then}\n", log.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    ["--offline-start".into(), format!("--route-wait={wait}"), "--ip".into(), program.display().to_string()]
}

fn gate(host: &TestHost, then: &str) -> AgentOutput {
    host.gate(&flags(host, then, "0").each_ref().map(String::as_str))
}

#[test]
fn without_a_network_k3s_is_given_an_address_until_the_next_boot() {
    let host = TestHost::debian().boot_partition("rw").file(ROUTES, HEAD);
    let verdict = gate(&host, "");
    assert_eq!(verdict.code, 0);
    verdict.finding("H-16").is("warn").says("203.0.113.254").seen_at(OFFLINE);
    assert!(!verdict.has("H-01"), "what it advises is done");
    assert_eq!(host.read(OFFLINE), "WEAVER_OFFLINE_START=--node-ip=203.0.113.254\n");
    assert_eq!(
        host.read("/ip.log"),
        "link add weaver0 type dummy\n\
         address replace 203.0.113.254/31 dev weaver0\n\
         link set weaver0 up\n\
         route replace default via 203.0.113.255 dev weaver0 metric 65535\n"
    );
    assert!(host.read(PAGE).contains("H-16"));

    // k3s is started again, and there is a network now.
    let host = host.file(ROUTES, format!("{HEAD}{WIRED}")).file("/sys/class/net/weaver0/mtu", "1500\n");
    host.preflight().finding("H-16").says("eth0 has one now").remedied_by("sudo systemctl restart k3s");
    let host = host.file("/ip.log", "");
    let verdict = gate(&host, "");
    assert!(!verdict.has("H-16") && !host.path(OFFLINE).exists());
    assert_eq!(host.read("/ip.log"), "link delete weaver0\n");
}

#[test]
fn a_route_that_comes_late_is_no_start_without_a_network() {
    let host = TestHost::debian().file(ROUTES, HEAD);
    let flags = flags(&host, "", "60");
    let mut command = host.agent("preflight");
    command.args(["--gate", "-o", "json", "--clock-wait", "0"]).args(flags);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    // It checks for a route again and again; by now it has made its decision, or waits.
    std::thread::sleep(Duration::from_secs(1));
    assert!(child.try_wait().unwrap().is_none() && !host.path("/ip.log").exists(), "it waits");
    let host = host.file(ROUTES, format!("{HEAD}{WIRED}"));
    assert!(child.wait_with_output().unwrap().status.success());
    assert!(!host.path(OFFLINE).exists() && !host.path("/ip.log").exists());
}

#[test]
fn an_address_of_the_owners_is_never_overridden() {
    let host = TestHost::debian().file(ROUTES, HEAD).file(CONFIG, "node-ip: 192.168.1.20\n");
    gate(&host, "").finding("H-01").is("warn");
    assert!(!host.path(OFFLINE).exists() && !host.path("/ip.log").exists());
}

/// The unit has our flag as long as the record is there.
#[test]
fn an_address_that_the_owner_sets_later_counts_as_well() {
    let unit = "[Service]\nEnvironmentFile=-/run/weaver/k3s-offline.env\nExecStart=/usr/local/bin/k3s server $WEAVER_OFFLINE_START\n";
    let host = TestHost::debian().file(ROUTES, HEAD).file("/etc/systemd/system/k3s.service", unit);
    gate(&host, "").finding("H-16");
    gate(&host, "").finding("H-16");
    let host = host.file(CONFIG, "node-ip: 192.168.1.20\n");
    gate(&host, "").finding("H-01").is("warn");
    assert!(!host.path(OFFLINE).exists());
}

/// k3s is started again while the router is.
#[test]
fn a_network_that_goes_while_k3s_runs_is_waited_for_by_k3s() {
    let host = TestHost::debian().file(ROUTES, HEAD).file("/run/weaver/agent.lock", "");
    let lock = fs::File::open(host.path("/run/weaver/agent.lock")).unwrap();
    lock.lock().unwrap();
    gate(&host, "");
    assert!(!host.path(OFFLINE).exists() && !host.path("/ip.log").exists());
}

#[test]
fn a_node_that_joins_a_server_waits_for_its_network() {
    let host = TestHost::debian().file(ROUTES, HEAD).file("/etc/weaver/k3s-agent", "");
    gate(&host, "").finding("H-01").is("warn");
    assert!(!host.path(OFFLINE).exists());
}

#[test]
fn a_host_that_is_not_our_card_keeps_the_advice_and_its_network() {
    let host = TestHost::debian().file(ROUTES, HEAD);
    host.gate(&[]).finding("H-01").remedied_by("dummy0");
    assert!(!host.path(OFFLINE).exists());
}

#[test]
fn an_interface_that_cannot_be_made_is_reported_and_holds_nothing_back() {
    let host = TestHost::debian().file(ROUTES, HEAD);
    let verdict = gate(&host, "echo 'Unknown device type.' >&2; exit 2");
    assert_eq!(verdict.code, 0);
    let evidence = verdict.report["findings"].to_string();
    assert!(evidence.contains("`ip link add weaver0 type dummy` failed"), "{evidence}");
    assert!(evidence.contains("Unknown device type"), "{evidence}");
    verdict.finding("H-01").is("warn").remedied_by("dummy0");
    assert!(!host.path("/run/weaver/k3s.blocked").exists() && !host.path(OFFLINE).exists());
}
