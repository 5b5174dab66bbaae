//! kube's watcher and ours get the same answers.

use std::collections::VecDeque;
use std::future::pending;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{FutureExt as _, Stream, StreamExt as _, stream};
use http::{Request, Response};
use http_body_util::StreamBody;
use hyper::body::{Body as HttpBody, Bytes, Frame};
use kube::api::{Api, PartialObjectMeta};
use kube::client::Body;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::watcher::{Config, Error, Event, watcher};
use kube::{Client, Resource as _, ResourceExt as _};
use serde_json::{Value, json};
use tokio::task::yield_now;
use tokio::time::timeout;
use tower::BoxError;

use super::{ListWatch, events};
use crate::access_cache::AccessCache;
use crate::budget::{MemoryBudget, MemoryShare};

type Meta = PartialObjectMeta<DynamicObject>;

type Item = Result<Event<Meta>, Error>;

/// Seconds that a watch lasts.
const LENGTH: u32 = 60;

/// So long nothing comes any more: longer than the watches of a script that are never ended.
const LONG: Duration = Duration::from_mins(10);

/// What arrives of an answer's body.
#[derive(Clone)]
enum Chunk {
    Text(String),
    Failure(io::ErrorKind),
    /// A failure in the words of a library that has no kind for it.
    Words(&'static str),
    /// Nothing more, and no end either.
    Silence,
}

use Chunk::{Failure, Silence, Text, Words};

/// Status and body.
type Answer = (u16, Vec<Chunk>);

fn object(name: &str, version: &str) -> Value {
    json!({"metadata": {"name": name, "resourceVersion": version}})
}

fn event(kind: &str, object: &Value) -> Chunk {
    Text(format!("{}\n", json!({"type": kind, "object": object})))
}

fn status(code: u16) -> Value {
    json!({"kind": "Status", "status": "Failure", "code": code, "reason": "Because", "message": "no"})
}

fn list(meta: &Value, names: &[&str]) -> Answer {
    let items: Vec<Value> = names.iter().map(|name| object(name, "1")).collect();
    (200, vec![Text(json!({"metadata": meta, "items": items}).to_string())])
}

fn refused(code: u16) -> Answer {
    (code, vec![Text(status(code).to_string())])
}

/// Answers to a watcher, and what it makes of them.
type Script = (Vec<Answer>, Vec<&'static str>);

fn text(text: &str) -> Chunk {
    Text(text.to_owned())
}

fn no_object() -> Answer {
    list(&json!({"resourceVersion": "5"}), &[])
}

fn watch(chunks: &[Chunk]) -> Answer {
    (200, chunks.to_vec())
}

fn added() -> Chunk {
    event("ADDED", &object("c", "6"))
}

fn changed() -> Chunk {
    event("MODIFIED", &object("c", "7"))
}

fn deleted() -> Chunk {
    event("DELETED", &object("c", "8"))
}

/// The beginning of an event.
fn cut_off() -> Chunk {
    text(r#"{"type":"ADDED","object":{"metad"#)
}

fn lists() -> Vec<Script> {
    vec![
        (
            vec![list(&json!({"resourceVersion": "5"}), &["a", "b"]), watch(&[added()])],
            vec!["init", "a", "b", "listed", "+c"],
        ),
        (
            vec![
                list(&json!({"continue": "more"}), &["a"]),
                list(&json!({"continue": "most", "resourceVersion": "4"}), &[]),
                list(&json!({"continue": "", "resourceVersion": "5"}), &["b"]),
            ],
            vec!["init", "a", "b", "listed"],
        ),
        (
            vec![refused(403), (502, vec![text("bad gateway")]), (200, vec![text("{\"meta")]), no_object()],
            vec!["init", "list", "init", "list", "init", "list", "init", "listed"],
        ),
        (
            vec![
                (200, vec![text("{\"meta"), Failure(io::ErrorKind::ConnectionReset)]),
                list(&json!({"resourceVersion": ""}), &["a"]),
                no_object(),
            ],
            vec!["init", "list", "init", "version", "init", "listed"],
        ),
    ]
}

fn watches() -> Vec<Script> {
    let bookmark = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}});
    let no_version = json!({"metadata": {"name": "c"}});
    vec![
        (
            vec![
                no_object(),
                watch(&[added(), changed(), deleted()]),
                watch(&[event("BOOKMARK", &bookmark), cut_off()]),
            ],
            vec!["init", "listed", "+c", "+c", "-c"],
        ),
        (
            vec![
                no_object(),
                watch(&[text(r#"{"type":"ADDED","#), text(""), text(r#""object":{"metadata":{"name":"d","#)]),
                watch(&[
                    text(r#"{"type":"ADDED","object":{"metadata":"#),
                    text(""),
                    text("{\"name\":\"d\",\"resourceVersion\":\"6\"}}}\r\n\n"),
                    text(r#"{"type":"ADDED","object":{"metadata":{"name":"e","resourceVersion":"9"}}}"#),
                ]),
            ],
            vec!["init", "listed", "+d", "+e"],
        ),
        (
            vec![no_object(), refused(403), watch(&[added()]), refused(410), watch(&[changed()])],
            vec!["init", "listed", "start", "+c", "start", "+c"],
        ),
        (
            vec![no_object(), watch(&[event("ERROR", &status(410)), added()]), no_object()],
            vec!["init", "listed", "error", "init", "listed"],
        ),
        (
            vec![no_object(), watch(&[event("ADDED", &no_version), added()]), no_object()],
            vec!["init", "listed", "version", "init", "listed"],
        ),
    ]
}

fn watches_that_fail() -> Vec<Script> {
    let bare_status = Text(format!("{}\n", status(504)));
    vec![
        (
            vec![
                no_object(),
                watch(&[event("ERROR", &status(500)), added(), bare_status, text("7\n"), deleted()]),
            ],
            vec!["init", "listed", "error", "+c", "watch", "watch", "-c"],
        ),
        (
            vec![
                no_object(),
                watch(&[added(), cut_off(), Failure(io::ErrorKind::UnexpectedEof)]),
                watch(&[Words("unexpected EOF during chunk size line")]),
                watch(&[changed(), cut_off(), Failure(io::ErrorKind::ConnectionReset)]),
                watch(&[Words("no idea")]),
                watch(&[deleted()]),
            ],
            vec!["init", "listed", "+c", "+c", "watch", "watch", "-c"],
        ),
        (
            vec![no_object(), watch(&[added(), Silence]), watch(&[Silence]), watch(&[deleted()])],
            vec!["init", "listed", "+c", "-c"],
        ),
    ]
}

fn body(chunks: Vec<Chunk>) -> impl HttpBody<Data = Bytes, Error = io::Error> + Send + 'static {
    StreamBody::new(stream::iter(chunks).then(|chunk| async move {
        match chunk {
            Text(text) => Ok(Frame::data(Bytes::from(text))),
            Failure(kind) => Err(io::Error::from(kind)),
            Words(words) => Err(io::Error::other(words)),
            Silence => pending().await,
        }
    }))
}

/// A client that gets these answers and then none, and what it asks.
fn answering(answers: Vec<Answer>) -> (Client, Arc<Mutex<Vec<String>>>) {
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let (record, mut answers) = (asked.clone(), VecDeque::from(answers));
    let service = tower::service_fn(move |request: Request<Body>| {
        record.lock().unwrap().push(format!("{} {:?}", request.uri(), request.headers()));
        let answer = answers.pop_front();
        async move {
            match answer {
                Some((status, chunks)) => {
                    Ok::<_, BoxError>(Response::builder().status(status).body(body(chunks)).unwrap())
                }
                None => pending().await,
            }
        }
    });
    (Client::new(service, "default"), asked)
}

fn kind() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"))
}

fn of(page: Option<u32>) -> ListWatch {
    ListWatch {
        path: Meta::url_path(&kind(), Some("foo")),
        labels: Some("a=b".to_owned()),
        fields: Some("metadata.name=c".to_owned()),
        page,
        length: LENGTH,
    }
}

async fn shown(events: impl Stream<Item = Item>) -> Vec<Item> {
    let mut events = pin!(events);
    let mut shown = Vec::new();
    while let Ok(Some(event)) = timeout(LONG, events.next()).await {
        shown.push(event);
    }
    shown
}

fn word(event: &Item) -> String {
    match event {
        Ok(Event::Init) => "init".to_owned(),
        Ok(Event::InitApply(object)) => object.name_any(),
        Ok(Event::InitDone) => "listed".to_owned(),
        Ok(Event::Apply(object)) => format!("+{}", object.name_any()),
        Ok(Event::Delete(object)) => format!("-{}", object.name_any()),
        Err(Error::InitialListFailed(_)) => "list".to_owned(),
        Err(Error::WatchStartFailed(_)) => "start".to_owned(),
        Err(Error::WatchError(_)) => "error".to_owned(),
        Err(Error::WatchFailed(_)) => "watch".to_owned(),
        Err(Error::NoResourceVersion) => "version".to_owned(),
    }
}

/// What a cache may remember.
fn share() -> Arc<MemoryShare> {
    MemoryBudget::new(1 << 20).share("team-a")
}

#[tokio::test(start_paused = true)]
async fn requests_events_and_errors_are_those_of_kubes_watcher() {
    for (answers, expected) in [lists(), watches(), watches_that_fail()].concat() {
        for page in [None, Some(2)] {
            let (client, asked_by_kube) = answering(answers.clone());
            let maps: Api<Meta> = Api::namespaced_with(client, "foo", &kind());
            let config = Config { page_size: page, ..Config::default() }.any_semantic().timeout(LENGTH);
            let of_kube = shown(watcher(maps, config.labels("a=b").fields("metadata.name=c"))).await;

            let (client, asked) = answering(answers.clone());
            let access = AccessCache::new(move || client.clone(), Duration::ZERO, share());
            let ours = shown(events(Arc::new(access), of(page), || ())).await;

            assert_eq!(ours.iter().map(word).collect::<Vec<_>>(), expected);
            assert_eq!(format!("{ours:#?}"), format!("{of_kube:#?}"));
            assert_eq!(*asked.lock().unwrap(), *asked_by_kube.lock().unwrap());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn each_watch_that_starts_is_reported_and_none_that_is_refused() {
    let (client, _) =
        answering(vec![refused(503), no_object(), watch(&[added()]), refused(503), watch(&[Silence])]);
    let access = AccessCache::new(move || client.clone(), Duration::ZERO, share());
    let starts: Arc<Mutex<Vec<&'static str>>> = Arc::default();
    let record = starts.clone();
    let mut events = pin!(events::<Meta, _>(Arc::new(access), of(None), move || {
        record.lock().unwrap().push("started");
    }));
    while let Ok(Some(event)) = timeout(LONG, events.next()).await {
        starts.lock().unwrap().push(if event.is_ok() { "event" } else { "failure" });
    }
    let expected = ["event", "failure", "event", "event", "started", "event", "failure", "started"];
    assert_eq!(*starts.lock().unwrap(), expected);
}

#[tokio::test]
async fn a_watch_at_rest_keeps_no_client() {
    let (server, _) = answering(vec![no_object(), watch(&[added(), Silence])]);
    // With a reference for each client that there is.
    let clients: Arc<()> = Arc::default();
    let counted = clients.clone();
    let access = AccessCache::new(
        move || {
            let (server, counted) = (server.clone(), counted.clone());
            let service = tower::service_fn(move |request: Request<Body>| {
                let (server, counted) = (server.clone(), counted.clone());
                async move {
                    let answer = server.send(request).await;
                    drop(counted);
                    answer
                }
            });
            Client::new(service, "default")
        },
        Duration::ZERO,
        share(),
    );
    let none = Arc::strong_count(&clients);
    let mut events = pin!(events::<Meta, _>(Arc::new(access), of(None), || ()));
    for expected in ["init", "listed", "+c"] {
        assert_eq!(word(&events.next().await.unwrap()), expected);
    }
    assert!(events.next().now_or_never().is_none());
    // A client's own task ends a little later than the client.
    let ended = async {
        while Arc::strong_count(&clients) > none {
            yield_now().await;
        }
    };
    timeout(Duration::from_secs(10), ended).await.expect("a client is left");
}
