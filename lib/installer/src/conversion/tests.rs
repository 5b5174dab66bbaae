use jiff::Timestamp;
use tokio::net::TcpListener;
use weaver_api::webhook::LEAF;

use super::*;
use crate::certificates::{CertificateOptions, ensure};
use crate::fake_webhook::{Listening, router, serve};

const SHORT: Duration = Duration::from_millis(500);

async fn fault(listening: &Listening) -> WebhookFault {
    converts(&listening.webhook, SHORT).await.unwrap_err().fault
}

#[tokio::test]
async fn a_webhook_that_converts_is_found_to_do_so() {
    let listening = Listening::start(router()).await;
    listening.show(listening.dir.path());
    converts(&listening.webhook, SHORT * 20).await.unwrap();
}

#[tokio::test]
async fn a_webhook_that_comes_later_is_waited_for() {
    let listening = Listening::start(router()).await;
    let webhook = listening.webhook.clone();
    let asking = tokio::spawn(async move { converts(&webhook, SHORT * 20).await });
    // It has begun by then, and found no certificate.
    assert_eq!(fault(&listening).await, WebhookFault::NoCertificate);
    listening.show(listening.dir.path());
    asking.await.unwrap().unwrap();
}

#[tokio::test]
async fn an_address_without_a_webhook_is_reported_with_url_and_remedy() {
    let listening = Listening::start(router()).await;
    let webhook = listening.webhook.clone();
    drop(listening);
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let webhook = Webhook { url: format!("https://127.0.0.1:{port}/convert"), ..webhook };
    let words = converts(&webhook, SHORT).await.unwrap_err().to_string();
    assert!(words.contains(&webhook.url) && words.contains("does not listen: start it"), "{words}");
    assert!(words.contains("nothing was changed"), "{words}");
}

#[tokio::test]
async fn a_certificate_of_another_ca_or_for_another_name_is_not_trusted() {
    let mut listening = Listening::start(router()).await;
    let other = tempfile::tempdir().unwrap();
    ensure(other.path(), &CertificateOptions::default(), Timestamp::now()).unwrap();
    listening.show(other.path());
    assert_eq!(fault(&listening).await, WebhookFault::OtherCa);

    listening.show(listening.dir.path());
    // All of 127.0.0.0/8 is this machine, and only one address is in the certificate.
    listening.webhook.url = listening.webhook.url.replace("127.0.0.1", "127.0.0.2");
    let port = listening.webhook.url.rsplit_once(':').unwrap().1.split_once('/').unwrap().0.to_owned();
    let other_address = TcpListener::bind(format!("127.0.0.2:{port}")).await.unwrap();
    let task = serve(other_address, listening.shown.clone(), router());
    let fault = fault(&listening).await;
    task.abort();
    assert!(matches!(fault, WebhookFault::OtherName(_)), "{fault:?}");
}

#[tokio::test]
async fn an_expired_certificate_asks_about_the_clock() {
    let listening = Listening::start(router()).await;
    let options = CertificateOptions { lifetime: Duration::from_hours(1), ..CertificateOptions::default() };
    std::fs::remove_file(listening.dir.path().join(LEAF)).unwrap();
    ensure(listening.dir.path(), &options, Timestamp::UNIX_EPOCH).unwrap();
    listening.show(listening.dir.path());
    let fault = fault(&listening).await;
    assert!(matches!(fault, WebhookFault::Tls(_)) && fault.to_string().contains("timedatectl"), "{fault:?}");
}

#[tokio::test]
async fn someone_else_is_distinguished_from_a_webhook_that_refuses() {
    let other = Listening::start(axum::Router::new()).await;
    other.show(other.dir.path());
    assert_eq!(fault(&other).await, WebhookFault::Failed("404 Not Found".into()));

    let echo = axum::routing::post(async |body: String| body);
    let other = Listening::start(axum::Router::new().route("/convert", echo)).await;
    other.show(other.dir.path());
    assert_eq!(fault(&other).await, WebhookFault::WrongAnswer("the review holds no answer"));

    let mut elsewhere = Listening::start(router()).await;
    elsewhere.show(elsewhere.dir.path());
    elsewhere.webhook.url.push_str("/other");
    let fault = fault(&elsewhere).await.to_string();
    assert!(fault.contains("there is no /convert/other here"), "{fault}");
}

#[tokio::test]
async fn a_listener_that_says_nothing_is_given_up_in_time() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let listening = Listening::start(router()).await;
    let url = format!("https://{}/convert", silent.local_addr().unwrap());
    let webhook = Webhook { service: None, url, ca_bundle: listening.certificates.ca_bundle.clone() };
    let fault = converts(&webhook, SHORT).await.unwrap_err().fault;
    assert!(matches!(fault, WebhookFault::NoAnswer(_)), "{fault:?}");
}

#[tokio::test]
async fn what_cannot_be_asked_is_not_tried() {
    let ca_bundle = Listening::start(router()).await.certificates.ca_bundle.clone();
    for url in ["", "127.0.0.1:9443", "http://127.0.0.1:9443/convert", "https:///convert", "https://a b/"] {
        let webhook = Webhook { service: None, url: url.into(), ca_bundle: ca_bundle.clone() };
        let error = converts(&webhook, SHORT).await.unwrap_err();
        assert_eq!(error.fault, WebhookFault::Url, "{url}");
    }
    for bundle in ["", "garbage", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        let webhook =
            Webhook { service: None, url: "https://127.0.0.1:1/convert".into(), ca_bundle: bundle.into() };
        assert_eq!(converts(&webhook, SHORT).await.unwrap_err().fault, WebhookFault::Bundle, "{bundle}");
    }
}

#[test]
fn the_host_of_a_url_is_what_a_certificate_says() {
    for (url, expected) in [
        ("https://127.0.0.1:9443/convert", Some("127.0.0.1")),
        ("https://[::1]:9443/convert", Some("::1")),
        ("https://webhook.weaver.svc/convert", Some("webhook.weaver.svc")),
        ("http://localhost/convert", None),
        ("localhost:9443", None),
        ("/convert", None),
    ] {
        assert_eq!(host(url).ok().as_deref(), expected, "{url}");
    }
}

#[test]
fn each_wrong_answer_is_called_by_its_name() {
    let right = |change: fn(&mut Value)| {
        let mut object = object();
        object["apiVersion"] = json!("weaver.example.com/v1beta1");
        let mut answer = json!({
            "apiVersion": REVIEW.0, "kind": REVIEW.1,
            "response": {"uid": "u", "result": {"status": "Success"}, "convertedObjects": [object]},
        });
        change(&mut answer);
        answered(StatusCode::OK, answer.to_string().as_bytes(), "u", "v1beta1")
    };
    assert!(right(|_| {}).is_ok());
    for (expected, change) in [
        ("not a ConversionReview", (|a| *a = json!({"hello": 1})) as fn(&mut Value)),
        ("holds no answer", |a| a["response"] = Value::Null),
        ("another review", |a| a["response"]["uid"] = json!("v")),
        ("refused to convert: no", |a| {
            a["response"]["result"] = json!({"status": "Failure", "message": "no"});
        }),
        ("more or fewer", |a| a["response"]["convertedObjects"] = json!([])),
        ("not at the version", |a| {
            a["response"]["convertedObjects"][0]["apiVersion"] = json!("weaver.example.com/v1alpha1");
        }),
        ("not at the version", |a| a["response"]["convertedObjects"][0]["kind"] = json!("Other")),
        ("another one", |a| a["response"]["convertedObjects"][0]["metadata"]["name"] = json!("other")),
    ] {
        let fault = right(change).unwrap_err().to_string();
        assert!(fault.contains(expected), "{expected}: {fault}");
    }
    let not_json = answered(StatusCode::OK, b"<html>", "u", "v1beta1").unwrap_err();
    assert_eq!(not_json, WebhookFault::WrongAnswer("it is not a ConversionReview"));
}
