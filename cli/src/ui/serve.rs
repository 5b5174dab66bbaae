//! The answers: who may ask is judged first, then the page is made from what is known.
//!
//! Every answer forbids a browser to keep it, to show it in another page, to run or load what is not of this program.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::rejection::{FormRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, Form, Path, Query, Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{Html, IntoResponse as _, Response};
use axum::routing::get;
use futures::{Stream, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1;
use kube::Api;
use kube::api::ListParams;
use maud::{Markup, html};
use serde::Deserialize;
use tokio::time::{sleep, timeout};
use weaver_api::v1beta1::ConfigMapSync;
use weaver_client::Objects;
use weaver_diagnostics::finding_text::clean;
use weaver_host::http_server::Caller;

use super::access::{Access, Admission};
use super::live::Live;
use super::page::explain::Recognised;
use super::page::sync::Comparison;
use super::page::{self, Frame};
use super::view::event::{EventView, events};
use super::view::matrix::{Selection, matrix};
use super::view::overview::{Resources, overview};
use crate::explain::recognise;
use crate::sync;

/// Most bytes of a text that is to be explained.
const LONGEST: usize = 512 << 10;
/// At least so long between two messages that something has changed.
const CALM: Duration = Duration::from_millis(500);
/// After that long a page is made again although nothing has changed: times are relative.
const TICK: Duration = Duration::from_secs(30);
/// For a comparison of source and copies.
const PATIENCE: Duration = Duration::from_secs(30);
/// Events of one resource that are listed.
const EVENTS: u32 = 200;

const NO_SYNC: &str = "There is no such ConfigMapSync, or it was deleted.";

/// Everything comes from this program, and nothing is in the page itself.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Of every answer.
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

/// What the answers are made from.
#[derive(Clone)]
pub struct App {
    pub access: Arc<Access>,
    pub live: Arc<Live>,
    /// The API server, as the person's kubeconfig has it.
    pub server: Arc<str>,
}

impl App {
    fn frame(&self) -> Frame<'_> {
        Frame {
            prefix: &self.access.prefix,
            now: Timestamp::now(),
            server: &self.server,
            namespace: self.live.namespace.as_deref(),
        }
    }
}

pub fn router(app: App) -> Router {
    let pages = Router::new()
        .route("/", get(overview_page))
        .route("/syncs", get(syncs_page))
        .route("/syncs/{namespace}/{name}", get(sync_page))
        .route("/syncs/{namespace}/{name}/compare", get(comparison_page))
        .route("/tokens", get(tokens_page))
        .route("/nodes", get(nodes_page))
        .route("/explain", get(explain_page).post(explained_page))
        .route("/events", get(changes))
        .route("/ui.css", get(|| async { asset("text/css; charset=utf-8", include_str!("assets/ui.css")) }))
        .route(
            "/ui.js",
            get(|| async { asset("text/javascript; charset=utf-8", include_str!("assets/ui.js")) }),
        )
        .route("/icon.svg", get(|| async { asset("image/svg+xml", include_str!("assets/icon.svg")) }))
        .layer(DefaultBodyLimit::max(LONGEST));
    let prefix = app.access.prefix.trim_end_matches('/').to_owned();
    // `nest` has no page at the slash itself.
    let router = Router::new().route(&app.access.prefix, get(overview_page)).nest(&prefix, pages);
    let router = router.fallback(|| async { absent("There is no such page.") });
    router.layer(middleware::from_fn_with_state(app.clone(), guard)).with_state(app)
}

/// Lets through who may ask.
async fn guard(State(app): State<App>, request: Request, next: Next) -> Response {
    let mut answer = match app.access.admit(request.method(), request.uri(), request.headers()) {
        Admission::Allowed => {
            // Anyone on this machine may open connections: that of live changes is the last to go.
            if let Some(caller) = request.extensions().get::<Caller>() {
                caller.mark_known();
            }
            next.run(request).await
        }
        Admission::First => {
            let cookie = HeaderValue::from_str(&app.access.cookie()).ok();
            let mut answer = html(StatusCode::OK, page::refused::entered(&app.access.prefix));
            answer.headers_mut().extend(cookie.map(|cookie| (header::SET_COOKIE, cookie)));
            answer
        }
        Admission::Refused(refusal) => html(StatusCode::FORBIDDEN, page::refused::refused(refusal.why())),
    };
    for (name, value) in HEADERS {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

fn html(status: StatusCode, page: Markup) -> Response {
    (status, Html(page.into_string())).into_response()
}

fn shown(page: Markup) -> Response {
    html(StatusCode::OK, page)
}

fn absent(why: &str) -> Response {
    html(StatusCode::NOT_FOUND, page::refused::bare("Not found", &html! { p { (why) } }))
}

fn asset(kind: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

async fn overview_page(State(app): State<App>) -> Response {
    app.live.ask();
    let (syncs, tokens, nodes) =
        (app.live.syncs.borrow().known(), app.live.tokens.borrow().known(), app.live.nodes.borrow().known());
    let resources = Resources { syncs: syncs.as_deref(), tokens: tokens.as_deref(), nodes: nodes.as_deref() };
    let frame = app.frame();
    let looked = app.live.looked.borrow();
    let made = overview(&looked.seen, &looked.first_seen, &resources, frame.now);
    shown(page::overview::overview(&frame, &made, looked.at))
}

async fn syncs_page(State(app): State<App>, selection: Result<Query<Selection>, QueryRejection>) -> Response {
    let Ok(Query(selection)) = selection else {
        return html(
            StatusCode::BAD_REQUEST,
            page::refused::bare(
                "Not understood",
                &html! {
                    p { "The address of this page has a part that is no number or no text." }
                },
            ),
        );
    };
    let (syncs, error, is_known) = {
        let snapshot = app.live.syncs.borrow();
        (snapshot.all(), snapshot.error.clone(), snapshot.objects.is_some())
    };
    let matrix = matrix(&syncs, &selection);
    shown(page::syncs::syncs(&app.frame(), &matrix, &selection, error.as_deref(), is_known))
}

/// An object as a path names it.
type Named = Path<(String, String)>;

async fn sync_page(State(app): State<App>, Path((namespace, name)): Named) -> Response {
    let (found, error) = {
        let snapshot = app.live.syncs.borrow();
        (snapshot.get(&namespace, &name), snapshot.error.clone())
    };
    let Some(found) = found else { return absent(NO_SYNC) };
    let said = said(&app, &namespace, &found.summary.uid).await;
    shown(page::sync::sync(&app.frame(), &found, &said, error.as_deref()))
}

/// The events of the object with this uid, or why they are not known.
async fn said(app: &App, namespace: &str, uid: &str) -> Result<Vec<EventView>, String> {
    let api: Api<v1::Event> = Api::namespaced(app.live.client.clone(), namespace);
    let params = ListParams::default().fields(&format!("involvedObject.uid={uid}")).limit(EVENTS);
    match timeout(weaver_client::call::DEADLINE, api.list(&params)).await {
        Ok(Ok(list)) => Ok(events(&list.items)),
        Ok(Err(error)) => Err(clean(&error.to_string())),
        Err(_) => Err("the API server gave no answer in time".to_owned()),
    }
}

async fn comparison_page(State(app): State<App>, Path((namespace, name)): Named) -> Response {
    // Nothing is asked for by a name that the API server has not said itself.
    if app.live.syncs.borrow().get(&namespace, &name).is_none() {
        return absent(NO_SYNC);
    }
    let lines = Mutex::new(Vec::new());
    let tell = |line: &str| lines.lock().unwrap_or_else(PoisonError::into_inner).push(clean(line));
    let done = timeout(PATIENCE, compare(&app, &namespace, &name, &tell)).await;
    let (role, error) = match done {
        Ok(Ok(role)) => (role, None),
        Ok(Err(error)) => (None, Some(clean(&format!("{error:#}")))),
        Err(_) => (
            None,
            Some(format!(
                "Not all was compared within {} s, and missing rights were not looked for: type weaver sync explain.",
                PATIENCE.as_secs()
            )),
        ),
    };
    let lines = lines.into_inner().unwrap_or_else(PoisonError::into_inner);
    shown(page::sync::compared(&app.frame(), &namespace, &name, &Comparison { lines, role, error }))
}

/// As `weaver sync explain` does it.
async fn compare(
    app: &App,
    namespace: &str,
    name: &str,
    tell: crate::missing::Tell<'_>,
) -> anyhow::Result<Option<String>> {
    let client = &app.live.client;
    let syncs: Objects<ConfigMapSync> = Objects::new(Api::namespaced(client.clone(), namespace), "weaver");
    let sync = syncs.read(name).await?;
    match sync::compare(client, &sync, tell).await {
        Some(compared) => sync::name_missing(client, &compared, tell).await,
        None => Ok(None),
    }
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

async fn explain_page(State(app): State<App>) -> Response {
    shown(page::explain::explain(&app.frame(), None))
}

#[derive(Deserialize)]
struct Pasted {
    text: String,
}

async fn explained_page(State(app): State<App>, pasted: Result<Form<Pasted>, FormRejection>) -> Response {
    let Ok(Form(Pasted { text })) = pasted else {
        let why = html! {
            p { "The text is longer than " (LONGEST >> 10) " KiB, or was not sent by this page's form." }
            p { "Type " code { "weaver explain < FILE" } " for a longer one." }
        };
        return html(StatusCode::BAD_REQUEST, page::refused::bare("Not understood", &why));
    };
    let (mut findings, mut known) = (Vec::new(), BTreeSet::new());
    let read = recognise(&mut text.as_bytes(), "your text", |finding| {
        if known.insert((finding.code, finding.message.clone())) {
            findings.push(finding);
        }
        Ok(())
    });
    match read {
        Ok(lines) => {
            let recognised = Recognised { text, lines, findings };
            shown(page::explain::explain(&app.frame(), Some(&recognised)))
        }
        Err(error) => html(
            StatusCode::INTERNAL_SERVER_ERROR,
            page::refused::bare(
                "Failed",
                &html! {
                    p { (clean(&format!("{error:#}"))) }
                },
            ),
        ),
    }
}

/// Says when there is something new to show; a page loads itself again then.
async fn changes(State(app): State<App>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let live = Arc::clone(&app.live);
    let receivers =
        (live.syncs.subscribe(), live.tokens.subscribe(), live.nodes.subscribe(), live.looked.subscribe());
    let changes = stream::unfold((live, receivers), async |(live, mut receivers)| {
        live.ask();
        // The senders live as long as the process.
        tokio::select! {
            _ = receivers.0.changed() => {}
            _ = receivers.1.changed() => {}
            _ = receivers.2.changed() => {}
            _ = receivers.3.changed() => {}
            () = sleep(TICK) => {}
        }
        sleep(CALM).await;
        receivers.0.mark_unchanged();
        receivers.1.mark_unchanged();
        receivers.2.mark_unchanged();
        receivers.3.mark_unchanged();
        Some((Ok(Event::default().event("change").data("")), (live, receivers)))
    });
    Sse::new(changes).keep_alive(KeepAlive::new())
}
