//! Prints a line to the user.

use std::io::Write as _;

use weaver_diagnostics::exit_code;
use weaver_diagnostics::finding_text::clean_lines;
use weaver_diagnostics::k3s_upgrade::plan::UpgradeRefusal;
use weaver_host::progress::aside;

/// The reader may be gone; the work is finished all the same. A terminal obeys nothing that others wrote, and the line
/// feeds are ours: a foreign value is cleaned before (`finding_text::clean`).
pub(crate) fn say(line: &str) {
    let _ = aside(|| writeln!(std::io::stdout(), "{}", clean_lines(line)));
}

/// Prints why a step failed that the work does without.
pub(crate) fn say_failure(done: anyhow::Result<()>) {
    if let Err(error) = done {
        say(&format!("{error:#}"));
    }
}

/// Prints the reasons against it; returns the exit code.
pub(crate) fn refused(refusals: &[UpgradeRefusal]) -> u8 {
    for refusal in refusals {
        say(&format!("refused: {refusal}"));
    }
    say("Nothing was changed.");
    exit_code::KNOWN_BAD
}
