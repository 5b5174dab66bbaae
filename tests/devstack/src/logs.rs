//! Logs of the stack's processes.
//!
//! Guarantee: one earlier log is kept next to the current one, never more.
//! Failure: a log that cannot be read shows as an empty tail.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use anyhow::Result;

use crate::files;

/// Opens a fresh log; the one before it becomes `NAME.log.1`.
///
/// # Errors
/// Names the path.
pub fn start(path: &Path) -> Result<File> {
    if path.exists() {
        let earlier = path.with_added_extension("1");
        fs::rename(path, &earlier).map_err(|error| files::explained(path, error))?;
    }
    append(path)
}

/// Opens a log to continue with it.
///
/// # Errors
/// Names the path.
pub fn append(path: &Path) -> Result<File> {
    OpenOptions::new().create(true).append(true).open(path).map_err(|error| files::explained(path, error))
}

/// The last lines of a log, indented, and where the rest is.
pub fn tail(path: &Path, lines: usize) -> String {
    const WINDOW: u64 = 64 << 10;
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(WINDOW)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<_> = text.lines().collect();
    let last: String =
        all[all.len().saturating_sub(lines)..].iter().flat_map(|line| ["    ", line, "\n"]).collect();
    let said = if last.is_empty() { "    (nothing was logged)\n".to_owned() } else { last };
    format!("the last lines of {}:\n{said}", path.display())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn shows_the_last_lines_and_the_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("server.log");
        assert!(tail(&path, 3).contains("nothing was logged"));
        start(&path).unwrap().write_all(b"one\ntwo\nthree\n\xff\n").unwrap();
        let shown = tail(&path, 2);
        assert!(shown.contains("server.log:\n    three\n    \u{fffd}\n"), "{shown}");
        assert!(!shown.contains("two"), "{shown}");
    }

    #[test]
    fn keeps_one_earlier_log() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("server.log");
        for run in ["first", "second", "third"] {
            start(&path).unwrap().write_all(run.as_bytes()).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "third");
        assert_eq!(fs::read_to_string(dir.path().join("server.log.1")).unwrap(), "second");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
