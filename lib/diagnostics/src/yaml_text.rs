//! Writes YAML that every parser reads alike.
//!
//! A string is plain only where no version of YAML takes it for anything else; otherwise it is quoted, on one
//! line, with control characters escaped. So `yes`, `0o17`, `1_000` and `12:30` stay strings for the parsers of
//! kubectl, k3s and netplan too, which follow YAML 1.1.

use serde::{Serialize, Serializer};
use serde_saphyr::SerializerOptions;

/// The text, with a newline at its end.
pub fn write(value: &impl Serialize) -> String {
    let mut options = SerializerOptions::default();
    // Every text on one line: k3s takes a line `---` inside a block for the end of the document.
    options.prefer_block_scalars = false;
    #[expect(
        clippy::expect_used,
        reason = "what is written here are our own types and those of Kubernetes; they have no error of their own, nor has a String"
    )]
    let text = serde_saphyr::to_string_with_options(value, options).expect("a value can be written as YAML");
    text
}

/// A mapping whose keys are written in this order.
pub(crate) struct Ordered<K, V>(pub Vec<(K, V)>);

impl<K: Serialize, V: Serialize> Serialize for Ordered<K, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

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
    server: https://[fd00::1]:6443
  name: pi
- cluster:
    b: true
    f: 1.5
    list:
    - - 1
      - 2
    - []
    - - a b
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
            "",
            "yes",
            "No",
            "ON",
            "y",
            "null",
            "~",
            "true",
            "012",
            "0o17",
            "0x1f",
            "1_000",
            "12:30",
            "1e3",
            ".inf",
            "-",
            "a: b",
            "a:",
            "a #b",
            "<<",
            "=",
            " a",
            "a ",
            "\n",
            "\t",
            "*a",
            "&a",
            "!a",
            "%a",
            "@a",
            "`",
            "\"",
            "2026-11-25",
            "190:20:30",
            "0b1",
            "+1",
            "{a",
            "[a",
            "# a",
            "---",
            "NO",
        ] {
            for written in [write(&json!(text)), write(&json!({ text: 1 }))] {
                assert!(written.starts_with(['"', '\'']), "{text:?}: {written}");
            }
        }
        for text in [
            "default",
            "https://pi.lan:6443",
            "LS0tLS1CRUdJTg==",
            "v1",
            "system:admin",
            "/etc/x.pem",
            "a b",
            "é",
        ] {
            assert_eq!(write(&json!(text)), format!("{text}\n"));
        }
        assert_eq!(
            write(&json!("a\u{7f}\u{85}\u{feff}\u{1f600}\u{0}é")),
            "\"a\\x7F\\N\\uFEFF\u{1f600}\\0é\"\n"
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
