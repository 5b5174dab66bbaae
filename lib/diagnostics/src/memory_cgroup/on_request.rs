//! A start for which someone asks: `reboot "0 tryboot"`. It is no reason to change a file, and worth a word.

use super::facts::CgroupFacts;
use super::parts::{knows_cgroup_enable, needs_enable};
use crate::finding::{Finding, Place, Severity};
use crate::kernel_cmdline::{MemorySetting, lines, memory_setting};
use crate::next_boot::BootFile;

/// The verdict, with what such a start would take.
pub(super) fn reported(facts: &CgroupFacts, mut finding: Finding) -> Finding {
    match &facts.next.on_request {
        Some(BootFile::Read(file)) => {
            let setting = memory_setting(lines(&file.text)[0]);
            let (how, seen) = match &setting {
                MemorySetting::Off(parameter) => ("turns it off", parameter.text),
                MemorySetting::Unset
                    if knows_cgroup_enable(facts.kernel_release.as_deref()) && needs_enable(facts) =>
                {
                    ("does not enable it", "no cgroup_enable=memory")
                }
                MemorySetting::On(_) | MemorySetting::Unset => return finding,
            };
            finding.message = format!(
                "{}; a start by `reboot '0 tryboot'` would be without it: {} {how}",
                finding.message, file.path
            );
            let seen = format!("only `reboot '0 tryboot'` takes this file: {seen}");
            finding.saw(Place::line(&file.path, 1), seen)
        }
        // The other half of an A/B system: it is there on each of them, and news only where this half is changed.
        Some(BootFile::Undecided { place, why }) if finding.severity() != Severity::Ok => {
            finding.saw(place.clone(), why)
        }
        _ => finding,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Code;
    use crate::memory_cgroup::{Controller, findings};
    use crate::next_boot::NextBoot;
    use crate::text_file::TextFile;

    const ON: &str = "root=a cgroup_enable=memory\n";

    fn facts(on_request: BootFile, is_present: bool) -> CgroupFacts {
        let place = Place::file("/sys/fs/cgroup/cgroup.controllers");
        let file = BootFile::Read(TextFile::new("/boot/firmware/cmdline.txt", ON));
        CgroupFacts {
            kernel_release: Some("6.12.47+rpt-rpi-v8".to_owned()),
            controller: if is_present {
                Controller::Present(place, "memory".to_owned())
            } else {
                Controller::Absent(place, "cpu".to_owned())
            },
            running: Some(if is_present { ON.to_owned() } else { "root=a".to_owned() }),
            next: NextBoot { on_request: Some(on_request), ..NextBoot::only(file) },
            stub: None,
            extra: None,
            generator: false,
            read_only_at: None,
        }
    }

    #[test]
    fn what_a_start_on_request_would_take_is_said_and_no_fault() {
        let read = |text: &str| BootFile::Read(TextFile::new("/boot/firmware/cmdline-try.txt", text));
        for (text, want) in [
            ("root=b\n", Some(("does not enable it", "no cgroup_enable=memory"))),
            (
                "root=b cgroup_enable=memory cgroup_disable=memory\n",
                Some(("turns it off", "cgroup_disable=memory")),
            ),
            (ON, None),
        ] {
            let found = findings(&facts(read(text), true));
            assert_eq!((found.len(), found[0].code), (1, Code::MemoryCgroupOk), "{text}");
            let reported = found[0].message.split_once("0 tryboot").map(|(_, reported)| reported);
            assert_eq!(reported.is_some(), want.is_some(), "{text}: {}", found[0].message);
            let seen = found[0].evidence.iter().find(|seen| seen.place.file.ends_with("cmdline-try.txt"));
            assert_eq!(seen.is_some(), want.is_some(), "{text}");
            if let (Some(reported), Some(seen), Some((how, what))) = (reported, seen, want) {
                assert!(reported.ends_with(how) && seen.saw.ends_with(what), "{reported}: {}", seen.saw);
            }
            assert!(found[0].remedy.is_none());
        }
    }

    #[test]
    fn the_other_partition_is_named_where_this_one_is_to_be_changed() {
        let other = || BootFile::Undecided {
            place: Place::line("/boot/firmware/autoboot.txt", 5),
            why: "a start on trial takes partition 3".to_owned(),
        };
        let has_it = |found: &[Finding]| {
            found[0].evidence.iter().any(|seen| seen.place.file.ends_with("autoboot.txt"))
        };
        assert!(!has_it(&findings(&facts(other(), true))));
        let found = findings(&facts(other(), false));
        assert_eq!((found.len(), found[0].code), (1, Code::RebootNeeded));
        assert!(has_it(&found));
    }
}
