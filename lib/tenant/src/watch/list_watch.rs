//! Lists objects and follows what happens to them, with the requests, events, errors and time limits of kube's
//! [`watcher`](kube::runtime::watcher()).
//!
//! kube's own holds 12 KiB for each watch at rest, 8 of them a buffer for the next line, and a [`kube::Client`] for as
//! long as it lasts: 10 to 20 KiB more for each account. Here a line takes memory while it arrives, what a request
//! needs is freed with its answer, and each request has a client of its own.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;
use std::{io, iter, vec};

use futures::AsyncBufReadExt as _;
use futures::stream::{self, BoxStream, Stream, StreamExt as _};
use http::HeaderValue;
use http::header::ACCEPT_ENCODING;
use kube::Resource;
use kube::api::{ListParams, Request, VersionMatch, WatchEvent, WatchParams};
use kube::core::ObjectList;
use kube::runtime::watcher::{Error, Event};
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use weaver_client::call::is_too_large;

use crate::access_cache::AccessCache;

/// A watch whose end does not arrive is ended here, so much later than by the API server.
const MARGIN: Duration = Duration::from_secs(5);

/// So many causes of an error are looked at: one may be its own.
const CAUSES: usize = 16;

/// What is listed and watched: metadata only.
#[derive(Clone)]
pub struct ListWatch {
    /// Path of the collection.
    pub path: String,
    /// Label selector.
    pub labels: Option<String>,
    /// Field selector.
    pub fields: Option<String>,
    /// Objects in a page of the list. Without it the list is whole, from the API server's own memory; pages are not
    /// available from there.
    pub page: Option<u32>,
    /// Seconds that a watch lasts; 0: for as long as the API server lets it.
    pub length: u32,
}

type Item<T> = Result<Event<T>, Error>;

type Lines = BoxStream<'static, io::Result<String>>;

/// What is to be shown, if anything, and what follows.
type Stepped<T> = (Option<Item<T>>, Phase<T>);

/// Where it is in a list, or in the watch after it.
enum Phase<T> {
    Begun,
    Listing(Page<T>),
    Listed { version: String },
    Watching { version: String, lines: Lines },
}

/// What is left of a page of the list.
struct Page<T> {
    objects: vec::IntoIter<T>,
    /// Token for what comes after it.
    rest: Option<String>,
    /// Of the list; unknown before the first page.
    version: Option<String>,
}

/// What is there, and then what happens, without end. After a failure it continues when it is polled again: it pauses
/// only [`with_backoff`](super::with_backoff).
///
/// `started` is called each time that a watch has started: nothing was missed since the list, or since the watch before.
/// kube's has no event for it, so who learnt of a failure would not learn of its end.
pub fn events<T, F>(access: Arc<AccessCache>, of: ListWatch, started: F) -> impl Stream<Item = Item<T>> + Send
where
    T: Resource + Clone + DeserializeOwned + Send + 'static,
    F: Fn() + Send + Sync + 'static,
{
    stream::unfold((access, of, started, Phase::Begun), |(access, of, started, phase)| async move {
        let (event, phase) = of.advance(&access, &started, phase).await;
        Some((event, (access, of, started, phase)))
    })
}

impl ListWatch {
    /// The next event. Requests are boxed: they are large and seldom, and a watch at rest is not to be as large.
    async fn advance<T>(
        &self,
        access: &AccessCache,
        started: &(impl Fn() + Sync),
        mut phase: Phase<T>,
    ) -> (Item<T>, Phase<T>)
    where
        T: Resource + Clone + DeserializeOwned,
    {
        loop {
            let (event, after) = match phase {
                Phase::Begun => {
                    let page = Page { objects: Vec::new().into_iter(), rest: None, version: None };
                    (Some(Ok(Event::Init)), Phase::Listing(page))
                }
                Phase::Listing(mut page) => match page.objects.next() {
                    Some(object) => (Some(Ok(Event::InitApply(object))), Phase::Listing(page)),
                    None => match (page.rest, page.version) {
                        (None, Some(version)) => (Some(Ok(Event::InitDone)), Phase::Listed { version }),
                        (rest, _) => Box::pin(self.list(access, rest)).await,
                    },
                },
                Phase::Listed { version } => match Box::pin(self.watch(access, &version)).await {
                    Ok(lines) => {
                        started();
                        (None, Phase::Watching { version, lines })
                    }
                    Err(error) => (Some(Err(Error::WatchStartFailed(error))), Phase::Listed { version }),
                },
                Phase::Watching { version, mut lines } => match self.line(&mut lines).await {
                    Some(line) => read(line, version, lines),
                    None => (None, Phase::Listed { version }),
                },
            };
            if let Some(event) = event {
                return (event, after);
            }
            phase = after;
        }
    }

    async fn list<T>(&self, access: &AccessCache, rest: Option<String>) -> Stepped<T>
    where
        T: Clone + DeserializeOwned,
    {
        let list = match self.page::<T>(access, rest).await {
            Ok(list) => list,
            Err(error) => return (Some(Err(Error::InitialListFailed(error))), Phase::Begun),
        };
        let known = |text: Option<String>| text.filter(|text| !text.is_empty());
        let (rest, version) = (known(list.metadata.continue_), known(list.metadata.resource_version));
        if rest.is_none() && version.is_none() {
            return (Some(Err(Error::NoResourceVersion)), Phase::Begun);
        }
        (None, Phase::Listing(Page { objects: list.items.into_iter(), rest, version }))
    }

    async fn page<T>(&self, access: &AccessCache, rest: Option<String>) -> kube::Result<ObjectList<T>>
    where
        T: Clone + DeserializeOwned,
    {
        let params = ListParams {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            limit: self.page,
            continue_token: rest,
            version_match: Some(VersionMatch::NotOlderThan),
            resource_version: Some("0".to_owned()),
            ..ListParams::default()
        };
        let request = Request::new(self.path.as_str()).list_metadata(&params);
        let answer = access.client().request(request.map_err(kube::Error::BuildRequest)?).await;
        learn(access, answer.as_ref().err());
        answer
    }

    /// The lines of a watch on what happens after `version`.
    async fn watch(&self, access: &AccessCache, version: &str) -> kube::Result<Lines> {
        let params = WatchParams {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            timeout: Some(self.length),
            ..WatchParams::default()
        };
        let request = Request::new(self.path.as_str()).watch_metadata(&params, version);
        let mut request = request.map_err(kube::Error::BuildRequest)?;
        // From Kubernetes 1.37 on each event is compressed by itself, and decompression would end after the first.
        request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let answer = access.client().request_stream(request).await;
        learn(access, answer.as_ref().err());
        Ok(answer?.lines().boxed())
    }

    /// The next line; none where the watch has ended, or should have.
    async fn line(&self, lines: &mut Lines) -> Option<io::Result<String>> {
        if self.length == 0 {
            return lines.next().await;
        }
        let longest = Duration::from_secs(u64::from(self.length)) + MARGIN;
        timeout(longest, lines.next()).await.ok().flatten()
    }
}

/// What a request that failed with this, or did not, shows of the API server. What a tenant can cause shows nothing: a
/// refusal, a list that is too long, a conversion webhook that fails.
fn learn(access: &AccessCache, error: Option<&kube::Error>) {
    match error {
        None => access.reaches_server(),
        Some(kube::Error::Api(status)) if status.code != 503 => {}
        Some(error) if is_too_large(error) => {}
        Some(_) => access.loses_server(),
    }
}

/// What a line of a watch says.
fn read<T>(line: io::Result<String>, version: String, lines: Lines) -> Stepped<T>
where
    T: Resource + DeserializeOwned,
{
    let line = match line {
        Ok(line) => line,
        Err(error) if is_early_end(&error) => return (None, Phase::Listed { version }),
        Err(error) => {
            let error = Error::WatchFailed(kube::Error::ReadEvents(error));
            return (Some(Err(error)), Phase::Listed { version });
        }
    };
    match serde_json::from_str::<WatchEvent<T>>(&line) {
        Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => changed(Event::Apply, object, lines),
        Ok(WatchEvent::Deleted(object)) => changed(Event::Delete, object, lines),
        Ok(WatchEvent::Bookmark(bookmark)) => {
            (None, Phase::Watching { version: bookmark.metadata.resource_version, lines })
        }
        Ok(WatchEvent::Error(status)) => {
            // What happened after that version is not known any more.
            let is_gone = status.code == 410;
            let after = if is_gone { Phase::Begun } else { Phase::Watching { version, lines } };
            (Some(Err(Error::WatchError(status))), after)
        }
        // It was cut off by the end.
        Err(error) if error.is_eof() => (None, Phase::Watching { version, lines }),
        Err(error) => {
            let error = serde_json::from_str(&line).map_or(kube::Error::SerdeError(error), kube::Error::Api);
            (Some(Err(Error::WatchFailed(error))), Phase::Watching { version, lines })
        }
    }
}

fn changed<T: Resource>(event: fn(T) -> Event<T>, object: T, lines: Lines) -> Stepped<T> {
    let version = object.meta().resource_version.clone().filter(|version| !version.is_empty());
    match version {
        Some(version) => (Some(Ok(event(object))), Phase::Watching { version, lines }),
        None => (Some(Err(Error::NoResourceVersion)), Phase::Begun),
    }
}

/// Has the connection ended before the answer did? The watch is repeated then, which is no failure.
fn is_early_end(error: &io::Error) -> bool {
    let error: &(dyn StdError + 'static) = error;
    let mut causes = iter::successors(Some(error), |&cause| cause.source()).take(CAUSES);
    let is_end = |cause: &io::Error| cause.kind() == io::ErrorKind::UnexpectedEof;
    causes.any(|cause| cause.downcast_ref::<io::Error>().is_some_and(is_end))
        || error.to_string().contains("unexpected EOF during chunk")
}

#[cfg(test)]
mod tests;
