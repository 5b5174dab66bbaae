//! The datastore of k3s: a copy of it while k3s writes to it, and whether a copy is whole.
//!
//! Guarantees: the copy is one state of the datastore, the last one in its write-ahead log included; k3s is not
//! delayed, since in this mode of SQLite a reader blocks no writer. Failure: names the file.

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

/// Copies a datastore that may be in use to a file that is not there yet.
///
/// # Errors
/// It cannot be read, or the copy not be written.
pub fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let what = || format!("cannot copy the datastore {}", from.display());
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let source = Connection::open_with_flags(from, flags).with_context(what)?;
    source.busy_timeout(PATIENCE).with_context(what)?;
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
    use std::fs;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

    use super::*;

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
