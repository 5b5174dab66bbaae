//! Makes the CA and the certificates it signs. Keys are ECDSA P-256.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, Error,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};

use weaver_host::key_pair::Pair;

/// The CA's name. Two CAs that followed each other share it; their keys distinguish them.
const CA: &str = "config-weaver webhook CA";

/// A new CA: the text of its file, certificate first. Valid from 1970 and, in the words of RFC 5280, without a
/// well-defined expiration date: our installer configures every API server that must trust it.
pub fn authority() -> Result<String, Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name = name(CA);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.not_before = date_time_ymd(1970, 1, 1);
    params.not_after = date_time_ymd(9999, 12, 31) + Duration::from_secs(86_399);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    Ok(format!("{}{}", issuer.pem(), issuer.key().serialize_pem()))
}

/// A new certificate with a new key, signed by `authority`, good for a server of these `names` until `expires`
/// (years 1970 to 9999).
pub fn leaf(authority: &Pair, names: &BTreeSet<String>, expires: Timestamp) -> Result<String, Error> {
    let certificate = authority.certificate().map_err(|_| Error::CouldNotParseCertificate)?;
    let issuer = Issuer::from_ca_cert_der(certificate, KeyPair::try_from(authority.key())?)?;
    let mut params = CertificateParams::new(names.iter().cloned().collect::<Vec<_>>())?;
    params.distinguished_name = name("config-weaver webhook");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    params.not_before = date_time_ymd(1970, 1, 1);
    params.not_after =
        date_time_ymd(1970, 1, 1) + Duration::from_secs(expires.as_second().max(0).unsigned_abs());
    let key = KeyPair::generate()?;
    Ok(format!("{}{}", params.signed_by(&key, &issuer)?.pem(), key.serialize_pem()))
}

fn name(common: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common);
    name
}
