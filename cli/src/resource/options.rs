//! Options that several verbs have.

use std::process::ExitCode;

use clap::{Args, ValueEnum};

use super::kind::Kind;
use super::store::Store;
use crate::connection;
use crate::stdout::failed;

#[derive(Args)]
pub struct NamespaceFlags {
    /// Namespace (default: that of the kubeconfig's context)
    #[arg(short, long, conflicts_with = "all_namespaces")]
    pub namespace: Option<String>,
    /// All namespaces
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
}

impl NamespaceFlags {
    pub async fn store(&self, kind: Kind) -> anyhow::Result<Store> {
        Ok(self.of(Store::connect(kind, self.namespace.as_deref()).await?))
    }

    /// The objects to watch.
    pub async fn watched(&self, kind: Kind) -> anyhow::Result<Store> {
        Ok(self.of(Store::by(&connection::watching().await?, kind, self.namespace.as_deref())))
    }

    fn of(&self, store: Store) -> Store {
        if self.all_namespaces { store.at(store.kind, None) } else { store }
    }
}

#[derive(Args)]
pub struct Selectors {
    /// Label selector: `team=a,tier!=prod`
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub selector: Option<String>,
    /// Field selector, as `spec.source.name=settings` of syncs; `weaver crd explain` lists selectable fields
    #[arg(long, value_name = "FIELDS")]
    pub field_selector: Option<String>,
}

/// Whether anything is written.
#[derive(Args)]
pub struct DryRun {
    /// Validate on the API server without writing
    #[arg(long, value_name = "MODE", num_args = 0..=1, require_equals = true, default_missing_value = "server")]
    dry_run: Option<Judge>,
}

impl DryRun {
    pub fn is_asked_for(&self) -> bool {
        self.dry_run.is_some()
    }

    /// What follows the sentence that says what was done.
    pub fn suffix(&self) -> &'static str {
        if self.is_asked_for() { " (server dry run: nothing was written)" } else { "" }
    }
}

/// Who judges in a dry run.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Judge {
    /// The API server validates as for a real write
    Server,
}

/// Does `each` for all; a failure is reported and the others are done all the same.
pub async fn for_each<I, T>(
    items: &[I],
    mut each: impl AsyncFnMut(&I) -> anyhow::Result<T>,
) -> (Vec<T>, ExitCode) {
    let (mut done, mut code) = (Vec::new(), ExitCode::SUCCESS);
    for item in items {
        match each(item).await {
            Ok(result) => done.push(result),
            Err(error) => {
                failed("error", &error);
                code = ExitCode::FAILURE;
            }
        }
    }
    (done, code)
}
