//! The message about a CA that the kubeconfig does not yet trust, and how to verify it.

use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest as _, Sha256};
use weaver_diagnostics::kubeconfig_export::authority::NewAuthority;

/// The CA that k3s puts into its kubeconfigs, byte for byte.
const K3S_CA: &str = "/var/lib/rancher/k3s/server/tls/server-ca.crt";

/// Why nothing was written to `path`, how to check the fingerprint, and what to type if it is right: a line each.
pub fn refused(path: &Path, new: &NewAuthority) -> Vec<String> {
    let NewAuthority { server, cluster, trusted, exported } = new;
    vec![
        format!(
            "{}: cluster `{cluster}` trusts another CA for {server} than the new kubeconfig; nothing was written",
            path.display()
        ),
        format!("SHA-256 of the CA that is trusted: {}", sha256(trusted)),
        format!("SHA-256 of the CA that is new:     {}", sha256(exported)),
        "Another machine that answers in place of the node, or the author of the file, can send its own CA. On the node, print \
         that of its CA:"
            .to_owned(),
        format!("  sudo sha256sum {K3S_CA}"),
        "If it prints the new one, because the cluster was set up again or its CA was rotated, repeat the command with --force."
            .to_owned(),
        "If not, do not use the new kubeconfig: it is not from this node.".to_owned(),
    ]
}

/// Whether the CA that came over ssh is the one that was announced by mDNS. A match proves nothing, since anyone could
/// announce it: it only keeps the user from fetching from another card than the one that was chosen.
///
/// # Errors
/// It is another one: a message of these lines.
pub fn is_announced(ca_data: &str, announced: &str, from: &str) -> Result<(), Vec<String>> {
    let sent = BASE64_STANDARD.decode(ca_data).map(|file| sha256(&file)).unwrap_or_default();
    if sent == announced {
        return Ok(());
    }
    Err(vec![
        format!(
            "{from} has another CA than the card that was announced with its address; nothing was written"
        ),
        format!("SHA-256 of the CA that was announced: {announced}"),
        format!("SHA-256 of the CA that was sent:      {sent}"),
        "Another machine in this network may pretend to be the card. On the card, print that of its CA:"
            .to_owned(),
        format!("  sudo sha256sum {K3S_CA}"),
        "If it prints the second, because its CA was rotated just now, fetch by its address:".to_owned(),
        format!("  weaver kubeconfig fetch {from}"),
    ])
}

fn sha256(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ca_that_was_announced_otherwise_is_refused_and_one_that_was_is_not_trusted_for_it() {
        let sent = BASE64_STANDARD.encode("abc");
        let right = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(is_announced(&sent, right, "pi@10.0.0.2"), Ok(()));
        let refused = is_announced(&sent, &"0".repeat(64), "pi@10.0.0.2").unwrap_err().join("\n");
        for want in ["announced: 000", &format!("sent:      {right}\n"), "fetch pi@10.0.0.2"] {
            assert!(refused.contains(want), "{want}: {refused}");
        }
        assert!(is_announced("not base64", right, "pi").is_err());
    }

    #[test]
    fn the_fingerprints_are_those_that_the_command_prints() {
        let new = NewAuthority {
            server: "pi.lan:6443".to_owned(),
            cluster: "pi".to_owned(),
            trusted: b"abc".to_vec(),
            exported: Vec::new(),
        };
        let said = refused(Path::new("/k"), &new).join("\n");
        for want in [
            "/k: cluster `pi` trusts another CA for pi.lan:6443",
            "trusted: ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n",
            "new:     e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n",
            "  sudo sha256sum /var/lib/rancher/k3s/server/tls/server-ca.crt\n",
            "repeat the command with --force.",
        ] {
            assert!(said.contains(want), "{want}: {said}");
        }
    }
}
