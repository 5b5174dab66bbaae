//! `weaver apply`: makes objects of our kinds what manifests say, by server-side apply.
//!
//! Guarantees: all manifests pass our own rules and a server dry run before the first is written; fields that someone
//! else set are taken over only with `--force-conflicts`. With `--rollback-on-failure` an object that does not
//! become Ready is what it was before, each for itself, unless someone else has changed it since.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{anyhow, ensure};
use clap::Args;
use kube::core::DynamicObject;
use weaver_client::rollback::{Applied, Rollback, UndoOutcome};
use weaver_client::{Conflicts, Error, Refusal, WriteMode};

use super::kind::Kind;
use super::manifest::{self, CheckedManifest};
use super::options::{DryRun, for_each};
use super::readiness::wait;
use super::store::Store;
use crate::connection;
use crate::stdout::{ErrorLines, failed, print};

/// The default time to wait for each object.
const PATIENCE: u64 = 60;

#[derive(Args)]
pub struct Apply {
    /// YAML or JSON file with one or more objects, or - for standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    file: PathBuf,
    /// Namespace of objects that name none (default: that of the kubeconfig's context)
    #[arg(short, long)]
    namespace: Option<String>,
    /// Wait until each object is Ready, for at most 60 or the given number of seconds
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "60",
          value_parser = clap::value_parser!(u64).range(0..=86_400))]
    wait: Option<u64>,
    /// Wait, and restore the previous state of objects that do not become Ready
    #[arg(long)]
    rollback_on_failure: bool,
    /// Take over fields that another field manager owns
    #[arg(long)]
    force_conflicts: bool,
    #[command(flatten)]
    dry_run: DryRun,
}

struct AppliedObject {
    store: Store,
    writes: Rollback,
    object: DynamicObject,
}

pub async fn run(options: &Apply) -> anyhow::Result<ExitCode> {
    let documents = manifest::read(&options.file)?;
    let store = Store::connect(Kind::ConfigMapSync, options.namespace.as_deref()).await?;
    let default = store.namespace.clone().unwrap_or_default();
    let asked = options.namespace.as_deref();
    let checked =
        (1..).zip(documents).map(|(number, document)| manifest::check(document, number, asked, &default));
    let checked: Vec<CheckedManifest> = checked.collect::<Result<_, _>>()?;
    let conflicts = if options.force_conflicts { Conflicts::Force } else { Conflicts::Refuse };
    for one in &checked {
        let store = store.at(one.kind, Some(&one.namespace));
        let judged = store.applier().apply(&one.name, &one.object, WriteMode::DryRun, conflicts).await;
        judged.map_err(|error| refused(&store, one, error).context("nothing was applied"))?;
        if options.dry_run.is_asked_for() {
            print(&format!("{} applied{}\n", one.kind.reference(&one.name), options.dry_run.suffix()))?;
        }
    }
    if options.dry_run.is_asked_for() {
        return Ok(ExitCode::SUCCESS);
    }
    // Each for itself: what was applied is still waited for.
    let applied =
        for_each(&checked, async |one| apply(store.at(one.kind, Some(&one.namespace)), one, conflicts).await);
    let (applied, mut code) = applied.await;
    let Some(seconds) = options.wait.or(options.rollback_on_failure.then_some(PATIENCE)) else {
        return Ok(code);
    };
    for one in applied {
        if let Err(error) = ready(one, Duration::from_secs(seconds), options.rollback_on_failure).await {
            failed("error", &error);
            code = ExitCode::FAILURE;
        }
    }
    Ok(code)
}

async fn apply(store: Store, one: &CheckedManifest, conflicts: Conflicts) -> anyhow::Result<AppliedObject> {
    let mut writes = Rollback::new();
    let applied = writes.apply(&store.applier(), &one.name, &one.object, conflicts).await;
    let applied = applied.map_err(|error| refused(&store, one, error))?;
    let what = match &applied {
        Applied::Created(_) => "created",
        Applied::Unchanged(_) => "unchanged",
        Applied::Changed(_) => "configured",
    };
    print(&format!("{} {what}\n", one.kind.reference(&one.name)))?;
    Ok(AppliedObject { store, writes, object: applied.into_object() })
}

/// Waits for it to be Ready; undoes the apply if requested.
async fn ready(done: AppliedObject, limit: Duration, undoes: bool) -> anyhow::Result<()> {
    let AppliedObject { store, writes, object } = done;
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let Err(why) = wait(&store, name, limit).await else {
        writes.keep();
        print(&format!("{} ready\n", store.kind.reference(name)))?;
        return Ok(());
    };
    let key = store.object_key(name);
    let explained = match (store.kind, &store.namespace) {
        (Kind::ConfigMapSync | Kind::ResourceSync, Some(home)) => {
            format!("; `weaver sync explain {name} -n {home}{}` says more", connection::flags())
        }
        _ => String::new(),
    };
    ensure!(undoes, "{key} is not Ready, {why}{explained}");
    let mut lines = vec![format!("{key} is not Ready, {why}")];
    for undone in writes.undo().await {
        match undone.outcome {
            UndoOutcome::Failed(error) => {
                return Err(store.said(error.why).context("its previous state could not be restored"));
            }
            outcome => lines.push(format!("{key}: {outcome}")),
        }
    }
    Err(ErrorLines(lines).into())
}

fn refused(store: &Store, one: &CheckedManifest, error: Error) -> anyhow::Error {
    let (home, key, flags) = (&one.namespace, store.object_key(&one.name), connection::flags());
    match error.refusal() {
        Some(Refusal::NamespaceMissing) => {
            anyhow!("{key}: namespace {home} does not exist: `kubectl create namespace {home}{flags}`")
        }
        Some(Refusal::FieldsOwned) => anyhow!(
            "{:#}; `--force-conflicts` takes these fields over, `weaver {} get {} -n {home} -o yaml{flags}` shows them",
            store.said(error.why).context(key),
            store.kind.noun(),
            one.name
        ),
        _ => store.said(error.why).context(key),
    }
}
