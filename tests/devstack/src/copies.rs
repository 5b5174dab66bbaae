//! The synced copies: which there are, and which are still missing. Pure.

use serde_json::Value;
use weaver_host::table;

/// Label on a copy: the uid of its ConfigMapSync.
pub const UID_LABEL: &str = "weaver.example.com/sync-uid";
const SYNC: &str = "weaver.example.com/sync";
const SOURCE: &str = "weaver.example.com/source";

/// Namespaces that a sync of `wanted` names and that have no equal copy in
/// `copies` yet. Both are lists as `kubectl get -o json` prints them; `wanted`
/// has the ConfigMapSyncs and their sources.
///
/// A sync without a uid or a source that is not in `wanted` has nothing to compare.
pub fn missing(wanted: &Value, copies: &Value) -> Vec<String> {
    let of_kind = |kind| items(wanted).filter(move |item| item["kind"] == kind);
    let mut missing = Vec::new();
    for sync in of_kind("ConfigMapSync") {
        let spec = &sync["spec"];
        let source = of_kind("ConfigMap").find(|map| {
            map["metadata"]["name"] == spec["source"]["name"]
                && map["metadata"]["namespace"] == spec["source"]["namespace"]
        });
        let Some(source) = source else { continue };
        for namespace in spec["targets"]["namespaces"].as_array().into_iter().flatten() {
            let there = items(copies).any(|copy| {
                copy["metadata"]["namespace"] == *namespace
                    && copy["metadata"]["labels"][UID_LABEL] == sync["metadata"]["uid"]
                    && copy["metadata"]["annotations"][SYNC].is_string()
                    && copy["metadata"]["name"] == spec["source"]["name"]
                    && copy["data"] == source["data"]
            });
            if !there {
                let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
                missing.push(format!("{}/{}", text(namespace), text(&spec["source"]["name"])));
            }
        }
    }
    missing
}

/// The copies as a table.
pub fn table(copies: &Value) -> String {
    let mut rows: Vec<Vec<String>> = items(copies)
        .map(|copy| {
            let meta = &copy["metadata"];
            let cells =
                [&meta["namespace"], &meta["name"], &meta["annotations"][SOURCE], &meta["annotations"][SYNC]];
            cells.map(|cell| cell.as_str().unwrap_or("-").to_owned()).to_vec()
        })
        .collect();
    rows.sort();
    rows.insert(0, ["NAMESPACE", "NAME", "SOURCE", "SYNC"].map(str::to_owned).to_vec());
    table::table(&rows, "  ")
}

/// How many there are.
pub fn count(copies: &Value) -> usize {
    items(copies).count()
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list["items"].as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wanted() -> Value {
        json!({"items": [
            {"kind": "ConfigMap", "metadata": {"namespace": "a", "name": "s"}, "data": {"k": "v"}},
            {"kind": "ConfigMapSync", "metadata": {"namespace": "a", "name": "x", "uid": "u1"},
             "spec": {"source": {"namespace": "a", "name": "s"}, "targets": {"namespaces": ["foo", "bar"]}}},
        ]})
    }

    fn copy(namespace: &str, uid: &str, value: &str) -> Value {
        json!({
            "metadata": {
                "namespace": namespace, "name": "s", "labels": {UID_LABEL: uid},
                "annotations": {SYNC: format!("a/x/{uid}"), SOURCE: "ConfigMap/a/s"},
            },
            "data": {"k": value},
        })
    }

    #[test]
    fn a_copy_counts_when_it_is_equal_and_ours() {
        for (copies, left) in [
            (vec![], vec!["foo/s", "bar/s"]),
            (vec![copy("foo", "u1", "v")], vec!["bar/s"]),
            (vec![copy("foo", "u1", "v"), copy("bar", "u1", "v")], vec![]),
            (vec![copy("foo", "u0", "v"), copy("bar", "u1", "old")], vec!["foo/s", "bar/s"]),
        ] {
            assert_eq!(missing(&wanted(), &json!({"items": copies})), left);
        }
    }

    #[test]
    fn the_table_has_the_owners_in_a_stable_order() {
        let list = json!({"items": [copy("foo", "u1", "v"), copy("bar", "u1", "v")]});
        let table = table(&list);
        let lines: Vec<Vec<_>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["bar", "s", "ConfigMap/a/s", "a/x/u1"]);
        assert_eq!(lines[2][0], "foo");
        assert_eq!(count(&list), 2);
        assert_eq!(count(&Value::Null), 0);
    }
}
