use super::*;
use proptest::prelude::*;

fn setting(value: &str) -> Setting {
    Setting { value: value.into(), origin: Place::line("/c.yaml", 2) }
}

fn seen(name: &str, outcome: HandshakeOutcome, served: &[&str]) -> ObservedName {
    let (mut names, _) = wanted(&[setting(name)], ServingStage::Serving);
    let served = served.iter().map(|s| (*s).to_owned()).collect();
    (names.remove(0), Observation { outcome, served })
}

#[test]
fn a_name_that_is_none_fails_the_proof_and_never_the_start_of_k3s() {
    use {ServingStage::*, Severity::*};
    for (name, stage, severity, words) in [
        ("pi.", Serving, Fail, "k3s drops it and will never serve it"),
        ("pi.", BeforeStart, Warn, "k3s drops it and will never serve it"),
        ("pi_", Serving, Fail, "k3s drops it"),
        ("10.0.0.0/8", BeforeStart, Warn, "k3s drops it"),
        ("pi:6443", Serving, Fail, "no client can ask for it"),
        ("pi:6443", BeforeStart, Warn, "no client can ask for it"),
        ("node.1", Serving, Warn, "cannot be proven by the agent"),
        ("42", BeforeStart, Warn, "cannot be proven by the agent"),
    ] {
        let (names, findings) = wanted(&[setting(name)], stage);
        assert!(names.is_empty());
        assert_eq!(findings[0].severity(), severity, "{name} {stage:?}");
        assert!(findings[0].message.contains(words), "{}", findings[0].message);
        assert_eq!(findings[0].message.contains("never serve"), words.contains("drops"));
    }
}

#[test]
fn a_setting_that_is_no_name_is_a_failure_with_place_and_remedy() {
    let (names, findings) = wanted(&[setting("pi"), setting("pi:6443")], ServingStage::Serving);
    assert_eq!(names.len(), 1);
    let [found] = findings.as_slice() else { panic!("{findings:?}") };
    assert_eq!((found.severity(), found.code), (Severity::Fail, Code::NameInvalid));
    let explain = &found.remedy.as_ref().unwrap().explain;
    assert!(explain.contains("write `pi` instead in /c.yaml:2"), "{explain}");
}

#[test]
fn an_unserved_name_shows_the_served_list_the_nearest_name_and_the_plan() {
    let proof = judge(
        "127.0.0.1:6443",
        &[
            seen("pi", HandshakeOutcome::Proven, &["pi", "raspik3d"]),
            seen("raspi", HandshakeOutcome::NotServed, &["pi", "raspik3d"]),
        ],
        &Causes::default(),
    );
    assert!(!proof.proven);
    assert_eq!(proven_names(&proof.findings).collect::<Vec<_>>(), ["pi"]);
    let found = proof.findings.iter().find(|f| f.code == Code::NameNotServed).unwrap();
    assert_eq!(found.severity(), Severity::Fail);
    assert!(found.message.contains("raspi is configured and not served"));
    assert!(found.message.contains("valid for: pi, raspik3d"));
    let remedy = found.remedy.as_ref().unwrap();
    assert!(remedy.explain.contains("--tls-server-name=raspik3d"), "{}", remedy.explain);
    assert_eq!(remedy.commands, ["sudo weaver-node-agent repair names"]);
}

#[test]
fn a_name_that_is_not_served_says_whether_k3s_was_started_since() {
    for (written, want) in [
        (
            Some(WriteTime::AfterStart),
            Some("/c.yaml: changed after k3s was started; k3s reads it only at start"),
        ),
        (Some(WriteTime::BeforeStart), Some("/c.yaml: k3s was started since it was written: ")),
        (None, None),
    ] {
        let written = written.map(|written| ("/c.yaml".to_owned(), written)).into_iter().collect();
        let causes = Causes { written, ..Causes::default() };
        let proof = judge("e", &[seen("pi", HandshakeOutcome::NotServed, &[])], &causes);
        let saw = proof.findings[0].evidence.get(1).map(ToString::to_string);
        assert_eq!(saw.is_some(), want.is_some());
        assert!(saw.zip(want).is_none_or(|(saw, want)| saw.starts_with(want)));
    }
}

#[test]
fn a_ca_from_the_future_explains_the_dates_and_nothing_else() {
    let ca = FutureCa {
        file: "/ca".to_owned(),
        begins: "2030-01-01T00:00:00Z".to_owned(),
        server: "/server".to_owned(),
        clock_is_set: true,
    };
    let causes = Causes { future_ca: Some(ca), ..Causes::default() };
    let seen = [
        seen("a", HandshakeOutcome::Dates("early".into()), &[]),
        seen("b", HandshakeOutcome::NotServed, &[]),
    ];
    let plain = judge("e", &seen, &Causes::default()).findings;
    let explained = judge("e", &seen, &causes).findings;
    assert_eq!(plain[0], explained[0]);
    assert_eq!(explained[1].evidence.last().unwrap().place, Place::file("/ca"));
    assert_ne!(plain[1].remedy, explained[1].remedy);
}

#[test]
fn what_a_silent_server_leaves_is_unknown() {
    let proof = judge(
        "e",
        &[seen("pi", HandshakeOutcome::Unreachable(Silence::Refused("connection refused".into())), &[])],
        &Causes::default(),
    );
    assert!(!proof.proven);
    assert_eq!(proof.findings[0].severity(), Severity::Unknown);
    assert!(proof.findings[0].message.contains("connection refused"));
}

#[test]
fn dates_and_foreign_certificates_fail_once_for_all_names() {
    for (outcome, code) in [
        (HandshakeOutcome::Dates("expired".into()), Code::CertificateDates),
        (HandshakeOutcome::Untrusted("unknown issuer".into()), Code::CertificateUntrusted),
    ] {
        let proof =
            judge("e", &[seen("a", outcome.clone(), &["a"]), seen("b", outcome, &["a"])], &Causes::default());
        let [found] = proof.findings.as_slice() else { panic!("{proof:?}") };
        assert_eq!((found.severity(), found.code), (Severity::Fail, code));
        assert_eq!(found.evidence.len(), 3, "{found:?}");
    }
}

#[test]
fn nothing_configured_is_nothing_to_prove() {
    assert!(judge("e", &[], &Causes::default()).proven);
}

proptest! {
    /// Proven exactly when every handshake is; a failure exactly when a
    /// certificate was seen and refused.
    #[test]
    fn the_verdict_follows_the_handshakes(kinds in prop::collection::vec(0..5usize, 1..6)) {
        let outcomes = [
            HandshakeOutcome::Proven, HandshakeOutcome::NotServed, HandshakeOutcome::Dates("d".into()),
            HandshakeOutcome::Untrusted("u".into()), HandshakeOutcome::Unreachable(Silence::Unanswered("x".into())),
        ];
        let seen: Vec<_> = kinds.iter().map(|k| seen("pi", outcomes[*k].clone(), &["q"])).collect();
        let proof = judge("e", &seen, &Causes::default());
        prop_assert_eq!(proof.proven, kinds.iter().all(|k| *k == 0));
        let failed = proof.findings.iter().any(|f| f.severity() == Severity::Fail);
        prop_assert_eq!(failed, kinds.iter().any(|k| (1..=3).contains(k)));
    }
}
