//! What is asked and what is answered.

use crate::{
    config_txt::Hardware,
    finding::{Place, Remedy},
    text_file::TextFile,
};

/// The file whose first line the kernel gets.
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
        place: Place,
        /// Why it is not known.
        why: String,
    },
    /// A file of the firmware's, with nothing but the kernel's parameters in it.
    Read(TextFile),
    /// A boot loader of its own configuration hands the parameters to the kernel.
    Loader(Box<Loader>),
}

/// A boot loader whose files others write: they are judged, and never changed here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loader {
    /// Such as `GRUB`.
    pub name: &'static str,
    /// Each line of parameters that it may take.
    pub lines: Vec<LoaderLine>,
    /// Why it may hand over more or other parameters than these.
    pub unsure: Option<(Place, String)>,
    /// What an administrator does to add `cgroup_enable=memory`, without the restart.
    pub to_enable: Remedy,
    /// What he does to take `cgroup_disable=memory` out.
    pub to_stop_disabling: Remedy,
}

/// One line of parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoaderLine {
    pub place: Place,
    pub parameters: String,
}

/// Another file that the next boot may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StagedFile {
    pub file: BootFile,
    /// The file that says so, and what it says.
    pub because: (Place, String),
    /// Whether it is tried for certain.
    pub is_certain: bool,
}

/// What is known of the machine besides its files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MachineFacts {
    pub hardware: Hardware,
    /// `/proc/cmdline`.
    pub running: Option<String>,
    /// Whether this boot is a trial: `/proc/device-tree/chosen/bootloader/tryboot`.
    pub is_trial: Option<bool>,
    /// The partition that the firmware booted from, and the one that is mounted for it; both counted from 1.
    pub booted_partition: Option<u32>,
    pub mounted_partition: Option<u32>,
    /// Whether the firmware loaded its files from a network.
    pub is_from_network: bool,
    /// What says that the mounted boot partition is not, or may not be, that of the device that the firmware booted
    /// from, and why.
    pub other_device: Option<(Place, String)>,
    /// Whether the partition is mounted at `/boot`, as before Debian 12, and nothing at `/boot/firmware`.
    pub is_mounted_at_old: bool,
    /// Where it is mounted, if neither there nor at `/boot/firmware`: Alpine has it below `/media`.
    pub mounted_elsewhere: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextBoot {
    /// The file that a regular start takes.
    pub file: BootFile,
    /// One more that is tried without anyone asking for it.
    pub staged: Option<StagedFile>,
    /// One more that a start takes for which someone asks: `reboot "0 tryboot"`.
    pub on_request: Option<BootFile>,
}

impl NextBoot {
    pub const fn only(file: BootFile) -> Self {
        Self { file, staged: None, on_request: None }
    }
}
