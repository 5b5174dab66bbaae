//! The configuration that k3s will act on, each value with its origin.
//!
//! k3s' rules: `FILE`, then `FILE.d/*.yaml` and `*.yml` in the order of their
//! names; the last file that has a key wins; `key+` appends to what is there;
//! a flag of the command line replaces what the files say. A value of
//! `tls-san` may be a comma list.
//!
//! Only the settings named here are looked at; every other value, tokens among
//! them, is dropped unseen.

pub mod apiserver_files;
pub mod files;
pub mod flags;
pub mod keys;
pub mod token;
mod values;

use std::path::{Path, PathBuf};

use crate::{
    finding::{Code, Finding, Place, RESTART_K3S, Remedy, Severity},
    k3s_unit::Flag,
    text_file::TextFile,
    yaml_node::{self, YamlNode, YamlValue},
};

pub use crate::k3s_unit::{DatastoreEndpoint, Setting};

/// Default data directory of k3s.
pub const DEFAULT_DATA_DIR: &str = "/var/lib/rancher/k3s";

const READ_UNITS: &str = "sudo systemctl daemon-reload";

/// A name that was configured and is not in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shadowed {
    /// The name and where it was configured.
    pub setting: Setting,
    pub by: Place,
    /// Whether that is a flag of the unit.
    pub by_flag: bool,
}

/// What k3s will act on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Effective {
    /// `tls-san`, comma lists split, without duplicates.
    pub tls_san: Vec<Setting>,
    pub https_listen_port: Option<u16>,
    pub data_dir: Option<Setting>,
    /// `node-name`; a value that is no text is k3s' to refuse.
    pub node_name: Option<Setting>,
    /// `node-ip`, of several the first.
    pub node_ip: Option<Setting>,
    /// `kubelet-arg`, each entry as it is written.
    pub kubelet_args: Vec<Setting>,
    /// `kube-apiserver-arg`, the same.
    pub apiserver_args: Vec<Setting>,
    /// `snapshotter`.
    pub snapshotter: Option<Setting>,
    /// `docker` or `container-runtime-endpoint`: k3s starts no containerd of its own.
    pub other_runtime: Option<Setting>,
    /// `flannel-iface`.
    pub flannel_iface: Option<Setting>,
    /// `flannel-backend`, of servers: `none` where another CNI makes the network.
    pub flannel_backend: Option<Setting>,
    /// `private-registry`, the file of the registries.
    pub private_registry: Option<Setting>,
    /// `token-file`, which counts before `token`.
    pub token_file: Option<Setting>,
    /// `datastore-endpoint`.
    pub datastore: Option<DatastoreEndpoint>,
    /// `default-local-storage-path`, where local-path volumes are.
    pub local_storage: Option<Setting>,
    /// `disable-agent`: there is no kubelet.
    pub disable_agent: bool,
    /// `disable-apiserver`: the server has a datastore and no API server.
    pub disable_apiserver: bool,
    /// `disable-apiserver-lb`: an agent asks its server under the name in `server`.
    pub disable_apiserver_lb: bool,
    /// Names that lost to a later value.
    pub shadowed: Vec<Shadowed>,
    /// The directory of the drop-ins, as far as anyone who has read them says so.
    pub drop_ins: PathBuf,
    /// What is wrong with the files; a failure means k3s does not start or
    /// does not do what was meant.
    pub findings: Vec<Finding>,
}

/// Whether k3s reads a file of this name in `FILE.d`.
pub fn is_drop_in(name: &str) -> bool {
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    extension.is_some_and(|e| e.eq_ignore_ascii_case("yaml") || e.eq_ignore_ascii_case("yml"))
}

/// Merges the files, in the order given, and the flags.
pub fn merge(files: &[TextFile], flags: &[Flag]) -> Effective {
    let mut effective = Effective::default();
    for file in files {
        match yaml_node::parse(&file.text) {
            Ok(root) => effective.add_file(file, &root),
            Err(error) => {
                let place = Place { file: file.path.clone(), line: error.line, column: error.column };
                effective.findings.push(not_yaml(place, &error.message));
            }
        }
    }
    effective.add_flags(flags);
    effective.finish();
    effective
}

impl Effective {
    fn add_file(&mut self, file: &TextFile, root: &YamlNode) {
        let entries = match &root.value {
            YamlValue::Null => return,
            YamlValue::Map(entries) => entries,
            other => {
                let place = Place::at(&file.path, root.line, root.column);
                self.findings
                    .push(not_yaml(place, &format!("the file holds {}, not keys and values", other.kind())));
                return;
            }
        };
        for (key, value) in entries {
            let Some(key) = key.as_str() else { continue };
            let place = Place::at(&file.path, value.line, value.column);
            let setting =
                || single(value).map(|text| Setting { value: text.to_owned(), origin: place.clone() });
            match key.strip_suffix('+').unwrap_or(key) {
                "tls-san" => match names(file, value) {
                    Ok(names) if key.ends_with('+') => self.tls_san.extend(names),
                    Ok(names) => self.replace_names(names, &place, false),
                    Err(wrong) => self.findings.push(*wrong),
                },
                "https-listen-port" => self.set_port(single(value), place, wrong_type),
                "data-dir" => match single(value) {
                    Some(text) => {
                        self.data_dir = Some(Setting { value: text.to_owned(), origin: place });
                    }
                    None => self.findings.push(wrong_type(
                        "data-dir",
                        "a path",
                        place,
                        "data-dir: /var/lib/rancher/k3s",
                    )),
                },
                "snapshotter" => self.snapshotter = setting(),
                "container-runtime-endpoint" => self.other_runtime = setting(),
                "docker" if value.as_str() == Some("true") => self.other_runtime = setting(),
                "flannel-iface" => self.flannel_iface = setting(),
                "flannel-backend" => self.flannel_backend = setting(),
                plain @ ("kubelet-arg" | "kube-apiserver-arg") => {
                    let list = std::slice::from_ref(value);
                    let items = if value.items().is_empty() { list } else { value.items() };
                    let argument = |node: &YamlNode| {
                        let origin = Place::at(&file.path, node.line, node.column);
                        Some(Setting { value: node.as_str()?.to_owned(), origin })
                    };
                    let arguments = if plain == "kubelet-arg" {
                        &mut self.kubelet_args
                    } else {
                        &mut self.apiserver_args
                    };
                    if !key.ends_with('+') {
                        arguments.clear();
                    }
                    arguments.extend(items.iter().filter_map(argument));
                }
                "disable-agent" => self.disable_agent = value.as_str() == Some("true"),
                "disable-apiserver" => self.disable_apiserver = value.as_str() == Some("true"),
                "disable-apiserver-lb" => self.disable_apiserver_lb = value.as_str() == Some("true"),
                "private-registry" => self.private_registry = setting(),
                "token-file" => self.token_file = setting(),
                "datastore-endpoint" => {
                    // What is no text is k3s' to refuse.
                    let value = single(value).unwrap_or_default();
                    self.datastore = Some(DatastoreEndpoint::of(value, place));
                }
                "default-local-storage-path" => self.local_storage = setting(),
                "node-name" => self.node_name = setting(),
                "node-ip" => {
                    let address = value.as_str().or_else(|| value.items().first()?.as_str());
                    self.node_ip = address.map(|ip| Setting { value: ip.to_owned(), origin: place });
                }
                _ => {}
            }
        }
    }

    fn add_flags(&mut self, flags: &[Flag]) {
        let names: Vec<_> = flags
            .iter()
            .filter(|flag| flag.name == "tls-san")
            .flat_map(|flag| split_commas(&flag.value, &flag.origin))
            .collect();
        if let Some(first) = flags.iter().find(|flag| flag.name == "tls-san") {
            self.replace_names(names, &first.origin, true);
        }
        for flag in flags {
            let setting = || Setting { value: flag.value.clone(), origin: flag.origin.clone() };
            match flag.name.as_str() {
                "https-listen-port" => {
                    self.set_port(Some(&flag.value), flag.origin.clone(), wrong_flag);
                }
                "data-dir" | "d" => self.data_dir = Some(setting()),
                "kubelet-arg" => self.kubelet_args.push(setting()),
                "kube-apiserver-arg" => self.apiserver_args.push(setting()),
                "snapshotter" => self.snapshotter = Some(setting()),
                "container-runtime-endpoint" => self.other_runtime = Some(setting()),
                "docker" if flag.value != "false" => self.other_runtime = Some(setting()),
                "flannel-iface" => self.flannel_iface = Some(setting()),
                "flannel-backend" => self.flannel_backend = Some(setting()),
                "private-registry" => self.private_registry = Some(setting()),
                "token-file" => self.token_file = Some(setting()),
                "datastore-endpoint" => {
                    self.datastore = Some(DatastoreEndpoint::of(&flag.value, flag.origin.clone()));
                }
                "default-local-storage-path" => self.local_storage = Some(setting()),
                "disable-agent" => self.disable_agent = flag.value != "false",
                "disable-apiserver" => self.disable_apiserver = flag.value != "false",
                "disable-apiserver-lb" => self.disable_apiserver_lb = flag.value != "false",
                "node-name" => self.node_name = Some(setting()),
                "node-ip" | "i" => self.node_ip = Some(setting()),
                _ => {}
            }
        }
    }

    fn replace_names(&mut self, names: Vec<Setting>, by: &Place, by_flag: bool) {
        let replaced = std::mem::replace(&mut self.tls_san, names).into_iter();
        self.shadowed.extend(replaced.map(|setting| Shadowed { setting, by: by.clone(), by_flag }));
    }

    fn set_port(&mut self, text: Option<&str>, place: Place, wrong: fn(&str, &str, Place, &str) -> Finding) {
        match text.and_then(|text| text.parse().ok()).filter(|port| *port != 0) {
            Some(port) => self.https_listen_port = Some(port),
            None => self.findings.push(wrong(
                "https-listen-port",
                "a port number from 1 to 65535",
                place,
                "https-listen-port: 6443",
            )),
        }
    }

    /// Removes duplicates and reports the names that really lost.
    fn finish(&mut self) {
        let mut unique: Vec<Setting> = Vec::new();
        for setting in self.tls_san.drain(..) {
            if !unique.iter().any(|seen| seen.value.eq_ignore_ascii_case(&setting.value)) {
                unique.push(setting);
            }
        }
        self.tls_san = unique;
        self.findings.extend(self.data_dir.as_ref().and_then(relative));
        let effective = &self.tls_san;
        self.shadowed
            .retain(|lost| !effective.iter().any(|s| s.value.eq_ignore_ascii_case(&lost.setting.value)));
        let mut places: Vec<Place> = Vec::new();
        for lost in &self.shadowed {
            if !places.contains(&lost.by) {
                places.push(lost.by.clone());
            }
        }
        self.findings.extend(places.iter().map(|by| shadow_finding(by, &self.shadowed)));
    }
}

/// A directory that depends on where k3s was started; it knows `~` and variables.
fn relative(data_dir: &Setting) -> Option<Finding> {
    let Setting { value, origin } = data_dir;
    if value.is_empty() || value.starts_with(['/', '~', '$']) {
        return None;
    }
    let what = "data-dir is relative: k3s takes it from its working directory, which under systemd is /";
    let remedy = Remedy::new(format!("in {} write /{value}, if that is where its data is", origin.file));
    Some(Finding::at(Code::K3sConfigWrongType, origin.clone(), what).remedy(remedy).milder(Severity::Warn))
}

/// The value of a setting that takes one; k3s takes a list of one as well.
fn single(value: &YamlNode) -> Option<&str> {
    match value.items() {
        [only] => only.as_str(),
        _ => value.as_str(),
    }
}

/// The names of one value: a list, or a single value as k3s accepts it.
fn names(file: &TextFile, value: &YamlNode) -> Result<Vec<Setting>, Box<Finding>> {
    let place = |node: &YamlNode| Place::at(&file.path, node.line, node.column);
    let wrong =
        |node: &YamlNode| wrong_type("tls-san", "a list of names", place(node), "tls-san:\n  - pi.example");
    let nodes = match &value.value {
        YamlValue::Null => return Ok(Vec::new()),
        YamlValue::Scalar(_) => std::slice::from_ref(value),
        YamlValue::List(items) => items,
        YamlValue::Map(_) => return Err(Box::new(wrong(value))),
    };
    let mut names = Vec::new();
    for node in nodes {
        let text = node.as_str().ok_or_else(|| Box::new(wrong(node)))?;
        names.extend(split_commas(text, &place(node)));
    }
    Ok(names)
}

/// k3s splits at commas and trims nothing: a space stays and makes the name
/// invalid, which is for the names' own check to say.
fn split_commas(text: &str, origin: &Place) -> Vec<Setting> {
    text.split(',')
        .filter(|name| !name.is_empty())
        .map(|name| Setting { value: name.to_owned(), origin: origin.clone() })
        .collect()
}

/// A file without which k3s starts, and with which as it is it does not.
pub(crate) fn not_yaml(place: Place, message: &str) -> Finding {
    let line = place.line.map_or_else(String::new, |line| format!("sed -n {line}p {}", place.file));
    let mut remedy = Remedy::new(format!("correct {}; k3s does not start until then", place.file));
    if !line.is_empty() {
        remedy = remedy.command(line);
    }
    Finding::new(Code::K3sConfigInvalid, format!("{place}: not valid YAML: {message}"))
        .saw(place, message)
        .remedy(remedy)
}

fn wrong_type(key: &str, wanted: &str, place: Place, example: &str) -> Finding {
    Finding::new(Code::K3sConfigWrongType, format!("{place}: {key} must be {wanted}"))
        .remedy(Remedy::new(format!("in {} write it as:\n{example}", place.file)))
        .saw(place, format!("{key} is not {wanted}"))
}

/// A flag of a unit, which is no YAML; `example` is the setting in a file.
fn wrong_flag(key: &str, wanted: &str, place: Place, example: &str) -> Finding {
    let flag = example.replacen(": ", "=", 1);
    let explain = format!("in {} write it as --{flag}", place.file);
    wrong_type(key, wanted, place, example).remedy(after_the_unit_changed(explain))
}

/// systemd starts k3s with the unit as it was read last: what helps where a finding is about a unit has it read again.
pub fn read_again(mut finding: Finding) -> Finding {
    let is_unit = |file: &str| {
        let path = Path::new(file);
        let is_drop_in = file.contains(".service.d/") && path.extension().is_some_and(|end| end == "conf");
        is_drop_in || path.extension().is_some_and(|end| end == "service")
    };
    let concerns_unit = finding.evidence.iter().any(|seen| is_unit(&seen.place.file));
    if let Some(remedy) = finding.remedy.as_mut().filter(|_| concerns_unit)
        && !remedy.commands.iter().any(|command| **command == *READ_UNITS)
        && let Some(at) = remedy.commands.iter().position(|command| *command == RESTART_K3S)
    {
        remedy.commands.insert(at, READ_UNITS.into());
    }
    finding
}

/// systemd starts k3s with the unit as it was read last.
fn after_the_unit_changed(explain: String) -> Remedy {
    Remedy::new(explain).command(READ_UNITS).command(RESTART_K3S)
}

fn shadow_finding(by: &Place, shadowed: &[Shadowed]) -> Finding {
    let replaced: Vec<_> = shadowed.iter().filter(|s| s.by == *by).collect();
    let names = replaced.iter().map(|s| s.setting.value.as_str()).collect::<Vec<_>>().join(", ");
    let remedy = if replaced.iter().any(|lost| lost.by_flag) {
        after_the_unit_changed(format!(
            "remove --tls-san from {} and write the names into a drop-in as `tls-san+:`",
            by.file
        ))
    } else {
        Remedy::new(format!(
            "in {} write `tls-san+:` instead of `tls-san:`, which then adds to the earlier files; if that \
             file is not yours to change, `repair names` adds the names in a file of its own. It also \
             restarts k3s",
            by.file
        ))
        .command("sudo weaver-node-agent repair names")
    };
    let message = format!("configured names have no effect: {names}; {by} replaces them");
    let finding = Finding::new(Code::NamesShadowed, message).remedy(remedy);
    replaced
        .into_iter()
        .fold(finding, |finding, s| {
            finding.saw(s.setting.origin.clone(), format!("tls-san {}", s.setting.value))
        })
        .saw(by.clone(), "tls-san replaces the names above")
}

#[cfg(test)]
mod tests;
