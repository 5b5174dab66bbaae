//! `watch`: each change a line, as it happens.
//!
//! Lost connections, a resourceVersion that is too old and an API server that restarts are survived: the objects are then
//! listed anew, and only what has changed meanwhile is shown, deletions included. What is said to a broken watch goes to
//! standard error, once for each new reason. Ends well on Ctrl-C and when nobody reads any more; fails only where the
//! very first list is refused.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd as _;
use std::pin::pin;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use futures::StreamExt as _;
use kube::core::DynamicObject;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, watcher as watching};
use serde_json::{Value, json};
use tokio::io::Interest;
use tokio::net::unix::pipe::Sender;
use weaver_diagnostics::finding_text::clean_json;

use super::kind::{Kind, name, namespace, resource_version, uid};
use super::output::{self, Format, line, row, titles, widths};
use super::store::Store;
use super::{Scope, Selectors, list};
use crate::stdout::{note, print};

#[derive(Args)]
pub struct Watch {
    /// Only this object, which need not exist yet
    name: Option<String>,
    #[command(flatten)]
    scope: Scope,
    #[command(flatten)]
    selectors: Selectors,
    /// How to show the changes; json: a line each, with `type` and `object`
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

/// What happened to an object.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Change {
    Added,
    Modified,
    Deleted,
}

impl Change {
    fn word(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// What was shown so far, by namespace and name.
#[derive(Default)]
struct Shown {
    objects: BTreeMap<(String, String), Value>,
    /// A list that is being read.
    listed: Option<BTreeMap<(String, String), Value>>,
}

impl Shown {
    /// The changes that an event is. What a list says again is none; what it no longer has was deleted.
    fn take(&mut self, event: Event<Value>) -> Vec<(Change, Value)> {
        let key = |object: &Value| (namespace(object).to_owned(), name(object).to_owned());
        match event {
            Event::Init => {
                self.listed = Some(BTreeMap::new());
                Vec::new()
            }
            Event::InitApply(object) => {
                self.listed.get_or_insert_default().insert(key(&object), object);
                Vec::new()
            }
            Event::InitDone => {
                let listed = self.listed.take().unwrap_or_default();
                let is_gone = |key: &(String, String)| !listed.contains_key(key);
                let gone = self.objects.extract_if(.., |key, _| is_gone(key)).map(|(_, object)| object);
                let mut changes: Vec<_> = gone.map(|object| (Change::Deleted, object)).collect();
                for (key, object) in listed {
                    changes.extend(self.show(key, object));
                }
                changes
            }
            Event::Apply(object) => self.show(key(&object), object),
            Event::Delete(object) => {
                self.objects.remove(&key(&object));
                vec![(Change::Deleted, object)]
            }
        }
    }

    fn show(&mut self, key: (String, String), object: Value) -> Vec<(Change, Value)> {
        match self.objects.insert(key, object.clone()) {
            None => vec![(Change::Added, object)],
            Some(before) if uid(&before) != uid(&object) => {
                vec![(Change::Deleted, before), (Change::Added, object)]
            }
            Some(before) if resource_version(&before) == resource_version(&object) => Vec::new(),
            Some(_) => vec![(Change::Modified, object)],
        }
    }
}

/// Writes changes in one format; a table has the widths of what was there first.
struct Writer {
    kind: Kind,
    format: Format,
    with_namespace: bool,
    widths: Option<Vec<usize>>,
}

impl Writer {
    fn text(&mut self, changes: Vec<(Change, Value)>) -> anyhow::Result<String> {
        if self.format == Format::Table {
            return Ok(self.lines(&changes));
        }
        let texts = changes.into_iter().map(|(change, object)| match self.format {
            Format::Json => {
                let event = json!({"type": change.word(), "object": output::plain(object)});
                Ok(clean_json(&serde_json::to_string(&event).context("writing an object as JSON")?) + "\n")
            }
            Format::Yaml => Ok(format!("---\n{}", output::yaml(&output::plain(object))?)),
            Format::Name | Format::Table => Ok(self.kind.reference(&object) + "\n"),
        });
        texts.collect()
    }

    fn lines(&mut self, changes: &[(Change, Value)]) -> String {
        let with_change = |change: &str, mut cells: Vec<String>| {
            cells.insert(0, change.to_owned());
            cells
        };
        let rows: Vec<Vec<String>> = changes
            .iter()
            .map(|(change, object)| {
                with_change(change.word(), row(self.kind, object, self.with_namespace, None))
            })
            .collect();
        if rows.is_empty() {
            return String::new();
        }
        let titles = with_change("CHANGE", titles(self.kind, self.with_namespace, false));
        let mut text = String::new();
        if self.widths.is_none() {
            let mut first = widths(&titles, &rows);
            first[0] = Change::Modified.word().len();
            text = line(&titles, &first);
            self.widths = Some(first);
        }
        let widths = self.widths.as_deref().unwrap_or_default();
        text.extend(rows.iter().map(|cells| line(cells, widths)));
        text
    }
}

/// Watches until Ctrl-C, or until nobody reads any more.
pub async fn run(kind: Kind, options: Watch) -> anyhow::Result<ExitCode> {
    let Watch { name, scope, selectors, output, .. } = options;
    let mut store = Store::connect(kind, scope.namespace.as_deref()).await?;
    if scope.all_namespaces {
        store.namespace = None;
    }
    if let Some(namespace) = store.namespace.as_deref()
        && store.has_namespace(namespace).await == Some(false)
    {
        note!(
            "NamespaceMissing: namespace {namespace} does not exist: `kubectl create namespace {namespace}`; watching on"
        );
    }
    let by_name = name.map(|name| format!("metadata.name={name}"));
    let fields: Vec<String> = selectors.field_selector.into_iter().chain(by_name).collect();
    let config = watcher::Config {
        label_selector: selectors.selector,
        field_selector: (!fields.is_empty()).then(|| fields.join(",")),
        ..watcher::Config::default()
    };

    let mut events = pin!(watching(store.api(), config).default_backoff());
    let mut nobody = pin!(nobody_reads());
    // One for all rounds: a Ctrl-C while a change is printed is not missed.
    let mut interrupted = pin!(tokio::signal::ctrl_c());
    let mut shown = Shown::default();
    let mut writer = Writer { kind, format: output, with_namespace: scope.all_namespaces, widths: None };
    let (mut has_begun, mut last_error) = (false, String::new());
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            done = &mut interrupted => {
                return done.map(|()| ExitCode::SUCCESS).context("cannot wait for Ctrl-C");
            }
            () = &mut nobody => return Ok(ExitCode::SUCCESS),
        };
        match event {
            Some(Ok(event)) => {
                let is_first = !has_begun && matches!(event, Event::InitDone);
                let changes = shown.take(as_values(event)?);
                if is_first && changes.is_empty() {
                    note!("{} yet; watching", list::none(kind, store.namespace.as_deref()));
                }
                has_begun |= is_first;
                last_error.clear();
                if !print(&writer.text(changes)?)? {
                    return Ok(ExitCode::SUCCESS);
                }
            }
            Some(Err(watcher::Error::InitialListFailed(error @ kube::Error::Api(_)))) if !has_begun => {
                return Err(store.said(error)).with_context(|| format!("watching {}s", kind.name()));
            }
            Some(Err(error)) => {
                let said = error.to_string();
                if said != last_error {
                    note!("the watch is broken and is tried again: {said}");
                }
                last_error = said;
            }
            None => anyhow::bail!("the watch has ended: run it again"),
        }
    }
}

fn as_values(event: Event<DynamicObject>) -> anyhow::Result<Event<Value>> {
    let value = |object: DynamicObject| serde_json::to_value(object).context("reading an object");
    Ok(match event {
        Event::Apply(object) => Event::Apply(value(object)?),
        Event::Delete(object) => Event::Delete(value(object)?),
        Event::Init => Event::Init,
        Event::InitApply(object) => Event::InitApply(value(object)?),
        Event::InitDone => Event::InitDone,
    })
}

/// Ends when the reader of a pipe has gone. What is no pipe, such as a file, has a reader always.
async fn nobody_reads() {
    // Nothing is written through it, so it need not be made one that does not block: others hold that pipe, too.
    let out = io::stdout().as_fd().try_clone_to_owned().and_then(Sender::from_owned_fd_unchecked);
    if let Ok(out) = out
        && out.ready(Interest::ERROR).await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str, uid: &str, version: u32) -> Value {
        json!({"metadata": {"namespace": "team-a", "name": name, "uid": uid, "resourceVersion": version.to_string()}})
    }

    fn take(shown: &mut Shown, events: Vec<Event<Value>>) -> Vec<(&'static str, String)> {
        let changes = events.into_iter().flat_map(|event| shown.take(event));
        changes.map(|(change, object)| (change.word(), name(&object).to_owned())).collect()
    }

    fn listed(objects: Vec<Value>) -> Vec<Event<Value>> {
        let each = objects.into_iter().map(Event::InitApply);
        [Event::Init].into_iter().chain(each).chain([Event::InitDone]).collect()
    }

    fn said(change: &'static str, name: &str) -> (&'static str, String) {
        (change, name.to_owned())
    }

    #[test]
    fn changes_are_told_as_they_come() {
        let mut shown = Shown::default();
        assert_eq!(take(&mut shown, listed(vec![object("a", "u1", 1)])), [said("ADDED", "a")]);
        let events = vec![
            Event::Apply(object("a", "u1", 2)),
            Event::Apply(object("b", "u2", 3)),
            Event::Delete(object("a", "u1", 4)),
        ];
        let changes = take(&mut shown, events);
        assert_eq!(changes, [said("MODIFIED", "a"), said("ADDED", "b"), said("DELETED", "a")]);
    }

    #[test]
    fn after_a_broken_watch_only_what_changed_meanwhile_is_told_deletions_included() {
        let mut shown = Shown::default();
        take(&mut shown, listed(vec![object("a", "u1", 1), object("b", "u2", 2), object("c", "u3", 3)]));
        let again = listed(vec![object("b", "u2", 2), object("c", "u9", 7), object("d", "u4", 8)]);
        let changes = take(&mut shown, again);
        let expected = [said("DELETED", "a"), said("DELETED", "c"), said("ADDED", "c"), said("ADDED", "d")];
        assert_eq!(changes, expected);
    }

    #[test]
    fn lines_stand_under_one_title_however_many_batches_there_are() {
        let mut writer =
            Writer { kind: Kind::Token, format: Format::Table, with_namespace: false, widths: None };
        let first = writer.text(vec![(Change::Added, object("registry", "u", 1))]).unwrap();
        assert_eq!(first, "CHANGE     NAME       READY   REASON   FRESH   SECRET\nADDED      registry\n");
        assert_eq!(writer.text(vec![(Change::Modified, object("a", "u", 2))]).unwrap(), "MODIFIED   a\n");
        assert_eq!(writer.text(Vec::new()).unwrap(), "");
    }

    #[test]
    fn a_program_gets_one_json_object_per_line() {
        let mut writer =
            Writer { kind: Kind::Sync, format: Format::Json, with_namespace: false, widths: None };
        let changes = vec![(Change::Added, object("a", "u", 1)), (Change::Deleted, object("b", "v", 2))];
        let text = writer.text(changes).unwrap();
        let read: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((&read[0]["type"], &read[1]["type"]), (&json!("ADDED"), &json!("DELETED")));
        assert_eq!(read[1]["object"]["metadata"]["name"], "b");
    }
}
