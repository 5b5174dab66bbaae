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

use clap::builder::StyledStr;
use clap::{Command, Subcommand};

use kind::Kind;

/// What can be done with an object of each of our kinds.
#[derive(Subcommand)]
pub enum ResourceVerb {
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

/// The command line with the name of the kind, where the help of these verbs has `object`.
pub fn with_kinds(command: Command) -> Command {
    let verbs = ResourceVerb::augment_subcommands(Command::new("verbs"));
    command.mut_subcommands(|group| {
        let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.noun() == group.get_name()) else {
            return group;
        };
        group.mut_subcommands(|verb| {
            if verbs.find_subcommand(verb.get_name()).is_some() { with_kind(verb, kind) } else { verb }
        })
    })
}

fn with_kind(verb: Command, kind: Kind) -> Command {
    let named = |text: &StyledStr| {
        let text = text.to_string().replace("an object", &format!("a {}", kind.name()));
        text.replace("object", kind.name())
    };
    let about = verb.get_about().map(named).unwrap_or_default();
    verb.about(about).mut_args(|arg| {
        // In the help of a flag, an object may be one of JSON.
        let help = arg.get_help().filter(|_| arg.is_positional()).map(named);
        if let Some(help) = help { arg.help(help) } else { arg }
    })
}

pub async fn run(kind: Kind, verb: ResourceVerb) -> anyhow::Result<ExitCode> {
    match verb {
        ResourceVerb::Get(options) => list::get(kind, options).await,
        ResourceVerb::List(options) => list::list(kind, options).await,
        ResourceVerb::Watch(options) => watch::run(kind, options).await,
        ResourceVerb::Edit(options) => edit::run(kind, options).await,
        ResourceVerb::Delete(options) => delete::run(kind, options).await,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn help_names_the_kind() {
        let help = |words: &[&str]| {
            let words = ["weaver"].iter().chain(words).chain(&["--help"]);
            crate::command("weaver").try_get_matches_from(words).unwrap_err().to_string()
        };
        for (words, expected) in [
            (["sync", "get"], ["Show ConfigMapSyncs by name\n", "Names of the ConfigMapSyncs\n"]),
            (["token", "edit"], ["Change a ServiceToken in an editor", "Name of the ServiceToken\n"]),
            (["resource", "watch"], ["Show the ResourceSyncs as they change", "with `type` and `object`"]),
        ] {
            let help = help(&words);
            assert!(expected.iter().all(|text| help.contains(text)), "{help}");
        }
        assert!(help(&["sync"]).contains("Delete ConfigMapSyncs by name\n"));
    }
}
