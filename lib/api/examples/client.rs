//! A program of somebody else's that works with our kinds: create, read, list, change, watch, delete.
//!
//! `cargo run -p weaver-api --example client -- NAMESPACE`, with the cluster of the kubeconfig that kubectl would use.
//! Makes one ConfigMapSync and one ServiceToken called `example-client` in that namespace, which must exist, and deletes
//! them again; looks at what the node agents report. Each step says what it did. Where one fails, what was made stays; deleting it is
//! safe, since the ConfigMapSync is suspended and writes nothing.

use std::fmt::Debug;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use futures::{Stream, StreamExt as _, TryStreamExt as _};
use kube::api::{DeleteParams, ListParams, PostParams, Preconditions};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, watcher as watch};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use weaver_api::requests;
use weaver_api::v1beta1::{ConfigMapSync, NodeReport, ServiceToken};
use weaver_api::validate::{SpecFault, validate, validate_token};

const NAME: &str = "example-client";
/// Longest wait for one change to be seen.
const SOON: Duration = Duration::from_mins(1);
/// Attempts at a change that others may be faster with.
const ATTEMPTS: usize = 5;

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
    let syncs = Api::namespaced(client.clone(), namespace);
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
    let tokens = Api::namespaced(client.clone(), namespace);
    let by_field = format!("spec.writer.serviceAccount.name={NAME}");
    tour(&tokens, &token, &by_field, |token: &mut ServiceToken| {
        if let Some(spec) = &mut token.spec.spec {
            spec.renew_at_percent = 50;
        }
    })
    .await?;

    reports(&Api::all(client)).await
}

/// The rules of the schema and those beyond it, without a server.
fn valid<T>(judged: Result<T, Vec<SpecFault>>) -> anyhow::Result<()> {
    let Err(faults) = judged else { return Ok(()) };
    let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
    bail!("{}", faults.join("; "))
}

/// The whole life of one object.
async fn tour<K: Kind>(
    api: &Api<K>,
    object: &K,
    by_field: &str,
    change: impl Fn(&mut K),
) -> anyhow::Result<()> {
    let kind = K::kind(&());
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    create(api, object, &dry_run).await.context("a dry run")?;
    println!("{kind}: the API server would create it");
    println!("{kind}: {}", refused(api, object).await?);

    let created = create(api, object, &PostParams::default()).await.context("creating")?;
    println!("{kind}: created, generation {}", generation(&created));
    let mut events = pin!(watch_of(api));
    seen(&mut events, |event| matches!(event, Event::InitApply(_))).await?;

    let read = api.get(NAME).await.context("reading")?;
    ensure!(read.uid() == created.uid(), "somebody else's {kind} took its place");
    for (how, params) in [
        ("label", ListParams::default().labels(&format!("made-by={NAME}"))),
        ("field", ListParams::default().fields(by_field)),
    ] {
        println!("{kind}: listed by {how}: {}", names(api, params).await?.join(", "));
    }

    let changed = replace(api, &change).await.context("changing")?;
    println!("{kind}: changed, generation {}", generation(&changed));
    let is_changed =
        |event: &Event<K>| matches!(event, Event::Apply(found) if generation(found) == generation(&changed));
    seen(&mut events, is_changed).await?;
    println!("{kind}: the watch saw the change");

    // Only this very object, not one that somebody made in its place.
    let this = Preconditions { uid: created.uid(), resource_version: None };
    api.delete(NAME, &DeleteParams { preconditions: Some(this), ..DeleteParams::default() })
        .await
        .context("deleting")?;
    seen(&mut events, |event| matches!(event, Event::Delete(_))).await?;
    println!("{kind}: deleted, and the watch saw it");
    Ok(())
}

/// A create that refuses fields which the kind does not have.
async fn create<K: Kind>(api: &Api<K>, object: &impl Serialize, params: &PostParams) -> anyhow::Result<K> {
    let request = requests::create(api.resource_url(), object, params)?;
    Ok(api.clone().into_client().request(request).await?)
}

/// What the API server says to a misspelt field.
async fn refused<K: Kind>(api: &Api<K>, object: &K) -> anyhow::Result<String> {
    let mut misspelt = serde_json::to_value(object)?;
    misspelt["spec"]["tragets"] = Value::Null;
    match create(api, &misspelt, &PostParams { dry_run: true, ..PostParams::default() }).await {
        Ok(_) => bail!("a misspelt field was not refused"),
        Err(error) if format!("{error:#}").contains("unknown field \"spec.tragets\"") => {
            Ok("a misspelt field is refused by name".to_owned())
        }
        Err(error) => Err(error.context("refused for another reason")),
    }
}

/// Read, change, replace; once more from the start where somebody was faster.
async fn replace<K: Kind>(api: &Api<K>, change: impl Fn(&mut K)) -> anyhow::Result<K> {
    for _ in 0..ATTEMPTS {
        let mut object = api.get(NAME).await?;
        change(&mut object);
        let request = requests::replace(api.resource_url(), NAME, &object, &PostParams::default())?;
        match api.clone().into_client().request(request).await {
            Err(kube::Error::Api(status)) if status.is_conflict() => {}
            done => return Ok(done?),
        }
    }
    bail!("somebody else changed it each of {ATTEMPTS} times")
}

/// All names, page by page, so that many objects are never in memory at once.
async fn names<K: Kind>(api: &Api<K>, mut params: ListParams) -> anyhow::Result<Vec<String>> {
    params.limit = Some(100);
    let mut names = Vec::new();
    loop {
        let page = api.list(&params).await.context("listing")?;
        names.extend(page.items.iter().map(kube::ResourceExt::name_any));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(names),
        }
    }
}

/// A watch of the one object. It survives lost connections and a resourceVersion that is too old.
fn watch_of<K: Kind>(api: &Api<K>) -> impl Stream<Item = watcher::Result<Event<K>>> + Send {
    let only = watcher::Config::default().fields(&format!("metadata.name={NAME}"));
    watch(api.clone(), only).default_backoff()
}

/// Waits for an event. An error is not the end of such a stream: it tries again, less and less often.
async fn seen<K: Kind>(
    events: &mut (impl Stream<Item = watcher::Result<Event<K>>> + Unpin),
    wanted: impl Fn(&Event<K>) -> bool,
) -> anyhow::Result<()> {
    let found = async {
        while let Some(event) = events.next().await {
            match event {
                Ok(event) if wanted(&event) => return Ok(()),
                Ok(_) => {}
                Err(error) => eprintln!("the watch goes on after: {error}"),
            }
        }
        bail!("the watch has ended")
    };
    tokio::time::timeout(SOON, found).await.context("the watch did not see the change")?
}

/// The kind that the node agents write; a program reads it.
async fn reports(api: &Api<NodeReport>) -> anyhow::Result<()> {
    let names = names(api, ListParams::default()).await?;
    println!("NodeReport: listed: {}", names.len());
    if let Some(name) = names.first() {
        let findings = api.get(name).await?.status.unwrap_or_default().findings;
        println!("NodeReport: {name} has {} findings", findings.len());
    }
    // The first events of a watch are what is there already.
    let mut events = pin!(watch(api.clone(), watcher::Config::default()).default_backoff());
    let mut watched = 0;
    while let Some(event) = tokio::time::timeout(SOON, events.try_next()).await?? {
        match event {
            Event::InitApply(_) => watched += 1,
            Event::InitDone => break,
            _ => {}
        }
    }
    println!("NodeReport: watched: {watched}");
    Ok(())
}

fn generation(object: &impl Resource) -> i64 {
    object.meta().generation.unwrap_or_default()
}
