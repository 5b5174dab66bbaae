//! NixOS writes its boot files from its own configuration, so what is changed in them is lost at the next rebuild.

use super::facts::{CgroupFacts, PROC_CMDLINE};
use super::parts::is_on;
use crate::finding::{Code, Command, Finding, Remedy};
use crate::kernel_cmdline::{lines, parameters};

/// The finding, with what changes the configuration in place of a boot file.
pub(super) fn by_configuration(facts: &CgroupFacts, finding: Finding) -> Finding {
    let is_of_boot_files = matches!(
        finding.code,
        Code::MemoryCgroupAbsent
            | Code::MemoryCgroupDisabled
            | Code::MemoryCgroupLostAtBoot
            | Code::CgroupParameterInStub
            | Code::CgroupParameterOnIgnoredLine
    );
    // A kernel that was asked for the controller and has none is not helped by a parameter.
    let is_inert = finding.code == Code::MemoryCgroupAbsent && is_on(facts.running.as_deref());
    if !is_of_boot_files || is_inert || !is_nixos(facts) {
        return finding;
    }
    let is_disabled = finding
        .evidence
        .iter()
        .any(|seen| seen.place.file != PROC_CMDLINE && seen.saw.contains("cgroup_disable=memory"));
    let change = if is_disabled {
        "remove \"cgroup_disable=memory\" from boot.kernelParams"
    } else {
        "add \"cgroup_enable=memory\" to boot.kernelParams"
    };
    let explain =
        format!("NixOS writes its boot files itself: {change} in its configuration, then rebuild and reboot");
    finding.remedy(Remedy::new(explain).command("sudo nixos-rebuild boot").command(Command::Reboot))
}

/// Whether the running kernel was given an init of the Nix store.
fn is_nixos(facts: &CgroupFacts) -> bool {
    let running = facts.running.as_deref().map_or("", |text| lines(text)[0]);
    parameters(running, 1).iter().any(|parameter| parameter.text.starts_with("init=/nix/store/"))
}
