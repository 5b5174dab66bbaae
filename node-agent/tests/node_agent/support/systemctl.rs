//! A `systemctl` with scripted answers that records its calls.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

pub struct FakeSystemctl {
    dir: tempfile::TempDir,
}

impl FakeSystemctl {
    /// k3s is in this state.
    pub fn new(state: &str) -> Self {
        let fake = Self { dir: tempfile::tempdir().unwrap() };
        fake.set_state(state);
        fake
    }

    /// From now on k3s is in this state, for a second of the machine's life on.
    pub fn set_state(&self, state: &str) {
        let answer = format!("echo ActiveState={state}; echo StateChangeTimestampMonotonic=1");
        self.does(&format!("[ $3 = show ] && {{ {answer}; exit 0; }}; exit 0"));
    }

    /// From now on it does this; its arguments are noted before.
    pub fn does(&self, script: &str) {
        let new = self.dir.path().join("new");
        let text = format!("#!/bin/sh\necho \"$*\" >> {}\n{script}\n", self.log().display());
        fs::write(&new, text).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
        // Replaced, since a program that runs cannot be written to.
        fs::rename(new, self.path()).unwrap();
    }

    pub fn path(&self) -> PathBuf {
        self.dir.path().join("systemctl")
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("asked")
    }

    /// How often the start of a unit was requested.
    pub fn starts_of(&self, unit: &str) -> usize {
        let wanted = format!("--no-ask-password --no-pager start --no-block {unit}");
        lines(&self.log()).iter().filter(|line| **line == wanted).count()
    }

    /// How many calls were neither a start nor a query.
    pub fn other_calls(&self) -> Vec<String> {
        let is_known = |line: &String| line.contains(" start --no-block ") || line.contains(" show -p ");
        lines(&self.log()).into_iter().filter(|line| !is_known(line)).collect()
    }

    pub fn calls(&self) -> usize {
        lines(&self.log()).len()
    }
}

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}
