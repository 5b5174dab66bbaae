//! `weaver-operator webhook`: converts our objects between their versions, for the API server.
//!
//! A process of its own that has no credential, calls no server and waits for none: a closed fence, a stopped operator
//! or a lost lease never stop conversion, without which the API server can neither list nor write objects at the other
//! version. What it needs is one file, which the installer writes.
//!
//! - [`answer`] has the two paths; [`refusal`] says why a request is refused.
//! - [`leaf`] has the certificate, read again when it is replaced.
//! - [`arrival`] has the bodies while they arrive or are taken, and their memory.
//! - [`weight`] says what a body takes when it is parsed.
//! - [`serve`] has TLS and what clients may have; the connections are [`weaver_host::http_server`]'s.

pub mod answer;
pub mod arrival;
pub mod leaf;
pub mod refusal;
pub mod serve;
pub mod weight;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::info;

use self::leaf::{CertificateFile, CertificateSlot};
use crate::log_code;
use weaver_api::webhook::{DIRECTORY, LEAF};
use weaver_host::signals::Signals;
use weaver_host::{http_server, service_manager};

/// Where the webhook listens on a card.
pub const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9443);

#[derive(Clone, Debug, clap::Args)]
pub struct WebhookOptions {
    /// Address and port to listen on
    #[arg(long, value_name = "ADDR", default_value_t = LISTEN)]
    pub listen: SocketAddr,

    /// Use standard input as the listening socket, for systemd's `StandardInput=socket`
    #[arg(long, conflicts_with = "listen")]
    pub socket_on_stdin: bool,

    /// Directory of leaf.pem, the certificate and its key
    #[arg(long, value_name = "DIR", default_value = DIRECTORY)]
    pub certificates: PathBuf,
}

/// Why the webhook cannot run.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// The address is another program's, or not this machine's.
    #[error(
        "cannot listen on {address}: end the program that does (`ss -ltnp`), or pass --listen ADDR and tell \
         the \
         API server (`weaver crd install --webhook https://ADDR/convert`)"
    )]
    Listen {
        address: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
    /// Standard input is no listening socket.
    #[error(
        "standard input is not a listening socket: start the unit weaver-webhook.socket, or pass --listen \
         ADDR instead of --socket-on-stdin"
    )]
    Inherited(#[source] io::Error),
    /// No TLS with this build.
    #[error("setting up TLS")]
    Tls(#[from] rustls::Error),
    #[error("listening for signals")]
    Signals(#[source] io::Error),
}

/// Serves until SIGTERM or SIGINT, then lets requests under way end, for ten seconds at most.
///
/// # Errors
/// Before it serves: the address is not available, or the process lacks something fundamental.
pub async fn run(options: WebhookOptions) -> Result<(), WebhookError> {
    let mut signals = Signals::install().map_err(WebhookError::Signals)?;
    let (listener, address) = if options.socket_on_stdin {
        http_server::inherited(io::stdin()).map_err(WebhookError::Inherited)?
    } else {
        let failed = |source| WebhookError::Listen { address: options.listen, source };
        let listener = TcpListener::bind(options.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        (listener, address)
    };
    info!(code = log_code::WEBHOOK_LISTENING, %address, version = env!("CARGO_PKG_VERSION"), "listening");

    // Without a certificate every handshake fails at once, which is clearer to a client than silence.
    let slot = Arc::new(CertificateSlot::default());
    let tls = serve::tls(slot.clone())?;
    let stop = CancellationToken::new();
    let serving = serve::serve(listener, tls, answer::router(), stop.clone());
    let following = CertificateFile::new(options.certificates.join(LEAF)).follow(&slot, || {
        service_manager::ready("converting between versions");
    });
    let ends = async {
        info!(code = log_code::STOPPING, "{}: finishing requests under way", signals.next().await);
        stop.cancel();
        // The certificate is followed until the last connection is gone.
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = serving => {}
        () = following => {}
        () = ends => {}
        // In the task of the accept loop, and so fed only while that comes round.
        () = service_manager::feed_watchdog(|| true) => {}
    }
    Ok(())
}
