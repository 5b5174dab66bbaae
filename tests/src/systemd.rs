//! A double of systemd that stops and starts a server of a test's own.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use weaver_devstack::server::Server;

/// Carries what is asked to the test, and waits until it is done.
const SYSTEMCTL: &str = "#!/bin/sh\nshift 2\ncase $1 in show | is-enabled) ;; *) echo \"$1\" >> \"${0%/*}/calls\" ;; esac\n\
                         echo \"$*\" > \"${0%/*}/ask\"\ncat \"${0%/*}/answer\"\n";

pub struct Systemd {
    dir: PathBuf,
}

impl Systemd {
    /// Answers for this server in `dir`, for as long as the test's process lives.
    #[must_use]
    pub fn of(server: &Arc<Mutex<Server>>, dir: &Path) -> Self {
        let systemd = Self { dir: dir.to_owned() };
        fs::write(systemd.systemctl(), SYSTEMCTL).unwrap();
        fs::set_permissions(systemd.systemctl(), fs::Permissions::from_mode(0o755)).unwrap();
        let (ask, answer) = (dir.join("ask"), dir.join("answer"));
        for pipe in [&ask, &answer] {
            assert!(Command::new("mkfifo").arg(pipe).status().unwrap().success());
        }
        let server = Arc::downgrade(server);
        std::thread::spawn(move || {
            while let Ok(asked) = fs::read_to_string(&ask) {
                let Some(server) = server.upgrade() else { return };
                let said = answered(&asked, &mut server.lock().unwrap());
                drop(server);
                writeln!(File::options().write(true).open(&answer).unwrap(), "{said}").unwrap();
            }
        });
        systemd
    }

    #[must_use]
    pub fn systemctl(&self) -> PathBuf {
        self.dir.join("systemctl")
    }

    /// What was asked to be changed since the last time.
    #[must_use]
    pub fn calls(&self) -> String {
        let calls = fs::read_to_string(self.dir.join("calls")).unwrap_or_default();
        let _ = fs::remove_file(self.dir.join("calls"));
        calls.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

fn answered(asked: &str, server: &mut Server) -> String {
    let mut words = asked.split_whitespace();
    let (verb, unit) = (words.next().unwrap_or_default(), words.next_back().unwrap_or_default());
    match verb {
        "stop" => server.stop().unwrap(),
        "start" => server.start_again().unwrap(),
        // Restart=always: what has ended is about to be started again.
        "show" if unit != "k3s.service" => return "ActiveState=inactive".to_owned(),
        "show" if server.runs().unwrap() => return "ActiveState=active".to_owned(),
        "show" => return "ActiveState=activating".to_owned(),
        other => panic!("systemctl {other}"),
    }
    String::new()
}
