//! `weaver apply`: makes objects of our kinds what manifests say, by server-side apply.
//!
//! Guarantees: all manifests pass our own rules and a server dry run before the first is written; fields that somebody
//! else set are taken over only with `--force-conflicts`. With `--rollback-on-failure` an object that does not become Ready
//! is what it was before, each for itself, unless somebody else has changed it since.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{anyhow, ensure};
use clap::Args;
use serde_json::Value;

use super::DryRun;
use super::kind::{Kind, name, namespace, resource_version};
use super::manifest::{self, Checked};
use super::readiness::{Waited, wait};
use super::rollback::roll_back;
use super::store::{Store, is_conflict, lacks_namespace};
use crate::stdout::{Lines, failed, print};

/// How long is waited for each object, unless said otherwise.
const PATIENCE: u64 = 60;

#[derive(Args)]
pub struct Apply {
    /// A file of YAML or JSON that holds one or more of either kind, or - for standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    file: PathBuf,
    /// The namespace of those that name none (default: that of the kubeconfig's context)
    #[arg(short, long)]
    namespace: Option<String>,
    /// Wait until each is Ready, for 60 seconds or as many as given
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "60")]
    wait: Option<u64>,
    /// Wait, and restore what an object was before if it does not become Ready
    #[arg(long)]
    rollback_on_failure: bool,
    /// Take over fields that somebody else has set
    #[arg(long)]
    force_conflicts: bool,
    #[command(flatten)]
    dry_run: DryRun,
}

/// An object that was applied.
struct Applied {
    store: Store,
    before: Option<Value>,
    object: Value,
}

pub async fn run(options: &Apply) -> anyhow::Result<ExitCode> {
    let documents = manifest::read(&options.file)?;
    let store = Store::connect(Kind::Sync, options.namespace.as_deref()).await?;
    let default = store.namespace.clone().unwrap_or_default();
    let asked = options.namespace.as_deref();
    let checked =
        (1..).zip(documents).map(|(number, document)| manifest::check(document, number, asked, &default));
    let checked: Vec<Checked> = checked.collect::<Result<_, _>>()?;
    for Checked { kind, object } in &checked {
        let store = store.at(*kind, Some(namespace(object)));
        let judged = store.apply(object, true, options.force_conflicts).await;
        judged.map_err(|error| refused(&store, object, error).context("nothing was applied"))?;
        if options.dry_run.is_asked_for() {
            print(&format!("{} applied{}\n", kind.reference(object), options.dry_run.suffix()))?;
        }
    }
    if options.dry_run.is_asked_for() {
        return Ok(ExitCode::SUCCESS);
    }
    let (mut applied, mut code) = (Vec::new(), ExitCode::SUCCESS);
    for Checked { kind, object } in checked {
        let store = store.at(kind, Some(namespace(&object)));
        match apply(store, &object, options.force_conflicts).await {
            Ok(one) => applied.push(one),
            // Each for itself: what was applied is still waited for.
            Err(error) => {
                failed("error", &error);
                code = ExitCode::FAILURE;
            }
        }
    }
    let Some(seconds) = options.wait.or(options.rollback_on_failure.then_some(PATIENCE)) else {
        return Ok(code);
    };
    for one in &applied {
        if let Err(error) = ready(one, Duration::from_secs(seconds), options.rollback_on_failure).await {
            failed("error", &error);
            code = ExitCode::FAILURE;
        }
    }
    Ok(code)
}

async fn apply(store: Store, object: &Value, force: bool) -> anyhow::Result<Applied> {
    let before = store.get(name(object)).await?;
    let applied = store.apply(object, false, force).await.map_err(|error| refused(&store, object, error))?;
    let what = match &before {
        None => "created",
        Some(before) if resource_version(before) == resource_version(&applied) => "unchanged",
        Some(_) => "configured",
    };
    print(&format!("{} {what}\n", store.kind.reference(&applied)))?;
    Ok(Applied { store, before, object: applied })
}

/// Waits for it to be Ready; undoes the apply if that is asked for.
async fn ready(applied: &Applied, limit: Duration, undoes: bool) -> anyhow::Result<()> {
    let Applied { store, before, object } = applied;
    let Waited::Not(why) = wait(store, object, limit).await else {
        print(&format!("{} ready\n", store.kind.reference(object)))?;
        return Ok(());
    };
    let place = store.kind.place(object);
    let explained = match store.kind {
        Kind::Sync => format!("; `weaver sync explain {} -n {}` says more", name(object), namespace(object)),
        Kind::Token => String::new(),
    };
    ensure!(undoes, "{place} is not Ready, {why}{explained}");
    let done = roll_back(store, before.as_ref(), object).await?;
    Err(Lines(vec![format!("{place} is not Ready, {why}"), format!("{place}: {done}")]).into())
}

fn refused(store: &Store, object: &Value, error: kube::Error) -> anyhow::Error {
    let (home, place) = (namespace(object), store.kind.place(object));
    if lacks_namespace(&error) {
        return anyhow!("{place}: namespace {home} does not exist: `kubectl create namespace {home}`");
    }
    let is_owned = is_conflict(&error);
    let said = store.said(error).context(place);
    if is_owned {
        return anyhow!(
            "{said:#}; `--force-conflicts` takes these fields over, `weaver {} get {} -n {home} -o yaml` shows them",
            store.kind.noun(),
            name(object)
        );
    }
    said
}
