//! The card in the slot of a Pi 3, as far as QEMU emulates one: the card's own device tree, the Pi's SD host and
//! serial port, 1 GiB, no network. The other tests see a disk and a network that no Pi has.

use std::sync::Arc;
use std::time::Duration;

use weaver_image::boot::board::Board;
use weaver_image::boot::card::Card;
use weaver_image::boot::machine::{Machine, Setup};
use weaver_image::boot::qemu::{Emulated, EmulatedHardware};
use weaver_image::booted;

use crate::poll::until;
use crate::root::image;

#[test]
#[ignore = "needs the image: make image-pi3"]
fn it_boots_from_the_slot_of_a_pi_3_and_its_report_is_on_the_card() {
    // QEMU wants a power of two.
    let card = Arc::new(Card::new(&image(), 4 << 30, &booted::edits()).unwrap());
    let hardware = EmulatedHardware { machine: Emulated::Raspi3b, ..EmulatedHardware::default() };
    let setup = Setup { board: Board::Pi3, hardware, ..Setup::default() };
    let mut machine = Machine::start(&card, &setup).unwrap();
    machine.wait_for_console("raspi login:", Duration::from_mins(12)).unwrap();
    let console = machine.console();
    for said in ["Machine model: Raspberry Pi 3 Model B", "mmcblk0: p1 p2", "EXT4-fs (mmcblk0p2)"] {
        assert!(console.contains(said), "{said}: {console}");
    }
    until("the report on the card", || {
        let text = machine.read_fat("NODE-STATUS.txt")?.unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        Ok(if text.contains("card-too-small") { Ok(()) } else { Err(text) })
    });
}
