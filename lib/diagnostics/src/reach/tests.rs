use std::io;

use super::*;
use crate::{
    k3s_config::Setting,
    serving::{ServingStage, wanted},
};
use proptest::prelude::*;

fn seen(outcome: HandshakeOutcome, served: &[&str]) -> Observation {
    Observation { outcome, served: served.iter().map(|s| (*s).to_owned()).collect() }
}

#[test]
fn a_name_that_is_not_found_is_the_fault_of_this_machine() {
    let name: ServingName = "raspi".parse().unwrap();
    let missing = lookup(&name, &Err("no such host".to_owned()), false).unwrap();
    assert_eq!((missing.code, missing.severity()), (Code::NameNotFound, Severity::Fail));
    assert_eq!(missing.remedy.unwrap().commands, ["echo 'ADDRESS raspi' | sudo tee -a /etc/hosts"]);
    let far = Ok(vec![IpAddr::from([192, 168, 1, 7])]);
    assert_eq!(lookup(&name, &far, false), None);
    let local = lookup(&"raspi.local".parse().unwrap(), &far, false).unwrap();
    assert_eq!(local.severity(), Severity::Warn);
    assert!(local.message.contains("not mDNS"), "{}", local.message);
    assert_eq!(local.remedy.unwrap().commands, ["echo '192.168.1.7 raspi.local' | sudo tee -a /etc/hosts"]);
    assert_eq!(lookup(&"10.0.0.1".parse().unwrap(), &far, false), None);
}

#[test]
fn the_trap_of_127_0_1_1() {
    let here = Ok(vec![IpAddr::from([127, 0, 1, 1])]);
    let name: ServingName = "raspi".parse().unwrap();
    let trap = lookup(&name, &here, false).unwrap();
    assert_eq!((trap.code, trap.severity()), (Code::NameNotFound, Severity::Warn));
    assert!(trap.message.contains("127.0.1.1"), "{}", trap.message);
    assert_eq!(lookup(&name, &here, true), None, "on the Pi itself it is right");
    for local in ["localhost", "k3d.localhost"] {
        assert_eq!(lookup(&local.parse().unwrap(), &here, false), None, "{local}");
    }
}

#[test]
fn a_name_without_a_dot_is_perhaps_not_found() {
    let of = |names: &[&str]| {
        let settings: Vec<_> = names
            .iter()
            .map(|name| Setting { value: (*name).to_owned(), origin: Place::line("/c.yaml", 2) })
            .collect();
        unqualified_names(&wanted(&settings, ServingStage::Serving).0)
    };
    assert_eq!(of(&["raspi.lan", "192.168.1.7", "localhost"]), None);
    let found = of(&["raspi.lan", "raspi", "pi"]).unwrap();
    assert!(found.message.contains("resolve raspi, pi is unknown"), "{}", found.message);
    assert_eq!((found.severity(), found.evidence.len()), (Severity::Unknown, 2));
}

#[test]
fn a_name_of_mdns_is_served_and_not_found() {
    let of = |names: &[&str]| -> Vec<ObservedName> {
        let setting = |name: &&str| Setting { value: (*name).to_owned(), origin: Place::line("/c.yaml", 2) };
        let settings: Vec<_> = names.iter().map(setting).collect();
        let (wanted, _) = wanted(&settings, ServingStage::Serving);
        wanted.into_iter().map(|name| (name, seen(HandshakeOutcome::Proven, &[]))).collect()
    };
    assert_eq!(hidden_names(&of(&["pi", "pi.lan", "192.168.1.7", "local"])), None);
    let found = hidden_names(&of(&["pi.lan", "Pi.local", "b.local"])).unwrap();
    assert!(found.message.contains("resolve pi.local, b.local is unknown"), "{}", found.message);
    assert_eq!((found.severity(), found.evidence.len()), (Severity::Unknown, 2));
    assert_eq!(found.remedy.unwrap().commands, ["echo 'ADDRESS pi.local' | sudo tee -a /etc/hosts"]);
}

fn silence(kind: io::ErrorKind, why: &str) -> HandshakeOutcome {
    HandshakeOutcome::Unreachable(Silence::from(&io::Error::new(kind, why.to_owned())))
}

#[test]
fn each_end_of_a_handshake_has_its_code() {
    let name: ServingName = "raspi".parse().unwrap();
    for (outcome, code) in [
        (HandshakeOutcome::Proven, Code::ServingNamesOk),
        (HandshakeOutcome::NotServed, Code::NameNotInCertificate),
        (HandshakeOutcome::Dates("it has expired".into()), Code::CertificateDates),
        (HandshakeOutcome::Untrusted("another CA".into()), Code::CertificateUntrusted),
        (silence(io::ErrorKind::ConnectionRefused, "no one there"), Code::ConnectionRefused),
        (silence(io::ErrorKind::TimedOut, "no answer within 5 s"), Code::ServerSilent),
        (silence(io::ErrorKind::NetworkUnreachable, "no route"), Code::ServerSilent),
        // The texts of others decide nothing.
        (silence(io::ErrorKind::Other, "refused"), Code::ServerSilent),
    ] {
        let finding = handshake("raspi:6443", &name, &seen(outcome.clone(), &["raspik3d"]), None, "/k");
        assert_eq!(finding.code, code, "{outcome:?}");
        assert_eq!(finding.severity() == Severity::Ok, outcome == HandshakeOutcome::Proven);
        assert_eq!(finding.remedy.is_some(), outcome != HandshakeOutcome::Proven);
    }
    let finding =
        handshake("raspi:6443", &name, &seen(HandshakeOutcome::NotServed, &["raspik3d"]), None, "/my k");
    let commands = finding.remedy.unwrap().commands;
    assert!(commands[1].contains("tls-san+: [\"raspi\"]"), "{commands:?}");
    assert!(commands[3].starts_with("kubectl --kubeconfig '/my k' config set-cluster"), "{commands:?}");
    assert!(commands[3].ends_with("--tls-server-name=raspik3d"), "{commands:?}");
    let of_k3d = seen(HandshakeOutcome::NotServed, &["k3d-edge-serverlb", "raspik3d"]);
    let commands = handshake("raspi:6443", &name, &of_k3d, None, "/k").remedy.unwrap().commands;
    assert_eq!(commands[0], "weaver k3d config edge --name raspi --name raspik3d > k3d.yaml");
    assert!(!commands.iter().any(|command| command.contains("/etc/rancher")), "{commands:?}");
}

#[test]
fn dates_are_judged_by_two_clocks() {
    let name: ServingName = "raspi".parse().unwrap();
    for (clocks, want) in [
        (None, "it is unknown which clock is wrong"),
        (Some(Clocks { here: 100, there: 110 }), "both clocks agree"),
        (
            Some(Clocks { here: 100, there: 1_800_000_000 }),
            "the server's clock is 20833 days ahead of this machine's",
        ),
        (Some(Clocks { here: 7300, there: 0 }), "the server's clock is 2 h behind this machine's"),
    ] {
        let seen = seen(HandshakeOutcome::Dates("it is not valid yet".into()), &[]);
        let message = handshake("raspi:6443", &name, &seen, clocks, "/k").message;
        assert!(message.contains(want), "{message}");
    }
    assert_eq!(clocks(Clocks { here: 0, there: 60 }), None);
    assert_eq!(
        clocks(Clocks { here: 0, there: -90 }).unwrap().message,
        "the server's clock is 90 s behind this machine's"
    );
}

#[test]
fn which_versions_are_ours() {
    for good in ["v1.33.0", "v1.36.4+k3s1", "v1.37.1+k3s1"] {
        assert_eq!(version(good), None);
    }
    for bad in ["v1.32.9+k3s1", "v1.38.0", "v2.0.0", "", "1.36"] {
        assert_eq!(version(bad).unwrap().code, Code::VersionNotSupported, "{bad}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "\\PC*", here: i32, there: i32) {
        let _ = version(&text);
        let _ = lookup(&"pi.local".parse().unwrap(), &Err(text.clone()), false);
        let two = Clocks { here: here.into(), there: there.into() };
        let _ = dates(Place::file("e"), "e", &text, Some(two));
    }
}
