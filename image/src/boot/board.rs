//! The boards whose firmware is emulated.
//!
//! What differs between them when a card boots: which sections of config.txt apply, the default file names, and what
//! the firmware puts in front of the kernel command line.

use clap::ValueEnum;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Board {
    /// Raspberry Pi 3 Model B.
    Pi3,
    /// Raspberry Pi 4 Model B.
    Pi4,
    /// Raspberry Pi 400.
    Pi400,
    /// Compute Module 4.
    Cm4,
    /// Raspberry Pi 5.
    Pi5,
}

impl Board {
    /// Model filters of config.txt that apply to this board.
    pub fn filters(self) -> &'static [&'static str] {
        match self {
            Self::Pi3 => &["pi3"],
            Self::Pi4 => &["pi4"],
            Self::Pi400 => &["pi4", "pi400"],
            Self::Cm4 => &["pi4", "cm4"],
            Self::Pi5 => &["pi5"],
        }
    }

    /// `/proc/device-tree/model`, with the revision that the firmware adds.
    pub fn model(self) -> &'static str {
        match self {
            Self::Pi3 => "Raspberry Pi 3 Model B Rev 1.2",
            Self::Pi4 => "Raspberry Pi 4 Model B Rev 1.5",
            Self::Pi400 => "Raspberry Pi 400 Rev 1.0",
            Self::Cm4 => "Raspberry Pi Compute Module 4 Rev 1.1",
            Self::Pi5 => "Raspberry Pi 5 Model B Rev 1.0",
        }
    }

    /// Device trees that the firmware looks for, best first: upstream's names come first where config.txt says
    /// `upstream_kernel=1`.
    pub fn device_trees(self, upstream: bool) -> &'static [&'static str] {
        match (self, upstream) {
            (Self::Pi3, true) => &["bcm2837-rpi-3-b.dtb", "bcm2710-rpi-3-b.dtb"],
            (Self::Pi3, false) => &["bcm2710-rpi-3-b.dtb"],
            (Self::Pi4, _) => &["bcm2711-rpi-4-b.dtb"],
            (Self::Pi400, _) => &["bcm2711-rpi-400.dtb"],
            (Self::Cm4, true) => &["bcm2711-rpi-cm4-io.dtb", "bcm2711-rpi-cm4.dtb"],
            (Self::Cm4, false) => &["bcm2711-rpi-cm4.dtb"],
            (Self::Pi5, _) => &["bcm2712-rpi-5-b.dtb"],
        }
    }

    /// Whether the processor starts in 64-bit mode when config.txt does not say.
    /// <https://www.raspberrypi.com/documentation/computers/config_txt.html#arm_64bit>
    pub fn starts_64bit(self) -> bool {
        self != Self::Pi3
    }

    /// The kernel when config.txt names none.
    pub fn default_kernels(self) -> &'static [&'static str] {
        if self == Self::Pi5 { &["kernel_2712.img", "kernel8.img"] } else { &["kernel8.img"] }
    }

    /// What the firmware puts in front of the content of cmdline.txt, shortened
    /// to one of each kind; `/proc/cmdline` of a Pi shows more of them.
    /// <https://www.raspberrypi.com/documentation/computers/configuration.html#kernel-command-line-cmdline-txt>
    pub fn firmware_arguments(self) -> &'static [&'static str] {
        match self {
            Self::Pi3 => &[
                "8250.nr_uarts=1",
                "smsc95xx.macaddr=B8:27:EB:00:00:01",
                "vc_mem.mem_base=0x3ec00000",
                "vc_mem.mem_size=0x40000000",
            ],
            Self::Pi4 | Self::Pi400 | Self::Cm4 => &[
                "8250.nr_uarts=1",
                "smsc95xx.macaddr=DC:A6:32:00:00:01",
                "vc_mem.mem_base=0x3ec00000",
                "vc_mem.mem_size=0x40000000",
            ],
            Self::Pi5 => &["reboot=w", "8250.nr_uarts=1", "pci=pcie_bus_safe"],
        }
    }
}
