//! Machines: started, watched, saved and restored, ended.

use std::time::Duration;

use serde_json::json;
use weaver_devstack::process::Process;
use weaver_image::boot::card::Edits;
use weaver_image::boot::machine::Machine;
use weaver_image::boot::qemu::GuestClock;
use weaver_image::boot::qmp;
use weaver_image::boot::running::End;

use super::cards::{CONFIG, CardImage, LIMIT, Then, kernel, no_key, setup, text};

#[test]
fn a_machine_speaks_and_switches_itself_off() {
    let image = CardImage::good(&kernel("hello from the card", Then::PowerOff));
    let mut machine = Machine::start(&image.card(&no_key()), &setup()).unwrap();
    machine.wait_for_console("hello from the card", LIMIT).unwrap();
    assert_eq!(machine.wait_for_end(LIMIT).unwrap(), End::PowerOff);
}

#[test]
fn after_a_restart_the_firmware_reads_the_card_again() {
    let image = CardImage::good(&kernel("first", Then::Restart));
    let mut machine = Machine::start(&image.card(&no_key()), &setup()).unwrap();
    assert_eq!(machine.wait_for_end(LIMIT).unwrap(), End::Reset);
    machine.edit_fat(|fat| fat.write("vmlinuz", &kernel("second", Then::PowerOff))).unwrap();
    let mut machine = machine.start_again().unwrap();
    machine.wait_for_console("second", LIMIT).unwrap();
    assert_eq!(machine.wait_for_end(LIMIT).unwrap(), End::PowerOff);
}

/// The kernel's line stands for Raspberry Pi's driver, which hands the flag to the firmware.
#[test]
fn a_restart_that_asks_for_a_trial_has_one_start_of_it() {
    let asks = "[    1.234567] reboot: Restarting system with command '0 tryboot'\r\n";
    let image = CardImage::good(&kernel(asks, Then::Restart));
    image.write("tryboot.txt", format!("{CONFIG}os_prefix=new/\n").as_bytes());
    image.write("new/vmlinuz", &kernel("it is tried", Then::Restart));
    for name in ["initrd", "cmdline.txt", "bcm2711-rpi-4-b.dtb"] {
        image.write(&format!("new/{name}"), b"new");
    }
    let mut machine = Machine::start(&image.card(&no_key()), &setup()).unwrap();
    assert_eq!(machine.wait_for_end(LIMIT).unwrap(), End::Reset);
    let mut machine = machine.start_again().unwrap();
    assert!(machine.steps().contains(&"on trial: tryboot.txt".to_owned()), "{:?}", machine.steps());
    machine.wait_for_console("it is tried", LIMIT).unwrap();
    assert_eq!(machine.wait_for_end(LIMIT).unwrap(), End::Reset);
    let machine = machine.start_again().unwrap();
    assert!(!machine.steps().iter().any(|step| step.starts_with("on trial")), "{:?}", machine.steps());
}

#[test]
fn a_kernel_that_does_not_get_far_is_reported_with_its_console() {
    let words = (1..=40).map(|n| format!("line {n}\r\n")).collect::<Vec<_>>().concat();
    let image = CardImage::good(&kernel(&words, Then::Wait));
    let mut machine = Machine::start(&image.card(&no_key()), &setup()).unwrap();
    machine.wait_for_console("line 40", LIMIT).unwrap();
    let error = machine.wait_for_console("login:", Duration::ZERO).unwrap_err().to_string();
    assert!(
        error.starts_with(
            "the console did not show `login:` within 0 s\nthe console's last lines:\n  line 11\n"
        ),
        "{error}"
    );
    assert!(error.ends_with("line 40"), "{error}");
    let error = machine.wait_for_end(Duration::ZERO).unwrap_err().to_string();
    assert!(error.contains("still runs after 0 s") && error.contains("line 40"), "{error}");
    let error = machine.edit_fat(|_| Ok(())).unwrap_err().to_string();
    assert!(error.contains("still runs; power_off or kill it"), "{error}");

    machine.kill().unwrap();
    assert_eq!(machine.wait_for_end(LIMIT).unwrap(), End::Outside("killed".to_owned()));
    let error = machine.wait_for_console("login:", LIMIT).unwrap_err().to_string();
    assert!(error.starts_with("the machine ended before its console showed `login:`"), "{error}");
}

#[test]
fn ssh_that_never_answers_is_reported_with_the_console() {
    let image = CardImage::good(&kernel("no sshd here", Then::Wait));
    let mut machine = Machine::start(&image.card(&Edits::default()), &setup()).unwrap();
    machine.wait_for_console("no sshd here", LIMIT).unwrap();
    let error = machine.wait_for_ssh(Duration::from_secs(1)).unwrap_err().to_string();
    assert!(error.starts_with("ssh did not answer within 1 s") && error.contains("no sshd here"), "{error}");
    let error = machine.power_off(Duration::ZERO).unwrap_err().to_string();
    assert!(error.starts_with("the guest did not switch off within 0 s"), "{error}");
}

#[test]
fn arguments_that_qemu_refuses_are_quoted() {
    let image = CardImage::good(&kernel("", Then::PowerOff));
    let mut setup = setup();
    setup.hardware.qemu_arguments = vec!["-no-such-option".to_owned()];
    let error = Machine::start(&image.card(&no_key()), &setup).err().unwrap().to_string();
    assert!(
        error.starts_with("QEMU did not start") && error.contains("-no-such-option: invalid option"),
        "{error}"
    );
}

#[test]
fn snapshots_are_restored_side_by_side() {
    let image = CardImage::good(&kernel("ready", Then::Wait));
    let mut first = Machine::start(&image.card(&no_key()), &setup()).unwrap();
    first.wait_for_console("ready", LIMIT).unwrap();
    for bad in ["", "1a", "a b", "../x", "a\nquit"] {
        assert!(
            first.snapshot(bad).err().unwrap().to_string().contains("is no name for a snapshot"),
            "{bad:?}"
        );
    }
    let snapshot = first.snapshot("ready").unwrap();
    assert_eq!(text(first.read_fat("config.txt").unwrap()), CONFIG, "of a running machine");
    let mut machines: Vec<Machine> = (0..2).map(|_| Machine::restore(&snapshot).unwrap()).collect();
    machines.push(first);
    let mut ports: Vec<u16> = machines.iter().flat_map(|m| [m.ports().ssh, m.ports().api]).collect();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 6);
    for machine in &mut machines {
        let status = machine.qmp().execute("query-status", &json!({}), qmp::SHORT).unwrap();
        assert_eq!(status["status"], "running");
        machine.set_link(false).unwrap();
        machine.set_link(true).unwrap();
    }
    // What one writes the others do not see.
    machines[0].kill().unwrap();
    machines[0].edit_fat(|fat| fat.write("mine", b"x")).unwrap();
    assert_eq!(text(machines[0].read_fat("mine").unwrap()), "x");
    assert_eq!(machines[1].read_fat("mine").unwrap(), None);
}

#[test]
fn a_snapshot_that_is_not_there_is_qemus_refusal() {
    let image = CardImage::good(&kernel("", Then::Wait));
    let mut setup = setup();
    setup.hardware.qemu_arguments = vec!["-loadvm".to_owned(), "gone".to_owned()];
    let error = Machine::start(&image.card(&no_key()), &setup).err().unwrap().to_string();
    assert!(error.starts_with("QEMU did not start") && error.contains("gone"), "{error}");
}

#[test]
fn the_clock_is_what_was_asked_for() {
    const CLOCK: u64 = 0x0901_0000; // the board's PL031, seconds since 1970
    for (clock, low, high) in [
        (GuestClock::Epoch, 0, 86_400),
        (GuestClock::At("2031-05-06".to_owned()), 1_935_792_000, 1_935_792_000 + 86_400),
    ] {
        let image = CardImage::good(&kernel("", Then::Wait));
        let mut setup = setup();
        setup.hardware.clock = clock;
        let mut machine = Machine::start(&image.card(&no_key()), &setup).unwrap();
        let look = json!({ "command-line": format!("xp /1wd {CLOCK}") });
        let said = machine.qmp().execute("human-monitor-command", &look, qmp::SHORT).unwrap();
        let seconds: u64 = said.as_str().unwrap().split(": ").nth(1).unwrap().trim().parse().unwrap();
        assert!((low..high).contains(&seconds), "{seconds}");
    }
}

#[test]
fn nothing_outlives_a_machine() {
    let image = CardImage::good(&kernel("up", Then::Wait));
    let mut machine = Machine::start(&image.card(&no_key()), &setup()).unwrap();
    machine.wait_for_console("up", LIMIT).unwrap();
    let process = Process::running(i32::try_from(machine.pid()).unwrap()).unwrap();
    let dir = machine.console_log().parent().unwrap().to_owned();
    drop(machine);
    assert!(!process.is_alive());
    assert!(!dir.exists());
}
