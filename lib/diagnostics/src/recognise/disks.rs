//! Which disk a line of the kernel is about, and on which bus the disk is. The kernel says the bus once, when
//! it finds the SCSI host of a disk (`scsi host0: uas`), and later only the name (`sda`). A name alone says
//! nothing: `sda` is at USB on one board and at SATA on the next.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::Remedy;

/// Hosts, disks and ports that are remembered. A Pi has a handful.
const MOST: usize = 64;
/// Lines within which a message of a bus and one of a disk belong together.
const NEAR: u64 = 20;
/// Resets of a disk from which on they are a fault: some are reset once when they are found.
pub(crate) const RESETS: u32 = 3;

/// Lines that tell of a bus have one of these.
pub(super) const NEEDLES: &[&str] = &[
    "scsi host",
    ": [sd",
    "usb mass storage device detected",
    " usb device number ",
    ": usb disconnect",
    "xhci_hcd",
    ": status: { ",
    ": error: { ",
    ": failed command: ",
];

/// What the kernel calls a device that it resets.
const OF_USB: &str = " USB device number ";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bus {
    Usb,
    Sata,
    /// Of a virtual machine.
    Virtual,
    /// As those of Longhorn.
    Network,
}

/// What the log says of disks so far.
#[derive(Debug, Default)]
pub(crate) struct Disks {
    /// The bus of each SCSI host.
    buses: BTreeMap<String, Bus>,
    /// The SCSI host of each disk.
    hosts: BTreeMap<String, String>,
    /// USB ports with a disk.
    ports: BTreeSet<String>,
    /// How often the disk at a port was reset.
    resets: BTreeMap<String, u32>,
    /// The USB port at which a device was found last: the line of UAS does not say it.
    found: String,
    line: u64,
    /// The last log lines about a USB device that was reset or removed, and about an error of SATA.
    usb_error: Option<u64>,
    sata_error: Option<u64>,
    /// Where a disk said last that it does not know a command.
    refused: Option<u64>,
}

impl Disks {
    pub(super) fn next_line(&mut self) {
        self.line += 1;
    }

    /// Takes in what a line of the kernel says of a bus.
    pub(crate) fn learn(&mut self, line: &str) {
        let Some((subject, rest)) = body(line).split_once(": ") else { return };
        if let Some(host) = subject.strip_prefix("scsi host") {
            self.host(host, rest);
        } else if let Some(address) = subject.strip_prefix("sd ") {
            // `sd 0:0:0:0: [sda] Attached SCSI disk`
            let host = address.split(':').next().unwrap_or(address);
            if rest.contains("Sense Key : Illegal Request") {
                self.refused = Some(self.line);
            }
            if let Some((disk, _)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'))
                && is_device(disk)
                && (self.hosts.len() < MOST || self.hosts.contains_key(disk))
            {
                self.hosts.insert(disk.to_owned(), host.to_owned());
            }
        } else if let Some(port) = subject.strip_prefix("usb-storage ") {
            if rest.starts_with("USB Mass Storage device detected") {
                self.keep_port(port.split(':').next().unwrap_or(port));
            }
        } else if let Some(port) = subject.strip_prefix("usb ") {
            self.usb(port, rest);
        } else if subject.starts_with("xhci_hcd ") && (rest.contains("dead") || rest.contains("died")) {
            self.usb_error = Some(self.line);
        } else if subject
            .strip_prefix("ata")
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        {
            self.sata_error = Some(self.line);
        }
    }

    fn host(&mut self, host: &str, driver: &str) {
        let bus = match driver.split([' ', ':']).next().unwrap_or_default() {
            "uas" | "usb-storage" => Bus::Usb,
            "ahci" | "ata_piix" => Bus::Sata,
            name if ["ahci-", "sata_", "pata_"].iter().any(|kind| name.starts_with(kind)) => Bus::Sata,
            "Virtio" | "storvsc_host_t" | "VMware" => Bus::Virtual,
            "iSCSI" => Bus::Network,
            // `scsi host0: uas_eh_device_reset_handler start` and others, which find nothing.
            _ => return,
        };
        if bus == Bus::Usb {
            let port = driver.strip_prefix("usb-storage ").and_then(|port| port.split(':').next());
            self.keep_port(&port.map_or_else(|| self.found.clone(), str::to_owned));
        }
        if self.buses.len() < MOST || self.buses.contains_key(host) {
            self.buses.insert(host.to_owned(), bus);
        }
    }

    fn usb(&mut self, port: &str, rest: &str) {
        if rest.starts_with("USB disconnect") {
            self.ports.remove(port);
            self.resets.remove(port);
            self.usb_error = Some(self.line);
        } else if rest.starts_with("reset ") {
            self.usb_error = Some(self.line);
            if rest.contains(OF_USB) && self.ports.contains(port) {
                let count = self.resets.entry(port.to_owned()).or_default();
                *count = count.saturating_add(1);
            }
        } else if rest.starts_with("new ") && port.len() <= 32 {
            port.clone_into(&mut self.found);
        }
    }

    fn keep_port(&mut self, port: &str) {
        if self.ports.len() < MOST && !port.is_empty() {
            self.ports.insert(port.to_owned());
        }
    }

    /// The bus of a disk or of a partition, if the log has it.
    pub(crate) fn bus(&self, device: &str) -> Option<Bus> {
        let host = self.hosts.get(whole(device));
        host.and_then(|host| self.buses.get(host)).copied().or_else(|| self.nearby())
    }

    /// The bus of a SCSI address: `1:0:0:0`.
    pub(super) fn bus_of_address(&self, address: &str) -> Option<Bus> {
        let host = address.split(':').next().unwrap_or(address);
        self.buses.get(host).copied().or_else(|| self.nearby())
    }

    /// Whether a disk refused a command in one of the last lines: the error of the block layer comes after the reason.
    pub(super) fn has_refused(&self) -> bool {
        self.refused.is_some_and(|at| self.line - at <= 4)
    }

    /// What lines shortly before tell: who pastes an error often leaves out how the disk was found.
    fn nearby(&self) -> Option<Bus> {
        let near = |at: Option<u64>| at.filter(|at| self.line - at <= NEAR);
        match (near(self.sata_error), near(self.usb_error)) {
            (Some(sata), Some(usb)) if usb > sata => Some(Bus::Usb),
            (Some(_), _) => Some(Bus::Sata),
            (None, usb) => usb.map(|_| Bus::Usb),
        }
    }

    /// The USB port with a disk that was reset. The kernel says so of every device.
    pub(crate) fn reset_port<'a>(&self, line: &'a str) -> Option<&'a str> {
        let (port, rest) = body(line).strip_prefix("usb ")?.split_once(": reset ")?;
        (rest.contains(OF_USB) && self.ports.contains(port)).then_some(port)
    }

    /// How often the disk at a port was reset since it was found.
    pub(super) fn resets(&self, port: &str) -> u32 {
        self.resets.get(port).copied().unwrap_or_default()
    }

    /// The disk of a SCSI host.
    pub(crate) fn disk_of(&self, host: &str) -> Option<&str> {
        self.hosts.iter().find(|(_, known)| *known == host).map(|(disk, _)| disk.as_str())
    }
}

/// What the kernel says, without what dmesg, syslog or the journal put in front.
pub(super) fn body(line: &str) -> &str {
    let line = line.split_once("kernel: ").map_or(line, |(_, rest)| rest).trim_start();
    match line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((_, rest)) => rest.trim_start(),
        None => line,
    }
}

/// The first word that is the name of a disk, of a partition, or of a slot of the MMC.
pub(crate) fn device(line: &str) -> Option<&str> {
    body(line).split(|c: char| !c.is_ascii_alphanumeric()).find(|word| is_device(word))
}

fn is_device(word: &str) -> bool {
    let after = |prefix: &str| word.strip_prefix(prefix).filter(|_| word.len() <= 16);
    let numbers = |rest: &str, between: &str| {
        let mut parts = rest.splitn(2, between);
        parts.next().is_some_and(is_number) && parts.next().is_none_or(is_number)
    };
    if let Some(rest) = after("mmcblk") {
        return numbers(rest, "p");
    }
    if let Some(rest) = after("mmc") {
        return is_number(rest);
    }
    if let Some(rest) = after("nvme") {
        let Some((controller, rest)) = rest.split_once('n') else { return false };
        return is_number(controller) && numbers(rest, "p");
    }
    let disk = after("sd").or_else(|| after("vd"));
    disk.is_some_and(|rest| {
        let letters = rest.trim_end_matches(|c: char| c.is_ascii_digit());
        (1..=2).contains(&letters.len()) && letters.bytes().all(|c| c.is_ascii_lowercase())
    })
}

/// The disk of a partition.
pub(crate) fn whole(device: &str) -> &str {
    let is_numbered = device.starts_with("mmcblk") || device.starts_with("nvme");
    match device.rsplit_once('p') {
        Some((disk, part)) if is_numbered && is_number(part) => disk,
        None | Some(_) if is_numbered || device.starts_with("mmc") => device,
        _ => device.trim_end_matches(|c: char| c.is_ascii_digit()),
    }
}

pub(crate) fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit())
}

/// What helps a disk that is neither the card nor known to be at USB.
pub(super) fn remedy(device: &str, bus: Option<Bus>) -> Remedy {
    let disk = whole(device);
    let smart = format!("sudo smartctl -a /dev/{disk}   # package smartmontools");
    if bus.is_some() || disk.starts_with("nvme") {
        return Remedy::new("copy your data; check the disk's cable and supply, then replace the disk")
            .command(smart)
            .command("sudo dmesg --level err,warn");
    }
    Remedy::new(format!(
        "copy your data. The first command says how {disk} is connected. `usb`: use a powered hub or another cable \
         (H-26). Anything else: check its cable and supply, and replace it if it reports errors"
    ))
    .command(format!("lsblk -o NAME,TRAN,MODEL /dev/{disk}"))
    .command(smart)
    .command("sudo dmesg --level err,warn")
}
