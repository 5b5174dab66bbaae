//! A CA from the future. k3s makes it at its first start, by the clock of that moment: on a board whose clock was ahead,
//! each certificate begins when the CA does, and no restart of k3s helps.

use std::path::Path;

use jiff::Timestamp;
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use weaver_diagnostics::catalogue;
use weaver_diagnostics::finding::{Code, Evidence, Finding, Place, Remedy};
use weaver_diagnostics::shell::quoted;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::clock_wait::is_synchronised;
use crate::host_root::HostRoot;

/// Where the CA begins later than now: says so beside the certificate that was seen to be outside its dates, or in place
/// of it, since k3s does not even start with such a CA. As long as nobody vouches for the clock, it is the clock that is
/// to be mended.
pub fn explain(findings: &mut Vec<Finding>, root: &HostRoot, server_ca: &Path, now: Timestamp) {
    let Some(begins) = root.read_if_possible(server_ca).and_then(|file| begins(&file.text)) else { return };
    let Some(server) = server_ca.ancestors().nth(2).filter(|_| begins > now) else { return };
    let is_of_dates = |finding: &Finding| finding.code == Code::CertificateDates;
    if !findings.iter().any(is_of_dates) {
        let message = "k3s' CA begins later than now, and k3s does not start with it";
        findings.push(catalogue::finding(Code::CertificateDates, message));
    }
    let remedy = if is_synchronised(root) { begin_anew(begins, server) } else { wait_for_the_clock() };
    let evidence = Evidence {
        place: Place::file(server_ca.display().to_string()),
        saw: format!("the CA begins at {begins}"),
    };
    for finding in findings.iter_mut().filter(|finding| is_of_dates(finding)) {
        finding.evidence.push(evidence.clone());
        finding.remedy = Some(remedy.clone());
    }
}

fn wait_for_the_clock() -> Remedy {
    Remedy::new(
        "nobody has set the clock since the start: give the host a network and a time server, and wait; this remedy \
         says more if the CA is still from the future then",
    )
    .command("timedatectl")
    .command("timedatectl timesync-status")
}

fn begin_anew(begins: Timestamp, server: &Path) -> Remedy {
    let server = server.display().to_string();
    // With a name of its own: into a directory that is there already it would be moved.
    let aside = format!("{server}.{}", begins.strftime("%Y%m%dT%H%M%SZ"));
    Remedy::new(format!(
        "the clock is right, so k3s made its CA while it was ahead: wait until {begins}, or have k3s begin anew, with \
         nothing in it and a CA of today; what it had is kept aside, and each kubeconfig has to be fetched again"
    ))
    .command("timedatectl")
    .command("sudo systemctl stop k3s")
    .command(format!("sudo mv -T {} {}", quoted(&server), quoted(&aside)))
    .command("sudo systemctl start k3s")
}

fn begins(pem: &str) -> Option<Timestamp> {
    let certificate = CertificateDer::pem_slice_iter(pem.as_bytes()).next()?.ok()?;
    let (_, parsed) = X509Certificate::from_der(&certificate).ok()?;
    Timestamp::from_second(parsed.validity().not_before.timestamp()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_root::fixture::host;
    use weaver_diagnostics::finding::Severity;

    const CA: &str = "/var/lib/rancher/k3s/server/tls/server-ca.crt";
    const SYNCHRONISED: &str = "/run/systemd/timesync/synchronized";

    fn explained(ca: &str, code: Code, now: &str) -> Vec<Finding> {
        let (_dir, root) = host(&[(CA, ca), (SYNCHRONISED, "")]);
        let mut findings =
            vec![catalogue::finding(code, "m").milder(Severity::Fail).remedy(Remedy::new("restart"))];
        explain(&mut findings, &root, Path::new(CA), now.parse().unwrap());
        findings
    }

    fn ca_of_2030() -> String {
        let mut params = rcgen::CertificateParams::default();
        params.not_before = rcgen::date_time_ymd(2030, 1, 1);
        params.not_after = rcgen::date_time_ymd(2040, 1, 1);
        params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().pem()
    }

    #[test]
    fn where_the_ca_is_from_the_future_a_restart_is_no_remedy() {
        let found = explained(&ca_of_2030(), Code::CertificateDates, "2029-12-30T00:00:00Z");
        let [found] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(found.evidence[0].to_string(), format!("{CA}: the CA begins at 2030-01-01T00:00:00Z"));
        let remedy = found.remedy.as_ref().unwrap();
        assert!(remedy.explain.contains("wait until 2030-01-01T00:00:00Z"), "{}", remedy.explain);
        let aside = "sudo mv -T /var/lib/rancher/k3s/server /var/lib/rancher/k3s/server.20300101T000000Z";
        assert_eq!(remedy.commands[1..], ["sudo systemctl stop k3s", aside, "sudo systemctl start k3s"]);
    }

    /// It ends itself: nobody serves a certificate to be looked at.
    #[test]
    fn a_k3s_that_does_not_start_for_it_is_explained_as_well() {
        let found = explained(&ca_of_2030(), Code::K3sNotAnswering, "2029-12-30T00:00:00Z");
        let codes: Vec<_> = found.iter().map(|finding| finding.code).collect();
        assert_eq!(codes, [Code::K3sNotAnswering, Code::CertificateDates]);
        assert!(found[1].remedy.as_ref().unwrap().commands.len() == 4, "{found:?}");
    }

    /// It is behind, most likely, and what k3s has is of use.
    #[test]
    fn while_nobody_vouches_for_the_clock_nothing_is_moved_away() {
        let (_dir, root) = host(&[(CA, &ca_of_2030())]);
        let mut found = Vec::new();
        explain(&mut found, &root, Path::new(CA), "2029-12-30T00:00:00Z".parse().unwrap());
        let remedy = found[0].remedy.as_ref().unwrap();
        assert!(remedy.commands.iter().all(|command| command.starts_with("timedatectl")), "{remedy:?}");
    }

    #[test]
    fn whatever_else_is_left_as_it_was() {
        let ca = ca_of_2030();
        for (ca, now) in [(ca.as_str(), "2030-01-01T00:00:00Z"), ("no certificate", "2029-12-30T00:00:00Z")] {
            let found = explained(ca, Code::CertificateDates, now);
            assert_eq!(found.len(), 1);
            assert_eq!(found[0].remedy.as_ref().unwrap().explain, "restart");
        }
    }
}
