//! A line for anyone who typed the command.

use std::io::Write as _;

/// Anyone who listens may be gone; what is under way is finished all the same.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
