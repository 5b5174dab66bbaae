//! The exit code of `check` and `preflight`, from the findings; and those of `upgrade` and `backup`.

use crate::finding::{Code, Finding, Severity};

/// Nothing known bad; warnings and unknowns allowed.
pub const FINE: u8 = 0;
/// The program itself failed.
pub const INTERNAL: u8 = 1;
/// The command line was wrong, or something else that stays as it is until someone changes it: starting the
/// program again is of no use.
pub const USAGE: u8 = 2;
pub const KNOWN_BAD: u8 = 10;
/// Known bad, and only a reboot fixes it.
pub const REBOOT_NEEDED: u8 = 11;
/// The change failed and was rolled back.
pub const ROLLED_BACK: u8 = 12;
/// The rollback failed, too: an administrator has to act.
pub const STUCK: u8 = 13;
/// Done, except for parts that the message names.
pub const INCOMPLETE: u8 = 14;

/// The code for these findings. If a reboot alone does not fix all of
/// them, the answer is [`KNOWN_BAD`].
pub fn of(findings: &[Finding]) -> u8 {
    let mut failures = findings.iter().filter(|f| f.severity() == Severity::Fail).peekable();
    if failures.peek().is_none() {
        FINE
    } else if failures.all(|f| f.code == Code::RebootNeeded) {
        REBOOT_NEEDED
    } else {
        KNOWN_BAD
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    fn finding(severity: Severity, code: Code) -> Finding {
        Finding::new(code, "").milder(severity)
    }

    #[test]
    fn the_worst_finding_decides_the_exit_status() {
        let reboot = finding(Severity::Fail, Code::RebootNeeded);
        let bad = finding(Severity::Fail, Code::NameNotServed);
        let warn = finding(Severity::Warn, Code::NamesShadowed);
        let unknown = finding(Severity::Unknown, Code::MemoryCgroupUnknown);
        assert_eq!(of(&[]), FINE);
        assert_eq!(of(&[warn.clone(), unknown.clone()]), FINE);
        assert_eq!(of(std::slice::from_ref(&bad)), KNOWN_BAD);
        assert_eq!(of(&[warn, reboot.clone()]), REBOOT_NEEDED);
        assert_eq!(of(&[reboot, bad, unknown]), KNOWN_BAD);
    }
}
