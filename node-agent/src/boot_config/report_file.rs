//! `report.json` in boot-config's state directory: what boot-config found, for the node's report.
//!
//! Written on every run, but only when the bytes differ. Readers never fail because of it: no file is no finding, and a
//! file that cannot be read is one finding of severity `unknown`. After an update or a downgrade the file is that of
//! another version until the next boot: what this version does not know of it hides nothing else.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use weaver_diagnostics::finding::{Code, Finding, Place, Remedy};
use weaver_diagnostics::reported_findings::ReportedFindings;

use crate::host_root::HostRoot;

/// The report, as the host knows it.
pub fn path(state_dir: &Path) -> PathBuf {
    state_dir.join("report.json")
}

/// What the last run of boot-config found; nothing where it never ran.
pub fn read_report(root: &HostRoot, state_dir: &Path) -> Vec<Finding> {
    let path = path(state_dir);
    let place = || Place::file(path.display().to_string());
    let not_known = |message: &str| {
        let remedy = Remedy::new("read its log").command("journalctl -b -u weaver-boot-config");
        Finding::new(Code::BootConfigUnknown, message).remedy(remedy)
    };
    let unknown = |why: &str| vec![not_known("the report of boot-config cannot be read").saw(place(), why)];
    match root.read(&path) {
        Ok(None) => Vec::new(),
        Ok(Some(file)) => match serde_json::from_str::<BootReport>(&file.text) {
            Ok(report) => report.findings.with_unknown(&place(), |count| {
                not_known(&format!("boot-config reports {count} findings that this version does not know"))
            }),
            Err(error) => unknown(&format!("it is not a report of boot-config: {error}")),
        },
        Err(error) => unknown(&error.to_string()),
    }
}

#[derive(Deserialize)]
struct BootReport {
    findings: ReportedFindings,
}

#[cfg(test)]
mod tests {
    use std::fs;

    use weaver_diagnostics::finding::Severity;

    use super::*;

    const STATE: &str = "/var/lib/weaver/boot-config";

    fn read(content: Option<&[u8]>) -> Vec<Finding> {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::new(dir.path().to_owned());
        fs::create_dir_all(root.real(STATE)).unwrap();
        if let Some(content) = content {
            fs::write(root.real(path(Path::new(STATE))), content).unwrap();
        }
        read_report(&root, Path::new(STATE))
    }

    #[test]
    fn what_was_written_is_read_back() {
        let findings = vec![
            Finding::new(Code::WeaverTomlInvalid, "bad")
                .saw(Place::at("/boot/firmware/weaver.toml", 3, 5), "x")
                .saw(Place::file("/f"), "y")
                .remedy(Remedy { diff: Some("-a\n+b\n".to_owned()), ..Remedy::new("do").command("true") }),
            Finding::new(Code::WeaverTomlInForce, "good"),
        ];
        let text = crate::report::json(&findings).unwrap();
        assert_eq!(read(Some(text.as_bytes())), findings);
    }

    #[test]
    fn no_report_is_no_finding() {
        assert!(read(None).is_empty());
    }

    #[test]
    fn a_broken_report_is_unknown_and_never_bad() {
        for broken in [
            &b""[..],
            b"{\"findings\":[",
            b"\xff\xfe",
            b"{\"findings\":[{\"severity\":\"fail\",\"code\":\"Z-99\",\"message\":\"m\",\"evidence\":[]}]}",
        ] {
            let findings = read(Some(broken));
            assert_eq!(findings.len(), 1, "{broken:?}");
            let found = (findings[0].severity(), findings[0].code);
            assert_eq!(found, (Severity::Unknown, Code::BootConfigUnknown), "{broken:?}");
        }
    }

    #[test]
    fn a_report_of_another_version_is_read_as_far_as_this_one_knows_it() {
        let report = br#"{"exitCode": 10, "by": "9.0.0", "findings": [
            {"severity": "fail", "code": "Z-99", "message": "m", "evidence": []},
            {"severity": "grave", "code": "B-01", "message": "bad", "evidence": []}]}"#;
        let findings = read(Some(&report[..]));
        let seen: Vec<_> = findings.iter().map(|finding| (finding.code, finding.severity())).collect();
        let not_known = (Code::BootConfigUnknown, Severity::Unknown);
        assert_eq!(seen, [(Code::WeaverTomlInvalid, Severity::Warn), not_known]);
        assert_eq!(findings[1].evidence[0].saw, r#""Z-99: m""#);
    }
}
