//! Which `iptables` k3s takes, and whether there may be rules of the other kind beside its own: packets are then judged
//! by both, and Services seem to work by chance (k3s-io/k3s#703, rancher/docs#2370).

use std::path::{Path, PathBuf};

use weaver_diagnostics::finding::{Code, Finding, Place};

use crate::host_root::HostRoot;

const PROGRAMS: [&str; 2] = ["/usr/sbin/iptables", "/sbin/iptables"];
/// The tables of the older kind that are loaded; absent where none ever was.
const LEGACY_TABLES: [&str; 2] = ["/proc/net/ip_tables_names", "/proc/net/ip6_tables_names"];
/// More links lead nowhere.
const MOST_LINKS: usize = 8;

/// A word where both kinds may be in use: tables are seen, and not whether they hold rules; kernels before 5.15 have them
/// as soon as k3s loads the modules. Without an `iptables` of the host k3s takes its own, which finds out by
/// itself; and of a host of the older kind nothing tells whether there are rules of the newer one.
#[must_use]
pub fn finding(root: &HostRoot) -> Option<Finding> {
    let (program, end) = PROGRAMS.iter().find_map(|path| Some((*path, followed(root, Path::new(path))?)))?;
    let name = end.file_name()?.to_string_lossy();
    if !name.contains("nft") {
        return None;
    }
    let (place, tables) = LEGACY_TABLES.iter().find_map(|path| {
        let tables = root.read_if_possible(path)?.text;
        let tables = tables.split_whitespace().collect::<Vec<_>>().join(", ");
        (!tables.is_empty()).then_some((*path, tables))
    })?;
    let message = "iptables makes rules of the newer kind (nft), and tables of the older one are loaded beside them: whether \
                   they hold rules is not known";
    Some(
        Finding::new(Code::IptablesMixed, message)
            .saw(Place::file(program), format!("leads to {}", end.display()))
            .saw(Place::file(place), tables),
    )
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

    fn found(kind: &str, tables: Option<&str>) -> Option<Finding> {
        let multi = format!("/usr/sbin/xtables-{kind}-multi");
        let mut files = vec![(multi.as_str(), ""), ("/etc/alternatives/README", "")];
        files.extend(tables.map(|tables| (LEGACY_TABLES[0], tables)));
        let (dir, root) = host(&files);
        let link = |target: &str, path: &str| symlink(target, dir.path().join(path)).unwrap();
        // As Debian's alternatives have it.
        link("/etc/alternatives/iptables", "usr/sbin/iptables");
        link(&format!("/usr/sbin/iptables-{kind}"), "etc/alternatives/iptables");
        link(&format!("xtables-{kind}-multi"), &format!("usr/sbin/iptables-{kind}"));
        finding(&root)
    }

    #[test]
    fn both_kinds_at_once_are_worth_a_word() {
        assert_eq!(found("nft", None), None);
        assert_eq!(found("nft", Some("")), None);
        assert_eq!(found("legacy", Some("filter\nnat\n")), None);
        let mixed = found("nft", Some("filter\nnat\n")).unwrap();
        assert_eq!(mixed.code, Code::IptablesMixed);
        assert_eq!(mixed.evidence[0].to_string(), "/usr/sbin/iptables: leads to /usr/sbin/xtables-nft-multi");
        assert_eq!(mixed.evidence[1].to_string(), "/proc/net/ip_tables_names: filter, nat");
        let (_dir, root) = host(&[(LEGACY_TABLES[0], "filter\n")]);
        assert_eq!(finding(&root), None, "k3s takes its own");
    }

    #[test]
    fn links_in_a_circle_end() {
        let (dir, root) = host(&[("/usr/sbin/x", "")]);
        symlink("iptables", dir.path().join("usr/sbin/iptables")).unwrap();
        assert_eq!(finding(&root), None);
    }
}
