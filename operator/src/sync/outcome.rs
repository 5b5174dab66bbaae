//! What one visit found and did, and what that means as conditions. Pure.
//!
//! The fold looks at nothing but the visit, so two equal visits give equal conditions and the second writes no
//! status. Messages are for people: they name places and remedies, and hold nothing of any object's content.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use weaver_api::conditions::{AUTHORIZED, CONFLICTED, READY, SOURCE_FOUND, TARGETS_SYNCED, Truth, Verdict};
use weaver_api::minting;
use weaver_api::validate::{SpecFault, ValidSync};

use super::execute::{Kept, TargetState};
use super::state::Place;
use crate::tenant::rights::{Right, explain};
use crate::tenant::{Account, MintError};

/// How many places a message names before it counts the rest.
const NAMED: usize = 10;

/// One visit of a resource that is not being deleted.
#[derive(Debug)]
pub enum Visit {
    /// The spec cannot be acted upon.
    InvalidSpec(Vec<SpecFault>),
    /// No token for the account.
    NoToken(MintError),
    /// The work was tried.
    Worked(Box<Work>),
}

/// What the tenant's identity found and did.
#[derive(Debug)]
pub struct Work {
    /// As whom.
    pub account: Account,
    /// What was asked for.
    pub spec: ValidSync,
    /// The source.
    pub source: SourceState,
    /// Each target that was tried.
    pub targets: BTreeMap<String, TargetState>,
    /// Copies that are not wanted any more and could not be removed.
    pub leftovers: BTreeMap<Place, Kept>,
    /// The search for leftovers failed.
    pub search_failed: Option<String>,
    /// Rights that the account was found to lack, or why it could not be asked.
    pub missing: Result<BTreeSet<Right>, String>,
    /// How many namespaces were refused and not asked about, because they are too many.
    pub unexplained: usize,
}

/// The source, as the tenant sees it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SourceState {
    /// Read.
    Found,
    /// Not there.
    Missing,
    /// The API server refused the tenant, with these words.
    Forbidden(String),
    /// Worth another try.
    Failed(String),
}

impl Visit {
    /// Is there something that another visit may cure without any event that would announce the cure? A right
    /// may be granted and an account created without our seeing it; a spec cannot change unseen.
    #[must_use]
    pub fn wants_retry(&self) -> bool {
        match self {
            Visit::InvalidSpec(_) => false,
            Visit::NoToken(_) => true,
            Visit::Worked(work) => {
                let settled = |target: &TargetState| {
                    use TargetState::{NamespaceMissing, NamespaceTerminating, Synced};
                    // The namespace's appearance is announced; for one that goes there is no cure.
                    matches!(target, Synced(_) | NamespaceMissing | NamespaceTerminating)
                };
                work.missing.as_ref().map_or(true, |missing| !missing.is_empty())
                    || !work.leftovers.is_empty()
                    || work.search_failed.is_some()
                    || matches!(work.source, SourceState::Forbidden(_) | SourceState::Failed(_))
                    || !work.targets.values().all(settled)
            }
        }
    }

    /// Is there something to write that had to wait until the resource is held by our finalizer?
    #[must_use]
    pub fn wants_claim(&self) -> bool {
        match self {
            Visit::InvalidSpec(_) | Visit::NoToken(_) => false,
            Visit::Worked(work) => work.targets.values().any(|target| *target == TargetState::Unclaimed),
        }
    }

    /// The visit as conditions.
    #[must_use]
    pub fn verdicts(&self) -> Vec<Verdict> {
        let mut verdicts = match self {
            Visit::InvalidSpec(faults) => invalid(faults),
            Visit::NoToken(error) => no_token(error),
            Visit::Worked(work) => work.verdicts(),
        };
        verdicts.insert(0, ready(&verdicts));
        verdicts
    }
}

/// `Ready` is the first thing in the way, or that there is none.
fn ready(others: &[Verdict]) -> Verdict {
    let wanted = |kind| {
        if kind == CONFLICTED { Truth::False } else { Truth::True }
    };
    match others.iter().find(|verdict| verdict.truth != wanted(verdict.kind)) {
        None => {
            let synced = others.iter().find(|verdict| verdict.kind == TARGETS_SYNCED);
            Verdict::new(READY, Truth::True, "Synced", synced.map_or_else(String::new, |v| v.message.clone()))
        }
        Some(cause) => Verdict::new(READY, Truth::False, cause.reason, cause.message.clone()),
    }
}

fn invalid(faults: &[SpecFault]) -> Vec<Verdict> {
    let list: Vec<String> = faults.iter().map(ToString::to_string).collect();
    let message = format!("{}; nothing was changed", list.join("; "));
    let unknown = |kind| Verdict::new(kind, Truth::Unknown, "InvalidSpec", message.clone());
    vec![
        unknown(SOURCE_FOUND),
        unknown(AUTHORIZED),
        Verdict::new(TARGETS_SYNCED, Truth::False, "InvalidSpec", message.clone()),
        Verdict::new(CONFLICTED, Truth::Unknown, "InvalidSpec", ""),
    ]
}

fn no_token(error: &MintError) -> Vec<Verdict> {
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
    let unknown =
        |kind| Verdict::new(kind, Truth::Unknown, reason, "not looked at: there is no token for the account");
    vec![
        Verdict::new(AUTHORIZED, truth, reason, message),
        unknown(SOURCE_FOUND),
        unknown(TARGETS_SYNCED),
        unknown(CONFLICTED),
    ]
}

impl Work {
    fn verdicts(&self) -> Vec<Verdict> {
        // A missing right explains a missing source or copy, so it comes first in `Ready`.
        vec![self.authorized(), self.source_found(), self.conflicted(), self.targets_synced()]
    }

    fn authorized(&self) -> Verdict {
        match &self.missing {
            Ok(missing) if missing.is_empty() => {
                let message = format!("{} holds every right that was needed", self.account);
                Verdict::new(AUTHORIZED, Truth::True, "Allowed", message)
            }
            Ok(missing) => {
                let mut message = explain(&self.account, missing);
                if self.unexplained > 0 {
                    let _ = writeln!(message, "# {} more namespaces were refused", self.unexplained);
                }
                Verdict::new(AUTHORIZED, Truth::False, "MissingRights", message)
            }
            Err(words) => {
                let message =
                    format!("something was refused, and the account's rights are not known: {words}");
                Verdict::new(AUTHORIZED, Truth::Unknown, "RightsUnknown", message)
            }
        }
    }

    fn source_found(&self) -> Verdict {
        let source = format!("ConfigMap {}/{}", self.spec.source_namespace, self.spec.source_name);
        match &self.source {
            SourceState::Found => Verdict::new(SOURCE_FOUND, Truth::True, "Found", source),
            SourceState::Missing => Verdict::new(
                SOURCE_FOUND,
                Truth::False,
                "SourceMissing",
                format!("{source} does not exist; copies made before stay as they are"),
            ),
            SourceState::Forbidden(words) => {
                Verdict::new(SOURCE_FOUND, Truth::Unknown, "SourceForbidden", words.clone())
            }
            SourceState::Failed(words) => {
                Verdict::new(SOURCE_FOUND, Truth::Unknown, "SourceUnknown", words.clone())
            }
        }
    }

    fn conflicted(&self) -> Verdict {
        if self.source != SourceState::Found {
            return Verdict::new(CONFLICTED, Truth::Unknown, "SourceUnknown", "");
        }
        let conflicts: Vec<String> = self
            .targets
            .iter()
            .filter_map(|(namespace, state)| match state {
                TargetState::Conflict(foreign) => Some(format!(
                    "ConfigMap {namespace}/{} was left untouched: {foreign}",
                    self.spec.source_name
                )),
                _ => None,
            })
            .collect();
        if conflicts.is_empty() {
            return Verdict::new(CONFLICTED, Truth::False, "NoConflict", "");
        }
        let remedy = "rename or delete it, or drop the namespace from spec.syncToNamespaces";
        Verdict::new(CONFLICTED, Truth::True, "Conflict", format!("{}; {remedy}", listed(&conflicts)))
    }

    fn targets_synced(&self) -> Verdict {
        if self.source != SourceState::Found {
            let message = "not judged: the source could not be read";
            return Verdict::new(TARGETS_SYNCED, Truth::Unknown, "SourceUnknown", message);
        }
        let (mut synced, mut absent, mut troubles) = (0, Vec::new(), Vec::new());
        for (namespace, state) in &self.targets {
            match state {
                TargetState::Synced(_) => synced += 1,
                TargetState::NamespaceMissing => absent.push(namespace.clone()),
                TargetState::NamespaceTerminating => {}
                TargetState::Unclaimed => troubles.push(format!("{namespace}: not written yet")),
                TargetState::Conflict(_) => troubles.push(format!("{namespace}: conflict")),
                TargetState::Forbidden(status) => troubles.push(format!("{namespace}: {}", status.message)),
                TargetState::Rejected(words) | TargetState::Failed(words) => {
                    troubles.push(format!("{namespace}: {words}"));
                }
            }
        }
        for ((namespace, name), kept) in &self.leftovers {
            let words = kept.words();
            troubles
                .push(format!("{namespace}/{name} is not wanted any more and could not be removed: {words}"));
        }
        if let Some(words) = &self.search_failed {
            troubles.push(format!("copies that are not wanted any more could not be looked for: {words}"));
        }
        let mut message = format!("{synced} of {} targets hold the copy", self.targets.len());
        if !absent.is_empty() {
            let _ = write!(message, "; not there yet: {}", listed(&absent));
        }
        if self.spec.names_source_namespace {
            let _ = write!(
                message,
                "; {} is the source's own namespace and left out",
                self.spec.source_namespace
            );
        }
        if troubles.is_empty() {
            return Verdict::new(TARGETS_SYNCED, Truth::True, "Synced", message);
        }
        let _ = write!(message, "; {}", listed(&troubles));
        Verdict::new(TARGETS_SYNCED, Truth::False, "TargetsFailed", message)
    }
}

fn listed(items: &[String]) -> String {
    let mut text = items.iter().take(NAMED).cloned().collect::<Vec<_>>().join("; ");
    if items.len() > NAMED {
        let _ = write!(text, "; and {} more", items.len() - NAMED);
    }
    text
}

#[cfg(test)]
#[path = "outcome_tests.rs"]
mod tests;
