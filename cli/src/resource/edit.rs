//! `edit`: read, change, our own rules, a server dry run, replace with the resourceVersion that was read.
//!
//! Guarantees: whatever fails, the object is as it was, and the text from the editor is kept in a file whose path is
//! printed. On a conflict, the change is made again on the newer object, a bounded number of times, as long as the same
//! field was not changed; `--patch` describes the result, so it is made again in any case.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow, bail, ensure};
use clap::Args;
use kube::core::DynamicObject;
use serde_json::Value;
use weaver_client::merge_patch::{content, difference, merged, overtaken};
use weaver_client::{Error, Updated, Why, WriteMode};
use weaver_diagnostics::shell::quoted;

use super::kind::Kind;
use super::manifest::{self, valid};
use super::options::DryRun;
use super::store::Store;
use super::text::{PrivateTextFile, wanted};
use crate::connection;
use crate::stdout::say;

#[derive(Args)]
pub struct Edit {
    /// Name of the object
    name: String,
    /// Namespace (default: that of the kubeconfig's context)
    #[arg(short, long)]
    namespace: Option<String>,
    /// Apply this JSON merge patch instead of opening an editor: `{"spec":{"suspend":true}}`
    #[arg(long, value_name = "JSON", conflicts_with = "file")]
    patch: Option<String>,
    /// Take spec, labels and annotations from this file instead of an editor, or - for standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    dry_run: DryRun,
}

/// What a user may change of an object, and what of its metadata.
const CHANGEABLE: [&str; 2] = ["metadata", "spec"];
const CHANGEABLE_METADATA: [&str; 2] = ["annotations", "labels"];

/// A change, and the object that it was made on.
struct UserEdit {
    patch: Value,
    /// `None` where the user did not look at an object.
    seen: Option<Value>,
}

pub async fn run(kind: Kind, options: Edit) -> anyhow::Result<ExitCode> {
    let store = Store::connect(kind, options.namespace.as_deref()).await?;
    let current = store.existing(&options.name).await?;
    let seen = value(&current)?;
    if let Some(patch) = &options.patch {
        let patch = serde_json::from_str(patch)
            .map_err(|error| anyhow!("--patch is not JSON at column {}", error.column()))?;
        change(&store, current, UserEdit { patch, seen: None }, &options).await?;
    } else if let Some(file) = &options.file {
        let patch = difference(&content(&seen), &wanted(kind, &manifest::read_one(file)?, &seen)?);
        change(&store, current, UserEdit { patch, seen: Some(seen) }, &options).await?;
    } else {
        let text = PrivateTextFile::of(kind, &seen)?;
        let edited = in_editor(&store, current, seen, &text, &options).await;
        if let Err(error) = edited {
            let path = text.keep()?;
            let known = if error.is::<Unanswered>() { "" } else { "nothing was changed; " };
            return Err(error.context(format!(
                "{known}your text is kept: correct it, then `weaver {} edit {} -n {} -f {}{}`",
                kind.noun(),
                options.name,
                store.namespace.as_deref().unwrap_or_default(),
                quoted(&path.display().to_string()),
                connection::flags()
            )));
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn in_editor(
    store: &Store,
    current: DynamicObject,
    seen: Value,
    text: &PrivateTextFile,
    options: &Edit,
) -> anyhow::Result<()> {
    text.open().await?;
    let patch = difference(&content(&seen), &wanted(store.kind, &text.read()?, &seen)?);
    change(store, current, UserEdit { patch, seen: Some(seen) }, options).await
}

/// Makes the change, again where someone was faster. A dry run first: what the API server refuses is then known before
/// anything is written.
async fn change(
    store: &Store,
    current: DynamicObject,
    change: UserEdit,
    options: &Edit,
) -> anyhow::Result<()> {
    let (key, reference) = (store.object_key(&options.name), store.kind.reference(&options.name));
    let UserEdit { patch, seen } = change;
    ensure!(patch.is_object(), "a merge patch is an object: {{\"spec\":{{\"suspend\":true}}}}");
    if let Some(field) = forbidden(&patch) {
        bail!(
            "{key}: {field} cannot be changed here: only spec, metadata.labels and metadata.annotations can"
        );
    }
    let how = if options.dry_run.is_asked_for() { WriteMode::DryRun } else { WriteMode::Rehearsed };
    let updated = store.objects.update(current, how, |current| {
        let current = value(current)?;
        if let Some(field) = seen.as_ref().and_then(|seen| overtaken(seen, &current, &patch)) {
            bail!("{key}: {field} was changed meanwhile; your change was not written");
        }
        let new = merged(current.clone(), &patch);
        if content(&new) == content(&current) {
            return Ok(None);
        }
        valid(store.kind, &new)?;
        Ok(Some(new))
    });
    match updated.await {
        Ok(Updated::Changed(_)) => say(format_args!("{reference} edited{}", options.dry_run.suffix())),
        Ok(Updated::Unchanged(_)) => {
            say(format_args!("{reference} unchanged: the object has this content already"));
        }
        Err(error) => {
            return Err(error.downcast().map_or_else(|own| own, |failed| said(store, key, failed)));
        }
    }
    Ok(())
}

/// Why an object was not changed.
fn said(store: &Store, key: String, error: Error) -> anyhow::Error {
    let may_be_done = error.may_be_done();
    match error.why {
        Why::Replaced => {
            anyhow!("{key} was deleted and created again meanwhile; the new object was not changed")
        }
        Why::Contended(attempts) => {
            anyhow!("{key} changed at each of {attempts} attempts; your change was not written: try again")
        }
        why if may_be_done => store.said(why).context(Unanswered { key }),
        why => store.said(why).context(format!("{key} was not changed")),
    }
}

/// A write that was sent and whose result is not known.
#[derive(Debug, thiserror::Error)]
#[error("it is unknown whether {key} was changed: check it before you try again")]
struct Unanswered {
    key: String,
}

fn value(object: &DynamicObject) -> anyhow::Result<Value> {
    serde_json::to_value(object).context("reading an object")
}

/// The first field of a patch that is not a user's to change.
fn forbidden(patch: &Value) -> Option<String> {
    let first = |fields: &Value, allowed: &[&str]| -> Option<String> {
        fields.as_object()?.keys().find(|field| !allowed.contains(&field.as_str())).cloned()
    };
    first(patch, &CHANGEABLE)
        .or_else(|| first(&patch["metadata"], &CHANGEABLE_METADATA).map(|field| format!("metadata.{field}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn spec_labels_and_annotations_are_a_persons_to_change() {
        for (patch, expected) in [
            (json!({"spec": {"a": 1}, "metadata": {"labels": {"a": "b"}, "annotations": null}}), None),
            (json!({"status": {}}), Some("status")),
            (json!({"metadata": {"name": "b"}}), Some("metadata.name")),
        ] {
            assert_eq!(forbidden(&patch).as_deref(), expected, "{patch}");
        }
    }
}
