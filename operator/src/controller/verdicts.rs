//! Verdicts that are the same for each of our kinds. Pure.

use std::fmt::Write as _;

use weaver_api::conditions::{AUTHORIZED, MIGRATED, Truth, Verdict};
use weaver_api::convert::ANNOTATION;
use weaver_api::minting;
use weaver_api::validate::SpecFault;
use weaver_tenant::Account;
use weaver_tenant::token::MintError;

/// How many object keys a message names before it counts the rest.
const NAMED: usize = 10;

/// Does the object say all that is needed, and is all that it says used? An object that was written as v1alpha1
/// may lack what v1beta1 requires, and the annotation in which conversion carries the rest may be edited by hand.
///
/// `faults` are those of the spec; `annotation_faults` is what is wrong with that annotation.
pub fn migrated(faults: &[SpecFault], annotation_faults: &[String]) -> Verdict {
    let missing: Vec<_> = faults.iter().filter(|fault| is_missing(fault)).collect();
    let ignored = || {
        format!(
            "the annotation {ANNOTATION} has content that is kept but not used: {}",
            listed(annotation_faults)
        )
    };
    if !missing.is_empty() {
        let mut said: Vec<String> = missing.iter().map(ToString::to_string).collect();
        said.extend((!annotation_faults.is_empty()).then(ignored));
        return Verdict::new(MIGRATED, Truth::False, "Incomplete", said.join("; "));
    }
    if !annotation_faults.is_empty() {
        let message = format!("{}; correct it there, or set the fields at v1beta1", ignored());
        return Verdict::new(MIGRATED, Truth::False, "RoundTripAnnotationIgnored", message);
    }
    Verdict::new(MIGRATED, Truth::True, "Complete", "")
}

fn is_missing(fault: &SpecFault) -> bool {
    matches!(fault, SpecFault::Missing { .. })
}

/// There is no token for an account, and why.
pub fn unauthorized(error: &MintError) -> Verdict {
    let (reason, message) = match error {
        MintError::AccountMissing(Account { namespace, name }) => (
            "AccountMissing",
            format!("{error}; create it: kubectl -n {namespace} create serviceaccount {name}"),
        ),
        MintError::Forbidden(Account { namespace, name }) => {
            ("MintingForbidden", format!("{error}; allow it: {}", minting::command(namespace, name)))
        }
        MintError::Failed { .. } => ("TokenFailed", error.to_string()),
    };
    let truth = if matches!(error, MintError::Failed { .. }) { Truth::Unknown } else { Truth::False };
    Verdict::new(AUTHORIZED, truth, reason, message)
}

/// The first items, and how many more there are.
pub fn listed(items: &[String]) -> String {
    let mut text = items.iter().take(NAMED).cloned().collect::<Vec<_>>().join("; ");
    if items.len() > NAMED {
        let _ = write!(text, "; and {} more", items.len() - NAMED);
    }
    text
}
