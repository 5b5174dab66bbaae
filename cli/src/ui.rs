//! `weaver ui`: the state of the cluster, in a browser on this machine, with the rights of the user.
//!
//! Nothing is written but what a user has seen and confirmed: see [`confirm`], and [`access`] for who may request a
//! page.

mod access;
mod app;
mod command_log;
mod comparing;
mod confirm;
#[cfg(test)]
mod contrast;
mod granting;
mod live;
mod open;
mod own_rights;
mod page;
mod queries;
mod recent;
mod serve;
mod view;

use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use weaver_host::http_server::{self, ConnectionLimits};
use weaver_host::platform::Signals;

use crate::connection;
use crate::stdout::{note, print};
use access::UiAccess;
use app::App;
use live::Live;
use serve::router;

/// An open page has one request for hours: the stream of changes.
const LIMITS: ConnectionLimits = ConnectionLimits {
    connections: 64,
    per_address: 64,
    head: Duration::from_secs(10),
    idle: Duration::from_hours(12),
    age: Duration::from_hours(12),
    last_request: Duration::from_secs(1),
    drain: Duration::from_secs(1),
};

#[derive(Args)]
pub struct UiArgs {
    /// Port on 127.0.0.1 [default: one that is free]
    #[arg(long, value_name = "PORT", default_value_t, hide_default_value = true)]
    port: u16,
    /// Only print the address
    #[arg(long)]
    no_browser: bool,
    /// Show only this namespace [default: all]
    #[arg(short, long)]
    namespace: Option<String>,
}

pub async fn run(options: &UiArgs) -> anyhow::Result<ExitCode> {
    connection::keep_context();
    let config = connection::config().await?;
    let url = &config.cluster_url;
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let server = format!("{}{port}", url.host().unwrap_or_default());
    let client = connection::client_by(config)?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, options.port));
    let listener = TcpListener::bind(address).await.with_context(|| {
        format!("cannot listen on {address}: pass --port with one that is free, or none for any")
    })?;
    let port = listener.local_addr().context("asking for the port")?.port();
    let access = Arc::new(UiAccess::new(port)?);
    let live = Live::start(client, options.namespace.clone());
    let app = App {
        access: Arc::clone(&access),
        live,
        server: server.into(),
        confirmations: Arc::default(),
        histories: Arc::default(),
        syncs: Arc::default(),
    };
    let router = router(app);
    let stop = CancellationToken::new();
    let serving = tokio::spawn(http_server::serve(listener, None, router, &LIMITS, stop.clone()));

    print(&format!("{}\n", access.address()))?;
    note!("the address works once, and opens pages for this browser until Ctrl-C");
    let mut signals = Signals::install().context("cannot wait for Ctrl-C")?;
    // Removed when it ends.
    let _leading = if options.no_browser { None } else { opened(&access.address()) };
    signals.next().await;
    stop.cancel();
    serving.await.context("ending the pages")?;
    Ok(ExitCode::SUCCESS)
}

/// Opens the page, or asks the user to.
fn opened(address: &str) -> Option<tempfile::NamedTempFile> {
    match open::browser(address) {
        Ok(None) => {
            note!("no desktop found: open the address in a browser of this machine");
            None
        }
        Ok(file) => file,
        Err(error) => {
            note!("{error:#}: open the address in a browser");
            None
        }
    }
}
