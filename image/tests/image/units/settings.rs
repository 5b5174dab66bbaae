//! Settings of Debian's programs, accounts and directories.

use std::fs;
use std::process::Command;

use weaver_diagnostics::weaver_toml::plan::SECURITY_UPDATES;

use super::unit_file::{UnitFile, card, names, repository, systemd, units};

#[test]
fn directories_and_accounts_are_as_the_programs_expect() {
    let both = |folder: &str| -> String {
        let files = ["weaver.conf", "weaver-card.conf"].map(|name| systemd(&format!("{folder}/{name}")));
        files.iter().map(|file| fs::read_to_string(file).unwrap()).collect()
    };
    let tmpfiles = both("tmpfiles.d");
    for line in [
        "d /run/weaver 0750 root weaver -",
        "d /run/issue.d 0755 root root -",
        "d /var/lib/weaver 0755 root root -",
        "d /var/lib/weaver/webhook 0750 root weaver-webhook -",
        "d /etc/ssh/weaver_keys 0755 root root -",
    ] {
        assert!(tmpfiles.lines().any(|is| is == line), "{line}");
    }
    let sysusers = both("sysusers.d");
    let has =
        |begin: &str, end: &str| sysusers.lines().any(|line| line.starts_with(begin) && line.ends_with(end));
    for user in ["weaver", "weaver-webhook"] {
        assert!(has(&format!("u {user} - "), " /usr/sbin/nologin"), "{user}");
    }
    let members: Vec<&str> = sysusers.lines().filter(|line| line.starts_with("m weaver-webhook")).collect();
    assert!(members.is_empty(), "in the operator's group the webhook could read its token: {members:?}");
    assert!(has("u weaver-admin - ", " /home/weaver-admin /bin/bash"), "u! would lock keys out as well");
}

#[test]
fn settings_of_systemd_itself() {
    let value = |file: &str, section: &str, key: &str| {
        UnitFile::read(&systemd(file)).value(section, key).map(str::to_owned).unwrap()
    };
    let watchdog = value("system.conf.d/10-weaver.conf", "Manager", "RuntimeWatchdogSec");
    let seconds: u32 = watchdog.strip_suffix('s').unwrap().parse().unwrap();
    assert!((5..=15).contains(&seconds), "the Pi's watchdog counts to 15 s at most: {watchdog}");
    value("system.conf.d/10-weaver.conf", "Manager", "RebootWatchdogSec");
    let journal = "journald.conf.d/10-weaver.conf";
    assert_eq!(value(journal, "Journal", "Storage"), "volatile", "each line would wear the card");
    assert_eq!(value(journal, "Journal", "RuntimeMaxUse"), "32M");
    assert_eq!(value("timesyncd.conf.d/10-weaver.conf", "Time", "SaveIntervalSec"), "1h");
}

#[test]
fn drop_ins_for_debians_units() {
    for stage in ["local", "main"] {
        let unit = UnitFile::read(&systemd(&format!("cloud-init-{stage}.service.d/10-weaver.conf")));
        assert!(unit.has("Unit", "After", "boot-firmware.mount"), "user-data would not be there yet");
    }
    let stages = ["cloud-init-main.service", "cloud-init-local.service", "cloud-init-network.service"];
    for unit in stages.into_iter().chain(["cloud-config.service", "cloud-final.service"]) {
        let unit = UnitFile::read(&systemd(&format!("{unit}.d/10-weaver.conf")));
        let conditions = unit.words("Unit", "ConditionPathExists");
        let first = "a stage that runs without the others waits forever";
        assert_eq!(conditions, ["|/boot/firmware/user-data"], "{first}");
        assert_eq!(unit.words("Unit", "ConditionKernelCommandLine"), ["|ds"], "{first}");
    }
    let ssh = UnitFile::read(&systemd("ssh.service.d/10-weaver.conf"));
    for key in ["Wants", "After"] {
        assert!(ssh.has("Unit", key, "weaver-ssh-hostkeys.service"), "sshd does not start without a key");
    }
    let updates = UnitFile::read(&systemd("unattended-upgrades.service.d/10-weaver.conf"));
    let asked = [SECURITY_UPDATES, "/etc/apt/apt.conf.d/20auto-upgrades"].map(|path| format!("|{path}"));
    assert_eq!(updates.words("Unit", "ConditionPathExists"), asked, "an owner's own updates end well, too");
    let keys = UnitFile::read(&systemd("weaver-ssh-hostkeys.service"));
    let missing = ["ed25519_key", "ed25519_key.pub", "ecdsa_key", "ecdsa_key.pub"]
        .map(|key| format!("|!/etc/ssh/ssh_host_{key}"));
    assert_eq!(keys.words("Unit", "ConditionFileNotEmpty"), missing, "any one of them is made again");
    let wifi = UnitFile::read(&systemd("netplan-wpa-wlan0.service.d/10-weaver.conf"));
    for unit in ["weaver-boot-config.service", "cloud-init-local.service"] {
        assert!(wifi.has("Unit", "After", unit), "the Wi-Fi of the last boot would be joined");
    }
    let condition = "/run/netplan/wpa-wlan0.conf";
    assert_eq!(wifi.words("Unit", "ConditionPathExists"), [condition], "without [wifi] the unit would fail");
    let wait = "systemd-networkd-wait-online.service.d";
    let file = names(&systemd(wait)).pop_first().unwrap();
    assert!(file.as_str() > "10-netplan.conf", "netplan's drop-in would have the last word");
    let wait = UnitFile::read(&systemd(&format!("{wait}/{file}")));
    let starts: Vec<_> = wait.0.iter().map(|(_, key, value)| (key.as_str(), value.as_str())).collect();
    let expected = "/usr/lib/systemd/systemd-networkd-wait-online --any --timeout=20";
    assert_eq!(
        starts,
        [("ExecStart", ""), ("ExecStart", expected)],
        "without the empty one there are two commands"
    );
}

#[test]
fn memory_and_files_of_the_daemons_have_a_bound_and_k3s_goes_last() {
    let units = units();
    let mut scores = Vec::new();
    for name in super::DAEMONS {
        let number = |key: &str| -> u32 {
            let value = units[name].service(key).unwrap_or_else(|| panic!("{name}: no {key}="));
            value.trim_end_matches('M').parse().unwrap()
        };
        assert!(
            number("MemoryHigh") < number("MemoryMax"),
            "{name}: it would be ended before it is slowed down"
        );
        assert!(number("MemoryMax") <= 192, "{name}: a Pi with 1 GB has k3s to run");
        assert_eq!(units[name].service("OOMPolicy"), Some("stop"), "{name}: Restart= starts what has ended");
        assert!(number("LimitNOFILE") >= 4096, "{name}: its ports alone have 256 connections");
        scores.push(number("OOMScoreAdjust"));
    }
    assert!(scores.is_sorted() && scores[0] > 0, "the agent, which reports, goes last of ours: {scores:?}");
    assert!(
        super::K3S.iter().all(|k3s| units[*k3s].service("OOMScoreAdjust").is_none()),
        "k3s has a score of its own"
    );
}

#[test]
fn k3s_does_not_meet_what_a_power_cut_left_empty() {
    let removed = [
        "etc/rancher/node/password",
        "var/lib/rancher/k3s/agent/serving-kubelet.key",
        "var/lib/rancher/k3s/agent/client-ca.crt",
        "var/lib/rancher/k3s/agent/kubelet.kubeconfig",
        "var/lib/rancher/k3s/agent/containerd/peer.key",
        "var/lib/rancher/k3s/server/tls/server-ca.key",
        "var/lib/rancher/k3s/server/tls/etcd/client.crt",
    ];
    let kept = [
        "etc/rancher/node/id",
        "var/lib/rancher/k3s/agent/containerd/meta.lock",
        "var/lib/rancher/k3s/agent/a.txt",
    ];
    for drop_in in ["k3s.service.d/10-weaver.conf", "k3s-agent.service.d/10-weaver.conf"] {
        let unit = UnitFile::read(&systemd(drop_in));
        let start = unit.service("ExecStartPre").unwrap();
        assert!(start.starts_with("-/bin/sh -c '"), "{drop_in}: k3s starts without it too");
        let host = tempfile::tempdir().unwrap();
        let root = host.path().display();
        let script = start.split('\'').nth(1).unwrap();
        let script =
            script.replace("/etc/", &format!("{root}/etc/")).replace("/var/", &format!("{root}/var/"));
        let run = || Command::new("/bin/sh").args(["-c", &script]).output().unwrap();
        // Elsewhere `data-dir` is another one.
        let password = host.path().join(removed[0]);
        fs::create_dir_all(password.parent().unwrap()).unwrap();
        fs::write(&password, "").unwrap();
        assert_eq!(String::from_utf8(run().stdout).unwrap().lines().count(), 1);
        assert!(!password.exists());
        for path in removed.iter().chain(&kept) {
            let path = host.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "whole").unwrap();
        }
        assert_eq!(String::from_utf8(run().stdout).unwrap(), "", "{drop_in}: nothing is empty");
        for path in removed.iter().chain(&kept) {
            fs::write(host.path().join(path), "").unwrap();
        }
        let said = String::from_utf8(run().stdout).unwrap();
        assert_eq!(said.lines().count(), removed.len(), "{drop_in}: {said}");
        assert!(removed.iter().all(|path| !host.path().join(path).exists()), "{drop_in}: {said}");
        assert!(kept.iter().all(|path| host.path().join(path).exists()), "{drop_in}: {said}");
    }
}

#[test]
fn a_start_without_a_network_is_passed_to_k3s_for_one_boot() {
    let preflight = UnitFile::read(&systemd("weaver-preflight.service"));
    assert!(preflight.has("Service", "ExecStart", "--offline-start"));
    for (key, word) in [("CapabilityBoundingSet", "CAP_NET_ADMIN"), ("RestrictAddressFamilies", "AF_NETLINK")]
    {
        assert!(preflight.has("Service", key, word), "`ip` is refused without {word}");
    }
    let unit = UnitFile::read(&systemd("k3s.service"));
    assert!(unit.service("ExecStart").unwrap().ends_with("k3s server $WEAVER_OFFLINE_START"));
    let k3s = UnitFile::read(&systemd("k3s.service.d/10-weaver.conf"));
    let of = |key: &str| -> Vec<&str> {
        k3s.0.iter().filter(|(_, is, _)| is == key).map(|(_, _, value)| value.as_str()).collect()
    };
    assert_eq!(of("ExecStart"), Vec::<&str>::new(), "it would take its flags from an owner's unit");
    assert_eq!(of("Environment"), ["WEAVER_OFFLINE_START="], "else systemd warns of it at each start");
    let record = of("EnvironmentFile")[0].strip_prefix('-').expect("it may be missing, which is the rule");
    assert!(record.starts_with("/run/"), "on a disk it would outlive the boot");
    for (source, part) in [
        ("../lib/diagnostics/src/host/network.rs", format!("OFFLINE_RECORD: &str = \"{record}\"")),
        ("../node-agent/src/offline_start.rs", "WEAVER_OFFLINE_START=".to_owned()),
    ] {
        assert!(fs::read_to_string(systemd(source)).unwrap().contains(&part), "{part} in {source}");
    }
}

#[test]
fn the_card_lets_no_one_in_by_password_and_mounts_the_card() {
    let sshd = fs::read_to_string(card("etc/ssh/sshd_config.d/10-weaver.conf")).unwrap();
    for line in [
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "PermitRootLogin no",
        "AuthorizedKeysFile .ssh/authorized_keys /etc/ssh/weaver_keys/%u",
    ] {
        assert!(sshd.lines().any(|is| is == line), "{line}");
    }
    let sudoers = fs::read_to_string(card("etc/sudoers.d/weaver-admin")).unwrap();
    assert!(sudoers.lines().any(|line| line == "weaver-admin ALL=(ALL:ALL) NOPASSWD: ALL"));

    let fstab = fs::read_to_string(repository().join("image/overlay/etc/fstab")).unwrap();
    let mounts: Vec<Vec<&str>> = fstab
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split_whitespace().collect())
        .collect();
    let options = "nofail,dirsync,noatime,umask=0077,x-systemd.device-timeout=60s";
    assert_eq!(mounts[0], ["LABEL=weaver-root", "/", "ext4", "noatime,errors=remount-ro", "0", "1"]);
    assert_eq!(mounts[1], ["LABEL=WEAVERBOOT", "/boot/firmware", "vfat", options, "0", "2"]);
    assert_eq!(mounts.len(), 2, "no swap on the card");

    let cloud = fs::read_to_string(card("etc/cloud/cloud.cfg.d/99-weaver.cfg")).unwrap();
    for line in [
        "datasource_list: [NoCloud, None]",
        "    seedfrom: file:///boot/firmware/",
        // Otherwise a USB stick with a file system called `cidata` would get root.
        "    fs_label: null",
        "    renderers: [netplan]",
        "users: []",
        "ssh_deletekeys: false",
        "ssh_genkeytypes: []",
        "growpart: {mode: \"off\"}",
        "package_upgrade: false",
    ] {
        assert!(cloud.lines().any(|is| is == line), "{line}");
    }
    for (module, why) in [
        ("growpart", "changes the disk as well"),
        ("resizefs", "changes the disk as well"),
        ("disk_setup", "changes the disk as well"),
        ("keyboard", "fails without console-setup"),
        ("package_update_upgrade_install", "waits for a network that may not be there"),
    ] {
        let names = [module.to_owned(), module.replace('_', "-")].map(|name| format!("- {name}"));
        assert!(!cloud.lines().any(|line| names.iter().any(|name| line.trim() == name)), "{module} {why}");
    }
    for list in ["cloud_init_modules:", "cloud_config_modules:", "cloud_final_modules:"] {
        assert!(cloud.lines().any(|line| line == list), "Debian's own {list} would be in force");
    }
}
