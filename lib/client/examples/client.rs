//! A program of someone else's that works with our kinds: create, read, list, change, watch, undo, delete, wait.
//!
//! `cargo run -p weaver-client --example client -- NAMESPACE`, with the cluster of the kubeconfig that
//! kubectl would use. Makes one `ConfigMapSync` and one `ServiceToken` called `example-client` in that
//! namespace, which must exist, and deletes them again; counts what the node agents report. Each step says
//! what it did. If one fails, what was made is undone; the `ConfigMapSync` is suspended and writes nothing.

use std::fmt::Debug;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use futures::TryStreamExt as _;
use kube::api::{DeleteParams, ListParams};
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use weaver_api::v1beta1::{ConfigMapSync, NodeReport, ServiceToken};
use weaver_api::validate::{SpecFault, validate, validate_token};
use weaver_client::rollback::{Rollback, scope};
use weaver_client::{Change, Conflicts, Objects, Refusal, WriteMode};

const NAME: &str = "example-client";
/// Longest wait for one change to be seen.
const SOON: Duration = Duration::from_mins(1);

/// What all functions below need of a kind.
trait Kind: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize + Send + 'static {}
impl<K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize + Send + 'static> Kind
    for K
{
}

#[tokio::main]
async fn main() -> ExitCode {
    let done = match std::env::args().nth(1) {
        Some(namespace) => run(&namespace).await,
        None => Err(anyhow::anyhow!("usage: client NAMESPACE, one that exists")),
    };
    done.map_or_else(
        |error| {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}

async fn run(namespace: &str) -> anyhow::Result<()> {
    // kube is built with ring only; where two providers are linked, one has to be named.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Client::try_default().await.context("connecting as kubectl would")?;

    let sync: ConfigMapSync = serde_json::from_value(json!({
        "apiVersion": "weaver.example.com/v1beta1", "kind": "ConfigMapSync",
        "metadata": {"name": NAME, "labels": {"made-by": NAME}},
        "spec": {
            "serviceAccount": {"name": NAME},
            "source": {"namespace": namespace, "name": "settings"},
            "targets": {"namespaces": ["foo"]},
            "suspend": true,
        },
    }))?;
    valid(validate(sync.desired()))?;
    let syncs = Objects::new(Api::namespaced(client.clone(), namespace), NAME);
    let by_field = format!("spec.source.namespace={namespace},spec.source.name=settings");
    tour(&syncs, &sync, &by_field, |sync: &mut ConfigMapSync| {
        if let Some(spec) = &mut sync.spec.spec {
            spec.resync_seconds = 1_200;
        }
    })
    .await?;

    let token: ServiceToken = serde_json::from_value(json!({
        "apiVersion": "weaver.example.com/v1beta1", "kind": "ServiceToken",
        "metadata": {"name": NAME, "labels": {"made-by": NAME}},
        "spec": {
            "writer": {"serviceAccount": {"name": NAME}},
            "tokens": [{"key": "token", "serviceAccount": {"name": NAME}}],
        },
    }))?;
    valid(validate_token(token.spec.spec.as_ref()))?;
    let tokens = Objects::new(Api::namespaced(client.clone(), namespace), NAME);
    let by_field = format!("spec.writer.serviceAccount.name={NAME}");
    tour(&tokens, &token, &by_field, |token: &mut ServiceToken| {
        if let Some(spec) = &mut token.spec.spec {
            spec.renew_at_percent = 50;
        }
    })
    .await?;

    reports(&Objects::new(Api::all(client), NAME)).await
}

/// The rules of the schema and those beyond it, without a server.
fn valid<T>(judged: Result<T, Vec<SpecFault>>) -> anyhow::Result<()> {
    let Err(faults) = judged else { return Ok(()) };
    let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
    bail!("{}", faults.join("; "))
}

/// The whole life of one object.
async fn tour<K: Kind>(
    objects: &Objects<K>,
    object: &K,
    by_field: &str,
    change: impl Fn(&mut K),
) -> anyhow::Result<()> {
    let kind = K::kind(&());
    objects.create(NAME, object, WriteMode::DryRun).await.context("a dry run")?;
    println!("{kind}: the API server would create it");
    let mut misspelt = serde_json::to_value(object)?;
    misspelt["spec"]["tragets"] = Value::Null;
    match objects.create(NAME, &misspelt, WriteMode::DryRun).await {
        Err(error) if error.refusal() == Some(Refusal::FieldUnknown) => {
            println!("{kind}: a misspelt field is refused by name");
        }
        other => bail!("a misspelt field was not refused: {other:?}"),
    }

    // Undone if a step fails, kept if all end well.
    let done = scope(async |writes: &mut Rollback| life(objects, writes, object, by_field, &change).await);
    done.await.map_err(|failed| {
        failed.undone.iter().for_each(|undone| eprintln!("{undone}"));
        failed.error
    })
}

async fn life<K: Kind>(
    objects: &Objects<K>,
    writes: &mut Rollback,
    object: &K,
    by_field: &str,
    change: impl Fn(&mut K),
) -> anyhow::Result<()> {
    let kind = K::kind(&());
    let created = writes.create(objects, NAME, object).await?;
    println!("{kind}: created, generation {}", generation(&created));
    let only = watcher::Config::default().fields(&format!("metadata.name={NAME}"));
    // The first batch is what is there already.
    let mut batches = pin!(objects.watch(only));
    let first = tokio::time::timeout(SOON, batches.try_next()).await??.unwrap_or_default();
    ensure!(matches!(first.as_slice(), [Change::Added(_)]), "the watch began with {first:?}");

    for (how, params) in [
        ("label", ListParams::default().labels(&format!("made-by={NAME}"))),
        ("field", ListParams::default().fields(by_field)),
    ] {
        let names: Vec<String> = objects.list(params).await?.iter().map(K::name_any).collect();
        println!("{kind}: listed by {how}: {}", names.join(", "));
    }

    let changed = objects.update::<K, weaver_client::Error>(created, WriteMode::Persist, |current| {
        let mut wanted = current.clone();
        change(&mut wanted);
        Ok(Some(wanted))
    });
    let changed = changed.await?.into_object();
    println!("{kind}: changed, generation {}", generation(&changed));
    let is_changed =
        |seen: &Change<K>| matches!(seen, Change::Modified(new) if generation(new) == generation(&changed));
    seen(&mut batches, is_changed).await?;
    println!("{kind}: the watch saw the change");

    // A change that is not kept: what was there before comes back.
    let mut trial = Rollback::new();
    let mut labelled = json!({"apiVersion": K::api_version(&()), "kind": kind, "metadata": {"name": NAME}});
    labelled["metadata"]["labels"] = json!({"trial": "yes"});
    trial.apply(objects, NAME, &labelled, Conflicts::Refuse).await?;
    for undone in trial.undo().await {
        println!("{undone}");
    }

    // Only this very object, not one that replaced it.
    objects.delete(&changed, DeleteParams::default()).await?;
    objects.gone(&changed, SOON).await?;
    seen(&mut batches, |change| matches!(change, Change::Deleted(_))).await?;
    println!("{kind}: deleted, and the watch saw it");
    Ok(())
}

/// Waits for a change. An error is not the end of such a stream: it continues, less and less often.
async fn seen<K>(
    changes: &mut (impl futures::Stream<Item = watcher::Result<Vec<Change<K>>>> + Unpin),
    wanted: impl Fn(&Change<K>) -> bool,
) -> anyhow::Result<()> {
    let found = async {
        loop {
            match changes.try_next().await {
                Ok(Some(batch)) if batch.iter().any(&wanted) => return Ok(()),
                Ok(Some(_)) => {}
                Ok(None) => bail!("the watch has ended"),
                Err(error) => eprintln!("the watch continues after: {error}"),
            }
        }
    };
    tokio::time::timeout(SOON, found).await.context("the watch did not see the change")?
}

/// The kind that the node agents write; a program reads it.
async fn reports(reports: &Objects<NodeReport>) -> anyhow::Result<()> {
    let listed = reports.list(ListParams::default()).await?;
    println!("NodeReport: listed: {}", listed.len());
    if let Some(report) = listed.first() {
        let findings = report.status.clone().unwrap_or_default().findings;
        println!("NodeReport: {} has {} findings", report.name_any(), findings.len());
    }
    let mut changes = pin!(reports.watch(watcher::Config::default()));
    let first = tokio::time::timeout(SOON, changes.try_next()).await??.unwrap_or_default();
    println!("NodeReport: watched: {}", first.len());
    Ok(())
}

fn generation(object: &impl Resource) -> i64 {
    object.meta().generation.unwrap_or_default()
}
