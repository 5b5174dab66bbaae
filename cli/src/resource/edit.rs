//! `edit`: read, change, our own rules, a server dry run, replace with the resourceVersion that was read.
//!
//! Guarantees: whatever fails, the object is as it was, and what was typed into an editor is kept in a file whose path is
//! said. Where somebody else was faster, the change is made again on the newer object, a bounded number of times, as long
//! as they did not change the same field; `--patch` says what shall be, so it is made again in any case.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use clap::Args;
use serde_json::Value;

use super::DryRun;
use super::kind::{Kind, uid};
use super::manifest::{self, valid};
use super::merge::{changeable, difference, forbidden, merged, overtaken};
use super::store::{Store, is_conflict};
use super::text::{Text, wanted};
use crate::stdout::say;

/// Attempts where others write at the same time, and the pause after each but the last.
const ATTEMPTS: u32 = 6;
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Args)]
pub struct Edit {
    /// Name of the object
    name: String,
    /// The namespace (default: that of the kubeconfig's context)
    #[arg(short, long)]
    namespace: Option<String>,
    /// Make this JSON merge patch instead of opening an editor: `{"spec":{"suspend":true}}`
    #[arg(long, value_name = "JSON", conflicts_with = "file")]
    patch: Option<String>,
    /// Take spec, labels and annotations from this file instead of an editor; - is standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    dry_run: DryRun,
}

/// A change, and the object that it was made on.
struct Change {
    patch: Value,
    /// `None` where the person did not look at an object.
    seen: Option<Value>,
}

pub async fn run(kind: Kind, options: Edit) -> anyhow::Result<ExitCode> {
    let store = Store::connect(kind, options.namespace.as_deref()).await?;
    let current = store.existing(&options.name).await?;
    if let Some(patch) = &options.patch {
        let patch = serde_json::from_str(patch)
            .map_err(|error| anyhow!("--patch is not JSON at column {}", error.column()))?;
        change(&store, current, &Change { patch, seen: None }, &options).await?;
    } else if let Some(file) = &options.file {
        let wanted = wanted(kind, &manifest::read_one(file)?, &current)?;
        let patch = difference(&changeable(&current), &wanted);
        change(&store, current.clone(), &Change { patch, seen: Some(current) }, &options).await?;
    } else {
        let text = Text::of(kind, &current)?;
        let edited = in_editor(&store, current, &text, &options).await;
        if let Err(error) = edited {
            let path = text.keep()?;
            let known = if error.is::<Unanswered>() { "" } else { "nothing was changed; " };
            return Err(error.context(format!(
                "{known}your text is kept: mend it, then `weaver {} edit {} -n {} -f {}`",
                kind.noun(),
                options.name,
                store.namespace.as_deref().unwrap_or_default(),
                path.display()
            )));
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn in_editor(store: &Store, current: Value, text: &Text, options: &Edit) -> anyhow::Result<()> {
    text.open().await?;
    let wanted = wanted(store.kind, &text.read()?, &current)?;
    let patch = difference(&changeable(&current), &wanted);
    change(store, current.clone(), &Change { patch, seen: Some(current) }, options).await
}

/// Makes the change, again where somebody was faster.
async fn change(store: &Store, mut current: Value, change: &Change, options: &Edit) -> anyhow::Result<()> {
    let place = store.kind.place(&current);
    ensure!(change.patch.is_object(), "a merge patch is an object: {{\"spec\":{{\"suspend\":true}}}}");
    if let Some(field) = forbidden(&change.patch) {
        bail!(
            "{place}: {field} cannot be changed here: only spec, metadata.labels and metadata.annotations can"
        );
    }
    let dry_run = options.dry_run.is_asked_for();
    let first = uid(&current).to_owned();
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            tokio::time::sleep(PAUSE * attempt).await;
            current = store.existing(&options.name).await?;
            ensure!(
                uid(&current) == first,
                "{place} was deleted and made again by somebody else meanwhile; the new one was not changed"
            );
            let field = change.seen.as_ref().and_then(|seen| overtaken(seen, &current, &change.patch));
            if let Some(field) = field {
                bail!(
                    "{place}: somebody else changed {field} meanwhile; nothing of yours was written over theirs"
                );
            }
        }
        let new = merged(current.clone(), &change.patch);
        if changeable(&new) == changeable(&current) {
            say(format_args!("{} not changed: it is so already", store.kind.reference(&current)));
            return Ok(());
        }
        valid(store.kind, &new)?;
        match replace(store, &new, dry_run).await {
            Ok(()) => {
                say(format_args!("{} edited{}", store.kind.reference(&new), options.dry_run.suffix()));
                return Ok(());
            }
            Err(Failed::Refused(error)) if is_conflict(&error) => {}
            Err(Failed::Refused(error)) => {
                return Err(store.said(error)).with_context(|| format!("{place} was not changed"));
            }
            Err(Failed::Unanswered(error)) => return Err(store.said(error)).context(Unanswered { place }),
        }
    }
    bail!("somebody else changed {place} each of {ATTEMPTS} times; it was not changed: try again")
}

/// A write that was sent and whose fate nobody told.
#[derive(Debug, thiserror::Error)]
#[error("whether {place} was changed is not known: look at it before you try again")]
struct Unanswered {
    place: String,
}

/// Why an object was not replaced.
enum Failed {
    /// The API server said so, or was not asked to write.
    Refused(kube::Error),
    /// The write may have been done.
    Unanswered(kube::Error),
}

/// A dry run first: what the API server refuses is then known before anything is written.
async fn replace(store: &Store, new: &Value, dry_run: bool) -> Result<(), Failed> {
    store.replace(new, true).await.map_err(Failed::Refused)?;
    if dry_run {
        return Ok(());
    }
    match store.replace(new, false).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code < 500 => Err(Failed::Refused(kube::Error::Api(status))),
        Err(error) => Err(Failed::Unanswered(error)),
    }
}
