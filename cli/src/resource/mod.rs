//! The verbs on each ConfigMapSync and ServiceToken, written once for both, with the rights of the person who types.
//!
//! Guarantees: every write asks for strict field validation, so a misspelt field is refused and never dropped; what a verb
//! changes it names by uid or resourceVersion, so that nobody else's change is undone unseen; standard output holds what
//! was asked for, all else goes to standard error. Failure: the error names the object and the next step.

pub mod apply;
pub mod create;
pub mod delete;
pub mod deletion;
mod edit;
pub mod kind;
mod list;
pub mod manifest;
pub mod output;
mod readiness;
pub mod store;
pub mod sync_flags;
mod text;
pub mod token_flags;
mod watch;

use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};

use kind::Kind;
use store::Store;

use crate::stdout::failed;

/// What can be done with an object of either kind.
#[derive(Subcommand)]
pub enum Verb {
    /// Show objects by name
    Get(list::Get),
    /// Show all objects of a namespace, or those selected
    List(list::List),
    /// Show each change as it happens, a line each, until Ctrl-C
    Watch(watch::Watch),
    /// Change an object in an editor, by a patch or from a file; all of it or nothing
    Edit(edit::Edit),
    /// Delete objects by name
    Delete(delete::Delete),
}

/// Does a verb.
pub async fn run(kind: Kind, verb: Verb) -> anyhow::Result<ExitCode> {
    match verb {
        Verb::Get(options) => list::get(kind, options).await,
        Verb::List(options) => list::list(kind, options).await,
        Verb::Watch(options) => watch::run(kind, options).await,
        Verb::Edit(options) => edit::run(kind, options).await,
        Verb::Delete(options) => delete::run(kind, options).await,
    }
}

/// Where to look.
#[derive(Args)]
pub struct Scope {
    /// The namespace (default: that of the kubeconfig's context)
    #[arg(short, long, conflicts_with = "all_namespaces")]
    pub namespace: Option<String>,
    /// All namespaces
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
}

impl Scope {
    async fn store(&self, kind: Kind) -> anyhow::Result<Store> {
        let store = Store::connect(kind, self.namespace.as_deref()).await?;
        Ok(if self.all_namespaces { store.at(kind, None) } else { store })
    }
}

/// Which objects.
#[derive(Args)]
pub struct Selectors {
    /// Only those with these labels: `team=a,tier!=prod`
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub selector: Option<String>,
    /// Only those with these fields: `spec.source.name=settings`; `weaver crd explain` says which can be selected by
    #[arg(long, value_name = "FIELDS")]
    pub field_selector: Option<String>,
}

/// Whether anything is written.
#[derive(Args)]
pub struct DryRun {
    /// Let the API server judge everything, and write nothing
    #[arg(long, value_name = "WHO", num_args = 0..=1, require_equals = true, default_missing_value = "server")]
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
    /// The API server, as for a real write
    Server,
}

/// Does `each` for all names; a failure is told and the others are done all the same.
pub async fn for_each<T>(
    names: &[String],
    mut each: impl AsyncFnMut(&str) -> anyhow::Result<T>,
) -> (Vec<T>, ExitCode) {
    let (mut done, mut code) = (Vec::new(), ExitCode::SUCCESS);
    for name in names {
        match each(name).await {
            Ok(result) => done.push(result),
            Err(error) => {
                failed("error", &error);
                code = ExitCode::FAILURE;
            }
        }
    }
    (done, code)
}
