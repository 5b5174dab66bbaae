//! The forecast of the next boot, of any set of files: it ends, and what it says is read was given.
//!
//! The input is several files: a line `== PATH` begins one.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weaver_diagnostics::config_txt::Hardware;
use weaver_diagnostics::next_boot::{BootFile, BootFileContent, FatFiles, MachineFacts, forecast};

fuzz_target!(|text: &str| {
    let mut files = FatFiles::default();
    let (mut running, mut mounted_partition) = (None, None);
    for file in text.split("== ").skip(1) {
        let (path, content) = file.split_once('\n').unwrap_or((file, ""));
        match path {
            "/proc/cmdline" => running = Some(content.to_owned()),
            "partition" => mounted_partition = content.trim().parse().ok(),
            path if content.is_empty() => files.insert(path, BootFileContent::Named),
            path => files.insert(path, BootFileContent::Text { text: content.to_owned(), damage: None }),
        }
    }
    let hardware = Hardware { model: Some("Raspberry Pi 4 Model B".to_owned()), ..Hardware::default() };
    let machine = MachineFacts { hardware, running, mounted_partition, ..MachineFacts::default() };
    let next = forecast(&files, &machine);
    let staged = next.staged.iter().map(|staged| &staged.file);
    for file in staged.chain([&next.file]) {
        match file {
            BootFile::Read(file) => assert_eq!(files.text(&file.path), Some((&*file.path, &*file.text))),
            BootFile::Undecided { why, .. } | BootFile::Unreadable { why, .. } => assert!(!why.is_empty()),
            BootFile::Loader(loader) => assert!(!loader.lines.is_empty() || loader.unsure.is_some()),
            BootFile::Missing => {}
        }
    }
});
