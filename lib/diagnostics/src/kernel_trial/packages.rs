//! Of which packages a newer kernel is made, of what dpkg and apt say.

use std::cmp::Ordering;

use crate::package_update::dpkg::InstalledPackage;
use crate::package_update::version::compare;

/// How the name of a package with a kernel begins.
const IMAGE: &str = "linux-image-";

/// A package as `apt-cache show` has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AptStanza {
    pub name: String,
    pub version: String,
    /// What it takes on the disk.
    pub kib: u64,
    /// The first choice of each dependency, by its name.
    pub depends: Vec<String>,
}

impl AptStanza {
    /// The package of the kernel that this one depends on.
    pub fn image(&self) -> Option<&str> {
        self.depends.iter().map(String::as_str).find(|name| release(name).is_some())
    }

    /// The other packages of that kernel that this one depends on: later Debians have its modules in one of their own.
    pub fn parts(&self, release: &str) -> impl Iterator<Item = &str> {
        let end = format!("-{release}");
        let depends = self.depends.iter().map(String::as_str);
        depends.filter(move |name| name.starts_with("linux-") && name.ends_with(&end))
    }
}

/// The first package of an answer of `apt-cache show`.
pub fn stanza(answer: &str) -> Option<AptStanza> {
    let lines = answer.lines().skip_while(|line| line.is_empty()).take_while(|line| !line.is_empty());
    let mut found = AptStanza::default();
    for (field, value) in lines.filter_map(|line| line.split_once(": ")) {
        match field {
            "Package" => value.clone_into(&mut found.name),
            "Version" => value.clone_into(&mut found.version),
            "Installed-Size" => found.kib = value.trim().parse().unwrap_or(0),
            "Depends" | "Pre-Depends" => found.depends.extend(value.split(',').filter_map(first_choice)),
            _ => {}
        }
    }
    (!found.name.is_empty() && !found.version.is_empty()).then_some(found)
}

/// `a:any (>= 1) | b` is `a`.
fn first_choice(dependency: &str) -> Option<String> {
    let name = dependency.split(['|', '(', ':', '[']).next()?.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

/// The release of the kernel in a package of this name, as `uname -r` has it; `None` for a package that only depends on
/// the newest one.
pub fn release(name: &str) -> Option<&str> {
    name.strip_prefix(IMAGE).filter(|release| release.starts_with(|c: char| c.is_ascii_digit()))
}

/// The package that depends on the newest kernel of the running one's kind, such as `linux-image-arm64` or
/// `linux-image-rpi-v8`.
pub fn follows<'a>(running: &str, installed: &'a [InstalledPackage]) -> Option<&'a str> {
    let kind =
        |name: &&str| name.strip_prefix(IMAGE).is_some_and(|kind| running.ends_with(&format!("-{kind}")));
    installed.iter().map(|package| package.name.as_str()).filter(kind).max_by_key(|name| name.len())
}

/// Why there is nothing to try of the kernel `release` in these packages, of which the first has this version.
pub fn nothing_newer(
    running: &str,
    (release, version): (&str, &str),
    packages: &[String],
    installed: &[InstalledPackage],
) -> Option<String> {
    let find = |name: &str| installed.iter().find(|package| package.name == name);
    if release == running {
        return Some(format!("kernel {running} is running, and apt has no newer one"));
    }
    if packages.iter().any(|name| find(name).is_some()) {
        return Some(format!("kernel {release} is installed already: the next start of this node takes it"));
    }
    let present = find(&format!("{IMAGE}{running}"))?;
    (compare(version, &present.version) != Ordering::Greater)
        .then(|| format!("apt has kernel {release}, which is not newer than {running}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As apt 3.0 of Debian 13 has it, shortened.
    const META: &str = "\
Package: linux-image-arm64
Source: linux-signed-arm64 (6.12.57+1)
Version: 6.12.57-1
Installed-Size: 13
Depends: linux-image-6.12.57+deb13-arm64 (= 6.12.57-1)
Description-en: Linux for 64-bit ARMv8 machines (meta-package)
 This package depends on the latest Linux kernel: of all kinds.

Package: linux-image-arm64
Version: 6.12.48-1
";

    fn installed(names: &[(&str, &str)]) -> Vec<InstalledPackage> {
        let package = |(name, version): &(&str, &str)| InstalledPackage {
            name: (*name).to_owned(),
            version: (*version).to_owned(),
            is_whole: true,
            kib: 0,
        };
        names.iter().map(package).collect()
    }

    #[test]
    fn the_kernel_of_a_package_that_follows_the_newest() {
        let meta = stanza(META).unwrap();
        assert_eq!(
            (meta.name.as_str(), meta.version.as_str(), meta.kib),
            ("linux-image-arm64", "6.12.57-1", 13)
        );
        assert_eq!(meta.image(), Some("linux-image-6.12.57+deb13-arm64"));
        assert_eq!(release(meta.image().unwrap()), Some("6.12.57+deb13-arm64"));
        for none in ["", "N: Unable to locate package x\n", "Package: x\n"] {
            assert_eq!(stanza(none), None, "{none}");
        }
    }

    #[test]
    fn parts_of_a_kernel_are_packages_of_its_release() {
        let text = "Package: linux-image-7.1-arm64\nVersion: 1:7.1-1\nPre-Depends: linux-base (>= 4.12~)\n\
                    Depends: linux-modules-7.1-arm64 (= 1:7.1-1), kmod, initramfs-tools (>= 0.1) | dracut, a:any\n";
        let image = stanza(text).unwrap();
        assert_eq!(image.depends, ["linux-base", "linux-modules-7.1-arm64", "kmod", "initramfs-tools", "a"]);
        assert_eq!(image.parts("7.1-arm64").collect::<Vec<_>>(), ["linux-modules-7.1-arm64"]);
    }

    #[test]
    fn the_package_of_the_running_kernels_kind() {
        let all = installed(&[
            ("linux-image-arm64", "1"),
            ("linux-image-rpi-v8", "1"),
            ("linux-image-rpi-2712", "1"),
            ("linux-image-v8", "1"),
            ("linux-image-6.12.48+deb13-arm64", "1"),
        ]);
        for (running, want) in [
            ("6.12.48+deb13-arm64", Some("linux-image-arm64")),
            ("6.12.47+rpt-rpi-v8", Some("linux-image-rpi-v8")),
            ("6.12.47+rpt-rpi-2712", Some("linux-image-rpi-2712")),
            ("6.12.47-v7l+", None),
            ("6.8.0-1030-raspi", None),
        ] {
            assert_eq!(follows(running, &all), want, "{running}");
        }
    }

    #[test]
    fn what_is_there_already_is_not_tried() {
        let all = installed(&[
            ("linux-image-6.12.48-arm64", "6.12.48-1"),
            ("linux-image-6.12.50-arm64", "6.12.50-1"),
        ]);
        for (release, version, want) in [
            ("6.12.48-arm64", "6.12.48-1", Some("kernel 6.12.48-arm64 is running, and apt has no newer one")),
            (
                "6.12.50-arm64",
                "6.12.50-1",
                Some("kernel 6.12.50-arm64 is installed already: the next start of this node takes it"),
            ),
            (
                "6.12.40-arm64",
                "6.12.40-1",
                Some("apt has kernel 6.12.40-arm64, which is not newer than 6.12.48-arm64"),
            ),
            ("6.12.57-arm64", "6.12.57-1", None),
        ] {
            let packages = [format!("linux-image-{release}")];
            let said = nothing_newer("6.12.48-arm64", (release, version), &packages, &all);
            assert_eq!(said.as_deref(), want, "{release}");
        }
    }
}
