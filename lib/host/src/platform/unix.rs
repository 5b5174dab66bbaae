//! What the platform offers, with the calls of Linux and macOS.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, chown, fchown,
};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::owner::FileOwner;
pub use crate::signals::Signals;

/// The editor of who has named none.
pub const EDITOR: &str = "vi";
/// What to do where there is no `ssh`.
pub const SSH_MISSING: &str = "install it";

/// Whether a file of this name is what it says.
///
/// # Errors
/// Never.
pub const fn possible(_: &Path) -> io::Result<()> {
    Ok(())
}

/// A new file for its owner only.
///
/// # Errors
/// It exists, or cannot be made.
pub fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// A file for its owner only, which may be there already and is not emptied.
///
/// # Errors
/// It cannot be opened or made.
pub fn open_or_create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Makes one directory, whose parent is there.
///
/// # Errors
/// It cannot be made, or something is there already, were it a link to a directory.
pub fn create_directory(path: &Path, mode: u32) -> io::Result<()> {
    DirBuilder::new().mode(mode).create(path)
}

/// Makes a directory with this mode, and those above it, where they are missing.
///
/// # Errors
/// One cannot be made.
pub fn create_directories(path: &Path, mode: u32) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(mode).create(path)
}

/// What to say of a private file besides that it was written: nothing, its mode is 0600.
pub const fn private_note(_: &Path) -> Option<&'static str> {
    None
}

/// Who may use the file that this is of.
pub fn owner(metadata: &Metadata) -> FileOwner {
    FileOwner { uid: Some(metadata.uid()), gid: Some(metadata.gid()), mode: Some(metadata.mode() & 0o7777) }
}

/// The user as whom this program acts on files.
pub fn caller() -> Option<u32> {
    Some(nix::unistd::Uid::effective().as_raw())
}

/// Gives a file to this user and group.
///
/// # Errors
/// The caller may not.
pub fn give(file: &File, uid: Option<u32>, gid: Option<u32>) -> io::Result<()> {
    fchown(file, uid, gid)
}

/// Gives a file or directory to this group.
///
/// # Errors
/// The caller may not.
pub fn give_path(path: &Path, gid: u32) -> io::Result<()> {
    chown(path, None, Some(gid))
}

/// # Errors
/// The caller may not.
pub fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(mode))
}

/// # Errors
/// The caller may not, or nothing is there.
pub fn set_path_mode(path: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(mode))
}

/// Replaces `to`, where it is there, at once.
///
/// # Errors
/// One of the two may not be changed, or the disk failed.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)
}

/// Makes the content of a file, or the names in a directory, outlast a power cut.
///
/// # Errors
/// It is not there, or the disk failed.
pub fn flush(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// The path without symlinks, as people write it.
///
/// # Errors
/// Nothing is there.
pub fn canonicalize(path: &Path) -> io::Result<PathBuf> {
    fs::canonicalize(path)
}

/// Where kubectl looks for `.kube`.
pub fn home() -> Option<PathBuf> {
    std::env::home_dir()
}

/// Whether the directory has a program of this name.
pub fn is_program(directory: &Path, name: &str) -> bool {
    let metadata = fs::metadata(directory.join(name));
    metadata.is_ok_and(|metadata| metadata.is_file() && metadata.mode() & 0o111 != 0)
}

/// Becomes the program, whose exit status and signals are then its own. Returns only where that failed.
pub fn run_instead(program: &mut Command) -> io::Error {
    program.exec()
}

/// As git and kubectl start an editor: `command` may contain flags.
pub fn in_editor(command: &str, file: &OsStr) -> Command {
    let mut sh = Command::new("sh");
    sh.args(["-c", &format!("{command} \"$1\""), "sh"]).arg(file);
    sh
}

/// Whether the terminal that the program runs in shows colours.
pub fn shows_colours() -> bool {
    shows(std::env::var_os("TERM").as_deref())
}

fn shows(term: Option<&OsStr>) -> bool {
    term.is_none_or(|term| term != "dumb")
}

/// Ends when the reader of a pipe has gone. What is no pipe, such as a file, has a reader always.
pub async fn stdout_reader_gone() {
    // Of other kernels' pipes it is not known that they tell, and a wrong answer would end a watch: there,
    // the next line that is written ends it.
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsFd as _;
        use tokio::io::Interest;
        use tokio::net::unix::pipe::Sender;

        // Nothing is written through it, so it need not be made non-blocking: other processes have that pipe open, too.
        let out = io::stdout().as_fd().try_clone_to_owned().and_then(Sender::from_owned_fd_unchecked);
        if let Ok(out) = out
            && out.ready(Interest::ERROR).await.is_ok()
        {
            return;
        }
    }
    std::future::pending::<()>().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_that_is_called_dumb_shows_no_colours() {
        for (term, expected) in [(Some("xterm-256color"), true), (Some("dumb"), false), (None, true)] {
            assert_eq!(shows(term.map(OsStr::new)), expected, "{term:?}");
        }
    }

    #[test]
    fn an_editor_may_have_flags_and_its_file_a_space() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a ü.yaml");
        assert!(in_editor("cp /dev/null", file.as_os_str()).status().unwrap().success());
        assert!(file.exists());
    }
}
