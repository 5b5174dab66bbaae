//! What differs between Linux, macOS and Windows: who may read a file, how a directory is flushed, where home is, how
//! a program takes over, what a console shows.
//!
//! The other modules that programs on laptops use ask here, and none of them names a system. What systems decide alike
//! is decided by pure functions ([`windows_names`]), which are tested on each of them. Failure: the operating system's
//! own error, as its kind.

mod owner;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;
pub mod windows_names;

use std::ffi::OsStr;
use std::io::IsTerminal;

pub use self::owner::FileOwner;
#[cfg(unix)]
use self::unix as here;
#[cfg(windows)]
use self::windows as here;
pub use here::{
    EDITOR, SSH_MISSING, Signals, caller, canonicalize, create_directories, create_directory, create_new,
    flush, give, give_path, home, in_editor, is_program, open_or_create, owner, possible, private_note,
    rename, run_instead, set_mode, set_path_mode, shows_colours, stdout_reader_gone,
};

/// Whether k3s can run on this system: what lies at the paths of a node elsewhere is not a node's. On Windows
/// any account may make `C:\etc`.
pub const CAN_BE_NODE: bool = cfg!(target_os = "linux");

/// Whether to colour what goes to `out`: a terminal that shows colours, unless the user asked for none.
pub fn colours(out: &impl IsTerminal) -> bool {
    let is_asked_not_to = std::env::var_os("NO_COLOR");
    are_wanted(out.is_terminal(), is_asked_not_to.as_deref()) && shows_colours()
}

/// `no_color` is `NO_COLOR`, which counts where it is not empty (no-color.org).
fn are_wanted(is_terminal: bool, no_color: Option<&OsStr>) -> bool {
    is_terminal && no_color.is_none_or(OsStr::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_and_for_who_did_not_refuse_them() {
        for (is_terminal, no_color, expected) in
            [(true, None, true), (true, Some(""), true), (true, Some("1"), false), (false, None, false)]
        {
            assert_eq!(are_wanted(is_terminal, no_color.map(OsStr::new)), expected, "{no_color:?}");
        }
    }
}
