//! How bad a finding is.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

/// How bad a finding is. Ordered: the worst is the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Judged and fine.
    Ok,
    /// Could not be judged; never stops anything.
    Unknown,
    /// Works, but someone should look at it.
    Warn,
    /// Known bad: the next step would fail.
    Fail,
}

impl Severity {
    /// The severity that is written so; `None` where this version has none.
    pub fn of_word(word: &str) -> Option<Self> {
        let all = [Self::Ok, Self::Unknown, Self::Warn, Self::Fail];
        all.into_iter().find(|severity| severity.to_string() == word)
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "ok",
            Self::Unknown => "unknown",
            Self::Warn => "warn",
            Self::Fail => "fail",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_severity_is_the_greatest() {
        assert!(Severity::Ok < Severity::Unknown);
        assert!(Severity::Unknown < Severity::Warn);
        assert!(Severity::Warn < Severity::Fail);
    }
}
