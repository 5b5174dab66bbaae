//! Reads the facts of the running kernel: its command line, its cgroups, its modules.
//!
//! `/proc/cgroups` is no evidence of the memory controller: some kernels leave `memory` out of it while it works.

use std::fs::File;
use std::io::Read as _;

use procfs_core::{FromBufRead as _, ProcessCGroups};
use weaver_diagnostics::finding::Place;
use weaver_diagnostics::host::kernel::{
    CONTROLLERS, CgroupLayout, HYBRID_CONTROLLERS, Modules, NEEDED_MODULES, ROOT_TYPE,
};
use weaver_diagnostics::host::storage::MOUNTS;
use weaver_diagnostics::k3s_config::Effective;
use weaver_diagnostics::memory_cgroup::{CgroupFacts, Controller, PROC_CMDLINE};

use super::mounts::Mounts;
use crate::{boot_files, host_root::HostRoot};

const OSRELEASE: &str = "/proc/sys/kernel/osrelease";
const V1_MEMORY: &str = "/sys/fs/cgroup/memory";
const SELF_CGROUP: &str = "/proc/self/cgroup";

/// All that is needed for the verdict on the memory controller.
pub(crate) fn memory_cgroup(root: &HostRoot) -> CgroupFacts {
    let boot = boot_files::read(root);
    CgroupFacts {
        kernel_release: release(root),
        controller: memory_controller(root),
        running: root.read_if_possible(PROC_CMDLINE).map(|file| file.text),
        next: boot.next,
        stub: boot.stub,
        extra: boot.extra,
        generator: boot.generator,
        read_only_at: boot.read_only_at,
    }
}

/// The release of the running kernel.
pub(crate) fn release(root: &HostRoot) -> Option<String> {
    root.read_if_possible(OSRELEASE).map(|file| file.text.trim().to_owned())
}

fn memory_controller(root: &HostRoot) -> Controller {
    let mut absent = None;
    for path in [CONTROLLERS, HYBRID_CONTROLLERS] {
        let Some(file) = root.read_if_possible(path) else { continue };
        let listed = file.text.trim().to_owned();
        if listed.split_whitespace().any(|name| name == "memory") {
            return Controller::Present(Place::file(path), listed);
        }
        absent = absent.or(Some((path, format!("controllers: {listed}"))));
    }
    // Version 1: the hierarchy's directory, its mount, or our cgroup in it.
    if root.is_dir(V1_MEMORY) {
        return Controller::Present(Place::file(V1_MEMORY), "cgroup v1 hierarchy".to_owned());
    }
    match Mounts::read(root).and_then(|mounts| mounts.cgroup_version_1()) {
        Some(true) => {
            return Controller::Present(Place::file(MOUNTS), "cgroup v1 mount with memory".to_owned());
        }
        Some(false) => absent = absent.or(Some((MOUNTS, "cgroup v1 is mounted without memory".to_owned()))),
        None => {}
    }
    let own = root.read_if_possible(SELF_CGROUP).map(|file| file.text).unwrap_or_default();
    let own = ProcessCGroups::from_buf_read(own.as_bytes()).map(|cgroups| cgroups.0).unwrap_or_default();
    if own.iter().flat_map(|cgroup| &cgroup.controllers).any(|name| name == "memory") {
        return Controller::Present(Place::file(SELF_CGROUP), "cgroup v1 with memory".to_owned());
    }
    match absent {
        Some((path, saw)) => Controller::Absent(Place::file(path), saw),
        None => Controller::Unknown(format!("neither {CONTROLLERS} nor a cgroup v1 hierarchy exists")),
    }
}

pub(crate) fn cgroup_layout(root: &HostRoot, mounts: Option<&Mounts>) -> CgroupLayout {
    let text = |path| root.read_if_possible(path).map(|file| file.text);
    CgroupLayout {
        controllers: text(CONTROLLERS),
        is_hybrid: text(HYBRID_CONTROLLERS).is_some(),
        has_version_1: mounts.is_some_and(|mounts| mounts.cgroup_version_1().is_some()),
        root_type: text(ROOT_TYPE),
    }
}

/// Bytes that are read of a list of modules; that of Debian's kernel has 700 KB.
const LONGEST: u64 = 8 * 1024 * 1024;

/// The modules of the running kernel that k3s needs; `None` where they are not known.
pub(crate) fn modules(root: &HostRoot, effective: &Effective) -> Option<Modules> {
    let release = release(root)?;
    // Where there are no modules at all, the kernel has none, or systemd hides them: a unit with ProtectKernelModules=
    // sees an empty directory.
    if root.list("/lib/modules").ok()?.is_empty() {
        return None;
    }
    let directory = format!("/lib/modules/{release}");
    if !root.is_dir(&directory) {
        return Some(Modules { release, missing: None });
    }
    let lists = ["modules.dep", "modules.builtin"].map(|list| read(root, &format!("{directory}/{list}")));
    // Which modules there are is not known without the first of them.
    lists[0].as_ref()?;
    let loaded = root.read_if_possible("/proc/modules").map(|file| file.text).unwrap_or_default();
    let is_there = |name: &str| {
        let file = format!("/{name}.ko");
        let is_loaded = loaded.lines().any(|line| line.split(' ').next() == Some(name));
        is_loaded || lists.iter().flatten().any(|list| list.contains(&file))
    };
    let backend = effective.flannel_backend.as_ref().map_or("", |backend| backend.value.as_str());
    // Only one of flannel's backends uses it, which is the usual one.
    let is_needed = |name: &str| name != "vxlan" || ["", "vxlan"].contains(&backend);
    let missing = NEEDED_MODULES.into_iter().filter(|name| is_needed(name) && !is_there(name)).collect();
    Some(Modules { release, missing: Some(missing) })
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
    use weaver_diagnostics::k3s_config::Setting;

    fn controller(files: &[(&str, &str)]) -> &'static str {
        let (_dir, root) = host(files);
        match memory_controller(&root) {
            Controller::Present(..) => "present",
            Controller::Absent(..) => "absent",
            Controller::Unknown(_) => "unknown",
        }
    }

    const V1_WITH_MEMORY: &str = "36 25 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

    #[test]
    fn each_way_to_see_the_memory_controller() {
        let v1_other = "36 25 0:31 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n";
        for (files, want) in [
            (vec![], "unknown"),
            (vec![(CONTROLLERS, "cpuset cpu io memory pids\n")], "present"),
            (vec![(CONTROLLERS, "cpuset cpu io pids\n")], "absent"),
            (vec![(CONTROLLERS, "memoryx\n")], "absent"),
            (vec![(HYBRID_CONTROLLERS, "cpu\n"), ("/sys/fs/cgroup/memory/tasks", "")], "present"),
            (vec![(MOUNTS, V1_WITH_MEMORY)], "present"),
            (vec![(MOUNTS, v1_other)], "absent"),
            (vec![(MOUNTS, v1_other), (SELF_CGROUP, "9:memory:/x\n")], "present"),
            // The one file that is no evidence.
            (vec![("/proc/cgroups", "memory 0 1 1\n")], "unknown"),
        ] {
            assert_eq!(controller(&files), want, "{files:?}");
        }
    }

    #[test]
    fn the_layout_of_the_cgroups() {
        let (_dir, root) =
            host(&[(HYBRID_CONTROLLERS, "memory\n"), (ROOT_TYPE, "domain\n"), (MOUNTS, V1_WITH_MEMORY)]);
        let read = cgroup_layout(&root, Mounts::read(&root).as_ref());
        let root_type = Some("domain\n".to_owned());
        assert_eq!(read, CgroupLayout { controllers: None, is_hybrid: true, has_version_1: true, root_type });
        let (_dir, root) = host(&[(CONTROLLERS, "cpu\n")]);
        let controllers = Some("cpu\n".to_owned());
        assert_eq!(cgroup_layout(&root, None), CgroupLayout { controllers, ..CgroupLayout::default() });
    }

    #[test]
    fn each_place_where_a_module_can_be() {
        const RELEASE: (&str, &str) = (OSRELEASE, "6.12\n");
        const DEP: &str = "/lib/modules/6.12/modules.dep";
        let two = "kernel/fs/overlayfs/overlay.ko.xz:\nkernel/net/bridge/br_netfilter.ko.xz: kernel/net/bridge/bridge.ko.xz\n";
        let all = format!("{two}kernel/drivers/net/vxlan/vxlan.ko.xz: x\n");
        for (files, want) in [
            (vec![], None),
            (vec![RELEASE], None),
            (vec![RELEASE, (DEP, all.as_str())], Some(Some(vec![]))),
            (vec![RELEASE, (DEP, two)], Some(Some(vec!["vxlan"]))),
            (
                vec![
                    RELEASE,
                    (DEP, two),
                    ("/lib/modules/6.12/modules.builtin", "kernel/drivers/net/vxlan.ko\n"),
                ],
                Some(Some(vec![])),
            ),
            (vec![RELEASE, (DEP, two), ("/proc/modules", "vxlan 1 0 - Live 0x0\n")], Some(Some(vec![]))),
            (
                vec![RELEASE, (DEP, two), ("/proc/modules", "vxlanx 1 0 - Live 0x0\n")],
                Some(Some(vec!["vxlan"])),
            ),
            (vec![RELEASE, ("/lib/modules/6.11/modules.dep", &all)], Some(None)),
            (vec![RELEASE, ("/lib/modules/6.12/other", "")], None),
        ] {
            let (_dir, root) = host(&files);
            let read = modules(&root, &Effective::default());
            assert_eq!(read.map(|modules| modules.missing), want, "{files:?}");
        }
    }

    #[test]
    fn the_module_of_a_backend_that_flannel_does_not_use_may_be_missing() {
        let modules_dep = "kernel/fs/overlayfs/overlay.ko:\nkernel/net/bridge/br_netfilter.ko:\n";
        let (_dir, root) = host(&[(OSRELEASE, "6.12\n"), ("/lib/modules/6.12/modules.dep", modules_dep)]);
        for (backend, want) in [
            (None, &["vxlan"][..]),
            (Some("vxlan"), &["vxlan"]),
            (Some("host-gw"), &[]),
            (Some("wireguard-native"), &[]),
            (Some("none"), &[]),
        ] {
            let flannel_backend = backend
                .map(|name: &str| Setting { value: name.to_owned(), origin: Place::line("/c.yaml", 1) });
            let effective = Effective { flannel_backend, ..Effective::default() };
            let read = modules(&root, &effective).and_then(|modules| modules.missing);
            assert_eq!(read.as_deref(), Some(want), "{backend:?}");
        }
    }

    #[test]
    fn modules_that_systemd_hides_are_not_known_to_be_gone() {
        let (dir, root) = host(&[(OSRELEASE, "6.12\n")]);
        std::fs::create_dir_all(dir.path().join("lib/modules")).unwrap();
        assert_eq!(modules(&root, &Effective::default()), None);
    }
}
