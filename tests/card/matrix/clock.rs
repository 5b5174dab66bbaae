//! A clock that jumps, on a board without a battery.

use std::sync::Arc;
use std::time::Duration;

use weaver_image::boot::card::Card;
use weaver_image::boot::machine::{Machine, Setup};
use weaver_image::boot::qemu::{EmulatedHardware, GuestClock};
use weaver_image::booted::{edits, machine};

use super::fault::{MatrixCase, MatrixFault, codes};
use crate::node::report;
use crate::root::image;

#[test]
#[ignore = "needs the booted image: make image-matrix"]
fn thirteen_months_later_the_certificate_is_renewed_under_the_same_ca() {
    static FAULT: MatrixFault = MatrixFault {
        name: "30-thirteen-months",
        what: "the clock 13 months ahead: the served certificate has expired",
        codes: &["T-04"],
        down: &[],
    };
    let mut case = MatrixCase::begin(machine().unwrap(), &FAULT);
    let ca = "sha256sum /var/lib/rancher/k3s/server/tls/server-ca.crt";
    let before = case.machine.run(ca).unwrap();
    case.machine.run("date -s '+13 months'").unwrap();
    let said = case.seen(&[]);
    let machine = case.type_remedy(&said, "T-04", &[]).mended_by_its_own_clock();
    assert_eq!(machine.run(ca).unwrap(), before, "the laptop trusts this CA");
}

#[test]
#[ignore = "needs the booted image: make image-matrix"]
fn a_first_boot_two_days_ahead_is_named_once_the_clock_is_right() {
    static FAULT: MatrixFault = MatrixFault {
        name: "31-two-days-ahead",
        what: "first boot with the clock two days ahead, then corrected: the CA is from the future",
        codes: &["T-04"],
        down: &[],
    };
    let ahead = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(48);
    let clock = GuestClock::At(ahead.strftime("%Y-%m-%dT%H:%M:%S").to_string());
    let setup =
        Setup { hardware: EmulatedHardware { clock, ..EmulatedHardware::default() }, ..Setup::default() };
    let card = Arc::new(Card::new(&image(), 8 << 30, &edits()).unwrap());
    let ahead = Machine::start(&card, &setup).unwrap();
    let well = codes(&report(&machine().unwrap()).unwrap());
    let mut case = MatrixCase::new(ahead, &FAULT, well);
    case.machine.wait_for_ssh(Duration::from_mins(15)).unwrap();
    weaver_image::booted::wait_for_unit(&case.machine, "weaver-operator.service", Duration::from_mins(15))
        .unwrap();
    // As timesyncd does both: there is no time server here.
    case.machine.run("date -s '-2 days' && install -D /dev/null /run/systemd/timesync/synchronized").unwrap();
    let said = case.seen(&[]);
    case.type_remedy(&said, "T-04", &[]).mended_by_its_own_clock();
}
