//! For tests: a webhook in this process, or what somebody could take for one.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use weaver_api::webhook::LEAF;
use weaver_host::key_pair::Pair;

use super::Webhook;
use super::certificates::{Certificates, Options, ensure};
use crate::webhook::leaf::Slot;
use crate::webhook::serve;

/// A webhook in this process, or what somebody could take for one.
pub struct Listening {
    pub webhook: Webhook,
    pub slot: Arc<Slot>,
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
    pub async fn start(router: axum::Router) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let certificates = ensure(dir.path(), &Options::default(), Timestamp::now()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}/convert", listener.local_addr().unwrap());
        let slot = Arc::new(Slot::default());
        let tls = serve::tls(slot.clone()).unwrap();
        let task = tokio::spawn(serve::serve(listener, tls, router, CancellationToken::new()));
        let webhook = Webhook { service: None, url, ca_bundle: certificates.ca_bundle.clone() };
        Self { webhook, slot, certificates, dir, task }
    }

    /// From now on, the certificate in `dir` is shown.
    pub fn show(&self, dir: &std::path::Path) {
        let text = std::fs::read(dir.join(LEAF)).unwrap();
        self.slot.fill(Pair::parse(&text).unwrap().certified());
    }
}
