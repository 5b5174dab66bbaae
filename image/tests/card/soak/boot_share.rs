//! What our units add to the start of k3s: boots of one card, with our units and with them masked, by turns. What they
//! write at a first boot is on the card by then, the choice of k3s and its names included; k3s only wants preflight
//! (`Wants=`), and sshd the host keys.

use std::time::Duration;

use weaver_image::boot::machine::Machine;
use weaver_image::booted::{counted_machine, wait_for_unit};

use super::OURS;
use super::measured::Measured;

/// Odd, so that a median is a boot that was seen. k3s' own start differs by seconds from boot to boot.
const ROUNDS: usize = 5;
const BOOT: Duration = Duration::from_mins(25);
const END: Duration = Duration::from_mins(10);
const K3S: &str = "k3s.service";
const CMDLINE: &str = "cmdline.txt";

/// Seconds from the start of the kernel, of several boots.
#[derive(Default)]
struct Boots {
    /// Until k3s was started: what is ordered before it is done.
    started: Vec<f64>,
    /// Until k3s said that it is ready.
    ready: Vec<f64>,
}

impl Boots {
    /// Waits for k3s.
    fn add(&mut self, machine: &Machine) {
        wait_for_unit(machine, K3S, BOOT).unwrap();
        let seconds = |property: &str| {
            let told = machine.run(&format!("systemctl show --value -p {property} {K3S}")).unwrap();
            told.trim().parse::<f64>().unwrap() / 1e6
        };
        let (started, ready) =
            (seconds("ExecMainStartTimestampMonotonic"), seconds("ActiveEnterTimestampMonotonic"));
        println!("k3s is started after {started:.1} s, ready after {ready:.1} s");
        self.started.push(started);
        self.ready.push(ready);
    }
}

/// Whether it is the boot that it is taken for.
fn is_as_meant(machine: &Machine, masked: bool) {
    let asked = OURS.map(|unit| format!("{unit}.service")).join(" ");
    let told = machine.run(&format!("systemctl show --value -p LoadState {asked}")).unwrap();
    let meant = if masked { "masked" } else { "loaded" };
    let states: Vec<_> = told.split_whitespace().collect();
    assert_eq!(states, [meant; OURS.len()]);
}

fn median(of: &[f64]) -> f64 {
    let mut of = of.to_vec();
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

fn listed(of: &[f64]) -> String {
    of.iter().map(|seconds| format!("{seconds:.1}")).collect::<Vec<_>>().join(", ")
}

fn rows(with: &Boots, without: &Boots) -> Measured {
    let both = |of: fn(&Boots) -> &[f64]| {
        format!("with them {} s, without {} s", listed(of(with)), listed(of(without)))
    };
    let ready = median(&with.ready);
    let share = (ready - median(&without.ready)) / ready * 100.0;
    let mut measured = Measured::begin("20-boot");
    let what = "our units' share of kernel start → k3s ready, in the medians";
    measured.budget(what, &format!("{share:.1} %"), "< 5 %", share < 5.0);
    measured.row("the boots of it, by turns: k3s is ready ¹", &both(|boots| &boots.ready));
    measured.row("the same boots: k3s is started ¹", &both(|boots| &boots.started));
    measured
}

#[test]
#[ignore = "needs the booted image and half an hour: make soak"]
fn our_units_take_a_small_share_of_the_start_of_k3s() {
    let mut machine = counted_machine().unwrap();
    machine.power_off(END).unwrap();
    let plain = String::from_utf8(machine.read_fat(CMDLINE).unwrap().unwrap()).unwrap();
    let plain = plain.trim_end();
    let masks = OURS.map(|unit| format!("systemd.mask={unit}.service")).join(" ");
    let masked = format!("{plain} {masks}");
    // Of masked boots, and of those that are not.
    let (mut without, mut with) = (Boots::default(), Boots::default());
    for round in 0..ROUNDS {
        // Each is the first of a round at times, so that what changes meanwhile changes both.
        for is_masked in [round % 2 == 1, round % 2 == 0] {
            let line = if is_masked { &masked } else { plain };
            machine.edit_fat(|fat| fat.write(CMDLINE, format!("{line}\n").as_bytes())).unwrap();
            machine = machine.start_again().unwrap();
            machine.wait_for_ssh(BOOT).unwrap();
            if is_masked { &mut without } else { &mut with }.add(&machine);
            is_as_meant(&machine, is_masked);
            machine.power_off(END).unwrap();
        }
        // A round takes minutes: what was seen until now stays, whatever comes.
        rows(&with, &without).keep();
    }
    rows(&with, &without).judge();
}
