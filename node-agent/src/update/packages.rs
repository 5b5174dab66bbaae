//! The files of packages: the new ones, and the old ones for a rollback.
//!
//! The old ones are repacked from what is installed, and not taken from apt's cache or the source: neither must have
//! them (a package that was installed from a file was never in the cache, and a source may keep its newest only), and a
//! repacked package is what ran here. Guarantees: a set is whole or not there.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, lchown, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use weaver_diagnostics::package_update::dpkg::{self, Conffile};
use weaver_diagnostics::package_update::plan::PackageVersion;
use weaver_host::durable_file::{FlushError, flush, found, if_there};

use super::programs::ProgramSource;
use crate::host_root::HostRoot;

const DIRECTORY: &str = "packages";
/// What maintainer scripts are called.
const SCRIPTS: [&str; 5] = ["preinst", "postinst", "prerm", "postrm", "config"];

#[derive(Debug, Clone)]
pub struct Packages {
    directory: PathBuf,
}

impl Packages {
    pub fn below(state_dir: &Path) -> Self {
        Self { directory: state_dir.join(DIRECTORY) }
    }

    /// What the last update that succeeded replaced.
    fn old(&self) -> PathBuf {
        self.directory.join("old")
    }

    /// The packages that the update under way replaces.
    fn replaced(&self) -> PathBuf {
        self.directory.join("replaced")
    }

    /// The packages of the rollback.
    pub fn back(&self) -> PathBuf {
        if self.replaced().is_dir() { self.replaced() } else { self.old() }
    }

    /// The packages to install.
    pub fn new_ones(&self) -> PathBuf {
        self.directory.join("new")
    }

    /// Where definitions are unpacked to be read.
    pub fn unpacked(&self) -> PathBuf {
        self.directory.join("unpacked")
    }

    /// What the hooks of a kernel see in the place of the boot partition.
    pub fn instead_of_boot(&self) -> PathBuf {
        self.directory.join("boot")
    }

    /// What an earlier update kept, by the names of the files.
    pub fn kept(&self) -> Vec<PackageVersion> {
        files(&self.old()).iter().filter_map(|file| named(file)).collect()
    }

    /// A directory that is empty and root's alone.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn empty(&self, directory: &Path) -> anyhow::Result<()> {
        let what = || format!("cannot make {}", directory.display());
        remove(directory).with_context(what)?;
        fs::create_dir_all(directory).with_context(what)?;
        fs::set_permissions(&self.directory, Permissions::from_mode(0o700)).with_context(what)
    }

    /// Copies these kept packages to where the next installation takes its files from.
    ///
    /// # Errors
    /// One cannot be copied.
    pub fn take_old(&self, packages: &[PackageVersion]) -> anyhow::Result<()> {
        for file in files(&self.old()) {
            let name = file.file_name().unwrap_or_default();
            if !named(&file).is_some_and(|package| packages.contains(&package)) {
                continue;
            }
            fs::copy(&file, self.new_ones().join(name))
                .with_context(|| format!("cannot copy {}", file.display()))?;
        }
        Ok(())
    }

    /// Whether the files to install are these packages, and no others.
    pub fn are_fetched(&self, packages: &[PackageVersion]) -> bool {
        let there: BTreeSet<_> = files(&self.new_ones()).iter().filter_map(|file| named(file)).collect();
        there == packages.iter().cloned().collect()
    }

    /// Writes the files to install to the disk: the next record relies on them.
    ///
    /// # Errors
    /// One cannot be written.
    pub fn flush_new_ones(&self) -> anyhow::Result<()> {
        flush_all(&self.new_ones())?;
        Ok(flush(&self.directory)?)
    }

    /// Repacks the installed packages; those that were kept before stay until the update has succeeded.
    ///
    /// # Errors
    /// One of them cannot be made.
    pub async fn keep(
        &self,
        programs: &ProgramSource,
        root: &HostRoot,
        packages: &[PackageVersion],
    ) -> anyhow::Result<()> {
        let (next, tree) = (self.directory.join("next"), self.directory.join("tree"));
        self.empty(&next)?;
        for PackageVersion { name, version } in packages {
            let what = || format!("cannot keep {name} {version}, which is installed");
            self.empty(&tree)?;
            lay_out(programs, root, name, &tree).await.with_context(what)?;
            // The same content in a second: the owner waits, and there is only one kept set.
            let words = ["--build", "-Zgzip", "-z1", path(&tree)?, path(&next)?];
            programs.answer("dpkg-deb", words).await.with_context(what)?;
        }
        remove(&tree)?;
        flush_all(&next)?;
        remove(&self.replaced())?;
        fs::rename(&next, self.replaced()).context("cannot keep the packages that are installed")?;
        Ok(flush(&self.directory)?)
    }

    /// The replaced packages become the kept ones of an earlier update. Called again after an interruption, it ends in
    /// the same state.
    ///
    /// # Errors
    /// They are kept, and not in that directory.
    pub fn keep_replaced(&self) -> anyhow::Result<()> {
        if self.replaced().is_dir() {
            remove(&self.old())?;
            fs::rename(self.replaced(), self.old()).context("cannot keep the packages that were replaced")?;
        }
        Ok(flush(&self.directory)?)
    }

    /// Removes what only an update under way needs.
    pub fn tidy(&self) {
        // What remains is removed before the next update.
        let all = [self.new_ones(), self.unpacked(), self.replaced(), self.instead_of_boot()];
        let _ = all.map(|directory| remove(&directory));
    }
}

/// The package that a file is named after.
fn named(file: &Path) -> Option<PackageVersion> {
    let (name, rest) = file.file_name()?.to_str()?.split_once('_')?;
    // apt writes the colon of an epoch so.
    let version = rest.rsplit_once('_')?.0.replace("%3a", ":");
    Some(PackageVersion { name: name.to_owned(), version })
}

/// The package files in a directory.
pub fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|end| end == "deb")).collect();
    files.sort();
    files
}

/// The tree that `dpkg-deb --build` makes a package of: control files and files as they are here.
async fn lay_out(programs: &ProgramSource, root: &HostRoot, name: &str, tree: &Path) -> anyhow::Result<()> {
    fs::set_permissions(tree, Permissions::from_mode(0o755))?;
    let (conffiles, others) = conffiles(programs, root, name).await?;
    let listed = programs.answer("dpkg-query", ["--listfiles", name]).await?;
    for path in dpkg::files(&listed).into_iter().filter(|path| !others.iter().any(|other| other == path)) {
        // On the card dpkg leaves out manuals.
        copy(&root.real(path), &tree.join(path.trim_start_matches('/')))
            .with_context(|| format!("cannot copy {path}"))?;
    }
    let control = tree.join("DEBIAN");
    fs::create_dir(&control)?;
    fs::set_permissions(&control, Permissions::from_mode(0o755))?;
    let status = programs.answer("dpkg-query", ["--status", name]).await?;
    fs::write(control.join("control"), dpkg::control_file(&status))?;
    // dpkg does not keep the list of conffiles as a file.
    if !conffiles.is_empty() {
        fs::write(control.join("conffiles"), conffiles.join("\n") + "\n")?;
    }
    for part in programs.answer("dpkg-query", ["--control-list", name]).await?.lines() {
        let content = programs.answer("dpkg-query", ["--control-show", name, part]).await?;
        let mode = if SCRIPTS.contains(&part) { 0o755 } else { 0o644 };
        let file = control.join(part);
        fs::write(&file, content)?;
        fs::set_permissions(file, Permissions::from_mode(mode))?;
    }
    ensure!(control.join("control").metadata()?.len() > 0, "dpkg does not know it");
    Ok(())
}

/// The conffiles that are as they came, and the others: what the owner edited or removed is not for a package
/// to bring back.
async fn conffiles(
    programs: &ProgramSource,
    root: &HostRoot,
    name: &str,
) -> anyhow::Result<(Vec<String>, Vec<String>)> {
    let format = format!("--showformat={}", dpkg::CONFFILES);
    let answer = programs.answer("dpkg-query", ["--show", &format, name]).await?;
    let (mut as_they_came, mut others) = (Vec::new(), Vec::new());
    for Conffile { path, md5 } in dpkg::conffiles(&answer) {
        let real = root.real(&path);
        let is_file = fs::symlink_metadata(&real).is_ok_and(|metadata| metadata.is_file());
        let is_as_it_came = match md5.filter(|_| is_file) {
            // It begins with a backslash where it escapes the name.
            Some(md5) => {
                let sum = programs.answer("md5sum", [real]).await?;
                sum.trim_start_matches('\\').starts_with(&md5)
            }
            None => false,
        };
        if is_as_it_came { as_they_came.push(path) } else { others.push(path) }
    }
    Ok((as_they_came, others))
}

/// With owner and mode; what is not there is left out.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let Some(metadata) = found(fs::symlink_metadata(from))? else { return Ok(()) };
    if metadata.is_symlink() {
        symlink(fs::read_link(from)?, to)?;
    } else if metadata.is_dir() {
        fs::create_dir(to)?;
    } else {
        fs::copy(from, to)?;
    }
    lchown(to, Some(metadata.uid()), Some(metadata.gid()))?;
    if metadata.is_symlink() { Ok(()) } else { fs::set_permissions(to, metadata.permissions()) }
}

fn path(path: &Path) -> anyhow::Result<&str> {
    path.to_str().context("the path of the state directory is not UTF-8")
}

fn remove(directory: &Path) -> io::Result<()> {
    if_there(fs::remove_dir_all(directory))
}

/// Writes the package files in a directory to the disk.
fn flush_all(directory: &Path) -> Result<(), FlushError> {
    files(directory).iter().try_for_each(|file| flush(file))?;
    flush(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_after_its_package_and_a_version_with_an_epoch() {
        for (file, name, version) in [
            ("weaver_0.2.0~rc1_arm64.deb", "weaver", "0.2.0~rc1"),
            ("linux-image-rpi-v8_1%3a6.12.47-1+rpt1_arm64.deb", "linux-image-rpi-v8", "1:6.12.47-1+rpt1"),
        ] {
            let want = PackageVersion { name: name.to_owned(), version: version.to_owned() };
            assert_eq!(named(Path::new(file)), Some(want));
        }
        assert_eq!(named(Path::new("weaver.deb")), None);
    }
}
