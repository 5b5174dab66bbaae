//! A certificate chain and its private key, from one PEM file.
//!
//! One file, because one rename replaces both: anyone who reads it never sees a key that belongs to another
//! certificate. What is wrong with a file is said in fixed words; a parser's own would show its lines.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use sha2::{Digest as _, Sha256};
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

/// Why a file is not a certificate with its key.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PairFault {
    /// Not PEM, or cut off inside a block.
    #[error("it is not PEM text, or is truncated")]
    NotPem,
    #[error("it holds no certificate")]
    NoCertificate,
    /// No private key block.
    #[error("it holds no private key")]
    NoKey,
    /// The first certificate is not X.509.
    #[error("its certificate cannot be read")]
    Certificate,
    /// The key is of no kind that we can sign with.
    #[error("its private key cannot be used")]
    Key,
    /// The key is not that of the first certificate.
    #[error("its private key belongs to another certificate")]
    Mismatch,
    /// Only where a CA is wanted.
    #[error("its certificate is not a CA certificate")]
    NotCa,
}

/// A certificate chain, its own certificate first, and the private key of that one.
#[derive(Clone)]
pub struct Pair {
    certified: Arc<CertifiedKey>,
    key: Arc<PrivateKeyDer<'static>>,
    names: BTreeSet<String>,
    expires: Timestamp,
    is_ca: bool,
}

impl Pair {
    /// Reads the PEM text of a file; blocks of other kinds are skipped.
    ///
    /// # Errors
    /// What is missing or does not fit.
    pub fn parse(pem: &[u8]) -> Result<Self, PairFault> {
        let chain: Vec<_> =
            CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|_| PairFault::NotPem)?;
        let first = chain.first().ok_or(PairFault::NoCertificate)?;
        let (names, expires, is_ca) = read(first).ok_or(PairFault::Certificate)?;
        let key = match PrivateKeyDer::from_pem_slice(pem) {
            Ok(key) => key,
            Err(rustls::pki_types::pem::Error::NoItemsFound) => return Err(PairFault::NoKey),
            Err(_) => return Err(PairFault::NotPem),
        };
        let certified = CertifiedKey::from_der(chain, key.clone_key(), &default_provider());
        let certified = certified.map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => PairFault::Mismatch,
            rustls::Error::InvalidCertificate(_) => PairFault::Certificate,
            _ => PairFault::Key,
        })?;
        Ok(Self { certified: Arc::new(certified), key: Arc::new(key), names, expires, is_ca })
    }

    /// What a TLS server shows and signs with.
    pub fn certified(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.certified)
    }

    /// The certificate itself.
    ///
    /// # Errors
    /// None is there, which [`Pair::parse`] rules out.
    pub fn certificate(&self) -> Result<&CertificateDer<'static>, PairFault> {
        self.certified.cert.first().ok_or(PairFault::NoCertificate)
    }

    /// Its private key; `Debug` does not show it.
    pub fn key(&self) -> &PrivateKeyDer<'static> {
        &self.key
    }

    /// The DNS names, in lower case, and addresses it is good for.
    pub fn names(&self) -> &BTreeSet<String> {
        &self.names
    }

    /// From then on it is refused.
    pub fn expires(&self) -> Timestamp {
        self.expires
    }

    /// May it sign other certificates?
    pub fn is_ca(&self) -> bool {
        self.is_ca
    }

    /// The first 16 hexadecimal digits of the certificate's SHA-256: enough to distinguish two in a log.
    pub fn fingerprint(&self) -> String {
        let digest = Sha256::digest(self.certified.cert.first().map_or(&[][..], |der| der.as_ref()));
        digest.iter().take(8).fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
    }
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair")
            .field("fingerprint", &self.fingerprint())
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

/// From when to when the first certificate of a PEM text is valid; `None` where there is none to read.
pub fn validity(pem: &[u8]) -> Option<(Timestamp, Timestamp)> {
    validity_of(&CertificateDer::pem_slice_iter(pem).next()?.ok()?)
}

/// The same of a certificate.
pub fn validity_of(certificate: &CertificateDer<'_>) -> Option<(Timestamp, Timestamp)> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let at = |seconds, beyond| Timestamp::from_second(seconds).unwrap_or(beyond);
    let (begins, ends) = (parsed.validity().not_before, parsed.validity().not_after);
    Some((at(begins.timestamp(), Timestamp::MIN), at(ends.timestamp(), Timestamp::MAX)))
}

fn read(certificate: &CertificateDer<'_>) -> Option<(BTreeSet<String>, Timestamp, bool)> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let names = parsed.subject_alternative_name().ok()?;
    let names = names.iter().flat_map(|names| &names.value.general_names).filter_map(|name| match name {
        GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
        GeneralName::IPAddress(bytes) => address(bytes).map(|address| address.to_string()),
        _ => None,
    });
    // "No well-defined expiration date" (RFC 5280, 4.1.2.5) lies a day beyond the last of `Timestamp`.
    let expires = Timestamp::from_second(parsed.validity().not_after.timestamp()).unwrap_or(Timestamp::MAX);
    Some((names.collect(), expires, parsed.is_ca()))
}

/// An address as a certificate has it.
pub(crate) fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    fn pem() -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["LocalHost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    #[test]
    fn a_certificate_with_its_key_is_read_in_either_order() {
        let (certificate, key) = pem();
        for text in [format!("{certificate}{key}"), format!("# a remark\n{key}\n{certificate}")] {
            let pair = Pair::parse(text.as_bytes()).unwrap();
            assert_eq!(pair.names(), &["127.0.0.1", "localhost"].map(str::to_owned).into());
            assert!(!pair.is_ca());
            assert_eq!(pair.fingerprint().len(), 16);
        }
    }

    #[test]
    fn how_long_a_certificate_is_valid() {
        let mut params = CertificateParams::default();
        params.not_before = rcgen::date_time_ymd(2024, 2, 1);
        params.not_after = rcgen::date_time_ymd(2025, 2, 1);
        let text = params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem();
        let (begins, ends) = validity(text.as_bytes()).unwrap();
        assert_eq!(
            (begins.to_string().as_str(), ends.to_string().as_str()),
            ("2024-02-01T00:00:00Z", "2025-02-01T00:00:00Z")
        );
        for none in ["", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "garbage"] {
            assert_eq!(validity(none.as_bytes()), None, "{none}");
        }
    }

    #[test]
    fn bad_files_are_distinguished() {
        let ((certificate, key), (_, other_key)) = (pem(), pem());
        let half = |text: &str| text[..text.len() / 2].to_owned();
        for (name, text, fault) in [
            ("empty", String::new(), PairFault::NoCertificate),
            ("garbage", "\u{0}\u{1}garbage".to_owned(), PairFault::NoCertificate),
            ("no key", certificate.clone(), PairFault::NoKey),
            ("no certificate", key.clone(), PairFault::NoCertificate),
            ("cut off in the certificate", half(&certificate), PairFault::NotPem),
            ("cut off in the key", format!("{certificate}{}", half(&key)), PairFault::NotPem),
            ("of another", format!("{certificate}{other_key}"), PairFault::Mismatch),
            (
                "not X.509",
                format!("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n{key}"),
                PairFault::Certificate,
            ),
            (
                "not a key",
                format!("{certificate}-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"),
                PairFault::Key,
            ),
        ] {
            assert_eq!(Pair::parse(text.as_bytes()).unwrap_err(), fault, "{name}");
        }
    }

    #[test]
    fn the_key_is_not_shown() {
        let (certificate, key) = pem();
        let pair = Pair::parse(format!("{certificate}{key}").as_bytes()).unwrap();
        let inside: String = key.lines().filter(|line| !line.starts_with('-')).collect();
        let shown = format!("{pair:?} {pair:#?}");
        assert!(shown.contains("fingerprint") && !shown.contains(&inside[..16]), "{shown}");
    }
}
