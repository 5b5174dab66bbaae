//! Which layout of cgroups the host has, and whether k3s can work in it: version 2 with the controllers that it needs.
//!
//! The memory controller is a matter of its own, `memory_cgroup`.

use weaver_diagnostics::finding::{Code, Finding, Place, Severity};

use crate::host_root::HostRoot;

const LIST: &str = "/sys/fs/cgroup/cgroup.controllers";
const HYBRID: &str = "/sys/fs/cgroup/unified/cgroup.controllers";
/// Only a cgroup that is not the kernel's own root has this file: that of a container.
const TYPE: &str = "/sys/fs/cgroup/cgroup.type";
const MOUNTS: &str = "/proc/self/mountinfo";
/// k3s ends itself without them ("failed to find cpuset cgroup (v2)"), and without `memory`.
const NEEDED: [&str; 2] = ["cpu", "cpuset"];

/// What keeps k3s or its kubelet from running; nothing where all is well or nothing can be read.
#[must_use]
pub fn finding(root: &HostRoot) -> Option<Finding> {
    let of = |code: Code, message: String, place: &str, saw: &str| {
        Finding::new(code, message).saw(Place::file(place), saw)
    };
    let Some(list) = root.read_if_possible(LIST) else {
        let (layout, place) = if root.read_if_possible(HYBRID).is_some() {
            ("versions 1 and 2 beside each other", HYBRID)
        } else {
            let mounts = root.read_if_possible(MOUNTS)?;
            mounts.text.lines().any(|line| line.contains(" - cgroup ")).then_some(("version 1", MOUNTS))?
        };
        let message = format!(
            "this host has cgroups of {layout}: the kubelet of Kubernetes 1.35 and later ends itself on it"
        );
        // An older k3s runs on it, and a newer one can be told to: this alone must not stop it.
        let finding = of(Code::CgroupV1Refused, message, place, layout);
        return Some(finding.milder(Severity::Warn));
    };
    let listed: Vec<_> = list.text.split_whitespace().collect();
    let missing: Vec<_> = NEEDED.into_iter().filter(|needed| !listed.contains(needed)).collect();
    if !missing.is_empty() {
        let message = format!(
            "the kernel offers no {} controller, and k3s ends itself without it",
            missing.join(" and no ")
        );
        return Some(of(Code::CgroupControllerMissing, message, LIST, list.text.trim()));
    }
    let kind = root.read_if_possible(TYPE)?;
    let kind = kind.text.trim();
    kind.contains("threaded").then(|| {
        let message = format!(
            "the root of the cgroups is of type `{kind}`: its memory controller cannot be handed on to pods"
        );
        of(Code::CgroupRootThreaded, message, TYPE, kind)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_root::fixture::host;

    #[test]
    fn each_layout() {
        let v1 = "36 25 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let v2 = "36 25 0:31 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        for (files, want) in [
            (&[(LIST, "cpuset cpu io memory pids\n"), (MOUNTS, v2)][..], None),
            (&[(LIST, "cpuset cpu io pids\n")], None),
            (
                &[(LIST, "io memory pids\n")],
                Some((Code::CgroupControllerMissing, "no cpu and no cpuset controller")),
            ),
            (&[(LIST, "cpu memory\n")], Some((Code::CgroupControllerMissing, "no cpuset controller"))),
            (&[(HYBRID, "memory\n"), (MOUNTS, v1)], Some((Code::CgroupV1Refused, "versions 1 and 2"))),
            (&[(MOUNTS, v1)], Some((Code::CgroupV1Refused, "version 1:"))),
            (&[(MOUNTS, v2)], None),
            (&[], None),
            // A container's root is a cgroup among others.
            (&[(LIST, "cpuset cpu memory\n"), (TYPE, "domain\n")], None),
            (
                &[(LIST, "cpuset cpu memory\n"), (TYPE, "domain threaded\n")],
                Some((Code::CgroupRootThreaded, "threaded")),
            ),
        ] {
            let (_dir, root) = host(files);
            let found = finding(&root);
            assert_eq!(found.as_ref().map(|found| found.code), want.map(|want| want.0), "{files:?}");
            assert!(found.is_none_or(|found| found.message.contains(want.unwrap().1)), "{files:?}");
        }
    }
}
