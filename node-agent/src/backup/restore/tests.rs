//! From one host of a test's own to another.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::backup::common::Nowhere;
use crate::backup::journal::complete;
use crate::backup::tests::BackupScene;
use crate::backup::{BackupRequest, archive, datastore, to};
use crate::host_args::STATE_DIR;
use crate::upgrade::journal::finding;

/// A card that was flashed again: its own k3s, whose database is closed.
fn fresh(node: &str) -> BackupScene {
    BackupScene::new(node, 2)
}

fn revision(scene: &BackupScene) -> i64 {
    datastore::check(&scene.at("/var/lib/rancher/k3s/server/db/state.db")).unwrap().revision
}

fn mode(scene: &BackupScene, path: &str) -> u32 {
    fs::metadata(scene.at(path)).unwrap().permissions().mode() & 0o7777
}

/// Its state: each file contains the name of the node that made it.
#[track_caller]
fn has_state_of(scene: &BackupScene, node: &str, rows: i64) {
    for path in [
        "/var/lib/rancher/k3s/server/tls/server-ca.crt",
        "/var/lib/weaver/boot-config/node-name",
        "/boot/firmware/weaver.toml",
    ] {
        assert_eq!(scene.read(path), node, "{path}");
    }
    assert_eq!(revision(scene), rows);
}

#[tokio::test]
async fn a_fresh_card_gets_all_of_it_and_keeps_what_it_had() {
    let old = BackupScene::new("raspi", 40);
    let backup = old.backup().await;
    let card = fresh("raspi");
    card.write("/var/lib/rancher/k3s/server/tls/server-ca.crt", "another CA");
    card.write("/etc/rancher/k3s/config.yaml.d/99-mine.yaml", "of the fresh card");
    fs::set_permissions(card.at("/etc/rancher/k3s"), fs::Permissions::from_mode(0o751)).unwrap();
    let systemctl = card.at("/systemctl");
    let words =
        ["restore", backup.to_str().unwrap(), "--wait", "1", "--systemctl", systemctl.to_str().unwrap()];
    // No API server answers here: all files are restored, and not proven.
    assert_eq!(card.run(&words).await.unwrap(), exit_code::KNOWN_BAD);
    has_state_of(&card, "raspi", 40);
    assert_eq!(card.read("/var/lib/rancher/k3s/server.before-restore/tls/server-ca.crt"), "another CA");
    assert_eq!(card.read("/etc/rancher/k3s.before-restore/config.yaml.d/99-mine.yaml"), "of the fresh card");
    assert!(!card.at("/etc/rancher/k3s/config.yaml.d/99-mine.yaml").exists());
    assert_eq!(card.read("/var/lib/weaver/ledger.json"), "of this card");
    assert!(!card.at("/var/lib/rancher/k3s/agent/client-kubelet.crt").exists());
    assert_eq!(card.read("/var/lib/rancher/k3s/storage/pvc-1/data"), "of a pod", "volumes are not in it");
    for (path, want) in [
        ("/var/lib/rancher/k3s/server/tls", 0o700),
        ("/var/lib/rancher/k3s/server", 0o700),
        ("/etc/rancher/node", 0o700),
        ("/etc/rancher/k3s", 0o751),
    ] {
        assert_eq!(mode(&card, path), want, "{path}");
    }
    let calls = card.read("/calls");
    let calls: Vec<_> = calls.lines().filter(|call| !call.starts_with("show")).collect();
    assert_eq!(
        calls,
        [
            "stop weaver-operator.service",
            "stop weaver-node-agent.service",
            "stop k3s.service",
            "start --no-block k3s.service",
            "start --no-block weaver-node-agent.service",
        ]
    );
    // No secret on the boot partition, under no name.
    assert_eq!(card.names("/boot/firmware"), ["weaver.toml"]);
    let root = &card.request(Path::new("/")).host.root;
    assert!(finding(root, RestoreRecord::judge).is_none());
    assert_eq!(card.run(&["restore", "--resume"]).await.unwrap(), exit_code::FINE, "nothing is left to do");
}

/// A volume that no pod has written to, and one whose directory is open to all, as they are.
#[tokio::test]
async fn volumes_without_a_file_are_restored_too_and_only_root_reaches_them() {
    const STORAGE: &str = "/var/lib/rancher/k3s/storage";
    let old = BackupScene::new("raspi", 40);
    fs::remove_dir_all(old.at(STORAGE)).unwrap();
    fs::create_dir_all(old.at(STORAGE).join("pvc-9")).unwrap();
    fs::set_permissions(old.at(STORAGE).join("pvc-9"), fs::Permissions::from_mode(0o777)).unwrap();
    let request = BackupRequest { volumes: true, ..old.request(&old.at("/backups/one.tar")) };
    let backup = to(request).await.unwrap().path;
    let card = fresh("raspi");
    let systemctl = card.at("/systemctl");
    let words =
        ["restore", backup.to_str().unwrap(), "--wait", "1", "--systemctl", systemctl.to_str().unwrap()];
    assert_eq!(card.run(&words).await.unwrap(), exit_code::KNOWN_BAD);
    assert_eq!(card.names(STORAGE), ["pvc-9"]);
    assert_eq!((mode(&card, STORAGE), mode(&card, &format!("{STORAGE}/pvc-9"))), (0o700, 0o777));
    assert_eq!(card.read(&format!("{STORAGE}.before-restore/pvc-1/data")), "of a pod");
}

#[tokio::test]
async fn a_volume_that_the_backup_has_left_out_as_a_whole_stays_on_the_card() {
    const STORAGE: &str = "/var/lib/rancher/k3s/storage";
    let old = BackupScene::new("raspi", 40);
    let request = BackupRequest { volumes: true, ..old.request(&old.at("/backups/one.tar")) };
    let backup = to(request).await.unwrap().path;
    let card = fresh("raspi");
    for volume in ["pvc-1", "pvc-2", "pvc-3"] {
        card.write(&format!("{STORAGE}/{volume}/data"), "of the card");
    }
    let host = card.request(Path::new("/")).host;
    let laid = Laid { layout: BackupLayout::of(&host, Path::new(STATE_DIR)), root: host.root.clone() };
    let (mut manifest, parts) = contents(&backup, &DecryptionArgs::default()).unwrap();
    // One that this card has, one that it does not have, and what a foreign manifest may try.
    let names = ["pvc-2", "pvc-9", "..", "", ".", "../server", "pvc-3/data"];
    manifest.left_out.whole = names.map(|name| (name.to_owned(), String::new())).into();
    let record = laid.record(&manifest, &parts);
    let targets: Vec<_> = record.returns.iter().map(|volume| volume.target.as_str()).collect();
    assert_eq!(targets, [format!("{STORAGE}/pvc-2")]);
    let said = would(&manifest, &record, |_| true, Path::new(STORAGE));
    assert!(said.contains(&format!("\n{STORAGE}/pvc-2 stays as it is")), "{said}");
    laid.stage(&backup, &DecryptionArgs::default(), &record).unwrap();
    swap::all(&host.root, &record, &mut || Ok(())).unwrap();
    assert_eq!(card.names(STORAGE), ["pvc-1", "pvc-2"]);
    assert_eq!(card.read(&format!("{STORAGE}/pvc-1/data")), "of a pod");
    assert_eq!(card.read(&format!("{STORAGE}/pvc-2/data")), "of the card");
    assert_eq!(card.names(&format!("{STORAGE}.before-restore")), ["pvc-1", "pvc-3"]);
}

#[test]
fn a_dry_run_names_the_volumes_that_running_pods_still_use_and_obeys_no_manifest() {
    let swap = |target: &str| PathSwap {
        target: target.to_owned(),
        restored: format!("{target}.restored"),
        kept: format!("{target}.before-restore"),
        is_on_fat: false,
    };
    let hostile = "\u{1b}[2J\nNothing was changed.";
    let manifest = serde_json::json!({
        "format": 1, "node": hostile, "k3s": null, "data_dir": "", "made": hostile,
        "revision": 1, "rows": 1, "volumes": true, "members": {},
    });
    let manifest = BackupManifest::parse(manifest.to_string().as_bytes()).unwrap();
    let record = |targets: &[&str]| RestoreRecord {
        begun: String::new(),
        node: String::new(),
        made: String::new(),
        swaps: targets.iter().map(|target| swap(target)).collect(),
        returns: Vec::new(),
        stale: Vec::new(),
        boot: String::new(),
        phase: RestorePhase::Swap,
    };
    let with = record(&["/server", "/storage"]);
    for (record, is_there, is_said) in
        [(&with, true, true), (&with, false, false), (&record(&["/server"]), true, false)]
    {
        let said = would(&manifest, record, |_| is_there, Path::new("/storage"));
        let names_them = said.contains("use the old volumes, in /storage.before-restore, until a reboot");
        assert_eq!(names_them, is_said, "{said}");
        assert!(!said.contains('\u{1b}') && said.matches("\nNothing was changed.").count() == 1, "{said:?}");
    }
}

#[tokio::test]
async fn what_is_refused_changes_nothing() {
    let old = BackupScene::new("raspi", 40);
    let backup = old.backup().await;
    let whole = fs::read(&backup).unwrap();
    let card = fresh("attic");
    let file = card.at("/file.tar");
    let mut flipped = whole.clone();
    let token = whole.windows(8).position(|window| window == b"K10the-t").unwrap();
    flipped[token] ^= 1;
    let last = whole.len() - 2048;
    for (bytes, node) in [
        (&whole[..], "attic"),
        (&whole[..whole.len() / 2], "raspi"),
        (&whole[..last], "raspi"),
        (&whole[..700], "raspi"),
        (&whole[..512], "raspi"),
        (&whole[..100], "raspi"),
        (&flipped, "raspi"),
        (b"", "raspi"),
        (b"#!/bin/sh\necho no archive\n", "raspi"),
    ] {
        fs::write(&file, bytes).unwrap();
        card.write("/proc/sys/kernel/hostname", node);
        let code = card.run(&["restore", file.to_str().unwrap()]).await.unwrap();
        assert_eq!(code, exit_code::KNOWN_BAD, "{} bytes", bytes.len());
        has_state_of(&card, "attic", 2);
        assert_eq!(card.names("/var/lib/rancher/k3s"), ["agent", "server", "storage"]);
        assert_eq!(card.names("/etc/rancher"), ["k3s", "node"]);
    }
    assert_eq!(card.read("/calls"), "", "systemd was asked for nothing");
    let error = card.run(&["restore", "/dev/zero"]).await.unwrap_err().to_string();
    assert!(error.contains("it is not a regular file"), "{error}");
    assert!(card.run(&["restore", "/none.tar"]).await.is_err());
}

#[tokio::test]
async fn a_dry_run_says_what_would_be_and_another_name_is_taken_when_asked() {
    let old = BackupScene::new("raspi", 40);
    let backup = old.backup().await;
    let card = fresh("attic");
    let words = ["restore", backup.to_str().unwrap(), "--take-name", "--dry-run"];
    assert_eq!(card.run(&words).await.unwrap(), exit_code::FINE);
    has_state_of(&card, "attic", 2);
    let systemctl = card.at("/systemctl");
    let words = [
        "restore",
        backup.to_str().unwrap(),
        "--take-name",
        "--wait",
        "1",
        "--systemctl",
        systemctl.to_str().unwrap(),
    ];
    assert_eq!(card.run(&words).await.unwrap(), exit_code::KNOWN_BAD);
    has_state_of(&card, "raspi", 40);
}

/// What an archive by another hand may try.
#[tokio::test]
async fn an_archive_that_leads_elsewhere_is_refused() {
    const OUTSIDE: &str = "points outside of the archive";
    for (name, below, why) in [
        ("k3s/server/../../../../../../etc/passwd", None, OUTSIDE),
        ("etc/shadow", None, "is not one that this version restores"),
        ("k3s/server/tls", Some("evil-of-a-test"), OUTSIDE),
        ("k3s/storage/out", Some("evil-of-a-test"), OUTSIDE),
        ("k3s/storage/out", Some("x/y/evil-of-a-test"), OUTSIDE),
    ] {
        let card = fresh("raspi");
        let outside = card.at("/outside");
        fs::create_dir(&outside).unwrap();
        let path = card.at("/evil.tar");
        let mut archive = tar::Builder::new(File::create(&path).unwrap());
        let mut add = |name: &str, kind: tar::EntryType| {
            let mut header = tar::Header::new_gnu();
            header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_entry_type(kind);
            header.set_mode(0o600);
            header.set_uid(0);
            header.set_gid(0);
            if kind.is_symlink() {
                header.set_link_name(&outside).unwrap();
            }
            header.set_size(if kind.is_symlink() { 0 } else { 4 });
            header.set_cksum();
            archive.append(&header, if kind.is_symlink() { &b""[..] } else { &b"evil"[..] }).unwrap();
        };
        add("k3s/server/token", tar::EntryType::Regular);
        if let Some(below) = below {
            add(name, tar::EntryType::Symlink);
            add(&format!("{name}/{below}"), tar::EntryType::Regular);
        } else {
            add(name, tar::EntryType::Regular);
        }
        archive.finish().unwrap();
        let laid = Laid {
            layout: BackupLayout::of(&card.request(Path::new("/")).host, Path::new(STATE_DIR)),
            root: card.request(Path::new("/")).host.root,
        };
        let error = archive::read(File::open(&path).unwrap(), &laid).unwrap_err();
        assert!(format!("{error:#}").contains(why), "{name}: {error:#}");
        assert!(card.names("/outside").is_empty(), "{name}: {:?}", card.names("/outside"));
    }
}

#[test]
fn an_archive_whose_names_have_no_end_is_refused_and_not_read_to_it() {
    const ENDLESS: u64 = 64 << 20;
    let member = |name: &str, kind: tar::EntryType, size: u64| {
        let mut header = tar::Header::new_gnu();
        header.set_path(name).unwrap();
        header.set_entry_type(kind);
        header.set_size(size);
        header.set_cksum();
        header
    };
    for kind in [tar::EntryType::GNULongName, tar::EntryType::GNULongLink, tar::EntryType::XHeader] {
        let mut bytes = Vec::new();
        for header in [member("k3s/server/token", tar::EntryType::Regular, 0), member("x", kind, ENDLESS)] {
            bytes.extend(header.as_bytes());
        }
        let mut from = bytes.as_slice().chain(io::repeat(b'a').take(ENDLESS));
        let error = archive::read(&mut from, &Nowhere).unwrap_err();
        assert!(format!("{error:#}").contains("the name of a member has no end"), "{kind:?}: {error:#}");
        let (_, rest) = from.get_ref();
        assert!(rest.limit() > ENDLESS / 2, "{kind:?}: {} bytes are left", rest.limit());
    }
}

#[tokio::test]
async fn one_that_was_cut_off_is_a_failure_until_a_boot_or_the_next_run_completes_it() {
    for by_boot in [true, false] {
        let old = BackupScene::new("raspi", 40);
        let backup = old.backup().await;
        let card = fresh("raspi");
        let host = card.request(Path::new("/")).host;
        let laid = Laid { layout: BackupLayout::of(&host, Path::new(STATE_DIR)), root: host.root.clone() };
        let (manifest, parts) = contents(&backup, &DecryptionArgs::default()).unwrap();
        let mut record = laid.record(&manifest, &parts);
        laid.stage(&backup, &DecryptionArgs::default(), &record).unwrap();
        has_state_of(&card, "raspi", 2);
        note(&card.at(STATE_DIR), &mut record, RestorePhase::Swap).unwrap();
        let mut step = 0;
        let mut cut = || {
            step += 1;
            if step == 4 { Err(io::Error::other("power")) } else { Ok(()) }
        };
        swap::all(&host.root, &record, &mut cut).unwrap_err();
        let said = finding(&host.root, RestoreRecord::judge).unwrap();
        assert_eq!((said.code.id(), said.severity()), ("F-19", weaver_diagnostics::finding::Severity::Fail));
        let words = ["restore", backup.to_str().unwrap()];
        assert_eq!(card.run(&words).await.unwrap(), exit_code::KNOWN_BAD, "another one has to wait");
        assert_eq!(card.run(&["restore", "--resume", "--dry-run"]).await.unwrap(), exit_code::FINE);
        let error = to(card.request(&card.at("/backups"))).await.unwrap_err().to_string();
        assert!(error.contains("the state is incomplete"), "{error}");
        // In this boot k3s may run.
        assert!(complete(&host.root, Path::new(STATE_DIR)).unwrap().is_none());
        assert!(finding(&host.root, RestoreRecord::judge).is_some());
        if by_boot {
            card.write("/proc/sys/kernel/random/boot_id", "another");
            card.run(&["boot-config"]).await.unwrap();
        } else {
            let systemctl = card.at("/systemctl");
            let words = ["restore", "--resume", "--wait", "1", "--systemctl", systemctl.to_str().unwrap()];
            assert_eq!(card.run(&words).await.unwrap(), exit_code::KNOWN_BAD);
        }
        has_state_of(&card, "raspi", 40);
        assert!(finding(&host.root, RestoreRecord::judge).is_none());
        assert!(complete(&host.root, Path::new(STATE_DIR)).unwrap().is_none());
    }
}

#[test]
fn one_that_another_process_completes_first_is_not_completed_again() {
    let card = fresh("raspi");
    let root = card.request(Path::new("/")).host.root;
    let state_dir = card.at(STATE_DIR);
    let record = r#"{"begun": "", "node": "raspi", "made": "", "swaps": [], "stale": [], "phase": "swap"}"#;
    let mut record: RestoreRecord = serde_json::from_str(record).unwrap();
    note(&state_dir, &mut record, RestorePhase::Swap).unwrap();
    let held = NodeLock::take(&state_dir, "a restore").unwrap();
    let boot = std::thread::spawn(move || complete(&root, Path::new(STATE_DIR)).unwrap());
    // It has read the record by then, and waits for the lock.
    std::thread::sleep(std::time::Duration::from_millis(300));
    note(&state_dir, &mut record, RestorePhase::Done).unwrap();
    drop(held);
    assert_eq!(boot.join().unwrap(), None);
}

#[tokio::test]
async fn what_an_earlier_restore_kept_stays_until_the_next_one_begins() {
    let (first, second) = (BackupScene::new("raspi", 40), BackupScene::new("raspi", 50));
    let card = fresh("raspi");
    card.write("/var/lib/rancher/k3s/server/tls/server-ca.crt", "of the card");
    let systemctl = card.at("/systemctl");
    let restore = async |backup: &Path| {
        let words =
            ["restore", backup.to_str().unwrap(), "--wait", "1", "--systemctl", systemctl.to_str().unwrap()];
        card.run(&words).await.unwrap()
    };
    let kept = "/var/lib/rancher/k3s/server.before-restore/tls/server-ca.crt";
    assert_eq!(restore(&first.backup().await).await, exit_code::KNOWN_BAD);
    assert_eq!(card.read(kept), "of the card");
    let cut = card.at("/cut.tar");
    let whole = fs::read(second.backup().await).unwrap();
    fs::write(&cut, &whole[..whole.len() / 2]).unwrap();
    assert_eq!(restore(&cut).await, exit_code::KNOWN_BAD);
    assert_eq!(card.read(kept), "of the card", "nothing was changed");
    fs::write(&cut, &whole).unwrap();
    assert_eq!(restore(&cut).await, exit_code::KNOWN_BAD);
    has_state_of(&card, "raspi", 50);
    assert_eq!(card.read(kept), "raspi");
}

#[tokio::test]
async fn another_data_directory_a_mount_and_a_link_are_refused() {
    let old = BackupScene::new("raspi", 40);
    let backup = old.backup().await;
    let words = ["restore", backup.to_str().unwrap()];
    let mounted = "36 35 8:1 / /var/lib/rancher/k3s/storage rw,relatime - ext4 /dev/sda1 rw\n";
    for (path, text) in
        [("/etc/rancher/k3s/config.yaml", "data-dir: /mnt/ssd\n"), ("/proc/self/mountinfo", mounted)]
    {
        let card = fresh("raspi");
        card.write(path, text);
        assert_eq!(card.run(&words).await.unwrap(), exit_code::KNOWN_BAD, "{path}");
        assert_eq!(revision(&card), 2, "{path}");
    }
    let card = fresh("raspi");
    fs::rename(card.at("/etc/rancher/node"), card.at("/node")).unwrap();
    std::os::unix::fs::symlink("/node", card.at("/etc/rancher/node")).unwrap();
    assert_eq!(card.run(&words).await.unwrap(), exit_code::KNOWN_BAD);
    assert_eq!(revision(&card), 2);
}
