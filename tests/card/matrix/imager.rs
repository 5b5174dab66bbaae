//! A card that Raspberry Pi Imager prepared, with a user, a password, a key and a hidden Wi-Fi: what
//! cloud-init, netplan and `wpa_supplicant` make of it. No radio is emulated; the kernel's own simulation of
//! one is used, and there is no network to join.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use weaver_image::boot::card::{Card, Edits};
use weaver_image::boot::fat::Fat;
use weaver_image::boot::machine::{Machine, Setup};

use crate::poll::until;
use crate::root::image;

macro_rules! fixture {
    ($name:literal) => {
        include_str!(concat!("../../fixtures/imager/hidden-wifi/", $name))
    };
}
const USER_DATA: &str = fixture!("user-data");
const NETWORK_CONFIG: &str = fixture!("network-config");
const PSK: &str = "a4a72e6c56cfd94c3f35b48f6677c44e6d7806e5b81354d51ca1802097993bc7";
const PASSWORD: &str = "correct-horse-of-ada";
/// What ada writes into weaver.toml afterwards, for the same network.
const OTHER_PSK: &str = "another word of ada";
const BOOT: Duration = Duration::from_mins(12);

/// No host name, no key: both are Imager's.
const WEAVER_TOML: &str = "[time]\nservers = [\"10.0.2.2\"]\nwait_seconds = 0\n";

fn prepared() -> Card {
    let files = [("meta-data", fixture!("meta-data")), ("network-config", NETWORK_CONFIG)];
    let edits = Edits {
        weaver_toml: Some(WEAVER_TOML.to_owned()),
        files: files.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec())).into(),
        no_access: true,
        ..Edits::default()
    };
    let card = Card::new(&image(), 8 << 30, &edits).unwrap();
    let public = card.key().public().unwrap();
    let key = USER_DATA.lines().find_map(|line| line.trim().strip_prefix("- \"ssh-")).unwrap();
    let key = format!("ssh-{}", key.trim_end_matches('"'));
    // As on the card whose owner asked for passwords over ssh, too.
    let user_data = USER_DATA.replace(&key, &public).replace("ssh_pwauth: false", "ssh_pwauth: true");
    card.overlay()
        .edit_fat(|fat: &Fat| {
            let line = String::from_utf8(fat.read("cmdline.txt")?.context("the card has a cmdline.txt")?)?;
            let line = format!("{} {}", line.trim_end(), fixture!("appended"));
            fat.write("cmdline.txt", line.as_bytes())?;
            fat.write("user-data", user_data.as_bytes())
        })
        .unwrap();
    card
}

/// A command of ada's, by the key that Imager gave her.
fn ada(card: &Card, machine: &Machine, options: &[&str], script: &str) -> anyhow::Result<(bool, String)> {
    let mut words = card.key().args(machine.ports().ssh);
    words.pop();
    let mut command = Command::new("timeout");
    command.arg("180").args(words).args(options).args(["ada@127.0.0.1", script]);
    let output = command.output()?;
    let said = [output.stdout, output.stderr].concat();
    Ok((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
}

#[test]
#[ignore = "boots a machine of its own: make image-matrix"]
fn a_card_of_imagers_has_its_user_its_name_and_its_wifi_and_keeps_their_secrets() {
    let card = Arc::new(prepared());
    // cloud-init's last stage comes after all that the boot starts; and it has systemd read all units again,
    // for which a busy builder can take longer than the card's watchdog waits.
    let arguments = ["systemd.mask=k3s.service", "systemd.watchdog_sec=0"].map(str::to_owned).into();
    let setup = Setup { arguments, ..Setup::default() };
    let mut machine = Machine::start(&card, &setup).unwrap();
    machine.wait_for_console("imager login:", BOOT).unwrap();
    let run = by_her_key(&card, &machine);
    until("the end of cloud-init", || {
        let (_, state) = ada(&card, &machine, &[], "cloud-init status --long 2>&1")?;
        Ok(if state.contains("running") || state.contains("not started") { Err(state) } else { Ok(()) })
    });
    let state = run("cloud-init status --long 2>&1 || true");
    assert!(state.contains("status: done") && state.contains("errors: []"), "{state}");
    assert_eq!(
        run("systemctl --no-pager --plain --no-legend --failed"),
        "",
        "all that Imager asks for is done"
    );

    assert_eq!(
        run("hostname; cat /etc/hostname; readlink /etc/localtime"),
        "imager\nimager\n/usr/share/zoneinfo/Europe/Berlin"
    );
    assert_eq!(run("sudo -n id -un"), "root");
    assert_eq!(run("sudo -n passwd -S ada | cut -d ' ' -f 2"), "P");
    // The console asks PAM as su does.
    let asked = format!("echo {PASSWORD} | sudo -n runuser -u nobody -- su ada -c 'id -un' 2>/dev/null");
    assert_eq!(run(&asked), "ada", "her password opens the console");
    let by_password = ["-o", "PubkeyAuthentication=no", "-o", "PreferredAuthentications=password"];
    let (well, said) = ada(&card, &machine, &by_password, "true").unwrap();
    assert!(!well && said.contains("Permission denied (publickey)"), "no password over ssh: {said}");

    the_wifi_is_configured(&run);
    let token = "cfg80211.ieee80211_regdom=DE";
    assert!(run("cat /proc/cmdline").contains(token));
    assert!(run("cat /etc/default/raspi-extra-cmdline").contains(token), "it outlives the next kernel");
    a_radio_is_taken_into_service(&run);
    no_one_reads_the_secrets(&run, &[PSK, "F5Jx5fExrKuPp53xLKQ", PASSWORD]);
    weaver_toml_has_the_last_word_on_the_wifi(&run);
    the_radio_is_there_at_the_next_start(&run);
    drop(run);
    // Its answer may be lost on the way.
    let _ = ada(&card, &machine, &[], "sudo -n systemctl poweroff --no-block");
    machine.wait_for_end(BOOT).unwrap();
    let mut machine = machine.start_again().unwrap();
    machine.wait_for_console("imager login:", BOOT).unwrap();
    let run = by_her_key(&card, &machine);
    it_is_joined_by_itself_where_two_files_name_it(&run);
    no_one_reads_the_secrets(&run, &[PSK, OTHER_PSK]);
    drop(run);
    machine.kill().unwrap();
}

/// Commands of hers that must end well: what they said.
fn by_her_key<'m>(card: &'m Card, machine: &'m Machine) -> impl Fn(&str) -> String + 'm {
    until("ada by her key", || {
        let (well, said) = ada(card, machine, &[], "true")?;
        Ok(if well { Ok(()) } else { Err(said) })
    });
    |script| {
        let (well, said) = ada(card, machine, &[], script).unwrap();
        assert!(well, "{script}: {said}");
        said.trim().to_owned()
    }
}

fn the_wifi_is_configured(run: &impl Fn(&str) -> String) {
    let files = "sudo -n stat -c '%a %U %n' /etc/netplan/*cloud-init.yaml /run/netplan/wpa-wlan0.conf";
    for file in run(files).lines() {
        assert!(file.starts_with("600 root "), "{file}");
    }
    let asked = run("sudo -n netplan get network.wifis.wlan0");
    assert!(asked.contains("hidden: true") && asked.contains("regulatory-domain: \"DE\""), "{asked}");
    let supplicant = run("sudo -n cat /run/netplan/wpa-wlan0.conf");
    for part in ["country=DE", "ssid=P\"attic\"", "scan_ssid=1", PSK] {
        assert!(supplicant.contains(part), "no {part} in wpa-wlan0.conf");
    }
}

/// The kernel's simulation of a radio, instead of the Pi's.
fn a_radio_is_taken_into_service(run: &impl Fn(&str) -> String) {
    run("sudo -n modprobe mac80211_hwsim radios=1");
    until("wlan0", || Ok(Ok(run("test -d /sys/class/net/wlan0 && echo there || echo none") == "there")));
    run("sudo -n systemctl start netplan-wpa-wlan0.service");
    until("wpa_supplicant looking for the network", || {
        let state = run("sudo -n wpa_cli -p /run/wpa_supplicant -i wlan0 status 2>&1 || true");
        Ok(if state.contains("wpa_state=") { Ok(()) } else { Err(state) })
    });
    assert_eq!(run("sudo -n wpa_cli -p /run/wpa_supplicant -i wlan0 get_network 0 scan_ssid"), "1");
    assert!(run("sudo -n iw reg get").contains("country DE"), "the country is in force");
}

/// The same network with another password: netplan would take that of the file whose name comes last.
fn weaver_toml_has_the_last_word_on_the_wifi(run: &impl Fn(&str) -> String) {
    let wifi = format!(r#"[wifi]\ncountry = "AT"\nssid = "attic"\npassword = "{OTHER_PSK}"\n"#);
    run(&format!("printf '{wifi}' | sudo -n tee -a /boot/firmware/weaver.toml > /dev/null"));
    let said = run("sudo -n weaver-node-agent boot-config && sudo -n netplan generate");
    assert!(said.contains("B-03") && !said.contains(OTHER_PSK), "{said}");
    assert!(run("sudo -n cat /boot/firmware/weaver.toml").contains("password = \"\""), "it is blanked");
    the_wifi_is_weaver_tomls(run);
    run("sudo -n systemctl restart netplan-wpa-wlan0.service");
    until("the other country", || {
        let country = run("sudo -n iw reg get");
        Ok(if country.contains("country AT") { Ok(()) } else { Err(country) })
    });
}

fn the_wifi_is_weaver_tomls(run: &impl Fn(&str) -> String) {
    let supplicant = run("sudo -n cat /run/netplan/wpa-wlan0.conf");
    for part in ["country=AT", "ssid=P\"attic\"", &format!("psk=\"{OTHER_PSK}\"")] {
        assert!(supplicant.contains(part), "no {part} in wpa-wlan0.conf");
    }
    let networks = supplicant.matches("network={").count();
    assert!(!supplicant.contains(PSK) && networks == 1, "Imager's is there, too");
    let wired = run("sudo -n netplan get network.ethernets.eth0");
    assert!(wired.contains("dhcp6: true"), "the wired port stays: {wired}");
}

fn the_radio_is_there_at_the_next_start(run: &impl Fn(&str) -> String) {
    for (file, line) in [
        ("/etc/modules-load.d/radio.conf", "mac80211_hwsim"),
        ("/etc/modprobe.d/radio.conf", "options mac80211_hwsim radios=1"),
    ] {
        run(&format!("echo {line} | sudo -n tee {file}"));
    }
}

/// netplan's generator runs before boot-config has changed the other file.
fn it_is_joined_by_itself_where_two_files_name_it(run: &impl Fn(&str) -> String) {
    let both = "sudo -n grep -l attic /etc/netplan/50-cloud-init.yaml /etc/netplan/90-weaver.yaml | wc -l";
    assert_eq!(run(both), "2", "each names it");
    until("wpa_supplicant looking for the network", || {
        let state = run("sudo -n wpa_cli -p /run/wpa_supplicant -i wlan0 status 2>&1 || true");
        Ok(if state.contains("wpa_state=") { Ok(()) } else { Err(state) })
    });
    the_wifi_is_weaver_tomls(run);
    until("weaver.toml's country", || {
        let country = run("sudo -n iw reg get");
        Ok(if country.contains("country AT") { Ok(()) } else { Err(country) })
    });
    let wired = run("networkctl --no-pager --no-legend list eth0");
    assert!(wired.contains("routable"), "{wired}");
    let said = run("sudo -n journalctl --no-pager -b -u weaver-boot-config -o cat");
    assert!(said.contains("B-03"), "both lines are named at each start: {said}");
    assert_eq!(run("systemctl --no-pager --plain --no-legend --failed"), "");
}

/// The begin of a secret, written so that a note of the command itself is no find.
fn pattern(secret: &str) -> String {
    let (first, rest) = secret[..16].split_at(1);
    format!("[{first}]{rest}")
}

fn no_one_reads_the_secrets(run: &impl Fn(&str) -> String, secrets: &[&str]) {
    let directories = "/etc /run /var /boot /home /tmp";
    let reports = "/boot/firmware/NODE-STATUS.txt /boot/firmware/node-status.json";
    // A search that does not search finds nothing.
    assert_eq!(run("sudo -n runuser -u nobody -- id -un"), "nobody");
    assert_ne!(run("sudo -n journalctl --no-pager -o cat | grep -v COMMAND= | wc -l"), "0");
    let known = format!("sudo -n grep -rlsI '{}' {directories} || true", pattern(secrets[0]));
    assert!(run(&known).contains("/etc/netplan/"), "root finds the key where netplan has it");
    for secret in secrets {
        let secret = pattern(secret);
        let others = format!("sudo -n runuser -u nobody -- grep -rlsI '{secret}' {directories} || true");
        assert_eq!(run(&others), "", "{secret} can be read by anyone");
        // 1: both were read, and it is in neither.
        let reported = format!("sudo -n grep -l '{secret}' {reports}; echo $?");
        assert_eq!(run(&reported), "1", "{secret} is shown");
        // What sudo notes of the test's own commands aside.
        let journal =
            format!("sudo -n journalctl --no-pager -o cat | grep -v COMMAND= | grep -c '{secret}' || true");
        assert_eq!(run(&journal), "0", "{secret} is in the journal");
    }
}
