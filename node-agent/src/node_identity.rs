//! Is the node still the one that it registered as? A host name that changed makes k3s register a second node, and what
//! ran on the first stays there, unreachable (k3s-io/k3s#5787).
//!
//! The name that it registered with stands in its kubelet's certificate, until k3s starts and has another one made: this
//! is what preflight can say before that.

use std::path::Path;

use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use weaver_diagnostics::catalogue;
use weaver_diagnostics::finding::{Code, Finding, Place, Remedy};
use weaver_diagnostics::k3s_config::Effective;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::host_root::HostRoot;

const CERTIFICATE: &str = "agent/client-kubelet.crt";
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// A warning where k3s would now start under another name; nothing before its first start.
#[must_use]
pub fn finding(root: &HostRoot, data_dir: &Path, effective: &Effective) -> Option<Finding> {
    let path = data_dir.join(CERTIFICATE);
    let registered = registered(&root.read_if_possible(&path)?.text)?;
    let (now, place) = wanted(root, effective)?;
    // With `with-node-id` k3s adds a number of its own.
    let is_same = registered.strip_prefix(&now).is_some_and(|rest| rest.is_empty() || is_node_id(rest));
    if is_same || now.is_empty() {
        return None;
    }
    let entry = catalogue::entry(Code::IdentityDrift);
    let commands = entry.commands.iter().map(|command| command.replace("OLD", &registered));
    let remedy = commands.fold(Remedy::new(entry.remedy), Remedy::command);
    let message =
        format!("this node registered as {registered}, and k3s would start it as {now}: a second node");
    Some(
        Finding::new(entry.severity, Code::IdentityDrift, message)
            .saw(Place::file(path.display().to_string()), format!("system:node:{registered}"))
            .saw(place, now)
            .remedy(remedy),
    )
}

/// The node's name: as it registered, else as k3s would have it register; `None` where nothing tells.
#[must_use]
pub fn name(root: &HostRoot, data_dir: &Path, effective: &Effective) -> Option<String> {
    let registered = || registered(&root.read_if_possible(data_dir.join(CERTIFICATE))?.text);
    registered().or_else(|| Some(wanted(root, effective)?.0)).filter(|name| !name.is_empty())
}

/// The name under which k3s would start, and where it stands.
fn wanted(root: &HostRoot, effective: &Effective) -> Option<(String, Place)> {
    Some(match &effective.node_name {
        Some(setting) => (setting.value.to_ascii_lowercase(), setting.origin.clone()),
        None => (root.read_if_possible(HOST_NAME)?.text.trim().to_ascii_lowercase(), Place::file(HOST_NAME)),
    })
}

/// What `with-node-id` adds: a hyphen and eight hexadecimal digits.
fn is_node_id(rest: &str) -> bool {
    rest.strip_prefix('-').is_some_and(|id| id.len() == 8 && id.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// The name of the node in its kubelet's certificate.
fn registered(pem: &str) -> Option<String> {
    let certificate = CertificateDer::pem_slice_iter(pem.as_bytes()).next()?.ok()?;
    let (_, parsed) = X509Certificate::from_der(&certificate).ok()?;
    let name = parsed.subject().iter_common_name().next()?.as_str().ok()?;
    Some(name.strip_prefix("system:node:")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_root::fixture::host;
    use weaver_diagnostics::k3s_config::Setting;

    const DATA: &str = "/var/lib/rancher/k3s";

    fn certificate(name: &str) -> String {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut parameters = rcgen::CertificateParams::default();
        parameters.distinguished_name.push(rcgen::DnType::CommonName, name);
        parameters.self_signed(&key).unwrap().pem()
    }

    fn drift(certificate: &str, host_name: &str, node_name: Option<&str>) -> Option<Finding> {
        let path = format!("{DATA}/{CERTIFICATE}");
        let (_dir, root) = host(&[(&path, certificate), (HOST_NAME, host_name)]);
        let node_name =
            node_name.map(|name| Setting { value: name.to_owned(), origin: Place::line("/c.yaml", 1) });
        finding(&root, Path::new(DATA), &Effective { node_name, ..Effective::default() })
    }

    #[test]
    fn a_node_that_would_start_under_another_name() {
        let old = certificate("system:node:raspi");
        for (certificate, host_name, node_name, want) in [
            (old.as_str(), "raspi\n", None, None),
            (&old, "Raspi\n", None, None),
            (&old, "other\n", Some("Raspi"), None),
            (&certificate("system:node:raspi-1a2b3c4d"), "raspi\n", None, None),
            (&old, "other\n", None, Some("registered as raspi, and k3s would start it as other")),
            (&old, "raspi\n", Some("pi"), Some("would start it as pi")),
            (&certificate("system:node:raspi-2"), "raspi\n", None, Some("would start it as raspi")),
            (&certificate("admin"), "raspi\n", None, None),
            ("no certificate", "raspi\n", None, None),
        ] {
            let found = drift(certificate, host_name, node_name);
            assert_eq!(found.is_some(), want.is_some(), "{host_name:?} {node_name:?}");
            let Some(found) = found else { continue };
            assert!(found.message.contains(want.unwrap()), "{}", found.message);
            assert!(found.remedy.unwrap().commands[1].contains("node-name: raspi"));
        }
        let (_dir, root) = host(&[]);
        assert_eq!(finding(&root, Path::new(DATA), &Effective::default()), None);
    }

    #[test]
    fn the_name_is_the_registered_one_until_there_is_none() {
        let path = format!("{DATA}/{CERTIFICATE}");
        let name = |files: &[(&str, &str)]| {
            let (_dir, root) = host(files);
            name(&root, Path::new(DATA), &Effective::default())
        };
        assert_eq!(
            name(&[(&path, &certificate("system:node:old")), (HOST_NAME, "new\n")]).as_deref(),
            Some("old")
        );
        assert_eq!(name(&[(HOST_NAME, "Raspi\n")]).as_deref(), Some("raspi"));
        assert_eq!(name(&[(HOST_NAME, "\n")]), None);
        assert_eq!(name(&[]), None);
    }
}
