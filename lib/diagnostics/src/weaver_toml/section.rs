//! A section of `weaver.toml`: its keys by name and type, and unknown keys.

use std::ops::Range;

use toml_edit::{Item, Table, TableLike, Value};

use super::{
    fault::{Faults, shown},
    keys::{KEYS, KnownKey},
    limits::not_more,
};

/// A text and its position.
pub(super) struct SpannedText<'t> {
    pub value: &'t str,
    pub span: Option<Range<usize>>,
}

/// A section, which may be missing.
pub(super) struct Section<'t> {
    name: &'static str,
    table: Option<&'t dyn TableLike>,
}

impl<'t> Section<'t> {
    /// The file as a whole.
    pub fn root(table: &'t Table, faults: &mut Faults<'_>) -> Self {
        Self { name: "", table: Some(table) }.checked(faults)
    }

    /// One of its sections.
    pub fn section(&self, name: &'static str, faults: &mut Faults<'_>) -> Self {
        let table = self.table_of(name, faults);
        Section { name, table }.checked(faults)
    }

    /// A table below, whatever its keys.
    pub fn table_of(&self, key: &str, faults: &mut Faults<'_>) -> Option<&'t dyn TableLike> {
        let (span, item) = self.item(key)?;
        let table = item.as_table_like();
        if table.is_none() {
            let path = if self.name.is_empty() { key.to_owned() } else { format!("{}.{key}", self.name) };
            let remedy = format!("write [{path}] on a line of its own and its keys below");
            faults.add_at(span.as_ref(), format!("`{path}` is {}, not a section", kind(item)), remedy);
        }
        table
    }

    pub fn text(&self, key: &'static str, faults: &mut Faults<'_>) -> Option<SpannedText<'t>> {
        let (_, item) = self.item(key)?;
        let text = item.as_str().map(|value| SpannedText { value, span: item.span() });
        if text.is_none() {
            self.wrong_type(key, item, "a string in quotes", faults);
        }
        text
    }

    /// A list of strings.
    pub fn texts(&self, key: &'static str, faults: &mut Faults<'_>) -> Vec<SpannedText<'t>> {
        let Some((_, item)) = self.item(key) else { return Vec::new() };
        let Some(list) = item.as_array() else {
            self.wrong_type(key, item, "a list", faults);
            return Vec::new();
        };
        let few = not_more(&format!("`{key}`"), list.len(), "entries");
        if faults.take(item.span().as_ref(), few).is_none() {
            return Vec::new();
        }
        list.iter().filter_map(|value| text_of(key, value, faults)).collect()
    }

    /// A whole number in a range.
    pub fn number(&self, key: &'static str, most: u16, faults: &mut Faults<'_>) -> Option<u16> {
        let (_, item) = self.item(key)?;
        let Some(number) = item.as_integer() else {
            self.wrong_type(key, item, "a whole number", faults);
            return None;
        };
        let fits = u16::try_from(number).ok().filter(|number| *number <= most);
        if fits.is_none() {
            let message = format!("`{key}` is {number}, which is not in 0 to {most}");
            faults.add_at(item.span().as_ref(), message, format!("write a number from 0 to {most}"));
        }
        fits
    }

    pub fn truth(&self, key: &'static str, faults: &mut Faults<'_>) -> Option<bool> {
        let (_, item) = self.item(key)?;
        let truth = item.as_bool();
        if truth.is_none() {
            self.wrong_type(key, item, "true or false", faults);
        }
        truth
    }

    /// Whether a key is there, with this truth value.
    pub fn is(&self, key: &str, truth: bool) -> bool {
        self.item(key).and_then(|(_, item)| item.as_bool()) == Some(truth)
    }

    /// Whether a key is there, with a list that has no entry.
    pub fn is_empty_list(&self, key: &str) -> bool {
        self.item(key).and_then(|(_, item)| item.as_array()).is_some_and(toml_edit::Array::is_empty)
    }

    /// Position of a key.
    pub fn place_of(&self, key: &str) -> Option<Range<usize>> {
        self.item(key).and_then(|(span, _)| span)
    }

    /// The position of a key and its value.
    fn item(&self, key: &str) -> Option<(Option<Range<usize>>, &'t Item)> {
        let (key, item) = self.table?.get_key_value(key)?;
        Some((key.span().or_else(|| item.span()), item))
    }

    fn wrong_type(&self, key: &str, item: &Item, wanted: &str, faults: &mut Faults<'_>) {
        let known = KEYS.iter().find(|known| (known.section, known.name) == (self.name, key));
        let example = known.map_or("", |known| known.example);
        let message = format!("`{key}` is {}, not {wanted}", kind(item));
        faults.add_at(item.span().as_ref(), message, format!("write it like {example}"));
    }

    fn checked(self, faults: &mut Faults<'_>) -> Self {
        for (key, item) in self.table.into_iter().flat_map(TableLike::iter) {
            if !known_in(self.name).contains(&key) {
                let span = self.place_of(key).or_else(|| item.span());
                let (message, remedy) = unknown(self.name, key);
                faults.add_at(span.as_ref(), message, remedy);
            }
        }
        self
    }
}

/// A text of a list.
pub(super) fn text_of<'t>(key: &str, value: &'t Value, faults: &mut Faults<'_>) -> Option<SpannedText<'t>> {
    let text = value.as_str().map(|text| SpannedText { value: text, span: value.span() });
    if text.is_none() {
        let message = format!("an entry of `{key}` is {}, not a string", kind_of_value(value));
        faults.add_at(value.span().as_ref(), message, "put each entry in quotes");
    }
    text
}

/// What kind of item this is, for a message.
pub(super) fn kind(item: &Item) -> &'static str {
    match item {
        Item::Value(value) => kind_of_value(value),
        Item::ArrayOfTables(_) => "a section in double brackets",
        Item::Table(_) | Item::None => "a section",
    }
}

fn kind_of_value(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "a string",
        Value::Integer(_) | Value::Float(_) => "a number",
        Value::Boolean(_) => "true or false",
        Value::Datetime(_) => "a date",
        Value::Array(_) => "a list",
        Value::InlineTable(_) => "a section",
    }
}

/// The keys of a section; at the top, the sections too.
fn known_in(section: &str) -> Vec<&'static str> {
    let mut names: Vec<_> =
        KEYS.iter().filter(|known| known.section == section).map(|known| known.name).collect();
    if section.is_empty() {
        names.extend(KEYS.iter().map(|known| known.section).filter(|name| !name.is_empty()));
        names.dedup();
    }
    names
}

fn unknown(section: &str, key: &str) -> (String, String) {
    let message = format!("unknown key {}", shown(key));
    let plain = key.to_ascii_lowercase().replace('-', "_");
    let here = known_in(section);
    let alike = |name: &str| strsim::jaro_winkler(&plain, name);
    let nearest = here.iter().map(|name| (alike(name), *name)).max_by(|a, b| a.0.total_cmp(&b.0));
    let remedy = if let Some((_, name)) = nearest.filter(|(likeness, _)| *likeness > 0.8) {
        format!("did you mean `{name}`?")
    } else if let Some(KnownKey { section, name, .. }) = KEYS.iter().find(|known| alike(known.name) > 0.9) {
        let owner = match *section {
            "" => "above the first section".to_owned(),
            section => format!("below [{section}]"),
        };
        format!("`{name}` belongs {owner}")
    } else {
        format!("remove it; known here: {}", here.join(", "))
    };
    (message, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_key_gets_the_nearest() {
        for (section, key, remedy) in [
            ("", "hostnam", "did you mean `hostname`?"),
            ("", "Hostname", "did you mean `hostname`?"),
            ("", "netwrok", "did you mean `network`?"),
            ("time", "wait-seconds", "did you mean `wait_seconds`?"),
            ("", "names", "`names` belongs below [api]"),
            ("", "token", "`token` belongs below [k3s]"),
            ("", "ssid", "`ssid` belongs below [wifi]"),
            ("wifi", "passwort", "did you mean `password`?"),
            ("api", "hostname", "`hostname` belongs above the first section"),
            ("ssh", "zzz", "remove it; known here: keys"),
            ("", "role", "`role` belongs below [k3s]"),
            ("k3s", "rolle", "did you mean `role`?"),
        ] {
            assert_eq!(unknown(section, key).1, remedy, "[{section}] {key}");
        }
        assert_eq!(
            known_in(""),
            [
                "hostname", "api", "ssh", "network", "wifi", "time", "k3s", "storage", "update", "backup",
                "status"
            ]
        );
    }
}
