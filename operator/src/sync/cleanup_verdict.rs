//! How long a deleted sync waits for its copies, and where they may be. Pure.
//!
//! Clean-up needs the tenant's rights, and a resource must never be stuck because they are gone. So: what can
//! be removed is. A refusal (403) is the same whether a right is missing or the whole namespace: it is final after
//! [`REFUSAL_STANDS`], in both cases, so that the time a deletion takes reveals nothing about a namespace. What may be
//! fixed (a missing account, an object that cannot be understood, a policy that refuses the removal, a webhook that
//! does not answer) is waited for longer, and a failing API server for as long as it takes: the other times count from
//! when it answers again. Where the resource's own namespace is being deleted it is released after one pass.

use std::collections::BTreeSet;
use std::time::Duration;

use weaver_api::conditions::bounded;
use weaver_api::kind::ObjectKind;
use weaver_api::names::{dns_label, dns_subdomain};
use weaver_api::v1beta1::ConfigMapSyncSpec;

use super::remove::{Hindrance, RemainingCopy};
use crate::controller::verdicts::listed;
use weaver_copies::object::ObjectKey;

/// After what time a refusal is final: some tries for rights, or a kind, that are just being restored.
const REFUSAL_STANDS: Duration = Duration::from_secs(10);

/// Most bytes that are said of what is left, to the log.
const MAX_LEFT: usize = 2_048;

/// How a pass over the copies ended.
#[derive(Debug, PartialEq)]
pub(super) enum CleanupResult {
    /// None of ours is left that the tenant could see. These the upstream operator made; they stay.
    Clean(BTreeSet<ObjectKey>),
    /// Nothing was looked at, because this part of the resource wants the copies to stay.
    NotWanted(&'static str),
    /// The tenant may not read or delete these objects.
    Refused(String),
    /// Someone can mend it: the account, the object itself, a policy. Why something may be left.
    Hindered(String),
    /// Worth another try, however long it takes.
    Failed(String),
}

/// What a verdict depends on besides the pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct Circumstances {
    /// The resource has our finalizer, so there may be copies of ours.
    pub(super) taken: bool,
    /// The resource's own namespace is being deleted.
    pub(super) namespace_goes: bool,
    /// How long it has waited.
    pub(super) waited: Waited,
}

/// How long a deleted resource has waited.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Waited {
    /// Not long enough for anything.
    Briefly,
    /// Long enough for rights that are just being restored.
    ForRights,
    /// Long enough for anything that someone can mend.
    LongEnough,
}

impl Waited {
    pub(super) fn of(waited: Duration, patience: Duration) -> Self {
        if waited >= patience {
            Waited::LongEnough
        } else if waited >= REFUSAL_STANDS {
            Waited::ForRights
        } else {
            Waited::Briefly
        }
    }
}

#[derive(Debug, PartialEq)]
pub(super) enum CleanupVerdict {
    Release,
    ReleaseWithOrphans(String),
    Wait(String),
}

pub(super) fn verdict(pass: &CleanupResult, circumstances: Circumstances) -> CleanupVerdict {
    let Circumstances { taken, namespace_goes, waited } = circumstances;
    match pass {
        CleanupResult::Clean(_) | CleanupResult::NotWanted(_) => CleanupVerdict::Release,
        // In a Terminating namespace the account and its rights vanish in any order; waiting would only block the
        // namespace. And a resource without our finalizer has no copies to wait for.
        CleanupResult::Refused(left) | CleanupResult::Hindered(left) | CleanupResult::Failed(left)
            if namespace_goes || !taken =>
        {
            CleanupVerdict::ReleaseWithOrphans(left.clone())
        }
        CleanupResult::Refused(left) if waited >= Waited::ForRights => {
            CleanupVerdict::ReleaseWithOrphans(left.clone())
        }
        CleanupResult::Hindered(left) if waited == Waited::LongEnough => {
            CleanupVerdict::ReleaseWithOrphans(left.clone())
        }
        CleanupResult::Refused(why) | CleanupResult::Hindered(why) | CleanupResult::Failed(why) => {
            CleanupVerdict::Wait(why.clone())
        }
    }
}

/// Where the spec, valid or not, puts copies of the source that it names, and of those that are `selected`.
/// Not where it wants none: what is there may be a copy that an earlier resource of the same name should
/// leave.
pub(super) fn named_copies(
    kind: ObjectKind,
    spec: &ConfigMapSyncSpec,
    selected: &BTreeSet<String>,
) -> BTreeSet<ObjectKey> {
    let targets = spec.targets.clone().unwrap_or_default();
    let source = spec.source.clone().unwrap_or_default();
    let around = |name: &String| {
        let [prefix, suffix] = [&targets.name_prefix, &targets.name_suffix].map(|part| part.as_deref());
        format!("{}{name}{}", prefix.unwrap_or_default(), suffix.unwrap_or_default())
    };
    let names = match &targets.name {
        Some(name) => vec![name.clone()],
        None => source.name.iter().chain(selected).map(around).collect(),
    };
    let names: Vec<String> = names.into_iter().filter(|name| dns_subdomain(name).is_ok()).collect();
    let namespaces = targets.namespaces.iter().filter(|name| !targets.exclude.contains(name));
    let namespaces = namespaces.filter(|target| dns_label(target).is_ok());
    let in_each = |namespace: &String| {
        let namespace = namespace.clone();
        names.iter().map(move |name| ObjectKey { kind, namespace: namespace.clone(), name: name.clone() })
    };
    namespaces.flat_map(in_each).collect()
}

/// Objects that may be left, each with its message, by what is in the way.
#[derive(Default)]
pub(super) struct Left {
    pub(super) refused: Vec<String>,
    pub(super) hindered: Vec<String>,
    pub(super) failed: Vec<String>,
}

impl Left {
    pub(super) fn kept(&mut self, key: &ObjectKey, kept: &RemainingCopy) {
        let entries = match kept.why {
            Hindrance::Forbidden(_) => &mut self.refused,
            Hindrance::Rejected(_) | Hindrance::Obstructed(_) => &mut self.hindered,
            Hindrance::Failed(_) | Hindrance::Untried => &mut self.failed,
        };
        entries.push(format!("{key}: {}", kept.text()));
    }

    /// How the pass ended that left these; the copies `upstream` are the upstream operator's.
    pub(super) fn pass(self, upstream: BTreeSet<ObjectKey>) -> CleanupResult {
        let Self { refused, hindered, failed } = self;
        match (failed.is_empty(), hindered.is_empty(), refused.is_empty()) {
            (true, true, true) => CleanupResult::Clean(upstream),
            (true, true, false) => CleanupResult::Refused(line(&[refused])),
            (true, false, _) => CleanupResult::Hindered(line(&[hindered, refused])),
            (false, ..) => CleanupResult::Failed(line(&[failed, hindered, refused])),
        }
    }
}

/// A text that fits into a line of the log, however many entries there are.
fn line(lists: &[Vec<String>]) -> String {
    bounded(&listed(&lists.concat()), MAX_LEFT)
}

#[cfg(test)]
#[path = "cleanup_verdict_tests.rs"]
mod tests;
