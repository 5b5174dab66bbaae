//! The rules of a `ServiceToken`.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;

use super::fault::{SpecFault, shown};
use super::fields::Faults;
use super::values::{audience, data_key, date_time, object_name};
use crate::v1beta1::{ServiceAccountRef, ServiceTokenSpec, Token};

/// Most tokens of one Secret.
const MAX_TOKENS: usize = 16;
/// Most audiences of one token.
const MAX_AUDIENCES: usize = 16;
/// Seconds that a token may live.
const LIFETIME: [i64; 2] = [600, 86_400];

/// A spec that keeps all rules, in the form in which it is carried out.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ValidServiceToken {
    /// `ServiceAccount` of the resource's own namespace whose rights write the Secret.
    pub writer: String,
    /// Name of the Secret; `None` stands for the resource's own name.
    pub secret_name: Option<String>,
    /// 1 to 16 tokens, each under a key of its own, in the order of the spec.
    pub tokens: Vec<ValidToken>,
    /// Share of a token's lifetime after which it is renewed, in percent: 1 to 99.
    pub renew_at_percent: u8,
}

/// One token that is asked for. It holds no secret.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ValidToken {
    /// Key of the Secret.
    pub key: String,
    /// `ServiceAccount` of the resource's own namespace whose token it is.
    pub account: String,
    /// For whom it is meant, each once; empty stands for the API server's own audience.
    pub audiences: Vec<String>,
    /// How long it lives: 600 s to a day.
    pub lifetime: Duration,
    /// It is not minted before this time. Narrower than the API server, which also takes what is no point in
    /// time (an offset of 99 hours, any character for the decimal point, anything behind a second `T`) and
    /// more than nine decimal places.
    pub not_before: Option<Timestamp>,
}

/// Checks the spec of a `ServiceToken`. One that is absent lacks all that is required.
///
/// # Errors
/// Every rule that is broken, in the order of the fields.
pub fn validate_token(spec: Option<&ServiceTokenSpec>) -> Result<ValidServiceToken, Vec<SpecFault>> {
    let absent = ServiceTokenSpec::default();
    let spec = spec.unwrap_or(&absent);
    let mut faults = Faults::default();
    let writer = faults.required(
        "spec.writer.serviceAccount.name",
        spec.writer.as_ref().and_then(|writer| account_name(writer.service_account.as_ref())),
        object_name,
        "name the ServiceAccount of this namespace that writes the Secret",
    );
    if let Some(name) = &spec.secret_name {
        faults.text("spec.secretName", name, object_name);
    }
    if spec.tokens.is_empty() {
        faults.missing("spec.tokens", "name at least one token by its key and its ServiceAccount");
    }
    faults.size("spec.tokens", spec.tokens.len(), MAX_TOKENS, "use a second ServiceToken");
    let mut keys = BTreeSet::new();
    let mut tokens = Vec::new();
    for (index, token) in spec.tokens.iter().enumerate() {
        let field = format!("spec.tokens[{index}]");
        if !keys.insert(&token.key) {
            faults.duplicate(&field, &token.key);
        }
        tokens.push(check_token(&field, token, &mut faults));
    }
    let percent = u8::try_from(spec.renew_at_percent).ok().filter(|percent| (1..100).contains(percent));
    if percent.is_none() {
        let fault = format!("{} is not allowed: write more than 0 and less than 100", spec.renew_at_percent);
        faults.broken("spec.renewAtPercent", fault);
    }
    faults.unless_any(ValidServiceToken {
        writer,
        secret_name: spec.secret_name.clone(),
        tokens,
        renew_at_percent: percent.unwrap_or_default(),
    })
}

fn check_token(field: &str, token: &Token, faults: &mut Faults) -> ValidToken {
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
    let audiences = format!("{field}.audiences");
    faults.size(&audiences, token.audiences.len(), MAX_AUDIENCES, "use a second token");
    faults.each_once(&audiences, &token.audiences, audience);
    let [shortest, longest] = LIFETIME;
    let lifetime = token.expiration_seconds;
    if !(shortest..=longest).contains(&lifetime) {
        let fault = format!("{lifetime} is not allowed: write {shortest} to {longest}");
        faults.broken(format!("{field}.expirationSeconds"), fault);
    }
    let mut not_before = None;
    if let Some(text) = &token.not_before {
        match date_time(text) {
            Ok(time) => not_before = Some(time),
            Err(fault) => faults.broken(format!("{field}.notBefore"), format!("{} {fault}", shown(text))),
        }
    }
    let lifetime = Duration::from_secs(lifetime.unsigned_abs());
    ValidToken { key, account, audiences: token.audiences.clone(), lifetime, not_before }
}

fn account_name(account: Option<&ServiceAccountRef>) -> Option<&str> {
    account.and_then(|account| account.name.as_deref())
}

/// Checks that a changed spec names the Secret as the one before did, or leaves the name out as that one did:
/// else anyone who uses the Secret would continue with a token that no one renews.
///
/// # Errors
/// If `spec.secretName` was changed, added or removed.
pub fn secret_name_unchanged(before: &ServiceTokenSpec, after: &ServiceTokenSpec) -> Result<(), SpecFault> {
    if before.secret_name == after.secret_name {
        return Ok(());
    }
    let was = before.secret_name.as_deref().map_or_else(|| "absent".to_owned(), shown);
    let fault = format!("cannot be changed, added or removed (it was {was}): make another ServiceToken");
    Err(SpecFault::Broken { field: "spec.secretName".into(), fault })
}

#[cfg(test)]
#[path = "service_token_tests.rs"]
mod tests;
