//! The pure rules and the schemas agree about any spec, not only about those of the table.

use std::collections::BTreeMap;

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use weaver_api::schema::{KEY_PATTERN, LABEL_VALUE_PATTERN};
use weaver_api::v1beta1::{
    ConfigMapSyncSpec, Expression, Generate, Keys, Merge, Operator, Selector, ServiceAccountRef,
    ServiceTokenSpec, Source, SourceKind, Targets, Token, Writer,
};
use weaver_api::validate::{SpecFault, validate, validate_token};

use crate::schema_judge::{SchemaJudge, matches};

/// Names that are right, at a limit, or wrong in any way.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => "[a-c]{1,2}",
        2 => "[a-z0-9.-]{0,6}",
        1 => "[-._A-Za-z0-9/ ä]{0,6}",
        1 => ".{0,4}",
        1 => select(vec![63, 64, 253, 254, 317]).prop_map(|length| "a".repeat(length)),
    ]
}

fn names() -> impl Strategy<Value = Vec<String>> {
    vec(name(), 0..4)
}

fn pattern() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => "[a-c]{0,1}[*?][a-c]{0,1}",
        2 => "[a-c*?-]{0,5}",
        1 => name(),
        1 => select(vec![62, 63]).prop_map(|length| format!("{}*", "a".repeat(length))),
    ]
}

fn map() -> impl Strategy<Value = BTreeMap<String, String>> {
    let reserved = select(vec!["weaver.example.com/x", "app.kubernetes.io/managed-by", "cmsOwnerName"]);
    let key = prop_oneof![12 => name(), 1 => reserved.prop_map(str::to_owned)];
    prop_oneof![
        20 => btree_map(key, name(), 0..3),
        1 => (32..34).prop_map(|size| (0..size).map(|n| (format!("k{n}"), format!("v{n}"))).collect()),
    ]
}

fn account() -> impl Strategy<Value = Option<ServiceAccountRef>> {
    option::weighted(0.9, option::weighted(0.9, name()).prop_map(|name| ServiceAccountRef { name }))
}

fn number<N: Clone + std::fmt::Debug + 'static>(
    at_limits: Vec<N>,
    any: impl Strategy<Value = N>,
) -> impl Strategy<Value = N> {
    prop_oneof![20 => select(at_limits), 1 => any]
}

fn expression() -> impl Strategy<Value = Expression> {
    let operators = [Operator::In, Operator::NotIn, Operator::Exists, Operator::DoesNotExist];
    let parts = (name(), option::weighted(0.9, select(operators.to_vec())), names());
    parts.prop_map(|(key, operator, values)| Expression { key, operator, values })
}

prop_compose! {
    fn selector()(
        match_labels in map(),
        match_expressions in vec(expression(), 0..3),
    ) -> Selector {
        Selector { match_labels, match_expressions }
    }
}

prop_compose! {
    fn targets()(
        namespaces in names(),
        patterns in vec(pattern(), 0..4),
        selector in option::weighted(0.3, selector()),
        exclude in names(),
        name in option::weighted(0.3, name()),
        around in (option::weighted(0.2, name()), option::weighted(0.2, name())),
        labels in map(),
        annotations in map(),
    ) -> Targets {
        let (name_prefix, name_suffix) = around;
        Targets {
            namespaces, patterns, selector, exclude, name, name_prefix, name_suffix, labels, annotations,
        }
    }
}

prop_compose! {
    fn sync()(
        service_account in account(),
        source in option::weighted(0.9, (
            option::weighted(0.9, name()), option::weighted(0.7, name()), option::weighted(0.2, selector()),
            prop_oneof![4 => Just(Vec::new()), 1 => names()],
        )),
        merge in option::weighted(0.2, names()),
        targets in option::weighted(0.9, targets()),
        keys in option::weighted(0.3, (names(), names(), map())),
        resync_seconds in number(vec![50, 59, 60, 65, 600, 86_400, 86_410], any::<i32>()),
    ) -> ConfigMapSyncSpec {
        let source = source.map(|(namespace, name, selector, names)| {
            Source { kind: SourceKind::ConfigMap, namespace, name, names, selector }
        });
        let merge = merge.map(|join| Merge { join, ..Merge::default() });
        let keys = keys.map(|(include, exclude, rename)| Keys { include, exclude, rename });
        ConfigMapSyncSpec { service_account, source, targets, keys, merge, resync_seconds, ..Default::default() }
    }
}

fn time() -> impl Strategy<Value = String> {
    prop_oneof![
        select(vec!["2026-01-31T08:00:00Z", "2026-01-31t08:00:00.25-23:59", "2026-02-29T08:00:00Z"])
            .prop_map(str::to_owned),
        "20[0-9]{2}-[01][0-9]-[0-3][0-9][Tt ][0-2][0-9]:[0-6][0-9]:[0-6][0-9](Z|z|[+-][0-9]{2}:[0-9]{2})",
        "2026-01-31T08:00:0[0-9](.[0-9]{1,10})?(Z|[+-][0-9:]{5})",
        ".{0,25}",
    ]
}

prop_compose! {
    fn token()(
        key in name(),
        service_account in account(),
        audiences in names(),
        expiration_seconds in number(vec![599, 600, 3_600, 86_400, 86_401], any::<i64>()),
        not_before in option::weighted(0.3, time()),
    ) -> Token {
        Token { key, service_account, audiences, expiration_seconds, not_before }
    }
}

/// Templates that are right, or wrong in any way.
fn template() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        4 => select(vec!["{{n}}", "{{padded}}", "{{hash}}", "a", "b-", "-", ".", "_", "{", "}", "{{", "{{x}}"])
            .prop_map(str::to_owned),
        1 => ".{0,2}",
    ];
    prop_oneof![4 => vec(part, 0..5).prop_map(|parts| parts.concat()), 1 => name()]
}

fn templates() -> impl Strategy<Value = BTreeMap<String, String>> {
    (map(), template()).prop_map(|(mut map, value)| {
        map.values_mut().take(1).for_each(|first| first.clone_from(&value));
        map
    })
}

prop_compose! {
    fn generate()(
        count in number(vec![0, 1, 2, 500, 501], any::<i32>()),
        name in template(),
        key in option::weighted(0.5, template()),
        labels in templates(),
        annotations in templates(),
        audiences in names(),
        expiration_seconds in number(vec![599, 600, 86_400, 86_401], any::<i64>()),
    ) -> Generate {
        Generate { count, name, key, labels, annotations, audiences, expiration_seconds }
    }
}

prop_compose! {
    fn service_token()(
        writer in option::weighted(0.9, account()),
        secret_name in option::weighted(0.3, name()),
        tokens in prop_oneof![9 => vec(token(), 0..3), 1 => vec(token(), 15..18)],
        generate in option::weighted(0.5, generate()),
        renew_at_percent in number(vec![0, 1, 80, 99, 100], any::<i32>()),
    ) -> ServiceTokenSpec {
        let writer = writer.map(|service_account| Writer { service_account });
        ServiceTokenSpec { writer, secret_name, tokens, generate, renew_at_percent }
    }
}

/// Does the schema have no words for this fault?
fn is_stricter(fault: &SpecFault) -> bool {
    let (field, text) = (fault.field(), fault.to_string());
    let last = field.rsplit('.').next();
    text[field.len()..].starts_with(" key ")
        || field.starts_with("spec.keys.rename.")
        || field.contains(".selector.matchExpressions[") && last == Some("key")
        || field == "spec.targets.name"
            && (text.contains("one name for") || text.contains("exclude each other"))
        || field == "spec.source.names" && text.contains("sources that are merged")
        || last == Some("notBefore")
}

/// What the pure rules refuse the schema refuses, but for what it has no words for; and the reverse, with the
/// same fields named.
fn agree(kind: &str, spec: &Value, faults: &[SpecFault]) -> Result<(), TestCaseError> {
    let judge = SchemaJudge::of(kind, "v1beta1");
    let object = json!({"apiVersion": "weaver.example.com/v1beta1", "kind": kind, "spec": spec});
    let mut fields: Vec<String> = judge.keywords(&object).into_iter().map(|(field, _)| field).collect();
    // Like the API server, which does not continue to CEL rules whose parts are wrong already.
    if fields.is_empty() {
        fields.extend(judge.cel(&object, None).into_iter().map(|(field, _)| field));
    }
    for fault in faults.iter().filter(|fault| !is_stricter(fault)) {
        let is_same = |field: &String| fault.field().starts_with(field.as_str());
        prop_assert!(!fields.is_empty(), "only the pure rules refuse: {fault}");
        let by_cel = [
            "spec.source.name",
            "spec.merge",
            "spec.source.names",
            "spec.source.selector",
            "spec.targets.name",
            "spec.targets",
            "spec.targets.labels",
            "spec.targets.annotations",
            "spec.tokens",
            "spec.generate.name",
            "spec.generate.key",
        ];
        let may_wait = by_cel.contains(&fault.field()) || fault.field().ends_with(".values");
        prop_assert!(may_wait || fields.iter().any(is_same), "{fault}; the schema: {fields:?}");
    }
    for field in fields {
        prop_assert!(faults.iter().any(|fault| fault.field().starts_with(&field)), "{field}: {faults:?}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pure_rules_and_schema_agree_about_any_sync(spec in sync()) {
        let faults = validate(Some(&spec)).err().unwrap_or_default();
        agree("ConfigMapSync", &serde_json::to_value(&spec).unwrap(), &faults)?;
    }

    #[test]
    fn pure_rules_and_schema_agree_about_any_service_token(spec in service_token()) {
        let faults = validate_token(Some(&spec)).err().unwrap_or_default();
        agree("ServiceToken", &serde_json::to_value(&spec).unwrap(), &faults)?;
    }

    #[test]
    fn keys_and_values_are_judged_by_the_schemas_own_patterns(text in prop_oneof![
        "[-._a-zA-Z0-9]{0,5}", "[-._aA0/ ]{0,4}", ".{0,3}", "[a.]{0,4}\n?"
    ]) {
        let spec = |targets: Value, keys: Value| {
            let base = json!({"serviceAccount": {"name": "a"}, "source": {"namespace": "a", "name": "a"}});
            let mut spec: ConfigMapSyncSpec = serde_json::from_value(base).unwrap();
            spec.targets = Some(serde_json::from_value(targets).unwrap());
            spec.keys = Some(serde_json::from_value(keys).unwrap());
            spec
        };
        let key = spec(json!({"namespaces": ["a"]}), json!({"include": [text]}));
        prop_assert_eq!(validate(Some(&key)).is_ok(), matches(KEY_PATTERN, &text));
        let value = spec(json!({"namespaces": ["a"], "labels": {"tier": text}}), json!({}));
        prop_assert_eq!(validate(Some(&value)).is_ok(), matches(LABEL_VALUE_PATTERN, &text));
    }
}
