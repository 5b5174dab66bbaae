//! A weaver.toml that cannot be read.

use std::time::Duration;

use anyhow::Context as _;
use weaver_image::boot::fat::Fat;
use weaver_image::booted::{machine, wait_for_unit};

use super::fault::{MatrixCase, MatrixFault};

const BOOT: Duration = Duration::from_mins(15);
const FILE: &str = "weaver.toml";

#[test]
#[ignore = "needs the booted image: make image-matrix"]
fn a_malformed_file_is_named_with_its_line_and_the_last_good_state_stays() {
    static FAULT: MatrixFault = MatrixFault {
        name: "60-weaver-toml-malformed",
        what: "`hostname = raspi`, without quotes, in weaver.toml",
        codes: &["B-01"],
        down: &[],
    };
    let mut case = MatrixCase::begin(machine().unwrap(), &FAULT);
    case.machine.power_off(BOOT).unwrap();
    let spoil = |fat: &Fat| {
        let text = String::from_utf8(fat.read(FILE)?.context("the card has one")?)?;
        fat.write(FILE, text.replace("hostname = \"raspi\"", "hostname = raspi").as_bytes())
    };
    case.machine.edit_fat(spoil).unwrap();
    case.machine = case.machine.start_again().unwrap();
    case.machine.wait_for_ssh(BOOT).unwrap();
    wait_for_unit(&case.machine, "weaver-operator.service", BOOT).unwrap();
    assert_eq!(case.machine.run("hostname").unwrap().trim(), "raspi");
    let said = case.seen(&["weaver.toml", "line"]);
    case.does("the quotes put in, then");
    let quotes = "sed -i 's/^hostname = raspi/hostname = \"raspi\"/' /boot/firmware/weaver.toml";
    case.machine.run(quotes).unwrap();
    case.type_remedy(&said, "B-01", &[]).mended();
}
