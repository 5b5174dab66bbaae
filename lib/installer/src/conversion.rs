//! Asks the webhook to convert an object, there and back, as the API server will: by URL, trusting one CA.
//!
//! Definitions that name a webhook which does not answer would make every request at the other version fail, so
//! this is done before they are written. Failure: what is wrong, with which URL, and what to do.

use std::error::Error;
use std::io;
use std::time::Duration;

use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Limited};
use kube::client::Body;
use kube::core::conversion::{ConversionRequest, ConversionResponse, ConversionReview};
use kube::core::{Status, TypeMeta, response::StatusSummary};
use kube::{Client, Config};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout_at};
use weaver_api::GROUP;
use weaver_api::webhook::REVIEW;

use super::webhook::Webhook;

const PAUSE: Duration = Duration::from_millis(200);
/// An answer to one object has some KiB.
const LARGEST: usize = 1 << 20;
/// The versions of the object that is sent, there and back.
const VERSIONS: [&str; 2] = ["v1alpha1", "v1beta1"];
/// Where the object says that its copies go, at either version: what conversion must not lose.
const TARGET: &str = "weaver-conversion-check";

/// The webhook does not convert.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[error("the conversion webhook at {url} {fault}; nothing was changed in the API server")]
pub struct ConversionError {
    pub url: String,
    pub fault: WebhookFault,
}

/// What is wrong, as a clause that follows the URL, with the remedy.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum WebhookFault {
    /// Nothing that could be asked.
    #[error("cannot be asked: a webhook's URL is https://HOST:PORT/PATH")]
    Url,
    /// No CA to trust.
    #[error("cannot be asked: there is no certificate in the CA bundle that was given")]
    Bundle,
    #[error("does not listen: start it (`weaver-operator webhook`), or name the right URL ({0})")]
    Refused(String),
    /// It takes connections and shows no certificate.
    #[error(
        "has no certificate yet: it waits for leaf.pem. Installer and webhook must use the same directory \
        (`--certificates`), and the webhook must be able to read it"
    )]
    NoCertificate,
    /// It shows a certificate that this CA did not sign.
    #[error(
        "sends a certificate of another CA: something else listens there, or it uses another directory \
         (`--certificates`) than this installation"
    )]
    OtherCa,
    /// It shows a certificate for other names.
    #[error("sends a certificate that is not valid for this host: add the name to its certificate ({0})")]
    OtherName(String),
    /// Something else about the certificate.
    #[error("cannot be trusted: {0}; is the clock right? (`timedatectl`)")]
    Tls(String),
    /// Any other failure on the way.
    #[error("gave no answer: {0}")]
    NoAnswer(String),
    /// The webhook, or whatever else listens there, refused.
    #[error("refused to convert: {0}")]
    Failed(String),
    /// No review, or another object than the one that was asked for.
    #[error("gave a wrong answer ({0}): something else listens there, or a webhook of another release")]
    WrongAnswer(&'static str),
}

/// Asks until the webhook converts, for `patience` at most.
///
/// # Errors
/// What was wrong the last time.
pub async fn converts(webhook: &Webhook, patience: Duration) -> Result<(), ConversionError> {
    let until = Instant::now() + patience;
    let error = |fault| ConversionError { url: webhook.url.clone(), fault };
    let (client, path) = client(webhook, patience).map_err(error)?;
    let mut last = None;
    loop {
        let asked = timeout_at(until, there_and_back(&client, &path)).await;
        let fault = match asked {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(fault)) => fault,
            // What was wrong before says more than that the time is over.
            Err(_) => {
                let late = || WebhookFault::NoAnswer(format!("none within {} s", patience.as_secs()));
                return Err(error(last.unwrap_or_else(late)));
            }
        };
        if Instant::now() + PAUSE >= until {
            return Err(error(fault));
        }
        last = Some(fault);
        sleep(PAUSE).await;
    }
}

/// The name or address in a webhook's URL, which its certificate has to be good for.
///
/// # Errors
/// It is not `https://HOST[:PORT]/PATH`.
pub fn host(url: &str) -> Result<String, ConversionError> {
    let fault = || ConversionError { url: url.to_owned(), fault: WebhookFault::Url };
    let parsed: Uri = url.parse().map_err(|_| fault())?;
    match (parsed.scheme_str(), parsed.host()) {
        (Some("https"), Some(host)) if !host.is_empty() => {
            Ok(host.trim_start_matches('[').trim_end_matches(']').to_owned())
        }
        _ => Err(fault()),
    }
}

/// A client that trusts the bundle alone, and the path to ask for.
fn client(webhook: &Webhook, patience: Duration) -> Result<(Client, Uri), WebhookFault> {
    let url: Uri = webhook.url.parse().map_err(|_| WebhookFault::Url)?;
    let (Some("https"), Some(host), Some(path)) = (url.scheme_str(), url.authority(), url.path_and_query())
    else {
        return Err(WebhookFault::Url);
    };
    let certificates: Vec<Vec<u8>> = CertificateDer::pem_slice_iter(webhook.ca_bundle.as_bytes())
        .map(|certificate| certificate.map(|der| der.to_vec()))
        .collect::<Result<_, _>>()
        .map_err(|_| WebhookFault::Bundle)?;
    if certificates.is_empty() {
        return Err(WebhookFault::Bundle);
    }
    let origin = format!("https://{host}/").parse().map_err(|_| WebhookFault::Url)?;
    let mut config = Config::new(origin);
    config.root_cert = Some(certificates);
    config.connect_timeout = Some(patience);
    config.default_retry = false;
    let client = Client::try_from(config).map_err(|_| WebhookFault::Bundle)?;
    Ok((client, path.as_str().parse().map_err(|_| WebhookFault::Url)?))
}

async fn there_and_back(client: &Client, path: &Uri) -> Result<(), WebhookFault> {
    let [old, new] = VERSIONS;
    let sent = object();
    let there = convert(client, path, sent.clone(), new).await?;
    let back = convert(client, path, there, old).await?;
    if back["spec"] == sent["spec"] {
        Ok(())
    } else {
        Err(WebhookFault::WrongAnswer("the object did not come back as it was sent"))
    }
}

async fn convert(client: &Client, path: &Uri, object: Value, version: &str) -> Result<Value, WebhookFault> {
    let uid = format!("weaver-{}", fastrand::u64(..));
    let request = Request::post(path.clone()).header("content-type", "application/json");
    #[expect(clippy::expect_used, reason = "texts and a JSON value")]
    let body =
        serde_json::to_vec(&review(uid.clone(), object, version)).expect("a review can be written as JSON");
    let request = request.body(Body::from(body)).map_err(|_| WebhookFault::Url)?;
    let response = client.send(request).await.map_err(|error| failure(&error))?;
    let status = response.status();
    let content = Limited::new(response.into_body(), LARGEST).collect().await;
    let content = content.map_err(|error| WebhookFault::NoAnswer(error.to_string()))?.to_bytes();
    answered(status, &content, &uid, version)
}

/// The object that is converted. It exists nowhere but in these requests.
fn object() -> Value {
    json!({
        "apiVersion": format!("{GROUP}/{}", VERSIONS[0]), "kind": "ConfigMapSync",
        "metadata": {"name": TARGET, "namespace": "default"},
        "spec": {
            "serviceAccount": {"name": "default"},
            "source": {"name": TARGET, "namespace": "default"},
            "syncToNamespaces": [TARGET],
        },
    })
}

fn review(uid: String, object: Value, version: &str) -> ConversionReview {
    let types = TypeMeta { api_version: REVIEW.0.into(), kind: REVIEW.1.into() };
    let desired_api_version = format!("{GROUP}/{version}");
    let request = ConversionRequest { types: None, uid, desired_api_version, objects: vec![object] };
    ConversionReview { types, request: Some(request), response: None }
}

/// The converted object, if this is the answer to what was asked.
fn answered(status: StatusCode, content: &[u8], uid: &str, version: &str) -> Result<Value, WebhookFault> {
    if status != StatusCode::OK {
        let said = serde_json::from_slice::<Status>(content).map(|status| status.message).unwrap_or_default();
        return Err(WebhookFault::Failed(if said.is_empty() { status.to_string() } else { said }));
    }
    let review: ConversionReview = serde_json::from_slice(content)
        .map_err(|_| WebhookFault::WrongAnswer("it is not a ConversionReview"))?;
    let Some(ConversionResponse { uid: answered, result, converted_objects, .. }) = review.response else {
        return Err(WebhookFault::WrongAnswer("the review holds no answer"));
    };
    if answered != uid {
        return Err(WebhookFault::WrongAnswer("the answer is to another review"));
    }
    if result.status != Some(StatusSummary::Success) {
        return Err(WebhookFault::Failed(result.message));
    }
    let [object] = <[Value; 1]>::try_from(converted_objects)
        .map_err(|_| WebhookFault::WrongAnswer("it holds more or fewer objects than were sent"))?;
    if object["apiVersion"] != format!("{GROUP}/{version}") || object["kind"] != "ConfigMapSync" {
        return Err(WebhookFault::WrongAnswer("the object is not at the version that was asked for"));
    }
    if object["metadata"]["name"] != TARGET {
        return Err(WebhookFault::WrongAnswer("the object is another one"));
    }
    Ok(object)
}

/// What a request that got no answer says about the webhook.
fn failure(error: &kube::Error) -> WebhookFault {
    let mut last = String::new();
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(tls) = error.downcast_ref::<rustls::Error>() {
            return tls_failure(tls);
        }
        let io = error.downcast_ref::<io::Error>();
        if io.is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
            return WebhookFault::Refused(error.to_string());
        }
        // The outer ones say no more than that something failed.
        last = error.to_string();
        // An `io::Error` that wraps another error does not have it as its source.
        let wrapped = io.and_then(io::Error::get_ref).map(|wrapped| wrapped as &(dyn Error + 'static));
        next = wrapped.or_else(|| error.source());
    }
    WebhookFault::NoAnswer(last)
}

fn tls_failure(error: &rustls::Error) -> WebhookFault {
    use rustls::{AlertDescription, CertificateError};
    match error {
        rustls::Error::AlertReceived(AlertDescription::HandshakeFailure | AlertDescription::AccessDenied) => {
            WebhookFault::NoCertificate
        }
        rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        ) => WebhookFault::OtherCa,
        rustls::Error::InvalidCertificate(
            name @ (CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }),
        ) => WebhookFault::OtherName(name.to_string()),
        other => WebhookFault::Tls(other.to_string()),
    }
}

#[cfg(test)]
mod tests;
