//! The verdict of systemd itself on the units.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::unit_file::{names, systemd, units};

/// A root with the machine's own units, ours, and something at each path that is executed.
fn tree() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let at = |path: &str| root.path().join(path.trim_start_matches('/'));
    let to = at("usr/lib/systemd/system");
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    let copy = |from: &Path, to: &Path| {
        let copied = Command::new("cp").arg("-rT").arg(from).arg(to).status().unwrap();
        assert!(copied.success(), "cp {}", from.display());
    };
    copy(Path::new("/usr/lib/systemd/system"), &to);
    let kinds = [".service", ".socket", ".slice", ".timer"];
    for name in names(&systemd("")).iter().filter(|name| kinds.iter().any(|kind| name.contains(kind))) {
        copy(&systemd(name), &to.join(name));
    }
    let mut programs = BTreeSet::from(["/sbin/modprobe".to_owned()]);
    programs.extend(
        units().values().filter_map(|unit| unit.service("ExecStart")?.split(' ').next().map(str::to_owned)),
    );
    for program in programs {
        fs::create_dir_all(at(&program).parent().unwrap()).unwrap();
        fs::copy("/bin/true", at(&program)).unwrap();
    }
    root
}

#[test]
fn systemd_analyze_agrees() {
    let root = tree();
    let names: Vec<String> = units().into_keys().collect();
    let analyze = |words: &[&str], names: &[&str]| {
        let mut command = Command::new("systemd-analyze");
        command.args(words).arg(format!("--root={}", root.path().display())).args(names);
        command.output().expect("needs systemd-analyze, of the Debian package systemd")
    };
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let verified = analyze(&["verify", "--man=no"], &names);
    let said = String::from_utf8_lossy(&verified.stderr).into_owned();
    // Keys that Debian 13's systemd has, and an older one on the builder does not know.
    let newer = ["'RestartSteps'", "'RestartMaxDelaySec'", "'PollLimitIntervalSec'", "'PollLimitBurst'"];
    let known = |line: &&str| !newer.iter().any(|key| line.contains(key));
    let about_ours: Vec<&str> =
        said.lines().filter(|line| names.iter().any(|name| line.contains(name))).filter(known).collect();
    assert_eq!(about_ours, Vec::<&str>::new(), "systemd-analyze verify");
    assert!(verified.status.code().is_some(), "systemd-analyze ended early: {verified:?}");

    for (name, tenths) in [
        ("weaver-operator.service", "20"),
        ("weaver-webhook.service", "20"),
        ("weaver-page.service", "20"),
        ("weaver-node-agent.service", "25"),
        ("weaver-preflight.service", "25"),
        ("weaver-backup.service", "20"),
    ] {
        let threshold = format!("--threshold={tenths}");
        let judged = analyze(&["security", "--no-pager", "--offline=yes", &threshold], &[name]);
        let said = String::from_utf8_lossy(&judged.stdout);
        assert!(said.contains("Overall exposure level"), "systemd-analyze security {name}: {judged:?}");
        assert!(judged.status.success(), "{name} is exposed by more than {tenths} tenths:\n{said}");
    }
}
