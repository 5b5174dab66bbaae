//! What was seen of a registry, from one machine: by https and http, next to the configuration of k3s, and to k3d's
//! containers. Pure: facts in, lines and findings out.

mod document;
mod judge;

use std::fmt;

use serde::Serialize;

use super::api::{Challenge, ImageReference, Platform};
use super::configured::Configured;
use crate::finding_text::quoted;
use crate::k3d::registry::{ReachedFrom, RegistryContainer};
use crate::kubeconfig_export::server_url::is_loopback;
use crate::serving::HandshakeOutcome;

pub use document::document;
pub use judge::judge;

/// The longest text of a registry that is shown.
const LONGEST: usize = 200;

/// All that was seen.
#[derive(Debug, Clone)]
pub struct RegistryFacts {
    /// As it is written in image names: HOST or HOST:PORT.
    pub registry: String,
    /// The name resolves, and whether to this machine; else why it does not.
    pub is_here: Result<bool, String>,
    pub https: Https,
    /// What is answered without TLS; else why nothing is.
    pub http: Result<Reply, String>,
    /// The file with the CA that was trusted, instead of those of this machine.
    pub ca: Option<String>,
    /// A registries.yaml and what it says of this registry.
    pub configured: Option<(String, Configured)>,
    /// Registries in containers of this machine; else why they are not known.
    pub containers: Result<Vec<RegistryContainer>, String>,
    /// A repository that was asked for and is not there.
    pub missing: Option<String>,
    /// An image that was asked for.
    pub image: Option<WantedImage>,
}

/// What is answered over TLS.
#[derive(Debug, Clone)]
pub struct Https {
    pub outcome: HandshakeOutcome,
    /// The names in its certificate.
    pub served: Vec<String>,
    /// At /v2/; else why nothing came.
    pub reply: Result<Reply, String>,
}

/// What is answered at /v2/.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reply {
    pub status: u16,
    /// It answers as a registry does.
    pub registry: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub challenge: Option<Challenge>,
    /// Where it sends clients instead: another host, or another scheme.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// Whether the credentials of registries.yaml were sent.
    pub credentials: Sent,
}

/// Whether credentials were sent, and why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Sent {
    None,
    /// They were not asked for.
    NotNeeded,
    Yes,
    /// It could be anyone who answers.
    Unverified,
    /// Only a password is sent, and only for one.
    OtherKind,
}

/// An image that was asked for, and for which machine.
#[derive(Debug, Clone)]
pub struct WantedImage {
    pub image: ImageReference,
    pub platform: Platform,
    pub found: ImageAvailability,
}

/// What is there under an image's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageAvailability {
    For(Vec<Platform>),
    Missing,
    /// The registry wants other credentials.
    Denied,
    /// Something that containerd cannot use.
    Unusable(String),
    /// It could not be looked at.
    Unknown(String),
}

impl RegistryFacts {
    /// By which scheme it answers as a registry, and how.
    pub fn reply(&self) -> Option<(&'static str, &Reply)> {
        let of = |scheme, reply: &'_ Result<Reply, String>| match reply {
            Ok(reply) if reply.registry => Some(scheme),
            _ => None,
        };
        let scheme = of("https", &self.https.reply).or_else(|| of("http", &self.http))?;
        let reply = if scheme == "https" { &self.https.reply } else { &self.http };
        reply.as_ref().ok().map(|reply| (scheme, reply))
    }

    fn host(&self) -> (&str, Option<u16>) {
        split(&self.registry)
    }

    /// The container that is meant, and from where the address reaches it.
    fn container(&self) -> Option<(&RegistryContainer, ReachedFrom)> {
        let (host, port) = self.host();
        let is_here = matches!(self.is_here, Ok(true));
        let mut all = self.containers.iter().flatten();
        all.find_map(|container| Some((container, container.viewpoint(host, port?, is_here)?)))
    }

    fn configured(&self) -> Option<&Configured> {
        self.configured.as_ref().map(|(_, configured)| configured)
    }

    /// containerd speaks plain HTTP with localhost, and believes any certificate of it.
    fn is_localhost(&self) -> bool {
        let (host, _) = self.host();
        is_loopback(host)
    }

    fn http_text(&self) -> String {
        match &self.http {
            Err(why) => quoted_or(why),
            Ok(Reply { registry: false, status: 400, .. }) if self.https.reply.is_ok() => {
                "only TLS is spoken at this port".to_owned()
            }
            Ok(reply) => reply.to_string(),
        }
    }

    /// What was seen, on lines for a user.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.is_here.is_ok() {
            lines.push(format!("https  {}", self.https));
            lines.push(format!("http   {}", self.http_text()));
        }
        if let Some((file, configured)) = &self.configured {
            let mut way: Vec<_> = configured.endpoints.iter().map(ToString::to_string).collect();
            way.push(format!("https://{}", self.registry));
            way.dedup();
            lines.push(format!("k3s    by {file} asks {}", way.join(", then ")));
        }
        match &self.containers {
            Ok(containers) => lines.extend(containers.iter().map(|one| format!("k3d    {one}"))),
            Err(why) => lines.push(format!("k3d    not looked for: {why}")),
        }
        if self.is_localhost() {
            lines.push(
                "note   localhost is this machine only: for a pod's image it is the node, and in k3d the node's container"
                    .to_owned(),
            );
        }
        if let Some(WantedImage { image, found, .. }) = &self.image {
            let found = match found {
                ImageAvailability::For(platforms) if platforms.is_empty() => "no platform named".to_owned(),
                ImageAvailability::For(platforms) => {
                    let names: Vec<_> = platforms.iter().map(|one| quoted_or(&one.to_string())).collect();
                    format!("for {}", names.join(", "))
                }
                ImageAvailability::Missing => "not found".to_owned(),
                ImageAvailability::Denied => "access denied".to_owned(),
                ImageAvailability::Unusable(why) | ImageAvailability::Unknown(why) => why.clone(),
            };
            lines.push(format!("image  {image}: {found}"));
        }
        lines
    }
}

/// The host and the port of HOST or HOST:PORT.
pub fn split(registry: &str) -> (&str, Option<u16>) {
    let both = registry.rsplit_once(':').and_then(|(host, port)| Some((host, Some(port.parse().ok()?))));
    both.unwrap_or((registry, None))
}

/// A text of others that is short and plain as it is, another one quoted.
fn quoted_or(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || " .,:;/_-()'".contains(c);
    if text.len() <= LONGEST && text.chars().all(is_plain) { text.to_owned() } else { quoted(text, LONGEST) }
}

impl fmt::Display for Https {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = if self.served.is_empty() {
            "no names".to_owned()
        } else {
            self.served.iter().map(|name| quoted_or(name)).collect::<Vec<_>>().join(", ")
        };
        match &self.outcome {
            HandshakeOutcome::Unreachable(why) => return f.write_str(&quoted_or(why.why())),
            HandshakeOutcome::Proven => write!(f, "certificate trusted, for {names}")?,
            HandshakeOutcome::NotServed => write!(f, "certificate for other names: {names}")?,
            HandshakeOutcome::Dates(why) => write!(f, "certificate for {names}, but {why}")?,
            HandshakeOutcome::Untrusted(why) => {
                write!(f, "certificate not trusted, for {names}: {}", quoted_or(why))?;
            }
        }
        match &self.reply {
            Ok(reply) => write!(f, "; {reply}"),
            Err(why) => write!(f, "; {}", quoted_or(why)),
        }
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.registry { "a registry" } else { "not a registry" };
        write!(f, "{what} (GET /v2/ answers {})", self.status)?;
        if let Some(location) = &self.location {
            write!(f, ", redirects to {}", quoted_or(location))?;
        }
        match &self.challenge {
            Some(Challenge { scheme, realm, .. }) if self.status == 401 => {
                write!(f, ", wants {} from {}", quoted_or(scheme), quoted(realm, LONGEST))
            }
            _ if self.credentials == Sent::Yes => f.write_str(", with the credentials of registries.yaml"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
