//! Reads the name that the node registered with, and whether it did.
//!
//! It is in its kubelet's certificate, until k3s starts and has another one made: preflight can rely on it before that.

use std::path::Path;

use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use sha2::{Digest as _, Sha256};
use weaver_diagnostics::finding::Place;
use weaver_diagnostics::host::names::{HOST_NAME, Identity};
use weaver_diagnostics::k3s_config::Effective;
use weaver_diagnostics::k3s_upgrade;
use weaver_diagnostics::weaver_toml::RoleSetting;
use x509_parser::prelude::{FromDer as _, ParsedExtension, X509Certificate};

use crate::{host_root::HostRoot, k3s_files};

const CERTIFICATE: &str = "agent/client-kubelet.crt";
/// The password that k3s presents with the node's name; k3s makes it right before it first presents a name, accepted or
/// not.
const NODE_PASSWORD: &str = "/etc/rancher/node/password";
/// k3s fetches it before it presents the node's name.
const FETCHED_CA: &str = "agent/server-ca.crt";
/// On a server: the CA that signs the kubelets' certificates.
const OWN_CA: &str = "server/tls/client-ca.crt";
const OWN_CERTIFICATES: &str = "server/tls";
/// On a server: the CA in its kubeconfigs.
const SERVER_CA: &str = "server/tls/server-ca.crt";

/// The SHA-256 of a server's CA, as `sha256sum` of its file prints it; `None` before k3s' first start.
pub(crate) fn ca_fingerprint(root: &HostRoot, data_dir: &Path) -> Option<String> {
    let file = root.read_if_possible(data_dir.join(SERVER_CA))?;
    Some(format!("{:x}", Sha256::digest(file.text.as_bytes())))
}

/// The name that the node registered with and the one that it would start with; `None` before its first start.
pub(crate) fn identity(root: &HostRoot, data_dir: &Path, effective: &Effective) -> Option<Identity> {
    let registered = registered(root, data_dir)?;
    let (wanted, wanted_at) = wanted(root, effective)?;
    let certificate = data_dir.join(CERTIFICATE).display().to_string();
    Some(Identity { certificate, registered, wanted, wanted_at })
}

/// The node's name: as it registered, else as k3s would register it; `None` where neither is known.
pub(crate) fn name(root: &HostRoot, data_dir: &Path, effective: &Effective) -> Option<String> {
    registered(root, data_dir).or_else(|| Some(wanted(root, effective)?.0)).filter(|name| !name.is_empty())
}

/// Whether a cluster has a node by the name that this one has in this role.
///
/// A server makes its certificates before all else. An agent gets the kubelet's only when its name was accepted, and
/// not when it was refused; a certificate by the card's own CA is from its time as a server. Where k3s' data is on a
/// disk that is not mounted yet, only the password counts: keeping a name needlessly is better than a second node.
pub(crate) fn is_registered(root: &HostRoot, data_dir: &Path, role: &RoleSetting) -> bool {
    let is_file = |path: &Path| root.real(path).is_file();
    let is_by_data = match role {
        RoleSetting::Server => root.is_dir(data_dir.join(OWN_CERTIFICATES)),
        RoleSetting::Agent(_) => {
            is_file(&data_dir.join(CERTIFICATE)) && is_by_own_ca(root, data_dir) != Some(true)
        }
    };
    is_by_data || is_file(Path::new(NODE_PASSWORD)) && !is_file(&data_dir.join(FETCHED_CA))
}

/// Whether the kubelet's certificate is by the CA of this card, where both have key identifiers: k3s' CA names differ
/// only by the second in which they were made.
fn is_by_own_ca(root: &HostRoot, data_dir: &Path) -> Option<bool> {
    let key_of = |file: &str, is_issuers: bool| {
        let text = root.read_if_possible(data_dir.join(file))?.text;
        let certificate = CertificateDer::pem_slice_iter(text.as_bytes()).next()?.ok()?;
        let (_, parsed) = X509Certificate::from_der(&certificate).ok()?;
        parsed.iter_extensions().find_map(|extension| match extension.parsed_extension() {
            ParsedExtension::AuthorityKeyIdentifier(key) if is_issuers => {
                Some(key.key_identifier.as_ref()?.0.to_vec())
            }
            ParsedExtension::SubjectKeyIdentifier(key) if !is_issuers => Some(key.0.to_vec()),
            _ => None,
        })
    };
    Some(key_of(OWN_CA, false)? == key_of(CERTIFICATE, true)?)
}

/// The name under which k3s would start, and where it is configured.
fn wanted(root: &HostRoot, effective: &Effective) -> Option<(String, Place)> {
    Some(match &effective.node_name {
        Some(setting) => (setting.value.to_ascii_lowercase(), setting.origin.clone()),
        None => (root.read_if_possible(HOST_NAME)?.text.trim().to_ascii_lowercase(), Place::file(HOST_NAME)),
    })
}

/// The name of the node in its kubelet's certificate; none where that is from the time before the role changed.
fn registered(root: &HostRoot, data_dir: &Path) -> Option<String> {
    let joins = k3s_files::role(root) == k3s_upgrade::Role::Agent;
    if is_by_own_ca(root, data_dir) == Some(joins) {
        return None;
    }
    let pem = root.read_if_possible(data_dir.join(CERTIFICATE))?.text;
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
    use weaver_diagnostics::weaver_toml::plan::AGENT_ROLE;

    const DATA: &str = "/var/lib/rancher/k3s";

    fn certificate(name: &str) -> String {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut parameters = rcgen::CertificateParams::default();
        parameters.distinguished_name.push(rcgen::DnType::CommonName, name);
        parameters.self_signed(&key).unwrap().pem()
    }

    #[test]
    fn the_registered_and_the_wanted_name() {
        let old = certificate("system:node:raspi");
        let path = format!("{DATA}/{CERTIFICATE}");
        for (certificate, host_name, node_name, want) in [
            (old.as_str(), "Raspi\n", None, Some(("raspi", "raspi", HOST_NAME))),
            (&old, "other\n", Some("Raspi"), Some(("raspi", "raspi", "/c.yaml:1"))),
            (&old, "other\n", None, Some(("raspi", "other", HOST_NAME))),
            (&certificate("system:node:raspi-2"), "raspi\n", None, Some(("raspi-2", "raspi", HOST_NAME))),
            (&certificate("admin"), "raspi\n", None, None),
            ("no certificate", "raspi\n", None, None),
        ] {
            let (_dir, root) = host(&[(&path, certificate), (HOST_NAME, host_name)]);
            let node_name = node_name
                .map(|name: &str| Setting { value: name.to_owned(), origin: Place::line("/c.yaml", 1) });
            let read = identity(&root, Path::new(DATA), &Effective { node_name, ..Effective::default() });
            let want = want
                .map(|(registered, wanted, at)| (registered.to_owned(), wanted.to_owned(), at.to_owned()));
            let read = read.map(|read| (read.registered, read.wanted, read.wanted_at.to_string()));
            assert_eq!(read, want, "{host_name:?}");
        }
        let (_dir, root) = host(&[]);
        assert_eq!(identity(&root, Path::new(DATA), &Effective::default()), None);
    }

    fn ca() -> rcgen::CertifiedIssuer<'static, rcgen::KeyPair> {
        let mut parameters = rcgen::CertificateParams::default();
        parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().unwrap();
        rcgen::CertifiedIssuer::self_signed(parameters, key).unwrap()
    }

    fn signed_by(ca: &rcgen::CertifiedIssuer<'static, rcgen::KeyPair>) -> String {
        let mut parameters = rcgen::CertificateParams::default();
        parameters.distinguished_name.push(rcgen::DnType::CommonName, "system:node:raspi");
        parameters.use_authority_key_identifier_extension = true;
        parameters.signed_by(&rcgen::KeyPair::generate().unwrap(), ca).unwrap().pem()
    }

    /// Both CAs have one name here, as those of two servers have that first started in the same second.
    #[test]
    fn a_node_is_registered_where_a_cluster_took_its_name() {
        let (own, others) = (ca(), ca());
        let at = |path: &str| format!("{DATA}/{path}");
        let (fetched, certificate, own_ca) = (at(FETCHED_CA), at(CERTIFICATE), at(OWN_CA));
        let (by_own, by_other) = (signed_by(&own), signed_by(&others));
        let (password, fetched) = ((NODE_PASSWORD, "x"), (fetched.as_str(), "x"));
        let own_pem = own.pem();
        let own_ca = (own_ca.as_str(), own_pem.as_str());
        let (by_own, by_other) = ((certificate.as_str(), &*by_own), (certificate.as_str(), &*by_other));
        for (what, files, server, agent) in [
            ("a new card", &[][..], false, false),
            ("a server that starts for the first time", &[own_ca], true, false),
            ("a server", &[own_ca, password, fetched, by_own], true, false),
            ("an agent that was turned down", &[password, fetched], false, false),
            ("an agent", &[password, fetched, by_other], false, true),
            (
                "an agent with a certificate that is none",
                &[password, fetched, (&certificate, "x")],
                false,
                true,
            ),
            ("a server turned agent", &[own_ca, password, fetched, by_other], true, true),
            ("either, its disk not mounted", &[password], true, true),
        ] {
            let (_dir, root) = host(files);
            let is = |role| is_registered(&root, Path::new(DATA), &role);
            assert_eq!(
                (is(RoleSetting::Server), is(RoleSetting::Agent(String::new()))),
                (server, agent),
                "{what}"
            );
        }
    }

    #[test]
    fn a_certificate_from_before_the_role_changed_names_no_node() {
        let (own, others) = (ca(), ca());
        let (certificate, own_ca) = (format!("{DATA}/{CERTIFICATE}"), format!("{DATA}/{OWN_CA}"));
        let own_pem = own.pem();
        for (issuer, joins, want) in [
            (&own, false, "raspi"),
            (&own, true, "worker"),
            (&others, true, "raspi"),
            (&others, false, "worker"),
        ] {
            let pem = signed_by(issuer);
            let mut files = vec![
                (certificate.as_str(), pem.as_str()),
                (own_ca.as_str(), own_pem.as_str()),
                (HOST_NAME, "worker"),
            ];
            files.extend(joins.then_some((AGENT_ROLE, "")));
            let (_dir, root) = host(&files);
            let (data, effective) = (Path::new(DATA), Effective::default());
            assert_eq!(name(&root, data, &effective).as_deref(), Some(want), "{joins}");
            assert_eq!(identity(&root, data, &effective).is_some(), want == "raspi", "{joins}");
        }
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
