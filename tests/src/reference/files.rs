//! `docs/reference/files.md`: files that the programs name, and what the packages install.

mod groups;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::monitoring::file;
use groups::{FileGroup, FileRow, groups};

const PACKAGES: [&str; 3] = ["config-weaver", "weaver", "config-weaver-card"];

/// What is in the directories of the packages, by the beginning of a path.
const INSTALLED: &[(&str, &str)] = &[
    ("/etc/", "conffiles: your changes stay"),
    ("/usr/bin", "programs"),
    ("/usr/lib/sysctl.d", "settings of the kernel"),
    ("/usr/lib/systemd/system-preset", "which units are enabled"),
    ("/usr/lib/systemd/system", "units and their drop-ins"),
    ("/usr/lib/systemd", "settings of systemd's own services"),
    ("/usr/lib/sysusers.d", "users and groups"),
    ("/usr/lib/tmpfiles.d", "directories made at the boot"),
    ("/usr/lib/weaver", "programs of the first boot; what asks for a reboot after security updates"),
    ("/usr/share/weaver/crds", "definitions"),
    ("/usr/share/weaver/samples", "examples"),
    ("/usr/share/weaver", "the gate of k3s, where the [owner links it](../how-to/install-on-a-pi.md)"),
    ("/usr/share/", "completions of the shells"),
];

pub(super) fn page() -> String {
    let groups: Vec<String> = groups().iter().map(group).collect();
    format!(
        "# Files on the host\n\n\
         Files that Config Weaver reads and writes on a card. A boot without changes writes nothing.\n{}\n\
         ## Of the packages\n\n\
         `dpkg -L PACKAGE` lists all of it. The card image has all three installed. There `dpkg -V` names the manuals and \
         documents that\n`10-weaver` keeps off it as missing.\n\n\
         | directory | package | files | what |\n|---|---|---|---|\n{}",
        groups.concat(),
        installed()
    )
}

fn group(FileGroup { title, before, column, rows, after }: &FileGroup) -> String {
    let mut text = format!("\n## {title}\n\n");
    if !before.is_empty() {
        write!(text, "{before}\n\n").unwrap();
    }
    write!(text, "| path | {column} |\n|---|---|\n").unwrap();
    for FileRow { paths, which, what } in rows {
        let row = format!("| {} {which}", listed(paths));
        writeln!(text, "{} | {what} |", row.trim_end()).unwrap();
    }
    if !after.is_empty() {
        write!(text, "\n{after}\n").unwrap();
    }
    text
}

/// One in the directory of the path before it has its name only.
fn listed(paths: &[String]) -> String {
    let mut folder = "";
    let mut names = Vec::new();
    for path in paths {
        let (own, name) = path.trim_end_matches('/').rsplit_once('/').unwrap_or((folder, path));
        let is_next = own == folder && !names.is_empty() && !path.ends_with('/');
        names.push(format!("`{}`", if is_next { name } else { path }));
        folder = own;
    }
    names.join(", ")
}

/// A row for each directory of a package, from what `packaging/debian` installs.
fn installed() -> String {
    let mut rows = String::new();
    for package in PACKAGES {
        let mut directories: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for line in file(&format!("packaging/debian/{package}.install")).lines() {
            let (from, to) = line.split_once(' ').unwrap_or_else(|| panic!("{package}.install: {line}"));
            // As Debian has it, where /lib is /usr/lib.
            let to = format!(
                "/{}",
                to.strip_prefix("lib/").map_or_else(|| to.to_owned(), |rest| format!("usr/lib/{rest}"))
            );
            let tree = from.strip_suffix("/*");
            match tree.filter(|tree| tree.starts_with("card/")) {
                Some(tree) => below(&Path::new("packaging").join(tree), &to, &mut directories),
                None => directories
                    .entry(to)
                    .or_default()
                    .push(from.rsplit('/').next().unwrap_or(from).to_owned()),
            }
        }
        for (directory, names) in directories {
            let what = INSTALLED.iter().find(|(begin, _)| directory.starts_with(begin));
            let (_, what) = what.unwrap_or_else(|| panic!("say in INSTALLED what is in {directory}"));
            let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
            writeln!(rows, "| `{directory}/` | {package} | {} | {what} |", names.join(", ")).unwrap();
        }
    }
    rows
}

/// The files of a directory of the repository, by the directory in which they are installed.
fn below(tree: &Path, to: &str, directories: &mut BTreeMap<String, Vec<String>>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(tree);
    let mut entries: Vec<_> = fs::read_dir(&root)
        .unwrap_or_else(|error| panic!("{}: {error}", root.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            below(&tree.join(name), &format!("{to}/{name}"), directories);
        } else {
            directories.entry(to.to_owned()).or_default().push(name.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_one_directory_are_named_once() {
        let of = |paths: &[&str]| listed(&paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&["/a/b", "/a/c", "d", "/e/f"]), "`/a/b`, `c`, `d`, `/e/f`");
        assert_eq!(of(&["server/x/"]), "`server/x/`");
    }
}
