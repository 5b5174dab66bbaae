//! `create`: makes objects, from flags or from manifests. What exists already is never overwritten.
//!
//! All manifests are checked by our own rules before the first is sent. Where one is refused later on, those before it
//! are there and have been named.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{anyhow, bail};
use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};
use weaver_api::GROUP;
use weaver_api::crds::STORED;
use weaver_client::{Refusal, WriteMode};

use super::kind::Kind;
use super::manifest::{self, CheckedManifest};
use super::options::DryRun;
use super::output::{self, Format};
use super::store::Store;
use crate::connection;
use crate::stdout::{note, print};

/// What creating either kind takes, next to the flags that stand for its spec.
#[derive(Args)]
pub struct Create {
    /// YAML or JSON file, or - for standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    file: Option<PathBuf>,
    /// Namespace (default: that of the kubeconfig's context)
    #[arg(short, long)]
    pub namespace: Option<String>,
    /// Create the namespace if it does not exist
    #[arg(long = "create-namespace")]
    makes_namespace: bool,
    #[command(flatten)]
    pub dry_run: DryRun,
    /// Print the created object in this format
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,
}

/// The object that the flags describe; its namespace is known only once there is a connection.
pub struct ObjectFromFlags<'a> {
    pub name: &'a str,
    pub spec: &'a dyn Fn(&str) -> Value,
}

/// Creates the object of the flags, else that of the file; over this connection, where there is one already.
pub async fn run(
    kind: Kind,
    options: &Create,
    flags: Option<ObjectFromFlags<'_>>,
    store: Option<Store>,
) -> anyhow::Result<ExitCode> {
    let documents = match (&flags, &options.file) {
        (Some(_), Some(_)) => {
            bail!("--filename cannot be combined with NAME or other flags")
        }
        (None, None) => bail!("give a NAME and the flags that --help shows, or a manifest with --filename"),
        (None, Some(file)) => manifest::read(file)?,
        (Some(_), None) => Vec::new(),
    };
    let store = match store {
        Some(store) => store,
        None => Store::connect(kind, options.namespace.as_deref()).await?,
    };
    let default = store.namespace.clone().unwrap_or_default();
    let documents = match &flags {
        Some(flags) => vec![object(kind, flags.name, &(flags.spec)(&default))],
        None => documents,
    };
    let mut checked = Vec::new();
    for (number, document) in (1..).zip(documents) {
        if let Ok(other) = Kind::of(&document)
            && other != kind
        {
            bail!(
                "document {number} is a {}: `weaver {} create -f` creates it, `weaver apply -f` takes \
                 both kinds",
                other.name(),
                other.noun()
            );
        }
        checked.push(manifest::check(document, number, options.namespace.as_deref(), &default)?);
    }
    for one in checked {
        create(&store, one, options).await?;
    }
    Ok(ExitCode::SUCCESS)
}

pub fn object(kind: Kind, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/{STORED}"), "kind": kind.name(), "metadata": {"name": name}, "spec": spec,
    })
}

async fn create(store: &Store, wanted: CheckedManifest, options: &Create) -> anyhow::Result<()> {
    let CheckedManifest { kind, namespace: home, name, object } = wanted;
    let store = store.at(kind, Some(&home));
    let key = store.object_key(&name);
    let dry_run = options.dry_run.is_asked_for();
    let how = if dry_run { WriteMode::DryRun } else { WriteMode::Persist };
    let mut created = store.objects.create(&name, &object, how).await;
    let lacks_namespace = |refusal: Option<Refusal>| refusal == Some(Refusal::NamespaceMissing);
    if options.makes_namespace && created.as_ref().is_err_and(|error| lacks_namespace(error.refusal())) {
        store.create_namespace(&home, dry_run).await?;
        note!("namespace {home} created{}", options.dry_run.suffix());
        if dry_run {
            note!(
                "{key} is valid by Config Weaver's rules; the API server validates it once its \
                namespace exists"
            );
            return Ok(());
        }
        created = store.objects.create(&name, &object, how).await;
    }
    let created = created.map_err(|error| match error.refusal() {
        Some(Refusal::NamespaceMissing) => missing_namespace(&home),
        Some(Refusal::Exists) => anyhow!(
            "{key} exists already and was not changed: `weaver {} edit {name} -n {home}{}` changes it",
            kind.noun(),
            connection::flags()
        ),
        _ => store.said(error.why).context(format!("creating {key}")),
    })?;
    let text = match options.output {
        None => format!("{} created{}\n", kind.reference(&name), options.dry_run.suffix()),
        Some(format) => output::object(kind, created, format, Timestamp::now())?,
    };
    print(&text)?;
    Ok(())
}

/// Whether the namespace must be created first; an error where it is missing and its creation was not requested.
pub async fn lacks_namespace(store: &Store, options: &Create) -> anyhow::Result<bool> {
    let namespace = store.namespace.as_deref().unwrap_or_default();
    let is_missing = store.has_namespace(namespace).await == Some(false);
    if is_missing && !options.makes_namespace {
        return Err(missing_namespace(namespace));
    }
    Ok(is_missing)
}

/// The error that the namespace must exist first.
fn missing_namespace(namespace: &str) -> anyhow::Error {
    anyhow!(
        "namespace {namespace} does not exist: `kubectl create namespace {namespace}{}`, or pass \
         --create-namespace",
        connection::flags()
    )
}
