//! What the verbs print: objects as a table, JSON, YAML or names.
//!
//! Pure: `crate::stdout` prints it.

use anyhow::Context as _;
use clap::ValueEnum;
use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::core::DynamicObject;
use serde_json::{Value, json};
use weaver_diagnostics::finding_text::{clean, is_unprintable};
use weaver_host::table;

use super::kind::Kind;
use crate::stdout::json_text;

pub const COLUMN_GAP: &str = "   ";
/// What errors of serialisation call what is printed.
const OBJECT: &str = "an object";

/// A form of what is printed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Format {
    /// Aligned columns
    Table,
    /// JSON without managedFields
    Json,
    /// YAML without managedFields
    Yaml,
    /// One KIND.GROUP/NAME per line
    Name,
}

/// The object without what only the API server has a use for.
pub fn plain(mut object: DynamicObject) -> anyhow::Result<Value> {
    object.metadata.managed_fields = None;
    serde_json::to_value(object).context("reading an object")
}

/// As YAML. Where that would contain characters that a terminal obeys or hides, as JSON, which is valid YAML and
/// escapes all of them.
pub fn yaml(object: &Value) -> anyhow::Result<String> {
    let text = serde_saphyr::to_string(object).context("writing an object as YAML")?;
    if text.contains(|c| c != '\n' && is_unprintable(c)) { json_text(object, OBJECT) } else { Ok(text) }
}

/// Several objects, which share a table; JSON and YAML have them in a `List`.
pub fn objects(
    kind: Kind,
    objects: Vec<DynamicObject>,
    format: Format,
    with_namespace: bool,
    now: Timestamp,
) -> anyhow::Result<String> {
    let list = |objects: Vec<DynamicObject>| {
        let items: anyhow::Result<Vec<Value>> = objects.into_iter().map(plain).collect();
        items.map(|items| json!({"apiVersion": "v1", "kind": "List", "items": items}))
    };
    match format {
        Format::Table if objects.is_empty() => Ok(String::new()),
        Format::Table => {
            let rows: Vec<_> =
                objects.iter().map(|object| row(kind, object, with_namespace, Some(now))).collect();
            let titles = titles(kind, with_namespace, true);
            let widths = widths(&titles, &rows);
            Ok(std::iter::once(&titles).chain(&rows).map(|cells| line(cells, &widths)).collect())
        }
        Format::Name => Ok(objects.iter().map(|object| kind.reference(&object.name_any()) + "\n").collect()),
        Format::Json => json_text(&list(objects)?, OBJECT),
        Format::Yaml => yaml(&list(objects)?),
    }
}

pub fn object(kind: Kind, one: DynamicObject, format: Format, now: Timestamp) -> anyhow::Result<String> {
    match format {
        Format::Json => json_text(&plain(one)?, OBJECT),
        Format::Yaml => yaml(&plain(one)?),
        Format::Table | Format::Name => objects(kind, vec![one], format, false, now),
    }
}

/// Titles of a table; the age makes no sense where lines appear one after the other.
pub fn titles(kind: Kind, with_namespace: bool, with_age: bool) -> Vec<String> {
    let first = with_namespace.then_some("NAMESPACE").into_iter().chain(["NAME"]);
    let columns = kind.columns().iter().map(|column| column.title);
    first.chain(columns).chain(with_age.then_some("AGE")).map(str::to_owned).collect()
}

/// The cells under [`titles`]; with the age where `now` is given.
pub fn row(kind: Kind, object: &DynamicObject, with_namespace: bool, now: Option<Timestamp>) -> Vec<String> {
    let namespace = with_namespace.then(|| object.namespace().unwrap_or_default());
    let first = namespace.into_iter().chain([object.name_any()]);
    let cells = kind.columns().iter().map(|column| (column.cell)(object));
    first.chain(cells).chain(now.map(|now| age(object, now))).collect()
}

pub fn widths(titles: &[String], rows: &[Vec<String>]) -> Vec<usize> {
    table::widths(std::iter::once(titles).chain(rows.iter().map(Vec::as_slice)))
}

/// A line of aligned cells, without trailing blanks.
pub fn line(cells: &[String], widths: &[usize]) -> String {
    clean(table::line(cells, widths, COLUMN_GAP).trim_end()) + "\n"
}

/// The age of an object, in the largest unit that is precise enough.
fn age(object: &DynamicObject, now: Timestamp) -> String {
    let Some(created) = object.creation_timestamp() else { return String::new() };
    let seconds = now.duration_since(created.0).as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..10_800 => format!("{}m", seconds / 60),
        10_800..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sync(name: &str, created: &str) -> DynamicObject {
        let object = json!({
            "metadata": {"name": name, "namespace": "team-a", "creationTimestamp": created,
                         "managedFields": [{"manager": "a"}]},
            "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Synced"}],
                       "counts": {"desired": 2, "synced": 2, "failed": 0, "conflicts": 0}},
        });
        serde_json::from_value(object).unwrap()
    }

    fn new() -> DynamicObject {
        serde_json::from_value(json!({"metadata": {"name": "new"}})).unwrap()
    }

    fn now() -> Timestamp {
        "2026-11-22T12:00:00Z".parse().unwrap()
    }

    #[test]
    fn a_table_is_aligned_and_ends_its_lines_without_blanks() {
        let some = vec![sync("settings", "2026-11-22T11:59:00Z"), new()];
        let text = objects(Kind::ConfigMapSync, some, Format::Table, true, now()).unwrap();
        assert_eq!(
            text,
            "NAMESPACE   NAME       READY   REASON   SYNCED   FAILED   CONFLICTS   AGE\n\
             team-a      settings   True    Synced   2/2      0        0           60s\n\
             \u{20}           new\n"
        );
    }

    #[test]
    fn nothing_is_no_table_and_an_empty_list() {
        let text = |format| objects(Kind::ServiceToken, Vec::new(), format, false, now()).unwrap();
        assert_eq!((text(Format::Table).as_str(), text(Format::Name).as_str()), ("", ""));
        let list: Value = serde_json::from_str(&text(Format::Json)).unwrap();
        assert_eq!(list["items"], json!([]));
    }

    #[test]
    fn every_format_but_the_table_can_be_read_back_and_has_no_managed_fields() {
        let one = sync("settings", "2026-11-22T11:59:00Z");
        for format in [Format::Json, Format::Yaml] {
            let read: Value =
                serde_saphyr::from_str(&object(Kind::ConfigMapSync, one.clone(), format, now()).unwrap())
                    .unwrap();
            assert_eq!(read, plain(one.clone()).unwrap());
            let text = objects(Kind::ConfigMapSync, vec![one.clone()], format, false, now()).unwrap();
            let read: Value = serde_saphyr::from_str(&text).unwrap();
            assert_eq!((&read["kind"], &read["items"][0]), (&json!("List"), &plain(one.clone()).unwrap()));
        }
        let name = object(Kind::ConfigMapSync, one, Format::Name, now()).unwrap();
        assert_eq!(name, "configmapsync.weaver.example.com/settings\n");
    }

    proptest! {
        #[test]
        fn what_others_wrote_is_the_same_in_json_and_yaml_and_no_terminal_obeys_it(
            text in any::<String>(), more in "[\u{1b}\u{7}\r\n\t\u{9b}\u{202e}\u{2066}\u{200b}\u{2028}a-z: -]{0,30}",
        ) {
            let mut one = sync("settings", "2026-11-22T11:59:00Z");
            one.annotations_mut().extend([("a".into(), text.clone()), ("b".into(), more.clone())]);
            one.data["status"]["conditions"][0]["reason"] = json!(text + &more);
            for format in [Format::Json, Format::Yaml, Format::Table] {
                let shown = object(Kind::ConfigMapSync, one.clone(), format, now()).unwrap();
                prop_assert!(!shown.contains(|c| c != '\n' && is_unprintable(c)), "{shown:?}");
                if format == Format::Table {
                    prop_assert_eq!(shown.lines().count(), 2);
                } else {
                    prop_assert_eq!(serde_saphyr::from_str::<Value>(&shown).unwrap(), plain(one.clone()).unwrap());
                }
            }
        }
    }

    #[test]
    fn an_age_is_reported_in_one_unit() {
        for (created, expected) in [
            ("2026-11-22T12:00:07Z", "0s"),
            ("2026-11-22T11:58:01Z", "119s"),
            ("2026-11-22T11:58:00Z", "2m"),
            ("2026-11-22T09:00:01Z", "179m"),
            ("2026-11-20T12:00:01Z", "47h"),
            ("2026-11-20T12:00:00Z", "2d"),
        ] {
            assert_eq!(age(&sync("a", created), now()), expected, "{created}");
        }
        assert_eq!(age(&new(), now()), "");
    }
}
