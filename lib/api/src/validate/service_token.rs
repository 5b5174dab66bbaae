//! The rules of a `ServiceToken`.

use std::collections::BTreeSet;

use super::fault::{SpecFault, shown};
use super::fields::SpecFaults;
use super::generate::{ValidAccount, ValidGenerate, check_generate};
use super::token::{ValidToken, account_name, check_token};
use super::values::object_name;
use crate::v1beta1::ServiceTokenSpec;

/// Most tokens of one Secret.
const MAX_TOKENS: usize = 16;
/// A spec that keeps all rules, in the form that the operator executes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ValidServiceToken {
    /// `ServiceAccount` of the resource's own namespace whose rights write the Secret.
    pub writer: String,
    /// Name of the Secret; `None` means the resource's own name.
    pub secret_name: Option<String>,
    /// The tokens that are listed, at most 16, each under a key of its own, in the order of the spec; and the
    /// generated ones, where [`Self::with_generated`] has added them.
    pub tokens: Vec<ValidToken>,
    /// Accounts to generate, each with a token. There are none without listed tokens.
    pub generate: Option<ValidGenerate>,
    /// Share of a token's lifetime after which it is renewed, in percent: 1 to 99.
    pub renew_at_percent: u8,
}

impl ValidServiceToken {
    /// The accounts that the resource `NAMESPACE/NAME` makes, and the spec with a token of each of them.
    ///
    /// # Errors
    /// Where a generated key or account is also listed by hand.
    pub fn with_generated(mut self, resource: &str) -> Result<(Self, Vec<ValidAccount>), Vec<SpecFault>> {
        let generated = self.generate.as_ref().map(|generate| generate.accounts(resource));
        let (accounts, tokens): (Vec<_>, Vec<_>) = generated.into_iter().flatten().unzip();
        let names: BTreeSet<&str> = accounts.iter().map(|account| account.name.as_str()).collect();
        let keys: BTreeSet<&str> = tokens.iter().map(|token| token.key.as_str()).collect();
        let mut faults = SpecFaults::default();
        for (index, token) in self.tokens.iter().enumerate() {
            let field = format!("spec.tokens[{index}]");
            if keys.contains(token.key.as_str()) {
                let fault = format!("{} is also a key of spec.generate: write another", shown(&token.key));
                faults.broken(format!("{field}.key"), fault);
            }
            if names.contains(token.account.as_str()) {
                let fault = format!("{} is also made by spec.generate: name another", shown(&token.account));
                faults.broken(format!("{field}.serviceAccount.name"), fault);
            }
        }
        if names.contains(self.writer.as_str()) {
            let fault = format!("{} would be made by spec.generate: name another", shown(&self.writer));
            faults.broken("spec.writer.serviceAccount.name", fault);
        }
        self.tokens.extend(tokens);
        faults.unless_any((self, accounts))
    }
}

/// Checks the spec of a `ServiceToken`. One that is absent lacks all that is required.
///
/// # Errors
/// Every rule that is broken, in the order of the fields.
pub fn validate_token(spec: Option<&ServiceTokenSpec>) -> Result<ValidServiceToken, Vec<SpecFault>> {
    let absent = ServiceTokenSpec::default();
    let spec = spec.unwrap_or(&absent);
    let mut faults = SpecFaults::default();
    let writer = faults.required(
        "spec.writer.serviceAccount.name",
        spec.writer.as_ref().and_then(|writer| account_name(writer.service_account.as_ref())),
        object_name,
        "name the ServiceAccount of this namespace that writes the Secret",
    );
    if let Some(name) = &spec.secret_name {
        faults.text("spec.secretName", name, object_name);
    }
    if spec.tokens.is_empty() && spec.generate.is_none() {
        let remedy = "name at least one token by its key and its ServiceAccount, or have accounts made by spec.generate";
        faults.missing("spec.tokens", remedy);
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
    let generate = spec.generate.as_ref().map(|generate| check_generate(generate, &mut faults));
    let percent = u8::try_from(spec.renew_at_percent).ok().filter(|percent| (1..100).contains(percent));
    if percent.is_none() {
        let fault = format!("{} is not allowed: write more than 0 and less than 100", spec.renew_at_percent);
        faults.broken("spec.renewAtPercent", fault);
    }
    faults.unless_any(ValidServiceToken {
        writer,
        secret_name: spec.secret_name.clone(),
        tokens,
        generate,
        renew_at_percent: percent.unwrap_or_default(),
    })
}

#[cfg(test)]
#[path = "service_token_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "generate_tests.rs"]
mod generate_tests;
