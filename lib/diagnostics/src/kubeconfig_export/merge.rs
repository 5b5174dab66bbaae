//! Adds an exported kubeconfig to the one that a user has.

use serde_json::Value;

use super::document::LISTS;
use super::document::{Document, name_of};

/// Puts the entries of `exported` into `theirs`, each replacing the entry of
/// its name, else at the end. All else stays; the current context does so unless
/// `switch` is set.
pub fn merge(theirs: &Document, exported: &Document, switch: bool) -> Document {
    let mut document = theirs.clone();
    for list in LISTS {
        let mut entries = theirs.entries(list).to_vec();
        for new in exported.entries(list) {
            let same = |entry: &Value| name_of(entry) == name_of(new);
            let index = entries.iter().position(same).unwrap_or(entries.len());
            entries.retain(|entry| !same(entry));
            entries.insert(index, new.clone());
        }
        if !entries.is_empty() || theirs.get(list).is_some() {
            document.set(list, Value::Array(entries));
        }
    }
    if switch && let Some(current) = exported.get("current-context") {
        document.set("current-context", current.clone());
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text_file::TextFile;
    use crate::yaml_text::tests::any_value;
    use proptest::prelude::*;

    fn document(text: &str) -> Document {
        Document::parse(&TextFile::new("/k", text)).unwrap()
    }

    const PI: &str = "apiVersion: v1\nkind: Config\ncurrent-context: pi\nclusters:\n- {name: pi, cluster: {server: new}}\n\
        users:\n- {name: pi, user: {token: new}}\ncontexts:\n- {name: pi, context: {cluster: pi, user: pi}}\n";
    const THEIRS: &str = "kind: Config\ncurrent-context: work\nextra: [1]\nclusters:\n- {name: work, cluster: {server: w}}\n\
        - {name: pi, cluster: {server: old, extra: 1}}\n- {name: z, cluster: {}}\nusers:\n- {name: work, user: {token: w}}\n\
        contexts:\n- {name: work, context: {cluster: work, user: work}}\n";

    #[test]
    fn same_names_are_replaced_in_place_and_all_else_stays() {
        let merged = merge(&document(THEIRS), &document(PI), false);
        let want = "kind: Config\ncurrent-context: work\nextra: [1]\nclusters:\n- {name: work, cluster: {server: w}}\n\
            - {name: pi, cluster: {server: new}}\n- {name: z, cluster: {}}\nusers:\n- {name: work, user: {token: w}}\n\
            - {name: pi, user: {token: new}}\ncontexts:\n- {name: work, context: {cluster: work, user: work}}\n\
            - {name: pi, context: {cluster: pi, user: pi}}\n";
        assert_eq!(merged.to_yaml(), document(want).to_yaml());
    }

    #[test]
    fn the_current_context_changes_only_when_asked() {
        for (theirs, switch, want) in [
            (document(THEIRS), false, Some("work")),
            (document(THEIRS), true, Some("pi")),
            (Document::empty(), false, None),
            (Document::empty(), true, Some("pi")),
        ] {
            let merged = merge(&theirs, &document(PI), switch);
            assert_eq!(merged.get("current-context").and_then(Value::as_str), want);
        }
    }

    #[test]
    fn a_name_that_stood_twice_stands_once() {
        let theirs = document("users:\n- {name: pi, user: 1}\n- {name: b, user: 2}\n- {name: pi, user: 3}\n");
        let merged = merge(&theirs, &document(PI), false);
        let names: Vec<_> = merged.entries("users").iter().filter_map(name_of).collect();
        assert_eq!(names, ["pi", "b"]);
    }

    proptest! {
        #[test]
        fn all_else_keeps_its_value_and_twice_is_once(
            extra in any_value(),
            names in prop::collection::btree_set("[a-z]{1,3}", 0..5),
            switch in any::<bool>(),
        ) {
            let names: Vec<_> = names.into_iter().filter(|name| name != "pi").collect();
            let mut theirs = Document::empty();
            theirs.set("extra", extra.clone());
            for list in LISTS {
                let entries = names.iter().map(|name| serde_json::json!({"name": name, "x": extra}));
                theirs.set(list, entries.collect());
            }
            let exported = document(PI);
            let merged = merge(&theirs, &exported, switch);
            prop_assert_eq!(&merge(&merged, &exported, switch), &merged);
            let mut without = merged.clone();
            for list in LISTS {
                let rest = merged.entries(list).iter().filter(|e| name_of(e).as_deref() != Some("pi")).cloned();
                without.set(list, rest.collect());
                prop_assert_eq!(merged.entry(list, "pi"), exported.entry(list, "pi"));
            }
            if switch {
                theirs.set("current-context", "pi".into());
            }
            prop_assert_eq!(without, theirs);
        }
    }
}
