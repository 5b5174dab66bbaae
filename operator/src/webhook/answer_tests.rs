use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures::stream;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::*;
use crate::webhook::refusal::ARRIVAL;

fn review(objects: &Value) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
           "request": {"uid": "4b2a", "desiredAPIVersion": "weaver.example.com/v1beta1", "objects": objects}})
}

async fn send(request: http::Request<Body>) -> (u16, String) {
    let response = router().oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8(body.to_vec()).unwrap())
}

async fn post_text(body: impl Into<Body>) -> (u16, String) {
    send(http::Request::post("/convert").body(body.into()).unwrap()).await
}

/// The message of a refusal, which has to be a `Status` that the API server can show.
fn message((code, body): (u16, String)) -> (u16, String) {
    let status: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&status["kind"], &status["status"]), (&json!("Status"), &json!("Failure")), "{body}");
    assert_eq!(status["code"], json!(code), "{body}");
    (code, status["message"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_review_of_500_objects_is_answered_in_order() {
    let objects: Vec<Value> = (0..500)
        .map(|n| {
            json!({"apiVersion": "weaver.example.com/v1alpha1", "kind": "ConfigMapSync",
                   "metadata": {"name": format!("sync-{n}"), "namespace": "a"}})
        })
        .collect();
    let (code, body) = post_text(review(&json!(objects)).to_string()).await;
    let answer: Value = serde_json::from_str(&body).unwrap();
    let converted = answer["response"]["convertedObjects"].as_array().unwrap();
    assert_eq!((code, &answer["response"]["uid"], converted.len()), (200, &json!("4b2a"), 500));
    for (n, object) in converted.iter().enumerate() {
        assert_eq!(object["metadata"]["name"], json!(format!("sync-{n}")));
        assert_eq!(object["apiVersion"], json!("weaver.example.com/v1beta1"));
    }
}

/// Who may write an object may put into this field what no parser takes.
#[tokio::test]
async fn a_field_that_nothing_reads_keeps_no_review_from_being_answered() {
    let deep = "{\"f:a\":".repeat(200) + "1" + &"}".repeat(200);
    let object = json!({"apiVersion": "weaver.example.com/v1alpha1", "kind": "ConfigMapSync",
                        "metadata": {"name": "sync", "managedFields": "DEEP"}});
    let text = review(&json!([object])).to_string().replace("\"DEEP\"", &format!("[{deep}]"));
    let (code, body) = post_text(text).await;
    let answer: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((code, &answer["response"]["result"]["status"]), (200, &json!("Success")), "{body}");
}

#[tokio::test]
async fn what_cannot_be_converted_is_a_failure_inside_the_review() {
    let (code, body) =
        post_text(review(&json!([{"apiVersion": "v1", "kind": "Secret", "metadata": {}}])).to_string()).await;
    let answer: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((code, &answer["response"]["result"]["status"]), (200, &json!("Failure")), "{body}");
}

#[tokio::test]
async fn malformed_requests_are_refused_clearly_and_not_repeated() {
    let v1beta1 = json!({"apiVersion": "apiextensions.k8s.io/v1beta1", "kind": "ConversionReview"});
    let only_answer = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"});
    let of_text =
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": "hunter2"});
    for (name, text, words) in [
        ("nothing", String::new(), "it ends too early"),
        ("not JSON", "hunter2".into(), "it is not JSON at line 1"),
        ("half", review(&json!([]))["request"].to_string()[..20].into(), "it ends too early"),
        ("not text", "\u{0}\u{1}".into(), "it is not JSON"),
        ("deep", "[".repeat(10_000), "not a ConversionReview"),
        ("null", "null".into(), "a field is missing or of another type"),
        ("an array", "[]".into(), "not a \"\" of \"\""),
        ("no kind", "{}".into(), "not a \"\" of \"\""),
        ("another kind", json!({"apiVersion": "v1", "kind": "Pod"}).to_string(), "not a \"Pod\" of \"v1\""),
        (
            "an old review",
            v1beta1.to_string(),
            "not a \"ConversionReview\" of \"apiextensions.k8s.io/v1beta1\"",
        ),
        ("no request", only_answer.to_string(), "has no request"),
        ("a request that is none", of_text.to_string(), "a field is missing or of another type"),
        (
            "no uid",
            r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{}}"#.into(),
            "missing",
        ),
    ] {
        let (code, message) = message(post_text(text).await);
        assert_eq!(code, 400, "{name}: {message}");
        assert!(message.contains(words) && !message.contains("hunter2"), "{name}: {message}");
    }
}

#[tokio::test]
async fn a_long_kind_is_shortened() {
    let text = json!({"apiVersion": "v1", "kind": "x".repeat(1 << 20)}).to_string();
    let (code, message) = message(post_text(text).await);
    assert_eq!(code, 400);
    assert!(message.len() < 300, "{}", message.len());
}

#[tokio::test]
async fn the_largest_request_is_read_and_one_byte_more_is_not() {
    let mut text = review(&json!([])).to_string().into_bytes();
    text.resize(LARGEST, b' ');
    assert_eq!(post_text(text.clone()).await.0, 200);
    text.push(b' ');
    let (code, message) = message(post_text(text).await);
    assert_eq!(code, 413);
    assert!(message.contains("larger than 8 MiB"), "{message}");
}

/// A map of one entry has seven bytes and takes seven hundred: a request of a few MiB would end the webhook.
#[tokio::test]
async fn a_request_that_takes_far_more_memory_than_its_bytes_is_refused_before_it_is_parsed() {
    for value in [r#"{"a":0}"#, "[]", "0", r#""""#] {
        let objects = [value].repeat((LARGEST - 1_000) / (value.len() + 1)).join(",");
        let text = review(&json!(["ALL"])).to_string().replace("\"ALL\"", &objects);
        let (code, message) = message(post_text(text).await);
        assert_eq!(code, 413, "{value}: {message}");
        assert!(message.contains("takes more than 112 MiB: ask for fewer objects"), "{value}: {message}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_parsed_at_once_has_a_bound() {
    let shared = WebhookState::new(LARGEST, 1);
    let ask = |objects: usize| {
        let text = review(&json!(vec![json!({"a": 0}); objects])).to_string();
        with(shared.clone()).oneshot(http::Request::post("/convert").body(Body::from(text)).unwrap())
    };
    let others = Arc::clone(&shared.parsed).acquire_many_owned(PARSED - LIGHT).await.unwrap();
    let begun = tokio::time::Instant::now();
    let heavy = tokio::spawn(ask(2_000));
    // Time passes only once it waits, and then without the converter.
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(ask(1).await.unwrap().status().as_u16(), 200);
    assert_eq!(begun.elapsed().as_secs(), 0);
    assert_eq!(heavy.await.unwrap().unwrap().status().as_u16(), 503);
    drop(others);
    assert_eq!(ask(2_000).await.unwrap().status().as_u16(), 200);
    assert_eq!(shared.parsed.available_permits(), PARSED as usize, "all of it is given back");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_its_client_does_not_take_breaks_off() {
    let object = json!({"apiVersion": "weaver.example.com/v1alpha1", "kind": "ConfigMapSync",
                        "metadata": {"name": "a", "namespace": "b"}});
    let text = review(&json!(vec![object; 500])).to_string();
    let ask = || router().oneshot(http::Request::post("/convert").body(Body::from(text.clone())).unwrap());
    let (taken, untaken) = (ask().await.unwrap(), ask().await.unwrap());
    let taken = taken.into_body().collect().await.unwrap().to_bytes();
    let taken: Value = serde_json::from_slice(&taken).unwrap();
    assert_eq!(taken["response"]["convertedObjects"].as_array().unwrap().len(), 500);
    tokio::time::sleep(2 * ARRIVAL).await;
    untaken.into_body().collect().await.unwrap_err();
}

/// Its headers have a limit of their own, and there may be sixty-four of them on each connection.
#[tokio::test(start_paused = true)]
async fn the_head_of_a_request_is_not_kept_while_its_body_arrives() {
    let kept = Arc::new(());
    let mut request = http::Request::post("/convert");
    request.extensions_mut().unwrap().insert(Arc::clone(&kept));
    let never = stream::pending::<Result<Bytes, Infallible>>();
    let asked = tokio::spawn(router().oneshot(request.body(Body::from_stream(never)).unwrap()));
    while Arc::strong_count(&kept) > 1 {
        assert!(!asked.is_finished(), "its head is kept until it is answered");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(!asked.is_finished(), "its body is waited for");
}

#[tokio::test]
async fn a_body_without_end_is_refused_at_a_bound() {
    let chunks = stream::repeat_with(|| Ok::<_, Infallible>(Bytes::from(vec![b' '; 1 << 16])));
    assert_eq!(message(post_text(Body::from_stream(chunks)).await).0, 413);
}

#[tokio::test]
async fn who_asks_first_is_refused_before_anything_is_read() {
    let never = stream::pending::<Result<Bytes, Infallible>>;
    for (size, expect) in [(LARGEST + 1, true), (PATIENCE + 1, false)] {
        let mut request = http::Request::post("/convert").header(CONTENT_LENGTH, size);
        if expect {
            request = request.header(EXPECT, "100-continue");
        }
        let request = request.body(Body::from_stream(never())).unwrap();
        assert_eq!(message(send(request).await).0, 413, "{size}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_stops_talking_is_answered_in_time() {
    let never = stream::pending::<Result<Bytes, Infallible>>();
    let begun = tokio::time::Instant::now();
    let (code, message) = message(post_text(Body::from_stream(never)).await);
    assert_eq!(code, 408);
    assert!(message.contains("within 10 s"), "{message}");
    assert_eq!(begun.elapsed().as_secs(), ARRIVAL.as_secs());
}

#[tokio::test(start_paused = true)]
async fn without_a_converter_the_client_sees_that_others_are_at_work() {
    let shared = WebhookState::new(LARGEST, 1);
    let held = Arc::clone(&shared.converters).acquire_owned().await.unwrap();
    let ask = |body: String| {
        let request = http::Request::post("/convert").body(Body::from(body)).unwrap();
        let router = with(shared.clone());
        async move {
            let response = router.oneshot(request).await.unwrap();
            let code = response.status().as_u16();
            let body = response.into_body().collect().await.unwrap().to_bytes();
            (code, String::from_utf8(body.into()).unwrap())
        }
    };
    let begun = tokio::time::Instant::now();
    let (code, message) = message(ask("{}".to_owned()).await);
    assert_eq!(code, 503);
    assert!(message.contains("within 5 s: retry in a few seconds"), "{message}");
    assert_eq!(begun.elapsed().as_secs(), QUEUE.as_secs());
    drop(held);
    // One after another: each gives back what it had, also one that is refused.
    for (text, code) in [("{".to_owned(), 400), (review(&json!([])).to_string(), 200)] {
        assert_eq!(ask(text).await.0, code);
    }
}

#[tokio::test(start_paused = true)]
async fn slow_bodies_hold_up_no_one() {
    let router = router();
    let never = stream::pending::<Result<Bytes, Infallible>>;
    let ask = |body| router.clone().oneshot(http::Request::post("/convert").body(body).unwrap());
    let slow: Vec<_> = (0..64).map(|_| tokio::spawn(ask(Body::from_stream(never())))).collect();
    tokio::task::yield_now().await;
    let begun = tokio::time::Instant::now();
    let answer = ask(Body::from(review(&json!([])).to_string())).await.unwrap();
    assert_eq!((answer.status().as_u16(), begun.elapsed().as_secs()), (200, 0));
    for one in slow {
        assert_eq!(one.await.unwrap().unwrap().status().as_u16(), 408);
    }
}

#[tokio::test]
async fn work_that_no_one_waits_for_any_more_keeps_its_converter_until_it_ends() {
    let shared = WebhookState::new(MEMORY, 1);
    // Enough that it is still at work when its client has gone.
    let object = json!({"apiVersion": "weaver.example.com/v1alpha1", "kind": "ConfigMapSync",
                        "metadata": {"name": "a", "namespace": "b"}});
    let text = review(&json!(vec![object; 20_000])).to_string();
    let request = http::Request::post("/convert").body(Body::from(text)).unwrap();
    // Nothing has a reason to wait before the blocking work has begun: the first poll comes that far.
    let mut asked = Box::pin(with(shared.clone()).oneshot(request));
    assert!(futures::poll!(&mut asked).is_pending());
    drop(asked);
    assert_eq!(
        shared.converters.available_permits(),
        0,
        "the converter was given away while the work continues"
    );
    // And then it is free.
    let _free = timeout(Duration::from_secs(30), shared.converters.acquire()).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_body_that_breaks_off_is_reported() {
    let broken = stream::iter([Ok(Bytes::from_static(b"{")), Err(std::io::Error::other("gone"))]);
    let (code, message) = message(post_text(Body::from_stream(broken)).await);
    assert_eq!((code, message.as_str()), (400, "the request was truncated"));
}

#[tokio::test]
async fn other_paths_and_methods_are_answered_with_what_there_is() {
    let request = |method: &str, path: &str| {
        http::Request::builder().method(method).uri(path).body(Body::empty()).unwrap()
    };
    for (method, path, code) in [
        ("GET", "/convert", 405),
        ("PUT", "/convert?a=b", 405),
        ("POST", "/healthz", 405),
        ("GET", "/", 404),
        ("POST", "/convert/", 404),
    ] {
        let (found, message) = message(send(request(method, path)).await);
        assert_eq!(found, code, "{method} {path}");
        let said = path.trim_end_matches("?a=b");
        assert!(message.contains(&format!("no {method} {said} here")), "{message}");
    }
    assert_eq!(send(request("GET", "/healthz")).await, (200, "ok".into()));
}
