//! A client that trusts one CA, over HTTP/1.1 or HTTP/2.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use http_body_util::BodyExt as _;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

#[derive(Clone, Copy, Debug)]
pub enum Protocol {
    Http1,
    Http2,
}

#[derive(Clone)]
pub struct ClientTrust {
    ca: Arc<RootCertStore>,
    pub address: SocketAddr,
}

pub enum ClientConnection {
    Http1(http1::SendRequest<Body>),
    Http2(http2::SendRequest<Body>),
}

/// Status, and the body as text.
pub type WebhookAnswer = (u16, String);

impl ClientTrust {
    pub fn new(address: SocketAddr, ca_bundle: &str) -> Self {
        let mut ca = RootCertStore::empty();
        ca.add(CertificateDer::from_pem_slice(ca_bundle.as_bytes()).unwrap()).unwrap();
        Self { ca: Arc::new(ca), address }
    }

    pub async fn tls(&self, protocol: Protocol) -> std::io::Result<TlsStream<TcpStream>> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(Arc::clone(&self.ca))
            .with_no_client_auth();
        config.alpn_protocols = match protocol {
            Protocol::Http1 => vec![b"http/1.1".to_vec()],
            Protocol::Http2 => vec![b"h2".to_vec()],
        };
        let stream = TcpStream::connect(self.address).await?;
        let name = ServerName::from(self.address.ip());
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        let expected: &[u8] = if matches!(protocol, Protocol::Http1) { b"http/1.1" } else { b"h2" };
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(expected));
        Ok(stream)
    }

    /// The certificate that a new connection is shown.
    pub async fn shown(&self) -> Vec<u8> {
        let stream = self.tls(Protocol::Http1).await.unwrap();
        stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
    }

    pub async fn connect(&self, protocol: Protocol) -> Result<ClientConnection, Box<dyn std::error::Error>> {
        let stream = TokioIo::new(self.tls(protocol).await?);
        Ok(match protocol {
            Protocol::Http1 => {
                let (sender, connection) = http1::handshake(stream).await?;
                tokio::spawn(connection);
                ClientConnection::Http1(sender)
            }
            Protocol::Http2 => {
                let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await?;
                tokio::spawn(connection);
                ClientConnection::Http2(sender)
            }
        })
    }
}

impl ClientConnection {
    pub async fn post(&mut self, body: impl Into<Body>) -> Result<WebhookAnswer, hyper::Error> {
        let request = http::Request::post("https://webhook/convert").header("host", "webhook");
        let request = request.body(body.into()).unwrap();
        let response = match self {
            Self::Http1(sender) => {
                sender.ready().await?;
                sender.send_request(request).await?
            }
            Self::Http2(sender) => {
                sender.ready().await?;
                sender.send_request(request).await?
            }
        };
        let code = response.status().as_u16();
        let body: Bytes = response.into_body().collect().await?.to_bytes();
        Ok((code, String::from_utf8(body.to_vec()).unwrap()))
    }
}

/// One v1alpha1 `ConfigMapSync`, available at v1beta1.
pub fn review() -> String {
    let object = json!({"apiVersion": "weaver.example.com/v1alpha1", "kind": "ConfigMapSync",
                        "metadata": {"name": "a", "namespace": "b"}, "spec": {"syncToNamespaces": ["c"]}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
           "request": {"uid": "4b2a", "desiredAPIVersion": "weaver.example.com/v1beta1", "objects": [object]}})
    .to_string()
}

/// Is it the right answer to [`review`]?
pub fn is_converted((code, body): &WebhookAnswer) -> bool {
    let answer: Value = serde_json::from_str(body).unwrap_or_default();
    let response = &answer["response"];
    *code == 200
        && response["uid"] == "4b2a"
        && response["convertedObjects"][0]["apiVersion"] == "weaver.example.com/v1beta1"
        && response["convertedObjects"][0]["spec"]["targets"]["namespaces"] == json!(["c"])
}
