//! One TLS handshake, verified as a client would, which records the names of the certificate.
//!
//! For `weaver kubeconfig` and the node agent. The name that is sent and the name that is verified are
//! separate arguments: k3s' listener may add each name that a client asks for to its certificate,
//! permanently. No credential is needed or sent. Failure: the reason is in [`Handshake::outcome`].
//!
//! Guarantees: if [`Handshake::outcome`] blames the dates, only the dates are wrong. The verifier checks the dates
//! before the issuer, so an expired certificate of any issuer would be blamed for its dates. Chain, name and
//! the server's key are therefore verified at a time within the certificate's own dates, and a fault of
//! theirs is reported instead.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, InvalidMessage, SignatureScheme};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, ToSocketAddrs};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use weaver_diagnostics::serving::{HandshakeOutcome, Silence};
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

use crate::key_pair::address;

/// Longest time for one connection and handshake.
pub const DEADLINE: Duration = Duration::from_secs(5);
/// The same at a second look, for a server that is only slow: a Pi that pulls images takes ten and more.
pub const SECOND_LOOK: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub struct Handshake {
    pub outcome: HandshakeOutcome,
    /// The names of the certificate, in its order, if one was shown.
    pub served: Vec<String>,
    pub certificate: Option<CertificateDer<'static>>,
    /// The address that answered.
    pub peer: Option<IpAddr>,
    /// How long it took.
    pub took: Duration,
}

impl Handshake {
    /// Whether the connection was accepted, as the kernel of a busy machine does at once, and then no answer came in
    /// time. A machine that is off, or behind a firewall, accepts none.
    pub const fn is_late(&self) -> bool {
        matches!(self.outcome, HandshakeOutcome::Unreachable(Silence::Late(_))) && self.peer.is_some()
    }
}

/// Connects to `endpoint`, sends `asked` (an address is not sent: TLS forbids it) and verifies the certificate
/// for `judged`, within `deadline`.
pub async fn handshake(
    endpoint: impl ToSocketAddrs,
    verifier: Arc<WebPkiServerVerifier>,
    asked: ServerName<'static>,
    judged: ServerName<'static>,
    deadline: Duration,
) -> Handshake {
    let begun = Instant::now();
    let recorder = Arc::new(Recorder { verifier, judged, noted: Mutex::default() });
    let config = ClientConfig::builder()
        .dangerous()
        .with_custom_certificate_verifier(Arc::clone(&recorder) as _)
        .with_no_client_auth();
    let mut peer = None;
    let connection = async {
        let stream = TcpStream::connect(endpoint).await?;
        peer = Some(stream.peer_addr()?.ip());
        TlsConnector::from(Arc::new(config)).connect(asked, stream).await.map(drop)
    };
    let ended = timeout(deadline, connection).await.unwrap_or_else(|_| {
        let why = format!("no answer within {} s", deadline.as_secs());
        Err(io::Error::new(io::ErrorKind::TimedOut, why))
    });
    let Noted { certificate, dates } = std::mem::take(&mut *recorder.noted.lock());
    let outcome = match (ended, dates) {
        (Err(error), _) => of_connection(&error),
        (Ok(()), Some(dates)) => of_tls(&dates),
        (Ok(()), None) => HandshakeOutcome::Proven,
    };
    let served = certificate.as_ref().map(names_of).unwrap_or_default();
    Handshake { outcome, served, certificate, peer, took: begun.elapsed() }
}

/// How a client judges a certificate that it was given as a CA itself, which webpki accepts from no server: Go and
/// OpenSSL trust it, for its names and between its dates.
pub fn of_itself(
    certificate: &CertificateDer<'_>,
    judged: &ServerName<'_>,
    now: UnixTime,
) -> HandshakeOutcome {
    let parsed = rustls::server::ParsedCertificate::try_from(certificate);
    let Ok((_, dates)) = X509Certificate::from_der(certificate) else {
        return HandshakeOutcome::Untrusted("it cannot be read".to_owned());
    };
    if let Err(error) = parsed.and_then(|parsed| rustls::client::verify_server_name(&parsed, judged)) {
        return of_tls(&error);
    }
    let at = |seconds: i64| UnixTime::since_unix_epoch(Duration::from_secs(seconds.try_into().unwrap_or(0)));
    let (begins, ends) = (dates.validity().not_before.timestamp(), dates.validity().not_after.timestamp());
    if now < at(begins) {
        HandshakeOutcome::Dates(format!("it is valid only from {}", date(at(begins))))
    } else if now > at(ends) {
        HandshakeOutcome::Dates(format!("it expired on {}", date(at(ends))))
    } else {
        HandshakeOutcome::Proven
    }
}

/// Whether the certificate is one of a CA, which webpki accepts from no server.
pub fn is_ca(certificate: &CertificateDer<'_>) -> bool {
    X509Certificate::from_der(certificate).is_ok_and(|(_, parsed)| parsed.is_ca())
}

fn of_connection(error: &io::Error) -> HandshakeOutcome {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    tls.map_or_else(|| HandshakeOutcome::Unreachable(Silence::from(error)), of_tls)
}

fn of_tls(error: &Error) -> HandshakeOutcome {
    let silent = |why| HandshakeOutcome::Unreachable(Silence::Unanswered(why));
    let certificate = match error {
        Error::InvalidCertificate(certificate) => certificate,
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            return silent("no TLS is spoken at this port".to_owned());
        }
        other => return silent(format!("TLS: {other}")),
    };
    match certificate {
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            HandshakeOutcome::NotServed
        }
        CertificateError::Expired => HandshakeOutcome::Dates("it has expired".to_owned()),
        CertificateError::ExpiredContext { not_after, .. } => {
            HandshakeOutcome::Dates(format!("it expired on {}", date(*not_after)))
        }
        CertificateError::NotValidYet => HandshakeOutcome::Dates("it is not valid yet".to_owned()),
        CertificateError::NotValidYetContext { not_before, .. } => {
            HandshakeOutcome::Dates(format!("it is valid only from {}", date(*not_before)))
        }
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            HandshakeOutcome::Untrusted("it is signed by another CA".to_owned())
        }
        other => HandshakeOutcome::Untrusted(other.to_string()),
    }
}

fn date(time: UnixTime) -> String {
    i64::try_from(time.as_secs())
        .ok()
        .and_then(|seconds| jiff::Timestamp::from_second(seconds).ok())
        .map_or_else(|| "an impossible date".to_owned(), |timestamp| timestamp.to_string())
}

/// What the server at `endpoint` says the time is, in seconds since 1970: the second clock where a certificate's dates
/// are in doubt.
///
/// Nothing is verified and no credential is sent: the answer is unauthenticated.
pub async fn clock(endpoint: &str, host: ServerName<'static>) -> Option<i64> {
    let config = believing(None);
    let asking = async {
        let stream = TcpStream::connect(endpoint).await.ok()?;
        let mut stream = TlsConnector::from(Arc::new(config)).connect(host, stream).await.ok()?;
        stream.write_all(b"GET /ping HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.ok()?;
        let mut answer = Vec::new();
        // An end without a farewell is an end, too.
        let _ = stream.take(ANSWER).read_to_end(&mut answer).await;
        date_of(&String::from_utf8_lossy(&answer))
    };
    timeout(DEADLINE, asking).await.ok().flatten()
}

/// The longest answer that is read for its date: bytes.
const ANSWER: u64 = 8 * 1024;

fn date_of(answer: &str) -> Option<i64> {
    let headers = answer.lines().take_while(|line| !line.is_empty());
    let mut dates =
        headers.filter_map(|line| line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("date")));
    let time = jiff::fmt::rfc2822::parse(dates.next()?.1.trim()).ok()?;
    Some(time.timestamp().as_second())
}

/// For a client that takes this one certificate, or any where none is given: for what is worth nothing to anyone, or
/// to say all that is wrong with a server that is not trusted. The server has to have its key.
pub fn believing(only: Option<CertificateDer<'static>>) -> ClientConfig {
    let algorithms = CryptoProvider::get_default().map_or_else(
        || rustls::crypto::ring::default_provider().signature_verification_algorithms,
        |it| it.signature_verification_algorithms,
    );
    ClientConfig::builder()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Believing { only, algorithms }))
        .with_no_client_auth()
}

#[derive(Debug)]
struct Believing {
    only: Option<CertificateDer<'static>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Believing {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match &self.only {
            Some(only) if only != end_entity => {
                Err(Error::General("another certificate than before".to_owned()))
            }
            _ => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Verifies like a client and notes which certificate was shown.
#[derive(Debug)]
struct Recorder {
    verifier: Arc<WebPkiServerVerifier>,
    judged: ServerName<'static>,
    noted: Mutex<Noted>,
}

#[derive(Debug, Default)]
struct Noted {
    certificate: Option<CertificateDer<'static>>,
    /// The dates are wrong, and nothing else is.
    dates: Option<Error>,
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
        self.noted.lock().certificate = Some(end_entity.clone().into_owned());
        let verified_at = |time| {
            self.verifier.verify_server_cert(end_entity, intermediates, &self.judged, ocsp_response, time)
        };
        let Err(error) = verified_at(now) else { return Ok(ServerCertVerified::assertion()) };
        if !is_of_dates(&error) {
            return Err(error);
        }
        // A chain that is valid at no time is not one of the CA.
        let unknown = || Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let time = latest_beginning(end_entity, intermediates).ok_or_else(unknown)?;
        let verified =
            verified_at(time).map_err(|other| if is_of_dates(&other) { unknown() } else { other })?;
        // The handshake continues, so that the server proves its key. Nothing is sent after it.
        self.noted.lock().dates = Some(error);
        Ok(verified)
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

fn is_of_dates(error: &Error) -> bool {
    matches!(
        error,
        Error::InvalidCertificate(
            CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. }
        )
    )
}

/// From when on all of these are valid, if there is such a time. `None` where one does not parse.
fn latest_beginning(end_entity: &CertificateDer<'_>, rest: &[CertificateDer<'_>]) -> Option<UnixTime> {
    let begins = |certificate: &CertificateDer<'_>| {
        let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
        // Before 1970 is as good as 1970.
        Some(u64::try_from(parsed.validity().not_before.timestamp()).unwrap_or(0))
    };
    let first = begins(end_entity)?;
    let latest = rest.iter().try_fold(first, |latest, one| Some(latest.max(begins(one)?)))?;
    Some(UnixTime::since_unix_epoch(Duration::from_secs(latest)))
}

/// The names of a certificate, in its order; none where it does not parse.
fn names_of(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else { return Vec::new() };
    let Ok(Some(names)) = parsed.subject_alternative_name() else { return Vec::new() };
    let name = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => address(bytes).map(|address| address.to_string()),
        _ => None,
    };
    names.value.general_names.iter().filter_map(name).collect()
}

#[cfg(test)]
mod tests;
