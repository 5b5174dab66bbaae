//! How each trouble is reported: its code, its severity, its words, and how long it stays.

use super::{DAY, KMSG, Seen, trouble::Trouble};
use crate::finding::{Code, Finding, Place, Remedy, Severity};

impl Trouble {
    fn code(self, subject: &str) -> Code {
        match self {
            Self::DiskReset => Code::UsbDiskFails,
            Self::Io | Self::FileSystem | Self::ReadOnly if subject.starts_with("sd") => Code::UsbDiskFails,
            Self::CardSilent | Self::Io | Self::FileSystem | Self::ReadOnly => Code::CardFails,
            Self::Stuck => Code::CardSlow,
            Self::Memory | Self::MemoryLimit => Code::OutOfMemory,
            Self::UnderVoltage | Self::Heat => Code::UnderVoltage,
        }
    }

    /// How long after the last record it is a finding. A card announces its end by single errors, days apart.
    pub(super) const fn lasts(self) -> u64 {
        match self {
            Self::CardSilent | Self::Io | Self::FileSystem | Self::ReadOnly => 7 * DAY,
            _ => DAY,
        }
    }

    /// The reason by which node-problem-detector tells of it, where it does.
    pub(super) const fn reason(self) -> Option<&'static str> {
        match self {
            Self::CardSilent | Self::Io => Some("IOError"),
            Self::FileSystem => Some("Ext4Error"),
            Self::ReadOnly => Some("FilesystemIsReadOnly"),
            Self::Stuck => Some("TaskHung"),
            Self::Memory | Self::MemoryLimit => Some("OOMKilling"),
            Self::DiskReset | Self::UnderVoltage | Self::Heat => None,
        }
    }

    pub(super) fn message(self, subject: &str, is_mended: bool) -> String {
        match self {
            Self::CardSilent => format!("the card {subject} did not answer the kernel in time"),
            Self::Io => format!("reading or writing {subject} failed"),
            Self::FileSystem => format!("the kernel found errors in the file system on {subject}"),
            Self::ReadOnly if is_mended => {
                format!("the file system on {subject} was read-only after an error; it is mounted again")
            }
            Self::ReadOnly => {
                format!("the kernel made the file system on {subject} read-only after an error")
            }
            Self::DiskReset => format!("the USB disk {subject} was reset more than once: it did not answer"),
            Self::Stuck => format!("the process {subject} was blocked for minutes"),
            Self::Memory => format!("memory ran out, and the kernel killed {subject}"),
            Self::MemoryLimit => {
                format!("{subject} reached the memory limit, and the kernel killed a process")
            }
            Self::UnderVoltage => "the kernel reported under-voltage".to_owned(),
            Self::Heat => "the kernel reported that the processor is too hot".to_owned(),
        }
    }

    fn remedy(self, subject: &str) -> Option<Remedy> {
        match self {
            Self::Io if !subject.starts_with("mmc") => Some(
                Remedy::new("copy your data; check the disk's cable and supply, then replace the disk")
                    .command("sudo dmesg --level err,warn"),
            ),
            Self::Stuck => Some(
                Remedy::new(
                    "it usually waits for storage: look for card or disk errors at the same time, and move other writers off the card",
                )
                .command("sudo dmesg --level err,warn"),
            ),
            _ => None,
        }
    }

    pub(super) fn finding(self, subject: &str, seen: &Seen, date: impl Fn(u64) -> String) -> Finding {
        let finding = Finding::new(self.code(subject), self.message(subject, seen.is_mended))
            .saw(Place::file(KMSG), seen.evidence(date));
        let finding = match self.remedy(subject) {
            Some(remedy) => finding.remedy(remedy),
            None => finding,
        };
        if self == Self::ReadOnly && !seen.is_mended {
            return finding;
        }
        // It has happened, and the node runs on; only a file system without writes is still so.
        finding.milder(Severity::Warn)
    }
}
