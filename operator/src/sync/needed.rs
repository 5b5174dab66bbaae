//! Which rights a reconcile asks about, and of which watches it speaks. Pure.

use std::collections::{BTreeMap, BTreeSet};

use weaver_api::kind::ObjectKind;
use weaver_api::validate::ValidSync;

use super::execute::TargetState;
use super::outcome::{SourceState, SourceWork, Unlisted, copied};
use super::remove::{Hindrance, RemainingCopy};
use crate::watch::{WatchKey, is_on_sources};
use weaver_copies::object::ObjectKey;
use weaver_copies::rights::{EXPLAINED, Right, for_sources, for_target};

/// Does the tenant know of what `key` would watch, so that the status may say that there is no watch? Nothing may show
/// whether a namespace exists in which the tenant has no right.
pub fn tells(key: &WatchKey, sources: &BTreeMap<String, SourceWork>, merged: Option<&SourceWork>) -> bool {
    let holds = |namespace: &String| {
        let mut copies = copied(sources, merged).filter_map(|source| source.targets.get(namespace));
        copies.any(TargetState::is_synced)
    };
    match (&key.namespace, is_on_sources(key)) {
        (_, true) => sources.values().any(|source| source.state == SourceState::Found),
        (Some(namespace), false) => holds(namespace),
        (None, false) => true,
    }
}

/// The rights to ask about: where something was refused, all that is needed there; and how many namespaces with a
/// refusal are left out, because they are too many.
pub fn needed_rights(
    spec: &ValidSync,
    (sources, merged): (&BTreeMap<String, SourceWork>, Option<&SourceWork>),
    unlisted: Option<&Unlisted>,
    stale_copies: &BTreeMap<ObjectKey, RemainingCopy>,
    refused: &[WatchKey],
) -> (Vec<Right>, usize) {
    let mut needed = Vec::new();
    let is_refused = |source: &SourceWork| matches!(source.state, SourceState::Forbidden(_));
    if refused.iter().any(is_on_sources)
        || matches!(unlisted, Some(Unlisted::Forbidden(_)))
        || sources.values().any(is_refused)
    {
        needed.extend(for_sources(spec));
    }
    let watches = refused.iter().filter(|key| !is_on_sources(key));
    let watches = watches.filter_map(|key| Some((key.kind, key.namespace.as_ref()?)));
    let writes = copied(sources, merged).flat_map(|source| &source.targets);
    let writes = writes.filter(|(_, state)| matches!(state, TargetState::Forbidden(_)));
    let writes = writes.map(|(namespace, _)| (spec.source_kind, namespace));
    let removals = stale_copies.iter().filter(|(_, kept)| matches!(kept.why, Hindrance::Forbidden(_)));
    let removals = removals.map(|(object_key, _)| (object_key.kind, &object_key.namespace));
    let targets: BTreeSet<(ObjectKind, &String)> = watches.chain(writes).chain(removals).collect();
    needed.extend(targets.iter().take(EXPLAINED).flat_map(|(kind, namespace)| for_target(*kind, namespace)));
    (needed, targets.len().saturating_sub(EXPLAINED))
}
