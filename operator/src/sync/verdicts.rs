//! A reconcile as conditions, where there was work. Pure.
//!
//! The fold looks at nothing but that, so two equal outcomes give equal conditions and the second writes no
//! status. Messages are for people: they name places and remedies, and hold nothing of any object's content.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use weaver_api::conditions::{
    AUTHORIZED, CONFLICTED, PAUSED, PROGRESSING, SOURCE_FOUND, TARGETS_SYNCED, Truth, Verdict,
};
use weaver_api::marks::{ACCEPT_FROM_ANNOTATION, OFFER_TO_ANNOTATION};
use weaver_api::names::SUBDOMAIN_MAX;
use weaver_api::v1beta1::SourceDeletionPolicy;
use weaver_api::validate::ValidSync;
use weaver_tenant::Account;

use super::execute::{CopyChange, TargetState};
use super::outcome::{SourceState, SourceWork, Unlisted, Work};
use crate::args::RunOptions;
use crate::controller;
use crate::controller::outcome::NOTHING_IS_WRITTEN;
use crate::controller::verdicts::listed;
use crate::watch::LIMITS;
use weaver_copies::object::ObjectKey;
use weaver_copies::plan::{Before, Foreign};
use weaver_copies::rights::{Right, explain};
use weaver_copies::sources::{MAX_COPIES, MAX_SOURCES};

/// Reason while what the spec asks of the source's keys cannot be done.
pub(super) const KEYS_CLASH: &str = "KeysClash";

/// Reason while the source is what is never copied.
pub(super) const NOT_COPIED: &str = "SourceNotCopied";

/// Reason while the name of a copy would be too long.
pub(super) const NAME_TOO_LONG: &str = "CopyNameTooLong";

/// Reason while labels select no source.
pub(super) const NO_SOURCE: &str = "NoSource";

/// Reason while they select more than may be.
pub(super) const TOO_MANY: &str = "TooManySources";

/// Reason while the API server does not serve the kind that is asked for, or not at that version.
pub(super) const KIND_NOT_SERVED: &str = "KindNotServed";

/// Reason while the kind that is asked for is never copied.
pub(super) const KIND_NOT_COPIED: &str = "KindNotCopied";

/// Reason while the API server does not say which kinds it serves.
pub(super) const KIND_UNKNOWN: &str = "KindUnknown";

/// Reason while a spec asks what would be done.
const DRY_RUN: &str = "DryRun";

impl controller::outcome::Work for Work {
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

    fn resync(&self, options: &RunOptions) -> Duration {
        self.period(options)
    }
}

impl Work {
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
            Err(words) => {
                let message = format!("a request was refused, and the account's rights are unknown: {words}");
                Verdict::new(AUTHORIZED, Truth::Unknown, "RightsUnknown", message)
            }
        }
    }

    fn source_found(&self) -> Verdict {
        match self.sources.first_key_value() {
            Some((name, source)) if self.spec.source_name().is_some() => self.found(name, source),
            _ => self.selected(),
        }
    }

    /// Of sources that labels select.
    fn selected(&self) -> Verdict {
        let verdict = |truth, reason, words| Verdict::new(SOURCE_FOUND, truth, reason, words);
        if let Some((reason, words)) = self.nothing_selected() {
            let truth = if matches!(reason, NO_SOURCE | TOO_MANY) { Truth::False } else { Truth::Unknown };
            return verdict(truth, reason, words);
        }
        let unread = self.sources.iter().find(|(_, source)| source.state.is_unknown());
        if let Some((name, source)) = unread {
            let Verdict { truth, reason, message, .. } = self.found(name, source);
            return verdict(truth, reason, message);
        }
        let incomplete: Vec<String> = self
            .sources
            .iter()
            .filter(|(_, source)| !source.absent_keys.is_empty())
            .map(|(name, source)| format!("{name} has no key {}", listed(&source.absent_keys)))
            .collect();
        let mut message = format!("{} {} found", self.sources.len(), self.those());
        if !incomplete.is_empty() {
            let _ = write!(message, "; {}", listed(&incomplete));
        }
        verdict(Truth::True, "Found", message)
    }

    /// Why there is nothing to copy of what labels select.
    fn nothing_selected(&self) -> Option<(&'static str, String)> {
        if self.spec.source_name().is_some() {
            return None;
        }
        Some(match &self.unlisted {
            Some(Unlisted::TooMany) => {
                let words = format!(
                    "more than {MAX_SOURCES} {} were found, so nothing is copied: ask for more labels in \
                     spec.source.selector, or divide them among several ConfigMapSyncs; existing copies stay as \
                     they are",
                    self.those()
                );
                (TOO_MANY, words)
            }
            Some(Unlisted::TooManyCopies { sources, targets }) => {
                let words = format!(
                    "{sources} {} for {targets} namespaces would be {} copies, and at most {MAX_COPIES} are allowed, so \
                     nothing is copied: select fewer sources, or divide them among several ConfigMapSyncs; existing \
                     copies stay as they are",
                    self.those(),
                    sources * targets
                );
                (TOO_MANY, words)
            }
            Some(Unlisted::Forbidden(words)) => ("SourceForbidden", words.clone()),
            Some(Unlisted::Failed(words)) => ("SourceUnknown", words.clone()),
            None if self.sources.is_empty() => {
                let copies = match self.spec.source_deletion_policy {
                    SourceDeletionPolicy::Retain => "stay as they are",
                    SourceDeletionPolicy::Delete => "are deleted",
                };
                let namespace = &self.spec.source_namespace;
                (
                    NO_SOURCE,
                    format!("no {} were found; copies of sources in {namespace} {copies}", self.those()),
                )
            }
            None => return None,
        })
    }

    /// The sources, in words.
    fn those(&self) -> String {
        let ValidSync { source_kind, source_namespace, .. } = &self.spec;
        format!("{} in {source_namespace} that spec.source.selector selects", source_kind.several())
    }

    fn found(&self, name: &str, source: &SourceWork) -> Verdict {
        let place = ObjectKey::of_source(&self.spec, name);
        match &source.state {
            SourceState::Found
            | SourceState::Clash(_)
            | SourceState::AccountToken
            | SourceState::NameTooLong(_) => {
                let absent = format!("; it has no key {}", listed(&source.absent_keys));
                let absent = if source.absent_keys.is_empty() { "" } else { &absent };
                Verdict::new(SOURCE_FOUND, Truth::True, "Found", format!("{place}{absent}"))
            }
            SourceState::Missing => Verdict::new(
                SOURCE_FOUND,
                Truth::False,
                "SourceMissing",
                match self.spec.source_deletion_policy {
                    SourceDeletionPolicy::Retain => {
                        format!("{place} does not exist; existing copies stay as they are")
                    }
                    SourceDeletionPolicy::Delete => {
                        format!("{place} does not exist, so its copies are deleted")
                    }
                },
            ),
            SourceState::Forbidden(words) => {
                Verdict::new(SOURCE_FOUND, Truth::Unknown, "SourceForbidden", words.clone())
            }
            SourceState::Failed(words) => {
                Verdict::new(SOURCE_FOUND, Truth::Unknown, "SourceUnknown", words.clone())
            }
        }
    }

    /// Why no target was looked at, where none was.
    fn unjudged(&self) -> Option<(&'static str, String)> {
        let unjudged: Option<Vec<_>> = self.sources.values().map(|source| source.state.unjudged()).collect();
        self.nothing_selected().or_else(|| unjudged?.into_iter().next())
    }

    /// A copy, in words: its namespace, and its name where there are several.
    fn target_name(&self, source: &SourceWork, namespace: &str) -> String {
        match self.spec.source_name() {
            Some(_) => namespace.to_owned(),
            None => format!("{namespace}/{}", source.copy_name),
        }
    }

    fn conflicted(&self) -> Verdict {
        if let Some((reason, words)) = self.unjudged() {
            return Verdict::new(CONFLICTED, Truth::Unknown, reason, words);
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
        let adoptable = |state: &TargetState| *state == TargetState::Conflict(Foreign::Unmarked);
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
        if let Some((reason, words)) = self.unjudged() {
            return Verdict::new(TARGETS_SYNCED, Truth::Unknown, reason, words);
        }
        let (mut synced, mut absent) = (0, BTreeSet::new());
        let (mut troubles, mut planned) = (Vec::new(), Vec::new());
        for (source, namespace, state) in self.copies() {
            let target = || self.target_name(source, namespace);
            match state {
                TargetState::Synced(..) => synced += 1,
                TargetState::NamespaceMissing => drop(absent.insert(namespace.to_owned())),
                TargetState::NamespaceTerminating => {}
                TargetState::WithoutFinalizer => troubles.push(format!("{}: not written yet", target())),
                TargetState::Planned(change) => {
                    let what = match change {
                        CopyChange::Create => "created",
                        CopyChange::Update(Before::Ours) => "updated",
                        CopyChange::Update(Before::Upstreams) => "taken over from the upstream operator",
                        CopyChange::Update(Before::Theirs) => "adopted",
                        CopyChange::Replace => "replaced",
                    };
                    planned.push(format!("{}: would be {what}", target()));
                }
                TargetState::NotServed => troubles.push(format!("{}: {NOT_SERVED}", target())),
                TargetState::NotAccepted => {
                    troubles.push(format!("{}: {}", target(), not_accepted(&self.account)));
                }
                TargetState::NotOffered => {
                    troubles.push(format!("{}: {}", target(), not_offered(&self.spec)));
                }
                TargetState::Conflict(_) => troubles.push(format!("{}: conflict", target())),
                TargetState::Forbidden(status) => troubles.push(format!("{}: {}", target(), status.message)),
                TargetState::Rejected(words) | TargetState::Failed(words) => {
                    troubles.push(format!("{}: {words}", target()));
                }
            }
        }
        for (name, source) in &self.sources {
            if let Some((_, words)) = source.state.unjudged() {
                troubles.push(format!("{}: {words}", ObjectKey::of_source(&self.spec, name)));
            }
        }
        for (place, kept) in &self.stale.kept {
            let words = kept.words();
            troubles.push(format!("{place} is a stale copy and could not be removed: {words}"));
        }
        if let Some(words) = &self.stale.search_failed {
            troubles.push(format!("stale copies could not be listed: {words}"));
        }
        if let Some(words) = &self.selection.failed {
            troubles
                .push(format!("could not determine which selected namespaces the account may see: {words}"));
        }
        let all = self.targets().count();
        let mut message = match self.spec.source_name() {
            Some(_) => format!("{synced} of {all} targets hold the copy"),
            None => format!("{synced} of {all} copies of {} sources are there", self.sources.len()),
        };
        let absent: Vec<String> = absent.into_iter().collect();
        if !absent.is_empty() {
            let _ = write!(message, "; waiting for namespaces that do not exist: {}", listed(&absent));
        }
        if self.spec.names_source_namespace {
            let _ = write!(
                message,
                "; {} is the source's own namespace and is skipped",
                self.spec.source_namespace
            );
        }
        planned.extend(self.stale.planned.iter().map(|place| format!("{place}: would be removed")));
        let (truth, reason) = match (troubles.is_empty(), planned.is_empty()) {
            (false, _) => (Truth::False, "TargetsFailed"),
            (true, false) => (Truth::False, DRY_RUN),
            (true, true) => (Truth::True, "Synced"),
        };
        for more in [troubles, planned].iter().filter(|more| !more.is_empty()) {
            let _ = write!(message, "; {}", listed(more));
        }
        Verdict::new(TARGETS_SYNCED, truth, reason, message)
    }
}

impl SourceState {
    /// Why no target was looked at, where none was.
    pub(super) fn unjudged(&self) -> Option<(&'static str, String)> {
        match self {
            SourceState::Found => None,
            SourceState::Clash(clash) => {
                Some((KEYS_CLASH, format!("{clash}; existing copies stay as they are")))
            }
            SourceState::AccountToken => {
                let words = "a Secret of type kubernetes.io/service-account-token is the identity of one \
                             account and is never copied; existing copies stay as they are";
                Some((NOT_COPIED, words.to_owned()))
            }
            SourceState::NameTooLong(length) => {
                let words = format!(
                    "the name of its copies would have {length} characters, and at most {SUBDOMAIN_MAX} are \
                     allowed: shorten spec.targets.namePrefix and nameSuffix, or its name"
                );
                Some((NAME_TOO_LONG, words))
            }
            SourceState::Missing | SourceState::Forbidden(_) | SourceState::Failed(_) => {
                Some(("SourceUnknown", "not checked: the source could not be read".to_owned()))
            }
        }
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

/// What is said of an object that stands where a copy is to be.
pub(super) fn untouched(spec: &ValidSync, namespace: &str, name: &str, foreign: &Foreign) -> String {
    format!("{} was left untouched: {foreign}", ObjectKey::of_copy(spec, namespace, name))
}

/// No fan-out runs.
#[must_use]
pub fn at_rest() -> Verdict {
    Verdict::new(PROGRESSING, Truth::False, "AtRest", "")
}

#[cfg(test)]
#[path = "verdicts_tests.rs"]
mod tests;
