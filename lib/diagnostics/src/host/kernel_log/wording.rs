//! How each trouble is reported: its code, its severity, its words, and how long it stays.

use super::{DAY, KMSG, Occurrences, trouble::KernelProblem};
use crate::finding::{Finding, Place, Severity};

impl KernelProblem {
    /// How long after the last record it is a finding. A card announces its end by single errors, days apart.
    pub(super) const fn lasts(self) -> u64 {
        match self {
            Self::CardSilent | Self::Io | Self::FileSystem | Self::ReadOnly => 7 * DAY,
            _ => DAY,
        }
    }

    /// The reason under which node-problem-detector reports it; of what it does not know, one in its style.
    pub(super) const fn reason(self) -> Option<&'static str> {
        match self {
            Self::CardSilent | Self::Io => Some("IOError"),
            Self::FileSystem => Some("Ext4Error"),
            Self::ReadOnly => Some("FilesystemIsReadOnly"),
            Self::Stuck => Some("TaskHung"),
            Self::Memory | Self::MemoryLimit => Some("OOMKilling"),
            Self::DiskReset => Some("USBDiskReset"),
            Self::UsbStopped => Some("USBControllerStopped"),
            Self::UnderVoltage => Some("UndervoltageDetected"),
            Self::OverCurrent => Some("USBOverCurrent"),
            Self::Heat => Some("CPUOverheated"),
            // The kernel handles it by itself.
            Self::CardQueue => None,
        }
    }

    pub(super) fn message(self, subject: &str, is_mended: bool) -> String {
        match self {
            Self::CardSilent => format!("the card {subject} did not answer the kernel in time"),
            Self::CardQueue => format!("the card {subject} lost commands that the kernel had queued"),
            Self::Io => format!("reading or writing {subject} failed"),
            Self::FileSystem => format!("the kernel found errors in the file system on {subject}"),
            Self::ReadOnly if is_mended => {
                format!("the file system on {subject} was read-only after an error; it is mounted again")
            }
            Self::ReadOnly => {
                format!("the kernel made the file system on {subject} read-only after an error")
            }
            Self::DiskReset => format!("the USB disk {subject} was reset more than once: it did not answer"),
            Self::UsbStopped => {
                "the USB controller stopped answering, and with it all that is connected to it".to_owned()
            }
            Self::Stuck => format!("the process {subject} was blocked for minutes"),
            Self::Memory => format!("memory ran out, and the kernel killed {subject}"),
            Self::MemoryLimit => {
                format!("{subject} reached the memory limit, and the kernel killed a process")
            }
            Self::UnderVoltage => "the kernel reported under-voltage".to_owned(),
            Self::OverCurrent => {
                "USB ports were turned off, because what is connected draws too much current".to_owned()
            }
            Self::Heat => "the kernel reported that the processor is too hot".to_owned(),
        }
    }

    pub(super) fn finding(self, subject: &str, seen: &Occurrences, date: impl Fn(u64) -> String) -> Finding {
        let finding = Finding::new(seen.code, self.message(subject, seen.is_mended))
            .saw(Place::file(KMSG), seen.evidence(date));
        let finding = match &seen.remedy {
            Some(remedy) => finding.remedy(remedy.clone()),
            None => finding,
        };
        if self == Self::ReadOnly && !seen.is_mended {
            return finding;
        }
        // It has happened, and the node runs on; only a file system without writes is still so.
        finding.milder(Severity::Warn)
    }
}
