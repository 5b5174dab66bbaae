//! What is read of the host for this verdict.

use crate::{finding::Place, next_boot::NextBoot, text_file::TextFile};

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

/// All that a reader collects for this verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgroupFacts {
    /// `/proc/sys/kernel/osrelease`.
    pub kernel_release: Option<String>,
    /// The kernel's own word on the controller.
    pub controller: Controller,
    /// `/proc/cmdline`.
    pub running: Option<String>,
    /// What the next boot takes.
    pub next: NextBoot,
    /// `/boot/cmdline.txt` where nothing reads it, such as the stub of Raspberry Pi OS.
    pub stub: Option<TextFile>,
    /// `/etc/default/raspi-extra-cmdline`.
    pub extra: Option<TextFile>,
    /// Whether Debian's generator is there, which writes `cmdline.txt` again and appends that file.
    pub generator: bool,
    /// Where the boot partition is mounted, if it is mounted read-only.
    pub read_only_at: Option<String>,
}
