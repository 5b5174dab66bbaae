//! What the firmware of a Raspberry Pi takes.
//!
//! - `autoboot.txt` may name another partition; it is limited to 512 bytes
//!   (<https://www.raspberrypi.com/documentation/computers/config_txt.html#autoboot-txt>).
//! - A start with the flag `tryboot` reads `tryboot.txt`; with `tryboot_a_b=1` in `autoboot.txt` it reads
//!   `config.txt` and sees what is below `[tryboot]`.
//! - Ubuntu's piboot-try makes such a start by itself: where the file `state` of the directory that
//!   `[tryboot]` names says `unknown`, the next boot tries that directory, and keeps it where it starts.
//!   After a failure the state is `bad`, and `good` once it was kept. While it is tried it is `trying`
//!   (<https://canonical-ubuntu-boards.readthedocs-hosted.com/en/latest/explanations/piboot-ab/>).

use std::path::Path;

use super::answer::{BootFile, Loader, MachineFacts, NextBoot, StagedFile};
use super::files::{BootFileContent, FatFiles};
use super::loader;
use crate::{
    config_txt::{
        self, BOOT_DIR, ConfigTxt, FILE, Hardware, Included, OLD_BOOT_DIR, OLD_CMDLINE,
        cmdline_file::{CmdlineFile, cmdline_file},
        is_on,
    },
    finding::Place,
    kernel_cmdline::{is_moved_stub, lines, parameters},
    text_file::TextFile,
};

const AUTOBOOT: &str = "autoboot.txt";
const TRYBOOT: &str = "tryboot.txt";
/// "autoboot.txt is limited to 512 bytes".
const AUTOBOOT_LIMIT: usize = 512;
/// Where a directory's state is kept by piboot-try.
const STATE: &str = "state";

/// What decides is not known: where, and why.
type UnknownCause = (Place, String);

pub(super) fn next(files: &FatFiles, machine: &MachineFacts) -> NextBoot {
    let directory = if machine.is_mounted_at_old {
        OLD_BOOT_DIR
    } else {
        machine.mounted_elsewhere.as_deref().unwrap_or_else(|| directory(files))
    };
    let firmware = Firmware { files, machine, directory };
    let file = firmware.regular().unwrap_or_else(undecided);
    if matches!(file, BootFile::Loader(_)) {
        return NextBoot::only(file);
    }
    let trial = firmware.trial();
    let staged = firmware.staged(&file, trial.clone());
    // What a trial would take is known only of the files that the firmware reads.
    let is_read_here = !machine.is_from_network && machine.other_device.is_none();
    let on_request = firmware.on_request(&file, trial).filter(|_| staged.is_none() && is_read_here);
    NextBoot { file, staged, on_request }
}

fn cannot_be_read((place, why): UnknownCause) -> UnknownCause {
    (place, format!("it cannot be read: {why}"))
}

fn undecided((place, why): UnknownCause) -> BootFile {
    BootFile::Undecided { place, why }
}

/// Where the boot partition is mounted.
fn directory(files: &FatFiles) -> &'static str {
    let old = files.text(OLD_CMDLINE).is_some_and(|(_, text)| !is_moved_stub(text));
    let is_in_new =
        [FILE, "cmdline.txt"].iter().any(|name| files.get(&format!("{BOOT_DIR}/{name}")).is_some());
    if old && !is_in_new { OLD_BOOT_DIR } else { BOOT_DIR }
}

struct Firmware<'a> {
    files: &'a FatFiles,
    machine: &'a MachineFacts,
    directory: &'a str,
}

impl Firmware<'_> {
    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.directory)
    }

    /// The file of a regular start.
    fn regular(&self) -> Result<BootFile, UnknownCause> {
        if self.machine.is_from_network {
            let why = "this boot came over the network, and so does its command line".to_owned();
            return Err((Place::file("/proc/device-tree/chosen/bootloader/boot-mode"), why));
        }
        if let Some(cause) = &self.machine.other_device {
            return Err(cause.clone());
        }
        self.partition()?;
        let hardware = Hardware { is_tryboot: false, ..self.machine.hardware.clone() };
        let config = self.config(FILE, &hardware)?;
        if self.value(&config, "boot_ramdisk")?.is_some_and(is_on) {
            let line = config.line("boot_ramdisk").map_or(1, |line| line.number);
            let why = "`boot_ramdisk` has the firmware take all files out of boot.img".to_owned();
            return Err((Place::line(self.path(FILE), line), why));
        }
        let file = self.file(&config)?;
        Ok(match self.other_loader(&config) {
            Some(place) if !self.hands_on(&file) => {
                BootFile::Loader(Box::new(self.loader(place.0, &place.1, &file)))
            }
            _ => file,
        })
    }

    fn loader(&self, place: Place, kernel: &str, file: &BootFile) -> Loader {
        loader::present(self.files).unwrap_or_else(|| loader::unknown(place, kernel, file))
    }

    /// Whether `autoboot.txt` lets the firmware start what is mounted here.
    fn partition(&self) -> Result<(), UnknownCause> {
        let Some((path, config)) = self.autoboot()? else { return Ok(()) };
        let place = |line: &config_txt::Line| Place::line(path.clone(), line.number);
        let line = match config.value("boot_partition") {
            Err(line) => {
                let condition = line.condition.clone().unwrap_or_default();
                return Err((
                    place(line),
                    format!("whether `{}` applies is unknown: {condition}", line.text),
                ));
            }
            Ok(None) => return Ok(()),
            Ok(Some(_)) => config.line("boot_partition"),
        };
        let Some((line, (_, wanted))) = line.and_then(|line| Some((line, line.setting()?))) else {
            return Ok(());
        };
        let here = self.machine.mounted_partition.or(self.machine.booted_partition);
        match (wanted.trim().parse::<u32>(), here) {
            // The first one that can be started.
            (Ok(0), _) => Ok(()),
            (Ok(wanted), Some(here)) if wanted == here => Ok(()),
            (Ok(wanted), Some(here)) => {
                let why = format!(
                    "`{}` has the next boot start partition {wanted}; mounted at {} is partition {here}",
                    line.text, self.directory
                );
                Err((place(line), why))
            }
            (Ok(_), None) => {
                let why =
                    format!("whether {} is the partition of `{}` is unknown", self.directory, line.text);
                Err((place(line), why))
            }
            (Err(_), _) => Err((place(line), format!("`{}` is not a partition number", line.text))),
        }
    }

    /// `autoboot.txt`, as a regular start reads it, and its path.
    fn autoboot(&self) -> Result<Option<(String, ConfigTxt)>, UnknownCause> {
        let Some((path, text)) = self.text(AUTOBOOT).map_err(cannot_be_read)? else { return Ok(None) };
        if text.len() > AUTOBOOT_LIMIT {
            let why = format!("it has more than the {AUTOBOOT_LIMIT} bytes that the firmware reads");
            return Err((Place::file(path), why));
        }
        let no_include = |_: &str| Included::Unreadable(format!("{AUTOBOOT} includes no files"));
        let hardware = Hardware { is_tryboot: false, ..self.machine.hardware.clone() };
        let config = config_txt::read_file(AUTOBOOT, text, &hardware, no_include);
        Ok(Some((path.to_owned(), config)))
    }

    /// A file of the partition and its path; `None` where there is none.
    fn text(&self, name: &str) -> Result<Option<(&str, &str)>, UnknownCause> {
        let why = match self.files.get(&self.path(name)) {
            None => return Ok(None),
            Some((path, BootFileContent::Text { text, .. })) if !text.contains('\0') => {
                return Ok(Some((path, text)));
            }
            // What a file is full of after a power cut.
            Some((path, BootFileContent::Text { .. })) => (path, "it has NUL bytes in it"),
            Some((path, BootFileContent::Unreadable(why))) => (path, why.as_str()),
            Some((path, BootFileContent::Named)) => (path, "it was not read"),
        };
        Err((Place::file(why.0), why.1.to_owned()))
    }

    fn config(&self, name: &str, hardware: &Hardware) -> Result<ConfigTxt, UnknownCause> {
        let text = self.text(name).map_err(cannot_be_read)?.map_or("", |(_, text)| text);
        let include = |name: &str| {
            if name.split('/').any(|part| part == "..") {
                return Included::Unreadable("it is outside of the boot partition".to_owned());
            }
            match self.text(name) {
                Ok(Some((_, text))) => Included::Text(text.to_owned()),
                Ok(None) => Included::Missing,
                Err((_, why)) => Included::Unreadable(why),
            }
        };
        Ok(config_txt::read_file(name, text, hardware, include))
    }

    fn value<'c>(&self, config: &'c ConfigTxt, key: &str) -> Result<Option<&'c str>, UnknownCause> {
        config.value(key).map_err(|line| {
            let why = line.condition.clone().unwrap_or_default();
            let place = Place::line(self.path(&line.file), line.number);
            (place, format!("whether `{}` applies is unknown: {why}", line.text))
        })
    }

    /// The command line that such a configuration names.
    fn file(&self, config: &ConfigTxt) -> Result<BootFile, UnknownCause> {
        let names = |below: &str| self.files.names(&self.path(below));
        let (name, is_default) = match cmdline_file(config, names) {
            CmdlineFile::File { path, is_default } => (path, is_default),
            CmdlineFile::Undecided { file, line, why } => {
                return Err((Place::line(self.path(&file), line), why));
            }
        };
        Ok(match self.files.get(&self.path(&name)) {
            // As a power cut leaves it: no parameter would make a root of it.
            Some((path, BootFileContent::Text { text, damage: None })) if text.trim().is_empty() => {
                BootFile::Unreadable { path: path.to_owned(), why: "it is empty".to_owned() }
            }
            Some((path, BootFileContent::Text { text, damage: None })) => {
                BootFile::Read(TextFile::new(path, text))
            }
            Some((
                path,
                BootFileContent::Text { damage: Some(why), .. } | BootFileContent::Unreadable(why),
            )) => BootFile::Unreadable { path: path.to_owned(), why: why.clone() },
            Some((path, BootFileContent::Named)) => {
                BootFile::Unreadable { path: path.to_owned(), why: "it is not text".to_owned() }
            }
            None if is_default => BootFile::Missing,
            None if name.contains('#') => {
                let line = config.line("cmdline").map_or(1, |line| line.number);
                let why = format!("the firmware takes the comment for a part of the name `{name}`");
                return Err((Place::line(self.path(FILE), line), why));
            }
            None => BootFile::Unreadable {
                why: format!("{FILE} names it, and it does not exist"),
                path: self.path(&name),
            },
        })
    }

    /// The line with which the firmware starts a boot loader instead of the kernel.
    fn other_loader(&self, config: &ConfigTxt) -> Option<(Place, String)> {
        let starts_other = |line: &&config_txt::Line| {
            let Some((key, value)) = line.setting() else { return false };
            let value = value.to_ascii_lowercase();
            let ends = |with: &str| Path::new(&value).extension().is_some_and(|end| end == with);
            match key {
                "kernel" => value.contains("u-boot") || value.contains("uboot") || ends("efi"),
                "armstub" => ends("fd") || value.contains("uefi"),
                _ => false,
            }
        };
        let is_last = |line: &&config_txt::Line| {
            let key = line.setting().map(|(key, _)| key).unwrap_or_default();
            line.condition.is_some() || config.line(key) == Some(*line)
        };
        let line = config.lines().iter().filter(starts_other).rfind(is_last)?;
        Some((Place::line(self.path(&line.file), line.number), line.text.clone()))
    }

    /// Whether the running kernel got all that the file says: then the boot loader passes it on, as Ubuntu's
    /// did. Parameters of ours may have been changed since.
    fn hands_on(&self, file: &BootFile) -> bool {
        let (BootFile::Read(file), Some(running)) = (file, &self.machine.running) else { return false };
        let running: Vec<_> = parameters(running, 1).into_iter().map(|parameter| parameter.text).collect();
        // The firmware writes another name for the serial port.
        let is_ours = |text: &str| text.starts_with("cgroup_") || text.starts_with("console=");
        let mut wanted =
            parameters(lines(&file.text)[0], 1).into_iter().map(|it| it.text).filter(|it| !is_ours(it));
        let Some(first) = wanted.next() else { return false };
        running.contains(&first) && wanted.all(|parameter| running.contains(&parameter))
    }

    /// What a start with the flag `tryboot` takes, and below which prefix.
    fn trial(&self) -> Result<(Option<String>, BootFile), UnknownCause> {
        let has_flag =
            |(_, config): (String, ConfigTxt)| config.value("tryboot_a_b").ok().flatten().is_some_and(is_on);
        let is_in_config = self.autoboot().ok().flatten().is_some_and(has_flag)
            || self.files.get(&self.path(TRYBOOT)).is_none();
        let name = if is_in_config { FILE } else { TRYBOOT };
        let hardware = Hardware { is_tryboot: true, ..self.machine.hardware.clone() };
        let config = self.config(name, &hardware)?;
        let names = |below: &str| self.files.names(&self.path(below));
        let prefix = match cmdline_file(&config, names) {
            CmdlineFile::File { path, .. } => path.rsplit_once('/').map(|(prefix, _)| prefix.to_owned()),
            CmdlineFile::Undecided { .. } => None,
        };
        Ok((prefix, self.file(&config)?))
    }

    /// The same, where a user has to ask for it and it is another one.
    fn on_request(
        &self,
        regular: &BootFile,
        trial: Result<(Option<String>, BootFile), UnknownCause>,
    ) -> Option<BootFile> {
        if let Some(elsewhere) = self.trial_elsewhere() {
            return Some(undecided(elsewhere));
        }
        let (prefix, file) = trial.ok()?;
        // Ubuntu makes its trials by itself, and what is left of the last one is not pending.
        let is_ubuntus =
            prefix.is_some_and(|slot| self.files.get(&self.path(&format!("{slot}/{STATE}"))).is_some());
        (!is_ubuntus && matches!(file, BootFile::Read(_)) && file != *regular).then_some(file)
    }

    /// The line of `autoboot.txt` by which a trial starts another partition, whose files are not here.
    fn trial_elsewhere(&self) -> Option<UnknownCause> {
        let (path, text) = self.text(AUTOBOOT).ok()??;
        let no_include = |_: &str| Included::Missing;
        let hardware = Hardware { is_tryboot: true, ..self.machine.hardware.clone() };
        let config = config_txt::read_file(AUTOBOOT, text, &hardware, no_include);
        let here = self.machine.mounted_partition.or(self.machine.booted_partition)?;
        let wanted: u32 = config.value("boot_partition").ok()??.trim().parse().ok()?;
        let line = config.line("boot_partition")?;
        (wanted != 0 && wanted != here).then(|| {
            let why = format!("a start on trial takes partition {wanted}, which has boot files of its own");
            (Place::line(path, line.number), why)
        })
    }

    /// The file that piboot-try has the next boot try.
    fn staged(
        &self,
        regular: &BootFile,
        trial: Result<(Option<String>, BootFile), UnknownCause>,
    ) -> Option<StagedFile> {
        let (slot, file) = match trial {
            Ok((prefix, file)) if file != *regular => (prefix?, file),
            Ok(_) => return None,
            // Whichever it is: this is the one of Ubuntu.
            Err(unknown) => ("new".to_owned(), undecided(unknown)),
        };
        self.state(&slot, file)
    }

    fn state(&self, slot: &str, file: BootFile) -> Option<StagedFile> {
        let (path, content) = self.files.get(&self.path(&format!("{slot}/{STATE}")))?;
        let state = match content {
            BootFileContent::Text { text, .. } => text.trim(),
            BootFileContent::Unreadable(_) | BootFileContent::Named => "unreadable",
        };
        let is_certain = match (state, self.machine.is_trial) {
            ("good" | "bad", _) | ("trying", Some(false)) => return None,
            ("unknown", _) => true,
            _ => false,
        };
        let takes = if is_certain { "tries" } else { "may take" };
        let saw = format!("{state}: the next boot {takes} {slot}/");
        Some(StagedFile { file, because: (Place::file(path), saw), is_certain })
    }
}
