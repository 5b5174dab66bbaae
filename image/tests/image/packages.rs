//! The image puts what the Debian packages hold (packaging/debian/*.install), and both take it from the same place: there is
//! no second list that could fall behind.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use weaver_image::build::layer::{Built, layer};
use weaver_image::build::merge::Node;

/// What only the image has: it says which image that is, what is on its disk, and where its packages come from.
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
/// What only the packages have: on the card the gate is in force, and the completion goes where no one types.
const PACKAGES_ONLY: [&str; 4] = [
    "usr/share/bash-completion/completions/weaver",
    "usr/share/fish/vendor_completions.d/weaver.fish",
    "usr/share/weaver/k3s.service.d/10-weaver.conf",
    "usr/share/zsh/vendor-completions/_weaver",
];

fn checkout() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Where a folder of the packages' tree is in the checkout, as packaging/build.sh links it; what is built is nowhere.
fn source(path: &str) -> Option<PathBuf> {
    if path.starts_with("programs/") || path.starts_with("completion/") {
        return None;
    }
    let in_checkout = if path.starts_with("card/") { format!("packaging/{path}") } else { path.to_owned() };
    Some(checkout().join(in_checkout))
}

/// Paths that a pattern with at most one `*`, in its last part, stands for.
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

fn install(from: &Path, to: &Path, files: &mut BTreeMap<String, PathBuf>) {
    if from.is_dir() {
        for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
            install(&entry.path(), &to.join(entry.file_name()), files);
        }
    } else {
        assert!(from.is_file(), "{} is not there", from.display());
        files.insert(to.to_str().unwrap().to_owned(), from.to_owned());
    }
}

/// Each file of the packages and where it comes from; programs and completions from nowhere.
fn packaged() -> BTreeMap<String, PathBuf> {
    let mut files = BTreeMap::new();
    for list in matching(&checkout().join("packaging/debian/*.install")) {
        for line in fs::read_to_string(&list).unwrap().lines() {
            let (pattern, to) =
                line.split_once(' ').unwrap_or_else(|| panic!("{}: {line}: no place", list.display()));
            // debian/rules moves the units there.
            let to = Path::new(&to.replacen(
                "lib/systemd/",
                "usr/lib/systemd/",
                usize::from(to.starts_with("lib/")),
            ))
            .to_owned();
            match source(pattern) {
                None => {
                    let path = to.join(Path::new(pattern).file_name().unwrap());
                    files.insert(path.to_str().unwrap().to_owned(), PathBuf::new());
                }
                Some(pattern) => {
                    for from in matching(&pattern) {
                        install(&from, &to.join(from.file_name().unwrap()), &mut files);
                    }
                }
            }
        }
    }
    files
}

#[test]
fn the_image_and_the_packages_hold_the_same_files_of_ours() {
    let programs = ["weaver", "weaver-node-agent", "weaver-operator"].map(PathBuf::from);
    let built = Built {
        programs: &programs,
        k3s: Path::new("k3s"),
        os_release: "",
        version: "1",
        variant: None,
        sources: None,
    };
    let mut image = BTreeMap::new();
    for (path, node) in layer(checkout(), &built).unwrap() {
        let path = path.to_str().unwrap().to_owned();
        // Whether the packages enable the same units is seen where they are installed: tests/devstack/packages.sh.
        if path.contains(".wants/") || IMAGE_ONLY.contains(&path.as_str()) {
            continue;
        }
        let Node::File(from, _) = node else { panic!("{path} is made by the image alone") };
        image.insert(path, if programs.contains(&from) { PathBuf::new() } else { from });
    }
    let mut packages = packaged();
    for path in PACKAGES_ONLY {
        assert!(packages.remove(path).is_some(), "{path} is in no package");
    }
    let missing = |one: &BTreeMap<String, PathBuf>, other: &BTreeMap<String, PathBuf>| -> Vec<String> {
        one.keys().filter(|path| !other.contains_key(*path)).cloned().collect()
    };
    assert_eq!(missing(&image, &packages), [""; 0], "on the image and in no package");
    assert_eq!(missing(&packages, &image), [""; 0], "in a package and not on the image");
    for (path, from) in &packages {
        let (from, of_image) = (from.canonicalize().ok(), image[path].canonicalize().ok());
        assert_eq!(from, of_image, "{path} comes from two places");
    }
}
