//! The API server's certificate in the `NodeReport`. Pure.

use jiff::Timestamp;
use weaver_api::v1beta1::{NodeServing, NodeServingName};
use weaver_diagnostics::finding_text::clean;
use weaver_diagnostics::serving::HandshakeOutcome;
use weaver_host::key_pair::{validity, validity_of};

use crate::checks::CheckResult;

/// The most names that the definition accepts.
const MOST: usize = 128;
/// The most characters of a name that the definition accepts, as it is shown: a control character has several.
const LONGEST: usize = 256;

/// `None` where no certificate was seen: nothing is known then.
pub(crate) fn of(check: &CheckResult) -> Option<NodeServing> {
    let certificate = check.certificate.as_ref()?;
    let name = |name: &str, configured, served| {
        let name = clean(name).chars().take(LONGEST).collect();
        NodeServingName { name, configured, served }
    };
    let mut names: Vec<NodeServingName> = Vec::new();
    let configured = check
        .seen
        .iter()
        .map(|(wanted, seen)| name(&wanted.name.to_string(), true, seen.outcome == HandshakeOutcome::Proven));
    let others = check.served.iter().map(|served| name(served, false, true));
    for other in configured.chain(others) {
        let is_known = names.iter().any(|known| known.name.eq_ignore_ascii_case(&other.name));
        if !other.name.is_empty() && !is_known {
            names.push(other);
        }
    }
    names.truncate(MOST);
    let expires = |(_, expires): (Timestamp, Timestamp)| expires.to_string();
    Some(NodeServing {
        names,
        certificate_expires: validity_of(certificate).map(expires),
        ca_expires: check.server_ca.as_deref().and_then(|pem| validity(pem.as_bytes())).map(expires),
    })
}

#[cfg(test)]
mod tests {
    use weaver_diagnostics::finding::Place;
    use weaver_diagnostics::serving::{Observation, WantedName};

    use super::*;

    fn certificate(year: i32) -> rcgen::Certificate {
        let mut params = rcgen::CertificateParams::default();
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap()
    }

    fn check(seen: &[(&str, HandshakeOutcome)], served: &[&str]) -> CheckResult {
        let served: Vec<String> = served.iter().map(|name| (*name).to_owned()).collect();
        let seen = seen.iter().map(|(name, outcome)| {
            let wanted = WantedName { name: name.parse().unwrap(), origin: Place::file("/c.yaml") };
            (wanted, Observation { outcome: outcome.clone(), served: served.clone() })
        });
        CheckResult {
            findings: Vec::new(),
            proven: false,
            api_address: ([127, 0, 0, 1], 6443).into(),
            server_ca: Some(certificate(2040).pem()),
            seen: seen.collect(),
            served,
            certificate: Some(certificate(2031).der().clone()),
            watched_dirs: Vec::new(),
            load: None,
        }
    }

    #[test]
    fn names_asked_for_come_first_and_each_once() {
        let seen = [("raspi", HandshakeOutcome::Proven), ("pi.lan", HandshakeOutcome::NotServed)];
        let report = of(&check(&seen, &["kubernetes", "RASPI", "10.43.0.1"])).unwrap();
        let names: Vec<_> =
            report.names.iter().map(|name| (name.name.as_str(), name.configured, name.served)).collect();
        assert_eq!(
            names,
            [
                ("raspi", true, true),
                ("pi.lan", true, false),
                ("kubernetes", false, true),
                ("10.43.0.1", false, true)
            ]
        );
        assert_eq!(report.certificate_expires.as_deref(), Some("2031-01-01T00:00:00Z"));
        assert_eq!(report.ca_expires.as_deref(), Some("2040-01-01T00:00:00Z"));
    }

    #[test]
    fn without_a_certificate_nothing_is_known_and_a_hostile_one_is_bounded() {
        let silent = CheckResult { certificate: None, ..check(&[], &[]) };
        assert_eq!(of(&silent), None);
        let many: Vec<String> = (0..500).map(|i| format!("{i}{}", "\u{202e}x".repeat(400))).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let report = of(&check(&[], &many)).unwrap();
        assert_eq!(report.names.len(), MOST);
        assert!(report.names.iter().all(|name| name.name.chars().count() <= 256), "{:?}", report.names[0]);
    }
}
