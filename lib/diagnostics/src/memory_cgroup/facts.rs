//! What is read of the host for this verdict.

use crate::{finding::Place, text_file::TextFile};

/// Where the running kernel's parameters are.
pub const PROC_CMDLINE: &str = "/proc/cmdline";
/// What Debian's generator appends to each `cmdline.txt` it writes.
pub const EXTRA_CMDLINE: &str = "/etc/default/raspi-extra-cmdline";

/// Whether the running kernel offers the memory controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Controller {
    /// It does; the text says what was seen.
    Present(Place, String),
    Absent(Place, String),
    /// Nothing could be read that says so.
    Unknown(String),
}

/// The file whose first line the firmware hands to the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BootFile {
    /// There is none: not a Pi, or the boot partition is not mounted.
    Missing,
    /// It is there and is no readable text.
    Unreadable {
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// Which file it is depends on what only the firmware knows.
    Undecided {
        /// What names it, in `config.txt`.
        place: Place,
        /// Why it is not known.
        why: String,
    },
    Read(TextFile),
}

/// All that a reader collects for this verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// `/proc/sys/kernel/osrelease`.
    pub kernel_release: Option<String>,
    /// The kernel's own word on the controller.
    pub controller: Controller,
    /// `/proc/cmdline`.
    pub running: Option<String>,
    /// The boot file in force.
    pub boot_file: BootFile,
    /// `/boot/cmdline.txt` where it is the stub that nothing reads.
    pub stub: Option<TextFile>,
    /// `/etc/default/raspi-extra-cmdline`.
    pub extra: Option<TextFile>,
    /// Whether Debian's generator is there, which writes `cmdline.txt` again and appends that file.
    pub generator: bool,
}
