//! The table of rules, judged by all who need no server: the pure rules, the types, the schemas with their
//! CEL rules. The API server judges the same table in the scenario tests.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

#[path = "rules/agreement.rs"]
mod agreement;
#[path = "rules/definitions.rs"]
mod definitions;
mod rules_table;
#[path = "rules/schema_judge.rs"]
mod schema_judge;

use std::collections::{BTreeMap, BTreeSet};

use rules_table::{Judge, RuleCase, cases, read};
use schema_judge::SchemaJudge;
use serde_json::{Value, json};
use weaver_api::validate::{SpecFault, validate, validate_resource, validate_token};
use weaver_api::{v1alpha1, v1beta1};

/// Entries that only say what is accepted.
const ACCEPTING: [&str; 3] = ["default", "deprecated", "nullable"];

fn place(case: &RuleCase) -> String {
    format!("{} {}: {} {} ({})", case.kind, case.version, case.keyword, case.field, case.rule)
}

/// The object as its type reads it, and as that writes it again.
fn parsed(case: &RuleCase, object: &Value) -> Result<Value, serde_json::Error> {
    fn again<T: serde::Serialize + serde::de::DeserializeOwned>(
        object: &Value,
    ) -> Result<Value, serde_json::Error> {
        serde_json::from_value::<T>(object.clone()).and_then(serde_json::to_value)
    }
    match (case.kind.as_str(), case.version.as_str()) {
        ("ConfigMapSync", "v1beta1") => again::<v1beta1::ConfigMapSync>(object),
        ("ConfigMapSync", "v1alpha1") => again::<v1alpha1::ConfigMapSync>(object),
        ("ResourceSync", "v1beta1") => again::<v1beta1::ResourceSync>(object),
        ("ServiceToken", "v1beta1") => again::<v1beta1::ServiceToken>(object),
        ("ServiceToken", "v1alpha1") => again::<v1alpha1::ServiceToken>(object),
        other => panic!("there is no type for {other:?}"),
    }
}

/// What the pure rules say.
fn faults(case: &RuleCase, object: &Value) -> Vec<String> {
    let faults = if case.kind == "ConfigMapSync" {
        let object: v1beta1::ConfigMapSync = serde_json::from_value(object.clone()).unwrap();
        validate(object.spec.spec.as_ref()).err().unwrap_or_default()
    } else if case.kind == "ResourceSync" {
        let object: v1beta1::ResourceSync = serde_json::from_value(object.clone()).unwrap();
        validate_resource(object.spec.spec.as_ref()).err().unwrap_or_default()
    } else {
        let read = |object: &Value| serde_json::from_value::<v1beta1::ServiceToken>(object.clone()).unwrap();
        let spec = read(object).spec.spec;
        let mut faults = validate_token(spec.as_ref()).err().unwrap_or_default();
        let before = case.from.as_ref().and_then(|object| read(object).spec.spec);
        // No pure rule sees both.
        let is_renamed = before.zip(spec).is_some_and(|(before, now)| before.secret_name != now.secret_name);
        let field = "spec.secretName".to_owned();
        faults.extend(is_renamed.then(|| SpecFault::Broken { field, fault: "was changed".to_owned() }));
        faults
    };
    faults.iter().map(SpecFault::to_string).collect()
}

/// Does a fault's text name this field or one below it?
fn names(text: &str, field: &str) -> bool {
    text.strip_prefix(field).is_some_and(|rest| rest.starts_with([' ', '.', '[', ':']))
}

/// The schema's own field for an entry: of a required field, of a duplicate item and of a rule that points to a field
/// below, it is the one above.
fn general(case: &RuleCase) -> Option<String> {
    let field =
        definitions::general(definitions::schema(&case.kind, &case.version), &format!(".{}", case.field))?;
    let field = field.trim_start_matches('.').to_owned();
    let above = |field: &str| field.rfind(['.', '[']).map(|end| field[..end].to_owned());
    match case.keyword.as_str() {
        "required" | "x-kubernetes-list-type" | "x-kubernetes-list-map-keys" => above(&field),
        _ => Some(field),
    }
}

/// Fields at which a version's CEL rules say that they are broken.
fn cel_rules(fields: &BTreeMap<String, Vec<&str>>, schema: &Value) -> Vec<String> {
    let mut targets = Vec::new();
    for path in fields.keys() {
        let pointer = path.replace("[]", ".items").replace("{}", ".additionalProperties");
        let at = pointer.split('.').fold(schema, |schema, name| match name {
            "items" | "additionalProperties" => &schema[name],
            _ => &schema["properties"][name],
        });
        for rule in at["x-kubernetes-validations"].as_array().into_iter().flatten() {
            targets.push(format!("{path}{}", rule["fieldPath"].as_str().unwrap_or_default()));
        }
    }
    targets
}

#[test]
fn every_entry_is_about_a_keyword_that_its_field_has() {
    for case in cases().unwrap() {
        let schema = definitions::schema(&case.kind, &case.version);
        let field = general(&case).unwrap_or_else(|| panic!("{} is no field", place(&case)));
        let fields = definitions::spec_fields(schema);
        let found = match case.keyword.as_str() {
            "deprecated" => case.version == "v1alpha1" && fields.contains_key(&field),
            "x-kubernetes-validations" => cel_rules(&fields, schema).contains(&field),
            keyword => fields.get(&field).is_some_and(|keywords| keywords.contains(&keyword)),
        };
        assert!(found, "{}: the definition has no such rule", place(&case));
    }
}

#[test]
fn every_keyword_every_cel_rule_and_every_field_with_a_limit_has_an_entry() {
    let cases = cases().unwrap();
    let keywords: BTreeSet<&str> = cases.iter().map(|case| case.keyword.as_str()).collect();
    for (kind, version, schema) in definitions::all() {
        let of = |case: &&RuleCase| case.kind == kind && case.version == version;
        let entries: BTreeSet<String> = cases.iter().filter(of).filter_map(general).collect();
        let fields = definitions::spec_fields(schema);
        let rules = cel_rules(&fields, schema);
        assert_eq!(
            rules.iter().collect::<BTreeSet<_>>().len(),
            rules.len(),
            "two rules cannot be distinguished"
        );
        for rule in rules {
            let has_entry = |case: &RuleCase| general(case).as_ref() == Some(&rule);
            let is_cel = |case: &&RuleCase| case.keyword == "x-kubernetes-validations";
            let found = cases.iter().filter(of).filter(is_cel).any(has_entry);
            assert!(found, "{kind} {version}: the CEL rule on {rule} has no entry");
        }
        for (field, limits) in fields {
            for keyword in &limits {
                assert!(keywords.contains(keyword), "{kind} {version} {field}: {keyword} has no entry");
            }
            let is_plain = limits.iter().all(|limit| ["type", "x-kubernetes-validations"].contains(limit));
            assert!(is_plain || entries.contains(&field), "{kind} {version}: {field} has no entry");
        }
    }
}

#[test]
fn every_entry_has_a_refused_object_unless_its_rule_is_to_accept() {
    for case in cases().unwrap() {
        assert_eq!(case.refused.is_none(), ACCEPTING.contains(&case.keyword.as_str()), "{}", place(&case));
        assert!(case.judges.contains(&Judge::Server), "{}: the API server judges everything", place(&case));
        let needs_answer = ["default", "nullable"].contains(&case.keyword.as_str());
        assert!(!needs_answer || case.returned.is_some(), "{}: say what is returned", place(&case));
    }
}

#[test]
fn the_pure_rules_judge_as_the_table_says() {
    let mut refused = 0;
    for case in cases().unwrap().iter().filter(|case| case.version == "v1beta1") {
        assert_eq!(faults(case, &case.accepted), Vec::<String>::new(), "{}", place(case));
        if let Some(object) = case.refused.as_ref().filter(|_| case.judges.contains(&Judge::Validate)) {
            let found = faults(case, object);
            assert!(found.iter().any(|fault| names(fault, &case.field)), "{}: {found:?}", place(case));
            refused += 1;
        }
    }
    assert!(refused > 80, "{refused}");
}

#[test]
fn the_types_read_what_is_accepted_and_not_what_has_another_type() {
    for case in cases().unwrap() {
        assert!(parsed(&case, &case.accepted).is_ok(), "{}", place(&case));
        let is_read = case.refused.as_ref().is_some_and(|object| parsed(&case, object).is_ok());
        assert!(!(is_read && case.judges.contains(&Judge::Parser)), "{}", place(&case));
    }
}

#[test]
fn the_schemas_judge_as_the_table_says_and_each_refused_object_breaks_one_rule() {
    for case in cases().unwrap() {
        let judge = SchemaJudge::of(&case.kind, &case.version);
        assert_eq!(judge.keywords(&case.accepted), [], "{}", place(&case));
        let Some(object) = &case.refused else { continue };
        let found = judge.keywords(object);
        if case.keyword == "x-kubernetes-validations" {
            assert_eq!(found, [], "{}", place(&case));
        } else {
            let this = (case.field.clone(), case.keyword.clone());
            assert!(found.contains(&this), "{}: {found:?}", place(&case));
            assert!(found.iter().all(|(field, _)| *field == case.field), "{}: {found:?}", place(&case));
        }
    }
}

#[test]
fn cel_rules_judge_without_a_server_as_the_table_says() {
    let mut refused = 0;
    for case in cases().unwrap() {
        let judge = SchemaJudge::of(&case.kind, &case.version);
        assert_eq!(judge.cel(&case.accepted, case.from.as_ref()), [], "{}", place(&case));
        if let Some(object) = case.refused.as_ref().filter(|_| case.judges.contains(&Judge::Cel)) {
            let found = judge.cel(object, case.from.as_ref());
            assert_eq!(found.len(), 1, "{}: {found:?}", place(&case));
            assert_eq!(found[0].0, case.field, "{}: {found:?}", place(&case));
            refused += 1;
        }
    }
    assert!(refused > 8, "{refused}");
}

#[test]
fn a_rule_about_changes_says_nothing_to_a_new_object() {
    for case in cases().unwrap().iter().filter(|case| case.from.is_some()) {
        let judge = SchemaJudge::of(&case.kind, &case.version);
        assert_eq!(judge.cel(case.refused.as_ref().unwrap(), None), [], "{}", place(case));
    }
}

#[test]
fn defaults_of_the_schema_are_those_of_the_types() {
    for case in cases().unwrap() {
        let Some(returned) = &case.returned else { continue };
        let schema = definitions::schema(&case.kind, &case.version);
        let filled = kube_cel::apply_defaults(schema, &case.accepted);
        assert!(has(&filled, returned), "{}: {filled}", place(&case));
        // A type leaves a null out.
        let of_type = parsed(&case, &case.accepted).unwrap();
        assert!(case.keyword == "nullable" || has(&of_type, returned), "{}: {of_type}", place(&case));
    }
}

/// Is all of `part` in `whole`?
fn has(whole: &Value, part: &Value) -> bool {
    match part {
        Value::Object(fields) => {
            fields.iter().all(|(name, part)| whole.get(name).is_some_and(|whole| has(whole, part)))
        }
        _ => whole == part,
    }
}

#[test]
fn the_notation_of_the_table_means_what_it_says() {
    let table = r#"
Kind v1beta1:
  base: {list: [{a: 1, b: 2}], map: {a: 1}, plain: x}
  rules:
  - {keyword: k, field: f, rule: r, accepted: {list: {"0": {b: null}}, map: null, plain: {letters: 2}}}
  - {keyword: k, field: f, rule: r, accepted: {list: {repeat: {n: "{}"}, times: 2}, plain: {exactly: null}}}
  - {keyword: k, field: f, rule: r, accepted: null, refused: {map: {entries: "k{}", value: "v{}", times: 1}}}
"#;
    let cases = read(table).unwrap();
    assert_eq!(cases[0].accepted["spec"], json!({"list": [{"a": 1}], "plain": "aa"}));
    assert_eq!(
        cases[1].accepted["spec"],
        json!({"list": [{"n": "0"}, {"n": "1"}], "map": {"a": 1}, "plain": null})
    );
    assert_eq!(cases[2].accepted.get("spec"), None);
    assert_eq!(cases[2].refused.as_ref().unwrap()["spec"]["map"], json!({"a": 1, "k0": "v0"}));
}

#[test]
fn a_mistake_in_the_table_is_named_by_its_place() {
    let section = |rule: &str| format!("Kind v1beta1:\n  base: {{}}\n  rules:\n  - {{{rule}}}\n");
    for (table, words) in [
        ("Kind:\n  base: {}\n  rules: []\n".to_owned(), "\"Kind\" is not a kind and a version"),
        (
            section("keyword: k, field: f, rule: r, accepted: {a: {repeat: x}}"),
            "Kind v1beta1: k f: times needs",
        ),
        (section("keyword: k, field: f, rule: r, accepted: {a: {entries: x}}"), "k f: entries needs a value"),
        (section("keyword: k, field: f, rule: r, judge: [cel]"), "judge"),
    ] {
        let said = read(&table).unwrap_err();
        assert!(said.starts_with("rules.yaml: ") && said.contains(words), "{said}");
    }
}
