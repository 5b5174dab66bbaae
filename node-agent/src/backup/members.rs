//! What belongs in a backup, and where each part is on a host.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use weaver_diagnostics::k3s_config::Setting;
use weaver_diagnostics::k3s_upgrade::plan::UpgradeRefusal;
use weaver_diagnostics::kubeconfig_export::K3S_KUBECONFIG;
use weaver_diagnostics::node_backup::manifest::{BackupRoot, DATASTORE, OF_STATE};
use weaver_host::durable_file::found;

use super::archive::OVERHEAD;
use super::datastore;
use super::input::{ArchiveInput, EntryKind};
use crate::host::Host;

/// Of `server` below k3s' data: the datastore, which is copied, and what k3s makes at each start. Owners keep files
/// there that k3s' configuration names, such as those of its hardening guide.
const NOT_OF_SERVER: [&str; 4] = ["db", "etc", "logs", "static"];

/// Without them k3s makes another CA, and no kubeconfig of before works: of `server`, too.
const CA: [&str; 2] = ["tls/server-ca.crt", "tls/server-ca.key"];

/// Where the parts are, as the host names them.
#[derive(Debug, Clone)]
pub struct BackupLayout {
    pub data_dir: PathBuf,
    pub boot_dir: PathBuf,
    pub state_dir: PathBuf,
    admin_kubeconfig: PathBuf,
}

impl BackupLayout {
    pub fn of(host: &Host, state_dir: &Path) -> Self {
        Self {
            data_dir: host.k3s_data_dir(),
            boot_dir: host.boot_dir.clone(),
            state_dir: state_dir.to_owned(),
            admin_kubeconfig: host.admin_kubeconfig.clone(),
        }
    }

    pub fn directory(&self, part: BackupRoot) -> PathBuf {
        match part {
            BackupRoot::Server => self.data_dir.join("server"),
            BackupRoot::Volumes => self.data_dir.join("storage"),
            BackupRoot::Configuration => "/etc/rancher/k3s".into(),
            BackupRoot::NodePassword => "/etc/rancher/node".into(),
            BackupRoot::State => self.state_dir.clone(),
            BackupRoot::WeaverToml => self.boot_dir.clone(),
        }
    }

    pub fn datastore(&self) -> PathBuf {
        self.data_dir.join("server/db/state.db")
    }
}

/// Why the datastore is no file of SQLite here. What is configured decides before what is there: the file of before
/// stays where k3s uses another database.
pub fn other_datastore(host: &Host, layout: &BackupLayout) -> Option<String> {
    let root = &host.root;
    if let Some(endpoint) = host.effective().datastore.filter(|endpoint| endpoint.is_elsewhere) {
        return Some(format!(
            "the datastore of this k3s is a database elsewhere, by `datastore-endpoint` in {}, which has its own backups",
            endpoint.origin
        ));
    }
    if root.is_dir(layout.data_dir.join("server/db/etcd")) {
        return Some(
            "the datastore of this k3s is etcd, which `sudo k3s etcd-snapshot save` saves".to_owned(),
        );
    }
    let is_there = root.exists(layout.datastore()) || !root.is_dir(layout.data_dir.join("server/tls"));
    (!is_there)
        .then(|| "the datastore of this k3s is a database elsewhere, which has its own backups".to_owned())
}

/// Why `--volumes` would save nothing of this k3s.
pub fn volumes_elsewhere(host: &Host, layout: &BackupLayout) -> Option<UpgradeRefusal> {
    let Setting { value, origin } = host.effective().local_storage?;
    let is_usual = value.is_empty() || Path::new(&value) == layout.directory(BackupRoot::Volumes);
    (!is_usual).then(|| {
        let what = format!(
            "the local-path volumes are in {value}, by `default-local-storage-path` in {origin}, and --volumes saves {}",
            layout.directory(BackupRoot::Volumes).display()
        );
        UpgradeRefusal::new(what, "leave out --volumes, and save that directory by other means")
    })
}

/// All members but the manifest and those of volumes; `live` is the datastore.
///
/// # Errors
/// A directory cannot be read, or there is no CA.
pub fn list(host: &Host, layout: &BackupLayout, live: &Path) -> anyhow::Result<Vec<ArchiveInput>> {
    let real = |path: PathBuf| host.root.real(path);
    let server = real(layout.directory(BackupRoot::Server));
    let mut sources = vec![ArchiveInput {
        name: DATASTORE.to_owned(),
        path: live.to_owned(),
        kind: EntryKind::File,
        most: u64::MAX,
    }];
    for name in names(&server)?.iter().filter(|name| !NOT_OF_SERVER.contains(&name.as_str())) {
        add(&mut sources, BackupRoot::Server, name, &server.join(name))?;
    }
    for name in CA {
        ensure!(
            sources.iter().any(|source| source.name.strip_prefix(BackupRoot::Server.prefix()) == Some(name)),
            "there is no CA of a server: {} is missing: is this the server, and has k3s run?",
            layout.directory(BackupRoot::Server).join(name).display()
        );
    }
    for part in [BackupRoot::Configuration, BackupRoot::NodePassword] {
        for name in names(&real(layout.directory(part)))? {
            let path = layout.directory(part).join(&name);
            // k3s writes it at each start, and with `write-kubeconfig` makes the usual one a link to it.
            if path != layout.admin_kubeconfig && path != Path::new(K3S_KUBECONFIG) {
                add(&mut sources, part, &name, &real(path))?;
            }
        }
    }
    for name in OF_STATE {
        add(&mut sources, BackupRoot::State, name, &real(layout.state_dir.join(name)))?;
    }
    add(&mut sources, BackupRoot::WeaverToml, "weaver.toml", &real(layout.boot_dir.join("weaver.toml")))?;
    Ok(sources)
}

/// Adds a file, or a directory with all that is in it. Anything that is no file or directory, such as a socket, is
/// skipped; so is what this node does not have.
fn add(sources: &mut Vec<ArchiveInput>, part: BackupRoot, below: &str, path: &Path) -> anyhow::Result<()> {
    let what = || format!("cannot read {}", path.display());
    let may_be_missing = matches!(part, BackupRoot::State | BackupRoot::WeaverToml);
    // A link is stored as its target: a file that its owner keeps in another directory.
    let kind = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && path.is_symlink() => {
            bail!(
                "{} is a link to a file that is not there: remove it, or put the file there",
                path.display()
            )
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && may_be_missing => return Ok(()),
        metadata => metadata.with_context(what)?.file_type(),
    };
    let mut push = |kind| {
        let name = format!("{}{below}", part.prefix());
        sources.push(ArchiveInput { name, path: path.into(), kind, most: u64::MAX });
    };
    if kind.is_file() {
        push(EntryKind::File);
    } else if kind.is_dir() && path.is_symlink() {
        bail!(
            "{} is a link to a directory, which a restore could not put back: move the directory there",
            path.display()
        );
    } else if kind.is_dir() {
        push(EntryKind::Directory);
        for name in names(path)? {
            add(sources, part, &format!("{below}/{name}"), &path.join(&name))?;
        }
    } else {
        tracing::debug!("{} is no file and not in the backup", path.display());
    }
    Ok(())
}

/// The names in a directory, sorted; none where it is missing.
fn names(directory: &Path) -> anyhow::Result<Vec<String>> {
    let what = || format!("cannot read {}", directory.display());
    let entries = found(fs::read_dir(directory)).with_context(what)?;
    let mut names = Vec::new();
    for entry in entries.into_iter().flatten() {
        let name = entry.with_context(what)?.file_name();
        let Some(name) = name.to_str() else {
            let shown = name.to_string_lossy();
            bail!("the name {} in {} is not UTF-8", shown.escape_debug(), directory.display());
        };
        names.push(name.to_owned());
    }
    names.sort();
    // One that k3s replaces while they are read may be listed twice.
    names.dedup();
    Ok(names)
}

/// Bytes of all files in the archive.
pub fn size(sources: &[ArchiveInput]) -> u64 {
    let of = |ArchiveInput { name, path, .. }: &ArchiveInput| {
        let length = || fs::metadata(path).map_or(0, |metadata| metadata.len());
        OVERHEAD + if name == DATASTORE { datastore::size(path) } else { length() }
    };
    sources.iter().map(of).sum()
}

#[cfg(test)]
mod tests {
    use weaver_diagnostics::weaver_toml::plan;

    use super::*;
    use crate::{boot_config, host_args};

    #[test]
    fn the_names_of_our_state_are_those_of_boot_config() {
        let of_boot_config = Path::new(boot_config::STATE_DIR);
        let remembered = boot_config::REMEMBERED.map(|name| of_boot_config.join(name));
        for path in remembered
            .iter()
            .map(PathBuf::as_path)
            .chain([plan::TOKEN_FILE, plan::WIFI_PASSWORD_FILE].map(Path::new))
        {
            let name = path.strip_prefix(host_args::STATE_DIR).unwrap().to_str().unwrap();
            assert!(OF_STATE.contains(&name), "{}", path.display());
        }
    }
}
