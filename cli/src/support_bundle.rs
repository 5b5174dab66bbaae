//! `weaver support-bundle`: collects logs, status and configuration for a bug report, without secrets.
//!
//! Guarantees: only what is named here is read; every text is redacted before it is written; the file is new and 0600.
//! What cannot be read is replaced in the bundle by the reason.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use jiff::Timestamp;
use tokio::process::Command;
use tokio::time::timeout;
use weaver_diagnostics::tokens::redacted;
use weaver_host::platform;

use crate::doctor;
use crate::stdout::note;

/// The longest text in the bundle; of a longer output the end is kept, of a longer file the beginning.
const LONGEST: usize = 1024 * 1024;

/// Time limit of each command.
const PATIENCE: Duration = Duration::from_secs(20);

/// Files that show how the host was started, and what the agent made of it; on a system that cannot be a node they have
/// another owner.
const FILES: [&str; 9] = [
    "/etc/os-release",
    "/proc/cmdline",
    "/proc/meminfo",
    "/boot/firmware/cmdline.txt",
    "/boot/firmware/config.txt",
    "/boot/firmware/NODE-STATUS.txt",
    "/boot/firmware/node-status.json",
    "/run/weaver/report.json",
    "/etc/hosts",
];

/// Commands on a laptop that cannot be a node.
const ELSEWHERE: [(&str, &[&str]); 1] = [if cfg!(windows) {
    ("system.txt", &["cmd", "/D", "/C", "ver"])
} else {
    ("uname.txt", &["uname", "-a"])
}];

/// Commands, and the names of their output.
const COMMANDS: [(&str, &[&str]); 7] = [
    ("uname.txt", &["uname", "-a"]),
    ("k3s-version.txt", &["k3s", "--version"]),
    ("units.txt", &["systemctl", "--no-pager", "list-units", "--all", "k3s*", "weaver*"]),
    ("disk.txt", &["df", "-h"]),
    ("clock.txt", &["timedatectl"]),
    ("routes.txt", &["ip", "route"]),
    ("log-kernel.txt", &["journalctl", "--boot", "--no-pager", "--dmesg", "--lines", "1000"]),
];

/// Units, and how many lines of their logs.
const LOGS: [(&str, &str); 6] = [
    ("k3s", "1000"),
    ("weaver-boot-config", "200"),
    ("weaver-preflight", "200"),
    ("weaver-node-agent", "1000"),
    ("weaver-webhook", "500"),
    ("weaver-operator", "1000"),
];

#[derive(Args)]
pub struct SupportBundle {
    /// Tar archive to write [default: weaver-support-TIME.tar in this directory]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Directory put in front of every path that is read
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    root: PathBuf,
}

pub async fn run(options: &SupportBundle) -> anyhow::Result<()> {
    let now = Timestamp::now();
    let usual = || format!("weaver-support-{}.tar", now.strftime("%Y%m%dT%H%M%SZ")).into();
    let path = options.output.clone().unwrap_or_else(usual);
    let what = || format!("cannot write {}", path.display());
    let file = platform::create_new(&path).with_context(what)?;
    let mut bundle = Bundle { tar: tar::Builder::new(file), time: now };
    bundle
        .add("doctor.json", &doctor::report().await.unwrap_or_else(|error| format!("{error:#}")))
        .with_context(what)?;
    let (files, commands, logs) = if platform::CAN_BE_NODE {
        (&FILES[..], &COMMANDS[..], &LOGS[..])
    } else {
        (&[][..], &ELSEWHERE[..], &[][..])
    };
    for file in files {
        let name = file.trim_start_matches('/').replace('/', "_");
        bundle.add(&name, &read(&options.root.join(file.trim_start_matches('/')))).with_context(what)?;
    }
    for (name, words) in commands {
        bundle.add(name, &output(words).await).with_context(what)?;
    }
    for &(unit, lines) in logs {
        let name = format!("log-{}.txt", unit.trim_start_matches("weaver-"));
        let words = ["journalctl", "--boot", "--no-pager", "--unit", unit, "--lines", lines];
        bundle.add(&name, &output(&words).await).with_context(what)?;
    }
    bundle
        .tar
        .into_inner()
        .and_then(|mut file| file.flush().and_then(|()| file.sync_all()))
        .with_context(what)?;
    note!("wrote {}: secrets are removed; check it before you share it", path.display());
    Ok(())
}

struct Bundle {
    tar: tar::Builder<File>,
    time: Timestamp,
}

impl Bundle {
    fn add(&mut self, name: &str, text: &str) -> std::io::Result<()> {
        let text = redacted(text);
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(self.time.as_second().try_into().unwrap_or(0));
        self.tar.append_data(&mut header, Path::new("weaver-support").join(name), text.as_bytes())
    }
}

fn read(path: &Path) -> String {
    let mut bytes = Vec::new();
    let is_file = std::fs::metadata(path).map(|metadata| metadata.is_file());
    let done = match is_file {
        Ok(false) => return format!("({} is not a file)\n", path.display()),
        Ok(true) => File::open(path).and_then(|file| file.take(LONGEST as u64).read_to_end(&mut bytes)),
        Err(error) => Err(error),
    };
    match done {
        Ok(_) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => format!("({}: {error})\n", path.display()),
    }
}

async fn output(words: &[&str]) -> String {
    let Some((program, arguments)) = words.split_first() else { return String::new() };
    let ran = Command::new(program).args(arguments).stdin(Stdio::null()).kill_on_drop(true).output();
    match timeout(PATIENCE, ran).await {
        Err(_) => format!("({program}: no end within {} s)\n", PATIENCE.as_secs()),
        Ok(Ok(ran)) => {
            let text =
                String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
            let cut = text.char_indices().rev().nth(LONGEST).map_or(0, |(at, _)| at);
            // From the next line on: half a secret is not known as one.
            let begin =
                if cut == 0 { 0 } else { text[cut..].find('\n').map_or(text.len(), |end| cut + end + 1) };
            text[begin..].to_owned()
        }
        Ok(Err(error)) => format!("({program}: {error})\n"),
    }
}
