//! Would a merge have kubectl trust a CA that it does not yet trust for that server?
//!
//! An address is no identity: anyone who answers instead of a node, or writes the file that is copied to
//! the laptop, can send a CA of their own. Guarantees: for a server that the kubeconfig has already, every
//! certificate that is trusted after the merge was trusted before it, or the merge is reported here. A renewed
//! client certificate, a bundle in another order and the end of a CA rotation (fewer certificates) report
//! nothing; its beginning (one more) does, because the certificate that is added may be anyone's.
//!
//! Not compared: a cluster that names its CA by a path, or has the system's CAs; and an export that verifies nothing,
//! which only `--insecure` makes.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use super::document::{Document, name_of, shown};
use super::pem::certificates;
use super::server_url::ServerUrl;
use crate::weaver_toml::ssh_key::base64;

/// A CA that the kubeconfig does not yet trust for the server.
#[derive(Clone, PartialEq, Eq)]
pub struct NewAuthority {
    /// Host and port of the server.
    pub server: String,
    /// The cluster that the kubeconfig has for this server, as a message has it.
    pub cluster: String,
    /// What that cluster trusts: the PEM file.
    pub trusted: Vec<u8>,
    /// What the exported cluster trusts: the PEM file.
    pub exported: Vec<u8>,
}

impl fmt::Debug for NewAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NewAuthority({}, {}, …)", self.server, self.cluster)
    }
}

/// What `exported` would have kubectl trust that it does not yet trust for the same server.
///
/// Compared with the cluster that is replaced; where none is, with the other clusters of that server, of which one that
/// trusts the same is enough.
pub fn new_authority(theirs: &Document, exported: &Document) -> Option<NewAuthority> {
    let name = exported.current_context()?;
    let new = exported.entry("clusters", &name)?;
    let (server, new_data) = (server_of(new)?, ca_data(new)?);
    let wanted = trusted(new_data);
    let has_it = |old: &Value| ca_data(old).is_some_and(|data| wanted.is_subset(&trusted(data)));
    let (same_name, others): (Vec<&Value>, Vec<&Value>) = theirs
        .entries("clusters")
        .iter()
        .filter(|old| ca_data(old).is_some() && server_of(old).as_ref() == Some(&server))
        .partition(|old| name_of(old).is_some_and(|old| old == name));
    let differs = if same_name.is_empty() {
        others.first().filter(|_| !others.iter().any(|old| has_it(old)))
    } else {
        same_name.iter().find(|old| !has_it(old))
    }?;
    Some(NewAuthority {
        server,
        cluster: shown(&name_of(differs).unwrap_or_default()),
        trusted: file(ca_data(differs)?),
        exported: file(new_data),
    })
}

/// Host and port of a cluster's server.
pub(super) fn server_of(entry: &Value) -> Option<String> {
    let url: ServerUrl = entry["cluster"].get("server")?.as_str()?.parse().ok()?;
    Some(url.authority().to_ascii_lowercase())
}

fn ca_data(entry: &Value) -> Option<&str> {
    entry["cluster"].get("certificate-authority-data")?.as_str().filter(|data| !data.is_empty())
}

/// The certificates as DER; none where they cannot be read, and then nothing is trusted.
fn trusted(data: &str) -> BTreeSet<Vec<u8>> {
    certificates(data).unwrap_or_default().into_iter().collect()
}

/// The PEM file that the text is the base64 of; where it is none, the text.
fn file(data: &str) -> Vec<u8> {
    let text: String = data.split_ascii_whitespace().collect();
    base64(&text).unwrap_or_else(|| text.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::super::pem::tests::{CA, CERTIFICATE, NEW_CA, OTHER_CA};
    use super::*;
    use serde_json::json;

    fn cluster(name: &str, server: &str, ca: &str) -> Value {
        json!({"name": name, "cluster": {"server": server, "certificate-authority-data": ca}})
    }

    fn theirs(clusters: &[Value]) -> Document {
        let mut document = Document::empty();
        document.set("clusters", clusters.into());
        document
    }

    fn export(ca: &str) -> Document {
        let cluster = json!({"server": "https://pi.lan:6443", "certificate-authority-data": ca});
        Document::of_one("pi", &cluster, &json!({"token": "t"}), None)
    }

    const SERVER: &str = "https://PI.lan:6443/";

    #[test]
    fn a_certificate_that_was_not_trusted_before_is_reported() {
        let both = format!("{CA}{NEW_CA}");
        let turned = format!("{NEW_CA}{CA}");
        let folded = format!("\n {} \n{}", &CERTIFICATE[..12], &CERTIFICATE[12..]);
        for (what, old, new, is_new) in [
            ("the same", CA, CA, false),
            ("the same, with other white space", CA, &*folded, false),
            ("another", CA, NEW_CA, true),
            ("a rotation begins: the old one and one that may be anyone's", CA, &both, true),
            ("a rotation continues", &both, &both, false),
            ("a bundle in another order", &both, &turned, false),
            ("a rotation ends", &both, NEW_CA, false),
            ("a rotation is taken back", &both, CA, false),
            ("one of a bundle is replaced", &both, &format!("{CA}{OTHER_CA}"), true),
            ("nothing that can be read was trusted", "b2xk", CA, true),
        ] {
            let found = new_authority(&theirs(&[cluster("pi", SERVER, old)]), &export(new));
            assert_eq!(found.is_some(), is_new, "{what}: {found:?}");
            if let Some(found) = found {
                assert_eq!((&*found.server, &*found.cluster), ("pi.lan:6443", "pi"), "{what}");
                assert_eq!((found.trusted, found.exported), (file(old), file(new)), "{what}");
            }
        }
    }

    #[test]
    fn other_contexts_of_the_same_server_count_where_none_is_replaced() {
        let here = |name: &str, ca: &str| cluster(name, SERVER, ca);
        let elsewhere = |name: &str, ca: &str| cluster(name, "https://pi.lan:6444", ca);
        for (what, clusters, new, cluster) in [
            ("nothing is there", vec![], CA, None),
            ("under another name", vec![here("a", CA)], NEW_CA, Some("a")),
            ("under another name, the same", vec![here("a", CA)], CA, None),
            ("one of several trusts it", vec![here("a", OTHER_CA), here("b", CA)], CA, None),
            ("none of several does", vec![here("a", OTHER_CA), here("b", CA)], NEW_CA, Some("a")),
            // Renewed: that another context is older than the cluster is nothing new.
            ("its own name trusts it, another not", vec![here("a", OTHER_CA), here("pi", CA)], CA, None),
            (
                "another name trusts it, its own not",
                vec![here("a", NEW_CA), here("pi", CA)],
                NEW_CA,
                Some("pi"),
            ),
            ("its name is there twice", vec![here("pi", NEW_CA), here("pi", CA)], NEW_CA, Some("pi")),
            ("another port", vec![elsewhere("a", CA)], NEW_CA, None),
            ("its own name at another port", vec![elsewhere("pi", CA), here("a", CA)], NEW_CA, Some("a")),
        ] {
            let found = new_authority(&theirs(&clusters), &export(new));
            assert_eq!(found.map(|found| found.cluster).as_deref(), cluster, "{what}");
        }
    }

    #[test]
    fn what_cannot_be_compared_is_not_reported() {
        for old in [
            json!({"name": "a", "cluster": {"server": SERVER, "certificate-authority": "/ca.pem"}}),
            json!({"name": "pi", "cluster": {"server": SERVER, "insecure-skip-tls-verify": true}}),
            json!({"name": "a", "cluster": {"server": "http://pi.lan:6443", "certificate-authority-data": NEW_CA}}),
            json!({"name": "a", "cluster": null}),
        ] {
            assert_eq!(new_authority(&theirs(std::slice::from_ref(&old)), &export(CA)), None, "{old}");
        }
        let insecure = json!({"server": SERVER, "insecure-skip-tls-verify": true});
        let insecure = Document::of_one("pi", &insecure, &json!({"token": "t"}), None);
        assert_eq!(new_authority(&theirs(&[cluster("pi", SERVER, CA)]), &insecure), None);
    }

    #[test]
    fn the_name_of_a_cluster_is_no_terminal_sequence() {
        let found = new_authority(&theirs(&[cluster("a\u{1b}[2J", SERVER, CA)]), &export(NEW_CA)).unwrap();
        assert_eq!(found.cluster, "a\\u{1b}[2J");
    }
}
