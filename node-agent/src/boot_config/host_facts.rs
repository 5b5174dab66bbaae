//! What the plan must know of the host: names, the user of user-data, the Wi-Fi
//! of network-config and of the owner's netplan files, what an earlier run left.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use weaver_diagnostics::{
    finding::Finding,
    k3s_config::DEFAULT_DATA_DIR,
    text_file::TextFile,
    weaver_toml::{
        Config, RoleSetting, Secret,
        companion::{self, UnreadableFile},
        encoding, foreign_files,
        join_token::{self, Form},
        network_config::{self, OtherWifi},
        network_lint,
        owners_netplan::{self, Radio},
        plan::{
            self, CLOUD_INITS_NETPLAN, HEADER, HOSTNAME_FILE, HOSTS_FILE, Hosts, K3S, KEYS_DIR, KnownHost,
            NETPLAN, WIFI_PASSWORD_FILE,
        },
        registries::RegistriesFile,
        update,
        user_data::{self, UserData},
        user_data_lint, verdict, wired_clash,
    },
    yaml_node::SyntaxError,
};

use crate::{facts::identity, host_root::HostRoot, k3s_files};

/// Where netplan files of the owner's may lie: of two with one name the first counts.
const NETPLAN_FILES: [&str; 2] = ["/etc/netplan", "/lib/netplan"];

pub(super) const NODE_NAME: &str = "node-name";

/// The file with the node's name. One for each role: a server that becomes a server again after it was an agent finds
/// its node again.
pub(super) fn pin_path(state_dir: &Path, role: &RoleSetting) -> PathBuf {
    state_dir.join(match role {
        RoleSetting::Server => NODE_NAME,
        RoleSetting::Agent(_) => "agent-name",
    })
}

pub(super) struct CardFacts {
    pub host: KnownHost,
    pub user_data: UserData,
    pub data_dir: String,
    pub findings: Vec<Finding>,
}

/// user-data and network-config are next to `weaver.toml`. What could not be read is reported where `config` needs it.
pub(super) fn collect(root: &HostRoot, state_dir: &Path, weaver_toml: &Path, config: &Config) -> CardFacts {
    let mut findings = Vec::new();
    let user_data = said(root, &weaver_toml.with_file_name("user-data"), user_data::read);
    let mut user_data = user_data.unwrap_or_else(|unknown| {
        findings.extend(verdict::user_data_unknown(config, unknown));
        UserData::default()
    });
    user_data.packages.retain(|(name, _)| !is_installed(root, name));
    let other_wifi = other_wifi(root, weaver_toml).unwrap_or_else(|unknown| {
        findings.extend(verdict::network_config_unknown(config, unknown));
        None
    });
    let network_config = root.read_if_possible(weaver_toml.with_file_name("network-config"));
    findings.extend(network_config.iter().flat_map(|file| network_lint::lint(file, config)));
    let shown = weaver_toml.display().to_string();
    findings.extend(network_config.iter().filter_map(|file| wired_clash::clash(&shown, config, file)));
    let of_cloud_init = root.read_if_possible(weaver_toml.with_file_name("user-data"));
    let of_card = root.exists(user_data_lint::OF_CARD);
    let has_keys = !config.ssh_keys.is_empty();
    findings.extend(of_cloud_init.iter().flat_map(|file| user_data_lint::lint(file, of_card, has_keys)));
    findings.extend(encoding::lint(weaver_toml, |path| Some(root.read_lossy(path).ok()??.0)));
    if let Some(directory) = weaver_toml.parent().filter(|_| of_card) {
        let names = root.list(directory).unwrap_or_default();
        findings.extend(foreign_files::lint(directory, &names));
    }
    let (owners_radio, unknown) = owners_radio(root);
    findings.extend(unknown.into_iter().filter_map(|file| verdict::network_config_unknown(config, file)));
    let name_in = |path: &Path| {
        let text = root.read_if_possible(path)?.text;
        Some(text.trim().to_owned()).filter(|name| is_node_name(name))
    };
    let hosts = match root.read(HOSTS_FILE) {
        Ok(None) => Hosts::Missing,
        Ok(Some(file)) => Hosts::Text(file.text),
        Err(error) => {
            let finding = verdict::not_configured(HOSTS_FILE, &error.to_string());
            findings.extend(config.hostname.is_some().then_some(finding));
            Hosts::Unreadable
        }
    };
    let token_file = plan::token_file(&config.role);
    let token = root.read_if_possible(token_file);
    let k3s = k3s_files::effective_without(root, None, None, Some(Path::new(K3S)));
    let data_dir = k3s.data_dir.map_or_else(|| DEFAULT_DATA_DIR.to_owned(), |setting| setting.value);
    let pinned = |role| name_in(&pin_path(state_dir, role));
    let is_registered = |role| identity::is_registered(root, Path::new(&data_dir), role);
    let configured = k3s.node_name.map(|setting| setting.value).filter(|name| is_node_name(name));
    let hostname = name_in(Path::new(HOSTNAME_FILE));
    let server = &RoleSetting::Server;
    let leaves_server = config.role != *server && pinned(server).is_none() && is_registered(server);
    let server_name = configured.as_ref().or(hostname.as_ref()).filter(|_| leaves_server).cloned();
    let key = config.update.as_ref().map(|update| weaver_toml.with_file_name(&update.key));
    let update_key = key.and_then(|path| {
        let unusable = |why: String| findings.push(update::key_unusable(&path.display().to_string(), &why));
        update_key(root, &path).map_err(unusable).ok()
    });
    let host = KnownHost {
        pinned: pinned(&config.role),
        is_registered: is_registered(&config.role),
        server_name,
        configured,
        hostname,
        hosts,
        user: user_data.user.clone(),
        has_token: root.real(token_file).is_file(),
        has_whole_token: token
            .is_some_and(|file| matches!(join_token::form(file.text.trim()), Form::Whole(_))),
        wifi_password: root
            .read_if_possible(WIFI_PASSWORD_FILE)
            .and_then(|file| file.text.strip_suffix('\n').map(|password| Secret::new(password.to_owned()))),
        other_wifi,
        owners_radio,
        update_key,
        machine_id: name_in(Path::new("/etc/machine-id")),
        registries: RegistriesFile::of(root.read(plan::REGISTRIES)),
        key_files: key_files(root),
    };
    CardFacts { host, user_data, data_dir, findings }
}

/// Packages that may be there for several architectures have theirs in the name.
fn is_installed(root: &HostRoot, package: &str) -> bool {
    let list = |end: &str| root.real(format!("/var/lib/dpkg/info/{package}{end}.list"));
    !package.contains('/') && ["", ":arm64"].iter().any(|end| list(end).is_file())
}

fn said<T: Default>(
    root: &HostRoot,
    path: &Path,
    read: impl Fn(&TextFile) -> Result<T, SyntaxError>,
) -> Result<T, UnreadableFile> {
    companion::read(&path.display().to_string(), root.read(path), read)
}

/// cloud-init's configuration or, where that has no Wi-Fi any more, what it made of it earlier.
fn other_wifi(root: &HostRoot, weaver_toml: &Path) -> Result<Option<OtherWifi>, UnreadableFile> {
    let reported = weaver_toml.with_file_name("network-config");
    let mut unknown = None;
    for path in [reported.as_path(), Path::new(CLOUD_INITS_NETPLAN)] {
        match said(root, path, network_config::read) {
            Ok(None) => {}
            Ok(other) => return Ok(other),
            Err(why) => unknown = unknown.or(Some(why)),
        }
    }
    unknown.map_or(Ok(None), Err)
}

/// What the owner's netplan files configure for the radio, a kind that netplan refuses next to a Wi-Fi first; and the
/// files whose content is not known.
fn owners_radio(root: &HostRoot) -> (Option<Radio>, Vec<UnreadableFile>) {
    let (mut names, mut radios, mut unknown) = (BTreeSet::new(), Vec::new(), Vec::new());
    for directory in NETPLAN_FILES {
        // As in a shell, `*.yaml` leaves out what begins with a dot.
        let is_read = |name: &String| {
            Path::new(name).extension().is_some_and(|end| end == "yaml") && !name.starts_with('.')
        };
        for name in root.list(directory).unwrap_or_default().into_iter().filter(is_read) {
            let is_known = [NETPLAN, CLOUD_INITS_NETPLAN].iter().any(|path| Path::new(path).ends_with(&name));
            if !is_known && names.insert(name.clone()) {
                match said(root, &Path::new(directory).join(name), owners_netplan::read) {
                    Ok(radio) => radios.extend(radio),
                    Err(why) => unknown.push(why),
                }
            }
        }
    }
    let radio = radios.into_iter().min_by_key(|radio| matches!(radio, Radio::Wifi(_)));
    (radio, unknown)
}

/// What the Wi-Fi of an earlier start needs at each boot, whatever has become of `weaver.toml`.
pub(super) fn wifi_drop_in(root: &HostRoot, weaver_toml: &Path) -> Option<plan::File> {
    network_config::read(&root.read_if_possible(NETPLAN)?).ok()??;
    let other = other_wifi(root, weaver_toml).ok()??;
    Some(plan::wifi_drop_in(&other))
}

/// The public key of the update's source, or why it cannot be used.
fn update_key(root: &HostRoot, path: &Path) -> Result<String, String> {
    let file = root.read(path).map_err(|error| error.to_string())?.ok_or("there is no such file")?;
    update::key_mistake(&file.text).map_or(Ok(file.text), |why| Err(why.to_owned()))
}

/// Files of keys that we wrote: others in the same directory are not touched.
fn key_files(root: &HostRoot) -> Vec<String> {
    let names = root.list(KEYS_DIR).unwrap_or_default();
    let paths = names.into_iter().map(|name| format!("{KEYS_DIR}/{name}"));
    paths
        .filter(|path| root.read_if_possible(path).is_some_and(|file| file.text.starts_with(HEADER)))
        .collect()
}

/// Whether k3s can have a node of this name.
fn is_node_name(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    !name.is_empty() && name.len() <= 253 && name.chars().all(is_part)
}

#[cfg(test)]
mod tests;
