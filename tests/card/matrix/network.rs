//! A card that is switched on without a cable, and gets one later.

use std::sync::Arc;
use std::time::Duration;

use weaver_image::boot::card::Card;
use weaver_image::boot::machine::{Machine, Setup};
use weaver_image::booted;

use super::fault::{MatrixCase, MatrixFault, codes};
use crate::node::report;
use crate::poll::until;
use crate::root::image;

const BOOT: Duration = Duration::from_mins(12);
/// What systemd puts behind k3s' command; k3s wipes its arguments.
const FLAGS: &str = "tr '\\0' '\\n' < /proc/$(systemctl show --value -p MainPID k3s.service)/environ | grep WEAVER_OFFLINE_START";

/// Boots a card without its cable, until the gate is open. No ssh: what is known is what lies on the card.
pub fn boot_unplugged(card: &Arc<Card>) -> Machine {
    let mut machine = Machine::start(card, &Setup::default()).unwrap();
    // The kernel has not looked at the port yet.
    machine.set_link(false).unwrap();
    machine.wait_for_console("login:", BOOT).unwrap();
    until("the gate open, by the card alone", || {
        let status = machine.read_fat("node-status.json")?.unwrap_or_default();
        let status: serde_json::Value = serde_json::from_slice(&status)?;
        Ok(if status["gate"] == "open" { Ok(()) } else { Err(status.to_string()) })
    });
    machine
}

#[test]
#[ignore = "boots a machine of its own: make image-matrix"]
fn without_a_network_the_node_works_and_takes_a_network_that_comes_later_by_the_command_it_names() {
    static FAULT: MatrixFault = MatrixFault {
        name: "70-no-network",
        what: "first boot without a network, by a clock that begins in 1970, which has the gate open all the same; then the cable is plugged in",
        codes: &["H-16"],
        down: &[],
    };
    let card = Arc::new(Card::new(&image(), 8 << 30, &booted::edits()).unwrap());
    let mut machine = boot_unplugged(&card);
    let page = machine.read_fat("NODE-STATUS.txt").unwrap().expect("a page for the laptop");
    let page = String::from_utf8(page).unwrap();
    assert!(page.contains("H-16") && page.contains("203.0.113.254"), "{page}");
    assert!(page.contains("H-05"), "no one has set the clock: {page}");
    assert!(!page.contains("H-01"), "what it advises is done: {page}");

    machine.set_link(true).unwrap();
    machine.wait_for_ssh(BOOT).unwrap();
    booted::wait_for_unit(&machine, "weaver-operator.service", BOOT).unwrap();
    assert_eq!(machine.run(FLAGS).unwrap().trim(), "WEAVER_OFFLINE_START=--node-ip=203.0.113.254");
    until("the finding that there is a network now", || {
        let findings = report(&machine)?["findings"].as_array().cloned().unwrap_or_default();
        let late = findings.iter().find(|f| f["code"] == "H-16" && f["remedy"].is_object());
        let says = late.is_some_and(|f| f["message"].to_string().contains("has one now"));
        Ok(if says { Ok(()) } else { Err(format!("{findings:?}")) })
    });

    let well = codes(&report(&booted::machine().unwrap()).unwrap());
    let mut case = MatrixCase::new(machine, &FAULT, well);
    let said = case.seen(&[]);
    let case = case.type_remedy(&said, "H-16", &[]);
    assert_eq!(case.machine.run(FLAGS).unwrap().trim(), "WEAVER_OFFLINE_START=");
    let interfaces = case.machine.run("ls /sys/class/net").unwrap();
    assert!(!interfaces.contains("weaver0"), "{interfaces}");
    case.mended();
}
