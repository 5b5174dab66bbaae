//! The operator's token and kubeconfig on disk.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;
use serde_saphyr::SerializerOptions;

use weaver_operator::durable_file;

/// Readable by the operator's group, by no one else.
const MODE: u32 = 0o640;

/// A minted token.
pub struct Token {
    /// The token.
    pub secret: SecretString,
    /// How long it lives from now on, by the API server's word.
    pub lifetime: Duration,
    /// When it expires, by the wall clock.
    pub expires: Timestamp,
}

/// Where the operator's kubeconfig is.
#[must_use]
pub fn kubeconfig_path(runtime_dir: &Path) -> PathBuf {
    runtime_dir.join("operator.kubeconfig")
}

fn token_path(runtime_dir: &Path) -> PathBuf {
    runtime_dir.join("operator.token")
}

/// Writes the token, then the kubeconfig that names it: a reader that sees the
/// second finds the first.
///
/// # Errors
/// A file cannot be written; the old one then stays.
pub fn write(runtime_dir: &Path, token: &Token, address: SocketAddr, server_ca: &[u8]) -> anyhow::Result<()> {
    // Without a newline: clients send the file as it is.
    durable_file::replace(&token_path(runtime_dir), token.secret.expose_secret().as_bytes(), MODE)?;
    let directory = std::path::absolute(runtime_dir).context("the runtime directory's path")?;
    let text = kubeconfig(&token_path(&directory), address, server_ca)?;
    Ok(durable_file::replace(&kubeconfig_path(runtime_dir), text.as_bytes(), MODE)?)
}

fn kubeconfig(token: &Path, address: SocketAddr, server_ca: &[u8]) -> anyhow::Result<String> {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "config-weaver",
        "contexts": [{
            "name": "config-weaver",
            "context": {"cluster": "local", "user": "weaver-operator"},
        }],
        "clusters": [{
            "name": "local",
            "cluster": {
                "server": format!("https://{address}"),
                "certificate-authority-data": ByteString(server_ca.to_vec()),
            },
        }],
        "users": [{"name": "weaver-operator", "user": {"tokenFile": token}}],
    });
    let mut options = SerializerOptions::default();
    // The CA on one line, as every other kubeconfig has it.
    options.prefer_block_scalars = false;
    serde_saphyr::to_string_with_options(&config, options).context("writing the operator's kubeconfig")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::PermissionsExt as _};

    #[test]
    fn the_files_are_what_a_client_needs() {
        let dir = tempfile::tempdir().unwrap();
        let token =
            Token { secret: "abc".into(), lifetime: Duration::from_mins(10), expires: Timestamp::MAX };
        write(dir.path(), &token, ([127, 0, 0, 1], 16443).into(), &[0xb5; 600]).unwrap();
        let text = fs::read_to_string(kubeconfig_path(dir.path())).unwrap();
        assert!(text.lines().any(|line| line.len() > 800), "the CA is on one line: {text}");
        assert_eq!(fs::read(token_path(dir.path())).unwrap(), b"abc");
        let config = kube::config::Kubeconfig::read_from(kubeconfig_path(dir.path())).unwrap();
        let cluster = config.clusters[0].cluster.as_ref().unwrap();
        assert_eq!(cluster.server.as_deref(), Some("https://127.0.0.1:16443"));
        assert_eq!(cluster.certificate_authority_data.as_deref(), Some("tbW1".repeat(200).as_str()));
        let user = config.auth_infos[0].auth_info.as_ref().unwrap();
        assert_eq!(user.token_file.as_deref(), token_path(dir.path()).to_str());
        assert!(user.token.is_none());
        for path in [token_path(dir.path()), kubeconfig_path(dir.path())] {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o7777, 0o640);
        }
    }
}
