//! Serves metrics and health over plain HTTP, usually on the loopback interface.
//!
//! If the port is in use, logs how to change it and retries; never fails startup.

use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::http_server::{self, ConnectionLimits};
use crate::log_code;

/// Content type of what is served: the text form of `OpenMetrics`.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Pause before the port is tried again.
const PAUSE: Duration = Duration::from_mins(1);

/// Where a program serves its metrics, or nowhere. As text: an address and a port, or `none`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MetricsAddress(pub Option<SocketAddr>);

/// The text is no [`MetricsAddress`].
#[derive(Debug, thiserror::Error)]
#[error("use an address and a port, such as 127.0.0.1:9445, or none")]
pub struct NotAnAddress;

impl FromStr for MetricsAddress {
    type Err = NotAnAddress;

    fn from_str(text: &str) -> Result<Self, NotAnAddress> {
        match text {
            "none" | "" => Ok(Self(None)),
            _ => text.parse().map(|address| Self(Some(address))).map_err(|_| NotAnAddress),
        }
    }
}

/// The page `/metrics`, with what `text` says.
pub fn page(text: impl Fn() -> String + Clone + Send + Sync + 'static) -> Router {
    Router::new().route("/metrics", get(move || async move { ([(CONTENT_TYPE, OPENMETRICS)], text()) }))
}

/// Serves these pages forever; `remedy` is what to do where the address is not available.
pub async fn serve(address: SocketAddr, remedy: &str, pages: Router) {
    let listener = loop {
        match TcpListener::bind(address).await {
            Ok(listener) => break listener,
            Err(error) => {
                warn!(
                    code = log_code::METRICS_NOT_SERVED, %address, %error,
                    "no metrics endpoint: the address is not available; {remedy}"
                );
                tokio::time::sleep(PAUSE).await;
            }
        }
    };
    if let Ok(address) = listener.local_addr() {
        info!(code = log_code::METRICS_SERVED, %address, "metrics are served at /metrics");
    }
    // Anyone who drops this future ends all of it.
    http_server::serve(listener, None, pages, &ConnectionLimits::PAGES, CancellationToken::new()).await;
}
