//! For tests: a webhook in this process, or what someone could take for one.

use std::path::Path;
use std::sync::{Arc, Mutex};

use axum::routing::post;
use axum::{Json, Router};
use http::{StatusCode, Uri};
use jiff::Timestamp;
use kube::core::conversion::ConversionReview;
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use weaver_api::webhook::LEAF;
use weaver_host::http_server::{self, ConnectionLimits};
use weaver_host::key_pair::Pair;

use super::certificates::{CertificateOptions, Certificates, ensure};
use super::webhook::Webhook;

/// The certificate that is shown, if there is one yet.
#[derive(Debug, Default)]
pub struct ServedCertificate(Mutex<Option<Arc<CertifiedKey>>>);

impl ResolvesServerCert for ServedCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.lock().unwrap().clone()
    }
}

/// Converts as the operator's does, and refuses other paths with a `Status`.
pub fn router() -> Router {
    let convert = async |Json(review): Json<ConversionReview>| Json(weaver_api::convert::review(review));
    let elsewhere = async |uri: Uri| {
        let status = json!({"kind": "Status", "message": format!("there is no {uri} here")});
        (StatusCode::NOT_FOUND, Json(status))
    };
    Router::new().route("/convert", post(convert)).fallback(elsewhere)
}

/// Serves until the task is aborted.
pub fn serve(listener: TcpListener, shown: Arc<ServedCertificate>, router: Router) -> JoinHandle<()> {
    let tls = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(shown);
    let tls = Some(Arc::new(tls).into());
    tokio::spawn(async move {
        http_server::serve(listener, tls, router, &ConnectionLimits::PAGES, CancellationToken::new()).await;
    })
}

/// A webhook in this process, or what someone could take for one.
pub struct Listening {
    pub webhook: Webhook,
    pub shown: Arc<ServedCertificate>,
    pub certificates: Certificates,
    pub dir: tempfile::TempDir,
    task: JoinHandle<()>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Listening {
    /// On a port of its own, with certificates in [`Self::dir`], none of which is shown yet.
    pub async fn start(router: Router) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let certificates = ensure(dir.path(), &CertificateOptions::default(), Timestamp::now()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}/convert", listener.local_addr().unwrap());
        let shown = Arc::<ServedCertificate>::default();
        let task = serve(listener, shown.clone(), router);
        let webhook = Webhook { service: None, url, ca_bundle: certificates.ca_bundle.clone() };
        Self { webhook, shown, certificates, dir, task }
    }

    /// From now on, the certificate in `dir` is shown.
    pub fn show(&self, dir: &Path) {
        let text = std::fs::read(dir.join(LEAF)).unwrap();
        *self.shown.0.lock().unwrap() = Some(Pair::parse(&text).unwrap().certified());
    }
}
