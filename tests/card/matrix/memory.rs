//! The memory controller, as the boot files turn it off or seem to turn it on.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use weaver_image::boot::card::Card;
use weaver_image::boot::machine::{Machine, Setup};
use weaver_image::booted::{edits, machine};

use super::fault::{MatrixCase, MatrixFault, codes};
use super::strangers::are_strangers;
use crate::node::report;
use crate::root::image;

#[test]
#[ignore = "needs the booted image: make image-matrix"]
fn k3s_waits_for_a_memory_controller_and_starts_after_the_repair() {
    static FAULT: MatrixFault = MatrixFault {
        name: "10-memory-off",
        what: "first boot with `cgroup_disable=memory` in cmdline.txt",
        codes: &["N-03"],
        // No one asks the webhook, then.
        down: &["k3s", "weaver-operator", "weaver-webhook"],
    };
    let card = Arc::new(Card::new(&image(), 8 << 30, &edits()).unwrap());
    let append = |fat: &weaver_image::boot::fat::Fat| {
        let text = fat.read("cmdline.txt")?.context("the card has a cmdline.txt")?;
        let text = format!("{} cgroup_disable=memory\n", String::from_utf8(text)?.trim_end());
        fat.write("cmdline.txt", text.as_bytes())
    };
    card.overlay().edit_fat(append).unwrap();
    let machine_with_it = Machine::start(&card, &Setup::default()).unwrap();
    let well = codes(&report(&machine().unwrap()).unwrap());
    let mut case = MatrixCase::new(machine_with_it, &FAULT, well);
    case.machine.wait_for_ssh(Duration::from_mins(15)).unwrap();
    let said = case.seen(&["cmdline.txt"]);
    let mended = case.type_remedy(&said, "N-03", &[]).mended();
    are_strangers(&mended, &machine().unwrap());
}

#[test]
#[ignore = "needs the booted image: make image-matrix"]
fn a_parameter_on_a_second_line_is_named_and_stops_nothing_on_this_kernel() {
    static FAULT: MatrixFault = MatrixFault {
        name: "11-second-line",
        what: "`echo cgroup_enable=memory >> cmdline.txt`: a line that the firmware ignores",
        codes: &[],
        down: &[],
    };
    let mut case = MatrixCase::begin(machine().unwrap(), &FAULT);
    case.machine.run("echo cgroup_enable=memory >> /boot/firmware/cmdline.txt").unwrap();
    let said = case.machine.run("weaver-node-agent check").unwrap();
    assert!(said.contains("/boot/firmware/cmdline.txt:2:1: cgroup_enable=memory has no effect"), "{said}");
    assert!(said.contains("on a line that the firmware ignores"), "{said}");
    case.seen(&["N-00"]);
    case.does("nothing: `check` names the line, and Debian's kernel has the controller on");
    case.mended();
}
