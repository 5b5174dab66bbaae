//! When k3s' CA begins: a fact for the judgement of the served names.

use std::path::Path;

use jiff::Timestamp;
use weaver_diagnostics::future_ca::FutureCa;
use weaver_host::key_pair::validity;

use crate::clock_wait::is_synchronised;
use crate::host_root::HostRoot;

/// The CA, if it begins later than now; `None` also where it cannot be read, which others report.
pub fn future_ca(root: &HostRoot, server_ca: &Path, now: Timestamp) -> Option<FutureCa> {
    let (begins, _) = validity(root.read_if_possible(server_ca)?.text.as_bytes())?;
    if begins <= now {
        return None;
    }
    Some(FutureCa {
        file: server_ca.display().to_string(),
        begins: begins.to_string(),
        server: server_ca.ancestors().nth(2)?.display().to_string(),
        clock_is_set: is_synchronised(root),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_root::fixture::host;

    const CA: &str = "/var/lib/rancher/k3s/server/tls/server-ca.crt";
    const SYNCHRONISED: &str = "/run/systemd/timesync/synchronized";

    fn read(files: &[(&str, &str)], now: &str) -> Option<FutureCa> {
        let (_dir, root) = host(files);
        future_ca(&root, Path::new(CA), now.parse().unwrap())
    }

    #[test]
    fn only_a_ca_of_later_is_from_the_future() {
        let mut params = rcgen::CertificateParams::default();
        params.not_before = rcgen::date_time_ymd(2030, 1, 1);
        params.not_after = rcgen::date_time_ymd(2040, 1, 1);
        let pem = params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().pem();
        let ca = |clock_is_set| FutureCa {
            file: CA.to_owned(),
            begins: "2030-01-01T00:00:00Z".to_owned(),
            server: "/var/lib/rancher/k3s/server".to_owned(),
            clock_is_set,
        };
        assert_eq!(read(&[(CA, &pem)], "2029-12-30T00:00:00Z"), Some(ca(false)));
        assert_eq!(read(&[(CA, &pem), (SYNCHRONISED, "")], "2029-12-30T00:00:00Z"), Some(ca(true)));
        assert_eq!(read(&[(CA, &pem)], "2030-01-01T00:00:00Z"), None);
        assert_eq!(read(&[(CA, "no certificate")], "2029-12-30T00:00:00Z"), None);
        assert_eq!(read(&[], "2029-12-30T00:00:00Z"), None);
    }
}
