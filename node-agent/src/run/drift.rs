//! Reports changes of the files that the checks read, by inotify, so that the checks need not poll.
//!
//! Directories are watched, since files are replaced by rename; for a missing directory, the nearest one that
//! exists is watched for the missing name. The agent's own writes to the boot partition do not count. Best
//! effort: what inotify does not report (`/proc`, the served certificate, other machines) is found by the
//! next periodic check.

use std::{
    collections::{HashMap, HashSet},
    ffi::{OsStr, OsString},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    time::Duration,
};

use futures::StreamExt as _;
use inotify::{Event, EventMask, EventStream, Inotify, WatchDescriptor, WatchMask};
use tokio::time::timeout;
use tracing::warn;

use crate::publish::card;

/// Writers write more than one file: the check waits until they have been quiet for this time, or until the longest
/// wait is over.
const QUIET: Duration = Duration::from_millis(300);
const LONGEST: Duration = Duration::from_secs(3);
/// Bytes; one event with the longest of names takes 272.
const BUFFER: usize = 4096;

pub struct Drift {
    events: EventStream<Vec<u8>>,
    /// The names that count in each directory; `None`: every one.
    names: HashMap<WatchDescriptor, Option<HashSet<OsString>>>,
    /// A change was seen and not reported yet.
    is_pending: bool,
    /// The missing change notifications were reported.
    is_deaf: bool,
}

impl Drift {
    /// `None` where the kernel has no more inotify instances, which is logged. Nothing is watched yet.
    pub fn if_possible() -> Option<Self> {
        let drift = Self::new();
        drift.inspect_err(|error| warn!("changes of files are noticed only at the next check: {error}")).ok()
    }

    fn new() -> io::Result<Self> {
        let events = Inotify::init()?.into_event_stream(vec![0; BUFFER])?;
        Ok(Self { events, names: HashMap::new(), is_pending: false, is_deaf: false })
    }

    /// Watches these directories and no others; must be called again after each check, since a directory may be a new
    /// one.
    pub fn watch(&mut self, directories: &[PathBuf]) {
        let mut names: HashMap<WatchDescriptor, Option<HashSet<OsString>>> = HashMap::new();
        for directory in directories {
            let Some((watch, name)) = self.nearest(directory) else { continue };
            let known = names.entry(watch).or_insert_with(|| Some(HashSet::new()));
            match (name, known) {
                (None, known) => *known = None,
                (Some(name), Some(known)) => drop(known.insert(name)),
                (Some(_), None) => {}
            }
        }
        for (left, _) in self.names.drain().filter(|(watch, _)| !names.contains_key(watch)) {
            // It is gone already where its directory is.
            let _ = self.events.watches().remove(left);
        }
        self.names = names;
    }

    /// The directory, or the nearest above it that exists with the name that is missing there.
    fn nearest(&mut self, directory: &Path) -> Option<(WatchDescriptor, Option<OsString>)> {
        let mask = WatchMask::CLOSE_WRITE
            | WatchMask::CREATE
            | WatchMask::DELETE
            | WatchMask::MOVE
            | WatchMask::ATTRIB
            | WatchMask::DELETE_SELF
            | WatchMask::MOVE_SELF
            | WatchMask::ONLYDIR;
        let mut missing = None;
        for ancestor in directory.ancestors() {
            match self.events.watches().add(ancestor, mask) {
                Ok(watch) => return Some((watch, missing)),
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
                // For example where all watches of the user are in use.
                Err(error) => self.deaf(&format!("{}: {error}", ancestor.display())),
            }
            missing = ancestor.file_name().map(OsStr::to_owned);
        }
        None
    }

    fn deaf(&mut self, why: &str) {
        if !std::mem::replace(&mut self.is_deaf, true) {
            warn!("changes of files are noticed only at the next check: {why}");
        }
    }

    /// Returns when something has changed, and its writer has been quiet for a moment. A change is not lost when the
    /// caller stops waiting: the next call reports it.
    pub async fn changed(&mut self) {
        if !self.is_pending {
            self.next().await;
            self.is_pending = true;
        }
        let quiet = async { while timeout(QUIET, self.next()).await.is_ok() {} };
        // A writer that never stops is checked now and then.
        let _ = timeout(LONGEST, quiet).await;
        self.is_pending = false;
    }

    async fn next(&mut self) {
        while let Some(Ok(event)) = self.events.next().await {
            if self.counts(&event) {
                return;
            }
        }
        self.deaf("the kernel sends no more events");
        std::future::pending::<()>().await;
    }

    fn counts(&self, event: &Event<OsString>) -> bool {
        // The queue ran over: what was lost may have counted.
        if event.mask.contains(EventMask::Q_OVERFLOW) {
            return true;
        }
        match (self.names.get(&event.wd), &event.name) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(None), Some(name)) => !is_our_own(name),
            (Some(Some(names)), Some(name)) => names.contains(name),
        }
    }
}

/// The page on the boot partition, and the file next to it by which it is replaced.
fn is_our_own(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    [card::TEXT, card::JSON].iter().any(|page| name.trim_start_matches('.').starts_with(page))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Whether these steps are reported as a change below a watched directory.
    async fn tells(watched: &[&str], prepare: impl FnOnce(&Path), step: impl FnOnce(&Path)) -> bool {
        let dir = tempfile::tempdir().unwrap();
        prepare(dir.path());
        let mut drift = Drift::new().unwrap();
        let watched: Vec<_> = watched.iter().map(|path| dir.path().join(path)).collect();
        drift.watch(&watched);
        step(dir.path());
        timeout(Duration::from_millis(700), drift.changed()).await.is_ok()
    }

    fn make(path: &str) -> impl FnOnce(&Path) {
        move |dir| fs::create_dir_all(dir.join(path)).unwrap()
    }

    #[tokio::test]
    async fn what_counts_is_a_file_that_another_writes_there() {
        let write = |name: &'static str| move |dir: &Path| fs::write(dir.join(name), "x").unwrap();
        assert!(tells(&["a"], make("a"), write("a/config.yaml")).await);
        assert!(!tells(&["a"], make("a"), |_| ()).await);
        assert!(!tells(&["a"], make("a"), write("b")).await, "next to it");
        assert!(!tells(&["a"], make("a"), write("a/NODE-STATUS.txt")).await, "our own page");
        assert!(!tells(&["a"], make("a"), write("a/.node-status.json.tmp")).await);
        let read = |dir: &Path| assert_eq!(fs::read_dir(dir.join("a")).unwrap().count(), 0);
        assert!(!tells(&["a"], make("a"), read).await);
        let chmod = |dir: &Path| {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
            fs::set_permissions(dir.join("a/f"), mode).unwrap();
        };
        let with_file = |dir: &Path| {
            make("a")(dir);
            fs::write(dir.join("a/f"), "x").unwrap();
        };
        assert!(tells(&["a"], with_file, chmod).await);
        assert!(tells(&["a"], with_file, |dir| fs::remove_file(dir.join("a/f")).unwrap()).await);
    }

    #[tokio::test]
    async fn of_a_directory_that_is_not_there_its_coming_counts() {
        let watched = &["etc/rancher/k3s"];
        assert!(tells(watched, make("etc"), make("etc/rancher")).await);
        assert!(!tells(watched, make("etc"), make("etc/other")).await);
        assert!(
            tells(watched, make("etc/rancher/k3s"), |dir| fs::remove_dir(dir.join("etc/rancher/k3s"))
                .unwrap())
            .await
        );
    }

    #[tokio::test]
    async fn what_is_no_longer_asked_for_is_not_watched() {
        let dir = tempfile::tempdir().unwrap();
        let mut drift = Drift::new().unwrap();
        let (one, other) = (dir.path().join("one"), dir.path().join("other"));
        fs::create_dir(&one).unwrap();
        fs::create_dir(&other).unwrap();
        drift.watch(&[one.clone(), other.clone()]);
        drift.watch(std::slice::from_ref(&other));
        fs::write(one.join("f"), "x").unwrap();
        assert!(timeout(Duration::from_millis(400), drift.changed()).await.is_err());
        fs::write(other.join("f"), "x").unwrap();
        assert!(timeout(Duration::from_secs(10), drift.changed()).await.is_ok());
    }

    #[tokio::test]
    async fn who_never_stops_writing_is_looked_at_all_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let mut drift = Drift::new().unwrap();
        drift.watch(&[dir.path().to_owned()]);
        let writing = async {
            loop {
                fs::write(dir.path().join("f"), "x").unwrap();
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::select! {
            () = drift.changed() => {}
            () = writing => {}
            () = tokio::time::sleep(LONGEST * 4) => panic!("not looked at"),
        }
    }
}
