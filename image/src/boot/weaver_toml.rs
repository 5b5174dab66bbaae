//! Adds to weaver.toml what a run needs: its ssh key and the API's names.
//!
//! Guarantee: all other text stays as it is, byte for byte; lists are added to, not replaced. A plain edit of lines,
//! not a TOML parser: it accepts `[table]` and `key = [` as the sample has them. Failure: names the line and how to
//! write it.

use anyhow::{Result, bail};
use toml_edit::{DocumentMut, Item, Value};

/// The file, on the card.
pub const FILE: &str = "weaver.toml";

/// Puts `values` in front of the list `key` of `[table]`.
///
/// # Errors
/// When the table or the list is written in a way that this cannot add to.
pub fn with_values(text: &str, table: &str, key: &str, values: &[String]) -> Result<String> {
    if values.is_empty() {
        return Ok(text.to_owned());
    }
    let list = values.iter().map(|value| quoted(value)).collect::<Vec<_>>().join(", ");
    let mut current = String::new();
    let mut header_end = None;
    let mut at = 0;
    for (number, line) in (1..).zip(text.split_inclusive('\n')) {
        let start = at;
        at += line.len();
        let words = line.trim().trim_start_matches('\u{feff}');
        if let Some(name) = words.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            name.trim().clone_into(&mut current);
            if current == table {
                header_end = Some(at);
            }
            continue;
        }
        let Some((name, value)) = words.split_once('=') else { continue };
        let name = name.trim();
        if current.is_empty() && (name == table || name.starts_with(&format!("{table}."))) {
            bail!(
                "{FILE}:{number}: write `{table}` as a table of its own, `[{table}]`, to let this run add to it"
            );
        }
        if current != table || name != key {
            continue;
        }
        let Some(rest) = value.trim_start().strip_prefix('[') else {
            bail!("{FILE}:{number}: write `{key}` as a list, `{key} = [\"…\"]`");
        };
        // The insertion point: where the rest of the line begins.
        let line_end = start + line.trim_end().len();
        let insert = line_end - rest.len();
        // A comma before the closing bracket is fine in TOML.
        return Ok(format!("{}{list}, {}", &text[..insert], &text[insert..]));
    }
    let newline = |text: &str| if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    let end = header_end.unwrap_or(text.len());
    let (before, after) = text.split_at(end);
    let header = if header_end.is_some() { String::new() } else { format!("\n[{table}]\n") };
    Ok(format!("{before}{}{header}{key} = [{list}]\n{after}", newline(before)))
}

/// Those of the names that can be added to the card's file: none that it already has, and none for a card that joins
/// another, which has no names; the card refuses the whole file for either. Text that is not TOML is left to the card
/// to refuse.
pub fn names_to_add(text: &str, names: &[String]) -> Vec<String> {
    let Ok(document) = text.trim_start_matches('\u{feff}').parse::<DocumentMut>() else {
        return names.to_vec();
    };
    let item = |table: &str, key: &str| document.get(table)?.get(key);
    if item("k3s", "role").and_then(Item::as_str) == Some("agent") {
        return Vec::new();
    }
    let there = item("api", "names").and_then(Item::as_array);
    let is_there = |name: &String| {
        there
            .is_some_and(|all| all.iter().filter_map(Value::as_str).any(|one| one.eq_ignore_ascii_case(name)))
    };
    names.iter().filter(|name| !is_there(name)).cloned().collect()
}

/// A TOML string. JSON's escapes are among TOML's.
fn quoted(value: &str) -> String {
    serde_json::Value::from(value).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_key(text: &str) -> Result<String> {
        with_values(text, "ssh", "keys", &["ssh-ed25519 A".to_owned(), "b".to_owned()])
    }

    #[test]
    fn adds_and_keeps() {
        const NEW: &str = "keys = [\"ssh-ed25519 A\", \"b\"]\n";
        for (text, want) in [
            ("", format!("\n[ssh]\n{NEW}")),
            ("# [ssh]\n# keys = []", format!("# [ssh]\n# keys = []\n\n[ssh]\n{NEW}")),
            ("[ssh]", format!("[ssh]\n{NEW}")),
            ("[ssh] # who\n[api]\nnames = []\n", format!("[ssh] # who\n{NEW}[api]\nnames = []\n")),
            ("[ssh]\nkeys = []\n", "[ssh]\nkeys = [\"ssh-ed25519 A\", \"b\", ]\n".to_owned()),
            (
                "[ssh]\r\nkeys = [ # mine\r\n  \"c\",\r\n]\r\n",
                "[ssh]\r\nkeys = [\"ssh-ed25519 A\", \"b\",  # mine\r\n  \"c\",\r\n]\r\n".to_owned(),
            ),
            ("[ssh]\n  keys=[\"c\"]  \n", "[ssh]\n  keys=[\"ssh-ed25519 A\", \"b\", \"c\"]  \n".to_owned()),
            ("[api]\nkeys = []\n", format!("[api]\nkeys = []\n\n[ssh]\n{NEW}")),
        ] {
            assert_eq!(with_key(text).unwrap(), want, "{text:?}");
        }
        assert_eq!(with_values("x", "ssh", "keys", &[]).unwrap(), "x");
    }

    #[test]
    fn a_name_that_is_there_or_of_a_card_that_joins_is_not_added() {
        let names = ["pi.test".to_owned(), "raspi".to_owned()];
        for (text, want) in [
            ("", &["pi.test", "raspi"][..]),
            ("\u{feff}[api]\nnames = [\"Pi.Test\"]\n", &["raspi"]),
            ("api = { names = ['raspi', \"pi.test\"] }\n", &[]),
            ("api.names = ['raspi']\n", &["pi.test"]),
            ("[k3s]\nrole = \"server\"\n", &["pi.test", "raspi"]),
            ("[k3s]\nrole = \"agent\"\nserver = \"https://a:6443\"\n", &[]),
            ("[api\n", &["pi.test", "raspi"]),
        ] {
            assert_eq!(names_to_add(text, &names), want, "{text:?}");
        }
    }

    #[test]
    fn other_spellings_are_refused_with_the_one_that_works() {
        for text in ["ssh = { keys = [] }", "ssh.keys = []"] {
            let error = with_key(text).unwrap_err().to_string();
            assert!(
                error.starts_with("weaver.toml:1: write `ssh` as a table of its own, `[ssh]`"),
                "{error}"
            );
        }
        let error = with_key("[ssh]\nkeys = \"a\"").unwrap_err().to_string();
        assert_eq!(error, "weaver.toml:2: write `keys` as a list, `keys = [\"…\"]`");
    }
}
