//! The same root file system gives the same bytes, whatever a build before left behind.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::os::unix::process::CommandExt as _;
use weaver_devstack::download::sha256;

use crate::root::image;

fn build(out: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weaver-image"));
    command
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        // The k3s of the image under test is in K3S.
        .args(["build", "--raw", "--programs", "dev", "--out"])
        .arg(out)
        .stdout(Stdio::null())
        .process_group(0);
    command
}

/// Names in a directory that begin like a file that is being written, and those of images.
fn found(out: &Path) -> (usize, usize) {
    let names: Vec<_> =
        fs::read_dir(out).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let count = |is: fn(&&String) -> bool| names.iter().filter(is).count();
    (count(|name| name.starts_with(".partial-")), count(|name| name.contains(".img")))
}

#[test]
#[ignore = "needs the image: make image-smoke"]
fn assembled_again_after_a_kill_the_image_has_the_same_bytes() {
    let home = tempfile::tempdir_in(image().parent().unwrap()).unwrap();
    let out = home.path();

    let mut first = build(out).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_mins(10);
    while found(out).0 < 3 {
        assert!(
            first.try_wait().unwrap().is_none() && Instant::now() < deadline,
            "nothing half-made was seen"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    killpg(Pid::from_raw(first.id().cast_signed()), Signal::SIGKILL).unwrap();
    first.wait().unwrap();
    // A child that was just being started has the lock until it is gone, too.
    while File::open(out).unwrap().try_lock().is_err() {
        assert!(Instant::now() < deadline, "a killed build keeps its lock");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(found(out).1, 0, "what is half-made has no image's name");

    assert!(build(out).status().unwrap().success());
    assert_eq!(found(out), (0, 1), "what was half-made is gone");
    let again = out.join(image().file_name().unwrap());
    assert_eq!(sha256(&again).unwrap(), sha256(&image()).unwrap());
}
