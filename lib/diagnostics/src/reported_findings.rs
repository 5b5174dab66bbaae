//! Findings as another program wrote them, perhaps one of another version. Pure.
//!
//! Guarantees: a finding that this version does not know, by its code or by its form, hides no other.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::finding::{Finding, Place};
use crate::finding_text::quoted;

/// Unknown findings that are quoted, and characters of each.
const QUOTED: usize = 4;
const LONGEST: usize = 300;

/// A list of findings as it was read.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ReportedFindings {
    pub known: Vec<Finding>,
    /// Of those that this version does not know, the ones that need attention.
    pub unknown: Vec<UnknownFinding>,
}

/// A finding whose code, or whose form, this version does not have.
#[derive(Debug, PartialEq, Eq)]
pub struct UnknownFinding {
    pub code: String,
    pub message: String,
}

impl UnknownFinding {
    /// `None` for what is fine, or could not be judged.
    fn of(written: &Value) -> Option<Self> {
        let text = |field: &str| written[field].as_str().unwrap_or_default().to_owned();
        let needs_attention = !matches!(written["severity"].as_str(), Some("ok" | "unknown"));
        needs_attention.then(|| Self { code: text("code"), message: text("message") })
    }
}

impl<'de> Deserialize<'de> for ReportedFindings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut read = Self::default();
        for written in Vec::<Value>::deserialize(deserializer)? {
            match Finding::deserialize(&written) {
                Ok(finding) => read.known.push(finding),
                Err(_) => read.unknown.extend(UnknownFinding::of(&written)),
            }
        }
        Ok(read)
    }
}

impl ReportedFindings {
    /// The known findings. The unknown ones are evidence, seen at `place`, of one more, which `counted` makes of their
    /// number.
    pub fn with_unknown(self, place: &Place, counted: impl FnOnce(usize) -> Finding) -> Vec<Finding> {
        let Self { mut known, unknown } = self;
        if !unknown.is_empty() {
            let quotes = unknown
                .iter()
                .take(QUOTED)
                .map(|UnknownFinding { code, message }| quoted(&format!("{code}: {message}"), LONGEST));
            known.push(
                quotes.fold(counted(unknown.len()), |finding, quote| finding.saw(place.clone(), quote)),
            );
        }
        known
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::{Code, Severity};

    fn read(json: &str) -> Vec<Finding> {
        let read = serde_json::from_str::<ReportedFindings>(json).unwrap();
        read.with_unknown(&Place::file("/r"), |count| {
            Finding::new(Code::NodeReportNotShown, format!("{count} unknown"))
        })
    }

    #[test]
    fn a_finding_that_this_version_does_not_know_hides_no_other() {
        let found = read(
            r#"[{"severity": "fail", "code": "Z-99", "message": "$ reboot", "evidence": []},
                {"severity": "fail", "code": "T-08", "message": "m", "evidence": []},
                {"severity": "warn", "code": "T-02", "message": "m", "evidence": "of another form"}, 7]"#,
        );
        let seen: Vec<_> = found.iter().map(|finding| (finding.code, finding.severity())).collect();
        assert_eq!(seen, [(Code::NameInvalid, Severity::Fail), (Code::NodeReportNotShown, Severity::Warn)]);
        assert_eq!(found[1].message, "3 unknown");
        let said: Vec<_> = found[1].evidence.iter().map(|evidence| evidence.saw.as_str()).collect();
        assert_eq!(said, [r#""Z-99: \u{24} reboot""#, r#""T-02: m""#, r#"": ""#]);
    }

    #[test]
    fn an_unknown_finding_that_needs_no_attention_gets_none() {
        for severity in ["ok", "unknown"] {
            let json = format!(r#"[{{"severity": "{severity}", "code": "Z-99", "message": "m"}}]"#);
            assert_eq!(read(&json), []);
        }
        assert!(serde_json::from_str::<ReportedFindings>("{}").is_err(), "no list");
    }
}
