//! Files of the kubelet's configuration under k3s: those that `kubelet-arg` names and the drop-ins of k3s'
//! own directory. Pure.
//!
//! k3s copies the first into the second; the kubelet reads what ends in `.conf` there and refuses what is no
//! `KubeletConfiguration`, which ends k3s.

mod types;

use crate::finding::{Code, Finding, Place, RESTART_K3S, Remedy, Severity};
use crate::k3s_unit::Setting;
use crate::text_file::TextFile;
use crate::yaml_node::{self, YamlNode, YamlValue};

const FIELDS: &str = include_str!("kubelet_fields.txt");
/// The directory of the drop-ins, below k3s' data.
pub const DROP_INS: &str = "agent/etc/kubelet.conf.d";
/// Drop-ins that k3s writes itself.
pub const OF_K3S: [&str; 2] = ["00-k3s-defaults.conf", "10-cli-config.conf"];

/// Fields that people write as flags have them.
const MAPPINGS: [&str; 8] = [
    "evictionHard",
    "evictionSoft",
    "evictionSoftGracePeriod",
    "evictionMinimumReclaim",
    "systemReserved",
    "kubeReserved",
    "featureGates",
    "memorySwap",
];
const LISTS: [&str; 5] =
    ["clusterDNS", "allowedUnsafeSysctls", "enforceNodeAllocatable", "registerWithTaints", "tlsCipherSuites"];

fn is_mapping(value: &YamlValue) -> bool {
    matches!(value, YamlValue::Map(_) | YamlValue::Null)
}

fn is_list(value: &YamlValue) -> bool {
    matches!(value, YamlValue::List(_) | YamlValue::Null)
}

/// The file that an entry of `kubelet-arg` names.
pub fn named(arguments: &[Setting]) -> Vec<Setting> {
    let path = |setting: &Setting| {
        let value = setting.value.trim_start_matches('-').strip_prefix("config=")?.to_owned();
        Some(Setting { value, origin: setting.origin.clone() })
    };
    arguments.iter().filter_map(path).filter(|setting| !setting.value.is_empty()).collect()
}

/// A file that an entry names and that is not there: k3s does not start.
pub fn missing(named: &Setting) -> Finding {
    let Setting { value: path, origin } = named;
    let message =
        format!("{path} does not exist, kubelet-arg at {origin} names it, and k3s does not start without it");
    Finding::new(Code::KubeletConfigFault, message)
        .saw(origin.clone(), format!("kubelet-arg config={path}"))
        .remedy(
            Remedy::new(format!("write {path}, or remove the entry from {}", origin.file))
                .command(RESTART_K3S),
        )
}

/// A file among the drop-ins that the kubelet passes over.
pub fn passed_over(directory: &str, name: &str) -> Option<Finding> {
    let is_meant = [".yaml", ".yml", ".json"].iter().any(|end| name.ends_with(end)) && !name.starts_with('.');
    is_meant.then(|| {
        let place = Place::file(format!("{directory}/{name}"));
        let message = format!("{place}: the kubelet reads files there that end in .conf only");
        let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
        let remedy = Remedy::new(format!("rename it to {stem}.conf, then restart k3s"));
        Finding::new(Code::KubeletConfigFault, message)
            .saw(place, "not read")
            .remedy(remedy.command(RESTART_K3S))
            .milder(Severity::Warn)
    })
}

/// What is wrong with a file; `by_systemd` says whether systemd starts k3s.
pub fn lint(file: &TextFile, by_systemd: bool) -> Vec<Finding> {
    let root = match yaml_node::parse(&file.text) {
        Ok(root) => root,
        Err(error) => {
            let place = Place { file: file.path.clone(), line: error.line, column: error.column };
            let message = format!("{place} is not valid YAML, so the kubelet does not start and k3s exits");
            let remedy = Remedy::new(format!("correct {}", file.path)).command(RESTART_K3S);
            return vec![
                Finding::new(Code::KubeletConfigFault, message).saw(place, error.message).remedy(remedy),
            ];
        }
    };
    let mut lint = KubeletLint { file, findings: Vec::new() };
    lint.kind(&root);
    lint.names(&root);
    lint.shapes(&root);
    lint.thresholds(&root);
    if by_systemd {
        lint.cgroup_driver(&root);
    }
    lint.findings
}

struct KubeletLint<'a> {
    file: &'a TextFile,
    findings: Vec<Finding>,
}

impl KubeletLint<'_> {
    fn finding(&self, at: &YamlNode, what: &str, remedy: &str) -> Finding {
        let place = Place::at(&self.file.path, at.line, at.column);
        let remedy = Remedy::new(format!("{remedy}, then restart k3s")).command(RESTART_K3S);
        Finding::at(Code::KubeletConfigFault, place, what).remedy(remedy)
    }

    /// The kubelet does not start with it.
    fn refused(&mut self, at: &YamlNode, what: &str, remedy: &str) {
        self.findings.push(self.finding(at, what, remedy));
    }

    /// The kubelet starts, and it has not the effect that it was written for.
    fn useless(&mut self, at: &YamlNode, what: &str, remedy: &str) {
        self.findings.push(self.finding(at, what, remedy).milder(Severity::Warn));
    }

    fn kind(&mut self, root: &YamlNode) {
        let (kind, version) = (root.get("kind"), root.get("apiVersion"));
        let is = |node: Option<&YamlNode>, text: &str| node.and_then(YamlNode::as_str) == Some(text);
        if !is(kind, "KubeletConfiguration") || !is(version, "kubelet.config.k8s.io/v1beta1") {
            self.refused(
                kind.or(version).unwrap_or(root),
                "it is not a KubeletConfiguration, so the kubelet does not start and k3s exits",
                "write `apiVersion: kubelet.config.k8s.io/v1beta1` and `kind: KubeletConfiguration` at its top",
            );
        }
    }

    fn names(&mut self, root: &YamlNode) {
        let names = || root.entries().iter().filter_map(|(key, _)| Some((key, key.as_str()?)));
        for (key, name) in names().filter(|(_, name)| name.contains('-') && is_plain(name)) {
            let what = format!("`{name}` is a flag of the kubelet, not a field of its configuration");
            let remedy = format!(
                "write the field's own name, or leave the flag to config.yaml: `kubelet-arg+: [\"{name}=VALUE\"]`"
            );
            self.useless(key, &what, &remedy);
        }
        for (key, name) in names() {
            if let Some(meant) = meant(name) {
                let what = format!("the kubelet has no field `{name}`; it has `{meant}`");
                self.useless(key, &what, &format!("write `{meant}`"));
            }
        }
    }

    fn shapes(&mut self, root: &YamlNode) {
        for (names, is_right, kind) in [
            (&MAPPINGS[..], is_mapping as fn(&YamlValue) -> bool, "a mapping, `name: value` on a line each"),
            (&LISTS[..], is_list, "a list, `- value` on a line each"),
        ] {
            let present = names.iter().filter_map(|name| Some((*name, root.get(name)?)));
            for (name, node) in present.filter(|(_, node)| !is_right(&node.value)) {
                let what =
                    format!("`{name}` is {}, and the kubelet does not start with it", node.value.kind());
                self.refused(node, &what, &format!("write {kind}"));
            }
        }
        for (node, what, remedy) in types::faults(root, &|node| node.is_quoted(&self.file.text)) {
            self.refused(node, &format!("{what}, and the kubelet does not start with it"), remedy);
        }
    }

    fn thresholds(&mut self, root: &YamlNode) {
        let percent =
            |name: &str| root.get(name).and_then(|node| Some((node, node.as_str()?.parse::<u32>().ok()?)));
        if let (Some((_, high)), Some((node, low))) =
            (percent("imageGCHighThresholdPercent"), percent("imageGCLowThresholdPercent"))
            && low >= high
        {
            let what = "the low threshold is not below the high one, and the kubelet does not start with it";
            self.refused(node, what, "write a number below imageGCHighThresholdPercent");
        }
    }

    fn cgroup_driver(&mut self, root: &YamlNode) {
        let driver = root.get("cgroupDriver").filter(|node| node.as_str() == Some("cgroupfs"));
        if let Some(driver) = driver {
            let what = "this makes the kubelet manage cgroups itself, while k3s makes containerd use systemd: two \
                cgroup managers make the node unstable";
            self.useless(driver, what, "remove `cgroupDriver`: k3s sets it for both");
        }
    }
}

/// The fields of a `KubeletConfiguration`.
pub(crate) fn fields() -> impl Iterator<Item = &'static str> {
    FIELDS.lines().filter(|line| !line.starts_with('#'))
}

/// The field that a name is close to and is not; a newer kubelet may have more than the table.
fn meant(name: &str) -> Option<&'static str> {
    // A flag has been reported.
    if name.contains('-')
        || fields().any(|field| field == name)
        || ["kind", "apiVersion", "metadata"].contains(&name)
    {
        return None;
    }
    let lower = name.to_ascii_lowercase();
    let distance = |field: &str| strsim::damerau_levenshtein(&lower, &field.to_ascii_lowercase());
    let (nearest, field) = fields().map(|field| (distance(field), field)).min()?;
    // Some leave out the unit at the end.
    let is_begun = field.to_ascii_lowercase().starts_with(&lower) && lower.len() * 2 > field.len();
    (nearest <= lower.chars().count() / 5 || is_begun).then_some(field)
}

fn is_plain(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

    fn found(text: &str) -> Vec<(Code, String)> {
        let findings = lint(&TextFile::new("/k.conf", text), true);
        findings.into_iter().map(|finding| (finding.code, finding.message)).collect()
    }

    #[test]
    fn what_the_kubelet_takes_is_left_alone() {
        for more in [
            "",
            "shutdownGracePeriod: 30s\nshutdownGracePeriodCriticalPods: 10s\n",
            "maxPods: 50\nevictionHard:\n  memory.available: 100Mi\n  nodefs.available: \"5%\"\n",
            "cgroupDriver: systemd\n",
            "somethingNew: 1\n",
            "systemReserved: {cpu: 200m}\nfeatureGates: {NodeSwap: true}\nmemorySwap: {swapBehavior: LimitedSwap}\n",
        ] {
            assert_eq!(found(&format!("{HEAD}{more}")), [], "{more}");
        }
        let cgroupfs = TextFile::new("/k", format!("{HEAD}cgroupDriver: cgroupfs\n"));
        assert_eq!(lint(&cgroupfs, false), []);
    }

    #[test]
    fn what_it_refuses_or_passes_over_is_named_with_its_line() {
        for (text, code, want) in [
            (
                "maxPods: 50\n".to_owned(),
                Code::KubeletConfigFault,
                "/k.conf:1:1: it is not a KubeletConfiguration",
            ),
            (
                format!("{HEAD}shutDownGracePeriod: 60s\n"),
                Code::KubeletConfigFault,
                "/k.conf:3:1: the kubelet has no field `shutDownGracePeriod`; it has `shutdownGracePeriod`",
            ),
            (
                format!("{HEAD}imageGCHighThreshold: 80\n"),
                Code::KubeletConfigFault,
                "/k.conf:3:1: the kubelet has no field `imageGCHighThreshold`; it has `imageGCHighThresholdPercent`",
            ),
            (String::new(), Code::KubeletConfigFault, "/k.conf:1:1: it is not a KubeletConfiguration"),
            (
                HEAD.replace("Kubelet", "KubeProxy"),
                Code::KubeletConfigFault,
                "/k.conf:2:7: it is not a Kubelet",
            ),
            (
                HEAD.replace("v1beta1", "v1"),
                Code::KubeletConfigFault,
                "/k.conf:2:7: it is not a KubeletConfiguration",
            ),
            (
                format!("{HEAD}evictionHard:\n- memory.available<100Mi\n"),
                Code::KubeletConfigFault,
                "/k.conf:4:3: `evictionHard` is a list, and the kubelet does not start",
            ),
            (
                format!("{HEAD}clusterDNS: 10.43.0.10\n"),
                Code::KubeletConfigFault,
                "/k.conf:3:13: `clusterDNS` is a single value, and the kubelet",
            ),
            (
                format!("{HEAD}imageGCHighThresholdPercent: 60\nimageGCLowThresholdPercent: 70\n"),
                Code::KubeletConfigFault,
                "/k.conf:4:29: the low threshold is not below",
            ),
            (
                format!("{HEAD}maxPods: \"60\"\n"),
                Code::KubeletConfigFault,
                "/k.conf:3:10: `maxPods` is not a number, and the kubelet does not start with it",
            ),
            (format!("{HEAD}max-pods: 50\n"), Code::KubeletConfigFault, "/k.conf:3:1: `max-pods` is a flag"),
            (
                format!("{HEAD}cgroupDriver: cgroupfs\n"),
                Code::KubeletConfigFault,
                "/k.conf:3:15: this makes the kubelet manage",
            ),
            (format!("{HEAD}\tmaxPods: 50\n"), Code::KubeletConfigFault, "/k.conf:2:7 is not valid YAML"),
        ] {
            let found = found(&text);
            assert!(found.len() == 1 && found[0].0 == code, "{text}: {found:?}");
            assert!(found[0].1.starts_with(want), "{text}: {found:?}");
        }
        let file = TextFile::new("/k", format!("{HEAD}image-gc-high-threshold: 80\n"));
        assert_eq!(lint(&file, true)[0].severity(), Severity::Warn, "it starts with it");
        assert_eq!(lint(&TextFile::new("/k", "maxPods: 5\n"), true)[0].severity(), Severity::Fail);
        let remedy = lint(&file, true).remove(0).remedy.unwrap().explain;
        assert!(remedy.contains("`kubelet-arg+: [\"image-gc-high-threshold=VALUE\"]`"), "{remedy}");
    }

    #[test]
    fn files_that_entries_name_and_drop_ins_that_are_not_read() {
        let setting = |value: &str| Setting { value: value.to_owned(), origin: Place::line("/c.yaml", 2) };
        let entries =
            ["config=/k.yaml", "--config=/l.yaml", "max-pods=50", "config-dir=/d", "config="].map(setting);
        let paths: Vec<_> = named(&entries).into_iter().map(|named| named.value).collect();
        assert_eq!(paths, ["/k.yaml", "/l.yaml"]);
        assert!(missing(&entries[0]).message.contains("kubelet-arg at /c.yaml:2 names it"));
        for (name, want) in [
            ("99-mine.yaml", true),
            ("swap.json", true),
            ("99-mine.conf", false),
            ("99-mine.conf.bak", false),
            (".99-mine.yaml", false),
            ("README", false),
        ] {
            assert_eq!(passed_over("/d", name).is_some(), want, "{name}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in "\\PC*|(kind|apiVersion|cgroupDriver|a-b|: |- |\n){0,12}") {
            let _ = lint(&TextFile::new("/k", text), true);
        }
    }
}
