//! Keys that one file has twice: k3s uses the last, and nothing of the others. Pure.

use super::config_key::ConfigKey;
use crate::finding::{Code, Finding, RESTART_K3S, Remedy, Severity};
use crate::k3s_config::flags::{self, FlagKind};
use crate::k3s_upgrade::Role;
use crate::yaml_node::YamlNode;

/// Each key whose value a later key of the same file replaces. Names of `tls-san` are reported with what replaces them,
/// and keys that k3s does not read as such.
pub(super) fn lint(entries: &[ConfigKey<'_>], role: Role) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        let replaces =
            |later: &&ConfigKey<'_>| later.text() == entry.plain() && later.file.path == entry.file.path;
        let known = flags::find(entry.plain()).filter(|known| known.until.is_none() && known.is_of(role));
        let Some(known) = known.filter(|known| known.name != "tls-san") else { continue };
        let Some(later) = entries[at + 1..].iter().find(replaces).filter(|later| !is_same(entry, later))
        else {
            continue;
        };
        let (name, line) = (known.name, later.key.line);
        let what = format!("{name} is repeated in line {line}, and k3s uses only what is there");
        let remedy = match known.kind {
            FlagKind::List => {
                format!("write all values below one of them, or `{}+:` in line {line}", later.text())
            }
            _ => "remove one of them".to_owned(),
        };
        let finding = Finding::at(Code::SettingMisspelled, entry.place(), &what);
        findings.push(finding.remedy(Remedy::new(remedy).command(RESTART_K3S)).milder(Severity::Warn));
    }
    findings
}

/// Whether nothing is lost.
fn is_same(one: &ConfigKey<'_>, other: &ConfigKey<'_>) -> bool {
    let texts = |entry: &ConfigKey<'_>| {
        let values = std::slice::from_ref(&entry.value).iter().chain(entry.value.items());
        values.filter_map(YamlNode::as_str).map(str::to_owned).collect::<Vec<_>>()
    };
    texts(one).iter().all(|text| texts(other).contains(text))
}

#[cfg(test)]
mod tests {
    use crate::finding::{Code, Severity};
    use crate::k3s_config::keys;
    use crate::k3s_upgrade::Role;
    use crate::text_file::TextFile;

    #[test]
    fn a_key_that_a_later_one_replaces() {
        for (text, want) in [
            (
                "disable: [traefik]\ndisable: [servicelb]\n",
                Some("/c.yaml:1:1: disable is repeated in line 2"),
            ),
            (
                "kubelet-arg+: [max-pods=50]\ndebug: true\nkubelet-arg:\n- v=4\n",
                Some("/c.yaml:1:1: kubelet-arg is"),
            ),
            ("token: hunter2\ntoken: hunter3\n", Some("/c.yaml:1:1: token is repeated in line 2")),
            // Its value is not read, and so not judged.
            ("node-ip: pi\nnode-ip: 10.0.0.2\n", Some("/c.yaml:1:1: node-ip is repeated")),
            ("disable: [traefik]\ndisable+: [servicelb]\n", None),
            ("disable: [traefik]\ndisable: [servicelb, traefik]\n", None),
            ("disable: traefik\ndisable: [traefik]\n", None),
            ("tls-san: [a]\ntls-san: [b]\n", None),
        ] {
            let found = keys::lint(&[TextFile::new("/c.yaml", text)], &[], Role::Server);
            assert_eq!(found.len(), usize::from(want.is_some()), "{text}: {found:?}");
            assert!(!format!("{found:?}").contains("hunter"), "{found:?}");
            if let (Some(found), Some(want)) = (found.first(), want) {
                assert!(found.message.starts_with(want), "{found:?}");
                assert_eq!((found.code, found.severity()), (Code::SettingMisspelled, Severity::Warn));
            }
        }
        let files = ["/c.yaml", "/c.yaml.d/1.yaml"].map(|path| TextFile::new(path, "disable: [traefik]\n"));
        assert_eq!(keys::lint(&files, &[], Role::Server), [], "a drop-in may replace it");
    }
}
