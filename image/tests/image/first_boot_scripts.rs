//! `grow-root` and `ssh-hostkeys` of the card: the first with fakes for what touches a disk, the second with the
//! real ssh-keygen (needs openssh-client).

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/card/usr/lib/weaver").join(name)
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

/// A machine with its root on a partition, and programs that note how they are called.
struct FakeMachine {
    dir: tempfile::TempDir,
}

impl FakeMachine {
    /// `device` is what / is mounted from; `block` its path below /sys/devices, with its number.
    fn new(device: &str, block: Option<(&str, &str)>) -> Self {
        let machine = Self { dir: tempfile::tempdir().unwrap() };
        let class = machine.path("sys/class/block");
        fs::create_dir_all(&class).unwrap();
        fs::create_dir_all(machine.path("bin")).unwrap();
        if let Some((path, number)) = block {
            let devices = machine.path("sys/devices").join(path);
            fs::create_dir_all(&devices).unwrap();
            // Numbers as the kernel writes them; sizes in its sectors of 512 bytes. A MiB and a sector are free.
            for (file, number) in
                [("partition", number), ("start", "2048"), ("size", "4096"), ("../size", "8193")]
            {
                fs::write(devices.join(file), format!("{number}\n")).unwrap();
            }
            symlink(&devices, class.join(device.rsplit('/').next().unwrap())).unwrap();
        }
        machine.fake(
            "findmnt",
            // Columns are padded.
            &format!("case \"$*\" in *'SOURCE,FSTYPE /') echo '{device}   ext4' ;; *) exit 1 ;; esac"),
        );
        machine.fake("growpart", "echo 'CHANGED: partition=2'");
        machine.fake("resize2fs", "echo done");
        machine
    }

    fn path(&self, below: &str) -> PathBuf {
        self.dir.path().join(below)
    }

    fn fake(&self, name: &str, body: &str) {
        let path = self.path("bin").join(name);
        let calls = self.path("calls");
        fs::write(&path, format!("#!/bin/sh\necho \"{name} $*\" >> {}\n{body}\n", calls.display())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn grow(&self) -> Output {
        let path = format!("{}:/usr/bin:/bin", self.path("bin").display());
        Command::new(script("grow-root"))
            .env_clear()
            .env("PATH", path)
            .env("WEAVER_SYS", self.path("sys"))
            .output()
            .unwrap()
    }

    /// Calls of what changes something.
    fn changes(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.path("calls")).unwrap_or_default();
        let changes =
            calls.lines().filter(|call| call.starts_with("growpart") || call.starts_with("resize2fs"));
        changes.map(str::to_owned).collect()
    }
}

fn card() -> FakeMachine {
    FakeMachine::new("/dev/mmcblk0p2", Some(("mmc0/mmcblk0/mmcblk0p2", "2")))
}

#[test]
fn the_partition_is_grown_and_then_the_file_system_on_any_disk() {
    for (device, path, number, disk) in [
        ("/dev/mmcblk0p2", "mmc0/mmcblk0/mmcblk0p2", "2", "/dev/mmcblk0"),
        ("/dev/vda2", "virtio0/vda/vda2", "2", "/dev/vda"),
        ("/dev/sda12", "usb1/sda/sda12", "12", "/dev/sda"),
        ("/dev/nvme0n1p2", "nvme0/nvme0n1/nvme0n1p2", "2", "/dev/nvme0n1"),
    ] {
        let machine = FakeMachine::new(device, Some((path, number)));
        let output = machine.grow();
        assert!(output.status.success(), "{}", said(&output));
        assert_eq!(machine.changes(), [format!("growpart {disk} {number}"), format!("resize2fs {device}")]);
    }
}

#[test]
fn a_partition_that_fills_the_card_is_not_looked_at_again_but_the_file_system_is() {
    // As after a power cut between the two.
    let machine = card();
    fs::write(machine.path("sys/devices/mmc0/mmcblk0/size"), "8192\n").unwrap();
    let output = machine.grow();
    assert!(output.status.success() && said(&output).is_empty(), "{}", said(&output));
    assert_eq!(machine.changes(), ["resize2fs /dev/mmcblk0p2"]);
}

#[test]
fn a_partition_that_growpart_leaves_alone_is_success_and_the_file_system_is_still_seen_to() {
    let machine = card();
    machine.fake("growpart", "echo 'NOCHANGE: partition 2 is size 100. it cannot be grown'; exit 1");
    let output = machine.grow();
    assert!(output.status.success() && said(&output).is_empty(), "{}", said(&output));
    assert_eq!(machine.changes().last().unwrap(), "resize2fs /dev/mmcblk0p2");
}

#[test]
fn another_file_system_is_left_alone() {
    let machine = card();
    machine.fake("findmnt", "echo /dev/mmcblk0p2 btrfs");
    assert!(machine.grow().status.success());
    assert_eq!(machine.changes(), ["growpart /dev/mmcblk0 2"]);
}

#[test]
fn a_failed_growpart_is_an_error_with_its_words_and_nothing_follows() {
    for (body, code) in [("echo 'FAILED: failed to resize'; exit 2", "(2)"), ("echo oops; exit 1", "(1)")] {
        let machine = card();
        machine.fake("growpart", body);
        let output = machine.grow();
        assert_eq!(output.status.code(), Some(1));
        let said = said(&output);
        assert!(said.starts_with("<3>grow-root: growpart /dev/mmcblk0 2 failed"), "{said}");
        assert!(said.contains(code) && said.contains("fdisk -l /dev/mmcblk0"), "{said}");
        assert_eq!(machine.changes().len(), 1, "resize2fs after a failed growpart");
    }
}

#[test]
fn a_failed_resize_is_an_error_with_its_words() {
    let machine = card();
    machine.fake("resize2fs", "echo 'resize2fs: I/O error' >&2; exit 1");
    let output = machine.grow();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said(&output).contains("resize2fs /dev/mmcblk0p2 failed: resize2fs: I/O error"),
        "{}",
        said(&output)
    );
}

#[test]
fn a_root_that_is_no_partition_is_reported_and_untouched() {
    for machine in [FakeMachine::new("/dev/mapper/root", None), FakeMachine::new("overlay", None)] {
        let output = machine.grow();
        assert_eq!(output.status.code(), Some(1));
        assert!(said(&output).contains("which is not a partition of a disk"), "{}", said(&output));
        assert_eq!(machine.changes(), Vec::<String>::new());
    }
}

#[test]
fn a_mount_table_that_cannot_be_read_is_reported() {
    let machine = card();
    machine.fake("findmnt", "exit 1");
    let output = machine.grow();
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("<3>grow-root: the device of / is unknown"), "{}", said(&output));
}

const KEYS: [&str; 2] = ["ssh_host_ed25519_key", "ssh_host_ecdsa_key"];

fn make_keys(directory: &Path) -> Output {
    Command::new(script("ssh-hostkeys")).arg(directory).output().unwrap()
}

fn read(directory: &Path, name: &str) -> String {
    fs::read_to_string(directory.join(name)).unwrap()
}

#[test]
fn host_keys_are_made_once_with_their_modes() {
    let dir = tempfile::tempdir().unwrap();
    // Left by an interrupted run.
    fs::write(dir.path().join("ssh_host_ed25519_key.new"), "half").unwrap();
    let output = make_keys(dir.path());
    assert!(output.status.success(), "{}", said(&output));
    let first: Vec<_> = KEYS.iter().map(|key| read(dir.path(), key)).collect();
    for key in KEYS {
        for (name, mode) in [(key.to_owned(), 0o600), (format!("{key}.pub"), 0o644)] {
            let metadata = fs::metadata(dir.path().join(&name)).unwrap();
            assert_eq!(metadata.permissions().mode() & 0o777, mode, "{name}");
        }
    }
    assert!(read(dir.path(), "ssh_host_ed25519_key.pub").starts_with("ssh-ed25519 "));
    assert!(read(dir.path(), "ssh_host_ecdsa_key.pub").starts_with("ecdsa-sha2-"));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 4, "something is left next to the keys");

    let again = make_keys(dir.path());
    assert!(again.status.success() && said(&again).is_empty(), "{}", said(&again));
    assert_eq!(KEYS.iter().map(|key| read(dir.path(), key)).collect::<Vec<_>>(), first);
}

#[test]
fn an_empty_key_is_made_again_and_the_other_one_stays() {
    let dir = tempfile::tempdir().unwrap();
    assert!(make_keys(dir.path()).status.success());
    let kept = read(dir.path(), KEYS[1]);
    fs::write(dir.path().join(KEYS[0]), "").unwrap();
    assert!(make_keys(dir.path()).status.success());
    assert!(read(dir.path(), KEYS[0]).contains("PRIVATE KEY"));
    assert_eq!(read(dir.path(), KEYS[1]), kept);
}

#[test]
fn a_missing_public_half_follows_from_the_private_one() {
    let dir = tempfile::tempdir().unwrap();
    assert!(make_keys(dir.path()).status.success());
    let (private, public) = (read(dir.path(), KEYS[0]), read(dir.path(), "ssh_host_ed25519_key.pub"));
    fs::remove_file(dir.path().join("ssh_host_ed25519_key.pub")).unwrap();
    assert!(make_keys(dir.path()).status.success());
    assert_eq!(read(dir.path(), KEYS[0]), private);
    let blob = |text: &str| text.split_whitespace().nth(1).unwrap().to_owned();
    assert_eq!(blob(&read(dir.path(), "ssh_host_ed25519_key.pub")), blob(&public));
}

#[test]
fn a_key_that_is_none_is_named_with_the_remedy_and_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(KEYS[0]), "garbage").unwrap();
    fs::set_permissions(dir.path().join(KEYS[0]), fs::Permissions::from_mode(0o600)).unwrap();
    let output = make_keys(dir.path());
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said(&output).contains("ssh_host_ed25519_key is not a key: remove it and run"),
        "{}",
        said(&output)
    );
    assert_eq!(read(dir.path(), KEYS[0]), "garbage");
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let output = make_keys(&dir.path().join("missing"));
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("cannot make "), "{}", said(&output));
}
