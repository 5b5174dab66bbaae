//! Has avahi, which answers for `NAME.local` on this host, announce the node too: a file in its directory of services.
//! There is no second responder next to it. Where avahi is not installed, nothing is announced.
//!
//! Guarantees: the file contains what the card's page shows to everyone, and nothing that changes between boots without
//! a cause: a boot that changes nothing writes nothing. avahi reads the file when it is replaced, which is done whole;
//! it is removed when nothing must be announced any more. The decisions are made here, the publisher carries them out.

use std::{fmt::Write as _, fs, path::Path};

use clap::ValueEnum;
use weaver_diagnostics::{
    announcement::{Announcement, NodeState, SERVICE},
    weaver_toml::plan::ANNOUNCEMENT,
};

use super::{html, page::ReportPage};
use crate::{facts::identity, host::Host, host_root::HostRoot};

/// Whether the node announces itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Choice {
    /// Where anyone may look at the card's page.
    Auto,
    Yes,
    No,
}

/// What must be announced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RequiredAnnouncement {
    /// Nothing: there is no avahi, and no file to write.
    NoAvahi,
    Nothing,
    /// The content of the file.
    File(String),
}

#[derive(Debug)]
pub struct Announcer {
    host: Host,
    choice: Choice,
}

impl Announcer {
    pub const fn new(host: Host, choice: Choice) -> Self {
        Self { host, choice }
    }

    /// The wanted content of the file.
    pub(super) fn wanted(
        &self,
        root: &HostRoot,
        page: &ReportPage<'_>,
        is_seen: bool,
    ) -> RequiredAnnouncement {
        let path = root.real(ANNOUNCEMENT);
        if !path.parent().is_some_and(Path::is_dir) {
            return RequiredAnnouncement::NoAvahi;
        }
        let joins = self.host.joins();
        if !is_wanted(self.choice, is_seen, joins) {
            return RequiredAnnouncement::Nothing;
        }
        let port = if is_seen { html::PORT } else { self.host.api_address(&self.host.effective()).port() };
        // While k3s starts, the file stays as an earlier boot had it.
        let is_starting = !joins && page.state() == NodeState::Starting;
        let before =
            || proven_before(&fs::read_to_string(&path).ok().filter(|_| is_starting)?, page.host_name);
        let served = page.best_name().map(str::to_owned);
        let announcement = Announcement {
            name: Some(page.host_name.to_owned()),
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            joins,
            has_page: is_seen,
            ca: self.ca(root),
            served: served.or_else(before),
        };
        RequiredAnnouncement::File(service_file(&announcement, port))
    }

    /// Its fingerprint; none where the cluster is not this host's own.
    fn ca(&self, root: &HostRoot) -> Option<String> {
        if self.host.joins() || self.host.k3d().is_some() {
            return None;
        }
        identity::ca_fingerprint(root, &self.host.k3s_data_dir())
    }
}

/// Without a page, a node that joins a server has no port to announce.
fn is_wanted(choice: Choice, is_seen: bool, joins: bool) -> bool {
    match choice {
        Choice::Auto => is_seen,
        Choice::Yes => is_seen || !joins,
        Choice::No => false,
    }
}

const TXT: (&str, &str) = ("<txt-record>", "</txt-record>");

/// In avahi's own format. No record contains a character that XML would not accept as it is.
fn service_file(announcement: &Announcement, port: u16) -> String {
    let mut records = String::new();
    for record in announcement.records() {
        let _ = writeln!(records, "    {}{record}{}", TXT.0, TXT.1);
    }
    format!(
        "<?xml version=\"1.0\" standalone='no'?>
<!-- Written by weaver-node-agent. To announce nothing: `announce = false` below [status] of weaver.toml. -->
<!DOCTYPE service-group SYSTEM \"avahi-service.dtd\">
<service-group>
  <name replace-wildcards=\"yes\">%h</name>
  <service>
    <type>{SERVICE}</type>
    <port>{port}</port>
{records}  </service>
</service-group>
"
    )
}

/// The name that an earlier boot had proven, where this host was called as it is now.
fn proven_before(text: &str, host_name: &str) -> Option<String> {
    let records = || text.lines().filter_map(|line| line.trim().strip_prefix(TXT.0)?.strip_suffix(TXT.1));
    let of = |key: &str| records().find_map(|record| record.strip_prefix(key)?.strip_prefix('='));
    of("name").filter(|name| *name == host_name)?;
    of("served").map(str::to_owned)
}

#[cfg(test)]
mod tests;
