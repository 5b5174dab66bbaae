//! Publishes the node's report, for preflight and for the agent alike: `report.json` and `node-status.txt` in the
//! runtime directory, the console's banner, the page on the boot partition, the one for a browser where it is shown,
//! and what avahi announces.
//!
//! Guarantees: one writer at a time, by a lock file; each file is replaced whole, and only when it changes; where the
//! boot partition cannot be written all the rest is, with the reason. No secret is published: findings contain none.
//! The caller logs a failure and tries again; nothing is judged here.

pub mod announce;
pub mod banner;
pub mod card;
pub mod html;
pub mod page;
pub mod write_budget;

use std::{
    fs::{self, DirBuilder, File, TryLockError},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use jiff::Timestamp;
use weaver_diagnostics::weaver_toml::plan::{ANNOUNCEMENT, PAGE_ENVIRONMENT, PAGE_OFF};
use weaver_host::durable_file::{self, WriteError};
use weaver_host::file_lock::lock_within;

use self::{
    announce::{Announcer, RequiredAnnouncement},
    card::{BootPartition, Publication},
    page::ReportPage,
    write_budget::WriteBudget,
};
use crate::{clock_wait, host_root::HostRoot, node_report};

/// How long to wait for another writer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The banner's file in the directory of issue(5); its number determines its position among others.
const BANNER: &str = "/run/issue.d/50-weaver.issue";
/// A getty reads the banner when its prompt starts, and again only when this file is touched, as `agetty --reload`
/// does: it watches for changes of the file's times or content, not for its closing. Where it is absent, none waits.
const AGETTY_RELOAD: &str = "/run/agetty.reload";
/// There where this host can show a page to browsers.
const PAGE_SOCKET: &str = "/usr/lib/systemd/system/weaver-page.socket";
const HOST_NAMES: [&str; 2] = ["/proc/sys/kernel/hostname", "/etc/hostname"];

/// Why something could not be published.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// Another program holds the lock.
    #[error(
        "{} has been locked by another program for more than {} s: stop it, `sudo fuser` on that file shows \
         it",
        path.display(), PATIENCE.as_secs()
    )]
    Busy { path: PathBuf },
    /// A directory or the lock cannot be used.
    #[error("cannot use {}: {source}; check its owner, its mode and the free space", path.display())]
    Unusable {
        /// The directory or file.
        path: PathBuf,
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("{source}: {}; check the free space of /run", cause(source))]
    Write {
        #[from]
        source: WriteError,
    },
    /// The announcement cannot be written.
    #[error(
        "{source}: {}; if avahi-daemon was installed just now, type: sudo systemctl restart weaver-node-agent",
        cause(source)
    )]
    Announce { source: WriteError },
    /// The report cannot be put into JSON.
    #[error("cannot write the report as JSON: {0}; this is a fault of this program")]
    Json(#[from] serde_json::Error),
}

fn cause(error: &WriteError) -> String {
    std::error::Error::source(error).map(ToString::to_string).unwrap_or_default()
}

#[derive(Debug)]
pub struct Publisher {
    runtime_dir: PathBuf,
    root: HostRoot,
    card: BootPartition,
    /// The last result for the boot partition.
    card_said: Option<node_report::CardStatus>,
    announcer: Option<Announcer>,
}

impl Publisher {
    /// `boot_dir` is a path of the host, the other two are as they are.
    pub fn new(root: &HostRoot, runtime_dir: PathBuf, boot_dir: PathBuf, state_dir: &Path) -> Self {
        let budget = WriteBudget::new(state_dir.join("card-writes"));
        let card = BootPartition::new(root.clone(), boot_dir, budget);
        Self { runtime_dir, root: root.clone(), card, card_said: None, announcer: None }
    }

    /// Announces the node as well.
    #[must_use]
    pub fn announcing(self, announcer: Announcer) -> Self {
        Self { announcer: Some(announcer), ..self }
    }

    /// Publishes the report; the outcome is that of the boot partition.
    ///
    /// The boot partition comes last: a dying card can block a writer.
    ///
    /// # Errors
    /// One of the other files could not be written; those that could, are.
    pub fn publish(
        &mut self,
        report: &node_report::Report,
        now: Timestamp,
    ) -> Result<Publication, PublishError> {
        make_directory(&self.runtime_dir, 0o750)?;
        let _lock = lock(&self.runtime_dir.join("publish.lock"))?;
        let host_name = host_name(&self.root);
        let synchronised = clock_wait::is_synchronised(&self.root);
        let page = ReportPage { host_name: &host_name, time: now, synchronised, report };
        let mut written = self.write(&page);
        let outcome = self.card.show(&page);
        let fault = outcome.fault();
        let card = node_report::CardStatus { current: fault.is_none(), reason: fault.unwrap_or_default() };
        let card = Some(card);
        if self.card_said != card {
            self.card_said = card;
            written = self.write(&page);
        }
        written.map(|()| outcome)
    }

    /// Everything but the boot partition. Each file on its own: a failure does not affect the others.
    fn write(&self, page: &ReportPage<'_>) -> Result<(), PublishError> {
        let card = self.card_said.clone();
        let fault = card.as_ref().filter(|card| !card.current).map(|card| card.reason.as_str());
        let report_json = node_report::Report { card: card.clone(), ..page.report.clone() };
        let report_json = serde_json::to_vec_pretty(&report_json)?;
        let text_path = self.runtime_dir.join("node-status.txt");
        let banner = banner::banner(page, fault, &text_path.display().to_string(), self.is_seen());

        let report = replace_changed(&self.runtime_dir.join("report.json"), &report_json, 0o640);
        let text = replace_changed(&text_path, page.text().as_bytes(), 0o640);
        let banner_path = self.root.real(BANNER);
        let banner = banner_path
            .parent()
            .map_or(Ok(()), |parent| make_directory(parent, 0o755))
            .and_then(|()| replace_changed(&banner_path, banner.as_bytes(), 0o644));
        let browser = if self.shows_page() {
            // Anyone may read it, over the network too.
            let html = replace_changed(&self.root.real(html::FILE), page.html().as_bytes(), 0o644);
            let state = format!("{}\n", page.state().word());
            html.and(replace_changed(&self.root.real(html::STATE_FILE), state.as_bytes(), 0o644))
        } else {
            Ok(false)
        };
        let announced = self.announcer.as_ref().map_or(Ok(()), |announcer| {
            announce(&self.root, announcer.wanted(&self.root, page, self.is_seen()))
        });
        if matches!(banner, Ok(true)) {
            touch(&self.root.real(AGETTY_RELOAD));
        }
        report.and(text).and(banner).and(browser).and(announced)
    }

    /// Whether browsers in the network may see the page: not where only some addresses are configured.
    fn is_seen(&self) -> bool {
        self.shows_page() && !self.root.exists(PAGE_ENVIRONMENT)
    }

    fn shows_page(&self) -> bool {
        self.root.exists(PAGE_SOCKET) && !self.root.exists(PAGE_OFF)
    }
}

/// Has avahi announce that. avahi reads the file as a user of its own.
fn announce(root: &HostRoot, wanted: RequiredAnnouncement) -> Result<(), PublishError> {
    let path = root.real(ANNOUNCEMENT);
    match wanted {
        RequiredAnnouncement::NoAvahi => Ok(()),
        RequiredAnnouncement::Nothing => durable_file::if_there(fs::remove_file(&path))
            .map_err(|source| PublishError::Unusable { path, source }),
        RequiredAnnouncement::File(text) => {
            replace_changed(&path, text.as_bytes(), 0o644).map(drop).map_err(|error| match error {
                PublishError::Write { source } => PublishError::Announce { source },
                other => other,
            })
        }
    }
}

/// Returns whether it was written; it is not when the file has this content already.
fn replace_changed(path: &Path, content: &[u8], mode: u32) -> Result<bool, PublishError> {
    if fs::read(path).is_ok_and(|shown| shown == content) {
        return Ok(false);
    }
    durable_file::replace(path, content, mode)?;
    Ok(true)
}

/// Gives a file the present time, where it is there.
pub fn touch(path: &Path) {
    let _ = File::options().write(true).open(path).and_then(|file| file.set_modified(SystemTime::now()));
}

fn make_directory(path: &Path, mode: u32) -> Result<(), PublishError> {
    let outcome = DirBuilder::new().recursive(true).mode(mode).create(path);
    outcome.map_err(|source| PublishError::Unusable { path: path.to_owned(), source })
}

/// Locked until the file is closed, by the kernel if the process dies.
fn lock(path: &Path) -> Result<File, PublishError> {
    let failed = |source| PublishError::Unusable { path: path.to_owned(), source };
    let file = File::create(path).map_err(failed)?;
    match lock_within(&file, PATIENCE) {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(PublishError::Busy { path: path.to_owned() }),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

/// The running system's name, else the configured one.
fn host_name(root: &HostRoot) -> String {
    HOST_NAMES
        .iter()
        .filter_map(|path| root.read_if_possible(path))
        .map(|file| file.text.trim().to_owned())
        .find(|name| !name.is_empty() && name != "(none)")
        .unwrap_or_else(|| "(no host name)".to_owned())
}

#[cfg(test)]
mod tests;
