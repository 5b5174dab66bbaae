//! With which kernel command line the next boot runs.
//!
//! Decided from a map of files alone: on a Raspberry Pi from what its firmware reads (`autoboot.txt`,
//! `config.txt` with all that it includes, the slots of Ubuntu's piboot-try), elsewhere, or where the
//! firmware starts another boot loader, from the configuration of GRUB, U-Boot or extlinux.
//!
//! Guarantees: nothing is guessed. What depends on something that no file says is [`BootFile::Undecided`], or a
//! [`Loader::unsure`], with the file and the line that say so.

mod answer;
mod files;
mod firmware;
mod loader;

pub use answer::{BootFile, Loader, LoaderLine, MachineFacts, NextBoot, StagedFile};
pub use files::{BootFileContent, FatFiles};
pub use loader::{DIRECTORIES, FILES};

/// What the next boot takes.
pub fn forecast(files: &FatFiles, machine: &MachineFacts) -> NextBoot {
    if let Some(loader) = loader::running(files, machine) {
        return NextBoot::only(BootFile::Loader(Box::new(loader)));
    }
    let next = firmware::next(files, machine);
    if matches!(next.file, BootFile::Missing)
        && let Some(loader) = loader::present(files)
    {
        return NextBoot::only(BootFile::Loader(Box::new(loader)));
    }
    next
}

#[cfg(test)]
mod tests;
