//! The rules of `spec.generate` of a `ServiceToken`, and the accounts that it asks for.

use std::collections::BTreeMap;
use std::time::Duration;

use super::fault::shown;
use super::fields::SpecFaults;
use super::token::{ValidToken, check_audiences, check_lifetime};
use super::values::{
    annotation_key, annotation_template, key_template, label_key, label_template, name_template,
};
use crate::template::{self, Template};
use crate::v1beta1::{Generate, MAX_GENERATED};

/// Fewest and most accounts of one `ServiceToken`.
const COUNT: [i32; 2] = [1, MAX_GENERATED];
/// Most labels, and most annotations.
const MAX_ENTRIES: usize = 16;

/// Accounts to generate.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ValidGenerate {
    /// Number of accounts, 1 to [`MAX_GENERATED`].
    pub count: u16,
    /// Has an index where there are several.
    pub name: Template,
    /// Key in the Secret; has an index where there are several accounts.
    pub key: Template,
    /// Templates of the values, by the key of the label.
    pub labels: BTreeMap<String, Template>,
    /// Templates of the values, by the key of the annotation.
    pub annotations: BTreeMap<String, Template>,
    /// Audiences of each token, as in [`ValidToken::audiences`].
    pub audiences: Vec<String>,
    /// Lifetime of each token, as in [`ValidToken::lifetime`].
    pub lifetime: Duration,
}

/// One account to generate.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ValidAccount {
    /// Name of the `ServiceAccount`.
    pub name: String,
    /// Labels that it is to carry.
    pub labels: BTreeMap<String, String>,
    /// Annotations that it is to carry.
    pub annotations: BTreeMap<String, String>,
}

pub(super) fn check_generate(generate: &Generate, faults: &mut SpecFaults) -> ValidGenerate {
    let [least, most] = COUNT;
    if !(least..=most).contains(&generate.count) {
        let fault = format!(
            "{} is not allowed: write {least} to {most}; for more use a second ServiceToken",
            generate.count
        );
        faults.broken("spec.generate.count", fault);
    }
    let name = Some(generate.name.as_str());
    let remedy = "name the accounts to make, such as bot-{{n}}";
    let name = faults.required("spec.generate.name", name, name_template, remedy);
    if let Some(key) = &generate.key {
        faults.text("spec.generate.key", key, key_template);
    }
    let indexed = [("name", "accounts", Some(&name)), ("key", "tokens", generate.key.as_ref())];
    for (field, what, text) in indexed {
        let text = text
            .filter(|text| generate.count > 1 && !text.is_empty() && !template::is_unique_per_index(text));
        if let Some(text) = text {
            let fault = format!(
                "{} gives all {what} one {field}: write {{{{n}}}} or {{{{padded}}}} in it",
                shown(text)
            );
            faults.broken(format!("spec.generate.{field}"), fault);
        }
    }
    let rules = [label_key, label_template];
    faults.labels_or_annotations("spec.generate.labels", &generate.labels, MAX_ENTRIES, rules);
    let rules = [annotation_key, annotation_template];
    faults.labels_or_annotations("spec.generate.annotations", &generate.annotations, MAX_ENTRIES, rules);
    check_audiences("spec.generate.audiences", &generate.audiences, faults);
    let lifetime = check_lifetime("spec.generate.expirationSeconds", generate.expiration_seconds, faults);
    let templates = |map: &BTreeMap<String, String>| {
        map.iter().map(|(key, value)| (key.clone(), Template::new(value))).collect()
    };
    ValidGenerate {
        count: u16::try_from(generate.count).unwrap_or_default(),
        key: Template::new(generate.key.as_ref().unwrap_or(&name)),
        name: Template::new(&name),
        labels: templates(&generate.labels),
        annotations: templates(&generate.annotations),
        audiences: generate.audiences.clone(),
        lifetime,
    }
}

impl ValidGenerate {
    /// The accounts and their tokens, for the resource `NAMESPACE/NAME`.
    pub fn accounts(&self, resource: &str) -> Vec<(ValidAccount, ValidToken)> {
        (1..=self.count).map(|n| self.account(n, &template::hash(resource, n))).collect()
    }

    fn account(&self, n: u16, hash: &str) -> (ValidAccount, ValidToken) {
        let rendered = |map: &BTreeMap<String, Template>| {
            map.iter().map(|(key, value)| (key.clone(), value.render(n, hash))).collect()
        };
        let account = ValidAccount {
            name: self.name.render(n, hash),
            labels: rendered(&self.labels),
            annotations: rendered(&self.annotations),
        };
        let token = ValidToken {
            key: self.key.render(n, hash),
            account: account.name.clone(),
            audiences: self.audiences.clone(),
            lifetime: self.lifetime,
            not_before: None,
            generated: Some(n),
        };
        (account, token)
    }
}
