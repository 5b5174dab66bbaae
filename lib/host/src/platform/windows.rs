//! Windows.
//!
//! A file gets the permissions of its directory: in a profile that are its owner, the administrators and the system.
//! Modes, users and groups of Unix are not there, and what would set them does nothing.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::windows::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tokio::signal::windows::{CtrlBreak, CtrlC, ctrl_break, ctrl_c};

use super::owner::FileOwner;
use super::windows_names::{self, file_name_fault, without_prefix};

/// What ends a program in a console, caught from now on.
pub struct Signals {
    interrupt: CtrlC,
    end: CtrlBreak,
}

impl Signals {
    /// Installs the handlers.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn install() -> io::Result<Self> {
        Ok(Self { interrupt: ctrl_c()?, end: ctrl_break()? })
    }

    /// The name of the next one.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "Ctrl-C",
            _ = self.end.recv() => "Ctrl-Break",
        }
    }
}

/// The editor of who has named none.
pub const EDITOR: &str = "notepad";
/// What to do where there is no `ssh`.
pub const SSH_MISSING: &str = "install it (Settings, Optional features, OpenSSH Client)";

/// A new file.
///
/// # Errors
/// It exists, cannot be made, or its name is a device's.
pub fn create_new(path: &Path) -> io::Result<File> {
    possible(path)?;
    OpenOptions::new().write(true).create_new(true).open(path)
}

/// A file which may be there already and is not emptied.
///
/// # Errors
/// It cannot be opened or made, or its name is a device's.
pub fn open_or_create(path: &Path) -> io::Result<File> {
    possible(path)?;
    OpenOptions::new().write(true).create(true).truncate(false).open(path)
}

/// Whether a file of this name is what it says.
///
/// # Errors
/// It is a device, or the file would have another name.
pub fn possible(path: &Path) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    file_name_fault(&name).map_or(Ok(()), |why| Err(io::Error::new(io::ErrorKind::InvalidFilename, why)))
}

/// Makes one directory, whose parent is there.
///
/// # Errors
/// It cannot be made, or something is there already, were it a link to a directory.
pub fn create_directory(path: &Path, _mode: u32) -> io::Result<()> {
    fs::create_dir(path)
}

/// Makes a directory, and those above it, where they are missing.
///
/// # Errors
/// One cannot be made.
pub fn create_directories(path: &Path, _mode: u32) -> io::Result<()> {
    fs::create_dir_all(path)
}

/// What to say of a private file besides that it was written: who can read it, outside of the user's profile.
pub fn private_note(path: &Path) -> Option<&'static str> {
    let is_in_profile = std::env::home_dir()
        .is_some_and(|home| std::path::absolute(path).is_ok_and(|path| path.starts_with(home)));
    (!is_in_profile).then_some(
        "Windows gave it the permissions of its directory, which may let other accounts read it: keep it below \
         your profile",
    )
}

/// Nothing is known of it.
pub const fn owner(_: &Metadata) -> FileOwner {
    FileOwner { uid: None, gid: None, mode: None }
}

/// Nothing is known of it.
pub const fn caller() -> Option<u32> {
    None
}

/// Does nothing.
///
/// # Errors
/// Never.
pub const fn give(_: &File, _uid: Option<u32>, _gid: Option<u32>) -> io::Result<()> {
    Ok(())
}

/// Does nothing.
///
/// # Errors
/// Never.
pub const fn give_path(_: &Path, _gid: u32) -> io::Result<()> {
    Ok(())
}

/// Does nothing.
///
/// # Errors
/// Never.
pub const fn set_mode(_: &File, _mode: u32) -> io::Result<()> {
    Ok(())
}

/// Does nothing.
///
/// # Errors
/// Never.
pub const fn set_path_mode(_: &Path, _mode: u32) -> io::Result<()> {
    Ok(())
}

/// How often a rename is tried, and the time between two.
const RENAMES: usize = 20;
const BETWEEN_RENAMES: Duration = Duration::from_millis(50);

/// Replaces `to`, where it is there. Tries again for a second: what another program has open, such as a virus scanner,
/// cannot be replaced.
///
/// # Errors
/// One of the two may not be changed, or the disk failed.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    for _ in 1..RENAMES {
        match fs::rename(from, to) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !to.is_dir() => {
                std::thread::sleep(BETWEEN_RENAMES);
            }
            done => return done,
        }
    }
    fs::rename(from, to)
}

/// Makes the content of a file outlast a power cut. Windows flushes no directory, and NTFS keeps the order of its own
/// changes.
///
/// # Errors
/// It is not there, or the disk failed.
pub fn flush(path: &Path) -> io::Result<()> {
    if path.is_dir() { Ok(()) } else { OpenOptions::new().write(true).open(path)?.sync_all() }
}

/// The path without symlinks, as people write it.
///
/// # Errors
/// Nothing is there.
pub fn canonicalize(path: &Path) -> io::Result<PathBuf> {
    let path = fs::canonicalize(path)?;
    Ok(path.to_str().and_then(without_prefix).map_or_else(|| path.clone(), PathBuf::from))
}

/// Where kubectl looks for `.kube`.
pub fn home() -> Option<PathBuf> {
    let candidates = windows_names::homes(|name| std::env::var_os(name));
    windows_names::home(&candidates, |path| path.join(".kube").join("config").exists(), Path::is_dir)
}

/// Whether the directory has a program of this name.
pub fn is_program(directory: &Path, name: &str) -> bool {
    let endings = std::env::var("PATHEXT").unwrap_or_default();
    windows_names::programs(name, &endings).iter().any(|name| directory.join(name).is_file())
}

/// Windows has no such thing.
pub fn run_instead(_: &mut Command) -> io::Error {
    io::ErrorKind::Unsupported.into()
}

/// As kubectl starts an editor: `command` may contain flags.
pub fn in_editor(command: &str, file: &OsStr) -> Command {
    let mut cmd = Command::new("cmd");
    // It has rules of its own for quotes: those around the whole go.
    let mut line = OsString::from(format!("/D /S /C \"{command} \""));
    line.push(file);
    line.push("\"\"");
    cmd.raw_arg(line);
    cmd
}

/// Whether the console shows colours; it is asked to.
pub fn shows_colours() -> bool {
    nu_ansi_term::enable_ansi_support().is_ok()
}

/// Never ends: the next line that is written finds that the reader has gone.
pub async fn stdout_reader_gone() {
    std::future::pending::<()>().await;
}
