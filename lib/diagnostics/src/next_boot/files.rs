//! The files that decide, by their paths on the host.

use std::collections::BTreeMap;

/// What is known of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BootFileContent {
    /// Its text. Comments may be in any encoding; `damage` says why it is no plain text for all that.
    Text {
        text: String,
        damage: Option<String>,
    },
    Unreadable(String),
    /// A kernel, a device tree: its name is all that matters.
    Named,
}

/// The files by path. A FAT knows no case, so that a name in other letters is the same file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FatFiles(BTreeMap<String, BootFileContent>);

impl FatFiles {
    pub fn insert(&mut self, path: impl Into<String>, content: BootFileContent) {
        self.0.insert(path.into(), content);
    }

    /// A file and its path as it is on the disk.
    pub fn get(&self, path: &str) -> Option<(&str, &BootFileContent)> {
        let path = without_empty_parts(path);
        let exact = self.0.get_key_value(&path);
        let found = exact.or_else(|| self.0.iter().find(|(found, _)| found.eq_ignore_ascii_case(&path)));
        found.map(|(path, content)| (path.as_str(), content))
    }

    /// A text that may be missing or unreadable without harm.
    pub fn text(&self, path: &str) -> Option<(&str, &str)> {
        match self.get(path)? {
            (path, BootFileContent::Text { text, .. }) => Some((path, text)),
            _ => None,
        }
    }

    pub fn names(&self, directory: &str) -> Vec<String> {
        let directory = without_empty_parts(directory);
        let in_it = self.0.keys().filter_map(|path| path.rsplit_once('/'));
        let in_it = in_it.filter(|(parent, _)| parent.eq_ignore_ascii_case(&directory));
        in_it.map(|(_, name)| name.to_owned()).collect()
    }

    /// The texts of a directory whose names end like this.
    pub(super) fn texts_in(&self, directory: &str, end: &str) -> impl Iterator<Item = (&str, &str)> {
        let directory = directory.to_owned();
        self.0.iter().filter_map(move |(path, content)| match content {
            BootFileContent::Text { text, .. }
                if path.rsplit_once('/').is_some_and(|(parent, name)| {
                    parent.eq_ignore_ascii_case(&directory) && name.ends_with(end)
                }) =>
            {
                Some((path.as_str(), text.as_str()))
            }
            _ => None,
        })
    }
}

/// `a//./b/` is `a/b` to the firmware and to the kernel.
fn without_empty_parts(path: &str) -> String {
    let parts = path.split('/').filter(|part| !matches!(*part, "" | "."));
    parts.flat_map(|part| ["/", part]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_other_letters_is_the_same_file_and_the_exact_one_comes_first() {
        let mut files = FatFiles::default();
        files.insert("/boot/firmware/CONFIG.TXT", BootFileContent::Named);
        assert_eq!(files.get("/boot/firmware/config.txt").unwrap().0, "/boot/firmware/CONFIG.TXT");
        files.insert("/boot/firmware/config.txt", BootFileContent::Named);
        assert_eq!(files.get("/boot//firmware/./config.txt").unwrap().0, "/boot/firmware/config.txt");
        assert_eq!(files.get("/boot/firmware/none"), None);
        assert_eq!(files.names("/boot/firmware/"), ["CONFIG.TXT", "config.txt"]);
        assert!(files.names("/boot").is_empty());
    }
}
