//! The page on the boot partition, where a laptop reads it: `NODE-STATUS.txt` and, for programs, `node-status.json`.
//!
//! Guarantees: written only where a file system is mounted there (else the files would be below the mount point, on the
//! root), only when the page's essence has changed, at most [`A_DAY`] times in a day, each file whole or not at all.
//! Nothing here ends the caller: what cannot be written is reported, with the reason.

use std::path::PathBuf;

use jiff::Timestamp;
use serde_json::Value;
use weaver_diagnostics::host::storage::Mount;
use weaver_host::durable_file;

use super::{
    page::{ReportPage, essence},
    write_budget::{A_DAY, WriteBudget},
};
use crate::{facts::mounts::Mounts, host_root::HostRoot};

pub const TEXT: &str = "NODE-STATUS.txt";
/// For a program; written last, so that its presence means that both are complete.
pub const JSON: &str = "node-status.json";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Publication {
    /// It was written now.
    Written,
    /// The card shows the same already.
    Current,
    /// The card shows an older page, because it was written often enough.
    Deferred(Timestamp),
    /// It cannot be written, and was not tried: the reason, and what to do.
    Unwritable(String),
    /// It was tried, which counts as a write, and failed: the reason, and what to do.
    Failed(String),
}

#[derive(Debug)]
pub struct BootPartition {
    root: HostRoot,
    directory: PathBuf,
    budget: WriteBudget,
}

impl BootPartition {
    /// The one mounted in `directory`, a path of the host.
    pub const fn new(root: HostRoot, directory: PathBuf, budget: WriteBudget) -> Self {
        Self { root, directory, budget }
    }

    /// Shows the page there, if it is another one than that which is shown.
    pub fn show(&mut self, page: &ReportPage<'_>) -> Publication {
        let directory = self.directory.display();
        match Mounts::read(&self.root).unwrap_or_default().at(&self.directory) {
            Mount::Absent => {
                return Publication::Unwritable(format!(
                    "no boot partition is mounted at {directory}; `sudo mount {directory}` shows why"
                ));
            }
            Mount::ReadOnly => {
                return Publication::Unwritable(format!(
                    "{directory} is mounted read-only, which the kernel does after a file system error; \
                     power off and check the card in another computer (H-15)"
                ));
            }
            Mount::Writable => {}
        }
        let json = page.json();
        if self.shows(&json) {
            return Publication::Current;
        }
        if let Err(next) = self.budget.take(page.time) {
            return Publication::Deferred(next);
        }
        self.write(&page.text_for_windows(), &json)
            .map_or_else(Publication::Failed, |()| Publication::Written)
    }

    fn shows(&self, json: &Value) -> bool {
        if !self.root.real(self.directory.join(TEXT)).is_file() {
            return false;
        }
        let shown = self.root.read_if_possible(self.directory.join(JSON));
        let shown = shown.and_then(|file| serde_json::from_str::<Value>(&file.text).ok());
        shown.is_some_and(|shown| essence(&shown) == essence(json))
    }

    fn write(&self, text: &str, json: &Value) -> Result<(), String> {
        let json = serde_json::to_string_pretty(json).map_err(|error| error.to_string())? + "\n";
        for (name, content) in [(TEXT, text), (JSON, &json)] {
            let path = self.directory.join(name);
            durable_file::replace(&self.root.real(&path), content.as_bytes(), 0o644).map_err(|error| {
                let why = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
                format!(
                    "cannot write {}: {why}; free space on the boot partition, or check it in another computer",
                    path.display()
                )
            })?;
        }
        Ok(())
    }
}

impl Publication {
    /// Why the page there is not the newest; `None` where it is.
    pub fn fault(&self) -> Option<String> {
        match self {
            Self::Written | Self::Current => None,
            Self::Deferred(next) => {
                let next = Timestamp::from_second(next.as_second()).unwrap_or(*next);
                Some(format!("it was written {A_DAY} times in a day; the next write is allowed at {next}"))
            }
            Self::Unwritable(why) | Self::Failed(why) => Some(why.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node_report::Report;
    use std::fs;

    const BOOT: &str = "/boot/firmware";
    const RW: &str =
        "36 25 254:1 / /boot/firmware rw,noatime shared:1 - vfat /dev/vda1 rw,fmask=0077,dirsync\n";

    struct Case {
        dir: tempfile::TempDir,
        card: BootPartition,
    }

    impl Case {
        fn new(mountinfo: &str) -> Self {
            let dir = tempfile::tempdir().unwrap();
            fs::create_dir_all(dir.path().join("proc/self")).unwrap();
            fs::write(dir.path().join("proc/self/mountinfo"), mountinfo).unwrap();
            fs::create_dir_all(dir.path().join("boot/firmware")).unwrap();
            let root = HostRoot::new(dir.path().to_owned());
            let budget = WriteBudget::new(dir.path().join("budget"));
            Self { card: BootPartition::new(root, BOOT.into(), budget), dir }
        }

        fn show(&mut self, reason: &str, host_name: &str, second: i64) -> Publication {
            let report = Report { reason: reason.to_owned(), ..Report::unchecked() };
            let time = Timestamp::from_second(1_800_000_000 + second).unwrap();
            self.card.show(&ReportPage { host_name, time, synchronised: true, report: &report })
        }

        fn path(&self, name: &str) -> PathBuf {
            self.dir.path().join("boot/firmware").join(name)
        }

        fn text(&self) -> String {
            fs::read_to_string(self.path(TEXT)).unwrap()
        }
    }

    #[test]
    fn only_a_change_is_written() {
        let mut case = Case::new(RW);
        assert_eq!(case.show("r", "a", 0), Publication::Written);
        assert!(case.text().contains("node a\r\n") && case.path(JSON).is_file());
        assert_eq!(case.show("other words", "a", 1), Publication::Current);
        assert!(case.text().contains("shut: r\r\n"), "a time or a reason alone is no change");
        assert_eq!(case.show("r", "b", 2), Publication::Written);
        assert!(case.text().contains("node b\r\n"));
        for lost in [TEXT, JSON] {
            fs::remove_file(case.path(lost)).unwrap();
            assert_eq!(case.show("r", "b", 3), Publication::Written, "{lost}");
        }
        fs::write(case.path(JSON), "{half").unwrap();
        assert_eq!(case.show("r", "b", 4), Publication::Written);
        assert_eq!(fs::read_dir(case.path("")).unwrap().count(), 2, "nothing is left behind");
    }

    #[test]
    fn the_twenty_fifth_change_of_a_day_waits() {
        let mut case = Case::new(RW);
        for n in 0..24 {
            assert_eq!(case.show("r", &n.to_string(), n), Publication::Written);
        }
        let deferred = case.show("r", "late", 100);
        let fault = deferred.fault().unwrap();
        assert!(fault.contains("24 times in a day") && fault.contains("2027-01-16T08:00:00Z"), "{fault}");
        assert!(case.text().contains("node 23\r\n"));
        assert_eq!(case.show("r", "23", 101), Publication::Current, "what it shows is right again");
        assert_eq!(case.show("r", "late", 86_400), Publication::Written);
    }

    #[test]
    fn an_absent_or_read_only_partition_is_left_alone_and_named() {
        for (mountinfo, want) in
            [("", "no boot partition is mounted"), (&RW.replace("rw,", "ro,"), "read-only")]
        {
            let mut case = Case::new(mountinfo);
            let Publication::Unwritable(why) = case.show("r", "a", 0) else { panic!("{mountinfo}") };
            assert!(why.contains(want) && why.contains(BOOT), "{why}");
            assert_eq!(fs::read_dir(case.path("")).unwrap().count(), 0);
            assert!(!case.dir.path().join("budget").exists());
        }
    }

    #[test]
    fn a_partition_that_refuses_is_named_with_the_systems_reason() {
        let mut case = Case::new(RW);
        // A non-empty directory at the file's path: root cannot replace it either.
        fs::create_dir_all(case.path(TEXT).join("x")).unwrap();
        let Publication::Failed(why) = case.show("r", "a", 0) else { panic!("written") };
        assert!(why.contains("/boot/firmware/NODE-STATUS.txt: ") && why.contains("os error"), "{why}");
        assert!(!case.path(JSON).exists());
    }
}
