//! Proves by a real handshake that a name is served by a certificate of a CA.
//!
//! It is verified as kubectl would: chain, name, dates. First without naming it:
//! k3s' listener may add every name it is asked for to its certificate, for ever,
//! and a typing error must not become a served name. Only a name that is there is
//! then asked for. Nothing of a credential is needed or sent.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use weaver_diagnostics::san::ServingName;
use weaver_diagnostics::serving::Outcome;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

/// Longest time for one connection and handshake.
const DEADLINE: Duration = Duration::from_secs(5);
/// What is asked for where no name shall be sent: TLS sends no addresses.
const NO_NAME: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// What was seen.
#[derive(Debug)]
pub struct Seen {
    /// How it ended.
    pub outcome: Outcome,
    /// The names of the certificate, if one was shown.
    pub served: Vec<String>,
    /// The address that answered.
    pub peer: Option<IpAddr>,
}

/// Whether `endpoint` (`HOST:PORT`) serves `name` by a certificate of `anchors`.
pub async fn prove(endpoint: &str, anchors: RootCertStore, name: &ServingName) -> Seen {
    let nothing = |why: String| Seen { outcome: Outcome::Unreachable(why), served: Vec::new(), peer: None };
    let verifier = match WebPkiServerVerifier::builder(Arc::new(anchors)).build() {
        Ok(verifier) => verifier,
        Err(error) => return nothing(format!("no verifier can be made from the CA: {error}")),
    };
    let judged = match name {
        ServingName::Ip(address) => (*address).into(),
        ServingName::Dns(name) | ServingName::Wildcard(name) => match ServerName::try_from(name.clone()) {
            Ok(name) => name,
            Err(_) => return nothing(format!("{name} cannot be asked for by TLS")),
        },
    };
    let seen = handshake(endpoint, Arc::clone(&verifier), NO_NAME.into(), judged.clone()).await;
    match name {
        ServingName::Dns(_) if seen.outcome == Outcome::Proven => {
            handshake(endpoint, verifier, judged.clone(), judged).await
        }
        _ => seen,
    }
}

async fn handshake(
    endpoint: &str,
    verifier: Arc<WebPkiServerVerifier>,
    asked: ServerName<'static>,
    judged: ServerName<'static>,
) -> Seen {
    let recorder = Arc::new(Recorder { verifier, judged, served: Mutex::default() });
    let config = ClientConfig::builder()
        .dangerous()
        .with_custom_certificate_verifier(Arc::clone(&recorder) as _)
        .with_no_client_auth();
    let mut peer = None;
    let connection = async {
        let stream = TcpStream::connect(endpoint).await?;
        peer = Some(stream.peer_addr()?.ip());
        TlsConnector::from(Arc::new(config)).connect(asked, stream).await
    };
    let outcome = match timeout(DEADLINE, connection).await {
        Ok(Ok(_)) => Outcome::Proven,
        Ok(Err(error)) => outcome_of(&error),
        Err(_) => Outcome::Unreachable(format!("no answer within {} s", DEADLINE.as_secs())),
    };
    let served = std::mem::take(&mut *recorder.served.lock().unwrap_or_else(PoisonError::into_inner));
    Seen { outcome, served, peer }
}

fn outcome_of(error: &std::io::Error) -> Outcome {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    let Some(Error::InvalidCertificate(certificate)) = tls else {
        return Outcome::Unreachable(tls.map_or_else(|| error.to_string(), |tls| format!("TLS: {tls}")));
    };
    match certificate {
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            Outcome::NotServed
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            Outcome::Dates("it has expired".to_owned())
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            Outcome::Dates("it is not valid yet".to_owned())
        }
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            Outcome::Untrusted("it is signed by another CA".to_owned())
        }
        other => Outcome::Untrusted(other.to_string()),
    }
}

/// Verifies like a client and notes which names were shown.
#[derive(Debug)]
struct Recorder {
    verifier: Arc<WebPkiServerVerifier>,
    judged: ServerName<'static>,
    served: Mutex<Vec<String>>,
}

impl ServerCertVerifier for Recorder {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _asked: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        *self.served.lock().unwrap_or_else(PoisonError::into_inner) = names_of(end_entity);
        self.verifier.verify_server_cert(end_entity, intermediates, &self.judged, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

/// The names of a certificate, in its order; none where it does not parse.
fn names_of(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else { return Vec::new() };
    let Ok(Some(names)) = parsed.subject_alternative_name() else { return Vec::new() };
    let name = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => <[u8; 4]>::try_from(*bytes)
            .map(|v4| IpAddr::from(v4).to_string())
            .or_else(|_| <[u8; 16]>::try_from(*bytes).map(|v6| IpAddr::from(v6).to_string()))
            .ok(),
        _ => None,
    };
    names.value.general_names.iter().filter_map(name).collect()
}
