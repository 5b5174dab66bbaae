//! Reads the names of the host and of its node.

use weaver_api::names::dns_subdomain;
use weaver_diagnostics::finding::Place;
use weaver_diagnostics::host::names::{HOST_NAME, HOSTS, NSSWITCH, NodeName, OwnName, RESOLV};
use weaver_diagnostics::k3s_config::Effective;

use crate::host_root::HostRoot;

pub(crate) fn host_name(root: &HostRoot) -> Option<String> {
    let name = root.read_if_possible(HOST_NAME).map(|file| file.text.trim().to_owned());
    name.filter(|name| !name.is_empty() && name != "(none)")
}

/// The name under which k3s would register the node.
pub(crate) fn node_name(root: &HostRoot, effective: &Effective) -> Option<NodeName> {
    let (name, place) = match &effective.node_name {
        Some(setting) => (setting.value.clone(), setting.origin.clone()),
        None => (host_name(root)?, Place::file(HOST_NAME)),
    };
    let fault = dns_subdomain(&name.to_ascii_lowercase()).err().map(|fault| fault.to_string());
    Some(NodeName { name, place, fault })
}

/// How the host looks up its own name.
pub(crate) fn own_name(root: &HostRoot) -> Option<OwnName> {
    let text = |path| root.read_if_possible(path).map(|file| file.text);
    Some(OwnName {
        name: host_name(root)?,
        hosts: text(HOSTS)?,
        nsswitch: text(NSSWITCH).unwrap_or_default(),
        resolv: text(RESOLV).unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_root::fixture::host;
    use weaver_diagnostics::k3s_config::Setting;

    #[test]
    fn the_name_of_the_node_and_what_is_wrong_with_it() {
        for (name, node_name_set, want) in [
            ("raspi", None, Some(("raspi", false))),
            ("Raspi.LAN", None, Some(("Raspi.LAN", false))),
            ("my_pi", None, Some(("my_pi", true))),
            ("-pi", None, Some(("-pi", true))),
            ("pi.", None, Some(("pi.", true))),
            ("größe", None, Some(("größe", true))),
            ("my_pi", Some("my-pi"), Some(("my-pi", false))),
            ("raspi", Some("my pi"), Some(("my pi", true))),
            ("(none)", None, None),
            ("", None, None),
        ] {
            let (_dir, root) = host(&[(HOST_NAME, &format!("{name}\n"))]);
            let setting = |name: &str| Setting { value: name.to_owned(), origin: Place::line("/c.yaml", 1) };
            let effective = Effective { node_name: node_name_set.map(setting), ..Effective::default() };
            let read = node_name(&root, &effective);
            let read = read.as_ref().map(|read| (read.name.as_str(), read.fault.is_some()));
            assert_eq!(read, want, "{name} {node_name_set:?}");
        }
    }

    #[test]
    fn the_files_by_which_the_own_name_is_found() {
        let name = (HOST_NAME, "raspi\n");
        let (_dir, root) = host(&[name]);
        assert_eq!(own_name(&root), None, "what is not there is not judged");
        let (_dir, root) = host(&[name, (HOSTS, "h"), (RESOLV, "r")]);
        let want =
            OwnName { name: "raspi".into(), hosts: "h".into(), resolv: "r".into(), ..OwnName::default() };
        assert_eq!(own_name(&root), Some(want));
    }
}
