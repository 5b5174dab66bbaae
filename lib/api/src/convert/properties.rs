//! Properties of conversion: there and back is the identity, with the defaults of the stored version filled in
//! between, and no text in the annotation gets into a visible field.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::ANNOTATION;
use super::structural::with_defaults;
use super::tests::{new_sync, object, old_sync, round, to};

fn some(value: impl Strategy<Value = Value> + 'static) -> BoxedStrategy<Option<Value>> {
    proptest::option::of(value).boxed()
}

fn fields(fields: Vec<(&'static str, BoxedStrategy<Option<Value>>)>) -> BoxedStrategy<Value> {
    let (names, values): (Vec<_>, Vec<_>) = fields.into_iter().unzip();
    values
        .prop_map(move |values| {
            let present =
                names.iter().zip(values).filter_map(|(name, value)| Some(((*name).to_owned(), value?)));
            Value::Object(present.collect::<Map<_, _>>())
        })
        .boxed()
}

fn one_of(values: &Value) -> impl Strategy<Value = Value> + use<> {
    proptest::sample::select(values.as_array().unwrap().clone())
}

fn names() -> impl Strategy<Value = Value> {
    vec("[ab]", 0..4).prop_map(|names| json!(names))
}

fn set_of_names() -> impl Strategy<Value = Value> {
    proptest::collection::btree_set("[a-d]", 0..4).prop_map(|names| json!(names))
}

pub(super) fn any_leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
    ]
}

/// Any value with such leaves and such names of its fields.
pub(super) fn any_value(
    leaf: impl Strategy<Value = Value> + 'static,
    names: impl Strategy<Value = String> + Clone + 'static,
) -> impl Strategy<Value = Value> {
    leaf.prop_recursive(4, 16, 4, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            btree_map(names.clone(), inner, 0..4).prop_map(|fields| json!(fields)),
        ]
    })
}

fn any_old_sync() -> impl Strategy<Value = Value> {
    let spec = fields(vec![
        ("serviceAccount", some(one_of(&json!([{}, {"name": ""}, {"name": "a"}])))),
        (
            "source",
            some(one_of(&json!([{}, {"name": "n"}, {"namespace": "s"}, {"name": "", "namespace": "s"}]))),
        ),
        ("syncToNamespaces", some(names())),
        ("testNum", some(one_of(&json!([0, -1, 2_147_483_647])))),
    ]);
    let status = fields(vec![
        (
            "conditions",
            some(one_of(&json!([
                [],
                [{"type": "Ready"}, {"type": "Available"}],
                [{"type": "Available", "status": "True"}, {"type": "Ready"}],
                [{"type": "AllTargetsSynced"}],
            ]))),
        ),
        ("test", some(one_of(&json!(["", "x"])))),
    ]);
    (fields(vec![("spec", some(spec)), ("status", some(status))])).prop_map(old_sync)
}

pub(super) fn any_new_sync() -> impl Strategy<Value = Value> {
    let targets = fields(vec![
        ("namespaces", some(set_of_names())),
        ("patterns", some(one_of(&json!([[], ["a-*"], ["*", "?"]])))),
        ("selector", some(one_of(&json!([{}, {"matchLabels": {"a": "b"}}])))),
        ("exclude", some(set_of_names())),
        ("name", some(one_of(&json!(["n", null])))),
        ("namePrefix", some(one_of(&json!(["a-"])))),
        ("nameSuffix", some(one_of(&json!([".b"])))),
        ("labels", some(one_of(&json!([{}, {"a": "b"}])))),
        ("annotations", some(one_of(&json!([{"a": "b"}])))),
    ])
    .prop_filter("at least one of the three", |targets| {
        let says = |list: &str| targets[list].as_array().is_some_and(|list| !list.is_empty());
        targets["selector"].is_object() || says("namespaces") || says("patterns")
    });
    let spec = fields(vec![
        ("serviceAccount", Just(Some(json!({"name": "a"}))).boxed()),
        (
            "source",
            one_of(&json!([
                {"namespace": "s", "name": "n"}, {"kind": "Secret", "namespace": "s", "name": "n"},
                {"namespace": "s", "selector": {"matchLabels": {"a": "b"}}}, {"namespace": "s", "names": ["b", "a"]},
            ]))
            .prop_map(Some)
            .boxed(),
        ),
        ("targets", targets.prop_map(Some).boxed()),
        ("keys", some(one_of(&json!([{}, {"include": ["a"]}, {"rename": {"a": "b"}}])))),
        ("merge", some(one_of(&json!([{}, {"clashPolicy": "Last", "join": ["a"]}])))),
        ("conflictPolicy", some(one_of(&json!(["Refuse", "Adopt"])))),
        ("sourceDeletionPolicy", some(one_of(&json!(["Retain", "Delete"])))),
        ("deletionPolicy", some(one_of(&json!(["Delete", "Orphan"])))),
        ("resyncSeconds", some(one_of(&json!([60, 600, 86400])))),
        ("suspend", some(one_of(&json!([true, false])))),
        ("dryRun", some(one_of(&json!([true, false])))),
    ]);
    fields(vec![
        ("spec", spec.prop_map(Some).boxed()),
        (
            "status",
            some(one_of(&json!([
                {},
                {"conditions": [{"type": "Ready"}, {"type": "TargetsSynced", "status": "False"}]},
                {"conditions": [{"type": "Ready"}, {"type": "Available", "status": "Unknown"}]},
            ]))),
        ),
    ])
    .prop_map(new_sync)
}

fn any_old_token() -> impl Strategy<Value = Value> {
    let spec = fields(vec![
        ("serviceAccount", some(one_of(&json!([{}, {"name": "a"}])))),
        ("secretName", some(one_of(&json!(["s"])))),
        ("audiences", some(one_of(&json!([[], ["a"], ["a", "b"]])))),
        ("expirationSeconds", some(one_of(&json!([600, 3600])))),
    ]);
    fields(vec![("spec", some(spec))]).prop_map(|rest| object("ServiceToken", "v1alpha1", &rest))
}

pub(super) fn any_new_token() -> impl Strategy<Value = Value> {
    let token = |key: &'static str| {
        fields(vec![
            ("key", Just(Some(json!(key))).boxed()),
            ("serviceAccount", one_of(&json!([{"name": "a"}, {"name": "b"}])).prop_map(Some).boxed()),
            ("audiences", some(one_of(&json!([["x"]])))),
            ("expirationSeconds", some(one_of(&json!([600, 3600])))),
            ("notBefore", some(one_of(&json!(["2030-01-01T00:00:00Z"])))),
        ])
    };
    let tokens = (some(token("one")), some(token("token")), some(token("two")))
        .prop_map(|(one, token, two)| [one, token, two].into_iter().flatten().collect::<Vec<_>>())
        .boxed();
    let generate = json!([
        {"count": 3, "name": "bot-{{n}}", "key": "{{n}}"},
        {"count": 1, "name": "a", "labels": {"a": "{{padded}}"}, "annotations": {"b": "c"}, "audiences": ["x"],
         "expirationSeconds": 600},
    ]);
    let spec = fields(vec![
        ("generate", some(one_of(&generate))),
        (
            "writer",
            one_of(&json!([{"serviceAccount": {"name": "a"}}, {"serviceAccount": {"name": "w"}}]))
                .prop_map(Some)
                .boxed(),
        ),
        ("secretName", some(one_of(&json!(["s"])))),
        ("tokens", tokens.prop_map(|tokens| (!tokens.is_empty()).then(|| json!(tokens))).boxed()),
        ("renewAtPercent", some(one_of(&json!([1, 80, 99])))),
    ]);
    spec.prop_filter("one of the two", |spec| spec["tokens"].is_array() || spec["generate"].is_object())
        .prop_map(|spec| object("ServiceToken", "v1beta1", &json!({"spec": spec})))
}

proptest! {
    #[test]
    fn v1alpha1_syncs_come_back_as_they_were(sent in any_old_sync()) {
        prop_assert_eq!(round(&sent, "v1beta1"), sent);
    }

    #[test]
    fn v1beta1_syncs_come_back_as_they_were(sent in any_new_sync()) {
        prop_assert_eq!(with_defaults(round(&sent, "v1alpha1")), sent);
    }

    #[test]
    fn what_is_converted_lacks_no_default_of_its_version(
        sent in prop_oneof![any_old_sync(), any_new_sync(), any_old_token(), any_new_token()]
    ) {
        let other = if sent["apiVersion"] == "weaver.example.com/v1beta1" { "v1alpha1" } else { "v1beta1" };
        let converted = to(other, &sent);
        prop_assert_eq!(with_defaults(converted.clone()), converted);
    }

    #[test]
    fn v1alpha1_tokens_come_back_as_they_were(sent in any_old_token()) {
        prop_assert_eq!(round(&sent, "v1beta1"), sent);
    }

    #[test]
    fn v1beta1_tokens_come_back_as_they_were(sent in any_new_token()) {
        prop_assert_eq!(with_defaults(round(&sent, "v1alpha1")), sent);
    }

    #[test]
    fn any_text_in_the_annotation_is_survived_and_never_reaches_a_visible_field(
        sent in any_old_sync(), text in prop_oneof![".{0,40}", Just(r#"{"version":"v1beta1","exact":{"targets":{"namespaces":["evil"]}},"spec":{"source":{"name":"evil"}}}"#.to_owned())]
    ) {
        let mut sent = sent;
        let clean = to("v1beta1", &sent);
        sent["metadata"]["annotations"] = json!({ANNOTATION: text});
        let stored = to("v1beta1", &sent);
        for path in ["/spec/serviceAccount", "/spec/source/name", "/spec/source/namespace", "/spec/targets/namespaces"] {
            prop_assert_eq!(stored.pointer(path), clean.pointer(path));
        }
    }
}
