//! What every answer is made from, and the forms that answers have.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::{Html, IntoResponse as _, Response};
use jiff::Timestamp;
use maud::{Markup, html};
use tokio::sync::watch;

use super::access::Access;
use super::confirm::Confirmations;
use super::live::Live;
use super::page::{Frame, Tab, trouble};
use super::view::snapshot::Snapshot;
use crate::grant::Part;

/// What the answers are made from.
#[derive(Clone)]
pub struct App {
    pub access: Arc<Access>,
    pub live: Arc<Live>,
    /// The API server, as the user's kubeconfig has it.
    pub server: Arc<str>,
    /// What is to be granted, once a user agrees.
    pub confirmations: Arc<Confirmations<Vec<Part>>>,
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

    /// That there is no such ConfigMapSync, as far as they are known.
    pub fn no_sync(&self) -> Response {
        let why = "There is no such ConfigMapSync, or it was deleted.";
        self.not_in(Tab::Syncs, &self.live.syncs, "ConfigMapSyncs", why)
    }

    /// That a page or an object is not there.
    pub fn absent(&self, tab: Tab, why: &str) -> Response {
        self.failed(StatusCode::NOT_FOUND, tab, "Not found", &html! { p { (why) } })
    }

    /// That an object is not there, as far as this kind is known.
    pub fn not_in<T>(&self, tab: Tab, kind: &watch::Sender<Snapshot<T>>, what: &str, why: &str) -> Response {
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

    /// Anything else that is no answer to what was asked.
    pub fn failed(&self, status: StatusCode, tab: Tab, title: &str, why: &Markup) -> Response {
        html(status, self.frame().page(tab, title, false, why))
    }
}

pub fn html(status: StatusCode, page: Markup) -> Response {
    (status, Html(page.into_string())).into_response()
}

pub fn shown(page: Markup) -> Response {
    html(StatusCode::OK, page)
}
