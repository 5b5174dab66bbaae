//! `restore`: a backup onto a card, which keeps what it had.
//!
//! Guarantees: nothing is changed before the whole backup has been read, checked and written next to the old files; the
//! moves are recorded before they are made, so that a restore that is interrupted is completed by the next boot or the
//! next run; the old files are kept under another name. Failure: the error says whether anything was changed.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use weaver_diagnostics::exit_code;
use weaver_diagnostics::k3s_upgrade::Role;
use weaver_diagnostics::k3s_upgrade::plan::UpgradeRefusal;
use weaver_diagnostics::k3s_upgrade::proof::WantedNode;
use weaver_diagnostics::node_backup::manifest::{BackupManifest, BackupRoot, printed};
use weaver_diagnostics::node_backup::record::{PathReturn, PathSwap, RestorePhase, RestoreRecord};
use weaver_diagnostics::node_backup::restore::{RestoreTarget, refusals};

use super::args::RestoreArgs;
use super::common::{Refused, refused};
use super::journal::{note, pending};
use super::members::{self, BackupLayout};
use super::seal::DecryptionArgs;
use super::staged::{Laid, contents};
use super::swap;
use weaver_host::durable_file::{flush_directory_of, if_there};

use crate::facts::mounts::Mounts;
use crate::facts::storage::{existing, space};
use crate::k3s_version::version_of;
use crate::node_lock::NodeLock;
use crate::systemctl::Systemctl;
use crate::upgrade::carry_out::Stop;
use crate::upgrade::journal::Recorded as _;
use crate::upgrade::{K3sNode, say};

/// They write to what is replaced, or use it.
const UNITS: [&str; 3] = ["weaver-operator.service", "weaver-node-agent.service", K3S];
const K3S: &str = "k3s.service";

/// Runs `restore`; returns the exit code of the process.
///
/// # Errors
/// It could not be begun, or not be completed; the error says which.
pub async fn run(args: RestoreArgs) -> anyhow::Result<u8> {
    let restore = RestoreRun::of(&args)?;
    let _lock = NodeLock::take(&restore.state_dir, RestoreRecord::WHAT)?;
    let pending = pending(&restore.state_dir)?;
    let record = match (pending, args.file) {
        (Some(record), file) => {
            let what = format!("the restore of {}'s backup of {} was interrupted", record.node, record.made);
            if file.is_some() {
                let remedy = "`sudo weaver node restore --resume` first".to_owned();
                return refused(
                    Refused(vec![UpgradeRefusal::new(what, remedy)]).into(),
                    "Nothing was changed.",
                );
            }
            if args.node.dry_run {
                say(&format!("{what}: would complete it\nNothing was changed."));
                return Ok(exit_code::FINE);
            }
            say(&format!("{what}: completing it"));
            record
        }
        (None, None) => {
            say("No restore was interrupted: nothing had to be done.");
            restore.say_if_stopped().await;
            return Ok(exit_code::FINE);
        }
        (None, Some(file)) => match restore.lay(file, args.keys, args.take_name, args.node.dry_run).await {
            Ok(Some(record)) => record,
            Ok(None) => return Ok(exit_code::FINE),
            Err(error) => return refused(error, "Nothing was changed."),
        },
    };
    restore.swap_in(record).await
}

struct RestoreRun {
    node: K3sNode,
    systemctl: Systemctl,
    layout: BackupLayout,
    /// The real path, below the root directory.
    state_dir: PathBuf,
}

impl RestoreRun {
    fn of(args: &RestoreArgs) -> anyhow::Result<Self> {
        let node = K3sNode::of(&args.node)?;
        let layout = BackupLayout::of(&node.host, &args.node.state_dir);
        let state_dir = node.host.root.real(&args.node.state_dir);
        Ok(Self { systemctl: Systemctl::new(args.node.systemctl.clone()), node, layout, state_dir })
    }

    /// Reads and checks the backup, and writes it next to the old files; `None` after a dry run.
    async fn lay(
        &self,
        file: PathBuf,
        keys: DecryptionArgs,
        takes_name: bool,
        dry_run: bool,
    ) -> anyhow::Result<Option<RestoreRecord>> {
        let (reading, by) = (file.clone(), keys.clone());
        let read = tokio::task::spawn_blocking(move || contents(&reading, &by));
        let (manifest, parts) = read.await.context("cannot read the backup")??;
        let card = self.card(takes_name, &file).await;
        let refusals = refusals(&card, &manifest);
        if !refusals.is_empty() {
            bail!(Refused(refusals));
        }
        let laid = Laid { layout: self.layout.clone(), root: self.node.host.root.clone() };
        let mut record = laid.record(&manifest, &parts);
        for line in manifest.left_out.lines().into_iter().chain(manifest.left_out.verdict()) {
            say(&line);
        }
        if dry_run {
            let volumes = self.layout.directory(BackupRoot::Volumes);
            say(&would(&manifest, &record, |kept| laid.root.exists(kept), &volumes));
            return Ok(None);
        }
        let staged = tokio::task::spawn_blocking(move || {
            let done = laid.stage(&file, &keys, &record);
            if done.is_err() {
                laid.discard(&record);
            }
            done.map(|()| record)
        });
        record = staged.await.context("unpacking the backup")??;
        Ok(Some(record))
    }

    async fn card(&self, takes_name: bool, file: &Path) -> RestoreTarget {
        let host = &self.node.host;
        let root = &host.root;
        let data = root.real(&self.layout.data_dir);
        let existing = existing(&data).unwrap_or(Path::new("/"));
        let free = space(existing).map(|(_, free)| free);
        let may_not_write =
            nix::unistd::access(existing, nix::unistd::AccessFlags::W_OK).err().map(|error| UpgradeRefusal {
                what: format!("{} cannot be written ({})", existing.display(), error.desc()),
                remedy: "put `sudo` in front".to_owned(),
            });
        RestoreTarget {
            may_not_write,
            role: host.role(),
            node: host.node_name(),
            takes_name,
            installed: version_of(&self.node.program.installed).await,
            data_dir: self.layout.data_dir.display().to_string(),
            not_movable: self.not_movable(),
            other_datastore: members::other_datastore(host, &self.layout),
            needed: fs::metadata(file).map_or(0, |metadata| metadata.len()),
            free,
        }
    }

    /// What cannot be renamed of what a backup replaces.
    fn not_movable(&self) -> Vec<String> {
        let root = &self.node.host.root;
        let mounts = Mounts::read(root).unwrap_or_default();
        let why = |path: PathBuf| {
            if root.real(&path).is_symlink() {
                return Some(format!("{} is a link", path.display()));
            }
            let mounted = mounts.within(&path).next()?;
            Some(format!("a file system is mounted at {}", mounted.display()))
        };
        let parts =
            [BackupRoot::Server, BackupRoot::Volumes, BackupRoot::Configuration, BackupRoot::NodePassword];
        parts.into_iter().filter_map(|part| why(self.layout.directory(part))).collect()
    }

    /// Stops what uses the state, replaces it by the restored one, and proves that. A signal ends it until it is
    /// recorded, and k3s is started again; from then on it is finished.
    async fn swap_in(&self, mut record: RestoreRecord) -> anyhow::Result<u8> {
        let root = &self.node.host.root;
        let is_begun = pending(&self.state_dir)?.is_some();
        if !is_begun {
            self.remove_kept(&record).context("nothing else was changed")?;
        }
        let mut stop = Stop::listen()?;
        say("Stopping k3s, the node agent and the operator (pods keep running)");
        let stopped = self.stop(&mut stop, is_begun).await;
        if let Err(error) = stopped.and_then(|()| note(&self.state_dir, &mut record, RestorePhase::Swap)) {
            if is_begun {
                // k3s would write to a state of which a part is restored.
                return Err(error).context(
                    "some files are already restored, and k3s must not start before all are: when the units stop, \
                     `sudo weaver node restore --resume` completes the restore",
                );
            }
            self.start().await;
            return Err(error).context("the state of this node is as it was");
        }
        let swapped = swap::all(root, &record, &mut || Ok(()));
        swapped.context(
            "some files are already restored and k3s is stopped: `sudo weaver node restore --resume` completes the restore",
        )?;
        note(&self.state_dir, &mut record, RestorePhase::Done)?;
        say(&format!("{}'s state of {} is in its place; what was there is kept:", record.node, record.made));
        for kept in record.swaps.iter().map(|swap| &swap.kept).filter(|kept| root.exists(kept)) {
            say(&format!("  {kept}"));
        }
        for volume in &record.returns {
            say(&stays(volume));
        }
        let volumes = self.layout.directory(BackupRoot::Volumes);
        if let Some(text) = still_used(&record, &volumes, |swap| root.exists(&swap.kept)) {
            say(&text);
        }
        self.start().await;
        say(&format!("Starting k3s, and verifying it for up to {} s", self.node.wait.as_secs()));
        let wanted = WantedNode { role: Role::Server, version: None, names: Vec::new() };
        let unproven = tokio::select! {
            proven = self.node.prove(&wanted) => proven.err().map(|error| {
                format!(
                    "k3s did not become ready on the restored state: {error:#}\nIts log says why:\n  sudo weaver explain --journal k3s"
                )
            }),
            why = stop.asked() => Some(format!(
                "k3s starts on the restored state and was not verified: {why}\nThis shows whether it is ready:\n  sudo weaver doctor"
            )),
        };
        if let Some(why) = unproven {
            say(&why);
            return Ok(exit_code::KNOWN_BAD);
        }
        say(
            "k3s.service is active, its API server ready. Reboot once, so that weaver.toml is applied as a whole.",
        );
        Ok(exit_code::FINE)
    }

    /// Stops what uses the state; a signal ends that, unless files are replaced already.
    async fn stop(&self, stop: &mut Stop, is_begun: bool) -> anyhow::Result<()> {
        for unit in UNITS {
            tokio::select! {
                stopped = self.systemctl.stop(unit) => {
                    stopped.with_context(|| format!("{unit} must not run while the state of k3s is replaced"))?;
                }
                why = stop.asked(), if !is_begun => return Err(why),
            }
        }
        Ok(())
    }

    /// Frees the names of the kept files. That may take long, and k3s runs meanwhile.
    fn remove_kept(&self, record: &RestoreRecord) -> anyhow::Result<()> {
        for swap in &record.swaps {
            // The kept files of an earlier restore are replaced by the present ones.
            let kept = self.node.host.root.real(&swap.kept);
            // On the disk before the record, which may be on another: a power cut would bring back what is older.
            swap::remove(&kept)
                .and_then(|()| if_there(flush_directory_of(&kept)))
                .with_context(|| format!("cannot remove {}", swap.kept))?;
        }
        Ok(())
    }

    /// Says how k3s is started, where it is stopped: as an earlier version left it that was ended in the middle.
    async fn say_if_stopped(&self) {
        if let Ok(state) = self.systemctl.state(K3S).await
            && !state.may_run()
        {
            say(&format!(
                "k3s is not running ({K3S} is {}). This starts it:\n  sudo systemctl start {K3S} weaver-node-agent.service",
                state.active
            ));
        }
    }

    async fn start(&self) {
        for unit in UNITS.into_iter().skip(1).rev() {
            if let Err(error) = self.systemctl.start(unit).await {
                say(&format!("{unit} was not started: {error}"));
            }
        }
    }
}

/// What pods do that keep running: each has its volume by the directory that it had at its start, whatever its name.
fn still_used(record: &RestoreRecord, volumes: &Path, had_any: impl Fn(&PathSwap) -> bool) -> Option<String> {
    let swap = record.swaps.iter().find(|swap| Path::new(&swap.target) == volumes)?;
    if !had_any(swap) {
        return None;
    }
    Some(format!(
        "Pods that keep running use the old volumes, in {}, until a reboot, and what they write there is not in the \
         restored ones: reboot at once",
        swap.kept
    ))
}

fn stays(volume: &PathReturn) -> String {
    format!("{} stays as it is, since the backup does not have it", volume.target)
}

fn would(
    manifest: &BackupManifest,
    record: &RestoreRecord,
    is_there: impl Fn(&str) -> bool,
    volumes: &Path,
) -> String {
    let BackupManifest { revision, .. } = manifest;
    let (node, made) = (printed(&manifest.node), printed(&manifest.made));
    let mut text = format!(
        "would stop k3s, the node agent and the operator\nwould put {node}'s state of {made} (revision {revision}) in the place of"
    );
    for swap in &record.swaps {
        text = text + "\n  " + &swap.target + ", kept as " + &swap.kept;
        if is_there(&swap.kept) {
            text += ", which an earlier restore kept and is removed";
        }
    }
    for volume in &record.returns {
        text = text + "\n" + &stays(volume);
    }
    text += "\nwould start k3s and the node agent, and prove that the API server is ready";
    if let Some(line) = still_used(record, volumes, |swap| is_there(&swap.target)) {
        text = text + "\n" + &line;
    }
    text + "\nNothing was changed."
}

#[cfg(test)]
mod tests;
