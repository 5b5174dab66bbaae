//! Finds and deletes stale copies, with the rights of the tenant.
//!
//! Lists by label, so it also finds copies in namespaces that were dropped from the targets while the operator was
//! down, and for a ConfigMapSync lists ConfigMaps and Secrets, since the source may have had the other kind then.
//! Lists only where the account may: where it may not, it could not have written a copy, and an audit log full of
//! refusals would look like an attack.
//! Lists once per resource and account after a start, and when a resource is deleted, unless the resource itself proves
//! that there are none. In between, the operator's memory and its watches are enough.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::Api;
use kube::core::PartialObjectMeta;
use tokio::time::Instant;
use tracing::info;
use weaver_api::conditions::READY;
use weaver_api::kind::ObjectKind;
use weaver_api::ownership::{LONGEST_MARK, Owner, SOURCE_ANNOTATION, SYNC_UID_LABEL};
use weaver_api::v1beta1::Targets;
use weaver_api::validate::ValidSync;
use weaver_client::call::CallError;
use weaver_client::pages::each_page;
use weaver_tenant::TenantClient;

use super::Context;
use super::declared::Declares;
use super::execute::{LONGEST_PASS, Mode, in_time};
use super::outcome::StaleCopies;
use super::remove::{self, Hindrance, RemainingCopy, Removal};
use super::state::{StaleCopySearch, SyncState};
use crate::controller::pause::Pause;
use crate::log_code;
use crate::metrics::CopyWrite;
use weaver_copies::copy::owner;
use weaver_copies::finalizers::is_taken;
use weaver_copies::object::{Object, ObjectKey, resource};
use weaver_copies::sources::{SpecSource, WantedCopies};

/// Requests in flight at once.
const CONCURRENCY: usize = 16;

/// Lists in flight at once: each may be as long as an answer may be.
const LISTS: usize = 4;

/// Where copies are, each with the source that it names.
type StaleKeys = BTreeMap<ObjectKey, Option<String>>;

/// Every object that carries the label of `owner`, in `namespaces`, where its source is of this kind now.
///
/// # Errors
/// If a question or a list fails for another reason than a missing right; then nothing may be concluded.
pub async fn find(
    tenant: &TenantClient,
    owner: &Owner,
    kind: ObjectKind,
    namespaces: &[String],
) -> Result<StaleKeys, CallError> {
    let both = &ObjectKind::OF_CONFIG_MAP_SYNC;
    // The source may have been of the other kind; that of a ResourceSync is always of one.
    let kinds = if kind.is_of_config_map_sync() { &both[..] } else { &[kind] };
    let search = async {
        let mut found = StaleKeys::new();
        for &kind in kinds {
            found.extend(find_kind(tenant, owner, kind, namespaces).await?);
        }
        Ok::<_, CallError>(found)
    };
    in_time("the search for copies", search).await
}

async fn find_kind(
    tenant: &TenantClient,
    owner: &Owner,
    kind: ObjectKind,
    namespaces: &[String],
) -> Result<StaleKeys, CallError> {
    let query = &format!("{SYNC_UID_LABEL}={}", owner.uid);
    let objects: Vec<_> = if tenant.access.sees_all(&resource(kind), None).await? {
        vec![tenant.all(&kind)]
    } else {
        let listable = tenant.access.listable(&resource(kind), namespaces.to_vec()).await?;
        listable.iter().map(|namespace| tenant.namespaced(&kind, namespace)).collect()
    };
    let object_keys = stream::iter(objects).map(|objects| object_keys(objects, query, kind));
    let object_keys: Vec<_> = object_keys.buffer_unordered(LISTS).try_collect().await?;
    Ok(object_keys.into_iter().flatten().collect())
}

/// Where the objects of a list are.
async fn object_keys(
    objects: Api<PartialObjectMeta<Object>>,
    query: &str,
    kind: ObjectKind,
) -> Result<StaleKeys, CallError> {
    let source = |meta: &ObjectMeta| {
        let source = meta.annotations.as_ref()?.get(SOURCE_ANNOTATION)?;
        (source.len() <= LONGEST_MARK).then(|| source.clone())
    };
    let mut found = StaleKeys::new();
    let listed = each_page(&objects, query, |page| {
        found.extend(page.iter().filter_map(|meta| Some((ObjectKey::of(kind, meta)?, source(meta)))));
        ControlFlow::Continue(())
    });
    match listed.await {
        // The namespace went, or the right did, since we asked.
        Ok(()) | Err(CallError::Forbidden(_) | CallError::NotFound(_)) => Ok(found),
        Err(error) => Err(error),
    }
}

/// Does the object itself prove that no stale copy can exist? So it is while our finalizer, which comes
/// before the first copy, was never set; and where all was well with this very spec, and the spec alone says where
/// copies belong: whatever was written since was written there.
pub fn are_none<K: Declares>(sync: &K) -> bool {
    let (meta, status, spec) = (sync.meta(), sync.status(), sync.asked());
    let observed = status.and_then(|status| status.observed_generation);
    let was_ready = status.is_some_and(|status| {
        status.conditions.iter().any(|condition| condition.type_ == READY && condition.status == "True")
    });
    // That someone deleted it counts as a change of the spec.
    let of_spec = meta.generation.map(|now| now - i64::from(meta.deletion_timestamp.is_some()));
    let targets = spec.as_ref().and_then(|spec| spec.targets.as_ref());
    let source = spec.as_ref().and_then(|spec| spec.source.as_ref());
    let selects =
        targets.is_some_and(Targets::has_selection) || source.is_some_and(|source| source.selector.is_some());
    let settled = was_ready && observed.is_some() && observed == of_spec && !selects;
    let is_new = observed.is_none() && !is_taken(meta);
    is_new || settled
}

/// Searches, once per account and where there may be some, for copies of an earlier process; returns why it failed.
pub async fn search<K: Declares>(
    context: &Context<K>,
    state: &mut SyncState,
    tenant: &TenantClient,
    sync: &K,
    kind: ObjectKind,
) -> Option<String> {
    let found = match &state.search {
        StaleCopySearch::Done(uid) if *uid == tenant.uid => return None,
        StaleCopySearch::Open if are_none(sync) => StaleKeys::new(),
        _ => match find(tenant, &owner(sync), kind, &context.namespaces.active(|_, _| true)).await {
            Ok(found) => found,
            Err(error) => return Some(error.to_string()),
        },
    };
    state.stale_copies.extend(found);
    state.search = StaleCopySearch::Done(tenant.uid.clone());
    None
}

/// Removes the objects at these keys that are copies of `owner`, in this order, and reports what became of each. Ends in
/// the middle when everything is paused, or when it takes too long: what is left then is tried again.
pub async fn remove<K: Declares>(
    context: &Context<K>,
    tenant: &TenantClient,
    owner: &Owner,
    source: &SpecSource,
    object_keys: Vec<ObjectKey>,
    mode: Mode,
) -> Vec<(ObjectKey, Result<Removal, RemainingCopy>)> {
    let begun = Instant::now();
    stream::iter(object_keys)
        .map(|key| async move {
            let left = |why| Err(RemainingCopy { why, marked: false });
            let removal = if Pause::of_all(&context.namespaces).is_some() {
                left(Hindrance::Failed("all resources were paused meanwhile".into()))
            } else if begun.elapsed() >= LONGEST_PASS {
                left(Hindrance::Untried)
            } else {
                remove::remove(tenant, owner, source, &key, mode).await
            };
            (key, removal)
        })
        .buffer_unordered(CONCURRENCY)
        .collect()
        .await
}

/// Removes copies that are not `wanted` any more: those that were made in this life of the operator, those that the
/// watches show, and those that were found. Says what became of them, as far as the tenant may know.
pub async fn sweep<K: Declares>(
    context: &Context<K>,
    state: &mut SyncState,
    tenant: &TenantClient,
    wanted: &WantedCopies<'_>,
    owner: &Owner,
    mode: Mode,
) -> StaleCopies {
    let spec = wanted.spec;
    let mut object_keys = StaleKeys::new();
    for (key, source) in std::mem::take(&mut state.stale_copies) {
        if !wanted.has(&key, source.as_deref()) {
            object_keys.insert(key, source);
        } else if wanted.names.is_none() {
            // It may be wanted, and may not: it is judged again when the sources are known.
            state.stale_copies.insert(key, source);
        }
    }
    let shown = state.watches.copies_of(owner);
    let verified = state.verified.iter().map(|(key, copy)| (key.clone(), Some(copy.source.clone())));
    let unwanted = shown.chain(verified).filter(|(key, source)| !wanted.has(key, source.as_deref()));
    object_keys.extend(unwanted);

    let source = &SpecSource::from(spec);
    let mut swept = StaleCopies::default();
    let source_of = |key: &ObjectKey| object_keys.get(key).cloned().flatten();
    let removals = remove(context, tenant, owner, source, object_keys.keys().cloned().collect(), mode).await;
    for (key, removal) in removals {
        match removal {
            Ok(Removal::Nothing | Removal::UpstreamStays) => {}
            Ok(Removal::Removed) if mode == Mode::Try => drop(swept.planned.insert(key)),
            Ok(Removal::Removed) => {
                context.metrics.wrote(CopyWrite::Removed);
                info!(code = log_code::COPY_REMOVED, %owner, copy = %key, "removed a stale copy");
            }
            Err(kept) => {
                state.stale_copies.insert(key.clone(), source_of(&key));
                if !is_secret(spec, &key.namespace, &kept) {
                    swept.kept.insert(key, kept);
                }
            }
        }
    }
    state.stale_copies.extend(swept.planned.iter().map(|key| (key.clone(), source_of(key))));
    // Of selected sources that are gone, ever new ones, nothing is kept; the search before the end finds their copies.
    let is_one = spec.source_name().is_some() || spec.merge.is_some();
    let is_there =
        |key: &ObjectKey| is_one || wanted.names.as_ref().is_none_or(|names| names.contains(&key.name));
    state.verified.retain(|key, copy| is_there(key) && wanted.has(key, Some(&copy.source)));
    state.backoffs.retain(|key| is_there(key) && wanted.has(key, None));
    swept
}

/// Would the tenant learn from it that a namespace is gone, or not labelled as before, of which it may know nothing?
/// Where a selector or a pattern that matches decides and the account may not look, the status does not say whether a
/// copy is wanted there.
fn is_secret(spec: &ValidSync, namespace: &str, kept: &RemainingCopy) -> bool {
    let refused = matches!(kept.why, Hindrance::Forbidden(_)) && !kept.marked;
    let is_selected = spec.selector.is_some() || spec.matches(namespace);
    refused && is_selected && !spec.exclude.contains(namespace)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use k8s_openapi::jiff::Timestamp;
    use serde_json::{Value, json};
    use weaver_api::ownership::FINALIZER;
    use weaver_api::v1beta1::ConfigMapSync;

    use super::super::outcome::tests::spec;
    use super::*;

    #[test]
    fn what_was_dropped_while_no_one_looked_is_searched_for_unless_the_resource_shows_that_there_is_nothing()
    {
        let named = spec(&["foo"]);
        let [mut selected, mut matched, mut sources] = [named.clone(), named.clone(), named.clone()];
        sources["source"] = json!({"namespace": "team-a", "selector": {"matchLabels": {"a": "b"}}});
        selected["targets"]["selector"] = json!({"matchLabels": {"a": "b"}});
        matched["targets"]["patterns"] = json!(["foo-*"]);
        let status = |observed: i64, ready: &str| {
            json!({"observedGeneration": observed, "conditions": [{
                "type": "Ready", "status": ready, "reason": "x", "message": "", "observedGeneration": observed,
                "lastTransitionTime": "2020-01-01T00:00:00Z",
            }]})
        };
        let held = [FINALIZER].as_slice();
        for (case, finalizers, status, spec, expected) in [
            ("new", [].as_slice(), Value::Null, &named, true),
            ("new, selecting", &[], Value::Null, &selected, true),
            ("claimed and never reported", held, Value::Null, &named, false),
            ("ready", held, status(2, "True"), &named, true),
            ("ready, and no one knows what was selected", held, status(2, "True"), &selected, false),
            ("ready, and no one knows what was matched", held, status(2, "True"), &matched, false),
            ("ready, and no one knows which sources there were", held, status(2, "True"), &sources, false),
            ("ready before the spec changed", held, status(1, "True"), &named, false),
            ("not ready", held, status(2, "False"), &named, false),
            ("someone took the finalizer away", &[], status(1, "True"), &named, false),
        ] {
            let mut sync: ConfigMapSync = serde_json::from_value(json!({
                "apiVersion": "weaver.example.com/v1beta1", "kind": "ConfigMapSync", "spec": spec, "status": status,
                "metadata": {"namespace": "team-a", "name": "sync", "generation": 2, "finalizers": finalizers},
            }))
            .unwrap();
            assert_eq!(are_none(&sync), expected, "{case}");
            // Its deletion is a generation of its own.
            sync.metadata.generation = Some(3);
            assert_eq!(are_none(&sync), expected && case.starts_with("new"), "{case}, and its spec changed");
            sync.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
            assert_eq!(are_none(&sync), expected, "{case}, and deleted");
        }
    }
}
