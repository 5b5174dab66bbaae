//! A kubeconfig for another machine: from the administrator's own, for one
//! proven name.
//!
//! Guarantees: of the context in force only the host (and port) of its server
//! and the names of cluster, user and context change; other contexts stay at
//! home; every other value is the same value. A merge replaces entries of the
//! same name and keeps all others. No key, token or certificate is in an error,
//! a finding or `Debug`.
//!
//! Failure: what cannot work on another machine is refused with the remedy.
//! Comments are not values and are lost, as with `kubectl config`.

pub mod advice;
pub mod document;
pub mod lint;
pub mod merge;
pub mod server_url;
mod yaml_text;

use serde_json::Value;

use crate::{kubeconfig::unusable, san::ServingName, text_file::TextFile};
use document::{Document, NotAKubeconfig, text_of};
use server_url::{ServerUrl, UrlError};

/// Where k3s writes the administrator's kubeconfig.
pub const K3S_KUBECONFIG: &str = "/etc/rancher/k3s/k3s.yaml";

/// Why a kubeconfig cannot be exported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// The context in force is not whole; the text names the place.
    #[error("{0}")]
    Unusable(String),
    /// It is not YAML of a kubeconfig's form.
    #[error(transparent)]
    Syntax(#[from] NotAKubeconfig),
    /// Its server cannot be reached from another machine.
    #[error("{file}: the server of cluster `{cluster}` {why}")]
    Server {
        /// The kubeconfig.
        file: String,
        /// The cluster's entry.
        cluster: String,
        /// What is wrong with the address.
        why: UrlError,
    },
    /// There is no CA by which a name could be proven.
    #[error(
        "{file}: cluster `{cluster}` has no certificate-authority-data, so no name can be proven: use the \
         kubeconfig that k3s writes, {K3S_KUBECONFIG}"
    )]
    NoCa {
        /// The kubeconfig.
        file: String,
        /// The cluster's entry.
        cluster: String,
    },
    /// It points at files that the other machine does not have.
    #[error(
        "{file}: {keys} name files that another machine does not have: put their content into a new file with \
         `kubectl config view --raw --minify --flatten --kubeconfig {file}` and export that one"
    )]
    NamesFiles {
        /// The kubeconfig.
        file: String,
        /// The keys that hold paths.
        keys: String,
    },
}

/// An administrator's kubeconfig that can be exported, cut down to the context in force.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    document: Document,
    /// The address in it.
    pub server: ServerUrl,
    /// The name that is verified instead of the server's host, if the file has one.
    pub tls_server_name: Option<String>,
    /// The CA: base64 of PEM, which is no secret.
    pub ca_data: String,
}

/// What the exported kubeconfig shall say.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The host of the server.
    pub host: &'a ServingName,
    /// The port of the server; the source's where there is none.
    pub port: Option<u16>,
    /// The name of cluster, user and context.
    pub context: &'a str,
    /// The served name to verify instead of the host; the source's where there is none.
    pub tls_server_name: Option<&'a ServingName>,
}

impl Source {
    /// Reads the context in force.
    ///
    /// # Errors
    /// Something is missing, or cannot work on another machine.
    pub fn read(file: &TextFile) -> Result<Self, ExportError> {
        if let Some(finding) = unusable(file) {
            return Err(ExportError::Unusable(finding.message));
        }
        let whole = Document::parse(file)?;
        let unusable = || ExportError::Unusable(format!("{} has no usable context in force", file.path));
        let named =
            |list: &str, name: Option<&Value>| whole.entry(list, &text_of(name?)?).cloned().ok_or(()).ok();
        let context = named("contexts", whole.get("current-context")).ok_or_else(unusable)?;
        let cluster = named("clusters", context["context"].get("cluster")).ok_or_else(unusable)?;
        let user = named("users", context["context"].get("user")).ok_or_else(unusable)?;

        let body = &cluster["cluster"];
        let name = cluster.get("name").and_then(text_of).unwrap_or_default();
        let text = |key: &str| body.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let server = text("server").unwrap_or_default().parse().map_err(|why| ExportError::Server {
            file: file.path.clone(),
            cluster: name.clone(),
            why,
        })?;
        let paths: Vec<_> = FILE_KEYS
            .into_iter()
            .filter(|key| {
                [body, &user["user"]].iter().any(|part| part.get(key).is_some_and(|v| !v.is_null()))
            })
            .collect();
        if !paths.is_empty() {
            return Err(ExportError::NamesFiles { file: file.path.clone(), keys: paths.join(", ") });
        }
        let ca_data = text("certificate-authority-data")
            .ok_or_else(|| ExportError::NoCa { file: file.path.clone(), cluster: name })?
            .to_owned();
        let tls_server_name = text("tls-server-name").map(str::to_owned);
        let document = whole.with_only(cluster, user, context);
        Ok(Self { document, server, tls_server_name, ca_data })
    }

    /// The kubeconfig for another machine.
    #[must_use]
    pub fn export(&self, wanted: &Wanted<'_>) -> Document {
        let name = || Value::String(wanted.context.to_owned());
        let mut document = self.document.clone();
        let mut set = |list: &str, body: &str, key: &str, value: Value| {
            if let Some(Value::Object(body)) = document.first(list).and_then(|entry| entry.get_mut(body)) {
                body.insert(key.to_owned(), value);
            }
        };
        set("clusters", "cluster", "server", self.server.to(wanted.host, wanted.port).into());
        if let Some(served) = wanted.tls_server_name {
            set("clusters", "cluster", "tls-server-name", served.to_string().into());
        }
        set("contexts", "context", "cluster", name());
        set("contexts", "context", "user", name());
        for list in LISTS {
            if let Some(Value::Object(entry)) = document.first(list) {
                entry.insert("name".to_owned(), name());
            }
        }
        document.set("current-context", name());
        document
    }
}

/// The lists of a kubeconfig.
const LISTS: [&str; 3] = ["clusters", "contexts", "users"];

/// Keys whose values are paths on the machine of the file.
const FILE_KEYS: [&str; 4] = ["certificate-authority", "client-certificate", "client-key", "tokenFile"];

#[cfg(test)]
mod tests;
