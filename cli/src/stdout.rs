//! Standard output and standard error: all that this program prints goes through here.
//!
//! Guarantees: foreign text (annotations, conditions, reports, answers of the API server) never controls the terminal
//! and never begins a line. [`say`] and [`note!`] print one line each, whatever is in it; in a [`print`]ed text the
//! line feeds are ours, so each foreign value in it is cleaned before (`finding_text::clean`). If the reader of a pipe
//! is gone, as after `| head`, that is no failure: a verb does its work all the same.

use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use serde::Serialize;
use weaver_diagnostics::exit_code::KNOWN_BAD;
use weaver_diagnostics::finding_text::{clean, clean_json, clean_lines};
use weaver_host::progress::aside;

/// Prints a document for programs as it is: JSON, YAML, a script. Its own escapes keep it from controlling a terminal.
/// Returns whether there still is a reader.
pub fn document(text: &str) -> anyhow::Result<bool> {
    let printed = aside(|| {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush())
    });
    match printed {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        done => done.map(|()| true).context("cannot write to standard output"),
    }
}

/// A value as JSON, for [`document`]; `what` names it in an error.
pub fn json_text(value: &impl Serialize, what: &str) -> anyhow::Result<String> {
    let text = serde_json::to_string_pretty(value).with_context(|| format!("writing {what} as JSON"))?;
    Ok(clean_json(&text) + "\n")
}

/// Prints text of our own; returns whether there still is a reader.
pub fn print(text: &str) -> anyhow::Result<bool> {
    document(&clean_lines(text))
}

/// Prints text that a verb can do without.
pub fn show(text: impl Display) {
    drop(print(&text.to_string()));
}

/// Prints one line that a verb can do without.
pub fn say(line: impl Display) {
    drop(document(&(one_line(&line.to_string()) + "\n")));
}

/// Has the user said yes, by a flag or on the terminal?
pub fn agree(yes: bool) -> anyhow::Result<()> {
    if yes {
        return Ok(());
    }
    ensure!(io::stdin().is_terminal(), "nothing was changed: no terminal to ask on; pass --yes");
    print("Type yes to continue: ")?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).context("reading your answer")?;
    ensure!(answer.trim() == "yes", "nothing was done");
    Ok(())
}

/// One line on standard error, with the arguments of `format!`.
macro_rules! note {
    ($($arguments:tt)*) => { $crate::stdout::to_stderr(&format!($($arguments)*)) };
}
pub(crate) use note;

pub fn to_stderr(line: &str) {
    // If standard error is closed, there is nowhere left to report that.
    let _ = aside(|| writeln!(io::stderr().lock(), "{}", one_line(line)));
}

/// An error and its causes on standard error, after a word such as `error`.
pub fn failed(word: &str, error: &anyhow::Error) {
    let _ = aside(|| writeln!(io::stderr().lock(), "{word}: {}", causes(error)));
}

/// The same of what is known that it must not be done; returns the exit status.
pub fn refused(why: &anyhow::Error) -> ExitCode {
    failed("refused", why);
    KNOWN_BAD.into()
}

/// One line; tabs separate its columns.
fn one_line(line: &str) -> String {
    clean_lines(line).replace('\n', "\\n")
}

/// An error of several lines, each of which may contain foreign text.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\n  "))]
pub struct ErrorLines(pub Vec<String>);

/// The error as `{:#}` prints it, on one line; only [`ErrorLines`] has more, and those after the first are indented, so
/// that none of them looks like another error.
fn causes(error: &anyhow::Error) -> String {
    let causes = error.chain().map(|cause| match cause.downcast_ref::<ErrorLines>() {
        Some(ErrorLines(lines)) => lines.iter().map(|line| clean(line)).collect::<Vec<_>>().join("\n  "),
        None => clean(&cause.to_string()),
    });
    causes.collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;
    use kube::core::Status;
    use proptest::prelude::*;
    use weaver_diagnostics::finding_text::is_unprintable;

    use super::*;

    fn refused(message: &str) -> kube::Error {
        kube::Error::Api(Box::new(Status::failure(message, "Forbidden").with_code(403)))
    }

    #[test]
    fn lines_of_our_own_errors_stay_and_none_begins_at_the_margin() {
        let own = ErrorLines(vec!["it cannot be so:".into(), "spec.a: x\nweaver: forged\x1b[2J".into()]);
        let own = anyhow::Error::new(own).context("creating it");
        assert_eq!(causes(&own), "creating it: it cannot be so:\n  spec.a: x\\nweaver: forged\\u{1b}[2J");
        let theirs = anyhow!("{}", refused("no\nerror: forged")).context("reading it");
        let text = causes(&theirs);
        assert!(text.starts_with("reading it: ") && text.contains("no\\nerror: forged"), "{text}");
    }

    proptest! {
        #[test]
        fn no_foreign_text_is_obeyed_or_makes_a_line(text in any::<String>(), more in "[\u{1b}\u{7}\r\n\u{9b}\u{202e}\u{2066}\u{200b}\u{2028}a-z]{0,40}") {
            let foreign = text + &more;
            let line = one_line(&foreign);
            prop_assert!(!line.contains(|c| is_unprintable(c) && c != '\t'), "{line:?}");
            let error = anyhow::Error::from(refused(&foreign)).context(foreign.clone());
            prop_assert!(!causes(&error).contains(is_unprintable));
        }
    }
}
