//! The operator's token and kubeconfig on disk.

use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use nix::unistd::Group;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;
use serde_saphyr::SerializerOptions;

use weaver_host::durable_file::{self, WriteOptions};

/// Group of the operator on a card. The webhook has one of its own, which may not read these files.
pub const GROUP: &str = "weaver";
/// Readable by the operator's group, and by no others.
const MODE: u32 = 0o640;

pub struct OperatorToken {
    pub secret: SecretString,
    /// How long it is valid from now on, according to the API server.
    pub lifetime: Duration,
    /// When it expires, by the wall clock.
    pub expires: Timestamp,
}

/// Where the operator's kubeconfig is.
pub fn kubeconfig_path(runtime_dir: &Path) -> PathBuf {
    runtime_dir.join("operator.kubeconfig")
}

fn token_path(runtime_dir: &Path) -> PathBuf {
    runtime_dir.join("operator.token")
}

/// Writes the token, then the kubeconfig that names it: a reader that sees the
/// second finds the first. Both get this group, where one is given.
///
/// # Errors
/// A file cannot be written or given to the group; the old one then stays.
pub fn write(
    runtime_dir: &Path,
    token: &OperatorToken,
    address: SocketAddr,
    server_ca: &str,
    group: Option<u32>,
) -> anyhow::Result<()> {
    // Without a newline: clients send the file as it is.
    let secret = token.secret.expose_secret().as_bytes();
    let how = WriteOptions { gid: group, ..WriteOptions::mode(MODE) };
    durable_file::replace_as(&token_path(runtime_dir), secret, &how)?;
    let directory = std::path::absolute(runtime_dir).context("the runtime directory's path")?;
    let text = kubeconfig(&token_path(&directory), address, server_ca)?;
    Ok(durable_file::replace_as(&kubeconfig_path(runtime_dir), text.as_bytes(), &how)?)
}

/// The group whose members may read the operator's files where systemd starts it as a user of its own: `weaver`, else
/// that of the runtime directory.
///
/// # Errors
/// Neither can be looked up.
pub fn group(runtime_dir: &Path) -> anyhow::Result<u32> {
    if let Some(group) = Group::from_name(GROUP).context("looking up the group weaver")? {
        return Ok(group.gid.as_raw());
    }
    let metadata = fs::metadata(runtime_dir);
    metadata
        .map(|metadata| metadata.gid())
        .with_context(|| format!("cannot read {}; does it exist?", runtime_dir.display()))
}

fn kubeconfig(token: &Path, address: SocketAddr, server_ca: &str) -> anyhow::Result<String> {
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
                "certificate-authority-data": ByteString(server_ca.into()),
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
    use nix::unistd::Gid;
    use std::os::unix::fs::{PermissionsExt as _, chown};

    #[test]
    fn the_files_are_what_a_client_needs() {
        let dir = tempfile::tempdir().unwrap();
        let token = OperatorToken {
            secret: "abc".into(),
            lifetime: Duration::from_mins(10),
            expires: Timestamp::MAX,
        };
        write(dir.path(), &token, ([127, 0, 0, 1], 16443).into(), &"abc".repeat(200), None).unwrap();
        let text = fs::read_to_string(kubeconfig_path(dir.path())).unwrap();
        assert!(text.lines().any(|line| line.len() > 800), "the CA is on one line: {text}");
        assert_eq!(fs::read(token_path(dir.path())).unwrap(), b"abc");
        let config = kube::config::Kubeconfig::read_from(kubeconfig_path(dir.path())).unwrap();
        let cluster = config.clusters[0].cluster.as_ref().unwrap();
        assert_eq!(cluster.server.as_deref(), Some("https://127.0.0.1:16443"));
        assert_eq!(cluster.certificate_authority_data.as_deref(), Some("YWJj".repeat(200).as_str()));
        let user = config.auth_infos[0].auth_info.as_ref().unwrap();
        assert_eq!(user.token_file.as_deref(), token_path(dir.path()).to_str());
        assert!(user.token.is_none());
        for path in [token_path(dir.path()), kubeconfig_path(dir.path())] {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o7777, 0o640);
        }
    }
    #[test]
    fn the_operators_group_may_read_both() {
        let dir = tempfile::tempdir().unwrap();
        // Only root can change the owner; other users must use their own group.
        let other = if Gid::effective().as_raw() == 0 { 4711 } else { Gid::effective().as_raw() };
        chown(dir.path(), None, Some(other)).unwrap();
        let group = group(dir.path()).unwrap();
        if Group::from_name(GROUP).unwrap().is_none() {
            assert_eq!(group, other, "without the group weaver it is that of the directory");
        }
        let token =
            OperatorToken { secret: "t".into(), lifetime: Duration::from_mins(10), expires: Timestamp::MAX };
        write(dir.path(), &token, ([127, 0, 0, 1], 1).into(), "ca", Some(other)).unwrap();
        for path in [token_path(dir.path()), kubeconfig_path(dir.path())] {
            let metadata = fs::metadata(path).unwrap();
            assert_eq!((metadata.gid(), metadata.mode() & 0o7777), (other, 0o640));
        }
    }

    #[test]
    fn a_runtime_directory_that_is_gone_has_no_group() {
        if Group::from_name(GROUP).unwrap().is_none() {
            let error = group(Path::new("/nowhere/at/all")).unwrap_err().to_string();
            assert!(error.contains("/nowhere/at/all"), "{error}");
        }
    }
}
