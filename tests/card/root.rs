//! The root file system inside the image, read in place.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use clap::ValueEnum as _;
use ext4_view::{Ext4, Ext4Read};
use weaver_image::build::debian_kernel::DebianKernel;
use weaver_image::build::disk::ROOT_START;

/// The image under test.
pub fn image() -> PathBuf {
    let path = std::env::var_os("WEAVER_IMAGE").expect("WEAVER_IMAGE is not set: run `make image-smoke`");
    PathBuf::from(path)
}

/// The kernel of the image, by its name.
pub fn kernel() -> DebianKernel {
    let image = image();
    let name = image.file_name().unwrap().to_string_lossy();
    let says = |kernel: &DebianKernel| kernel.id().is_some_and(|id| name.contains(id));
    DebianKernel::value_variants().iter().copied().find(says).unwrap_or_default()
}

struct Partition(File);

impl Ext4Read for Partition {
    fn read(&mut self, at: u64, into: &mut [u8]) -> Result<(), Box<dyn Error + Send + Sync + 'static>> {
        Ok(self.0.read_exact_at(into, ROOT_START + at)?)
    }
}

/// One entry of the tree.
#[derive(Debug, Clone)]
pub struct Entry {
    pub mode: u16,
    pub uid: u32,
    pub gid: u32,
    pub size: u64,
    pub modified: i64,
    /// Where it points to, for a link.
    pub link: Option<String>,
    pub is_dir: bool,
    pub is_file: bool,
}

pub struct Root {
    pub fs: Ext4,
    pub entries: BTreeMap<String, Entry>,
}

impl Root {
    /// Reads every name and its metadata.
    pub fn read() -> Self {
        let file = File::open(image()).unwrap();
        let fs = Ext4::load(Box::new(Partition(file))).unwrap();
        let mut entries = BTreeMap::new();
        let mut open = vec![ext4_view::PathBuf::new("/")];
        while let Some(directory) = open.pop() {
            for entry in fs.read_dir(&directory).unwrap() {
                let entry = entry.unwrap();
                let name = entry.file_name();
                if matches!(name.as_str(), Ok("." | "..")) {
                    continue;
                }
                let path = entry.path();
                let meta = fs.symlink_metadata(&path).unwrap();
                let link = meta.is_symlink().then(|| fs.read_link(&path).unwrap().display().to_string());
                let seen = Entry {
                    mode: meta.mode() & 0o7777,
                    uid: meta.uid(),
                    gid: meta.gid(),
                    size: meta.len(),
                    modified: meta.modified().seconds(),
                    link,
                    is_dir: meta.is_dir(),
                    is_file: meta.file_type().is_regular_file(),
                };
                if seen.is_dir {
                    open.push(path.clone());
                }
                entries.insert(path.display().to_string(), seen);
            }
        }
        Self { fs, entries }
    }

    pub fn get(&self, path: &str) -> &Entry {
        self.entries.get(path).unwrap_or_else(|| panic!("{path} is not on the card"))
    }

    pub fn has(&self, path: &str) -> bool {
        self.entries.contains_key(path)
    }

    pub fn text(&self, path: &str) -> String {
        self.fs.read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub fn bytes(&self, path: &str) -> Vec<u8> {
        self.fs.read(path).unwrap_or_else(|error| panic!("{path}: {error}"))
    }
}

/// Copies a range of the image into a file of its own, holes left out.
pub fn extract(from: u64, length: u64, to: &Path) {
    let image = File::open(image()).unwrap();
    let file = File::create(to).unwrap();
    file.set_len(length).unwrap();
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    while at < length {
        let size = usize::try_from(length - at).unwrap().min(buffer.len());
        image.read_exact_at(&mut buffer[..size], from + at).unwrap();
        if buffer[..size].iter().any(|byte| *byte != 0) {
            file.write_all_at(&buffer[..size], at).unwrap();
        }
        at += size as u64;
    }
}
