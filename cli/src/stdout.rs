//! Standard output. Where nobody reads any more, as after `| head`, that is no failure: what a verb does, it does all the
//! same.

use std::fmt::Display;
use std::io::{self, Write as _};

use anyhow::Context as _;

/// Prints text; says whether somebody reads on.
pub fn print(text: &str) -> anyhow::Result<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        done => done.map(|()| true).context("cannot write to standard output"),
    }
}

/// Prints text that a verb can do without.
pub fn show(text: impl Display) {
    drop(print(&text.to_string()));
}

/// The same as a line.
pub fn say(line: impl Display) {
    show(format_args!("{line}\n"));
}
