//! What a trial writes on the boot partition, and what the firmware then reads.

use super::BY_HAND;
use crate::config_txt::{ConfigTxt, Line, is_on};
use crate::kernel_cmdline::{lines, parameters};
use crate::package_update::plan::UpgradeRefusal;

/// The directory of the kernel on trial, on the boot partition.
pub const DIRECTORY: &str = "weaver-kernel";
/// What a start on trial reads instead of `config.txt`.
pub const TRYBOOT: &str = "tryboot.txt";
/// What selects the directory, and the line with it.
const PREFIX: &str = "weaver-kernel/";
const SELECTS: &str = "os_prefix=weaver-kernel/";
const COMMENT: &str = "# A kernel on trial: written by `weaver node update --kernel`";
/// The end of the configuration of a trial.
const BLOCK: &str =
    "\n[all]\n# A kernel on trial: written by `weaver node update --kernel`\nos_prefix=weaver-kernel/\n";
/// A kernel that panics starts the old one again by itself.
const PANIC: &str = "panic=10";
/// Without it the firmware takes the overlays that all kernels share.
const README: &str = "README";

/// The configuration of the trial: the present one with the directory; a name with the release `from` becomes one with
/// `to`.
pub fn trial_text(config: &str, from: &str, to: &str) -> String {
    let renamed = config.split('\n').map(|line| {
        let is_name = ["kernel=", "initramfs"].iter().any(|key| line.trim_start().starts_with(key));
        if is_name { line.replace(from, to) } else { line.to_owned() }
    });
    renamed.collect::<Vec<_>>().join("\n") + BLOCK
}

/// The configuration without the directory, of that of a trial, which its owner may have edited since; `None` of any
/// other.
pub fn kept_text(trial: &str) -> Option<String> {
    if let Some(kept) = trial.strip_suffix(BLOCK) {
        return Some(kept.to_owned());
    }
    // `[all]` stays for what was written below it.
    let (ours, kept): (Vec<&str>, Vec<&str>) =
        trial.split_inclusive('\n').partition(|line| [SELECTS, COMMENT].contains(&line.trim()));
    ours.iter().any(|line| line.trim() == SELECTS).then(|| kept.concat())
}

/// The command line of the trial, of the present one.
pub fn trial_cmdline(present: &str) -> String {
    let first = lines(present).first().copied().unwrap_or_default();
    let has_panic = parameters(first, 1).iter().any(|parameter| parameter.text.starts_with("panic="));
    // In front: what is behind a `--` is for init.
    if has_panic { present.to_owned() } else { format!("{PANIC} {present}") }
}

/// The files of a kernel that the configuration names, each below the prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelNames {
    pub kernel: String,
    pub initramfs: Option<String>,
    pub cmdline: String,
}

/// The names that a configuration has for a kernel of this release.
///
/// # Errors
/// It does not say which, or in a way that has no place below a prefix.
pub fn names(config: &ConfigTxt, release: &str) -> Result<KernelNames, UpgradeRefusal> {
    let kernel = match value(config, "kernel")? {
        Some(name) => plain("kernel", name)?,
        // As the hook of Raspberry Pi OS names its kernels for 64 bits.
        None if release.ends_with("-rpi-2712") => "kernel_2712.img".to_owned(),
        None if release.ends_with("-rpi-v8") => "kernel8.img".to_owned(),
        None => {
            let what = format!("config.txt has no `kernel=`, and the name of kernel {release} is not known");
            return Err(UpgradeRefusal::new(what, BY_HAND));
        }
    };
    let initramfs = initramfs(config, &kernel)?;
    let cmdline = plain("cmdline", value(config, "cmdline")?.unwrap_or("cmdline.txt"))?;
    Ok(KernelNames { kernel, initramfs, cmdline })
}

/// Whether a start with this configuration, the one on trial, takes the directory.
///
/// # Errors
/// What is in its way.
pub fn takes_directory(config: &ConfigTxt) -> Result<(), UpgradeRefusal> {
    match value(config, "os_prefix")? {
        Some(PREFIX) => Ok(()),
        other => {
            let what = format!("the configuration of the trial has os_prefix={}", other.unwrap_or_default());
            Err(UpgradeRefusal::new(what, "compare /boot/firmware/config.txt with what it includes"))
        }
    }
}

/// By `initramfs FILE followkernel`, or by the name of the kernel where `auto_initramfs` is on.
fn initramfs(config: &ConfigTxt, kernel: &str) -> Result<Option<String>, UpgradeRefusal> {
    let first = |line: &&Line| line.text.split_ascii_whitespace().next() == Some("initramfs");
    let named = config.lines().iter().rfind(first);
    if let Some(line) = named.filter(|line| line.condition.is_some()) {
        return Err(doubtful(line));
    }
    let is_auto = value(config, "auto_initramfs")?.is_some_and(is_on);
    if value(config, "ramfsfile")?.is_some() || (named.is_some() && is_auto) {
        let what = "config.txt names the initramfs by `ramfsfile`, or in two ways".to_owned();
        return Err(UpgradeRefusal::new(
            what,
            "name it once: `auto_initramfs=1`, or `initramfs FILE followkernel`",
        ));
    }
    if let Some(line) = named {
        let name = line.text.split_ascii_whitespace().nth(1).unwrap_or_default();
        return plain("initramfs", name).map(Some);
    }
    if !is_auto {
        return Ok(None);
    }
    let kind = kernel.strip_prefix("kernel").and_then(|rest| rest.strip_suffix(".img"));
    kind.map(|kind| Some(format!("initramfs{kind}"))).ok_or_else(|| {
        let what = format!("config.txt has `auto_initramfs=1` for `{kernel}`, which has no known initramfs");
        UpgradeRefusal::new(what, "write `initramfs FILE followkernel` instead")
    })
}

fn value<'a>(config: &'a ConfigTxt, key: &str) -> Result<Option<&'a str>, UpgradeRefusal> {
    config.value(key).map_err(doubtful)
}

fn doubtful(line: &Line) -> UpgradeRefusal {
    let why = line.condition.clone().unwrap_or_default();
    let what = format!("whether `{}` in {} applies is unknown: {why}", line.text, line.file);
    UpgradeRefusal::new(what, BY_HAND)
}

/// A name that a prefix can be put in front of.
fn plain(key: &str, name: &str) -> Result<String, UpgradeRefusal> {
    if !name.is_empty() && !name.contains(['/', ',']) && name != ".." {
        return Ok(name.to_owned());
    }
    let what = format!("`{name}` for `{key}` in config.txt is no single file next to it");
    Err(UpgradeRefusal::new(what, BY_HAND))
}

/// Names of device trees and overlays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TreeNames {
    pub trees: Vec<String>,
    pub overlays: Vec<String>,
}

/// Where a file of the trial comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrialSource {
    Kernel,
    Initramfs,
    /// A device tree of the package of the kernel.
    Tree(String),
    /// An overlay of it.
    Overlay(String),
    /// A file of the boot partition.
    Present(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialFile {
    /// Its path below the directory.
    pub path: String,
    pub from: TrialSource,
}

/// The files of the trial but for the command line. Each device tree that the firmware could take now has one of its
/// name, of the new kernel where it has one: without it the firmware would ignore the directory.
///
/// # Errors
/// The boot partition has no device tree.
pub fn files(
    names: &KernelNames,
    package: &TreeNames,
    present: &TreeNames,
) -> Result<Vec<TrialFile>, UpgradeRefusal> {
    if present.trees.is_empty() {
        let what = "no device tree (*.dtb) is on the boot partition".to_owned();
        return Err(UpgradeRefusal::new(what, BY_HAND));
    }
    let file = |path: &str, from| TrialFile { path: path.to_owned(), from };
    let mut files = vec![file(&names.kernel, TrialSource::Kernel)];
    files.extend(names.initramfs.iter().map(|name| file(name, TrialSource::Initramfs)));
    let find =
        |names: &[String], name: &str| names.iter().find(|found| found.eq_ignore_ascii_case(name)).cloned();
    for name in &present.trees {
        let own = find(&package.trees, name).map(TrialSource::Tree);
        files.push(file(name, own.unwrap_or_else(|| TrialSource::Present(name.clone()))));
    }
    if find(&package.overlays, README).is_none() {
        return Ok(files);
    }
    for name in &package.overlays {
        files.push(file(&format!("overlays/{name}"), TrialSource::Overlay(name.clone())));
    }
    // Those of the owner.
    for name in present.overlays.iter().filter(|name| find(&package.overlays, name).is_none()) {
        let path = format!("overlays/{name}");
        files.push(file(&path, TrialSource::Present(path.clone())));
    }
    Ok(files)
}

#[cfg(test)]
mod tests;
