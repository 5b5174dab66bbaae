//! A double of systemd that stops and starts a server of a test's own.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use weaver_devstack::server::Server;

/// Carries what is asked to the test, and waits until it is done. Each call has an answer of its own: one that is killed
/// meanwhile, as that of an upgrade that is interrupted, leaves nothing that the next one would wait for.
const SYSTEMCTL: &str = "#!/bin/sh\nshift 2\ncd \"${0%/*}\"\n\
                         case $1 in show | is-enabled) ;; *) echo \"$1\" >> calls ;; esac\n\
                         echo \"$$ $*\" > ask\n\
                         until [ -e \"answer.$$\" ]; do [ -p ask ] || exit 1; sleep 0.02; done\ncat \"answer.$$\"\n";

pub struct Systemd {
    dir: PathBuf,
}

impl Systemd {
    /// Answers for this server in `dir`, for as long as the test's process lives.
    pub fn of(server: &Arc<Mutex<Server>>, dir: &Path) -> Self {
        let systemd = Self { dir: dir.to_owned() };
        fs::write(systemd.systemctl(), SYSTEMCTL).unwrap();
        fs::set_permissions(systemd.systemctl(), fs::Permissions::from_mode(0o755)).unwrap();
        let (ask, dir) = (dir.join("ask"), dir.to_owned());
        assert!(Command::new("mkfifo").arg(&ask).status().unwrap().success());
        // Also for writing, so that it has no end.
        let asked = BufReader::new(File::options().read(true).write(true).open(&ask).unwrap());
        let server = Arc::downgrade(server);
        std::thread::spawn(move || {
            for line in asked.lines().map_while(Result::ok) {
                let Some((caller, call)) = line.split_once(' ') else { continue };
                let Some(server) = server.upgrade() else { return };
                let said = answered(call, &mut server.lock().unwrap());
                drop(server);
                let [whole, begun] = ["answer", "begun"].map(|name| dir.join(format!("{name}.{caller}")));
                // Where the test has ended, its directory is gone.
                if fs::write(&begun, said + "\n").and_then(|()| fs::rename(&begun, &whole)).is_err() {
                    return;
                }
            }
        });
        systemd
    }

    pub fn systemctl(&self) -> PathBuf {
        self.dir.join("systemctl")
    }

    /// What was asked to be changed since the last time.
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
