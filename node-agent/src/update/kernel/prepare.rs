//! What a trial needs before the restart: a newer kernel, fetched, unpacked, and in place on the boot partition.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use weaver_diagnostics::config_txt::FILE;
use weaver_diagnostics::kernel_trial::packages::{follows, nothing_newer, release};
use weaver_diagnostics::kernel_trial::record::{KernelTrial, TrialPhase};
use weaver_diagnostics::kernel_trial::refusals::{SeenBoot, also, boot_space, refusals, root_space};
use weaver_diagnostics::kernel_trial::trial_files::{
    KernelNames, TRYBOOT, TrialFile, TrialSource, files as trial_files, names, takes_directory,
    trial_cmdline, trial_text,
};
use weaver_diagnostics::package_update::plan::{PackageVersion, UpgradeRefusal};
use weaver_host::durable_file::if_there;

use super::boot::KernelFiles;
use super::trial::KernelUpdate;
use crate::boot_files;
use crate::facts::storage::space;
use crate::update::packages::files;
use crate::upgrade::say::say;

/// Where modules are, by their release.
pub(super) const MODULES: &str = "/lib/modules";
/// Room for device trees and overlays, in bytes.
const TREES: u64 = 4 << 20;

/// The newest kernel of the running one's kind.
pub(super) enum NewestKernel {
    Newer(NewerKernel),
    /// Why there is nothing to try.
    Nothing(String),
}

pub(super) struct NewerKernel {
    /// As `uname -r` will have it.
    pub(super) release: String,
    /// The one that follows the newest kernel, the kernel, and its parts.
    pub(super) packages: Vec<PackageVersion>,
    /// What they take on the disk.
    kib: u64,
}

impl KernelUpdate<'_> {
    /// The reasons against a trial on this host.
    pub(super) fn refusals(&self) -> anyhow::Result<Vec<UpgradeRefusal>> {
        let host = &self.update.host;
        let (seen, model) = (boot_files::read(&host.root), host.root.device_model());
        let (config, tryboot) = (self.boot.text(FILE)?.unwrap_or_default(), self.boot.text(TRYBOOT)?);
        let mut all = refusals(&SeenBoot {
            model: model.as_deref(),
            next: &seen.next,
            read_only_at: seen.read_only_at.as_deref(),
            config: &config,
            has_autoboot: self.boot.path("autoboot.txt").exists(),
            tryboot: tryboot.as_deref(),
        });
        all.extend(host.goes_down());
        Ok(all)
    }

    /// What apt would install.
    pub(super) async fn newest(&self, running: &str) -> anyhow::Result<Result<NewestKernel, UpgradeRefusal>> {
        let installed = self.programs.kernels().await?;
        let Some(follower) = follows(running, &installed) else {
            let what = format!("no package is installed that follows the newest kernel like {running}");
            let remedy = "sudo apt-get install linux-image-arm64; on Raspberry Pi OS linux-image-rpi-v8, or \
                          linux-image-rpi-2712 where that is running";
            return Ok(Err(UpgradeRefusal::new(what, remedy)));
        };
        if let Err(refusal) = self.programs.refresh().await? {
            return Ok(Err(refusal));
        }
        let follower = self.programs.candidate(follower).await?;
        let image = follower.image().with_context(|| format!("{} depends on no kernel", follower.name))?;
        let release = release(image).context("the name of that kernel has no release")?;
        let (mut open, mut kib, mut kernel) = (vec![image.to_owned()], 0, Vec::<PackageVersion>::new());
        while let Some(name) = open.pop() {
            let found = self.programs.candidate(&name).await?;
            kib += found.kib;
            for part in found.parts(release) {
                let is_known = part == name || kernel.iter().any(|known| known.name == part);
                if !is_known && !open.iter().any(|known| known == part) {
                    open.push(part.to_owned());
                }
            }
            kernel.push(PackageVersion { name: found.name, version: found.version });
        }
        let named: Vec<_> = kernel.iter().map(|package| package.name.clone()).collect();
        let version = kernel.first().map_or("", |image| image.version.as_str());
        if let Some(said) = nothing_newer(running, (release, version), &named, &installed) {
            return Ok(Ok(NewestKernel::Nothing(said)));
        }
        let release = release.to_owned();
        let first = PackageVersion { name: follower.name, version: follower.version };
        let packages = [vec![first], kernel].concat();
        Ok(Ok(NewestKernel::Newer(NewerKernel { release, packages, kib })))
    }

    /// The reasons against this kernel: what the configuration has no names for, or the disks no room.
    pub(super) fn refusals_of(
        &self,
        running: &str,
        kernel: &NewerKernel,
    ) -> anyhow::Result<Vec<UpgradeRefusal>> {
        let host = &self.update.host;
        let mut all: Vec<_> = host.free().and_then(|free| root_space(free, kernel.kib)).into_iter().collect();
        let (names, _) = match self.configuration(running, &kernel.release)? {
            Ok(configuration) => configuration,
            Err(refusal) => return Ok([all, vec![refusal]].concat()),
        };
        // The new ones are about as large as those of now, which have the same names but for the release.
        let now = |name: &String| fs::metadata(self.boot.path(&name.replace(&kernel.release, running)));
        let sizes = [Some(names.kernel), names.initramfs].into_iter().flatten();
        let large: u64 = sizes.map(|name| now(&name).map_or(0, |about| about.len())).sum();
        all.extend(self.boot_free().and_then(|free| boot_space(free, large + TREES, large)));
        Ok(all)
    }

    fn boot_free(&self) -> Option<u64> {
        Some(space(self.boot.path(FILE).parent()?)?.1)
    }

    /// The configuration of the trial, and the names that it has for the kernel.
    fn configuration(
        &self,
        from: &str,
        to: &str,
    ) -> anyhow::Result<Result<(KernelNames, String), UpgradeRefusal>> {
        let trial = trial_text(&self.boot.text(FILE)?.unwrap_or_default(), from, to);
        // Each regular start takes it, too, before the kernel is installed.
        let read = |is_tryboot| {
            let config = self.boot.config(TRYBOOT, &trial, is_tryboot);
            takes_directory(&config).and_then(|()| names(&config, to))
        };
        let both = read(true).and_then(|names| read(false).map(|regular| (regular == names, names)));
        Ok(match both {
            Ok((true, names)) => Ok((names, trial)),
            Ok((false, _)) => {
                let what = "a start on trial reads other names than a regular one";
                Err(UpgradeRefusal::new(what, "sudo nano /boot/firmware/config.txt"))
            }
            Err(refusal) => Err(refusal),
        })
    }

    /// Puts all of a trial in place.
    pub(super) async fn prepare(
        &self,
        record: &mut KernelTrial,
        kernel: &NewerKernel,
    ) -> anyhow::Result<Result<(), UpgradeRefusal>> {
        if let Err(refusal) = self.fetch(&kernel.packages).await? {
            return Ok(Err(refusal));
        }
        say(&format!("Preparing kernel {}, which takes minutes", kernel.release));
        let unpacked = self.update.packages.unpacked();
        for file in files(&self.update.packages.new_ones()) {
            self.programs.extract(&file, &unpacked).await?;
        }
        self.note(record, TrialPhase::Staged)?;
        self.place_modules(&unpacked, &kernel.release)?;
        let initramfs = unpacked.join("initramfs");
        self.programs.make_initramfs(&kernel.release, &initramfs).await?;
        self.stage(record, &unpacked, initramfs)
    }

    /// Fetches the packages; apt compares their hashes with its signed lists.
    pub(super) async fn fetch(
        &self,
        wanted: &[PackageVersion],
    ) -> anyhow::Result<Result<(), UpgradeRefusal>> {
        let packages = &self.update.packages;
        packages.empty(&packages.new_ones())?;
        packages.empty(&packages.unpacked())?;
        if let Err(refusal) = self.programs.download(wanted, &packages.new_ones()).await? {
            return Ok(Err(refusal));
        }
        packages.flush_new_ones()?;
        let fetched = files(&packages.new_ones());
        ensure!(fetched.len() == wanted.len(), "{} packages were fetched of {}", fetched.len(), wanted.len());
        Ok(match self.programs.simulate(&fetched).await? {
            Ok(others) => also(&others).map_or(Ok(()), Err),
            Err(refusal) => Err(refusal),
        })
    }

    /// Moves the modules to where their kernel finds them.
    fn place_modules(&self, unpacked: &Path, release: &str) -> anyhow::Result<()> {
        let mut places =
            ["usr/lib/modules", "lib/modules"].map(|place| unpacked.join(place).join(release)).into_iter();
        let from = places.find(|place| place.is_dir()).context("the package of the kernel has no modules")?;
        let to = self.update.host.root.real(MODULES).join(release);
        // Of no package: the kernel is not installed.
        if_there(fs::remove_dir_all(&to)).with_context(|| format!("cannot remove {}", to.display()))?;
        fs::rename(&from, &to).with_context(|| {
            format!("cannot move {} to {}: both must be on one disk", from.display(), to.display())
        })
    }

    /// Writes the boot partition.
    fn stage(
        &self,
        record: &KernelTrial,
        unpacked: &Path,
        initramfs: PathBuf,
    ) -> anyhow::Result<Result<(), UpgradeRefusal>> {
        let (names, trial) = match self.configuration(&record.from, &record.to)? {
            Ok(configuration) => configuration,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let trees = unpacked.join("usr/lib").join(format!("linux-image-{}", record.to));
        // On 64 bits the trees are in the directory of their vendor.
        let vendor = trees.join("broadcom");
        let from = KernelFiles {
            kernel: unpacked.join("boot").join(format!("vmlinuz-{}", record.to)),
            initramfs,
            overlays: trees.join("overlays"),
            trees: if vendor.is_dir() { vendor } else { trees },
        };
        let files = match trial_files(&names, &from.names(), &self.boot.present()?) {
            Ok(files) => files,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let path = &names.cmdline;
        let cmdline = self.boot.text(path)?.with_context(|| format!("{path} is gone"))?;
        if let Some(refusal) = self.room_for(&files, &from)? {
            return Ok(Err(refusal));
        }
        self.boot.stage(&files, &from, (path, &trial_cmdline(&cmdline)), &trial, &|| Ok(()))?;
        Ok(Ok(()))
    }

    /// With what they are now: the kernel and its initramfs may get names of their own afterwards.
    fn room_for(&self, files: &[TrialFile], from: &KernelFiles) -> anyhow::Result<Option<UpgradeRefusal>> {
        let (mut all, mut renamed) = (0, 0);
        for file in files {
            let source = self.boot.source(file, from);
            let about = fs::metadata(&source).with_context(|| format!("cannot read {}", source.display()))?;
            all += about.len();
            if matches!(file.from, TrialSource::Kernel | TrialSource::Initramfs) {
                renamed += about.len();
            }
        }
        Ok(self.boot_free().and_then(|free| boot_space(free, all, renamed)))
    }
}
