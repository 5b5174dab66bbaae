//! The host whose packages are replaced: what ran before, and whether it does again.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use weaver_diagnostics::finding_text::cut;
use weaver_diagnostics::k3s_upgrade::proof::{WantedNode, missing as k3s_missing};
use weaver_diagnostics::package_update::definitions::StoredDefinition;
use weaver_diagnostics::package_update::plan::{PackageVersion, UpgradeRefusal};
use weaver_diagnostics::package_update::proof::{self, AGENT, OPERATOR, SeenPackages, UNITS};
use weaver_diagnostics::package_update::record::UpdateRecord;
use weaver_diagnostics::package_update::scheduled_reboot;

use super::args::UpdateArgs;
use super::programs::ProgramSource;
use crate::backup;
use crate::boot_config::settings_file::is_mounted;
use crate::facts::storage::space;
use crate::host_args::RUNTIME_DIR;
use crate::host_root::HostRoot;
use crate::node_lock::NodeLock;
use crate::systemctl::Systemctl;
use crate::upgrade::node::{K3sNode, holds};

const DEFINITIONS: &str = "usr/share/weaver/crds";
const SYSTEMD: &str = "/run/systemd/system";
/// What only the card has.
const CARD: &str = "config-weaver-card";

#[derive(Debug, Clone)]
pub struct UpdateHost {
    pub root: HostRoot,
    pub state_dir: PathBuf,
    /// The same as the host knows it.
    state_as_known: PathBuf,
    boot_dir: PathBuf,
    pub programs: ProgramSource,
    pub systemctl: Systemctl,
    /// Its k3s; `None` where it has none.
    node: Option<K3sNode>,
    pub wait: Duration,
    settle: Duration,
}

#[derive(Debug, Clone, Default)]
pub struct BeforeUpdate {
    pub units: Vec<String>,
    /// The names that k3s served; `None` where it was not well.
    pub names: Option<Vec<String>>,
}

impl UpdateHost {
    pub fn of(args: &UpdateArgs) -> Self {
        let root = HostRoot::new(args.node.host.root.clone());
        Self {
            state_dir: root.real(&args.node.state_dir),
            state_as_known: args.node.state_dir.clone(),
            boot_dir: args.node.host.boot_dir.clone(),
            programs: ProgramSource::of(args.programs.clone(), &root),
            systemctl: Systemctl::new(args.node.systemctl.clone()),
            // It fails where no program k3s is.
            node: K3sNode::of(&args.node).ok(),
            wait: Duration::from_secs(args.node.wait),
            settle: Duration::from_secs(args.node.settle),
            root,
        }
    }

    /// Saves the state of k3s, in which a newer operator may store what the present one cannot read; the message,
    /// where there is a k3s.
    ///
    /// # Errors
    /// It cannot be saved.
    pub async fn back_up(&self, held: &NodeLock) -> anyhow::Result<Option<String>> {
        let Some(K3sNode { host, program, .. }) = &self.node else { return Ok(None) };
        backup::before_upgrade(held, host, &self.state_as_known, &program.installed).await.map(Some)
    }

    /// The reason against an update that a scheduled reboot would cut off.
    pub fn goes_down(&self) -> Option<UpgradeRefusal> {
        let scheduled = self.root.read_if_possible(scheduled_reboot::SCHEDULED)?;
        scheduled_reboot::refusal(&scheduled.text, Timestamp::now().as_second())
    }

    /// The reasons against any update.
    ///
    /// # Errors
    /// dpkg does not say what is installed.
    pub async fn refusals(&self) -> anyhow::Result<Vec<UpgradeRefusal>> {
        let is_card = self.programs.installed().await?.iter().any(|package| package.name == CARD);
        let boot = self.boot_dir.display();
        let absent = match is_mounted(&self.root, &self.boot_dir) {
            Ok(Some(false)) => Some(format!("{boot} is not mounted, and a package may write there")),
            Err(why) => Some(format!("whether {boot} is mounted is not known: {why}")),
            Ok(_) => None,
        };
        let absent = absent.filter(|_| is_card);
        let absent = absent.map(|what| UpgradeRefusal::new(what, format!("sudo mount {boot}")));
        Ok(absent.into_iter().chain(self.goes_down()).collect())
    }

    /// KiB that are free for packages.
    pub fn free(&self) -> Option<u64> {
        // The state directory may not be there yet.
        let there = self.state_dir.ancestors().find(|directory| directory.is_dir())?;
        Some(space(there)?.1 / 1024)
    }

    /// What runs now.
    ///
    /// # Errors
    /// systemd is there and does not say.
    pub async fn before(&self) -> anyhow::Result<BeforeUpdate> {
        if !self.root.exists(SYSTEMD) {
            return Ok(BeforeUpdate::default());
        }
        let mut before = BeforeUpdate::default();
        for unit in UNITS {
            let state = self.systemctl.state(unit).await.context("what runs now is not known")?;
            if state.active == "active" {
                before.units.push(unit.to_owned());
            }
        }
        if let Some(node) = &self.node
            && let Some(unit) = node.unit().await?.filter(|unit| unit.active)
        {
            let seen = node.look(unit.role, node.patience).await;
            let wanted = WantedNode { role: unit.role, version: None, names: Vec::new() };
            before.names = k3s_missing(&wanted, &seen).is_empty().then_some(seen.names);
        }
        Ok(before)
    }

    /// Starts the agent again, which writes its report again.
    ///
    /// # Errors
    /// systemd refuses.
    pub async fn restart_agent(&self, record: &UpdateRecord) -> anyhow::Result<()> {
        if !record.units.iter().any(|unit| unit == AGENT) {
            return Ok(());
        }
        self.systemctl.stop(AGENT).await?;
        // The earlier one would prove nothing.
        let _ = fs::remove_file(self.report());
        Ok(self.systemctl.start(AGENT).await?)
    }

    /// Waits until these packages are there and all runs that ran before: these units, and k3s with these names.
    ///
    /// # Errors
    /// What is missing when the time is over.
    pub async fn prove(
        &self,
        packages: &[PackageVersion],
        ran: &[String],
        names: Option<&[String]>,
    ) -> anyhow::Result<()> {
        holds(self.wait, self.settle, async || {
            let installed = self.programs.installed().await.unwrap_or_default();
            let mut units = Vec::new();
            for unit in ran {
                let state = self.systemctl.state(unit).await;
                let state = state.map_or_else(|error| cut(&error.to_string(), 200), |state| state.active);
                units.push((unit.clone(), state));
            }
            let has_agent = ran.iter().any(|unit| unit == AGENT);
            let reported = has_agent.then(|| self.report().exists());
            let mut missing = proof::missing(packages, &SeenPackages { installed, units, reported });
            missing.extend(self.k3s_missing(names).await);
            missing
        })
        .await?;
        match &self.node {
            // Only with an operator and an API server that both ran before.
            Some(node) if names.is_some() && ran.iter().any(|unit| unit == OPERATOR) => {
                node.prove_copy().await
            }
            _ => Ok(()),
        }
    }

    async fn k3s_missing(&self, names: Option<&[String]>) -> Vec<String> {
        let (Some(node), Some(names)) = (&self.node, names) else { return Vec::new() };
        let Ok(Some(unit)) = node.unit().await else { return vec!["k3s is not running".to_owned()] };
        let wanted = WantedNode { role: unit.role, version: None, names: names.to_vec() };
        k3s_missing(&wanted, &node.look(unit.role, Duration::ZERO).await)
    }

    /// The definitions of the installed release.
    pub fn definitions(&self) -> Vec<StoredDefinition> {
        definitions(&self.root, DEFINITIONS)
    }

    /// The definitions of the release in these files.
    ///
    /// # Errors
    /// One of them is no package.
    pub async fn definitions_in(
        &self,
        files: &[PathBuf],
        into: PathBuf,
    ) -> anyhow::Result<Vec<StoredDefinition>> {
        for file in files {
            self.programs.unpack(file, DEFINITIONS, &into).await?;
        }
        Ok(definitions(&HostRoot::new(into), DEFINITIONS))
    }

    fn report(&self) -> PathBuf {
        self.root.real(RUNTIME_DIR).join("report.json")
    }
}

fn definitions(root: &HostRoot, directory: &str) -> Vec<StoredDefinition> {
    let names = root.list(directory).unwrap_or_default();
    let texts = names.iter().filter_map(|name| root.read_if_possible(PathBuf::from(directory).join(name)));
    texts.filter_map(|file| StoredDefinition::of(&file.text)).collect()
}
