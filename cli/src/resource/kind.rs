//! What the verbs need to know of a kind: its names, its rules, its table columns. Pure.

use kube::ResourceExt as _;
use kube::core::{ApiResource, DynamicObject};
use serde::de::DeserializeOwned;
use serde_json::Value;
use weaver_api::GROUP;
use weaver_api::conditions::{READY, bounded};
use weaver_api::crds::STORED;
use weaver_api::v1beta1::{ConfigMapSync, ResourceSync, ServiceToken};
use weaver_api::validate::{SpecFault, validate, validate_resource, validate_token};
use weaver_client::conditions::{Condition, condition};

/// Most bytes of a cell.
const CELL: usize = 253;

/// A kind that users make objects of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    ConfigMapSync,
    ResourceSync,
    ServiceToken,
}

impl Kind {
    pub const ALL: [Self; 3] = [Self::ConfigMapSync, Self::ResourceSync, Self::ServiceToken];

    /// Its name in manifests.
    pub fn name(self) -> &'static str {
        match self {
            Self::ConfigMapSync => "ConfigMapSync",
            Self::ResourceSync => "ResourceSync",
            Self::ServiceToken => "ServiceToken",
        }
    }

    /// Its name on the command line.
    pub fn noun(self) -> &'static str {
        match self {
            Self::ConfigMapSync => "sync",
            Self::ResourceSync => "resource",
            Self::ServiceToken => "token",
        }
    }

    pub fn resource(self) -> ApiResource {
        match self {
            Self::ConfigMapSync => ApiResource::erase::<ConfigMapSync>(&()),
            Self::ResourceSync => ApiResource::erase::<ResourceSync>(&()),
            Self::ServiceToken => ApiResource::erase::<ServiceToken>(&()),
        }
    }

    /// How `-o name` calls an object, as kubectl does.
    pub fn reference(self, name: &str) -> String {
        format!("{}.{GROUP}/{name}", self.name().to_lowercase())
    }

    /// An object as a sentence names it.
    pub fn key(self, namespace: &str, name: &str) -> String {
        format!("{} {namespace}/{name}", self.name())
    }

    /// The same of an object that was read.
    pub fn object_key(self, object: &DynamicObject) -> String {
        self.key(&object.namespace().unwrap_or_default(), &object.name_any())
    }

    /// The kind of a manifest; or why these verbs do not take it, with what to type.
    pub fn of(manifest: &Value) -> Result<Self, String> {
        let [version, kind] =
            ["apiVersion", "kind"].map(|field| manifest[field].as_str().unwrap_or_default());
        let found = Self::ALL.into_iter().find(|known| known.name() == kind);
        match (found, version.split_once('/')) {
            (Some(found), Some((GROUP, STORED))) => Ok(found),
            (Some(_), Some((GROUP, "v1alpha1"))) => Err(format!(
                "is a {kind} at v1alpha1, which is deprecated: `kubectl apply -f` still takes it, and \
                 `kubectl get {}.{GROUP} -o yaml` then shows it at {STORED}",
                kind.to_lowercase()
            )),
            (Some(_), _) => {
                Err(format!("has apiVersion {version:?}: that of a {kind} is \"{GROUP}/{STORED}\""))
            }
            (None, _) if kind.is_empty() => Err(format!(
                "has no kind: begin it with `apiVersion: {GROUP}/{STORED}` and `kind: ConfigMapSync`, `kind: ResourceSync` or `kind: ServiceToken`"
            )),
            (None, _) => Err(format!(
                "is a {kind}, not a ConfigMapSync, ResourceSync or ServiceToken: `kubectl apply -f` is for all other kinds"
            )),
        }
    }

    /// Which rules its spec breaks. A spec that does not even parse is left to the API server, which names the field.
    pub fn faults(self, object: &Value) -> Vec<SpecFault> {
        match self {
            Self::ConfigMapSync => faults(object, |spec| validate(spec).map(|_| ())),
            Self::ResourceSync => faults(object, |spec| validate_resource(spec).map(|_| ())),
            Self::ServiceToken => faults(object, |spec| validate_token(spec).map(|_| ())),
        }
    }

    /// Titles and cells of a table, next to the name.
    pub fn columns(self) -> &'static [Column] {
        match self {
            Self::ConfigMapSync | Self::ResourceSync => &SYNC_COLUMNS,
            Self::ServiceToken => &TOKEN_COLUMNS,
        }
    }
}

fn faults<S: DeserializeOwned>(
    object: &Value,
    rules: impl Fn(Option<&S>) -> Result<(), Vec<SpecFault>>,
) -> Vec<SpecFault> {
    match serde_json::from_value::<Option<S>>(object["spec"].clone()) {
        Ok(spec) => rules(spec.as_ref()).err().unwrap_or_default(),
        Err(_) => Vec::new(),
    }
}

pub struct Column {
    pub title: &'static str,
    pub cell: fn(&DynamicObject) -> String,
}

const SYNC_COLUMNS: [Column; 5] = [
    Column { title: "READY", cell: |object| of_ready(object, |ready| ready.status) },
    Column { title: "REASON", cell: |object| of_ready(object, |ready| ready.reason) },
    Column { title: "SYNCED", cell: |object| share(object, "synced") },
    Column { title: "FAILED", cell: |object| count(object, "failed") },
    Column { title: "CONFLICTS", cell: |object| count(object, "conflicts") },
];

const TOKEN_COLUMNS: [Column; 4] = [
    Column { title: "READY", cell: |object| of_ready(object, |ready| ready.status) },
    Column { title: "REASON", cell: |object| of_ready(object, |ready| ready.reason) },
    Column { title: "FRESH", cell: |object| share(object, "fresh") },
    Column {
        title: "SECRET",
        cell: |object| text(object.data["status"]["secretName"].as_str().unwrap_or_default()),
    },
];

fn of_ready(object: &DynamicObject, field: fn(Condition) -> String) -> String {
    condition(object, READY).map(|ready| text(&field(ready))).unwrap_or_default()
}

/// `2/3`: so many of those that shall be.
fn share(object: &DynamicObject, done: &str) -> String {
    match (count(object, done).as_str(), count(object, "desired").as_str()) {
        ("", "") => String::new(),
        (done, desired) => format!("{done}/{desired}"),
    }
}

fn count(object: &DynamicObject, field: &str) -> String {
    object.data["status"]["counts"][field].as_i64().map(|count| count.to_string()).unwrap_or_default()
}

/// Anyone who may write a status controls its content, and a table goes to a terminal.
fn text(value: &str) -> String {
    bounded(value, CELL).replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_manifest_of_another_kind_is_refused_naming_the_command_that_takes_it() {
        let of = |version: &str, kind: &str| Kind::of(&json!({"apiVersion": version, "kind": kind}));
        assert_eq!(of("weaver.example.com/v1beta1", "ConfigMapSync"), Ok(Kind::ConfigMapSync));
        assert_eq!(of("weaver.example.com/v1beta1", "ServiceToken"), Ok(Kind::ServiceToken));
        for (version, kind, words) in [
            (
                "v1",
                "Secret",
                "is a Secret, not a ConfigMapSync, ResourceSync or ServiceToken: `kubectl apply -f`",
            ),
            ("weaver.example.com/v1alpha1", "ServiceToken", "deprecated: `kubectl apply -f` still takes it"),
            ("v1", "ConfigMapSync", "has apiVersion \"v1\": that of a ConfigMapSync is"),
            ("v1", "", "has no kind: begin it with"),
        ] {
            let said = of(version, kind).unwrap_err();
            assert!(said.contains(words), "{said}");
        }
    }

    #[test]
    fn each_kind_is_judged_by_its_own_rules() {
        for (kind, spec, field) in [
            (Kind::ConfigMapSync, json!({"serviceAccount": {"name": "a"}}), Some("spec.source.namespace")),
            (Kind::ResourceSync, json!({"serviceAccount": {"name": "a"}}), Some("spec.source.apiVersion")),
            (Kind::ServiceToken, json!({"writer": {"serviceAccount": {"name": "a"}}}), Some("spec.tokens")),
            (Kind::ServiceToken, Value::Null, Some("spec.writer.serviceAccount.name")),
            (Kind::ConfigMapSync, json!({"resyncSeconds": "often"}), None),
        ] {
            let faults = kind.faults(&json!({"spec": spec}));
            assert_eq!(faults.first().map(SpecFault::field), field, "{spec}");
        }
    }

    #[test]
    fn cells_say_what_the_status_says_and_nothing_to_a_terminal() {
        let cells = |kind: Kind, status: Value| -> Vec<String> {
            let object = serde_json::from_value(json!({"status": status})).unwrap();
            kind.columns().iter().map(|column| (column.cell)(&object)).collect()
        };
        let conditions = json!([{"type": "Ready", "status": "False", "reason": "\u{1b}[2JOut\nofOrder"}]);
        let counts = json!({"desired": 3, "synced": 2, "failed": 1, "conflicts": 0});
        let found = cells(Kind::ConfigMapSync, json!({"conditions": conditions, "counts": counts}));
        assert_eq!(found, ["False", " [2JOut ofOrder", "2/3", "1", "0"]);
        let found = cells(
            Kind::ServiceToken,
            json!({"counts": {"desired": 1, "fresh": 1}, "secretName": "registry"}),
        );
        assert_eq!(found, ["", "", "1/1", "registry"]);
        assert!(cells(Kind::ConfigMapSync, Value::Null).iter().all(String::is_empty));
    }
}
