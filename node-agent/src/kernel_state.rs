//! Reads what the running kernel says: its release, its command line, and
//! whether it offers the memory controller.
//!
//! `/proc/cgroups` is no evidence: some kernels leave `memory` out of it while
//! the controller works.

use weaver_diagnostics::{
    finding::Place,
    memory_cgroup::{Controller, Facts, PROC_CMDLINE},
};

use crate::{boot_files, host_root::HostRoot};

const OSRELEASE: &str = "/proc/sys/kernel/osrelease";
/// The list of cgroup v2; in a hybrid set-up it hangs below `unified`.
const V2_LISTS: [&str; 2] =
    ["/sys/fs/cgroup/cgroup.controllers", "/sys/fs/cgroup/unified/cgroup.controllers"];
const V1_MEMORY: &str = "/sys/fs/cgroup/memory";
const MOUNTS: &str = "/proc/self/mountinfo";
const SELF_CGROUP: &str = "/proc/self/cgroup";

/// All facts for the verdict on the memory controller.
#[must_use]
pub fn memory_facts(root: &HostRoot) -> Facts {
    let boot = boot_files::read(root);
    Facts {
        kernel_release: root.read_if_possible(OSRELEASE).map(|file| file.text.trim().to_owned()),
        controller: controller(root),
        running: root.read_if_possible(PROC_CMDLINE).map(|file| file.text),
        boot_file: boot.cmdline,
        stub: boot.stub,
        extra: boot.extra,
        generator: boot.generator,
    }
}

fn controller(root: &HostRoot) -> Controller {
    let mut absent = None;
    for path in V2_LISTS {
        let Some(file) = root.read_if_possible(path) else { continue };
        let listed = file.text.trim().to_owned();
        if listed.split_whitespace().any(|name| name == "memory") {
            return Controller::Present(Place::file(path), listed);
        }
        absent = absent.or(Some((path, format!("controllers: {listed}"))));
    }
    // Version 1: the hierarchy's directory, its mount, or our place in it.
    if root.is_dir(V1_MEMORY) {
        return Controller::Present(Place::file(V1_MEMORY), "cgroup v1 hierarchy".to_owned());
    }
    if let Some(file) = root.read_if_possible(MOUNTS) {
        let mut v1 = file.text.lines().filter(|line| line.contains(" - cgroup ")).peekable();
        if v1.peek().is_some() {
            absent = absent.or(Some((MOUNTS, "cgroup v1 is mounted without memory".to_owned())));
        }
        if v1.any(|line| {
            line.rsplit(' ').next().is_some_and(|options| options.split(',').any(|o| o == "memory"))
        }) {
            return Controller::Present(Place::file(MOUNTS), "cgroup v1 mount with memory".to_owned());
        }
    }
    if let Some(file) = root.read_if_possible(SELF_CGROUP)
        && file
            .text
            .lines()
            .any(|line| line.split(':').nth(1).is_some_and(|c| c.split(',').any(|c| c == "memory")))
    {
        return Controller::Present(Place::file(SELF_CGROUP), "cgroup v1 with memory".to_owned());
    }
    match absent {
        Some((path, saw)) => Controller::Absent(Place::file(path), saw),
        None => Controller::Unknown(format!("neither {} nor a cgroup v1 hierarchy is there", V2_LISTS[0])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_root::fixture::host;

    fn verdict(files: &[(&str, &str)]) -> &'static str {
        let (_dir, root) = host(files);
        match controller(&root) {
            Controller::Present(..) => "present",
            Controller::Absent(..) => "absent",
            Controller::Unknown(_) => "unknown",
        }
    }

    #[test]
    fn each_way_to_see_the_controller() {
        let v1_memory = "36 25 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let v1_other = "36 25 0:31 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n";
        for (files, want) in [
            (vec![], "unknown"),
            (vec![(V2_LISTS[0], "cpuset cpu io memory pids\n")], "present"),
            (vec![(V2_LISTS[0], "cpuset cpu io pids\n")], "absent"),
            (vec![(V2_LISTS[0], "memoryx\n")], "absent"),
            (vec![(V2_LISTS[1], "cpu\n"), ("/sys/fs/cgroup/memory/tasks", "")], "present"),
            (vec![(MOUNTS, v1_memory)], "present"),
            (vec![(MOUNTS, v1_other)], "absent"),
            (vec![(MOUNTS, v1_other), (SELF_CGROUP, "9:memory:/x\n")], "present"),
            // The one file that is no evidence.
            (vec![("/proc/cgroups", "memory 0 1 1\n")], "unknown"),
        ] {
            assert_eq!(verdict(&files), want, "{files:?}");
        }
    }
}
