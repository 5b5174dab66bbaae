//! The list of checks before k3s starts: which facts are read, and that they are judged.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use weaver_diagnostics::{
    finding::{Finding, Severity},
    host::{
        board::BoardMemory,
        storage::{RootSpace, Swap, not_mounted},
    },
    k3s_config::{Effective, read_again},
    k3s_upgrade::{Role, record::UpgradeRecord},
    kernel_trial::record::KernelTrial,
    memory_cgroup,
    node_backup::record::RestoreRecord,
    package_update::record::UpdateRecord,
    power,
    serving::{self, ServingStage},
};

use crate::{
    backup, data_disk,
    facts::{board, identity, kernel, mounts::Mounts, names, network, runtime_files, security, storage},
    host_root::HostRoot,
    update::last_update,
    upgrade::journal,
};

/// The inputs of a check.
pub(crate) struct CheckContext<'a> {
    pub(crate) root: &'a HostRoot,
    pub(crate) boot_dir: &'a Path,
    pub(crate) role: Role,
    /// Whether the API server and its kubelets run in a cluster of k3d.
    pub(crate) is_k3d: bool,
    pub(crate) effective: &'a Effective,
    pub(crate) data_dir: PathBuf,
    pub(crate) api_port: u16,
    /// `None` where the kernel does not say.
    pub(crate) mounts: Option<Mounts>,
    pub(crate) stage: ServingStage,
    /// Why the host could not be made ready for a start without a network.
    pub(crate) not_ready: Option<&'a str>,
}

/// On which nodes a check is made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Any,
    /// Where k3s runs as a unit of this machine.
    Unit,
    /// Where a kubelet and its pods run, in containers of k3d too.
    Kubelet,
    /// Where the kubelet is this machine's own.
    OwnKubelet,
}

/// A check: reads its facts and has them judged.
type CheckFn = fn(&CheckContext<'_>) -> Vec<Finding>;

/// All checks before k3s starts, in the order of the report.
static CHECKS: [(Of, CheckFn); 33] = [
    (Of::Any, memory_controller),
    (Of::Any, |at| at.effective.findings.clone()),
    (Of::Any, |at| serving::wanted(&at.effective.tls_san, at.stage).1),
    (Of::Any, |at| some(board::memory(at.root).and_then(BoardMemory::judge))),
    (Of::Any, |_| some(board::clock(Timestamp::now()).judge())),
    (Of::Any, |at| some(storage::root_space(at.root).and_then(RootSpace::judge))),
    (Of::Unit, |at| {
        some(storage::data_mount(at.root, at.mounts.as_ref(), &at.data_dir).and_then(|data| data.judge()))
    }),
    (Of::OwnKubelet, |at| some(storage::snapshots(at.root, at.mounts.as_ref(), &at.data_dir, at.effective))),
    (Of::Unit, |at| some(data_disk::finding(at.root, at.mounts.as_ref()))),
    (Of::Unit, |at| some(awaited_disk(at))),
    (Of::Unit, |at| some(network::uplink(at.root, at.not_ready).judge(at.role))),
    (Of::Any, |at| {
        some(storage::boot_mount(at.root, at.mounts.as_ref(), at.boot_dir).and_then(|boot| boot.judge()))
    }),
    (Of::Any, |at| some(storage::swaps(at.root, at.mounts.as_ref()).iter().find_map(Swap::judge))),
    (Of::Unit, |at| some(journal::finding(at.root, UpgradeRecord::judge))),
    (Of::Any, |at| some(journal::finding(at.root, UpdateRecord::judge))),
    (Of::Any, |at| some(journal::finding(at.root, KernelTrial::judge))),
    (Of::Any, |at| some(last_update::finding(at.root))),
    (Of::Any, |at| some(security::updates(at.root).and_then(|state| state.judge()))),
    (Of::Any, |at| some(security::reboot(at.root).map(|reboot| reboot.judge()))),
    (Of::Unit, |at| some(journal::finding(at.root, RestoreRecord::judge))),
    (Of::Unit, |at| some(backup::schedule::schedule(at.root).and_then(|schedule| schedule.judge()))),
    (Of::Kubelet, |at| some(kernel::cgroup_layout(at.root, at.mounts.as_ref()).judge())),
    (Of::Kubelet, |at| some(kernel::modules(at.root, at.effective).and_then(|modules| modules.judge()))),
    (Of::OwnKubelet, |at| {
        some(names::node_name(at.root, at.effective).and_then(|name| name.judge()).map(read_again))
    }),
    (Of::OwnKubelet, |at| some(names::own_name(at.root).and_then(|name| name.judge()))),
    (Of::Kubelet, |at| some(network::iptables(at.root).and_then(|iptables| iptables.judge()))),
    (Of::OwnKubelet, |at| {
        some(
            identity::identity(at.root, &at.data_dir, at.effective)
                .and_then(|identity| identity.judge(at.role)),
        )
    }),
    (Of::OwnKubelet, |at| runtime_files::findings(at.root, &at.data_dir, at.effective)),
    (Of::Unit, |at| runtime_files::of_api_server(at.root, &at.data_dir, at.role, at.effective)),
    (Of::Unit, |at| some(runtime_files::of_token(at.root, at.role, at.effective))),
    (Of::OwnKubelet, |at| some(network::flannel_interface(at.root, at.effective))),
    (Of::Unit, |at| some(network::ports(at.root, at.role, at.effective, at.api_port).judge())),
    (Of::Any, |at| some(board::power(at.root).as_ref().and_then(power::finding))),
];

/// What is wrong with the memory controller. k3s looks for it before it starts a kubelet, and without one starts all the
/// same.
fn memory_controller(at: &CheckContext<'_>) -> Vec<Finding> {
    let mut findings = memory_cgroup::findings(&kernel::memory_cgroup(at.root));
    if at.effective.disable_agent {
        findings = findings.into_iter().map(|finding| finding.milder(Severity::Warn)).collect();
    }
    findings
}

/// The disk of k3s' data that fstab mounts, where it is not mounted.
fn awaited_disk(at: &CheckContext<'_>) -> Option<Finding> {
    // The disk of `[storage]` has a finding already.
    if data_disk::is_away(at.root) {
        return None;
    }
    let mount_point = storage::awaited_mount(at.root, at.mounts.as_ref(), &at.data_dir)?;
    Some(not_mounted(&at.data_dir.display().to_string(), &mount_point.display().to_string()))
}

fn some(finding: Option<Finding>) -> Vec<Finding> {
    finding.into_iter().collect()
}

/// What all checks that concern this node find.
pub(crate) fn run(look: &CheckContext<'_>) -> Vec<Finding> {
    let has_kubelet = !look.effective.disable_agent;
    let checks = CHECKS.iter().filter(|(of, _)| match of {
        Of::Any => true,
        Of::Unit => !look.is_k3d,
        Of::Kubelet => has_kubelet,
        Of::OwnKubelet => has_kubelet && !look.is_k3d,
    });
    checks.flat_map(|(_, run)| run(look)).collect()
}
