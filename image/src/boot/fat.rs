//! Files of a FAT file system inside a file, through mtools.
//!
//! Guarantee: nothing is mounted, no privilege is needed. Names are as on the card, from its root, with `/`. Failure:
//! mtools' own message.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::programs;

/// A FAT file system in a file of its own.
#[derive(Clone, Debug)]
pub struct Fat {
    path: PathBuf,
}

impl Fat {
    /// The file system in `path`, which begins at its first byte.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether there is a file with this name.
    ///
    /// # Errors
    /// When the file system cannot be read.
    pub fn has(&self, name: &str) -> Result<bool> {
        Ok(self.copy(self.tool("mdir").arg("-b").arg(on_card(name)))?.is_some())
    }

    /// The content of a file; `None` when there is none of this name.
    ///
    /// # Errors
    /// When the file system cannot be read.
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        self.copy(self.tool("mcopy").arg(on_card(name)).arg("-"))
    }

    /// Copies a file out; `false` when there is none of this name.
    ///
    /// # Errors
    /// When the file system cannot be read or `to` not written.
    pub fn copy_out(&self, name: &str, to: &Path) -> Result<bool> {
        let copied = self.copy(self.tool("mcopy").args(["-n", "-o"]).arg(on_card(name)).arg(to))?;
        Ok(copied.is_some())
    }

    /// Writes a file whole, replacing one of the same name, and makes its directory.
    ///
    /// # Errors
    /// When it does not fit or the file system cannot be written.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<()> {
        if let Some((directory, _)) = name.rsplit_once('/') {
            // One that is there is a failure too; without one, the copy below fails.
            let _ = programs::run(self.tool("mmd").args(["-D", "s"]).arg(on_card(directory)));
        }
        let mut source = tempfile::NamedTempFile::new().context("cannot make a temporary file")?;
        std::io::Write::write_all(&mut source, content).context("cannot write a temporary file")?;
        programs::run(self.tool("mcopy").arg("-o").arg(source.path()).arg(on_card(name)))
            .with_context(|| format!("cannot write {name} to the card"))
            .map(drop)
    }

    fn tool(&self, program: &str) -> Command {
        let mut command = programs::command(program);
        command.arg("-i").arg(&self.path);
        command
    }

    /// What it printed; `None` when it reports that there is no such file.
    fn copy(&self, command: &mut Command) -> Result<Option<Vec<u8>>> {
        let output = command.output().map_err(|error| programs::not_started(command, error))?;
        let said = String::from_utf8_lossy(&output.stderr);
        match output.status.success() {
            true => Ok(Some(output.stdout)),
            false if said.contains("not found") => Ok(None),
            false => {
                let size = fs::metadata(&self.path).map_or(0, |data| data.len());
                bail!(
                    "cannot read the card's FAT partition ({size} bytes, copied to {}): {}",
                    self.path.display(),
                    said.trim()
                )
            }
        }
    }
}

fn on_card(name: &str) -> String {
    format!("::/{}", name.trim_start_matches('/'))
}
