//! A newer kernel that a Raspberry Pi boots once on trial: of which packages it is made, whether this host can try it,
//! what is written on the boot partition, and what a boot says of a trial. Pure.
//!
//! The firmware reads `tryboot.txt` instead of `config.txt` in the one start that `reboot "0 tryboot"` asks for, and
//! `os_prefix` puts a directory in front of kernel, initramfs, command line, device trees and overlays
//! (<https://www.raspberrypi.com/documentation/computers/config_txt.html#os_prefix>).
//!
//! Guarantee: until the new kernel is proven, nothing that a regular start reads is changed.

pub mod packages;
pub mod record;
pub mod refusals;
pub mod trial_files;

/// What an administrator does where no trial is possible.
const BY_HAND: &str = "install it while you can reach this board: sudo apt-get upgrade";
