//! Which files of the host follow from `weaver.toml`.
//!
//! Every file here is written whole and belongs to boot-config, but for
//! `/etc/hostname`, which a host always needs, and `/etc/hosts`, where only
//! one marked line is ours. What is not asked for any more is removed.

mod host;
mod netplan;

use std::fmt;
use std::net::IpAddr;

use serde_json::{Value, json};

pub use self::host::{Hosts, KnownHost};
pub use super::header::HEADER;
use super::header::with_header;
use super::{
    Backup, Config, OptionValue, RoleSetting, SecretSetting, UpdateSection, hosts, network_config::OtherWifi,
    registries::RegistriesFile, security_updates,
};
use crate::registries_yaml;
use crate::yaml_text::{self, Ordered};

/// The account of the card, which gets the ssh keys where user-data makes none.
pub const ADMIN: &str = "weaver-admin";
/// sshd reads the keys of an account from the file of its name here.
pub const KEYS_DIR: &str = "/etc/ssh/weaver_keys";
/// The token that was imported for a server.
pub const TOKEN_FILE: &str = "/var/lib/weaver/k3s.token";
/// The token that was imported for an agent: another cluster's, which the one on this card was not made with.
pub const AGENT_TOKEN_FILE: &str = "/var/lib/weaver/k3s-agent.token";
/// The imported password of the Wi-Fi.
pub const WIFI_PASSWORD_FILE: &str = "/var/lib/weaver/wifi.password";
/// What cloud-init makes of `network-config`.
pub const CLOUD_INITS_NETPLAN: &str = "/etc/netplan/50-cloud-init.yaml";
pub const HOSTNAME_FILE: &str = "/etc/hostname";
/// Names that the host knows by itself.
pub const HOSTS_FILE: &str = "/etc/hosts";

pub const CLOUD_INIT: &str = "/etc/cloud/cloud.cfg.d/98-weaver-hostname.cfg";
/// What k3s shall do, the node's name in it.
pub const K3S: &str = "/etc/rancher/k3s/config.yaml.d/90-weaver.yaml";
/// The registries that are asked for. An owner may have a file of their own there, which stays.
pub const REGISTRIES: &str = registries_yaml::FILE;
/// There where the node is an agent. The units of k3s look for it: one starts, the other does not. Links would come too
/// late, for systemd has decided what it starts before boot-config runs.
pub const AGENT_ROLE: &str = "/etc/weaver/k3s-agent";
/// The networks that are asked for.
pub const NETPLAN: &str = "/etc/netplan/90-weaver.yaml";
/// Hides [`CLOUD_INITS_NETPLAN`] from netplan, which reads one file of each name; and only until the next boot.
pub const IN_ITS_PLACE: &str = "/run/netplan/50-cloud-init.yaml";
pub const TIMESYNCD: &str = "/etc/systemd/timesyncd.conf.d/90-weaver.conf";
/// Settings of the node agent. Those in node-agent.env are the owner's, and count after these.
pub const AGENT_ENVIRONMENT: &str = "/etc/weaver/boot-config.env";
/// The disk to which the data of k3s is moved. Without it no unit looks for one.
pub const DATA_DISK: &str = "/etc/weaver/data-disk.env";
/// What is in front of it there.
pub const DATA_DISK_KEY: &str = "WEAVER_DATA_DISK=";
/// Where the timer's backups go and what is in them. Without it the timer does not start.
pub const BACKUP: &str = "/etc/weaver/backup.env";
/// There where the card shows no page: its socket looks for it.
pub const PAGE_OFF: &str = "/etc/weaver/page-off";
/// The addresses at which the page is shown.
pub const PAGE_ENVIRONMENT: &str = "/etc/weaver/page.env";
/// What makes avahi announce the card; the node agent writes it, which knows the CA of k3s.
pub const ANNOUNCEMENT: &str = "/etc/avahi/services/weaver.service";
/// How often the timer installs updates. Without it the timer does not start.
pub const UPDATE: &str = "/etc/weaver/update.env";
/// The apt source of the updates.
pub const UPDATE_SOURCE: &str = "/etc/apt/sources.list.d/config-weaver.sources";
/// The key that signs it. apt reads it as a user of its own, which the boot partition keeps out.
pub const UPDATE_KEY: &str = "/etc/apt/keyrings/config-weaver.asc";
/// Has apt's timers install security updates. Its name comes after those of Debian's files.
pub const SECURITY_UPDATES: &str = "/etc/apt/apt.conf.d/90-weaver-security";
/// Files removed when they are not asked for any more; so are ours in [`KEYS_DIR`].
pub const OWN: &[&str] = &[
    CLOUD_INIT,
    K3S,
    AGENT_ROLE,
    NETPLAN,
    IN_ITS_PLACE,
    TIMESYNCD,
    AGENT_ENVIRONMENT,
    PAGE_OFF,
    PAGE_ENVIRONMENT,
    TOKEN_FILE,
    AGENT_TOKEN_FILE,
    WIFI_PASSWORD_FILE,
    DATA_DISK,
    BACKUP,
    UPDATE,
    UPDATE_SOURCE,
    UPDATE_KEY,
    SECURITY_UPDATES,
];

/// A file as it shall be.
#[derive(Clone, PartialEq, Eq)]
pub struct File {
    /// Its path on the host.
    pub path: String,
    pub mode: u32,
    /// Its content, which may be a secret.
    pub content: String,
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:o}, {} bytes", self.path, self.mode, self.content.len())
    }
}

/// What shall be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Files to write: the secrets, k3s' file that names the token, the role that it is for, then the others.
    pub files: Vec<File>,
    /// Files to remove where they are.
    pub removed: Vec<String>,
    /// The node's name to remember, in the role that is asked for.
    pub pin: Option<String>,
    /// The name to remember that the node had as a server, for when it is one again.
    pub server_pin: Option<String>,
    /// Whether to forget a remembered name: no node has it, and it would rename a later one.
    pub unpin: bool,
    /// The host name to set in the running kernel.
    pub hostname: Option<String>,
}

/// Where the imported token of this role is.
pub const fn token_file(role: &RoleSetting) -> &'static str {
    match role {
        RoleSetting::Server => TOKEN_FILE,
        RoleSetting::Agent(_) => AGENT_TOKEN_FILE,
    }
}

/// Who gets the ssh keys.
pub fn key_owner(host: &KnownHost) -> &str {
    host.user.as_deref().unwrap_or(ADMIN)
}

pub fn plan(config: &Config, host: &KnownHost) -> Plan {
    let hostname = config.hostname.as_ref().map(|host| host.name.clone());
    let pin = node_name(host, hostname.as_deref());
    let file = |path: &str, mode, content: Option<String>| {
        content.map(|content| File { path: path.to_owned(), mode, content })
    };
    let password = config.wifi.as_ref().map_or(&SecretSetting::None, |wifi| &wifi.password);
    let other = netplan::wifi_in_force(config, host).and(host.other_wifi.as_ref());
    let keys = format!("{KEYS_DIR}/{}", key_owner(host));
    let files: Vec<_> = [
        file(token_file(&config.role), 0o600, to_import(&config.token)),
        file(WIFI_PASSWORD_FILE, 0o600, to_import(password)),
        file(K3S, 0o600, k3s(config, host, pin.as_deref())),
        file(AGENT_ROLE, 0o644, agent_role(&config.role)),
        file(REGISTRIES, 0o600, registries(config, host)),
        file(HOSTNAME_FILE, 0o644, hostname.as_ref().map(|name| format!("{name}\n"))),
        file(HOSTS_FILE, 0o644, hosts_file(&host.hosts, hostname.as_deref())),
        file(CLOUD_INIT, 0o644, hostname.as_ref().map(|_| cloud_init())),
        file(&keys, 0o644, ssh_keys(&config.ssh_keys)),
        file(NETPLAN, 0o600, netplan::networks(config, host)),
        other.map(wifi_drop_in),
        file(TIMESYNCD, 0o644, timesyncd(&config.time_servers)),
        file(AGENT_ENVIRONMENT, 0o644, agent_environment(config)),
        file(DATA_DISK, 0o644, data_disk(config)),
        file(BACKUP, 0o644, backup(config)),
        file(PAGE_OFF, 0o644, page_off(config)),
        file(PAGE_ENVIRONMENT, 0o644, page_environment(&config.status.listen)),
        file(UPDATE_KEY, 0o644, config.update.as_ref().and(host.update_key.clone())),
        file(UPDATE_SOURCE, 0o644, update_source(config, host)),
        file(UPDATE, 0o644, update_timer(config, host)),
        file(SECURITY_UPDATES, 0o644, apt_conf(config, host)),
    ]
    .into_iter()
    .flatten()
    .collect();
    let kept = [(&config.token, token_file(&config.role)), (password, WIFI_PASSWORD_FILE)];
    let is_kept =
        |path: &str| kept.iter().any(|(setting, file)| **setting == SecretSetting::Keep && *file == path);
    let source_stays = |path: &str| config.update.is_some() && matches!(path, UPDATE_SOURCE | UPDATE_KEY);
    let own = OWN.iter().map(|path| (*path).to_owned()).chain(host.key_files.iter().cloned());
    // At once: avahi starts with the network, long before the agent has looked.
    let own = own.chain((!announces(config)).then(|| ANNOUNCEMENT.to_owned()));
    let own = own.chain((host.registries == RegistriesFile::Ours).then(|| REGISTRIES.to_owned()));
    let removed = own
        .filter(|path| !files.iter().any(|file| file.path == *path))
        .filter(|path| !is_kept(path) && !source_stays(path))
        .collect();
    let unpin = pin.is_none() && !host.is_registered;
    let server_pin = host.server_name.as_deref().map(str::to_ascii_lowercase);
    Plan { files, removed, pin, server_pin, unpin, hostname }
}

/// The file that hides another one's Wi-Fi until the next boot. Without it netplan would join either network.
pub fn wifi_drop_in(other: &OtherWifi) -> File {
    File { path: IN_ITS_PLACE.to_owned(), mode: 0o600, content: format!("{HEADER}{}", other.rest) }
}

fn to_import(secret: &SecretSetting) -> Option<String> {
    match secret {
        SecretSetting::Import(secret) => Some(format!("{}\n", secret.expose())),
        SecretSetting::None | SecretSetting::Keep => None,
    }
}

/// Whether a Wi-Fi is asked for whose password is not there.
pub fn lacks_password(config: &Config, host: &KnownHost) -> bool {
    config.wifi.as_ref().is_some_and(|wifi| netplan::password(wifi, host).is_none())
}

/// Whether a Wi-Fi is asked for and set up.
pub fn sets_up_wifi(config: &Config, host: &KnownHost) -> bool {
    netplan::wifi_in_force(config, host).is_some()
}

/// The name that the node shall have: the pinned one, or what the node was registered as (by k3s' own
/// configuration, else by the host name of then), or the host name asked for. Until it is registered, a new
/// host name is the node's name too.
fn node_name(host: &KnownHost, asked: Option<&str>) -> Option<String> {
    let pinned = host.pinned.as_deref();
    let name = if host.is_registered {
        // Without a setting there is nothing to protect the node's name from.
        let registered = host.configured.as_deref().or(host.hostname.as_deref());
        pinned.or_else(|| asked.and(registered))
    } else {
        asked
    };
    name.or(asked).map(str::to_ascii_lowercase)
}

/// `None` where the file is to stay as it is.
fn hosts_file(present: &Hosts, name: Option<&str>) -> Option<String> {
    let present = match present {
        Hosts::Missing => None,
        Hosts::Text(text) => Some(text.as_str()),
        Hosts::Unreadable => return None,
    };
    let wanted = hosts::with_name(present, name);
    (wanted != present.unwrap_or_default()).then_some(wanted)
}

fn cloud_init() -> String {
    format!("{HEADER}preserve_hostname: true\nmanage_etc_hosts: false\n")
}

/// Numbers and truth values are texts too: k3s turns each into a flag.
fn k3s(config: &Config, host: &KnownHost, node_name: Option<&str>) -> Option<String> {
    let mut entries: Vec<(&str, Value)> = Vec::new();
    entries.extend(node_name.map(|name| ("node-name", name.into())));
    match &config.role {
        RoleSetting::Server => entries.extend(serving_names(config).map(|names| ("tls-san+", json!(names)))),
        RoleSetting::Agent(server) => entries.push(("server", server.as_str().into())),
    }
    let has_token = match config.token {
        SecretSetting::Import(_) => true,
        SecretSetting::Keep => host.has_token,
        SecretSetting::None => false,
    };
    if has_token {
        entries.push(("token-file", token_file(&config.role).into()));
    }
    entries.extend(config.k3s_options.iter().map(|(key, value)| match value {
        OptionValue::Single(text) => (key.as_str(), text.as_str().into()),
        OptionValue::List(texts) => (key.as_str(), json!(texts)),
    }));
    (!entries.is_empty()).then(|| with_header(&yaml_text::write(&Ordered(entries))))
}

/// An owner's file may have credentials, and stays.
fn registries(config: &Config, host: &KnownHost) -> Option<String> {
    let is_ours = host.registries != RegistriesFile::Owners;
    config.registries.as_deref().filter(|_| is_ours).map(with_header)
}

fn serving_names(config: &Config) -> Option<Vec<&str>> {
    let own_name = config.hostname.as_ref().map(|host| host.name.as_str());
    let mut names: Vec<_> = own_name.into_iter().collect();
    names.extend(config.api_names.iter().map(String::as_str).filter(|name| Some(*name) != own_name));
    (!names.is_empty()).then_some(names)
}

fn agent_role(role: &RoleSetting) -> Option<String> {
    let is_agent = matches!(role, RoleSetting::Agent(_));
    is_agent.then(|| format!("{HEADER}# With this file k3s-agent.service starts, without it k3s.service.\n"))
}

fn ssh_keys(keys: &[String]) -> Option<String> {
    (!keys.is_empty()).then(|| with_header(&format!("{}\n", keys.join("\n"))))
}

fn timesyncd(servers: &[String]) -> Option<String> {
    (!servers.is_empty()).then(|| format!("{HEADER}[Time]\nNTP={}\n", servers.join(" ")))
}

/// Without its key the source stays as it was.
fn update_source(config: &Config, host: &KnownHost) -> Option<String> {
    let source = &updates(config, host)?.source;
    Some(with_header(&format!(
        "Types: deb\nURIs: {source}\nSuites: stable\nComponents: main\nSigned-By: {UPDATE_KEY}\n"
    )))
}

fn update_timer(config: &Config, host: &KnownHost) -> Option<String> {
    let when = updates(config, host)?.when?;
    Some(with_header(&format!("WEAVER_UPDATE_WHEN={}\n", when.name())))
}

fn apt_conf(config: &Config, host: &KnownHost) -> Option<String> {
    let updates = config.security?;
    Some(with_header(&security_updates::apt_conf(updates, host.machine_id.as_deref())))
}

/// Nothing is installed that no key has signed.
fn updates<'c>(config: &'c Config, host: &KnownHost) -> Option<&'c UpdateSection> {
    config.update.as_ref().filter(|_| host.update_key.is_some())
}

fn data_disk(config: &Config) -> Option<String> {
    let name = config.data_disk.as_ref()?;
    Some(with_header(&format!("{DATA_DISK_KEY}{name}\n")))
}

/// A node that joins has no state of its own.
fn backup(config: &Config) -> Option<String> {
    let Backup { target, when, keep, volumes, recipient } =
        config.backup.as_ref().filter(|_| config.role == RoleSetting::Server)?;
    let volumes = volumes.then(|| "--volumes".to_owned());
    let recipient = recipient.as_ref().map(|recipient| format!("--recipient={recipient}"));
    let options: Vec<String> = volumes.into_iter().chain(recipient).collect();
    Some(with_header(&format!(
        "WEAVER_BACKUP_TARGET={target}\nWEAVER_BACKUP_WHEN={}\nWEAVER_BACKUP_KEEP={keep}\n\
         WEAVER_BACKUP_OPTIONS=\"{}\"\n",
        when.name(),
        options.join(" ")
    )))
}

fn agent_environment(config: &Config) -> Option<String> {
    let wait = config.clock_wait.map(|seconds| format!("WEAVER_CLOCK_WAIT={seconds}\n"));
    let word = |is_on| if is_on { "yes" } else { "no" };
    let announce = config.status.announce.map(|is_on| format!("WEAVER_ANNOUNCE={}\n", word(is_on)));
    let lines: String = wait.into_iter().chain(announce).collect();
    (!lines.is_empty()).then(|| with_header(&lines))
}

fn joins(config: &Config) -> bool {
    matches!(config.role, RoleSetting::Agent(_))
}

fn announces(config: &Config) -> bool {
    config.status.announces(joins(config), config.hostname.is_some())
}

fn page_off(config: &Config) -> Option<String> {
    let is_on = config.status.is_on(joins(config), config.hostname.is_some());
    (!is_on).then(|| format!("{HEADER}# With this file weaver-page.socket does not start.\n"))
}

fn page_environment(listen: &[IpAddr]) -> Option<String> {
    let addresses: Vec<_> = listen.iter().map(ToString::to_string).collect();
    (!addresses.is_empty()).then(|| format!("{HEADER}WEAVER_PAGE_LISTEN={}\n", addresses.join(",")))
}

#[cfg(test)]
mod tests;
