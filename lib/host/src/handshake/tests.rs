use super::*;

#[test]
fn a_certificate_that_is_its_own_ca() {
    let mut params = rcgen::CertificateParams::new(["reg.lan".to_owned()]).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.not_before = rcgen::date_time_ymd(2020, 1, 1);
    params.not_after = rcgen::date_time_ymd(2030, 1, 1);
    let certificate = params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
    let judge = |name: &'static str, seconds| {
        let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        of_itself(certificate.der(), &ServerName::try_from(name).unwrap(), now)
    };
    assert!(is_ca(certificate.der()) && !is_ca(&CertificateDer::from(vec![1])));
    assert_eq!(judge("reg.lan", 1_795_361_468), HandshakeOutcome::Proven);
    assert_eq!(judge("other.lan", 1_795_361_468), HandshakeOutcome::NotServed);
    assert!(matches!(judge("reg.lan", 0), HandshakeOutcome::Dates(_)));
    assert!(matches!(judge("reg.lan", 4_000_000_000), HandshakeOutcome::Dates(_)));
    let name = ServerName::try_from("reg.lan").unwrap();
    let none = of_itself(&CertificateDer::from(vec![1]), &name, UnixTime::now());
    assert!(matches!(none, HandshakeOutcome::Untrusted(_)));
}

#[tokio::test]
async fn an_answer_without_tls_is_called_so() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = listener.local_addr().unwrap();
    let answering = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        stream
    };
    let mut roots = rustls::RootCertStore::empty();
    let params = rcgen::CertificateParams::new(["reg.lan".to_owned()]).unwrap();
    let certificate = params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
    roots.add(certificate.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), provider).build().unwrap();
    let name = ServerName::try_from("reg.lan").unwrap();
    let looking = handshake(endpoint, verifier, name.clone(), name, DEADLINE);
    let (seen, _stream) = tokio::join!(looking, answering);
    let why = "no TLS is spoken at this port".to_owned();
    assert_eq!(seen.outcome, HandshakeOutcome::Unreachable(Silence::Unanswered(why)));
}

#[test]
fn the_date_of_an_answer() {
    for (answer, want) in [
        ("HTTP/1.1 401 Unauthorized\r\ndate: Sun, 22 Nov 2026 15:31:08 GMT\r\n\r\n", Some(1_795_361_468)),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nDate: Sun, 22 Nov 2026 15:31:08 GMT", None),
        ("HTTP/1.1 200 OK\r\nDate: yesterday\r\n\r\n", None),
        ("", None),
    ] {
        assert_eq!(date_of(answer), want, "{answer}");
    }
}
