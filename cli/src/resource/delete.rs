//! `delete`: only the very object that was read, and with `--orphan` not what it made.
//!
//! Each request names the uid, with `--orphan` of a ConfigMapSync the resourceVersion as well: if someone else sets
//! another `deletionPolicy` first, it is noticed and the change is made again. Nothing else is ever forced: only the
//! operator removes its finalizer.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{anyhow, bail, ensure};
use clap::Args;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, Preconditions, PropagationPolicy};
use kube::core::DynamicObject;
use weaver_client::{Error, WaitProgress, Why, WriteMode};

use super::deletion::{before_orphaning, copies_that_stay, held_by, otherwise};
use super::kind::Kind;
use super::options::{DryRun, for_each};
use super::store::{Store, exactly, is_invalid};
use crate::connection;
use crate::stdout::{print, say};

/// Attempts where others write at the same time; the operator's status alone is one now and then.
const ATTEMPTS: usize = 8;

#[derive(Args)]
pub struct Delete {
    /// Names of the objects
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// Namespace (default: that of the kubeconfig's context)
    #[arg(short, long)]
    namespace: Option<String>,
    /// Keep its copies (ConfigMapSync, ResourceSync) or its Secret (ServiceToken)
    #[arg(long)]
    orphan: bool,
    /// Wait until it is gone, for at most 60 or the given number of seconds, then say what blocks it
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "60",
          value_parser = clap::value_parser!(u64).range(0..=86_400))]
    wait: Option<u64>,
    #[command(flatten)]
    dry_run: DryRun,
}

pub async fn run(kind: Kind, options: Delete) -> anyhow::Result<ExitCode> {
    let store = Store::connect(kind, options.namespace.as_deref()).await?;
    let (_, code) = for_each(&options.names, async |name| one(&store, name, &options).await).await;
    Ok(code)
}

async fn one(store: &Store, name: &str, options: &Delete) -> anyhow::Result<()> {
    let seen = store.existing(name).await?;
    let manner = Manner { orphan: options.orphan, dry_run: options.dry_run.is_asked_for() };
    delete(store, name, &seen, manner).await?;
    let kept = if options.orphan { ", the objects that it made stay" } else { "" };
    print(&format!("{} deleted{kept}{}\n", store.kind.reference(name), options.dry_run.suffix()))?;
    if options.orphan && store.kind == Kind::ConfigMapSync {
        say(copies_that_stay(&seen));
    }
    match options.wait {
        Some(seconds) if !options.dry_run.is_asked_for() => wait(store, &seen, seconds).await,
        _ => Ok(()),
    }
}

/// How an object is deleted.
#[derive(Clone, Copy)]
pub struct Manner {
    /// What it made stays.
    pub orphan: bool,
    pub dry_run: bool,
}

/// Deletes the very object that was seen; one that is gone by now is as good.
pub async fn delete(store: &Store, name: &str, seen: &DynamicObject, manner: Manner) -> anyhow::Result<()> {
    let key = store.object_key(name);
    let mut object = seen.clone();
    for _ in 0..ATTEMPTS {
        ensure!(
            object.uid() == seen.uid(),
            "{key} was deleted and created again meanwhile: the new object was not changed"
        );
        let said = |error: Error| store.said(error.why).context(format!("deleting {key}"));
        match attempt(store, name, object, manner).await {
            Ok(()) => return Ok(()),
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(said(error)),
        }
        match store.objects.get(name).await.map_err(said)? {
            Some(newer) => object = newer,
            None => return Ok(()),
        }
    }
    bail!("{key} changed at each of {ATTEMPTS} attempts: it was not deleted, try again")
}

async fn attempt(store: &Store, name: &str, mut object: DynamicObject, manner: Manner) -> Result<(), Error> {
    let Manner { orphan, dry_run } = manner;
    let objects = &store.objects;
    if orphan
        && !dry_run
        && let Some(mut change) = before_orphaning(store.kind, &object)
    {
        // A user who may not delete must not change it either.
        objects.delete(&object, DeleteParams { dry_run: true, ..DeleteParams::default() }).await?;
        change["metadata"] = exactly(&object)["metadata"].clone();
        object = match objects.merge(name, &change, WriteMode::Persist).await {
            Err(error) if is_invalid(&error) => {
                let mut paused = exactly(&object);
                paused["metadata"]["annotations"] = otherwise();
                objects.merge(name, &paused, WriteMode::Persist).await?
            }
            done => done?,
        };
    }
    let mut params = DeleteParams { dry_run, ..DeleteParams::default() };
    let keeps_by_spec = orphan && store.kind != Kind::ServiceToken && !dry_run;
    params.preconditions = Some(Preconditions {
        uid: object.uid(),
        resource_version: object.resource_version().filter(|_| keeps_by_spec),
    });
    if orphan && store.kind == Kind::ServiceToken {
        params.propagation_policy = Some(PropagationPolicy::Orphan);
    }
    objects.delete(&object, params).await
}

/// Waits until the very object that was seen is gone.
async fn wait(store: &Store, seen: &DynamicObject, seconds: u64) -> anyhow::Result<()> {
    let name = seen.name_any();
    let judge = |found: Option<&DynamicObject>| match found.filter(|object| object.uid() == seen.uid()) {
        Some(object) => WaitProgress::NotYet(held_by(object)),
        None => WaitProgress::Reached,
    };
    let there = store.namespace.as_deref().map_or_else(String::new, |namespace| format!(" -n {namespace}"));
    let waited = store.objects.wait(&name, Duration::from_secs(seconds), judge).await;
    waited.map(|_| ()).map_err(|error| match error.why {
        Why::TimedOut { reason, .. } => anyhow!(
            "{} still exists after {seconds} s: {reason}; it is deleted once that is fixed, and `weaver {} get \
            {name}{there}{}` shows it until then",
            store.object_key(&name),
            store.kind.noun(),
            connection::flags()
        ),
        why => store.said(why),
    })
}
