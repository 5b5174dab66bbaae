//! Why a kubeconfig cannot be exported, with the remedy.

use super::document::NotAKubeconfig;
use super::server_url::UrlError;

/// Where k3s writes the administrator's kubeconfig.
pub const K3S_KUBECONFIG: &str = "/etc/rancher/k3s/k3s.yaml";

/// Why a kubeconfig cannot be exported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// The current context is incomplete; the text names the field.
    #[error("{0}")]
    Unusable(String),
    /// It is not YAML of a kubeconfig's form.
    #[error(transparent)]
    Syntax(#[from] NotAKubeconfig),
    /// Its server cannot be reached from another machine.
    #[error("{file}: the server of cluster `{cluster}` {why}")]
    Server {
        file: String,
        cluster: String,
        /// What is wrong with the address.
        why: UrlError,
    },
    /// There is no CA by which a name could be proven.
    #[error(
        "{file}: cluster `{cluster}` has no certificate-authority-data, so no name can be proven: use the \
         kubeconfig that k3s writes, {K3S_KUBECONFIG}"
    )]
    NoCa { file: String, cluster: String },
    /// It has a setting that no other machine may be given.
    #[error(
        "{file}: {place} has `{key}`, which is never exported: use a kubeconfig whose context has only a \
         CA and a client certificate or token"
    )]
    Setting { file: String, place: String, key: String },
    /// A value is not of its kind. The value is a secret, or a stranger's.
    #[error("{file}: {place} {why}: take a fresh copy of the kubeconfig")]
    Wrong {
        file: String,
        /// The entry and the key.
        place: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The name to verify is none.
    #[error("{file}: tls-server-name \"{name}\": {why}")]
    TlsServerName {
        file: String,
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// It points at files that the other machine does not have.
    #[error(
        "{file}: {keys} name files that another machine does not have: put their content into a new file with \
         `kubectl config view --raw --minify --flatten --kubeconfig {file}` and export that one"
    )]
    NamesFiles {
        file: String,
        /// The keys with paths as values.
        keys: String,
    },
}
