//! States that are not only looked at but booted.

use std::sync::Arc;
use std::time::Duration;

use weaver_image::boot::machine::{Machine, Setup};
use weaver_image::booted::wait_for_unit;

use super::boot_files::BootFiles;
use super::rebuilt::Rebuilt;
use super::recording::{FAULT, Recording};

/// Beside other work of the builder's, and with a k3s that starts for the first time.
const BOOT: Duration = Duration::from_mins(25);

/// The worst moment of a repair is in the middle of the rename: `cmdline.txt` leads to the new line already, and
/// `cmdline.txt.new` still does, too. The next boot's fsck.vfat takes the content from the second of the two.
#[test]
#[ignore = "needs the image: make image-matrix"]
fn a_repair_cut_off_while_two_names_lead_to_the_new_line_boots_until_the_operator_runs() {
    let recording = Recording::of("repair");
    let mut rebuilt = Rebuilt::new(&recording.log, recording.card().boot(), |to| recording.write_start(to));
    let cuts = recording.log.cuts(recording.part.clone(), &rebuilt.boot());
    rebuilt.advance(recording.part.start);
    let files = BootFiles::new(&rebuilt.fat(), &rebuilt.fat());
    let cut = cuts.into_iter().find(|cut| {
        rebuilt.advance(*cut);
        let seen = files.look(&rebuilt.fat());
        let is_shared = seen.fsck.iter().any(|line| line.contains("share clusters"));
        let named = seen.fsck.iter().any(|line| line.starts_with("/cmdline.txt"));
        is_shared && named && !seen.cmdline.contains(FAULT)
    });
    println!("cut after entry {:?} of {:?}", cut.expect("there is such a moment"), recording.part);

    let card = Arc::new(recording.card().with_state(&rebuilt.card()).unwrap());
    let mut machine = Machine::start(&card, &Setup::default()).unwrap();
    machine.wait_for_ssh(BOOT).unwrap();
    let mended = "ls -la /boot/firmware; journalctl -b --no-pager -o cat -t systemd-fsck";
    println!("{}", machine.run(mended).unwrap());
    let line = machine.run("cat /boot/firmware/cmdline.txt").unwrap();
    assert!(line.contains("root=") && !line.contains(FAULT), "{line}");
    wait_for_unit(&machine, "weaver-operator.service", BOOT).unwrap();
}
