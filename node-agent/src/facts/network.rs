//! Reads the routes, the sockets that listen, and which `iptables` there is.

use std::path::{Path, PathBuf};
use std::time::Duration;

use procfs_core::net::{RouteEntries, TcpNetEntries, TcpState};
use procfs_core::{ExplicitSystemInfo, FromBufRead as _, FromBufReadSI as _};
use tokio::time::{Instant, sleep};
use weaver_diagnostics::finding::Finding;
use weaver_diagnostics::host::network::{
    INTERFACES, Iptables, K3sPorts, OFFLINE_DEVICE, OFFLINE_RECORD, ROUTES, SOCKETS, TakenPort, Uplink,
    missing_interface, ports_of_k3s,
};
use weaver_diagnostics::k3s_config::{self, Effective};
use weaver_diagnostics::k3s_upgrade::Role;

use crate::host_root::HostRoot;

const ROUTES_V6: &str = "/proc/net/ipv6_route";
const SOCKETS_V6: &str = "/proc/net/tcp6";
/// Flags of a route: it is in use; it rejects what is sent.
const RTF_UP: u32 = 0x1;
const RTF_REJECT: u32 = 0x200;
const POLL: Duration = Duration::from_millis(100);

/// The connection to the network, and whether k3s was started without one.
pub(crate) fn uplink(root: &HostRoot, not_ready: Option<&str>) -> Uplink {
    Uplink {
        is_known: root.read_if_possible(ROUTES).is_some(),
        device: default_route(root),
        is_offline_start: is_offline_start(root),
        not_ready: not_ready.map(str::to_owned),
    }
}

/// What is wrong with the interface that `flannel-iface` names.
pub(crate) fn flannel_interface(root: &HostRoot, effective: &Effective) -> Option<Finding> {
    let named = effective.flannel_iface.as_ref()?;
    let has_no_flannel = effective.flannel_backend.as_ref().is_some_and(|backend| backend.value == "none");
    // Without `node-ip` k3s takes the node's address from it, whatever makes the network.
    if has_no_flannel && effective.node_ip.is_some() {
        return None;
    }
    missing_interface(named, &root.list(INTERFACES).ok()?).map(k3s_config::read_again)
}

/// Whether k3s was started without a network in this boot.
pub(crate) fn is_offline_start(root: &HostRoot) -> bool {
    root.exists(OFFLINE_RECORD)
}

/// The interface of a default route. That of a start without a network leads nowhere and does not count.
pub(crate) fn default_route(root: &HostRoot) -> Option<String> {
    let text = |path| root.read_if_possible(path).map(|file| file.text).unwrap_or_default();
    let first = |path, device: fn(&str) -> Option<String>| {
        text(path).lines().filter_map(device).find(|device| device != OFFLINE_DEVICE)
    };
    first(ROUTES, default_v4).or_else(|| first(ROUTES_V6, default_v6))
}

/// Waits for such an interface, at most until the limit.
pub(crate) async fn wait(root: &HostRoot, limit: Duration) -> Option<String> {
    let begun = Instant::now();
    loop {
        let found = default_route(root);
        if found.is_some() || begun.elapsed() >= limit {
            return found;
        }
        sleep(POLL).await;
    }
}

/// One row of a table as a table with its head: procfs-core rejects a whole table for one row that it does not know.
fn alone(row: &str) -> String {
    format!("head\n{row}\n")
}

/// The interface of a row that is a default route.
fn default_v4(row: &str) -> Option<String> {
    let route = RouteEntries::from_buf_read(alone(row).as_bytes()).ok()?.0.pop()?;
    let is_default = route.destination.is_unspecified() && route.mask.is_unspecified();
    (is_default && is_usable(route.flags.into())).then_some(route.iface)
}

/// `destination length source length next-hop metric refcount use flags device`, for which procfs-core has no reader;
/// the kernel's own "unreachable" on `lo` looks like a default route too.
fn default_v6(row: &str) -> Option<String> {
    let fields: Vec<_> = row.split_whitespace().collect();
    let [destination, length, .., flags, device] = fields[..] else { return None };
    let is_default = fields.len() == 10
        && destination.bytes().all(|digit| digit == b'0')
        && length == "00"
        && device != "lo"
        && u32::from_str_radix(flags, 16).is_ok_and(is_usable);
    is_default.then(|| device.to_owned())
}

fn is_usable(flags: u32) -> bool {
    flags & RTF_UP != 0 && flags & RTF_REJECT == 0
}

/// Which of k3s' ports are taken, and by which program.
pub(crate) fn ports(root: &HostRoot, role: Role, effective: &Effective, api_port: u16) -> K3sPorts {
    let tables = [SOCKETS, SOCKETS_V6].iter().filter_map(|path| root.read_if_possible(path));
    let listening: Vec<(u16, u64)> =
        tables.flat_map(|table| table.text.lines().filter_map(listens).collect::<Vec<_>>()).collect();
    let taken: Vec<_> = ports_of_k3s(role, effective, api_port)
        .into_iter()
        .filter_map(|port| {
            let (_, socket) = listening.iter().find(|(listening, _)| *listening == port)?;
            Some(TakenPort { port, holder: holder(root, *socket) })
        })
        .collect();
    let k3s_runs = !taken.is_empty() && k3s_runs(root);
    K3sPorts { taken, k3s_runs }
}

/// Port and inode of a socket that listens.
fn listens(row: &str) -> Option<(u16, u64)> {
    let kernel = ExplicitSystemInfo {
        boot_time_secs: 0,
        ticks_per_second: 0,
        page_size: 0,
        is_little_endian: cfg!(target_endian = "little"),
    };
    let socket = TcpNetEntries::from_buf_read(alone(row).as_bytes(), &kernel).ok()?.0.pop()?;
    (socket.state == TcpState::Listen).then(|| (socket.local_address.port(), socket.inode))
}

/// The process that has a socket, as `nginx (process 812)`; `None` where the kernel does not show it to this one.
fn holder(root: &HostRoot, socket: u64) -> Option<String> {
    let socket = PathBuf::from(format!("socket:[{socket}]"));
    let pid = processes(root)?.into_iter().find(|pid| {
        let files = format!("/proc/{pid}/fd");
        let names = root.list(&files).unwrap_or_default();
        names
            .iter()
            .any(|name| std::fs::read_link(root.real(format!("{files}/{name}"))).is_ok_and(|is| is == socket))
    })?;
    Some(format!("{} (process {pid})", program(root, &pid)?))
}

/// Whether k3s runs; where nothing can be read, it may.
fn k3s_runs(root: &HostRoot) -> bool {
    let is_k3s = |pid: String| program(root, &pid).is_some_and(|name| name.starts_with("k3s"));
    processes(root).is_none_or(|pids| pids.into_iter().any(is_k3s))
}

fn processes(root: &HostRoot) -> Option<Vec<String>> {
    let mut names = root.list("/proc").ok()?;
    names.retain(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    Some(names)
}

fn program(root: &HostRoot, pid: &str) -> Option<String> {
    Some(root.read_if_possible(format!("/proc/{pid}/comm"))?.text.trim().to_owned())
}

const PROGRAMS: [&str; 2] = ["/usr/sbin/iptables", "/sbin/iptables"];
/// The tables of the older kind that are loaded; absent where none ever was.
const LEGACY_TABLES: [&str; 2] = ["/proc/net/ip_tables_names", "/proc/net/ip6_tables_names"];
/// More links lead nowhere.
const MOST_LINKS: usize = 8;

/// The `iptables` of the host; without one k3s takes its own, which finds out by itself.
pub(crate) fn iptables(root: &HostRoot) -> Option<Iptables> {
    let (program, leads_to) =
        PROGRAMS.iter().find_map(|path| Some(((*path).to_owned(), followed(root, Path::new(path))?)))?;
    let legacy_tables = LEGACY_TABLES.iter().find_map(|path| {
        let text = root.read_if_possible(path)?.text;
        let tables: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
        (!tables.is_empty()).then(|| ((*path).to_owned(), tables))
    });
    Some(Iptables { program, leads_to: leads_to.display().to_string(), legacy_tables })
}

/// Where the links end, as the host names it; `None` where there is no such file.
fn followed(root: &HostRoot, path: &Path) -> Option<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(target) = std::fs::read_link(root.real(&path)) else { break };
        path = path.parent()?.join(target);
    }
    // Debian's ends at xtables-nft-multi, which is a file.
    root.real(&path).is_file().then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_root::fixture::host;
    use std::os::unix::fs::symlink;
    use weaver_diagnostics::finding::Place;
    use weaver_diagnostics::k3s_config::Setting;

    const V4: &str = "eth0\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0";

    #[test]
    fn default_routes() {
        for (row, is_default) in [
            (V4, true),
            ("eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0", false),
            ("eth0\t00000000\t010200C0\t0002\t0\t0\t0\t00000000\t0\t0\t0", false),
            ("eth0\t00000000\t010200C0\t0203\t0\t0\t0\t00000000\t0\t0\t0", false),
            ("eth0\t00000000\t010200C0\tzz\t0\t0\t0\t00000000\t0\t0\t0", false),
            ("tun0\t00000000\t00000000\t0001\t0\t0\t0\t00000080\t0\t0\t0", false),
            ("", false),
        ] {
            assert_eq!(default_v4(row).is_some(), is_default, "{row}");
        }
        let zero = "0".repeat(32);
        for (row, is_default) in [
            (format!("{zero} 00 {zero} 00 fd{} 00000400 3 0 00000003 eth0", "0".repeat(30)), true),
            (format!("{zero} 00 {zero} 00 {zero} ffffffff 1 0 00200200 lo"), false),
            (format!("{zero} 00 {zero} 00 {zero} 00000400 1 0 00000201 eth0"), false),
            (format!("{zero} 80 {zero} 00 {zero} 00000000 3 0 80200001 eth0"), false),
            (format!("{zero} 00"), false),
            (String::new(), false),
        ] {
            assert_eq!(default_v6(&row).is_some(), is_default, "{row}");
        }
    }

    /// A metric above 2^31 is printed as a negative number.
    #[test]
    fn a_row_that_cannot_be_read_hides_no_other() {
        let odd = "eth1\t00000000\t010200C0\t0003\t0\t0\t-1\t00000000\t0\t0\t0";
        let (_dir, root) = host(&[(ROUTES, &format!("Iface\tDestination\n{odd}\n{V4}\n"))]);
        assert_eq!(default_route(&root).as_deref(), Some("eth0"));
    }

    #[tokio::test]
    async fn the_route_of_an_offline_start_leads_nowhere() {
        let own = "weaver0\t00000000\tFF7100CB\t0003\t0\t0\t65535\t00000000\t0\t0\t0";
        let (dir, root) = host(&[(ROUTES, own)]);
        assert_eq!(wait(&root, POLL).await, None);
        let alone = Uplink { is_known: true, ..Uplink::default() };
        assert_eq!(uplink(&root, None), alone);
        std::fs::write(dir.path().join("proc/net/route"), format!("{own}\n{V4}\n")).unwrap();
        assert_eq!(wait(&root, Duration::ZERO).await.as_deref(), Some("eth0"));
        assert_eq!(uplink(&root, None), Uplink { device: Some("eth0".into()), ..alone });
        let (_dir, root) = host(&[(OFFLINE_RECORD, "")]);
        assert_eq!(uplink(&root, None), Uplink { is_offline_start: true, ..Uplink::default() });
    }

    #[test]
    fn an_interface_that_k3s_does_not_use_may_be_missing() {
        let (_dir, root) = host(&[("/sys/class/net/end0/mtu", "1500\n")]);
        let setting =
            |value: &str| Some(Setting { value: value.to_owned(), origin: Place::line("/c.yaml", 1) });
        for (backend, node_ip, is_needed) in [
            (None, None, true),
            (None, Some("192.0.2.5"), true),
            (Some("vxlan"), Some("192.0.2.5"), true),
            (Some("none"), None, true),
            (Some("none"), Some("192.0.2.5"), false),
        ] {
            let effective = Effective {
                flannel_iface: setting("eth0"),
                flannel_backend: backend.and_then(setting),
                node_ip: node_ip.and_then(setting),
                ..Effective::default()
            };
            let found = flannel_interface(&root, &effective);
            assert_eq!(found.is_some(), is_needed, "{backend:?} {node_ip:?}: {found:?}");
        }
    }

    fn socket(port: u16, state: &str, inode: u64) -> String {
        format!(
            "  sl  local_address rem_address   st\n   0: 00000000:{port:04X} 00000000:0000 {state} 00000000:00000000 \
             00:00000000 00000000     0        0 {inode} 1 0\n"
        )
    }

    #[test]
    fn ports_that_something_listens_on() {
        let (api, kubelet) = (socket(6443, "0A", 11), socket(10_250, "0A", 12));
        for (files, ports_taken, runs) in [
            (vec![], vec![], false),
            (vec![(SOCKETS, api.clone())], vec![6443], false),
            (vec![(SOCKETS_V6, api.clone()), (SOCKETS, kubelet)], vec![6443, 10_250], false),
            (vec![(SOCKETS, socket(22, "0A", 13))], vec![], false),
            (vec![(SOCKETS, socket(6443, "01", 14))], vec![], false),
            (vec![(SOCKETS, api.clone()), ("/proc/812/comm", "k3s-server\n".into())], vec![6443], true),
            (vec![(SOCKETS, api), ("/proc/812/comm", "nginx\n".into())], vec![6443], false),
        ] {
            let files: Vec<_> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
            let (_dir, root) = host(&files);
            let read = ports(&root, Role::Server, &Effective::default(), 6443);
            let taken: Vec<_> = read.taken.iter().map(|taken| taken.port).collect();
            assert_eq!((taken, read.k3s_runs), (ports_taken, runs), "{files:?}");
        }
    }

    #[test]
    fn the_program_that_listens_is_named_where_it_is_seen() {
        let (dir, root) = host(&[
            (SOCKETS, &socket(6443, "0A", 11)),
            ("/proc/812/comm", "nginx\n"),
            ("/proc/812/fd/README", ""),
            ("/proc/99/comm", "sshd\n"),
        ]);
        let held = || ports(&root, Role::Server, &Effective::default(), 6443).taken.remove(0).holder;
        assert_eq!(held(), None);
        symlink("socket:[11]", dir.path().join("proc/812/fd/7")).unwrap();
        assert_eq!(held().as_deref(), Some("nginx (process 812)"));
    }

    #[test]
    fn the_links_of_iptables_are_followed() {
        let (dir, root) = host(&[
            ("/usr/sbin/xtables-nft-multi", ""),
            ("/etc/alternatives/README", ""),
            (LEGACY_TABLES[0], "\n"),
        ]);
        let link = |target: &str, path: &str| symlink(target, dir.path().join(path)).unwrap();
        // As Debian's alternatives link it.
        link("/etc/alternatives/iptables", "usr/sbin/iptables");
        link("/usr/sbin/iptables-nft", "etc/alternatives/iptables");
        link("xtables-nft-multi", "usr/sbin/iptables-nft");
        let read = iptables(&root).unwrap();
        assert_eq!(
            (read.program.as_str(), read.leads_to.as_str()),
            (PROGRAMS[0], "/usr/sbin/xtables-nft-multi")
        );
        assert_eq!(read.legacy_tables, None, "an empty list");
        std::fs::write(root.real(LEGACY_TABLES[0]), "filter\nnat\n").unwrap();
        let tables = vec!["filter".to_owned(), "nat".to_owned()];
        assert_eq!(iptables(&root).unwrap().legacy_tables, Some((LEGACY_TABLES[0].to_owned(), tables)));
        let (_dir, root) = host(&[(LEGACY_TABLES[0], "filter\n")]);
        assert_eq!(iptables(&root), None, "k3s takes its own");
    }

    #[test]
    fn links_in_a_circle_end() {
        let (dir, root) = host(&[("/usr/sbin/x", "")]);
        symlink("iptables", dir.path().join("usr/sbin/iptables")).unwrap();
        assert_eq!(iptables(&root), None);
    }
}
