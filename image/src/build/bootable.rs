//! Whether a card with these boot files can start on every board it is meant for.
//!
//! Checked before anything is assembled: the files that the firmware loads, the kernel that config.txt names, the
//! device trees, the drivers that the kernel needs to mount its root. Failure: every fault at once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufReader, Read as _};
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::cpio;
use super::debian_kernel::DebianKernel;
use crate::boot::board::Board;
use crate::boot::settings;

/// Without a setting the firmware looks for a file that Debian does not have.
const CM4_TREE: &str = "bcm2711-rpi-cm4-io.dtb";
/// Loaded by the ROM and the firmware: Pi 3, then Pi 4.
const FIRMWARE: [&str; 5] = ["bootcode.bin", "start.elf", "fixup.dat", "start4.elf", "fixup4.dat"];
/// Modules without which /boot/firmware is not mounted.
const LATE: [&str; 3] = ["vfat", "nls_ascii", "nls_cp437"];

/// Resets a Pi that hangs; systemd feeds it.
const WATCHDOG: &str = "bcm2835_wdt";

/// What the root file system shows about its kernel.
#[derive(Debug, Default)]
pub struct Kernel {
    trees: BTreeMap<String, Vec<u8>>,
    built_in: BTreeSet<String>,
    modules: BTreeSet<String>,
}

impl Kernel {
    /// Reads the root file system's tar.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn in_root(tar: &Path) -> Result<Self> {
        let file = File::open(tar).with_context(|| format!("cannot read {}", tar.display()))?;
        let mut archive = tar::Archive::new(BufReader::with_capacity(1 << 20, file));
        let mut kernel = Self::default();
        for entry in archive.entries()? {
            let mut entry = entry.context("reading the root file system")?;
            let path = entry.path()?.to_string_lossy().into_owned();
            kernel.add(&path, || {
                let mut bytes = Vec::new();
                entry.read_to_end(&mut bytes).with_context(|| format!("reading {path}"))?;
                Ok(bytes)
            })?;
        }
        Ok(kernel)
    }

    /// Records one file of the root; `read` is called for those whose content counts.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn add(&mut self, path: &str, read: impl FnOnce() -> Result<Vec<u8>>) -> Result<()> {
        let name = path.rsplit('/').next().unwrap_or_default();
        let is_tree = Path::new(name).extension().is_some_and(|extension| extension == "dtb");
        // In newer packages the first is a link to the second.
        let is_kernels = path.contains("/usr/lib/linux-image-") || path.contains("/usr/lib/modules/");
        if is_tree && is_kernels && path.contains("/broadcom/") {
            self.trees.insert(name.to_owned(), read()?);
        } else if path.contains("/usr/lib/modules/") {
            if name == "modules.builtin" {
                self.built_in.extend(String::from_utf8_lossy(&read()?).lines().filter_map(module));
            } else if let Some(module) = module(name) {
                self.modules.insert(module);
            }
        }
        Ok(())
    }
}

/// The module's name in a path: `…/virtio-blk.ko.xz` is `virtio_blk`.
fn module(path: &str) -> Option<String> {
    let name = path.rsplit('/').next()?;
    let (stem, rest) = name.split_once(".ko")?;
    (rest.is_empty() || rest.starts_with('.')).then(|| stem.replace('-', "_"))
}

/// Checks the boot files in a directory. `chosen` determines the boards.
///
/// # Errors
/// What is missing or wrong, all of it.
pub fn verify(boot: &Path, kernel: &Kernel, chosen: DebianKernel) -> Result<()> {
    let mut faults = Vec::new();
    let read = |name: &str| fs::read(boot.join(name)).ok();
    for name in FIRMWARE {
        if read(name).is_none_or(|bytes| bytes.is_empty()) {
            faults.push(format!("{name}, which the firmware loads, is missing or empty"));
        }
    }
    for name in chosen.device_trees() {
        match (read(name), kernel.trees.get(name)) {
            (Some(tree), Some(own)) if &tree == own => {}
            (None, _) => faults.push(format!("{name} is missing: its board does not start")),
            (Some(_), _) => faults.push(format!("{name} is not the kernel's own")),
        }
    }
    let text = read(settings::FILE).unwrap_or_default();
    let (mut kernels, mut initramfs) = (BTreeSet::new(), BTreeSet::new());
    for board in chosen.boards() {
        match settings::read(&text, board, |name| Ok(read(name))) {
            Ok(config) => {
                if board == Board::Cm4 && config.device_tree.as_deref() != Some(CM4_TREE) {
                    faults.push(format!("config.txt does not name {CM4_TREE} for a Compute Module 4"));
                }
                kernels.insert(config.kernel);
                initramfs.insert(config.initramfs);
            }
            Err(error) => {
                faults.push(error.to_string());
                break;
            }
        }
    }
    for name in kernels {
        match name.and_then(|name| read(&name)) {
            None => faults.push("config.txt names no kernel that is there".to_owned()),
            Some(image) if !is_arm64(&image) => faults.push("the kernel is no arm64 Image".to_owned()),
            Some(_) => {}
        }
    }
    for name in initramfs {
        let Some(path) = name.map(|name| boot.join(name)).filter(|path| path.is_file()) else {
            faults.push("config.txt names no initramfs that is there".to_owned());
            continue;
        };
        let names = cpio::names(&path).with_context(|| format!("reading {}", path.display()))?;
        let early: BTreeSet<_> = names.iter().filter_map(|name| module(name)).collect();
        for module in chosen.early() {
            if !early.contains(module) && !kernel.built_in.contains(module) {
                faults.push(format!("neither the initramfs nor the kernel has {module}"));
            }
        }
    }
    let has = |module: &str| kernel.modules.contains(module) || kernel.built_in.contains(module);
    for module in LATE.into_iter().filter(|module| !has(module)) {
        faults.push(format!("the root has no {module}: /boot/firmware cannot be mounted"));
    }
    for module in chosen.network().into_iter().filter(|module| !has(module)) {
        faults.push(format!("the root has no {module}: a Pi 5 has no wired network"));
    }
    if !has(WATCHDOG) {
        faults.push(format!("the root has no {WATCHDOG}: a Pi that hangs stays so"));
    }
    faults.extend(cmdline_faults(&String::from_utf8_lossy(&read("cmdline.txt").unwrap_or_default())));
    if faults.is_empty() {
        return Ok(());
    }
    bail!("the boot files are not usable:\n  {}", faults.join("\n  "))
}

/// Debian's kernel needs no cgroup parameter, and the firmware reads one line.
fn cmdline_faults(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.trim_end().lines().count() != 1 {
        faults.push(format!("cmdline.txt has {} lines instead of one", text.trim_end().lines().count()));
    }
    let tokens: Vec<_> = text.split_whitespace().collect();
    let root = format!("root=LABEL={}", super::disk::ROOT_LABEL);
    if !tokens.contains(&root.as_str()) {
        faults.push(format!("cmdline.txt lacks {root}"));
    }
    for token in tokens.iter().filter(|t| t.starts_with("cgroup") || t.starts_with("cma=")) {
        faults.push(format!("cmdline.txt has {token}"));
    }
    faults
}

/// The magic of an Image. The firmware would unpack a gzip as well; Debian ships none, and one would have to be
/// unpacked here to be judged.
fn is_arm64(image: &[u8]) -> bool {
    image.get(56..60) == Some(b"ARM\x64")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_names_are_as_the_kernel_has_them() {
        assert_eq!(module("kernel/fs/ext4/ext4.ko.xz").as_deref(), Some("ext4"));
        assert_eq!(module("a/xhci-pci.ko").as_deref(), Some("xhci_pci"));
        assert_eq!(module("a/x.komodo"), None);
        assert_eq!(module("modules.dep"), None);
    }

    #[test]
    fn the_command_line_is_one_line_without_cgroup_tokens() {
        assert!(cmdline_faults("console=tty0 root=LABEL=weaver-root rw \n").is_empty());
        let faults = cmdline_faults("root=/dev/mmcblk0p2 cma=64M\ncgroup_enable=memory\n");
        assert_eq!(faults.len(), 4, "{faults:?}");
    }

    #[test]
    fn every_fault_is_named_at_once() {
        let boot = tempfile::tempdir().unwrap();
        fs::write(boot.path().join("config.txt"), "kernel=vmlinuz\n").unwrap();
        fs::write(boot.path().join("vmlinuz"), [0; 100]).unwrap();
        fs::write(boot.path().join("bcm2711-rpi-4-b.dtb"), "other").unwrap();
        let text = |kernel| verify(boot.path(), &Kernel::default(), kernel).unwrap_err().to_string();
        let (experimental, text) = (text(DebianKernel::Backports), text(DebianKernel::Trixie));
        for fault in [
            "start4.elf, which",
            "bcm2837-rpi-3-b.dtb is missing",
            "bcm2711-rpi-4-b.dtb is not the kernel's own",
            "no arm64 Image",
            "no initramfs",
            "bcm2711-rpi-cm4-io.dtb for a Compute Module 4",
            "no vfat",
            "no bcm2835_wdt",
            "cmdline.txt has 0 lines",
        ] {
            assert!(text.contains(fault) && experimental.contains(fault), "{fault}: {text}");
        }
        for fault in ["bcm2712-d-rpi-5-b.dtb is missing", "no rp1_pci: a Pi 5"] {
            assert!(experimental.contains(fault) && !text.contains(fault), "{fault}: {experimental}");
        }
    }

    #[test]
    fn the_kernels_trees_are_found_where_older_and_newer_packages_have_them() {
        let mut kernel = Kernel::default();
        for (path, content) in [
            ("./usr/lib/linux-image-6.12.1-arm64/broadcom/bcm2711-rpi-4-b.dtb", "older"),
            ("./usr/lib/modules/7.3.4-arm64/dtb/broadcom/bcm2712-rpi-5-b.dtb", "newer"),
            ("./usr/lib/modules/7.3.4-arm64/dtb/allwinner/sun50i.dtb", "of others"),
            ("./boot/firmware/bcm2711-rpi-400.dtb", "the copy"),
        ] {
            kernel.add(path, || Ok(content.into())).unwrap();
        }
        let names: Vec<_> = kernel.trees.keys().map(String::as_str).collect();
        assert_eq!(names, ["bcm2711-rpi-4-b.dtb", "bcm2712-rpi-5-b.dtb"]);
    }

    #[test]
    fn a_kernel_of_another_processor_is_distinguished() {
        let mut image = vec![0; 64];
        image[56..60].copy_from_slice(b"ARM\x64");
        assert!(is_arm64(&image) && !is_arm64(&[0; 64]) && !is_arm64(b"MZ"));
    }
}
