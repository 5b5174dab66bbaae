//! Deletes each `ConfigMapSync` and `ServiceToken`, and with `--copies delete` what it made.
//!
//! Where an operator leads, it does its part: it has the tenants' rights. Where none does, it is done here with the
//! rights of the user, by the same rules, and only our own finalizer is removed. The leader is looked up again each
//! time, so an operator that dies meanwhile is replaced as soon as its lease is late.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, ListParams};
use kube::core::DynamicObject;
use kube::{Client, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use weaver_api::convert;
use weaver_api::kind::ObjectKind;
use weaver_api::ownership::{MANAGED_BY, MANAGED_BY_LABEL, Owner, is_service_token};
use weaver_api::v1beta1::{ConfigMapSync, ConfigMapSyncSpec, ResourceSync};
use weaver_client::WriteMode;
use weaver_client::pages::each_page;
use weaver_copies::finalizers::{FinalizerChange, after, leaves_copies};
use weaver_copies::metadata::is_adopted;
use weaver_copies::plan::{StaleCopy, stale_copy};
use weaver_copies::sources::SpecSource;
use weaver_host::progress::Progress;

use super::found::{CopyDisposal, FoundObjects, leader};
use super::installed_object::{LOOK, is_gone};
use crate::copied_kinds;
use crate::orphans::{self, Marked};
use crate::resource::delete::{Manner, delete};
use crate::resource::deletion::held_by;
use crate::resource::kind::Kind;
use crate::resource::store::{Store, exactly, is_invalid};
use crate::stdout::{ErrorLines, say};

/// Deletes all that were found, and waits until they are gone.
pub async fn remove(
    client: &Client,
    found: &FoundObjects,
    copies: CopyDisposal,
    deadline: Instant,
) -> anyhow::Result<()> {
    let manner = Manner { orphan: copies == CopyDisposal::Keep, dry_run: false };
    let all = Kind::ALL.into_iter().map(|kind| found.of(kind).len()).sum::<usize>();
    let progress = Progress::of_items("asking for their deletion", all as u64);
    for kind in Kind::ALL {
        for object in found.of(kind) {
            let store = Store::all(kind, client).at(kind, object.metadata.namespace.as_deref());
            delete(&store, &object.name_any(), object, manner).await?;
            say(format_args!("{} deleted", kind.object_key(object)));
            progress.more(1);
        }
    }
    let (mut reported, mut trouble) = (0, BTreeSet::new());
    loop {
        let left = left(client, found).await?;
        if left.is_empty() {
            return Ok(());
        }
        progress.at(all.saturating_sub(left.len()) as u64, all as u64);
        let operator = leader(client).await?;
        if operator.is_none() {
            release(client, &left, copies, &mut trouble).await?;
        }
        if reported != left.len() {
            reported = left.len();
            let who = if operator.is_some() { "the operator" } else { "the API server" };
            say(format_args!("waiting for {who} to delete {reported} objects"));
            progress.text(&format!("waiting for {who}"));
        }
        if Instant::now() >= deadline {
            let first = format!(
                "{reported} objects still exist; nothing else is removed until they are gone. Fix the cause and run this again"
            );
            let held =
                left.iter().map(|(kind, object)| format!("{}: {}", kind.object_key(object), held_by(object)));
            return Err(ErrorLines(std::iter::once(first).chain(held).collect()).into());
        }
        sleep(LOOK).await;
    }
}

/// Those of the found ones that are still there.
async fn left(client: &Client, found: &FoundObjects) -> anyhow::Result<Vec<(Kind, DynamicObject)>> {
    let mut left = Vec::new();
    // A kind without objects may not be installed at all.
    for kind in Kind::ALL.into_iter().filter(|kind| !found.of(*kind).is_empty()) {
        let uids: BTreeSet<_> = found.of(kind).iter().map(DynamicObject::uid).collect();
        let objects = Store::all(kind, client).list(ListParams::default()).await?;
        left.extend(
            objects.into_iter().filter(|object| uids.contains(&object.uid())).map(|object| (kind, object)),
        );
    }
    Ok(left)
}

/// Does what the operator would do before it removes the finalizer of these, and removes it. What someone else changes
/// meanwhile is left for the next pass, and so is what could not be removed, which is reported once.
async fn release(
    client: &Client,
    left: &[(Kind, DynamicObject)],
    copies: CopyDisposal,
    trouble: &mut BTreeSet<String>,
) -> anyhow::Result<()> {
    let held: Vec<&(Kind, DynamicObject)> =
        left.iter().filter(|(_, object)| without_ours(object).is_some()).collect();
    if held.is_empty() {
        return Ok(());
    }
    let marked = match copies {
        CopyDisposal::Delete => copies_of(client, &held).await?,
        CopyDisposal::Keep => Vec::new(),
    };
    for (kind, object) in held {
        // Without `marked` there is nothing to clean up.
        if *kind != Kind::ServiceToken
            && copies == CopyDisposal::Delete
            && !clean_up(client, *kind, object, &marked, trouble).await
        {
            continue;
        }
        let mut change = exactly(object);
        change["metadata"]["finalizers"] = json!(without_ours(object));
        let store = Store::all(*kind, client).at(*kind, object.metadata.namespace.as_deref());
        let name = object.name_any();
        let mut released = store.objects.merge(&name, &change, WriteMode::Persist).await;
        if released.as_ref().is_err_and(is_invalid) {
            // As the operator does: where the API server cannot validate the spec, it is removed with the finalizers.
            change["spec"] = Value::Null;
            released = store.objects.merge(&name, &change, WriteMode::Persist).await;
        }
        match released {
            Err(error) if !error.is_conflict() && !error.is_not_found() => {
                let key = store.object_key(&name);
                return Err(store.said(error.why).context(format!("removing the finalizer of {key}")));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Objects with our label, of the kinds that these copy.
async fn copies_of(client: &Client, held: &[&(Kind, DynamicObject)]) -> anyhow::Result<Vec<Marked>> {
    let of = |wanted: Kind| held.iter().filter(move |(kind, _)| *kind == wanted);
    let mut kinds: Vec<ObjectKind> = Vec::new();
    for (_, object) in of(Kind::ResourceSync) {
        let Ok(SpecSource { kind: named, .. }) = source_of_any_kind(object) else { continue };
        if kinds.iter().any(|kind| kind.is_same(named)) {
            continue;
        }
        let message = || format!("finding copies of kind {named}; `--copies keep` leaves all of them");
        // With its definition all of its objects went.
        kinds.extend(copied_kinds::served(client, named).await.with_context(message)?);
    }
    if of(Kind::ConfigMapSync).next().is_some() {
        kinds.extend(ObjectKind::OF_CONFIG_MAP_SYNC);
    }
    let mut marked = Vec::new();
    for kind in kinds {
        let message = || format!("listing copies: {}; `--copies keep` leaves all of them", kind.several());
        marked.extend(orphans::marked(client, kind, None).await.with_context(message)?);
    }
    Ok(marked)
}

/// The finalizers but for ours and the upstream operator's; `None` if neither is among them.
fn without_ours(object: &DynamicObject) -> Option<Vec<String>> {
    let all = object.finalizers();
    let others = after(all, FinalizerChange::Release);
    (others.len() < all.len()).then(|| others.into_iter().map(str::to_owned).collect())
}

/// Removes the copies of a deleted resource of this kind that are among `marked`; was all of it done?
async fn clean_up(
    client: &Client,
    kind: Kind,
    sync: &DynamicObject,
    marked: &[Marked],
    trouble: &mut BTreeSet<String>,
) -> bool {
    let found = if kind == Kind::ResourceSync { source_of_any_kind(sync) } else { source(sync) };
    let source = match found {
        Ok(source) => source,
        Err(why) => {
            say(format_args!("{}: its copies stay: {why}", kind.object_key(sync)));
            return true;
        }
    };
    let [namespace, uid] = [sync.namespace(), sync.uid()].map(Option::unwrap_or_default);
    let owner = Owner { namespace, name: sync.name_any(), uid };
    let mut is_done = true;
    for copy in marked.iter().filter(|copy| is_copy_of(&owner, &source, copy)) {
        let (written, what) = if is_adopted(&copy.meta) {
            (orphans::adopt(client, copy).await, "an ordinary object again")
        } else {
            (orphans::delete(client, copy).await, "deleted")
        };
        match written {
            Ok(()) => say(format_args!("{copy} is {what}")),
            Err(error) if is_gone(&error) => {}
            Err(kube::Error::Api(status)) if status.is_conflict() => is_done = false,
            Err(error) => {
                is_done = false;
                let message =
                    format!("{copy} cannot be removed ({error}); `--copies keep` leaves all of them");
                if trouble.insert(message.clone()) {
                    say(message);
                }
            }
        }
    }
    is_done
}

/// Would the operator remove it?
fn is_copy_of(owner: &Owner, source: &SpecSource, copy: &Marked) -> bool {
    // A ConfigMapSync may have copied the other one of its two kinds.
    let kind = copy.key.kind;
    let is_its =
        kind.is_same(source.kind) || [kind, source.kind].iter().all(|one| one.is_of_config_map_sync());
    is_its && !copy.is_passed_on() && stale_copy(owner, source, kind, &copy.meta) == StaleCopy::Ours
}

/// The source of a ConfigMapSync whose copies are deleted; or why they stay, as the operator decides it.
fn source(sync: &DynamicObject) -> Result<SpecSource, String> {
    let sync: ConfigMapSync = parsed(sync)?;
    let spec = goes_with(&sync.metadata, sync.desired())?;
    Ok(SpecSource::from(&spec.source.clone().unwrap_or_default()))
}

/// The same of a ResourceSync.
fn source_of_any_kind(sync: &DynamicObject) -> Result<SpecSource, String> {
    let sync: ResourceSync = parsed(sync)?;
    let asked = sync.desired().cloned().map(ConfigMapSyncSpec::from);
    let spec = goes_with(&sync.metadata, asked.as_ref())?;
    let named = sync.desired().and_then(|spec| spec.source.clone()).unwrap_or_default();
    let version = named.api_version.unwrap_or_default();
    let (group, version) = version.split_once('/').unwrap_or(("", &version));
    // The plural of the kind is not needed.
    let kind = ObjectKind::served(group, version, &named.kind.unwrap_or_default(), "");
    Ok(SpecSource::of(kind, &spec.source.clone().unwrap_or_default()))
}

fn parsed<K: DeserializeOwned>(sync: &DynamicObject) -> Result<K, String> {
    serde_json::to_value(sync)
        .and_then(serde_json::from_value)
        .map_err(|odd| format!("it cannot be parsed: {odd}"))
}

/// The spec, if the copies go with the resource; or why they stay.
fn goes_with<'a>(
    meta: &ObjectMeta,
    spec: Option<&'a ConfigMapSyncSpec>,
) -> Result<&'a ConfigMapSyncSpec, String> {
    if convert::lost(meta).is_some() {
        return Err("its spec was lost in an earlier conversion".into());
    }
    if let Some(by) = leaves_copies(meta, spec) {
        return Err(by.into());
    }
    spec.ok_or_else(|| "its spec is lost, and may have said to keep them".into())
}

/// Waits until no Secret is owned by a ServiceToken. Once their kind is unknown, the garbage collector cannot
/// judge what refers to it, and leaves it.
pub async fn secrets_are_let_go(client: &Client, deadline: Instant) -> anyhow::Result<()> {
    let secrets: Api<Secret> = Api::all(client.clone());
    let ours = format!("{MANAGED_BY_LABEL}={MANAGED_BY}");
    let _progress = Progress::waiting("waiting for the garbage collector");
    loop {
        let mut owned = Vec::new();
        let listed = each_page(&secrets, &ours, |page| {
            let is_owned = |meta: &ObjectMeta| meta.owner_references.iter().flatten().any(is_service_token);
            owned.extend(page.into_iter().filter(is_owned).map(|meta| {
                format!("{}/{}", meta.namespace.unwrap_or_default(), meta.name.unwrap_or_default())
            }));
            ControlFlow::Continue(())
        });
        listed.await.context("listing the Secrets of ServiceTokens")?;
        if owned.is_empty() {
            return Ok(());
        }
        ensure!(
            Instant::now() < deadline,
            "the garbage collector has not deleted these Secrets of ServiceTokens yet: {}; run this again later",
            owned.join(", ")
        );
        sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use weaver_api::ownership::{FINALIZER, PAUSED_ANNOTATION, UPSTREAM_FINALIZER};
    use weaver_api::v1beta1::Source;

    use super::*;

    #[test]
    fn only_our_own_finalizer_and_upstreams_are_taken_off() {
        let object = |finalizers: &Value| -> DynamicObject {
            serde_json::from_value(json!({"metadata": {"finalizers": finalizers}})).unwrap()
        };
        for (finalizers, expected) in [
            (json!([FINALIZER]), Some(vec![])),
            (json!([UPSTREAM_FINALIZER]), Some(vec![])),
            (json!(["example.com/theirs", FINALIZER]), Some(vec!["example.com/theirs"])),
            (json!(["example.com/theirs"]), None),
            (Value::Null, None),
        ] {
            let expected = expected.map(|all| all.into_iter().map(str::to_owned).collect());
            assert_eq!(without_ours(&object(&finalizers)), expected, "{finalizers}");
        }
    }

    #[test]
    fn copies_stay_where_the_resource_says_so_or_cannot_be_understood() {
        let sync = |metadata: Value, spec: Value| -> DynamicObject {
            let object = json!({"apiVersion": "weaver.example.com/v1beta1", "kind": "ConfigMapSync",
                                "metadata": metadata, "spec": spec});
            serde_json::from_value(object).unwrap()
        };
        let paused = json!({"annotations": {PAUSED_ANNOTATION: "a backup"}});
        for (metadata, spec, expected) in [
            (json!({}), json!({}), None),
            (json!({}), json!({"deletionPolicy": "Orphan"}), Some("spec.deletionPolicy: Orphan")),
            (json!({}), json!({"suspend": true}), Some("spec.suspend")),
            (json!({}), json!({"dryRun": true}), Some("spec.dryRun")),
            (paused, json!({}), Some(PAUSED_ANNOTATION)),
        ] {
            assert_eq!(source(&sync(metadata, spec.clone())).err().as_deref(), expected, "{spec}");
        }
        assert!(
            source(&sync(json!({}), json!({"suspend": "often"}))).unwrap_err().contains("cannot be parsed")
        );
        assert!(source(&sync(json!({}), Value::Null)).unwrap_err().contains("its spec is lost"));
    }

    #[test]
    fn copies_of_a_resource_sync_are_of_the_kind_that_it_names() {
        let sync: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "weaver.example.com/v1beta1", "kind": "ResourceSync",
            "metadata": {"name": "sync", "namespace": "team-a", "uid": "u1"},
            "spec": {"source": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "team-a", "name": "web"}},
        }))
        .unwrap();
        let source = source_of_any_kind(&sync).unwrap();
        let owner = Owner { namespace: "team-a".into(), name: "sync".into(), uid: "u1".into() };
        for (group, kind, expected) in
            [("apps", "Deployment", true), ("", "Deployment", false), ("apps", "ReplicaSet", false)]
        {
            let kind = ObjectKind::served(group, "v1", kind, "x");
            let meta = ObjectMeta {
                namespace: Some("foo".into()),
                name: Some("web".into()),
                labels: Some(owner.labels()),
                annotations: Some(owner.annotations("Deployment.apps/team-a/web")),
                ..ObjectMeta::default()
            };
            let key = weaver_copies::object::ObjectKey::of(kind, &meta).unwrap();
            assert_eq!(is_copy_of(&owner, &source, &Marked { key, meta }), expected, "{kind}");
        }
    }

    #[test]
    fn a_copy_is_one_whose_ownership_labels_name_the_resource() {
        let owner =
            |uid: &str, name: &str| Owner { namespace: "team-a".into(), name: name.into(), uid: uid.into() };
        let copy = |owner: &Owner, source: &str| {
            let meta = kube::core::ObjectMeta {
                namespace: Some("foo".into()),
                name: Some("settings".into()),
                labels: Some(owner.labels()),
                annotations: Some(owner.annotations(source)),
                ..Default::default()
            };
            let key = weaver_copies::object::ObjectKey::of(ObjectKind::CONFIG_MAP, &meta).unwrap();
            Marked { key, meta }
        };
        let (asking, away) = (owner("u1", "sync"), "ConfigMap/team-a/settings");
        let source = |namespace: &str| {
            SpecSource::from(&Source {
                namespace: Some(namespace.into()),
                name: Some("settings".into()),
                ..Source::default()
            })
        };
        let is_copy = |copy: &Marked| is_copy_of(&asking, &source("team-a"), copy);
        assert!(is_copy(&copy(&asking, away)));
        assert!(!is_copy(&copy(&owner("u2", "other"), away)));
        assert!(!is_copy(&copy(&asking, "ConfigMap/foo/settings")), "a source that was restored");
        let edited = is_copy_of(&asking, &source("foo"), &copy(&asking, away));
        assert!(!edited, "what was a copy once, and is the source since the spec was changed");
    }
}
