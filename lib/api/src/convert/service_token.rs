//! `ServiceToken`: v1alpha1 shows the one token under the key `token`, whose account writes the Secret.

use serde_json::{Value, json};

use super::conditions;
use super::fields::{Default, Spec, VersionField, fill, pick, put, set};
use super::kind_version::{self, KindVersion, Split};
use super::types::fits;

pub(super) const OLD: KindVersion = KindVersion {
    kind: "ServiceToken",
    version: kind_version::OLD,
    split: split_old,
    put: |_, hidden| hidden,
    form: |field, _| field != crate::schema::ROUND_TRIP_FIELD,
    fill: |spec| {
        spec.entry("expirationSeconds").or_insert_with(|| LIFETIME.into());
    },
    status: &[],
    conditions: &[conditions::AVAILABLE],
};

pub(super) const NEW: KindVersion = KindVersion {
    kind: "ServiceToken",
    version: kind_version::NEW,
    split: split_new,
    put: put_new,
    form: |field, value| new_allows(&[field], value),
    fill: fill_new,
    status: &[],
    conditions: &[],
};

/// Key of the token that v1alpha1 shows.
const KEY: &str = "token";

/// Fields of a token that v1alpha1 shows.
const SHOWN: [&str; 3] = ["serviceAccount", "audiences", "expirationSeconds"];

const LIFETIME: i64 = 3_600;

const NEW_ONLY: &[VersionField] = &[
    VersionField { path: &["writer"], default: None },
    VersionField { path: &["generate"], default: None },
    VersionField { path: &["renewAtPercent"], default: Some(Default::Number(80)) },
];

fn split_old(old: &Spec) -> Split {
    let mut visible = Spec::new();
    if let Some(name) = old.get("secretName") {
        visible.insert("secretName".into(), name.clone());
    }
    let token = SHOWN.iter().filter_map(|field| Some(((*field).to_owned(), old.get(*field)?.clone())));
    let token: Spec = token.collect();
    // The lifetime alone is only its default: there is no token yet.
    if token.contains_key("serviceAccount")
        || token.contains_key("audiences")
        || token.get("expirationSeconds").is_some_and(|seconds| *seconds != LIFETIME)
    {
        let mut entry = Spec::from_iter([("key".to_owned(), Value::from(KEY))]);
        entry.extend(token);
        visible.insert("tokens".into(), json!([entry]));
    }
    if let Some(account) = old.get("serviceAccount") {
        set(&mut visible, &["writer", "serviceAccount"], account.clone());
    }
    Split { visible, hidden: Spec::new() }
}

fn split_new(new: &Spec) -> Split {
    let mut visible = Spec::new();
    let mut hidden = pick(new, NEW_ONLY);
    if let Some(name) = new.get("secretName") {
        visible.insert("secretName".into(), name.clone());
    }
    let mut rest = new.get("tokens").cloned();
    if let Some(entry) = rest.as_mut().and_then(token_of) {
        for field in SHOWN {
            if let Some(value) = entry.remove(field) {
                visible.insert(field.to_owned(), value);
            }
        }
    }
    // v1alpha1 always shows a lifetime, as its own default would.
    visible.entry("expirationSeconds").or_insert_with(|| LIFETIME.into());
    if let Some(rest) = rest.filter(|rest| *rest != json!([{"key": KEY}]) && *rest != json!([])) {
        hidden.insert("tokens".into(), rest);
    }
    // The writer that v1alpha1 means anyway.
    if visible.get("serviceAccount").map(|account| json!({"serviceAccount": account})).as_ref()
        == hidden.get("writer")
    {
        hidden.remove("writer");
    }
    Split { visible, hidden }
}

fn put_new(new: &mut Spec, mut hidden: Spec) -> Spec {
    let tokens = hidden.remove("tokens");
    let mut ignored = put(new, hidden, NEW_ONLY, new_allows);
    let Some(tokens) = tokens else { return ignored };
    match joined(new.get("tokens"), &tokens) {
        Some(joined) => drop(new.insert("tokens".into(), joined)),
        None => drop(ignored.insert("tokens".into(), tokens)),
    }
    ignored
}

/// The list of tokens: the hidden entries, with the fields that v1alpha1 shows replaced by its own.
fn joined(shown: Option<&Value>, hidden: &Value) -> Option<Value> {
    let shown = shown.and_then(|list| list.get(0)).and_then(Value::as_object);
    let mut list = hidden.clone();
    match (token_of(&mut list), shown) {
        (Some(entry), Some(shown)) => entry.extend(shown.clone()),
        (None, Some(shown)) => list.as_array_mut()?.push(Value::Object(shown.clone())),
        // v1alpha1 shows it no longer: it was taken away there.
        (Some(_), None) => list.as_array_mut()?.retain(|entry| entry["key"] != KEY),
        (None, None) => {}
    }
    new_allows(&["tokens"], &list).then_some(list)
}

fn token_of(tokens: &mut Value) -> Option<&mut Spec> {
    tokens.as_array_mut()?.iter_mut().find(|entry| entry["key"] == KEY)?.as_object_mut()
}

fn fill_new(new: &mut Spec) {
    fill(new, NEW_ONLY);
    let tokens = new.get_mut("tokens").and_then(Value::as_array_mut);
    for token in tokens.into_iter().flatten().filter_map(Value::as_object_mut) {
        token.entry("expirationSeconds").or_insert_with(|| LIFETIME.into());
    }
    if let Some(generate) = new.get_mut("generate").and_then(Value::as_object_mut) {
        generate.entry("expirationSeconds").or_insert_with(|| LIFETIME.into());
    }
}

fn new_allows(path: &[&str], value: &Value) -> bool {
    fits("ServiceToken", path, value)
}
