//! The rules of one token of a `ServiceToken`.

use std::time::Duration;

use jiff::Timestamp;

use super::fault::shown;
use super::fields::SpecFaults;
use super::values::{audience, data_key, date_time, object_name};
use crate::v1beta1::{ServiceAccountRef, Token};

/// Most audiences of one token.
const MAX_AUDIENCES: usize = 16;
/// Seconds that a token may live.
const LIFETIME: [i64; 2] = [600, 86_400];

/// One requested token. It contains no secret.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ValidToken {
    /// Key of the Secret.
    pub key: String,
    /// `ServiceAccount` of the resource's own namespace whose token it is.
    pub account: String,
    /// Its audiences, each once; empty means the API server's own audience.
    pub audiences: Vec<String>,
    /// How long it lives: 600 s to a day.
    pub lifetime: Duration,
    /// It is not minted before this time. Narrower than the API server, which also accepts what is no point in
    /// time (an offset of 99 hours, any character for the decimal point, anything behind a second `T`) and
    /// more than nine decimal places.
    pub not_before: Option<Timestamp>,
    /// Index of the account, where it is one that is generated.
    pub generated: Option<u16>,
}

pub(super) fn check_token(field: &str, token: &Token, faults: &mut SpecFaults) -> ValidToken {
    let key = faults.required(
        format!("{field}.key"),
        Some(&token.key),
        data_key,
        "set the key of the Secret that holds the token",
    );
    let account = faults.required(
        format!("{field}.serviceAccount.name"),
        account_name(token.service_account.as_ref()),
        object_name,
        "set the ServiceAccount of this namespace that the token is for",
    );
    check_audiences(&format!("{field}.audiences"), &token.audiences, faults);
    let lifetime = check_lifetime(&format!("{field}.expirationSeconds"), token.expiration_seconds, faults);
    let mut not_before = None;
    if let Some(text) = &token.not_before {
        match date_time(text) {
            Ok(time) => not_before = Some(time),
            Err(fault) => faults.broken(format!("{field}.notBefore"), format!("{} {fault}", shown(text))),
        }
    }
    ValidToken { key, account, audiences: token.audiences.clone(), lifetime, not_before, generated: None }
}

pub(super) fn check_audiences(field: &str, audiences: &[String], faults: &mut SpecFaults) {
    faults.size(field, audiences.len(), MAX_AUDIENCES, "use a second token");
    faults.each_once(field, audiences, audience);
}

pub(super) fn check_lifetime(field: &str, lifetime: i64, faults: &mut SpecFaults) -> Duration {
    let [shortest, longest] = LIFETIME;
    if !(shortest..=longest).contains(&lifetime) {
        faults.broken(field, format!("{lifetime} is not allowed: write {shortest} to {longest}"));
    }
    Duration::from_secs(lifetime.unsigned_abs())
}

pub(super) fn account_name(account: Option<&ServiceAccountRef>) -> Option<&str> {
    account.and_then(|account| account.name.as_deref())
}
