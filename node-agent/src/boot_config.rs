//! `boot-config`: configures the host as `weaver.toml` asks, early in the boot.
//!
//! Needs no network and no daemon. Guarantees: a file with a fault, or one that cannot be read, changes nothing; each
//! file of the host is replaced whole, and only where it differs, so that a start that changes nothing writes nothing;
//! what Imager or the owner appended to `cmdline.txt` outlives the next kernel; the token and the Wi-Fi's password are
//! removed from `weaver.toml` only after they are on the disk, and copies that fsck saved after a power cut are
//! removed.
//!
//! Failure: whatever is wrong with `weaver.toml` is a warning in the report and exit code 0, for it must not stop a
//! boot. What could not be written is a warning too, the rest is written all the same, and the exit code is 1.

mod args;
mod cmdline;
mod host_facts;
mod host_files;
mod images;
mod manifests;
mod report_file;
mod root_grown;
pub(crate) mod settings_file;
mod stray_copies;

use std::{
    path::Path,
    process::{Command, Stdio},
};

use weaver_diagnostics::{
    exit_code,
    finding::Finding,
    node_backup::record::RestoreRecord,
    weaver_toml::{
        self, Config, RoleSetting, ValidConfig,
        images::CardImages,
        owners_netplan,
        plan::{self, File, KnownHost, Plan},
        registries::{self, RegistriesFile},
        verdict,
    },
};

pub use args::BootConfigArgs;
pub use args::STATE_DIR;
pub use report_file::read_report;
pub use root_grown::MARK as ROOT_GROWN;

use crate::{
    backup, data_disk,
    facts::{mounts::Mounts, storage},
    host_args,
    host_root::HostRoot,
    report,
};
use host_facts::{CardFacts, pin_path};
use host_files::{HostFiles, SetError};
use settings_file::WeaverTomlRead;

const LAST_GOOD: &str = "last-good.toml";
/// The files of the state directory that a backup includes.
#[cfg(test)]
pub(crate) const REMEMBERED: [&str; 2] = [host_facts::NODE_NAME, LAST_GOOD];
/// Files that are removed only after the file that k3s reads was written.
const AFTER_K3S: [&str; 3] = [plan::AGENT_ROLE, plan::TOKEN_FILE, plan::AGENT_TOKEN_FILE];

/// Runs once and returns the exit code: 0, or 1 where something could not be written.
pub fn run(args: &BootConfigArgs) -> u8 {
    let root = HostRoot::new(args.root.clone());
    let run = BootConfigRun {
        file: &args.file,
        state_dir: &args.state_dir,
        root: &root,
        host: HostFiles::new(&root),
        netplan_generate: args.netplan_generate.as_deref(),
    };
    // Before weaver.toml is read, which may be a part of it.
    let restored = backup::journal::complete(&root, Path::new(host_args::STATE_DIR));
    let mut outcome = run.configure();
    outcome.note_restore(restored);
    run.keep_cmdline(&mut outcome);
    outcome.findings.extend(stray_copies::look(&root, args.file.parent().unwrap_or(Path::new("/"))));
    outcome.note(run.write_report(&outcome.findings));
    run.mark_grown_root();
    outcome.findings.iter().for_each(report::log);
    eprint!("{}", report::text(&outcome.findings));
    if outcome.failed { exit_code::INTERNAL } else { exit_code::FINE }
}

struct BootConfigRun<'a> {
    file: &'a Path,
    state_dir: &'a Path,
    root: &'a HostRoot,
    host: HostFiles<'a>,
    netplan_generate: Option<&'a Path>,
}

#[derive(Default)]
struct BootOutcome {
    findings: Vec<Finding>,
    failed: bool,
}

impl BootOutcome {
    /// Records a failure; returns whether there was none.
    fn note(&mut self, result: Result<(), SetError>) -> bool {
        let Err(error) = result else { return true };
        self.findings.push(verdict::not_configured(&error.path, &error.why));
        self.failed = true;
        false
    }

    /// One that was interrupted and could not be completed keeps k3s from starting: preflight finds it.
    fn note_restore(&mut self, restored: anyhow::Result<Option<RestoreRecord>>) {
        match restored {
            Ok(None) => {}
            Ok(Some(record)) => {
                tracing::info!("completed the interrupted restore of {}'s backup", record.node);
            }
            Err(error) => {
                tracing::error!("cannot complete the interrupted restore: {error:#}");
                self.failed = true;
            }
        }
    }
}

impl BootConfigRun<'_> {
    fn configure(&self) -> BootOutcome {
        let file = self.file.display().to_string();
        let bytes = match settings_file::read(self.root, self.file) {
            WeaverTomlRead::Unreadable(why) => return self.leave(verdict::unreadable(&file, &why)),
            WeaverTomlRead::Missing => None,
            WeaverTomlRead::Bytes(bytes) => Some(bytes),
        };
        let read = match bytes.as_deref().map(weaver_toml::parse).transpose() {
            Ok(read) => read,
            Err(faults) => return self.leave(verdict::invalid(&file, &faults)),
        };
        let nothing = Config::default();
        let config = read.as_ref().map_or(&nothing, |read| &read.config);
        let mut outcome = BootOutcome::default();
        let CardFacts { host, user_data, data_dir, findings } =
            host_facts::collect(self.root, self.state_dir, self.file, config);
        outcome.findings.extend(findings);
        outcome.findings.extend(verdict::clash(&file, config, &user_data));
        let sets_up_wifi = plan::sets_up_wifi(config, &host);
        let other_wifi = host.other_wifi.as_ref().filter(|_| sets_up_wifi).map(|other| &other.place);
        outcome.findings.extend(verdict::packages_left(&user_data));
        outcome.findings.extend(verdict::join_unproven(&file, config, &host));
        outcome.findings.extend(verdict::join_without_token(&file, config, &host));
        if plan::lacks_password(config, &host) {
            outcome.findings.extend(verdict::wifi_password_missing(&file, config));
        } else {
            outcome.findings.extend(verdict::wifi_clash(&file, config, other_wifi));
            outcome.findings.extend(owners_netplan::clash(&file, config, host.owners_radio.as_ref()));
        }
        let has_own_registries = host.registries == RegistriesFile::Owners && config.registries.is_some();
        outcome.findings.extend(has_own_registries.then(|| registries::owners_file(&file)));
        let secrets_are_safe = self.apply(config, &host, &mut outcome);
        self.hand_to_k3s(&config.role, &data_dir, &mut outcome);
        match (&read, bytes.as_deref()) {
            (Some(read), Some(bytes)) => self.keep_good(read, bytes, secrets_are_safe, &mut outcome),
            _ => {
                outcome.note(self.host.remove(&self.last_good()));
            }
        }
        self.forget_saved(&mut outcome);
        self.generate_networks(&mut outcome);
        if !outcome.failed {
            let mut made = config.clone();
            made.wifi.take_if(|_| !sets_up_wifi);
            made.registries.take_if(|_| has_own_registries);
            let asked = read.is_some().then_some(&made);
            outcome.findings.push(verdict::in_force(&file, asked, plan::key_owner(&host)));
        }
        outcome
    }

    /// What the boot partition has for k3s: manifests, and archives of images.
    fn hand_to_k3s(&self, role: &RoleSetting, data_dir: &str, outcome: &mut BootOutcome) {
        if data_disk::is_away(self.root) {
            tracing::info!("k3s' data is on a disk that is not mounted: it gets no manifests and no images");
            return;
        }
        let mounts = Mounts::read(self.root);
        if let Some(awaited) = storage::awaited_mount(self.root, mounts.as_ref(), Path::new(data_dir)) {
            let files = |name| self.root.list(self.file.with_file_name(name)).unwrap_or_default();
            let none = [weaver_toml::manifests::DIRECTORY, weaver_toml::images::DIRECTORY]
                .into_iter()
                .all(|name| files(name).is_empty());
            let awaited = awaited.display().to_string();
            outcome.findings.extend((!none).then(|| verdict::data_not_mounted(data_dir, &awaited)));
            return;
        }
        for file in manifests::look(self.root, self.file, role, data_dir, &mut outcome.findings) {
            outcome.note(self.host.write_to_k3s(&file));
        }
        let CardImages { links, removed, findings } = images::look(self.root, self.file, data_dir);
        outcome.findings.extend(findings);
        for link in &links {
            outcome.note(self.host.link_for_k3s(link));
        }
        for path in &removed {
            outcome.note(self.host.remove(path));
        }
    }

    /// Keeps the last good state, a part of which ended with the last boot.
    fn leave(&self, finding: Finding) -> BootOutcome {
        let mut outcome = BootOutcome { findings: vec![finding], failed: false };
        if let Some(drop_in) = host_facts::wifi_drop_in(self.root, self.file) {
            outcome.note(self.host.write(&drop_in));
        }
        self.generate_networks(&mut outcome);
        outcome
    }

    /// netplan's files are in force where they have changed: its generator has run before us.
    fn generate_networks(&self, outcome: &mut BootOutcome) {
        let Some(program) = self.netplan_generate.filter(|_| self.host.networks_changed()) else { return };
        let mut generate = Command::new(program);
        // Its output may quote a line with a password.
        generate.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let why = match generate.status() {
            Ok(status) if status.success() => return,
            Ok(status) => format!("it ends with {status}"),
            Err(error) => error.to_string(),
        };
        outcome.findings.push(verdict::networks_refused(&program.display().to_string(), &why));
        outcome.failed = true;
    }

    /// Continues after a failure; returns whether the secrets, if there are any, are on the disk.
    ///
    /// A node with another name is another node for k3s: the host's name is set only after what keeps the node's, which
    /// is the pin first and then k3s' file. That file is written after the token that it names, and a token is removed
    /// when that file names it no more. A server that read an agent's file would join another: the role is written or
    /// removed after its file.
    fn apply(&self, config: &Config, host: &KnownHost, outcome: &mut BootOutcome) -> bool {
        let plan = plan::plan(config, host);
        let mut name_is_kept = self.pin(&plan, &config.role, outcome);
        let (mut token_is_safe, mut password_is_safe) = (true, true);
        for file in &plan.files {
            match file.path.as_str() {
                plan::TOKEN_FILE | plan::AGENT_TOKEN_FILE => {
                    token_is_safe = outcome.note(self.host.write(file));
                }
                plan::WIFI_PASSWORD_FILE => password_is_safe = outcome.note(self.host.write(file)),
                plan::K3S => {
                    let is_due = name_is_kept && (token_is_safe || host.has_token);
                    name_is_kept = is_due && outcome.note(self.host.write(file));
                }
                plan::HOSTNAME_FILE | plan::AGENT_ROLE if !name_is_kept => {}
                _ => {
                    outcome.note(self.host.write(file));
                }
            }
        }
        for path in &plan.removed {
            let waits = AFTER_K3S.contains(&path.as_str()) && !name_is_kept;
            let is_gone = waits || outcome.note(self.host.remove(path));
            name_is_kept &= is_gone || path != plan::K3S;
        }
        if let Some(name) = plan.hostname.as_ref().filter(|_| name_is_kept) {
            outcome.note(self.host.set_hostname(name));
        }
        token_is_safe && password_is_safe
    }

    /// Remembers the node's name, or forgets it; whether each name to remember is on the disk.
    fn pin(&self, plan: &Plan, role: &RoleSetting, outcome: &mut BootOutcome) -> bool {
        let path = |role| pin_path(self.state_dir, role).display().to_string();
        let mut are_kept = true;
        for (role, name) in [(role, &plan.pin), (&RoleSetting::Server, &plan.server_pin)] {
            if let Some(name) = name {
                let file = File { path: path(role), mode: 0o644, content: format!("{name}\n") };
                are_kept &= outcome.note(self.host.write(&file));
            }
        }
        if plan.unpin {
            outcome.note(self.host.remove(&path(role)));
        }
        are_kept
    }

    /// Blanks the secrets and remembers the file without them.
    fn keep_good(&self, read: &ValidConfig, bytes: &[u8], secrets_are_safe: bool, outcome: &mut BootOutcome) {
        let blanked = read.blanked(bytes);
        if let Some(blanked) = blanked.as_deref().filter(|_| secrets_are_safe)
            && let Err(error) = self.host.replace_secret(self.file, blanked)
        {
            outcome.findings.push(verdict::secrets_left(&error.path, &read.config, &error.why));
        }
        if !outcome.failed {
            let content = String::from_utf8_lossy(blanked.as_deref().unwrap_or(bytes)).into_owned();
            let last_good = File { path: self.last_good(), mode: 0o600, content };
            outcome.note(self.host.write(&last_good));
        }
    }

    /// A power cut between the blanking and the overwriting of the old content leaves clusters without a name, which
    /// the next boot's fsck saves as a file: the secrets are then removed from the boot partition.
    fn forget_saved(&self, outcome: &mut BootOutcome) {
        let directory = self.file.parent().unwrap_or(Path::new("/"));
        for imported in [plan::TOKEN_FILE, plan::AGENT_TOKEN_FILE, plan::WIFI_PASSWORD_FILE] {
            let secret = self.root.read_if_possible(imported).map(|file| file.text).unwrap_or_default();
            let secret = secret.trim_end_matches('\n');
            if !secret.is_empty()
                && let Err(error) = self.host.remove_saved(directory, secret)
            {
                outcome.findings.push(verdict::secret_saved(&error.path, &error.why));
            }
        }
    }

    fn last_good(&self) -> String {
        self.state_dir.join(LAST_GOOD).display().to_string()
    }

    /// Failure: without the mark the unit checks by itself, and with an old one there was nothing to grow.
    fn mark_grown_root(&self) {
        let mark = root_grown::MARK.to_owned();
        let _ = if root_grown::is_grown(self.root) {
            self.host.write(&File { path: mark, mode: 0o644, content: String::new() })
        } else {
            self.host.remove(&mark)
        };
    }

    fn write_report(&self, findings: &[Finding]) -> Result<(), SetError> {
        let path = report_file::path(self.state_dir).display().to_string();
        let content = report::json(findings).map_err(|error| SetError::new(&path, error.to_string()))?;
        self.host.write(&File { path, mode: 0o644, content })
    }
}
