//! Makes Debian's generator of `cmdline.txt` keep what was appended to that file.
//!
//! What was appended is recorded before it is passed on: interrupted in between, the next start does the same again,
//! and nothing of ours is ever mistaken for the owner's.

use std::path::Path;

use weaver_diagnostics::{
    config_txt::BOOT_DIR,
    kept_cmdline::{KeptParameters, kept},
    memory_cgroup::EXTRA_CMDLINE,
    next_boot::BootFile,
    weaver_toml::plan::File,
};

use super::{BootConfigRun, BootOutcome, SetError, settings_file};
use crate::boot_files;

/// In the state directory: what of the generator's file came from `cmdline.txt`.
const NOTED: &str = "imported-cmdline";

impl BootConfigRun<'_> {
    /// Reports nothing about a `cmdline.txt` that cannot be read: that is the agent's finding.
    pub(super) fn keep_cmdline(&self, outcome: &mut BootOutcome) {
        if !matches!(settings_file::is_mounted(self.root, Path::new(BOOT_DIR)), Ok(None | Some(true))) {
            return;
        }
        let BootFile::Read(cmdline) = boot_files::read(self.root).next.file else { return };
        let extra = match self.root.read(EXTRA_CMDLINE) {
            Ok(file) => file.map(|file| file.text).unwrap_or_default(),
            Err(error) => {
                outcome.note(Err(SetError::new(EXTRA_CMDLINE, error.to_string())));
                return;
            }
        };
        let noted = self.state_dir.join(NOTED);
        let imported = self.root.read_if_possible(&noted).map(|file| file.text).unwrap_or_default();
        let Some(KeptParameters { extra, imported }) = kept(&cmdline.text, &extra, &imported) else { return };
        let file = |path: String, content| File { path, mode: 0o644, content };
        if outcome.note(self.host.write(&file(noted.display().to_string(), imported))) {
            outcome.note(if extra.is_empty() {
                self.host.remove(EXTRA_CMDLINE)
            } else {
                self.host.write(&file(EXTRA_CMDLINE.to_owned(), extra))
            });
        }
    }
}
