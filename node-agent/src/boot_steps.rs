//! The steps of a boot for the `NodeReport`, by systemd's timestamps of each unit.
//!
//! Guarantee: a step keeps the time at which it was first seen in a boot, whatever is restarted later.

use std::collections::BTreeSet;

use weaver_api::v1beta1::{NodeBootStep, NodeReportStatus, NodeSystem};
use weaver_diagnostics::k3s_upgrade::Role;

use crate::systemctl::{Systemctl, UnitTimes};

/// Microseconds in a second.
const SECOND: u64 = 1_000_000;
/// How long after its start units of a machine may get ready for the first time, in microseconds.
const LONGEST: u64 = 15 * 60 * SECOND;

/// When a step has ended, by the times of its unit.
type Ended = fn(&UnitTimes) -> Option<u64>;

/// The steps in their order, with their units; `None` means that of k3s.
const STEPS: [(&str, Option<&str>, Ended); 6] = [
    ("BootFilesApplied", Some("weaver-boot-config.service"), |unit| unit.active),
    // Inactive again when it has ended.
    ("HostChecked", Some("weaver-preflight.service"), |unit| unit.inactive),
    ("K3sStarted", None, |unit| unit.begun),
    ("K3sReady", None, |unit| unit.active),
    ("WebhookReady", Some("weaver-webhook.service"), |unit| unit.active),
    ("OperatorReady", Some("weaver-operator.service"), |unit| unit.active),
];

/// Those that systemd has seen; a systemd that does not answer has seen none.
pub(crate) async fn seen(systemctl: &Systemctl, role: Role) -> Vec<NodeBootStep> {
    let of = |unit: Option<&'static str>| unit.unwrap_or(role.unit());
    let units: BTreeSet<&str> = STEPS.iter().map(|(_, unit, _)| of(*unit)).collect();
    let times = systemctl.times(&Vec::from_iter(units)).await.unwrap_or_default();
    let seen = STEPS.iter().filter_map(|(step, unit, ended)| {
        let seconds = ended(times.get(of(*unit))?)? / SECOND;
        Some(NodeBootStep { step: (*step).to_owned(), seconds: i64::try_from(seconds).ok()? })
    });
    seen.collect()
}

/// Whether a later look may see more of this boot. `now` is in microseconds since the kernel started.
pub(crate) fn goes_on(seen: &[NodeBootStep], now: u64) -> bool {
    seen.len() < STEPS.len() && now < LONGEST
}

/// What a report shows after `before`, in the order of time. `system` is the machine as it is shown now: where it was
/// started at another time, this is another boot.
pub(crate) fn kept(
    before: &NodeReportStatus,
    system: Option<&NodeSystem>,
    seen: &[NodeBootStep],
) -> Vec<NodeBootStep> {
    let booted = |system: Option<&NodeSystem>| system.and_then(|system| system.boot_time.clone());
    let is_same_boot = booted(system).is_some() && booted(before.system.as_ref()) == booted(system);
    let mut steps = if is_same_boot { before.boot.clone() } else { Vec::new() };
    for step in seen {
        match steps.iter_mut().find(|shown| shown.step == step.step) {
            Some(shown) => shown.seconds = shown.seconds.min(step.seconds),
            None => steps.push(step.clone()),
        }
    }
    // Steps of another agent version are dropped, so that they cannot accumulate.
    steps.retain(|shown| STEPS.iter().any(|(step, ..)| *step == shown.step));
    steps.sort_by_key(|step| step.seconds);
    steps
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    fn steps(of: &[(&str, i64)]) -> Vec<NodeBootStep> {
        of.iter()
            .map(|(step, seconds)| NodeBootStep { step: (*step).to_owned(), seconds: *seconds })
            .collect()
    }

    fn booted(at: &str) -> NodeSystem {
        NodeSystem { boot_time: Some(at.to_owned()), ..NodeSystem::default() }
    }

    #[test]
    fn a_step_keeps_its_first_time_in_a_boot_and_another_boot_has_its_own() {
        let shown = steps(&[("HostChecked", 20), ("K3sStarted", 21), ("K3sReady", 105)]);
        let before = NodeReportStatus {
            system: Some(booted("a")),
            boot: shown.clone(),
            ..NodeReportStatus::default()
        };
        for (what, system, seen, want) in [
            ("nothing new", Some(booted("a")), steps(&[("K3sReady", 105)]), shown.clone()),
            ("k3s was started again", Some(booted("a")), steps(&[("K3sReady", 9_000)]), shown.clone()),
            ("systemd does not answer", Some(booted("a")), vec![], shown.clone()),
            (
                "the operator",
                Some(booted("a")),
                steps(&[("OperatorReady", 128)]),
                [shown.clone(), steps(&[("OperatorReady", 128)])].concat(),
            ),
            ("another boot", Some(booted("b")), steps(&[("K3sStarted", 30)]), steps(&[("K3sStarted", 30)])),
            ("no boot time", None, steps(&[("K3sStarted", 30)]), steps(&[("K3sStarted", 30)])),
        ] {
            assert_eq!(kept(&before, system.as_ref(), &seen), want, "{what}");
        }
        let odd = NodeReportStatus { boot: steps(&[("Odd", 1)]), ..before };
        assert_eq!(kept(&odd, Some(&booted("a")), &[]), []);
    }

    #[test]
    fn a_boot_goes_on_until_all_is_ready_or_no_one_waits_any_more() {
        let all = steps(&STEPS.map(|(step, ..)| (step, 100)));
        assert!(goes_on(&all[..5], 100 * SECOND) && goes_on(&[], 100 * SECOND));
        assert!(!goes_on(&all, 100 * SECOND));
        assert!(!goes_on(&all[..5], LONGEST), "a node that joins has no operator");
    }

    #[tokio::test]
    async fn the_steps_that_systemd_has_seen() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("systemctl");
        let of = |unit: &str, begun: u32, active: u32, inactive: u32| {
            format!(
                "Id={unit}\nInactiveExitTimestampMonotonic={begun}\nActiveEnterTimestampMonotonic={active}\n\
                 InactiveEnterTimestampMonotonic={inactive}\n"
            )
        };
        let answer = [
            of("weaver-boot-config.service", 3_000_000, 4_900_000, 0),
            of("weaver-preflight.service", 20_000_000, 0, 21_000_000),
            of("k3s.service", 21_500_000, 0, 0),
            of("weaver-webhook.service", 0, 0, 0),
            of("weaver-operator.service", 0, 0, 0),
        ];
        fs::write(&program, format!("#!/bin/sh\ncat <<'E'\n{}E\n", answer.join("\n"))).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let seen = seen(&Systemctl::new(program), Role::Server).await;
        assert_eq!(seen, steps(&[("BootFilesApplied", 4), ("HostChecked", 21), ("K3sStarted", 21)]));
        assert_eq!(super::seen(&Systemctl::new("/nowhere".into()), Role::Server).await, []);
    }
}
