//! What the units, drop-ins and settings in `systemd/` and `packaging/card/` rely on in each other (docs of the boot
//! order: systemd/README.md). Each assertion says what would break on a Pi without it.
//!
//! `systemd-analyze` runs here where the machine has it; the version that counts, Debian 13's, runs it inside the
//! booted image.

mod analyze;
mod page;
mod settings;
mod unit_file;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use unit_file::{UnitFile, card, names, repository, systemd, units, units_and_drop_ins};

/// Ours that run for as long as the machine does.
const DAEMONS: [&str; 3] = ["weaver-node-agent.service", "weaver-webhook.service", "weaver-operator.service"];
/// k3s itself: its upstream's settings, its own slice.
const K3S: [&str; 2] = ["k3s.service", "k3s-agent.service"];
/// Keys that every service of ours sets, whatever else it needs.
const SANDBOX: [&str; 13] = [
    "CapabilityBoundingSet",
    "LockPersonality",
    "NoNewPrivileges",
    "ProtectClock",
    "ProtectControlGroups",
    "ProtectHome",
    "ProtectKernelLogs",
    "ProtectKernelModules",
    "RestrictAddressFamilies",
    "RestrictNamespaces",
    "RestrictRealtime",
    "RestrictSUIDSGID",
    "SystemCallArchitectures",
];

/// Units whose children set up whatever a package contains.
const UNCONFINED: [&str; 2] = ["weaver-update.service", "weaver-update-resume.service"];

/// Services of ours, without k3s.
fn ours() -> BTreeMap<String, UnitFile> {
    let is_ours = |name: &str| name.starts_with("weaver-") && name.ends_with(".service");
    units().into_iter().filter(|(name, _)| is_ours(name)).collect()
}

#[test]
fn every_listed_unit_is_there() {
    let expected = [
        "k3s-agent.service",
        "k3s.service",
        "weaver-backup.service",
        "weaver-backup.timer",
        "weaver-boot-config.service",
        "weaver-data-disk.service",
        "weaver-grow-root.service",
        "weaver-node-agent.service",
        "weaver-operator.service",
        "weaver-page.service",
        "weaver-page.socket",
        "weaver-preflight.service",
        "weaver-ssh-hostkeys.service",
        "weaver-update-resume.service",
        "weaver-update.service",
        "weaver-update.timer",
        "weaver-webhook.service",
        "weaver-webhook.socket",
        "weaver.slice",
    ];
    assert_eq!(units().into_keys().collect::<Vec<_>>(), expected);
    let readme = fs::read_to_string(systemd("README.md")).unwrap();
    for name in names(&systemd("")).iter().filter(|name| *name != "README.md") {
        assert!(readme.contains(&format!("`{name}")), "systemd/README.md says nothing about {name}");
    }
}

#[test]
fn no_unit_takes_another_with_it() {
    for (name, unit) in units_and_drop_ins() {
        for key in ["Requires", "Requisite", "BindsTo", "PartOf", "Upholds"] {
            let found = unit.words("Unit", key);
            assert!(
                found.is_empty(),
                "{name}: {key}={found:?}: one failed start of the agent would lose the operator for good"
            );
        }
    }
}

#[test]
fn nothing_waits_for_the_end_of_cloud_init() {
    for (name, unit) in units_and_drop_ins() {
        for last in ["cloud-init.target", "cloud-final.service", "cloud-config.service"] {
            assert!(
                !unit.has("Unit", "After", last),
                "{name}: cloud-final is itself after multi-user.target: a cycle, and systemd drops one of the two"
            );
        }
        assert!(
            unit.words("Unit", "ConditionFirstBoot").is_empty(),
            "{name}: with an empty machine-id no boot counts as the first"
        );
    }
}

#[test]
fn the_order_of_the_boot() {
    let units = units();
    let early = &units["weaver-boot-config.service"];
    assert_eq!(
        early.value("Unit", "DefaultDependencies"),
        Some("no"),
        "else it is after sysinit.target, a cycle"
    );
    assert!(
        early.has("Unit", "After", "boot-firmware.mount"),
        "weaver.toml is there; `nofail` orders nothing"
    );
    assert!(early.has("Unit", "Wants", "boot-firmware.mount"), "Requires= would skip a boot without the FAT");
    for reader in [
        "cloud-init-main.service",
        "cloud-init-local.service",
        "network-pre.target",
        "systemd-timesyncd.service",
        "sysinit.target",
        "shutdown.target",
    ] {
        assert!(early.has("Unit", "Before", reader), "{reader} would read what boot-config has yet to write");
    }
    for late in early.words("Unit", "After") {
        assert!(
            !late.contains("tmpfiles") && !late.ends_with(".target"),
            "boot-config after {late}: that is close to sysinit.target, which waits for boot-config"
        );
    }

    let preflight = &units["weaver-preflight.service"];
    for first in ["weaver-boot-config.service", "cloud-init-network.service", "time-set.target"] {
        assert!(preflight.has("Unit", "After", first), "preflight judges what {first} has yet to change");
    }
    for k3s in K3S {
        assert!(units["weaver-grow-root.service"].has("Unit", "Before", k3s), "k3s fills what room there is");
    }
    let grown = units["weaver-grow-root.service"].value("Unit", "ConditionPathExists");
    assert_eq!(
        grown,
        Some("!/run/weaver/root-grown"),
        "what boot-config writes where nothing is left to grow"
    );

    for k3s in K3S {
        assert!(
            !units["weaver-node-agent.service"].has("Unit", "After", k3s),
            "a {k3s} that hangs in `activating` would never be reported"
        );
    }
    let first = units["weaver-node-agent.service"].words("Unit", "After");
    assert_eq!(
        first,
        ["weaver-boot-config.service", "weaver-preflight.service"],
        "the agent waits for nothing else"
    );
    let first = units["weaver-webhook.service"].words("Unit", "After");
    assert!(first.is_empty(), "conversion waits for no one: {first:?}");
}

#[test]
fn the_webhook_is_started_by_its_socket() {
    let units = units();
    let (socket, service) = (&units["weaver-webhook.socket"], &units["weaver-webhook.service"]);
    assert!(socket.has("Install", "WantedBy", "sockets.target"), "else it comes after k3s");
    assert_eq!(service.service("Sockets"), Some("weaver-webhook.socket"), "started by hand it has no socket");
    for (key, value) in
        [("StandardInput", "socket"), ("StandardOutput", "journal"), ("StandardError", "journal")]
    {
        assert_eq!(service.service(key), Some(value), "{key}");
    }
}

#[test]
fn a_backup_is_made_where_one_is_asked_for_and_waits_for_no_k3s() {
    let units = units();
    for name in ["weaver-backup.timer", "weaver-backup.service"] {
        let unit = &units[name];
        assert!(unit.has("Unit", "ConditionPathExists", "/etc/weaver/backup.env"), "{name}");
        let after = unit.words("Unit", "After");
        assert!(!after.iter().any(|other| other.contains("k3s")), "{name}: a k3s that is down is saved, too");
    }
    let start = units["weaver-backup.service"].service("ExecStart").unwrap();
    assert!(start.contains(" --must-be-mounted "), "else it would fill the card where the disk is missing");
}

#[test]
fn an_update_is_made_where_it_is_asked_for_and_completed_where_it_was_cut_off() {
    let units = units();
    for name in ["weaver-update.timer", "weaver-update.service"] {
        assert!(units[name].has("Unit", "ConditionPathExists", "/etc/weaver/update.env"), "{name}");
    }
    assert!(units["weaver-update.service"].service("ExecStart").unwrap().contains(" update --yes --when "));
    let resume = &units["weaver-update-resume.service"];
    for record in ["update.json", "kernel.json"] {
        assert!(resume.has("Unit", "ConditionPathExists", &format!("|/var/lib/weaver/{record}")), "{record}");
    }
    assert!(resume.has("Install", "WantedBy", "multi-user.target"), "no one types it on a headless board");
    assert!(resume.service("ExecStart").unwrap().contains(" update --resume "), "it begins nothing new");
    for name in UNCONFINED {
        assert_eq!(units[name].service("KillMode"), Some("mixed"), "{name}: a stop would kill apt and dpkg");
    }
}

/// One at a time changes the node: else the timer's would have the lock, and the boot's end until the next boot.
#[test]
fn what_a_boot_completes_goes_before_what_a_timer_begins() {
    let units = units();
    for timers in ["weaver-backup.service", "weaver-update.service"] {
        for boots in ["weaver-data-disk.service", "weaver-update-resume.service"] {
            assert!(units[timers].has("Unit", "After", boots), "{timers} would keep {boots} from its work");
        }
    }
}

#[test]
fn an_update_waits_for_what_changes_the_node() {
    let units = units();
    let update = &units["weaver-update.service"];
    assert!(
        update.has("Unit", "After", "weaver-backup.service"),
        "six hours of a backup would cost each night"
    );
    for name in UNCONFINED {
        let start = units[name].service("ExecStart").unwrap();
        assert!(start.contains(" --lock-timeout 3600"), "{name}: the next night or boot may be far");
        assert_eq!(units[name].service("TimeoutStartSec"), Some("3h"), "{name}: an hour of it is that wait");
    }
}

#[test]
fn k3s_is_held_back_by_a_file_alone() {
    for k3s in K3S {
        let gate = UnitFile::read(&systemd(&format!("{k3s}.d/10-weaver.conf")));
        for key in ["Wants", "After"] {
            assert!(gate.has("Unit", key, "weaver-preflight.service"), "{k3s} would start unchecked");
        }
        assert!(
            gate.has("Unit", "ConditionPathExists", "!/run/weaver/k3s.blocked"),
            "{k3s} would end in its own endless restarts instead of a reason"
        );
    }
    let preflight = &units()["weaver-preflight.service"];
    assert_eq!(preflight.service("SuccessExitStatus"), Some("10 11"), "a verdict is no failure of the unit");
    assert_eq!(preflight.service("RemainAfterExit"), Some("no"), "the next start of k3s needs a new verdict");
    assert_eq!(preflight.service("TimeoutStartSec"), Some("60"), "a hanging check must not hold k3s forever");
    assert_eq!(
        preflight.service("NotifyAccess"),
        Some("main"),
        "a longer wait for the clock is asked for there"
    );
}

#[test]
fn data_is_moved_before_k3s_starts_which_never_starts_without_the_disk() {
    let units = units();
    let unit = &units["weaver-data-disk.service"];
    for k3s in K3S {
        assert!(unit.has("Unit", "Before", k3s), "{k3s} would write to what is copied");
        let gate = UnitFile::read(&systemd(&format!("{k3s}.d/10-weaver.conf")));
        assert!(gate.has("Unit", "ConditionPathExists", "|!/var/lib/weaver/data-disk.json"), "{k3s}");
        let mounted = gate.value("Unit", "ConditionPathIsMountPoint");
        assert_eq!(
            mounted,
            Some("|/var/lib/rancher"),
            "{k3s}: a new cluster would begin on an empty directory"
        );
        assert!(gate.has("Unit", "After", "var-lib-rancher.mount"), "{k3s} would lose it first at the end");
    }
    assert!(unit.has("Unit", "Before", "weaver-preflight.service"), "it judges whether the disk is there");
    assert!(unit.has("Unit", "After", "weaver-boot-config.service"), "its manifests are moved, too");
    let boot_config = &units["weaver-boot-config.service"];
    assert!(boot_config.has("Unit", "After", "var-lib-rancher.mount"), "else they go below the mount");
    let asked = ["|/etc/weaver/data-disk.env", "|/var/lib/weaver/data-disk.json"];
    assert_eq!(unit.words("Unit", "ConditionPathExists"), asked);
    assert_eq!(
        unit.value("Unit", "ConditionPathIsMountPoint"),
        Some("!/var/lib/rancher"),
        "k3s waits for it"
    );
    assert_eq!(unit.service("PrivateMounts"), Some("yes"), "a kill would leave the disk mounted");
    assert_eq!(unit.service("SuccessExitStatus"), Some("10"), "a refusal is no failure of the unit");
}

#[test]
fn the_role_decides_which_k3s_starts_and_an_agent_has_no_operator() {
    let gate = |k3s: &str| UnitFile::read(&systemd(&format!("{k3s}.d/10-weaver.conf")));
    let (role, other) = ("/etc/weaver/k3s-agent", "!/etc/weaver/k3s-agent");
    let has = |unit: &UnitFile, word: &str| unit.has("Unit", "ConditionPathExists", word);
    assert!(has(&gate("k3s-agent.service"), role) && !has(&gate("k3s-agent.service"), other));
    assert!(has(&gate("k3s.service"), other) && !has(&gate("k3s.service"), role), "exactly one of the two");
    for name in ["weaver-operator.service", "weaver-webhook.service", "weaver-webhook.socket"] {
        assert!(has(&units()[name], other), "{name} has no API server on an agent");
    }
}

#[test]
fn k3s_has_the_settings_of_its_installer() {
    let units = units();
    for (name, start) in [
        ("k3s.service", "/usr/local/bin/k3s server $WEAVER_OFFLINE_START"),
        ("k3s-agent.service", "/usr/local/bin/k3s agent"),
    ] {
        let unit = &units[name];
        for (key, value) in [
            // An agent reports that it is ready when it has joined.
            ("Type", "notify"),
            ("Restart", "always"),
            ("RestartSec", "5s"),
            ("TimeoutStartSec", "0"),
            ("KillMode", "process"),
            ("Delegate", "yes"),
            ("LimitNOFILE", "1048576"),
            ("ExecStart", start),
        ] {
            assert_eq!(unit.service(key), Some(value), "{name}: {key}");
        }
        let modules = unit.words("Service", "ExecStartPre");
        assert_eq!(modules, ["-/sbin/modprobe", "br_netfilter", "-/sbin/modprobe", "overlay"], "{name}");
        for key in ["Wants", "After"] {
            assert!(unit.has("Unit", key, "network-online.target"), "{name}: {key}");
        }
    }
}

#[test]
fn the_preset_names_every_unit() {
    let read = |name: &str| fs::read_to_string(systemd("system-preset").join(name)).unwrap();
    let text: String = names(&systemd("system-preset")).iter().map(|name| read(name)).collect();
    let orders: Vec<_> = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
    for (name, unit) in units() {
        let enable = orders.contains(&format!("enable {name}").as_str());
        let disable = orders.contains(&format!("disable {name}").as_str());
        let can_be = unit.0.iter().any(|(section, _, _)| section == "Install");
        assert_eq!(
            enable || disable,
            can_be,
            "{name}: what no preset names is enabled by Debian's `enable *`"
        );
        assert!(text.contains(name.as_str()), "{name} is not even in a comment of the preset");
    }
    assert!(
        orders.contains(&"enable k3s.service") && orders.contains(&"enable k3s-agent.service"),
        "which of them starts is not for a link to say"
    );
    assert_eq!(orders.len(), units().len() - 7, "an order for a unit that is not there, or twice");
}

#[test]
fn the_operator_is_started_by_the_agent_alone() {
    let operator = &units()["weaver-operator.service"];
    assert!(
        !operator.0.iter().any(|(section, _, _)| section == "Install"),
        "enabled, it would start before a name is proven"
    );
    assert!(operator.has("Unit", "ConditionPathExists", "/run/weaver/operator.kubeconfig"));
    assert!(operator.has("Unit", "After", "weaver-node-agent.service"));
    assert!(
        operator.words("Service", "LoadCredential").is_empty(),
        "a token that is renewed has to be read by path"
    );
}

#[test]
fn every_command_is_one_of_our_programs() {
    let repository = repository();
    for (name, unit) in units() {
        if !name.ends_with(".service") {
            continue;
        }
        let command = unit.service("ExecStart").unwrap();
        let program = command.split(' ').next().unwrap();
        if let Some(crate_name) = program.strip_prefix("/usr/bin/weaver-") {
            let manifest = fs::read_to_string(repository.join(crate_name).join("Cargo.toml")).unwrap();
            assert!(manifest.contains(&format!("name = \"weaver-{crate_name}\"")), "{name}: {program}");
        } else if K3S.contains(&name.as_str()) {
            assert_eq!(program, "/usr/local/bin/k3s", "{name}");
        } else {
            let mode = fs::metadata(card(program.trim_start_matches('/'))).unwrap().permissions().mode();
            assert_eq!(mode & 0o111, 0o111, "{name}: {program} cannot be executed");
        }
    }
    let command = |name: &str| units()[name].service("ExecStart").unwrap().to_owned();
    for (name, expected) in [
        (
            "weaver-boot-config.service",
            "/usr/bin/weaver-node-agent boot-config --netplan-generate /usr/libexec/netplan/generate",
        ),
        ("weaver-preflight.service", "/usr/bin/weaver-node-agent preflight --gate --offline-start"),
        ("weaver-data-disk.service", "/usr/bin/weaver-node-agent data-disk"),
        ("weaver-node-agent.service", "/usr/bin/weaver-node-agent run --systemd"),
        ("weaver-page.service", "/usr/bin/weaver-node-agent page"),
        ("weaver-webhook.service", "/usr/bin/weaver-operator webhook --socket-on-stdin"),
        (
            "weaver-operator.service",
            "/usr/bin/weaver-operator run --kubeconfig /run/weaver/operator.kubeconfig",
        ),
    ] {
        assert_eq!(command(name), expected, "{name}");
    }
}

#[test]
fn daemons_are_watched_and_come_back() {
    let units = units();
    for name in DAEMONS {
        let unit = &units[name];
        for (key, value, why) in [
            ("Type", "notify", "started is not yet ready"),
            ("NotifyAccess", "main", "a child speaks for no one"),
            ("Restart", "always", "someone has to start it again"),
            ("RestartPreventExitStatus", "2", "wrong flags stay wrong: needs a human"),
        ] {
            assert_eq!(unit.service(key), Some(value), "{name}: {key}: {why}");
        }
        for key in ["WatchdogSec", "RestartSec", "RestartSteps", "RestartMaxDelaySec", "TimeoutStopSec"] {
            let value = unit.service(key).unwrap_or_else(|| panic!("{name}: no {key}="));
            assert!(
                value.starts_with(|c: char| ('1'..='9').contains(&c)),
                "{name}: {key}={value} turns it off"
            );
        }
        assert_eq!(
            unit.value("Unit", "StartLimitIntervalSec"),
            Some("0"),
            "{name}: after five quick failures systemd would give it up"
        );
    }
}

#[test]
fn ours_are_in_their_slice_and_their_sandbox() {
    for (name, unit) in ours() {
        assert_eq!(unit.service("Slice"), Some("weaver.slice"), "{name}: its writes would not be counted");
        assert!(
            unit.words("Service", "RuntimeDirectory").is_empty(),
            "{name}: /run/weaver would vanish with it, credentials and all"
        );
        for key in SANDBOX.into_iter().filter(|_| !UNCONFINED.contains(&&*name)) {
            assert!(unit.service(key).is_some(), "{name}: no {key}=");
        }
        assert!(
            unit.service("Type") == Some("notify") || unit.service("TimeoutStartSec").is_some(),
            "{name}: a oneshot that hangs would hold the boot forever"
        );
        assert!(
            !unit.words("Service", "ReadWritePaths").iter().any(|path| path.contains("/boot")),
            "{name}: a mount of systemd's own on /boot/firmware hides a FAT that is mounted later"
        );
    }
    let units = units();
    assert_eq!(units["weaver.slice"].value("Slice", "IOAccounting"), Some("yes"));
    for name in ["weaver-operator.service", "weaver-webhook.service"] {
        for (key, value) in [
            ("CapabilityBoundingSet", ""),
            ("ProtectSystem", "strict"),
            ("PrivateUsers", "yes"),
            ("RestrictAddressFamilies", "AF_UNIX AF_INET AF_INET6"),
            ("IPAddressDeny", "any"),
            ("IPAddressAllow", "localhost"),
            ("MemoryDenyWriteExecute", "yes"),
        ] {
            assert_eq!(units[name].service(key), Some(value), "{name}: {key}");
        }
        assert!(units[name].has("Service", "SystemCallFilter", "@system-service"), "{name}");
    }
    for (name, user, hidden) in [
        ("weaver-operator.service", "weaver", "-/var/lib/weaver/webhook"),
        ("weaver-webhook.service", "weaver-webhook", "-/run/weaver"),
    ] {
        for key in ["User", "Group"] {
            assert_eq!(
                units[name].service(key),
                Some(user),
                "{name}: {key}: each would read the other's secrets"
            );
        }
        assert_eq!(units[name].service("InaccessiblePaths"), Some(hidden), "{name}: the other's secrets");
    }
    // What errors of the card are read from. No other unit of ours may: processes and addresses are in it.
    let agent = &units["weaver-node-agent.service"];
    for (key, value) in [
        ("BindReadOnlyPaths", "-/dev/kmsg"),
        ("DeviceAllow", "/dev/kmsg r"),
        ("PrivateDevices", "yes"),
        ("ProtectKernelLogs", "no"),
    ] {
        assert_eq!(agent.service(key), Some(value), "{key}: the kernel's log, and no device but that");
    }
    assert!(agent.has("Service", "CapabilityBoundingSet", "CAP_SYSLOG"), "dmesg_restrict is 1 on Debian");
    for (name, unit) in units.iter().filter(|(name, _)| *name != "weaver-node-agent.service") {
        let protects = unit.service("ProtectKernelLogs");
        assert!(protects.is_none_or(|value| value == "yes"), "{name}: ProtectKernelLogs={protects:?}");
        assert!(!unit.has("Service", "CapabilityBoundingSet", "CAP_SYSLOG"), "{name}");
    }
    // On a node that joins, it connects to the server; without that J-01 would be reported forever.
    assert_eq!(units["weaver-node-agent.service"].service("IPAddressDeny"), None);
}
