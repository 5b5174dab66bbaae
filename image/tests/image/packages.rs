//! Our files on the image come from the Debian packages, whose lists (packaging/debian/*.install) take them from the
//! tree: there is no second list that could be outdated.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use weaver_image::build::layer::{LayerInputs, layer};
use weaver_image::build::{own_packages, packages};

/// Files of the image that are in no package: which image it is, what is on its disk, where its packages come from, and
/// which of Debian's units do not run on an image that was never installed; and k3s, which has no package.
const IMAGE_ONLY: [&str; 13] = [
    "etc/.updated",
    "etc/apt/sources.list.d/debian.sources",
    "etc/fstab",
    "etc/systemd/system/default.target",
    "etc/systemd/system/sshd-keygen.service",
    "etc/systemd/system/systemd-firstboot.service",
    "usr/lib/clock-epoch",
    "usr/lib/os-release",
    "usr/local/bin/crictl",
    "usr/local/bin/ctr",
    "usr/local/bin/k3s",
    "usr/local/bin/kubectl",
    "var/.updated",
];
/// Trees of our files that are installed on a host; their other files are documentation.
const TREES: [&str; 4] = ["systemd", "packaging/card", "deploy/crds", "deploy/samples"];
const FOR_PEOPLE: [&str; 2] = ["systemd/README.md", "deploy/crds/released"];

fn checkout() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).canonicalize().unwrap()
}

/// Where a folder of the packages' tree is in the checkout, as packaging/build.sh links it; what is built is nowhere.
fn source(path: &str) -> Option<PathBuf> {
    if path.starts_with("programs/") || path.starts_with("completion/") {
        return None;
    }
    Some(checkout().join(if path.starts_with("card/") { "packaging" } else { "" }).join(path))
}

/// Paths that match a pattern with at most one `*`, in its last part.
fn matching(pattern: &Path) -> Vec<PathBuf> {
    let name = pattern.file_name().unwrap().to_str().unwrap();
    let Some((begin, end)) = name.split_once('*') else { return vec![pattern.to_owned()] };
    let entries = fs::read_dir(pattern.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let fits = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with(begin) && name.ends_with(end)
    };
    let found: Vec<_> = entries.filter(fits).collect();
    assert!(!found.is_empty(), "{} stands for nothing", pattern.display());
    found
}

/// Every file below, and its path when `from` is installed to `to`.
fn files(from: &Path, to: &Path) -> Vec<(PathBuf, PathBuf)> {
    if from.is_dir() {
        let entries = fs::read_dir(from).unwrap().map(Result::unwrap);
        return entries.flat_map(|entry| files(&entry.path(), &to.join(entry.file_name()))).collect();
    }
    assert!(from.is_file(), "{} is not there", from.display());
    vec![(from.to_owned(), to.to_owned())]
}

/// Each file of the packages and where it comes from; programs and completions from nowhere.
fn packaged() -> BTreeMap<PathBuf, PathBuf> {
    let mut all = BTreeMap::new();
    for list in matching(&checkout().join("packaging/debian/*.install")) {
        for line in fs::read_to_string(&list).unwrap().lines() {
            let (pattern, to) =
                line.split_once(' ').unwrap_or_else(|| panic!("{}: {line}: no place", list.display()));
            // debian/rules moves the units there.
            let to =
                to.strip_prefix("lib/").map_or_else(|| to.into(), |rest| Path::new("usr/lib").join(rest));
            let found = match source(pattern) {
                None => vec![(PathBuf::new(), to.join(Path::new(pattern).file_name().unwrap()))],
                Some(pattern) => matching(&pattern)
                    .iter()
                    .flat_map(|from| files(from, &to.join(from.file_name().unwrap())))
                    .collect(),
            };
            for (from, to) in found {
                let other = all.insert(to.clone(), from);
                assert_eq!(other, None, "{} is in two packages", to.display());
            }
        }
    }
    all
}

#[test]
fn the_image_adds_only_what_is_in_no_package() {
    let built =
        LayerInputs { k3s: Path::new("k3s"), os_release: "", version: "1", variant: None, sources: None };
    let added = layer(&checkout(), &built).unwrap();
    let paths: Vec<_> = added.keys().map(|path| path.to_str().unwrap()).collect();
    assert_eq!(paths, IMAGE_ONLY);
    let packaged = packaged();
    let both: Vec<_> = added.keys().filter(|path| packaged.contains_key(*path)).collect();
    assert!(both.is_empty(), "of a package, and replaced by the image: {both:?}");
}

#[test]
fn each_file_of_the_tree_is_in_a_package() {
    let packaged: BTreeSet<_> = packaged().into_values().collect();
    let for_people = FOR_PEOPLE.map(|path| checkout().join(path));
    for tree in TREES {
        for (file, _) in files(&checkout().join(tree), Path::new("")) {
            let is_kept_off = for_people.iter().any(|other| file.starts_with(other));
            assert_ne!(packaged.contains(&file), is_kept_off, "{}", file.display());
        }
    }
}

#[test]
fn what_the_card_recommends_is_on_the_image() {
    let control = fs::read_to_string(checkout().join("packaging/debian/control")).unwrap();
    let list = fs::read_to_string(checkout().join("image/packages")).unwrap();
    let on_image: BTreeSet<_> = packages::asked(&list).collect();
    let (_, card) = control.split_once("Package: config-weaver-card\n").unwrap();
    let recommends: Vec<_> = card.lines().filter_map(|line| line.strip_prefix("Recommends: ")).collect();
    assert_eq!(recommends, ["unattended-upgrades"]);
    assert!(recommends.iter().all(|name| on_image.contains(name)), "dpkg installs what is depended on");
}

#[test]
fn the_image_installs_each_package() {
    let control = fs::read_to_string(checkout().join("packaging/debian/control")).unwrap();
    let mut made: Vec<_> = control.lines().filter_map(|line| line.strip_prefix("Package: ")).collect();
    made.sort_unstable();
    assert_eq!(made, own_packages::NAMES);
}
