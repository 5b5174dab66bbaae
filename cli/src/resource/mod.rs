//! The verbs on each ConfigMapSync, ResourceSync and ServiceToken, written once for all, with the rights of the user.
//!
//! Guarantees: every write requests strict field validation, so a misspelt field is refused and never dropped; a verb
//! names what it changes by uid or resourceVersion, so that no change of someone else is undone unseen; standard output
//! has only the result, all else goes to standard error. Failure: the error names the object and the next step.

pub mod apply;

pub mod create;
pub mod delete;
pub mod deletion;
mod edit;
pub mod kind;
mod list;
mod live_table;
pub mod manifest;
pub mod options;
pub mod output;
mod readiness;
pub mod store;
pub mod sync_flags;
mod text;
pub mod token_flags;
mod watch;

use std::process::ExitCode;

use clap::Subcommand;

use kind::Kind;

/// What can be done with an object of each of our kinds.
#[derive(Subcommand)]
pub enum Verb {
    /// Show objects by name
    Get(list::Get),
    /// List the objects of a namespace, or those selected
    List(list::List),
    /// Show the objects as they change, until Ctrl-C: a table on a terminal, else a line for each change
    Watch(watch::Watch),
    /// Change an object in an editor, by a patch or from a file
    Edit(edit::Edit),
    /// Delete objects by name
    Delete(delete::Delete),
}

pub async fn run(kind: Kind, verb: Verb) -> anyhow::Result<ExitCode> {
    match verb {
        Verb::Get(options) => list::get(kind, options).await,
        Verb::List(options) => list::list(kind, options).await,
        Verb::Watch(options) => watch::run(kind, options).await,
        Verb::Edit(options) => edit::run(kind, options).await,
        Verb::Delete(options) => delete::run(kind, options).await,
    }
}
