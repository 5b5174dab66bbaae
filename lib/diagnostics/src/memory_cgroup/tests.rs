use super::*;
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

fn facts(release: &str, pending: Option<&str>, running: &str, present: bool) -> Facts {
    let place = Place::file("/sys/fs/cgroup/cgroup.controllers");
    Facts {
        kernel_release: (!release.is_empty()).then(|| release.into()),
        controller: if present {
            Controller::Present(place, "cpu memory".into())
        } else {
            Controller::Absent(place, "cpu".into())
        },
        running: Some(running.into()),
        boot_file: pending.map_or(BootFile::Missing, |p| BootFile::Read(text(FILE, p))),
        stub: None,
        extra: None,
        generator: false,
    }
}

fn verdict(facts: &Facts) -> (Severity, Code) {
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
fn where_the_generator_writes_the_file_again_it_is_told_too() {
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
        assert_eq!(remedy.commands.iter().any(|c| c == REBOOT), files.contains(&FILE), "{remedy:?}");
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
}

#[test]
fn unknown_never_fails_and_an_unreadable_file_is_a_warning_of_its_own() {
    let mut facts = facts(RPI, None, "", true);
    facts.controller = Controller::Unknown("no cgroup file system".into());
    facts.boot_file = BootFile::Unreadable { path: FILE.into(), why: "binary".into() };
    let found = findings(&facts);
    assert_eq!((found[0].severity(), found[0].code), (Severity::Unknown, Code::MemoryCgroupUnknown));
    assert_eq!((found[1].severity(), found[1].code), (Severity::Warn, Code::BootFileUnreadable));
}

#[test]
fn a_file_that_only_the_firmware_knows_is_unknown_and_nothing_is_changed() {
    let mut facts = facts(RPI, None, RUNNING_OFF, false);
    facts.boot_file =
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

proptest! {
    /// Whatever the files hold: no panic, the controller decides on failure,
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
