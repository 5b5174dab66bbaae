//! `weaver-operator webhook` as a process, over TLS, as the API server meets it.

#![allow(clippy::unwrap_used, reason = "a failed step of a test ends the test")]

mod client;
mod process;

use std::fs;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use axum::body::{Body, Bytes};
use jiff::Timestamp;
use nix::sys::signal::Signal;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use weaver_api::webhook::LEAF;
use weaver_host::durable_file::replace;
use weaver_installer::certificates::ensure;
use weaver_installer::conversion::converts;

use self::client::{ClientTrust, Protocol, is_converted, review};
use self::process::{LIMIT, WebhookProcess, eventually, log, options, program};

const BOTH: [Protocol; 2] = [Protocol::Http1, Protocol::Http2];

#[tokio::test]
async fn it_converts_for_a_client_that_trusts_the_ca_and_no_one_else() {
    let (webhook, certificates) = WebhookProcess::start().await;
    let trust = ClientTrust::new(webhook.address, &certificates.ca_bundle);
    for protocol in BOTH {
        let mut connection = trust.connect(protocol).await.unwrap();
        for _ in 0..3 {
            assert!(is_converted(&connection.post(review()).await.unwrap()), "{protocol:?}");
        }
    }
    let elsewhere = tempfile::tempdir().unwrap();
    let other = ensure(elsewhere.path(), &options(), Timestamp::now()).unwrap();
    let error = ClientTrust::new(webhook.address, &other.ca_bundle).tls(Protocol::Http1).await.unwrap_err();
    assert!(error.to_string().contains("invalid peer certificate"), "{error}");
}

#[tokio::test]
async fn the_installer_finds_that_it_converts() {
    let (webhook, certificates) = WebhookProcess::start().await;
    let url = format!("https://{}/convert", webhook.address);
    let asked = weaver_installer::Webhook { url, service: None, ca_bundle: certificates.ca_bundle };
    converts(&asked, LIMIT).await.unwrap();
}

#[tokio::test]
async fn bad_requests_are_refused_and_the_next_one_is_answered() {
    let (webhook, certificates) = WebhookProcess::start().await;
    let trust = ClientTrust::new(webhook.address, &certificates.ca_bundle);
    for protocol in BOTH {
        for (body, code, words) in [
            (vec![b' '; 10 << 20], 413, "larger than 8 MiB"),
            (b"{\"kind\": ".to_vec(), 400, "ends too early"),
            (b"{\"apiVersion\": \"v1\", \"kind\": \"Pod\"}".to_vec(), 400, "not a \\\"Pod\\\""),
        ] {
            let mut connection = trust.connect(protocol).await.unwrap();
            let (found, text) = connection.post(body).await.unwrap();
            assert_eq!(found, code, "{protocol:?} {text}");
            assert!(text.contains("\"kind\":\"Status\"") && text.contains(words), "{protocol:?} {text}");
            assert!(is_converted(&connection.post(review()).await.unwrap()), "{protocol:?} after {code}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_certificate_under_load_costs_no_request() {
    let (webhook, certificates) = WebhookProcess::start().await;
    let trust = ClientTrust::new(webhook.address, &certificates.ca_bundle);
    let old = trust.shown().await;
    let stop = Arc::new(AtomicBool::new(false));
    let answered: Vec<Arc<AtomicUsize>> = (0..6).map(|_| Arc::default()).collect();
    let clients: Vec<_> = answered
        .iter()
        .enumerate()
        .map(|(number, answered)| {
            let (trust, stop, answered) = (trust.clone(), Arc::clone(&stop), Arc::clone(answered));
            // Half of them keep their connection, the others open one for each request.
            let (protocol, keeps) = (BOTH[number % 2], number < 3);
            tokio::spawn(async move {
                let mut connection = trust.connect(protocol).await.unwrap();
                while !stop.load(Ordering::Relaxed) {
                    assert!(is_converted(&connection.post(review()).await.unwrap()), "{protocol:?}");
                    answered.fetch_add(1, Ordering::Relaxed);
                    if !keeps {
                        connection = trust.connect(protocol).await.unwrap();
                    }
                }
            })
        })
        .collect();
    let more = async |count: usize| {
        let before: Vec<usize> = answered.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        eventually("each client is answered again and again", async || {
            assert!(!clients.iter().any(tokio::task::JoinHandle::is_finished), "a request failed");
            let mut pairs = answered.iter().zip(&before);
            pairs.all(|(now, before)| now.load(Ordering::Relaxed) >= before + count).then_some(())
        })
        .await;
    };
    more(20).await;
    let mut shown = old;
    for _ in 0..2 {
        fs::remove_file(webhook.dir.path().join(LEAF)).unwrap();
        ensure(webhook.dir.path(), &options(), Timestamp::now()).unwrap();
        shown = eventually("the new certificate is shown", async || {
            let now = trust.shown().await;
            (now != shown).then_some(now)
        })
        .await;
        more(20).await;
    }
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    assert_eq!(webhook.log().matches("serving a certificate").count(), 3);
}

#[tokio::test]
async fn a_renewed_certificate_is_logged_with_its_end_and_its_fingerprint() {
    let (webhook, first) = WebhookProcess::start().await;
    let renewed = webhook.renew();
    assert_eq!(renewed.ca_bundle, first.ca_bundle);
    webhook.logs(&format!("expires={}", renewed.leaf_expires.strftime("%FT%TZ"))).await;
    assert_eq!(webhook.log().matches(" sha256=\"").count(), 2, "{}", webhook.log());
}

#[tokio::test]
async fn a_bad_certificate_is_reported_and_the_old_one_continues_serving() {
    let (webhook, certificates) = WebhookProcess::start().await;
    let trust = ClientTrust::new(webhook.address, &certificates.ca_bundle);
    let old = trust.shown().await;
    let leaf = webhook.dir.path().join(LEAF);
    let text = fs::read_to_string(&leaf).unwrap();
    let other = tempfile::tempdir().unwrap();
    ensure(other.path(), &options(), Timestamp::now()).unwrap();
    let others = fs::read_to_string(other.path().join(LEAF)).unwrap();
    let key = |text: &str| text[text.find("-----BEGIN PRIVATE").unwrap()..].to_owned();
    let mismatched = text.replace(&key(&text), &key(&others));
    for (bad, words) in [
        ("garbage", "it holds no certificate"),
        (mismatched.as_str(), "its private key belongs to another certificate"),
        (&text[..text.len() - 60], "truncated"),
    ] {
        replace(&leaf, bad.as_bytes(), 0o640).unwrap();
        webhook.logs(words).await;
        assert_eq!(trust.shown().await, old, "{words}");
    }
    fs::remove_file(&leaf).unwrap();
    webhook.logs("keeping the old one: entity not found").await;
    assert_eq!(trust.shown().await, old);
    let log = webhook.log();
    let secrets = [&text, &others].map(|text| key(text).lines().nth(1).unwrap().to_owned());
    assert!(secrets.iter().all(|secret| !log.contains(secret.as_str())), "{log}");
}

#[tokio::test]
async fn without_a_certificate_it_says_what_it_waits_for_and_is_not_ready() {
    let webhook = WebhookProcess::launch(tempfile::tempdir().unwrap()).await;
    webhook
        .logs("waiting for the certificate, which the installer's Job or `weaver crd install` writes")
        .await;
    // A client is not left hanging.
    let elsewhere = tempfile::tempdir().unwrap();
    let other = ensure(elsewhere.path(), &options(), Timestamp::now()).unwrap();
    ClientTrust::new(webhook.address, &other.ca_bundle).tls(Protocol::Http1).await.unwrap_err();
    assert_eq!(webhook.notice(), None);
    let certificates = ensure(webhook.dir.path(), &options(), Timestamp::now()).unwrap();
    webhook.ready().await;
    let trust = ClientTrust::new(webhook.address, &certificates.ca_bundle);
    let mut connection = trust.connect(Protocol::Http2).await.unwrap();
    assert!(is_converted(&connection.post(review()).await.unwrap()));
    assert_eq!(webhook.log().matches("waiting for").count(), 1);
}

#[tokio::test]
async fn silent_clients_hold_no_one_up() {
    let (webhook, certificates) = WebhookProcess::start().await;
    let trust = ClientTrust::new(webhook.address, &certificates.ca_bundle);
    let mut silent = Vec::new();
    let mut greeted = Vec::new();
    for _ in 0..20 {
        silent.push(TcpStream::connect(webhook.address).await.unwrap());
        greeted.push(trust.tls(Protocol::Http1).await.unwrap());
    }
    for protocol in BOTH {
        let mut connection = trust.connect(protocol).await.unwrap();
        assert!(is_converted(&connection.post(review()).await.unwrap()), "{protocol:?}");
    }
    assert_eq!((silent.len(), greeted.len()), (20, 20));
}

#[tokio::test]
async fn at_sigterm_requests_under_way_are_finished_and_no_more_accepted() {
    let (mut webhook, certificates) = WebhookProcess::start().await;
    let trust = ClientTrust::new(webhook.address, &certificates.ca_bundle);
    let idle = trust.tls(Protocol::Http1).await.unwrap();
    let mut under_way = Vec::new();
    for protocol in BOTH {
        let mut connection = trust.connect(protocol).await.unwrap();
        let (rest, mut received) = mpsc::unbounded_channel::<Bytes>();
        let body = futures::stream::poll_fn(move |context| {
            received.poll_recv(context).map(|part| part.map(Ok::<_, std::io::Error>))
        });
        // The first bytes are on their way before the signal is.
        assert!(is_converted(&connection.post(review()).await.unwrap()));
        let (first, second) = (review()[..50].to_owned(), review()[50..].to_owned());
        rest.send(first.into()).unwrap();
        let answer = tokio::spawn(async move { connection.post(Body::from_stream(body)).await });
        under_way.push((rest, second, answer));
    }
    // On the same runtime and over the same loopback, these come after what the requests have sent.
    let mut probe = trust.connect(Protocol::Http1).await.unwrap();
    for _ in 0..20 {
        assert!(is_converted(&probe.post(review()).await.unwrap()));
    }
    webhook.signal(Signal::SIGTERM);
    webhook.logs("SIGTERM: finishing requests under way").await;
    eventually("the port is closed", async || TcpStream::connect(webhook.address).await.err()).await;
    for (rest, second, answer) in under_way {
        rest.send(second.into()).unwrap();
        drop(rest);
        assert!(is_converted(&answer.await.unwrap().unwrap()));
    }
    assert!(webhook.ended().await.success());
    assert!(!webhook.log().contains("cut off"), "{}", webhook.log());
    drop(idle);
}

#[tokio::test]
async fn a_taken_port_is_named_with_the_flag() {
    let dir = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut child = program(&dir, &address).spawn().unwrap();
    let status = eventually("the program ends", async || child.try_wait().unwrap()).await;
    let words = fs::read_to_string(log(&dir)).unwrap();
    assert_eq!(status.code(), Some(1), "{words}");
    for expected in [&format!("cannot listen on {address}"), "--listen ADDR", "in use"] {
        assert!(words.contains(expected), "{words}");
    }
}

#[tokio::test]
async fn it_may_open_as_many_files_as_the_system_lets_it() {
    let dir = tempfile::tempdir().unwrap();
    let webhook = program(&dir, "127.0.0.1:0");
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "ulimit -S -n 300 && ulimit -H -n 900 && exec \"$0\" \"$@\""]);
    shell.arg(webhook.get_program()).args(webhook.get_args()).stderr(std::process::Stdio::null());
    let mut child = shell.spawn().unwrap();
    let limits = format!("/proc/{}/limits", child.id());
    eventually("the soft limit is the hard one", async || {
        let limits = fs::read_to_string(&limits).unwrap();
        let files = limits.lines().find(|line| line.starts_with("Max open files"))?.split_whitespace();
        (files.skip(3).take(2).collect::<Vec<_>>() == ["900", "900"]).then_some(())
    })
    .await;
    child.kill().unwrap();
    child.wait().unwrap();
}
