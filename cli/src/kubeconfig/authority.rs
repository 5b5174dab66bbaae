//! What the user is told about a CA that the kubeconfig does not yet trust, and how to find out whose it is.

use std::path::Path;

use sha2::{Digest as _, Sha256};
use weaver_diagnostics::kubeconfig_export::authority::NewAuthority;

/// The CA that k3s puts into its kubeconfigs, byte for byte.
const K3S_CA: &str = "/var/lib/rancher/k3s/server/tls/server-ca.crt";

/// Why nothing was written to `path`, how to check the fingerprint, and what to type if it is right.
pub fn refused(path: &Path, new: &NewAuthority) -> String {
    let NewAuthority { server, cluster, trusted, exported } = new;
    format!(
        "{}: cluster `{cluster}` trusts another CA for {server} than the new kubeconfig; nothing was written
  SHA-256 of the CA that is trusted: {}
  SHA-256 of the CA that is new:     {}
Another machine that answers in place of the node, or the author of the file, can send its own CA. On the node, print that of its CA:
    sudo sha256sum {K3S_CA}
If it prints the new one, because the cluster was set up again or its CA was rotated, repeat the command with --force.
If not, do not use the new kubeconfig: it is not from this node.",
        path.display(),
        sha256(trusted),
        sha256(exported),
    )
}

fn sha256(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fingerprints_are_those_that_the_command_prints() {
        let new = NewAuthority {
            server: "pi.lan:6443".to_owned(),
            cluster: "pi".to_owned(),
            trusted: b"abc".to_vec(),
            exported: Vec::new(),
        };
        let said = refused(Path::new("/k"), &new);
        for want in [
            "/k: cluster `pi` trusts another CA for pi.lan:6443",
            "trusted: ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n",
            "new:     e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n",
            "    sudo sha256sum /var/lib/rancher/k3s/server/tls/server-ca.crt\n",
            "repeat the command with --force.",
        ] {
            assert!(said.contains(want), "{want}: {said}");
        }
    }
}
