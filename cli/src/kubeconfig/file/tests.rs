#[cfg(unix)]
use std::os::unix::fs::{chown, lchown, symlink};
#[cfg(unix)]
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

const THEIRS: &str = "\
apiVersion: v1
clusters:
- cluster: {server: https://work:6443}
  name: work
contexts:
- context: {cluster: work, user: work}
  name: work
current-context: work
kind: Config
users:
- name: work
  user: {token: hunter2}
";
const PI: &str = "\
clusters:
- cluster: {server: https://pi:6443}
  name: pi
contexts:
- context: {cluster: pi, user: pi}
  name: pi
current-context: pi
users:
- name: pi
  user: {token: hunter3}
";

fn document(text: &str) -> Document {
    Document::parse(&TextFile::new("/k", text)).unwrap()
}

fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

fn merged(path: &Path, switch: bool) -> Result<MergeOutcome, FileError> {
    merge_into(path, &document(PI), MergeOptions { switch, force: false }, &[], now())
}

/// A file with this text and mode, and the directory that it is in.
fn file(text: &str, mode: u32) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config");
    fs::write(&path, text).unwrap();
    platform::set_path_mode(&path, mode).unwrap();
    (dir, path)
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// `None` where files have none.
fn mode(path: &Path) -> Option<u32> {
    platform::owner(&fs::metadata(path).unwrap()).mode
}

const fn unix(mode: u32) -> Option<u32> {
    if cfg!(unix) { Some(mode) } else { None }
}

/// The merge is refused with this message, and nothing has changed.
fn refused(path: &Path, want: &str) {
    let (before, listed) = (fs::read(path).ok(), names(directory_of(path)));
    let error = merged(path, true).unwrap_err().to_string();
    assert!(error.contains(want), "{error}");
    assert!(!error.contains("hunter"), "{error}");
    assert_eq!((fs::read(path).ok(), names(directory_of(path))), (before, listed));
}

#[test]
fn a_merge_keeps_all_else_and_the_old_file() {
    let (dir, path) = file(THEIRS, 0o644);
    // Only root can change the owner; it must stay the same either way.
    #[cfg(unix)]
    let _ = chown(&path, Some(65534), Some(65534));
    let before = platform::owner(&fs::metadata(&path).unwrap());
    let done = merged(&path, false).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let want = merge(&document(THEIRS), &document(PI), false);
    assert_eq!(document(&text), want);
    assert!(text.contains("current-context: work\n") && text.contains("hunter2") && text.contains("hunter3"));

    let backup = done.backup.unwrap();
    assert_eq!(fs::read_to_string(&backup).unwrap(), THEIRS);
    assert_eq!(names(dir.path()), ["config", "config.bak-20260102T030405Z"]);
    for file in [&path, &backup] {
        let after = platform::owner(&fs::metadata(file).unwrap());
        assert_eq!((after.uid, after.gid, after.mode), (before.uid, before.gid, unix(0o600)));
    }
}

#[test]
fn a_second_merge_changes_nothing_and_a_third_keeps_both_copies() {
    let (dir, path) = file(THEIRS, 0o600);
    merged(&path, false).unwrap();
    assert_eq!(merged(&path, false).unwrap(), MergeOutcome { backup: None, changed: false });
    assert_eq!(names(dir.path()).len(), 2);
    merged(&path, true).unwrap();
    assert!(fs::read_to_string(&path).unwrap().contains("current-context: pi\n"));
    let first = "config.bak-20260102T030405Z";
    assert_eq!(names(dir.path()), ["config", first, &format!("{first}.1")]);
}

#[cfg(unix)]
#[test]
fn a_file_open_to_others_is_closed_even_without_a_change() {
    let (_dir, path) = file(&merge(&document(THEIRS), &document(PI), false).to_yaml(), 0o640);
    assert!(merged(&path, false).unwrap().changed);
    assert_eq!(mode(&path), unix(0o600));
}

#[test]
fn a_collision_is_refused_before_a_byte_is_written_in_whichever_file_kubectl_reads() {
    let uses = THEIRS.replace("cluster: work,", "cluster: pi,");
    let (dir, path) = file(&uses, 0o600);
    refused(&path, "context `work` uses cluster or user `pi`");
    // kubectl uses the first file that has an entry.
    let first = dir.path().join("first");
    let next_to = [path, dir.path().join("none")];
    for there in [false, true] {
        let before = names(dir.path());
        let error =
            merge_into(&first, &document(PI), MergeOptions { switch: false, force: true }, &next_to, now())
                .unwrap_err();
        assert!(error.is_refusal() && error.to_string().contains("nothing was written"), "{error}");
        assert_eq!(names(dir.path()), before);
        if !there {
            fs::write(&first, "kind: Config\n").unwrap();
        }
    }
}

#[test]
fn a_file_that_is_not_there_is_made_with_its_directory() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(".kube/config");
    assert_eq!(merged(&path, false).unwrap(), MergeOutcome { backup: None, changed: true });
    assert_eq!((mode(&path), mode(&dir.path().join(".kube"))), (unix(0o600), unix(0o700)));
    assert!(!fs::read_to_string(&path).unwrap().contains("current-context"));
    assert_eq!(names(&dir.path().join(".kube")), ["config"]);
}

#[test]
fn an_empty_file_is_filled() {
    let (_dir, path) = file("", 0o600);
    assert!(merged(&path, true).unwrap().changed);
    assert!(fs::read_to_string(&path).unwrap().contains("current-context: pi\n"));
}

#[cfg(unix)]
#[test]
fn a_symlink_stays_and_its_target_is_replaced() {
    let (dir, path) = file(THEIRS, 0o600);
    let elsewhere = tempfile::tempdir().unwrap();
    let link = elsewhere.path().join("config");
    symlink(&path, &link).unwrap();
    let backup = merged(&link, false).unwrap().backup.unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::read_to_string(&path).unwrap().contains("hunter3"));
    assert_eq!(fs::canonicalize(&backup).unwrap().parent(), fs::canonicalize(dir.path()).ok().as_deref());
    assert_eq!(names(elsewhere.path()), ["config"]);
    write(&link, &document(PI), true).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(document(&fs::read_to_string(&path).unwrap()), document(PI));
}

#[test]
fn a_file_that_another_user_may_have_put_there_is_known_by_its_directory() {
    let by = |uid: u32, mode: u32| FileOwner { uid: Some(uid), gid: Some(uid), mode: Some(mode) };
    for (uid, directory, caller, expected) in [
        // In /tmp, under sudo and without.
        (1001, by(0, 0o1777), 0, true),
        (1001, by(0, 0o1777), 1000, true),
        (0, by(0, 0o1777), 0, false),
        (1001, by(0, 0o2775), 0, true),
        // In a home, under sudo and without.
        (1000, by(1000, 0o755), 0, false),
        (1000, by(1000, 0o775), 0, false),
        (1001, by(1000, 0o775), 0, true),
        // Only root can have put it there.
        (1000, by(0, 0o755), 0, false),
    ] {
        assert_eq!(is_planted(by(uid, 0o644), directory, Some(caller)), expected, "{uid} {directory:?}");
    }
    let unknown = FileOwner { uid: None, gid: None, mode: None };
    assert!(!is_planted(unknown, unknown, None), "on Windows");
}

/// An administrator's key was written to a file of the user who had put it, or a link, into `/tmp` before.
#[cfg(unix)]
#[test]
fn the_key_is_not_given_to_a_user_who_put_a_file_or_a_link_there() {
    let (dir, path) = file(THEIRS, 0o644);
    let (_elsewhere, own) = file(THEIRS, 0o600);
    let link = dir.path().join("link");
    symlink(&own, &link).unwrap();
    platform::set_path_mode(dir.path(), 0o1777).unwrap();
    // Only root can change the owner.
    if chown(&path, Some(65534), None).and_then(|()| lchown(&link, Some(65534), None)).is_err() {
        return;
    }
    let theirs = dir.path().join("theirs");
    fs::create_dir(&theirs).unwrap();
    let within = theirs.join("config");
    fs::copy(&path, &within).unwrap();
    for planted in [&theirs, &within] {
        chown(planted, Some(65534), None).unwrap();
    }
    for planted in [&path, &link, &within] {
        for error in [write(planted, &document(PI), true).unwrap_err(), merged(planted, true).unwrap_err()] {
            // The kernel itself may refuse to follow such a link.
            let is_named = ["belongs to another user", "ermission denied"];
            assert!(is_named.iter().any(|words| error.to_string().contains(words)), "{error}");
        }
    }
    for file in [&path, &own, &within] {
        assert_eq!(fs::read_to_string(file).unwrap(), THEIRS);
    }
}

#[test]
fn what_is_no_kubeconfig_is_left_alone() {
    for (text, want) in [
        ("kind: Pod\ntoken: hunter2\n", "its kind is not `Config`; it was left as it is"),
        ("token: [hunter2\n", "is not a kubeconfig"),
        ("hunter2", "it is a single value"),
        ("kind: Config\n---\nkind: Config\n", "a second YAML document"),
    ] {
        let (_dir, path) = file(text, 0o600);
        refused(&path, want);
    }
    let (_dir, path) = file("", 0o600);
    fs::write(&path, b"kind: Config\n\xff").unwrap();
    refused(&path, "a kubeconfig is text: name one");
    fs::write(&path, "#".repeat((LARGEST + 1).try_into().unwrap())).unwrap();
    refused(&path, "larger than 4 MiB");
}

#[test]
fn what_is_no_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("d");
    fs::create_dir(&path).unwrap();
    let want = format!("{} is not a regular file", path.display());
    refused(&path, &want);
    assert!(write(&path, &document(PI), true).unwrap_err().to_string().contains(&want));
}

#[cfg(unix)]
#[test]
fn a_symlink_to_nothing_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("l");
    symlink(dir.path().join("nothing"), &link).unwrap();
    refused(&link, "/l is a symlink that points to nothing: name its target");
    assert!(write(&link, &document(PI), true).unwrap_err().is_refusal());
}

#[test]
fn a_file_that_another_program_changes_is_left_alone() {
    let (dir, path) = file(THEIRS, 0o600);
    fs::write(dir.path().join("config.lock"), "").unwrap();
    refused(&path, "is locked by another program; if none is running, remove ");
    fs::remove_file(dir.path().join("config.lock")).unwrap();
    merged(&path, false).unwrap();
}

#[test]
fn an_unwritable_place_is_named_with_a_way_out() {
    let (dir, path) = file(THEIRS, 0o600);
    // A file where a directory is needed: refused to root too.
    let is_shown =
        |words: &str| words.contains("elsewhere") || cfg!(windows) && words.contains("create its directory");
    let below = path.join("config");
    for error in [merged(&below, false).unwrap_err(), write(&below, &document(PI), false).unwrap_err()] {
        let words = error.to_string();
        assert!(words.contains(&below.display().to_string()) && is_shown(&words), "{words}");
        assert!(!error.is_refusal());
    }
    let error = write(&dir.path().join("no/config"), &document(PI), false).unwrap_err().to_string();
    assert!(error.contains("create its directory first"), "{error}");
    for (kind, want) in [
        (ErrorKind::PermissionDenied, "or name another file"),
        (ErrorKind::StorageFull, "free space"),
        (ErrorKind::ReadOnlyFilesystem, "name a file elsewhere"),
    ] {
        assert!(way_out(&kind.into()).contains(want));
    }
}

#[test]
fn a_failed_step_leaves_the_old_file_and_no_copy() {
    let (dir, path) = file(THEIRS, 0o600);
    // Blocks the path of the new file, and cannot be removed as a file.
    fs::create_dir(dir.path().join("config.weaver-new")).unwrap();
    refused(&path, "the file is as it was");
}

#[test]
fn what_a_killed_run_left_is_neither_used_nor_kept() {
    let (dir, path) = file(THEIRS, 0o600);
    let left = dir.path().join("config.weaver-new");
    fs::write(&left, "half").unwrap();
    platform::set_path_mode(&left, 0o666).unwrap();
    merged(&path, false).unwrap();
    assert_eq!((mode(&path), left.exists()), (unix(0o600), false));
    assert!(fs::read_to_string(&path).unwrap().contains("hunter3"));
}

/// On Windows a reader may block the rename for a moment: [`durable_file`] tries again.
#[cfg(unix)]
#[test]
fn a_reader_sees_the_old_file_or_the_new() {
    let (_dir, path) = file(THEIRS, 0o600);
    let states = [document(THEIRS).to_yaml(), document(PI).to_yaml()];
    write(&path, &document(THEIRS), true).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut reads = 0_u32;
            while !stop.load(Ordering::SeqCst) || reads == 0 {
                let seen = fs::read_to_string(&path).unwrap();
                assert!(states.contains(&seen), "{} bytes", seen.len());
                reads += 1;
            }
        });
        for text in [PI, THEIRS].iter().cycle().take(50) {
            write(&path, &document(text), true).unwrap();
        }
        stop.store(true, Ordering::SeqCst);
        reader.join().unwrap();
    });
}

#[test]
fn an_existing_file_is_replaced_only_with_force() {
    let (dir, path) = file("precious", 0o644);
    let error = write(&path, &document(PI), false).unwrap_err();
    assert!(error.to_string().contains("exists: name another file, or replace it with --force"), "{error}");
    assert!(error.is_refusal());
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    write(&path, &document(PI), true).unwrap();
    let new = dir.path().join("new");
    write(&new, &document(PI), false).unwrap();
    for file in [&path, &new] {
        assert_eq!((mode(file), document(&fs::read_to_string(file).unwrap())), (unix(0o600), document(PI)));
    }
    assert_eq!(names(dir.path()), ["config", "new"]);
}

#[test]
fn a_source_that_cannot_be_read_is_named_with_a_way_out() {
    let dir = tempfile::tempdir().unwrap();
    let error = read(&dir.path().join("k3s.yaml"), "use sudo").unwrap_err().to_string();
    assert!(error.contains("k3s.yaml") && error.contains("k3s writes it when it starts"), "{error}");
    let error = read(dir.path(), "use sudo").unwrap_err().to_string();
    assert!(error.contains("name a kubeconfig"), "{error}");
}

#[test]
fn a_file_by_whatever_editor_is_read_and_merged_into() {
    let lines = THEIRS.replace('\n', "\r\n");
    let wide = [0xff, 0xfe].into_iter().chain(lines.encode_utf16().flat_map(u16::to_le_bytes)).collect();
    for bytes in [lines.clone().into_bytes(), format!("\u{feff}{lines}").into_bytes(), wide] {
        let (_dir, path) = file("", 0o600);
        fs::write(&path, &bytes).unwrap();
        let backup = merged(&path, false).unwrap().backup.unwrap();
        assert_eq!(fs::read_to_string(backup).unwrap(), lines);
        let want = merge(&document(THEIRS), &document(PI), false);
        assert_eq!(document(&fs::read_to_string(&path).unwrap()), want);
    }
}

#[test]
fn a_path_with_spaces_and_letters_beyond_ascii_is_like_any_other() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("J\u{f6} Doe \u{1f347}").join("my config");
    merged(&path, false).unwrap();
    let before = fs::read_to_string(&path).unwrap();
    let backup = merged(&path, true).unwrap().backup.unwrap();
    assert_eq!(backup, with_suffix(&platform::canonicalize(&path).unwrap(), ".bak-20260102T030405Z"));
    assert_eq!(fs::read_to_string(&backup).unwrap(), before);
}

/// `NUL` would swallow it, and `pi:6443.yaml` be a hidden stream of `pi`.
#[cfg(windows)]
#[test]
fn a_device_or_a_name_that_windows_changes_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["NUL", "con.yaml", "pi:6443.yaml", "pi."] {
        let path = dir.path().join(name);
        for error in [merged(&path, false).unwrap_err(), write(&path, &document(PI), true).unwrap_err()] {
            assert!(error.to_string().contains("indows"), "{name}: {error}");
        }
    }
    assert_eq!(names(dir.path()), [""; 0]);
}
