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
    let saw = |proof: Finding, name: &&str| proof.saw(Place::file("/k3s.yaml"), format!("tls-san {name}"));
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
    let failed = Report { findings: vec![Finding::new(Code::MemoryTooSmall, "x")], ..Report::unchecked() };
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
        assert_eq!((text.contains("role=agent"), text.contains("ca=")), (joins, !joins), "{what}: {text}");
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
