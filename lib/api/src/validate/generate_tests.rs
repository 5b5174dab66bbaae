use serde_json::{Value, json};

use super::*;
use crate::template;

fn spec(generate: &Value, tokens: &Value) -> ServiceTokenSpec {
    let spec =
        json!({"writer": {"serviceAccount": {"name": "writer"}}, "tokens": tokens, "generate": generate});
    serde_json::from_value(spec).unwrap()
}

fn valid(generate: &Value) -> ValidServiceToken {
    validate_token(Some(&spec(generate, &json!([])))).unwrap()
}

fn faults(generate: &Value) -> Vec<String> {
    let found = validate_token(Some(&spec(generate, &json!([])))).err().unwrap_or_default();
    found.iter().map(ToString::to_string).collect()
}

#[test]
fn each_index_is_an_account_and_a_token() {
    let asked = valid(&json!({
        "count": 12, "name": "bot-{{padded}}", "key": "{{n}}", "labels": {"user": "u{{n}}"},
        "annotations": {"note": "{{hash}}"}, "audiences": ["vault"], "expirationSeconds": 900,
    }));
    let (all, accounts) = asked.with_generated("team-a/bots").unwrap();
    assert_eq!((all.tokens.len(), accounts.len()), (12, 12));
    assert_eq!((accounts[11].name.as_str(), all.tokens[11].key.as_str()), ("bot-012", "12"));
    assert_eq!(accounts[11].labels["user"], "u12");
    assert_eq!(accounts[11].annotations["note"], template::hash("team-a/bots", 12));
    let token = &all.tokens[11];
    assert_eq!((token.account.as_str(), token.generated), ("bot-012", Some(12)));
    assert_eq!((token.audiences.as_slice(), token.lifetime.as_secs()), (&["vault".to_owned()][..], 900));
}

#[test]
fn a_key_that_is_not_given_is_the_accounts_name_and_one_account_needs_no_index() {
    let (all, _) = valid(&json!({"count": 1, "name": "bot"})).with_generated("team-a/bots").unwrap();
    assert_eq!((all.tokens[0].key.as_str(), all.tokens[0].account.as_str()), ("bot", "bot"));
}

#[test]
fn what_cannot_be_made_is_named_by_its_field() {
    let long = "a".repeat(64);
    for (generate, expected) in [
        (json!({"count": 0, "name": "a"}), "spec.generate.count 0 is not allowed"),
        (json!({"count": 501, "name": "a{{n}}"}), "spec.generate.count 501 is not allowed"),
        (json!({"count": -1, "name": "a"}), "spec.generate.count -1"),
        (json!({"count": 2}), "spec.generate.name is missing"),
        (json!({"count": 2, "name": "bot"}), "spec.generate.name \"bot\" gives all accounts one name"),
        (json!({"count": 2, "name": "bot-{{hash}}"}), "gives all accounts one name"),
        (
            json!({"count": 2, "name": "bot-{{n}}", "key": "token"}),
            "spec.generate.key \"token\" gives all tokens one key",
        ),
        (json!({"count": 1, "name": "Bot-{{n}}"}), "spec.generate.name"),
        (json!({"count": 1, "name": "bot-"}), "spec.generate.name"),
        (json!({"count": 1, "name": "a.b"}), "spec.generate.name"),
        (json!({"count": 1, "name": "bot-{{x}}"}), "nothing else is in two braces"),
        (json!({"count": 1, "name": "bot-{{ n }}"}), "nothing else is in two braces"),
        (json!({"count": 1, "name": long}), "64 characters"),
        (json!({"count": 1, "name": "a", "key": "a b"}), "spec.generate.key"),
        (json!({"count": 1, "name": "a", "labels": {"a": "{{m}}"}}), "spec.generate.labels.a"),
        (
            json!({"count": 1, "name": "a", "labels": {"weaver.example.com/allow-tokens": "true"}}),
            "use a key of your own",
        ),
        (json!({"count": 1, "name": "a", "annotations": {"a": "{{m}}"}}), "unknown placeholder"),
        (
            json!({"count": 1, "name": "a", "annotations": {"a": "x".repeat(257)}}),
            "spec.generate.annotations.a",
        ),
        (json!({"count": 1, "name": "a", "expirationSeconds": 599}), "spec.generate.expirationSeconds"),
        (json!({"count": 1, "name": "a", "audiences": ["a", "a"]}), "spec.generate.audiences[1]"),
    ] {
        let found = faults(&generate);
        assert!(found.len() == 1 && found[0].contains(expected), "{generate}: {found:?}");
    }
}

#[test]
fn what_is_listed_and_generated_is_reported() {
    let generate = json!({"count": 3, "name": "bot-{{n}}", "key": "{{n}}"});
    for (tokens, writer, expected) in [
        (json!([{"key": "2", "serviceAccount": {"name": "robot"}}]), "writer", vec!["spec.tokens[0].key"]),
        (
            json!([{"key": "a", "serviceAccount": {"name": "bot-2"}}]),
            "writer",
            vec!["spec.tokens[0].serviceAccount.name"],
        ),
        (json!([{"key": "4", "serviceAccount": {"name": "bot-4"}}]), "writer", vec![]),
        (json!([]), "bot-1", vec!["spec.writer.serviceAccount.name"]),
    ] {
        let mut asked = validate_token(Some(&spec(&generate, &tokens))).unwrap();
        writer.clone_into(&mut asked.writer);
        let found = asked.with_generated("team-a/bots").err().unwrap_or_default();
        let fields: Vec<&str> = found.iter().map(crate::validate::SpecFault::field).collect();
        assert_eq!(fields, expected, "{tokens}");
    }
}
