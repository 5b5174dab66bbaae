//! The webhook's port: TLS, and the limits of its clients.

use std::sync::Arc;

use axum::Router;
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::server::{NoServerSessionStorage, ResolvesServerCert};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use weaver_host::http_server::{self, ConnectionLimits};

/// The API server opens one connection and keeps it; several API servers, one each. What is left is for probes, the
/// installer and anyone who tries to keep these out.
pub const LIMITS: ConnectionLimits =
    ConnectionLimits { connections: 256, per_address: 64, ..ConnectionLimits::PAGES };

/// No request takes longer than a connection may be idle, or than one has at the end of its connection.
const _: () = assert!(
    super::refusal::DEADLINE.as_secs() < LIMITS.idle.as_secs()
        && super::refusal::DEADLINE.as_secs() < LIMITS.last_request.as_secs()
);

/// The server's side of TLS. The certificate is asked for at each handshake.
///
/// # Errors
/// Never with ring, which knows all versions and suites that are asked for.
pub fn tls(certificates: Arc<dyn ResolvesServerCert>) -> Result<TlsAcceptor, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(certificates);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // A resumed session would continue without seeing the new certificate.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Accepts connections until `stop`, then returns when the last one has ended.
pub async fn serve(listener: TcpListener, tls: TlsAcceptor, router: Router, stop: CancellationToken) {
    http_server::serve(listener, Some(tls), router, &LIMITS, stop).await;
}

#[cfg(test)]
mod tests {
    use super::LIMITS;

    #[test]
    fn the_limits_are_those_that_the_documentation_names() {
        assert_eq!((LIMITS.connections, LIMITS.per_address), (256, 64));
        assert_eq!((LIMITS.head.as_secs(), LIMITS.idle.as_secs(), LIMITS.age.as_secs()), (5, 30, 600));
    }
}
