//! What boot-config says: the findings about `weaver.toml`.
//!
//! None of them is of severity `fail`: whatever is wrong with this file, the
//! host starts, in its last good state.

use super::{
    Config, Fault, RoleSetting, SecretSetting,
    companion::UnreadableFile,
    join_token::{self, Form},
    plan::{self, KnownHost},
    user_data::UserData,
};
use crate::finding::{Code, Finding, Place, Remedy};
use crate::host::storage::FSTAB;
use crate::shell::quoted;

/// More faults than this are only counted.
const MOST_SHOWN: usize = 50;
const KEPT: &str = "none of it was applied, the last valid settings stay";

pub fn invalid(file: &str, faults: &[Fault]) -> Finding {
    let count = if faults.len() == 1 { "a fault".to_owned() } else { format!("{} faults", faults.len()) };
    let message = format!("{file} has {count}: {KEPT}");
    let mut explain = "correct the lines below and start again".to_owned();
    if faults.len() > MOST_SHOWN {
        explain = format!(
            "correct the lines below ({} more are not shown) and start again",
            faults.len() - MOST_SHOWN
        );
    }
    let finding = Finding::new(Code::WeaverTomlInvalid, message)
        .remedy(Remedy::new(explain).command("sudo weaver-node-agent boot-config").command("sudo reboot"));
    faults.iter().take(MOST_SHOWN).fold(finding, |finding, fault| {
        finding.saw(Place::at(file, fault.line, fault.column), format!("{}; {}", fault.message, fault.remedy))
    })
}

/// The file, or the partition that it lies on, could not be read.
pub fn unreadable(file: &str, why: &str) -> Finding {
    let message = format!("{file} could not be read: the last valid settings stay");
    Finding::new(Code::WeaverTomlUnreadable, message).saw(Place::file(file), why).remedy(
        Remedy::new("check the card's first partition, from another computer or here")
            .command("findmnt /boot/firmware"),
    )
}

/// What is in force now. Says the same at every start, so that the report does not change.
pub fn in_force(file: &str, config: Option<&Config>, key_owner: &str) -> Finding {
    let message = match config {
        None => format!("there is no {file}: no settings to apply"),
        Some(config) => match asked(config, key_owner).as_slice() {
            [] => format!("{file} has no settings"),
            asked => format!("{file} was applied: {}", asked.join(", ")),
        },
    };
    Finding::new(Code::WeaverTomlInForce, message)
}

/// What it asks for, each in a few words.
pub fn asked(config: &Config, key_owner: &str) -> Vec<String> {
    let counted = |list: &[String], what: &str| {
        let plural = if list.len() == 1 { "" } else { "s" };
        (!list.is_empty()).then(|| format!("{} {what}{plural}", list.len()))
    };
    let options: Vec<_> = config.k3s_options.iter().map(|(key, _)| key.clone()).collect();
    [
        config.hostname.as_ref().map(|host| format!("host name {}", host.name)),
        counted(&config.api_names, "API name"),
        counted(&config.ssh_keys, "ssh key").map(|keys| format!("{keys} for {key_owner}")),
        config.network.address.map(|address| format!("address {address}")),
        (!config.network.dns.is_empty()).then(|| "name servers".to_owned()),
        config.wifi.as_ref().map(|wifi| format!("a Wi-Fi in {}", wifi.country)),
        counted(&config.time_servers, "time server"),
        config.clock_wait.map(|seconds| format!("{seconds} s for the clock")),
        match &config.role {
            RoleSetting::Server => None,
            RoleSetting::Agent(server) => Some(format!("agent of {server}")),
        },
        (config.token != SecretSetting::None).then(|| "a token".to_owned()),
        counted(&options, "k3s option"),
        config.registries.as_ref().map(|_| "registries".to_owned()),
        config.data_disk.as_ref().map(|name| format!("k3s' data to {name}")),
        config.update.as_ref().map(|update| format!("updates from {}", update.source)),
        config.security.map(|_| "security updates".to_owned()),
        (config.status.page == Some(false)).then(|| "no page".to_owned()),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// `user-data` wants another host name. That cloud-init shall write `/etc/hosts`, as Imager always has it,
/// matters only then.
pub fn clash(file: &str, config: &Config, user_data: &UserData) -> Option<Finding> {
    let host = config.hostname.as_ref()?;
    let others: Vec<_> = user_data.host_names.iter().filter(|(name, _)| *name != host.name).collect();
    if others.is_empty() {
        return None;
    }
    let message = format!("user-data and {file} disagree about the host's name: {file} wins");
    let mut finding = Finding::new(Code::UserDataClash, message)
        .saw(Place::at(file, host.line, host.column), format!("hostname {}", host.name))
        .remedy(Remedy::new("remove the lines of user-data named here, or `hostname` from weaver.toml"));
    for (name, place) in others {
        finding = finding.saw(place.clone(), format!("host name {name}"));
    }
    if let Some(place) = &user_data.manages_hosts {
        let saw = "manage_etc_hosts: without effect on the card, the name in /etc/hosts is weaver.toml's";
        finding = finding.saw(place.clone(), saw);
    }
    Some(finding)
}

/// cloud-init's files ask for a Wi-Fi, too. `other` is where; neither network is named, since this is reported to the
/// cluster.
pub fn wifi_clash(file: &str, config: &Config, other: Option<&Place>) -> Option<Finding> {
    let (wifi, other) = (config.wifi.as_ref()?, other?);
    let message = format!("{} and {file} both set a Wi-Fi network: {file} wins", other.file);
    let remedy = format!("remove the Wi-Fi network from {}, or [wifi] from {file}", other.file);
    let finding = Finding::new(Code::UserDataClash, message)
        .saw(Place::at(file, wifi.line, wifi.column), "the network that is joined")
        .saw(other.clone(), "a network that is not")
        .remedy(Remedy::new(remedy));
    Some(finding)
}

/// `network-config` or a netplan file is no YAML, so whether it asks for a Wi-Fi is not known; it matters to
/// one that is asked for here.
pub fn network_config_unknown(config: &Config, unknown: UnreadableFile) -> Option<Finding> {
    config.wifi.as_ref()?;
    let file = &unknown.place.file;
    let message = format!("{file} could not be read: whether it also sets a Wi-Fi network is unknown");
    let remedy = Remedy::new(format!("correct {file}, or remove it"));
    Some(Finding::new(Code::UserDataClash, message).saw(unknown.place, unknown.why).remedy(remedy))
}

/// The password shall be the one that was imported, and none was.
pub fn wifi_password_missing(file: &str, config: &Config) -> Option<Finding> {
    let wifi = config.wifi.as_ref()?;
    let message = format!("{file} keeps the earlier Wi-Fi password, but none is stored: no Wi-Fi is set up");
    let finding = Finding::new(Code::HostNotConfigured, message)
        .saw(Place::at(file, wifi.line, wifi.column), "a network with an empty password")
        .remedy(Remedy::new("write the password into `password` below [wifi], and start again"));
    Some(finding)
}

/// `user-data` asks for packages, and a first boot of the card downloads nothing.
pub fn packages_left(user_data: &UserData) -> Option<Finding> {
    let names: Vec<_> = user_data.packages.iter().map(|(name, _)| quoted(name)).collect();
    if names.is_empty() {
        return None;
    }
    let message = "user-data lists packages: the card installs none at the first boot";
    let remedy = Remedy::new("once the node has a network")
        .command("sudo apt-get update")
        .command(format!("sudo apt-get install {}", names.join(" ")));
    let finding = Finding::new(Code::HostNotConfigured, message).remedy(remedy);
    let places = user_data.packages.iter();
    Some(places.fold(finding, |finding, (name, place)| finding.saw(place.clone(), format!("package {name}"))))
}

/// `user-data` is no YAML, so its user is not known; it matters to ssh keys.
pub fn user_data_unknown(config: &Config, unknown: UnreadableFile) -> Option<Finding> {
    if config.ssh_keys.is_empty() {
        return None;
    }
    let message = format!("user-data could not be read: ssh keys go to {}", plan::ADMIN);
    let finding = Finding::new(Code::UserDataClash, message)
        .saw(unknown.place, unknown.why)
        .remedy(Remedy::new("correct user-data, or remove it"));
    Some(finding)
}

/// Secrets were imported and could not be blanked.
pub fn secrets_left(file: &str, config: &Config, why: &str) -> Finding {
    let imports = |setting: &SecretSetting| matches!(setting, SecretSetting::Import(_));
    let (mut what, mut lines) = (Vec::new(), Vec::new());
    if config.wifi.as_ref().is_some_and(|wifi| imports(&wifi.password)) {
        what.push("the Wi-Fi's password");
        lines.push("`password = \"\"`");
    }
    if imports(&config.token) {
        what.push("k3s' token");
        lines.push("`token = \"\"`");
    }
    let message = format!("imported, and still in {file}: {}", what.join(" and "));
    let explain = format!("write {} there, from another computer or here", lines.join(" and "));
    Finding::new(Code::TokenLeftOnCard, message)
        .saw(Place::file(file), why)
        .remedy(Remedy::new(explain).command(crate::host::storage::remounted("/boot/firmware")))
}

/// What fsck saved of a `weaver.toml` that was cut off while a secret was blanked could not be removed.
pub fn secret_saved(file: &str, why: &str) -> Finding {
    let message = format!("{file} holds a secret that was imported, and could not be removed");
    let remedy = Remedy::new(format!("remove {file}")).command(format!("sudo rm {}", quoted(file)));
    Finding::new(Code::TokenLeftOnCard, message).saw(Place::file(file), why).remedy(remedy)
}

/// The node joins any server that answers at that address: its token has no hash of the server's CA.
pub fn join_unproven(file: &str, config: &Config, host: &KnownHost) -> Option<Finding> {
    let RoleSetting::Agent(server) = &config.role else { return None };
    let proves = match &config.token {
        SecretSetting::Import(token) => matches!(join_token::form(token.expose()), Form::Whole(_)),
        SecretSetting::Keep => !host.has_token || host.has_whole_token,
        SecretSetting::None => true,
    };
    let message = format!("the identity of {server} is not verified: the token has no hash of its CA");
    let remedy = Remedy::new("write the whole token, which begins with K10, into weaver.toml; on the server")
        .command("sudo cat /var/lib/rancher/k3s/server/node-token");
    let finding = Finding::new(Code::JoinUnproven, message).remedy(remedy);
    (!proves).then(|| {
        finding.saw(Place::file(file), "role agent, and a token that does not begin with K10<hash>::")
    })
}

/// The node should join, and the token to keep was never imported.
pub fn join_without_token(file: &str, config: &Config, host: &KnownHost) -> Option<Finding> {
    let RoleSetting::Agent(server) = &config.role else { return None };
    if config.token != SecretSetting::Keep || host.has_token {
        return None;
    }
    let message = format!("the node cannot join {server}: it has no token");
    let saw = "token = \"\" keeps a token that was imported for an agent, and none was";
    let remedy = Remedy::new("write into `token` there what this shows on the server, and reboot")
        .command("sudo cat /var/lib/rancher/k3s/server/node-token");
    Some(Finding::new(Code::HostNotConfigured, message).saw(Place::file(file), saw).remedy(remedy))
}

/// Something that is asked for could not be made.
pub fn not_configured(path: &str, why: &str) -> Finding {
    let message = format!("{path} could not be changed as weaver.toml asks");
    Finding::new(Code::HostNotConfigured, message).saw(Place::file(path), why).remedy(
        Remedy::new("free space or mount the disk writable, then")
            .command("sudo weaver-node-agent boot-config"),
    )
}

/// A disk that is mounted later would hide what boot-config hands to k3s.
pub fn data_not_mounted(data_dir: &str, mount_point: &str) -> Finding {
    const DROP_INS: &str = "/etc/systemd/system/weaver-boot-config.service.d";
    let message = format!(
        "k3s gets no manifests and no images from the boot partition: its data is in {data_dir}, and nothing was mounted \
         at {mount_point}"
    );
    let unit = format!("systemd-escape --path --suffix=mount {}", quoted(mount_point));
    let remedy = Remedy::new(
        "plug the disk in, if it is missing. If it is mounted later in the boot, have boot-config wait for it by this \
         drop-in",
    )
    .command(format!("sudo mkdir -p {DROP_INS}"))
    .command(format!("printf '[Unit]\\nAfter=%s\\n' \"$({unit})\" | sudo tee {DROP_INS}/50-data-dir.conf"))
    .command("sudo reboot");
    let finding = Finding::new(Code::HostNotConfigured, message);
    finding.saw(Place::file(FSTAB), format!("it mounts a disk at {mount_point}")).remedy(remedy)
}

/// netplan does not take what its files say together.
pub fn networks_refused(program: &str, why: &str) -> Finding {
    let message = "netplan refuses the networks: at the next boot none of them is set up";
    Finding::new(Code::HostNotConfigured, message)
        .saw(Place::file(program), why)
        .remedy(Remedy::new("find the line and correct it").command("sudo netplan generate"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weaver_toml::update;
    use crate::{finding::Severity, weaver_toml};

    const WIFI: &str = "[wifi]\ncountry = \"DE\"\nssid = \"attic\"\npassword = \"hunter2hunter2\"\n";

    fn config(text: &str) -> Config {
        weaver_toml::parse(text.as_bytes()).unwrap().config
    }

    #[test]
    fn many_faults_are_counted_and_not_all_shown() {
        let fault = |line| Fault { line, column: 2, message: "m".to_owned(), remedy: "r".to_owned() };
        let finding = invalid("/w", &(1..=60).map(fault).collect::<Vec<_>>());
        assert_eq!(finding.evidence.len(), 50);
        assert_eq!(finding.evidence[1].to_string(), "/w:2:2: m; r");
        assert!(finding.message.contains("60 faults"), "{finding:?}");
        assert!(finding.remedy.unwrap().explain.contains("10 more"));
    }

    #[test]
    fn a_clash_names_both_lines() {
        let config = config("\nhostname = \"pi\"\n");
        let user_data = |name: &str| UserData {
            host_names: vec![(name.to_owned(), Place::at("/u", 2, 11))],
            ..UserData::default()
        };
        let finding = clash("/w", &config, &user_data("box")).unwrap();
        let seen: Vec<_> = finding.evidence.iter().map(|e| e.place.to_string()).collect();
        assert_eq!(seen, ["/w:2:1", "/u:2:11"]);
        assert!(clash("/w", &config, &user_data("pi")).is_none());
        assert!(clash("/w", &Config::default(), &user_data("box")).is_none());
        let hosts = |name| UserData { manages_hosts: Some(Place::at("/u", 3, 1)), ..user_data(name) };
        assert_eq!(clash("/w", &config, &hosts("pi")), None, "as Imager writes it");
        let saw = clash("/w", &config, &hosts("box")).unwrap().evidence[2].saw.clone();
        assert!(saw.contains("manage_etc_hosts: without effect") && saw.contains("/etc/hosts"), "{saw}");
    }

    #[test]
    fn a_clash_of_two_networks_names_both_lines_and_neither_network() {
        let other = Place::at("/n", 9, 5);
        let finding = wifi_clash("/w", &config(WIFI), Some(&other)).unwrap();
        let seen: Vec<_> = finding.evidence.iter().map(|e| e.place.to_string()).collect();
        assert_eq!(seen, ["/w:3:1", "/n:9:5"]);
        let shown = format!("{finding:?}");
        assert!(!shown.contains("attic") && !shown.contains("hunter2"), "{shown}");
        assert!(wifi_clash("/w", &config(WIFI), None).is_none());
        assert!(wifi_clash("/w", &Config::default(), Some(&other)).is_none());
    }

    #[test]
    fn secrets_that_are_left_are_named_by_their_keys() {
        let token = "[k3s]\ntoken = \"hunter2\"\n";
        for (text, message, explain) in [
            (token, "in /w: k3s' token", "write `token = \"\"` there"),
            (WIFI, "in /w: the Wi-Fi's password", "write `password = \"\"` there"),
            (
                &*format!("{WIFI}{token}"),
                "in /w: the Wi-Fi's password and k3s' token",
                "write `password = \"\"` and `token = \"\"` there",
            ),
        ] {
            let finding = secrets_left("/w", &config(text), "y");
            assert!(finding.message.ends_with(message), "{finding:?}");
            assert!(!format!("{finding:?}").contains("hunter2"), "{finding:?}");
            assert!(finding.remedy.unwrap().explain.starts_with(explain));
        }
    }

    #[test]
    fn what_is_in_force() {
        let all = config("hostname = \"pi\"\n[api]\nnames = [\"a\", \"b\"]\n[k3s]\ntoken = \"s3cret\"\n");
        assert_eq!(
            in_force("/w", Some(&all), "ada").message,
            "/w was applied: host name pi, 2 API names, a token"
        );
        assert_eq!(in_force("/w", Some(&Config::default()), "ada").message, "/w has no settings");
        assert!(in_force("/w", None, "ada").message.starts_with("there is no /w"));
        let agent = config("[k3s]\nrole = \"agent\"\nserver = \"https://a:6443\"\ntoken = \"s3cret\"\n");
        assert_eq!(
            in_force("/w", Some(&agent), "ada").message,
            "/w was applied: agent of https://a:6443, a token"
        );
    }

    #[test]
    fn a_join_without_proof_or_without_a_token_is_reported_at_every_start() {
        let hash = "0".repeat(64);
        let whole = format!("K10{hash}::server:hunter2");
        let kept =
            |has_token, has_whole_token| KnownHost { has_token, has_whole_token, ..KnownHost::default() };
        for (role, token, host, unproven, without) in [
            ("agent", whole.as_str(), kept(false, false), false, false),
            ("agent", whole.as_str(), kept(true, false), false, false),
            ("agent", "hunter2", kept(false, false), true, false),
            ("agent", "hunter2", kept(true, true), true, false),
            ("agent", "", kept(true, true), false, false),
            ("agent", "", kept(true, false), true, false),
            ("agent", "", kept(false, false), false, true),
            ("server", "hunter2", kept(false, false), false, false),
            ("server", "", kept(false, false), false, false),
        ] {
            let server = if role == "agent" { "server = \"https://raspi.lan:6443\"\n" } else { "" };
            let config = config(&format!("[k3s]\nrole = \"{role}\"\n{server}token = \"{token}\"\n"));
            let case = format!("{role} {} {host:?}", token.len());
            let found = [join_unproven("/w", &config, &host), join_without_token("/w", &config, &host)];
            assert_eq!(found.each_ref().map(Option::is_some), [unproven, without], "{case}: {found:?}");
            for finding in found.into_iter().flatten() {
                assert_eq!(finding.severity(), Severity::Warn, "{case}");
                assert!(finding.message.contains("https://raspi.lan:6443"), "{finding:?}");
                assert!(!format!("{finding:?}").contains("hunter2"), "{finding:?}");
            }
        }
    }

    #[test]
    fn nothing_here_stops_a_host() {
        let unknown = || UnreadableFile { place: Place::file("/u"), why: "y".to_owned() };
        let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g";
        for finding in [
            invalid("/w", &[]),
            unreadable("/w", "y"),
            in_force("/w", None, "a"),
            user_data_unknown(&config(&format!("[ssh]\nkeys = [\"{key}\"]\n")), unknown()).unwrap(),
            secrets_left("/w", &Config::default(), "y"),
            network_config_unknown(&config(WIFI), unknown()).unwrap(),
            wifi_clash("/w", &config(WIFI), Some(&Place::file("/n"))).unwrap(),
            wifi_password_missing("/w", &config(WIFI)).unwrap(),
            update::key_unusable("/k", "y"),
            not_configured("/e", "y"),
        ] {
            assert!(finding.severity() < Severity::Fail, "{finding:?}");
        }
    }
}
