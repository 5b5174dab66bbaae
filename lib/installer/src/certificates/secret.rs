//! The same two texts in one Secret, next to the webhook's Service and called like it: for a webhook that runs
//! in the cluster.
//!
//! The webhook's pod has the certificate mounted, and not the CA. [`ensure`] writes only where something is
//! missing or due, with the version that it read as its precondition, so that two at once make one CA. [`renew`] makes
//! no CA, since it does not write the definitions by which API servers trust one. A CA that is of no use is reported.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::api::{Api, PostParams};
use tracing::info;
use weaver_api::webhook::LEAF;
use weaver_client::call::{CallError, call, lookup};
use weaver_host::key_pair::{Pair, PairFault};

use super::verdict::{CertificateVerdict, FoundCertificate, renew_at, verdict};
use super::{CA, CertificateError, Certificates, certificate_block, issue, judge, wanted};
use crate::log_code;
use crate::webhook::Service;
use crate::write::{MANAGER, ROUNDS};

/// No one looks after it between two installations, so it lives for a year; the last third of it is for renewing.
const LIFETIME: Duration = Duration::from_hours(24 * 365);

const AGAIN: &str = "`helm upgrade`, the Job of deploy/installer, or `weaver crd install`";

/// Why the Secret does not have the expected content.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// It cannot be read or written.
    #[error(
        "the Secret {service} cannot be {done}: {cause}; its namespace has to exist, and this account needs \
         `get`, `create` and `update` on Secrets in it"
    )]
    Api {
        /// Its name is the Service's.
        service: Service,
        done: &'static str,
        /// What the API server said.
        cause: Box<CallError>,
    },
    /// Its CA is of no use. It is not replaced: someone may have the right one.
    #[error(
        "ca.pem in the Secret {service} cannot be used as the webhook's CA: {fault}; put the right one \
         back, or delete the Secret (`kubectl -n {} delete secret {}`) and run the installation again \
         ({AGAIN}), which creates a new CA and registers it with the API server", service.namespace, service.name
    )]
    Authority {
        /// Its name is the Service's.
        service: Service,
        /// What is wrong with it.
        fault: PairFault,
    },
    /// It has no CA, and only an installation may make one.
    #[error(
        "the Secret {0} does not exist or has no ca.pem, so the certificate cannot be renewed, and no CRD would trust a new CA; \
         run the installation again ({AGAIN}), which creates one and registers it with the API server"
    )]
    NoAuthority(Service),
    /// Someone else writes it, again and again.
    #[error("the Secret {0} changed at each attempt to write it: find out who changes it")]
    Contested(Service),
    /// A certificate could not be made.
    #[error("making a certificate for {0} failed")]
    Make(Service, #[source] rcgen::Error),
    /// The Service has a name that no certificate can be made for.
    #[error(transparent)]
    Name(#[from] CertificateError),
}

impl SecretError {
    /// Would trying again be of no use until a user has done something?
    pub const fn is_refusal(&self) -> bool {
        matches!(self, Self::Authority { .. } | Self::NoAuthority(_))
    }
}

/// What to do where there is no CA.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum IfNoCa {
    Make,
    Refuse,
}

/// Makes CA and certificate in the Secret, or renews the certificate, where that is due at `now`.
///
/// # Errors
/// The Secret could not be read or written, or contains a CA that is not ours.
pub async fn ensure(client: &Client, service: &Service, now: Timestamp) -> Result<Certificates, SecretError> {
    written(client, service, now, IfNoCa::Make).await
}

/// Renews the certificate, where that is due at `now`, by the CA that the Secret has.
///
/// # Errors
/// As of [`ensure`], and where there is no CA.
pub async fn renew(client: &Client, service: &Service, now: Timestamp) -> Result<Certificates, SecretError> {
    written(client, service, now, IfNoCa::Refuse).await
}

async fn written(
    client: &Client,
    service: &Service,
    now: Timestamp,
    if_no_ca: IfNoCa,
) -> Result<Certificates, SecretError> {
    let api: Api<Secret> = Api::namespaced(client.clone(), &service.namespace);
    let failed =
        |done| move |cause| SecretError::Api { service: service.clone(), done, cause: Box::new(cause) };
    let params = PostParams { dry_run: false, field_manager: Some(MANAGER.into()) };
    for _ in 0..ROUNDS {
        let found = lookup(api.get(&service.name)).await.map_err(failed("read"))?;
        let (secret, certificates) = renewed(found.clone().unwrap_or_default(), service, now, if_no_ca)?;
        let written = match &found {
            _ if !certificates.changed => return Ok(certificates),
            Some(_) => call(api.replace(&service.name, &params, &secret)).await,
            None => call(api.create(&params, &secret)).await,
        };
        match written {
            Ok(_) => return Ok(certificates),
            // Created, changed or deleted since it was read.
            Err(CallError::Conflict(_)) => {}
            Err(CallError::NotFound(_)) if found.is_some() => {}
            Err(cause) => return Err(failed("written")(cause)),
        }
    }
    Err(SecretError::Contested(service.clone()))
}

/// The Secret with what was missing or due, and its certificates then.
fn renewed(
    mut secret: Secret,
    service: &Service,
    now: Timestamp,
    if_no_ca: IfNoCa,
) -> Result<(Secret, Certificates), SecretError> {
    let made = |error| SecretError::Make(service.clone(), error);
    let of_no_use = |fault| SecretError::Authority { service: service.clone(), fault };
    let data = secret.data.get_or_insert_default();
    let is_new = !data.contains_key(CA);
    if is_new && if_no_ca == IfNoCa::Refuse {
        return Err(SecretError::NoAuthority(service.clone()));
    }
    if is_new {
        data.insert(CA.into(), ByteString(issue::authority().map_err(made)?.into_bytes()));
    }
    let text = data.get(CA).map(|text| text.0.clone()).unwrap_or_default();
    let authority = Pair::parse(&text).map_err(of_no_use)?;
    if !authority.is_ca() {
        return Err(of_no_use(PairFault::NotCa));
    }
    let ca_bundle = certificate_block(&text).ok_or_else(|| of_no_use(PairFault::NoCertificate))?;

    let wanted = wanted(&[service.host()])?;
    let found =
        data.get(LEAF).map_or(FoundCertificate::Missing, |leaf| judge(Pair::parse(&leaf.0), &authority));
    let (leaf_expires, is_due) = match verdict(&found, now, &wanted, LIFETIME) {
        CertificateVerdict::Keep => (found.expires().unwrap_or(now), false),
        CertificateVerdict::Renew(reason) => {
            let expires = now.checked_add(LIFETIME).unwrap_or(Timestamp::MAX);
            let leaf = issue::leaf(&authority, &wanted, expires).map_err(made)?;
            data.insert(LEAF.into(), ByteString(leaf.into_bytes()));
            info!(
                code = log_code::WEBHOOK_CERTIFICATE_MADE, secret = %service, %expires,
                "issued a new webhook certificate: {reason}"
            );
            (expires, true)
        }
    };
    if secret.metadata.name.is_none() {
        let name = Some(service.name.clone());
        secret.metadata = ObjectMeta { name, ..ObjectMeta::default() };
    }
    let renew_at = renew_at(leaf_expires, LIFETIME);
    Ok((secret, Certificates { ca_bundle, leaf_expires, renew_at, changed: is_new || is_due }))
}

#[cfg(test)]
mod tests {
    use super::super::is_trusted;
    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    fn at(day: u32) -> Timestamp {
        Timestamp::UNIX_EPOCH + DAY * (20_000 + day)
    }

    fn service() -> Service {
        "config-weaver/weaver-webhook".parse().unwrap()
    }

    fn made() -> (Secret, Certificates) {
        renewed(Secret::default(), &service(), at(0), IfNoCa::Make).unwrap()
    }

    fn held(secret: &Secret, key: &str) -> Vec<u8> {
        secret.data.as_ref().unwrap()[key].0.clone()
    }

    #[test]
    fn what_is_made_is_good_for_the_service_and_signed_by_the_ca_that_is_returned() {
        let (secret, certificates) = made();
        assert!(certificates.changed);
        let leaf = Pair::parse(&held(&secret, LEAF)).unwrap();
        assert!(leaf.names().contains("weaver-webhook.config-weaver.svc"), "{:?}", leaf.names());
        let authority = Pair::parse(&held(&secret, CA)).unwrap();
        assert_eq!(is_trusted(&leaf, &authority), Some(true));
        let reported = certificates.ca_bundle;
        assert!(held(&secret, CA).starts_with(reported.as_bytes()) && !reported.contains("PRIVATE KEY"));
        assert_eq!(secret.metadata.name.as_deref(), Some("weaver-webhook"));
    }

    #[test]
    fn a_leaf_stays_until_it_is_due_and_the_ca_forever() {
        let (first, _) = made();
        for (what, day, changes) in [
            ("at once", 0, false),
            ("before two thirds", 243, false),
            ("after them", 244, true),
            ("too late", 400, true),
        ] {
            let (secret, certificates) = renewed(first.clone(), &service(), at(day), IfNoCa::Refuse).unwrap();
            assert_eq!(certificates.changed, changes, "{what}");
            assert_eq!(held(&secret, LEAF) != held(&first, LEAF), changes, "{what}");
            assert_eq!(held(&secret, CA), held(&first, CA), "{what}");
        }
    }

    #[test]
    fn what_is_missing_or_of_no_use_is_made_again_but_for_the_ca() {
        let (first, _) = made();
        let without = |key: &str, instead: Option<&[u8]>| {
            let mut secret = first.clone();
            let data = secret.data.get_or_insert_default();
            data.remove(key);
            data.extend(instead.map(|text| (key.to_owned(), ByteString(text.to_vec()))));
            data.insert("somebodys".into(), ByteString(b"own".to_vec()));
            renewed(secret, &service(), at(1), IfNoCa::Make)
        };
        for instead in [None, Some(&b"garbage"[..])] {
            let (secret, certificates) = without(LEAF, instead).unwrap();
            assert!(certificates.changed && held(&secret, LEAF) != held(&first, LEAF));
            assert_eq!(held(&secret, "somebodys"), b"own");
        }
        // A leaf of the old one is not trusted with a new CA.
        let (secret, _) = without(CA, None).unwrap();
        assert!(held(&secret, CA) != held(&first, CA) && held(&secret, LEAF) != held(&first, LEAF));
        let message = without(CA, Some(b"garbage")).unwrap_err().to_string();
        assert!(message.contains("kubectl -n config-weaver delete secret weaver-webhook"), "{message}");
        let leaf = held(&first, LEAF);
        let message = without(CA, Some(&leaf)).unwrap_err().to_string();
        assert!(message.contains("not a CA certificate"), "{message}");
    }

    #[test]
    fn a_renewal_makes_no_ca() {
        let (first, _) = made();
        let mut without_ca = first.clone();
        without_ca.data.get_or_insert_default().remove(CA);
        for (what, secret) in [("no Secret", Secret::default()), ("no ca.pem", without_ca)] {
            let error = renewed(secret, &service(), at(1), IfNoCa::Refuse).unwrap_err();
            assert!(error.is_refusal() && error.to_string().contains("`helm upgrade`"), "{what}: {error}");
        }
        let mut garbage = first;
        garbage.data.get_or_insert_default().insert(CA.into(), ByteString(b"garbage".to_vec()));
        assert!(renewed(garbage, &service(), at(1), IfNoCa::Refuse).unwrap_err().is_refusal());
    }
}
