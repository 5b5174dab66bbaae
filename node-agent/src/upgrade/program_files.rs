//! The installed program, and the two next to it: the new one, and the previous one.
//!
//! Guarantees: there is a whole program installed at every moment; after a power cut it is the old one or the new one;
//! no two writers, since a writer has the journal's lock. Failure: names the file, and leaves the installed program.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use sha2::{Digest as _, Sha256};
use weaver_host::durable_file::{flush, if_there};

/// The files, as they really are.
#[derive(Debug, Clone)]
pub struct ProgramFiles {
    pub installed: PathBuf,
}

impl ProgramFiles {
    /// Where `installed` leads to, if it is a link.
    ///
    /// # Errors
    /// There is no file.
    pub fn of(installed: &Path) -> anyhow::Result<Self> {
        let shown = installed.display();
        let installed = fs::canonicalize(installed)
            .with_context(|| format!("there is no k3s at {shown}: install k3s first"))?;
        ensure!(installed.is_file(), "{shown} is not a file");
        Ok(Self { installed })
    }

    /// Where the new program is written.
    pub fn staged(&self) -> PathBuf {
        self.next_to("new")
    }

    /// Where the previous one is kept.
    pub fn previous(&self) -> PathBuf {
        self.next_to("previous")
    }

    pub fn directory(&self) -> &Path {
        self.installed.parent().unwrap_or(Path::new("/"))
    }

    /// The file of the new program, empty; the remains of a killed writer are not used.
    pub fn begin(&self) -> anyhow::Result<Writing> {
        let path = self.staged();
        remove(&path)?;
        let what = format!("cannot write {}", path.display());
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        Ok(Writing { file: file.context(what.clone())?, hash: Sha256::new(), what })
    }

    /// Makes the program before the new one.
    pub fn take_previous(&self) -> anyhow::Result<()> {
        link(&self.previous(), &self.staged())
    }

    /// Keeps the installed program as the previous one.
    ///
    /// # Errors
    /// It cannot be done; the one that was kept is still there, or the installed one has taken its name.
    pub fn keep(&self) -> anyhow::Result<()> {
        let next_to = self.next_to("kept");
        link(&self.installed, &next_to)?;
        rename(&next_to, &self.previous())?;
        Ok(flush(self.directory())?)
    }

    /// Installs the new program.
    ///
    /// # Errors
    /// It cannot be done; the old one stays installed.
    pub fn replace(&self) -> anyhow::Result<()> {
        rename(&self.staged(), &self.installed)?;
        Ok(flush(self.directory())?)
    }

    /// Installs the previous program again, which stays the previous one, too.
    pub fn put_back(&self) -> anyhow::Result<()> {
        self.take_previous()?;
        self.replace()
    }

    /// Exchanges the installed program and the previous one in one step: there is no other copy of either.
    ///
    /// # Errors
    /// It cannot be done; each is where it was.
    pub fn exchange(&self) -> anyhow::Result<()> {
        let (installed, previous) = (&self.installed, &self.previous());
        renameat2(AT_FDCWD, installed, AT_FDCWD, previous, RenameFlags::RENAME_EXCHANGE).with_context(
            || format!("{} and {} cannot be exchanged", installed.display(), previous.display()),
        )?;
        Ok(flush(self.directory())?)
    }

    /// Removes a staged program that is not wanted.
    pub fn discard(&self) {
        // What remains is removed before the next is written.
        let _ = remove(&self.staged());
    }

    fn next_to(&self, suffix: &str) -> PathBuf {
        self.installed.with_added_extension(suffix)
    }
}

/// The new program while it is written.
pub struct Writing {
    file: File,
    hash: Sha256,
    what: String,
}

impl Writing {
    /// Writes more of it.
    pub fn more(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.hash.update(bytes);
        self.file.write_all(bytes).with_context(|| self.what.clone())
    }

    /// Writes all of this file.
    pub fn copy(&mut self, from: &Path) -> anyhow::Result<()> {
        let mut from = File::open(from).with_context(|| format!("cannot read {}", from.display()))?;
        let mut buffer = vec![0; 1 << 20];
        loop {
            let count = from.read(&mut buffer).context("cannot read the new program")?;
            if count == 0 {
                return Ok(());
            }
            self.more(&buffer[..count])?;
        }
    }

    /// Makes it a program, on its disk; its hash.
    pub fn end(self) -> anyhow::Result<String> {
        let Self { file, hash, what } = self;
        file.set_permissions(Permissions::from_mode(0o755)).and_then(|()| file.sync_all()).context(what)?;
        Ok(format!("{:x}", hash.finalize()))
    }
}

/// A file's hash.
pub fn sha256(path: &Path) -> anyhow::Result<String> {
    let mut hash = Sha256::new();
    let read = File::open(path).and_then(|mut file| io::copy(&mut file, &mut hash));
    read.with_context(|| format!("cannot read {}", path.display()))?;
    Ok(format!("{:x}", hash.finalize()))
}

fn remove(path: &Path) -> anyhow::Result<()> {
    if_there(fs::remove_file(path)).with_context(|| format!("cannot remove {}", path.display()))
}

fn link(from: &Path, to: &Path) -> anyhow::Result<()> {
    remove(to)?;
    fs::hard_link(from, to).with_context(|| format!("cannot keep {} as {}", from.display(), to.display()))
}

fn rename(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::rename(from, to).with_context(|| format!("cannot move {} to {}", from.display(), to.display()))?;
    // A rename between two names of one file leaves both.
    remove(from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(text: &str) -> (tempfile::TempDir, ProgramFiles) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("k3s"), text).unwrap();
        let program = ProgramFiles::of(&dir.path().join("k3s")).unwrap();
        (dir, program)
    }

    fn write(program: &ProgramFiles, text: &str) -> String {
        let mut writing = program.begin().unwrap();
        writing.more(text.as_bytes()).unwrap();
        writing.end().unwrap()
    }

    /// The names in the directory and what is behind them.
    fn all(program: &ProgramFiles) -> Vec<(String, String)> {
        let names = fs::read_dir(program.directory()).unwrap().map(|entry| entry.unwrap().path());
        let mut all: Vec<_> = names
            .map(|path| {
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                (name, fs::read_to_string(&path).unwrap())
            })
            .collect();
        all.sort();
        all
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn there_and_back_and_there_is_a_whole_program_after_each_step() {
        let (_dir, program) = program("old");
        fs::write(program.staged(), "half of ano").unwrap();
        let hash = write(&program, "new");
        assert_eq!(fs::metadata(program.staged()).unwrap().permissions().mode() & 0o7777, 0o755);
        assert_eq!(hash, sha256(&program.staged()).unwrap());
        program.keep().unwrap();
        assert_eq!(all(&program), pairs(&[("k3s", "old"), ("k3s.new", "new"), ("k3s.previous", "old")]));
        program.replace().unwrap();
        assert_eq!(all(&program), pairs(&[("k3s", "new"), ("k3s.previous", "old")]));
        program.put_back().unwrap();
        assert_eq!(all(&program), pairs(&[("k3s", "old"), ("k3s.previous", "old")]));
    }

    /// Then `k3s` and `k3s.previous` are two names of one file, which a rename would leave as they are.
    #[test]
    fn after_a_way_back_the_next_upgrade_keeps_and_replaces_all_the_same() {
        let (_dir, program) = program("old");
        write(&program, "bad");
        program.keep().unwrap();
        program.replace().unwrap();
        program.put_back().unwrap();
        program.put_back().unwrap();
        assert_eq!(all(&program), pairs(&[("k3s", "old"), ("k3s.previous", "old")]));
        write(&program, "good");
        program.keep().unwrap();
        program.replace().unwrap();
        assert_eq!(all(&program), pairs(&[("k3s", "good"), ("k3s.previous", "old")]));
        // And back by hand.
        program.exchange().unwrap();
        assert_eq!(all(&program), pairs(&[("k3s", "old"), ("k3s.previous", "good")]));
    }

    #[test]
    fn a_link_is_followed_and_stays() {
        let (dir, _) = program("old");
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("k3s", &link).unwrap();
        let program = ProgramFiles::of(&link).unwrap();
        write(&program, "new");
        program.keep().unwrap();
        program.replace().unwrap();
        assert_eq!(fs::read_to_string(&link).unwrap(), "new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let error = ProgramFiles::of(&dir.path().join("none")).unwrap_err().to_string();
        assert!(error.contains("there is no k3s at"), "{error}");
    }

    #[test]
    fn what_cannot_change_places_stays_where_it_was() {
        let (_dir, program) = program("old");
        let error = format!("{:#}", program.exchange().unwrap_err());
        assert!(error.contains("k3s.previous cannot be exchanged"), "{error}");
        assert_eq!(all(&program), pairs(&[("k3s", "old")]));
    }

    #[test]
    fn without_a_program_before_nothing_is_put_back() {
        let (_dir, program) = program("old");
        let error = program.put_back().unwrap_err().to_string();
        assert!(error.contains("k3s.previous"), "{error}");
        assert_eq!(all(&program), pairs(&[("k3s", "old")]));
    }
}
