//! apt and dpkg, called so that they neither prompt nor replace what the owner changed.
//!
//! Failure: their message, with the cause and what to do. None of them is ended once it has begun to install: half an
//! installation is worse than a slow one.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use tokio::process::Command;
use tokio::time::{Instant, sleep};
use weaver_diagnostics::finding_text::cut;
use weaver_diagnostics::package_update::apt::{AptPackage, also_installed, policy};
use weaver_diagnostics::package_update::dpkg::{self, InstalledPackage};
use weaver_diagnostics::package_update::plan::{PackageVersion, UpgradeRefusal};
use weaver_diagnostics::package_update::{PACKAGES, apt_error};
use weaver_diagnostics::weaver_toml::plan::UPDATE_SOURCE;

use crate::host_root::HostRoot;
use crate::upgrade::say::say;

/// How long another program may install packages before the rollback is abandoned: unattended-upgrades takes minutes.
const LOCKED: Duration = Duration::from_mins(30);
const POLL: Duration = Duration::from_secs(2);
/// Options of every call: no prompts, files that the owner changed stay, no package is removed.
const APT: [&str; 16] = [
    "-q",
    "-y",
    "--no-install-recommends",
    "--no-remove",
    "--allow-downgrades",
    "-o",
    "Dpkg::Options::=--force-confdef",
    "-o",
    "Dpkg::Options::=--force-confold",
    "-o",
    "Dpkg::Use-Pty=0",
    "-o",
    "DPkg::Lock::Timeout=60",
    // The directory of the packages is root's alone.
    "-o",
    "APT::Sandbox::User=root",
    "-o=APT::Get::AutomaticRemove=false",
];

/// Where an installation was cut off, a dependency is broken, and apt refuses files that would mend it without the
/// option.
const INSTALL: [&str; 2] = ["install", "--fix-broken"];

/// In a namespace of its own: mounts `$1` at `$2`, and becomes the rest.
const APART: &str = r#"mount --bind "$1" "$2" && shift 2 && exec "$@""#;

#[derive(Debug, Clone)]
pub struct ProgramSource {
    directory: Option<PathBuf>,
    /// Whether the card's source is there: then only that one is asked for updates.
    has_own_source: bool,
    addresses: Vec<String>,
}

impl ProgramSource {
    /// Those in `directory`, else in the PATH.
    pub fn of(directory: Option<PathBuf>, root: &HostRoot) -> Self {
        let source = root.read_if_possible(UPDATE_SOURCE);
        let addresses = source.map_or_else(Vec::new, |source| apt_error::addresses(&source.text));
        Self { directory, has_own_source: root.exists(UPDATE_SOURCE), addresses }
    }

    /// The same with all of apt's sources, as for what is not ours.
    #[must_use]
    pub fn with_all_sources(&self) -> Self {
        Self { has_own_source: false, ..self.clone() }
    }

    /// Has apt read its sources.
    ///
    /// # Errors
    /// What prevents that, in apt's words and ours.
    pub async fn refresh(&self) -> anyhow::Result<Result<(), UpgradeRefusal>> {
        let mut words = vec!["update", "-q", "-o", "APT::Update::Error-Mode=any"];
        if self.has_own_source {
            words.push("-o=APT::Get::List-Cleanup=0");
        }
        let own = self.own_source();
        Ok(self.judged(&self.run("apt-get", words.into_iter().chain(own.iter().map(String::as_str))).await?))
    }

    /// Our packages that are there.
    ///
    /// # Errors
    /// dpkg does not say.
    pub async fn installed(&self) -> anyhow::Result<Vec<InstalledPackage>> {
        self.matching(&PACKAGES).await
    }

    /// The packages that are there of these names, which may be patterns.
    ///
    /// # Errors
    /// dpkg does not say.
    pub async fn matching(&self, names: &[&str]) -> anyhow::Result<Vec<InstalledPackage>> {
        // Fails where one is not installed, and lists the others all the same.
        let format = format!("--showformat={}", dpkg::FORMAT);
        let words = ["--show", format.as_str()].into_iter().chain(names.iter().copied());
        let output = self.run("dpkg-query", words).await?;
        ensure!(
            matches!(output.status.code(), Some(0 | 1)),
            "dpkg-query cannot say what is installed ({}): {}",
            output.status,
            cut(String::from_utf8_lossy(&output.stderr).trim(), 300)
        );
        Ok(dpkg::installed(&String::from_utf8_lossy(&output.stdout)))
    }

    /// What apt knows of our packages, without others of the same names.
    ///
    /// # Errors
    /// apt does not say.
    pub async fn known(&self) -> anyhow::Result<Vec<AptPackage>> {
        let own = self.own_source();
        let words = ["policy"].into_iter().chain(own.iter().map(String::as_str)).chain(PACKAGES);
        Ok(policy(&self.answer("apt-cache", words).await?))
    }

    /// This machine's architecture, in Debian's word.
    ///
    /// # Errors
    /// dpkg does not say.
    pub async fn architecture(&self) -> anyhow::Result<String> {
        Ok(self.answer("dpkg", ["--print-architecture"]).await?.trim().to_owned())
    }

    /// Fetches these packages into a directory; apt compares their hashes with the signed list.
    ///
    /// # Errors
    /// As [`Self::refresh`].
    pub async fn download(
        &self,
        packages: &[PackageVersion],
        into: &Path,
    ) -> anyhow::Result<Result<(), UpgradeRefusal>> {
        let packages = packages.iter().map(|PackageVersion { name, version }| format!("{name}={version}"));
        let mut command = self.command("apt-get");
        command.current_dir(into).args(["download", "-q", "-o", "APT::Sandbox::User=root"]);
        command.args(self.own_source()).args(packages);
        Ok(self.judged(&output(command).await?))
    }

    /// Whether apt would install these files, and what else it would install.
    ///
    /// # Errors
    /// As [`Self::refresh`].
    pub async fn simulate(&self, files: &[PathBuf]) -> anyhow::Result<Result<Vec<String>, UpgradeRefusal>> {
        self.simulated(&["install"], files).await
    }

    /// The same where an installation was cut off: with what is missing since then.
    ///
    /// # Errors
    /// As [`Self::refresh`].
    pub async fn simulate_again(
        &self,
        files: &[PathBuf],
    ) -> anyhow::Result<Result<Vec<String>, UpgradeRefusal>> {
        self.simulated(&INSTALL, files).await
    }

    async fn simulated(
        &self,
        how: &[&str],
        files: &[PathBuf],
    ) -> anyhow::Result<Result<Vec<String>, UpgradeRefusal>> {
        let how = [how, &["--simulate"]].concat();
        let output = self.run("apt-get", words(&how, &APT, files)).await?;
        Ok(self.judged(&output).map(|()| also_installed(&String::from_utf8_lossy(&output.stdout))))
    }

    /// Installs these files, and what they depend on.
    ///
    /// # Errors
    /// As [`Self::refresh`]; what is installed then, dpkg says.
    pub async fn install(&self, files: &[PathBuf]) -> anyhow::Result<Result<(), UpgradeRefusal>> {
        Ok(self.judged(&self.run("apt-get", words(&INSTALL, &APT, files)).await?))
    }

    /// The same, finishing first what was interrupted, with another directory in the place of the boot partition: the
    /// hooks of a kernel write the files of a start there, and not one of them whole.
    ///
    /// # Errors
    /// As [`Self::install`].
    pub async fn install_apart(
        &self,
        files: &[PathBuf],
        instead: &Path,
        boot: &Path,
    ) -> anyhow::Result<Result<(), UpgradeRefusal>> {
        let configure = words(&["--force-confdef", "--force-confold"], &["--configure", "-a"], &[]);
        self.apart(instead, boot, "dpkg", configure).await?;
        Ok(self.judged(&self.apart(instead, boot, "apt-get", words(&INSTALL, &APT, files)).await?))
    }

    async fn apart(
        &self,
        instead: &Path,
        boot: &Path,
        program: &str,
        words: Vec<OsString>,
    ) -> anyhow::Result<Output> {
        let first = ["--mount", "sh", "-c", APART, "sh"].map(OsString::from);
        let paths = [instead, boot, &self.program(program)].map(|path| path.as_os_str().to_owned());
        self.run("unshare", first.into_iter().chain(paths).chain(words)).await
    }

    /// Finishes what was interrupted, as well as it can be.
    ///
    /// # Errors
    /// dpkg cannot be run.
    pub async fn configure(&self) -> anyhow::Result<()> {
        self.unlocked(&words(&["--force-confdef", "--force-confold"], &["--configure", "-a"], &[]))
            .await
            .map(drop)
    }

    /// Installs these files whatever is there, without apt, its lists and a network.
    ///
    /// # Errors
    /// As [`Self::refresh`].
    pub async fn put_back(&self, files: &[PathBuf]) -> anyhow::Result<Result<(), UpgradeRefusal>> {
        let how = ["--force-confdef", "--force-confold", "--force-downgrade"];
        Ok(self.judged(&self.unlocked(&words(&how, &["--install"], files)).await?))
    }

    /// Runs dpkg, and again while another program has its lock, for at most `LOCKED`.
    async fn unlocked(&self, words: &[OsString]) -> anyhow::Result<Output> {
        let until = Instant::now() + LOCKED;
        let mut has_said = false;
        loop {
            let output = self.run("dpkg", words).await?;
            let is_locked = String::from_utf8_lossy(&output.stderr).contains("lock was locked");
            if !is_locked || Instant::now() >= until {
                return Ok(output);
            }
            if !has_said {
                has_said = true;
                say(&format!(
                    "Another program installs packages now; waiting up to {} min until it has finished. This shows it:\n  \
                     ps -e | grep -E 'apt|dpkg|unattended'",
                    LOCKED.as_secs() / 60
                ));
            }
            sleep(POLL).await;
        }
    }

    /// What a program answers.
    ///
    /// # Errors
    /// It fails, or is not there.
    pub async fn answer<S: AsRef<OsStr>>(
        &self,
        program: &str,
        words: impl IntoIterator<Item = S>,
    ) -> anyhow::Result<String> {
        let output = self.run(program, words).await?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("{program} fails ({}): {}", output.status, cut(said.trim(), 300));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The directory of definitions in a package's file, unpacked below `into`.
    ///
    /// # Errors
    /// It is no package.
    pub async fn unpack(&self, package: &Path, directory: &str, into: &Path) -> anyhow::Result<()> {
        let mut tar = self.command("dpkg-deb");
        tar.arg("--fsys-tarfile").arg(package).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut tar = tar.spawn().context("cannot run dpkg-deb")?;
        let files: Stdio = tar.stdout.take().context("dpkg-deb gives nothing")?.try_into()?;
        let mut unpack = self.command("tar");
        unpack.args(["--extract", "--no-same-owner", "--directory"]).arg(into).arg(format!("./{directory}"));
        let unpacked = unpack.stdin(files).output().await.context("cannot run tar")?;
        let given = tar.wait().await.context("waiting for dpkg-deb")?;
        // A package without them has nothing to unpack.
        let has_none = String::from_utf8_lossy(&unpacked.stderr).contains("Not found in archive");
        if (given.success() && unpacked.status.success()) || has_none {
            return Ok(());
        }
        Err(anyhow!("{} cannot be unpacked", package.display()))
    }

    /// Makes apt read only the card's source. Not for an installation: dependencies come from Debian.
    fn own_source(&self) -> Vec<String> {
        let list = format!("-o=Dir::Etc::sourcelist={UPDATE_SOURCE}");
        if self.has_own_source { vec![list, "-o=Dir::Etc::sourceparts=-".to_owned()] } else { Vec::new() }
    }

    /// What apt fails with is on either of its outputs.
    fn judged(&self, output: &Output) -> Result<(), UpgradeRefusal> {
        if output.status.success() {
            return Ok(());
        }
        let words = [&output.stderr, &output.stdout].map(|said| String::from_utf8_lossy(said).into_owned());
        Err(apt_error::explained(&words.join("\n"), &self.addresses))
    }

    async fn run<S: AsRef<OsStr>>(
        &self,
        program: &str,
        words: impl IntoIterator<Item = S>,
    ) -> anyhow::Result<Output> {
        let mut command = self.command(program);
        command.args(words);
        output(command).await
    }

    fn program(&self, program: &str) -> PathBuf {
        self.directory.as_ref().map_or(program.into(), |dir| dir.join(program))
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.program(program));
        command
            .env("LC_ALL", "C.UTF-8")
            // glibc before 2.39 prefers it to C.UTF-8, and the output is parsed.
            .env_remove("LANGUAGE")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .env("APT_LISTCHANGES_FRONTEND", "none")
            // It would restart services of others in the middle.
            .env("NEEDRESTART_SUSPEND", "1")
            .stdin(Stdio::null())
            // Ctrl-C stops the wait, and not the work.
            .process_group(0);
        command
    }
}

/// Says what else apt installs.
pub(super) fn announce(also: &[String]) {
    if !also.is_empty() {
        say(&format!("apt also installs: {}", also.join(", ")));
    }
}

/// Options first, then the files.
fn words(first: &[&str], then: &[&str], files: &[PathBuf]) -> Vec<OsString> {
    let words = first.iter().chain(then).map(OsString::from);
    words.chain(files.iter().map(|file| file.clone().into_os_string())).collect()
}

async fn output(mut command: Command) -> anyhow::Result<Output> {
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    let what = || format!("cannot run {program}: this is for hosts with apt and dpkg");
    command.output().await.with_context(what)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A dpkg whose lock is taken by another program for that many calls.
    fn locked_for(calls: u32) -> (tempfile::TempDir, ProgramSource) {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("dpkg");
        let text = format!(
            "#!/bin/sh\necho >>{0}.calls\n[ \"$(wc -l <{0}.calls)\" -gt {calls} ] && exit 0\n\
             echo 'dpkg: error: dpkg frontend lock was locked by another process with pid 7' >&2\nexit 2\n",
            program.display()
        );
        let script = dir.path().join("script");
        fs::write(&script, text).unwrap();
        // By another process: otherwise a process that is started meanwhile could have it open for writing.
        let installed = std::process::Command::new("install").arg("-m755").args([&script, &program]).status();
        assert!(installed.unwrap().success());
        let programs = ProgramSource::of(Some(dir.path().to_owned()), &HostRoot::new(dir.path().to_owned()));
        (dir, programs)
    }

    /// The clock is one that advances as soon as there is nothing else to do.
    #[tokio::test(start_paused = true)]
    async fn the_way_back_waits_for_half_an_hour() {
        let begun = Instant::now();
        let (_dir, programs) = locked_for(100);
        assert_eq!(programs.put_back(&[]).await.unwrap(), Ok(()));
        assert_eq!(begun.elapsed().as_secs(), 200);
        let begun = Instant::now();
        let (_dir, programs) = locked_for(100);
        programs.configure().await.unwrap();
        assert_eq!(begun.elapsed().as_secs(), 200, "as what finishes an update does");
        let begun = Instant::now();
        let (_dir, programs) = locked_for(u32::MAX);
        let refusal = programs.put_back(&[]).await.unwrap().unwrap_err();
        assert!(refusal.what.starts_with("another program is installing packages"), "{refusal}");
        assert_eq!(begun.elapsed().as_secs() / 60, 30);
    }
}
