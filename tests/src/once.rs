//! What several tests need and takes long to make: the first of them makes it, and the others wait for it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::poll::given;

/// The path that `make` is given by the first test, and where all others find what it made; not to be changed.
pub fn once(name: &str, make: impl FnOnce(&Path)) -> PathBuf {
    // In memory, with a short path, and removed with the shared server, which does not look at it.
    let dir = given("WEAVER_TEST_DIR").join("data").canonicalize().unwrap().join("once").join(name);
    fs::create_dir_all(&dir).unwrap();
    let lock = File::create(dir.join("lock")).unwrap();
    lock.lock().unwrap();
    let (path, is_made) = (dir.join("it"), dir.join("made"));
    if !is_made.exists() {
        // The test that began it may have been killed.
        let _ = fs::remove_dir_all(&path);
        make(&path);
        File::create(&is_made).unwrap();
    }
    drop(lock);
    path
}
