//! `restore` that a signal reaches or that cannot stop k3s, on a host that is a directory; and k3s, which does not start
//! meanwhile.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use nix::sys::stat::Mode;
use tempfile::TempDir;
use weaver_diagnostics::node_backup::record::{PathSwap, RestorePhase, RestoreRecord};

use crate::support::host::TestHost;

/// Sends SIGTERM to its caller at the call that `signal` names, and does not return from that one where there is a
/// pipe; fails at the one that `fail` names.
const SYSTEMCTL: &str = r#"#!/bin/sh
here=${0%/*}
shift 2
echo "$*" >>"$here/calls"
if [ "$*" = "$(cat "$here/signal" 2>/dev/null)" ]; then
  kill -TERM $PPID
  [ ! -p "$here/pipe" ] || read -r _ <"$here/pipe"
fi
if [ "$*" = "$(cat "$here/fail" 2>/dev/null)" ]; then
  echo "it does not stop" >&2
  exit 1
fi
echo "ActiveState=$(cat "$here/state" 2>/dev/null || echo inactive)"
"#;
const CA: &str = "root/var/lib/rancher/k3s/server/tls/server-ca.crt";
const RECORD: &str = "root/var/lib/weaver/restore.json";

struct RestoreTestHost {
    dir: TempDir,
}

impl RestoreTestHost {
    /// A server whose datastore is empty.
    fn new() -> Self {
        let host = Self { dir: tempfile::tempdir().unwrap() };
        for (path, text) in [
            ("root/proc/sys/kernel/hostname", "raspi"),
            (CA, "of the backup"),
            ("root/var/lib/rancher/k3s/server/tls/server-ca.key", "secret"),
            ("root/usr/local/bin/k3s", "#!/bin/sh\necho k3s version v1.36.4+k3s1\n"),
            ("systemctl", SYSTEMCTL),
        ] {
            host.write(path, text);
        }
        for program in ["root/usr/local/bin/k3s", "systemctl"] {
            fs::set_permissions(host.path(program), fs::Permissions::from_mode(0o755)).unwrap();
        }
        let directory = host.path("root/var/lib/rancher/k3s/server/db");
        fs::create_dir_all(&directory).unwrap();
        let database = rusqlite::Connection::open(directory.join("state.db")).unwrap();
        database.execute_batch("CREATE TABLE kine (id INTEGER PRIMARY KEY, name TEXT, value BLOB)").unwrap();
        host
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap_or_default()
    }

    fn run(&self, words: &[&str]) -> (Option<i32>, String) {
        let mut agent = Command::new(env!("CARGO_BIN_EXE_weaver-node-agent"));
        agent.args(words).arg("--root").arg(self.path("root")).stdin(Stdio::null());
        let output = agent.output().unwrap();
        let said = [&output.stdout[..], &output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    }

    fn restore(&self, what: &str) -> (Option<i32>, String) {
        let systemctl = self.path("systemctl");
        self.run(&["restore", what, "--wait", "1", "--systemctl", systemctl.to_str().unwrap()])
    }

    /// As one that was interrupted leaves it, with a file to be replaced.
    fn is_cut_off(&self) {
        self.write("root/x", "old");
        self.write("root/x.restored", "new");
        let swap = PathSwap {
            target: "/x".to_owned(),
            restored: "/x.restored".to_owned(),
            kept: "/x.before-restore".to_owned(),
            is_on_fat: false,
        };
        let record = RestoreRecord {
            begun: String::new(),
            node: "raspi".to_owned(),
            made: String::new(),
            swaps: vec![swap],
            returns: Vec::new(),
            stale: Vec::new(),
            boot: String::new(),
            phase: RestorePhase::Swap,
        };
        self.write(RECORD, &serde_json::to_string(&record).unwrap());
    }

    /// The last units that were started.
    #[track_caller]
    fn has_started_k3s(&self) {
        let calls = self.read("calls");
        let calls: Vec<_> = calls.lines().filter(|call| call.starts_with("st")).collect();
        let started = ["start --no-block k3s.service", "start --no-block weaver-node-agent.service"];
        assert!(calls.ends_with(&started), "{calls:?}");
    }
}

#[test]
fn a_signal_before_anything_is_replaced_starts_k3s_again() {
    let host = RestoreTestHost::new();
    let backup = host.path("backup.tar").to_str().unwrap().to_owned();
    let (code, said) = host.run(&["backup", &backup]);
    assert_eq!(code, Some(0), "{said}");
    host.write(CA, "of the card");
    host.write("signal", "stop k3s.service");
    nix::unistd::mkfifo(&host.path("pipe"), Mode::S_IRWXU).unwrap();
    let (code, said) = host.restore(&backup);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("the state of this node is as it was") && said.contains("SIGTERM came"), "{said}");
    assert_eq!((host.read(CA).as_str(), host.read(RECORD).as_str()), ("of the card", ""));
    host.has_started_k3s();
}

#[test]
fn a_signal_after_the_record_does_not_end_it_halfway() {
    let host = RestoreTestHost::new();
    host.is_cut_off();
    host.write("signal", "stop k3s.service");
    let (code, said) = host.restore("--resume");
    assert_eq!(code, Some(10), "{said}");
    assert!(said.contains("k3s starts on the restored state and was not verified: SIGTERM came"), "{said}");
    assert_eq!((host.read("root/x").as_str(), host.read("root/x.before-restore").as_str()), ("new", "old"));
    assert!(host.read(RECORD).contains("\"done\""), "{}", host.read(RECORD));
    host.has_started_k3s();
}

#[test]
fn where_there_is_nothing_to_resume_it_says_how_a_stopped_k3s_is_started() {
    let host = RestoreTestHost::new();
    for (state, is_stopped) in [("inactive", true), ("active", false)] {
        host.write("state", state);
        let (code, said) = host.restore("--resume");
        assert!(code == Some(0) && said.starts_with("No restore was interrupted"), "{said}");
        assert_eq!(
            said.contains("  sudo systemctl start k3s.service weaver-node-agent.service\n"),
            is_stopped
        );
    }
}

#[test]
fn where_k3s_cannot_be_stopped_to_complete_a_restore_nothing_is_started_on_half_of_it() {
    let host = RestoreTestHost::new();
    host.is_cut_off();
    host.write("fail", "stop k3s.service");
    let (code, said) = host.restore("--resume");
    assert_eq!(code, Some(1), "{said}");
    for part in [
        "k3s must not start before all are",
        "`sudo weaver node restore --resume` completes",
        "k3s.service must not run while the state of k3s is replaced",
        "it does not stop",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("as it was") && !host.read("calls").contains("start"), "{said}");
    assert_eq!((host.read("root/x").as_str(), host.read(RECORD).contains("\"swap\"")), ("old", true));
    fs::remove_file(host.path("fail")).unwrap();
    assert_eq!(host.restore("--resume").0, Some(10), "no API server answers here");
    assert_eq!(host.read("root/x"), "new");
    host.has_started_k3s();
}

#[test]
fn k3s_does_not_start_until_a_restore_is_complete() {
    const LOCK: &str = "/var/lib/weaver/node.lock";
    let record = |phase: &str| {
        format!(
            r#"{{"begun": "", "node": "raspi", "made": "", "swaps": [], "stale": [], "phase": "{phase}"}}"#
        )
    };
    let restore = "/var/lib/weaver/restore.json";
    let host = TestHost::debian()
        .file(restore, record("swap"))
        .file(LOCK, r#"{"what": "a restore", "pid": 812, "since": ""}"#);
    let is_blocked = |host: &TestHost| host.path("/run/weaver/k3s.blocked").exists();
    let held = fs::File::open(host.path(LOCK)).unwrap();
    held.lock().unwrap();
    host.gate(&[]).finding("F-19").is("fail").says("is under way");
    assert!(is_blocked(&host));
    drop(held);
    // A process that another test is just starting has it for a moment.
    fs::File::open(host.path(LOCK)).unwrap().lock_shared().unwrap();
    host.gate(&[]).finding("F-19").is("fail").says("was interrupted");
    assert!(is_blocked(&host));
    let host = host.file(restore, record("done"));
    assert_eq!(host.gate(&[]).code, 0);
    assert!(!is_blocked(&host));
    // What cannot be judged blocks nothing.
    let host = host.file(restore, r#"{"by": "9.0.0", "format": 2, "phase": "verified"}"#);
    host.gate(&[]).finding("F-19").is("unknown").says("was written by Config Weaver 9.0.0");
    assert!(!is_blocked(&host));
}
