//! Has the running kernel what k3s' network and its containers need? Some distributions keep a part of it in a package of
//! its own (k3s-io/k3s#5355), and after an upgrade the modules of the running kernel are gone until the next boot.

use std::fs::File;
use std::io::Read as _;

use weaver_diagnostics::finding::{Code, Finding, Place};

use crate::host_root::HostRoot;

/// What is looked for: overlay for containers, the other two for the network between pods.
const NEEDED: [&str; 3] = ["overlay", "br_netfilter", "vxlan"];
/// The list of Debian's kernel has 700 KB.
const LONGEST: u64 = 8 * 1024 * 1024;

/// A warning where one is missing: a kernel of one's own may have it all built in without saying so.
#[must_use]
pub fn finding(root: &HostRoot) -> Option<Finding> {
    let release = root.read_if_possible("/proc/sys/kernel/osrelease")?;
    let release = release.text.trim();
    let directory = format!("/lib/modules/{release}");
    let of = |message: String, saw: &str| {
        Some(Finding::new(Code::ModuleMissing, message).saw(Place::file(&directory), saw))
    };
    // Where there are no modules at all, there is a kernel without any, or systemd hides them: nothing there is what a
    // unit with ProtectKernelModules= sees.
    if root.list("/lib/modules").ok()?.is_empty() {
        return None;
    }
    if !root.is_dir(&directory) {
        return of(
            format!(
                "the modules of the running kernel {release} are gone: it was upgraded, and not booted since"
            ),
            "missing",
        );
    }
    let lists = ["modules.dep", "modules.builtin"].map(|list| read(root, &format!("{directory}/{list}")));
    // Which modules there are is not known without the first of them.
    lists[0].as_ref()?;
    let loaded = root.read_if_possible("/proc/modules").map(|file| file.text).unwrap_or_default();
    let is_there = |name: &&str| {
        let file = format!("/{name}.ko");
        let is_loaded = loaded.lines().any(|line| line.split(' ').next() == Some(name));
        is_loaded || lists.iter().flatten().any(|list| list.contains(&file))
    };
    let missing: Vec<_> = NEEDED.into_iter().filter(|name| !is_there(name)).collect();
    if missing.is_empty() {
        return None;
    }
    of(format!("the kernel {release} has no module {}", missing.join(", ")), &missing.join(", "))
}

fn read(root: &HostRoot, path: &str) -> Option<String> {
    let mut text = String::new();
    File::open(root.real(path)).ok()?.take(LONGEST).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_root::fixture::host;

    #[test]
    fn each_place_where_a_module_can_be() {
        const RELEASE: (&str, &str) = ("/proc/sys/kernel/osrelease", "6.12\n");
        const DEP: &str = "/lib/modules/6.12/modules.dep";
        let two = "kernel/fs/overlayfs/overlay.ko.xz:\nkernel/net/bridge/br_netfilter.ko.xz: kernel/net/bridge/bridge.ko.xz\n";
        let all = format!("{two}kernel/drivers/net/vxlan/vxlan.ko.xz: x\n");
        for (files, want) in [
            (vec![], None),
            (vec![RELEASE], None),
            (vec![RELEASE, (DEP, all.as_str())], None),
            (vec![RELEASE, (DEP, two)], Some("no module vxlan")),
            (
                vec![
                    RELEASE,
                    (DEP, two),
                    ("/lib/modules/6.12/modules.builtin", "kernel/drivers/net/vxlan.ko\n"),
                ],
                None,
            ),
            (vec![RELEASE, (DEP, two), ("/proc/modules", "vxlan 1 0 - Live 0x0\n")], None),
            (
                vec![RELEASE, (DEP, two), ("/proc/modules", "vxlanx 1 0 - Live 0x0\n")],
                Some("no module vxlan"),
            ),
            (vec![RELEASE, ("/lib/modules/6.11/modules.dep", &all)], Some("not booted since")),
            (vec![RELEASE, ("/lib/modules/6.12/other", "")], None),
        ] {
            let (_dir, root) = host(&files);
            let found = finding(&root).map(|found| found.message);
            assert_eq!(found.is_some(), want.is_some(), "{files:?}");
            assert!(found.unwrap_or_default().contains(want.unwrap_or_default()), "{files:?}");
        }
    }

    #[test]
    fn modules_that_systemd_hides_are_not_known_to_be_gone() {
        let (dir, root) = host(&[("/proc/sys/kernel/osrelease", "6.12\n")]);
        std::fs::create_dir_all(dir.path().join("lib/modules")).unwrap();
        assert_eq!(finding(&root), None);
    }
}
