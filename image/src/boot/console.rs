//! The console output of the guest.
//!
//! A file that QEMU writes. A missing one counts as empty; bytes that are not UTF-8 are replaced, escape sequences of
//! terminals are left out.

use std::fs;
use std::path::Path;

/// Lines of the console that an error shows.
const SHOWN: usize = 30;

/// All of it, as plain text.
pub fn text(log: &Path) -> String {
    plain(&String::from_utf8_lossy(&fs::read(log).unwrap_or_default()))
}

/// Its last lines, for an error.
pub fn last_lines(log: &Path) -> String {
    let text = text(log);
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() {
        return "the console is empty".to_owned();
    }
    let shown = &lines[lines.len().saturating_sub(SHOWN)..];
    format!("the console's last lines:\n  {}", shown.join("\n  "))
}

/// Whether the guest's last words ask the firmware for a start on trial: the kernel's own line of its restart, with the
/// flag that Raspberry Pi's driver of the firmware looks for.
pub fn asks_for_trial(text: &str) -> bool {
    let last = text.lines().rev().find_map(|line| line.split_once("reboot: "));
    last.is_some_and(|(_, said)| {
        said.starts_with("Restarting system with command '") && said.contains(" tryboot")
    })
}

/// Without carriage returns, escape sequences and other control characters.
fn plain(text: &str) -> String {
    let mut made = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' if rest.peek() == Some(&'[') => {
                rest.next();
                // Parameters, then one letter that ends the sequence.
                while rest.next_if(|c| !('@'..='~').contains(c) && !c.is_control()).is_some() {}
                rest.next_if(|c| ('@'..='~').contains(c));
            }
            '\n' | '\t' => made.push(c),
            c if c.is_control() => {}
            c => made.push(c),
        }
    }
    made
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn escape_sequences_are_left_out() {
        for (text, want) in [
            ("[\u{1b}[0;32m  OK  \u{1b}[0m] Started\r\n", "[  OK  ] Started\n"),
            ("\u{1b}[2J\u{1b}[1;1Hlogin: ", "login: "),
            ("a\u{1b}[", "a"),
            ("a\u{0}b\tc", "ab\tc"),
        ] {
            assert_eq!(plain(text), want);
        }
    }

    #[test]
    fn the_last_restart_asks_for_a_trial_or_does_not() {
        let asks = "[   12.345678] reboot: Restarting system with command '0 tryboot'\n";
        for (text, want) in [
            (asks.to_owned(), true),
            (format!("{asks}more\n"), true),
            ("[   12.3] reboot: Restarting system with command '0'\n".to_owned(), false),
            ("[   12.3] reboot: Restarting system with command 'tryboot'\n".to_owned(), false),
            ("[   12.3] reboot: Restarting system\n".to_owned(), false),
            (format!("{asks}[   12.4] reboot: Power down\n"), false),
            ("a unit says 0 tryboot\n".to_owned(), false),
            (String::new(), false),
        ] {
            assert_eq!(asks_for_trial(&text), want, "{text}");
        }
    }

    #[test]
    fn an_error_shows_the_last_thirty_lines() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("console");
        assert_eq!(last_lines(&log), "the console is empty");
        let lines: Vec<String> = (1..=40).map(|n| format!("line {n}\r\n\r\n")).collect();
        fs::write(&log, lines.concat()).unwrap();
        let shown = last_lines(&log);
        assert!(shown.starts_with("the console's last lines:\n  line 11\n") && shown.ends_with("line 40"));
    }

    proptest! {
        #[test]
        fn any_text_is_shown_without_control_characters(text in "(?s).*") {
            prop_assert!(!plain(&text).contains(|c: char| c.is_control() && c != '\n' && c != '\t'));
        }
    }
}
