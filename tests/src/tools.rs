//! Programs and files of others that `make test` provides once per machine (tests/devstack/tools.sh).

use std::path::PathBuf;

/// Where this one is.
pub fn path(name: &str) -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache"), PathBuf::from);
    let path = cache.join("config-weaver/tools").join(name);
    assert!(path.exists(), "{} does not exist; `tests/devstack/test.sh tools` provides it", path.display());
    path
}
