//! A kubeconfig for another machine: from the administrator's own, for one
//! proven name.
//!
//! Guarantees: a kubeconfig is constructed, never passed on. It has one cluster
//! of server, CA and `tls-server-name`, one user of a client certificate and its
//! key or of a token, and one context, all of one name. What else the context in
//! force needs is refused by name; other contexts stay at home. A merge replaces
//! entries of that name, where no other context loses by it and no CA becomes
//! trusted that was not, and keeps all others. No key, token or certificate is
//! in an error, a finding or `Debug`.
//!
//! Failure: what cannot work on another machine is refused with the remedy.
//! Comments are not values and are lost, as with `kubectl config`.

pub mod advice;
pub mod authority;
pub mod client_certificate;
pub mod collision;
pub mod document;
mod entry;
mod error;
pub mod lint;
pub mod merge;
mod pem;
pub mod references;
pub mod refused;
pub mod server_url;
pub mod several;

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::{
    finding_text::cut, kubeconfig::unusable, san::ServingName, text_file::TextFile, tokens::without_tokens,
};
use document::{Document, shown, text_of};
use entry::{Credential, KubeconfigEntry};
pub use error::{ExportError, K3S_KUBECONFIG};
use pem::Holds;
use server_url::ServerUrl;

/// What the context in force of a kubeconfig means: one cluster, one credential. It is all that a file can pass on.
#[derive(Debug, Clone)]
pub struct SourceContext {
    file: String,
    /// The address in it.
    pub server: ServerUrl,
    /// The name that is verified instead of the server's host, if the file has one.
    pub tls_server_name: Option<ServingName>,
    /// The CA: base64 of PEM, which is no secret.
    pub ca_data: String,
    /// The name of the context in force.
    pub context: String,
    namespace: Option<String>,
    credential: Result<Credential, ExportError>,
}

/// What the exported kubeconfig shall say.
#[derive(Debug, Clone, Copy)]
pub struct ExportRequest<'a> {
    /// The host of the server.
    pub host: &'a ServingName,
    /// The port of the server; the source's where there is none.
    pub port: Option<u16>,
    /// The name of cluster, user and context.
    pub context: &'a str,
    /// The served name to verify instead of the host.
    pub tls_server_name: Option<&'a ServingName>,
    /// Whether its clients verify nothing. There is no CA then: kubectl refuses both together.
    pub insecure: bool,
    /// The token of an account instead of the source's credential.
    pub token: Option<&'a str>,
}

impl SourceContext {
    /// Reads the context in force. Other contexts are not looked at.
    ///
    /// # Errors
    /// Something is missing, cannot work on another machine, or is a setting that is never passed on.
    pub fn read(file: &TextFile) -> Result<Self, ExportError> {
        if let Some(unusable) = unusable(file, None) {
            return Err(ExportError::Unusable(cut(&without_tokens(&unusable.to_string()), 400)));
        }
        let whole = Document::parse(file)?;
        let unusable = || ExportError::Unusable(format!("{} has no usable current context", file.path));
        let named = |list: &str, body: &'static str, name: Option<&Value>| {
            let name = text_of(name?)?;
            let content = whole.entry(list, &name)?.get(body)?.as_object()?.clone();
            Some((
                name.clone(),
                KubeconfigEntry { file: &file.path, what: body, name: shown(&name), content },
            ))
        };
        let (name, context) =
            named("contexts", "context", whole.get("current-context")).ok_or_else(unusable)?;
        let (_, cluster) =
            named("clusters", "cluster", context.content.get("cluster")).ok_or_else(unusable)?;
        let (_, user) = named("users", "user", context.content.get("user")).ok_or_else(unusable)?;

        let server = cluster.text("server")?.unwrap_or_default();
        let server = server.parse().and_then(ServerUrl::plain).map_err(|why| ExportError::Server {
            file: file.path.clone(),
            cluster: cluster.name.clone(),
            why,
        })?;
        cluster.has_only(&["server", "certificate-authority-data", "tls-server-name"])?;
        context.has_only(&["cluster", "user", "namespace"])?;
        let ca_data = cluster
            .text("certificate-authority-data")?
            .ok_or_else(|| ExportError::NoCa { file: file.path.clone(), cluster: cluster.name.clone() })?;
        let ca_data = pem::normal(&ca_data, Holds::Certificates).ok_or_else(|| {
            cluster.wrong("certificate-authority-data", "is not the base64 of PEM certificates")
        })?;
        Ok(Self {
            file: file.path.clone(),
            server,
            tls_server_name: cluster.tls_server_name()?,
            ca_data,
            context: name,
            namespace: context.namespace()?,
            credential: user.credential(),
        })
    }

    /// The kubeconfig for another machine: this cluster, one credential, one context, and nothing else.
    ///
    /// # Errors
    /// The credential cannot be passed on.
    pub fn export(&self, wanted: &ExportRequest<'_>) -> Result<Document, ExportError> {
        let user = match wanted.token {
            Some(token) => Credential::of_token(token).ok_or_else(|| ExportError::Wrong {
                file: self.file.clone(),
                place: "the token of the account".to_owned(),
                why: "has characters that no token has",
            })?,
            None => self.credential.clone()?,
        };
        let mut cluster = json!({ "server": self.server.to(wanted.host, wanted.port) });
        if wanted.insecure {
            cluster["insecure-skip-tls-verify"] = true.into();
        } else {
            cluster["certificate-authority-data"] = self.ca_data.clone().into();
            if let Some(served) = wanted.tls_server_name {
                cluster["tls-server-name"] = served.to_string().into();
            }
        }
        Ok(Document::of_one(wanted.context, &cluster, &user.to_value(), self.namespace.as_deref()))
    }

    /// The kubeconfig by which this machine connects to a cluster of k3d, whose API server the engine publishes at this
    /// address. The name that is verified is in each certificate of k3s.
    ///
    /// # Errors
    /// The credential is not a certificate or a token: what comes out of a container runs no program on this machine and
    /// names no file of it.
    pub fn of_k3d(&self, api: SocketAddr) -> Result<Document, ExportError> {
        let (host, served) = (ServingName::Ip(api.ip()), ServingName::Dns("kubernetes".to_owned()));
        let wanted = ExportRequest {
            host: &host,
            port: None,
            context: "k3d",
            tls_server_name: Some(&served),
            insecure: false,
            token: None,
        };
        Self { server: api.into(), ..self.clone() }.export(&wanted)
    }
}

#[cfg(test)]
mod tests;
