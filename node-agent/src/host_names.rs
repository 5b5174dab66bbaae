//! The name of the host: may a node be called so, and does the host find itself by it?

use weaver_api::names::dns_subdomain;
use weaver_diagnostics::finding::{Code, Finding, Place};
use weaver_diagnostics::k3s_config::Effective;
use weaver_diagnostics::shell::quoted;

use crate::host_root::HostRoot;

const HOST_NAME: &str = "/proc/sys/kernel/hostname";
const HOSTS: &str = "/etc/hosts";
const NSSWITCH: &str = "/etc/nsswitch.conf";
const RESOLV: &str = "/etc/resolv.conf";
/// Where systemd-resolved listens.
const STUBS: [&str; 2] = ["127.0.0.53", "127.0.0.54"];
/// Modules that answer for the own name by themselves: nss-myhostname(8), nss-resolve(8).
const MODULES: [&str; 2] = ["myhostname", "resolve"];

/// What is not as it should be; nothing where nothing can be read.
#[must_use]
pub fn findings(root: &HostRoot, effective: &Effective) -> Vec<Finding> {
    let host = root.read_if_possible(HOST_NAME).map(|file| file.text.trim().to_owned());
    let host = host.filter(|name| !name.is_empty() && name != "(none)");
    let node = match &effective.node_name {
        Some(setting) => Some((setting.value.clone(), setting.origin.clone())),
        None => host.clone().map(|name| (name, Place::file(HOST_NAME))),
    };
    let unusable = node.and_then(|(name, place)| unusable(&name, place));
    unusable.into_iter().chain(host.and_then(|name| not_found(root, &name))).collect()
}

/// The kubelet registers with its name in lower case, and the API server refuses what is no DNS name.
fn unusable(name: &str, place: Place) -> Option<Finding> {
    let lower = name.to_ascii_lowercase();
    let why = match dns_subdomain(&lower) {
        Err(fault) => fault.to_string(),
        Ok(()) if lower == "localhost" => {
            "every machine is called so: two of them would be one node, and no laptop finds it".to_owned()
        }
        Ok(()) => return None,
    };
    let message = format!("the node would be called `{name}`: {why}");
    Some(Finding::new(Code::HostNameUnusable, message).saw(place, name))
}

/// Without DNS: a network that is not there must not take it away.
fn not_found(root: &HostRoot, name: &str) -> Option<Finding> {
    let hosts = root.read_if_possible(HOSTS)?;
    let lines = hosts.text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let mut known = lines.flat_map(|line| line.split_whitespace().skip(1));
    if known.any(|known| known.eq_ignore_ascii_case(name)) {
        return None;
    }
    let switch = root.read_if_possible(NSSWITCH).map(|file| file.text).unwrap_or_default();
    let line = switch.lines().find_map(|line| line.trim_start().strip_prefix("hosts:"));
    let line = line.unwrap_or("files dns").split('#').next().unwrap_or_default();
    if line.split_whitespace().any(|module| MODULES.contains(&module)) {
        return None;
    }
    // Where systemd-resolved answers, it knows the own name without any other server.
    let resolv = root.read_if_possible(RESOLV).map(|file| file.text).unwrap_or_default();
    let asks_resolved = resolv.lines().filter_map(|line| line.strip_prefix("nameserver"));
    if line.split_whitespace().any(|module| module == "dns")
        && asks_resolved.map(str::trim).any(|server| STUBS.contains(&server))
    {
        return None;
    }
    let message = format!("this host does not find its own name {name} without a name server");
    let finding = Finding::new(Code::OwnNameNotFound, message);
    let remedy = Code::OwnNameNotFound.row().remedy;
    let command = format!("echo {} | sudo tee -a /etc/hosts", quoted(&format!("127.0.1.1 {name}")));
    Some(
        finding
            .saw(Place::file(HOSTS), "no line has it")
            .saw(Place::file(NSSWITCH), format!("hosts:{line}").trim_end())
            .remedy(weaver_diagnostics::finding::Remedy::new(remedy).command(command)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_root::fixture::host;
    use weaver_diagnostics::k3s_config::Setting;

    fn codes(files: &[(&str, &str)], node_name: Option<&str>) -> Vec<Code> {
        let (_dir, root) = host(files);
        let setting = |name: &str| Setting { value: name.to_owned(), origin: Place::line("/c.yaml", 1) };
        let effective = Effective { node_name: node_name.map(setting), ..Effective::default() };
        findings(&root, &effective).into_iter().map(|finding| finding.code).collect()
    }

    #[test]
    fn names_that_no_node_can_have() {
        for (name, node_name, is_bad) in [
            ("raspi", None, false),
            ("Raspi.LAN", None, false),
            ("my_pi", None, true),
            ("-pi", None, true),
            ("pi.", None, true),
            ("größe", None, true),
            ("localhost", None, true),
            ("my_pi", Some("my-pi"), false),
            ("raspi", Some("my pi"), true),
            ("(none)", None, false),
        ] {
            let found = codes(&[(HOST_NAME, &format!("{name}\n"))], node_name);
            let want = if is_bad { vec![Code::HostNameUnusable] } else { vec![] };
            assert_eq!(found, want, "{name} {node_name:?}");
        }
    }

    #[test]
    fn who_answers_for_the_own_name() {
        const NAME: (&str, &str) = (HOST_NAME, "raspi\n");
        for (hosts, switch, is_found) in [
            (Some("127.0.0.1 localhost\n127.0.1.1 raspi\n"), None, true),
            (Some("127.0.1.1\tpi.lan RASPI # mine\n"), None, true),
            (Some("127.0.0.1 localhost\n"), None, false),
            (Some("127.0.0.1 localhost # raspi\n"), Some("hosts: files dns\n"), false),
            (Some("127.0.0.1 localhost\n"), Some("passwd: files\n hosts: files mdns4_minimal dns\n"), false),
            (Some("127.0.0.1 localhost\n"), Some("hosts: files myhostname dns\n"), true),
            (Some("127.0.0.1 localhost\n"), Some("hosts: files resolve [!UNAVAIL=return] dns\n"), true),
            (Some("127.0.0.1 localhost\n"), Some("hosts: files dns # resolve\n"), false),
            (None, None, true),
        ] {
            let files: Vec<_> = std::iter::once(NAME)
                .chain(hosts.map(|text| (HOSTS, text)))
                .chain(switch.map(|text| (NSSWITCH, text)))
                .collect();
            let want = if is_found { vec![] } else { vec![Code::OwnNameNotFound] };
            assert_eq!(codes(&files, None), want, "{hosts:?} {switch:?}");
        }
        for (server, is_found) in [("127.0.0.53", true), ("192.168.1.1", false)] {
            let resolv = format!("# x\nnameserver {server}\n");
            let files = [NAME, (HOSTS, "127.0.0.1 localhost\n"), (RESOLV, resolv.as_str())];
            assert_eq!(codes(&files, None).is_empty(), is_found, "{server}");
        }
        let (_dir, root) = host(&[NAME, (HOSTS, "127.0.0.1 localhost\n")]);
        let finding = findings(&root, &Effective::default()).remove(0);
        assert_eq!(finding.remedy.unwrap().commands, ["echo '127.0.1.1 raspi' | sudo tee -a /etc/hosts"]);
    }
}
