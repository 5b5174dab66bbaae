//! What our units add to the start of k3s: boots of one card, with our units and with them masked, by turns. What they
//! write at a first boot is on the card by then, the choice of k3s and its names included; k3s only wants preflight
//! (`Wants=`), and sshd the host keys.

use std::time::Duration;

use weaver_image::boot::machine::Machine;
use weaver_image::booted::{counted_machine, wait_for_unit};

use super::OURS;
use super::measured::Measured;

/// k3s' own start differs by seconds from boot to boot. Odd, so that a median is a round that was seen.
const ROUNDS: usize = 5;
const BOOT: Duration = Duration::from_mins(25);
const END: Duration = Duration::from_mins(10);
const K3S: &str = "k3s.service";
const CMDLINE: &str = "cmdline.txt";

/// One boot, in seconds from the start of the kernel.
#[derive(Clone, Copy, Default)]
struct Boot {
    /// Until k3s was started: what is ordered before it is done.
    started: f64,
    /// Until k3s said that it is ready.
    ready: f64,
}

/// Two boots, one after the other.
#[derive(Clone, Copy, Default)]
struct Round {
    with: Boot,
    without: Boot,
}

impl Round {
    /// Of the start with our units, what the one without them lacks, in per cent.
    fn share(&self) -> f64 {
        (self.with.ready - self.without.ready) / self.with.ready * 100.0
    }
}

/// Waits for k3s.
fn boot_of(machine: &Machine) -> Boot {
    wait_for_unit(machine, K3S, BOOT).unwrap();
    let seconds = |property: &str| {
        let told = machine.run(&format!("systemctl show --value -p {property} {K3S}")).unwrap();
        told.trim().parse::<f64>().unwrap() / 1e6
    };
    let (started, ready) =
        (seconds("ExecMainStartTimestampMonotonic"), seconds("ActiveEnterTimestampMonotonic"));
    println!("k3s is started after {started:.1} s, ready after {ready:.1} s");
    Boot { started, ready }
}

/// Whether it is the boot that it is taken for.
fn is_as_meant(machine: &Machine, masked: bool) {
    let asked = OURS.map(|unit| format!("{unit}.service")).join(" ");
    let told = machine.run(&format!("systemctl show --value -p LoadState {asked}")).unwrap();
    let meant = if masked { "masked" } else { "loaded" };
    let states: Vec<_> = told.split_whitespace().collect();
    assert_eq!(states, [meant; OURS.len()]);
}

/// What was seen, without a verdict: that takes all rounds.
fn seen(rounds: &[Round]) -> Measured {
    let listed = |of: fn(&Round) -> f64| {
        rounds.iter().map(|round| format!("{:.1}", of(round))).collect::<Vec<_>>().join(", ")
    };
    let both = |with: fn(&Round) -> f64, without: fn(&Round) -> f64| {
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
    let masks = OURS.map(|unit| format!("systemd.mask={unit}.service")).join(" ");
    let masked = format!("{plain} {masks}");
    let mut rounds = Vec::new();
    for number in 0..ROUNDS {
        let mut round = Round::default();
        // Each is the first of a round at times, so that what changes meanwhile changes both.
        for is_masked in [number % 2 == 1, number % 2 == 0] {
            let line = if is_masked { &masked } else { plain };
            machine.edit_fat(|fat| fat.write(CMDLINE, format!("{line}\n").as_bytes())).unwrap();
            machine = machine.start_again().unwrap();
            machine.wait_for_ssh(BOOT).unwrap();
            *(if is_masked { &mut round.without } else { &mut round.with }) = boot_of(&machine);
            is_as_meant(&machine, is_masked);
            machine.power_off(END).unwrap();
        }
        rounds.push(round);
        // A round takes minutes: what was seen until now stays, whatever comes.
        seen(&rounds).keep();
    }
    let mut shares: Vec<_> = rounds.iter().map(Round::share).collect();
    shares.sort_by(f64::total_cmp);
    let (least, median, most) = (shares[0], shares[ROUNDS / 2], shares[ROUNDS - 1]);
    let words = format!("{median:.1} % ({least:.1} to {most:.1})");
    let mut measured = seen(&rounds);
    let what = "our units' share of kernel start → k3s ready: the median of five rounds, and all of them";
    measured.budget(what, &words, "< 5 %", median < 5.0);
    measured.judge();
}
