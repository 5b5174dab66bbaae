//! States that are not only looked at but booted: the worst of each recording.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use weaver_image::boot::machine::{Machine, Setup};
use weaver_image::booted::wait_for_unit;

use super::boot_files::BootFileStates;
use super::rebuilt::Rebuilt;
use super::recording::{FAULT, Recording, TOKEN};
use super::root_files::{self, ReplayedRoot};
use super::{holds_token, upgrade};
use crate::matrix::fault::codes;
use crate::node::report;
use crate::poll::until;

/// Next to other work of the builder's, and with a k3s that starts for the first time.
const BOOT: Duration = Duration::from_mins(25);
const OPERATOR: &str = "weaver-operator.service";

/// The card as it was before the first entry of the recording's part.
fn begin(recording: &Recording) -> Rebuilt<'_> {
    let mut rebuilt = Rebuilt::new(&recording.log, recording.card().boot(), |to| recording.write_start(to));
    rebuilt.advance(recording.part.start);
    rebuilt
}

/// Continues to the first moment that a cut may leave and that is looked for.
fn advance_to(recording: &Recording, rebuilt: &mut Rebuilt<'_>, is_it: impl Fn(&Rebuilt<'_>) -> bool) {
    let cuts = recording.log.cuts(recording.part.clone(), &rebuilt.boot());
    let cut = cuts.into_iter().find(|cut| {
        rebuilt.advance(*cut);
        is_it(rebuilt)
    });
    println!("cut after entry {:?} of {:?}", cut.expect("there is such a moment"), recording.part);
}

fn boot(recording: &Recording, rebuilt: &Rebuilt<'_>) -> Machine {
    let card = Arc::new(recording.card().with_state(&rebuilt.card()).unwrap());
    let mut machine = Machine::start(&card, &Setup::default()).unwrap();
    machine.wait_for_ssh(BOOT).unwrap();
    machine
}

/// The worst moment of an import is after the new name of the blanked weaver.toml: the old one's clusters have
/// none, and the next boot's fsck.vfat saves them, with the token, as a file that no owner would look for.
#[test]
#[ignore = "needs the image: make image-matrix"]
fn a_first_boot_cut_off_in_its_import_begins_again_and_forgets_the_token_on_the_boot_partition() {
    let recording = Recording::of("first-boot");
    let mut rebuilt = begin(&recording);
    let files = BootFileStates::new(&rebuilt.fat(), &rebuilt.fat());
    advance_to(&recording, &mut rebuilt, |rebuilt| holds_token(&files.look(&rebuilt.fat()).saved));

    let mut machine = boot(&recording, &rebuilt);
    wait_for_unit(&machine, OPERATOR, BOOT).unwrap();
    println!("{}", machine.run("journalctl -b --no-pager -o cat -t systemd-fsck").unwrap());
    assert_eq!(machine.run("find /boot/firmware -iname 'fsck*.rec'").unwrap(), "");
    assert_eq!(machine.run(&format!("cat {}", root_files::TOKEN_FILE)).unwrap().trim(), TOKEN);
    machine.power_off(BOOT).unwrap();
    let fat = machine.overlay().path().with_extension("fat");
    machine.overlay().extract_fat(&fat).unwrap();
    assert!(!holds_token(&fs::read(fat).unwrap()), "the token is on the boot partition");
}

/// The new k3s has its name, and is not proven yet.
#[test]
#[ignore = "needs the image: make image-matrix"]
fn an_upgrade_cut_off_before_its_proof_is_reported_and_the_printed_command_goes_back() {
    let recording = Recording::of("upgrade");
    let mut rebuilt = begin(&recording);
    let programs = |rebuilt: &Rebuilt<'_>| ReplayedRoot::of(&rebuilt.card()).and_then(|root| upgrade(&root));
    let old = programs(&rebuilt).unwrap().installed;
    advance_to(&recording, &mut rebuilt, |rebuilt| programs(rebuilt).is_ok_and(|now| now.installed != old));
    let new = programs(&rebuilt).unwrap().installed;

    let machine = boot(&recording, &rebuilt);
    let installed = || machine.run("sha256sum /usr/local/bin/k3s | cut -c 1-64").unwrap().trim().to_owned();
    assert_eq!(installed(), new);
    let said = || anyhow::Ok(codes(&report(&machine)?));
    until("F-08", || {
        said().map(|said| if said.contains("F-08") { Ok(()) } else { Err(format!("{said:?}")) })
    });
    wait_for_unit(&machine, OPERATOR, BOOT).unwrap();

    let printed = machine.attempt("weaver doctor", BOOT).unwrap();
    let command = "sudo weaver node rollback";
    assert!(printed.stdout.contains(command), "{}", printed.stdout);
    println!("{}", machine.run_within(command, BOOT).unwrap());
    assert_eq!(installed(), old);
    until("no F-08", || {
        said().map(|said| if said.contains("F-08") { Err(format!("{said:?}")) } else { Ok(()) })
    });
    wait_for_unit(&machine, OPERATOR, BOOT).unwrap();
}

/// The worst moment of a repair is in the middle of the rename: `cmdline.txt` points to the new line already, and
/// `cmdline.txt.new` still does, too. The next boot's fsck.vfat takes the content from the second of the two.
#[test]
#[ignore = "needs the image: make image-matrix"]
fn a_repair_cut_off_while_two_names_lead_to_the_new_line_boots_until_the_operator_runs() {
    let recording = Recording::of("repair");
    let mut rebuilt = begin(&recording);
    let files = BootFileStates::new(&rebuilt.fat(), &rebuilt.fat());
    advance_to(&recording, &mut rebuilt, |rebuilt| {
        let seen = files.look(&rebuilt.fat());
        let is_shared = seen.fsck.iter().any(|line| line.contains("share clusters"));
        let named = seen.fsck.iter().any(|line| line.starts_with("/cmdline.txt"));
        is_shared && named && !seen.cmdline.contains(FAULT)
    });

    let machine = boot(&recording, &rebuilt);
    let mended = "ls -la /boot/firmware; journalctl -b --no-pager -o cat -t systemd-fsck";
    println!("{}", machine.run(mended).unwrap());
    let line = machine.run("cat /boot/firmware/cmdline.txt").unwrap();
    assert!(line.contains("root=") && !line.contains(FAULT), "{line}");
    wait_for_unit(&machine, OPERATOR, BOOT).unwrap();
}
