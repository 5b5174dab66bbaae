//! Reads what decides how k3s runs: its configuration and drop-ins, the flags
//! of its unit, the CA of its serving certificates, the administrator's
//! kubeconfig.

use std::{
    collections::BTreeMap,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use weaver_diagnostics::{
    finding::{Code, Finding, Place, Remedy, Severity},
    k3s_config::{self, DEFAULT_DATA_DIR, Effective, Setting, keys},
    k3s_unit::{self, Flag},
    k3s_upgrade::Role,
    kubeconfig::{self, Unusable},
    registries_yaml, serving,
    text_file::TextFile,
    weaver_toml::plan::AGENT_ROLE,
};

use crate::host_root::{HostRoot, ReadError};

/// Where systemd looks for a unit, the first place before the others.
const UNIT_PLACES: [&str; 3] = ["/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system"];
const DEFAULT_CONFIG: &str = "/etc/rancher/k3s/config.yaml";
/// Where the cluster's serving CA is, below k3s' data.
const SERVER_CA: &str = "server/tls/server-ca.crt";

/// What boot-config has noted: one that joins a server serves no API, so there are no names to prove.
#[must_use]
pub fn role(root: &HostRoot) -> Role {
    if root.real(AGENT_ROLE).symlink_metadata().is_ok() { Role::Agent } else { Role::Server }
}

/// The same, and where nothing is noted by the unit that is there: k3s' own installer may have made it an agent.
fn role_of_units(root: &HostRoot) -> Role {
    let has = |unit: &str| UNIT_PLACES.iter().any(|place| root.exists(format!("{place}/{unit}")));
    match role(root) {
        Role::Server if has(Role::Agent.unit()) && !has(Role::Server.unit()) => Role::Agent,
        noted => noted,
    }
}

/// Whether k3s is installed here, or was configured to be.
pub(crate) fn is_installed(root: &HostRoot) -> bool {
    let units = UNIT_PLACES
        .into_iter()
        .flat_map(|place| [format!("{place}/k3s.service"), format!("{place}/k3s-agent.service")]);
    let others = ["/usr/local/bin/k3s", "/usr/bin/k3s", DEFAULT_CONFIG, DEFAULT_DATA_DIR].map(str::to_owned);
    units.chain(others).any(|path| root.exists(path))
}

/// The configuration in force, problems of reading it among its findings. Without `unit`, the one that
/// systemd takes.
#[must_use]
pub fn effective(root: &HostRoot, config: Option<&Path>, unit: Option<&Path>) -> Effective {
    effective_without(root, config, unit, None)
}

/// The same as [`effective`], one drop-in or file of the unit's environment left out.
#[must_use]
pub fn effective_without(
    root: &HostRoot,
    config: Option<&Path>,
    unit: Option<&Path>,
    without: Option<&Path>,
) -> Effective {
    let mut unreadable = Vec::new();
    let is_wanted = |path: &str| Some(Path::new(path)) != without;
    let start = read_unit(root, unit, is_wanted, &mut unreadable);
    let named = config.is_none().then_some(start.config_file).flatten();
    let by_unit = named.as_ref().map(|setting| PathBuf::from(&setting.value));
    let config = config.map(Path::to_owned).or(by_unit).unwrap_or_else(|| DEFAULT_CONFIG.into());
    let mut files = config_files(root, &config, &mut unreadable);
    files.retain(|file| is_wanted(&file.path));
    if let Some(setting) = named
        && matches!(root.read(&config), Ok(None))
    {
        unreadable.push(missing_config(&setting));
    }
    let mut effective = k3s_config::merge(&files, &start.flags);
    let role = role_of_units(root);
    effective.findings.extend(keys::lint(&files, role));
    effective.findings.extend(keys::lint_flags(&start.flags, role));
    effective.drop_ins = with_suffix(&config, ".d");
    effective.data_dir = effective.data_dir.or(start.data_dir);
    effective.node_name = effective.node_name.or(start.node_name);
    effective.findings.append(&mut unreadable);
    effective.findings.extend(registries(root));
    effective
}

/// What is wrong with the file of the registries.
fn registries(root: &HostRoot) -> Vec<Finding> {
    let path = Path::new(registries_yaml::FILE);
    match root.read(path) {
        Ok(file) => file.map_or_else(Vec::new, |file| {
            let is_there = |path: &str| matches!(root.read(Path::new(path)), Ok(Some(_)));
            registries_yaml::lint(&file, is_there)
        }),
        Err(error) => vec![cannot_read(path, &error.to_string()).milder(Severity::Unknown)],
    }
}

/// k3s does without its usual file, and not without one that it is told of.
fn missing_config(named: &Setting) -> Finding {
    let Setting { value: path, origin } = named;
    let message = format!("{path} does not exist, {origin} names it, and k3s does not start without it");
    Finding::new(Code::K3sFileUnreadable, message)
        .saw(origin.clone(), format!("configuration file {path}"))
        .remedy(
            Remedy::new(format!("write {path}, or remove its name from {origin}"))
                .command("sudo systemctl daemon-reload")
                .command("sudo systemctl restart k3s"),
        )
}

/// The file, then its drop-ins by name.
fn config_files(root: &HostRoot, config: &Path, unreadable: &mut Vec<Finding>) -> Vec<TextFile> {
    let drop_ins = with_suffix(config, ".d");
    let names = root.list(&drop_ins).unwrap_or_else(|error| {
        // k3s may read it all the same.
        unreadable.push(cannot_read(&drop_ins, &error.to_string()).milder(Severity::Unknown));
        Vec::new()
    });
    let drop_ins = names.iter().filter(|name| k3s_config::is_drop_in(name)).map(|name| drop_ins.join(name));
    std::iter::once(config.to_owned())
        .chain(drop_ins)
        .filter_map(|path| match root.read(&path) {
            Ok(file) => file,
            // k3s passes over directories of such a name.
            Err(ReadError::NotAFile) if root.is_dir(&path) && path != config => None,
            Err(error) => {
                let finding = cannot_read(&path, &error.to_string());
                unreadable.push(match error {
                    // What stops us need not stop k3s, which is root and knows no limit.
                    ReadError::Io(_) | ReadError::TooLarge => finding.milder(Severity::Unknown),
                    ReadError::NotAFile | ReadError::Binary => finding,
                });
                None
            }
        })
        .collect()
}

/// How the unit starts k3s.
struct Start {
    flags: Vec<Flag>,
    /// The configuration file that it names.
    config_file: Option<Setting>,
    /// The data directory of its environment: of all that may name one, the
    /// last to be asked.
    data_dir: Option<Setting>,
    /// The node's name of its environment, asked last too.
    node_name: Option<Setting>,
}

/// The unit, then its drop-ins as systemd takes them: by name wherever they lie, and of one name only that in the
/// first place.
fn unit_files(root: &HostRoot, unit: Option<&Path>) -> Vec<PathBuf> {
    let usual = || UNIT_PLACES.map(|place| Path::new(place).join(role(root).unit())).to_vec();
    let places = unit.map_or_else(usual, |unit| vec![unit.to_owned()]);
    let mut drop_ins = BTreeMap::new();
    for directory in places.iter().map(|unit| with_suffix(unit, ".d")) {
        let names = root.list(&directory).unwrap_or_default();
        for name in names.into_iter().filter(|n| Path::new(n).extension().is_some_and(|e| e == "conf")) {
            let path = directory.join(&name);
            drop_ins.entry(name).or_insert(path);
        }
    }
    // A link counts wherever it leads: it masks the places after it.
    let unit = places.into_iter().find(|path| root.real(path).symlink_metadata().is_ok());
    unit.into_iter().chain(drop_ins.into_values()).collect()
}

/// Reads the unit and its drop-ins, and those files of its environment that are wanted.
fn read_unit(
    root: &HostRoot,
    unit: Option<&Path>,
    is_wanted: impl Fn(&str) -> bool,
    unreadable: &mut Vec<Finding>,
) -> Start {
    let mut read = |path: &Path| {
        root.read(path).unwrap_or_else(|error| {
            // systemd may still read it: what it says is then unknown, not bad.
            unreadable.push(cannot_read(path, &error.to_string()).milder(Severity::Warn));
            None
        })
    };
    let units: Vec<_> = unit_files(root, unit).iter().filter_map(|path| read(path)).collect();
    let environment: Vec<_> = k3s_unit::environment_files(&units)
        .into_iter()
        // A path with a specifier is systemd's to resolve; k3s' own unit names
        // such files only for proxy settings.
        .filter(|(path, _)| !path.contains('%') && is_wanted(path))
        .filter_map(|(path, _)| read(Path::new(&path)))
        .collect();
    let flags = k3s_unit::flags(&units, &environment);
    // The environment first, then the first flag: k3s' own order.
    let by_flag = || {
        let flag = flags.iter().find(|flag| matches!(flag.name.as_str(), "config" | "c"))?;
        Some(Setting { value: flag.value.clone(), origin: flag.origin.clone() })
    };
    let variable = |name| k3s_unit::variable(&units, &environment, name);
    let config_file =
        variable("K3S_CONFIG_FILE").or_else(by_flag).filter(|setting| !setting.value.is_empty());
    let data_dir = variable("K3S_DATA_DIR");
    let node_name = variable("K3S_NODE_NAME");
    Start { flags, config_file, data_dir, node_name }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn cannot_read(path: &Path, why: &str) -> Finding {
    let path = path.display().to_string();
    Finding::new(Code::K3sFileUnreadable, format!("{path} cannot be read: {why}"))
        .saw(Place::file(&path), why)
        .remedy(
            Remedy::new(format!("make {path} a text file that root can read"))
                .command(format!("sudo ls -l {path}"))
                .command("sudo weaver-node-agent check"),
        )
}

/// The file with the CA of the serving certificates.
#[must_use]
pub fn server_ca_path(data_dir: &Path) -> PathBuf {
    data_dir.join(SERVER_CA)
}

/// The CA of the serving certificates.
///
/// # Errors
/// A finding that says what is missing: `unknown` before k3s' first start.
pub fn server_ca(root: &HostRoot, data_dir: &Path) -> Result<TextFile, Box<Finding>> {
    let path = server_ca_path(data_dir);
    let shown = path.display();
    match root.read(&path) {
        Ok(Some(file)) => Ok(file),
        Ok(None) => {
            let finding =
                serving::unknown(&format!("{shown} does not exist: k3s has not created its CA yet"));
            Err(Box::new(finding.saw(Place::file(shown.to_string()), "missing")))
        }
        // k3s may read it all the same.
        Err(error) => Err(Box::new(cannot_read(&path, &error.to_string()).milder(Severity::Unknown))),
    }
}

/// The trust anchors in a file.
///
/// # Errors
/// A finding that says what is wrong with it.
pub(crate) fn trust_anchors(file: &TextFile) -> Result<RootCertStore, Box<Finding>> {
    let mut anchors = RootCertStore::empty();
    let broken = |why: String| Box::new(cannot_read(Path::new(&file.path), &why));
    for certificate in CertificateDer::pem_slice_iter(file.text.as_bytes()) {
        let certificate = certificate.map_err(|_| broken("it is not valid PEM".to_owned()))?;
        anchors
            .add(certificate)
            .map_err(|error| broken(format!("it holds no usable certificate: {error}")))?;
    }
    if anchors.is_empty() {
        return Err(broken("it holds no certificate".to_owned()));
    }
    Ok(anchors)
}

/// What is wrong with the administrator's kubeconfig. It is never the gate's
/// verdict: `run` cannot work with it, k3s is not harmed.
#[must_use]
pub fn admin_kubeconfig(root: &HostRoot, path: &Path) -> Vec<Finding> {
    let unusable =
        |why: String| Unusable { place: Place::file(path.display().to_string()), why }.of_administrator();
    let file = match root.read(path) {
        Ok(Some(file)) => file,
        Ok(None) => {
            let finding = unusable("it does not exist; k3s writes it when it has started".to_owned());
            // As it is before each first start.
            return vec![finding.milder(Severity::Unknown)];
        }
        Err(error) => return vec![unusable(error.to_string())],
    };
    let mode = std::fs::metadata(root.real(path)).ok().map(|m| m.permissions().mode());
    let exposed = mode.and_then(|mode| kubeconfig::exposed(&file.path, mode));
    kubeconfig::unusable(&file, None).map(Unusable::of_administrator).into_iter().chain(exposed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_root::fixture::host;

    fn judged(files: &[(&str, &str)]) -> Effective {
        let (_dir, root) = host(files);
        effective(&root, None, Some(Path::new("/k3s.service")))
    }

    #[test]
    fn the_unit_and_the_drop_ins_that_systemd_takes() {
        let [etc, run, usr] = UNIT_PLACES.map(|place| format!("{place}/k3s.service"));
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
        let unit =
            |role: &str| format!("[Service]\nEnvironment=K3S_NODE_NAME={role}\nExecStart=k3s {role}\n");
        let (server, agent) = (unit("server"), unit("agent"));
        let units = [
            ("/etc/systemd/system/k3s.service", server.as_str()),
            ("/usr/lib/systemd/system/k3s-agent.service", agent.as_str()),
        ];
        for (noted, want) in [(&[][..], "server"), (&[(AGENT_ROLE, "")], "agent")] {
            let (_dir, root) = host(&[&units, noted].concat());
            assert_eq!(effective(&root, None, None).node_name.unwrap().value, want);
        }
    }

    #[test]
    fn the_units_of_the_card_name_files_that_are_read() {
        for (unit, text) in [
            ("k3s", include_str!("../../systemd/k3s.service")),
            ("k3s-agent", include_str!("../../systemd/k3s-agent.service")),
        ] {
            for file in ["/etc/default/NAME", "/etc/sysconfig/NAME", "/etc/systemd/system/NAME.service.env"] {
                let file = file.replace("NAME", unit);
                let effective = judged(&[("/k3s.service", text), (&file, "K3S_NODE_NAME=own\n")]);
                assert_eq!(effective.node_name.map(|name| name.origin), Some(Place::line(&file, 1)));
            }
        }
    }

    #[test]
    fn the_nodes_name_without_what_we_wrote_ourselves() {
        const OURS: &str = "/etc/rancher/k3s/config.yaml.d/90-weaver.yaml";
        let environment = ("/etc/systemd/system/k3s.service", "[Service]\nEnvironment=K3S_NODE_NAME=env\n");
        let flag =
            ("/usr/lib/systemd/system/k3s.service", "[Service]\nExecStart=k3s server --node-name flag\n");
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
            (&[config, agent], &["disable` on servers only"]),
            (&[config, agent, (AGENT_ROLE, "")], &["disable` on servers only", "--no-deploy"]),
            (&[config, agent, server], &["--no-deploy"]),
            (&[config], &[]),
        ] {
            let (_dir, root) = host(files);
            let findings = effective(&root, None, None).findings;
            assert_eq!(findings.len(), want.len(), "{files:?}: {findings:?}");
            for (finding, want) in findings.iter().zip(want) {
                assert!(
                    finding.code == Code::SettingMisspelled && finding.message.contains(want),
                    "{finding:?}"
                );
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
        let (_dir, root) = host(&[(registries_yaml::FILE, NAMED)]);
        assert_eq!(registries(&root)[0].code, Code::RegistriesWithoutEffect, "the CA is not there");
    }

    #[test]
    fn which_configuration_the_unit_names() {
        let files =
            [("/a.yaml", "tls-san: a"), ("/b.yaml", "tls-san: b"), (DEFAULT_CONFIG, "tls-san: usual")];
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
    fn a_named_file_that_is_missing_keeps_k3s_from_starting() {
        let effective = judged(&[("/k3s.service", "[Service]\nExecStart=k3s server --config /none.yaml\n")]);
        let [found] = effective.findings.as_slice() else { panic!("{effective:?}") };
        assert_eq!((found.severity(), found.code), (Severity::Fail, Code::K3sFileUnreadable));
        assert!(found.message.starts_with("/none.yaml does not exist, /k3s.service:2 names it"));
        assert_eq!(judged(&[]).findings, [], "the usual file may be missing");
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
}
