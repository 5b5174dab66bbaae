//! What pods have in their volumes.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt as _;

use super::archive::{ArchiveInput, EntryKind, UntilError};
use super::*;

/// What a pod without any right can put into its volume, and a file that can be saved.
fn hostile() -> BackupScene {
    let scene = BackupScene::new("raspi", 1);
    let volume = scene.at("/var/lib/rancher/k3s/storage/pvc-0_evil");
    fs::create_dir_all(&volume).unwrap();
    File::create(volume.join("huge")).unwrap().set_len(1 << 40).unwrap();
    fs::write(volume.join(OsStr::from_bytes(b"latin-\xe9\x1b[2J")), "").unwrap();
    nix::unistd::mkfifo(&volume.join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    fs::write(volume.join("saved"), "of the pod").unwrap();
    scene
}

#[tokio::test]
async fn nothing_in_a_volume_stops_a_backup_and_what_is_left_out_is_said() {
    let scene = hostile();
    let file = scene.at("/backups/b.tar");
    let made = to(BackupRequest { volumes: true, ..scene.request(&file) }).await.unwrap();
    let names = members(&made.path);
    for name in ["k3s/storage/pvc-0_evil/saved", "k3s/storage/pvc-1/data", DATASTORE] {
        assert!(names.iter().any(|found| found == name), "{names:?}");
    }
    let said = reported(&made);
    let lines: Vec<_> = said.lines().skip(2).collect();
    assert_eq!(
        lines,
        [
            "parts of k3s/storage/pvc-0_evil are left out (2)",
            r"left out: k3s/storage/pvc-0_evil/latin-\xe9\x1b[2J: its name is not UTF-8",
            "left out: k3s/storage/pvc-0_evil/huge: it has 1048576 MiB, and holds 0 MiB of its own on the disk",
            "the backup is not complete: parts of volumes are left out (2)",
        ]
    );
    let shown =
        show::show(&made.path, &seal::DecryptionArgs::default(), &scene.at("/var/lib/weaver")).unwrap();
    assert!(shown.ends_with(&lines.join("\n")), "{shown}");
    let (path, made) = (file.to_str().unwrap(), made.path.to_str().unwrap());
    assert_eq!(scene.run(&["backup", path, "--volumes"]).await.unwrap(), exit_code::INCOMPLETE);

    let card = BackupScene::new("raspi", 2);
    let systemctl = card.at("/systemctl");
    let words = ["restore", made, "--wait", "1", "--systemctl", systemctl.to_str().unwrap()];
    assert_eq!(card.run(&words).await.unwrap(), exit_code::KNOWN_BAD, "no API server answers here");
    assert_eq!(card.read("/var/lib/rancher/k3s/storage/pvc-0_evil/saved"), "of the pod");
    assert_eq!(card.names("/var/lib/rancher/k3s/storage/pvc-0_evil"), ["saved"]);

    assert_eq!(scene.run(&["backup", path]).await.unwrap(), exit_code::FINE, "without volumes it is whole");
}

#[tokio::test]
async fn one_that_is_not_complete_leaves_the_complete_one_of_the_name_that_was_chosen() {
    let scene = hostile();
    for (chosen, other) in [("b.tar", "b-incomplete.tar"), ("b", "b-incomplete")] {
        let file = scene.at("/backups").join(chosen);
        let whole = to(scene.request(&file)).await.unwrap();
        assert_eq!((&whole.path, whole.renamed), (&file, None));
        let before = fs::read(&file).unwrap();
        let made = to(BackupRequest { volumes: true, ..scene.request(&file) }).await.unwrap();
        assert_eq!(made.path, file.with_file_name(other));
        assert!(fs::read(&file).unwrap() == before, "{chosen} was replaced");
        let said = reported(&made);
        let left = format!("\nnothing was written to {}: this backup is not complete\n", file.display());
        assert!(
            said.starts_with(&format!("wrote {}: ", made.path.display())) && said.contains(&left),
            "{said}"
        );
    }
}

#[tokio::test]
async fn the_timers_backup_is_made_without_it_and_the_report_says_so() {
    let scene = hostile();
    scene.write("/etc/weaver/backup.env", "WEAVER_BACKUP_TARGET=/mnt/usb\nWEAVER_BACKUP_WHEN=daily\n");
    scene.write("/proc/uptime", "90000.12 100.00\n");
    let backups = scene.at("/backups");
    let words = ["backup", backups.to_str().unwrap(), "--when=daily", "--keep=1", "--volumes"];
    assert_eq!(scene.run(&words).await.unwrap(), exit_code::FINE);
    assert_eq!(scene.names("/backups").len(), 1);
    let found = schedule(&HostRoot::new(scene.at("/"))).unwrap().judge().unwrap().message;
    assert!(found.contains("parts of volumes are left out (2)"), "{found}");
}

#[tokio::test]
async fn one_that_is_not_complete_pushes_out_no_complete_one() {
    let scene = hostile();
    let at = |day: &str| format!("weaver-backup-{}-202001{day}T000000Z.tar", scene.owner());
    let part = name::incomplete(&at("03"));
    for older in [&at("01"), &at("02"), &part] {
        scene.write(&format!("/backups/{older}"), "");
    }
    let request = || BackupRequest { keep: Some(1), ..scene.request(&scene.at("/backups")) };
    let made = to(BackupRequest { volumes: true, ..request() }).await.unwrap();
    assert!(made.path.to_str().unwrap().ends_with("Z-incomplete.tar"), "{}", made.path.display());
    assert_eq!(made.removed, [at("01"), part]);
    let made = to(request()).await.unwrap();
    assert!(made.removed.contains(&at("02")), "{:?}", made.removed);
}

#[test]
fn what_cannot_be_read_is_left_out_of_a_volume_and_ends_a_backup_of_the_node() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    for (name, is_left_out) in [("k3s/storage/pvc-1/data", true), ("k3s/server/token", false)] {
        for kind in [EntryKind::File, EntryKind::Directory, EntryKind::Link] {
            let mut writer = ArchiveWriter::new(Vec::new(), Progress::waiting("archive"));
            // Not even root reads what is below a file.
            let (name, path) = (name.to_owned(), dir.path().join("file/below"));
            let added = writer.add(&ArchiveInput { name, path, kind, most: u64::MAX });
            assert_eq!(added.is_ok(), is_left_out, "{kind:?} {added:?}");
            let lines = writer.end(manifest()).unwrap().1.left_out.lines();
            let names_it = |line: &String| line.starts_with("left out: k3s/storage/pvc-1/data: it cannot be");
            assert_eq!(lines.last().is_some_and(names_it), is_left_out, "{lines:?}");
        }
    }
}

#[test]
fn a_file_that_has_grown_gets_the_bytes_that_there_was_room_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = fs::canonicalize(dir.path()).unwrap().join("log");
    fs::write(&path, "12345678").unwrap();
    let mut writer = ArchiveWriter::new(Vec::new(), Progress::waiting("archive"));
    for (name, most) in [(DATASTORE, u64::MAX), ("k3s/storage/pvc-1/log", 4), ("k3s/storage/pvc-1/all", 99)] {
        let (name, path, kind) = (name.to_owned(), path.clone(), EntryKind::File);
        writer.add(&ArchiveInput { name, path, kind, most }).unwrap();
    }
    let (bytes, made) = writer.end(manifest()).unwrap();
    assert_eq!(archive::read(&bytes[..], &Nowhere).unwrap(), made);
    let mut archive = tar::Archive::new(&bytes[..]);
    let sizes = archive.entries().unwrap().map(|entry| entry.unwrap().size());
    assert_eq!(sizes.take(3).collect::<Vec<_>>(), [8, 4, 8]);
}

/// A disk with a block that cannot be read.
struct Broken;

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("of the disk"))
    }
}

#[test]
fn an_error_within_a_file_ends_it_where_it_is_kept() {
    let (mut read, mut kept) = (Vec::new(), None);
    let mut file = UntilError { inner: (&b"half"[..]).chain(Broken), error: Some(&mut kept) };
    assert_eq!(file.read_to_end(&mut read).unwrap(), 4);
    assert_eq!(kept.unwrap().to_string(), "of the disk");
    assert!(UntilError { inner: Broken, error: None }.read_to_end(&mut read).is_err());
}
