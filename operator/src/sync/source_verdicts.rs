//! A reconcile as the condition `SourceFound`, and why no target was looked at. Pure.

use std::fmt::Write as _;

use weaver_api::conditions::{SOURCE_FOUND, Truth, Verdict};
use weaver_api::names::SUBDOMAIN_MAX;
use weaver_api::v1beta1::SourceDeletionPolicy;
use weaver_api::validate::{Sources, ValidSync};

use super::outcome::{SourceState, SourceWork, SyncWork, Unlisted, copied};
use crate::controller::verdicts::listed;
use weaver_copies::object::ObjectKey;
use weaver_copies::sources::{MAX_COPIES, MAX_SOURCES};

/// Reason while what the spec asks of the source's keys cannot be done.
pub(super) const KEY_CONFLICT: &str = "KeyConflict";

/// Reason while the source is what is never copied.
pub(super) const NOT_COPIED: &str = "SourceNotCopied";

/// Reason while the name of a copy would be too long.
pub(super) const NAME_TOO_LONG: &str = "CopyNameTooLong";

/// Reason while several sources would make a copy that is too large.
pub(super) const TOO_LARGE: &str = "CopyTooLarge";

/// Reason while labels select no source.
pub(super) const NO_SOURCE: &str = "NoSource";

/// Reason while they select more than may be.
pub(super) const TOO_MANY: &str = "TooManySources";

impl SyncWork {
    pub(super) fn source_found(&self) -> Verdict {
        match self.sources.first_key_value() {
            Some((name, source)) if self.spec.source_name().is_some() => self.found(name, source),
            _ => self.selected(),
        }
    }

    /// Of sources that labels select.
    fn selected(&self) -> Verdict {
        let verdict = |truth, reason, text| Verdict::new(SOURCE_FOUND, truth, reason, text);
        if let Some(text) = self.missing() {
            return verdict(Truth::False, "SourceMissing", text);
        }
        if let Some((reason, text)) = self.nothing_selected() {
            let truth = if matches!(reason, NO_SOURCE | TOO_MANY) { Truth::False } else { Truth::Unknown };
            return verdict(truth, reason, text);
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

    /// Which of the sources that are listed do not exist, and what follows.
    fn missing(&self) -> Option<String> {
        let Sources::Listed(names) = &self.spec.sources else { return None };
        let is_missing = |name: &&String| {
            self.sources.get(*name).is_some_and(|source| source.state == SourceState::Missing)
        };
        let missing: Vec<String> = names
            .iter()
            .filter(is_missing)
            .map(|name| format!("{} does not exist", ObjectKey::of_source(&self.spec, name)))
            .collect();
        let follows = match self.spec.source_deletion_policy {
            _ if missing.is_empty() => return None,
            SourceDeletionPolicy::Retain => "the merged copy stays as it is",
            SourceDeletionPolicy::Delete if missing.len() == names.len() => "so the merged copy is deleted",
            SourceDeletionPolicy::Delete if self.unjudged().is_some() => "the merged copy stays as it is",
            SourceDeletionPolicy::Delete => "so the merged copy has none of its keys",
        };
        Some(format!("{}; {follows}", listed(&missing)))
    }

    /// Why there is nothing to copy of what labels select.
    fn nothing_selected(&self) -> Option<(&'static str, String)> {
        if !self.spec.source_names().is_empty() {
            return None;
        }
        Some(match &self.unlisted {
            Some(Unlisted::TooMany) => {
                let text = format!(
                    "more than {MAX_SOURCES} {} were found, so nothing is copied: ask for more labels in \
                     spec.source.selector, or divide them among several syncs; existing copies stay as \
                     they are",
                    self.those()
                );
                (TOO_MANY, text)
            }
            Some(Unlisted::TooManyCopies { sources, targets }) => {
                let text = format!(
                    "{sources} {} for {targets} namespaces would be {} copies, and at most {MAX_COPIES} are allowed, so \
                     nothing is copied: select fewer sources, or divide them among several syncs; existing \
                     copies stay as they are",
                    self.those(),
                    sources * targets
                );
                (TOO_MANY, text)
            }
            Some(Unlisted::Forbidden(text)) => ("SourceForbidden", text.clone()),
            Some(Unlisted::Failed(text)) => ("SourceUnknown", text.clone()),
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
        let by = match self.spec.sources {
            Sources::Listed(_) => "spec.source.names lists",
            Sources::Named(_) | Sources::Selected(_) => "spec.source.selector selects",
        };
        format!("{} in {source_namespace} that {by}", source_kind.several())
    }

    fn found(&self, name: &str, source: &SourceWork) -> Verdict {
        let key = ObjectKey::of_source(&self.spec, name);
        match &source.state {
            SourceState::Found
            | SourceState::Clash(_)
            | SourceState::AccountToken
            | SourceState::NameTooLong(_)
            | SourceState::Unmerged { .. }
            | SourceState::Unmergeable(_) => {
                let absent = format!("; it has no key {}", listed(&source.absent_keys));
                let absent = if source.absent_keys.is_empty() { "" } else { &absent };
                Verdict::new(SOURCE_FOUND, Truth::True, "Found", format!("{key}{absent}"))
            }
            SourceState::Missing => Verdict::new(
                SOURCE_FOUND,
                Truth::False,
                "SourceMissing",
                match self.spec.source_deletion_policy {
                    SourceDeletionPolicy::Retain => {
                        format!("{key} does not exist; existing copies stay as they are")
                    }
                    SourceDeletionPolicy::Delete => {
                        format!("{key} does not exist, so its copies are deleted")
                    }
                },
            ),
            SourceState::Forbidden(text) => {
                Verdict::new(SOURCE_FOUND, Truth::Unknown, "SourceForbidden", text.clone())
            }
            SourceState::Failed(text) => {
                Verdict::new(SOURCE_FOUND, Truth::Unknown, "SourceUnknown", text.clone())
            }
        }
    }

    /// Why no target was looked at, where none was.
    pub(super) fn unjudged(&self) -> Option<(&'static str, String)> {
        let all = copied(&self.sources, self.merged.as_ref());
        let unjudged: Option<Vec<_>> = all.map(|source| source.state.unjudged()).collect();
        self.nothing_selected().or_else(|| unjudged?.into_iter().next())
    }
}

impl SourceState {
    /// Why no target was looked at, where none was.
    pub(super) fn unjudged(&self) -> Option<(&'static str, String)> {
        match self {
            SourceState::Found => None,
            SourceState::Clash(clash) => {
                Some((KEY_CONFLICT, format!("{clash}; existing copies stay as they are")))
            }
            SourceState::AccountToken => {
                let text = "a Secret of type kubernetes.io/service-account-token is the identity of one \
                             account and is never copied; existing copies stay as they are";
                Some((NOT_COPIED, text.to_owned()))
            }
            SourceState::NameTooLong(length) => {
                let text = format!(
                    "the name of its copies would have {length} characters, and at most {SUBDOMAIN_MAX} are \
                     allowed: shorten spec.targets.namePrefix and nameSuffix, or its name"
                );
                Some((NAME_TOO_LONG, text))
            }
            SourceState::Unmerged { name, why } if **why == SourceState::Missing => {
                Some((why.reason(), format!("nothing is merged: {name} does not exist")))
            }
            SourceState::Unmerged { name, why } => {
                let (_, text) = why.unjudged()?;
                Some((why.reason(), format!("nothing is merged because of {name}: {text}")))
            }
            SourceState::Unmergeable(why) => {
                Some((self.reason(), format!("{why}; existing copies stay as they are")))
            }
            SourceState::Missing | SourceState::Forbidden(_) | SourceState::Failed(_) => {
                Some(("SourceUnknown", "not checked: the source could not be read".to_owned()))
            }
        }
    }
}
