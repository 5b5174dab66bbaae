//! Several sources as one copy, as the tenant: all of them are read, and made into the copy that every target should
//! have.
//!
//! A copy is never made of a part of the sources because another part could not be read.

use std::collections::BTreeMap;

use futures::future::join_all;
use weaver_api::ownership::Owner;
use weaver_api::v1beta1::Merge;
use weaver_api::validate::ValidSync;
use weaver_tenant::TenantClient;

use super::outcome::{SourceState, SourceWork};
use super::sources::{READS, SourceRead, Versions, read};
use super::watches::SyncWatches;
use weaver_copies::content::merge::{ContentMerger, reading_order};
use weaver_copies::copy::DesiredCopy;

/// What was made of the sources.
pub struct MergedSources {
    /// Each source, without copies of its own.
    pub sources: BTreeMap<String, SourceWork>,
    pub versions: Versions,
    /// The copy to write.
    ///
    /// # Errors
    /// Why there is nothing to copy.
    pub copy: Result<DesiredCopy, SourceState>,
}

/// Reads the sources `names` and makes them into one copy called `copy_name`. Those that were not read when it `is_late`
/// count as failed.
pub async fn merge(
    tenant: &TenantClient,
    spec: &ValidSync,
    how: &Merge,
    (owner, copy_name): (&Owner, &str),
    watches: &SyncWatches,
    names: &[String],
    is_late: impl Fn() -> bool,
) -> MergedSources {
    let mut merging = ContentMerger::new(how, spec.source_kind);
    let (mut sources, mut versions) = (BTreeMap::new(), Versions::new());
    for some in reading_order(how, names).chunks(READS) {
        let shown: Vec<_> = some.iter().map(|(_, name)| watches.source_version(spec, name)).collect();
        let reads = if is_late() {
            let unread = || SourceState::Failed("not read: the sources before it took too long".into());
            some.iter().map(|_| SourceRead::nothing(unread())).collect()
        } else {
            join_all(some.iter().map(|(_, name)| read(tenant, spec, name, None))).await
        };
        for (((index, name), shown), read) in some.iter().zip(shown).zip(reads) {
            let SourceRead { source: state, version, absent_keys, content } = read;
            if let Some((content, _)) = content {
                merging.add(*index, name, content);
            }
            versions.push(((*name).clone(), [shown, version]));
            let (copy_name, targets) = (copy_name.to_owned(), BTreeMap::new());
            sources.insert((*name).clone(), SourceWork { state, absent_keys, copy_name, targets });
        }
    }
    let copy = match hindrance(spec, names, &sources) {
        Some(why) => Err(why),
        None => match merging.finish() {
            Ok(content) => Ok(DesiredCopy::merged(owner.clone(), spec, copy_name, content)),
            Err(why) => Err(SourceState::Unmergeable(why)),
        },
    };
    MergedSources { sources, versions, copy }
}

/// Why nothing may be made of these sources, in the order of `names`. One at least must be there.
fn hindrance(
    spec: &ValidSync,
    names: &[String],
    sources: &BTreeMap<String, SourceWork>,
) -> Option<SourceState> {
    let counts = |state: &SourceState| {
        *state != SourceState::Found && !(spec.merges_without_missing() && *state == SourceState::Missing)
    };
    let mut states = names.iter().filter_map(|name| Some((name, &sources.get(name)?.state)));
    if states.clone().all(|(_, state)| *state == SourceState::Missing) {
        return Some(SourceState::Missing);
    }
    let (name, why) = states.find(|(_, state)| counts(state))?;
    Some(SourceState::Unmerged { name: name.clone(), why: Box::new(why.clone()) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::outcome::tests::valid;
    use super::*;

    #[test]
    fn a_copy_is_made_of_all_sources_or_of_none() {
        use SourceState::{Failed, Forbidden, Found, Missing};
        let refused = || Forbidden("no".into());
        for (selected, policy, states, expected) in [
            (false, "Retain", vec![Found, Found], None),
            (false, "Retain", vec![Found, Missing], Some(("b", Missing))),
            (false, "Delete", vec![Found, Missing], None),
            (false, "Delete", vec![Found, refused()], Some(("b", refused()))),
            (false, "Delete", vec![Missing, refused()], Some(("b", refused()))),
            (true, "Retain", vec![Found, Missing], None),
            (true, "Retain", vec![Failed("x".into()), Missing], Some(("a", Failed("x".into())))),
            (true, "Retain", vec![SourceState::AccountToken, Found], Some(("a", SourceState::AccountToken))),
        ] {
            let source = if selected {
                json!({"namespace": "team-a", "selector": {"matchLabels": {"a": "b"}}})
            } else {
                json!({"namespace": "team-a", "names": ["a", "b"]})
            };
            let spec = valid(json!({
                "serviceAccount": {"name": "sync"}, "source": source, "merge": {}, "sourceDeletionPolicy": policy,
                "targets": {"namespaces": ["foo"], "name": "all"},
            }));
            let names = ["a".to_owned(), "b".to_owned()];
            let work = |state: &SourceState| SourceWork {
                state: state.clone(),
                absent_keys: Vec::new(),
                copy_name: "all".into(),
                targets: BTreeMap::new(),
            };
            let sources = names.iter().cloned().zip(states.iter().map(work)).collect();
            let expected =
                expected.map(|(name, why)| SourceState::Unmerged { name: name.into(), why: why.into() });
            assert_eq!(hindrance(&spec, &names, &sources), expected, "{selected} {policy} {states:?}");
            let gone = names.iter().cloned().map(|name| (name, work(&Missing))).collect();
            assert_eq!(hindrance(&spec, &names, &gone), Some(Missing));
        }
    }
}
