//! Is there swap on an SD card? It wears the card, and k3s' database waits behind it. Swap in compressed memory is fine.

use weaver_diagnostics::finding::{Code, Finding, Place, Remedy};
use weaver_diagnostics::shell::quoted;

use crate::host_root::HostRoot;

const SWAPS: &str = "/proc/swaps";
const MOUNTS: &str = "/proc/self/mountinfo";
const CARD: &str = "/dev/mmcblk";

/// A warning where there is; nothing where nothing can be read.
#[must_use]
pub fn finding(root: &HostRoot) -> Option<Finding> {
    let swaps = root.read_if_possible(SWAPS)?;
    let mounts = root.read_if_possible(MOUNTS).map(|mounts| mounts.text).unwrap_or_default();
    let (line, swap) = (1..).zip(swaps.text.lines()).skip(1).find_map(|(line, text)| {
        let mut fields = text.split_whitespace();
        let (path, kind) = (fields.next()?, fields.next()?);
        let is_on_card = path.starts_with(CARD)
            || kind == "file" && source_under(&mounts, path).is_some_and(|source| source.starts_with(CARD));
        is_on_card.then(|| (line, path.to_owned()))
    })?;
    let row = Code::SwapOnCard.row();
    Some(
        Finding::new(Code::SwapOnCard, format!("{swap} is swap on the card"))
            .saw(Place::line(SWAPS, line), &swap)
            .remedy(
                Remedy::new(row.remedy)
                    .command(format!("sudo swapoff {}", quoted(&swap)))
                    .command("sudo systemctl disable --now dphys-swapfile")
                    .command("grep swap /etc/fstab"),
            ),
    )
}

/// What is mounted where the file is: of the lines `… MOUNT-POINT OPTIONS … - TYPE SOURCE …` the nearest.
fn source_under<'a>(mounts: &'a str, file: &str) -> Option<&'a str> {
    let mounted = mounts.lines().filter_map(|line| {
        let point = line.split(' ').nth(4)?;
        let source = line.split_once(" - ")?.1.split(' ').nth(1)?;
        std::path::Path::new(file).starts_with(point).then_some((point.len(), source))
    });
    mounted.max_by_key(|(length, _)| *length).map(|(_, source)| source)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_root::fixture::host;

    #[test]
    fn swap_on_the_card_is_a_warning_and_in_memory_it_is_not() {
        const HEAD: &str = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";
        let card = "25 1 179:2 / / rw,noatime - ext4 /dev/mmcblk0p2 rw\n";
        let ssd =
            "25 1 8:2 / / rw,noatime - ext4 /dev/sda2 rw\n26 25 179:1 / /boot rw - vfat /dev/mmcblk0p1 rw\n";
        for (swap, mounts, bad) in [
            ("", card, false),
            ("/dev/zram0 partition 1 0 100\n", card, false),
            ("/dev/mmcblk0p3 partition 1 0 -2\n", ssd, true),
            ("/var/swap file 1 0 -2\n", card, true),
            ("/var/swap file 1 0 -2\n", ssd, false),
            (
                "/mnt/ssd/swap file 1 0 -2\n",
                &format!("{card}27 25 8:1 / /mnt/ssd rw - ext4 /dev/sda1 rw\n"),
                false,
            ),
            ("/dev/sda3 partition 1 0 -2\n", card, false),
        ] {
            let (_dir, root) = host(&[(SWAPS, &format!("{HEAD}{swap}")), (MOUNTS, mounts)]);
            assert_eq!(finding(&root).is_some(), bad, "{swap} {mounts}");
        }
        let (_dir, root) = host(&[]);
        assert_eq!(finding(&root), None);
    }
}
