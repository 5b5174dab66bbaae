use super::*;
use crate::node_report::{Gate, Report};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

struct Case {
    dir: tempfile::TempDir,
    publisher: Publisher,
}

fn case() -> Case {
    let dir = tempfile::tempdir().unwrap();
    let root = HostRoot::new(dir.path().to_owned());
    let runtime = dir.path().join("run/weaver");
    let publisher = Publisher::new(&root, runtime, "/boot/firmware".into(), &dir.path().join("state"));
    Case { dir, publisher }
}

impl Case {
    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    fn mount(&self) {
        fs::create_dir_all(self.path("proc/self")).unwrap();
        fs::create_dir_all(self.path("boot/firmware")).unwrap();
        let line = "36 25 254:1 / /boot/firmware rw - vfat /dev/vda1 rw\n";
        fs::write(self.path("proc/self/mountinfo"), line).unwrap();
    }
}

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

#[test]
fn without_a_boot_partition_the_rest_is_written_and_says_why() {
    let mut case = case();
    let outcome = case.publisher.publish(&Report::unchecked(), NOW).unwrap();
    assert!(matches!(outcome, Publication::Unwritable(_)));
    let report: serde_json::Value = serde_json::from_str(&case.text("run/weaver/report.json")).unwrap();
    assert_eq!(report["card"]["current"], false);
    assert!(report["card"]["reason"].as_str().unwrap().contains("no boot partition"), "{report:#}");
    assert!(case.text("run/issue.d/50-weaver.issue").contains("card: not up to date: no boot partition"));
    assert!(case.text("run/weaver/node-status.txt").contains("clock not synchronised"));
    for (file, mode) in [("run/weaver/report.json", 0o640), ("run/issue.d/50-weaver.issue", 0o644)] {
        assert_eq!(fs::metadata(case.path(file)).unwrap().permissions().mode() & 0o777, mode, "{file}");
    }
}

#[test]
fn all_places_say_the_same_and_nothing_is_written_twice() {
    let mut case = case();
    case.mount();
    fs::create_dir_all(case.path("etc")).unwrap();
    fs::write(case.path("etc/hostname"), "raspi\n").unwrap();
    assert_eq!(case.publisher.publish(&Report::unchecked(), NOW).unwrap(), Publication::Written);
    let files =
        ["boot/firmware/NODE-STATUS.txt", "run/weaver/node-status.txt", "run/issue.d/50-weaver.issue"];
    for file in files {
        assert!(
            case.text(file).contains("raspi") && case.text(file).contains("no check has finished"),
            "{file}"
        );
    }
    let inodes = |case: &Case| files.map(|file| fs::metadata(case.path(file)).unwrap().ino());
    let before = inodes(&case);
    assert_eq!(case.publisher.publish(&Report::unchecked(), NOW).unwrap(), Publication::Current);
    assert_eq!(inodes(&case), before);
    let open = Report { gate: Gate::Open, ..Report::unchecked() };
    assert_eq!(case.publisher.publish(&open, NOW).unwrap(), Publication::Written);
    assert!(case.text("run/issue.d/50-weaver.issue").contains("gate open"));
}

#[test]
fn the_page_for_browsers_is_there_where_it_is_shown_and_anyone_may_read_it() {
    let mut case = case();
    let page = "run/weaver-page.html";
    let publish = |case: &mut Case| drop(case.publisher.publish(&Report::unchecked(), NOW).unwrap());
    publish(&mut case);
    assert!(!case.path(page).exists(), "no one shows it");
    let socket = case.path("usr/lib/systemd/system/weaver-page.socket");
    fs::create_dir_all(socket.parent().unwrap()).unwrap();
    fs::write(&socket, "").unwrap();
    fs::create_dir_all(case.path("etc/weaver")).unwrap();
    fs::write(case.path("etc/weaver/page-off"), "").unwrap();
    publish(&mut case);
    assert!(!case.path(page).exists(), "it is turned off");
    fs::remove_file(case.path("etc/weaver/page-off")).unwrap();
    publish(&mut case);
    assert!(case.text(page).contains("no check has finished yet"), "{}", case.text(page));
    assert_eq!(case.text("run/weaver-page.state"), "starting\n");
    assert_eq!(fs::metadata(case.path(page)).unwrap().permissions().mode() & 0o777, 0o644);
}

#[test]
fn a_new_banner_is_shown_by_the_gettys_that_wait() {
    let mut case = case();
    case.publisher.publish(&Report::unchecked(), NOW).unwrap();
    assert!(!case.path("run/agetty.reload").exists(), "none waits: nothing is made for it");
    let reload = case.path("run/agetty.reload");
    let file = fs::File::create(&reload).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    let open = Report { gate: Gate::Open, ..Report::unchecked() };
    case.publisher.publish(&open, NOW).unwrap();
    let touched = file.metadata().unwrap();
    assert!(touched.modified().unwrap() > SystemTime::UNIX_EPOCH, "seen by the file's time");
    assert_eq!(touched.len(), 0, "and nothing written");
}

#[test]
fn a_file_that_cannot_be_written_is_named_and_takes_no_other_with_it() {
    let mut case = case();
    case.mount();
    fs::create_dir_all(case.path("run/weaver/report.json/x")).unwrap();
    let error = case.publisher.publish(&Report::unchecked(), NOW).unwrap_err().to_string();
    assert!(error.contains("report.json") && error.contains("check the free space"), "{error}");
    assert!(case.text("run/issue.d/50-weaver.issue").contains("gate shut"));
    assert!(case.path("boot/firmware/NODE-STATUS.txt").is_file());
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let mut case = case();
    fs::write(case.path("run"), "").unwrap();
    let error = case.publisher.publish(&Report::unchecked(), NOW).unwrap_err().to_string();
    assert!(error.contains("run/weaver") && error.contains("check its owner"), "{error}");
}

#[test]
fn a_second_writer_waits_for_the_first() {
    let mut case = case();
    case.publisher.publish(&Report::unchecked(), NOW).unwrap();
    let path = case.path("run/weaver/publish.lock");
    let held = File::create(&path).unwrap();
    held.lock().unwrap();
    let report = case.path("run/weaver/report.json");
    fs::remove_file(&report).unwrap();
    std::thread::scope(|scope| {
        let second = scope.spawn(|| case.publisher.publish(&Report::unchecked(), NOW));
        assert!(!report.exists(), "not while it is held");
        drop(held);
        second.join().unwrap().unwrap();
    });
    assert!(report.exists());
}
