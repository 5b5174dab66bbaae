//! What our units add to the start of k3s: boots of one card, with our units and with them masked, by turns. What they
//! write at a first boot is on the card by then, the choice of k3s and its names included; k3s only wants preflight
//! (`Wants=`), and sshd the host keys.
//!
//! No one logs in before k3s is ready: a login costs more than a unit of ours, and comes when it likes. What is waited
//! for is systemd's word on the console, which it gives where no getty has it.

use std::time::Duration;

use weaver_image::boot::machine::Machine;
use weaver_image::booted::{counted_machine, wait_for_unit};

use super::OURS;
use super::measured::Measured;

/// k3s' own start differs by two seconds and more from boot to boot, with our units and without: the means of many are
/// compared.
const ROUNDS: usize = 7;
const BOOT: Duration = Duration::from_mins(25);
const END: Duration = Duration::from_mins(10);
const K3S: &str = "k3s.service";
const CMDLINE: &str = "cmdline.txt";
const NO_GETTY: &str = "systemd.mask=serial-getty@ttyAMA0.service";

/// One boot, in seconds from the start of the kernel.
#[derive(Clone, Copy, Default)]
struct BootTimes {
    /// Until k3s was started: what is ordered before it is done.
    started: f64,
    /// Until k3s said that it is ready.
    ready: f64,
}

/// Two boots, one after the other.
#[derive(Clone, Copy, Default)]
struct BootPair {
    with: BootTimes,
    without: BootTimes,
}

/// Of the mean start with our units, what the mean without them lacks, in per cent.
fn share(rounds: &[BootPair]) -> f64 {
    let sum = |of: fn(&BootPair) -> f64| rounds.iter().map(of).sum::<f64>();
    let with = sum(|round| round.with.ready);
    (with - sum(|round| round.without.ready)) / with * 100.0
}

fn boot_of(machine: &mut Machine) -> BootTimes {
    machine.wait_for_console(&format!("Started {K3S}"), BOOT).unwrap();
    machine.wait_for_ssh(BOOT).unwrap();
    wait_for_unit(machine, K3S, BOOT).unwrap();
    let seconds = |property: &str| {
        let reported = machine.run(&format!("systemctl show --value -p {property} {K3S}")).unwrap();
        reported.trim().parse::<f64>().unwrap() / 1e6
    };
    let (started, ready) =
        (seconds("ExecMainStartTimestampMonotonic"), seconds("ActiveEnterTimestampMonotonic"));
    println!("k3s is started after {started:.1} s, ready after {ready:.1} s");
    BootTimes { started, ready }
}

/// Whether it is the boot that it is taken for.
fn is_as_meant(machine: &Machine, masked: bool) {
    let asked = OURS.map(|unit| format!("{unit}.service")).join(" ");
    let reported = machine.run(&format!("systemctl show --value -p LoadState {asked}")).unwrap();
    let meant = if masked { "masked" } else { "loaded" };
    let states: Vec<_> = reported.split_whitespace().collect();
    assert_eq!(states, [meant; OURS.len()]);
    let grows = machine.run("systemctl show --value -p ConditionResult weaver-grow-root.service").unwrap();
    assert!(masked || grows.trim() == "no", "a root that fills the card is grown again");
}

/// What was seen, without a verdict: that takes all rounds.
fn seen(rounds: &[BootPair]) -> Measured {
    let listed = |of: fn(&BootPair) -> f64| {
        rounds.iter().map(|round| format!("{:.1}", of(round))).collect::<Vec<_>>().join(", ")
    };
    let both = |with: fn(&BootPair) -> f64, without: fn(&BootPair) -> f64| {
        format!("with them {} s, without {} s", listed(with), listed(without))
    };
    let mut measured = Measured::begin("20-boot");
    let ready = both(|round| round.with.ready, |round| round.without.ready);
    measured.row("the boots of it, by turns: k3s is ready ¹", &ready);
    let started = both(|round| round.with.started, |round| round.without.started);
    measured.row("the same boots: k3s is started ¹", &started);
    measured
}

#[test]
#[ignore = "needs the booted image and most of an hour: make soak"]
fn our_units_take_a_small_share_of_the_start_of_k3s() {
    let mut machine = counted_machine().unwrap();
    machine.power_off(END).unwrap();
    let plain = String::from_utf8(machine.read_fat(CMDLINE).unwrap().unwrap()).unwrap();
    let plain = plain.trim_end();
    let plain = format!("{plain} {NO_GETTY}");
    let masks = OURS.map(|unit| format!("systemd.mask={unit}.service")).join(" ");
    let masked =
        format!("{plain} {masks} systemd.mask=weaver-webhook.socket systemd.mask=weaver-page.socket");
    let mut rounds = Vec::new();
    for number in 0..ROUNDS {
        let mut round = BootPair::default();
        // Each is the first of a round at times, so that what changes meanwhile changes both.
        for is_masked in [number % 2 == 1, number % 2 == 0] {
            let line = if is_masked { &masked } else { &plain };
            machine.edit_fat(|fat| fat.write(CMDLINE, format!("{line}\n").as_bytes())).unwrap();
            machine = machine.start_again().unwrap();
            *(if is_masked { &mut round.without } else { &mut round.with }) = boot_of(&mut machine);
            is_as_meant(&machine, is_masked);
            machine.power_off(END).unwrap();
        }
        rounds.push(round);
        // A round takes minutes: what was seen until now stays, whatever comes.
        seen(&rounds).keep();
    }
    let of_all = share(&rounds);
    let mut shares: Vec<_> = rounds.iter().map(|round| share(&[*round])).collect();
    shares.sort_by(f64::total_cmp);
    let words = format!("{of_all:.1} % ({:.1} to {:.1})", shares[0], shares[ROUNDS - 1]);
    let mut measured = seen(&rounds);
    let what = "our units' share of kernel start → k3s ready: of the mean of all boots, and of each two";
    measured.budget(what, &words, "< 5 %", of_all < 5.0);
    measured.judge();
}
