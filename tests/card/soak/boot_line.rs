//! The first boot as a picture.

use weaver_image::booted::counted_machine;

use super::measured::draw;
use super::{OURS, time_line};

#[test]
#[ignore = "needs the booted image: make soak"]
fn the_first_boot_has_a_bar_for_each_unit_of_ours() {
    let machine = counted_machine().unwrap();
    let starts = time_line::starts(&machine.run(time_line::ASK).unwrap());
    let bars = time_line::bars(&starts, "k3s.service");
    for unit in OURS {
        assert!(bars.iter().any(|bar| bar.name == unit && bar.ours), "{unit} has none: {bars:#?}");
    }
    let title = "The first boot of a card: each unit from its start until it is ready";
    draw("boot.svg", title, "seconds since the kernel started, by instructions; ours in orange", &bars);
}
