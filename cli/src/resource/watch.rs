//! `watch`: on a terminal a table of the objects, redrawn on each change; else one line for each change.
//!
//! Lost connections, a resourceVersion that is too old and an API server that restarts are survived: the objects are
//! then listed again, and only what has changed meanwhile is shown, deletions included. Errors of a broken watch are
//! shown below the table, or go to standard error, once for each new reason. Ends with success on Ctrl-C and when the
//! output is closed; fails only where the very first list is refused.

use std::mem;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use futures::StreamExt as _;
use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::core::DynamicObject;
use kube::runtime::watcher;
use serde_json::json;
use weaver_client::{Change, Why};
use weaver_diagnostics::finding_text::clean_json;
use weaver_host::platform::stdout_reader_gone;

use super::kind::Kind;
use super::list;
use super::live_table::LiveTable;
use super::options::{NamespaceFlags, Selectors};
use super::output::{self, Format, line, row, titles, widths};
use crate::connection;
use crate::screen::Screen;
use crate::stdout::{note, print};

#[derive(Args)]
pub struct Watch {
    /// Watch only this object, which need not exist yet
    name: Option<String>,
    #[command(flatten)]
    scope: NamespaceFlags,
    #[command(flatten)]
    selectors: Selectors,
    /// Output format; json prints one object per line, with `type` and `object`
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

/// The change, in the words of the API server.
fn word(change: &Change<DynamicObject>) -> &'static str {
    match change {
        Change::Added(_) => "ADDED",
        Change::Modified(_) => MODIFIED,
        Change::Deleted(_) => "DELETED",
    }
}

/// The longest of these.
const MODIFIED: &str = "MODIFIED";

/// Writes changes in one format; a table has the widths of what was there first.
struct ChangeWriter {
    kind: Kind,
    format: Format,
    with_namespace: bool,
    widths: Option<Vec<usize>>,
}

impl ChangeWriter {
    fn text(&mut self, changes: Vec<Change<DynamicObject>>) -> anyhow::Result<String> {
        if self.format == Format::Table {
            return Ok(self.lines(&changes));
        }
        let texts = changes.into_iter().map(|change| match self.format {
            Format::Json => {
                let word = word(&change);
                let event = json!({"type": word, "object": output::plain(change.into_object())?});
                Ok(clean_json(&serde_json::to_string(&event).context("writing an object as JSON")?) + "\n")
            }
            Format::Yaml => Ok(format!("---\n{}", output::yaml(&output::plain(change.into_object())?)?)),
            Format::Name | Format::Table => Ok(self.kind.reference(&change.object().name_any()) + "\n"),
        });
        texts.collect()
    }

    fn lines(&mut self, changes: &[Change<DynamicObject>]) -> String {
        let with_change = |change: &str, mut cells: Vec<String>| {
            cells.insert(0, change.to_owned());
            cells
        };
        let rows: Vec<Vec<String>> = changes
            .iter()
            .map(|change| {
                with_change(word(change), row(self.kind, change.object(), self.with_namespace, None))
            })
            .collect();
        if rows.is_empty() {
            return String::new();
        }
        let titles = with_change("CHANGE", titles(self.kind, self.with_namespace, false));
        let mut text = String::new();
        if self.widths.is_none() {
            let mut first = widths(&titles, &rows);
            first[0] = MODIFIED.len();
            text = line(&titles, &first);
            self.widths = Some(first);
        }
        let widths = self.widths.as_deref().unwrap_or_default();
        text.extend(rows.iter().map(|cells| line(cells, widths)));
        text
    }
}

/// How often a table is drawn at most, however much changes.
const DRAW: Duration = Duration::from_millis(250);
/// Without a change it is drawn again after so many of these, with the ages.
const AGES: u32 = 20;

struct DrawnTable {
    screen: Screen,
    table: LiveTable,
    /// Times that it need not have been drawn.
    idle: u32,
}

impl DrawnTable {
    /// Draws what has changed. Returns whether there still is a terminal.
    fn draw(&mut self) -> anyhow::Result<bool> {
        if self.idle > 0 && self.idle < AGES {
            self.idle += 1;
            return Ok(true);
        }
        self.idle = 1;
        self.screen.draw(&self.table.lines(self.screen.size(), Timestamp::now()))
    }
}

/// What a user sees of the watch. Methods that return a `bool` report whether the output is still open.
struct WatchOutput {
    /// On a terminal, instead of lines.
    drawn: Option<DrawnTable>,
    writer: ChangeWriter,
    /// The first list was complete.
    has_begun: bool,
    last_error: String,
}

impl WatchOutput {
    fn changes(
        &mut self,
        changes: Vec<Change<DynamicObject>>,
        namespace: Option<&str>,
    ) -> anyhow::Result<bool> {
        let is_first = !mem::replace(&mut self.has_begun, true);
        self.last_error.clear();
        if let Some(drawn) = &mut self.drawn {
            drawn.idle = 0;
            drawn.table.take(changes);
            return Ok(true);
        }
        if is_first && changes.is_empty() {
            note!("{} yet; watching", list::none(self.writer.kind, namespace));
        }
        print(&self.writer.text(changes)?)
    }

    fn failure(&mut self, error: &watcher::Error) {
        let said = error.to_string();
        if let Some(drawn) = &mut self.drawn {
            drawn.idle = 0;
            drawn.table.fails(&said);
        } else if said != self.last_error {
            note!("the watch failed and is retried: {said}");
        }
        self.last_error = said;
    }

    fn draw(&mut self) -> anyhow::Result<bool> {
        self.drawn.as_mut().map_or(Ok(true), DrawnTable::draw)
    }
}

/// Watches until Ctrl-C, or until the output is closed.
pub async fn run(kind: Kind, options: Watch) -> anyhow::Result<ExitCode> {
    let Watch { name, scope, selectors, output } = options;
    let store = scope.watched(kind).await?;
    if let Some(namespace) = store.namespace.as_deref()
        && store.has_namespace(namespace).await == Some(false)
    {
        note!(
            "NamespaceMissing: namespace {namespace} does not exist: `kubectl create namespace \
             {namespace}{}`; still watching",
            connection::flags()
        );
    }
    let by_name = name.map(|name| format!("metadata.name={name}"));
    let fields: Vec<String> = selectors.field_selector.into_iter().chain(by_name).collect();
    let config = watcher::Config {
        label_selector: selectors.selector,
        field_selector: (!fields.is_empty()).then(|| fields.join(",")),
        ..watcher::Config::default()
    };

    let mut batches = pin!(store.objects.watch(config));
    let mut no_one = pin!(stdout_reader_gone());
    // One for all rounds: a Ctrl-C while a change is printed is not missed.
    let mut interrupted = pin!(tokio::signal::ctrl_c());
    let writer = ChangeWriter { kind, format: output, with_namespace: scope.all_namespaces, widths: None };
    let screen = if output == Format::Table { Screen::of_stdout() } else { None };
    let table = LiveTable::new(kind, store.namespace.clone());
    let drawn = screen.map(|screen| DrawnTable { screen, table, idle: 1 });
    let mut output = WatchOutput { drawn, writer, has_begun: false, last_error: String::new() };
    let mut draw = tokio::time::interval(DRAW);
    loop {
        let has_reader = tokio::select! {
            batch = batches.next() => match batch {
                Some(Ok(changes)) => output.changes(changes, store.namespace.as_deref())?,
                Some(Err(watcher::Error::InitialListFailed(error))) if !output.has_begun && is_refusal(&error) => {
                    return Err(store.said(Why::from(error)))
                        .with_context(|| format!("watching {}s", kind.name()));
                }
                Some(Err(error)) => {
                    output.failure(&error);
                    true
                }
                None => anyhow::bail!("the watch has ended: run it again"),
            },
            done = &mut interrupted => {
                output.drawn.map_or(Ok(()), |drawn| drawn.screen.leave())?;
                return done.map(|()| ExitCode::SUCCESS).context("cannot wait for Ctrl-C");
            }
            () = &mut no_one => false,
            _ = draw.tick(), if output.drawn.is_some() => output.draw()?,
        };
        if !has_reader {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// Whether a retry would fail in the same way: not while a server is starting, or overloaded.
fn is_refusal(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if (400..500).contains(&status.code) && status.code != 429)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn object(name: &str) -> DynamicObject {
        serde_json::from_value(json!({"metadata": {"namespace": "team-a", "name": name}})).unwrap()
    }

    #[test]
    fn lines_stand_under_one_title_however_many_batches_there_are() {
        let mut writer = ChangeWriter {
            kind: Kind::ServiceToken,
            format: Format::Table,
            with_namespace: false,
            widths: None,
        };
        let first = writer.text(vec![Change::Added(object("registry"))]).unwrap();
        assert_eq!(first, "CHANGE     NAME       READY   REASON   FRESH   SECRET\nADDED      registry\n");
        assert_eq!(writer.text(vec![Change::Modified(object("a"))]).unwrap(), "MODIFIED   a\n");
        assert_eq!(writer.text(Vec::new()).unwrap(), "");
    }

    #[test]
    fn a_program_gets_one_json_object_per_line() {
        let mut writer = ChangeWriter {
            kind: Kind::ConfigMapSync,
            format: Format::Json,
            with_namespace: false,
            widths: None,
        };
        let changes = vec![Change::Added(object("a")), Change::Deleted(object("b"))];
        let text = writer.text(changes).unwrap();
        let read: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((&read[0]["type"], &read[1]["type"]), (&json!("ADDED"), &json!("DELETED")));
        assert_eq!(read[1]["object"]["metadata"]["name"], "b");
    }
}
