//! What is put on top of Debian: our programs, k3s, units, configuration. Everything is root's.
//!
//! The tree of the repository decides: `image/overlay/` and `packaging/card/` are copied as they are, `systemd/` to where systemd looks,
//! and a unit that the preset enables gets the links that `systemctl enable` would make; nothing is enabled at
//! the first boot, since nothing knows which boot that is (the machine-id is empty, not absent). Failure: a unit
//! that the preset does not name, or names and is not there.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::merge::{Layer, Node};

/// Units of Debian that must never run: the first waits for answers on the console, the second makes host keys
/// only on what it takes for a first boot.
const MASKED: [&str; 2] = ["systemd-firstboot.service", "sshd-keygen.service"];
/// Names that k3s answers to.
const K3S_NAMES: [&str; 3] = ["kubectl", "crictl", "ctr"];

/// What is built outside of the tree.
#[derive(Debug)]
pub struct Built<'a> {
    pub programs: &'a [PathBuf],
    pub k3s: &'a Path,
    pub os_release: &'a str,
    pub version: &'a str,
    /// `VARIANT_ID` of an image that is no release, and what to call it.
    pub variant: Option<(&'a str, &'a str)>,
    /// apt's sources besides Debian's own, from which upgrades come.
    pub sources: Option<PathBuf>,
}

/// The layer.
///
/// # Errors
/// See the module.
pub fn layer(source: &Path, built: &Built<'_>) -> Result<Layer> {
    let mut layer = Layer::new();
    for tree in ["image/overlay", "packaging/card"] {
        copy_tree(&source.join(tree), Path::new(""), &mut layer)?;
    }
    systemd(&source.join("systemd"), &mut layer)?;
    for crds in ["deploy/crds", "deploy/samples"] {
        let to = Path::new("usr/share/weaver").join(Path::new(crds).file_name().unwrap_or_default());
        for (name, file) in children(&source.join(crds))? {
            if file.is_file() {
                layer.insert(to.join(name), Node::File(file, 0o644));
            }
        }
    }
    for program in built.programs {
        let name = program.file_name().context("a program has no name")?;
        layer.insert(Path::new("usr/bin").join(name), Node::File(program.clone(), 0o755));
    }
    let local = Path::new("usr/local/bin");
    layer.insert(local.join("k3s"), Node::File(built.k3s.to_owned(), 0o755));
    for name in K3S_NAMES {
        layer.insert(local.join(name), Node::Link("k3s".into()));
    }
    let release = os_release(built);
    layer.insert("usr/lib/os-release".into(), Node::Bytes(release.into_bytes(), 0o644));
    if let Some((_, name)) = built.variant {
        let banner = format!("*** {name} ***\n");
        layer.insert("etc/issue.d/05-variant.issue".into(), Node::Bytes(banner.into_bytes(), 0o644));
    }
    if let Some(sources) = &built.sources {
        let name = sources.file_name().context("apt's sources have no name")?;
        let to = Path::new("etc/apt/sources.list.d").join(name);
        layer.insert(to, Node::File(sources.clone(), 0o644));
    }
    // systemd never starts below this file's time.
    layer.insert("usr/lib/clock-epoch".into(), Node::Bytes(Vec::new(), 0o644));
    // As of the packages, so that the first boot does not rebuild caches that are right.
    for stamp in ["etc/.updated", "var/.updated"] {
        layer.insert(stamp.into(), Node::Bytes(Vec::new(), 0o644));
    }
    layer.insert(
        "etc/systemd/system/default.target".into(),
        Node::Link("/usr/lib/systemd/system/multi-user.target".into()),
    );
    Ok(layer)
}

fn os_release(built: &Built<'_>) -> String {
    let debians = built.os_release.lines().filter(|line| !line.starts_with("VARIANT")).map(str::to_owned);
    let image = ["IMAGE_ID=config-weaver".to_owned(), format!("IMAGE_VERSION={}", built.version)];
    let variant = built.variant.map(|(id, name)| [format!("VARIANT=\"{name}\""), format!("VARIANT_ID={id}")]);
    let lines = debians.chain(image).chain(variant.into_iter().flatten());
    lines.flat_map(|line| [line, "\n".to_owned()]).collect()
}

/// Names and paths in a directory, in order.
fn children(directory: &Path) -> Result<BTreeMap<PathBuf, PathBuf>> {
    let read = || -> std::io::Result<_> {
        fs::read_dir(directory)?.map(|entry| entry.map(|e| (e.file_name().into(), e.path()))).collect()
    };
    read().with_context(|| format!("cannot read {}", directory.display()))
}

fn copy_tree(from: &Path, to: &Path, layer: &mut Layer) -> Result<()> {
    for (name, path) in children(from)? {
        let to = to.join(name);
        let kind = fs::symlink_metadata(&path)?;
        if kind.is_dir() {
            copy_tree(&path, &to, layer)?;
        } else if kind.is_symlink() {
            layer.insert(to, Node::Link(fs::read_link(&path)?));
        } else {
            let mode = mode(&to, kind.permissions().mode());
            layer.insert(to, Node::File(path, mode));
        }
    }
    Ok(())
}

/// git keeps no more of a mode than whether a file is a program.
fn mode(path: &Path, on_disk: u32) -> u32 {
    match path {
        _ if path.starts_with("etc/sudoers.d") => 0o440,
        // netplan warns about any other: a Wi-Fi password may be in such a file.
        _ if path.starts_with("etc/netplan") => 0o600,
        _ if on_disk & 0o100 != 0 => 0o755,
        _ => 0o644,
    }
}

fn systemd(from: &Path, layer: &mut Layer) -> Result<()> {
    let mut units = BTreeMap::new();
    let mut preset = String::new();
    for (name, path) in children(from)? {
        let text = name.to_string_lossy();
        if path.is_file() {
            if name.extension().is_some_and(|extension| extension == "md") {
                continue;
            }
            let unit =
                fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            units.insert(text.clone().into_owned(), unit);
            layer.insert(Path::new("usr/lib/systemd/system").join(&name), Node::File(path, 0o644));
            continue;
        }
        let to = match &*text {
            "sysusers.d" | "tmpfiles.d" => Path::new("usr/lib").join(&name),
            "system-preset" => {
                for file in children(&path)?.values() {
                    preset += &fs::read_to_string(file)?;
                }
                Path::new("usr/lib/systemd").join(&name)
            }
            other if other.ends_with(".conf.d") => Path::new("usr/lib/systemd").join(&name),
            _ if name.extension().is_some_and(|extension| extension == "d") => {
                Path::new("usr/lib/systemd/system").join(&name)
            }
            other => bail!("systemd/{other} is none of the directories that systemd knows"),
        };
        copy_tree(&path, &to, layer)?;
    }
    for (path, target) in enabled(&units, &preset)? {
        layer.insert(path, Node::Link(target));
    }
    for unit in MASKED {
        layer.insert(Path::new("etc/systemd/system").join(unit), Node::Link("/dev/null".into()));
    }
    Ok(())
}

/// The links of the units that the preset enables.
fn enabled(units: &BTreeMap<String, String>, preset: &str) -> Result<Vec<(PathBuf, PathBuf)>> {
    let named: BTreeMap<&str, bool> = preset
        .lines()
        .filter_map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["enable", unit] => Some((unit, true)),
            ["disable", unit] => Some((unit, false)),
            _ => None,
        })
        .collect();
    let mut links = Vec::new();
    for (name, text) in units {
        let wanted_by: Vec<_> = install(text, "WantedBy").collect();
        if wanted_by.is_empty() {
            continue;
        }
        let Some(enable) = named.get(name.as_str()) else {
            bail!("systemd/{name} can be enabled, and no preset says whether it is");
        };
        for target in wanted_by.iter().filter(|_| *enable) {
            let link = PathBuf::from(format!("etc/systemd/system/{target}.wants/{name}"));
            links.push((link, Path::new("/usr/lib/systemd/system").join(name)));
        }
    }
    for unit in named.keys() {
        let ours = units.get(*unit).is_some_and(|text| install(text, "WantedBy").next().is_some());
        ensure!(ours, "the preset names {unit}, which is not there or has no [Install]");
    }
    Ok(links)
}

/// Values of a key of `[Install]`.
fn install<'a>(unit: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    unit.lines()
        .skip_while(|line| line.trim() != "[Install]")
        .skip(1)
        .take_while(|line| !line.trim_start().starts_with('['))
        .filter_map(move |line| line.trim().strip_prefix(key)?.trim_start().strip_prefix('='))
        .flat_map(str::split_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(list: &[(&str, &str)]) -> BTreeMap<String, String> {
        list.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn an_enabled_unit_gets_its_links_and_a_disabled_one_none() {
        let units = units(&[
            ("a.service", "[Unit]\nWantedBy=no\n[Install]\nWantedBy=multi-user.target x.target\n"),
            ("b.service", "[Service]\n[Install]\nWantedBy=multi-user.target\n"),
            ("c.service", "[Service]\n"),
        ]);
        let links = enabled(&units, "# c\nenable a.service\ndisable b.service\n").unwrap();
        let shown: Vec<_> =
            links.iter().map(|(path, to)| format!("{} {}", path.display(), to.display())).collect();
        assert_eq!(
            shown,
            [
                "etc/systemd/system/multi-user.target.wants/a.service /usr/lib/systemd/system/a.service",
                "etc/systemd/system/x.target.wants/a.service /usr/lib/systemd/system/a.service",
            ]
        );
    }

    #[test]
    fn units_and_preset_must_agree() {
        let one = units(&[("a.service", "[Install]\nWantedBy=x.target\n")]);
        assert!(enabled(&one, "").unwrap_err().to_string().contains("no preset"));
        let none = units(&[("weaver-a.service", "[Service]\n")]);
        assert!(enabled(&none, "enable weaver-a.service").unwrap_err().to_string().contains("no [Install]"));
    }

    #[test]
    fn a_test_image_says_so_in_os_release() {
        let built = Built {
            programs: &[],
            k3s: Path::new("k3s"),
            os_release: "NAME=Debian\nVARIANT=x\n",
            version: "1.2.3",
            variant: Some(("test", "Test image, no k3s")),
            sources: None,
        };
        let text = os_release(&built);
        assert_eq!(
            text,
            "NAME=Debian\nIMAGE_ID=config-weaver\nIMAGE_VERSION=1.2.3\nVARIANT=\"Test image, no k3s\"\nVARIANT_ID=test\n"
        );
    }

    #[test]
    fn modes_are_not_left_to_git() {
        assert_eq!(mode(Path::new("etc/sudoers.d/x"), 0o644), 0o440);
        assert_eq!(mode(Path::new("usr/lib/x"), 0o775), 0o755);
        assert_eq!(mode(Path::new("usr/lib/x"), 0o600), 0o644);
    }
}
