//! `watch` on a terminal: the objects, as a table of the terminal's size. Pure; `crate::screen` draws it.

use std::collections::BTreeMap;

use console::truncate_str;
use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::core::DynamicObject;
use weaver_api::conditions::READY;
use weaver_client::Change;
use weaver_client::conditions::condition;

use super::kind::Kind;
use super::list;
use super::output::{COLUMN_GAP, line, row, titles, widths};
use crate::connection;
use crate::screen::ScreenSize;

/// Characters of a name that are always shown.
const SHORTEST: usize = 12;

/// All objects that are watched, as they are now.
pub struct LiveTable {
    kind: Kind,
    /// `None` means all.
    namespace: Option<String>,
    objects: BTreeMap<(String, String), DynamicObject>,
    /// Whether all that is there was listed once.
    is_listed: bool,
    /// Why it may be old.
    trouble: Option<String>,
}

impl LiveTable {
    pub const fn new(kind: Kind, namespace: Option<String>) -> Self {
        Self { kind, namespace, objects: BTreeMap::new(), is_listed: false, trouble: None }
    }

    /// What has changed; the watch works.
    pub fn take(&mut self, changes: Vec<Change<DynamicObject>>) {
        (self.is_listed, self.trouble) = (true, None);
        for change in changes {
            let object = change.object();
            let key = (object.namespace().unwrap_or_default(), object.name_any());
            match change {
                Change::Added(object) | Change::Modified(object) => self.objects.insert(key, object),
                Change::Deleted(_) => self.objects.remove(&key),
            };
        }
    }

    /// The watch does not work.
    pub fn fails(&mut self, why: &str) {
        self.trouble = Some(format!("the watch failed and is retried: {why}"));
    }

    /// The lines of a terminal of this size. Where not all objects fit, those that are not Ready come first.
    pub fn lines(&self, size: ScreenSize, now: Timestamp) -> Vec<String> {
        let fitting = size.lines().saturating_sub(1 + usize::from(self.trouble.is_some()));
        let mut objects: Vec<&DynamicObject> = self.objects.values().collect();
        let mut lines = Vec::new();
        let mut more = None;
        if !self.is_listed {
            lines.push(format!("listing {}s", self.kind.name()));
        } else if objects.is_empty() {
            lines.push(format!("{} yet; watching", list::none(self.kind, self.namespace.as_deref())));
        } else if objects.len() > fitting {
            objects.sort_by_key(|object| is_ready(object));
            let hidden = objects.split_off(fitting.saturating_sub(1));
            let unready = hidden.iter().filter(|object| !is_ready(object)).count();
            let (noun, hidden) = (self.kind.noun(), hidden.len());
            let scope = self.namespace.as_ref().map_or_else(|| "-A".to_owned(), |name| format!("-n {name}"));
            let list = format!("weaver {noun} list {scope}{}", connection::flags());
            more = Some(format!("{hidden} more, {unready} of them not Ready: `{list}`"));
        }
        if !self.objects.is_empty() {
            let all = self.namespace.is_none();
            let mut rows: Vec<_> =
                objects.iter().map(|object| row(self.kind, object, all, Some(now))).collect();
            let titles = titles(self.kind, all, true);
            let named = if all { 2 } else { 1 };
            let natural = widths(&titles, &rows);
            shorten(&mut rows, named, &natural, size.columns);
            let widths = widths(&titles, &rows);
            let cells = std::iter::once(&titles).chain(&rows);
            lines.extend(cells.map(|cells| line(cells, &widths).trim_end().to_owned()));
        }
        lines.extend(more.into_iter().chain(self.trouble.clone()));
        lines
    }
}

/// Shortens the names, which are the first cells of each row, until the rest fits next to them: the longest first, and
/// none to less than a few characters.
fn shorten(rows: &mut [Vec<String>], names: usize, widths: &[usize], columns: usize) {
    let mut widths = widths.to_vec();
    let all = |widths: &[usize]| widths.iter().sum::<usize>() + COLUMN_GAP.len() * widths.len();
    while all(&widths) > columns
        && let Some(widest) = widths.iter_mut().take(names).max()
        && *widest > SHORTEST
    {
        *widest -= 1;
    }
    for row in rows {
        for (cell, width) in row.iter_mut().zip(&widths).take(names) {
            *cell = truncate_str(cell, *width, "…").into_owned();
        }
    }
}

fn is_ready(object: &DynamicObject) -> bool {
    condition(object, READY).is_some_and(|ready| ready.status == "True")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sync(name: &str, ready: &str) -> DynamicObject {
        let object = json!({
            "metadata": {"name": name, "namespace": "team-a", "creationTimestamp": "2026-11-22T11:59:00Z"},
            "status": {"conditions": [{"type": "Ready", "status": ready, "reason": "R\n\u{1b}[2J"}]},
        });
        serde_json::from_value(object).unwrap()
    }

    fn lines(table: &LiveTable, rows: usize) -> Vec<String> {
        table.lines(ScreenSize { rows, columns: 80 }, "2026-11-22T12:00:00Z".parse().unwrap())
    }

    #[test]
    fn a_table_has_what_is_there_now() {
        let mut table = LiveTable::new(Kind::ConfigMapSync, Some("team-a".into()));
        assert_eq!(lines(&table, 24), ["listing ConfigMapSyncs"]);
        table.take(Vec::new());
        assert_eq!(lines(&table, 24), ["No ConfigMapSyncs found in namespace team-a yet; watching"]);
        table.take(vec![Change::Added(sync("b", "True")), Change::Added(sync("a", "False"))]);
        let titles = "NAME   READY   REASON   SYNCED   FAILED   CONFLICTS   AGE";
        let first = "a      False   R  [2J                                 60s";
        assert_eq!(lines(&table, 24), [titles, first, &first.replace("a      False", "b      True ")]);
        table.take(vec![Change::Modified(sync("a", "True")), Change::Deleted(sync("b", "True"))]);
        assert_eq!(lines(&table, 24), [titles, &first.replace("False", "True ")]);
    }

    #[test]
    fn where_there_are_too_many_those_come_first_that_are_not_ready() {
        let mut table = LiveTable::new(Kind::ConfigMapSync, None);
        let ready = |index: usize| if index % 7 == 5 { "False" } else { "True" };
        table.take((0..30).map(|index| Change::Added(sync(&format!("s{index:02}"), ready(index)))).collect());
        let shown = lines(&table, 8);
        assert_eq!(shown.len(), 7);
        assert!(shown[0].starts_with("NAMESPACE"), "{shown:?}");
        let names: Vec<_> = shown[1..6].iter().map(|line| line.split_whitespace().nth(1).unwrap()).collect();
        assert_eq!(names, ["s05", "s12", "s19", "s26", "s00"]);
        assert_eq!(shown[6], "25 more, 0 of them not Ready: `weaver sync list -A`");
        assert_eq!(lines(&table, 32).len(), 31, "all of them fit");
        assert_eq!(lines(&table, 4)[2], "29 more, 3 of them not Ready: `weaver sync list -A`");
        assert!(lines(&table, 0).len() <= 2);
    }

    #[test]
    fn long_names_leave_room_for_what_is_said_of_them() {
        let mut table = LiveTable::new(Kind::ConfigMapSync, None);
        table.take(vec![Change::Added(sync(&"n".repeat(63), "False")), Change::Added(sync("a", "True"))]);
        let shown = lines(&table, 24);
        assert!(shown.iter().all(|line| line.chars().count() < 80), "{shown:?}");
        assert!(
            shown[2].starts_with("team-a      nnnnnnnn") && shown[2].contains("…   False   "),
            "{shown:?}"
        );
        let tiny = table.lines(ScreenSize { rows: 24, columns: 10 }, "2026-11-22T12:00:00Z".parse().unwrap());
        assert!(tiny[2].starts_with("team-a      nnnnnnnnnnn…   False"), "{tiny:?}");
    }

    #[test]
    fn what_is_wrong_with_the_watch_is_below_until_it_works_again() {
        let mut table = LiveTable::new(Kind::ServiceToken, Some("team-a".into()));
        table.take(vec![Change::Added(sync("a", "True"))]);
        table.fails("connection refused");
        let shown = lines(&table, 24);
        assert_eq!(
            (shown.len(), shown[2].as_str()),
            (3, "the watch failed and is retried: connection refused")
        );
        table.take(Vec::new());
        assert_eq!(lines(&table, 24).len(), 2);
    }
}
