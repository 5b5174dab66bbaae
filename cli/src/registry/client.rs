//! Requests to a registry.
//!
//! Guarantees: requests go only to the registry's own host, scheme and port; credentials go only where the caller
//! allows it, and only to a server that requests them; an answer has at most [`LARGEST`] bytes and [`CONTAINERS`]; each
//! request ends at the deadline.

use std::net::SocketAddr;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::header::{ACCEPT, AUTHORIZATION, HOST, LINK, LOCATION, USER_AGENT, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Request};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use weaver_diagnostics::registry::api::{Challenge, challenge};
use weaver_diagnostics::registry::check::{Reply, Sent};
use weaver_diagnostics::registry::configured::Credentials;
use weaver_host::docker::containers;

use crate::connection;

/// What the specification has for a manifest, and no page is larger.
const LARGEST: usize = 4 << 20;
/// Objects and arrays of JSON in an answer ([`containers`]).
const CONTAINERS: usize = 50_000;
/// The longest wait for one answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// From one path of the registry to another.
const MOST_REDIRECTS: usize = 3;

pub struct Client {
    pub addresses: Vec<SocketAddr>,
    /// Without it, plain HTTP.
    pub tls: Option<(TlsConnector, ServerName<'static>)>,
    /// HOST or HOST:PORT, as in image names.
    pub registry: String,
    /// What may be sent on request; else why not.
    pub credentials: Result<Credentials, Sent>,
    pub deadline: Instant,
}

pub struct RegistryResponse {
    pub status: u16,
    headers: HeaderMap,
    pub body: Bytes,
    pub credentials: Sent,
}

impl Client {
    pub fn origin(&self) -> String {
        format!("{}://{}", if self.tls.is_some() { "https" } else { "http" }, self.registry)
    }

    /// Requests a path, with credentials where the server requires them.
    pub async fn get(&self, path: &str, accept: &str) -> Result<RegistryResponse, String> {
        let mut answer = self.ask(path, accept, None).await?;
        let wanted = answer.header(WWW_AUTHENTICATE).and_then(challenge).filter(|_| answer.status == 401);
        let Some(wanted) = wanted else {
            answer.credentials = match &self.credentials {
                Err(Sent::None) => Sent::None,
                _ => Sent::NotNeeded,
            };
            return Ok(answer);
        };
        match self.authorization(&wanted).await {
            Ok((header, sent)) => {
                let again = self.ask(path, accept, Some(header)).await?;
                Ok(RegistryResponse { credentials: sent, ..again })
            }
            Err(why) => Ok(RegistryResponse { credentials: why, ..answer }),
        }
    }

    /// What to send to a server that wants this.
    async fn authorization(&self, wanted: &Challenge) -> Result<(HeaderValue, Sent), Sent> {
        let basic = match &self.credentials {
            Ok(Credentials::Password { username, password }) => {
                Ok(BASE64_STANDARD.encode(format!("{username}:{password}")))
            }
            Ok(Credentials::Encoded(text)) => Ok(text.clone()),
            Ok(Credentials::Token) => Err(Sent::OtherKind),
            Err(why) => Err(*why),
        };
        if wanted.scheme.eq_ignore_ascii_case("basic") {
            return Ok((secret("Basic", &basic?)?, Sent::Yes));
        }
        if !wanted.scheme.eq_ignore_ascii_case("bearer") {
            return Err(basic.err().unwrap_or(Sent::OtherKind));
        }
        // Public images are pulled with an anonymous token.
        let why = basic.as_ref().err().copied().unwrap_or(Sent::OtherKind);
        let path = self.token_path(wanted).ok_or(why)?;
        let header = basic.as_deref().ok().map(|basic| secret("Basic", basic)).transpose()?;
        let sent = if header.is_some() { Sent::Yes } else { why };
        let answer = self.ask(&path, "application/json", header).await.map_err(|_| why)?;
        let answer: Value = serde_json::from_slice(&answer.body).map_err(|_| sent)?;
        let token = ["token", "access_token"].iter().find_map(|key| answer.get(key)?.as_str()).ok_or(sent)?;
        Ok((secret("Bearer", token)?, sent))
    }

    /// The path where the registry itself issues a token; `None` where another server does.
    fn token_path(&self, wanted: &Challenge) -> Option<String> {
        let path = self.own_path(&wanted.realm)?;
        let is_plain =
            |text: &&String| text.bytes().all(|c| c.is_ascii_alphanumeric() || b"._-:/,*".contains(&c));
        let parameters = [("service", &wanted.service), ("scope", &wanted.scope)];
        let parameters = parameters
            .iter()
            .filter_map(|(key, value)| Some(format!("{key}={}", value.as_ref().filter(is_plain)?)));
        let query = parameters.collect::<Vec<_>>().join("&");
        let sign = if path.contains('?') { '&' } else { '?' };
        Some(if query.is_empty() { path } else { format!("{path}{sign}{query}") })
    }

    /// The path of a URL that is of this very server.
    fn own_path(&self, url: &str) -> Option<String> {
        let usual = if self.tls.is_some() { ":443" } else { ":80" };
        let origin = self.origin();
        let is_end = |rest: &&str| rest.starts_with('/') && !rest.starts_with("//");
        let rest = [origin.as_str(), origin.strip_suffix(usual).unwrap_or(&origin), ""]
            .iter()
            .find_map(|origin| url.strip_prefix(origin).filter(is_end));
        rest.map(str::to_owned)
    }

    /// One answer, after redirects within the server.
    async fn ask(
        &self,
        path: &str,
        accept: &str,
        authorization: Option<HeaderValue>,
    ) -> Result<RegistryResponse, String> {
        let mut path = path.to_owned();
        for _ in 0..=MOST_REDIRECTS {
            let answer = self.ask_once(&path, accept, authorization.clone()).await?;
            let own = answer.location().and_then(|location| self.own_path(location));
            match own {
                Some(own) => path = own,
                None => return Ok(answer),
            }
        }
        Err("too many redirects".to_owned())
    }

    async fn ask_once(
        &self,
        path: &str,
        accept: &str,
        authorization: Option<HeaderValue>,
    ) -> Result<RegistryResponse, String> {
        let mut request = Request::get(path)
            .header(HOST, &self.registry)
            .header(USER_AGENT, connection::USER_AGENT)
            .header(ACCEPT, accept)
            .body(Empty::<Bytes>::new())
            .map_err(|_| "its answer names no valid path".to_owned())?;
        if let Some(value) = authorization {
            request.headers_mut().insert(AUTHORIZATION, value);
        }
        let deadline = self.deadline.min(Instant::now() + PATIENCE);
        let asking = async {
            let stream = TcpStream::connect(&self.addresses[..]).await.map_err(|error| error.to_string())?;
            match &self.tls {
                None => exchange(stream, request).await,
                Some((connector, name)) => {
                    let stream =
                        connector.connect(name.clone(), stream).await.map_err(|error| error.to_string())?;
                    exchange(stream, request).await
                }
            }
        };
        timeout_at(deadline, asking).await.unwrap_or_else(|_| Err("no answer in time".to_owned()))
    }
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Empty<Bytes>>,
) -> Result<RegistryResponse, String> {
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(64 * 1024)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| why(&error))?;
    // It ends with `sender`.
    tokio::spawn(async move { drop(connection.await) });
    let answer = sender.send_request(request).await.map_err(|error| why(&error))?;
    let (parts, body) = answer.into_parts();
    let body = Limited::new(body, LARGEST).collect().await;
    let body = body.map_err(|error| match error.downcast::<hyper::Error>() {
        Ok(error) => why(&error),
        Err(_) => "the answer is longer than 4 MiB".to_owned(),
    })?;
    let body = body.to_bytes();
    if containers(&body) > CONTAINERS {
        return Err(format!("the answer has more than {CONTAINERS} objects and arrays"));
    }
    Ok(RegistryResponse {
        status: parts.status.as_u16(),
        headers: parts.headers,
        body,
        credentials: Sent::None,
    })
}

/// The cause of the causes.
fn why(error: &hyper::Error) -> String {
    anyhow::Chain::new(error).last().unwrap_or(error).to_string()
}

fn secret(scheme: &str, text: &str) -> Result<HeaderValue, Sent> {
    let mut value = HeaderValue::from_str(&format!("{scheme} {text}")).map_err(|_| Sent::OtherKind)?;
    value.set_sensitive(true);
    Ok(value)
}

impl RegistryResponse {
    fn header(&self, name: http::HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    pub fn link(&self) -> Option<&str> {
        self.header(LINK)
    }

    /// Where it sends the client.
    fn location(&self) -> Option<&str> {
        matches!(self.status, 301 | 302 | 303 | 307 | 308).then(|| self.header(LOCATION)).flatten()
    }

    /// What /v2/ shows about the server.
    pub fn reply(&self) -> Reply {
        let wanted = self.header(WWW_AUTHENTICATE).and_then(challenge).filter(|_| self.status == 401);
        let names_itself = self.headers.contains_key("docker-distribution-api-version");
        // A page for people answers 200, too.
        let is_object = serde_json::from_slice::<Value>(&self.body).is_ok_and(|body| body.is_object());
        let is_registry = match self.status {
            200 => names_itself || is_object,
            401 => names_itself || wanted.is_some(),
            _ => names_itself,
        };
        Reply {
            status: self.status,
            registry: is_registry,
            challenge: wanted,
            location: self.location().map(str::to_owned),
            credentials: self.credentials,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    /// What is read of a server that answers with this.
    async fn read(body: String) -> Result<usize, String> {
        let (ours, mut theirs) = duplex(1 << 20);
        let serving = tokio::spawn(async move {
            assert!(theirs.read(&mut [0; 1_024]).await.unwrap() > 0);
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            theirs.write_all(answer.as_bytes()).await.unwrap();
            theirs
        });
        let request = Request::get("/v2/").header(HOST, "registry.test").body(Empty::new()).unwrap();
        let answer = exchange(ours, request).await;
        drop(serving.await.unwrap());
        answer.map(|answer| answer.body.len())
    }

    #[tokio::test]
    async fn an_answer_that_takes_far_more_memory_than_its_bytes_is_refused_before_it_is_parsed() {
        assert_eq!(read("{}".repeat(CONTAINERS)).await, Ok(2 * CONTAINERS));
        let refused = read("[]".repeat(CONTAINERS + 1)).await.unwrap_err();
        assert!(refused.contains("more than 50000 objects"), "{refused}");
    }
}
