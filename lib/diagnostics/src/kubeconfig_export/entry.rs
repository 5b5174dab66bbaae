//! One entry of a kubeconfig, and what of it may be passed on.

use std::fmt;

use serde_json::{Map, Value, json};

use super::document::shown;
use super::error::ExportError;
use super::pem::{Holds, normal};
use crate::san::ServingName;

/// Keys whose values are paths on the machine of the file.
const FILE_KEYS: [&str; 4] = ["certificate-authority", "client-certificate", "client-key", "tokenFile"];

/// Settings that change nothing but comfort: they are left out.
const LEFT_OUT: [&str; 2] = ["extensions", "disable-compression"];

/// More than any token has.
const LONGEST_TOKEN: usize = 64 << 10;

/// The content of an entry.
pub struct KubeconfigEntry<'a> {
    pub file: &'a str,
    /// Cluster, user or context.
    pub what: &'static str,
    /// The name of the entry, as a message has it.
    pub name: String,
    /// What is in it.
    pub content: Map<String, Value>,
}

/// A credential: one of the two kinds that mean the same on every machine.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// Base64 of PEM.
    Certificate {
        /// The client's certificate, with those between it and the CA.
        certificate: String,
        key: String,
    },
    Token(String),
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential(…)")
    }
}

impl Credential {
    /// A token, if it can be one: it becomes a line of an HTTP request.
    pub fn of_token(text: &str) -> Option<Self> {
        let is_token =
            !text.is_empty() && text.len() <= LONGEST_TOKEN && text.bytes().all(|c| c.is_ascii_graphic());
        is_token.then(|| Self::Token(text.to_owned()))
    }

    /// As a kubeconfig has it.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Certificate { certificate, key } => {
                json!({ "client-certificate-data": certificate, "client-key-data": key })
            }
            Self::Token(token) => json!({ "token": token }),
        }
    }
}

impl KubeconfigEntry<'_> {
    /// The text of a key; none where it is missing or empty.
    pub fn text(&self, key: &'static str) -> Result<Option<String>, ExportError> {
        match self.content.get(key) {
            None => Ok(None),
            Some(value) if is_nothing(value) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(self.wrong(key, "is not a text")),
        }
    }

    /// A value is not of its kind.
    pub fn wrong(&self, key: &str, why: &'static str) -> ExportError {
        ExportError::Wrong { file: self.file.to_owned(), place: format!("{key} of {}", self.place()), why }
    }

    /// Everything in it is one of these, or means nothing.
    pub fn has_only(&self, keys: &[&str]) -> Result<(), ExportError> {
        let in_force =
            || self.content.iter().filter(|(_, value)| !is_nothing(value)).map(|(key, _)| key.as_str());
        let paths: Vec<_> = in_force().filter(|key| FILE_KEYS.contains(key)).collect();
        if !paths.is_empty() {
            return Err(ExportError::NamesFiles { file: self.file.to_owned(), keys: paths.join(", ") });
        }
        match in_force().find(|key| !keys.contains(key) && !LEFT_OUT.contains(key)) {
            None => Ok(()),
            Some(key) => {
                Err(ExportError::Setting { file: self.file.to_owned(), place: self.place(), key: shown(key) })
            }
        }
    }

    /// The name that is verified instead of the server's host.
    pub fn tls_server_name(&self) -> Result<Option<ServingName>, ExportError> {
        let Some(text) = self.text("tls-server-name")? else { return Ok(None) };
        let why = match text.parse() {
            Ok(ServingName::Wildcard(_)) => "it is a wildcard",
            Ok(name) => return Ok(Some(name)),
            Err(error) => error.why,
        };
        Err(ExportError::TlsServerName { file: self.file.to_owned(), name: shown(&text), why })
    }

    /// The namespace of a context.
    pub fn namespace(&self) -> Result<Option<String>, ExportError> {
        let text = self.text("namespace")?;
        let is_name = |text: &String| {
            let is_plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
            text.len() <= 63 && text.bytes().all(is_plain) && !text.starts_with('-') && !text.ends_with('-')
        };
        if text.as_ref().is_none_or(is_name) {
            Ok(text)
        } else {
            Err(self.wrong("namespace", "is not a namespace"))
        }
    }

    /// The credential of a user.
    pub fn credential(&self) -> Result<Credential, ExportError> {
        self.has_only(&["client-certificate-data", "client-key-data", "token"])?;
        let pem = |key: &'static str, holds, why| match self.text(key)? {
            None => Ok(None),
            Some(data) => normal(&data, holds).map(Some).ok_or_else(|| self.wrong(key, why)),
        };
        let certificate =
            pem("client-certificate-data", Holds::Certificates, "is not the base64 of PEM certificates")?;
        let key = pem("client-key-data", Holds::Key, "is not the base64 of a PEM key")?;
        match (certificate, key, self.text("token")?) {
            (Some(certificate), Some(key), None) => Ok(Credential::Certificate { certificate, key }),
            (None, None, Some(token)) => Credential::of_token(&token)
                .ok_or_else(|| self.wrong("token", "has characters that no token has")),
            (Some(_), None, None) => Err(self.wrong("client-key-data", "is missing")),
            (None, Some(_), None) => Err(self.wrong("client-certificate-data", "is missing")),
            (None, None, None) => Err(self.wrong("client-certificate-data", "is missing, and so is a token")),
            (_, _, Some(_)) => {
                Err(self.wrong("token", "is given in addition to a client certificate: remove one of them"))
            }
        }
    }

    fn place(&self) -> String {
        format!("{} `{}`", self.what, self.name)
    }
}

/// Whether a client takes the value for no setting.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}
