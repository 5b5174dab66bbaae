//! What the table says of each key is what the reader does.

use std::collections::BTreeSet;

use super::super::parse;
use super::*;

/// The example with the value that `…` replaces.
fn whole(example: &str) -> String {
    [
        ("AAAA…", "AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g"),
        ("age1…", "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"),
        ("…", "correct-horse-battery-staple"),
    ]
    .iter()
    .fold(example.to_owned(), |text, (short, long)| text.replace(short, long))
}

/// A section with these lines, and whether it is read.
fn is_read(section: &str, lines: &[String]) -> bool {
    parse(file(section, lines).as_bytes()).is_ok()
}

fn file(section: &str, lines: &[String]) -> String {
    let header = if section.is_empty() { String::new() } else { format!("[{section}]\n") };
    header + &lines.join("\n")
}

fn of_section(section: &str) -> Vec<&'static KnownKey> {
    KEYS.iter().filter(|key| key.section == section).collect()
}

#[test]
fn the_examples_of_a_section_are_read_together() {
    let sections: BTreeSet<_> = KEYS.iter().map(|key| key.section).collect();
    for section in sections {
        let lines: Vec<_> = of_section(section).iter().map(|key| whole(key.example)).collect();
        assert_eq!(parse(file(section, &lines).as_bytes()).map(|_| ()), Ok(()), "[{section}]");
    }
}

#[test]
fn a_key_takes_what_its_type_says_and_nothing_else() {
    for key in KEYS {
        // The other keys of the section are there, since some need each other.
        let with = |value: &str| {
            let line = |one: &&KnownKey| {
                if one.name == key.name { format!("{} = {value}", key.name) } else { whole(one.example) }
            };
            let lines: Vec<_> = of_section(key.section).iter().map(line).collect();
            is_read(key.section, &lines)
        };
        let (good, bad): (Vec<String>, Vec<String>) = match key.kind {
            Text => (vec![], vec!["7".into(), "true".into(), "[\"a\"]".into()]),
            Texts => (vec![], vec!["7".into(), "\"a\"".into(), "[7]".into()]),
            Number(least, most) => (
                vec![least.to_string(), most.to_string()],
                vec![(i32::from(least) - 1).to_string(), (u32::from(most) + 1).to_string(), "\"7\"".into()],
            ),
            Truth => (vec!["true".into(), "false".into()], vec!["1".into(), "\"true\"".into()]),
            OneOf(values) => {
                // A server has no server to join; of the role it is asked alone.
                let quoted = values.iter().map(|value| format!("\"{value}\""));
                let good = quoted.filter(|value| value != "\"server\"").collect();
                (good, vec!["\"other\"".into(), "7".into()])
            }
            Table => (vec!["{}".into()], vec!["7".into(), "\"a\"".into()]),
        };
        for value in good {
            assert!(with(&value), "{} = {value}", key.path());
        }
        for value in bad {
            assert!(!with(&value), "{} = {value}", key.path());
        }
    }
}

#[test]
fn a_default_that_is_a_value_is_what_holds_without_the_key() {
    let mut compared = 0;
    for key in KEYS {
        let Some(value) = key.default.strip_prefix('`').and_then(|rest| rest.strip_suffix('`')) else {
            continue;
        };
        let needed: &[&str] = match key.section {
            "wifi" => &["country", "ssid", "password"],
            "backup" => &["target"],
            _ => &[],
        };
        let mut lines: Vec<String> = of_section(key.section)
            .iter()
            .filter(|one| needed.contains(&one.name))
            .map(|one| whole(one.example))
            .collect();
        let config = |lines: &[String]| parse(file(key.section, lines).as_bytes()).unwrap().config;
        let without = config(&lines);
        lines.push(format!("{} = {value}", key.name));
        assert_eq!(config(&lines).backup, without.backup, "{}", key.path());
        assert_eq!(config(&lines).wifi, without.wifi, "{}", key.path());
        assert_eq!(config(&lines).role, without.role, "{}", key.path());
        assert_eq!(config(&lines).security, without.security, "{}", key.path());
        compared += 1;
    }
    assert_eq!(compared, 7);
}
