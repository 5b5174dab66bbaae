//! Reads what determines how k3s runs: its configuration and drop-ins, the flags of its unit, the CA of its serving
//! certificates, the administrator's kubeconfig.

use std::{
    collections::BTreeMap,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use weaver_diagnostics::{
    finding::{Code, Finding},
    k3s_config::{
        self, DEFAULT_DATA_DIR, Effective,
        files::{self, FileUse, Unread},
        keys,
    },
    k3s_unit::{self, K3sStart, Setting, faults},
    k3s_upgrade::Role,
    kubeconfig, kubelet_flags, registries_yaml,
    text_file::TextFile,
    weaver_toml::plan::AGENT_ROLE,
};
use weaver_host::durable_file::with_suffix;

use crate::host_root::{HostRoot, ReadError};

/// Where systemd looks for a unit, in order of precedence.
const UNIT_DIRS: [&str; 3] = ["/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system"];
/// Where the kernel has a directory for each unit that runs, of both versions of cgroups.
const CGROUPS: [&str; 2] = ["/sys/fs/cgroup/system.slice", "/sys/fs/cgroup/systemd/system.slice"];
/// How systemd calls the directories with the units that another one has it start.
const WANTING: [&str; 2] = [".wants", ".requires"];
const DEFAULT_CONFIG: &str = "/etc/rancher/k3s/config.yaml";
/// Where the cluster's serving CA is, below k3s' data.
const SERVER_CA: &str = "server/tls/server-ca.crt";

/// Whether the node joins a server, which serves no API, so there are no names to prove: as boot-config has
/// noted; where it has not, by the unit that is there, since k3s' own installer may have made it an agent. Of both the
/// one that systemd starts.
pub fn role(root: &HostRoot) -> Role {
    let has = |role: Role| unit(root, role.unit()) == Some(UnitFile::Present);
    let starts = |role: Role| is_started(root, role.unit());
    let is_other = || !has(Role::Server) || starts(Role::Agent) && !starts(Role::Server);
    let is_noted = root.real(AGENT_ROLE).symlink_metadata().is_ok();
    if is_noted || has(Role::Agent) && is_other() { Role::Agent } else { Role::Server }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnitFile {
    Present,
    Masked,
}

/// What systemd finds of a unit: it takes the first file, which may mask the others.
fn unit(root: &HostRoot, name: &str) -> Option<UnitFile> {
    let mut files = UNIT_DIRS.iter().map(|dir| Path::new(dir).join(name));
    let path = files.find(|path| root.exists(path))?;
    Some(if is_masked(root, &path) { UnitFile::Masked } else { UnitFile::Present })
}

/// Whether the owner has taken a unit or a drop-in away from systemd: it is then a link to `/dev/null`.
fn is_masked(root: &HostRoot, path: &Path) -> bool {
    std::fs::read_link(root.real(path)).is_ok_and(|target| target == Path::new("/dev/null"))
}

/// What there is of k3s on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum K3sPresence {
    Absent,
    /// systemd has its units and starts none: they are masked, or not enabled and do not run.
    Idle,
    /// systemd starts it, or it is there without a unit of the usual name.
    Used,
}

/// Whether k3s is in use here, or was configured to be.
pub(crate) fn presence(root: &HostRoot) -> K3sPresence {
    let units = [Role::Server, Role::Agent].map(Role::unit);
    let is_used = |name: &str, file: UnitFile| file == UnitFile::Present && is_started(root, name);
    let seen = units.map(|name| unit(root, name).map(|file| is_used(name, file)));
    let others = ["/usr/local/bin/k3s", "/usr/bin/k3s", DEFAULT_CONFIG, DEFAULT_DATA_DIR];
    if seen.contains(&Some(true)) {
        K3sPresence::Used
    } else if seen.contains(&Some(false)) {
        K3sPresence::Idle
    } else if others.iter().any(|path| root.exists(path)) {
        K3sPresence::Used
    } else {
        K3sPresence::Absent
    }
}

/// Whether systemd starts a unit in each boot, or has started it in this one.
fn is_started(root: &HostRoot, unit: &str) -> bool {
    is_enabled(root, unit) || runs(root, unit)
}

/// Whether another unit, such as multi-user.target, has systemd start this one.
fn is_enabled(root: &HostRoot, unit: &str) -> bool {
    UNIT_DIRS.iter().any(|dir| {
        let names = root.list(dir).unwrap_or_default();
        let mut wanting = names.iter().filter(|name| WANTING.iter().any(|end| name.ends_with(end)));
        // The link may lead out of a directory that replaces `/`.
        wanting.any(|name| root.real(Path::new(dir).join(name).join(unit)).symlink_metadata().is_ok())
    })
}

/// Whether systemd has processes of a unit. By their names they might be those of a container.
fn runs(root: &HostRoot, unit: &str) -> bool {
    CGROUPS.iter().any(|slice| root.exists(format!("{slice}/{unit}")))
}

/// The configuration in force, problems of reading it among its findings. Without `unit`, the one that systemd loads.
pub fn effective(root: &HostRoot, config: Option<&Path>, unit: Option<&Path>) -> Effective {
    effective_without(root, config, unit, None)
}

/// The same as [`effective`], one drop-in or file of the unit's environment left out.
pub fn effective_without(
    root: &HostRoot,
    config: Option<&Path>,
    unit: Option<&Path>,
    without: Option<&Path>,
) -> Effective {
    let mut unreadable = Vec::new();
    let is_wanted = |path: &str| Some(Path::new(path)) != without;
    let start = read_unit(root, unit, is_wanted, &mut unreadable);
    let named = config.is_none().then_some(start.config_file).flatten();
    let by_unit = named.as_ref().map(|setting| PathBuf::from(&setting.value));
    let config = config.map(Path::to_owned).or(by_unit).unwrap_or_else(|| DEFAULT_CONFIG.into());
    let mut files = config_files(root, &config, &mut unreadable);
    files.retain(|file| is_wanted(&file.path));
    if let Some(setting) = named
        && matches!(root.read(&config), Ok(None))
    {
        unreadable.push(files::missing_config(&setting));
    } else if config == Path::new(DEFAULT_CONFIG) && !root.exists(&config) {
        let found = misnamed(root, &config, &files::MISNAMED);
        unreadable.extend(found.map(|path| files::misnamed(&path, DEFAULT_CONFIG)));
    }
    let mut effective = k3s_config::merge(&files, &start.flags);
    let role = role(root);
    // The file of a token counts before a token, from the environment too.
    let of_environment = start.token_file.iter().map(|file| k3s_unit::Flag {
        name: "token-file".to_owned(),
        value: file.value.clone(),
        origin: file.origin.clone(),
    });
    let given: Vec<_> = start.flags.iter().cloned().chain(of_environment).collect();
    effective.findings.extend(keys::lint(&files, &given, role));
    effective.findings.extend(keys::lint_flags(&start.flags, role));
    if !effective.disable_agent {
        effective.findings.extend(kubelet_flags::lint(&effective.kubelet_args));
    }
    effective.drop_ins = with_suffix(&config, ".d");
    effective.data_dir = effective.data_dir.or(start.data_dir);
    effective.node_name = effective.node_name.or(start.node_name);
    effective.token_file = effective.token_file.or(start.token_file);
    effective.datastore = effective.datastore.or(start.datastore);
    effective.findings.append(&mut unreadable);
    // k3s parses the file whatever, and only its own containerd gets what is in it.
    let has_containerd = effective.other_runtime.is_none() && !effective.disable_agent;
    let mut registries = registries(root, effective.private_registry.as_ref());
    registries.retain(|finding| has_containerd || finding.code != Code::RegistriesWithoutEffect);
    effective.findings.append(&mut registries);
    effective.findings = effective.findings.into_iter().map(k3s_config::read_again).collect();
    effective
}

/// What the configuration and the unit set that needs a newer k3s than v1.`minor`.
pub(crate) fn newer_settings(
    root: &HostRoot,
    config: Option<&Path>,
    unit: Option<&Path>,
    minor: u32,
) -> Vec<Finding> {
    let mut reported_elsewhere = Vec::new();
    let start = read_unit(root, unit, |_| true, &mut reported_elsewhere);
    let by_unit = || start.config_file.as_ref().map(|setting| PathBuf::from(&setting.value));
    let config = config.map(Path::to_owned).or_else(by_unit).unwrap_or_else(|| DEFAULT_CONFIG.into());
    let files = config_files(root, &config, &mut reported_elsewhere);
    let findings = keys::lint_since(&files, &start.flags, role(root), minor);
    findings.into_iter().map(k3s_config::read_again).collect()
}

/// What is wrong with the file of the registries: that of k3s, or another that is named.
fn registries(root: &HostRoot, named: Option<&Setting>) -> Vec<Finding> {
    // The usual file may be missing, also where it is named.
    let named = named.filter(|named| !named.value.is_empty() && named.value != registries_yaml::FILE);
    let path = Path::new(named.map_or(registries_yaml::FILE, |named| &named.value));
    match (root.read(path), named) {
        (Ok(Some(file)), _) => {
            let is_there =
                |path: &str| matches!(root.read(Path::new(path)), Ok(Some(_)) | Err(ReadError::Hidden(_)));
            registries_yaml::lint(&file, is_there)
        }
        // What is relative depends on where k3s was started.
        (Ok(None), Some(named)) if path.is_absolute() => vec![registries_yaml::missing(named)],
        (Ok(None), Some(_)) => Vec::new(),
        (Ok(None), None) => {
            let found = misnamed(root, path, &registries_yaml::MISNAMED);
            found.map(|path| registries_yaml::misnamed(&path)).into_iter().collect()
        }
        (Err(error), _) => vec![unread(FileUse::Registries, path, &error)],
    }
}

/// The first of these names that is in the directory of `path`, where `path` itself is missing.
fn misnamed(root: &HostRoot, path: &Path, names: &[&str]) -> Option<String> {
    let paths = names.iter().map(|name| path.with_file_name(name));
    paths.into_iter().find(|path| root.exists(path)).map(|path| path.display().to_string())
}

/// The file, then its drop-ins by name.
fn config_files(root: &HostRoot, config: &Path, unreadable: &mut Vec<Finding>) -> Vec<TextFile> {
    let drop_ins = with_suffix(config, ".d");
    let names = root.list(&drop_ins).unwrap_or_else(|error| {
        unreadable.push(unread(FileUse::DropIns, &drop_ins, &ReadError::Io(error)));
        Vec::new()
    });
    let directory = drop_ins.display().to_string();
    unreadable.extend(names.iter().filter_map(|name| keys::passed_over(&directory, name)));
    let drop_ins = names.iter().filter(|name| k3s_config::is_drop_in(name)).map(|name| drop_ins.join(name));
    std::iter::once(config.to_owned())
        .chain(drop_ins)
        .filter_map(|path| match root.read(&path) {
            Ok(file) => file,
            // k3s skips directories of such a name.
            Err(ReadError::NotAFile) if root.is_dir(&path) && path != config => None,
            Err(error) => {
                unreadable.push(unread(FileUse::Config, &path, &error));
                None
            }
        })
        .collect()
}

/// The unit, then its drop-ins as systemd loads them: by name whatever their directory, and of one name only the one in
/// the first directory.
fn unit_files(root: &HostRoot, unit: Option<&Path>) -> Vec<PathBuf> {
    let usual = || UNIT_DIRS.map(|dir| Path::new(dir).join(role(root).unit())).to_vec();
    let units = unit.map_or_else(usual, |unit| vec![unit.to_owned()]);
    let mut drop_ins = BTreeMap::new();
    for directory in units.iter().map(|unit| with_suffix(unit, ".d")) {
        let names = root.list(&directory).unwrap_or_default();
        for name in names.into_iter().filter(|n| Path::new(n).extension().is_some_and(|e| e == "conf")) {
            let path = directory.join(&name);
            drop_ins.entry(name).or_insert(path);
        }
    }
    // A link counts whatever its target: it masks the directories after it.
    let unit = units.into_iter().find(|path| root.real(path).symlink_metadata().is_ok());
    unit.into_iter().chain(drop_ins.into_values()).collect()
}

/// Reads the unit and its drop-ins, and those files of its environment that are wanted.
fn read_unit(
    root: &HostRoot,
    unit: Option<&Path>,
    is_wanted: impl Fn(&str) -> bool,
    unreadable: &mut Vec<Finding>,
) -> K3sStart {
    let mut read = |path: &Path| {
        root.read(path).unwrap_or_else(|error| {
            unreadable.push(unread(FileUse::Unit, path, &error));
            None
        })
    };
    let (masked, files): (Vec<_>, Vec<_>) =
        unit_files(root, unit).into_iter().partition(|path| is_masked(root, path));
    let units: Vec<_> = files.iter().filter_map(|path| read(path)).collect();
    let name = unit.unwrap_or(Path::new(role(root).unit())).file_stem().unwrap_or_default().to_string_lossy();
    let environment: Vec<_> = k3s_unit::environment_files(&units)
        .into_iter()
        // As k3s' own installer writes them; any other specifier is systemd's to resolve.
        .map(|(path, _)| path.replace("%N", &name))
        .filter(|path| !path.contains('%') && is_wanted(path))
        .filter_map(|path| read(Path::new(&path)))
        .collect();
    // Of a drop-in it is what its owner wants.
    let masked = masked.iter().filter(|path| path.extension().is_some_and(|end| end == "service"));
    unreadable
        .extend(masked.map(|path| faults::masked(&path.display().to_string(), &format!("{name}.service"))));
    unreadable.extend(faults::lint(&units, |path| !matches!(root.read(path), Ok(None))));
    k3s_unit::start(&units, &environment)
}

fn unread(of: FileUse, path: &Path, error: &ReadError) -> Finding {
    let why = error.to_string();
    let unread = match error {
        ReadError::Io(_) | ReadError::TooLarge => Unread::ByUs(why),
        ReadError::NotAFile | ReadError::Binary => Unread::NotText(why),
        ReadError::Hidden(directory) => Unread::Hidden { why, directory: directory.display().to_string() },
    };
    files::unread(of, &path.display().to_string(), &unread)
}

/// The file with the CA of the serving certificates.
pub fn server_ca_path(data_dir: &Path) -> PathBuf {
    data_dir.join(SERVER_CA)
}

/// The CA of the serving certificates.
///
/// # Errors
/// A finding that says what is missing: `unknown` before k3s' first start.
pub fn server_ca(root: &HostRoot, data_dir: &Path) -> Result<TextFile, Box<Finding>> {
    let path = server_ca_path(data_dir);
    match root.read(&path) {
        Ok(Some(file)) if file.text.is_empty() => Err(Box::new(files::empty_ca(&file.path))),
        Ok(Some(file)) => Ok(file),
        Ok(None) => Err(Box::new(files::missing_ca(&path.display().to_string()))),
        Err(error) => Err(Box::new(unread(FileUse::ServerCa, &path, &error))),
    }
}

/// The trust anchors in a file.
///
/// # Errors
/// A finding that says what is wrong with it.
pub(crate) fn trust_anchors(file: &TextFile) -> Result<RootCertStore, Box<Finding>> {
    let mut anchors = RootCertStore::empty();
    let broken = |why: String| Box::new(files::broken_ca(&file.path, &why));
    for certificate in CertificateDer::pem_slice_iter(file.text.as_bytes()) {
        let certificate = certificate.map_err(|_| broken("it is not valid PEM".to_owned()))?;
        anchors
            .add(certificate)
            .map_err(|error| broken(format!("it holds no usable certificate: {error}")))?;
    }
    if anchors.is_empty() {
        return Err(broken("it holds no certificate".to_owned()));
    }
    Ok(anchors)
}

/// What is wrong with the administrator's kubeconfig.
pub fn admin_kubeconfig(root: &HostRoot, path: &Path) -> Vec<Finding> {
    let read = root.read(path);
    let hidden = match &read {
        Err(ReadError::Hidden(directory)) => Some(directory.display().to_string()),
        _ => None,
    };
    let read = read.map_err(|error| error.to_string());
    let mode = std::fs::metadata(root.real(path)).ok().map(|m| m.permissions().mode());
    let found = kubeconfig::administrators(&path.display().to_string(), read, mode).into_iter();
    let shown = |finding: Finding| match &hidden {
        Some(directory) => finding.remedy(files::show_hidden(directory)),
        None => finding,
    };
    found.map(shown).collect()
}

#[cfg(test)]
mod tests;
