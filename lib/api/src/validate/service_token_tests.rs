use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;

fn spec(more: &Value) -> ServiceTokenSpec {
    let mut spec = json!({
        "writer": {"serviceAccount": {"name": "writer"}},
        "tokens": [{"key": "token", "serviceAccount": {"name": "reader"}}],
    });
    for (name, value) in more.as_object().unwrap() {
        spec[name] = value.clone();
    }
    serde_json::from_value(spec).unwrap()
}

fn faults(spec: &ServiceTokenSpec) -> Vec<String> {
    validate_token(Some(spec)).err().unwrap_or_default().iter().map(ToString::to_string).collect()
}

#[test]
fn a_missing_spec_writer_or_list_of_tokens_is_named() {
    let found = faults(&ServiceTokenSpec::default());
    assert_eq!(found.len(), 2);
    assert!(found[0].starts_with("spec.writer.serviceAccount.name is missing: "), "{found:?}");
    assert!(found[1].starts_with("spec.tokens is missing: "), "{found:?}");
    assert_eq!(validate_token(None), validate_token(Some(&ServiceTokenSpec::default())));
}

#[test]
fn what_is_left_out_has_its_default() {
    let token = ValidToken {
        key: "token".into(),
        account: "reader".into(),
        audiences: Vec::new(),
        lifetime: Duration::from_hours(1),
        not_before: None,
        generated: None,
    };
    let valid = ValidServiceToken {
        writer: "writer".into(),
        secret_name: None,
        tokens: vec![token],
        generate: None,
        renew_at_percent: 80,
    };
    assert_eq!(validate_token(Some(&spec(&json!({})))), Ok(valid));
}

#[test]
fn all_that_is_asked_for_is_carried_out() {
    let tokens = json!([
        {"key": "b", "serviceAccount": {"name": "reader"}, "audiences": ["y", "x"], "expirationSeconds": 600},
        {"key": "a", "serviceAccount": {"name": "reader"}, "notBefore": "1970-01-01T01:00:01+01:00"},
    ]);
    let valid =
        validate_token(Some(&spec(&json!({"secretName": "tokens", "tokens": tokens, "renewAtPercent": 50}))));
    let valid = valid.unwrap();
    assert_eq!((valid.secret_name.as_deref(), valid.renew_at_percent), (Some("tokens"), 50));
    let [first, second] = valid.tokens.as_slice() else { panic!("{:?}", valid.tokens) };
    assert_eq!((first.key.as_str(), first.lifetime), ("b", Duration::from_mins(10)));
    assert_eq!(first.audiences, ["y", "x"]);
    assert_eq!(second.not_before, Some(Timestamp::from_second(1).unwrap()));
}

#[test]
fn every_fault_is_found_at_once_in_the_order_of_the_fields() {
    let found = faults(&spec(&json!({
        "writer": {"serviceAccount": {"name": "A"}},
        "secretName": "",
        "tokens": [
            {"key": "a", "serviceAccount": {"name": "reader"}, "audiences": ["", "x", "x"]},
            {"key": "a", "expirationSeconds": -1, "notBefore": "tomorrow"},
            {"serviceAccount": {"name": ""}},
        ],
        "renewAtPercent": 101,
    })));
    let beginnings = [
        "spec.writer.serviceAccount.name \"A\" is not a valid name: ",
        "spec.secretName \"\" is empty",
        "spec.tokens[0].audiences[0] \"\" is empty",
        "spec.tokens[0].audiences[2] \"x\" is listed twice: ",
        "spec.tokens[1] \"a\" is listed twice: ",
        "spec.tokens[1].serviceAccount.name is missing: ",
        "spec.tokens[1].expirationSeconds -1 is not allowed: write 600 to 86400",
        "spec.tokens[1].notBefore \"tomorrow\" is not a point in time: ",
        "spec.tokens[2].key is missing: ",
        "spec.tokens[2].serviceAccount.name is missing: ",
        "spec.renewAtPercent 101 is not allowed: write more than 0 and less than 100",
    ];
    for (fault, beginning) in found.iter().zip(beginnings) {
        assert!(fault.starts_with(beginning), "{fault}\n{beginning}");
    }
    assert_eq!(found.len(), beginnings.len(), "{found:#?}");
}

#[test]
fn more_than_16_tokens_are_refused_with_the_way_out() {
    let tokens = |most: u8| -> Value {
        (0..most).map(|n| json!({"key": format!("k{n}"), "serviceAccount": {"name": "a"}})).collect()
    };
    assert_eq!(
        faults(&spec(&json!({"tokens": tokens(17)}))),
        ["spec.tokens has 17 entries; at most 16 are allowed: use a second ServiceToken"]
    );
    assert_eq!(faults(&spec(&json!({"tokens": tokens(16)}))), Vec::<String>::new());
}

#[test]
fn numbers_at_the_ends_of_their_type_are_refused() {
    for seconds in [i64::MIN, i64::MAX, 0] {
        let token = json!([{"key": "a", "serviceAccount": {"name": "a"}, "expirationSeconds": seconds}]);
        assert_eq!(faults(&spec(&json!({"tokens": token}))).len(), 1, "{seconds}");
    }
    for percent in [i32::MIN, i32::MAX, 256 + 80] {
        assert_eq!(faults(&spec(&json!({"renewAtPercent": percent}))).len(), 1, "{percent}");
    }
}
