use super::*;
use crate::finding::Severity;
use proptest::prelude::*;

fn file(path: &str, text: &str) -> TextFile {
    TextFile::new(path, text)
}

fn flag(name: &str, value: &str) -> Flag {
    Flag { name: name.into(), value: value.into(), origin: Place::line("/etc/systemd/system/k3s.service", 9) }
}

fn values(effective: &Effective) -> Vec<&str> {
    effective.tls_san.iter().map(|s| s.value.as_str()).collect()
}

#[test]
fn replace_append_and_flags() {
    let base = file("/c.yaml", "tls-san:\n  - a\n  - b\nhttps-listen-port: 7443\n");
    let append = file("/c.yaml.d/10.yaml", "tls-san+: [c, a]\n");
    let replace = file("/c.yaml.d/20.yaml", "tls-san: d,e\n");
    for (files, flags, want) in [
        (vec![], vec![], vec![]),
        (vec![base.clone()], vec![], vec!["a", "b"]),
        (vec![base.clone(), append.clone()], vec![], vec!["a", "b", "c"]),
        (vec![base.clone(), replace.clone()], vec![], vec!["d", "e"]),
        (vec![base.clone(), append.clone(), replace.clone()], vec![], vec!["d", "e"]),
        (vec![base.clone(), replace, append], vec![], vec!["d", "e", "c", "a"]),
        (vec![base.clone()], vec![flag("tls-san", "x,y"), flag("tls-san", "z")], vec!["x", "y", "z"]),
        (vec![base.clone()], vec![flag("node-name", "n")], vec!["a", "b"]),
    ] {
        let merged = merge(&files, &flags);
        assert_eq!(values(&merged), want);
    }
    assert_eq!(merge(std::slice::from_ref(&base), &[]).https_listen_port, Some(7443));
    let by_flag = merge(&[base], &[flag("https-listen-port", "8443"), flag("data-dir", "/d")]);
    assert_eq!(by_flag.https_listen_port, Some(8443));
    assert_eq!(by_flag.data_dir.unwrap().value, "/d");
}

#[test]
fn a_relative_directory_of_the_data() {
    for (text, want) in [
        ("data-dir: data/k3s\n", Some("/c.yaml:1:11: data-dir is relative")),
        ("data-dir: /data/k3s\n", None),
        ("data-dir: ${HOME}/k3s\n", None),
        ("data-dir: ~/k3s\n", None),
        ("data-dir:\n", None),
    ] {
        let findings = merge(&[file("/c.yaml", text)], &[]).findings;
        let found = findings.first().map(|found| (found.severity(), found.message.as_str()));
        let found = found.filter(|(severity, _)| *severity == Severity::Warn);
        assert_eq!(found.is_some(), want.is_some(), "{text}: {findings:?}");
        assert!(want.is_none_or(|want| found.unwrap().1.starts_with(want)), "{findings:?}");
    }
    let by_flag = merge(&[], &[flag("data-dir", "d")]);
    assert!(
        by_flag.findings[0]
            .remedy
            .as_ref()
            .unwrap()
            .explain
            .ends_with("write /d, if that is where its data is")
    );
}

#[test]
fn the_owners_address_is_known_from_files_and_flags() {
    let one = file("/c.yaml", "node-ip: 10.0.0.5\n");
    let two = file("/c.yaml.d/a.yaml", "node-ip: [10.0.0.6, fd00::6]\n");
    for (files, flags, want) in [
        (vec![], vec![], None),
        (vec![one.clone()], vec![], Some("10.0.0.5")),
        (vec![one.clone(), two], vec![], Some("10.0.0.6")),
        (vec![one], vec![flag("node-ip", "10.0.0.7")], Some("10.0.0.7")),
        (vec![], vec![flag("i", "10.0.0.8")], Some("10.0.0.8")),
        (vec![file("/c.yaml", "node-ip: {a: b}\n")], vec![], None),
    ] {
        let merged = merge(&files, &flags);
        assert_eq!(merged.node_ip.as_ref().map(|setting| setting.value.as_str()), want);
    }
}

#[test]
fn a_datastore_elsewhere_is_known_from_files_and_flags_and_its_value_is_dropped() {
    let endpoint = |text: &str| file("/c.yaml", &format!("datastore-endpoint: {text}\n"));
    let postgres = || endpoint("postgres://k3s:hunter2@db/k3s");
    for (files, flags, want) in [
        (vec![], vec![], None),
        (vec![postgres()], vec![], Some(true)),
        (vec![postgres(), endpoint("sqlite://")], vec![], Some(false)),
        (vec![endpoint("sqlite://"), postgres()], vec![], Some(true)),
        (vec![endpoint("")], vec![], Some(false)),
        (vec![endpoint("sqlite://./db/state.db?_journal=WAL")], vec![], Some(false)),
        (vec![endpoint("sqlite:///mnt/ssd/state.db")], vec![], Some(true)),
        (vec![postgres()], vec![flag("datastore-endpoint", "")], Some(false)),
        (vec![], vec![flag("datastore-endpoint", "https://u:hunter2@etcd:2379")], Some(true)),
    ] {
        let merged = merge(&files, &flags);
        let found = merged.datastore.as_ref().map(|endpoint| endpoint.is_elsewhere);
        assert_eq!(found, want, "{files:?} {flags:?}");
        assert!(!format!("{merged:?}").contains("hunter2"));
    }
}

#[test]
fn every_name_knows_its_place() {
    let merged = merge(&[file("/c.yaml", "# note\ntls-san:\n  - a\n  - b\n")], &[]);
    assert_eq!(merged.tls_san[1].origin, Place::at("/c.yaml", 4, 5));
}

#[test]
fn a_list_given_as_a_string_is_taken_as_k3s_takes_it() {
    let merged = merge(&[file("/c.yaml", "tls-san: a,b\n")], &[]);
    assert_eq!(values(&merged), ["a", "b"]);
    assert_eq!(merged.findings, []);
}

#[test]
fn wrong_types_are_named_with_place_and_remedy() {
    for (text, place) in [
        ("a: 1\ntls-san:\n  pi: x\n", "/c.yaml:3:3"),
        ("tls-san:\n  - a\n  - b: c\n", "/c.yaml:3:5"),
        ("tls-san: [[a]]\n", "/c.yaml:1:11"),
        ("https-listen-port: high\n", "/c.yaml:1:20"),
        ("https-listen-port: 65536\n", "/c.yaml:1:20"),
        ("data-dir: [x, y]\n", "/c.yaml:1:11"),
    ] {
        let merged = merge(&[file("/c.yaml", text)], &[]);
        let [found] = merged.findings.as_slice() else { panic!("{text:?}: {merged:?}") };
        assert_eq!((found.severity(), found.code), (Severity::Fail, Code::K3sConfigWrongType), "{text:?}");
        assert!(found.message.contains(place), "{text:?}: {}", found.message);
        assert!(found.remedy.as_ref().unwrap().explain.contains("/c.yaml"));
    }
}

#[test]
fn entries_for_the_kubelet_are_replaced_appended_and_given_as_flags() {
    let one = file("/c.yaml", "kubelet-arg: config=/a\n");
    let more = file("/c.yaml.d/1.yaml", "kubelet-arg+: [v=2, config=/b]\n");
    let other = file("/c.yaml.d/2.yaml", "kubelet-arg: [max-pods=9]\n");
    for (files, flags, want) in [
        (vec![one.clone(), more.clone()], vec![], "config=/a v=2 config=/b"),
        (vec![one.clone(), more, other], vec![], "max-pods=9"),
        (vec![one], vec![flag("kubelet-arg", "v=3")], "config=/a v=3"),
        (vec![file("/c.yaml", "kubelet-arg: {a: b}\n")], vec![], ""),
    ] {
        let merged = merge(&files, &flags);
        let values: Vec<_> = merged.kubelet_args.iter().map(|setting| setting.value.as_str()).collect();
        assert_eq!(values.join(" "), want);
    }
}

#[test]
fn the_snapshotter_is_known_from_files_and_flags() {
    let native = file("/c.yaml", "snapshotter: native\n");
    let read =
        |flags: &[Flag]| merge(std::slice::from_ref(&native), flags).snapshotter.map(|setting| setting.value);
    assert_eq!(read(&[]).as_deref(), Some("native"));
    assert_eq!(read(&[flag("snapshotter", "stargz")]).as_deref(), Some("stargz"));
}

#[test]
fn a_container_runtime_that_is_not_k3s_own_is_known_from_files_and_flags() {
    for (text, flags, want) in [
        ("{}", &[flag("docker", "")][..], true),
        ("docker: true\n", &[], true),
        ("docker: false\n", &[], false),
        ("container-runtime-endpoint: /run/crio/crio.sock\n", &[], true),
        ("{}", &[flag("container-runtime-endpoint", "/run/crio/crio.sock")], true),
    ] {
        let merged = merge(&[file("/c.yaml", text)], flags);
        assert_eq!(merged.other_runtime.is_some(), want, "{text} {flags:?}");
    }
}

#[test]
fn entries_for_the_api_server_and_the_interface_of_flannel_are_known_from_files_and_flags() {
    let one = file("/c.yaml", "kube-apiserver-arg: [audit-policy-file=/a]\nflannel-iface: eth0\n");
    let more = file("/c.yaml.d/1.yaml", "kube-apiserver-arg+: v=2\ndisable-apiserver: true\n");
    let read = |merged: &Effective| {
        let values: Vec<_> = merged.apiserver_args.iter().map(|setting| setting.value.as_str()).collect();
        let interface = merged.flannel_iface.as_ref().map(|setting| setting.value.clone());
        (values.join(" "), interface.unwrap_or_default(), merged.disable_apiserver)
    };
    let merged = merge(&[one.clone(), more], &[]);
    assert_eq!(read(&merged), ("audit-policy-file=/a v=2".into(), "eth0".into(), true));
    assert_eq!(merged.kubelet_args, []);
    let flags = [flag("kube-apiserver-arg", "v=3"), flag("flannel-iface", "wlan0")];
    assert_eq!(read(&merge(&[one], &flags)), ("audit-policy-file=/a v=3".into(), "wlan0".into(), false));
    for (text, flags, want) in [
        ("{}", &[][..], None),
        ("flannel-backend: none\n", &[], Some("none")),
        ("flannel-backend: vxlan\n", &[flag("flannel-backend", "none")], Some("none")),
    ] {
        let backend = merge(&[file("/c.yaml", text)], flags).flannel_backend;
        assert_eq!(backend.map(|setting| setting.value).as_deref(), want, "{text} {flags:?}");
    }
}

#[test]
fn a_list_of_one_is_a_value() {
    let merged =
        merge(&[file("/c.yaml", "data-dir: [/d]\nhttps-listen-port: [7443]\nnode-name: [pi]\n")], &[]);
    assert_eq!(merged.findings, []);
    assert_eq!(merged.https_listen_port, Some(7443));
    assert_eq!(
        (merged.data_dir.unwrap().value.as_str(), merged.node_name.unwrap().value.as_str()),
        ("/d", "pi")
    );
}

#[test]
fn yaml_errors_have_file_line_and_column_and_no_secret() {
    let text = "token: hunter2\ntls-san:\n  - a\n  - [b\n";
    let merged = merge(&[file("/etc/rancher/k3s/config.yaml", text)], &[]);
    let [found] = merged.findings.as_slice() else { panic!("{merged:?}") };
    assert_eq!((found.severity(), found.code), (Severity::Fail, Code::K3sConfigInvalid));
    let place = &found.evidence[0].place;
    assert!(place.line.is_some() && place.column.is_some());
    assert!(found.message.starts_with("/etc/rancher/k3s/config.yaml:"), "{}", found.message);
    assert!(!format!("{found:?}").contains("hunter2"));

    let merged = merge(&[file("/c.yaml", "- a\n- b\n")], &[]);
    assert_eq!(merged.findings[0].code, Code::K3sConfigInvalid);
}

#[test]
fn names_that_lost_are_reported_with_who_replaced_them() {
    let base = file("/c.yaml", "tls-san: [a, b]\n");
    let merged = merge(&[base.clone(), file("/c.yaml.d/20.yaml", "tls-san: [b]\n")], &[]);
    let [found] = merged.findings.as_slice() else { panic!("{merged:?}") };
    assert_eq!((found.severity(), found.code), (Severity::Warn, Code::NamesShadowed));
    assert!(found.message.contains("have no effect: a;"), "{}", found.message);
    assert!(found.remedy.as_ref().unwrap().explain.contains("tls-san+"));

    assert_eq!(found.remedy.as_ref().unwrap().commands, ["sudo weaver-node-agent repair names"]);

    let merged = merge(&[base], &[flag("tls-san", "x")]);
    assert!(merged.findings[0].message.contains("k3s.service:9"), "{}", merged.findings[0].message);
    let remedy = merged.findings[0].remedy.as_ref().unwrap();
    assert!(remedy.explain.contains("remove --tls-san from /etc/systemd/system/k3s.service"));
    assert_eq!(remedy.commands, ["sudo systemctl daemon-reload", "sudo systemctl restart k3s"]);
}

#[test]
fn a_wrong_flag_is_mended_as_a_flag() {
    let merged = merge(&[], &[flag("https-listen-port", "high")]);
    let [found] = merged.findings.as_slice() else { panic!("{merged:?}") };
    assert_eq!((found.severity(), found.code), (Severity::Fail, Code::K3sConfigWrongType));
    let remedy = found.remedy.as_ref().unwrap();
    assert_eq!(remedy.explain, "in /etc/systemd/system/k3s.service write it as --https-listen-port=6443");
    assert_eq!(remedy.commands[0], "sudo systemctl daemon-reload");
}

#[test]
fn a_unit_that_was_changed_is_read_again_before_the_restart() {
    for (file, is_unit) in [
        ("/etc/systemd/system/k3s.service", true),
        ("/usr/lib/systemd/system/k3s-agent.service.d/10-mine.conf", true),
        ("/etc/systemd/system/k3s.service.env", false),
        ("/etc/rancher/k3s/config.yaml", false),
        ("/etc/rancher/k3s/config.yaml.d/90-a.yaml", false),
    ] {
        let argument = Setting { value: "max-pod=9".to_owned(), origin: Place::line(file, 3) };
        let finding = crate::kubelet_flags::lint(&[argument]).remove(0);
        let found = read_again(read_again(finding));
        let commands = found.remedy.unwrap().commands;
        let want: &[&str] = if is_unit {
            &["sudo systemctl daemon-reload", "sudo systemctl restart k3s"]
        } else {
            &["sudo systemctl restart k3s"]
        };
        assert_eq!(commands, want, "{file}");
    }
}

#[test]
fn drop_in_names() {
    for (name, want) in [("a.yaml", true), ("b.YML", true), ("c.yaml.bak", false), ("d", false)] {
        assert_eq!(is_drop_in(name), want, "{name}");
    }
}

/// A file of the model: append or replace, and its names.
type FileStep = (bool, Vec<String>);

fn steps() -> impl Strategy<Value = Vec<FileStep>> {
    let name = prop::sample::select(vec!["a", "b", "c.example", "10.0.0.1"]).prop_map(str::to_owned);
    prop::collection::vec((any::<bool>(), prop::collection::vec(name, 0..4)), 0..5)
}

fn render(steps: &[FileStep]) -> Vec<TextFile> {
    steps
        .iter()
        .map(|(append, names)| {
            let key = if *append { "tls-san+" } else { "tls-san" };
            file("/f", &format!("{key}: [{}]\n", names.join(", ")))
        })
        .collect()
}

/// The rule in its plainest form.
fn model(steps: &[FileStep]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for (append, names) in steps {
        if !append {
            all.clear();
        }
        all.extend(names.iter().cloned());
    }
    let mut unique = Vec::new();
    all.retain(|name| {
        !unique.contains(name) && {
            unique.push(name.clone());
            true
        }
    });
    all
}

proptest! {
    #[test]
    fn agrees_with_the_model(steps in steps()) {
        let merged = merge(&render(&steps), &[]);
        prop_assert_eq!(values(&merged), model(&steps));
        prop_assert!(merged.findings.iter().all(|f| f.severity() == Severity::Warn));
    }

    /// A last file that replaces makes everything before it irrelevant, and
    /// writing it twice changes nothing.
    #[test]
    fn the_last_replacement_wins_and_repeating_it_changes_nothing(steps in steps(), names in steps()) {
        let last = (false, model(&names));
        let mut once = steps;
        once.push(last.clone());
        let mut twice = once.clone();
        twice.push(last.clone());
        let (once, twice) = (merge(&render(&once), &[]), merge(&render(&twice), &[]));
        prop_assert_eq!(values(&once), &last.1[..]);
        prop_assert_eq!(values(&once), values(&twice));
    }

    #[test]
    fn never_panics(text in "\\PC*|(tls-san|\\+|: |- |\\[|\\]|a|,|\n){0,12}") {
        let _ = merge(&[file("/f", &text)], &[]);
    }
}

#[test]
fn whether_there_is_a_kubelet() {
    for (text, flags, want) in [
        ("", vec![], false),
        ("disable-agent: true\n", vec![], true),
        ("disable-agent: false\n", vec![], false),
        ("", vec![flag("disable-agent", "")], true),
        ("disable-agent: true\n", vec![flag("disable-agent", "false")], false),
    ] {
        assert_eq!(merge(&[file("/c.yaml", text)], &flags).disable_agent, want, "{text} {flags:?}");
    }
}

#[test]
fn whether_an_agent_asks_its_server_by_name() {
    for (text, flags, want) in [
        ("", vec![], false),
        ("disable-apiserver-lb: true\n", vec![], true),
        ("", vec![flag("disable-apiserver-lb", "")], true),
        ("disable-apiserver-lb: true\n", vec![flag("disable-apiserver-lb", "false")], false),
    ] {
        assert_eq!(merge(&[file("/c.yaml", text)], &flags).disable_apiserver_lb, want, "{text} {flags:?}");
    }
}
