//! Where log records go: to journald with their fields where systemd started the program, else to standard error.
//!
//! Guarantees: decided once, at the start. The journal is taken only if standard error is the journal's own stream
//! (`JOURNAL_STREAM` names it by device and inode, as systemd.exec(5) asks one to compare): a redirection into a file
//! gets the text. A socket that is not available (in a container, say) is no failure: the text goes to standard error,
//! with one warning.
//!
//! In the journal a field has its own name in capitals: `journalctl CODE=name-not-served`. Only the message is in
//! the short form; `journalctl -o verbose` shows the fields. A full or restarting journald loses records, never
//! the program.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;

use tracing::{error, warn};
use tracing_journald::{Layer as Journal, Priority, PriorityMappings};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use weaver_diagnostics::finding_text::clean_lines;

use crate::log_code;
use crate::progress;

/// Where the records go.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Sink {
    /// To journald's socket, with fields.
    Journal,
    /// To standard error, as text.
    Stderr,
}

/// Logs what `directives` let through, from now on.
///
/// Called once; a second call changes nothing.
pub fn init(directives: EnvFilter) -> Sink {
    let stream = std::env::var("JOURNAL_STREAM").ok();
    let journal = match sink(stream.as_deref(), stderr_identity()) {
        Sink::Journal => Some(Journal::new()),
        Sink::Stderr => None,
    };
    let refused = match journal {
        Some(Ok(journal)) => {
            let layer = journal.with_field_prefix(None).with_priority_mappings(priorities());
            // Fails only where logging is set up already.
            drop(tracing_subscriber::registry().with(directives).with(layer).try_init());
            return Sink::Journal;
        }
        Some(Err(error)) => Some(error),
        None => None,
    };
    let colour = io::IsTerminal::is_terminal(&io::stderr());
    let text = tracing_subscriber::fmt().with_env_filter(directives).with_writer(|| Aside).with_ansi(colour);
    drop(text.try_init());
    if let Some(error) = refused {
        warn!(code = log_code::JOURNAL_UNAVAILABLE, %error, "journald is not available, logging to standard error");
    }
    Sink::Stderr
}

/// Standard error, on which a record is not written into the line of a [`progress`].
struct Aside;

impl Write for Aside {
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        progress::aside(|| io::stderr().write(record))
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Says why the program ends: in the journal with the priority of an error, on standard error as `error: …`.
pub fn last_word(sink: Sink, error: &anyhow::Error) {
    match sink {
        Sink::Journal => error!(code = log_code::FAILED, "{error:#}"),
        Sink::Stderr => eprintln!("{}", last_line(error)),
    }
}

/// A terminal obeys nothing that a file or another program says.
fn last_line(error: &anyhow::Error) -> String {
    format!("error: {}", clean_lines(&format!("{error:#}")))
}

/// The verdict. `stream` is `JOURNAL_STREAM`, `stderr` the device and inode of standard error.
fn sink(stream: Option<&str>, stderr: Option<(u64, u64)>) -> Sink {
    let named = stream.and_then(|stream| {
        let (device, inode) = stream.split_once(':')?;
        Some((device.parse::<u64>().ok()?, inode.parse::<u64>().ok()?))
    });
    if named.is_some() && named == stderr { Sink::Journal } else { Sink::Stderr }
}

/// `None` where standard error is closed.
fn stderr_identity() -> Option<(u64, u64)> {
    let metadata = File::from(io::stderr().as_fd().try_clone_to_owned().ok()?).metadata().ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// An `info` is no notice: the crate's own mapping would raise each by one.
fn priorities() -> PriorityMappings {
    PriorityMappings { info: Priority::Informational, debug: Priority::Debug, ..PriorityMappings::new() }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::net::UnixDatagram;
    use std::path::Path;
    use std::process::{Command, Output};
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_journal_is_taken_only_where_standard_error_is_its_stream() {
        for (stream, stderr, expected) in [
            (Some("9:4711"), Some((9, 4711)), Sink::Journal),
            (None, Some((9, 4711)), Sink::Stderr),
            // Redirected into a file.
            (Some("9:4711"), Some((9, 4712)), Sink::Stderr),
            (Some("8:4711"), Some((9, 4711)), Sink::Stderr),
            // Standard error is closed.
            (Some("9:4711"), None, Sink::Stderr),
            (None, None, Sink::Stderr),
            (Some(""), None, Sink::Stderr),
            (Some("9"), Some((9, 0)), Sink::Stderr),
            (Some("9:-1"), Some((9, 1)), Sink::Stderr),
            (Some("9:1:1"), Some((9, 1)), Sink::Stderr),
        ] {
            assert_eq!(sink(stream, stderr), expected, "{stream:?} {stderr:?}");
        }
    }

    #[test]
    fn a_terminal_obeys_nothing_of_the_last_error() {
        let error = anyhow::anyhow!("refused: \u{1b}]0;pwned\u{7}\r\nnext").context("the place");
        let line = last_line(&error);
        assert!(line.starts_with("error: the place: refused: "), "{line:?}");
        assert!(line.ends_with("\nnext"), "{line:?}");
        assert!(!line.contains(|c: char| c != '\n' && c.is_control()), "{line:?}");
    }

    /// Runs [`a_program_that_logs`] where `/run/systemd/journal` is `journal`, with its standard error in a file
    /// that `JOURNAL_STREAM` names.
    fn log_with_journal_in(journal: &Path) -> (Output, String) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("stderr");
        let stderr = File::create(&file).unwrap();
        let metadata = stderr.metadata().unwrap();
        let script = "mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/journal && \
                      mount --bind \"$0\" /run/systemd/journal && exec \"$@\"";
        let output = Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "--propagation", "private", "sh", "-c", script])
            .arg(journal)
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "log::tests::a_program_that_logs", "--ignored", "--nocapture"])
            .env("JOURNAL_STREAM", format!("{}:{}", metadata.dev(), metadata.ino()))
            .stderr(stderr)
            .output()
            .expect("this test needs unshare of util-linux, and a kernel that lets users have namespaces");
        let text = fs::read_to_string(file).unwrap();
        assert!(output.status.success(), "unshare, mount or the program failed: {text}");
        (output, text)
    }

    #[test]
    #[ignore = "run by the tests below, as a program of its own"]
    fn a_program_that_logs() {
        let sink = init(EnvFilter::new("info"));
        tracing::debug!("not let through");
        tracing::info!(code = "name-not-served", names = 2, "the gate is shut");
        last_word(sink, &anyhow::anyhow!("the reason").context("the place"));
    }

    #[test]
    fn a_record_in_the_journal_has_its_priority_message_and_fields() {
        let dir = tempfile::tempdir().unwrap();
        let journald = UnixDatagram::bind(dir.path().join("socket")).unwrap();
        journald.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let (_, stderr) = log_with_journal_in(dir.path());
        assert_eq!(stderr, "", "each record goes to one place only");

        let mut buffer = [0; 8192];
        let mut received = || {
            let length = journald.recv(&mut buffer).unwrap();
            fields(&buffer[..length])
        };
        assert_eq!(received(), [], "the layer's probe");
        let record = received();
        let has = |name: &str, value: &str| record.contains(&(name.to_owned(), value.to_owned()));
        assert!(has("PRIORITY", "6"), "{record:?}");
        assert!(has("MESSAGE", "the gate is shut"), "{record:?}");
        assert!(has("CODE", "name-not-served") && has("NAMES", "2"), "{record:?}");
        let program = std::env::current_exe().unwrap();
        assert!(has("SYSLOG_IDENTIFIER", program.file_name().unwrap().to_str().unwrap()), "{record:?}");
        let record = received();
        assert!(record.contains(&("PRIORITY".to_owned(), "3".to_owned())), "{record:?}");
        assert!(record.contains(&("MESSAGE".to_owned(), "the place: the reason".to_owned())), "{record:?}");
    }

    #[test]
    fn without_a_socket_the_text_is_on_standard_error_with_a_warning() {
        let dir = tempfile::tempdir().unwrap();
        let (_, stderr) = log_with_journal_in(dir.path());
        let lines: Vec<&str> = stderr.lines().collect();
        assert_eq!(lines.len(), 3, "{stderr}");
        assert!(lines[0].contains("WARN") && lines[0].contains("journald is not available"), "{stderr}");
        assert!(lines[1].contains("the gate is shut code=\"name-not-served\" names=2"), "{stderr}");
        assert_eq!(lines[2], "error: the place: the reason");
    }

    /// As journald reads them: `NAME=value`, or the name, a line feed, the length in eight bytes and the value.
    fn fields(mut record: &[u8]) -> Vec<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let mut fields = Vec::new();
        while !record.is_empty() {
            let end = record.iter().position(|byte| *byte == b'\n').unwrap();
            let (line, rest) = (&record[..end], &record[end + 1..]);
            record = if let Some(equals) = line.iter().position(|byte| *byte == b'=') {
                fields.push((text(&line[..equals]), text(&line[equals + 1..])));
                rest
            } else {
                let (length, rest) = rest.split_first_chunk().unwrap();
                let length = usize::try_from(u64::from_le_bytes(*length)).unwrap();
                fields.push((text(line), text(&rest[..length])));
                assert_eq!(rest[length], b'\n');
                &rest[length + 1..]
            };
        }
        fields
    }
}
