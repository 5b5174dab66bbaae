//! Emulates the firmware: from the files of the boot partition to what QEMU needs.
//!
//! Guarantee: decides from the card alone, as a board would, and prints every step; a card that a board would not boot
//! is refused. Failure: names the file on the card and the remedy.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};

use super::board::Board;
use super::cmdline;
use super::fat::Fat;
use super::settings::{self, Settings};

/// What the firmware would start.
#[derive(Clone, Debug)]
pub struct Played {
    /// The kernel, extracted from the card.
    pub kernel: PathBuf,
    /// The initramfs, extracted from the card.
    pub initramfs: Option<PathBuf>,
    /// The device tree, extracted from the card.
    pub tree: PathBuf,
    /// The kernel's command line.
    pub arguments: String,
    /// What was done, one line each.
    pub steps: Vec<String>,
}

/// Reads the card and puts kernel and initramfs into the directory `into`. `is_trial`: the start that
/// `reboot "0 tryboot"` asked for.
///
/// # Errors
/// When the board would not boot this card, or the harness cannot emulate it.
pub fn play(fat: &Fat, board: Board, extra: &[String], into: &Path, is_trial: bool) -> Result<Played> {
    let file = if is_trial && fat.has(settings::TRIAL_FILE)? { settings::TRIAL_FILE } else { settings::FILE };
    let text = fat.read(file)?.ok_or_else(|| missing(file, "the firmware's settings"))?;
    let config = settings::read_file(file, &text, board, is_trial, |name| fat.read(name))?;
    require_64bit(&config, board)?;
    let mut steps = vec![format!("board: {}", board.model())];
    if is_trial {
        steps.push(format!("on trial: {file}"));
    }

    let found = find(fat, &config, board, &mut steps)?;
    steps.push(format!("kernel: {}", found.kernel));
    let kernel = into.join("kernel");
    if !fat.copy_out(&found.kernel, &kernel)? {
        return Err(missing(&found.kernel, "the kernel"));
    }
    require_arm64(&kernel, &found.kernel)?;

    let initramfs = match &config.initramfs {
        None => {
            steps.push("initramfs: none".to_owned());
            None
        }
        Some(name) => {
            let (name, path) = (prefixed(&found.prefix, name), into.join("initramfs"));
            if !fat.copy_out(&name, &path)? {
                return Err(missing(&name, "the initramfs"));
            }
            steps.push(format!("initramfs: {name}"));
            Some(path)
        }
    };

    steps.push(format!("device tree: {}", found.tree));
    let tree = into.join("tree");
    if !fat.copy_out(&found.tree, &tree)? {
        return Err(missing(&found.tree, "the device tree"));
    }
    let name = prefixed(&found.prefix, config.cmdline.as_deref().unwrap_or("cmdline.txt"));
    let content = fat.read(&name)?.ok_or_else(|| missing(&name, "the kernel command line"))?;
    let line = cmdline::compose(board.firmware_arguments(), &name, &content, extra)?;
    for ignored in &line.ignored {
        steps.push(format!("{name}: ignored, as it is not on the first line: {ignored}"));
    }
    if !extra.is_empty() {
        steps.push(format!("arguments of this run: {}", extra.join(" ")));
    }
    steps.push(format!("command line: {}", line.arguments));
    Ok(Played { kernel, initramfs, tree, arguments: line.arguments, steps })
}

struct FirmwareFiles {
    prefix: String,
    kernel: String,
    tree: String,
}

/// Kernel and device tree: below the prefix if both are there, else without it.
/// <https://www.raspberrypi.com/documentation/computers/config_txt.html#os_prefix>
fn find(fat: &Fat, config: &Settings, board: Board, steps: &mut Vec<String>) -> Result<FirmwareFiles> {
    let upstream = config.upstream_kernel.then_some("upstream/");
    let prefix = config.os_prefix.as_deref().or(upstream).unwrap_or_default();
    if !prefix.is_empty() {
        let (kernel, tree) = (kernel(fat, config, board, prefix)?, tree(fat, config, board, prefix)?);
        if let (Some(kernel), Some(tree)) = (kernel, tree) {
            steps.push(format!("os_prefix: {prefix}"));
            return Ok(FirmwareFiles { prefix: prefix.to_owned(), kernel, tree });
        }
        // Debian's upstream_kernel=1 means the names of device trees only.
        if config.os_prefix.is_some() {
            steps.push(format!(
                "os_prefix: {prefix} is ignored, as kernel and device tree are not both there"
            ));
        }
    }
    let wanted = config.kernel.as_deref().unwrap_or(board.default_kernels()[0]);
    let kernel = kernel(fat, config, board, "")?.ok_or_else(|| missing(wanted, "the kernel"))?;
    let wanted = config.device_tree.as_deref().unwrap_or(board.device_trees(config.upstream_kernel)[0]);
    let tree = tree(fat, config, board, "")?.ok_or_else(|| missing(wanted, "the device tree"))?;
    Ok(FirmwareFiles { prefix: String::new(), kernel, tree })
}

fn kernel(fat: &Fat, config: &Settings, board: Board, prefix: &str) -> Result<Option<String>> {
    first_there(fat, prefix, config.kernel.as_deref(), board.default_kernels())
}

fn tree(fat: &Fat, config: &Settings, board: Board, prefix: &str) -> Result<Option<String>> {
    first_there(fat, prefix, config.device_tree.as_deref(), board.device_trees(config.upstream_kernel))
}

fn first_there(fat: &Fat, prefix: &str, asked: Option<&str>, defaults: &[&str]) -> Result<Option<String>> {
    let asked = asked.map(|name| [name]);
    for name in asked.as_ref().map_or(defaults, |one| &one[..]) {
        let name = prefixed(prefix, name);
        if fat.has(&name)? {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// A leading `/` takes no prefix.
fn prefixed(prefix: &str, name: &str) -> String {
    name.strip_prefix('/').map_or_else(|| format!("{prefix}{name}"), str::to_owned)
}

fn missing(name: &str, what: &str) -> anyhow::Error {
    anyhow!(
        "{name} is not on the card, and it is {what} that the board would load; put it on the boot \
         partition, or correct {} there",
        settings::FILE
    )
}

fn require_64bit(config: &Settings, board: Board) -> Result<()> {
    let named = config.kernel.as_deref() == Some("kernel8.img");
    match config.arm_64bit {
        Some(true) => Ok(()),
        None if named || board.starts_64bit() => Ok(()),
        // The Pi 5 has no 32-bit mode for a kernel and ignores the key.
        _ if board == Board::Pi5 => Ok(()),
        _ => bail!(
            "{} on the card would start the board in 32-bit mode, and the image is arm64; write arm_64bit=1 there",
            settings::FILE
        ),
    }
}

/// An arm64 Image, or a gzip archive, which the firmware and QEMU accept as one.
fn require_arm64(path: &Path, name: &str) -> Result<()> {
    let mut start = Vec::new();
    File::open(path)
        .and_then(|file| file.take(64).read_to_end(&mut start))
        .with_context(|| format!("cannot read {}", path.display()))?;
    if is_arm64(&start) {
        return Ok(());
    }
    bail!(
        "{name} on the card is no arm64 kernel (no `ARM\\x64` at byte 56, and no gzip archive); \
         copy the kernel there again, whole, from the root's /boot"
    )
}

fn is_arm64(start: &[u8]) -> bool {
    start.get(56..60) == Some(b"ARM\x64") || start.starts_with(&[0x1f, 0x8b])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_tree_is_known_by_its_magic_number() {
        let mut image = vec![0; 64];
        assert!(!is_arm64(&image));
        image[56..60].copy_from_slice(b"ARMd");
        assert!(is_arm64(&image));
        assert!(!is_arm64(&image[..58]), "cut off");
        assert!(is_arm64(&[0x1f, 0x8b, 8]));
        assert!(!is_arm64(b"MZ"));
    }

    #[test]
    fn a_board_in_32bit_mode_is_refused() {
        let config = |arm_64bit, kernel: Option<&str>| Settings {
            arm_64bit,
            kernel: kernel.map(str::to_owned),
            ..Settings::default()
        };
        for (arm_64bit, kernel, board, good) in [
            (None, None, Board::Pi4, true),
            (Some(false), None, Board::Pi4, false),
            (None, Some("vmlinuz"), Board::Pi3, false),
            (None, Some("kernel8.img"), Board::Pi3, true),
            (Some(true), Some("vmlinuz"), Board::Pi3, true),
            (Some(false), None, Board::Pi5, true),
        ] {
            let verdict = require_64bit(&config(arm_64bit, kernel), board);
            assert_eq!(verdict.is_ok(), good, "{arm_64bit:?} {kernel:?} {board:?}");
            if let Err(error) = verdict {
                assert!(error.to_string().contains("write arm_64bit=1"), "{error}");
            }
        }
    }

    #[test]
    fn prefixes() {
        assert_eq!(prefixed("new/", "vmlinuz"), "new/vmlinuz");
        assert_eq!(prefixed("new/", "/vmlinuz"), "vmlinuz");
        assert_eq!(prefixed("test-", "vmlinuz"), "test-vmlinuz");
    }
}
