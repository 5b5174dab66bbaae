use super::*;
use crate::next_boot::{Loader, LoaderLine, NextBoot};
use proptest::prelude::*;

const RPI: &str = "6.12.47+rpt-rpi-v8";
const DEBIAN: &str = "6.12.107+deb13-arm64";
const FILE: &str = "/boot/firmware/cmdline.txt";
const ON: &str = "root=a rootwait cgroup_enable=memory\n";
const OFF: &str = "root=a cgroup_enable=memory cgroup_disable=memory\n";
const PLAIN: &str = "root=a rootwait\n";
const SECOND: &str = "root=a rootwait\ncgroup_enable=memory\n";
/// What the Pi's device tree injects before the file's content.
const RUNNING_OFF: &str = "cgroup_disable=memory root=a rootwait\n";
const RUNNING_ON: &str = "cgroup_disable=memory root=a rootwait cgroup_enable=memory\n";

fn text(path: &str, text: &str) -> TextFile {
    TextFile::new(path, text)
}

fn facts(release: &str, pending: Option<&str>, running: &str, present: bool) -> CgroupFacts {
    let place = Place::file("/sys/fs/cgroup/cgroup.controllers");
    CgroupFacts {
        kernel_release: (!release.is_empty()).then(|| release.into()),
        controller: if present {
            Controller::Present(place, "cpu memory".into())
        } else {
            Controller::Absent(place, "cpu".into())
        },
        running: Some(running.into()),
        next: NextBoot::only(pending.map_or(BootFile::Missing, |p| BootFile::Read(text(FILE, p)))),
        stub: None,
        extra: None,
        generator: false,
        read_only_at: None,
    }
}

fn verdict(facts: &CgroupFacts) -> (Severity, Code) {
    let found = &findings(facts)[0];
    (found.severity(), found.code)
}

/// The table for kernels that know the
/// parameter; an unknown release counts as one.
#[test]
fn the_table_of_raspberry_pi_kernels() {
    use {Code::*, Severity::*};
    for release in [RPI, "6.8.0-1018-raspi", "6.12.25-v8+", "6.1.21-v7l+", ""] {
        for (pending, running, present, want) in [
            (Some(ON), RUNNING_ON, true, (Ok, MemoryCgroupOk)),
            (Some(ON), RUNNING_OFF, false, (Fail, RebootNeeded)),
            (Some(PLAIN), RUNNING_ON, true, (Warn, MemoryCgroupLostAtBoot)),
            (Some(OFF), RUNNING_ON, true, (Warn, MemoryCgroupLostAtBoot)),
            (Some(SECOND), RUNNING_ON, true, (Warn, MemoryCgroupLostAtBoot)),
            (Some(PLAIN), RUNNING_OFF, false, (Fail, MemoryCgroupAbsent)),
            (Some(OFF), RUNNING_OFF, false, (Fail, MemoryCgroupDisabled)),
            (Some(ON), RUNNING_ON, false, (Fail, MemoryCgroupAbsent)),
            (Some(SECOND), RUNNING_OFF, false, (Fail, CgroupParameterOnIgnoredLine)),
            (None, RUNNING_ON, true, (Ok, MemoryCgroupOk)),
            (None, RUNNING_OFF, false, (Fail, MemoryCgroupAbsent)),
        ] {
            let facts = facts(release, pending, running, present);
            assert_eq!(verdict(&facts), want, "{release} {pending:?} {running:?} {present}");
        }
    }
}

#[test]
fn what_nixos_writes_itself_is_changed_in_its_configuration() {
    const NIXOS: &str = "cgroup_disable=memory init=/nix/store/x-nixos-system-pi-25.11/init loglevel=4\n";
    for (pending, running, present, want) in [
        (PLAIN, NIXOS, false, "add \"cgroup_enable=memory\" to boot.kernelParams"),
        (OFF, NIXOS, false, "remove \"cgroup_disable=memory\" from boot.kernelParams"),
        (
            PLAIN,
            "init=/nix/store/x-nixos-system-pi-25.11/init cgroup_enable=memory\n",
            true,
            "add \"cgroup_enable=memory\"",
        ),
    ] {
        let found = &findings(&facts("6.12.34", Some(pending), running, present))[0];
        let remedy = found.remedy.as_ref().unwrap();
        assert!(remedy.explain.contains(want), "{pending} {running}: {remedy:?}");
        assert_eq!(remedy.commands, ["sudo nixos-rebuild boot", "sudo reboot"]);
        assert!(remedy.changes.is_empty(), "`repair` would be undone by the next rebuild");
    }
    let elsewhere = &findings(&facts(RPI, Some(PLAIN), RUNNING_OFF, false))[0];
    assert!(!elsewhere.remedy.as_ref().unwrap().changes.is_empty());
    let healthy = &findings(&facts("6.12.34", Some(PLAIN), "init=/nix/store/x/init\n", true))[0];
    assert_eq!((healthy.code, &healthy.remedy), (Code::MemoryCgroupOk, &None));
}

/// Debian's kernel: the controller decides, the file explains.
#[test]
fn the_table_of_debian_kernels() {
    use {Code::*, Severity::*};
    for (pending, running, present, want) in [
        (Some(PLAIN), PLAIN, true, (Ok, MemoryCgroupOk)),
        (Some(ON), ON, true, (Ok, MemoryCgroupOk)),
        (Some(SECOND), PLAIN, true, (Ok, MemoryCgroupOk)),
        (None, PLAIN, true, (Ok, MemoryCgroupOk)),
        (Some("cgroup_disable=memory\n"), PLAIN, true, (Warn, MemoryCgroupLostAtBoot)),
        (Some(OFF), OFF, false, (Fail, MemoryCgroupDisabled)),
        // The order does not matter here: the disable cannot be overridden.
        (Some(RUNNING_ON), RUNNING_ON, false, (Fail, MemoryCgroupDisabled)),
        (Some(PLAIN), OFF, false, (Fail, RebootNeeded)),
        (Some(ON), RUNNING_OFF, false, (Fail, RebootNeeded)),
        (Some(PLAIN), RUNNING_OFF, false, (Fail, RebootNeeded)),
        (None, OFF, false, (Fail, MemoryCgroupDisabled)),
        (Some(PLAIN), PLAIN, false, (Fail, MemoryCgroupAbsent)),
        (Some(ON), ON, false, (Fail, MemoryCgroupAbsent)),
    ] {
        let facts = facts(DEBIAN, pending, running, present);
        assert_eq!(verdict(&facts), want, "{pending:?} {running:?} {present}");
    }
}

#[test]
fn only_debians_own_releases_do_not_know_the_parameter() {
    for (release, want) in [
        ("6.12.107+deb13-arm64", false),
        ("6.12.107+deb13-cloud-arm64", false),
        ("6.12.107+deb13+1-rpi", false),
        ("6.1.0-28-arm64", false),
        ("6.1.0-28-armmp-lpae", false),
        ("6.1.0-28-armmp", false),
        ("6.1.0-28-amd64\n", false),
        ("6.12.25-v8+", true),
        ("6.1.21-v7+", true),
        ("5.15.84-v7l+", true),
        ("5.10.63+", true),
        ("6.6.31-v6+", true),
        ("6.12.25-v8-16k+", true),
        ("6.12.47+rpt-rpi-v8", true),
        ("6.8.0-1018-raspi", true),
        ("6.18.0-custom", true),
        ("", true),
    ] {
        assert_eq!(knows_cgroup_enable(Some(release)), want, "{release}");
    }
    assert!(knows_cgroup_enable(None));
}

#[test]
fn a_disable_that_waits_for_the_next_boot_is_taken_out_of_each_file_that_has_it() {
    let extra = || Some(text(EXTRA_CMDLINE, "cgroup_disable=memory\n"));
    for (pending, files, reboots) in [
        (Some(PLAIN), &[EXTRA_CMDLINE][..], 0),
        (None, &[EXTRA_CMDLINE], 0),
        (Some(OFF), &[EXTRA_CMDLINE, FILE], 1),
    ] {
        let mut facts = facts(DEBIAN, pending, PLAIN, true);
        facts.extra = extra();
        let found = &findings(&facts)[0];
        assert_eq!((found.severity(), found.code), (Severity::Warn, Code::MemoryCgroupLostAtBoot));
        let remedy = found.remedy.as_ref().unwrap();
        assert_eq!(remedy.explain.matches("reboot").count(), reboots, "{}", remedy.explain);
        let (edits, others): (Vec<_>, Vec<_>) = remedy.commands.iter().partition(|c| c.contains("sed"));
        assert_eq!((edits.len(), others.len()), (files.len(), reboots), "{remedy:?}");
        for (edit, file) in edits.iter().zip(files) {
            assert!(edit.ends_with(file), "{edit}");
        }
    }
}

#[test]
fn an_inert_token_is_named_as_evidence() {
    let found = &findings(&facts(DEBIAN, Some(ON), ON, true))[0];
    let inert = found.evidence.iter().find(|e| e.saw.contains("no effect")).unwrap();
    assert_eq!(inert.place, Place::at(FILE, 1, 17));

    let found = &findings(&facts(DEBIAN, Some(SECOND), PLAIN, true))[0];
    let inert = found.evidence.iter().find(|e| e.saw.contains("no effect")).unwrap();
    assert_eq!(inert.place.line, Some(2));
    assert!(inert.saw.contains("ignores"), "{}", inert.saw);
}

#[test]
fn the_second_line_is_named_with_its_place_and_the_join() {
    let found = &findings(&facts(RPI, Some(SECOND), RUNNING_OFF, false))[0];
    assert!(found.message.contains("line 2 of /boot/firmware/cmdline.txt"), "{}", found.message);
    assert_eq!(found.evidence[0].place, Place::at(FILE, 2, 1));
    let remedy = found.remedy.as_ref().unwrap();
    assert!(remedy.explain.contains("join the lines"));
    assert!(remedy.diff.as_ref().unwrap().contains("+root=a rootwait cgroup_enable=memory\n"));
}

#[test]
fn a_disable_in_the_generators_source_is_repaired_in_both_files() {
    let mut facts = facts(DEBIAN, Some("root=a cgroup_disable=memory\n"), OFF, false);
    facts.extra = Some(text(EXTRA_CMDLINE, "cgroup_disable=memory\n"));
    let found = &findings(&facts)[0];
    assert_eq!(found.code, Code::MemoryCgroupDisabled);
    let places: Vec<_> = found.evidence.iter().map(|e| e.place.to_string()).collect();
    assert_eq!(places[..2], [format!("{EXTRA_CMDLINE}:1:1"), format!("{FILE}:1:8")]);
    let remedy = found.remedy.as_ref().unwrap();
    assert!(remedy.commands[0].ends_with(EXTRA_CMDLINE) && remedy.commands[1].ends_with(FILE));
    assert_eq!(remedy.commands.iter().filter(|c| c.contains("reboot")).count(), 1);
}

#[test]
fn where_the_generator_writes_the_file_again_it_is_reported_too() {
    for (extra, pending, present, files) in [
        (None, PLAIN, false, &[EXTRA_CMDLINE, FILE][..]),
        (Some("usb-storage.quirks=1:2:u\n"), PLAIN, false, &[EXTRA_CMDLINE, FILE]),
        (Some("cgroup_enable=memory\n"), PLAIN, false, &[FILE]),
        (Some("cgroup_disable=memory\n"), SECOND, true, &[EXTRA_CMDLINE, FILE]),
        // Right today, and forgotten with the next kernel.
        (None, ON, true, &[EXTRA_CMDLINE]),
        (Some("cgroup_enable=memory\n"), ON, true, &[]),
    ] {
        let mut facts = facts(RPI, Some(pending), RUNNING_OFF, present);
        facts.extra = extra.map(|content| text(EXTRA_CMDLINE, content));
        facts.generator = true;
        let found = findings(&facts).remove(0);
        let Some(remedy) = found.remedy else {
            assert!(files.is_empty() && found.severity() == Severity::Ok, "{extra:?} {pending:?}");
            continue;
        };
        let changed: Vec<_> = remedy.changes.iter().map(|change| change.file.as_str()).collect();
        assert_eq!(changed, files, "{extra:?} {pending:?}");
        assert_eq!(remedy.commands.contains(&Command::Reboot), files.contains(&FILE), "{remedy:?}");
        for change in &remedy.changes {
            assert!(matches!(memory_setting(lines(&change.to)[0]), MemorySetting::On(_)), "{change:?}");
        }
        let before = if files[0] == FILE { Some(pending) } else { extra };
        assert_eq!(remedy.changes[0].from.as_deref(), before);
    }
}

#[test]
fn a_token_in_the_stub_names_both_files() {
    let mut facts = facts(RPI, Some(PLAIN), RUNNING_OFF, false);
    facts.stub = Some(text("/boot/cmdline.txt", "DO NOT EDIT THIS FILE\n\ncgroup_enable=memory\n"));
    let found = &findings(&facts)[0];
    assert_eq!(found.code, Code::CgroupParameterInStub);
    assert!(found.message.contains("/boot/cmdline.txt") && found.message.contains(FILE));
    // Written by a user where there was no such file.
    facts.stub = Some(text("/boot/cmdline.txt", "cgroup_enable=memory cgroup_memory=1\n"));
    assert_eq!(findings(&facts)[0].code, Code::CgroupParameterInStub);
}

#[test]
fn a_link_to_the_file_that_counts_is_no_stub() {
    const FOR_INIT: &str = "root=a -- cgroup_enable=memory\n";
    let mut facts = facts(RPI, Some(FOR_INIT), RUNNING_OFF, false);
    facts.stub = Some(text("/boot/cmdline.txt", FOR_INIT));
    assert_eq!(findings(&facts)[0].code, Code::MemoryCgroupAbsent);
}

#[test]
fn unknown_never_fails_and_an_unreadable_file_is_a_warning_of_its_own() {
    let mut facts = facts(RPI, None, "", true);
    facts.controller = Controller::Unknown("no cgroup file system".into());
    facts.next.file = BootFile::Unreadable { path: FILE.into(), why: "binary".into() };
    let found = findings(&facts);
    assert_eq!((found[0].severity(), found[0].code), (Severity::Unknown, Code::MemoryCgroupUnknown));
    assert_eq!((found[1].severity(), found[1].code), (Severity::Warn, Code::BootFileUnreadable));
}

#[test]
fn a_file_that_only_the_firmware_knows_is_unknown_and_nothing_is_changed() {
    let mut facts = facts(RPI, None, RUNNING_OFF, false);
    facts.next.file =
        BootFile::Undecided { place: Place::line("/boot/firmware/config.txt", 2), why: "a pin".into() };
    let found = findings(&facts);
    assert_eq!((found[0].severity(), found[0].code), (Severity::Fail, Code::MemoryCgroupAbsent));
    assert_eq!((found[1].severity(), found[1].code), (Severity::Unknown, Code::BootFileUnreadable));
    for finding in &found {
        let remedy = finding.remedy.as_ref().unwrap();
        assert!(
            remedy.changes.is_empty() && remedy.explain.contains("/boot/firmware/config.txt"),
            "{remedy:?}"
        );
    }
}

const NEW: &str = "/boot/firmware/new/cmdline.txt";

fn staged(facts: &mut CgroupFacts, content: &str, is_certain: bool) {
    let because = (Place::file("/boot/firmware/new/state"), "new/ is to be tried".to_owned());
    facts.next.staged = Some(StagedFile { file: BootFile::Read(text(NEW, content)), because, is_certain });
}

#[test]
fn each_slot_that_the_next_boot_may_take_is_judged_and_mended() {
    use {Code::*, Severity::*};
    for (release, regular, new, running, present, is_certain, want, mended) in [
        (RPI, PLAIN, PLAIN, RUNNING_OFF, false, true, (Fail, MemoryCgroupAbsent), &[FILE, NEW][..]),
        (RPI, ON, PLAIN, RUNNING_OFF, false, true, (Fail, MemoryCgroupAbsent), &[NEW]),
        (RPI, ON, ON, RUNNING_OFF, false, true, (Fail, RebootNeeded), &[]),
        (RPI, ON, OFF, RUNNING_OFF, false, true, (Fail, MemoryCgroupDisabled), &[NEW]),
        (RPI, PLAIN, ON, RUNNING_OFF, false, true, (Fail, MemoryCgroupAbsent), &[FILE]),
        (RPI, ON, PLAIN, RUNNING_ON, true, true, (Warn, MemoryCgroupLostAtBoot), &[NEW]),
        (RPI, ON, SECOND, RUNNING_ON, true, true, (Warn, MemoryCgroupLostAtBoot), &[NEW]),
        (RPI, PLAIN, PLAIN, RUNNING_ON, true, false, (Warn, MemoryCgroupLostAtBoot), &[FILE, NEW]),
        // Perhaps it is tried: never more than a doubt.
        (RPI, ON, PLAIN, RUNNING_ON, true, false, (Unknown, BootFileUnreadable), &[NEW]),
        (RPI, ON, ON, RUNNING_ON, true, true, (Ok, MemoryCgroupOk), &[]),
        // A kernel that came up with it and no parameter needs none.
        (RPI, PLAIN, PLAIN, PLAIN, true, true, (Ok, MemoryCgroupOk), &[]),
        (RPI, PLAIN, OFF, PLAIN, true, true, (Warn, MemoryCgroupLostAtBoot), &[NEW]),
        (DEBIAN, PLAIN, PLAIN, PLAIN, true, true, (Ok, MemoryCgroupOk), &[]),
        (DEBIAN, PLAIN, OFF, PLAIN, true, true, (Warn, MemoryCgroupLostAtBoot), &[NEW]),
        (DEBIAN, OFF, OFF, OFF, false, true, (Fail, MemoryCgroupDisabled), &[FILE, NEW]),
    ] {
        let mut facts = facts(release, Some(regular), running, present);
        staged(&mut facts, new, is_certain);
        assert_eq!(verdict(&facts), want, "{regular:?} {new:?} {present}");
        let found = findings(&facts).remove(0);
        let changes = found.remedy.map(|remedy| remedy.changes).unwrap_or_default();
        let files: Vec<_> = changes.iter().map(|change| change.file.as_str()).collect();
        assert_eq!(files, mended, "{regular:?} {new:?} {present}");
        if mended.contains(&NEW) {
            let places: Vec<_> = found.evidence.iter().map(|it| it.place.file.as_str()).collect();
            assert!(release == DEBIAN || places.contains(&"/boot/firmware/new/state"), "{places:?}");
        }
    }
}

#[test]
fn a_slot_that_is_not_known_keeps_the_verdict_from_being_fine() {
    let mut facts = facts(RPI, Some(ON), RUNNING_ON, true);
    staged(&mut facts, ON, true);
    let place = Place::line("/boot/firmware/config.txt", 3);
    facts.next.staged.as_mut().unwrap().file = BootFile::Undecided { place, why: "a pin".into() };
    assert_eq!(verdict(&facts), (Severity::Unknown, Code::BootFileUnreadable));
    let off = Controller::Absent(Place::file("/sys/fs/cgroup/cgroup.controllers"), "cpu".into());
    let found = findings(&CgroupFacts { controller: off, running: Some(RUNNING_OFF.into()), ..facts });
    let codes: Vec<_> = found.iter().map(|finding| finding.code).collect();
    assert_eq!(codes, [Code::RebootNeeded, Code::BootFileUnreadable], "it is no more than likely");
}

/// The parameters of GRUB's lines and whether there is a doubt, to the verdict.
#[test]
fn the_files_of_another_boot_loader_are_judged_and_left_alone() {
    use {Code::*, Severity::*};
    let (on, off) = ("root=a cgroup_enable=memory", "root=a cgroup_disable=memory");
    for (release, lines, unsure, running, present, want) in [
        (RPI, &["root=a"][..], false, RUNNING_OFF, false, (Fail, MemoryCgroupAbsent)),
        (RPI, &[off], false, RUNNING_OFF, false, (Fail, MemoryCgroupDisabled)),
        (RPI, &[on, on], false, RUNNING_OFF, false, (Fail, RebootNeeded)),
        (RPI, &[on], false, RUNNING_ON, false, (Fail, MemoryCgroupAbsent)),
        (RPI, &[], true, RUNNING_OFF, false, (Fail, MemoryCgroupAbsent)),
        (RPI, &[on, "root=a"], false, RUNNING_OFF, false, (Fail, MemoryCgroupAbsent)),
        (RPI, &[on], true, RUNNING_ON, true, (Ok, MemoryCgroupOk)),
        (RPI, &["root=a"], false, RUNNING_ON, true, (Warn, MemoryCgroupLostAtBoot)),
        (RPI, &[on, "root=a"], false, RUNNING_ON, true, (Unknown, BootFileUnreadable)),
        (RPI, &["root=a $x"], true, RUNNING_ON, true, (Unknown, BootFileUnreadable)),
        (RPI, &[], false, RUNNING_ON, true, (Unknown, BootFileUnreadable)),
        // It came up with the controller and needs no parameter, as on a PC.
        (RPI, &["root=a"], false, "root=a", true, (Ok, MemoryCgroupOk)),
        (RPI, &[], true, "root=a", true, (Ok, MemoryCgroupOk)),
        (RPI, &[off], false, "root=a", true, (Warn, MemoryCgroupLostAtBoot)),
        (DEBIAN, &["root=a"], false, "root=a", true, (Ok, MemoryCgroupOk)),
        (DEBIAN, &[off, off], false, "root=a", true, (Warn, MemoryCgroupLostAtBoot)),
        (DEBIAN, &[off], false, off, false, (Fail, MemoryCgroupDisabled)),
    ] {
        let mut facts = facts(release, None, running, present);
        let line =
            |text: &&str| LoaderLine { place: Place::line("/grub.cfg", 3), parameters: (*text).to_owned() };
        facts.next.file = BootFile::Loader(Box::new(Loader {
            name: "GRUB",
            lines: lines.iter().map(line).collect(),
            unsure: unsure.then(|| (Place::file("/grub.cfg"), "variables".to_owned())),
            to_enable: Remedy::new("edit /etc/default/grub by hand").command("sudo update-grub"),
            to_stop_disabling: Remedy::new("edit /etc/default/grub by hand").command("sudo update-grub"),
        }));
        assert_eq!(verdict(&facts), want, "{release} {lines:?} {running:?} {present}");
        let found = findings(&facts).remove(0);
        let remedy = found.remedy.unwrap_or_else(|| Remedy::new(""));
        assert!(remedy.changes.is_empty() && remedy.diff.is_none(), "{remedy:?}");
        let is_by_hand = remedy.explain.contains("/etc/default/grub");
        assert!(is_by_hand || matches!(want.1, MemoryCgroupOk | RebootNeeded) || lines == [on], "{remedy:?}");
    }
}

/// By the kernel: that of another one may not know `cgroup_enable=memory`.
#[test]
fn a_disable_of_another_boot_loader_is_taken_out_where_only_that_helps() {
    for (release, want) in [
        (RPI, "enable"),
        ("6.8.0-1018-raspi", "enable"),
        ("6.11.4-301.fc41.aarch64", "stop"),
        ("6.12.0-1-default", "stop"),
        ("6.1.84-vendor-rk35xx", "stop"),
    ] {
        let off = "root=a cgroup_disable=memory";
        for lines in [&[off][..], &[]] {
            let mut facts = facts(release, None, off, false);
            let line =
                |text: &&str| LoaderLine { place: Place::line("/l", 3), parameters: (*text).to_owned() };
            facts.next.file = BootFile::Loader(Box::new(Loader {
                name: "GRUB",
                lines: lines.iter().map(line).collect(),
                unsure: None,
                to_enable: Remedy::new("enable"),
                to_stop_disabling: Remedy::new("stop"),
            }));
            let found = findings(&facts).remove(0);
            let remedy = found.remedy.unwrap().explain;
            assert!(remedy.starts_with(want), "{release} {lines:?}: {remedy}");
        }
    }
}

#[test]
fn a_file_of_another_root_may_not_be_the_one_that_was_booted() {
    let running = "cgroup_disable=memory root=PARTUUID=11-02 rootwait";
    for (here, want) in
        [("root=PARTUUID=22-02", true), ("root=PARTUUID=11-02", false), ("root=/dev/sda2", false)]
    {
        let found =
            findings(&facts(RPI, Some(&format!("{here} cgroup_enable=memory\n")), running, false)).remove(0);
        assert_eq!(found.code, Code::RebootNeeded);
        assert_eq!(found.remedy.unwrap().explain.contains("another boot partition"), want, "{here}");
    }
}

#[test]
fn what_is_behind_two_hyphens_is_for_init() {
    let found = findings(&facts(RPI, Some("root=a -- cgroup_enable=memory\n"), RUNNING_OFF, false)).remove(0);
    assert_eq!(found.code, Code::MemoryCgroupAbsent);
    assert!(found.remedy.unwrap().explain.contains("in front of `--`"));
}

#[test]
fn the_slot_on_trial_has_it_and_is_kept_where_it_works() {
    let mut facts = facts(RPI, Some(PLAIN), RUNNING_ON, true);
    staged(&mut facts, ON, false);
    assert_eq!(verdict(&facts), (Severity::Unknown, Code::BootFileUnreadable));
}

proptest! {
    /// Whatever the files contain: no panic, the controller decides on failure,
    /// and every failure says what to do.
    #[test]
    fn only_an_absent_controller_fails(
        release in "\\PC{0,12}|6.12-rpi", pending in "\\PC*|[a-z_=\n ]*", running in "\\PC*", present: bool,
    ) {
        let found = findings(&facts(&release, Some(&pending), &running, present));
        prop_assert_eq!(found[0].severity() == Severity::Fail, !present);
        prop_assert!(present || found[0].remedy.is_some());
    }
}

#[test]
fn a_partition_that_is_mounted_read_only_is_made_writable_first() {
    for (mount_point, is_reported) in [("/boot/firmware", true), ("/data", false)] {
        let mut facts = facts(RPI, Some(PLAIN), RUNNING_OFF, false);
        facts.read_only_at = Some(mount_point.to_owned());
        let remedy = findings(&facts).remove(0).remedy.unwrap();
        assert_eq!(
            remedy.commands[0].contains("remount,rw \"$(findmnt -no SOURCE /boot/firmware)\" /boot/firmware"),
            is_reported,
            "{:?}",
            remedy.commands
        );
        assert_eq!(remedy.explain.contains("mounted read-only"), is_reported, "{}", remedy.explain);
    }
}
