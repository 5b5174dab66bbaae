//! On a node of the test's own: programs are scripts, and systemd reports the state that the installed one would have.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser as _;

use super::*;
use crate::args::{AgentArgs, AgentCommand};
use crate::upgrade::journal;

/// A node that has joined another's cluster: only its unit can be proven.
struct Scene {
    dir: tempfile::TempDir,
    node: K3sNode,
}

impl Scene {
    /// k3s `old` runs, and `new` is next to it. The unit is active while the installed program is not one of `bad`.
    fn new(bad: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| dir.path().join(name);
        fs::write(file("k3s"), "old").unwrap();
        fs::write(file("k3s.new"), "new").unwrap();
        let is_bad: Vec<_> = bad.iter().map(|bad| format!("grep -q {bad} \"$dir/k3s\"")).collect();
        let is_bad = if is_bad.is_empty() { "false".to_owned() } else { is_bad.join(" || ") };
        let systemctl = format!(
            "#!/bin/sh\ndir=${{0%/*}}\nshift 2\n[ \"$1\" = show ] || echo \"$1\" >> \"$dir/calls\"\n\
             if {is_bad}; then echo ActiveState=activating; else echo ActiveState=active; fi\n"
        );
        fs::write(file("systemctl"), systemctl).unwrap();
        fs::set_permissions(file("systemctl"), fs::Permissions::from_mode(0o755)).unwrap();
        let words = ["weaver-node-agent", "rollback", "--root"].map(str::to_owned).into_iter();
        let words = words.chain([path(dir.path()), "--program".to_owned(), "/k3s".to_owned()]);
        let words = words.chain(["--systemctl".to_owned(), path(&file("systemctl"))]);
        let AgentCommand::Rollback(args) = AgentArgs::parse_from(words).command else { panic!() };
        let mut node = K3sNode::of(&args.node).unwrap();
        (node.wait, node.settle) = (Duration::from_millis(100), Duration::ZERO);
        Self { dir, node }
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.dir.path().join(name)).unwrap_or_default()
    }

    fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    /// Begins, does this, and ends; what it answered.
    async fn with<T>(&self, phase: UpgradePhase, act: impl AsyncFnOnce(&mut Upgrade<'_>) -> T) -> T {
        let journal = Journal::lock(&self.state()).unwrap();
        let build = |version: &str, text| K3sBuild { version: version.to_owned(), sha256: hash(text) };
        let (from, to) = (build("v1.36.3+k3s1", "old"), build("v1.36.4+k3s1", "new"));
        let begun = String::new();
        let record = UpgradeRecord { begun, from, to, names: Vec::new(), to_the_one_before: false, phase };
        let mut upgrade = Upgrade { node: &self.node, journal: &journal, role: Role::Agent, record };
        upgrade.note(phase).unwrap();
        act(&mut upgrade).await
    }

    async fn forward(&self) -> anyhow::Result<u8> {
        self.with(UpgradePhase::Forward, async |upgrade| upgrade.forward(&FORWARD).await).await
    }

    /// The installed program, the previous one, the calls of systemd, and the recorded phase.
    #[track_caller]
    fn is(&self, installed: &str, previous: &str, calls: &str, phase: UpgradePhase) {
        let asked = self.read("calls");
        assert_eq!(
            (self.read("k3s").as_str(), self.read("k3s.previous").as_str(), asked.replace('\n', " ").trim()),
            (installed, previous, calls)
        );
        assert_eq!(journal::last::<UpgradeRecord>(&self.state()).unwrap().unwrap().phase, phase);
        assert!(!self.dir.path().join("k3s.new").exists());
    }
}

fn path(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

fn hash(text: &str) -> String {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), text).unwrap();
    sha256(file.path()).unwrap()
}

#[tokio::test]
async fn what_is_proven_stays_and_the_old_one_is_kept() {
    let scene = Scene::new(&[]);
    assert_eq!(scene.forward().await.unwrap(), exit_code::FINE);
    scene.is("new", "old", "stop start", UpgradePhase::Done);
}

#[tokio::test]
async fn what_is_not_proven_goes_back_by_itself() {
    let scene = Scene::new(&["new"]);
    assert_eq!(scene.forward().await.unwrap(), exit_code::ROLLED_BACK);
    scene.is("old", "old", "stop start stop start", UpgradePhase::WentBack);
}

#[tokio::test]
async fn where_neither_is_proven_the_old_one_is_in_place_and_the_next_run_tries_again() {
    let scene = Scene::new(&["new", "old"]);
    assert_eq!(scene.forward().await.unwrap(), exit_code::STUCK);
    scene.is("old", "old", "stop start stop start", UpgradePhase::Back);
}

#[tokio::test]
async fn what_cannot_be_kept_is_not_replaced() {
    let scene = Scene::new(&[]);
    fs::create_dir(scene.dir.path().join("k3s.kept")).unwrap();
    let error = scene.forward().await.unwrap_err();
    assert!(format!("{error:#}").contains("nothing was changed"), "{error:#}");
    scene.is("old", "", "", UpgradePhase::WentBack);
}

#[tokio::test]
async fn a_systemd_that_refuses_is_a_reason_to_go_back() {
    let scene = Scene::new(&[]);
    let systemctl = scene.dir.path().join("systemctl");
    let refuses =
        "#!/bin/sh\ncase \"$*\" in *show*) echo ActiveState=active ;; *) echo no >&2; exit 1 ;; esac\n";
    fs::write(&systemctl, refuses).unwrap();
    assert_eq!(scene.forward().await.unwrap(), exit_code::STUCK);
    scene.is("old", "old", "", UpgradePhase::Back);
}

/// As after a power cut: only the record and the files are left.
#[tokio::test]
async fn what_was_cut_off_is_finished_from_wherever_it_was() {
    type Cut = fn(&Scene);
    let kept: Cut = |scene| scene.node.program.keep().unwrap();
    let replaced: Cut = |scene| {
        scene.node.program.keep().unwrap();
        scene.node.program.replace().unwrap();
    };
    let put_back: Cut = |scene| {
        scene.node.program.keep().unwrap();
        scene.node.program.replace().unwrap();
        scene.node.program.put_back().unwrap();
    };
    for (phase, cut, bad, code, installed, previous, calls, ends) in [
        (
            UpgradePhase::Forward,
            (|_| ()) as Cut,
            &[][..],
            exit_code::FINE,
            "old",
            "",
            "",
            UpgradePhase::WentBack,
        ),
        (UpgradePhase::Forward, kept, &[], exit_code::FINE, "old", "old", "", UpgradePhase::WentBack),
        (
            UpgradePhase::Forward,
            replaced,
            &[],
            exit_code::FINE,
            "new",
            "old",
            "stop start",
            UpgradePhase::Done,
        ),
        (
            UpgradePhase::Forward,
            replaced,
            &["new"],
            exit_code::ROLLED_BACK,
            "old",
            "old",
            "stop start stop start",
            UpgradePhase::WentBack,
        ),
        (
            UpgradePhase::Back,
            replaced,
            &["new"],
            exit_code::ROLLED_BACK,
            "old",
            "old",
            "stop start",
            UpgradePhase::WentBack,
        ),
        (
            UpgradePhase::Back,
            put_back,
            &["new"],
            exit_code::ROLLED_BACK,
            "old",
            "old",
            "stop start",
            UpgradePhase::WentBack,
        ),
    ] {
        let scene = Scene::new(bad);
        cut(&scene);
        let installed_now = sha256(&scene.node.program.installed).unwrap();
        let done = scene.with(phase, async |upgrade| {
            let resume = upgrade
                .record
                .resume(&installed_now, weaver_diagnostics::k3s_upgrade::UpgradeRequest::Upgrade);
            upgrade.resume(resume).await.unwrap()
        });
        assert_eq!(done.await, code, "{phase:?} {calls}");
        scene.is(installed, previous, calls, ends);
    }
}

/// Where `old` runs and `new` is the previous one, as `rollback` stages it. The only copy of either used to be thrown
/// away with the staged files, and by a rollback from an unproven program.
fn kept(bad: &[&str]) -> Scene {
    let scene = Scene::new(bad);
    fs::rename(scene.dir.path().join("k3s.new"), scene.dir.path().join("k3s.previous")).unwrap();
    scene.node.program.take_previous().unwrap();
    scene
}

#[tokio::test]
async fn a_rollback_loses_neither_program_however_it_ends() {
    for (bad, code, installed, previous, calls, ends) in [
        (&[][..], exit_code::FINE, "new", "old", "stop start", UpgradePhase::Done),
        (&["new"], exit_code::ROLLED_BACK, "old", "new", "stop start stop start", UpgradePhase::WentBack),
        (&["new", "old"], exit_code::STUCK, "old", "new", "stop start stop start", UpgradePhase::Back),
    ] {
        let scene = kept(bad);
        let done = scene.with(UpgradePhase::Forward, async |upgrade| {
            upgrade.record.to_the_one_before = true;
            upgrade.forward(&FORWARD).await.unwrap()
        });
        assert_eq!(done.await, code, "{bad:?}");
        scene.is(installed, previous, calls, ends);
    }
}

/// `sudo weaver node rollback`, typed again, used to return to the state before the first, and throw the other away.
#[tokio::test]
async fn a_rollback_that_was_cut_off_and_is_typed_again_continues() {
    for (is_replaced, phase, code, installed, previous, calls, ends) in [
        (false, UpgradePhase::Forward, exit_code::FINE, "old", "new", "", UpgradePhase::WentBack),
        (true, UpgradePhase::Forward, exit_code::FINE, "new", "old", "stop start", UpgradePhase::Done),
        (
            true,
            UpgradePhase::Back,
            exit_code::ROLLED_BACK,
            "old",
            "new",
            "stop start",
            UpgradePhase::WentBack,
        ),
        (
            false,
            UpgradePhase::Back,
            exit_code::ROLLED_BACK,
            "old",
            "new",
            "stop start",
            UpgradePhase::WentBack,
        ),
    ] {
        let scene = kept(&[]);
        if is_replaced {
            scene.node.program.exchange().unwrap();
        }
        let installed_now = sha256(&scene.node.program.installed).unwrap();
        let done = scene.with(phase, async |upgrade| {
            upgrade.record.to_the_one_before = true;
            let request = weaver_diagnostics::k3s_upgrade::UpgradeRequest::RollBack;
            let resume = upgrade.record.resume(&installed_now, request);
            upgrade.resume(resume).await.unwrap()
        });
        assert_eq!(done.await, code, "{is_replaced} {phase:?}");
        scene.is(installed, previous, calls, ends);
    }
}
