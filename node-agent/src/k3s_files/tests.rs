use weaver_diagnostics::finding::{Place, Severity};
use weaver_diagnostics::host::storage::MOUNTS;

use super::*;
use crate::host_root::fixture::host;

fn judged(files: &[(&str, &str)]) -> Effective {
    let (_dir, root) = host(files);
    effective(&root, None, Some(Path::new("/k3s.service")))
}

#[test]
fn the_unit_and_the_drop_ins_that_systemd_takes() {
    let [etc, run, usr] = UNIT_DIRS.map(|dir| format!("{dir}/k3s.service"));
    let (etc, run, usr) = (etc.as_str(), run.as_str(), usr.as_str());
    let start = |name: &str| format!("[Service]\nExecStart=\nExecStart=k3s server --tls-san {name}\n");
    for (files, want) in [
        (&[(usr, "usr")][..], "usr"),
        (&[(usr, "usr"), (run, "run")], "run"),
        (&[(usr, "usr"), (run, "run"), (etc, "etc")], "etc"),
        (&[(etc, "etc"), ("/usr/lib/systemd/system/k3s.service.d/1.conf", "drop-in")], "drop-in"),
        (
            &[
                ("/etc/systemd/system/k3s.service.d/1.conf", "first"),
                (usr, "usr"),
                ("/run/systemd/system/k3s.service.d/2.conf", "last"),
            ],
            "last",
        ),
        (
            &[
                (usr, "usr"),
                ("/etc/systemd/system/k3s.service.d/1.conf", "owner"),
                ("/usr/lib/systemd/system/k3s.service.d/1.conf", "shipped"),
            ],
            "owner",
        ),
    ] {
        let texts: Vec<_> = files.iter().map(|(path, name)| (*path, start(name))).collect();
        let texts: Vec<_> = texts.iter().map(|(path, text)| (*path, text.as_str())).collect();
        let (_dir, root) = host(&texts);
        let effective = effective(&root, None, None);
        assert_eq!(effective.tls_san[0].value, want, "{files:?}");
        assert_eq!(effective.findings, []);
    }
}

#[test]
fn of_a_node_that_joins_the_other_unit_counts() {
    let unit = |role: &str| format!("[Service]\nEnvironment=K3S_NODE_NAME={role}\nExecStart=k3s {role}\n");
    let (server, agent) = (unit("server"), unit("agent"));
    let units = [
        ("/etc/systemd/system/k3s.service", server.as_str()),
        ("/usr/lib/systemd/system/k3s-agent.service", agent.as_str()),
    ];
    let noted = (AGENT_ROLE, "");
    for (files, want) in [
        (&units[..], "server"),
        (&[units[0], units[1], noted], "agent"),
        (&units[..1], "server"),
        // As k3s' own installer leaves it.
        (&units[1..], "agent"),
    ] {
        let (_dir, root) = host(files);
        assert_eq!(effective(&root, None, None).node_name.unwrap().value, want, "{files:?}");
        assert_eq!(role(&root) == Role::Agent, want == "agent", "{files:?}");
    }
    let (_dir, root) = host(&[noted]);
    assert_eq!(role(&root), Role::Agent, "before k3s is installed");
}

#[test]
fn of_two_units_the_one_that_systemd_starts_counts() {
    let units = ["k3s.service", "k3s-agent.service"].map(|unit| format!("/etc/systemd/system/{unit}"));
    for (wanted, want) in [
        (&[][..], Role::Server),
        (&["k3s.service"], Role::Server),
        // A server that was made an agent, its own unit disabled.
        (&["k3s-agent.service"], Role::Agent),
        (&["k3s.service", "k3s-agent.service"], Role::Server),
    ] {
        let wants = wanted.iter().map(|unit| format!("/etc/systemd/system/multi-user.target.wants/{unit}"));
        let paths: Vec<_> = units.iter().cloned().chain(wants).collect();
        let files: Vec<_> = paths.iter().map(|path| (path.as_str(), "")).collect();
        let (_dir, root) = host(&files);
        assert_eq!(role(&root), want, "{wanted:?}");
    }
}

#[test]
fn the_units_of_the_card_name_files_that_are_read() {
    for (unit, text) in [
        ("k3s", include_str!("../../../systemd/k3s.service")),
        ("k3s-agent", include_str!("../../../systemd/k3s-agent.service")),
    ] {
        for file in ["/etc/default/NAME", "/etc/sysconfig/NAME", "/etc/systemd/system/NAME.service.env"] {
            let file = file.replace("NAME", unit);
            let effective = judged(&[("/k3s.service", text), (&file, "K3S_NODE_NAME=own\n")]);
            assert_eq!(effective.node_name.map(|name| name.origin), Some(Place::line(&file, 1)));
        }
    }
}

#[test]
fn the_files_that_k3s_own_installer_names_by_the_unit_are_read() {
    let unit = ("/etc/systemd/system/k3s.service", "[Service]\nEnvironmentFile=-/etc/default/%N\n");
    let own = ("/etc/default/k3s", "K3S_DATASTORE_ENDPOINT=mysql://k3s:hunter2@tcp(db)/k3s\n");
    let (_dir, root) = host(&[unit, own]);
    let endpoint = effective(&root, None, None).datastore.unwrap();
    assert_eq!((endpoint.is_elsewhere, endpoint.origin), (true, Place::line(own.0, 1)));
}

#[test]
fn the_nodes_name_without_what_we_wrote_ourselves() {
    const OURS: &str = "/etc/rancher/k3s/config.yaml.d/90-weaver.yaml";
    let environment = ("/etc/systemd/system/k3s.service", "[Service]\nEnvironment=K3S_NODE_NAME=env\n");
    let flag = ("/usr/lib/systemd/system/k3s.service", "[Service]\nExecStart=k3s server --node-name flag\n");
    let drop_in = ("/etc/rancher/k3s/config.yaml.d/10.yaml", "node-name: drop-in\n");
    let (file, ours) = ((DEFAULT_CONFIG, "node-name: file\n"), (OURS, "node-name: ours\n"));
    for (files, want) in [
        (&[ours][..], None),
        (&[ours, environment], Some("env")),
        (&[ours, environment, file], Some("file")),
        (&[ours, file, drop_in], Some("drop-in")),
        (&[ours, file, drop_in, flag], Some("flag")),
        (&[(DEFAULT_CONFIG, "node-name: [a]\n")], Some("a")),
        (&[(DEFAULT_CONFIG, "node-name: {a: b}\n")], None),
    ] {
        let (_dir, root) = host(files);
        let name = effective_without(&root, None, None, Some(Path::new(OURS))).node_name;
        assert_eq!(name.map(|setting| setting.value).as_deref(), want, "{files:?}");
    }
}

#[test]
fn keys_are_judged_for_the_role_that_the_units_show() {
    let unit = |role: &str| format!("[Service]\nExecStart=k3s {role} --no-deploy traefik\n");
    let (server, agent) = (unit("server"), unit("agent"));
    let (server, agent) = (
        ("/etc/systemd/system/k3s.service", server.as_str()),
        ("/etc/systemd/system/k3s-agent.service", agent.as_str()),
    );
    let config = (DEFAULT_CONFIG, "disable: [traefik]\n");
    for (files, want) in [
        (&[config, server][..], &["--no-deploy"][..]),
        (&[config, agent], &["disable` on servers only", "--no-deploy"]),
        (&[config, agent, (AGENT_ROLE, "")], &["disable` on servers only", "--no-deploy"]),
        (&[config, agent, server], &["--no-deploy"]),
        (&[config], &[]),
    ] {
        let (_dir, root) = host(files);
        let findings = effective(&root, None, None).findings;
        assert_eq!(findings.len(), want.len(), "{files:?}: {findings:?}");
        for (finding, want) in findings.iter().zip(want) {
            assert!(finding.code == Code::SettingMisspelled && finding.message.contains(want), "{finding:?}");
        }
    }
}

#[test]
fn the_file_of_the_registries_is_read_too() {
    const NAMED: &str = "configs:\n  a.lan:\n    tls: {ca_file: /etc/ca.crt}\n";
    for (text, want) in [
        ("mirrors:\n\tdocker.io:\n", &[(Code::K3sConfigInvalid, Severity::Fail)][..]),
        ("mirrors:\n  configs: {}\n", &[(Code::RegistriesWithoutEffect, Severity::Warn)]),
        (NAMED, &[]),
    ] {
        let effective = judged(&[(registries_yaml::FILE, text), ("/etc/ca.crt", "PEM")]);
        let found: Vec<_> =
            effective.findings.iter().map(|finding| (finding.code, finding.severity())).collect();
        assert_eq!(found, want, "{text}");
    }
    let found = judged(&[("/etc/rancher/k3s/registries.yml", NAMED)]).findings;
    assert!(found[0].message.contains("k3s reads /etc/rancher/k3s/registries.yaml only"), "{found:?}");
    let found = judged(&[("/etc/rancher/k3s/registry.yaml", NAMED)]).findings;
    assert_eq!((found.len(), found[0].code), (1, Code::RegistriesWithoutEffect), "{found:?}");
    let found = judged(&[("/etc/rancher/k3s/config.yaml.d/10.conf", "disable: [traefik]\n")]).findings;
    assert!(found[0].message.contains("10.conf: k3s reads files there that end in .yaml"), "{found:?}");
    let (_dir, root) = host(&[(registries_yaml::FILE, NAMED)]);
    assert_eq!(registries(&root, None)[0].code, Code::RegistriesWithoutEffect, "the CA is not there");
}

#[test]
fn what_only_the_kubelet_or_containerd_of_k3s_uses_is_no_fault_without_it() {
    const NO_EFFECT: &str = "mirrors:\n  configs: {}\n";
    const NO_YAML: &str = "mirrors:\n\tdocker.io:\n";
    const NONE: &str = "mirrors: {}\n";
    for (config, registries, want) in [
        ("", NO_EFFECT, &[Code::RegistriesWithoutEffect][..]),
        ("docker: true\n", NO_EFFECT, &[]),
        ("container-runtime-endpoint: /run/crio/crio.sock\n", NO_EFFECT, &[]),
        ("disable-agent: true\n", NO_EFFECT, &[]),
        ("docker: true\n", NO_YAML, &[Code::K3sConfigInvalid]),
        ("kubelet-arg: [max-podz=50]\n", NONE, &[Code::SettingMisspelled]),
        ("kubelet-arg: [max-podz=50]\ndocker: true\n", NONE, &[Code::SettingMisspelled]),
        ("kubelet-arg: [max-podz=50]\ndisable-agent: true\n", NONE, &[]),
    ] {
        let found = judged(&[(DEFAULT_CONFIG, config), (registries_yaml::FILE, registries)]).findings;
        let codes: Vec<_> = found.iter().map(|finding| finding.code).collect();
        assert_eq!(codes, want, "{config}{registries}: {found:?}");
    }
}

#[test]
fn another_file_of_the_registries_may_be_named() {
    const BAD: &str = "mirrors:\n  configs: {}\n";
    let usual = (registries_yaml::FILE, BAD);
    let config = (DEFAULT_CONFIG, "private-registry: /my.yaml\n");
    for (files, want) in [
        (&[config, usual, ("/my.yaml", "mirrors: {}\n")][..], None),
        (&[config, ("/my.yaml", BAD)], Some("/my.yaml:2:3: `configs` is indented below `mirrors`")),
        (&[config, usual], Some("/etc/rancher/k3s/config.yaml:1:19: private-registry names /my.yaml")),
        (&[(DEFAULT_CONFIG, "private-registry: my.yaml\n")], None),
        (
            &[config, ("/k3s.service", "[Service]\nExecStart=k3s server --private-registry /unit.yaml\n")],
            Some("/k3s.service:2: private-registry names /unit.yaml"),
        ),
    ] {
        let findings = judged(files).findings;
        assert_eq!(findings.len(), usize::from(want.is_some()), "{files:?}: {findings:?}");
        let found = findings.first().map_or("", |finding| &finding.message);
        assert!(found.starts_with(want.unwrap_or_default()), "{files:?}: {found}");
    }
}

#[test]
fn a_configuration_of_another_name() {
    for (files, want) in [
        (
            &["/etc/rancher/k3s/config.yml"][..],
            Some("config.yml: k3s reads /etc/rancher/k3s/config.yaml only"),
        ),
        (&["/etc/rancher/k3s/config.json"], Some("config.json: k3s reads")),
        (&["/etc/rancher/k3s/config.yml", DEFAULT_CONFIG], None),
        (&[], None),
    ] {
        let files: Vec<_> = files.iter().map(|path| (*path, "debug: true\n")).collect();
        let findings = judged(&files).findings;
        assert_eq!(findings.len(), usize::from(want.is_some()), "{files:?}: {findings:?}");
        assert!(
            findings.iter().all(|finding| finding.message.contains(want.unwrap_or_default())),
            "{findings:?}"
        );
    }
}

#[test]
fn which_configuration_the_unit_names() {
    let files = [("/a.yaml", "tls-san: a"), ("/b.yaml", "tls-san: b"), (DEFAULT_CONFIG, "tls-san: usual")];
    for (unit, want) in [
        ("ExecStart=k3s server", "usual"),
        ("ExecStart=k3s server --config /a.yaml --config=/b.yaml", "a"),
        ("ExecStart=k3s server -c /b.yaml", "b"),
        ("Environment=K3S_CONFIG_FILE=/b.yaml\nExecStart=k3s server --config /a.yaml", "b"),
        ("Environment=K3S_CONFIG_FILE=\nExecStart=k3s server --config /a.yaml", "a"),
    ] {
        let unit = format!("[Service]\n{unit}\n");
        let effective = judged(&[&[("/k3s.service", unit.as_str())][..], &files[..]].concat());
        assert_eq!(effective.tls_san[0].value, want, "{unit}");
        assert_eq!(effective.findings, []);
    }
}

#[test]
fn which_data_directory_the_unit_names() {
    for (unit, config, want) in [
        ("Environment=K3S_DATA_DIR=/e", "", "/e"),
        ("Environment=K3S_DATA_DIR=/e", "data-dir: /f", "/f"),
        ("Environment=K3S_DATA_DIR=/e\nExecStart=k3s server -d /g", "data-dir: /f", "/g"),
    ] {
        let unit = format!("[Service]\n{unit}\n");
        let effective = judged(&[("/k3s.service", &unit), (DEFAULT_CONFIG, config)]);
        assert_eq!(effective.data_dir.unwrap().value, want, "{unit} {config}");
    }
}

#[test]
fn the_file_of_the_token_that_k3s_reads() {
    for (unit, config, want) in [
        ("Environment=K3S_TOKEN_FILE=/e", "", Some("/e")),
        ("Environment=K3S_TOKEN_FILE=/e", "token-file: /f\n", Some("/f")),
        (
            "Environment=K3S_TOKEN_FILE=/e\nExecStart=k3s agent --token-file /g",
            "token-file: /f\n",
            Some("/g"),
        ),
        ("ExecStart=k3s agent", "token: hunter2\n", None),
    ] {
        let unit = format!("[Service]\n{unit}\n");
        let effective = judged(&[("/k3s.service", &unit), (DEFAULT_CONFIG, config)]);
        assert!(!format!("{effective:?}").contains("hunter2"));
        assert_eq!(effective.token_file.map(|file| file.value).as_deref(), want, "{unit} {config}");
    }
}

#[test]
fn a_named_file_that_is_missing_keeps_k3s_from_starting() {
    let effective = judged(&[("/k3s.service", "[Service]\nExecStart=k3s server --config /none.yaml\n")]);
    let [found] = effective.findings.as_slice() else { panic!("{effective:?}") };
    assert_eq!((found.severity(), found.code), (Severity::Fail, Code::K3sFileUnreadable));
    assert!(found.message.starts_with("/none.yaml does not exist, /k3s.service:2 names it"));
    assert_eq!(judged(&[]).findings, [], "the usual file may be missing");
}

#[test]
fn the_usual_file_of_the_registries_may_be_missing_where_it_is_named() {
    for (path, want) in [(registries_yaml::FILE, 0), ("/etc/rancher/k3s/mine.yaml", 1)] {
        let config = format!("private-registry: {path}\n");
        let found = judged(&[(DEFAULT_CONFIG, &config)]).findings;
        assert_eq!(found.len(), want, "{found:?}");
    }
}

#[test]
fn a_unit_that_systemd_does_not_start_is_known() {
    let unit = ("/etc/systemd/system/k3s.service", "[Service]\nType=notify\nExecStart=k3s server\n");
    let second = ("/etc/systemd/system/k3s.service.d/o.conf", "[Service]\nExecStart=k3s server --debug\n");
    let (_dir, root) = host(&[unit, second]);
    let found = effective(&root, None, None).findings;
    assert_eq!((found.len(), found[0].code), (1, Code::SettingMisspelled), "{found:?}");
    let commands = &found[0].remedy.as_ref().unwrap().commands;
    assert_eq!(*commands, ["sudo systemctl daemon-reload", "sudo systemctl restart k3s"]);
}

#[test]
fn a_masked_unit_is_none_and_a_masked_drop_in_is_left_alone() {
    let agent = ("/etc/systemd/system/k3s-agent.service", "[Service]\nExecStart=k3s agent\n");
    let packaged = [
        ("/usr/lib/systemd/system/k3s-agent.service", agent.1),
        ("/usr/lib/systemd/system/k3s.service", "[Service]\nExecStart=k3s server\n"),
    ];
    for (files, role_of_it, want) in [
        (&[agent][..], Role::Agent, None),
        (&packaged, Role::Agent, None),
        (&[], Role::Server, Some("/etc/systemd/system/k3s.service: k3s.service is masked")),
    ] {
        let (dir, root) = host(files);
        let drop_ins = dir.path().join("etc/systemd/system/k3s-agent.service.d");
        std::fs::create_dir_all(&drop_ins).unwrap();
        for link in [dir.path().join("etc/systemd/system/k3s.service"), drop_ins.join("10-weaver.conf")] {
            std::os::unix::fs::symlink("/dev/null", link).unwrap();
        }
        assert_eq!(role(&root), role_of_it);
        let found = effective(&root, None, None).findings;
        assert_eq!(found.len(), usize::from(want.is_some()), "{found:?}");
        assert!(found.iter().all(|found| found.message.starts_with(want.unwrap())), "{found:?}");
    }
}

#[test]
fn k3s_is_in_use_where_systemd_starts_it_or_where_it_has_no_unit() {
    const UNIT: &str = "/etc/systemd/system/k3s.service";
    const PACKAGED: &str = "/usr/lib/systemd/system/k3s.service";
    const WANTED: &str = "/etc/systemd/system/multi-user.target.wants/k3s.service";
    const AGENT: &str = "/etc/systemd/system/k3s-agent.service";
    const WANTED_AGENT: &str = "/etc/systemd/system/multi-user.target.wants/k3s-agent.service";
    const RUNS: &str = "/sys/fs/cgroup/system.slice/k3s.service/cgroup.procs";
    const BINARY: &str = "/usr/local/bin/k3s";
    for (files, masked, want) in [
        (&[][..], None, K3sPresence::Absent),
        (&[BINARY], None, K3sPresence::Used),
        (&[UNIT, WANTED, BINARY], None, K3sPresence::Used),
        (&[PACKAGED, BINARY, DEFAULT_CONFIG], None, K3sPresence::Idle),
        (&[PACKAGED, RUNS], None, K3sPresence::Used),
        (&[PACKAGED, WANTED, BINARY], Some(UNIT), K3sPresence::Idle),
        (&[], Some(UNIT), K3sPresence::Idle),
        (&[AGENT, WANTED_AGENT, BINARY], Some(UNIT), K3sPresence::Used),
        (&[AGENT, BINARY], Some(UNIT), K3sPresence::Idle),
    ] {
        let files: Vec<_> = files.iter().map(|path| (*path, "")).collect();
        let (dir, root) = host(&files);
        if let Some(unit) = masked {
            let link = root.real(unit);
            std::fs::create_dir_all(link.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink("/dev/null", link).unwrap();
        }
        assert_eq!(presence(&root), want, "{files:?} {masked:?}");
        drop(dir);
    }
}

#[test]
fn what_only_we_cannot_read_is_unknown() {
    let large = "a: 1\n".repeat(100_000);
    for (path, text, want) in [
        (DEFAULT_CONFIG, large.as_str(), Severity::Unknown),
        ("/etc/rancher/k3s/config.yaml.d/1.yaml", &large, Severity::Unknown),
        (DEFAULT_CONFIG, "a: \u{1}", Severity::Fail),
    ] {
        let effective = judged(&[(path, text)]);
        let [found] = effective.findings.as_slice() else { panic!("{effective:?}") };
        assert_eq!((found.severity(), found.code), (want, Code::K3sFileUnreadable));
    }
    // A symbolic link to itself: an I/O error for any user.
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("loop.yaml", dir.path().join("loop.yaml")).unwrap();
    let root = HostRoot::new(dir.path().to_owned());
    let effective = effective(&root, Some(Path::new("/loop.yaml")), None);
    assert_eq!(effective.findings[0].severity(), Severity::Unknown);
}

#[test]
fn settings_that_need_a_newer_k3s_than_the_installed_one() {
    let unit = "[Service]\nExecStart=k3s server --supervisor-metrics\n";
    let (_dir, root) = host(&[("/k3s.service", unit), (DEFAULT_CONFIG, "vpn-auth: a\ntls-san: pi\n")]);
    for (minor, want) in [(25, 2), (28, 1), (30, 0)] {
        let found = newer_settings(&root, None, Some(Path::new("/k3s.service")), minor);
        assert_eq!(found.len(), want, "{minor}: {found:?}");
    }
}

/// A failure would keep k3s from starting, which reads these files.
#[test]
fn what_a_unit_of_ours_does_not_see_is_unknown_and_not_missing() {
    let unit =
        "[Service]\nExecStart=k3s server --config /home/me/k3s.yaml --private-registry /home/me/r.yaml\n";
    let registries = "configs:\n  reg.lan:\n    tls:\n      ca_file: /home/me/ca.crt\n";
    let mounts = "31 25 0:26 /systemd/inaccessible/dir /home ro - tmpfs tmpfs rw\n";
    let (dir, root) = host(&[("/k3s.service", unit), (registries_yaml::FILE, registries), (MOUNTS, mounts)]);
    std::fs::create_dir(dir.path().join("home")).unwrap();
    let found = effective(&root, None, Some(Path::new("/k3s.service"))).findings;
    let with_its_file = effective(&root, None, Some(Path::new("/none.service"))).findings;
    let kubeconfig = admin_kubeconfig(&root, Path::new("/home/me/config"));
    for path in ["/home/me/k3s.yaml", "/home/me/r.yaml"] {
        let named = format!("{path} cannot be read: the service does not see");
        assert!(found.iter().any(|finding| finding.message.starts_with(&named)), "{path}: {found:?}");
    }
    let is_open = |finding: &Finding| {
        (finding.code, finding.severity()) == (Code::K3sFileUnreadable, Severity::Unknown)
    };
    assert!(found.iter().all(is_open), "{found:?}");
    assert_eq!(with_its_file, [], "its CA may be there");
    assert!(
        kubeconfig[0].remedy.as_ref().unwrap().explain.contains("move it to another directory"),
        "{kubeconfig:?}"
    );
}
