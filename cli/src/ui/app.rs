//! What every answer is made from, and the forms that answers have.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::{Html, IntoResponse as _, Response};
use jiff::Timestamp;
use maud::{Markup, html};

use super::access::Access;
use super::confirm::Confirmations;
use super::live::Live;
use super::page::{Frame, Tab};
use crate::grant::Part;

pub const NO_SYNC: &str = "There is no such ConfigMapSync, or it was deleted.";

/// What the answers are made from.
#[derive(Clone)]
pub struct App {
    pub access: Arc<Access>,
    pub live: Arc<Live>,
    /// The API server, as the person's kubeconfig has it.
    pub server: Arc<str>,
    /// What is to be granted, once a person agrees.
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

    /// That a page or an object is not there.
    pub fn absent(&self, tab: Tab, why: &str) -> Response {
        self.failed(StatusCode::NOT_FOUND, tab, "Not found", &html! { p { (why) } })
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
