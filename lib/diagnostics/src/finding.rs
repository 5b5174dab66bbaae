//! What a check says: code, severity, sentence, evidence, remedy.

pub(crate) mod remedy;
pub(crate) mod severity;

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

pub use crate::catalogue::Code;
pub use remedy::{
    Command, FileChange, K3S_LOG, K3S_LOG_END, K3S_STATUS, K3S_STATUS_ANYWHERE, RESTART_K3S, Remedy,
    START_K3S, STOP_K3S, UnitAction,
};
pub use severity::Severity;

/// A place in a file, or a file as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Place {
    /// The file as its reader named it.
    pub file: String,
    /// Line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// Column, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<u64>,
}

impl Place {
    pub fn file(file: impl Into<String>) -> Self {
        Self { file: file.into(), line: None, column: None }
    }

    /// A line of a file.
    pub fn line(file: impl Into<String>, line: u64) -> Self {
        Self { line: Some(line), ..Self::file(file) }
    }

    /// A line and a column of a file.
    pub fn at(file: impl Into<String>, line: u64, column: u64) -> Self {
        Self { column: Some(column), ..Self::line(file, line) }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
            if let Some(column) = self.column {
                write!(f, ":{column}")?;
            }
        }
        Ok(())
    }
}

/// One thing that was seen, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// Where it was seen.
    #[serde(flatten)]
    pub place: Place,
    /// What was seen there.
    pub saw: String,
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.saw)
    }
}

/// One verdict, never worse than the row of its code. Read back, as from an agent's report, it has the name and at most
/// the severity that this program knows its code by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finding {
    /// How bad it is.
    severity: Severity,
    /// The stable code.
    pub code: Code,
    /// The code in words.
    pub name: &'static str,
    /// Human-readable message, one sentence.
    pub message: String,
    /// What was seen, and where.
    pub evidence: Vec<Evidence>,
    /// What to do; absent where there is nothing to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<Remedy>,
}

/// A finding as it is written, perhaps by another version.
#[derive(Deserialize)]
struct RawFinding {
    severity: String,
    code: Code,
    message: String,
    #[serde(default)]
    evidence: Vec<Evidence>,
    remedy: Option<Remedy>,
}

impl<'de> Deserialize<'de> for Finding {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let RawFinding { severity, code, message, evidence, remedy } = RawFinding::deserialize(deserializer)?;
        // One that this version does not have counts as that of the code.
        let severity = Severity::of_word(&severity).unwrap_or(Severity::Fail);
        Ok(Self { evidence, remedy, ..Self::new(code, message).milder(severity) })
    }
}

impl Finding {
    /// A fault at a place in a file, which the message begins with.
    pub(crate) fn at(code: Code, place: Place, what: &str) -> Self {
        Self::new(code, format!("{place}: {what}")).saw(place, what)
    }

    /// A finding as the row of its code has it: as severe, and with the remedy that is there. A milder one says so by
    /// [`Self::milder`], a better remedy replaces that of the row.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let row = code.row();
        let remedy = Some(row.remedy()).filter(|remedy| !remedy.explain.is_empty());
        Self {
            severity: row.severity,
            code,
            name: row.name,
            message: message.into(),
            evidence: Vec::new(),
            remedy,
        }
    }

    /// How bad it is.
    pub const fn severity(&self) -> Severity {
        self.severity
    }

    /// Makes it less severe than its row; a comment at the call says why. It is never made more severe.
    ///
    /// The remedy of the row is for what is known to be bad: a finding that is fine, or not known, has none but
    /// its own.
    #[must_use]
    pub fn milder(mut self, severity: Severity) -> Self {
        if severity < self.severity {
            self.severity = severity;
            let is_of_row = |remedy: &Remedy| *remedy == self.code.row().remedy();
            self.remedy = self.remedy.filter(|remedy| severity >= Severity::Warn || !is_of_row(remedy));
        }
        self
    }

    /// Adds one thing seen.
    #[must_use]
    pub fn saw(mut self, place: Place, saw: impl Into<String>) -> Self {
        self.evidence.push(Evidence { place, saw: saw.into() });
        self
    }

    /// Sets a better remedy than that of the row.
    #[must_use]
    pub fn remedy(mut self, remedy: Remedy) -> Self {
        self.remedy = Some(remedy);
        self
    }

    /// Takes the remedy away, where that of the row does not help.
    #[must_use]
    pub fn without_remedy(mut self) -> Self {
        self.remedy = None;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_serialises_with_id_place_and_remedy() {
        let finding = Finding::new(Code::NameInvalid, "m")
            .saw(Place::at("/etc/x.yaml", 3, 5), "y")
            .remedy(Remedy::new("do").command("true"));
        let json = serde_json::to_value(&finding).unwrap();
        assert_eq!(json["code"], "T-08");
        assert_eq!(json["severity"], "fail");
        assert_eq!(json["evidence"][0]["line"], 3);
        assert_eq!(json["remedy"]["commands"][0], "true");
        assert_eq!(finding.evidence[0].to_string(), "/etc/x.yaml:3:5: y");
        assert_eq!(serde_json::from_value::<Finding>(json).unwrap(), finding);
    }

    #[test]
    fn what_another_version_adds_to_a_finding_or_leaves_out_does_not_make_it_unreadable() {
        let newer = r#"{"severity": "grave", "code": "T-08", "name": "x", "message": "m", "since": 1,
            "evidence": [{"file": "/f", "byte": 7, "saw": "y"}], "remedy": {"explain": "do", "link": "l"}}"#;
        let want = Finding::new(Code::NameInvalid, "m").saw(Place::file("/f"), "y").remedy(Remedy::new("do"));
        assert_eq!(serde_json::from_str::<Finding>(newer).unwrap(), want);
        let brief = r#"{"severity": "warn", "code": "T-08", "message": "m"}"#;
        let want = Finding::new(Code::NameInvalid, "m").milder(Severity::Warn).without_remedy();
        assert_eq!(serde_json::from_str::<Finding>(brief).unwrap(), want);
    }

    #[test]
    fn no_finding_is_worse_than_its_row() {
        for code in Code::ALL {
            let row = code.row();
            let as_it_is = Finding::new(*code, "m");
            assert_eq!(as_it_is.severity, row.severity);
            assert_eq!(as_it_is.remedy.is_some(), row.severity > Severity::Ok, "{code}");
            for severity in [Severity::Ok, Severity::Unknown, Severity::Warn, Severity::Fail] {
                let milder = as_it_is.clone().milder(severity);
                assert_eq!(milder.severity, row.severity.min(severity), "{code}");
                let mut json = serde_json::to_value(&as_it_is).unwrap();
                json["severity"] = serde_json::to_value(severity).unwrap();
                let read = serde_json::from_value::<Finding>(json).unwrap();
                assert_eq!(read.severity, milder.severity, "{code}");
            }
        }
    }

    #[test]
    fn what_is_fine_or_not_known_has_no_remedy_of_its_row() {
        let bad = Finding::new(Code::NameNotFound, "m");
        assert!(bad.clone().milder(Severity::Warn).remedy.is_some());
        assert_eq!(bad.clone().milder(Severity::Unknown).remedy, None);
        assert_eq!(bad.clone().milder(Severity::Ok).remedy, None);
        assert!(bad.remedy(Remedy::new("own")).milder(Severity::Unknown).remedy.is_some());
    }
}
