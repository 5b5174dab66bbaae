//! Reads unit files, and finds those of the repository.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// `[section] key = value`, in order; an empty value empties the list, as in systemd.
#[derive(Debug, Default)]
pub struct UnitFile(pub Vec<(String, String, String)>);

impl UnitFile {
    pub fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        let mut unit = Self::default();
        let mut section = String::new();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            assert!(
                !line.ends_with('\\'),
                "{}: this reader knows no continued lines: {line}",
                path.display()
            );
            if let Some(name) = line.strip_prefix('[') {
                name.strip_suffix(']').unwrap().clone_into(&mut section);
                continue;
            }
            let (key, value) = line.split_once('=').unwrap();
            unit.0.push((section.clone(), key.to_owned(), value.to_owned()));
        }
        unit
    }

    /// All values of a key, split at spaces.
    pub fn words(&self, section: &str, key: &str) -> Vec<&str> {
        let mine = self.0.iter().filter(|(s, k, _)| s == section && k == key);
        mine.flat_map(|(_, _, value)| value.split_whitespace()).collect()
    }

    pub fn has(&self, section: &str, key: &str, word: &str) -> bool {
        self.words(section, key).contains(&word)
    }

    /// The last value of a key.
    pub fn value(&self, section: &str, key: &str) -> Option<&str> {
        self.0.iter().rfind(|(s, k, _)| s == section && k == key).map(|(_, _, value)| value.as_str())
    }

    pub fn service(&self, key: &str) -> Option<&str> {
        self.value("Service", key)
    }
}

pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

pub fn systemd(path: &str) -> PathBuf {
    repository().join("systemd").join(path)
}

/// A file that only the card has.
pub fn card(path: &str) -> PathBuf {
    repository().join("packaging/card").join(path)
}

pub fn names(directory: &Path) -> BTreeSet<String> {
    fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Every unit, by name.
pub fn units() -> BTreeMap<String, UnitFile> {
    let files = names(&systemd("")).into_iter().filter(|name| systemd(name).is_file());
    let units = files.filter(|name| Path::new(name).extension().is_none_or(|kind| kind != "md"));
    units.map(|name| (name.clone(), UnitFile::read(&systemd(&name)))).collect()
}

/// Every unit and every drop-in, by path.
pub fn units_and_drop_ins() -> BTreeMap<String, UnitFile> {
    let mut all = units();
    for directory in names(&systemd("")).into_iter().filter(|name| name.ends_with(".service.d")) {
        for file in names(&systemd(&directory)) {
            let path = format!("{directory}/{file}");
            all.insert(path.clone(), UnitFile::read(&systemd(&path)));
        }
    }
    all
}
