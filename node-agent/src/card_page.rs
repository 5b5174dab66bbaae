//! `page`: shows the last report to browsers, `http://NAME:9480/`. A program of its own, under a user of its own, which
//! systemd starts on the first connection and which exits when idle. Below `/docs/` it has the book of this build.
//!
//! Guarantees: it reads two files, which the agent has written for everyone, and parses none of them; it uses only
//! method and path of a request, and repeats neither; clients have the limits of [`weaver_host::http_server`]; where
//! only some of the card's addresses are configured, connections to the others are closed.
//!
//! Failure: without the file, or with one whose size is not that of our page, it shows that the node is starting. The
//! state in a word (`/state`, for `weaver find`) is that of an agent that lives: one that has not touched its file for
//! minutes is not reported any more.

use std::{
    fs::File,
    io::{self, Read as _},
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use axum::{
    Router,
    extract::{self, Request, State},
    http::{HeaderName, HeaderValue, StatusCode, header},
    middleware::{self, Next},
    response::{Html, IntoResponse as _, Response},
    routing::get,
};
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};
use weaver_book::pages;
use weaver_diagnostics::announcement::{NodeState, STATE_PATH};
use weaver_host::{
    http_server::{self, ConnectionLimits},
    page_style::{ICON, STYLE},
    service_manager,
    signals::Signals,
};

use crate::publish::html;

mod docs;

/// People with a browser each; a slow one keeps its connection while others wait for theirs.
static LIMITS: ConnectionLimits =
    ConnectionLimits { per_address: 8, drain: Duration::from_secs(2), ..ConnectionLimits::PAGES };

/// Everything comes from this program, nothing is in the page itself, and nothing can be sent.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'none'; base-uri 'none'; frame-ancestors 'none'";

/// How old the state may be: an agent that lives touches its file each half minute.
const SILENCE: Duration = Duration::from_mins(5);

/// The longest run while in use: after an upgrade the old program is replaced after this time at the latest.
const LONGEST: Duration = Duration::from_hours(1);

const HEADERS: [(HeaderName, &str); 7] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::CACHE_CONTROL, "no-store"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// What is shown, and to whom.
#[derive(Debug, Clone, clap::Args)]
pub struct PageArgs {
    /// Addresses of this host at which to serve it [default: all at which standard input listens].
    #[arg(long, env = "WEAVER_PAGE_LISTEN", value_name = "IP", value_delimiter = ',')]
    pub listen: Vec<IpAddr>,
    /// The page that the agent writes.
    #[arg(long, value_name = "FILE", default_value = html::FILE)]
    pub file: PathBuf,
    /// Exit after this long without a request.
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub idle_seconds: u64,
}

/// What all requests share.
#[derive(Debug)]
struct PageState {
    file: PathBuf,
    looked: Notify,
}

/// Serves until it is idle, or a signal ends it.
///
/// # Errors
/// Standard input is no listening socket, or the process lacks something fundamental.
pub async fn run(args: PageArgs) -> anyhow::Result<()> {
    let mut signals = Signals::install().context("listening for signals")?;
    let (listener, address) = http_server::inherited(io::stdin())
        .context("standard input is not a listening socket: start the unit weaver-page.socket")?;
    info!("the page is shown at {address}");
    let shared = Arc::new(PageState { file: args.file, looked: Notify::new() });
    let stop = CancellationToken::new();
    let is_served = |local| args.listen.is_empty() || args.listen.contains(&local);
    let serving =
        http_server::serve_at(listener, is_served, None, router(Arc::clone(&shared)), &LIMITS, stop.clone());
    let ends = async {
        tokio::select! {
            signal = signals.next() => debug!("{signal}"),
            () = idle(&shared.looked, Duration::from_secs(args.idle_seconds)) => {}
            () = sleep(LONGEST) => {}
        }
        // What arrives from now on waits at the socket, for the next of us.
        stop.cancel();
        std::future::pending::<()>().await;
    };
    service_manager::ready("showing the page");
    tokio::select! {
        () = serving => {}
        () = ends => {}
        () = service_manager::feed_watchdog(|| true) => {}
    }
    Ok(())
}

/// Returns when there was no request for `longest`.
async fn idle(looked: &Notify, longest: Duration) {
    while timeout(longest, looked.notified()).await.is_ok() {
        // No more often than that, whatever clients do.
        sleep(Duration::from_millis(100)).await;
    }
}

fn router(shared: Arc<PageState>) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/docs/", get(async || Html(docs::contents())))
        .route("/docs/{*path}", get(documentation))
        .route(STATE_PATH, get(state))
        .route("/style.css", get(async || text("text/css; charset=utf-8", STYLE)))
        .route(
            "/page.js",
            get(async || text("text/javascript; charset=utf-8", include_str!("card_page/page.js"))),
        )
        .route("/icon.svg", get(async || text("image/svg+xml", ICON)))
        .fallback(async || (StatusCode::NOT_FOUND, "There is no such page: open /\n"))
        .method_not_allowed_fallback(async || {
            (StatusCode::METHOD_NOT_ALLOWED, "There is nothing to send here.\n")
        })
        .layer(middleware::from_fn_with_state(Arc::clone(&shared), around))
        .with_state(shared)
}

async fn around(State(shared): State<Arc<PageState>>, request: Request, next: Next) -> Response {
    shared.looked.notify_one();
    let mut answer = next.run(request).await;
    for (name, value) in HEADERS {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

async fn documentation(extract::Path(path): extract::Path<String>) -> Response {
    match pages().find(|page| page.path == path) {
        Some(page) => Html(docs::page(page)).into_response(),
        None => (StatusCode::NOT_FOUND, "There is no such page of the documentation: open /docs/\n")
            .into_response(),
    }
}

async fn page(State(shared): State<Arc<PageState>>) -> Response {
    let page = read(&shared.file).unwrap_or_else(|| html::starting().into_bytes());
    ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], page).into_response()
}

async fn state(State(shared): State<Arc<PageState>>) -> Response {
    match fresh_state(&shared.file.with_extension("state")) {
        Some(state) => text("text/plain; charset=utf-8", state.word()),
        None => (StatusCode::SERVICE_UNAVAILABLE, "no recent report: systemctl status weaver-node-agent\n")
            .into_response(),
    }
}

/// The agent's state, if it is recent. After the clock was set back, no state counts as old.
fn fresh_state(file: &Path) -> Option<NodeState> {
    let file = File::open(file).ok()?;
    let age = file.metadata().and_then(|metadata| metadata.modified()).ok()?.elapsed().unwrap_or_default();
    let mut word = Vec::new();
    file.take(64).read_to_end(&mut word).ok()?;
    NodeState::read(&word).filter(|_| age <= SILENCE)
}

/// The page, if it is there and whole. It is in memory, so no thread waits for a disk.
fn read(file: &Path) -> Option<Vec<u8>> {
    let mut page = Vec::new();
    let most = u64::try_from(html::LIMIT).unwrap_or(u64::MAX);
    File::open(file).and_then(|file| file.take(most + 1).read_to_end(&mut page)).ok()?;
    (page.len() <= html::LIMIT).then_some(page)
}

fn text(kind: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}
