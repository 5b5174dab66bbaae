//! The data that every answer is made from, and the kinds of answers.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::{Html, IntoResponse as _, Response};
use jiff::Timestamp;
use maud::{Markup, html};
use tokio::sync::watch;

use super::access::UiAccess;
use super::confirm::Confirmations;
use super::live::Live;
use super::page::{Frame, KindState, Tab, trouble, troubles};
use super::recent::Recent;
use super::view::event::History;
use super::view::snapshot::KindSnapshot;
use super::view::sync::{SyncKind, SyncView};
use crate::grant::GrantObject;

/// What the answers are made from.
#[derive(Clone)]
pub struct App {
    pub access: Arc<UiAccess>,
    pub live: Arc<Live>,
    /// Name or address and port of the API server, as the user's kubeconfig has them.
    pub server: Arc<str>,
    /// What will be granted, once a user agrees.
    pub confirmations: Arc<Confirmations<Vec<GrantObject>>>,
    /// What was requested to show one object.
    pub histories: Arc<Recent<History>>,
    pub syncs: Arc<Recent<SyncView>>,
}

impl App {
    pub fn frame(&self) -> Frame<'_> {
        Frame {
            prefix: &self.access.prefix,
            now: Timestamp::now(),
            run: &self.access.run,
            server: &self.server,
            namespace: self.live.namespace.as_deref(),
        }
    }

    /// Answers that there is no such sync, as far as the syncs are known.
    pub fn no_sync(&self, kind: SyncKind) -> Response {
        let why = format!("There is no such {}, or it was deleted.", kind.name());
        self.not_in(Tab::Syncs, self.live.of(kind), &format!("{}s", kind.name()), &why)
    }

    /// Notes on what is not known of the syncs, and of the ServiceTokens where the page has them; is all of it?
    pub fn unknown(&self, has_tokens: bool) -> (Markup, bool) {
        let (syncs, resources) = (self.live.syncs.borrow(), self.live.resource_syncs.borrow());
        let tokens = self.live.tokens.borrow();
        let mut kinds = vec![known("ConfigMapSyncs", &syncs), known("ResourceSyncs", &resources)];
        if has_tokens {
            kinds.push(known("ServiceTokens", &tokens));
        }
        (troubles(&kinds), kinds.iter().all(|kind| kind.was_listed))
    }

    /// Answers that a page or an object is not there.
    pub fn absent(&self, tab: Tab, why: &str) -> Response {
        self.failed(StatusCode::NOT_FOUND, tab, "Not found", &html! { p { (why) } })
    }

    /// Answers that an object is not there, as far as this kind is known.
    pub fn not_in<T>(
        &self,
        tab: Tab,
        kind: &watch::Sender<KindSnapshot<T>>,
        what: &str,
        why: &str,
    ) -> Response {
        let (is_known, error) = {
            let snapshot = kind.borrow();
            (snapshot.objects.is_some(), snapshot.error.clone())
        };
        if is_known {
            return self.absent(tab, why);
        }
        let why = trouble(error.as_deref(), what, false);
        self.failed(StatusCode::SERVICE_UNAVAILABLE, tab, "Not known", &why)
    }

    /// Any other failed request.
    pub fn failed(&self, status: StatusCode, tab: Tab, title: &str, why: &Markup) -> Response {
        html(status, self.frame().page(tab, title, false, why))
    }
}

fn known<'a, T>(what: &'a str, snapshot: &'a KindSnapshot<T>) -> KindState<'a> {
    KindState { what, error: snapshot.error.as_deref(), was_listed: snapshot.objects.is_some() }
}

pub fn html(status: StatusCode, page: Markup) -> Response {
    (status, Html(page.into_string())).into_response()
}

pub fn shown(page: Markup) -> Response {
    html(StatusCode::OK, page)
}
