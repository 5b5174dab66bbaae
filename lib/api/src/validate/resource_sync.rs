//! The rules of a `ResourceSync`: those of a `ConfigMapSync`, and of the kind that it names.

use super::config_map_sync::validate;
use super::fault::SpecFault;
use super::fields::SpecFaults;
use super::valid_sync::ValidSync;
use super::values::{api_version, kind};
use crate::GROUP;
use crate::kind::ObjectKind;
use crate::v1beta1::{ConfigMapSyncSpec, ResourceSyncSpec};

/// The name of a kind at a version. Whether the API server serves it, is another matter.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct KindName {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version without its group: `v1` of `apps/v1`.
    pub version: String,
    /// Its name in manifests.
    pub kind: String,
}

impl KindName {
    /// Group and version as manifests have them: `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        let Self { group, version, .. } = self;
        if group.is_empty() { version.clone() } else { format!("{group}/{version}") }
    }
}

impl From<ObjectKind> for KindName {
    fn from(kind: ObjectKind) -> Self {
        let [group, version, kind] = [kind.group(), kind.version(), kind.as_str()].map(str::to_owned);
        Self { group, version, kind }
    }
}

/// A spec that keeps all rules.
#[derive(Clone, Debug)]
pub struct ValidResource {
    /// The kind that `spec.source` names: neither `ConfigMap` nor `Secret` of the core group, and none of [`GROUP`].
    pub kind: KindName,
    spec: ValidSync,
}

impl ValidResource {
    /// In the form that the operator executes, where the API server serves its kind as `kind`.
    pub fn of(self, kind: ObjectKind) -> ValidSync {
        ValidSync { source_kind: kind, ..self.spec }
    }
}

/// Checks the spec of a `ResourceSync`. One that is absent lacks all that is required.
///
/// # Errors
/// Every rule that is broken; those of the kind come first.
pub fn validate_resource(spec: Option<&ResourceSyncSpec>) -> Result<ValidResource, Vec<SpecFault>> {
    let spec = spec.cloned().unwrap_or_default();
    let mut faults = SpecFaults::default();
    let source = spec.source.as_ref();
    let version = faults.required(
        "spec.source.apiVersion",
        source.and_then(|source| source.api_version.as_deref()),
        api_version,
        "write the API group and version of what is copied, such as apps/v1 or v1",
    );
    let kind = faults.required(
        "spec.source.kind",
        source.and_then(|source| source.kind.as_deref()),
        kind,
        "write the kind of what is copied, such as Deployment",
    );
    let (group, version) = version.split_once('/').unwrap_or(("", &version));
    let kind = KindName { group: group.to_owned(), version: version.to_owned(), kind };
    if group.is_empty() && ["ConfigMap", "Secret"].contains(&kind.kind.as_str()) {
        let message = format!("v1 {} is copied by a ConfigMapSync: make one instead", kind.kind);
        faults.broken("spec.source.apiVersion", message);
    }
    if group == GROUP {
        let message = format!("{} is not copied: a copy would copy in turn", kind.api_version());
        faults.broken("spec.source.apiVersion", message);
    }
    let immutable_policy = spec.immutable_policy;
    let of_kind = faults.unless_any(());
    match (of_kind, validate(Some(&ConfigMapSyncSpec::from(spec)))) {
        (Ok(()), Ok(spec)) => Ok(ValidResource { kind, spec: ValidSync { immutable_policy, ..spec } }),
        (of_kind, valid) => Err([of_kind.err(), valid.err()].into_iter().flatten().flatten().collect()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::v1beta1::ImmutablePolicy;

    fn spec(source: &Value) -> ResourceSyncSpec {
        serde_json::from_value(json!({
            "serviceAccount": {"name": "sync"}, "source": source, "targets": {"namespaces": ["foo"]},
        }))
        .unwrap()
    }

    fn judged(source: &Value) -> Result<ValidResource, Vec<String>> {
        let valid = validate_resource(Some(&spec(source)));
        valid.map_err(|faults| faults.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_kind_is_named_by_group_version_and_kind() {
        let source = |version: &str, kind: &str| json!({"apiVersion": version, "kind": kind, "namespace": "a", "name": "b"});
        let valid = judged(&source("apps/v1", "Deployment")).unwrap();
        assert_eq!(
            valid.kind,
            KindName { group: "apps".into(), version: "v1".into(), kind: "Deployment".into() }
        );
        let kind = ObjectKind::served("apps", "v1", "Deployment", "deployments");
        let valid = valid.of(kind);
        assert_eq!(
            (valid.source_kind, valid.source_name(), valid.immutable_policy),
            (kind, Some("b"), ImmutablePolicy::Refuse)
        );
        assert_eq!(judged(&source("v1", "Service")).unwrap().kind.api_version(), "v1");
        for (version, kind, field) in [
            ("", "Service", "spec.source.apiVersion is missing"),
            ("v1", "", "spec.source.kind is missing"),
            ("apps/v1/x", "Deployment", "spec.source.apiVersion \"apps/v1/x\""),
            ("/v1", "Deployment", "spec.source.apiVersion \"/v1\""),
            ("Apps/v1", "Deployment", "spec.source.apiVersion \"Apps/v1\""),
            ("apps/v1", "deployments/scale", "spec.source.kind \"deployments/scale\""),
            ("apps/v1", "De ployment", "spec.source.kind \"De ployment\""),
            ("v1", "Secret", "spec.source.apiVersion v1 Secret is copied by a ConfigMapSync"),
            (
                "weaver.example.com/v1beta1",
                "ConfigMapSync",
                "spec.source.apiVersion weaver.example.com/v1beta1 is not",
            ),
        ] {
            let faults = judged(&source(version, kind)).unwrap_err();
            assert!(faults.len() == 1 && faults[0].starts_with(field), "{version} {kind}: {faults:?}");
        }
        let all = validate_resource(None).unwrap_err();
        assert!(all.len() > 4 && all[0].field() == "spec.source.apiVersion", "{all:?}");
    }
}
