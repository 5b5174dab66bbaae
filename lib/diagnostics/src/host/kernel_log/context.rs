//! What earlier records say of a device, without which a later one cannot be judged: the slot of the card or of the
//! Wi-Fi, a disk at USB or in the network.

use std::collections::{BTreeMap, BTreeSet};

/// Devices of a kind that are remembered. A Pi has a handful.
const MOST: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Context {
    /// Slots of the MMC that hold no card: the Wi-Fi of a Pi is in one, and its time-outs are not those of a card.
    sdio: BTreeSet<String>,
    /// The card in each slot of the MMC.
    cards: BTreeMap<String, String>,
    /// USB ports with a disk.
    usb_disks: BTreeSet<String>,
    /// SCSI hosts whose disks are in the network, as those of Longhorn.
    in_network: BTreeSet<String>,
    /// The disk of each SCSI host.
    disks: BTreeMap<String, String>,
}

impl Context {
    /// Takes in what a record says of a device.
    pub(super) fn learn(&mut self, text: &str) {
        let Some((subject, rest)) = text.split_once(": ") else { return };
        if subject.starts_with("mmc") && rest.contains(" SDIO card at ") {
            keep(&mut self.sdio, subject);
        } else if subject.starts_with("mmcblk") {
            // `mmcblk0: mmc0:59b4 SD16G 14.9 GiB`
            if let Some((slot, _)) = rest.split_once(':').filter(|(slot, _)| slot.starts_with("mmc"))
                && (self.cards.len() < MOST || self.cards.contains_key(slot))
            {
                self.cards.insert(slot.to_owned(), subject.to_owned());
            }
        } else if let Some(host) = subject.strip_prefix("scsi host") {
            if rest.starts_with("iSCSI ") {
                keep(&mut self.in_network, host);
            } else if rest.starts_with("uas") || rest.starts_with("usb-storage") {
                self.in_network.remove(host);
            }
        } else if let Some(address) = subject.strip_prefix("sd ") {
            // `sd 0:0:0:0: [sda] Attached SCSI disk`
            let (host, _) = address.split_once(':').unwrap_or((address, ""));
            let disk = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
            if let Some((disk, _)) = disk
                && (self.disks.len() < MOST || self.disks.contains_key(host))
            {
                self.disks.insert(host.to_owned(), disk.to_owned());
            }
        } else if let Some(port) = subject.strip_prefix("usb-storage ") {
            if rest.starts_with("USB Mass Storage device detected") {
                keep(&mut self.usb_disks, port.split(':').next().unwrap_or(port));
            }
        } else if let Some(port) = subject.strip_prefix("usb ")
            && rest.starts_with("USB disconnect")
        {
            self.usb_disks.remove(port);
        }
    }

    /// Whether this slot of the MMC may hold the card.
    pub(super) fn may_be_card(&self, slot: &str) -> bool {
        !self.sdio.contains(slot)
    }

    /// The card in a slot; what is no slot is its own name.
    pub(super) fn card<'a>(&'a self, slot: &'a str) -> &'a str {
        self.cards.get(slot).map_or(slot, String::as_str)
    }

    /// Whether this disk, or the one that this partition is of, is in the network.
    pub(super) fn is_in_network(&self, disk: &str) -> bool {
        let disk = disk.trim_end_matches(|c: char| c.is_ascii_digit());
        let mut hosts = self.disks.iter().filter(|(_, known)| *known == disk);
        hosts.any(|(host, _)| self.in_network.contains(host))
    }

    /// Whether there is a disk at this USB port.
    pub(super) fn is_usb_disk(&self, port: &str) -> bool {
        self.usb_disks.contains(port)
    }

    /// The disk of a SCSI host.
    pub(super) fn disk_of(&self, host: &str) -> Option<&str> {
        self.disks.get(host).map(String::as_str)
    }
}

fn keep(known: &mut BTreeSet<String>, name: &str) {
    if known.len() < MOST {
        known.insert(name.to_owned());
    }
}
