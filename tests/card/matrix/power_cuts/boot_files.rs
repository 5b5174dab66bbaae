//! What the firmware and the next boot find on the boot partition after a cut.
//!
//! Each file is as it was at the beginning of the part or at its end, never mixed, cut off or gone; and that is
//! so before the `fsck.vfat -a` of the next boot, when the firmware reads, and after it. What fsck complains of
//! is counted by what it does to files: a second one finds nothing more to do. Reports of the agent's, which
//! change more than once, are left out, and so is what has another name than a file before or after: a file
//! while it is written next to another, and the chains without a name that fsck saves as `FSCK0000.REC`, but
//! for what they tell.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest as _, Sha256};
use weaver_image::boot::programs;

/// Content by name, of all that shall be whole.
type FileHashes = BTreeMap<String, [u8; 32]>;

/// What was there before and after a part.
pub struct BootFileStates {
    before: FileHashes,
    after: FileHashes,
}

/// What one state showed.
#[derive(Debug, Default)]
pub struct ObservedBoot {
    pub wrong: Vec<String>,
    /// What fsck said, harmless or not.
    pub fsck: Vec<String>,
    /// What fsck saved of chains without a name.
    pub saved: Vec<u8>,
    /// weaver.toml, where there is one.
    pub weaver_toml: String,
    /// cmdline.txt, where there is one.
    pub cmdline: String,
    /// What the agent keeps of it when it mends it.
    pub cmdline_before: String,
}

impl BootFileStates {
    pub fn new(before: &Path, after: &Path) -> Self {
        Self { before: files(before), after: files(after) }
    }

    /// Names whose content differs before and after.
    pub fn changed(&self) -> Vec<&str> {
        let names = self.before.keys().chain(self.after.keys());
        let mut names: Vec<_> = names
            .filter(|name| self.before.get(*name) != self.after.get(*name))
            .map(String::as_str)
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Looks at one state of the partition; `fat` is not changed.
    pub fn look(&self, fat: &Path) -> ObservedBoot {
        let mut seen = ObservedBoot { fsck: fsck("-n", fat).1, ..ObservedBoot::default() };
        self.judge(fat, "", &mut seen);
        let dir = tempfile::tempdir_in(fat.parent().unwrap()).unwrap();
        let mended = dir.path().join("fat");
        programs::run(programs::command("cp").arg("--sparse=always").arg(fat).arg(&mended)).unwrap();
        let (code, said) = fsck("-a", &mended);
        if code > 1 {
            seen.wrong.push(format!("fsck.vfat -a ends with {code}: {}", said.join("; ")));
        }
        self.judge(&mended, "after fsck.vfat -a: ", &mut seen);
        let (code, said) = fsck("-n", &mended);
        if code > 0 {
            seen.wrong.push(format!("a second fsck.vfat ends with {code}: {}", said.join("; ")));
        }
        seen
    }

    fn judge(&self, fat: &Path, when: &str, seen: &mut ObservedBoot) {
        let (now, saved, dir) = extracted(fat);
        seen.saved.extend(saved);
        let text = |name: &str| fs::read_to_string(dir.path().join("all").join(name)).unwrap_or_default();
        (seen.weaver_toml, seen.cmdline) = (text("weaver.toml"), text("cmdline.txt"));
        seen.cmdline_before = text("cmdline.txt.weaver-before");
        let known = |name: &String| self.before.contains_key(name) || self.after.contains_key(name);
        for (name, content) in now.iter().filter(|(name, _)| known(name)) {
            let size = fs::metadata(dir.path().join("all").join(name)).unwrap().len();
            // vfat gives a name that was not there an empty file first: there is nothing yet that could be lost.
            let is_begun = size == 0 && !self.before.contains_key(name);
            let is_whole = [&self.before, &self.after].iter().any(|files| files.get(name) == Some(content));
            if !is_whole && !is_begun {
                let what = format!("{when}{name} ({size} bytes) is neither the old one nor the new one");
                seen.wrong.push(what);
            }
        }
        let stays = self.before.keys().filter(|name| self.after.contains_key(*name));
        let gone = stays.filter(|name| !now.contains_key(*name));
        seen.wrong.extend(gone.map(|name| format!("{when}{name} is gone")));
    }
}

fn files(fat: &Path) -> FileHashes {
    extracted(fat).0
}

fn extracted(fat: &Path) -> (FileHashes, Vec<u8>, tempfile::TempDir) {
    let dir = tempfile::tempdir_in(fat.parent().unwrap()).unwrap();
    let all = dir.path().join("all");
    fs::create_dir(&all).unwrap();
    // It ends with an error at a file whose chain of clusters is damaged, which is then missing or short here.
    let mut command = programs::command("mcopy");
    command.args(["-s", "-n", "-i"]).arg(fat).arg("::/*").arg(&all).output().unwrap();
    let (mut found, mut saved) = (FileHashes::new(), Vec::new());
    let mut open = vec![all.clone()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let name = path.strip_prefix(&all).unwrap().to_str().unwrap().to_owned();
            if is_saved(&name.to_ascii_lowercase()) {
                saved.extend(fs::read(&path).unwrap());
            }
            if is_watched(&name) {
                found.insert(name, Sha256::digest(fs::read(&path).unwrap()).into());
            }
        }
    }
    (found, saved, dir)
}

fn is_watched(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    !name.starts_with("node-status") && !is_saved(&name)
}

/// A chain of clusters that had no name.
fn is_saved(name: &str) -> bool {
    name.strip_prefix("fsck").is_some_and(|rest| rest.strip_suffix(".rec").is_some())
}

/// Its exit code, 1 where it has something to mend, and what it says, one line each.
fn fsck(how: &str, fat: &Path) -> (i32, Vec<String>) {
    let mut command: Command = programs::command("fsck.vfat");
    let output = command.arg(how).arg(fat).output().unwrap();
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let lines = said.lines().map(str::trim).filter(|line| !line.is_empty() && !line.ends_with(" clusters"));
    (output.status.code().unwrap_or(-1), lines.map(str::to_owned).collect())
}
