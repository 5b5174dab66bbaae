use std::fs::File;
use std::os::unix::fs::symlink;

use super::*;

/// A directory of volumes, and its path without a link.
fn storage() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = fs::canonicalize(dir.path()).unwrap();
    (dir, path)
}

#[test]
fn a_volume_of_too_many_files_is_left_out_before_all_are_read() {
    let (_dir, storage) = storage();
    for file in ["a", "b", "c/d"] {
        fs::create_dir_all(storage.join(file).parent().unwrap()).unwrap();
        fs::write(storage.join(file), "").unwrap();
    }
    for most in 0..4 {
        let mut walk = Walk { most, ..Walk::new() };
        let why = walk.all(("k3s/storage/pvc-1".to_owned(), storage.clone())).unwrap_err();
        assert!(why.starts_with("it has more than"), "{most} {why}");
    }
    let mut walk = Walk { most: 4, ..Walk::new() };
    walk.all(("k3s/storage/pvc-1".to_owned(), storage)).unwrap();
    let names: Vec<_> = walk.found.iter().map(|(input, _)| input.name.as_str()).collect();
    let want = ["", "/a", "/b", "/c", "/c/d"].map(|name| format!("k3s/storage/pvc-1{name}"));
    assert_eq!(names, want);
}

#[test]
fn a_volume_whose_names_would_fill_the_memory_is_left_out_before_all_are_kept() {
    let (_dir, storage) = storage();
    for file in ["a", "b"] {
        fs::write(storage.join(file), "").unwrap();
    }
    let volume = || ("k3s/storage/pvc-1".to_owned(), storage.clone());
    let needed = 2 * listed("k3s/storage/pvc-1/a");
    let mut walk = Walk { most_listed: needed, ..Walk::new() };
    walk.all(volume()).unwrap();
    let mut walk = Walk { most_listed: needed - 1, ..Walk::new() };
    let why = walk.all(volume()).unwrap_err();
    assert_eq!(why, "its names in the manifest take more than 32 MiB");
}

#[test]
fn a_directory_that_a_pod_replaces_by_a_link_is_not_followed() {
    let (_dir, root) = storage();
    fs::create_dir_all(root.join("elsewhere/below")).unwrap();
    symlink("elsewhere", root.join("directory")).unwrap();
    assert_eq!(children(&root.join("elsewhere"), 9).unwrap().unwrap(), ["below"]);
    for replaced in ["directory", "directory/below"] {
        assert!(children(&root.join(replaced), 9).is_err(), "{replaced}");
    }
}

#[test]
fn a_name_that_is_listed_twice_is_one_member() {
    assert_eq!(each_once(vec!["b", "a", "b"]), ["a", "b"]);
}

#[test]
fn a_path_that_a_restore_could_not_write_is_left_out() {
    let (_dir, storage) = storage();
    let mut deep = storage.join("pvc-1");
    while deep.as_os_str().len() <= LONGEST_PATH {
        fs::create_dir_all(&deep).unwrap();
        deep.push("d".repeat(200));
    }
    fs::create_dir(&deep).unwrap();
    let taken = list(&storage, &VolumeRoom::new(None));
    assert!(taken.inputs.iter().all(|input| input.path.as_os_str().len() <= LONGEST_PATH));
    assert!(taken.inputs.len() > 2 && taken.left_out.count == 1, "{:?}", taken.left_out);
    assert!(taken.left_out.lines()[1].ends_with("its path has more than 3072 bytes"));
}

#[test]
fn a_volume_that_does_not_fit_is_left_out_and_the_next_is_taken() {
    let (_dir, storage) = storage();
    for (volume, bytes) in [("pvc-1", 4 << 20), ("pvc-2", 1 << 10)] {
        fs::create_dir(storage.join(volume)).unwrap();
        fs::write(storage.join(volume).join("data"), vec![1_u8; bytes]).unwrap();
    }
    let taken = list(&storage, &VolumeRoom::new(Some(1 << 20)));
    let names: Vec<_> = taken.inputs.iter().map(|input| input.name.as_str()).collect();
    assert_eq!(names, ["k3s/storage/pvc-2", "k3s/storage/pvc-2/data"]);
    assert!((1 << 10..1 << 14).contains(&taken.bytes), "{}", taken.bytes);
    let line = "left out: k3s/storage/pvc-1: it takes 5 MiB, and all volumes together have room for 1 MiB";
    assert_eq!(taken.left_out.lines(), [line]);
}

#[test]
fn another_name_of_a_file_holds_nothing() {
    let (_dir, storage) = storage();
    fs::write(storage.join("a"), vec![1_u8; 1 << 20]).unwrap();
    File::open(storage.join("a")).unwrap().sync_all().unwrap();
    fs::hard_link(storage.join("a"), storage.join("b")).unwrap();
    let mut walk = Walk::new();
    walk.all(("k3s/storage/pvc-1".to_owned(), storage)).unwrap();
    let held: Vec<_> = walk.found.iter().map(|(_, size)| size.held > 0).collect();
    assert_eq!(held, [false, true, false], "the directory, the file, and its other name");
}
