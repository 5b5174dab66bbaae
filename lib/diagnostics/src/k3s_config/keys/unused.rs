//! Values that k3s does not use, because of another setting. Pure.
//!
//! Only what k3s leaves aside in every version that is supported. A value that it parses all the same stops it all the
//! same.

use super::config_key::ConfigKey;
use crate::k3s_config::flags::{self, FlagKind};
use crate::k3s_unit::Flag;

/// Whether the value of this key does not matter: a flag of the unit replaces it, or what would use it is off.
pub(super) fn is_unused(key: &ConfigKey<'_>, entries: &[ConfigKey<'_>], given: &[Flag]) -> bool {
    let Some(known) = flags::find(key.plain()) else { return false };
    // Of a list it is not known what k3s does with both.
    let is_same = |flag: &Flag| flags::find(&flag.name).is_some_and(|replacing| replacing.name == known.name);
    if known.kind == FlagKind::Text && given.iter().any(is_same) {
        return true;
    }
    let is_on = |name: &str| value(name, entries, given) == Some("true");
    match known.name {
        // What k3s' own containerd uses.
        "snapshotter" => {
            let endpoint = value("container-runtime-endpoint", entries, given);
            is_on("docker") || is_on("disable-agent") || endpoint.is_some_and(|socket| !socket.is_empty())
        }
        // What the kubelet registers.
        "node-label" | "node-taint" => is_on("disable-agent"),
        "etcd-snapshot-schedule-cron" => is_on("etcd-disable-snapshots"),
        _ => false,
    }
}

/// The value that k3s takes: of a flag of the unit, else of the last file that has it.
fn value<'a>(name: &str, entries: &'a [ConfigKey<'_>], given: &'a [Flag]) -> Option<&'a str> {
    let flag = given.iter().rfind(|flag| flag.name == name);
    // A switch needs no value.
    let of_flag = flag.map(|flag| if flag.value.is_empty() { "true" } else { flag.value.as_str() });
    of_flag.or_else(|| {
        let key = entries.iter().rfind(|key| key.plain() == name)?;
        match key.value.items() {
            [only] => only.as_str(),
            _ => key.value.as_str(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Place;
    use crate::k3s_config::keys;
    use crate::k3s_upgrade::Role;
    use crate::text_file::TextFile;

    #[test]
    fn a_value_that_k3s_does_not_use_is_no_fault() {
        let flag = |name: &str, value: &str| {
            let origin = Place::line("/k3s.service", 9);
            Flag { name: name.to_owned(), value: value.to_owned(), origin }
        };
        let (label, cron) = ("node-label: [k8s.io/role=worker]\n", "etcd-snapshot-schedule-cron: at night\n");
        for (text, more, flags, want) in [
            ("snapshotter: overlay\n", "", &[][..], 1),
            ("snapshotter: overlay\n", "docker: true\n", &[], 0),
            ("snapshotter: overlay\n", "docker: false\n", &[], 1),
            ("snapshotter: overlay\n", "container-runtime-endpoint: /run/crio/crio.sock\n", &[], 0),
            ("snapshotter: overlay\n", "disable-agent: true\n", &[], 0),
            ("snapshotter: overlay\n", "", &[flag("docker", "")], 0),
            ("snapshotter: overlay\n", "docker: true\n", &[flag("docker", "false")], 1),
            ("snapshotter: overlay\n", "", &[flag("snapshotter", "native")], 0),
            (label, "", &[], 1),
            (label, "disable-agent: true\n", &[], 0),
            ("node-taint: [dedicated]\n", "disable-agent: true\n", &[], 0),
            // The server itself reads it.
            ("node-ip: pi\n", "disable-agent: true\n", &[], 1),
            (cron, "", &[], 1),
            (cron, "etcd-disable-snapshots: true\n", &[], 0),
            ("server: http://pi:6443\n", "", &[], 1),
            ("server: http://pi:6443\n", "", &[flag("s", "https://pi:6443")], 0),
            ("node-ip: pi\n", "", &[flag("node-ip", "10.0.0.2")], 1),
            // k3s parses it before the flag replaces it.
            ("debug: often\n", "", &[flag("debug", "true")], 1),
            ("cluster-cidr: 10.42.0.0/16,fd42::/56\n", "service-cidr: 10.43.0.0/16\n", &[], 1),
            (
                "cluster-cidr: 10.42.0.0/16,fd42::/56\n",
                "service-cidr: 10.43.0.0/16\n",
                &[flag("service-cidr", "10.43.0.0/16,fd43::/112")],
                0,
            ),
        ] {
            let file = TextFile::new("/c.yaml", format!("{text}{more}"));
            let found = keys::lint(&[file], flags, Role::Server);
            assert_eq!(found.len(), want, "{text}{more}{flags:?}: {found:?}");
        }
    }
}
