//! The answers: first it is decided whether the request is allowed, then the page is made from what is known.
//!
//! Every answer forbids a browser to keep it, to show it in another page, and to run or load what is not from this
//! program.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::extract::rejection::{FormRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, Form, Path, Query, Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use futures::{Stream, stream};
use maud::html;
use serde::Deserialize;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use weaver_diagnostics::finding_text::clean;
use weaver_diagnostics::recognise::Recogniser;
use weaver_host::http_server::Caller;
use weaver_host::page_style::{ICON, STYLE};

use super::access::RequestAdmission;
use super::app::{App, html as answer, shown};
use super::granting::ConfirmedForm;
use super::page::explain::Recognised;
use super::page::{self, Tab, trouble};
use super::view::account::{AccountQuery, account, account_matrix};
use super::view::matrix::{MatrixQuery, matrix};
use super::view::overview::{ResourceViews, overview};
use super::view::sync::{SyncKey, SyncKind, SyncView};
use super::{comparing, granting, queries};
use crate::explain::recognise;

/// Most bytes of a text to explain.
const LONGEST: usize = 512 << 10;
/// The least time between two messages that something has changed.
const CALM: Duration = Duration::from_millis(500);
/// After this time a page is made again although nothing has changed: times are relative.
const TICK: Duration = Duration::from_secs(30);

/// Everything comes from this program, and nothing is inline.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 7] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::CACHE_CONTROL, "no-store"),
    // Without one, browsers would not say from which page a form comes.
    (header::REFERRER_POLICY, "same-origin"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

pub fn router(app: App) -> Router {
    let pages = Router::new()
        .route("/", get(overview_page))
        .route("/syncs", get(syncs_page))
        .merge(sync_pages(SyncKind::ConfigMap))
        .merge(sync_pages(SyncKind::Resource))
        .route("/accounts", get(accounts_page))
        .route("/accounts/{namespace}/{name}", get(account_page))
        .route("/tokens", get(tokens_page))
        .route("/nodes", get(nodes_page))
        .route("/nodes/{name}", get(node_page))
        .route("/explain", get(explain_page).post(explained_page))
        .route("/events", get(changes))
        .route("/ui.css", get(|| async { asset("text/css; charset=utf-8", STYLE) }))
        .route(
            "/ui.js",
            get(|| async { asset("text/javascript; charset=utf-8", include_str!("assets/ui.js")) }),
        )
        .route("/icon.svg", get(|| async { asset("image/svg+xml", ICON) }))
        // A form encodes each byte that is no letter as three.
        .layer(DefaultBodyLimit::max(3 * LONGEST + 1_024));
    let prefix = app.access.prefix.trim_end_matches('/').to_owned();
    // `nest` has no page at the slash itself.
    let router = Router::new().route(&app.access.prefix, get(overview_page)).nest(&prefix, pages);
    let router =
        router.fallback(async |State(app): State<App>| app.absent(Tab::Overview, "There is no such page."));
    router.layer(middleware::from_fn_with_state(app.clone(), guard)).with_state(app)
}

fn sync_pages(kind: SyncKind) -> Router<App> {
    let key = move |(namespace, name)| SyncKey { kind, namespace, name };
    let page = format!("/{}/{{namespace}}/{{name}}", kind.path());
    let shows = async move |State(app): State<App>, Path(of): ObjectPath| sync_page(app, key(of)).await;
    let compares = async move |State(app): State<App>, Path(of): ObjectPath| {
        comparing::comparison_page(app, key(of)).await
    };
    let asks = async move |State(app): State<App>, Path(of): ObjectPath| {
        granting::confirmation_page(app, key(of)).await
    };
    let grants = async move |State(app): State<App>, Path(of): ObjectPath, confirmed: ConfirmedForm| {
        granting::granted_page(app, key(of), confirmed).await
    };
    Router::new()
        .route(&page, get(shows))
        .route(&format!("{page}/compare"), get(compares))
        .route(&format!("{page}/grant"), get(asks).post(grants))
}

/// Passes on the requests that are allowed.
async fn guard(State(app): State<App>, request: Request, next: Next) -> Response {
    let mut answer = match app.access.admit(request.method(), request.uri(), request.headers()) {
        RequestAdmission::Allowed => {
            // Anyone on this machine may open connections: that of live changes is closed last.
            if let Some(caller) = request.extensions().get::<Caller>() {
                caller.mark_known();
            }
            understood(&app, next.run(request).await)
        }
        RequestAdmission::First => {
            let cookie = HeaderValue::from_str(&app.access.cookie()).ok();
            let mut answer = shown(page::refused::entered(&app.access.prefix));
            answer.headers_mut().extend(cookie.map(|cookie| (header::SET_COOKIE, cookie)));
            answer
        }
        RequestAdmission::Refused(refusal) => {
            answer(StatusCode::FORBIDDEN, page::refused::refused(refusal.why()))
        }
    };
    for (name, value) in HEADERS {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// A request that is refused before a page is made, such as one with an invalid address, gets a page with the menu all
/// the same.
fn understood(app: &App, answer: Response) -> Response {
    let is_page = answer
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
    if is_page || !answer.status().is_client_error() {
        return answer;
    }
    let why = html! { p { "These pages have no such address, or do not accept what was sent to it." } };
    let mut page = app.failed(answer.status(), Tab::Overview, "Not understood", &why);
    if let Some(methods) = answer.headers().get(header::ALLOW) {
        page.headers_mut().insert(header::ALLOW, methods.clone());
    }
    page
}

fn asset(kind: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

async fn overview_page(State(app): State<App>) -> Response {
    app.live.ask();
    let syncs = app.live.known_syncs();
    let (tokens, nodes) = (app.live.tokens.borrow().known(), app.live.nodes.borrow().known());
    let resources =
        ResourceViews { syncs: syncs.as_deref(), tokens: tokens.as_deref(), nodes: nodes.as_deref() };
    let frame = app.frame();
    let looked = app.live.looked.borrow();
    let made = overview(&looked.seen, &looked.first_seen, &resources, frame.now);
    shown(page::overview::overview(&frame, &made, looked.at))
}

async fn syncs_page(
    State(app): State<App>,
    selection: Result<Query<MatrixQuery>, QueryRejection>,
) -> Response {
    let Ok(Query(selection)) = selection else {
        let why = html! { p { "The address of this page has an invalid part." } };
        return app.failed(StatusCode::BAD_REQUEST, Tab::Syncs, "Not understood", &why);
    };
    let (unknown, is_known) = app.unknown(false);
    let syncs = app.live.known_syncs().unwrap_or_default();
    let matrix = matrix(&syncs, &selection);
    shown(page::syncs::syncs(&app.frame(), &matrix, &selection, &unknown, is_known))
}

type ObjectPath = Path<(String, String)>;

async fn sync_page(app: App, key: SyncKey) -> Response {
    // Only names that the API server has reported are used in requests.
    let Some(brief) = app.live.sync(&key) else { return app.no_sync(key.kind) };
    let error = app.live.of(key.kind).borrow().error.clone();
    let about = format!("involvedObject.uid={}", brief.summary.uid);
    let (whole, said) =
        tokio::join!(queries::details(&app, &brief), queries::said(&app, &key.namespace, &about));
    let what = format!("{}s", key.kind.name());
    let unknown = html! {
        (trouble(error.as_deref(), &what, true))
        @if let Err(why) = &whole {
            p.trouble { "It could not be read with your rights, so conditions and messages are left out: " (why) }
        }
    };
    let whole = whole.unwrap_or_else(|_| SyncView::clone(&brief));
    shown(page::sync::sync(&app.frame(), &whole, &said, &unknown))
}

async fn accounts_page(State(app): State<App>, Query(search): Query<AccountQuery>) -> Response {
    let (unknown, is_known) = app.unknown(true);
    let (syncs, tokens) = (app.live.known_syncs().unwrap_or_default(), app.live.tokens.borrow().all());
    let matrix = account_matrix(&syncs, &tokens, &search);
    shown(page::accounts::accounts(&app.frame(), &matrix, &search, &unknown, is_known))
}

/// The namespace in which the rights of an account are reviewed.
#[derive(Default, Deserialize)]
struct NamespaceQuery {
    r#in: Option<String>,
}

async fn account_page(
    State(app): State<App>,
    Path((namespace, name)): ObjectPath,
    asked: Result<Query<NamespaceQuery>, QueryRejection>,
) -> Response {
    let (unknown, is_known) = app.unknown(true);
    let (syncs, tokens) = (app.live.known_syncs().unwrap_or_default(), app.live.tokens.borrow().all());
    let Some(found) = account(&syncs, &tokens, &namespace, &name) else {
        let why = "No sync and no ServiceToken uses an account of this name.";
        return if is_known {
            app.absent(Tab::Accounts, why)
        } else {
            app.failed(StatusCode::SERVICE_UNAVAILABLE, Tab::Accounts, "Not known", &unknown)
        };
    };
    // Only in a namespace that the API server has reported.
    let within = asked
        .ok()
        .and_then(|Query(asked)| asked.r#in)
        .filter(|within| found.namespaces().contains(within.as_str()));
    let reviewed = match within {
        Some(within) => Some(queries::reviewed(&app, &found, within).await),
        None => None,
    };
    shown(page::accounts::account(&app.frame(), &found, reviewed.as_ref(), &unknown))
}

async fn tokens_page(State(app): State<App>) -> Response {
    let snapshot = app.live.tokens.borrow();
    let (error, is_known) = (snapshot.error.as_deref(), snapshot.objects.is_some());
    shown(page::tokens::tokens(&app.frame(), &snapshot.all(), error, is_known))
}

async fn nodes_page(State(app): State<App>) -> Response {
    let snapshot = app.live.nodes.borrow();
    let (error, is_known) = (snapshot.error.as_deref(), snapshot.objects.is_some());
    shown(page::nodes::nodes(&app.frame(), &snapshot.all(), error, is_known))
}

async fn node_page(State(app): State<App>, Path(name): Path<String>) -> Response {
    let (found, error) = {
        let snapshot = app.live.nodes.borrow();
        (snapshot.get("", &name), snapshot.error.clone())
    };
    // Only names that the API server has reported are used in requests.
    let Some(found) = found else {
        return app.not_in(Tab::Nodes, &app.live.nodes, "NodeReports", "No node of this name has reported.");
    };
    let about = format!("involvedObject.kind=Node,involvedObject.name={name}");
    let said = queries::said(&app, "default", &about).await;
    shown(page::boot::node(&app.frame(), &found, &said, error.as_deref()))
}

async fn explain_page(State(app): State<App>) -> Response {
    shown(page::explain::explain(&app.frame(), None))
}

#[derive(Deserialize)]
struct Pasted {
    text: String,
}

async fn explained_page(State(app): State<App>, pasted: Result<Form<Pasted>, FormRejection>) -> Response {
    let pasted = pasted.ok().filter(|Form(Pasted { text })| text.len() <= LONGEST);
    let Some(Form(Pasted { text })) = pasted else {
        let why = html! {
            p { "The text is longer than " (LONGEST >> 10) " KiB, or was not sent by this page's form." }
            p { "Type " code { "weaver explain < FILE" } " for a longer one." }
        };
        return app.failed(StatusCode::BAD_REQUEST, Tab::Explain, "Not understood", &why);
    };
    // A text of many long lines would keep the pages of others waiting.
    let read =
        spawn_blocking(move || recognised(text)).await.context("the thread that reads the text").flatten();
    match read {
        Ok(recognised) => shown(page::explain::explain(&app.frame(), Some(&recognised))),
        Err(error) => {
            let why = html! { p { (clean(&format!("{error:#}"))) } };
            app.failed(StatusCode::INTERNAL_SERVER_ERROR, Tab::Explain, "Failed", &why)
        }
    }
}

/// What is recognised in a text, each finding once.
fn recognised(text: String) -> anyhow::Result<Recognised> {
    // The form that is compiled once in a process: a text is short.
    let signatures = Recogniser::new().context("the signatures")?;
    let (mut findings, mut known) = (Vec::new(), BTreeSet::new());
    let lines = recognise(&signatures, &mut text.as_bytes(), "your text", |finding| {
        if known.insert((finding.code, finding.message.clone())) {
            findings.push(finding);
        }
        Ok(())
    })?;
    Ok(Recognised { text, lines, findings })
}

/// Reports when there is something new to show; a page then reloads itself.
async fn changes(State(app): State<App>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let live = Arc::clone(&app.live);
    let receivers = (
        live.syncs.subscribe(),
        live.resource_syncs.subscribe(),
        live.tokens.subscribe(),
        live.nodes.subscribe(),
        live.looked.subscribe(),
    );
    let changes = stream::unfold((live, receivers), async |(live, mut receivers)| {
        live.ask();
        // The senders live as long as the process.
        tokio::select! {
            _ = receivers.0.changed() => {}
            _ = receivers.1.changed() => {}
            _ = receivers.2.changed() => {}
            _ = receivers.3.changed() => {}
            _ = receivers.4.changed() => {}
            () = sleep(TICK) => {}
        }
        sleep(CALM).await;
        receivers.0.mark_unchanged();
        receivers.1.mark_unchanged();
        receivers.2.mark_unchanged();
        receivers.3.mark_unchanged();
        receivers.4.mark_unchanged();
        // A browser drops a message without data.
        Some((Ok(Event::default().event("change").data("new")), (live, receivers)))
    });
    Sse::new(changes).keep_alive(KeepAlive::new())
}
