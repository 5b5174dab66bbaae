//! The kernel's command line: the firmware's arguments, cmdline.txt, our own.
//!
//! Guarantee: only the first line of cmdline.txt counts, as on a Pi; the lines below it are reported as ignored.
//! Failure: names the file on the card and the remedy.

use anyhow::{Result, bail};

/// The console of QEMU's board.
pub const CONSOLE: &str = "console=ttyAMA0";

/// The kernel for arm64 cuts a longer line off, silently.
const LONGEST: usize = 2047;

/// A command line and what was left out of it.
#[derive(Debug, PartialEq, Eq)]
pub struct CommandLine {
    /// All arguments, separated by single blanks where they are joined.
    pub arguments: String,
    /// Non-empty lines of the file, after the first.
    pub ignored: Vec<String>,
}

/// Joins `firmware`, the first line of the file `name` with `content`, the
/// console and `extra`.
///
/// # Errors
/// When the first line is empty or no text, or the whole is too long.
pub fn compose(firmware: &[&str], name: &str, content: &[u8], extra: &[String]) -> Result<CommandLine> {
    if content.contains(&0) {
        bail!("{name} on the card holds a zero byte; write it again, as one line of text");
    }
    let Ok(text) = str::from_utf8(content) else {
        bail!("{name} on the card is not UTF-8; write it again, as one line of text");
    };
    let mut lines = text.split('\n').map(str::trim);
    let first = lines.next().unwrap_or_default();
    if first.is_empty() {
        bail!(
            "the first line of {name} on the card is empty, and the firmware reads no other; \
             put all arguments on the first line, at least root=LABEL=…"
        );
    }
    let ignored = lines.filter(|line| !line.is_empty()).map(str::to_owned).collect();
    let words = firmware.iter().copied().chain([first, CONSOLE]).chain(extra.iter().map(String::as_str));
    let arguments = words.collect::<Vec<_>>().join(" ");
    if arguments.len() > LONGEST {
        bail!(
            "the command line with {name} is {} bytes long and the kernel reads {LONGEST}; shorten it",
            arguments.len()
        );
    }
    Ok(CommandLine { arguments, ignored })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn compose_plain(content: &[u8]) -> Result<CommandLine> {
        compose(&["fw=1"], "cmdline.txt", content, &["x=1".to_owned()])
    }

    #[test]
    fn only_the_first_line_counts() {
        for (content, line, ignored) in [
            ("root=a rw", "root=a rw", &[][..]),
            ("root=a rw\n", "root=a rw", &[]),
            ("root=a rw\r\n", "root=a rw", &[]),
            ("  root=a  rw \n\n\n", "root=a  rw", &[]),
            ("root=a\ncgroup_enable=memory\n", "root=a", &["cgroup_enable=memory"]),
            ("root=a\r\n\r\nb\r\nc", "root=a", &["b", "c"]),
        ] {
            let want = format!("fw=1 {line} console=ttyAMA0 x=1");
            let made = compose_plain(content.as_bytes()).unwrap();
            assert_eq!(
                (made.arguments.as_str(), &made.ignored[..]),
                (want.as_str(), &ignored.iter().map(ToString::to_string).collect::<Vec<_>>()[..]),
                "{content:?}"
            );
        }
    }

    #[test]
    fn bad_files_are_named_with_a_remedy() {
        for (content, want) in [
            (&b""[..], "the first line of cmdline.txt on the card is empty"),
            (b"\n", "is empty"),
            (b"  \r\nroot=a\n", "put all arguments on the first line"),
            (b"root=a\0", "holds a zero byte; write it again"),
            (b"root=\xff", "is not UTF-8; write it again"),
            (&[b'x'; 2048], "the kernel reads 2047; shorten it"),
        ] {
            let error = compose_plain(content).unwrap_err().to_string();
            assert!(error.contains(want) && error.contains("cmdline.txt"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn never_more_than_one_line_and_never_a_panic(content: Vec<u8>) {
            if let Ok(made) = compose_plain(&content) {
                prop_assert!(!made.arguments.contains('\n'));
                prop_assert!(made.arguments.starts_with("fw=1 ") && made.arguments.ends_with(" console=ttyAMA0 x=1"));
            }
        }
    }
}
