//! `weaver-image boot`, from the outside.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use weaver_devstack::process::{Process, poll};

use super::cards::{CardImage, LIMIT, Then, kernel};

/// `weaver-image boot`, with a temporary directory of its own and what it prints in a file.
struct BootProcess {
    child: Child,
    dir: tempfile::TempDir,
}

impl BootProcess {
    fn start(image: &CardImage, arguments: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("tmp")).unwrap();
        let output = fs::File::create(dir.path().join("output")).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_weaver-image"))
            .arg("boot")
            .arg(image.path())
            .args(["--memory", "256", "--size", "64M"])
            .args(arguments)
            .env("TMPDIR", dir.path().join("tmp"))
            .stdin(Stdio::null())
            .stderr(output.try_clone().unwrap())
            .stdout(output)
            .spawn()
            .unwrap();
        Self { child, dir }
    }

    fn output(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.dir.path().join("output")).unwrap()).into_owned()
    }

    fn wait_for(&mut self, text: &str) {
        let seen = poll(LIMIT, || self.output().contains(text) || self.child.try_wait().unwrap().is_some());
        assert!(seen && self.output().contains(text), "no `{text}` in:\n{}", self.output());
    }

    fn qemu(&self) -> Process {
        let ours = format!(") S {} ", self.child.id());
        let pids =
            fs::read_dir("/proc").unwrap().flatten().filter_map(|e| e.file_name().to_str()?.parse().ok());
        let mut children = pids.filter(|pid: &i32| {
            fs::read_to_string(format!("/proc/{pid}/stat"))
                .is_ok_and(|stat| stat.contains(&ours) || stat.contains(&ours.replace(" S ", " R ")))
        });
        Process::running(children.next().expect("no QEMU")).unwrap()
    }

    fn left_behind(&self) -> usize {
        fs::read_dir(self.dir.path().join("tmp")).unwrap().count()
    }

    fn end(&mut self) -> ExitStatus {
        assert!(poll(LIMIT, || self.child.try_wait().unwrap().is_some()), "{}", self.output());
        self.child.wait().unwrap()
    }
}

impl Drop for BootProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn boot_says_what_it_does_and_ends_with_the_guest() {
    let image = CardImage::good(&kernel("the word", Then::PowerOff));
    let mut boot = BootProcess::start(&image, &["--append", "quiet", "--name", "raspi.lan"]);
    assert!(boot.end().success(), "{}", boot.output());
    let output = boot.output();
    let mut rest = output.as_str();
    for text in [
        "board: Raspberry Pi 4 Model B Rev 1.5",
        "kernel: vmlinuz",
        "initramfs: initrd",
        "root=LABEL=weaver-root rw console=ttyAMA0 quiet",
        "ports ",
        "-p ",
        "weaver-admin@127.0.0.1",
        "/kubectl get nodes",
        "the word",
    ] {
        let at = rest.find(text).unwrap_or_else(|| panic!("no `{text}`, or not in order:\n{output}"));
        rest = &rest[at..];
    }
    assert_eq!(boot.left_behind(), 0);
}

#[test]
fn boot_plays_the_firmware_again_when_the_guest_restarts() {
    let image = CardImage::good(&kernel("the word", Then::Restart));
    let mut boot = BootProcess::start(&image, &[]);
    boot.wait_for("the guest restarts: the firmware reads the card again");
    assert!(poll(LIMIT, || boot.output().matches("the word").count() >= 2), "{}", boot.output());
}

#[test]
fn boot_that_is_asked_to_end_leaves_nothing() {
    let image = CardImage::good(&kernel("the word", Then::Wait));
    let mut boot = BootProcess::start(&image, &[]);
    boot.wait_for("the word");
    let qemu = boot.qemu();
    let reported = Command::new("kill").arg(boot.child.id().to_string()).status().unwrap();
    assert!(reported.success());
    assert_eq!(boot.end().code(), Some(128 + 15));
    assert!(!qemu.is_alive());
    assert_eq!(boot.left_behind(), 0);
}

#[test]
fn no_machine_outlives_a_killed_harness() {
    let image = CardImage::good(&kernel("the word", Then::Wait));
    let mut boot = BootProcess::start(&image, &[]);
    boot.wait_for("the word");
    let qemu = boot.qemu();
    boot.child.kill().unwrap();
    boot.end();
    assert!(poll(LIMIT, || !qemu.is_alive()));
}

#[test]
fn boot_keeps_the_card_where_it_is_asked_to() {
    let image = CardImage::good(&kernel("the word", Then::PowerOff));
    let kept = tempfile::tempdir().unwrap();
    let dir = kept.path().join("my card");
    for words in ["made from", "used again"] {
        let mut boot = BootProcess::start(&image, &["--dir", dir.to_str().unwrap()]);
        assert!(boot.end().success(), "{}", boot.output());
        assert!(
            boot.output().contains(words) && boot.output().contains("the card is kept in"),
            "{}",
            boot.output()
        );
    }
    let script = fs::read_to_string(dir.join("kubectl")).unwrap();
    assert!(
        script.contains("weaver kubeconfig export pi.test --port ") && script.contains("'sudo -n "),
        "{script}"
    );
    let checked = Command::new("sh").arg("-n").arg(dir.join("kubectl")).status().unwrap();
    assert!(checked.success());
}

#[test]
fn boot_names_what_is_missing() {
    let image = CardImage::good(&kernel("", Then::PowerOff));
    let run = |path: &Path, image: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weaver-image"));
        let output = command.arg("boot").arg(image).env("PATH", path).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let nothing = tempfile::tempdir().unwrap();
    let error = run(nothing.path(), &image.path());
    for word in ["qemu-system-arm", "qemu-utils", "mtools", "device-tree-compiler", "openssh-client"] {
        assert!(error.contains(word), "{error}");
    }
    let path = std::env::var_os("PATH").unwrap();
    let error = run(Path::new(&path), Path::new("/nowhere/card.img"));
    assert!(error.contains("cannot open the card image /nowhere/card.img"), "{error}");
    image.write("cmdline.txt", b"");
    let error = run(Path::new(&path), &image.path());
    assert!(error.contains("the first line of cmdline.txt on the card is empty"), "{error}");
}
