//! The owner's override: a file on the boot partition, one code per line. A failed check with such a code
//! becomes a warning that names the override. Pure.
//!
//! A line is a code's id or name, in any case; `#` begins a comment; line ends may be those of Windows. A
//! line that is not a code changes nothing and is reported with the nearest code; so is a file that cannot be
//! read. An override removes the block of the next step and proves nothing: a name that is not served stays
//! unproven.

use std::collections::BTreeMap;

use crate::catalogue;
use crate::finding::{Code, Finding, Place, Remedy, Severity};

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
    unreadable: Option<String>,
}

/// Reads the file's text.
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
    /// A file that could not be read, for this reason.
    pub fn unreadable(file: String, why: String) -> Self {
        Self { file, unreadable: Some(why), ..Self::default() }
    }

    /// The finding as the owner has it: a failure that is overridden is a warning that says so.
    pub fn applied_to(&self, mut finding: Finding) -> Finding {
        let line = self.codes.get(&finding.code).filter(|_| finding.severity() == Severity::Fail);
        let Some(line) = line else { return finding };
        finding.message.push_str(" (a failure that the node owner has overridden)");
        let place = Place::line(self.file.clone(), *line);
        let id = finding.code.id();
        finding.milder(Severity::Warn).saw(place, id)
    }

    /// What is wrong with the file itself, which then overrides less than its owner means.
    pub fn fault(&self) -> Option<Finding> {
        if let Some(why) = &self.unreadable {
            let message = format!("{} cannot be read, so no code is overridden: {why}", self.file);
            let explain = format!("write {} as plain text, one code per line, or remove it", self.file);
            let finding = Finding::new(Code::OverrideNotACode, message);
            return Some(finding.saw(Place::file(&self.file), "not text").remedy(Remedy::new(explain)));
        }
        let (_, first) = self.unknown.first()?;
        let near = nearest(first);
        let message =
            format!("{} has a line that is not a code: `{first}`; the nearest code is {near}", self.file);
        let remedy =
            Remedy::new("write one code per line, as a finding shows it, such as N-01; `#` begins a comment");
        let finding = Finding::new(Code::OverrideNotACode, message).remedy(remedy);
        let shown = self.unknown.iter().take(SHOWN);
        Some(shown.fold(finding, |finding, (line, word)| {
            finding.saw(Place::line(self.file.clone(), *line), word.clone())
        }))
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

    fn bad(code: Code) -> Finding {
        Finding::new(code, "bad")
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
        let overrides = parse("/o", "\nN-12\nN-11\n");
        let other = bad(Code::MemoryCgroupAbsent);
        assert_eq!(overrides.applied_to(other.clone()), other);
        let unknown = bad(Code::MemoryCgroupUnknown);
        assert_eq!(overrides.applied_to(unknown.clone()), unknown, "no failure");
        let named = overrides.applied_to(bad(Code::MemoryTooSmall));
        assert_eq!(named.severity(), Severity::Warn);
        assert!(named.message.contains("overridden"), "{named:?}");
        assert_eq!(named.evidence[0].to_string(), "/o:2: N-12");
        assert_eq!(overrides.fault(), None);
    }

    #[test]
    fn lines_that_are_no_code_are_reported_with_the_nearest() {
        let long = "x".repeat(1000);
        let finding = parse("/o", &format!("memory-cgroup-absend\n{long}\n")).fault().unwrap();
        assert_eq!((finding.severity(), finding.code), (Severity::Warn, Code::OverrideNotACode));
        assert!(finding.message.contains("N-01 memory-cgroup-absent"), "{}", finding.message);
        assert_eq!(finding.evidence[1].place, Place::line("/o", 2));
        assert_eq!(finding.evidence[1].saw.len(), WIDTH);
        let many = "zz\n".repeat(1000);
        assert_eq!(parse("/o", &many).fault().unwrap().evidence.len(), SHOWN);
    }

    #[test]
    fn a_file_that_could_not_be_read_overrides_nothing_and_is_reported() {
        let overrides = Overrides::unreadable("/o".to_owned(), "it is binary, not text".to_owned());
        assert_eq!(overrides.applied_to(bad(Code::MemoryTooSmall)), bad(Code::MemoryTooSmall));
        let fault = overrides.fault().unwrap();
        assert_eq!((fault.severity(), fault.code), (Severity::Warn, Code::OverrideNotACode));
        assert!(fault.message.contains("/o cannot be read"), "{fault:?}");
    }
}
