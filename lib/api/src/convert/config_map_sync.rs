//! `ConfigMapSync`: v1alpha1 shows the account, the source's name and the list of namespaces.

use serde_json::{Value, json};

use super::conditions;
use super::fields::{Default, Spec, VersionField, fill, get, pick, put, set};
use super::kind_version::{self, KindVersion, Split};
use super::types::fits;

pub(super) const OLD: KindVersion = KindVersion {
    kind: "ConfigMapSync",
    version: kind_version::OLD,
    split: split_old,
    put: |spec, hidden| put(spec, hidden, OLD_ONLY, old_allows),
    form: |field, _| field != crate::schema::ROUND_TRIP_FIELD,
    fill: |spec| {
        spec.entry("serviceAccount").or_insert_with(|| json!({"name": "default"}));
    },
    status: &["test"],
    conditions: conditions::OF_SYNC,
};

pub(super) const NEW: KindVersion = KindVersion {
    kind: "ConfigMapSync",
    version: kind_version::NEW,
    split: split_new,
    put: |spec, hidden| put(spec, hidden, NEW_ONLY, new_allows),
    form: |field, value| fits("ConfigMapSync", &[field], value),
    fill: |spec| fill(spec, NEW_ONLY),
    status: &[],
    conditions: &[],
};

const OLD_ONLY: &[VersionField] = &[VersionField { path: &["testNum"], default: None }];

const NEW_ONLY: &[VersionField] = &[
    VersionField { path: &["source", "kind"], default: Some(Default::Text("ConfigMap")) },
    VersionField { path: &["source", "names"], default: None },
    VersionField { path: &["source", "selector"], default: None },
    VersionField { path: &["targets", "patterns"], default: None },
    VersionField { path: &["targets", "selector"], default: None },
    VersionField { path: &["targets", "exclude"], default: None },
    VersionField { path: &["targets", "name"], default: None },
    VersionField { path: &["targets", "namePrefix"], default: None },
    VersionField { path: &["targets", "nameSuffix"], default: None },
    VersionField { path: &["targets", "labels"], default: None },
    VersionField { path: &["targets", "annotations"], default: None },
    VersionField { path: &["keys"], default: None },
    VersionField { path: &["merge"], default: None },
    VersionField { path: &["conflictPolicy"], default: Some(Default::Text("Refuse")) },
    VersionField { path: &["sourceDeletionPolicy"], default: Some(Default::Text("Retain")) },
    VersionField { path: &["deletionPolicy"], default: Some(Default::Text("Delete")) },
    VersionField { path: &["resyncSeconds"], default: Some(Default::Number(600)) },
    VersionField { path: &["suspend"], default: Some(Default::False) },
    VersionField { path: &["dryRun"], default: Some(Default::False) },
];

fn split_old(old: &Spec) -> Split {
    let mut visible = Spec::new();
    match old.get("serviceAccount") {
        // No account is none; v1beta1 has no default, and the operator says what is missing.
        Some(Value::Object(account)) => {
            if let Some(name) = account.get("name").filter(|name| **name != "") {
                set(&mut visible, &["serviceAccount", "name"], name.clone());
            }
        }
        Some(odd) => drop(visible.insert("serviceAccount".into(), odd.clone())),
        None => {}
    }
    copy_source(old, &mut visible);
    if let Some(namespaces) = old.get("syncToNamespaces").filter(|list| **list != json!([])) {
        set(&mut visible, &["targets", "namespaces"], each_once(namespaces));
    }
    Split { visible, hidden: pick(old, OLD_ONLY) }
}

fn split_new(new: &Spec) -> Split {
    let mut visible = Spec::new();
    let account = match new.get("serviceAccount") {
        Some(Value::Object(account)) => {
            account.get("name").filter(|name| **name != "").map(|name| json!({"name": name}))
        }
        odd => odd.cloned(),
    };
    // Written even where there is none: v1alpha1 would fill in `default` for one that is absent.
    visible.insert("serviceAccount".into(), account.unwrap_or_else(|| json!({})));
    copy_source(new, &mut visible);
    if let Some(namespaces) = get(new, &["targets", "namespaces"]).filter(|list| **list != json!([])) {
        visible.insert("syncToNamespaces".into(), namespaces.clone());
    }
    Split { visible, hidden: pick(new, NEW_ONLY) }
}

fn copy_source(from: &Spec, to: &mut Spec) {
    match from.get("source") {
        Some(Value::Object(source)) => {
            for part in ["namespace", "name"] {
                if let Some(value) = source.get(part) {
                    set(to, &["source", part], value.clone());
                }
            }
        }
        Some(odd) => drop(to.insert("source".into(), odd.clone())),
        None => {}
    }
}

/// v1beta1's list is a set. Anything but a list of names stays what it is.
fn each_once(namespaces: &Value) -> Value {
    let Some(list) = namespaces.as_array().filter(|list| list.iter().all(Value::is_string)) else {
        return namespaces.clone();
    };
    let mut seen = std::collections::BTreeSet::new();
    list.iter().filter(|name| seen.insert(name.as_str())).cloned().collect()
}

fn old_allows(_: &[&str], value: &Value) -> bool {
    value.as_i64().is_some_and(|number| i32::try_from(number).is_ok())
}

fn new_allows(path: &[&str], value: &Value) -> bool {
    fits("ConfigMapSync", path, value)
}
