//! One key of a configuration file, and where it is.

use crate::finding::Place;
use crate::text_file::TextFile;
use crate::yaml_node::{self, YamlNode};

/// One key of one file and its value.
pub(super) struct ConfigKey<'a> {
    pub file: &'a TextFile,
    pub key: YamlNode,
    pub value: YamlNode,
}

pub(super) fn each(files: &[TextFile]) -> impl Iterator<Item = ConfigKey<'_>> {
    files.iter().flat_map(|file| {
        let entries =
            yaml_node::parse(&file.text).map_or_else(|_| Vec::new(), |root| root.entries().to_vec());
        entries.into_iter().map(move |(key, value)| ConfigKey { file, key, value })
    })
}

impl ConfigKey<'_> {
    pub(super) fn text(&self) -> &str {
        self.key.as_str().unwrap_or_default()
    }

    /// Without the sign that appends.
    pub(super) fn plain(&self) -> &str {
        self.text().strip_suffix('+').unwrap_or(self.text())
    }

    pub(super) fn place(&self) -> Place {
        self.at(&self.key)
    }

    pub(super) fn at(&self, node: &YamlNode) -> Place {
        Place::at(&self.file.path, node.line, node.column)
    }
}
