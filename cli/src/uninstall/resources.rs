//! Each `ConfigMapSync` and `ServiceToken` goes, and with `--copies delete` what it made.
//!
//! Where an operator leads, it does its part: it has the tenants' rights. Where none does, it is done here with the rights
//! of the person, by the same rules, and only our own finalizer is taken off. Who leads is asked again each time, so an
//! operator that dies meanwhile is replaced as soon as its lease is late.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use weaver_api::convert;
use weaver_api::marks::{
    FINALIZER, MANAGED_BY, MANAGED_BY_LABEL, Owner, Ownership, PAUSED_ANNOTATION, is_service_token, ownership,
};
use weaver_api::v1beta1::{ConfigMapSync, SourceKind};
use weaver_operator::sync::cleanup::leaves_copies;
use weaver_operator::sync::copy::is_own_source;
use weaver_operator::sync::metadata::is_adopted;

use super::Copies;
use super::found::{Found, leader};
use crate::orphans::{self, Marked};
use crate::resource::delete::{Manner, delete};
use crate::resource::deletion::held_by;
use crate::resource::kind::{Kind, name, namespace, uid};
use crate::resource::store::{Store, exactly, is_conflict, is_gone};
use crate::stdout::say;

/// How often it is looked.
pub const LOOK: Duration = Duration::from_millis(500);

/// Deletes all that were found, and waits until they are gone.
pub async fn remove(client: &Client, found: &Found, copies: Copies, deadline: Instant) -> anyhow::Result<()> {
    let manner = Manner { orphan: copies == Copies::Keep, dry_run: false };
    for kind in Kind::ALL {
        for object in found.of(kind) {
            let store = Store::all(kind, client).at(kind, Some(namespace(object)));
            delete(&store, name(object), object, manner).await?;
            say(format_args!("{} deleted", kind.place(object)));
        }
    }
    let mut told = 0;
    loop {
        let left = left(client, found).await?;
        if left.is_empty() {
            return Ok(());
        }
        let operator = leader(client).await?;
        if operator.is_none() {
            release(client, &left, copies).await?;
        }
        if told != left.len() {
            told = left.len();
            let who = if operator.is_some() { "the operator" } else { "the API server" };
            say(format_args!("waiting until {who} is done with {told}"));
        }
        let held: Vec<String> = left
            .iter()
            .map(|(kind, object)| format!("{}: {}", kind.place(object), held_by(object)))
            .collect();
        ensure!(
            Instant::now() < deadline,
            "{told} are still there, and all else stays until they are gone: mend it and run this again\n{}",
            held.join("\n")
        );
        sleep(LOOK).await;
    }
}

/// Those of the found ones that are still there.
async fn left(client: &Client, found: &Found) -> anyhow::Result<Vec<(Kind, Value)>> {
    let mut left = Vec::new();
    // A kind of which there was none may not be known at all.
    for kind in Kind::ALL.into_iter().filter(|kind| !found.of(*kind).is_empty()) {
        let uids: BTreeSet<&str> = found.of(kind).iter().map(uid).collect();
        let objects = Store::all(kind, client).list(ListParams::default()).await?;
        left.extend(
            objects.into_iter().filter(|object| uids.contains(uid(object))).map(|object| (kind, object)),
        );
    }
    Ok(left)
}

/// Does what the operator would do before it lets go of these, and lets go. What somebody else changes meanwhile is left
/// for the next look.
async fn release(client: &Client, left: &[(Kind, Value)], copies: Copies) -> anyhow::Result<()> {
    let held: Vec<&Value> =
        left.iter().filter_map(|(_, object)| without_ours(object).is_some().then_some(object)).collect();
    if held.is_empty() {
        return Ok(());
    }
    let mut marked = Vec::new();
    if copies == Copies::Delete {
        for kind in SourceKind::ALL {
            let found = orphans::marked(client, kind, None).await;
            marked.extend(found.with_context(|| format!("listing copies: {kind}s"))?);
        }
    }
    for object in held {
        if !clean_up(client, object, &marked).await? {
            continue;
        }
        let mut change = exactly(object);
        change["metadata"]["finalizers"] = json!(without_ours(object));
        let store = Store::all(Kind::Sync, client).at(Kind::Sync, Some(namespace(object)));
        match store.merge(name(object), &change).await {
            Err(error) if !is_conflict(&error) && !is_gone(&error) => {
                let place = store.place(name(object));
                return Err(store.said(error).context(format!("taking our finalizer off {place}")));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The finalizers but for ours; `None` if ours is not among them.
fn without_ours(object: &Value) -> Option<Vec<&str>> {
    let all = object["metadata"]["finalizers"].as_array()?;
    let others: Vec<&str> = all.iter().filter_map(Value::as_str).filter(|one| *one != FINALIZER).collect();
    (others.len() < all.len()).then_some(others)
}

/// Removes the copies of a deleted ConfigMapSync that are among `marked`; was all of it done?
async fn clean_up(client: &Client, sync: &Value, marked: &[Marked]) -> anyhow::Result<bool> {
    if let Some(why) = stay(sync) {
        say(format_args!("{}: its copies stay: {why}", Kind::Sync.place(sync)));
        return Ok(true);
    }
    let owner = Owner { namespace: namespace(sync).into(), name: name(sync).into(), uid: uid(sync).into() };
    let mut is_done = true;
    for copy in marked.iter().filter(|copy| is_copy_of(&owner, copy)) {
        let (written, what) = if is_adopted(&copy.meta) {
            (orphans::adopt(client, copy).await, "an ordinary object again")
        } else {
            (orphans::delete(client, copy).await, "deleted")
        };
        match written {
            Ok(()) => say(format_args!("{copy} is {what}")),
            Err(error) if is_gone(&error) => {}
            Err(error) if is_conflict(&error) => is_done = false,
            Err(error) => return Err(error).with_context(|| format!("removing {copy}, a copy of {owner}")),
        }
    }
    Ok(is_done)
}

/// Do its marks name the resource, and is it no source?
fn is_copy_of(owner: &Owner, copy: &Marked) -> bool {
    ownership(owner, &copy.meta) == Ownership::Ours && !is_own_source(copy.place.kind, &copy.meta)
}

/// Why the copies of a ConfigMapSync stay, if they do: as the operator judges it.
fn stay(sync: &Value) -> Option<String> {
    let sync: ConfigMapSync = match serde_json::from_value(sync.clone()) {
        Ok(sync) => sync,
        Err(odd) => return Some(format!("it cannot be understood: {odd}")),
    };
    if convert::lost(&sync.metadata).is_some() {
        return Some("part of its spec is lost".into());
    }
    if sync.annotations().contains_key(PAUSED_ANNOTATION) {
        return Some(PAUSED_ANNOTATION.into());
    }
    sync.desired().and_then(leaves_copies).map(str::to_owned)
}

/// Waits until no Secret is owned by a ServiceToken. Once their kind is unknown, the garbage collector cannot judge what
/// refers to it, and leaves it.
pub async fn secrets_are_let_go(client: &Client, deadline: Instant) -> anyhow::Result<()> {
    let secrets: Api<Secret> = Api::all(client.clone());
    let params = ListParams::default().labels(&format!("{MANAGED_BY_LABEL}={MANAGED_BY}"));
    loop {
        let found = secrets.list_metadata(&params).await.context("listing the Secrets of ServiceTokens")?;
        let owned =
            found.items.iter().filter(|secret| secret.owner_references().iter().any(is_service_token));
        let owned: Vec<String> = owned
            .map(|secret| format!("{}/{}", secret.namespace().unwrap_or_default(), secret.name_any()))
            .collect();
        if owned.is_empty() {
            return Ok(());
        }
        ensure!(
            Instant::now() < deadline,
            "the garbage collector has not looked at these Secrets of ServiceTokens yet: {}; run this again later",
            owned.join(", ")
        );
        sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_finalizer_is_taken_off() {
        let object = |finalizers: Value| json!({"metadata": {"finalizers": finalizers}});
        for (finalizers, expected) in [
            (json!([FINALIZER]), Some(vec![])),
            (json!(["example.com/theirs", FINALIZER]), Some(vec!["example.com/theirs"])),
            (json!(["example.com/theirs"]), None),
            (Value::Null, None),
        ] {
            assert_eq!(without_ours(&object(finalizers.clone())), expected, "{finalizers}");
        }
    }

    #[test]
    fn copies_stay_where_the_resource_says_so_or_cannot_be_understood() {
        let sync = |metadata: Value, spec: Value| json!({"apiVersion": "weaver.example.com/v1beta1", "kind": "ConfigMapSync", "metadata": metadata, "spec": spec});
        let paused = json!({"annotations": {PAUSED_ANNOTATION: "a backup"}});
        for (metadata, spec, expected) in [
            (json!({}), json!({}), None),
            (json!({}), json!({"deletionPolicy": "Orphan"}), Some("spec.deletionPolicy: Orphan")),
            (json!({}), json!({"suspend": true}), Some("spec.suspend")),
            (json!({}), json!({"dryRun": true}), Some("spec.dryRun")),
            (paused, json!({}), Some(PAUSED_ANNOTATION)),
        ] {
            assert_eq!(stay(&sync(metadata, spec.clone())).as_deref(), expected, "{spec}");
        }
        assert!(stay(&sync(json!({}), json!({"suspend": "often"}))).unwrap().contains("understood"));
    }

    #[test]
    fn a_copy_is_one_whose_marks_name_the_resource() {
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
            let place = weaver_operator::tenant::object::Place::of(SourceKind::ConfigMap, &meta).unwrap();
            Marked { place, meta }
        };
        let (asking, away) = (owner("u1", "sync"), "ConfigMap/team-a/settings");
        assert!(is_copy_of(&asking, &copy(&asking, away)));
        assert!(!is_copy_of(&asking, &copy(&owner("u2", "other"), away)));
        assert!(!is_copy_of(&asking, &copy(&asking, "ConfigMap/foo/settings")), "a source that was restored");
    }
}
