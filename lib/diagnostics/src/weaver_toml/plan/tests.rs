//! Every file that follows from `weaver.toml`, and what a change removes.

use crate::weaver_toml::Secret;
use crate::weaver_toml::owners_netplan::Radio;
use crate::when::When;

use super::*;
use crate::{weaver_toml::parse, yaml_node};

fn of(text: &str, host: &KnownHost) -> Plan {
    plan(&parse(text.as_bytes()).unwrap().config, host)
}

fn content<'a>(plan: &'a Plan, path: &str) -> &'a str {
    let file = plan.files.iter().find(|file| file.path == path);
    &file.unwrap_or_else(|| panic!("no {path}: {plan:?}")).content
}

fn mode(plan: &Plan, path: &str) -> u32 {
    plan.files.iter().find(|file| file.path == path).unwrap().mode
}

/// Of a YAML file, after a parser has read it.
fn value(text: &str, path: &[&str]) -> yaml_node::YamlValue {
    let mut node = yaml_node::parse(text).unwrap();
    for key in path {
        node = node.get(key).unwrap_or_else(|| panic!("no {key} in {text}")).clone();
    }
    node.value
}

fn scalar(text: &str, path: &[&str]) -> String {
    match value(text, path) {
        yaml_node::YamlValue::Scalar(scalar) => scalar,
        other => panic!("{other:?}"),
    }
}

fn list(text: &str, path: &[&str]) -> Vec<String> {
    match value(text, path) {
        yaml_node::YamlValue::List(items) => {
            items.iter().map(|item| item.as_str().unwrap().to_owned()).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn nothing_asked_writes_nothing_and_removes_what_is_ours() {
    let plan =
        of("", &KnownHost { hosts: Hosts::Text("127.0.0.1 localhost\n".to_owned()), ..KnownHost::default() });
    assert_eq!(plan.files, []);
    assert_eq!(plan.removed, OWN);
    assert_eq!((plan.pin, plan.hostname), (None, None));
}

#[test]
fn a_host_name_is_written_everywhere() {
    let plan = of(
        "hostname = \"raspi\"\n[api]\nnames = [\"raspi.lan\", \"raspi\", \"10.0.0.2\"]\n",
        &KnownHost::default(),
    );
    assert_eq!(content(&plan, "/etc/hostname"), "raspi\n");
    assert!(content(&plan, "/etc/hosts").contains("127.0.1.1 raspi # weaver.toml\n"));
    let cloud_init = content(&plan, "/etc/cloud/cloud.cfg.d/98-weaver-hostname.cfg");
    assert_eq!(scalar(cloud_init, &["preserve_hostname"]), "true");
    assert_eq!(scalar(cloud_init, &["manage_etc_hosts"]), "false");
    let k3s = content(&plan, K3S);
    assert_eq!(scalar(k3s, &["node-name"]), "raspi");
    assert_eq!(list(k3s, &["tls-san+"]), ["raspi", "raspi.lan", "10.0.0.2"]);
    assert_eq!(mode(&plan, K3S), 0o600);
    assert_eq!((plan.pin.as_deref(), plan.hostname.as_deref()), (Some("raspi"), Some("raspi")));
}

#[test]
fn registries_are_written_and_removed_and_an_owners_file_stays() {
    const ASKED: &str =
        "[k3s.registries]\nmirrors.\"docker.io\".endpoint = [\"https://registry.lan:5000\"]\n";
    let host = |registries| KnownHost { registries, ..KnownHost::default() };
    for (registries, writes, removes) in [
        (RegistriesFile::Missing, true, false),
        (RegistriesFile::Ours, true, true),
        (RegistriesFile::Owners, false, false),
    ] {
        let asked = of(ASKED, &host(registries));
        assert_eq!(asked.files.iter().any(|file| file.path == REGISTRIES), writes, "{registries:?}");
        assert!(!asked.removed.iter().any(|path| path == REGISTRIES));
        let not_asked = of("", &host(registries));
        assert_eq!(not_asked.removed.iter().any(|path| path == REGISTRIES), removes, "{registries:?}");
        assert!(!not_asked.files.iter().any(|file| file.path == REGISTRIES));
    }
    let plan = of(ASKED, &KnownHost::default());
    let yaml = content(&plan, REGISTRIES);
    assert!(yaml.starts_with(HEADER));
    assert_eq!(list(yaml, &["mirrors", "docker.io", "endpoint"]), ["https://registry.lan:5000"]);
    assert_eq!(mode(&plan, REGISTRIES), 0o600);
}

#[test]
fn the_page_is_turned_off_and_narrowed() {
    let on = of("hostname = \"raspi\"\n", &KnownHost::default());
    assert!([PAGE_OFF, PAGE_ENVIRONMENT].iter().all(|path| on.removed.iter().any(|removed| removed == path)));
    let off = of("[status]\npage = false\n", &KnownHost::default());
    assert!(content(&off, PAGE_OFF).starts_with(HEADER));
    let narrow = of("[status]\nlisten = [\"10.0.0.2\", \"::1\"]\n", &KnownHost::default());
    assert_eq!(content(&narrow, PAGE_ENVIRONMENT), format!("{HEADER}WEAVER_PAGE_LISTEN=10.0.0.2,::1\n"));
    let agent = "[k3s]\nrole = \"agent\"\nserver = \"https://a:6443\"\ntoken = \"t\"\n";
    content(&of(agent, &KnownHost::default()), PAGE_OFF);
    let named = of(&format!("hostname = \"b\"\n{agent}"), &KnownHost::default());
    assert!(named.removed.iter().any(|path| path == PAGE_OFF), "{named:?}");
}

#[test]
fn an_announcement_that_is_not_wanted_goes_before_avahi_starts() {
    for (text, variable, is_removed) in [
        ("", None, false),
        ("hostname = \"raspi\"\n", None, false),
        ("[status]\nannounce = true\n", Some("WEAVER_ANNOUNCE=yes\n"), false),
        ("[status]\nannounce = false\n", Some("WEAVER_ANNOUNCE=no\n"), true),
        ("[status]\npage = false\n", None, true),
        ("[status]\nlisten = [\"127.0.0.1\"]\n", None, true),
        ("[status]\npage = false\nannounce = true\n", Some("WEAVER_ANNOUNCE=yes\n"), false),
    ] {
        let plan = of(text, &KnownHost::default());
        assert_eq!(plan.removed.iter().any(|path| path == ANNOUNCEMENT), is_removed, "{text}");
        match variable {
            Some(line) => assert_eq!(content(&plan, AGENT_ENVIRONMENT), format!("{HEADER}{line}"), "{text}"),
            None => assert!(plan.removed.iter().any(|path| path == AGENT_ENVIRONMENT), "{text}"),
        }
    }
    let both = of("[time]\nwait_seconds = 5\n[status]\nannounce = false\n", &KnownHost::default());
    assert!(content(&both, AGENT_ENVIRONMENT).ends_with("WEAVER_CLOCK_WAIT=5\nWEAVER_ANNOUNCE=no\n"));
}

#[test]
fn a_source_of_updates_waits_for_its_key_and_goes_with_its_section() {
    let text = "[update]\nsource = \"https://example.com/apt\"\nkey = \"a.asc\"\n";
    let host = KnownHost { update_key: Some("a key\n".to_owned()), ..KnownHost::default() };
    let plan = of(text, &host);
    assert_eq!(content(&plan, UPDATE_KEY), "a key\n");
    let source = content(&plan, UPDATE_SOURCE);
    assert!(source.starts_with(HEADER), "{source}");
    assert!(source.contains("\nURIs: https://example.com/apt\nSuites: stable\n"), "{source}");
    assert!(source.ends_with("\nSigned-By: /etc/apt/keyrings/config-weaver.asc\n"), "{source}");
    assert_eq!(
        (mode(&plan, UPDATE_KEY), mode(&plan, UPDATE_SOURCE)),
        (0o644, 0o644),
        "apt reads both as its own user"
    );
    assert!(plan.removed.iter().any(|path| path == UPDATE), "no updates by timer");
    let timed = of(&format!("{text}when = \"daily\"\n"), &host);
    assert!(content(&timed, UPDATE).ends_with("\nWEAVER_UPDATE_WHEN=daily\n"));
    let keyless = of(&format!("{text}when = \"daily\"\n"), &KnownHost::default());
    assert!(keyless.removed.iter().any(|path| path == UPDATE), "what no key signs is not installed");
    let touches = |plan: &Plan| {
        let written = plan.files.iter().map(|file| file.path.as_str());
        let removed = plan.removed.iter().map(String::as_str);
        let ours = |path: &&str| [UPDATE_KEY, UPDATE_SOURCE].contains(path);
        (written.filter(ours).count(), removed.filter(ours).count())
    };
    assert_eq!(touches(&of(text, &KnownHost::default())), (0, 0), "without a key it stays as it was");
    assert_eq!(touches(&of("", &host)), (0, 2));
}

#[test]
fn hosts_is_left_alone_where_it_is_right_or_no_text() {
    for hosts in [Hosts::Text("127.0.1.1 pi # weaver.toml\n".to_owned()), Hosts::Unreadable] {
        let plan = of("hostname = \"pi\"", &KnownHost { hosts, ..KnownHost::default() });
        assert!(plan.files.iter().all(|file| file.path != HOSTS_FILE), "{plan:?}");
    }
    let ours = Hosts::Text("10.0.0.1 nas\n127.0.1.1 pi # weaver.toml\n".to_owned());
    assert_eq!(
        content(&of("", &KnownHost { hosts: ours, ..KnownHost::default() }), HOSTS_FILE),
        "10.0.0.1 nas\n"
    );
}

#[test]
fn the_node_keeps_the_name_it_was_registered_with() {
    let text = |text: &str| Some(text.to_owned());
    for (pinned, is_registered, hostname, asked, want) in [
        (None, false, "old", Some("new"), text("new")),
        (text("first"), false, "old", Some("new"), text("new")),
        (None, true, "Old", Some("new"), text("old")),
        (text("first"), true, "old", Some("new"), text("first")),
        (text("first"), true, "old", None, text("first")),
        (text("first"), false, "old", None, None),
        (None, true, "old", None, None),
        (None, false, "old", None, None),
    ] {
        let host = KnownHost { pinned, is_registered, hostname: text(hostname), ..KnownHost::default() };
        assert_eq!(node_name(&host, asked), want, "{host:?} {asked:?}");
    }
    for (pinned, is_registered, asked, want) in [
        (None, true, Some("new"), text("configured")),
        (text("first"), true, Some("new"), text("first")),
        (None, false, Some("new"), text("new")),
        (None, true, None, None),
    ] {
        let (configured, hostname) = (text("Configured"), text("old"));
        let host = KnownHost { pinned, is_registered, configured, hostname, ..KnownHost::default() };
        assert_eq!(node_name(&host, asked), want, "{host:?} {asked:?}");
    }
    let host = KnownHost { pinned: text("first"), is_registered: true, ..KnownHost::default() };
    let plan = of("hostname = \"new\"", &host);
    assert_eq!(scalar(content(&plan, K3S), &["node-name"]), "first");
    assert_eq!(list(content(&plan, K3S), &["tls-san+"]), ["new"]);
    assert_eq!(content(&plan, HOSTNAME_FILE), "new\n");
}

#[test]
fn a_name_that_no_node_has_is_forgotten() {
    for (text, is_registered, want) in
        [("", false, true), ("hostname = \"new\"", false, false), ("", true, false)]
    {
        let host = KnownHost { pinned: Some("first".to_owned()), is_registered, ..KnownHost::default() };
        let plan = of(text, &host);
        assert_eq!((plan.unpin, plan.pin.is_none()), (want, want), "{text} {is_registered}");
    }
}

#[test]
fn a_token_is_imported_kept_or_dropped() {
    let token = |plan: &Plan| plan.files.iter().any(|file| file.path == TOKEN_FILE);
    let names_it = |plan: &Plan| plan.files.iter().any(|file| file.content.contains("token-file: "));
    let removes_it = |plan: &Plan| plan.removed.iter().any(|path| path == TOKEN_FILE);
    for (text, has_token, want) in [
        ("[k3s]\ntoken = \"hunter2\"\n", false, (true, true, false)),
        ("[k3s]\ntoken = \"hunter2\"\n", true, (true, true, false)),
        ("[k3s]\ntoken = \"\"\n", true, (false, true, false)),
        ("[k3s]\ntoken = \"\"\n", false, (false, false, false)),
        ("", true, (false, false, true)),
    ] {
        let plan = of(text, &KnownHost { has_token, ..KnownHost::default() });
        assert_eq!((token(&plan), names_it(&plan), removes_it(&plan)), want, "{text:?} {has_token}");
        assert!(!format!("{plan:?}").contains("hunter2"), "{plan:?}");
    }
    let plan = of("[k3s]\ntoken = \"hunter2\"\n", &KnownHost::default());
    assert_eq!((content(&plan, TOKEN_FILE), mode(&plan, TOKEN_FILE)), ("hunter2\n", 0o600));
    assert_eq!(scalar(content(&plan, K3S), &["token-file"]), TOKEN_FILE);
    assert!(!content(&plan, K3S).contains("hunter2"));
}

#[test]
fn an_agent_joins_and_serves_no_names() {
    let text = "hostname = \"worker\"\n[k3s]\nrole = \"agent\"\nserver = \"https://raspi.lan:6443\"\n\
                token = \"hunter2\"\n[k3s.options]\nnode-label = [\"a=b\"]\n";
    let plan = of(text, &KnownHost::default());
    let k3s = yaml_node::parse(content(&plan, K3S)).unwrap();
    assert_eq!(scalar(content(&plan, K3S), &["server"]), "https://raspi.lan:6443");
    assert_eq!(scalar(content(&plan, K3S), &["token-file"]), AGENT_TOKEN_FILE);
    assert!(plan.removed.iter().any(|path| path == TOKEN_FILE), "it is of this card's own cluster: {plan:?}");
    assert_eq!(scalar(content(&plan, K3S), &["node-name"]), "worker");
    assert_eq!(list(content(&plan, K3S), &["node-label"]), ["a=b"]);
    assert!(k3s.get("tls-san+").is_none(), "{plan:?}");
    assert!(content(&plan, AGENT_ROLE).starts_with(HEADER));
    let paths: Vec<_> = plan.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(&paths[..3], [AGENT_TOKEN_FILE, K3S, AGENT_ROLE], "each after what it needs");
    for server in ["", "[k3s]\nrole = \"server\"\n"] {
        let plan = of(server, &KnownHost::default());
        assert!(plan.removed.iter().any(|path| path == AGENT_ROLE), "{plan:?}");
    }
}

#[test]
fn options_are_texts_for_k3s_whatever_is_in_them() {
    let text = r#"[k3s.options]
disable = ["traefik"]
"kubelet-arg+" = ["a=b: #c"]
https-listen-port = 6444
embedded-registry = true
selinux = "yes\"evil: x"
"#;
    let plan = of(text, &KnownHost::default());
    let k3s = content(&plan, K3S);
    assert_eq!(list(k3s, &["disable"]), ["traefik"]);
    assert_eq!(list(k3s, &["kubelet-arg+"]), ["a=b: #c"]);
    assert_eq!(scalar(k3s, &["https-listen-port"]), "6444");
    assert_eq!(scalar(k3s, &["embedded-registry"]), "true");
    assert_eq!(scalar(k3s, &["selinux"]), "yes\"evil: x");
}

#[test]
fn ssh_keys_go_to_the_user_of_user_data_or_to_the_admin() {
    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g me";
    let text = format!("[ssh]\nkeys = [\"{KEY}\"]\n");
    let admins = format!("{KEYS_DIR}/{ADMIN}");
    let plan = of(&text, &KnownHost::default());
    assert_eq!(content(&plan, &admins), format!("{HEADER}{KEY}\n"));
    assert_eq!(mode(&plan, &admins), 0o644);
    let host =
        KnownHost { user: Some("ada".to_owned()), key_files: vec![admins.clone()], ..KnownHost::default() };
    let plan = of(&text, &host);
    assert_eq!(content(&plan, "/etc/ssh/weaver_keys/ada"), format!("{HEADER}{KEY}\n"));
    assert!(plan.removed.contains(&admins), "{plan:?}");
    assert!(of("", &host).removed.contains(&admins));
}

#[test]
fn the_wired_network() {
    let own = ["network", "ethernets", "0-weaver"];
    let at = |key: &'static str| [&own[..], &[key]].concat();
    let plan = of(
        "[network]\naddress = \"192.168.1.20/24\"\ngateway = \"192.168.1.1\"\ndns = [\"192.168.1.1\", \"fd00::53\"]\n",
        &KnownHost::default(),
    );
    let text = content(&plan, NETPLAN);
    assert_eq!(mode(&plan, NETPLAN), 0o600);
    assert_eq!(scalar(text, &["network", "version"]), "2");
    assert_eq!(scalar(text, &[&own[..], &["match", "name"]].concat()), "e*");
    assert_eq!(scalar(text, &at("dhcp4")), "false");
    assert_eq!(list(text, &at("addresses")), ["192.168.1.20/24"]);
    assert_eq!(list(text, &[&own[..], &["nameservers", "addresses"]].concat()), ["192.168.1.1", "fd00::53"]);
    let route = |text: &str| {
        let yaml_node::YamlValue::List(routes) = value(text, &at("routes")) else { panic!("{text}") };
        let part = |key: &str| routes[0].get(key).unwrap().as_str().unwrap().to_owned();
        (part("to"), part("via"))
    };
    assert_eq!(route(text), ("0.0.0.0/0".to_owned(), "192.168.1.1".to_owned()));

    let six = of("[network]\naddress = \"fd00::5/64\"\ngateway = \"fe80::1\"\n", &KnownHost::default());
    let text = content(&six, NETPLAN);
    assert_eq!(scalar(text, &at("dhcp4")), "true", "an address of IPv6 says nothing about IPv4");
    assert_eq!(route(text), ("::/0".to_owned(), "fe80::1".to_owned()));

    let dns = of("[network]\ndns = [\"9.9.9.9\"]\n", &KnownHost::default());
    let text = content(&dns, NETPLAN);
    assert_eq!(scalar(text, &at("dhcp4")), "true");
    assert_eq!(scalar(text, &[&own[..], &["dhcp4-overrides", "use-dns"]].concat()), "false");
    assert!(!text.contains("\"\"") && !text.contains("routes"), "{text}");
}

#[test]
fn the_clock() {
    let plan =
        of("[time]\nservers = [\"pool.ntp.org\", \"10.0.0.1\"]\nwait_seconds = 0\n", &KnownHost::default());
    assert!(content(&plan, TIMESYNCD).ends_with("\n[Time]\nNTP=pool.ntp.org 10.0.0.1\n"));
    assert!(content(&plan, AGENT_ENVIRONMENT).ends_with("\nWEAVER_CLOCK_WAIT=0\n"));
}

const WIFI: &str = "[wifi]\ncountry = \"DE\"\nssid = \"Zum \\\"Löwen\\\": #1\"\npassword = ";
/// What needs quotes in YAML.
const PASSWORD: &str = "hunter2: \\\"{#";

fn wifi(password: &str) -> String {
    format!("{WIFI}'{password}'\n")
}

#[test]
fn the_wifi_is_that_of_the_boards_own_radio() {
    let own = ["network", "wifis", "wlan0"];
    let at = |key: &'static str| [&own[..], &[key]].concat();
    let plan = of(&wifi(PASSWORD), &KnownHost::default());
    let text = content(&plan, NETPLAN);
    assert_eq!(mode(&plan, NETPLAN), 0o600);
    assert_eq!(scalar(text, &["network", "version"]), "2");
    assert_eq!(scalar(text, &at("regulatory-domain")), "DE");
    assert_eq!((scalar(text, &at("optional")), scalar(text, &at("dhcp4"))), ("true".into(), "true".into()));
    let network = [&own[..], &["access-points", "Zum \"Löwen\": #1"]].concat();
    assert_eq!(scalar(text, &[&network[..], &["password"]].concat()), PASSWORD);
    assert!(!text.contains("hidden") && !text.contains("ethernets"), "{text}");
    let line = text.lines().find(|line| line.contains("hunter2")).unwrap();
    assert!(
        line.trim_start().starts_with("password: "),
        "netplan repeats lines that it complains of: {line}"
    );

    let both = of(
        &format!("{}hidden = true\n[network]\ndns = [\"9.9.9.9\"]\n", wifi(PASSWORD)),
        &KnownHost::default(),
    );
    let text = content(&both, NETPLAN);
    assert_eq!(scalar(text, &[&network[..], &["hidden"]].concat()), "true");
    assert_eq!(scalar(text, &["network", "ethernets", "0-weaver", "dhcp4"]), "true");
}

#[test]
fn the_wifis_password_is_imported_kept_or_dropped() {
    let earlier = Some(Secret::new("earlier1".to_owned()));
    for (text, wifi_password, stored, in_force, removed) in [
        (wifi(PASSWORD), None, Some(PASSWORD), Some(PASSWORD), false),
        (wifi(PASSWORD), earlier.clone(), Some(PASSWORD), Some(PASSWORD), false),
        (wifi(""), earlier.clone(), None, Some("earlier1"), false),
        (wifi(""), None, None, None, false),
        (String::new(), earlier, None, None, true),
    ] {
        let host = KnownHost { wifi_password, ..KnownHost::default() };
        let plan = of(&text, &host);
        let file = |path: &str| plan.files.iter().find(|file| file.path == path);
        let has = file(WIFI_PASSWORD_FILE).map(|file| (file.content.clone(), file.mode));
        assert_eq!(has, stored.map(|password| (format!("{password}\n"), 0o600)), "{text}");
        let netplan = file(NETPLAN).map(|file| file.content.as_str());
        assert_eq!(netplan.is_some(), in_force.is_some(), "{text}");
        if let Some((netplan, password)) = netplan.zip(in_force) {
            let network = ["network", "wifis", "wlan0", "access-points", "Zum \"Löwen\": #1", "password"];
            assert_eq!(scalar(netplan, &network), password);
        }
        assert_eq!(plan.removed.iter().any(|path| path == WIFI_PASSWORD_FILE), removed, "{text}");
        let config = parse(text.as_bytes()).unwrap().config;
        assert_eq!(lacks_password(&config, &host), !text.is_empty() && in_force.is_none());
        assert!(!format!("{plan:?}{host:?}{config:?}").contains("hunter2"), "{plan:?}");
    }
}

#[test]
fn another_file_makes_room_for_the_wifi_and_only_for_it() {
    let rest =
        "network: {\"version\": \"2\", \"ethernets\": {\"end0\": {\"password\": \"hunter2\"}}}\n".to_owned();
    let place = crate::finding::Place::at("/n", 3, 5);
    let host =
        KnownHost { other_wifi: Some(OtherWifi { place, rest: rest.clone() }), ..KnownHost::default() };
    assert!(!format!("{host:?}").contains("hunter2"), "{host:?}");
    let plan = of(&wifi("12345678"), &host);
    assert_eq!(content(&plan, IN_ITS_PLACE), format!("{HEADER}{rest}"));
    assert_eq!(mode(&plan, IN_ITS_PLACE), 0o600);
    for text in [String::new(), "[network]\ndns = [\"9.9.9.9\"]\n".to_owned(), wifi("")] {
        let plan = of(&text, &host);
        assert!(plan.removed.iter().any(|path| path == IN_ITS_PLACE), "{text}: {plan:?}");
    }
    let alone = of(&wifi("12345678"), &KnownHost::default());
    assert!(alone.removed.iter().any(|path| path == IN_ITS_PLACE), "{alone:?}");
    assert_eq!(file_name(IN_ITS_PLACE), file_name(CLOUD_INITS_NETPLAN), "netplan reads one file of a name");
}

#[test]
fn a_radio_that_the_owner_has_as_no_wifi_stays_so_and_the_password_is_kept() {
    let place = crate::finding::Place::at("/n", 3, 5);
    let rest = "network: {}\n".to_owned();
    let other_wifi = Some(OtherWifi { place: place.clone(), rest });
    let no_wifi = Some(Radio::NoWifi(place.clone()));
    let host = KnownHost { other_wifi, owners_radio: no_wifi, ..KnownHost::default() };
    let text = format!("{}[network]\ndns = [\"9.9.9.9\"]\n", wifi("12345678"));
    let plan = of(&text, &host);
    assert!(!content(&plan, NETPLAN).contains("wlan0") && content(&plan, NETPLAN).contains("9.9.9.9"));
    assert_eq!(content(&plan, WIFI_PASSWORD_FILE), "12345678\n");
    assert!(plan.removed.iter().any(|path| path == IN_ITS_PLACE), "cloud-init's file is as without [wifi]");
    let config = parse(text.as_bytes()).unwrap().config;
    assert!(!lacks_password(&config, &host) && !sets_up_wifi(&config, &host));
    let host = KnownHost { owners_radio: Some(Radio::Wifi(place)), ..host };
    assert!(content(&of(&text, &host), NETPLAN).contains("wlan0") && sets_up_wifi(&config, &host));
}

#[test]
fn the_disk_of_k3s_data_is_that_of_any_role() {
    let joins = "[k3s]\nrole = \"agent\"\nserver = \"https://raspi:6443\"\ntoken = \"a\"\n";
    for role in ["", joins] {
        let text = format!("{role}[storage]\ndata = \"LABEL=ssd\"\n");
        let plan = of(&text, &KnownHost::default());
        assert_eq!(content(&plan, DATA_DISK), format!("{HEADER}WEAVER_DATA_DISK=LABEL=ssd\n"));
    }
    assert!(of("", &KnownHost::default()).removed.iter().any(|path| path == DATA_DISK));
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap()
}

#[test]
fn the_timers_backups_are_those_of_a_server() {
    let recipient = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p";
    let backup = Backup {
        target: "/mnt/usb".to_owned(),
        when: When::Daily,
        keep: 7,
        volumes: true,
        recipient: Some(recipient.to_owned()),
    };
    let written = |config: &Config| {
        let Plan { files, removed, .. } = plan(config, &KnownHost::default());
        assert_ne!(files.iter().any(|file| file.path == BACKUP), removed.iter().any(|path| path == BACKUP));
        files.into_iter().find(|file| file.path == BACKUP).map(|file| file.content)
    };
    let server = Config { backup: Some(backup), ..Config::default() };
    let text = format!(
        "WEAVER_BACKUP_TARGET=/mnt/usb\nWEAVER_BACKUP_WHEN=daily\nWEAVER_BACKUP_KEEP=7\n\
         WEAVER_BACKUP_OPTIONS=\"--volumes --recipient={recipient}\"\n"
    );
    assert_eq!(written(&server), Some(format!("{HEADER}{text}")));
    assert_eq!(
        written(&Config { role: RoleSetting::Agent("https://raspi:6443".to_owned()), ..server }),
        None
    );
    assert_eq!(written(&Config::default()), None);
}
