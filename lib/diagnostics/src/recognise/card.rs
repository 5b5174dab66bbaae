//! What the kernel says of the card and of disks.

use super::details::{Details, after};

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

pub(super) fn device_fails(line: &str) -> Option<Details> {
    let device = device(line).filter(|device| is_card(device))?;
    Some(Details::message(format!("reading from or writing to {device} fails")))
}

/// A file system of the card, or the card itself.
pub(super) fn of_a_card(line: &str) -> Option<Details> {
    device(line).is_some_and(is_card).then(Details::default)
}

/// The root file system, wherever it is: no name of a device at all counts as well.
pub(super) fn remounted(line: &str) -> Option<Details> {
    (!device(line).is_some_and(is_usb_disk)).then(Details::default)
}

pub(super) fn of_a_usb_disk(line: &str) -> Option<Details> {
    let device = device(line).filter(|device| is_usb_disk(device))?;
    Some(Details::message(format!("reading from or writing to {device} fails")))
}

/// The number of an error that the card gave.
pub(super) fn error_number(line: &str) -> Option<Details> {
    let device = line.find("mmcblk").map(|at| &line[at..])?;
    let (device, rest) = device.split_once(": error -")?;
    let is_device = device.len() <= 9 && device.bytes().all(|c| c.is_ascii_alphanumeric());
    let number = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    // 123: there is no card any more.
    (is_device && !number.is_empty() && number != "123")
        .then(|| Details::message(format!("the card {device} did not answer (error -{number})")))
}

/// On boards with Wi-Fi the second host is its chip.
pub(super) fn timeout(line: &str) -> Option<Details> {
    line.contains("mmc0: ").then(Details::default)
}

pub(super) fn initialising(line: &str) -> Option<Details> {
    let is_card = line.contains("initialising SD card") || line.contains("initialising MMC card");
    (line.contains("mmc0: error -") && is_card && !line.contains("error -123 ")).then(Details::default)
}

/// k3s' own words for a disk that it cannot read.
pub(super) fn of_the_datastore(line: &str) -> Option<Details> {
    (line.contains("level=") && !line.contains("app="))
        .then(|| Details::message("k3s cannot read or write its database on the card"))
}

/// A path of the first partition.
pub(super) fn boot_partition(line: &str) -> Option<Details> {
    let is_boot =
        ["'/boot/", " /boot/", "/boot/firmware/", "‘/boot/"].iter().any(|place| line.contains(place));
    is_boot.then(Details::default)
}

/// `NetworkManager` asks who is at the screen for another passphrase.
pub(super) fn wifi_secrets(line: &str) -> Option<Details> {
    // Of a VPN or of 802.1X, whose secrets are others.
    (!line.contains("(eth") && !line.contains("vpn")).then(Details::default)
}
