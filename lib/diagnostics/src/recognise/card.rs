//! What the kernel says of the card and of disks.

use super::told::{Told, after};

/// A card, or what is built in like one.
fn is_card(device: &str) -> bool {
    device.starts_with("mmcblk") || device.starts_with("nvme")
}

/// A disk by USB on a board like ours.
fn is_usb_disk(device: &str) -> bool {
    device.strip_prefix("sd").is_some_and(|rest| rest.starts_with(|letter: char| letter.is_ascii_lowercase()))
}

/// The device that a message of a driver or of a file system is about.
fn device(line: &str) -> Option<&str> {
    const END: &[char] = &[' ', ',', ')', ':', '.', '"'];
    [
        "error, dev ",
        "error on device ",
        "error on dev ",
        "(device ",
        "EXT4-fs (",
        "on device ",
        "superblock for ",
    ]
    .into_iter()
    .find_map(|before| after(line, before, END))
    .or_else(|| line.find("mmcblk").and_then(|at| line[at..].split(END).next()))
}

pub(super) fn device_fails(line: &str) -> Option<Told> {
    let device = device(line).filter(|device| is_card(device))?;
    Some(Told::message(format!("reading from or writing to {device} fails")))
}

/// A file system of the card, or the card itself.
pub(super) fn of_a_card(line: &str) -> Option<Told> {
    device(line).is_some_and(is_card).then(Told::default)
}

/// The root file system, wherever it is: no name of a device at all counts as well.
pub(super) fn remounted(line: &str) -> Option<Told> {
    (!device(line).is_some_and(is_usb_disk)).then(Told::default)
}

pub(super) fn of_a_usb_disk(line: &str) -> Option<Told> {
    let device = device(line).filter(|device| is_usb_disk(device))?;
    Some(Told::message(format!("reading from or writing to {device} fails")))
}

/// The number of an error that the card gave.
pub(super) fn error_number(line: &str) -> Option<Told> {
    let device = line.find("mmcblk").map(|at| &line[at..])?;
    let (device, rest) = device.split_once(": error -")?;
    let is_device = device.len() <= 9 && device.bytes().all(|c| c.is_ascii_alphanumeric());
    let number = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    // 123: there is no card any more.
    (is_device && !number.is_empty() && number != "123")
        .then(|| Told::message(format!("the card {device} did not answer (error -{number})")))
}

/// On boards with Wi-Fi the second host is its chip.
pub(super) fn timeout(line: &str) -> Option<Told> {
    line.contains("mmc0: ").then(Told::default)
}

pub(super) fn initialising(line: &str) -> Option<Told> {
    let is_card = line.contains("initialising SD card") || line.contains("initialising MMC card");
    (line.contains("mmc0: error -") && is_card && !line.contains("error -123 ")).then(Told::default)
}

/// k3s' own words for a disk that it cannot read.
pub(super) fn of_the_datastore(line: &str) -> Option<Told> {
    (line.contains("level=") && !line.contains("app="))
        .then(|| Told::message("k3s cannot read or write its database on the card"))
}

/// A path of the first partition.
pub(super) fn boot_partition(line: &str) -> Option<Told> {
    let is_boot =
        ["'/boot/", " /boot/", "/boot/firmware/", "‘/boot/"].iter().any(|place| line.contains(place));
    is_boot.then(Told::default)
}

/// `NetworkManager` asks who is at the screen for another passphrase.
pub(super) fn wifi_secrets(line: &str) -> Option<Told> {
    // Of a VPN or of 802.1X, whose secrets are others.
    (!line.contains("(eth") && !line.contains("vpn")).then(Told::default)
}
