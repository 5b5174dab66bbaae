//! Which of Debian's kernels the card gets, and what follows from it.
//!
//! trixie's by default: it has security support, and drives every board up to the Pi 4. That of trixie-backports has
//! the drivers of a Pi 5 as well; this project has not yet started a Pi 5 with it, and an image with it is marked as an
//! experiment.

use clap::ValueEnum;

use crate::boot::board::Board;

/// Device trees of the boards that every image is for.
const DEVICE_TREES: [&str; 5] = [
    "bcm2711-rpi-4-b.dtb",
    "bcm2711-rpi-400.dtb",
    "bcm2711-rpi-cm4-io.dtb",
    "bcm2837-rpi-3-b.dtb",
    "bcm2837-rpi-3-b-plus.dtb",
];
/// Modules without which the root cannot be mounted: both card readers, USB disks, QEMU, the file system.
const EARLY: [&str; 8] = [
    "sdhci_iproc",
    "bcm2835",
    "pcie_brcmstb",
    "reset_raspberrypi",
    "xhci_pci",
    "virtio_blk",
    "virtio_pci",
    "ext4",
];
/// Boards whose sections of config.txt count.
const BOARDS: [Board; 4] = [Board::Pi3, Board::Pi4, Board::Pi400, Board::Cm4];

/// For a Pi 5: the tree of its first boards, and that of those with the later processor.
const PI5_DEVICE_TREES: [&str; 2] = ["bcm2712-rpi-5-b.dtb", "bcm2712-d-rpi-5-b.dtb"];
/// For a Pi 5: its card reader, and the pins and the voltage that it switches.
const PI5_EARLY: [&str; 4] = ["sdhci_brcmstb", "pinctrl_brcmstb_bcm2712", "gpio_brcmstb", "gpio_regulator"];
/// For the wired network of a Pi 5: the bus to the chip with its ports, and the drivers of that chip.
const PI5_NETWORK: [&str; 5] = ["irq_bcm2712_mip", "rp1_pci", "clk_rp1", "pinctrl_rp1", "macb"];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum DebianKernel {
    /// The release's own.
    #[default]
    Trixie,
    /// The one of its backports, for a Pi 5, as an experiment.
    Backports,
}

impl DebianKernel {
    /// A part of `VARIANT_ID` and of the image's name.
    pub fn id(self) -> Option<&'static str> {
        (self == Self::Backports).then_some("experimental-pi5")
    }

    /// What an image with it is called on the console and in Imager.
    pub fn spoken(self) -> Option<&'static str> {
        (self == Self::Backports).then_some("EXPERIMENTAL: for a Pi 5, on which it was never tried")
    }

    /// apt's further sources, below the checkout: for the build, and for upgrades of the card.
    pub fn sources(self) -> Option<&'static str> {
        (self == Self::Backports).then_some("image/rootfs/backports.sources")
    }

    /// The names, below the checkout, of packages that it needs in addition to those of `image/packages.installed`.
    pub fn installed(self) -> Option<&'static str> {
        (self == Self::Backports).then_some("image/packages.installed.backports")
    }

    /// The argument for apt. The kernel needs a newer linux-base, which apt would not choose by itself.
    pub fn request(self, package: &str) -> String {
        match (self, package) {
            (Self::Backports, "linux-image-arm64") => {
                "linux-image-arm64/trixie-backports,linux-base/trixie-backports".to_owned()
            }
            _ => package.to_owned(),
        }
    }

    /// Boards whose sections of config.txt count.
    pub fn boards(self) -> Vec<Board> {
        self.with(&BOARDS, &[Board::Pi5])
    }

    /// Device trees that must be on the card.
    pub fn device_trees(self) -> Vec<&'static str> {
        self.with(&DEVICE_TREES, &PI5_DEVICE_TREES)
    }

    /// Modules that the initramfs, or the kernel itself, must have.
    pub fn early(self) -> Vec<&'static str> {
        self.with(&EARLY, &PI5_EARLY)
    }

    /// Modules of a network port that the root must have.
    pub fn network(self) -> Vec<&'static str> {
        self.with(&[], &PI5_NETWORK)
    }

    /// The boards, as Raspberry Pi Imager names them.
    pub fn devices(self) -> Vec<&'static str> {
        self.with(&["pi4-64bit", "pi3-64bit"], &["pi5-64bit"])
    }

    fn with<T: Copy>(self, always: &[T], on_a_pi5: &[T]) -> Vec<T> {
        match self {
            Self::Trixie => always.to_vec(),
            Self::Backports => [always, on_a_pi5].concat(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_asks_for_nothing_but_the_release() {
        let kernel = DebianKernel::default();
        assert_eq!(kernel.request("linux-image-arm64"), "linux-image-arm64");
        assert_eq!((kernel.id(), kernel.sources(), kernel.installed()), (None, None, None));
        assert!(kernel.network().is_empty() && !kernel.boards().contains(&Board::Pi5));
    }

    #[test]
    fn only_the_kernel_is_of_the_backports() {
        let kernel = DebianKernel::Backports;
        let asked = kernel.request("linux-image-arm64");
        assert!(asked.split(',').all(|name| name.ends_with("/trixie-backports")), "{asked}");
        assert_eq!(kernel.request("raspi-firmware"), "raspi-firmware");
        assert_eq!(kernel.device_trees().len(), 7);
        assert!(kernel.early().contains(&"sdhci_iproc") && kernel.early().contains(&"sdhci_brcmstb"));
        assert_eq!(DebianKernel::from_str("backports", false), Ok(kernel));
    }
}
