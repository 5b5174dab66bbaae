//! Parameters of the boot file that a missing space has made one word of: the kernel knows neither of them.

use super::parts::repaired_by;
use crate::{
    cmdline_repair::{Need, repair},
    finding::{Code, Finding, Place},
    kernel_cmdline::{MemorySetting, glued, lines, memory_setting, separated},
    text_file::TextFile,
};

/// The controller is off because of such a word.
pub(super) fn hides_enable(file: &TextFile) -> Option<Finding> {
    let line = lines(&file.text)[0];
    let is_on = |line: &str| matches!(memory_setting(line), MemorySetting::On(_));
    if is_on(line) || !is_on(&separated(line)) {
        return None;
    }
    let words = glued(line);
    let word = words.iter().find(|word| word.text.contains("cgroup_enable=")).or(words.first())?;
    let message = format!(
        "the memory controller is off: a space is missing in `{}` in {}, so the kernel does not see cgroup_enable=memory",
        word.text, file.path
    );
    Some(Finding::new(Code::MemoryCgroupAbsent, message))
}

/// Each such word of the line, with its column.
pub(super) fn seen(finding: Finding, file: &TextFile) -> Finding {
    glued(lines(&file.text)[0]).into_iter().fold(finding, |finding, word| {
        let parts: Vec<_> = word.parts.iter().map(|part| format!("`{part}`")).collect();
        let saw = format!("{}: no space between {}", word.text, parts.join(" and "));
        finding.saw(Place::at(&file.path, 1, word.column), saw)
    })
}

/// The line has the parameter in another place, and such a word still, which another one is lost in.
pub(super) fn left(finding: Finding, file: &TextFile) -> Finding {
    let words = glued(lines(&file.text)[0]);
    let Some(word) = words.first() else { return finding };
    let mut finding = seen(finding, file);
    finding.message = format!(
        "the memory controller is off until the next boot, and a space is missing in `{}` in {}",
        word.text, file.path
    );
    repaired_by(finding, repair(&file.path, &file.text, Need::Enable).into_iter())
}

#[cfg(test)]
mod tests {
    use crate::finding::{Code, Finding, Place};
    use crate::memory_cgroup::{CgroupFacts, Controller, findings};
    use crate::next_boot::{BootFile, NextBoot};
    use crate::text_file::TextFile;

    const FILE: &str = "/boot/firmware/cmdline.txt";

    fn found(text: &str, running: &str, is_present: bool) -> Finding {
        let place = Place::file("/sys/fs/cgroup/cgroup.controllers");
        let facts = CgroupFacts {
            kernel_release: Some("6.12.47+rpt-rpi-v8".to_owned()),
            controller: if is_present {
                Controller::Present(place, "memory".to_owned())
            } else {
                Controller::Absent(place, "cpu".to_owned())
            },
            running: Some(running.to_owned()),
            next: NextBoot::only(BootFile::Read(TextFile::new(FILE, text))),
            stub: None,
            extra: None,
            generator: false,
            read_only_at: None,
        };
        findings(&facts).remove(0)
    }

    #[test]
    fn the_word_is_named_with_its_column_and_the_repair_puts_the_space_in() {
        let off = "cgroup_disable=memory root=a";
        for (text, word, column, to) in [
            (
                "root=a rootwaitcgroup_enable=memory\n",
                "rootwaitcgroup_enable=memory",
                8,
                "root=a rootwait cgroup_enable=memory\n",
            ),
            (
                "cgroup_enable=memoryrootwait root=a\n",
                "cgroup_enable=memoryrootwait",
                1,
                "cgroup_enable=memory rootwait root=a\n",
            ),
            (
                "root=a quietcgroup_memory=1 rootwaitcgroup_enable=memory\n",
                "rootwaitcgroup_enable=memory",
                29,
                "root=a quiet cgroup_memory=1 rootwait cgroup_enable=memory\n",
            ),
        ] {
            let finding = found(text, off, false);
            assert_eq!(finding.code, Code::MemoryCgroupAbsent, "{text}");
            assert!(
                finding.message.contains(&format!("a space is missing in `{word}` in {FILE}")),
                "{finding:?}"
            );
            let seen = finding.evidence.iter().find(|seen| seen.saw.starts_with(word)).unwrap();
            assert_eq!(seen.place, Place::at(FILE, 1, column), "{text}");
            let remedy = finding.remedy.unwrap();
            assert_eq!(remedy.changes[0].to, to, "{text}");
            assert!(!remedy.explain.contains("add cgroup_enable"), "{}", remedy.explain);
            let finding = found(text, "root=a cgroup_enable=memory", true);
            assert_eq!(finding.code, Code::MemoryCgroupLostAtBoot, "{text}");
            assert!(finding.evidence.iter().any(|seen| seen.saw.starts_with(word)), "{finding:?}");
        }
    }

    #[test]
    fn a_parameter_that_is_missing_too_is_added() {
        let finding = found("root=a rootwaitcgroup_memory=1\n", "root=a", false);
        assert!(finding.message.ends_with("lacks cgroup_enable=memory"), "{finding:?}");
        assert!(finding.evidence.iter().any(|seen| seen.place == Place::at(FILE, 1, 8)), "{finding:?}");
        let to = "root=a rootwait cgroup_memory=1 cgroup_enable=memory\n";
        assert_eq!(finding.remedy.unwrap().changes[0].to, to);
    }

    #[test]
    fn what_an_earlier_repair_left_is_mended() {
        let finding = found("root=a rootwaitcgroup_enable=memory cgroup_enable=memory\n", "root=a", false);
        assert_eq!(finding.code, Code::RebootNeeded);
        assert!(finding.message.contains("`rootwaitcgroup_enable=memory`"), "{finding:?}");
        let to = "root=a rootwait cgroup_enable=memory cgroup_enable=memory\n";
        assert_eq!(finding.remedy.unwrap().changes[0].to, to);
    }
}
