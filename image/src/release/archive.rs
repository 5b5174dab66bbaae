//! Archives of the command line among the files of a release.

use std::collections::BTreeMap;

/// An archive of the command line.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Archive {
    pub name: String,
    /// What is in front of `.tar.gz`, and the directory in it.
    pub stem: String,
    /// The name that krew and Go use.
    pub os: String,
    pub architecture: String,
    pub sha256: String,
}

/// The archives among these files that krew and Homebrew choose by system and processor alone; those for another libc
/// are downloaded by users.
pub fn archives(version: &str, sums: &BTreeMap<String, String>) -> Vec<Archive> {
    let archive = |(name, sha256): (&String, &String)| {
        let stem = name.strip_suffix(".tar.gz").or_else(|| name.strip_suffix(".zip"))?;
        let (os, architecture) = stem.strip_prefix(&format!("weaver-{version}-"))?.split_once('-')?;
        (!architecture.contains('-')).then(|| Archive {
            name: name.clone(),
            stem: stem.to_owned(),
            os: os.to_owned(),
            architecture: architecture.to_owned(),
            sha256: sha256.clone(),
        })
    };
    sums.iter().filter_map(archive).collect()
}
