//! Reads the owner's [override](weaver_diagnostics::overrides) from the boot partition.

use std::path::Path;

use weaver_diagnostics::overrides::{Overrides, parse};

use crate::host_root::HostRoot;

/// The file's name in the boot directory.
pub const NAME: &str = "weaver-override";

/// The file in this boot directory, if there is one.
pub fn read(root: &HostRoot, boot_dir: &Path) -> Overrides {
    let path = boot_dir.join(NAME);
    match root.read(&path) {
        Ok(None) => Overrides::default(),
        Ok(Some(file)) => parse(&file.path, &file.text),
        Err(why) => Overrides::unreadable(path.display().to_string(), why.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use weaver_diagnostics::finding::{Code, Finding};

    use super::*;

    #[test]
    fn a_file_that_is_no_text_overrides_nothing_and_is_reported() {
        let bad = Finding::new(Code::MemoryTooSmall, "bad");
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::new(dir.path().to_owned());
        assert_eq!(read(&root, Path::new("/boot")), Overrides::default(), "no file");
        std::fs::create_dir(dir.path().join("boot")).unwrap();
        std::fs::write(dir.path().join("boot/weaver-override"), b"N-12\0").unwrap();
        let overrides = read(&root, Path::new("/boot"));
        assert_eq!(overrides.applied_to(bad.clone()), bad.clone());
        let fault = overrides.fault().unwrap();
        assert!(fault.message.contains("/boot/weaver-override cannot be read"), "{fault:?}");
    }
}
