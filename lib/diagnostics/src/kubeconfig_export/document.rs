//! A kubeconfig as the values in it. `Debug` shows none of them.

use std::fmt;

use serde_json::{Map, Value, json};
use serde_saphyr::{DuplicateKeyPolicy, Options};

use crate::finding_text::is_unprintable;
use crate::{
    finding::Place,
    text_file::TextFile,
    tokens::without_tokens,
    yaml_node::{self, first_document},
    yaml_text,
};

/// The lists of a kubeconfig.
pub(super) const LISTS: [&str; 3] = ["clusters", "contexts", "users"];

/// The values of a kubeconfig: a mapping in which clusters, contexts and users
/// are lists of named entries, or absent.
#[derive(Clone, PartialEq)]
pub struct Document(Map<String, Value>);

/// Why a text is no kubeconfig. It never quotes the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place} is not a kubeconfig: {why}")]
pub struct NotAKubeconfig {
    pub place: Place,
    pub why: String,
}

impl Document {
    /// A kubeconfig in which nothing is.
    pub fn empty() -> Self {
        let mut map = Map::new();
        map.insert("apiVersion".to_owned(), "v1".into());
        map.insert("kind".to_owned(), "Config".into());
        Self(map)
    }

    /// Reads a kubeconfig. A text without any value is an empty one, as for kubectl.
    ///
    /// # Errors
    /// It is not YAML, has a key twice or a second document, or is another kind of file.
    pub fn parse(file: &TextFile) -> Result<Self, NotAKubeconfig> {
        let fault = |line, column, why: String| NotAKubeconfig {
            place: Place { file: file.path.clone(), line, column },
            why,
        };
        // Its errors have a position and none of the text.
        let tree =
            yaml_node::parse(&file.text).map_err(|error| fault(error.line, error.column, error.message))?;
        let text = file.text.strip_prefix('\u{feff}').unwrap_or(&file.text);
        let first = first_document(text);
        if !text[first.len()..].trim().trim_matches(['-', '.']).trim().is_empty() {
            let line = first.lines().count() as u64 + 1;
            return Err(fault(
                Some(line),
                None,
                "it holds a second YAML document, which would be lost".to_owned(),
            ));
        }
        if tree.value == yaml_node::YamlValue::Null {
            return Ok(Self::empty());
        }
        let mut options = Options::default();
        options.with_snippet = false;
        options.duplicate_keys = DuplicateKeyPolicy::Error;
        let value: Value = serde_saphyr::from_str_with_options(first, options).map_err(|error| {
            let place = error.location().filter(|place| place.line() > 0);
            let why = "a key is repeated, or a value cannot be represented in JSON";
            fault(place.map(|p| p.line()), place.map(|p| p.column()), why.to_owned())
        })?;
        let Value::Object(map) = value else {
            return Err(fault(Some(tree.line), None, format!("it is {}, not a mapping", tree.value.kind())));
        };
        wrong_form(&map).map_or(Ok(Self(map)), |why| Err(fault(None, None, why)))
    }

    /// The name of the context in force; `None` where it names none.
    pub fn current_context(&self) -> Option<String> {
        self.get("current-context").and_then(text_of).filter(|name| !name.is_empty())
    }

    /// A kubeconfig of one cluster, one user and one context, all with this name.
    pub(super) fn of_one(name: &str, cluster: &Value, user: &Value, namespace: Option<&str>) -> Self {
        let mut context = json!({ "cluster": name, "user": name });
        if let Some(namespace) = namespace {
            context["namespace"] = namespace.into();
        }
        let mut only = Self::empty();
        only.set("clusters", json!([{ "name": name, "cluster": cluster }]));
        only.set("users", json!([{ "name": name, "user": user }]));
        only.set("contexts", json!([{ "name": name, "context": context }]));
        only.set("current-context", name.into());
        only
    }

    /// Both files as kubectl sees them together. An entry of either is an entry of the whole.
    #[must_use]
    pub fn next_to(&self, other: &Self) -> Self {
        let mut both = self.clone();
        for list in LISTS {
            both.set(list, [self.entries(list), other.entries(list)].concat().into());
        }
        both
    }

    /// As YAML text in the order that `kubectl config` writes.
    pub fn to_yaml(&self) -> String {
        yaml_text::write(&self.0)
    }

    /// The value of a top-level key.
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    pub(super) fn set(&mut self, key: &str, value: Value) {
        self.0.insert(key.to_owned(), value);
    }

    pub(super) fn entries(&self, list: &str) -> &[Value] {
        self.0.get(list).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    pub(super) fn entry(&self, list: &str, name: &str) -> Option<&Value> {
        self.entries(list).iter().find(|entry| name_of(entry).as_deref() == Some(name))
    }
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Document(…)")
    }
}

pub(super) fn name_of(entry: &Value) -> Option<String> {
    entry.get("name").and_then(text_of)
}

/// A scalar as the text that kubectl takes it for.
pub(super) fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}

/// A name of a foreign file as a message has it: cut, without tokens, and no terminal sequence.
pub(super) fn shown(name: &str) -> String {
    const LONGEST: usize = 60;
    let name = without_tokens(name);
    let rest = if name.chars().nth(LONGEST).is_some() { "…" } else { "" };
    name.chars().take(LONGEST).flat_map(char::escape_debug).collect::<String>() + rest
}

/// Whether a name can be typed after `--context`, and shows on a terminal as what it is.
pub fn is_entry_name(name: &str) -> bool {
    !name.trim().is_empty() && name.chars().count() <= 253 && !name.contains(is_unprintable)
}

fn wrong_form(map: &Map<String, Value>) -> Option<String> {
    for (key, want) in [("kind", "Config"), ("apiVersion", "v1")] {
        if map.get(key).is_some_and(|value| value != want && !value.is_null()) {
            return Some(format!("its {key} is not `{want}`"));
        }
    }
    let ours = LISTS.iter().chain(&["current-context", "kind"]);
    if !ours.into_iter().any(|key| map.contains_key(*key)) {
        return Some("it has none of clusters, contexts, users".to_owned());
    }
    LISTS.iter().find_map(|list| match map.get(*list) {
        None | Some(Value::Null) => None,
        Some(Value::Array(entries)) => entries
            .iter()
            .any(|entry| name_of(entry).is_none())
            .then(|| format!("an entry of {list} has no name")),
        Some(_) => Some(format!("{list} is not a list")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Document, NotAKubeconfig> {
        Document::parse(&TextFile::new("/k", text))
    }

    #[test]
    fn what_is_a_kubeconfig() {
        for text in [
            "kind: Config\n",
            "apiVersion: v1\nkind: Config\nclusters: null\n",
            "clusters:\n- name: a\n  cluster: {}\n",
            "\u{feff}--- # note\nkind: Config\n",
            "kind: Config\n---\n",
            "kind: Config\r\nusers: []\r\n...\r\n",
            "{\"kind\": \"Config\", \"contexts\": []}",
        ] {
            assert!(parse(text).is_ok(), "{text:?}: {:?}", parse(text));
        }
        for text in ["", "\n", "# only a note\n", "---\n"] {
            assert_eq!(parse(text), Ok(Document::empty()), "{text:?}");
        }
    }

    #[test]
    fn what_is_none_is_named_with_its_place_and_never_quoted() {
        for (text, want) in [
            ("hunter2", "/k:1 is not a kubeconfig: it is a single value"),
            ("- hunter2\n", "it is a list"),
            ("kind: Pod\nx: hunter2\n", "its kind is not `Config`"),
            ("apiVersion: v2\nkind: Config\n", "its apiVersion is not `v1`"),
            ("token: hunter2\n", "it has none of clusters"),
            ("clusters: hunter2\n", "clusters is not a list"),
            ("users:\n- user: {token: hunter2}\n", "an entry of users has no name"),
            ("contexts: [hunter2]\n", "an entry of contexts has no name"),
            ("kind: Config\nusers: [hunter2\n", "/k:"),
            ("kind: Config\nkind: Config\nx: hunter2\n", "/k:2:1 is not a kubeconfig: a key is repeated"),
            ("kind: Config\n---\nkind: Config\nx: hunter2\n", "/k:2 is not a kubeconfig: it holds a second"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(want), "{text:?}: {error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn debug_shows_no_value() {
        let document = parse("kind: Config\nx: hunter2\n").unwrap();
        assert!(!format!("{document:?}").contains("hunter2"));
    }
}
