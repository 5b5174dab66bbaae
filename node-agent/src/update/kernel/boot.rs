//! The boot partition in a trial: what is on it, and what is written there.
//!
//! Guarantee: each regular start finds a whole kernel, the old one or the one that is proven. What `tryboot.txt` or
//! `config.txt` names is on the card before it is named, and removed after. Failure: names the file.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, ensure};
use weaver_diagnostics::config_txt::{self, BOOT_DIR, ConfigTxt, FILE, Hardware, Included};
use weaver_diagnostics::kernel_trial::trial_files::{
    DIRECTORY, KernelNames, TRYBOOT, TreeNames, TrialFile, TrialSource, kept_text, names, takes_directory,
    trial_text,
};
use weaver_host::durable_file::if_there;

use crate::boot_files;
use crate::fat_file::{self, flush_file_system};
use crate::host_root::HostRoot;

const OVERLAYS: &str = "overlays";
/// Which files of the directory are copies of those next to it, one a line.
const COPIES: &str = "copies.txt";
const CHANGED: &str = "config.txt was changed during the trial";

/// Called before each change; a test cuts the power there.
pub(super) type Cut<'a> = &'a dyn Fn() -> io::Result<()>;

/// Where the content of a trial's files is.
#[derive(Debug, Clone)]
pub(super) struct KernelFiles {
    pub(super) kernel: PathBuf,
    pub(super) initramfs: PathBuf,
    /// The device trees of its package, and its overlays.
    pub(super) trees: PathBuf,
    pub(super) overlays: PathBuf,
}

impl KernelFiles {
    pub(super) fn names(&self) -> TreeNames {
        let names = |directory: &Path| HostRoot::new(directory.to_owned()).list("/").unwrap_or_default();
        TreeNames { trees: only_trees(names(&self.trees)), overlays: names(&self.overlays) }
    }
}

fn only_trees(mut names: Vec<String>) -> Vec<String> {
    names.retain(|name| Path::new(name).extension().is_some_and(|end| end.eq_ignore_ascii_case("dtb")));
    names
}

#[derive(Debug)]
pub(super) struct TrialBoot<'a> {
    root: &'a HostRoot,
}

impl<'a> TrialBoot<'a> {
    pub(super) const fn of(root: &'a HostRoot) -> Self {
        Self { root }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.root.real(BOOT_DIR).join(name)
    }

    /// The text of a file; `None` where there is none.
    pub(super) fn text(&self, name: &str) -> anyhow::Result<Option<String>> {
        let path = format!("{BOOT_DIR}/{name}");
        let file = self.root.read(&path).with_context(|| format!("cannot read {path}"))?;
        Ok(file.map(|file| file.text))
    }

    /// What the firmware makes of a configuration.
    pub(super) fn config(&self, name: &str, text: &str, is_tryboot: bool) -> ConfigTxt {
        let hardware = Hardware {
            model: self.root.device_model(),
            serial: self.root.device_serial(),
            is_tryboot,
            partition: boot_files::mounted_partition(self.root),
        };
        config_txt::read_file(name, text, &hardware, |name| {
            if name.split('/').any(|part| part == "..") {
                return Included::Unreadable("it is outside of the boot partition".to_owned());
            }
            match self.root.read_lossy(format!("{BOOT_DIR}/{name}")) {
                Ok(Some((text, _))) => Included::Text(text),
                Ok(None) => Included::Missing,
                Err(error) => Included::Unreadable(error.to_string()),
            }
        })
    }

    /// The device trees and overlays of now.
    pub(super) fn present(&self) -> anyhow::Result<TreeNames> {
        let list =
            |directory: &str| self.root.list(directory).with_context(|| format!("cannot list {directory}"));
        let overlays = list(&format!("{BOOT_DIR}/{OVERLAYS}"))?;
        Ok(TreeNames { trees: only_trees(list(BOOT_DIR)?), overlays })
    }

    /// Where the content of a file of the trial comes from.
    pub(super) fn source(&self, file: &TrialFile, from: &KernelFiles) -> PathBuf {
        match &file.from {
            TrialSource::Kernel => from.kernel.clone(),
            TrialSource::Initramfs => from.initramfs.clone(),
            TrialSource::Tree(name) => from.trees.join(name),
            TrialSource::Overlay(name) => from.overlays.join(name),
            TrialSource::Present(name) => self.path(name),
        }
    }

    /// Whether there is anything of a trial.
    pub(super) fn is_there(&self) -> bool {
        self.path(DIRECTORY).exists() || self.is_ours()
    }

    fn is_ours(&self) -> bool {
        self.text(TRYBOOT).ok().flatten().is_some_and(|text| kept_text(&text).is_some())
    }

    /// Whether a regular start takes the directory.
    fn is_selected(&self) -> anyhow::Result<bool> {
        Ok(self.text(FILE)?.is_some_and(|text| kept_text(&text).is_some()))
    }

    /// Puts a whole trial in place, in that of an earlier one.
    pub(super) fn stage(
        &self,
        files: &[TrialFile],
        from: &KernelFiles,
        (cmdline, parameters): (&str, &str),
        trial: &str,
        cut: Cut<'_>,
    ) -> anyhow::Result<()> {
        self.clear(cut)?;
        for file in files {
            let source = self.source(file, from);
            let content = fs::read(&source).with_context(|| format!("cannot read {}", source.display()))?;
            self.put(&format!("{DIRECTORY}/{}", file.path), &content, cut)?;
        }
        let copies = files.iter().filter(|file| matches!(file.from, TrialSource::Present(_)));
        let copies: String = copies.flat_map(|file| [file.path.as_str(), "\n"]).collect();
        self.put(&format!("{DIRECTORY}/{COPIES}"), copies.as_bytes(), cut)?;
        self.put(&format!("{DIRECTORY}/{cmdline}"), parameters.as_bytes(), cut)?;
        self.flush()?;
        self.put(TRYBOOT, trial.as_bytes(), cut)?;
        self.flush()
    }

    /// The configuration by which each start takes the directory: the present one, with what its owner has changed since
    /// the trial of the release `to` began, in the place of `from`.
    pub(super) fn selected(&self, (from, to): (&str, &str)) -> anyhow::Result<String> {
        let present = self.text(FILE)?;
        if let Some(present) = present.as_ref().filter(|text| kept_text(text).is_some()) {
            return Ok(present.clone());
        }
        let trial = self.text(TRYBOOT)?.filter(|text| kept_text(text).is_some());
        let trial =
            trial.with_context(|| format!("{BOOT_DIR}/{TRYBOOT} is not that of the trial any more"))?;
        let Some(present) = present else { return Ok(trial) };
        let selected = trial_text(&present, from, to);
        if selected != trial {
            let taken = self.taken(&selected, to).context(CHANGED)?;
            ensure!(taken == self.taken(&trial, to)?, "{CHANGED}, and names other files for the kernel");
        }
        Ok(selected)
    }

    /// The files that a regular start with this configuration takes from the directory.
    fn taken(&self, config: &str, release: &str) -> anyhow::Result<KernelNames> {
        let config = self.config(FILE, config, false);
        let names = takes_directory(&config).and_then(|()| names(&config, release));
        names.map_err(|refusal| anyhow!("{refusal}"))
    }

    /// Has each start take the directory; returns the configuration that does.
    pub(super) fn select(&self, releases: (&str, &str), cut: Cut<'_>) -> anyhow::Result<String> {
        let selected = self.selected(releases)?;
        if self.text(FILE)?.as_ref() != Some(&selected) {
            self.put(FILE, selected.as_bytes(), cut)?;
            self.flush()?;
        }
        Ok(selected)
    }

    /// Writes the kernel of the directory to where it is without a trial, and has each start take it there.
    pub(super) fn publish(&self, cmdline: &str, cut: Cut<'_>) -> anyhow::Result<()> {
        // They are where they belong, and their owner may have edited them during the trial.
        let copies = self.text(&format!("{DIRECTORY}/{COPIES}"))?.unwrap_or_default();
        let stays = |name: &str| name == cmdline || name == COPIES || copies.lines().any(|copy| copy == name);
        for name in self.staged()?.iter().filter(|name| !stays(name)) {
            let staged = self.path(&format!("{DIRECTORY}/{name}"));
            let content = fs::read(&staged).with_context(|| format!("cannot read {}", staged.display()))?;
            if fs::read(self.path(name)).is_ok_and(|present| present == content) {
                continue;
            }
            self.put(name, &content, cut)?;
        }
        self.flush()?;
        // Its owner may have edited it while the packages were installed.
        let kept = self.text(FILE)?.and_then(|text| kept_text(&text));
        let kept = kept.with_context(|| format!("{BOOT_DIR}/{FILE} does not select the trial any more"))?;
        self.put(FILE, kept.as_bytes(), cut)?;
        self.flush()
    }

    /// The files in the directory, by their paths below it.
    fn staged(&self) -> anyhow::Result<Vec<String>> {
        let list = |directory: &str| {
            let names = self.root.list(directory).with_context(|| format!("cannot list {directory}"))?;
            let files = names.into_iter().filter(|name| !self.root.is_dir(format!("{directory}/{name}")));
            Ok::<_, anyhow::Error>(files.collect::<Vec<_>>())
        };
        let directory = format!("{BOOT_DIR}/{DIRECTORY}");
        let mut staged = list(&directory)?;
        let overlays = list(&format!("{directory}/{OVERLAYS}"))?;
        staged.extend(overlays.iter().map(|name| format!("{OVERLAYS}/{name}")));
        Ok(staged)
    }

    /// Removes all of a trial.
    pub(super) fn clear(&self, cut: Cut<'_>) -> anyhow::Result<()> {
        ensure!(
            !self.is_selected()?,
            "{BOOT_DIR}/{FILE} starts the kernel in {DIRECTORY}: `sudo weaver node update` completes that first"
        );
        if self.is_ours() {
            cut()?;
            if_there(fs::remove_file(self.path(TRYBOOT)))
                .with_context(|| format!("cannot remove {TRYBOOT}"))?;
            self.flush()?;
        }
        cut()?;
        if_there(fs::remove_dir_all(self.path(DIRECTORY)))
            .with_context(|| format!("cannot remove {BOOT_DIR}/{DIRECTORY}"))?;
        self.flush()
    }

    fn put(&self, name: &str, content: &[u8], cut: Cut<'_>) -> anyhow::Result<()> {
        let path = self.path(name);
        cut()?;
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
        }
        // A FAT has one mode for all of its files, and refuses others.
        let mode = fs::metadata(self.path(FILE)).map_or(0o644, |about| about.permissions().mode() & 0o7777);
        Ok(fat_file::replace(&path, content, mode)?)
    }

    fn flush(&self) -> anyhow::Result<()> {
        Ok(flush_file_system(&self.root.real(BOOT_DIR))?)
    }
}

#[cfg(test)]
mod tests;
