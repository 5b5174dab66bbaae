//! The file that blocks k3s: `k3s.blocked` in the runtime directory. k3s' unit has `ConditionPathExists=!` on it.
//!
//! It exists only if a check failed, and contains which and why. It is in memory: a reboot always begins without it.

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use weaver_diagnostics::finding::{Code, Finding, Severity};
use weaver_host::durable_file::{self, WriteError};

use crate::report;

/// Where the file is.
pub fn path(runtime_dir: &Path) -> PathBuf {
    runtime_dir.join("k3s.blocked")
}

/// Whether it is there.
pub fn exists(runtime_dir: &Path) -> bool {
    path(runtime_dir).exists()
}

/// Faults in k3s' own files. What k3s accepts depends on its version, which is not known before it starts; and it
/// reports itself why it does not start. A working k3s of years ago must not be blocked for what only newer ones
/// refuse.
const LEFT_TO_K3S: [Code; 4] = [
    Code::SettingMisspelled,
    Code::K3sConfigWrongType,
    Code::ContainerdTemplateFault,
    Code::KubeletConfigFault,
];

/// Which of these findings block the start of k3s.
pub fn causes(findings: &[Finding]) -> Vec<Finding> {
    let blocks = |f: &&Finding| f.severity() == Severity::Fail && !LEFT_TO_K3S.contains(&f.code);
    findings.iter().filter(blocks).cloned().collect()
}

/// Writes it: code, evidence and remedy of each cause. A runtime directory that does not exist yet is made.
///
/// # Errors
/// It cannot be written; k3s is then not blocked.
pub fn write(runtime_dir: &Path, causes: &[Finding]) -> Result<(), WriteError> {
    let text = format!(
        "k3s is not started, because checks of this host failed.\n\
         To start it anyway, write the code on a line of /boot/firmware/weaver-override.\n\n{}",
        report::text(causes)
    );
    if fs::read(path(runtime_dir)).is_ok_and(|there| there == text.as_bytes()) {
        return Ok(());
    }
    // Where this fails, the next step names the path.
    drop(DirBuilder::new().recursive(true).mode(0o750).create(runtime_dir));
    durable_file::replace(&path(runtime_dir), text.as_bytes(), 0o640)
}

/// Removes it; `true` where it was there.
///
/// # Errors
/// It is there and cannot be removed.
pub fn remove(runtime_dir: &Path) -> io::Result<bool> {
    Ok(durable_file::found(fs::remove_file(path(runtime_dir)))?.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use weaver_diagnostics::finding::{Place, Remedy};

    #[test]
    fn the_file_says_what_why_and_what_to_do_and_goes_away() {
        let dir = tempfile::tempdir().unwrap();
        let bad = Finding::new(Code::MemoryTooSmall, "too small")
            .saw(Place::line("/proc/meminfo", 1), "MemTotal: 1 kB")
            .remedy(Remedy::new("use another board"));
        let warn = Finding::new(Code::NamesShadowed, "w");
        let causes = causes(&[warn, bad.clone()]);
        assert_eq!(causes, [bad]);
        assert!(!exists(dir.path()));
        write(dir.path(), &causes).unwrap();
        let text = fs::read_to_string(path(dir.path())).unwrap();
        for part in ["N-12", "/proc/meminfo:1: MemTotal: 1 kB", "use another board", "weaver-override"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(exists(dir.path()));
        assert!(remove(dir.path()).unwrap());
        assert!(!remove(dir.path()).unwrap() && !exists(dir.path()));
    }

    #[test]
    fn a_block_that_cannot_be_written_or_removed_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        write(&dir.path().join("new"), &[]).unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        assert!(write(&dir.path().join("file"), &[]).unwrap_err().to_string().contains("k3s.blocked"));
        fs::create_dir(path(dir.path())).unwrap();
        assert!(remove(dir.path()).is_err());
    }
}
