//! The datastore of k3s: a copy of it while k3s writes to it, and whether a copy is whole.
//!
//! Guarantees: the copy is one state of the datastore, the last one in its write-ahead log included; k3s is not
//! delayed, since in this mode of SQLite a reader blocks no writer. Failure: names the file.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

/// How long a lock of another process is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatastoreContents {
    pub revision: i64,
    pub rows: i64,
}

/// Bytes of a copy: its pages, and those that only the write-ahead log has. The length of the log says nothing, since
/// SQLite writes it again from its beginning and does not shorten it.
pub fn size(path: &Path) -> u64 {
    let pages = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size";
    let bytes = open(path).and_then(|database| database.query_row(pages, [], |row| row.get::<_, i64>(0)));
    // What cannot be read fails when it is copied.
    let length = || fs::metadata(path).map_or(0, |metadata| metadata.len());
    bytes.ok().and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or_else(length)
}

/// A datastore that may be in use.
fn open(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let database = Connection::open_with_flags(path, flags)?;
    database.busy_timeout(PATIENCE)?;
    Ok(database)
}

/// Copies a datastore that may be in use to a file that is not there yet.
///
/// # Errors
/// It cannot be read, or the copy not be written.
pub fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let what = || format!("cannot copy the datastore {}", from.display());
    let source = open(from).with_context(what)?;
    let mut target = Connection::open(to).with_context(|| format!("cannot write {}", to.display()))?;
    // The copy is flushed as a whole at the end, and thrown away after a failure, so it needs no journal.
    target.pragma_update(None, "journal_mode", "OFF").with_context(what)?;
    target.pragma_update(None, "synchronous", "OFF").with_context(what)?;
    let backup = Backup::new(&source, &mut target).with_context(what)?;
    let until = Instant::now() + PATIENCE;
    loop {
        // All pages in one step: between two steps k3s would write, and it would begin again.
        match backup.step(-1).with_context(what)? {
            StepResult::Done => return Ok(()),
            _ if Instant::now() >= until => bail!("{}: it stays locked", what()),
            _ => sleep(POLL),
        }
    }
}

/// Checks whether a datastore that is not in use is whole, and what it contains.
///
/// # Errors
/// It is damaged, or no datastore of k3s.
pub fn check(path: &Path) -> anyhow::Result<DatastoreContents> {
    let what = || format!("{} is not a complete datastore of k3s", path.display());
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let database = Connection::open_with_flags(path, flags).with_context(what)?;
    let said: String =
        database.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).with_context(what)?;
    ensure!(said == "ok", "{}: {said}", what());
    let contents = database.query_row("SELECT ifnull(max(id), 0), count(*) FROM kine", [], |row| {
        Ok(DatastoreContents { revision: row.get(0)?, rows: row.get(1)? })
    });
    contents.with_context(what)
}

#[cfg(test)]
pub mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

    use super::*;
    use crate::backup::common::full;

    /// The table of k3s with this many rows, its write-ahead log in use.
    pub fn make(path: &Path, rows: i64) -> Connection {
        let database = Connection::open(path).unwrap();
        database.pragma_update(None, "journal_mode", "WAL").unwrap();
        database.execute_batch("CREATE TABLE kine (id INTEGER PRIMARY KEY, name TEXT, value BLOB)").unwrap();
        for _ in 0..rows {
            insert(&database);
        }
        database
    }

    fn insert(database: &Connection) {
        let row = "INSERT INTO kine (name, value) VALUES ('/registry/configmaps/a', randomblob(900))";
        database.execute(row, []).unwrap();
    }

    #[test]
    fn what_is_only_in_the_log_is_copied_too() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("state.db"), dir.path().join("copy.db"));
        let _open = make(&from, 7);
        assert!(fs::metadata(dir.path().join("state.db-wal")).unwrap().len() > 0);
        copy(&from, &to).unwrap();
        assert_eq!(check(&to).unwrap(), DatastoreContents { revision: 7, rows: 7 });
        let bytes = |path: &Path| fs::metadata(path).unwrap().len();
        assert!(bytes(&from) < bytes(&to), "it is in the log alone");
        assert_eq!(size(&from), bytes(&to));
    }

    #[test]
    fn a_log_that_is_written_back_and_keeps_its_length_needs_no_room() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.db");
        let database = make(&path, 7);
        database.query_row("PRAGMA wal_checkpoint", [], |_| Ok(())).unwrap();
        assert!(fs::metadata(dir.path().join("state.db-wal")).unwrap().len() > 0);
        assert_eq!(size(&path), fs::metadata(&path).unwrap().len());
        // Without a datastore there is nothing to be copied, and the copy says what is wrong with another file.
        fs::write(dir.path().join("text.db"), "no database").unwrap();
        assert_eq!((size(&dir.path().join("none.db")), size(&dir.path().join("text.db"))), (0, 11));
    }

    /// The kernel's own full disk.
    #[test]
    fn a_copy_on_a_full_disk_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let from = dir.path().join("state.db");
        let _open = make(&from, 7);
        let error = copy(&from, Path::new("/dev/full")).map_err(full(Path::new("/var/lib/weaver")));
        let error = format!("{:#}", error.unwrap_err());
        assert!(error.starts_with("there is no space left in /var/lib/weaver: free some"), "{error}");
    }

    #[test]
    fn a_copy_is_whole_while_another_writes_without_a_pause() {
        let dir = tempfile::tempdir().unwrap();
        let from = dir.path().join("state.db");
        let database = make(&from, 50);
        let ends = Arc::new(AtomicBool::new(false));
        let written = Arc::new(AtomicI64::new(50));
        let (asked, reported) = (Arc::clone(&ends), Arc::clone(&written));
        let writer = std::thread::spawn(move || {
            while !asked.load(Ordering::Relaxed) {
                insert(&database);
                reported.fetch_add(1, Ordering::Relaxed);
            }
            database.query_row("SELECT max(id) FROM kine", [], |row| row.get::<_, i64>(0)).unwrap()
        });
        let copies: Vec<_> = (0..20)
            .map(|number| {
                let to = dir.path().join(format!("copy-{number}.db"));
                // On a busy machine the writer waits for its turn.
                let (before, until) = (written.load(Ordering::Relaxed), Instant::now() + PATIENCE);
                while written.load(Ordering::Relaxed) == before && Instant::now() < until {
                    std::thread::yield_now();
                }
                copy(&from, &to).unwrap();
                check(&to).unwrap()
            })
            .collect();
        ends.store(true, Ordering::Relaxed);
        let last = writer.join().unwrap();
        // Each is a state that there was: no row is missing before the last one.
        assert!(copies.iter().all(|copy| copy.rows == copy.revision), "{copies:?}");
        assert!(copies.is_sorted_by_key(|copy| copy.revision), "{copies:?}");
        assert!(copies[19].revision > 50 && copies[19].revision <= last, "{copies:?} {last}");
    }

    #[test]
    fn what_is_damaged_or_something_else_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        drop(make(&path("whole.db"), 200));
        let mut bytes = fs::read(path("whole.db")).unwrap();
        let half = bytes.len() / 2;
        bytes[half..half + 4096].fill(0x5a);
        fs::write(path("damaged.db"), &bytes).unwrap();
        fs::write(path("short.db"), &bytes[..half]).unwrap();
        fs::write(path("empty.db"), "").unwrap();
        fs::write(path("text.db"), "no database at all, but long enough to be read as one").unwrap();
        Connection::open(path("other.db")).unwrap().execute_batch("CREATE TABLE other (id)").unwrap();
        for name in ["damaged.db", "short.db", "empty.db", "text.db", "other.db", "none.db"] {
            let error = check(&path(name)).unwrap_err().to_string();
            assert!(error.contains(&format!("{name} is not a complete datastore")), "{error}");
        }
        assert!(copy(&path("none.db"), &path("copy.db")).unwrap_err().to_string().contains("none.db"));
        assert!(copy(&path("text.db"), &path("copy2.db")).is_err());
    }
}
