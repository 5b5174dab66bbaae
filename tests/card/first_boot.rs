//! A card that was flashed and booted once, as its owner and a laptop see it.

use std::collections::BTreeMap;
use std::fs::File;
use std::process::Stdio;

use tokio::process::Command;
use weaver_image::boot::machine::Machine;
use weaver_image::booted::{API_NAME, machine};
use weaver_image::build::own_packages;
use weaver_tests::ui::Ui;

use crate::laptop;
use crate::node::apply_sample;
use crate::poll::until;

/// The steps of a boot: as the `NodeReport` has them, and as a page shows them. The first four have this order.
const STEPS: [(&str, &str); 6] = [
    ("BootFilesApplied", "weaver.toml was applied"),
    ("HostChecked", "The host was checked, and k3s allowed to start"),
    ("K3sStarted", "k3s was started"),
    ("K3sReady", "k3s was ready"),
    ("WebhookReady", "The conversion webhook was ready"),
    ("OperatorReady", "The gate was open, and the operator ready"),
];

/// When a unit began to start, and when it was ready or, being a oneshot, done: in microseconds since the kernel
/// started.
fn times(machine: &Machine, unit: &str) -> (u64, u64) {
    let reported = machine.run(&format!("systemctl show {unit}")).unwrap();
    let at = |key: &str| -> u64 {
        let line =
            reported.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix("TimestampMonotonic="));
        line.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{unit} has no {key} time"))
    };
    let (begun, done) = (at("InactiveExit"), at("ActiveEnter").max(at("InactiveEnter")));
    assert!(begun > 0 && done > 0, "{unit} did not run");
    (begun, done)
}

#[test]
#[ignore = "needs the booted image: make image-smoke"]
fn the_parts_came_up_in_order_and_nothing_failed() {
    let machine = machine().unwrap();
    let mut known = BTreeMap::new();
    let mut times = |unit: &'static str| {
        *known.entry(unit).or_insert_with(|| times(&machine, &format!("{unit}.service")))
    };
    for (first, second) in [
        ("weaver-boot-config", "systemd-networkd"),
        ("weaver-boot-config", "systemd-timesyncd"),
        ("weaver-boot-config", "weaver-preflight"),
        ("weaver-grow-root", "weaver-preflight"),
        ("weaver-ssh-hostkeys", "ssh"),
        ("weaver-preflight", "k3s"),
        ("weaver-preflight", "weaver-node-agent"),
        ("k3s", "weaver-operator"),
    ] {
        let ((_, done), (begun, _)) = (times(first), times(second));
        println!("{first} done at {done} µs, {second} begun at {begun}");
        assert!(done <= begun, "{second} began at {begun} µs, before {first} was done at {done}");
    }
    assert!(times("weaver-node-agent").1 < times("k3s").1, "the agent does not wait for k3s");
    let asked = "systemctl show --value -p ConditionResult cloud-init-main.service cloud-final.service";
    let cloud_init = machine.run(asked).unwrap();
    assert_eq!(cloud_init.split_whitespace().collect::<Vec<_>>(), ["no", "no"], "there is no user-data");
    let failed = machine.run("systemctl --no-pager --plain --no-legend --failed").unwrap();
    assert_eq!(failed.trim(), "", "units have failed");
    let state = machine.attempt("systemctl is-system-running", std::time::Duration::from_mins(1)).unwrap();
    assert_eq!(state.stdout.trim(), "running");
}

#[test]
#[ignore = "needs the booted image: make image-smoke"]
fn kubectl_reaches_the_api_by_its_name_from_outside() {
    let machine = machine().unwrap();
    let spaces = machine.kubectl(API_NAME, &["get", "namespaces", "-o", "name"]).unwrap();
    assert!(spaces.contains("namespace/kube-system"), "{spaces}");
    let host = machine.kubectl("raspi", &["get", "--raw", "/readyz"]).unwrap();
    assert_eq!(host.trim(), "ok", "the host name is served as well");
    let refused = machine.kubectl("unknown.weaver.test", &["get", "namespaces"]).unwrap_err();
    let refused = format!("{refused:#}");
    assert!(refused.contains("unknown.weaver.test") && refused.contains(API_NAME), "{refused}");
}

#[test]
#[ignore = "needs the booted image: make image-smoke"]
fn a_sync_from_the_laptop_is_done_inside_with_the_tenants_rights() {
    let machine = machine().unwrap();
    apply_sample(&machine);
    until("both copies", || {
        let copies = machine.kubectl(
            API_NAME,
            &["get", "configmaps", "-A", "-l", "app.kubernetes.io/managed-by=config-weaver", "-o", "name"],
        )?;
        Ok((copies.lines().count() == 2).then_some(()).ok_or(copies))
    });
    let of = |namespace: &str| {
        machine
            .kubectl(API_NAME, &["-n", namespace, "get", "configmap", "settings", "-o", "jsonpath={.data}"])
            .unwrap()
    };
    assert!(of("team-a").len() > 2, "the source holds something");
    assert_eq!((of("foo"), of("bar")), (of("team-a"), of("team-a")));

    let log = machine.run("cat /var/log/kube-audit.log").unwrap();
    let events: Vec<serde_json::Value> =
        log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let users = |namespace: &str| -> std::collections::BTreeSet<String> {
        let of = events.iter().filter(|event| {
            event["objectRef"]["namespace"] == namespace
                && event["objectRef"]["resource"] == "configmaps"
                && event["verb"] == "create"
                && event["objectRef"]["name"] == "settings"
        });
        of.map(|event| event["user"]["username"].as_str().unwrap_or_default().to_owned()).collect()
    };
    for namespace in ["foo", "bar"] {
        assert_eq!(
            users(namespace),
            ["system:serviceaccount:team-a:team-a-sync".to_owned()].into(),
            "{namespace}"
        );
    }
    let operators: Vec<_> = events
        .iter()
        .filter(|event| {
            event["user"]["username"].as_str().is_some_and(|user| user.contains("weaver-operator"))
        })
        .collect();
    assert!(operators.is_empty(), "the operator touched what only a tenant may: {operators:?}");
}

#[test]
#[ignore = "needs the booted image: make image-smoke"]
fn the_diagnosis_is_readable_with_the_card_in_a_laptop() {
    let mut machine = machine().unwrap();
    let text =
        machine.read_fat("NODE-STATUS.txt").unwrap().expect("NODE-STATUS.txt is on the boot partition");
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("raspi") && text.contains(API_NAME), "{text}");
    let shown = machine.run("sudo cat /run/weaver/node-status.txt").unwrap();
    assert!(shown.contains("raspi") && shown.contains(API_NAME), "{shown}");
    let json =
        machine.read_fat("node-status.json").unwrap().expect("node-status.json is on the boot partition");
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["gate"], "open", "{json}");
    let token = machine.run("cat /run/weaver/operator.token").unwrap();
    for file in [&text, &json.to_string()] {
        assert!(!file.contains(token.trim()), "the operator's token is on the FAT");
    }
}

#[test]
#[ignore = "needs the booted image: make image-smoke"]
fn the_cluster_sees_how_the_node_is() {
    let machine = machine().unwrap();
    let report = until("the NodeReport", || {
        let text = machine.kubectl(API_NAME, &["get", "nodereport", "raspi", "-o", "json"])?;
        let report: serde_json::Value = serde_json::from_str(&text)?;
        let is_whole = report["status"]["conditions"].is_array();
        Ok(if is_whole { Ok(report) } else { Err(text) })
    });
    let status = &report["status"];
    assert_eq!(status["board"], "Raspberry Pi 4 Model B Rev 1.5");
    assert_eq!(status["bootMedium"], "virtio");
    let conditions = status["conditions"].as_array().unwrap().iter();
    let conditions: BTreeMap<_, _> =
        conditions.map(|c| (c["type"].as_str().unwrap(), &c["status"])).collect();
    assert_eq!(conditions["MemoryCgroupEnabled"], "True");
    assert_eq!(conditions["ServingNamesCovered"], "True");
    assert_eq!(conditions["PowerHealthy"], "Unknown", "Debian's kernel has no reader");
    let listens = machine.run("ss -Hltn 'sport = :9446'").unwrap();
    assert!(listens.contains("127.0.0.1:9446") && listens.lines().count() == 1, "{listens}");
}

#[tokio::test]
#[ignore = "needs the booted image: make image-smoke"]
async fn weaver_ui_on_the_laptop_shows_the_boot_step_by_step() {
    let machine = machine().unwrap();
    let report = until("a NodeReport with the last step", || {
        let text =
            machine.kubectl(API_NAME, &["get", "nodereport", "raspi", "-o", "jsonpath={.status.boot}"])?;
        Ok(if text.contains("OperatorReady") { Ok(text) } else { Err(text) })
    });
    let steps: Vec<serde_json::Value> = serde_json::from_str(&report).unwrap();
    let seen: Vec<&str> = steps.iter().map(|step| step["step"].as_str().unwrap()).collect();
    let shown: Vec<&str> =
        seen.iter().map(|seen| STEPS.iter().find(|(step, _)| step == seen).unwrap().1).collect();
    assert_eq!(seen[..4], STEPS.map(|(step, _)| step)[..4], "{report}");
    assert_eq!(seen.len(), STEPS.len(), "{report}");

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kubeconfig");
    serde_json::to_writer(File::create(&path).unwrap(), &laptop::kubeconfig(&machine)).unwrap();
    let programs = std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().to_owned();
    let mut weaver = Command::new(programs.join("weaver"));
    weaver.args(["ui", "--no-browser"]).env("KUBECONFIG", &path);
    weaver.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut ui = Ui::by(weaver).await;
    ui.enter().await;
    let page = ui.shows("nodes/raspi", STEPS[5].1).await;
    let found: Vec<Option<usize>> = shown.iter().map(|words| page.find(words)).collect();
    assert!(found.iter().all(Option::is_some) && found.is_sorted(), "{found:?}: {page}");
    ui.end().await;
}

#[test]
#[ignore = "needs the booted image: make image-smoke"]
fn the_node_made_its_own_identity_and_took_its_owners_settings() {
    let machine = machine().unwrap();
    let run = |command: &str| machine.run(command).unwrap().trim().to_owned();
    assert_eq!(run("hostname"), "raspi");
    assert_eq!(run("cat /etc/machine-id").len(), 32);
    for kind in ["ed25519", "ecdsa"] {
        let mode = run(&format!("stat -c '%a %U' /etc/ssh/ssh_host_{kind}_key"));
        assert_eq!(mode, "600 root", "{kind}");
    }
    assert_eq!(run("ls /etc/ssh/ | grep -c ssh_host_rsa || true"), "0");
    let size: u64 = run("df --output=size -k / | tail -n 1").parse().unwrap();
    assert!(size > 6 << 20, "the root has not grown: {size} KiB");
    assert_eq!(run("timedatectl show-timesync --value -p SystemNTPServers"), "10.0.2.2");
    assert_eq!(run("swapon --noheadings | wc -l"), "0", "no swap on the card");
    assert_eq!(run("ls /var/log/journal 2>/dev/null | wc -l"), "0", "the journal is in memory");
    assert_eq!(run("passwd -S weaver-admin | cut -d ' ' -f 2"), "L");
    assert_eq!(
        run("sshd -T | grep -E '^(passwordauthentication|permitrootlogin) '"),
        "permitrootlogin no\npasswordauthentication no"
    );
    assert_eq!(run("findmnt -no OPTIONS /boot/firmware | grep -c dirsync"), "1");
    assert_eq!(run("runuser -u weaver-admin -- ping -c 1 127.0.0.1 | grep -c ' 0% packet loss'"), "1");
    assert_eq!(run("cat /sys/class/watchdog/watchdog0/timeout"), "14");
}

/// A source of newer packages, as weaver.toml would name it: of which a look reads the list alone.
const NEWER: &str = r"mkdir /run/newer
for package in config-weaver config-weaver-card weaver; do
    printf 'Package: %s\nVersion: 99\nArchitecture: arm64\nFilename: x.deb\nSize: 1\nSHA256: %064d\nDescription: x\n\n' $package 0
done > /run/newer/Packages
printf 'Types: deb\nURIs: file:/run/newer\nSuites: ./\nTrusted: yes\n' > /etc/apt/sources.list.d/config-weaver.sources";

#[test]
#[ignore = "needs the booted image: make image-smoke"]
fn dpkg_finds_our_files_as_they_came_and_apt_would_replace_them() {
    let machine = machine().unwrap();
    let packages = own_packages::NAMES.join(" ");
    let verified = machine.run(&format!("dpkg --verify {packages} || true")).unwrap();
    // Manuals are left out.
    let is_left_out = |line: &&str| {
        line.starts_with("missing")
            && ["/usr/share/man/", "/usr/share/doc/"].iter().any(|path| line.contains(path))
    };
    let changed: Vec<_> = verified.lines().filter(|line| !is_left_out(line)).collect();
    assert!(changed.is_empty(), "{changed:#?}");
    assert_eq!(machine.run("dpkg --audit").unwrap(), "");
    assert_eq!(
        machine.run("dpkg -S /usr/bin/weaver /usr/bin/weaver-node-agent").unwrap(),
        "weaver: /usr/bin/weaver\nconfig-weaver: /usr/bin/weaver-node-agent\n"
    );

    machine.run(NEWER).unwrap();
    let looked = machine.attempt("weaver node update --dry-run", std::time::Duration::from_mins(2)).unwrap();
    for name in own_packages::NAMES {
        let line = looked.stdout.lines().find(|line| line.split_whitespace().next() == Some(name));
        assert!(line.is_some_and(|line| line.contains("→ 99,")), "{name}: {looked:?}");
    }
}

#[test]
#[ignore = "needs the booted image: make image-smoke"]
fn units_are_right_and_shut_in_as_systemd_itself_sees_it() {
    let machine = machine().unwrap();
    let units = machine
        .run("ls /usr/lib/systemd/system/weaver-*.service /usr/lib/systemd/system/k3s*.service")
        .unwrap();
    let verify =
        format!("systemd-analyze verify {} 2>&1", units.split_whitespace().collect::<Vec<_>>().join(" "));
    let reported = machine.run_within(&verify, std::time::Duration::from_mins(5)).unwrap();
    let ours: Vec<_> =
        reported.lines().filter(|line| line.contains("weaver") || line.contains("k3s")).collect();
    assert!(ours.is_empty(), "{ours:#?}");
    let most = [
        ("weaver-operator", 2.0),
        ("weaver-webhook", 2.0),
        ("weaver-page", 2.0),
        ("weaver-node-agent", 2.5),
        ("weaver-preflight", 2.5),
    ];
    for (unit, most) in most {
        let line =
            machine.run(&format!("systemd-analyze security --no-pager {unit}.service | tail -n 1")).unwrap();
        let score: f64 =
            line.split(": ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok()).unwrap();
        println!("{unit}: {score}");
        assert!(score <= most, "{unit}: {line}");
    }
}

#[test]
#[ignore = "needs the booted image: make image-smoke"]
fn operator_and_webhook_cannot_read_each_others_secrets() {
    let machine = machine().unwrap();
    let (token, key) = ("/run/weaver/operator.token", "/var/lib/weaver/webhook/leaf.pem");
    for (unit, user, own, others) in
        [("weaver-operator", "weaver", token, key), ("weaver-webhook", "weaver-webhook", key, token)]
    {
        // Its user alone, and then its sandbox as well; either has to be enough.
        let as_user = format!("setpriv --reuid={user} --regid={user} --clear-groups");
        let sandboxed =
            format!("nsenter --mount --target $(systemctl show --value -p MainPID {unit}) -- {as_user}");
        let read = |how: &str, path: &str| {
            let command = format!("{how} head -c 1 {path} > /dev/null");
            machine.attempt(&command, std::time::Duration::from_mins(1)).unwrap()
        };
        for how in [&as_user, &sandboxed] {
            let (may, may_not) = (read(how, own), read(how, others));
            assert_eq!(may.code, 0, "{unit} needs {own}: {may:?}");
            assert!(
                may_not.code != 0 && may_not.stderr.contains("denied"),
                "{unit} reads {others}: {may_not:?}"
            );
        }
        let root = format!("nsenter --mount --target $(systemctl show --value -p MainPID {unit}) --");
        assert_ne!(read(&root, others).code, 0, "{others} is in {unit}'s sight, whatever its owner and mode");
    }
    let modes = machine
        .run(&format!("stat -c '%a %U:%G' /run/weaver {token} /var/lib/weaver/webhook {key}"))
        .unwrap();
    let expected =
        ["750 root:weaver", "640 root:weaver", "750 root:weaver-webhook", "640 root:weaver-webhook"];
    assert_eq!(modes.lines().collect::<Vec<_>>(), expected);
}

#[test]
#[ignore = "needs the booted image: make image-smoke"]
fn the_journal_has_fields_and_no_secret() {
    let machine = machine().unwrap();
    for unit in ["weaver-boot-config", "weaver-preflight", "weaver-node-agent"] {
        let journal = machine.run(&format!("journalctl --no-pager -o json -u {unit}")).unwrap();
        let entries: Vec<serde_json::Value> =
            journal.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let coded = entries.iter().find(|entry| entry["CODE"].is_string());
        let coded = coded.unwrap_or_else(|| panic!("no code in {} entries of {unit}", entries.len()));
        assert_eq!(coded["SYSLOG_IDENTIFIER"], "weaver-node-agent", "{coded}");
    }
    let leaked = "journalctl --no-pager -o cat | grep -cF -f /run/weaver/operator.token || true";
    assert_eq!(machine.run(leaked).unwrap().trim(), "0", "the operator's token is in the journal");
}
