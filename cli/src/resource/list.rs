//! `get` and `list`: existing objects.

use std::process::ExitCode;

use clap::Args;
use jiff::Timestamp;
use kube::api::ListParams;
use weaver_client::PAGE;

use super::kind::Kind;
use super::options::{NamespaceFlags, Selectors, for_each};
use super::output::{self, Format};
use super::store::Store;
use crate::stdout::{note, print};

#[derive(Args)]
pub struct Get {
    /// Names of the objects
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// Namespace (default: that of the kubeconfig's context)
    #[arg(short, long)]
    namespace: Option<String>,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

#[derive(Args)]
pub struct List {
    #[command(flatten)]
    scope: NamespaceFlags,
    #[command(flatten)]
    selectors: Selectors,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
    /// Objects per request to the API server
    #[arg(long, value_name = "COUNT", default_value_t = PAGE, value_parser = clap::value_parser!(u32).range(1..))]
    chunk_size: u32,
}

/// Shows the existing ones; missing ones are reported, and make it a failure.
pub async fn get(kind: Kind, options: Get) -> anyhow::Result<ExitCode> {
    let store = Store::connect(kind, options.namespace.as_deref()).await?;
    let (mut found, code) = for_each(&options.names, async |name| store.existing(name).await).await;
    let text = match (options.names.as_slice(), found.pop()) {
        (_, None) => return Ok(code),
        ([_], Some(only)) => output::object(kind, only, options.output, Timestamp::now())?,
        (_, Some(last)) => {
            found.push(last);
            output::objects(kind, found, options.output, false, Timestamp::now())?
        }
    };
    print(&text)?;
    Ok(code)
}

pub async fn list(kind: Kind, options: List) -> anyhow::Result<ExitCode> {
    let List { scope, selectors, output, chunk_size } = options;
    let store = scope.store(kind).await?;
    let params = ListParams {
        label_selector: selectors.selector,
        field_selector: selectors.field_selector,
        limit: Some(chunk_size),
        ..ListParams::default()
    };
    let objects = store.list(params).await?;
    if objects.is_empty() {
        note!("{}", none(kind, store.namespace.as_deref()));
    }
    print(&output::objects(kind, objects, output, scope.all_namespaces, Timestamp::now())?)?;
    Ok(ExitCode::SUCCESS)
}

pub fn none(kind: Kind, namespace: Option<&str>) -> String {
    let scope = namespace.map_or_else(|| "any namespace".to_owned(), |name| format!("namespace {name}"));
    format!("No {}s found in {scope}", kind.name())
}
