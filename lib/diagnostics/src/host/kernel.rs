//! The kernel: has it the cgroups and the modules that k3s and its kubelet need? The memory controller is a
//! matter of its own, [`memory_cgroup`](crate::memory_cgroup).

use super::storage::MOUNTS;
use crate::finding::{Code, Finding, Place, Severity};

/// The controllers of cgroup version 2.
pub const CONTROLLERS: &str = "/sys/fs/cgroup/cgroup.controllers";
/// The same where version 1 is mounted with it.
pub const HYBRID_CONTROLLERS: &str = "/sys/fs/cgroup/unified/cgroup.controllers";
/// Only a cgroup that is not the kernel's own root has this file: that of a container.
pub const ROOT_TYPE: &str = "/sys/fs/cgroup/cgroup.type";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CgroupLayout {
    /// The controllers of cgroup version 2.
    pub controllers: Option<String>,
    /// Whether there is a list of version 2 within version 1.
    pub is_hybrid: bool,
    /// Whether version 1 is mounted.
    pub has_version_1: bool,
    /// The type of the root, in a container.
    pub root_type: Option<String>,
}

/// k3s ends itself without them ("failed to find cpuset cgroup (v2)"), and without `memory`.
const NEEDED_CONTROLLERS: [&str; 2] = ["cpu", "cpuset"];

impl CgroupLayout {
    /// What keeps k3s or its kubelet from running.
    pub fn judge(&self) -> Option<Finding> {
        let of = |code: Code, message: String, file: &str, saw: &str| {
            Finding::new(code, message).saw(Place::file(file), saw)
        };
        let Some(list) = self.controllers.as_deref().map(str::trim) else {
            let (layout, file) = if self.is_hybrid {
                ("versions 1 and 2 side by side", HYBRID_CONTROLLERS)
            } else {
                self.has_version_1.then_some(("version 1", MOUNTS))?
            };
            let message = format!(
                "this host has cgroups of {layout}: the kubelet of Kubernetes 1.35 and later exits on it"
            );
            // An older k3s runs on it, and a newer one can be configured to: this alone must not stop it.
            let finding = of(Code::CgroupV1Refused, message, file, layout);
            return Some(finding.milder(Severity::Warn));
        };
        let has = |needed: &str| list.split_whitespace().any(|listed| listed == needed);
        let missing: Vec<_> = NEEDED_CONTROLLERS.into_iter().filter(|needed| !has(needed)).collect();
        if !missing.is_empty() {
            let message = format!(
                "the kernel has no {} controller, and k3s exits without it",
                missing.join(" and no ")
            );
            return Some(of(Code::CgroupControllerMissing, message, CONTROLLERS, list));
        }
        let kind = self.root_type.as_deref()?.trim();
        kind.contains("threaded").then(|| {
            let message = format!(
                "the root cgroup has type `{kind}`, so the memory controller cannot be delegated to pods"
            );
            of(Code::CgroupRootThreaded, message, ROOT_TYPE, kind)
        })
    }
}

/// The modules that k3s' network and its containers need: overlay for containers, the others for the network
/// between pods.
pub const NEEDED_MODULES: [&str; 3] = ["overlay", "br_netfilter", "vxlan"];

/// The modules of the running kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Modules {
    pub release: String,
    /// Those of [`NEEDED_MODULES`] that it lacks; `None` where the modules of this release are gone.
    pub missing: Option<Vec<&'static str>>,
}

impl Modules {
    /// A warning where one is missing, for a kernel of one's own may have it built in without saying so. Some
    /// distributions keep a part of them in a package of its own (k3s-io/k3s#5355), and after an upgrade those
    /// of the running kernel are gone until the next boot.
    pub fn judge(&self) -> Option<Finding> {
        let Self { release, missing } = self;
        let (message, saw) = match missing {
            None => (
                format!(
                    "the modules of the running kernel {release} are missing: the kernel was upgraded and the host has not been rebooted"
                ),
                "missing".to_owned(),
            ),
            Some(missing) if missing.is_empty() => return None,
            Some(missing) => {
                let missing = missing.join(", ");
                (format!("the kernel {release} has no module {missing}"), missing)
            }
        };
        let place = Place::file(format!("/lib/modules/{release}"));
        Some(Finding::new(Code::ModuleMissing, message).saw(place, saw))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_layout() {
        let none = CgroupLayout::default;
        let list = |list: &str| CgroupLayout { controllers: Some(list.into()), ..none() };
        let rooted =
            |kind: &str| CgroupLayout { root_type: Some(kind.into()), ..list("cpuset cpu memory\n") };
        for (layout, want) in [
            (none(), None),
            (list("cpuset cpu io memory pids\n"), None),
            (list("cpuset cpu io pids\n"), None),
            (
                list("io memory pids\n"),
                Some((Code::CgroupControllerMissing, "no cpu and no cpuset controller")),
            ),
            (list("cpu memory\n"), Some((Code::CgroupControllerMissing, "no cpuset controller"))),
            (
                CgroupLayout { is_hybrid: true, has_version_1: true, ..none() },
                Some((Code::CgroupV1Refused, "versions 1 and 2")),
            ),
            (CgroupLayout { has_version_1: true, ..none() }, Some((Code::CgroupV1Refused, "version 1:"))),
            // A container's root is a cgroup among others.
            (rooted("domain\n"), None),
            (rooted("domain threaded\n"), Some((Code::CgroupRootThreaded, "threaded"))),
        ] {
            let found = layout.judge();
            assert_eq!(found.as_ref().map(|found| found.code), want.map(|want| want.0), "{layout:?}");
            assert!(found.is_none_or(|found| found.message.contains(want.unwrap().1)), "{layout:?}");
        }
        let old = CgroupLayout { has_version_1: true, ..none() }.judge().unwrap();
        assert_eq!(old.severity(), Severity::Warn, "an older k3s runs on it");
    }

    #[test]
    fn modules_that_are_missing() {
        for (missing, want) in [
            (Some(vec![]), None),
            (Some(vec!["vxlan"]), Some("the kernel 6.12 has no module vxlan")),
            (Some(vec!["overlay", "vxlan"]), Some("no module overlay, vxlan")),
            (None, Some("has not been rebooted")),
        ] {
            let modules = Modules { release: "6.12".into(), missing };
            let found = modules.judge().map(|found| found.message);
            assert_eq!(found.is_some(), want.is_some(), "{modules:?}");
            assert!(found.unwrap_or_default().contains(want.unwrap_or_default()), "{modules:?}");
        }
    }
}
