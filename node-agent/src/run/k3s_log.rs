//! The last known message of k3s, where it does not come up: the last line of its journal that the recogniser of
//! `weaver explain` knows.
//!
//! Guarantees: the journal is read only for a fault that is reported anyway, at most every [`PAUSE`], and a bounded
//! part of it; no line is passed on, only its code and the recogniser's explanation. Failure: without an answer in
//! time, or without a line that is known, nothing is added.

use std::{path::PathBuf, process::Stdio, time::Duration};

use tokio::{
    io::AsyncReadExt as _,
    process::Command,
    task::spawn_blocking,
    time::{Instant, timeout},
};
use tracing::debug;
use weaver_diagnostics::{
    finding::{Finding, Place},
    recognise::{LogContext, Recogniser},
};

use crate::systemctl::DEADLINE;

/// Between two reads: a line stays true for a while, and a read is slow on a slow board.
const PAUSE: Duration = Duration::from_secs(30);
/// The most lines that are read, and the most bytes of them.
const LINES: &str = "300";
const BYTES: u64 = 1 << 20;
/// The level of the line with which k3s ends, and the line with which it begins.
const FATAL: &[u8] = b"level=fatal";
const BEGINS: &[u8] = b"Starting k3s ";

#[derive(Debug)]
pub struct K3sLog {
    program: PathBuf,
    looked: Option<Instant>,
    said: Option<String>,
}

impl K3sLog {
    /// Read by this program, as `journalctl` does.
    pub const fn new(program: PathBuf) -> Self {
        Self { program, looked: None, said: None }
    }

    /// The fault, with the unit's last message, if that is known.
    pub async fn explain(&mut self, fault: Finding, unit: &str) -> Finding {
        if self.looked.is_none_or(|at| at.elapsed() >= PAUSE) {
            self.said = self.read(unit).await;
            self.looked = Some(Instant::now());
        }
        match &self.said {
            Some(said) => fault.saw(Place::file(format!("journal of {unit}")), said),
            None => fault,
        }
    }

    async fn read(&self, unit: &str) -> Option<String> {
        let mut journal = Command::new(&self.program);
        journal.args(["--boot", "--quiet", "--no-pager", "--output=cat", "--lines", LINES, "--unit", unit]);
        journal.env("LC_ALL", "C").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let child = journal.process_group(0).kill_on_drop(true).spawn();
        let mut child = child.inspect_err(|error| debug!("cannot read the journal: {error}")).ok()?;
        let mut text = Vec::new();
        let reading = child.stdout.take()?.take(BYTES);
        let mut reading = std::pin::pin!(reading);
        timeout(DEADLINE, reading.read_to_end(&mut text)).await.ok()?.ok()?;
        spawn_blocking(move || last_known(&text)).await.ok()?
    }
}

/// The last known line with which k3s ended in its last start, or the last known line of any kind; where there is none,
/// the one with which an earlier start ended.
fn last_known(text: &[u8]) -> Option<String> {
    let recogniser = Recogniser::new().ok()?;
    let (mut context, mut last, mut last_fatal, mut earlier) = (LogContext::default(), None, None, None);
    for line in text.split(|byte| *byte == b'\n') {
        let has = |part: &[u8]| line.windows(part.len()).any(|window| window == part);
        if has(BEGINS) {
            (last, earlier) = (None, last_fatal.take().or(earlier));
        }
        let Some(finding) = recogniser.judge_in(&mut context, line, || Place::file("k3s")) else { continue };
        *(if has(FATAL) { &mut last_fatal } else { &mut last }) = Some(finding);
    }
    let which = if last_fatal.is_none() && last.is_none() { "an earlier start ended with " } else { "" };
    let code = last_fatal.or(last).or(earlier)?.code;
    // Not its message: k3s' journal has the kubelet's lines, which name objects of the cluster, and the card's page is
    // open to the network.
    Some(format!("{which}{} {}: {}", code.id(), code.row().name, code.row().title))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;
    use weaver_diagnostics::finding::Code;

    const FLANNEL: &str =
        "level=fatal msg=\"flannel exited: failed to get default interface: unable to find default route\"";
    const STARTING: &str = "level=info msg=\"Starting k3s v1.36.3+k3s1 (3a5f)\"";
    const CGROUP: &str = "level=error msg=\"failed to find memory cgroup (v2)\"";

    #[test]
    fn the_last_line_that_is_known_counts_and_first_that_with_which_it_ended() {
        for (lines, want) in [
            (&[][..], None),
            (&["", STARTING, "\u{fffd}\u{0}"], None),
            (&[CGROUP, "level=info msg=x"], Some("N-01 ")),
            (&[FLANNEL, "level=info msg=x", CGROUP], Some("H-01 ")),
            (&[CGROUP, FLANNEL], Some("H-01 ")),
            (&[FLANNEL, STARTING, CGROUP], Some("N-01 ")),
            (&[CGROUP, STARTING, "level=info msg=x"], None),
            (&[FLANNEL, STARTING, STARTING], Some("an earlier start ended with H-01 ")),
        ] {
            let said = last_known(lines.join("\n").as_bytes());
            let begins = match (&said, want) {
                (Some(said), Some(want)) => said.starts_with(want),
                (said, want) => said.is_none() && want.is_none(),
            };
            assert!(begins, "{lines:?}: {said:?}");
        }
        assert_eq!(last_known(&[0xff; 1000]), None);
        let secret = format!("{FLANNEL} K10abc::server:hunter2");
        assert!(!last_known(secret.as_bytes()).unwrap().contains("hunter2"));
    }

    #[tokio::test]
    async fn a_fault_is_explained_and_the_journal_is_not_read_all_the_time() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("journalctl");
        let asked = dir.path().join("asked");
        let script = format!("#!/bin/sh\necho \"$*\" >> {}\necho '{FLANNEL}'\n", asked.display());
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let mut log = K3sLog::new(program);
        let fault = || Finding::new(Code::K3sNotAnswering, "f");
        for _ in 0..3 {
            let explained = log.explain(fault(), "k3s.service").await;
            let seen = explained.evidence[0].to_string();
            assert!(seen.contains("journal of k3s.service") && seen.contains("H-01 "), "{seen}");
        }
        let asked = fs::read_to_string(asked).unwrap();
        assert_eq!(asked.lines().count(), 1, "{asked}");
        assert!(asked.contains("--boot") && asked.contains("--unit k3s.service"), "{asked}");

        let mut none = K3sLog::new(dir.path().join("none"));
        assert_eq!(none.explain(fault(), "k3s.service").await, fault());
    }
}
