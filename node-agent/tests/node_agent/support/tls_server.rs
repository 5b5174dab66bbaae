//! A TLS server on a free loopback port that shows the certificate it was given, and records which names clients
//! requested.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair, KeyUsagePurpose, date_time_ymd};
use rustls::{
    ServerConfig,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    server::Acceptor,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::LazyConfigAcceptor;

/// A CA such as k3s makes.
pub struct Ca(CertifiedIssuer<'static, KeyPair>);

impl Ca {
    pub fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for these names, valid in these years.
    pub fn leaf_of(&self, names: &[&str], years: (i32, i32)) -> Arc<ServerConfig> {
        let names: Vec<_> = names.iter().map(|n| (*n).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.not_before = date_time_ymd(years.0, 1, 1);
        params.not_after = date_time_ymd(years.1, 1, 1);
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        Arc::new(config)
    }

    /// A certificate that is valid today.
    pub fn leaf(&self, names: &[&str]) -> Arc<ServerConfig> {
        self.leaf_of(names, (2020, 2100))
    }
}

pub struct TlsServer {
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<Option<String>>>>,
}

impl TlsServer {
    pub fn start(config: Arc<ServerConfig>) -> Self {
        Self::start_with(move |_| Arc::clone(&config))
    }

    /// Shows the result of `choose` for the handshake of this number, from 0.
    pub fn start_with(choose: impl Fn(usize) -> Arc<ServerConfig> + Send + 'static) -> Self {
        Self::answering(choose, "")
    }

    /// The same, and answers what is sent to it after the handshake, unless the answer is empty.
    pub fn answering(
        choose: impl Fn(usize) -> Arc<ServerConfig> + Send + 'static,
        answer: impl Into<String>,
    ) -> Self {
        let answer = answer.into();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let notes = Arc::clone(&asked);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        std::thread::spawn(move || {
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    let Ok(hello) = LazyConfigAcceptor::new(Acceptor::default(), stream).await else {
                        continue;
                    };
                    let number = {
                        let mut notes = notes.lock().unwrap();
                        notes.push(hello.client_hello().server_name().map(str::to_owned));
                        notes.len() - 1
                    };
                    // A client that refuses the certificate is no mistake here.
                    let Ok(mut stream) = hello.into_stream(choose(number)).await else { continue };
                    if !answer.is_empty() && stream.read(&mut [0; 4096]).await.is_ok_and(|read| read > 0) {
                        let _ = stream.write_all(answer.as_bytes()).await;
                        let _ = stream.shutdown().await;
                    }
                }
            });
        });
        Self { address, asked }
    }

    /// The server name of each handshake so far.
    pub fn asked(&self) -> Vec<Option<String>> {
        self.asked.lock().unwrap().clone()
    }
}

/// A port that was free a moment ago and that nothing listens on.
pub fn closed_port() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}
