//! What the kernel says of the card and of disks.

use super::context::LogContext;
use super::details::{Details, after, has_any, is_plain};
use super::disks::{self, Bus};

/// The card, or a disk that has a driver of its own.
fn is_card(device: &str) -> bool {
    device.starts_with("mmc") || device.starts_with("nvme")
}

/// A disk that the kernel takes for one of SCSI, wherever it is.
fn is_scsi(device: &str) -> bool {
    device.starts_with("sd")
}

/// The kernel asked for what the disk need not be able to do, and does without it.
fn is_optional(line: &str) -> bool {
    has_any(line, &["(DISCARD)", "(WRITE_ZEROES)", "op 0x3:", "op 0x9:"])
}

/// A command that the disk does not know, and nothing that it failed at.
fn is_refused(line: &str, context: &LogContext) -> bool {
    is_optional(line) || line.contains("critical target error") && context.disks().has_refused()
}

/// The device of a line about the card, or about a disk that is neither at USB nor in the network. Windows takes the
/// disks of WSL away while they are mounted.
fn card_or_disk<'a>(line: &'a str, context: &LogContext) -> Option<(&'a str, Option<Bus>)> {
    let device = disks::device(line).filter(|_| !is_refused(line, context))?;
    if is_card(device) {
        return Some((device, None));
    }
    let bus = context.disks().bus(device);
    let is_own = !matches!(bus, Some(Bus::Usb | Bus::Network)) && !context.is_of_wsl();
    (is_scsi(device) && is_own).then_some((device, bus))
}

/// The remedy of the row is for a card.
fn of_device(details: Details, device: &str, bus: Option<Bus>) -> Details {
    if device.starts_with("mmc") { details } else { details.remedy(disks::remedy(device, bus)) }
}

pub(super) fn device_fails(line: &str, context: &LogContext) -> Option<Details> {
    let (device, bus) = card_or_disk(line, context)?;
    Some(of_device(Details::message(format!("reading from or writing to {device} fails")), device, bus))
}

/// A buffer is lost with each stick that is unplugged; of a card it is news.
pub(super) fn buffer(line: &str, context: &LogContext) -> Option<Details> {
    disks::device(line).is_some_and(is_card).then(|| device_fails(line, context))?
}

/// The medium itself, whatever the bus: no cable helps.
pub(super) fn medium(line: &str) -> Option<Details> {
    let device = disks::device(line)?;
    let disk = disks::whole(device);
    Some(
        Details::message(format!("{device} has blocks that cannot be read or written any more"))
            .advice("copy your data now, and replace the disk or card")
            .command("sudo weaver node backup /mnt/usb --volumes")
            .command(format!("sudo smartctl -a /dev/{disk}   # package smartmontools")),
    )
}

/// A file system of the card or of a disk, or the card itself.
pub(super) fn of_a_card(line: &str, context: &LogContext) -> Option<Details> {
    let (device, bus) = card_or_disk(line, context)?;
    if device.starts_with("mmc") {
        return Some(Details::default());
    }
    Some(of_device(Details::message(format!("the file system on {device} has errors")), device, bus))
}

/// The root file system, wherever it is: no name of a device at all counts as well.
pub(super) fn remounted(line: &str, context: &LogContext) -> Option<Details> {
    let Some(device) = disks::device(line) else { return Some(Details::default()) };
    if !is_scsi(device) {
        return Some(Details::default());
    }
    let (device, bus) = card_or_disk(line, context)?;
    Some(of_device(Details::message(format!("the file system on {device} was made read-only")), device, bus))
}

/// What the kernel recorded in the file system at an earlier start.
pub(super) fn recorded(line: &str, context: &LogContext) -> Option<Details> {
    let (device, bus) = card_or_disk(line, context)?;
    let message = format!("the file system on {device} had errors that no one has repaired");
    Some(
        of_device(Details::message(message), device, bus)
            .advice(
                "have it checked at the next start; if errors come back, save the state of k3s and replace the card or disk",
            )
            .command("sudo weaver node backup /mnt/usb --volumes")
            .command("# at the end of the single line in /boot/firmware/cmdline.txt, for one start: fsck.mode=force fsck.repair=yes"),
    )
}

pub(super) fn of_a_usb_disk(line: &str, context: &LogContext) -> Option<Details> {
    let device = disks::device(line).filter(|device| is_scsi(device) && !is_refused(line, context))?;
    (context.disks().bus(device) == Some(Bus::Usb))
        .then(|| Details::message(format!("reading from or writing to {device} fails")))
}

/// `sd 1:0:0:0: Device offlined - not ready after error recovery`
pub(super) fn offlined(line: &str, context: &LogContext) -> Option<Details> {
    let address = disks::body(line).strip_prefix("sd ")?.split(": ").next()?;
    (context.disks().bus_of_address(address) == Some(Bus::Usb))
        .then(|| Details::message("the kernel gave up a USB disk that did not answer"))
}

pub(super) fn usb_controller(_: &str) -> Details {
    Details::message("the USB controller of the board no longer answers, and with it all that is connected")
        .advice("update the firmware of the board, use a stronger supply or a powered hub, and reboot")
        .command("sudo rpi-eeprom-update")
        .command("vcgencmd get_throttled")
}

/// An SSD of its own connector: the disk does not wake up from saving power, or its cable is bad.
pub(super) fn nvme_down(_: &str) -> Details {
    Details::message("the NVMe disk no longer answers")
        .advice(
            "check the ribbon cable and the supply; if it comes back, turn off power saving with the parameter below and reboot",
        )
        .command("# at the end of the single line in /boot/firmware/cmdline.txt:")
        .command("# nvme_core.default_ps_max_latency_us=0 pcie_aspm=off")
}

/// A disk that does not wake up; a port of the bus says the same of what is not there.
pub(super) fn nvme_without_power(line: &str) -> Option<Details> {
    disks::body(line).starts_with("nvme ").then(|| nvme_down(line))
}

/// Requests that the disk did not answer in time. One may be slow; a controller that is reset was silent.
pub(super) fn nvme_silent(line: &str) -> Option<Details> {
    disks::body(line).starts_with("nvme nvme").then(|| nvme_down(line))
}

/// A file system's own word for errors, of a path that is the node's and not a volume's.
pub(super) fn unclean(line: &str) -> Option<Details> {
    let is_ours = has_any(
        line,
        &["/var/lib/rancher/", "/var/lib/kubelet/", "/var/lib/docker/", "/var/lib/containerd/"],
    );
    (is_ours && !line.contains("/volumes/"))
        .then(|| Details::message("the file system under the containers has errors"))
}

/// The number of an error that the card gave.
pub(super) fn error_number(line: &str) -> Option<Details> {
    let device = line.find("mmcblk").map(|at| &line[at..])?;
    let (device, rest) = device.split_once(": error -").or_else(|| device.split_once(": unknown error -"))?;
    let is_device = device.len() <= 9 && device.bytes().all(|c| c.is_ascii_alphanumeric());
    let number = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    // 123: there is no card any more.
    (is_device && !number.is_empty() && number != "123")
        .then(|| Details::message(format!("the card {device} did not answer (error -{number})")))
}

/// The card did not answer a command of the driver: `mmcblk0: timed out sending r/w cmd command, card status 0x900`
pub(super) fn no_response(line: &str) -> Option<Details> {
    disks::device(line)
        .filter(|device| device.starts_with("mmcblk") && line.contains("card status"))
        .map(|device| Details::message(format!("the card {device} did not answer")))
}

/// What the card sent was garbled: `mmcblk0: response CRC error sending r/w cmd command, card status 0x900`
pub(super) fn garbled(line: &str) -> Option<Details> {
    disks::device(line)
        .filter(|device| device.starts_with("mmcblk") && line.contains("card status"))
        .map(|device| Details::message(format!("the answers of the card {device} are garbled (CRC error)")))
}

/// ext4 that could not write what a program had handed over; a disk that is full says the same, by its number.
pub(super) fn data_lost(line: &str, context: &LogContext) -> Option<Details> {
    let is_full = has_any(line, &["with error 28", "error -28"]);
    (!is_full).then(|| of_a_card(line, context))?
}

/// A USB disk that is reset again and again, which costs its port a second each time.
pub(super) fn usb_reset(line: &str, context: &LogContext) -> Option<Details> {
    let port = context.disks().reset_port(line)?;
    (context.disks().resets(port) >= disks::RESETS).then(|| {
        Details::message(format!("the USB disk at port {port} was reset more than once: it did not answer"))
            .hint()
    })
}

/// The kernel or its initramfs at the start, without the file system that `root=` names.
pub(super) fn no_root(_: &str) -> Details {
    Details::message(
        "the board does not start: its root file system is not found, or cannot be read from the card or disk",
    )
    .advice(
        "put the card into another computer. `root=` in cmdline.txt on its first partition has to name the second one: a \
         copy of a card may have another PARTUUID. If it does, check the file system: write the card again if it was not \
         written completely, and replace it if errors come back",
    )
    .command("lsblk -o NAME,FSTYPE,LABEL,PARTUUID")
    .command("grep -o 'root=[^ ]*' /media/*/bootfs/cmdline.txt")
    .command("# with the second partition of the card, not mounted: sudo fsck -f /dev/DEVICE")
    .hint()
}

/// The kernel that mounted its root file system, and finds nothing to start on it, or whose first program ended.
/// astroberry-server#22, raspberrypi/linux#3522
pub(super) fn no_init(_: &str) -> Details {
    Details::message(
        "the board does not start: what runs first on its root file system is missing, damaged or of another system",
    )
    .advice(
        "put the card into another computer and check its second partition: write the card again if it was not written \
         completely, or if files are missing, and replace it if errors come back. `init=` in cmdline.txt, where it is set, has to \
         name a program that is there",
    )
    .command("grep -o 'init=[^ ]*' /media/*/bootfs/cmdline.txt")
    .command("# with the second partition of the card, not mounted: sudo fsck -f /dev/DEVICE")
    .hint()
}

/// A file system that the check at the start did not dare to repair.
pub(super) fn unrepaired(line: &str) -> Option<Details> {
    let before = line.get(..line.to_ascii_lowercase().find("unexpected inconsistency")?)?;
    let name = before.trim_end_matches([':', ' ']).rsplit(' ').next().filter(|name| is_plain(name))?;
    // A volume of a pod is at a device of its own.
    let is_volume = has_any(name, &["/longhorn/", "/mapper/", ".img"]);
    (!is_volume).then(|| {
        Details::message(format!("the file system on {name} has errors that the check at the start did not repair"))
            .advice(
                "save what you need, then have it repaired while it is not mounted: the root file system at the next start; \
                 if errors come back, replace the card or disk",
            )
            .command("# at the end of the single line in /boot/firmware/cmdline.txt, for one start: fsck.mode=force fsck.repair=yes")
            .command("sudo reboot")
    })
}

/// The slot of the card: another one has the chip of the Wi-Fi.
fn is_slot_of_card(line: &str, context: &LogContext) -> bool {
    disks::device(line)
        .filter(|slot| !slot.starts_with("mmcblk"))
        .is_some_and(|slot| line.contains(&format!("{slot}: ")) && context.slots().has_card(slot))
}

/// What the kernel's driver says of commands alone: it sends them to a slot without a card, too, to find one.
pub(crate) const COMMAND_UNANSWERED: &str = "Timeout waiting for hardware cmd interrupt";

pub(super) fn timeout(line: &str, context: &LogContext) -> Option<Details> {
    is_slot_of_card(line, context).then(|| {
        let is_in_doubt =
            |slot: &&str| line.contains(COMMAND_UNANSWERED) && !context.slots().knows_card(slot);
        disks::device(line).filter(is_in_doubt).map_or_else(Details::default, perhaps_empty)
    })
}

/// A board that starts from another disk. raspberrypi/linux#2392 and #3092, raspberrypi/firmware#1556
fn perhaps_empty(slot: &str) -> Details {
    Details::message(format!("the slot {slot} does not answer: there is no card in it, or its card fails"))
        .advice(
            "of a board that runs without a card this is no fault: the parameter below has the kernel look for one at its start \
             only. If there is a card, save the state of k3s to another disk and replace it",
        )
        .command("lsblk -o NAME,TRAN,MOUNTPOINTS")
        .command("# in config.txt: dtparam=sd_poll_once")
        .command("sudo weaver node backup /mnt/usb --volumes")
        .hint()
}

pub(super) fn command_unfinished(line: &str) -> Option<Details> {
    (line.contains("sdhost-bcm2835") && line.contains(" not complete")).then(Details::default)
}

pub(super) fn initialising(line: &str, context: &LogContext) -> Option<Details> {
    let is_card = line.contains("initialising SD card") || line.contains("initialising MMC card");
    (line.contains(": error -") && is_card && !line.contains("error -123 "))
        .then(|| timeout(line, context))?
}

/// k3s' own words for a disk that it cannot read.
pub(super) fn of_the_datastore(line: &str) -> Option<Details> {
    let is_of_kine = has_any(line, &["error in txn", "kine", "/registry/", "k3s["]);
    // SQLite's word too for a file that was deleted under it: k3s-io/kine#135.
    let is_of_the_disk = !line.contains("no such file or directory");
    (is_of_kine && is_of_the_disk)
        .then(|| Details::message("k3s cannot read or write its database on the card"))
}

/// A path of the first partition.
pub(super) fn boot_partition(line: &str) -> Option<Details> {
    let is_boot = has_any(line, &["'/boot/", " /boot/", "/boot/firmware/", "‘/boot/"]);
    is_boot.then(Details::default)
}

/// Since Debian 12 it belongs at /boot/firmware, also on a system that was upgraded. DietPi#6767, RPi-Distro/repo#355
pub(super) fn boot_not_mounted(_: &str) -> Details {
    not_mounted(
        "/boot/firmware",
        ". Where it is mounted at /boot, as on a system of before Debian 12, move it to /boot/firmware",
    )
}

fn not_mounted(at: &str, moved: &str) -> Details {
    Details::message("the boot partition is not mounted")
        .advice(format!(
            "compare its line in /etc/fstab with the partitions, correct the PARTUUID or UUID there, and mount it{moved}"
        ))
        .command("lsblk -o NAME,FSTYPE,LABEL,UUID,PARTUUID,MOUNTPOINTS")
        .command("grep -w /boot /etc/fstab")
        .command(format!("sudo mount {at}"))
}

/// systemd, which then gives up the start, of a mount that fstab has. lukechilds/dockerpi#30
pub(super) fn boot_missing(line: &str) -> Option<Details> {
    let what = after(line, "ependency failed for ", &['\n'])?.trim_end().trim_end_matches('.');
    // With the name of the unit in front, or without.
    let mount = what.rsplit_once(" - ").map_or(what, |(_, mount)| mount);
    ["/boot", "/boot/firmware"].contains(&mount).then(|| not_mounted(mount, ""))
}

/// A node that was in the network has the right key: then the radio is disturbed, or the access point starts again.
pub(super) fn wifi_key(_: &str, context: &LogContext) -> Option<Details> {
    (!context.has_joined_wifi()).then(Details::default)
}

/// A key that was changed is refused at each try.
#[expect(clippy::unnecessary_wraps, reason = "the table's readers of what repeats return an Option")]
pub(super) fn wifi_key_again(_: &str) -> Option<Details> {
    Some(Details::default())
}

/// `NetworkManager` asks who is at the screen for another passphrase.
pub(super) fn wifi_secrets(line: &str) -> Option<Details> {
    // Of a VPN or of 802.1X, whose secrets are others.
    (!line.contains("(eth") && !line.contains("vpn")).then(Details::default)
}

/// No access point of that name answers, again and again.
pub(super) fn wifi_absent(line: &str) -> Option<Details> {
    line.contains("config -> failed").then(|| wifi_unknown(line))
}

pub(super) fn wifi_unknown(_: &str) -> Details {
    Details::message("no Wi-Fi network of that name is in reach")
        .advice(
            "compare the name to the letter; the country must be set, and a Pi 3B or Zero knows 2.4 GHz only; see what is \
             in reach",
        )
        .command("sudo nmcli device wifi list --rescan yes")
        .command("sudo iw reg get")
}

/// An access point that is too far away or too busy, again and again.
pub(super) fn wifi_slow(line: &str) -> Option<Details> {
    line.contains("failing activation").then(|| {
        Details::message(
            "the access point does not answer in time: it is far away, or the radio is disturbed",
        )
        .advice("move the Pi or the access point, use the other band, or a cable")
        .command("sudo nmcli device wifi list --rescan yes")
    })
}

/// nmcli of a network that did not let the node in. supervisor#3999, bookworm-feedback#283
pub(super) fn wifi_not_in_time(line: &str) -> Option<Details> {
    line.contains("onnection activation failed").then(|| {
        Details::message("the network did not let this node in in time")
            .advice(
                "its passphrase or its security is another than that of the connection (WPA3, none), it is far away, or the chip \
                 cannot do what the connection asks for, such as ad hoc",
            )
            .command("sudo nmcli device wifi list --rescan yes")
            .command("sudo journalctl -b -u NetworkManager | tail -n 30")
            .hint()
    })
}

/// A radio that is switched off, as Raspberry Pi OS does until the country is known: a node with a cable needs none.
pub(super) fn wifi_off(_: &str) -> Details {
    Details::message("the Wi-Fi is switched off (rfkill), as Raspberry Pi OS does until its country is set")
        .advice(
            "nothing, if the node uses a cable. Else set the country: `country` in section [wifi] of weaver.toml, or with the \
             first command; then switch the radio on",
        )
        .command("sudo raspi-config nonint do_wifi_country DE")
        .command("sudo rfkill unblock wifi")
        .hint()
}

/// The chip of a Pi, whose driver loads it again, or does not. raspberrypi/linux#3155, raspberrypi/firmware#1403
pub(super) fn wifi_firmware(_: &str) -> Details {
    Details::message("the firmware of the Wi-Fi chip has stopped: the node is off the Wi-Fi until it is loaded again")
        .advice(
            "reboot, and install a newer firmware, if there is one; if it stops again, turn power saving of the Wi-Fi off, or use \
             a cable",
        )
        .command("sudo apt update && sudo apt install firmware-brcm80211")
        .command("sudo nmcli connection modify CONNECTION 802-11-wireless.powersave 2")
        .command("sudo reboot")
        .hint()
}

/// The card takes several commands at once and loses some.
pub(super) fn queueing(line: &str, context: &LogContext) -> Option<Details> {
    is_slot_of_card(line, context).then(|| {
        Details::message("the card loses commands that it queued, and the kernel starts it again")
            .hint()
            .advice(
                "update the kernel; if it continues, turn queueing off by `dtparam=sd_cqe=off` in config.txt, or use another card",
            )
            .command("sudo apt update && sudo apt full-upgrade")
    })
}
