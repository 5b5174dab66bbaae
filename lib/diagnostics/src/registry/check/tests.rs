use super::*;
use crate::finding::{Code, Finding, Severity};
use crate::k3d::cluster::PublishedPort;
use crate::k3d::engine::EngineProgram;
use crate::registry::api;
use crate::serving::Silence;
use Code::{
    ImageForOtherProcessor, ImageNotFound, RegistriesWithoutEffect, RegistryAccessDenied,
    RegistryCertificateUntrusted, RegistryPlainHttp, RegistryUnreachable,
};
use Severity::{Fail, Unknown, Warn};

fn answers(status: u16) -> Reply {
    Reply { status, registry: status < 402, challenge: None, location: None, credentials: Sent::None }
}

fn nothing() -> Https {
    let why = "connection refused".to_owned();
    Https {
        outcome: HandshakeOutcome::Unreachable(Silence::Refused(why.clone())),
        served: Vec::new(),
        reply: Err(why),
    }
}

fn tls(outcome: HandshakeOutcome) -> Https {
    Https { outcome, served: vec!["reg.lan".to_owned()], reply: Ok(answers(200)) }
}

/// By https, and all is well.
fn good() -> RegistryFacts {
    RegistryFacts {
        registry: "reg.lan:5000".to_owned(),
        is_here: Ok(false),
        https: tls(HandshakeOutcome::Proven),
        http: Err("connection reset".to_owned()),
        ca: None,
        configured: None,
        containers: Ok(Vec::new()),
        missing: None,
        image: None,
    }
}

fn by_http() -> RegistryFacts {
    RegistryFacts { https: nothing(), http: Ok(answers(200)), ..good() }
}

fn file(text: &str) -> (String, Configured) {
    ("r.yaml".to_owned(), Configured::read(text, "reg.lan:5000").unwrap())
}

fn container() -> RegistryContainer {
    RegistryContainer {
        name: "k3d-reg".to_owned(),
        is_running: true,
        is_of_k3d: true,
        inside: 5000,
        published: vec![PublishedPort { inside: 5000, at: ([0, 0, 0, 0], 5111).into() }],
        networks: vec!["k3d-demo".to_owned()],
        engine: EngineProgram::Docker,
    }
}

fn codes(facts: &RegistryFacts) -> Vec<(Code, Severity)> {
    judge(facts).iter().map(|finding| (finding.code, finding.severity())).collect()
}

fn remedy(facts: &RegistryFacts) -> String {
    let remedy = judge(facts)[0].remedy.clone().unwrap();
    format!(
        "{}\n{}",
        remedy.explain,
        remedy.commands.iter().flat_map(|command| [&**command, "\n"]).collect::<String>()
    )
}

#[test]
fn what_is_wrong_with_the_way_to_it() {
    const HTTP: &str = "mirrors: {'reg.lan:5000': {endpoint: ['http://reg.lan:5000']}}\n";
    let refused = || RegistryFacts { https: nothing(), http: Err("refused".to_owned()), ..good() };
    let asks = |scheme: &str, status, credentials| Reply {
        challenge: api::challenge(&format!("{scheme} realm=\"https://reg.lan/token\"")),
        credentials,
        ..answers(status)
    };
    let with = |reply| RegistryFacts { http: Ok(reply), ..by_http() };
    let reported = |facts: RegistryFacts| RegistryFacts { configured: Some(file(HTTP)), ..facts };
    for (name, facts, want) in [
        ("https", good(), vec![]),
        ("http", by_http(), vec![(RegistryPlainHttp, Warn)]),
        ("http, as configured", reported(by_http()), vec![]),
        (
            "http, not configured",
            RegistryFacts { configured: Some(file("")), ..by_http() },
            vec![(RegistryPlainHttp, Fail)],
        ),
        (
            "a mirror elsewhere",
            RegistryFacts {
                configured: Some(file("mirrors: {'reg.lan:5000': {endpoint: ['http://m.lan']}}\n")),
                ..by_http()
            },
            vec![],
        ),
        ("https, http configured", reported(good()), vec![(RegistriesWithoutEffect, Warn)]),
        ("localhost by http", RegistryFacts { registry: "localhost:5000".to_owned(), ..by_http() }, vec![]),
        (
            "no such host",
            RegistryFacts { is_here: Err("x".to_owned()), ..refused() },
            vec![(RegistryUnreachable, Fail)],
        ),
        ("refused", refused(), vec![(RegistryUnreachable, Fail)]),
        ("another server", with(answers(404)), vec![(RegistryUnreachable, Fail)]),
        (
            "a password is wanted",
            reported(with(asks("Basic", 401, Sent::None))),
            vec![(RegistryAccessDenied, Warn)],
        ),
        (
            "a wrong password",
            reported(with(asks("Basic", 401, Sent::Yes))),
            vec![(RegistryAccessDenied, Fail)],
        ),
        (
            "a token is wanted",
            reported(with(asks("Bearer", 401, Sent::None))),
            vec![(RegistryAccessDenied, Unknown)],
        ),
    ] {
        assert_eq!(codes(&facts), want, "{name}: {:?}", judge(&facts));
    }
}

#[test]
fn a_certificate_that_is_not_trusted() {
    let ca = "configs: {'reg.lan:5000': {tls: {ca_file: /etc/ca.crt}}}\n";
    let unverified = "configs: {'reg.lan:5000': {tls: {insecure_skip_verify: true}}}\n";
    let untrusted = || HandshakeOutcome::Untrusted("it is signed by another CA".to_owned());
    for (outcome, ca, configured, want) in [
        (untrusted(), None, None, Some(Fail)),
        (HandshakeOutcome::NotServed, None, None, Some(Fail)),
        (HandshakeOutcome::Dates("it has expired".to_owned()), None, None, Some(Fail)),
        (untrusted(), None, Some(file(unverified)), Some(Warn)),
        // The CA of the nodes is not here.
        (untrusted(), None, Some(file(ca)), Some(Unknown)),
        (untrusted(), Some("ca.crt".to_owned()), Some(file(ca)), Some(Fail)),
        (HandshakeOutcome::Proven, Some("ca.crt".to_owned()), Some(file(ca)), None),
    ] {
        let facts = RegistryFacts { https: tls(outcome.clone()), ca, configured, ..good() };
        let want: Vec<_> =
            want.map(|severity| (RegistryCertificateUntrusted, severity)).into_iter().collect();
        assert_eq!(codes(&facts), want, "{outcome:?}");
    }
    let here = RegistryFacts { registry: "127.0.0.1:5000".to_owned(), https: tls(untrusted()), ..good() };
    assert_eq!(codes(&here), [(RegistryCertificateUntrusted, Warn)], "containerd does not verify it");
    let remedy = remedy(&RegistryFacts { https: tls(untrusted()), ..good() });
    assert!(remedy.contains("weaver registry config reg.lan:5000 --ca-file "), "{remedy}");
}

#[test]
fn both_ports_of_a_container_are_distinguished() {
    let at = |registry: &str, is_here| RegistryFacts {
        registry: registry.to_owned(),
        is_here,
        containers: Ok(vec![container()]),
        https: nothing(),
        http: Err("refused".to_owned()),
        ..good()
    };
    for facts in [
        at("k3d-reg:5000", Err("no such host".to_owned())),
        at("k3d-reg:80", Err("no such host".to_owned())),
        at("localhost:5000", Ok(true)),
    ] {
        let remedy = remedy(&facts);
        assert!(remedy.contains("push to localhost:5111") && remedy.contains("k3d-reg:5000"), "{remedy}");
    }
    for (engine, want) in [
        (EngineProgram::Docker, "docker start k3d-reg"),
        (EngineProgram::PodmanOfRoot, "sudo podman start k3d-reg"),
    ] {
        let stopped = RegistryContainer { is_running: false, published: Vec::new(), engine, ..container() };
        let stopped = RegistryFacts { containers: Ok(vec![stopped]), ..at("localhost:5111", Ok(true)) };
        assert!(remedy(&stopped).contains(want));
    }

    let found = RegistryFacts { http: Ok(answers(200)), ..at("localhost:5111", Ok(true)) };
    assert_eq!(codes(&found), [], "k3d has configured the nodes");
    let lines = found.lines().join("\n");
    assert!(lines.contains("push to localhost:5111; in image names write k3d-reg:5000"), "{lines}");
    assert!(lines.contains("localhost is this machine only"), "{lines}");
    let unused = RegistryContainer { networks: Vec::new(), ..container() };
    let unused = RegistryFacts { containers: Ok(vec![unused]), ..found };
    assert!(remedy(&unused).contains("k3d cluster create CLUSTER --registry-use k3d-reg:5000"));
}

#[test]
fn one_that_wants_a_certificate_of_its_clients() {
    let https = Https {
        reply: Err("received fatal alert: CertificateRequired".to_owned()),
        ..tls(HandshakeOutcome::Proven)
    };
    let facts = RegistryFacts { https, http: Ok(Reply { registry: false, ..answers(400) }), ..good() };
    assert_eq!(codes(&facts), [(RegistryUnreachable, Fail)]);
    assert!(judge(&facts)[0].message.contains("CertificateRequired") && remedy(&facts).contains("cert_file"));
}

#[test]
fn what_is_to_be_written_for_plain_http() {
    let remedy = remedy(&by_http());
    assert!(
        remedy.contains("mirrors:\n  \"reg.lan:5000\":\n    endpoint:\n      - \"http://reg.lan:5000\""),
        "{remedy}"
    );
}

#[test]
fn an_image_is_there_for_the_machine() {
    let all = |names: &[&str]| {
        ImageAvailability::For(names.iter().map(|name| api::platform(name).unwrap()).collect())
    };
    for (found, want) in [
        (all(&["linux/amd64", "linux/arm64"]), None),
        (all(&["linux/amd64"]), Some((ImageForOtherProcessor, Fail))),
        (all(&["linux/amd64", "linux/arm/v7"]), Some((ImageForOtherProcessor, Warn))),
        (all(&[]), Some((ImageForOtherProcessor, Fail))),
        (ImageAvailability::Missing, Some((ImageNotFound, Fail))),
        (ImageAvailability::Denied, Some((RegistryAccessDenied, Fail))),
        (ImageAvailability::Unusable("schema 1".to_owned()), Some((ImageNotFound, Fail))),
        (ImageAvailability::Unknown("no answer".to_owned()), None),
    ] {
        let wanted = WantedImage {
            image: api::image("app:1", "reg.lan:5000").unwrap(),
            platform: api::platform("linux/arm64").unwrap(),
            found: found.clone(),
        };
        let facts = RegistryFacts { image: Some(wanted), ..good() };
        assert_eq!(codes(&facts), Vec::from_iter(want), "{found:?}");
    }
    let facts = RegistryFacts { missing: Some("app".to_owned()), ..good() };
    assert_eq!(codes(&facts), [(ImageNotFound, Fail)]);
}

#[test]
fn foreign_words_are_quoted_and_no_secret_is_shown() {
    let evil = "\u{1b}[2J$(reboot)";
    let reply = Reply {
        challenge: api::challenge(&format!("Basic realm=\"{evil}\"")),
        location: Some(evil.to_owned()),
        ..answers(401)
    };
    let configured = Some(file("configs: {'reg.lan:5000': {auth: {username: me, password: hunter2}}}\n"));
    let facts = RegistryFacts { https: nothing(), http: Ok(reply), configured, ..good() };
    let shown: String = judge(&facts).iter().map(crate::finding_text::text).collect();
    let shown = shown + &facts.lines().join("\n");
    assert!(!shown.contains('\u{1b}') && !shown.contains("$(reboot)"), "{shown}");
    assert!(!shown.contains("hunter2") && !format!("{facts:?}").contains("hunter2"));
    let commands = judge(&facts).into_iter().filter_map(|finding: Finding| finding.remedy);
    assert!(commands.flat_map(|remedy| remedy.commands).all(|command| !command.contains("reboot")));
}

#[test]
fn a_host_and_its_port() {
    for (registry, want) in
        [("reg.lan:5000", ("reg.lan", Some(5000))), ("reg.lan", ("reg.lan", None)), ("a:b", ("a:b", None))]
    {
        assert_eq!(split(registry), want);
    }
}
