//! A reconcile as conditions, where there was work. Pure.
//!
//! The fold looks at nothing but that, so two equal outcomes give equal conditions and the second writes no
//! status. Messages are for people: they name objects and remedies, and have nothing of any object's content.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use weaver_api::conditions::{
    AUTHORIZED, CONFLICTED, PAUSED, PROGRESSING, SOURCE_FOUND, TARGETS_SYNCED, Truth, Verdict,
};
use weaver_api::ownership::{ACCEPT_FROM_ANNOTATION, OFFER_TO_ANNOTATION};
use weaver_api::validate::ValidSync;
use weaver_tenant::Account;

use super::execute::{CopyChange, TargetState};
use super::outcome::{SourceWork, SyncWork};
use crate::args::RunOptions;
use crate::controller;
use crate::controller::outcome::NOTHING_IS_WRITTEN;
use crate::controller::verdicts::listed;
use crate::watch::LIMITS;
use weaver_copies::object::ObjectKey;
use weaver_copies::plan::{Foreign, PreviousOwner};
use weaver_copies::rights::{Right, explain};

/// Reason while the API server does not serve the kind that is asked for, or not at that version.
pub(super) const KIND_NOT_SERVED: &str = "KindNotServed";

/// Reason while the kind that is asked for is never copied.
pub(super) const KIND_NOT_COPIED: &str = "KindNotCopied";

/// Reason while the API server does not say which kinds it serves.
pub(super) const KIND_UNKNOWN: &str = "KindUnknown";

/// Reason while a spec asks what would be done.
const DRY_RUN: &str = "DryRun";

impl controller::outcome::TenantWork for SyncWork {
    const ABOUT: &'static [&'static str] = &[SOURCE_FOUND, TARGETS_SYNCED];
    const DONE: &'static str = "Synced";
    const ACCOUNT: &'static str = "account";

    /// A missing right explains a missing source or copy, so it comes first.
    fn verdicts(&self) -> Vec<Verdict> {
        vec![self.authorized(), self.source_found(), self.conflicted(), self.targets_synced()]
    }

    fn paused(&self) -> Option<Verdict> {
        self.spec.dry_run.then(|| Verdict::new(PAUSED, Truth::True, DRY_RUN, NOTHING_IS_WRITTEN))
    }

    fn wants_retry(&self) -> bool {
        self.may_be_cured()
    }

    /// As each target's own pause ends: that of the resource starts again with each reconciliation, whatever caused it.
    fn retry_within(&self) -> Option<Duration> {
        self.first_due
    }

    fn resync(&self, options: &RunOptions) -> Duration {
        self.period(options)
    }
}

impl SyncWork {
    fn authorized(&self) -> Verdict {
        match &self.rights.missing {
            Ok(missing) if missing.is_empty() && self.watched.beyond > 0 => {
                Verdict::new(AUTHORIZED, Truth::True, "Polled", at_limit(&self.account, self.watched.beyond))
            }
            Ok(missing) if missing.is_empty() => {
                let message = format!("{} has every right that is needed", self.account);
                Verdict::new(AUTHORIZED, Truth::True, "Allowed", message)
            }
            Ok(missing) if missing.iter().all(Right::is_for_watching) => {
                let message = format!(
                    "changes are polled instead of watched: {}",
                    explain(&self.account, missing, false)
                );
                Verdict::new(AUTHORIZED, Truth::True, "Polled", message)
            }
            Ok(missing) => {
                let mut message = explain(&self.account, missing, false);
                if self.rights.unexplained > 0 {
                    let _ = writeln!(message, "# {} more namespaces were refused", self.rights.unexplained);
                }
                Verdict::new(AUTHORIZED, Truth::False, "MissingRights", message)
            }
            Err(text) => {
                let message = format!("a request was refused, and the account's rights are unknown: {text}");
                Verdict::new(AUTHORIZED, Truth::Unknown, "RightsUnknown", message)
            }
        }
    }

    /// A copy, in words: its namespace, and its name where there are several.
    fn target_name(&self, source: &SourceWork, namespace: &str) -> String {
        if self.has_one_copy() { namespace.to_owned() } else { format!("{namespace}/{}", source.copy_name) }
    }

    fn conflicted(&self) -> Verdict {
        if let Some((reason, text)) = self.unjudged() {
            return Verdict::new(CONFLICTED, Truth::Unknown, reason, text);
        }
        let conflicts: Vec<String> = self
            .copies()
            .filter_map(|(source, namespace, state)| match state {
                TargetState::Conflict(foreign) => {
                    Some(untouched(&self.spec, namespace, &source.copy_name, foreign))
                }
                _ => None,
            })
            .collect();
        if conflicts.is_empty() {
            return Verdict::new(CONFLICTED, Truth::False, "NoConflict", "");
        }
        let adoptable = |state: &TargetState| *state == TargetState::Conflict(Foreign::Unlabeled);
        let anothers = |state: &TargetState| matches!(state, TargetState::Conflict(Foreign::Other { .. }));
        let remedy = if self.targets().any(adoptable) {
            "rename or delete it, take the namespace out of spec.targets, or set conflictPolicy: Adopt to take it over"
        } else if self.targets().any(anothers) {
            "rename or delete it, or take the namespace out of spec.targets; if its ConfigMapSync no longer exists, \
            run `weaver orphans adopt` on it, then set conflictPolicy: Adopt"
        } else {
            "rename or delete it, or take the namespace out of spec.targets"
        };
        Verdict::new(CONFLICTED, Truth::True, "Conflict", format!("{}; {remedy}", listed(&conflicts)))
    }

    fn targets_synced(&self) -> Verdict {
        if let Some((reason, text)) = self.unjudged() {
            return Verdict::new(TARGETS_SYNCED, Truth::Unknown, reason, text);
        }
        let (troubles, planned) = (self.troubles(), self.planned());
        let (truth, reason) = match (troubles.is_empty(), planned.is_empty()) {
            (false, _) => (Truth::False, "TargetsFailed"),
            (true, false) => (Truth::False, DRY_RUN),
            (true, true) => (Truth::True, "Synced"),
        };
        let mut message = self.synced_message();
        for more in [troubles, planned].iter().filter(|more| !more.is_empty()) {
            let _ = write!(message, "; {}", listed(more));
        }
        Verdict::new(TARGETS_SYNCED, truth, reason, message)
    }

    /// How many copies are there, and which namespaces have none without a fault.
    fn synced_message(&self) -> String {
        let (all, synced) =
            (self.targets().count(), self.targets().filter(|state| state.is_synced()).count());
        let mut message = if self.has_one_copy() {
            format!("{synced} of {all} targets hold the copy")
        } else {
            format!("{synced} of {all} copies of {} sources exist", self.sources.len())
        };
        let is_absent = |state: &TargetState| *state == TargetState::NamespaceMissing;
        let absent = self.copies().filter(|(.., state)| is_absent(state));
        let absent: BTreeSet<String> = absent.map(|(_, namespace, _)| namespace.to_owned()).collect();
        if !absent.is_empty() {
            let absent: Vec<String> = absent.into_iter().collect();
            let _ = write!(message, "; waiting for namespaces that do not exist: {}", listed(&absent));
        }
        if self.spec.names_source_namespace {
            let _ = write!(
                message,
                "; {} is the source's own namespace and is skipped",
                self.spec.source_namespace
            );
        }
        message
    }

    /// What fails: with copies, sources, stale copies, the search for namespaces.
    fn troubles(&self) -> Vec<String> {
        let of_copies = self.copies().filter_map(|(source, namespace, state)| {
            let text = self.trouble(state)?;
            Some(format!("{}: {text}", self.target_name(source, namespace)))
        });
        let mut troubles: Vec<String> = of_copies.collect();
        for (name, source) in self.sources.iter().filter(|_| self.merged.is_none()) {
            if let Some((_, text)) = source.state.unjudged() {
                troubles.push(format!("{}: {text}", ObjectKey::of_source(&self.spec, name)));
            }
        }
        for (key, kept) in &self.stale.kept {
            let text = kept.text();
            troubles.push(format!("{key} is a stale copy and could not be removed: {text}"));
        }
        if let Some(text) = &self.stale.search_failed {
            troubles.push(format!("stale copies could not be listed: {text}"));
        }
        if let Some(text) = &self.selection.failed {
            troubles
                .push(format!("could not determine which selected namespaces the account may see: {text}"));
        }
        troubles
    }

    /// Why a target does not have the copy, if that is a fault.
    fn trouble<'a>(&self, state: &'a TargetState) -> Option<Cow<'a, str>> {
        Some(match state {
            TargetState::Synced(..)
            | TargetState::Planned(_)
            | TargetState::NamespaceMissing
            | TargetState::NamespaceTerminating => return None,
            TargetState::WithoutFinalizer => "not written yet".into(),
            TargetState::NotServed => NOT_SERVED.into(),
            TargetState::NotAccepted => not_accepted(&self.account).into(),
            TargetState::NotOffered => not_offered(&self.spec).into(),
            TargetState::Conflict(_) => "conflict".into(),
            TargetState::Forbidden(text) | TargetState::Rejected(text) | TargetState::Failed(text) => {
                (&**text).into()
            }
        })
    }

    /// What a dry run would change.
    fn planned(&self) -> Vec<String> {
        let changed = self.copies().filter_map(|(source, namespace, state)| {
            let TargetState::Planned(change) = state else { return None };
            let what = match change {
                CopyChange::Create => "created",
                CopyChange::Update(PreviousOwner::Ours) => "updated",
                CopyChange::Update(PreviousOwner::Upstreams) => "taken over from the upstream operator",
                CopyChange::Update(PreviousOwner::Theirs) => "adopted",
                CopyChange::Replace => "replaced",
            };
            Some(format!("{}: would be {what}", self.target_name(source, namespace)))
        });
        changed.chain(self.stale.planned.iter().map(|key| format!("{key}: would be removed"))).collect()
    }
}

/// What is said of a namespace beyond the operator's `--namespaces`.
pub(super) const NOT_SERVED: &str = "this operator does not serve the namespace (--namespaces)";

/// What is said of a namespace that lets in no copies.
pub(super) fn not_accepted(account: &Account) -> String {
    format!(
        "the namespace accepts no copies from {}: its annotation {ACCEPT_FROM_ANNOTATION} excludes it",
        account.namespace
    )
}

/// What is said of a namespace to which those of the source's let no copies out.
pub(super) fn not_offered(spec: &ValidSync) -> String {
    format!(
        "namespace {} offers no copies to it: its annotation {OFFER_TO_ANNOTATION} excludes it",
        spec.source_namespace
    )
}

/// What is said where a tenant has as many watches, or keeps as much, as one may.
fn at_limit(account: &Account, unwatched: usize) -> String {
    format!(
        "{account} has every right that is needed, but {unwatched} namespaces are polled instead of watched: \
        namespace {} is limited to {} watches and {} MiB of metadata ({} MiB for one watch). Grant list and watch in \
        all namespaces, and one watch serves all targets",
        account.namespace,
        LIMITS.watches,
        LIMITS.bytes >> 20,
        LIMITS.bytes_each >> 20
    )
}

/// The message about an object at the key where a copy should be.
pub(super) fn untouched(spec: &ValidSync, namespace: &str, name: &str, foreign: &Foreign) -> String {
    format!("{} was left untouched: {foreign}", ObjectKey::of_copy(spec, namespace, name))
}

pub fn at_rest() -> Verdict {
    Verdict::new(PROGRESSING, Truth::False, "Idle", "")
}

#[cfg(test)]
#[path = "verdicts_tests.rs"]
mod tests;
