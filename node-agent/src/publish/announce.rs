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
    #[must_use]
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
mod tests {
    use super::*;
    use crate::{
        host_args::HostArgs,
        node_report::{Gate, Report},
        publish::{PublishError, announce},
    };
    use clap::Parser;
    use jiff::Timestamp;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    use std::path::PathBuf;
    use weaver_diagnostics::{
        finding::{Code, Finding, Place},
        weaver_toml::plan::AGENT_ROLE,
    };

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        host: HostArgs,
    }

    struct Case {
        dir: tempfile::TempDir,
        choice: Choice,
    }

    impl Case {
        fn new(files: &[(&str, &str)]) -> Self {
            let case = Self { dir: tempfile::tempdir().unwrap(), choice: Choice::Auto };
            fs::create_dir_all(case.path("/etc/avahi/services")).unwrap();
            for (path, text) in files {
                fs::create_dir_all(case.path(path).parent().unwrap()).unwrap();
                fs::write(case.path(path), text).unwrap();
            }
            case
        }

        fn path(&self, path: &str) -> PathBuf {
            self.dir.path().join(path.trim_start_matches('/'))
        }

        fn announce(&self, host_name: &str, report: &Report, is_seen: bool) -> Result<(), PublishError> {
            let root = self.dir.path().to_owned();
            let flags = Flags::parse_from(["agent", "--root", root.to_str().unwrap(), "--cluster", "k3s"]);
            let page = ReportPage { host_name, time: Timestamp::UNIX_EPOCH, synchronised: true, report };
            let announcer = Announcer::new(Host::from(flags.host), self.choice);
            let root = HostRoot::new(root);
            announce(&root, announcer.wanted(&root, &page, is_seen))
        }

        fn text(&self) -> Option<String> {
            fs::read_to_string(self.path(ANNOUNCEMENT)).ok()
        }
    }

    fn open(names: &[&str]) -> Report {
        let proof = Finding::new(Code::ServingNamesOk, "proves them");
        let saw =
            |proof: Finding, name: &&str| proof.saw(Place::file("/k3s.yaml"), format!("tls-san {name}"));
        Report { gate: Gate::Open, findings: vec![names.iter().fold(proof, saw)], ..Report::unchecked() }
    }

    const DATA: &str = "/var/lib/rancher/k3s/server/tls/server-ca.crt";

    #[test]
    fn the_file_is_one_that_avahi_takes() {
        let case = Case::new(&[(DATA, "abc")]);
        case.announce("raspi", &open(&["raspi", "raspi.lan"]), true).unwrap();
        let want = format!(
            "<?xml version=\"1.0\" standalone='no'?>
<!-- Written by weaver-node-agent. To announce nothing: `announce = false` below [status] of weaver.toml. -->
<!DOCTYPE service-group SYSTEM \"avahi-service.dtd\">
<service-group>
  <name replace-wildcards=\"yes\">%h</name>
  <service>
    <type>_weaver._tcp</type>
    <port>9480</port>
    <txt-record>txtvers=1</txt-record>
    <txt-record>name=raspi</txt-record>
    <txt-record>version={}</txt-record>
    <txt-record>role=server</txt-record>
    <txt-record>port=page</txt-record>
    <txt-record>ca=ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad</txt-record>
    <txt-record>served=raspi.lan</txt-record>
  </service>
</service-group>
",
            env!("CARGO_PKG_VERSION")
        );
        assert_eq!(case.text().unwrap(), want);
        let mode = fs::metadata(case.path(ANNOUNCEMENT)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644);
    }

    #[test]
    fn a_boot_that_finds_all_as_it_was_writes_nothing() {
        let case = Case::new(&[(DATA, "abc")]);
        case.announce("raspi", &open(&["raspi.lan"]), true).unwrap();
        let inode = || fs::metadata(case.path(ANNOUNCEMENT)).unwrap().ino();
        let before = (inode(), case.text());
        let failed =
            Report { findings: vec![Finding::new(Code::MemoryTooSmall, "x")], ..Report::unchecked() };
        for report in [Report::unchecked(), open(&["raspi.lan"])] {
            case.announce("raspi", &report, true).unwrap();
            assert_eq!((inode(), case.text()), before, "{report:?}");
        }
        // What is not proven any more, or by another name of this host, is not announced.
        case.announce("raspi", &failed, true).unwrap();
        assert!(!case.text().unwrap().contains("served="), "{:?}", case.text());
        case.announce("raspi", &open(&["raspi.lan"]), true).unwrap();
        case.announce("attic", &Report::unchecked(), true).unwrap();
        assert!(!case.text().unwrap().contains("served="), "{:?}", case.text());
        case.announce("attic", &open(&["attic.lan"]), true).unwrap();
        let text = case.text().unwrap();
        assert!(text.contains(">name=attic<") && text.contains(">served=attic.lan<"), "{text}");
    }

    #[test]
    fn what_is_announced_of_which_node() {
        for (choice, is_seen, joins, port) in [
            (Choice::Auto, true, false, Some("9480")),
            (Choice::Auto, false, false, None),
            (Choice::Auto, true, true, Some("9480")),
            (Choice::Auto, false, true, None),
            (Choice::Yes, false, false, Some("6443")),
            (Choice::Yes, true, true, Some("9480")),
            (Choice::Yes, false, true, None),
            (Choice::No, true, false, None),
        ] {
            let mut case = Case::new(&[(DATA, "abc"), (ANNOUNCEMENT, "an older one")]);
            case.choice = choice;
            if joins {
                fs::create_dir_all(case.path("/etc/weaver")).unwrap();
                fs::write(case.path(AGENT_ROLE), "").unwrap();
            }
            case.announce("raspi", &Report::unchecked(), is_seen).unwrap();
            let what = format!("{choice:?} {is_seen} {joins}");
            let text = case.text();
            assert_eq!(text.is_some(), port.is_some(), "{what}");
            let Some((text, port)) = text.zip(port) else { continue };
            assert!(text.contains(&format!("<port>{port}</port>")), "{what}: {text}");
            assert_eq!(text.contains("port=page"), is_seen, "{what}");
            assert_eq!(
                (text.contains("role=agent"), text.contains("ca=")),
                (joins, !joins),
                "{what}: {text}"
            );
            case.announce("raspi", &Report::unchecked(), is_seen).unwrap();
        }
    }

    /// The report is the node's own, the host name and the proven names come from files.
    #[test]
    fn nothing_of_a_finding_and_no_odd_name_is_announced() {
        let case = Case::new(&[]);
        let bad = Finding::new(Code::MemoryTooSmall, "451 MB").saw(Place::file("/x"), "token: hunter2");
        let mut report = open(&["<x>", "a b", "$(reboot)"]);
        report.findings.push(bad);
        report.reason = "hunter2".to_owned();
        case.announce("</name><evil/>", &report, true).unwrap();
        let text = case.text().unwrap();
        for never in ["hunter2", "451", "N-12", "evil", "reboot", "<x>", "a b", "name=", "served="] {
            assert!(!text.contains(never), "{never}: {text}");
        }
    }

    #[test]
    fn without_avahi_there_is_nothing_and_a_file_that_cannot_be_written_is_named() {
        let case = Case::new(&[]);
        fs::remove_dir_all(case.path("/etc/avahi")).unwrap();
        case.announce("raspi", &open(&[]), true).unwrap();
        assert!(!case.path("/etc/avahi").exists());
        fs::create_dir_all(case.path(ANNOUNCEMENT).join("x")).unwrap();
        let error = case.announce("raspi", &open(&[]), true).unwrap_err().to_string();
        assert!(error.contains("weaver.service") && error.contains("restart weaver-node-agent"), "{error}");
    }
}
