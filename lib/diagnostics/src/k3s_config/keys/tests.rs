use proptest::prelude::*;

use super::*;
use crate::k3s_config::merge;

fn found_on(role: Role, text: &str) -> Vec<Finding> {
    let findings = lint(&[TextFile::new("/c.yaml", text)], &[], role);
    assert!(!format!("{findings:?}").contains("hunter2"), "{findings:?}");
    findings
}

fn messages(role: Role, text: &str) -> Vec<String> {
    found_on(role, text).into_iter().map(|finding| finding.message).collect()
}

#[test]
fn a_key_that_k3s_passes_over_is_named_with_what_was_meant() {
    for (key, meant) in [
        ("tls_san", Some("tls-san")),
        ("tls-sans", Some("tls-san")),
        ("tlsSan", Some("tls-san")),
        ("TLS-SAN", Some("tls-san")),
        ("node_name", Some("node-name")),
        ("data-dirs", Some("data-dir")),
        ("tls-san", None),
        ("tls-san+", None),
        ("node-ip", None),
        ("i", None),
        ("bind-address", None),
        ("node-label", None),
    ] {
        let found = found_on(Role::Server, &format!("{key}: [raspi]\n"));
        let found = found.iter().find(|finding| finding.code == Code::SettingMisspelled);
        assert_eq!(found.is_some(), meant.is_some(), "{key}");
        if let (Some(found), Some(meant)) = (found, meant) {
            assert!(found.message.contains(&format!("it knows `{meant}`")), "{}", found.message);
            assert_eq!(found.evidence[0].place.line, Some(1));
            assert!(merge(&[TextFile::new("/c.yaml", format!("{key}: [raspi]\n"))], &[]).tls_san.is_empty());
            let commands = &found.remedy.as_ref().unwrap().commands;
            assert_eq!(&*commands[0], format!("sudo sed -i 's/^{key}/{meant}/' /c.yaml"));
        }
    }
}

#[test]
fn keys_of_another_role_another_time_or_none() {
    use Role::{Agent, Server};
    for (role, text, want) in [
        (
            Server,
            "flannel-bakend: none\n",
            "k3s does not know `flannel-bakend` and ignores it; it knows `flannel-backend`",
        ),
        (Server, "max-pods: 50\n", "k3s up to v1.37 does not know `max-pods` and ignores it"),
        (
            Agent,
            "max-pods: 50\n",
            "k3s up to v1.37 does not know `max-pods` and does not start as an agent with it",
        ),
        (
            Agent,
            "disable: [traefik]\n",
            "k3s has `disable` on servers only and does not start as an agent with it",
        ),
        (Agent, "tls-san+: [pi]\n", "k3s has `tls-san` on servers only and does not start"),
        (Agent, "write-kubeconfig-mode: \"0644\"\n", "k3s has `write-kubeconfig-mode` on servers only"),
        (
            Server,
            "disable-apiserver-lb: true\n",
            "k3s has `disable-apiserver-lb` on agents only and ignores it",
        ),
        (Server, "no-deploy: [traefik]\n", "k3s has no `no-deploy` since v1.26 and ignores it"),
        (Server, "max-pods=5: 1\n", "k3s up to v1.37 does not know `max-pods=5` and ignores it"),
        (Server, "cluster-secret: hunter2\n", "k3s has no `cluster-secret` since v1.26 and ignores it"),
        (Agent, "no-flannel: true\n", "k3s has no `no-flannel` since v1.26 and does not start"),
        (Server, "multi-cluster-cidr: true\n", "k3s has no `multi-cluster-cidr` since v1.29"),
        (Server, "storage-endpoint: hunter2\n", "k3s has no `storage-endpoint` since v1.17"),
        (Server, "--disable: traefik\n", "k3s does not start with `--disable`: write its keys without"),
        (Agent, "-v: 4\n", "k3s does not start with `-v`"),
        (Server, "\"a\\e[2Jb\": 1\n", "k3s up to v1.37 does not know `a\\u{1b}[2Jb`"),
    ] {
        let found = messages(role, text);
        assert!(found.len() == 1 && found[0].starts_with(want), "{text}: {found:?}");
    }
    let remedy = |text| found_on(Server, text).remove(0).remedy.unwrap().explain;
    assert!(remedy("no-deploy: [traefik]\n").starts_with("write `disable`"));
    assert!(remedy("no-flannel: true\n").contains("`flannel-backend: none`"));
}

#[test]
fn values_that_k3s_cannot_read_or_reads_otherwise() {
    use Severity::{Fail, Warn};
    for (text, severity, want) in [
        ("cluster-init: \"yes\"\n", Fail, "cluster-init must be true or false"),
        ("flannel-backend: ipsec\n", Fail, "flannel-backend must be wireguard-native"),
        ("node-ip: [10.0.0.2, pi.local]\n", Fail, "/c.yaml:1:21: node-ip must be an IP address"),
        ("server: 10.0.0.2:6443\n", Fail, "server must be a URL with https://"),
        ("disable: [flannel, traefik]\n", Warn, "write `flannel-backend: none`"),
        (
            "cluster-cidr: 10.42.0.0/16,2001:db8::/56\nservice-cidr: 10.43.0.0/16\n",
            Fail,
            "/c.yaml:2:15: service-cidr must be of the same families as cluster-cidr at /c.yaml:1:1",
        ),
        ("debug: maybe\n", Fail, "/c.yaml:1:8: debug must be true or false"),
        ("cluster-init:\n", Fail, "cluster-init must be true or false"),
        ("rootless: [false, 2]\n", Fail, "/c.yaml:1:19: rootless must be true or false"),
        ("etcd-snapshot-retention: five\n", Fail, "etcd-snapshot-retention must be a number"),
        ("v: 4.5\n", Fail, "v must be a number"),
        ("etcd-s3-timeout: 300\n", Fail, "etcd-s3-timeout must be a duration"),
        ("etcd-s3-timeout: 5 minutes\n", Fail, "etcd-s3-timeout must be a duration"),
        ("etcd-snapshot-reconcile-interval: \"\"\n", Fail, "must be a duration"),
        (
            "flannel-backend: [none, vxlan]\n",
            Warn,
            "flannel-backend must be a single value: k3s uses only the last of 2",
        ),
        ("token: {a: hunter2}\n", Warn, "/c.yaml:1:8: token must be a single value"),
        ("kubelet-arg:\n  max-pods: 50\n", Warn, "/c.yaml:2:3: kubelet-arg must be a list of strings"),
        ("node-label:\n- a: b\n", Warn, "/c.yaml:2:3: node-label must be a list of strings"),
        ("write-kubeconfig-mode: 0644 # for all\n", Warn, "without them YAML reads 0644 as the number 420"),
    ] {
        let found = found_on(Role::Server, text);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert_eq!((found[0].code, found[0].severity()), (Code::K3sConfigWrongType, severity), "{text}");
        assert!(found[0].message.contains(want), "{text}: {}", found[0].message);
    }
}

#[test]
fn what_k3s_accepts_is_left_alone() {
    for text in [
        "",
        "write-kubeconfig-mode: \"0644\"\n",
        "write-kubeconfig-mode: 644\n",
        "debug: yes\nrootless: off\ncluster-init: \"1\"\ndocker: False\n",
        "v: 0x4\nlb-server-port: \"6444\"\nadvertise-port: 6443\n",
        "etcd-s3-timeout: 1h5m0.5s\netcd-snapshot-reconcile-interval: 0\n",
        "node-label: a=b\ndisable: traefik,servicelb\n",
        "flannel-iface: [eth0]\nnode-ip: [10.0.0.2, fd00::2]\n",
        "kubelet-arg+:\n- max-pods=50\n- \"config=/etc/rancher/k3s/kubelet.yaml\"\n",
        "t: hunter2\ns: https://pi:6443\nd: /data\no: /k\nl: /log\ni: 10.0.0.1\n",
        "cluster-init: yes\ndocker: \"true\"\nflannel-backend: wireguard-native\n",
        "cluster-cidr: [10.42.0.0/16, \"2001:db8::/56\"]\nservice-cidr: 10.43.0.0/16,2001:db8:1::/112\n",
        "etcd-snapshot-restrictions: [s3-bucket]\n",
        "selinux: true\nkube-controller-arg: [a=b]\nairgap-extra-registry: [a]\nsupervisor-port: 9345\n",
        "token: hunter2\nnode-name:\n",
        // k3s#5488: as flags they are `--kubelet-arg=kube-reserved=cpu=500m`.
        "kubelet-arg=kube-reserved: \"cpu=500m,memory=1Gi\"\nkubelet-arg=v: 4\n",
        "- no\n- mapping\n",
        "not: [yaml\n",
    ] {
        assert_eq!(messages(Role::Server, text), [""; 0], "{text}");
    }
    let of_agent =
        "server: https://pi:6443\ntoken-file: /t\nnode-taint: [a=b:NoSchedule]\ndisable-apiserver-lb: true\n";
    assert_eq!(messages(Role::Agent, of_agent), [""; 0]);
}

#[test]
fn the_dns_server_has_an_address_of_the_services() {
    for (text, is_reported) in [
        ("cluster-dns: 10.96.0.10\n", true),
        ("service-cidr: 10.96.0.0/12\ncluster-dns: 10.96.0.10\n", false),
        ("service-cidr: 10.43.0.0/16\ncluster-dns: 10.96.0.10\n", true),
        ("cluster-dns: 10.43.0.10\n", false),
        ("cluster-dns: 169.254.20.10\ndisable: [traefik, coredns]\n", false),
    ] {
        let found = messages(Role::Server, text);
        assert_eq!(
            found.iter().any(|message| message.contains("within service-cidr")),
            is_reported,
            "{text}"
        );
        assert_eq!(found.len(), usize::from(is_reported), "{text}: {found:?}");
    }
}

#[test]
fn a_flag_of_the_unit_decides_what_the_addresses_of_services_are() {
    let file = TextFile::new("/c.yaml", "cluster-dns: 10.96.0.10\n");
    let given = |name: &str, value: &str| Flag {
        name: name.to_owned(),
        value: value.to_owned(),
        origin: Place::line("/etc/systemd/system/k3s.service", 3),
    };
    for (flag, reported) in [
        (given("service-cidr", "10.96.0.0/12"), 0),
        (given("disable", "traefik,coredns"), 0),
        (given("disable", "traefik"), 1),
    ] {
        assert_eq!(lint(std::slice::from_ref(&file), &[flag], Role::Server).len(), reported);
    }
}

#[test]
fn a_value_that_a_later_file_replaces_is_not_judged() {
    let bad = "node-label: [node-role.kubernetes.io/worker=true]\n";
    let found = |later: &str| {
        let files = [TextFile::new("/c.yaml", bad), TextFile::new("/c.yaml.d/90.yaml", later)];
        lint(&files, &[], Role::Server).len()
    };
    assert_eq!(found("node-label: [role=worker]\n"), 0);
    assert_eq!(found("node-label+: [role=worker]\n"), 1, "it is added to what is there");
    assert_eq!(found("node-name: a\n"), 1);
}

#[test]
fn every_flag_is_accepted_in_its_role_with_a_value_of_its_kind() {
    for flag in flags::all().filter(|flag| flag.until.is_none()) {
        let value = match flag.kind {
            FlagKind::Bool => "true",
            FlagKind::Int => "7",
            FlagKind::Duration => "5m0s",
            FlagKind::Text if flag.name == "server" => "https://pi:6443",
            FlagKind::Text if flag.name == "etcd-snapshot-schedule-cron" => "\"0 */12 * * *\"",
            FlagKind::Text if flag.name == "flannel-backend" => "none",
            FlagKind::Text if flag.name == "secrets-encryption-provider" => "aescbc",
            FlagKind::List if flag.name.ends_with("-ip") => "[10.0.0.2, \"fd00::2\"]",
            FlagKind::List if flag.name.ends_with("-cidr") => "[10.0.0.0/16, \"fd00::/56\"]",
            FlagKind::List if flag.name == "node-taint" => "[a=b:NoExecute]",
            FlagKind::Text => "a",
            FlagKind::List => "[a, b]",
        };
        let text = format!("{}: {value}\n", flag.name);
        for role in [Role::Server, Role::Agent].into_iter().filter(|role| flag.is_of(*role)) {
            assert_eq!(messages(role, &text), [""; 0], "{text}");
        }
    }
}

#[test]
fn flags_of_the_unit_with_which_k3s_does_not_start() {
    let flag = |name: &str| Flag {
        name: name.to_owned(),
        value: "hunter2".to_owned(),
        origin: Place::line("/etc/systemd/system/k3s.service", 9),
    };
    for (name, role, want) in [
        (
            "no-deploy",
            Role::Server,
            Some("k3s has no `no-deploy` since v1.26, and does not start with --no-deploy"),
        ),
        (
            "disable",
            Role::Agent,
            Some("k3s has `disable` on servers only, and does not start with --disable"),
        ),
        ("disable", Role::Server, None),
        ("tls-sans", Role::Server, Some("k3s does not start with --tls-sans: it knows --tls-san")),
        // It may be the value of another flag.
        ("max-pods", Role::Server, None),
        ("d", Role::Agent, None),
    ] {
        let found = lint_flags(&[flag(name)], role);
        assert_eq!(found.first().map(|finding| finding.message.as_str()), want, "{name}");
        assert!(!format!("{found:?}").contains("hunter2"));
    }
    let remedy = lint_flags(&[flag("no-deploy")], Role::Server).remove(0).remedy.unwrap();
    assert_eq!(remedy.explain, "in /etc/systemd/system/k3s.service write --disable instead of --no-deploy");
}

proptest! {
    #[test]
    fn never_panics(text in "\\PC*|(tls-san|write-kubeconfig-mode|debug|\\+|: |- |\\[|\\]|0|a|,|\n){0,12}") {
        for role in [Role::Server, Role::Agent] {
            let _ = lint(&[TextFile::new("/f", text.clone())], &[], role);
        }
    }

    #[test]
    fn a_duration_is_one_of_go(numbers in prop::collection::vec((0_u32..100, "ns|us|ms|s|m|h"), 1..4)) {
        let text = numbers.iter().fold(String::new(), |text, (number, unit)| format!("{text}{number}{unit}"));
        prop_assert!(is_duration(&text), "{}", text);
    }
}

#[test]
fn what_stops_k3s_is_a_failure_and_what_it_passes_over_is_none() {
    use Severity::{Fail, Warn};
    for (role, text, want) in [
        (Role::Agent, "disable: [traefik]\n", Fail),
        (Role::Agent, "node-labels: [a=b]\n", Fail),
        (Role::Agent, "no-flannel: true\n", Fail),
        // A newer k3s may know it.
        (Role::Agent, "max-pods: 50\n", Warn),
        (Role::Server, "--disable: traefik\n", Fail),
        (Role::Server, "no-deploy: [traefik]\n", Warn),
        (Role::Server, "disable-servicelb: true\n", Warn),
        (Role::Server, "tls_san: [pi]\n", Warn),
    ] {
        let found = found_on(role, text);
        assert_eq!((found.len(), found[0].severity()), (1, want), "{text}: {found:?}");
        let commands = &found[0].remedy.as_ref().unwrap().commands;
        let is_restart = commands.last() == Some(&RESTART_K3S);
        assert!(is_restart || text.starts_with("tls_san"), "{commands:?}");
    }
    let remedy = found_on(Role::Server, "disable-servicelb: true\n").remove(0).remedy.unwrap();
    assert!(remedy.explain.contains("`disable: [servicelb]`"), "{remedy:?}");
    let origin = Place::line("/k3s.service", 9);
    let flag = |name: &str| Flag { name: name.to_owned(), value: String::new(), origin: origin.clone() };
    assert_eq!(lint_flags(&[flag("kubelet-arg"), flag("tls-sans")], Role::Server), [], "it is a value");
    assert_eq!(lint_flags(&[flag("docker"), flag("tls-sans")], Role::Server).len(), 1);
    assert_eq!(lint_flags(&[flag("no-deploy")], Role::Server)[0].severity(), Fail);
    let twice = [flag("no-deploy"), flag("no-deploy")];
    assert_eq!(lint_flags(&twice, Role::Server).len(), 1, "one line, one finding");
}

#[test]
fn a_token_of_an_agent_that_no_server_takes() {
    use Role::{Agent, Server};
    let flag = |name: &str| Flag {
        name: name.to_owned(),
        value: "/t".to_owned(),
        origin: Place::line("/k3s-agent.service", 9),
    };
    for (role, text, flags, is_found) in [
        (Agent, "token: K10hunter2\n", &[][..], true),
        (Agent, "token: hunter2\n", &[], false),
        (Agent, "token: K10hunter2\ntoken-file: /t\n", &[], false),
        (Agent, "token: K10hunter2\n", &[flag("token-file")], false),
        (Agent, "token: K10hunter2\n", &[flag("t")], false),
        (Agent, "token-file: /t\n", &[], false),
        (Server, "token: K10hunter2\n", &[], false),
    ] {
        let found = lint(&[TextFile::new("/c.yaml", text)], flags, role);
        assert_eq!(found.len(), usize::from(is_found), "{text}: {found:?}");
        assert!(!format!("{found:?}").contains("hunter2"), "{found:?}");
        let start = "/c.yaml:1:8: the token begins with K10";
        assert!(found.iter().all(|finding| finding.message.starts_with(start)), "{found:?}");
    }
}

#[test]
fn what_needs_a_newer_k3s() {
    let file = |text: &str| [TextFile::new("/c.yaml", text)];
    let newer = file("write-kubeconfig-name: pi\ntls-san: [pi]\n");
    let found = lint_since(&newer, &[], Role::Server, 36);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].severity(), Severity::Warn);
    let want = "/c.yaml:1:1: k3s has `write-kubeconfig-name` since v1.37, and v1.36 is installed";
    assert_eq!(found[0].message, want);
    assert_eq!(lint_since(&newer, &[], Role::Server, 37), []);
    let flag = Flag { name: "vpn-auth".to_owned(), value: String::new(), origin: Place::line("/u", 2) };
    let found = lint_since(&[], &[flag], Role::Server, 25);
    assert_eq!(found[0].severity(), Severity::Fail);
}

#[test]
fn files_among_the_drop_ins_that_are_not_read() {
    for (name, want) in
        [("10.conf", true), ("a.json", true), ("a.yaml", false), ("README", false), (".a.conf", false)]
    {
        assert_eq!(passed_over("/d", name).is_some(), want, "{name}");
    }
}
