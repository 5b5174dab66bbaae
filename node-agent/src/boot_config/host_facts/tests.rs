use weaver_diagnostics::finding::Place;

use super::*;
use crate::host_root::fixture;

const STATE: &str = "/var/lib/weaver/boot-config";

fn facts(files: &[(&str, &str)]) -> CardFacts {
    facts_for(files, &Config::default())
}

fn facts_for(files: &[(&str, &str)], config: &Config) -> CardFacts {
    let (_dir, root) = fixture::host(files);
    collect(&root, Path::new(STATE), Path::new("/boot/firmware/weaver.toml"), config)
}

#[test]
fn a_bare_host_has_nothing() {
    let facts = facts(&[]);
    assert_eq!((facts.host, facts.findings.len()), (KnownHost::default(), 0));
}

#[test]
fn everything_there_is() {
    let ours = format!("{HEADER}ssh-ed25519 …\n");
    let facts = facts(&[
        ("/var/lib/weaver/boot-config/node-name", "first\n"),
        ("/etc/rancher/node/password", "x"),
        ("/etc/rancher/k3s/config.yaml", "node-name: first\n"),
        (K3S, "node-name: ours\n"),
        ("/etc/hostname", "Pi\n"),
        ("/etc/netplan/60-wifi.yaml", "network: {wifis: {wlan0: {access-points: {a: {}}}}}\n"),
        ("/etc/hosts", "127.0.0.1 localhost\n"),
        ("/boot/firmware/user-data", "#cloud-config\nuser: ada\n"),
        ("/boot/firmware/network-config", "wifis: {wlan0: {}}\nversion: 2\n"),
        ("/var/lib/weaver/k3s.token", "hunter2\n"),
        ("/var/lib/weaver/wifi.password", " hunter2 \n"),
        ("/etc/ssh/weaver_keys/ada", &ours),
        ("/etc/ssh/weaver_keys/own", "ssh-ed25519 …\n"),
        (plan::REGISTRIES, "mirrors: {}\n"),
        ("/etc/machine-id", "0123456789abcdef0123456789abcdef\n"),
    ]);
    let want = KnownHost {
        pinned: Some("first".to_owned()),
        is_registered: true,
        server_name: None,
        configured: Some("first".to_owned()),
        hostname: Some("Pi".to_owned()),
        hosts: Hosts::Text("127.0.0.1 localhost\n".to_owned()),
        user: Some("ada".to_owned()),
        has_token: true,
        has_whole_token: false,
        wifi_password: Some(Secret::new(" hunter2 ".to_owned())),
        other_wifi: Some(OtherWifi {
            place: Place::at("/boot/firmware/network-config", 1, 9),
            rest: "network:\n  version: \"2\"\n".to_owned(),
        }),
        owners_radio: Some(Radio::Wifi(Place::at("/etc/netplan/60-wifi.yaml", 1, 19))),
        update_key: None,
        machine_id: Some("0123456789abcdef0123456789abcdef".to_owned()),
        registries: RegistriesFile::Owners,
        key_files: vec!["/etc/ssh/weaver_keys/ada".to_owned()],
    };
    assert_eq!(facts.host, want);
}

#[test]
fn the_key_of_the_source_is_next_to_weaver_toml_or_where_it_says() {
    let public = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmDME\n-----END PGP PUBLIC KEY BLOCK-----\n";
    let private = public.replace("PUBLIC", "PRIVATE");
    for (key, path, content, want) in [
        ("a.asc", "/boot/firmware/a.asc", public, None),
        ("/etc/a.asc", "/etc/a.asc", public, None),
        ("a.asc", "/boot/firmware/b.asc", public, Some("there is no such file")),
        ("a.asc", "/boot/firmware/a.asc", "hello\n", Some("gpg --armor --export")),
        ("a.asc", "/boot/firmware/a.asc", "\u{1}", Some("binary")),
        ("a.asc", "/boot/firmware/a.asc", private.as_str(), Some("a private key")),
    ] {
        let text = format!("[update]\nsource = \"https://a/b\"\nkey = \"{key}\"\n");
        let config = weaver_diagnostics::weaver_toml::parse(text.as_bytes()).unwrap().config;
        let facts = facts_for(&[(path, content)], &config);
        assert_eq!(facts.host.update_key.as_deref(), want.is_none().then_some(content), "{content}");
        let said: Vec<_> = facts.findings.iter().map(|finding| format!("{finding:?}")).collect();
        assert_eq!(said.len(), usize::from(want.is_some()), "{said:?}");
        assert!(want.is_none_or(|want| said[0].contains(want)), "{said:?}");
        assert!(said.iter().all(|said| !said.contains("mDME")), "{said:?}");
    }
}

#[test]
fn a_token_is_known_by_its_form() {
    let whole = format!("K10{}::server:hunter2\n", "0".repeat(64));
    for (token, want) in [(whole.as_str(), true), ("hunter2\n", false), ("K10::server:hunter2\n", false)] {
        let host = facts(&[("/var/lib/weaver/k3s.token", token)]).host;
        assert_eq!((host.has_token, host.has_whole_token), (true, want), "{want}");
    }
}

#[test]
fn a_name_is_pinned_for_a_role_and_the_data_of_k3s_are_where_its_configuration_says() {
    let agent = Config { role: RoleSetting::Agent("https://raspi.lan:6443".to_owned()), ..Config::default() };
    let (servers, agents) =
        ("/var/lib/weaver/boot-config/node-name", "/var/lib/weaver/boot-config/agent-name");
    let data = [
        ("/etc/rancher/k3s/config.yaml", "data-dir: /data\n"),
        ("/data/agent/client-kubelet.crt", "x"),
        ("/data/server/tls/client-ca.crt", "x"),
        ("/etc/hostname", "Pi\n"),
    ];
    for (pin, as_server, as_agent, server_name) in [
        ((servers, "raspi"), Some("raspi"), None, None),
        ((agents, "worker"), None, Some("worker"), Some("Pi")),
    ] {
        let files = [&data[..], &[pin]].concat();
        let facts = |config| facts_for(&files, config).host;
        let (server, agent) = (facts(&Config::default()), facts(&agent));
        assert_eq!((server.pinned.as_deref(), agent.pinned.as_deref()), (as_server, as_agent));
        assert!(server.is_registered && agent.is_registered && server.server_name.is_none());
        assert_eq!(agent.server_name.as_deref(), server_name, "{pin:?}");
    }
}

#[test]
fn a_token_counts_for_the_role_that_it_was_imported_for() {
    let agent = Config { role: RoleSetting::Agent("https://raspi.lan:6443".to_owned()), ..Config::default() };
    for (path, for_a_server, for_an_agent) in
        [(plan::TOKEN_FILE, true, false), (plan::AGENT_TOKEN_FILE, false, true)]
    {
        let has_token = |config| facts_for(&[(path, "hunter2\n")], config).host.has_token;
        assert_eq!(
            (has_token(&Config::default()), has_token(&agent)),
            (for_a_server, for_an_agent),
            "{path}"
        );
    }
}

#[test]
fn the_wifi_that_cloud_init_set_up_earlier_counts_where_its_file_is_gone_or_no_yaml() {
    let earlier = (CLOUD_INITS_NETPLAN, "network:\n  version: 2\n  wifis:\n    wlan0: {}\n");
    for now in ["", "network: {version: 2}\n", "network: {\n"] {
        let facts = facts(&[("/boot/firmware/network-config", now), earlier]);
        let place = facts.host.other_wifi.unwrap().place;
        assert_eq!(place, Place::at(CLOUD_INITS_NETPLAN, 4, 5), "{now:?}");
    }
}

#[test]
fn the_owners_netplan_files_count_as_netplan_reads_them() {
    let wifi = "network: {wifis: {wlan0: {access-points: {a: {}}}}}\n";
    let port = "network: {ethernets: {wlan0: {}}}\n";
    let at = |path: &str, column| Place::at(path, 1, column);
    for (files, want) in [
        (&[("/lib/netplan/60-a.yaml", wifi)][..], Some(Radio::Wifi(at("/lib/netplan/60-a.yaml", 19)))),
        (&[("/lib/netplan/60-a.yaml", wifi), ("/etc/netplan/60-a.yaml", "")], None),
        (&[("/etc/netplan/60-a.yml", port), ("/etc/netplan/.60-a.yaml", port)], None),
        (&[(NETPLAN, wifi), (CLOUD_INITS_NETPLAN, wifi)], None),
        (
            &[("/etc/netplan/60-a.yaml", wifi), ("/etc/netplan/70-b.yaml", port)],
            Some(Radio::NoWifi(at("/etc/netplan/70-b.yaml", 23))),
        ),
    ] {
        assert_eq!(facts(files).host.owners_radio, want, "{files:?}");
    }
}

#[test]
fn what_cannot_be_read_is_left_alone_and_reported_where_it_matters() {
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g";
    let wifi = "[wifi]\ncountry = \"DE\"\nssid = \"attic\"\npassword = \"\"\n";
    let text = format!("hostname = \"pi\"\n[ssh]\nkeys = [\"{key}\"]\n{wifi}");
    let config = weaver_diagnostics::weaver_toml::parse(text.as_bytes()).unwrap().config;
    let files = [
        ("/etc/hosts", "a\0b"),
        ("/etc/hostname", "no name\n"),
        ("/boot/firmware/user-data", "#cloud-config\nuser: \"ada\n"),
        ("/boot/firmware/network-config", "network: {\n"),
    ];
    // A file that is not YAML is reported whatever is configured.
    for (config, reported) in [(&config, 5), (&Config::default(), 2)] {
        let facts = facts_for(&files, config);
        assert_eq!((facts.host.hosts, facts.host.hostname, facts.host.user), (Hosts::Unreadable, None, None));
        assert_eq!(facts.findings.len(), reported, "{:?}", facts.findings);
    }
}
