//! On a board that is a directory, with scripts in the place of systemctl and dpkg-query.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use clap::Parser as _;

use super::*;
use crate::args::{AgentArgs, AgentCommand};
use crate::update::host::UpdateHost;
use crate::update::packages::Packages;
use crate::update::run::UpdateRun;
use crate::upgrade::journal::{self, Journal};

/// What a trial has put in place.
const IN_PLACE: [&str; 2] = ["boot/firmware/weaver-kernel", "lib/modules/6.12.57-arm64"];

/// A board on which the old kernel runs and all of a trial is in place.
struct Board {
    dir: tempfile::TempDir,
    update: UpdateRun,
}

impl Board {
    /// The scripts begin in the state directory.
    fn new(systemctl: &str, dpkg_query: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        let script = |text: &str| format!("#!/bin/sh\ncd {}\n{text}\n", at("var/lib/weaver").display());
        for (path, text) in [
            ("proc/sys/kernel/random/boot_id", "first\n".to_owned()),
            ("proc/sys/kernel/osrelease", "6.12.48-arm64\n".to_owned()),
            ("boot/firmware/config.txt", "kernel=a\n".to_owned()),
            ("boot/firmware/weaver-kernel/a", "new".to_owned()),
            ("lib/modules/6.12.57-arm64/x.ko", "module".to_owned()),
            ("bin/systemctl", script(systemctl)),
            ("bin/dpkg-query", script(dpkg_query)),
        ] {
            fs::create_dir_all(at(path).parent().unwrap()).unwrap();
            fs::write(at(path), text).unwrap();
        }
        for program in ["bin/systemctl", "bin/dpkg-query"] {
            fs::set_permissions(at(program), fs::Permissions::from_mode(0o755)).unwrap();
        }
        let [root, programs, systemctl] =
            ["", "bin", "bin/systemctl"].map(|path| at(path).to_str().unwrap().to_owned());
        let words = ["weaver-node-agent", "update", "--kernel", "--yes", "--root", &root];
        let words = words.into_iter().chain(["--programs", &programs, "--systemctl", &systemctl]);
        let AgentCommand::Update(args) = AgentArgs::parse_from(words).command else { panic!() };
        let host = UpdateHost::of(&args);
        let packages = Packages::below(&host.state_dir);
        Self { dir, update: UpdateRun { args, host, packages } }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn journal(&self) -> Journal<KernelTrial> {
        Journal::lock(&self.update.host.state_dir).unwrap()
    }

    /// What is on the disk.
    fn recorded(&self) -> Option<KernelTrial> {
        journal::last(&self.update.host.state_dir).unwrap()
    }

    fn in_place(&self) -> Vec<&'static str> {
        IN_PLACE.into_iter().filter(|path| self.at(path).exists()).collect()
    }
}

fn staged() -> KernelTrial {
    KernelTrial {
        begun: "now".to_owned(),
        from: "6.12.48-arm64".to_owned(),
        to: "6.12.57-arm64".to_owned(),
        packages: Vec::new(),
        units: Vec::new(),
        names: None,
        boot: String::new(),
        phase: TrialPhase::Staged,
        refused: None,
    }
}

/// The clock is one that advances as soon as there is nothing else to do.
#[tokio::test(start_paused = true)]
async fn a_restart_that_may_still_come_finds_all_in_place() {
    let board = Board::new("exec sleep 600", "");
    let journal = board.journal();
    let error = KernelUpdate::new(&board.update, &journal).ask(staged()).await.unwrap_err();
    let said = format!("{error:#}");
    assert!(
        said.starts_with("whether this node restarts is not known: ") && said.contains("timed out"),
        "{said}"
    );
    let recorded = board.recorded().unwrap();
    assert_eq!(
        (recorded.phase, recorded.refused, recorded.boot.as_str()),
        (TrialPhase::Asked, None, "first")
    );
    assert_eq!(board.in_place(), IN_PLACE);
}

#[tokio::test]
async fn a_restart_that_systemd_refuses_ends_the_trial() {
    let board = Board::new("echo no >&2; exit 1", "");
    let journal = board.journal();
    let error = KernelUpdate::new(&board.update, &journal).ask(staged()).await.unwrap_err();
    assert!(format!("{error:#}").starts_with("nothing was restarted: "), "{error:#}");
    let recorded = board.recorded().unwrap();
    let why = recorded.refused.unwrap();
    assert!(why.starts_with("the restart could not be asked for: ") && why.ends_with(": no"), "{why}");
    assert_eq!(recorded.phase, TrialPhase::Refused);
    assert_eq!(board.in_place(), [""; 0]);
}

/// What is in the way of the record is the full disk; dpkg, which is asked before anything is removed, ends it.
#[tokio::test]
async fn a_full_disk_takes_the_refusal_after_what_was_in_place_and_that_goes_in_any_case() {
    for (dpkg_query, is_recorded) in [("rmdir kernel.json.new", true), ("", false)] {
        let board = Board::new("exit 1", dpkg_query);
        let journal = board.journal();
        fs::create_dir(board.at("var/lib/weaver/kernel.json.new")).unwrap();
        let refused =
            KernelUpdate::new(&board.update, &journal).refuse(&mut staged(), "the disk is full").await;
        assert_eq!(refused.is_ok(), is_recorded, "{refused:?}");
        let recorded = board.recorded().and_then(|recorded| recorded.refused);
        assert_eq!(recorded.as_deref(), is_recorded.then_some("the disk is full"));
        assert_eq!(board.in_place(), [""; 0]);
    }
}
