//! Which certificates are trusted, as containerd does it: the CAs of the system, and those of a file.
//!
//! A registry whose certificate is not trusted is checked all the same, so that all faults are reported at once.
//! Nothing secret is sent to it.

use std::fs::File;
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;
use weaver_diagnostics::serving::HandshakeOutcome;
use weaver_host::handshake::{DEADLINE, Handshake, believing, handshake, is_ca, of_itself};

/// More than any file of CAs has.
const LARGEST: u64 = 4 << 20;

pub struct RegistryTrust {
    roots: Arc<RootCertStore>,
    /// Those of the file, of which one may be the server's own.
    own: Vec<CertificateDer<'static>>,
}

/// How a server's certificate was judged, and how to connect to that server again.
pub struct Judged {
    pub outcome: HandshakeOutcome,
    pub served: Vec<String>,
    /// `None` where TLS is not spoken.
    pub connector: Option<TlsConnector>,
}

impl RegistryTrust {
    /// The CAs of this machine, and those of the file.
    pub fn new(file: Option<&Path>) -> anyhow::Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let own = file.map(certificates).transpose()?.unwrap_or_default();
        for certificate in &own {
            if roots.add(certificate.clone()).is_err() {
                bail!("{}: a certificate in it cannot be read", file.unwrap_or(Path::new("")).display());
            }
        }
        Ok(Self { roots: Arc::new(roots), own })
    }

    /// Judges the certificate at these addresses for this name.
    pub async fn judge(&self, addresses: &[SocketAddr], name: ServerName<'static>) -> anyhow::Result<Judged> {
        let verifier = WebPkiServerVerifier::builder(Arc::clone(&self.roots)).build();
        let verifier =
            verifier.context("this machine trusts no CA: install ca-certificates, or pass --ca")?;
        let Handshake { outcome, served, certificate, .. } =
            handshake(addresses, verifier, name.clone(), name.clone(), DEADLINE).await;
        let mut outcome = match (outcome, &certificate) {
            (HandshakeOutcome::Untrusted(_), Some(shown)) if is_ca(shown) => {
                HandshakeOutcome::Untrusted("it is its own CA, which is not known here".to_owned())
            }
            (outcome, _) => outcome,
        };
        let connector = match &outcome {
            HandshakeOutcome::Unreachable(_) => None,
            HandshakeOutcome::Proven => Some(
                ClientConfig::builder().with_root_certificates(Arc::clone(&self.roots)).with_no_client_auth(),
            ),
            _ => {
                if let Some(shown) = certificate.as_ref().filter(|shown| self.own.contains(shown)) {
                    outcome = of_itself(shown, &name, UnixTime::now());
                }
                certificate.map(|shown| believing(Some(shown)))
            }
        };
        let connector = connector.map(|config| TlsConnector::from(Arc::new(config)));
        Ok(Judged { outcome, served, connector })
    }
}

fn certificates(file: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let shown = file.display();
    let mut pem = Vec::new();
    let opened = File::open(file).with_context(|| format!("cannot open the CA file {shown}"))?;
    opened.take(LARGEST).read_to_end(&mut pem).with_context(|| format!("cannot read the CA file {shown}"))?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let certificates = certificates.ok().with_context(|| format!("{shown} is not a valid PEM file"))?;
    ensure!(
        !certificates.is_empty(),
        "{shown} has no certificate: it has to begin with -----BEGIN CERTIFICATE-----"
    );
    Ok(certificates)
}
