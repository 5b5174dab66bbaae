//! `boot-config` on fixture hosts: the real binary, its files, its exit codes and its messages.

mod card;
mod cmdline;
mod imager;
mod images;
mod manifests;
mod networks;
mod registries;
mod role;
mod security;
mod wifi;

use std::{fs, os::unix::fs::PermissionsExt as _};

use card::CardHost;

const WEAVER_TOML: &str = "/boot/firmware/weaver.toml";
const K3S: &str = "/etc/rancher/k3s/config.yaml.d/90-weaver.yaml";
const TOKEN: &str = "/var/lib/weaver/k3s.token";
const PIN: &str = "/var/lib/weaver/boot-config/node-name";
const REPORT: &str = "/var/lib/weaver/boot-config/report.json";
const LAST_GOOD: &str = "/var/lib/weaver/boot-config/last-good.toml";
const SECRET: &str = "K10hunter2::server:hunter2";
const ALL: &str = r#"# mine
hostname = "raspi"
[api]
names = ["raspi.lan", "192.168.1.20"]
[ssh]
keys = ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g me@laptop"]
[network]
address = "192.168.1.20/24"
gateway = "192.168.1.1"
dns = ["192.168.1.1"]
[time]
servers = ["pool.ntp.org"]
wait_seconds = 30
[k3s]
token = "K10hunter2::server:hunter2" # secret
[k3s.options]
disable = ["traefik"]
"#;
/// What follows from it, with the permissions.
const MADE: &[(&str, u32)] = &[
    ("/etc/hostname", 0o644),
    ("/etc/hosts", 0o644),
    ("/etc/cloud/cloud.cfg.d/98-weaver-hostname.cfg", 0o644),
    (K3S, 0o600),
    (TOKEN, 0o600),
    ("/etc/ssh/weaver_keys/weaver-admin", 0o644),
    ("/etc/netplan/90-weaver.yaml", 0o600),
    ("/etc/systemd/timesyncd.conf.d/90-weaver.conf", 0o644),
    ("/etc/weaver/boot-config.env", 0o644),
    (LAST_GOOD, 0o600),
    (PIN, 0o644),
];

#[test]
fn everything_asked_is_made() {
    let host = CardHost::new();
    let said = host.configure(ALL).exits(0);
    assert!(said.finds("B-00", "ok")["message"].as_str().unwrap().contains("host name raspi, 2 API names"));
    for (path, mode) in MADE {
        let metadata = fs::metadata(host.path(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(metadata.permissions().mode() & 0o7777, *mode, "{path}");
    }
    assert_eq!(host.read("/etc/hostname"), "raspi\n");
    let hosts = host.read("/etc/hosts");
    assert!(hosts.starts_with("127.0.0.1 localhost\n10.0.0.9 nas\n127.0.1.1 raspi "), "{hosts}");
    let k3s = host.read(K3S);
    for line in [
        "node-name: raspi\n",
        "tls-san+:\n- raspi\n- raspi.lan\n- \"192.168.1.20\"\n",
        "token-file: /var/lib/weaver/k3s.token\n",
        "disable:\n- traefik\n",
    ] {
        assert!(k3s.contains(line), "no {line}: {k3s}");
    }
    assert!(host.read("/etc/weaver/boot-config.env").ends_with("WEAVER_CLOCK_WAIT=30\n"));
}

#[test]
fn the_token_is_imported_and_is_then_nowhere_else() {
    let host = CardHost::new();
    let said = host.configure(ALL).exits(0);
    assert_eq!(host.read(TOKEN), format!("{SECRET}\n"));
    assert_eq!(host.read(WEAVER_TOML), ALL.replace(SECRET, ""), "every other byte stays");
    assert_eq!(host.read(LAST_GOOD), ALL.replace(SECRET, ""));
    assert!(!said.stderr.contains("hunter2"), "{}", said.stderr);
    for (path, (_, _, content)) in host.state() {
        let is_token = path == host.path(TOKEN);
        assert_eq!(String::from_utf8_lossy(&content).contains("hunter2"), is_token, "{}", path.display());
    }
}

#[test]
fn a_second_start_writes_nothing() {
    let host = CardHost::new();
    host.configure(ALL).exits(0);
    let before = host.state();
    host.run().exits(0);
    assert_eq!(host.state(), before);
}

#[test]
fn the_source_of_updates_outlives_its_key_and_not_its_section() {
    const MADE: [&str; 2] =
        ["/etc/apt/sources.list.d/config-weaver.sources", "/etc/apt/keyrings/config-weaver.asc"];
    let key = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmDME\n-----END PGP PUBLIC KEY BLOCK-----\n";
    let asked = "[update]\nsource = \"file:/media/usb/apt\"\nkey = \"config-weaver.asc\"\n";
    let host = CardHost::new();
    host.write("/boot/firmware/config-weaver.asc", key);
    let said = host.configure(asked).exits(0);
    assert!(
        said.finds("B-00", "ok")["message"].as_str().unwrap().contains("updates from file:/media/usb/apt")
    );
    assert_eq!(host.read(MADE[1]), key);
    assert!(host.read(MADE[0]).contains("\nURIs: file:/media/usb/apt\n"), "{}", host.read(MADE[0]));
    host.write("/boot/firmware/config-weaver.asc", "half of it");
    let said = host.run().exits(0);
    let message = said.finds("B-05", "warn")["message"].to_string();
    assert!(message.contains("the apt source stays as it was"), "{message}");
    assert!(MADE.iter().all(|path| host.exists(path)) && host.read(MADE[1]) == key);
    host.configure("").exits(0);
    assert!(!MADE.iter().any(|path| host.exists(path)));
}

#[test]
fn no_file_and_an_empty_one_ask_for_nothing_and_remove_what_was_made() {
    for empty in [None, Some(""), Some("# nothing\n")] {
        let host = CardHost::new();
        host.configure(ALL).exits(0);
        fs::remove_file(host.path(WEAVER_TOML)).unwrap();
        if let Some(empty) = empty {
            host.write(WEAVER_TOML, empty);
        }
        host.run().exits(0).finds("B-00", "ok");
        for (path, _) in MADE {
            let stays =
                ["/etc/hostname", "/etc/hosts"].contains(path) || (*path == LAST_GOOD && empty.is_some());
            assert_eq!(host.exists(path), stays, "{path} after {empty:?}");
        }
        assert_eq!(host.read("/etc/hosts"), "127.0.0.1 localhost\n10.0.0.9 nas\n");
    }
}

#[test]
fn a_host_on_which_nothing_was_ever_asked_stays_as_it_is() {
    let host = CardHost::new();
    let before = host.state();
    host.run().exits(0);
    assert_eq!(host.state_but_report(), before);
}

#[test]
fn a_fault_anywhere_keeps_the_last_good_state_byte_for_byte() {
    let host = CardHost::new();
    host.configure(ALL).exits(0);
    for bad in [
        "hostname = \"Other\"\n",
        "hostname = \"other\"\n[api]\nnames = [\"*.lan\"]\n",
        "hostname = \"other\"\nhostname = \"third\"\n",
        "hostname = \"other\n",
        "hostnam = \"other\"\n",
        "role = \"agent\"\n",
    ] {
        host.write(WEAVER_TOML, bad);
        let before = host.state_but_report();
        host.run().exits(0).finds("B-01", "warn");
        assert_eq!(host.state_but_report(), before, "{bad}");
    }
    host.configure("hostname = \"other\"\n").exits(0).finds("B-00", "ok");
    assert_eq!(host.read("/etc/hostname"), "other\n");
}

#[test]
fn every_key_wrong_is_reported_at_once_with_lines_and_without_secrets() {
    let host = CardHost::new();
    let said = host
        .configure(
            "hostname = \"My Pi\"\n[api]\nnames = [\"*.lan\", \"a b\", \"raspi.lan.\"]\n[ssh]\n\
             keys = [\"-----BEGIN OPENSSH PRIVATE KEY-----hunter2\"]\n[network]\naddress = \"raspi\"\n\
             gateway = 1\ndns = [\"x\"]\n[time]\nservers = [\"\"]\nwait_seconds = 1000\n[k3s]\n\
             token = \"hunter2 \"\n[k3s.options]\ntoken = \"hunter2\"\n",
        )
        .exits(0);
    let finding = said.finds("B-01", "warn");
    let lines: Vec<_> =
        finding["evidence"].as_array().unwrap().iter().map(|e| e["line"].as_u64().unwrap()).collect();
    assert_eq!(lines, [1, 3, 3, 3, 5, 7, 8, 9, 11, 12, 14, 16]);
    let first =
        "/boot/firmware/weaver.toml:1:12: the host name `My Pi` contains white space; write \"my-pi\"";
    assert!(said.stderr.contains(first), "{}", said.stderr);
    assert!(
        !said.stderr.contains("hunter2") && !said.report.to_string().contains("hunter2"),
        "{}",
        said.stderr
    );
    assert!(MADE.iter().skip(2).all(|(path, _)| !host.exists(path)));
}

#[test]
fn a_huge_file_is_one_fault() {
    let host = CardHost::new();
    host.configure(ALL).exits(0);
    host.write(WEAVER_TOML, "");
    fs::File::options().write(true).open(host.path(WEAVER_TOML)).unwrap().set_len(10 * 1024 * 1024).unwrap();
    let said = host.run().exits(0);
    let evidence = &said.finds("B-01", "warn")["evidence"];
    assert_eq!(evidence.as_array().unwrap().len(), 1);
    assert!(evidence[0]["saw"].as_str().unwrap().contains("larger than 64 KiB"));
    assert_eq!(host.read("/etc/hostname"), "raspi\n");
}

#[test]
fn what_cannot_be_read_keeps_the_last_good_state() {
    let host = CardHost::new();
    host.configure(ALL).exits(0);
    fs::remove_file(host.path(WEAVER_TOML)).unwrap();
    fs::create_dir(host.path(WEAVER_TOML)).unwrap();
    let before = host.state_but_report();
    host.run().exits(0).finds("B-02", "warn");
    assert_eq!(host.state_but_report(), before);
}

#[test]
fn a_boot_partition_that_is_not_there_asks_for_nothing_to_be_removed() {
    let host = CardHost::new();
    host.configure(ALL).exits(0);
    fs::remove_dir_all(host.path("/boot/firmware")).unwrap();
    fs::create_dir(host.path("/boot/firmware")).unwrap();
    let before = host.state_but_report();
    let said = host.run().exits(0);
    assert!(said.finds("B-02", "warn")["evidence"][0]["saw"].as_str().unwrap().contains("not mounted"));
    assert_eq!(host.state_but_report(), before);
}

#[test]
fn stray_files_below_the_mount_point_are_not_the_boot_partition() {
    let host = CardHost::new();
    host.configure(ALL).exits(0);
    host.write("/proc/self/mountinfo", "25 1 254:2 / / rw - ext4 /dev/vda2 rw\n");
    for stray in [None, Some("hostname = \"stray\"\n")] {
        fs::remove_file(host.path(WEAVER_TOML)).unwrap();
        if let Some(text) = stray {
            host.write(WEAVER_TOML, text);
        }
        host.write("/boot/firmware/stray", "");
        let before = host.state_but_report();
        let said = host.run().exits(0);
        assert!(said.finds("B-02", "warn")["evidence"][0]["saw"].as_str().unwrap().contains("not mounted"));
        assert_eq!(host.state_but_report(), before, "{stray:?}");
        host.write(WEAVER_TOML, "");
    }
}

/// Seen with the power cut between the new name of the blanked file and the release of the old one's clusters.
#[test]
fn what_fsck_saved_of_a_cut_import_is_removed_where_it_holds_the_token_and_nothing_else_is() {
    let host = CardHost::new();
    host.configure(ALL).exits(0);
    // Spelled otherwise, and with the rest of its cluster.
    let escaped = ALL.replace("K10hunter2", "K10hunte\\u0072\\u0032") + &"\0".repeat(100);
    for (name, content) in [
        ("FSCK0000.REC", ALL),
        ("FSCK0002.REC", escaped.as_str()),
        ("FSCK0001.REC", "someone's pictures"),
        ("FSCK.REC", ALL),
        ("mine.toml", ALL),
    ] {
        host.write(&format!("/boot/firmware/{name}"), content);
    }
    host.run().exits(0);
    let is_there = |name: &str| host.exists(&format!("/boot/firmware/{name}"));
    assert!(!is_there("FSCK0000.REC") && !is_there("FSCK0002.REC"));
    assert!(is_there("FSCK0001.REC") && is_there("FSCK.REC") && is_there("mine.toml"));
}

#[test]
fn a_card_that_cannot_be_written_keeps_the_token_and_the_import_counts() {
    let host = CardHost::new();
    // Blocks the path of the new file: it can neither be removed nor made.
    host.write("/boot/firmware/weaver.toml.new/inner", "");
    let said = host.configure(ALL).exits(0);
    said.finds("B-04", "warn");
    assert_eq!(host.read(TOKEN), format!("{SECRET}\n"));
    assert_eq!(host.read(WEAVER_TOML), ALL);
    assert!(!said.stderr.contains("hunter2"), "{}", said.stderr);
    assert!(!host.read(LAST_GOOD).contains("hunter2"));
    let before = host.state();
    host.run().exits(0).finds("B-04", "warn");
    assert_eq!(host.state(), before);
}

#[test]
fn a_token_that_cannot_be_stored_stays_in_the_file() {
    let host = CardHost::new();
    host.write("/var/lib/weaver/k3s.token/inner", "");
    let said = host.configure(ALL).exits(1);
    assert_eq!(said.finds("B-05", "warn")["evidence"][0]["file"], TOKEN);
    assert_eq!(host.read(WEAVER_TOML), ALL);
    assert!(!host.exists(LAST_GOOD));
    assert!(!said.stderr.contains("hunter2"), "{}", said.stderr);
    assert!(!host.exists(K3S), "k3s does not start with a token file that is not there");
    assert_eq!(host.read("/etc/hostname"), "weaver\n", "nothing keeps the node's name from following it");
    assert!(host.exists("/etc/netplan/90-weaver.yaml"), "the rest is made");
}

#[test]
fn a_new_token_that_cannot_be_stored_leaves_the_old_one_in_force() {
    let host = CardHost::new();
    host.configure(ALL).exits(0);
    // Blocks the path of the new file: it can neither be removed nor made.
    host.write("/var/lib/weaver/k3s.token.new/inner", "");
    host.configure(&ALL.replace("hunter2", "other").replace("traefik", "servicelb")).exits(1);
    assert_eq!(host.read(TOKEN), format!("{SECRET}\n"));
    assert!(host.read(K3S).contains("token-file: ") && host.read(K3S).contains("servicelb"));
}

#[test]
fn a_node_name_that_cannot_be_remembered_leaves_the_hosts_name() {
    let host = CardHost::new();
    host.write("/etc/rancher/node/password", "x");
    host.write(&format!("{PIN}/inner"), "");
    let said = host.configure("hostname = \"raspi\"\n").exits(1);
    assert_eq!(said.finds("B-05", "warn")["evidence"][0]["file"], PIN);
    assert!(!host.exists(K3S));
    assert_eq!(host.read("/etc/hostname"), "weaver\n", "it is what the node is called");
    fs::remove_dir_all(host.path(PIN)).unwrap();
    host.run().exits(0);
    assert!(host.read(K3S).contains("node-name: weaver\n"));
    assert_eq!(host.read("/etc/hostname"), "raspi\n");
}

#[test]
fn settings_of_the_owners_for_the_agent_stay() {
    const OWN: &str = "/etc/weaver/node-agent.env";
    let host = CardHost::new();
    host.write(OWN, "WEAVER_AGENT_METRICS=none\n");
    for weaver_toml in [ALL, "", "hostname = \"raspi\"\n"] {
        host.configure(weaver_toml).exits(0);
        assert_eq!(host.read(OWN), "WEAVER_AGENT_METRICS=none\n", "{weaver_toml}");
    }
}

#[test]
fn a_k3s_file_that_cannot_be_written_leaves_the_hosts_name() {
    let host = CardHost::new();
    host.write("/etc/rancher/k3s", "a file in the place of a directory");
    host.configure("hostname = \"raspi\"\n").exits(1).finds("B-05", "warn");
    assert_eq!(host.read("/etc/hostname"), "weaver\n");
}

#[test]
fn what_cannot_be_written_is_reported_and_the_rest_is_made() {
    let host = CardHost::new();
    host.write("/etc/netplan", "a file in the place of a directory");
    let said = host.configure(ALL).exits(1);
    assert_eq!(said.finds("B-05", "warn")["evidence"][0]["file"], "/etc/netplan/90-weaver.yaml");
    assert!(host.exists(K3S) && host.exists("/etc/weaver/boot-config.env"));
    fs::remove_file(host.path("/etc/netplan")).unwrap();
    host.run().exits(0).finds("B-00", "ok");
    assert!(host.exists("/etc/netplan/90-weaver.yaml") && host.exists(LAST_GOOD));
}

#[test]
fn a_report_that_cannot_be_written_is_an_error() {
    let host = CardHost::new();
    host.write("/var/lib/weaver/boot-config", "a file in the place of a directory");
    let said = host.configure("hostname = \"pi\"\n").exits(1);
    assert!(said.stderr.contains("B-05") && said.stderr.contains(REPORT), "{}", said.stderr);
    assert!(host.read("/etc/hosts").contains("127.0.1.1 pi "), "what does not need it is made");
}

#[test]
fn the_node_keeps_its_name_once_k3s_has_run() {
    let host = CardHost::new();
    host.configure("hostname = \"first\"\n").exits(0);
    host.configure("hostname = \"second\"\n").exits(0);
    assert!(host.read(K3S).contains("node-name: second\n"), "k3s has not started yet");
    host.write("/etc/rancher/node/password", "x");
    host.configure("hostname = \"third\"\n").exits(0);
    assert!(host.read(K3S).contains("node-name: second\n"));
    assert!(host.read(K3S).contains("tls-san+:\n- third\n"));
    assert_eq!(host.read("/etc/hostname"), "third\n");
    host.configure("").exits(0);
    assert!(host.read(K3S).contains("node-name: second\n"), "the node exists");
    assert!(!host.read(K3S).contains("tls-san"));
}

#[test]
fn a_name_that_was_asked_for_and_dropped_before_k3s_ran_is_forgotten() {
    let host = CardHost::new();
    host.configure("hostname = \"first\"\n").exits(0);
    host.configure("").exits(0);
    assert!(!host.exists(PIN));
    host.write("/etc/hostname", "own\n");
    host.write("/etc/rancher/node/password", "x");
    host.configure("hostname = \"second\"\n").exits(0);
    assert!(host.read(K3S).contains("node-name: own\n"), "{}", host.read(K3S));
}

#[test]
fn a_node_registered_under_the_old_host_name_keeps_it() {
    let host = CardHost::new();
    host.write("/etc/rancher/node/password", "x");
    host.configure("hostname = \"raspi\"\n").exits(0);
    assert!(host.read(K3S).contains("node-name: weaver\n"));
    host.run().exits(0);
    assert!(host.read(K3S).contains("node-name: weaver\n"), "although /etc/hostname says raspi now");
}

#[test]
fn keys_follow_the_user_of_user_data() {
    let host = CardHost::new();
    host.configure(ALL).exits(0);
    host.write("/etc/ssh/weaver_keys/own", "ssh-ed25519 of someone else\n");
    host.write("/boot/firmware/user-data", "#cloud-config\nhostname: raspi\nusers:\n- name: ada\n");
    host.run().exits(0).finds("B-00", "ok");
    assert!(host.read("/etc/ssh/weaver_keys/ada").contains("me@laptop"));
    assert!(!host.exists("/etc/ssh/weaver_keys/weaver-admin"));
    assert!(host.exists("/etc/ssh/weaver_keys/own"));
}

#[test]
fn a_clash_with_user_data_names_both_lines_and_weaver_toml_wins() {
    let host = CardHost::new();
    host.write("/boot/firmware/user-data", "#cloud-config\n\nhostname: other\nmanage_etc_hosts: true\n");
    let said = host.configure("# mine\nhostname = \"raspi\"\n").exits(0);
    let evidence = said.finds("B-03", "warn")["evidence"].clone();
    let places: Vec<_> =
        evidence.as_array().unwrap().iter().map(|e| (e["file"].clone(), e["line"].clone())).collect();
    assert_eq!(
        places,
        [
            (WEAVER_TOML.into(), 2.into()),
            ("/boot/firmware/user-data".into(), 3.into()),
            ("/boot/firmware/user-data".into(), 4.into())
        ]
    );
    assert_eq!(host.read("/etc/hostname"), "raspi\n");
}

#[test]
fn cloud_init_of_the_card_leaves_etc_hosts_alone_whatever_user_data_says() {
    let card = include_str!("../../../../packaging/card/etc/cloud/cloud.cfg.d/99-weaver.cfg");
    let modules: Vec<_> = card.lines().filter_map(|line| line.trim().strip_prefix("- ")).collect();
    assert!(modules.contains(&"set_hostname") && !modules.contains(&"update_etc_hosts"), "{modules:?}");
}

#[test]
fn a_name_that_cannot_be_forgotten_is_reported_and_keeps_nothing_back() {
    let host = CardHost::new();
    host.write(&format!("{PIN}/inner"), "");
    let said = host.configure("[api]\nnames = [\"raspi.lan\"]\n").exits(1);
    assert_eq!(said.finds("B-05", "warn")["evidence"][0]["file"], PIN);
    assert!(host.read(K3S).contains("raspi.lan"));
}
