//! `weaver status --watch`: the status, kept up to date.
//!
//! ConfigMapSyncs and ServiceTokens are watched; the lease and the operator's namespace are read again every few
//! seconds, with backoff while that fails. An error is shown where the value would be, next to the last known value,
//! and the read is retried. Ends with success on Ctrl-C and when the output is closed.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use anyhow::Context as _;
use futures::stream::{self, BoxStream};
use futures::{StreamExt as _, join};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::core::DynamicObject;
use kube::runtime::watcher;
use kube::{Client, ResourceExt as _};
use serde_json::Value;
use weaver_api::conditions::{PAUSED, READY};
use weaver_client::{Change, Why};
use weaver_diagnostics::finding_text::{clean, clean_json};
use weaver_host::backoff::{Backoff, jittered};
use weaver_host::platform::stdout_reader_gone;

use super::{ClusterStatus, Known, StatusCounts, StatusFormat, is_true, lease, paused, table};
use crate::connection;
use crate::resource::kind::Kind;
use crate::resource::store::Store;
use crate::screen::Screen;
use crate::stdout::print;

/// How often the lease is read, and how seldom while that fails.
const LEASE: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_mins(1);
/// How often it is checked whether there is something new to show.
const SHOW: Duration = Duration::from_millis(500);

enum StatusEvent {
    Leadership(Box<OperatorState>),
    Objects(Kind, Result<Vec<Change<DynamicObject>>, String>),
}

/// What the operator's namespace says.
struct OperatorState {
    lease: anyhow::Result<Option<Lease>>,
    paused: Known<Option<String>>,
}

/// Is an object Ready, and is it paused?
type ReadyState = (bool, bool);

#[derive(Default)]
struct KindObjects {
    states: BTreeMap<(Option<String>, String), ReadyState>,
    /// Whether all of them were listed once.
    is_complete: bool,
    /// Why the values may be out of date.
    trouble: Option<String>,
}

impl KindObjects {
    fn take(&mut self, read: Result<Vec<Change<DynamicObject>>, String>) {
        self.trouble = read.as_ref().err().cloned();
        self.is_complete |= read.is_ok();
        for change in read.unwrap_or_default() {
            let object = change.object();
            let key = (object.namespace(), object.name_any());
            match &change {
                Change::Added(object) | Change::Modified(object) => {
                    self.states.insert(key, (is_true(object, READY), is_true(object, PAUSED)));
                }
                Change::Deleted(_) => {
                    self.states.remove(&key);
                }
            }
        }
    }

    /// `None` until the first answer.
    fn known(&self) -> Option<Known<StatusCounts>> {
        if !self.is_complete {
            return self.trouble.clone().map(|unknown| Known::Unknown { unknown });
        }
        let count = |is: fn(&ReadyState) -> bool| self.states.values().filter(|state| is(state)).count();
        let counts = StatusCounts {
            all: self.states.len(),
            ready: count(|(ready, _)| *ready),
            paused: count(|(_, paused)| *paused),
        };
        Some(Known::Is(counts))
    }
}

/// All that was read so far.
#[derive(Default)]
struct PartialStatus {
    leadership: Option<Box<OperatorState>>,
    syncs: KindObjects,
    resources: KindObjects,
    tokens: KindObjects,
}

impl PartialStatus {
    fn take(&mut self, news: StatusEvent) {
        match news {
            StatusEvent::Leadership(leadership) => self.leadership = Some(leadership),
            StatusEvent::Objects(Kind::ConfigMapSync, read) => self.syncs.take(read),
            StatusEvent::Objects(Kind::ResourceSync, read) => self.resources.take(read),
            StatusEvent::Objects(Kind::ServiceToken, read) => self.tokens.take(read),
        }
    }

    /// `None` until each part was read, or could not be.
    fn status(&self, now: Timestamp) -> Option<ClusterStatus> {
        let OperatorState { lease, paused } = self.leadership.as_deref()?;
        let kinds = [self.syncs.known()?, self.resources.known()?, self.tokens.known()?];
        Some(ClusterStatus::of(lease, paused.clone(), kinds, now))
    }

    /// What is out of date: the kinds that were read, and cannot be read any more.
    fn trouble(&self) -> Vec<String> {
        let kinds = [("syncs", &self.syncs), ("resources", &self.resources), ("tokens", &self.tokens)];
        let failing = kinds.into_iter().filter(|(_, tally)| tally.is_complete);
        let said = failing.filter_map(|(what, tally)| Some((what, tally.trouble.as_ref()?)));
        said.map(|(what, why)| format!("the watch of {what} failed and is retried: {}", clean(why))).collect()
    }
}

enum StatusOutput {
    Terminal(Screen),
    /// In this form, again when it is not what was last printed.
    Lines(StatusFormat, Option<Value>),
}

impl StatusOutput {
    /// Returns whether there still is a reader.
    fn show(&mut self, seen: &PartialStatus, now: Timestamp) -> anyhow::Result<bool> {
        let Some(status) = seen.status(now) else { return Ok(true) };
        let trouble = seen.trouble();
        match self {
            Self::Terminal(screen) => {
                let text = table(&status, now);
                screen.draw(&text.lines().map(str::to_owned).chain(trouble).collect::<Vec<_>>())
            }
            Self::Lines(format, last) => {
                let mut is = without_times(&status)?;
                is["trouble"] = trouble.clone().into();
                if last.as_ref() == Some(&is) {
                    return Ok(true);
                }
                let is_first = last.replace(is).is_none();
                print(&block(&status, &trouble, *format, is_first, now)?)
            }
        }
    }
}

/// What is printed of a status: one line of JSON, or lines after an empty one.
fn block(
    status: &ClusterStatus,
    trouble: &[String],
    format: StatusFormat,
    is_first: bool,
    now: Timestamp,
) -> anyhow::Result<String> {
    if format == StatusFormat::Json {
        let mut value = serde_json::to_value(status).context("writing the status as JSON")?;
        value["trouble"] = trouble.into();
        return Ok(clean_json(&value.to_string()) + "\n");
    }
    let between = if is_first { "" } else { "\n" };
    let trouble = trouble.iter().flat_map(|line| [line.as_str(), "\n"]).collect::<String>();
    Ok(format!("{between}{:<11}{now:.0}\n{}{trouble}", "at", table(status, now)))
}

/// The status without the fields that change with time alone.
fn without_times(status: &ClusterStatus) -> anyhow::Result<Value> {
    let mut value = serde_json::to_value(status).context("comparing the status")?;
    let drop = |of: Option<&mut Value>, field| of.and_then(Value::as_object_mut).map(|of| of.remove(field));
    drop(value.get_mut("leader"), "renewedSecondsAgo");
    for candidate in value["candidates"].as_array_mut().into_iter().flatten() {
        drop(Some(candidate), "at");
    }
    Ok(value)
}

/// Shows the status until Ctrl-C, or until the output is closed.
pub async fn run(format: StatusFormat) -> anyhow::Result<()> {
    let client = connection::watching().await?;
    let objects = Kind::ALL.map(|kind| objects(kind, &client));
    let mut news = stream::select_all(objects.into_iter().chain([leadership(client)]));
    let mut no_one = pin!(stdout_reader_gone());
    // One for all rounds, so that none is missed.
    let mut interrupted = pin!(tokio::signal::ctrl_c());
    let mut show = tokio::time::interval(SHOW);
    let screen = if format == StatusFormat::Table { Screen::of_stdout() } else { None };
    let mut shown = screen.map_or(StatusOutput::Lines(format, None), StatusOutput::Terminal);
    let mut seen = PartialStatus::default();
    loop {
        tokio::select! {
            Some(news) = news.next() => seen.take(news),
            _ = show.tick() => if !shown.show(&seen, Timestamp::now())? {
                return Ok(());
            },
            done = &mut interrupted => {
                if let StatusOutput::Terminal(screen) = shown {
                    screen.leave()?;
                }
                return done.context("cannot wait for Ctrl-C");
            }
            () = &mut no_one => return Ok(()),
        }
    }
}

fn objects(kind: Kind, client: &Client) -> BoxStream<'static, StatusEvent> {
    let store = Store::all(kind, client);
    let batches = store.objects.watch(watcher::Config::default());
    let reported = batches.map(move |batch| {
        let why = |error| match error {
            watcher::Error::InitialListFailed(error) => {
                format!("{:#}", store.said(Why::from(error)).context(format!("listing {}s", kind.name())))
            }
            other => other.to_string(),
        };
        StatusEvent::Objects(kind, batch.map_err(why))
    });
    reported.boxed()
}

fn leadership(client: Client) -> BoxStream<'static, StatusEvent> {
    let reads =
        stream::unfold((client, Backoff::new(LEASE), Duration::ZERO), async |(client, backoff, pause)| {
            let mut backoff: Backoff = backoff;
            tokio::time::sleep(pause).await;
            let (lease, paused) = join!(lease(&client), paused(&client));
            if lease.is_ok() {
                backoff.reset();
            }
            let pause = jittered(backoff.next(LONGEST));
            let read = Box::new(OperatorState { lease, paused: paused.into() });
            Some((StatusEvent::Leadership(read), (client, backoff, pause)))
        });
    reads.boxed()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lease_of(holder: &str, renewed: &str) -> Lease {
        serde_json::from_value(json!({
            "metadata": {"annotations": {"weaver.example.com/candidates":
                format!(r#"[{{"holder": "b_0_0_1_77_9", "priority": 0, "at": "{renewed}"}}]"#)}},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 60, "renewTime": renewed},
        }))
        .unwrap()
    }

    fn of(lease: anyhow::Result<Option<Lease>>) -> StatusEvent {
        StatusEvent::Leadership(Box::new(OperatorState { lease, paused: Known::Is(None) }))
    }

    fn sync(name: &str, ready: &str) -> DynamicObject {
        let conditions = json!([{"type": "Ready", "status": ready, "reason": "R"}]);
        serde_json::from_value(json!({"metadata": {"name": name}, "status": {"conditions": conditions}}))
            .unwrap()
    }

    fn at(seconds: u8) -> Timestamp {
        format!("2026-01-01T00:00:{seconds:02}Z").parse().unwrap()
    }

    fn seen() -> PartialStatus {
        let mut seen = PartialStatus::default();
        let renewed = "2026-01-01T00:00:00.000000Z";
        seen.take(of(Ok(Some(lease_of("a_0_0_1_5_9", renewed)))));
        seen.take(StatusEvent::Objects(Kind::ConfigMapSync, Ok(vec![Change::Added(sync("a", "False"))])));
        assert!(seen.status(at(1)).is_none(), "half of it is not the status");
        seen.take(StatusEvent::Objects(Kind::ResourceSync, Ok(Vec::new())));
        seen.take(StatusEvent::Objects(Kind::ServiceToken, Err("forbidden\n\u{1b}[2J".into())));
        seen
    }

    #[test]
    fn what_was_counted_follows_what_changes_and_stays_while_nothing_can_be_read() {
        let mut seen = seen();
        let text = |seen: &PartialStatus| table(&seen.status(at(9)).unwrap(), at(9));
        assert!(text(&seen).contains("syncs      0 of 1 ready\n"), "{}", text(&seen));
        assert!(text(&seen).contains("tokens     unknown: forbidden\\n\\u{1b}[2J\n"), "{}", text(&seen));
        assert!(seen.trouble().is_empty(), "it is said once");
        seen.take(StatusEvent::Objects(Kind::ConfigMapSync, Ok(vec![Change::Modified(sync("a", "True"))])));
        seen.take(StatusEvent::Objects(Kind::ConfigMapSync, Err("connection refused".into())));
        assert!(text(&seen).contains("syncs      1 of 1 ready\n"), "{}", text(&seen));
        assert_eq!(seen.trouble(), ["the watch of syncs failed and is retried: connection refused"]);
        seen.take(StatusEvent::Objects(Kind::ConfigMapSync, Ok(vec![Change::Deleted(sync("a", "True"))])));
        assert!(text(&seen).contains("syncs      0 of 0 ready\n") && seen.trouble().is_empty());
        seen.take(of(Err(anyhow::anyhow!("refused").context("reading the lease"))));
        assert!(text(&seen).contains("leader     unknown: reading the lease: refused\n"), "{}", text(&seen));
    }

    #[test]
    fn only_the_time_that_passes_is_no_news() {
        let mut seen = seen();
        let first = without_times(&seen.status(at(1)).unwrap()).unwrap();
        let renewed = "2026-01-01T00:00:10.000000Z";
        seen.take(of(Ok(Some(lease_of("a_0_0_1_5_9", renewed)))));
        assert_eq!(without_times(&seen.status(at(20)).unwrap()).unwrap(), first);
        // The leader that does not renew any more is news, and so is another one.
        let late = "2026-01-01T00:02:00Z".parse().unwrap();
        assert_ne!(without_times(&seen.status(late).unwrap()).unwrap(), first);
        seen.take(of(Ok(Some(lease_of("other_0_0_1_5_9", renewed)))));
        assert_ne!(without_times(&seen.status(at(20)).unwrap()).unwrap(), first);
    }

    #[test]
    fn blocks_say_when_they_were_so_and_json_is_a_line() {
        let seen = seen();
        let status = seen.status(at(7)).unwrap();
        let text = block(&status, &["x".into()], StatusFormat::Table, true, at(7)).unwrap();
        assert!(text.starts_with("at         2026-01-01T00:00:07Z\nleader     a, process 5,"), "{text}");
        assert!(text.ends_with("\nx\n"), "{text}");
        assert!(block(&status, &[], StatusFormat::Table, false, at(7)).unwrap().starts_with("\nat "));
        let line = block(&status, &["x".into()], StatusFormat::Json, false, at(7)).unwrap();
        let read: Value = serde_json::from_str(&line).unwrap();
        assert!(
            line.lines().count() == 1 && read["syncs"]["all"] == 1 && read["trouble"][0] == "x",
            "{line}"
        );
    }
}
