//! Prints a line to the user.

use std::io::Write as _;

/// Anyone who listens may be gone; what is under way is finished all the same.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
