//! The files that are in no package, put on top of them: which image this is, what is on its disk, where its packages
//! come from, and k3s. Everything belongs to root. All else of ours is in our own packages (packaging/), whose scripts
//! enable their units.
//!
//! Nothing is enabled at the first boot, since nothing knows which boot that is (the machine-id is empty, not absent).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::tar_merge::{Layer, LayerEntry};

/// Units of Debian that must never run: the first waits for answers on the console, the second makes host keys only on
/// a boot that it considers the first.
const MASKED: [&str; 2] = ["systemd-firstboot.service", "sshd-keygen.service"];
/// Names that k3s answers to.
const K3S_NAMES: [&str; 3] = ["kubectl", "crictl", "ctr"];

/// What is built outside of the tree.
#[derive(Debug)]
pub struct LayerInputs<'a> {
    pub k3s: &'a Path,
    pub os_release: &'a str,
    pub version: &'a str,
    /// `VARIANT_ID` of an image that is no release, and what to call it.
    pub variant: Option<(&'a str, &'a str)>,
    /// apt's sources in addition to Debian's own, from which upgrades come.
    pub sources: Option<PathBuf>,
}

/// The layer.
///
/// # Errors
/// When the checkout cannot be read.
pub fn layer(source: &Path, built: &LayerInputs<'_>) -> Result<Layer> {
    let mut layer = Layer::new();
    copy_tree(&source.join("image/overlay"), Path::new(""), &mut layer)?;
    for unit in MASKED {
        layer.insert(Path::new("etc/systemd/system").join(unit), LayerEntry::Link("/dev/null".into()));
    }
    let local = Path::new("usr/local/bin");
    layer.insert(local.join("k3s"), LayerEntry::File(built.k3s.to_owned(), 0o755));
    for name in K3S_NAMES {
        layer.insert(local.join(name), LayerEntry::Link("k3s".into()));
    }
    let release = os_release(built);
    layer.insert("usr/lib/os-release".into(), LayerEntry::Bytes(release.into_bytes(), 0o644));
    if let Some((_, name)) = built.variant {
        let banner = format!("*** {name} ***\n");
        layer.insert("etc/issue.d/05-variant.issue".into(), LayerEntry::Bytes(banner.into_bytes(), 0o644));
    }
    if let Some(sources) = &built.sources {
        let name = sources.file_name().context("apt's sources have no name")?;
        let to = Path::new("etc/apt/sources.list.d").join(name);
        layer.insert(to, LayerEntry::File(sources.clone(), 0o644));
    }
    // systemd never starts below this file's time.
    layer.insert("usr/lib/clock-epoch".into(), LayerEntry::Bytes(Vec::new(), 0o644));
    // The time of the packages, so that the first boot does not rebuild caches that are right.
    for stamp in ["etc/.updated", "var/.updated"] {
        layer.insert(stamp.into(), LayerEntry::Bytes(Vec::new(), 0o644));
    }
    layer.insert(
        "etc/systemd/system/default.target".into(),
        LayerEntry::Link("/usr/lib/systemd/system/multi-user.target".into()),
    );
    Ok(layer)
}

fn os_release(built: &LayerInputs<'_>) -> String {
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

/// git stores of a mode only whether a file is a program, and none of these is.
fn copy_tree(from: &Path, to: &Path, layer: &mut Layer) -> Result<()> {
    for (name, path) in children(from)? {
        let to = to.join(name);
        if path.is_dir() {
            copy_tree(&path, &to, layer)?;
        } else {
            layer.insert(to, LayerEntry::File(path, 0o644));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_image_says_so_in_os_release() {
        let built = LayerInputs {
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
}
