//! YAML as a tree in which every node knows its line and column.
//!
//! k3s reads its files without a schema, so a schema cannot be asked of them
//! here either. An error never quotes the text: the files contain tokens.

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_saphyr::{DuplicateKeyPolicy, Options, Spanned};

/// Quotes that word processors and web pages write in the place of `"` and `'`; to YAML they are letters.
pub(crate) const PRINTED_QUOTES: [char; 5] = ['“', '”', '„', '‘', '’'];
/// What is wrong at [`YamlNode::odd_indent`], and what to write.
pub(crate) const ODD_INDENT: (&str, &str) = (
    "the blanks here are those of a web page or a word processor, and YAML takes them as a part of the name",
    "replace them by spaces",
);

/// What to do about a text that is no YAML, by the line where that was seen.
pub(crate) fn correction(text: &str, line: Option<u64>) -> &'static str {
    // Closed by such a quote, a value continues in the lines below.
    let seen = line.and_then(|line| usize::try_from(line).ok()).unwrap_or_default();
    let lines = text.lines().take(seen).skip(seen.saturating_sub(3));
    let mut lines = lines.filter(|line| !line.trim_start().starts_with('#'));
    if lines.any(|line| line.contains(['"', '\'']) && line.contains(PRINTED_QUOTES)) {
        "one of the quotes is that of a word processor: write both as a text editor does"
    } else {
        "correct the line; YAML takes spaces at the start of a line, and no tabs"
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum YamlValue {
    /// Nothing, `~` or `null`.
    Null,
    /// Any scalar, as k3s would turn it into a string.
    Scalar(String),
    List(Vec<YamlNode>),
    /// A mapping in the order of the file, later duplicates included.
    Map(Vec<(YamlNode, YamlNode)>),
}

/// A value and where it is.
#[derive(Debug, Clone, PartialEq)]
pub struct YamlNode {
    pub value: YamlValue,
    /// Line, from 1.
    pub line: u64,
    /// Column, from 1.
    pub column: u64,
}

/// Why a text is no YAML.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SyntaxError {
    /// What is wrong, in a few words and without any of the text.
    pub message: String,
    /// Line, from 1; absent where the parser does not know.
    pub line: Option<u64>,
    /// Column, from 1.
    pub column: Option<u64>,
}

/// The first document of a text; k3s and its clients read no other.
pub fn first_document(text: &str) -> &str {
    let mut begun = false;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        // At the start of a line, even inside a text of many lines, a marker is one.
        let is_marker = |marker: &str| {
            line.strip_prefix(marker)
                .is_some_and(|rest| rest.trim_end() == "" || rest.starts_with([' ', '\t']))
        };
        if begun && (is_marker("---") || is_marker("...")) {
            return &text[..at];
        }
        begun |= !(line.trim().is_empty() || line.trim_start().starts_with('#') || line.starts_with('%'));
        at += line.len();
    }
    text
}

/// The line of what comes after the first document, unless that is nothing.
pub fn second_document(text: &str) -> Option<u64> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let first = first_document(text);
    let is_content = |line: &str| {
        let line = line.trim();
        !(line.is_empty() || line.starts_with('#') || line == "---" || line == "...")
    };
    let rest = text[first.len()..].lines().position(is_content)?;
    Some((first.lines().count() + rest + 1) as u64)
}

/// Parses the first document. An empty one is [`YamlValue::Null`].
///
/// # Errors
/// Position and kind of the first mistake.
pub fn parse(text: &str) -> Result<YamlNode, SyntaxError> {
    let mut options = Options::default();
    options.with_snippet = false;
    // k3s' parser takes duplicates, and the last one wins.
    options.duplicate_keys = DuplicateKeyPolicy::LastWins;
    let text = first_document(text.strip_prefix('\u{feff}').unwrap_or(text));
    serde_saphyr::from_str_with_options::<Option<Spanned<YamlValue>>>(text, options)
        .map(|node| node.map_or(YamlNode { value: YamlValue::Null, line: 1, column: 1 }, YamlNode::from))
        .map_err(|error| {
            let place = error.location().filter(|place| place.line() > 0);
            SyntaxError {
                message: kind_of(&error.without_snippet().to_string()),
                line: place.map(|p| p.line()),
                column: place.map(|p| p.column()),
            }
        })
}

/// The kind of a mistake: the position is reported separately.
fn kind_of(text: &str) -> String {
    let line = text.lines().next().unwrap_or("not YAML");
    line.split(" at line ").next().unwrap_or(line).to_owned()
}

impl From<Spanned<YamlValue>> for YamlNode {
    fn from(spanned: Spanned<YamlValue>) -> Self {
        Self { line: spanned.referenced.line(), column: spanned.referenced.column(), value: spanned.value }
    }
}

impl YamlNode {
    /// The last value of a key, where this is a mapping that has it.
    pub fn get(&self, key: &str) -> Option<&Self> {
        let YamlValue::Map(entries) = &self.value else {
            return None;
        };
        entries.iter().rev().find(|(name, _)| name.as_str() == Some(key)).map(|(_, value)| value)
    }

    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            YamlValue::Scalar(text) => Some(text),
            _ => None,
        }
    }

    /// Whether it begins with a quote in `text`, that it was parsed from: a string, whatever its content.
    pub fn is_quoted(&self, text: &str) -> bool {
        let at = |number: u64| usize::try_from(number).ok()?.checked_sub(1);
        let start = || text.lines().nth(at(self.line)?)?.chars().nth(at(self.column)?);
        matches!(start(), Some('"' | '\''))
    }

    /// The first key without quotes that a blank is a part of, such as a no-break space for an indent.
    pub(crate) fn odd_indent(&self, text: &str) -> Option<&Self> {
        let is_odd = |c: char| c.is_whitespace() && !c.is_ascii() || ['\u{200b}', '\u{feff}'].contains(&c);
        let is_at =
            |node: &Self| node.as_str().is_some_and(|key| key.starts_with(is_odd)) && !node.is_quoted(text);
        let below = self.items().iter().find_map(|item| item.odd_indent(text));
        below.or_else(|| {
            let mut entries = self.entries().iter();
            entries.find_map(|(key, value)| is_at(key).then_some(key).or_else(|| value.odd_indent(text)))
        })
    }

    /// The items, where this is a list.
    pub fn items(&self) -> &[Self] {
        match &self.value {
            YamlValue::List(items) => items,
            _ => &[],
        }
    }

    /// The text of a key.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }

    /// The items of the list of a key; none where there is no such list.
    pub fn list(&self, key: &str) -> &[Self] {
        self.get(key).map_or(&[], Self::items)
    }

    /// The keys and values of a mapping; none where this is none.
    pub fn entries(&self) -> &[(Self, Self)] {
        match &self.value {
            YamlValue::Map(entries) => entries,
            _ => &[],
        }
    }
}

impl YamlValue {
    /// What kind of value this is, for a message.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Scalar(_) => "a single value",
            Self::List(_) => "a list",
            Self::Map(_) => "a mapping",
        }
    }
}

impl<'de> Deserialize<'de> for YamlValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

impl Serialize for YamlNode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.value {
            YamlValue::Null => serializer.serialize_unit(),
            YamlValue::Scalar(text) => serializer.serialize_str(text),
            YamlValue::List(items) => serializer.collect_seq(items),
            YamlValue::Map(entries) => {
                serializer.collect_map(entries.iter().map(|(key, value)| (key, value)))
            }
        }
    }
}

struct ValueVisitor;

macro_rules! scalars {
    ($($method:ident $type:ty,)*) => {
        $(fn $method<E>(self, value: $type) -> Result<YamlValue, E> {
            Ok(YamlValue::Scalar(value.to_string()))
        })*
    };
}

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = YamlValue;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a YAML value")
    }

    scalars! {
        visit_bool bool, visit_i64 i64, visit_u64 u64, visit_i128 i128, visit_u128 u128, visit_f64 f64,
        visit_str &str,
    }

    fn visit_unit<E>(self) -> Result<YamlValue, E> {
        Ok(YamlValue::Null)
    }

    fn visit_none<E>(self) -> Result<YamlValue, E> {
        Ok(YamlValue::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<YamlValue, D::Error> {
        YamlValue::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<YamlValue, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element::<Spanned<YamlValue>>()? {
            items.push(item.into());
        }
        Ok(YamlValue::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<YamlValue, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, value)) = map.next_entry::<Spanned<YamlValue>, Spanned<YamlValue>>()? {
            entries.push((key.into(), value.into()));
        }
        Ok(YamlValue::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml_text::{Ordered, write};
    use proptest::prelude::*;

    #[test]
    fn every_node_knows_its_place() {
        let root = parse("# note\na: 1\ntls-san:\n  - one\n  - \"two\"\nb: [x, 3, true, ~]\n").unwrap();
        let names = root.get("tls-san").unwrap().items();
        assert_eq!((names[0].as_str(), names[0].line, names[0].column), (Some("one"), 4, 5));
        assert_eq!((names[1].as_str(), names[1].line), (Some("two"), 5));
        let b: Vec<_> = root.get("b").unwrap().items().iter().map(YamlNode::as_str).collect();
        assert_eq!(b, [Some("x"), Some("3"), Some("true"), None]);
        assert_eq!(root.get("a").unwrap().line, 2);
    }

    #[test]
    fn a_value_that_ends_in_a_printed_quote_is_to_be_quoted_again() {
        for (text, wants_quotes) in [
            ("a:\n  b: \"x”\nc: 1\n", true),
            ("a:\n  b: \"x”\n", true),
            ("# it’s 'x'\na: [\n", false),
            ("a:\n\t- b\n", false),
        ] {
            let error = parse(text).unwrap_err();
            let correction = correction(text, error.line);
            assert_eq!(correction.starts_with("one of the quotes"), wants_quotes, "{text}: {error:?}");
        }
    }

    #[test]
    fn what_comes_after_the_first_document() {
        for (text, want) in [
            ("a: 1\n", None),
            ("---\na: 1\n", None),
            ("# b\n---\na: 1\n...\n", None),
            ("a: 1\n---\n# none\n", None),
            ("---\na: 1\n---\nb: 2\n", Some(4)),
            ("a: 1\n--- \n\n# c\nb: 2\n", Some(5)),
            ("\u{feff}a: 1\r\n---\r\nb: 2\r\n", Some(3)),
            ("", None),
        ] {
            assert_eq!(second_document(text), want, "{text:?}");
        }
    }

    #[test]
    fn an_empty_file_is_nothing() {
        for text in ["", "\n", "# only a note\n", "\u{feff}", "---\n"] {
            assert_eq!(parse(text).unwrap().value, YamlValue::Null, "{text:?}");
        }
    }

    #[test]
    fn only_the_first_document_counts() {
        for (text, want) in [
            ("a: 1\n---\na: 2\n", Some("1")),
            ("# note\n%YAML 1.2\n---\r\na: 1\r\n---\r\na: [\r\n", Some("1")),
            ("--- # note\na: 1\n...\nnot: [yaml\n", Some("1")),
            ("a: 1\n--- {a: 2}\n", Some("1")),
            ("a: 1\n---", Some("1")),
            ("---\n---\na: 2\n", None),
            ("a: 1\nb:\n  ---\n", Some("1")),
            ("a: ---x\n", Some("---x")),
        ] {
            let root = parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
            assert_eq!(root.text("a"), want, "{text:?}");
        }
    }

    #[test]
    fn the_last_duplicate_wins() {
        assert_eq!(parse("a: 1\na: 2\n").unwrap().get("a").unwrap().as_str(), Some("2"));
    }

    #[test]
    fn an_error_has_a_place_and_none_of_the_text() {
        for text in [
            "token: hunter2-secret\ntls-san: [a, b\n",
            "token: \"hunter2-secret\n",
            "a: 1\n  token: hunter2-secret: x\n",
            "a:\n\ttoken: hunter2-secret\n",
            "token: &x hunter2-secret\nb: *hunter2-secret\n",
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.line.is_some() && error.column.is_some(), "{text:?}: {error:?}");
            assert!(!error.message.contains("hunter2"), "{error}");
            assert!(!error.message.contains(" at line "), "the place is given once: {error}");
            assert!(!error.message.is_empty());
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in "\\PC*|[-a-z:\\[\\]{}&*!|>'\"#%@, \t\n]*") {
            let _ = parse(&text);
        }

        #[test]
        fn what_is_written_is_read_back(
            text in "\\PC*|[-a-z0-9:\\[\\]{}&*!|>'\"#%@,?=~.\\\\ \t\n\u{85}\u{2028}\u{feff}]*",
        ) {
            let node = |value| YamlNode { value, line: 1, column: 1 };
            let (scalar, nothing) = (node(YamlValue::Scalar(text.clone())), node(YamlValue::Null));
            let list = node(YamlValue::List(vec![scalar.clone(), nothing.clone(), node(YamlValue::List(vec![scalar.clone()]))]));
            let inner = node(YamlValue::Map(vec![(scalar.clone(), list.clone()), (nothing, scalar.clone())]));
            let whole = node(YamlValue::Map(vec![(scalar, inner.clone()), (list, inner)]));
            let written = write(&Ordered(vec![("k", &whole)]));
            let read = parse(&written).map_err(|error| TestCaseError::fail(format!("{error}: {written}")))?;
            prop_assert!(is_alike(read.get("k").unwrap(), &whole), "{}: {:?}", written, read);
        }
    }

    fn is_alike(one: &YamlNode, other: &YamlNode) -> bool {
        match (&one.value, &other.value) {
            (YamlValue::List(one), YamlValue::List(other)) => {
                one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_alike(one, other))
            }
            (YamlValue::Map(one), YamlValue::Map(other)) => {
                let pairs = |(one, other): (&(YamlNode, YamlNode), &(YamlNode, YamlNode))| {
                    is_alike(&one.0, &other.0) && is_alike(&one.1, &other.1)
                };
                one.len() == other.len() && one.iter().zip(other).all(pairs)
            }
            (one, other) => one == other,
        }
    }
}
