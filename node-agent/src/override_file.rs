//! The owner's override: a file on the boot partition, one code per line. A
//! known bad verdict with such a code becomes a warning that says so.
//!
//! A line is a code's id or its name, in any case; `#` begins a comment, line
//! ends may be those of Windows. A line that is no code changes nothing and is
//! reported with the nearest code; so is a file that cannot be read. What is
//! overridden is the next step's stop and never a proof: a name that is not
//! served stays unproven.

use std::{collections::BTreeMap, path::Path};

use weaver_diagnostics::{
    catalogue,
    finding::{Code, Finding, Place, Remedy, Severity},
};

use crate::host_root::HostRoot;

/// The file's name in the boot directory.
pub const NAME: &str = "weaver-override";
/// Lines that are no codes and are still shown.
const SHOWN: usize = 20;
/// Characters of such a line that are shown.
const WIDTH: usize = 60;

/// What the file says.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    file: String,
    codes: BTreeMap<Code, u64>,
    unknown: Vec<(u64, String)>,
}

/// Lets the file in this boot directory, if there is one, speak on these findings.
pub fn apply(root: &HostRoot, boot_dir: &Path, findings: &mut Vec<Finding>) {
    let path = boot_dir.join(NAME);
    match root.read(&path) {
        Ok(None) => {}
        Ok(Some(file)) => parse(&file.path, &file.text).apply(findings),
        Err(why) => {
            let message = format!("{} cannot be read, nothing is overridden: {why}", path.display());
            let remedy = Remedy::new("write it as plain text, one code per line, or remove it");
            findings.push(
                catalogue::finding(Code::OverrideNotACode, message)
                    .saw(Place::file(path.display().to_string()), "not text")
                    .remedy(remedy),
            );
        }
    }
}

/// Reads the file's text.
#[must_use]
pub fn parse(file: &str, text: &str) -> Overrides {
    let mut overrides = Overrides { file: file.to_owned(), ..Overrides::default() };
    let text = text.trim_start_matches('\u{feff}');
    for (number, line) in (1..).zip(text.lines()) {
        let word = line.split('#').next().unwrap_or_default().trim();
        if word.is_empty() {
            continue;
        }
        match catalogue::find(word) {
            Some(code) => drop(overrides.codes.entry(code).or_insert(number)),
            None => overrides.unknown.push((number, word.chars().take(WIDTH).collect())),
        }
    }
    overrides
}

impl Overrides {
    /// Turns the failures that are overridden into warnings, and adds one for
    /// the lines that are no codes.
    pub fn apply(&self, findings: &mut Vec<Finding>) {
        for finding in findings.iter_mut().filter(|f| f.severity == Severity::Fail) {
            let Some(line) = self.codes.get(&finding.code) else { continue };
            finding.severity = Severity::Warn;
            finding.message.push_str(" (known bad, and overridden by the owner)");
            let place = Place::line(self.file.clone(), *line);
            *finding = finding.clone().saw(place, finding.code.id());
        }
        let Some((_, first)) = self.unknown.first() else { return };
        let near = nearest(first);
        let mut finding = catalogue::finding(
            Code::OverrideNotACode,
            format!("{} holds what is no code: `{first}`; the nearest code is {near}", self.file),
        );
        for (line, word) in self.unknown.iter().take(SHOWN) {
            finding = finding.saw(Place::line(self.file.clone(), *line), word.clone());
        }
        findings.push(finding.remedy(Remedy::new(
            "write one code per line, as it stands in a finding, such as N-01; `#` begins a comment",
        )));
    }
}

/// The code most like a word, by its id or its name.
fn nearest(word: &str) -> String {
    let word = word.to_lowercase();
    let likeness = |code: &Code| {
        let id = strsim::jaro_winkler(&word, &code.id().to_lowercase());
        id.max(strsim::jaro_winkler(&word, code.name()))
    };
    let best = Code::ALL.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    best.map(ToString::to_string).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fail(code: Code) -> Finding {
        catalogue::finding(code, "bad").milder(Severity::Fail)
    }

    #[test]
    fn every_spelling_of_a_code() {
        for text in [
            "N-01",
            "n-01\r\n",
            "\u{feff}N-01\n",
            "# why\r\n\r\n  N-01  # my board\r\n",
            "Memory-Cgroup-Absent\n",
            "N-01\nN-01\n",
        ] {
            let overrides = parse("/o", text);
            assert_eq!(overrides.codes.keys().collect::<Vec<_>>(), [&Code::MemoryCgroupAbsent], "{text:?}");
            assert!(overrides.unknown.is_empty(), "{text:?}");
        }
    }

    #[test]
    fn only_a_named_failure_becomes_a_warning_and_says_so() {
        let mut findings = vec![fail(Code::MemoryCgroupAbsent), fail(Code::MemoryTooSmall)];
        parse("/o", "\nN-12\n").apply(&mut findings);
        assert_eq!(findings[0], fail(Code::MemoryCgroupAbsent));
        assert_eq!(findings[1].severity, Severity::Warn);
        assert!(findings[1].message.contains("overridden"), "{:?}", findings[1]);
        assert_eq!(findings[1].evidence[0].to_string(), "/o:2: N-12");
        assert_eq!(findings.len(), 2);
    }

    #[test]
    fn what_is_no_failure_stays_as_it_is() {
        let before = vec![catalogue::finding(Code::MemoryCgroupUnknown, "u")];
        let mut after = before.clone();
        parse("/o", "N-11\n").apply(&mut after);
        assert_eq!(after, before);
    }

    #[test]
    fn lines_that_are_no_code_are_reported_with_the_nearest() {
        let mut findings = Vec::new();
        let long = "x".repeat(1000);
        parse("/o", &format!("memory-cgroup-absend\n{long}\n")).apply(&mut findings);
        let [finding] = &findings[..] else { panic!("{findings:?}") };
        assert_eq!((finding.severity, finding.code), (Severity::Warn, Code::OverrideNotACode));
        assert!(finding.message.contains("N-01 memory-cgroup-absent"), "{}", finding.message);
        assert_eq!(finding.evidence[1].place, Place::line("/o", 2));
        assert_eq!(finding.evidence[1].saw.len(), WIDTH);
        let many = "zz\n".repeat(1000);
        findings.clear();
        parse("/o", &many).apply(&mut findings);
        assert_eq!(findings[0].evidence.len(), SHOWN);
    }

    #[test]
    fn a_file_that_is_no_text_overrides_nothing_and_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::new(dir.path().to_owned());
        let mut findings = vec![fail(Code::MemoryTooSmall)];
        apply(&root, Path::new("/boot"), &mut findings);
        assert_eq!(findings, [fail(Code::MemoryTooSmall)], "no file");
        std::fs::create_dir(dir.path().join("boot")).unwrap();
        std::fs::write(dir.path().join("boot/weaver-override"), b"N-12\0").unwrap();
        apply(&root, Path::new("/boot"), &mut findings);
        assert_eq!(findings[0], fail(Code::MemoryTooSmall));
        assert!(findings[1].message.contains("/boot/weaver-override cannot be read"), "{:?}", findings[1]);
    }
}
