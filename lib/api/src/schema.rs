//! What the generated schemas need beyond the types: CEL rules, patterns, and where `null` is allowed.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool, ValidationRule,
};
use serde_json::{Value, json};

/// Field of a spec at v1alpha1 in which conversion keeps what does not fit into the annotation.
pub const ROUND_TRIP_FIELD: &str = "roundTrip";

/// Values of labels. <https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/>
pub const LABEL_VALUE_PATTERN: &str = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";

/// Keys of a ConfigMap or a Secret. <https://kubernetes.io/docs/concepts/configuration/configmap/>
pub const KEY_PATTERN: &str = r"^\.?[-_a-zA-Z0-9][-._a-zA-Z0-9]*$";

/// Beginnings of label and annotation keys that users may not set on a copy: our ownership labels and annotations and
/// upstream's, Kubernetes' own, and those by which deployment tools know what they made and would then delete.
pub const RESERVED_PREFIXES: [&str; 7] = [
    "weaver.example.com/",
    "configmapsync.io/",
    "kubernetes.io/",
    "k8s.io/",
    "kubectl.kubernetes.io/",
    "meta.helm.sh/",
    "argocd.argoproj.io/",
];

/// Whole keys that are reserved for the same reasons.
pub const RESERVED_KEYS: [&str; 4] =
    ["app.kubernetes.io/managed-by", "app.kubernetes.io/instance", "cmsOwnerName", "cmsOwnerNamespace"];

/// Beginnings of keys that a source may carry and a copy must not, besides the reserved ones: by some a deployment
/// tool knows what it made and removes what it has no manifest of (k3s' own addons, Flux, kapp, Helm), by the others
/// a syncer or cert-manager would take the copy for one of its sources. The admission policy `weaver-accounts`
/// has the same list: a change of these keys of a ServiceToken needs no right on the accounts that it names.
pub const NEVER_COPIED: [&str; 9] = [
    "objectset.rio.cattle.io/",
    "kustomize.toolkit.fluxcd.io/",
    "helm.toolkit.fluxcd.io/",
    "kapp.k14s.io/",
    "helm.sh/",
    "replicator.v1.mittwald.de/",
    "reflector.v1.k8s.emberstack.com/",
    "kubed.appscode.com/",
    "cert-manager.io/",
];

/// Is this label or annotation reserved, so that users may not set it on a copy?
pub fn is_reserved(key: &str) -> bool {
    RESERVED_KEYS.contains(&key) || RESERVED_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
}

/// A CEL rule on a value.
pub(crate) fn rule(rule: &str, message: &str) -> Value {
    json!({"rule": rule, "message": message})
}

/// A CEL rule whose message is about one `field` of the value.
pub(crate) fn rule_at(field: &str, rule: &str, message: &str) -> Value {
    json!({"rule": rule, "message": message, "fieldPath": format!(".{field}")})
}

/// `field` keeps the value it was created with, or stays absent.
pub(crate) fn immutable(field: &str) -> Value {
    let rule = format!(
        "has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})"
    );
    rule_at(field, &rule, &format!("{field} cannot be changed, added or removed"))
}

/// No key of a map is reserved ([`is_reserved`]).
pub(crate) fn no_reserved_key() -> Value {
    let prefixes = RESERVED_PREFIXES.map(|prefix| format!("key.startsWith('{prefix}')"));
    let keys = RESERVED_KEYS.map(|key| format!("'{key}'"));
    let reserved = format!("key in [{}] || {}", keys.join(", "), prefixes.join(" || "));
    let message = "keys of Kubernetes, of this operator and of deployment tools cannot be set";
    rule(&format!("self.all(key, !({reserved}))"), message)
}

/// Fields that accept `null`, by plural name, version and path. Everywhere else an optional field is left out.
/// Templates often write `null` for a value that is not set; here it has the meaning of "not set" anyway.
const NULLABLE: [(&str, &str, &[&str]); 2] = [
    ("configmapsyncs", "v1beta1", &["spec", "targets", "name"]),
    ("resourcesyncs", "v1beta1", &["spec", "targets", "name"]),
];

/// The kinds, by plural name, of which no object is without spec: v1alpha1 allows that, and a released version keeps
/// what it accepts. Or a spec that is taken away and written again would change what must stay.
const WITH_SPEC: [&str; 1] = ["resourcesyncs"];

/// The definition with what the derive cannot express: `null` only in [`NULLABLE`] fields, no default for what is
/// required, each paragraph of a description on one line.
pub(crate) fn finished(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut crd.spec.versions {
        let root = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut());
        let Some(root) = root else { continue };
        finish(root);
        if WITH_SPEC.contains(&&*crd.spec.names.plural) {
            root.required = Some(vec!["spec".to_owned()]);
        }
        root.x_kubernetes_validations = round_trip_kept(root).map(|rule| vec![rule]);
        for (plural, name, path) in NULLABLE {
            if plural == crd.spec.names.plural && name == version.name {
                allow_null(root, path);
            }
        }
    }
    crd
}

/// Where a spec has the field in which conversion carries what does not fit elsewhere, a write keeps it as it
/// is. At the root, because the spec may go as a whole. Who creates an object may bring one, as a restored backup does.
pub fn round_trip_kept(root: &JSONSchemaProps) -> Option<ValidationRule> {
    let spec = root.properties.as_ref()?.get("spec")?;
    spec.properties.as_ref()?.get(ROUND_TRIP_FIELD)?;
    let of = |object: &str| format!("has({object}.spec) && has({object}.spec.roundTrip)");
    let (new, old) = (of("self"), of("oldSelf"));
    Some(ValidationRule {
        rule: format!("({new}) == ({old}) && (!({new}) || self.spec.roundTrip == oldSelf.spec.roundTrip)"),
        message: Some(
            "spec.roundTrip cannot be changed, added or removed: this object has more than v1alpha1 can show; edit \
             it at v1beta1"
                .into(),
        ),
        ..ValidationRule::default()
    })
}

fn finish(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    schema.description = schema.description.take().map(|text| {
        let paragraphs: Vec<String> = text.split("\n\n").map(|part| part.replace('\n', " ")).collect();
        paragraphs.join("\n\n")
    });
    for (name, field) in schema.properties.iter_mut().flatten() {
        finish(field);
        if schema.required.iter().flatten().any(|required| required == name) {
            field.default = None;
        }
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        finish(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        finish(values);
    }
}

fn allow_null(schema: &mut JSONSchemaProps, path: &[&str]) {
    match path {
        [] => schema.nullable = Some(true),
        [field, rest @ ..] => {
            if let Some(next) = schema.properties.as_mut().and_then(|fields| fields.get_mut(*field)) {
                allow_null(next, rest);
            }
        }
    }
}
