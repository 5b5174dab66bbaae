//! Writes values as YAML that every parser reads alike.
//!
//! A string is plain only where no version of YAML takes it for anything else;
//! otherwise it is quoted, on one line, with all but printable characters
//! escaped. So `yes`, `0o17`, `1_000` and `12:30` stay strings for YAML 1.1 too,
//! which kubectl's parser half follows.

use std::fmt::Write as _;

use serde_json::Value;

/// The text, with a newline at its end.
pub fn write(value: &Value) -> String {
    let mut out = String::new();
    block(&mut out, value, 0);
    out
}

/// `value` as the lines at `indent`, the first line being indented already.
fn block(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            // The order of kubectl, whatever the map's own.
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            for (index, (key, value)) in entries.into_iter().enumerate() {
                if index > 0 {
                    pad(out, indent);
                }
                self::key(out, key, indent);
                match value {
                    Value::Object(map) if !map.is_empty() => {
                        out.push('\n');
                        pad(out, indent + 2);
                        block(out, value, indent + 2);
                    }
                    // kubectl does not indent a list below its key.
                    Value::Array(items) if !items.is_empty() => {
                        out.push('\n');
                        pad(out, indent);
                        block(out, value, indent);
                    }
                    _ => {
                        out.push(' ');
                        block(out, value, indent);
                    }
                }
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    pad(out, indent);
                }
                out.push_str("- ");
                block(out, item, indent + 2);
            }
        }
        scalar => {
            match scalar {
                Value::String(text) => string(out, text),
                // `{}`, `[]`, numbers, `true`, `null`: as in JSON.
                other => drop(write!(out, "{other}")),
            }
            out.push('\n');
        }
    }
}

/// What a parser looks ahead for the colon after a key (YAML 1.2, 7.4.3), in characters.
const SIMPLE_KEY: usize = 1024;

/// A key and its colon; one that is too long to be looked ahead for says that it is a key.
fn key(out: &mut String, text: &str, indent: usize) {
    let start = out.len();
    string(out, text);
    if out.len() - start >= SIMPLE_KEY {
        out.insert_str(start, "? ");
        out.push('\n');
        pad(out, indent);
    }
    out.push(':');
}

fn pad(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}

fn string(out: &mut String, text: &str) {
    if is_plain(text) {
        out.push_str(text);
        return;
    }
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            ' '..='~' => out.push(c),
            c if c.is_alphanumeric() => out.push(c),
            // Writing to a string cannot fail.
            c if u32::from(c) <= 0xffff => drop(write!(out, "\\u{:04x}", u32::from(c))),
            c => drop(write!(out, "\\U{:08x}", u32::from(c))),
        }
    }
    out.push('"');
}

/// Words that some version of YAML takes for a truth value or nothing.
const WORDS: [&str; 9] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];

fn is_plain(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "/+=._:@-".contains(c))
        && !text.ends_with(':')
        && !WORDS.iter().any(|word| word.eq_ignore_ascii_case(text))
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn it_looks_like_kubectls() {
        let value = json!({
            "kind": "Config", "preferences": {}, "none": null,
            "clusters": [
                {"name": "pi", "cluster": {"server": "https://[fd00::1]:6443", "certificate-authority-data": "LS0t="}},
                {"name": "127", "cluster": {"f": 1.5, "b": true, "list": [[1, 2], [], ["a b"]]}},
            ],
        });
        let want = "\
clusters:
- cluster:
    certificate-authority-data: LS0t=
    server: \"https://[fd00::1]:6443\"
  name: pi
- cluster:
    b: true
    f: 1.5
    list:
    - - 1
      - 2
    - []
    - - \"a b\"
  name: \"127\"
kind: Config
none: null
preferences: {}
";
        assert_eq!(write(&value), want);
    }

    #[test]
    fn what_could_be_anything_else_is_quoted() {
        for text in [
            "", "yes", "No", "ON", "y", "null", "~", "true", "012", "0o17", "0x1f", "1_000", "12:30", "1e3",
            ".inf", "-", "a: b", "a:", "a #b", "<<", "=", "a b", "\n", "\t", "*a", "&a", "!a", "%a", "@a",
            "`", "\"", "\\", "é",
        ] {
            assert!(write(&json!(text)).starts_with('"'), "{text:?}");
        }
        for text in ["default", "https://pi.lan:6443", "LS0tLS1CRUdJTg==", "v1", "system:admin", "/etc/x.pem"]
        {
            assert_eq!(write(&json!(text)), format!("{text}\n"));
        }
        assert_eq!(
            write(&json!("a\u{7f}\u{85}\u{feff}\u{1f600}\u{0}é")),
            "\"a\\u007f\\u0085\\ufeff\\U0001f600\\u0000é\"\n"
        );
    }

    #[test]
    fn a_key_of_any_length_is_read_back() {
        for length in [1, 1020, 1021, 1022, 1023, 1024, 1025, 4000] {
            for piece in ["a", "a b", "\u{2028}"] {
                let name: String = piece.chars().cycle().take(length).collect();
                for value in
                    [json!(1), json!([1, {&name: {}}]), json!({&name: {&name: "x", "z": 1}, "z": []})]
                {
                    let value = json!({"kind": "Config", &name: value, "z": [{&name: 1, "z": 2}]});
                    let text = write(&value);
                    let read: Value =
                        serde_saphyr::from_str(&text).unwrap_or_else(|e| panic!("{length}: {e}"));
                    assert_eq!(read, value, "{text}");
                }
            }
        }
    }

    /// Any value, with strings that YAML could misread.
    pub fn any_value() -> impl Strategy<Value = Value> {
        let text = "[ -~]{0,12}|\\PC{0,8}|(yes|no|on|~|null|0|1|e|x|_|:|\\.|-| |#|\n|\r|\t|\u{85}|\u{2028}|'|\"|\\\\){0,6}";
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-1e9f64..1e9).prop_map(Value::from),
            text.prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::hash_map(text, inner, 0..4).prop_map(Value::from_iter),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(value in any_value()) {
            let text = write(&value);
            let read: Value = serde_saphyr::from_str(&text).map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?;
            prop_assert_eq!(read, value, "{}", text);
        }
    }
}
