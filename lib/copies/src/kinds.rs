//! What is copied of an object of any kind, and which kinds are not copied. Pure; two tables, with the reasons.
//!
//! Of each kind all is copied but what the API server or a controller writes there: `status`, and of the metadata
//! everything but labels and annotations ([`crate::metadata`]). [`NEVER`] and [`WITHOUT`] have the exceptions, for the
//! kinds that Kubernetes and k3s serve; of a kind that they do not name, a custom resource, nothing else is known and
//! all is copied.
//!
//! What is not copied is not compared either, and an update leaves it to the copy as it is there.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;
use weaver_api::GROUP;

use crate::object::{Fields, Object};

/// What becomes of a kind.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Treatment {
    /// It is copied, without these.
    Without(&'static [Omitted]),
    /// It is not, for this reason: a sentence that follows the kind.
    Never(&'static str),
}

/// A field that is not copied.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Omitted {
    /// Its path; `[]` means each item of a list.
    path: &'static [&'static str],
    /// It is copied all the same where it has this value, in a list or alone: then it was asked for.
    but: Option<&'static str>,
    /// The API server takes an update without it for its removal, so an update has that of the copy.
    stays: bool,
}

const fn assigned(path: &'static [&'static str]) -> Omitted {
    Omitted { path, but: None, stays: false }
}

const fn staying(path: &'static [&'static str]) -> Omitted {
    Omitted { path, but: None, stays: true }
}

const STATUS: Omitted = staying(&["status"]);
const NOTHING_ELSE: Treatment = Treatment::Without(&[STATUS]);

/// Kinds that are not copied, by group and kind; why not, as a sentence that follows the kind.
const NEVER: &[(&str, &str, &str)] = &[
    ("", "ConfigMap", "is copied by a ConfigMapSync"),
    ("", "Secret", "is copied by a ConfigMapSync"),
    ("", "Pod", "is bound to a node when it starts: copy what makes it, such as a Deployment"),
    ("", "Endpoints", "is made by the control plane for a Service: copy the Service"),
    ("", "Event", "says what happened in its own namespace"),
    ("apps", "ReplicaSet", "is made by a Deployment: copy the Deployment"),
    ("apps", "ControllerRevision", "is made by a StatefulSet or DaemonSet: copy that"),
    ("batch", "Job", "runs once, and its copies would run again each time one is cleaned up: copy a CronJob"),
    ("coordination.k8s.io", "Lease", "is renewed by its holder, who would fight with the copies"),
    ("coordination.k8s.io", "LeaseCandidate", "is renewed by the candidate itself"),
    ("discovery.k8s.io", "EndpointSlice", "is made by the control plane for a Service: copy the Service"),
    ("events.k8s.io", "Event", "says what happened in its own namespace"),
    ("metrics.k8s.io", "PodMetrics", "is measured"),
    ("resource.k8s.io", "ResourceClaim", "is allocated to one Pod: copy a ResourceClaimTemplate"),
    ("storage.k8s.io", "CSIStorageCapacity", "is reported by a storage driver"),
    (
        "helm.cattle.io",
        "HelmChart",
        "is a release of its name in its targetNamespace, which a copy would share and remove",
    ),
    ("k3s.cattle.io", "Addon", "is written by k3s for a file of its own"),
    ("k3s.cattle.io", "ETCDSnapshotFile", "is written by k3s for a snapshot of its own"),
];

/// What is left out of others, by group and kind.
const WITHOUT: &[(&str, &str, &[Omitted])] = &[
    (
        "",
        "Service",
        &[
            STATUS,
            // Addresses and ports of the cluster, each given once. A headless Service asks for none.
            Omitted { path: &["spec", "clusterIP"], but: Some("None"), stays: false },
            Omitted { path: &["spec", "clusterIPs"], but: Some("None"), stays: false },
            assigned(&["spec", "ports", "[]", "nodePort"]),
            assigned(&["spec", "healthCheckNodePort"]),
            // The traffic to them is the source's.
            assigned(&["spec", "externalIPs"]),
            assigned(&["spec", "loadBalancerIP"]),
        ],
    ),
    // The volume that is bound to one claim.
    ("", "PersistentVolumeClaim", &[STATUS, staying(&["spec", "volumeName"])]),
    // Names of Secrets with tokens of the source. `imagePullSecrets` is copied: it names what may be there too.
    ("", "ServiceAccount", &[STATUS, staying(&["secrets"])]),
];

/// Beginnings of labels and annotations that controllers of Kubernetes write on what they have worked on. A copy with
/// them would look processed too: a `PersistentVolumeClaim` with `pv.kubernetes.io/bind-completed` is lost forever.
const WRITTEN_BY_CONTROLLERS: [&str; 13] = [
    // At autoscaling/v1 other annotations of this domain are parts of the spec.
    "autoscaling.alpha.kubernetes.io/conditions",
    "autoscaling.alpha.kubernetes.io/current-metrics",
    "batch.kubernetes.io/",
    "control-plane.alpha.kubernetes.io/",
    "controller-revision-hash",
    "deployment.kubernetes.io/",
    "deprecated.daemonset.template.generation",
    "field.cattle.io/",
    "pod-template-hash",
    "pv.kubernetes.io/",
    "statefulset.kubernetes.io/",
    "volume.beta.kubernetes.io/storage-provisioner",
    "volume.kubernetes.io/",
];

/// What becomes of a kind of this group; the group is empty for the core group.
pub fn treatment(group: &str, kind: &str) -> Treatment {
    if group == GROUP {
        return Treatment::Never("is of Config Weaver itself: a copy would copy in turn");
    }
    if let Some((.., why)) = NEVER.iter().find(|row| (row.0, row.1) == (group, kind)) {
        return Treatment::Never(why);
    }
    let row = WITHOUT.iter().find(|row| (row.0, row.1) == (group, kind));
    row.map_or(NOTHING_ELSE, |(.., omitted)| Treatment::Without(omitted))
}

/// What is copied of `object`: its fields without those that are not.
pub fn copied(object: &Object) -> Fields {
    let mut fields = object.rest.clone();
    for omitted in omitted(object) {
        take(&mut fields, omitted);
    }
    fields
}

/// What an update of `object` has to leave to it, next to what is copied.
pub fn staying_on(object: &Object) -> Vec<(&'static [&'static str], Value)> {
    let found = |omitted: &'static Omitted| {
        let (first, rest) = omitted.path.split_first()?;
        let value = rest.iter().try_fold(object.rest.get(*first)?, |value, name| value.get(name))?;
        Some((omitted.path, value.clone()))
    };
    omitted(object).iter().filter(|omitted| omitted.stays).filter_map(found).collect()
}

/// Gives `fields` back what stays.
pub fn put_back(fields: &mut Fields, staying: &[(&'static [&'static str], Value)]) {
    for (path, value) in staying {
        let Some((first, rest)) = path.split_first() else { continue };
        if rest.is_empty() {
            fields.insert((*first).to_owned(), value.clone());
            continue;
        }
        let parent = rest[..rest.len() - 1].iter().try_fold(fields.get_mut(*first), |value, name| {
            Some(value.and_then(|value| value.get_mut(name)))
        });
        if let Some(Some(Value::Object(parent))) = parent {
            parent.insert(rest[rest.len() - 1].to_owned(), value.clone());
        }
    }
}

/// `meta` of a source without what controllers have written.
pub fn metadata_of(object: &Object) -> Cow<'_, ObjectMeta> {
    let is_theirs = |key: &String| WRITTEN_BY_CONTROLLERS.iter().any(|prefix| key.starts_with(prefix));
    let meta = &object.metadata;
    let mut keys = meta.labels.iter().flatten().chain(meta.annotations.iter().flatten());
    if object.is_of_config_map_sync() || !keys.any(|(key, _)| is_theirs(key)) {
        return Cow::Borrowed(meta);
    }
    let mut meta = meta.clone();
    for map in [&mut meta.labels, &mut meta.annotations].into_iter().flatten() {
        map.retain(|key, _| !is_theirs(key));
    }
    Cow::Owned(meta)
}

fn omitted(object: &Object) -> &'static [Omitted] {
    let group = object.api_version.split_once('/').map_or("", |(group, _)| group);
    match treatment(group, &object.kind) {
        Treatment::Without(omitted) => omitted,
        Treatment::Never(_) => &[],
    }
}

fn take(fields: &mut Fields, omitted: &Omitted) {
    match omitted.path {
        [] => {}
        [field] => {
            fields.remove(*field);
        }
        [field, rest @ ..] => {
            if let Some(value) = fields.get_mut(*field) {
                take_below(value, rest, omitted.but);
            }
        }
    }
}

fn take_below(value: &mut Value, path: &[&str], but: Option<&str>) {
    match (value, path) {
        (Value::Array(items), ["[]", rest @ ..]) => {
            for item in items {
                take_below(item, rest, but);
            }
        }
        (Value::Object(fields), [field]) => {
            let is_asked_for = |value: &Value| match value {
                Value::Array(items) => items.iter().any(|item| item.as_str() == but),
                value => value.as_str() == but,
            };
            if !(but.is_some() && fields.get(*field).is_some_and(is_asked_for)) {
                fields.remove(*field);
            }
        }
        (Value::Object(fields), [field, rest @ ..]) => {
            if let Some(value) = fields.get_mut(*field) {
                take_below(value, rest, but);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Object {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn what_the_cluster_assigns_is_not_copied_and_what_was_asked_for_is() {
        for (version, kind, fields, expected) in [
            (
                "v1",
                "Service",
                json!({"spec": {"type": "NodePort", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
                    "ipFamilies": ["IPv4"], "healthCheckNodePort": 30001,
                    "externalIPs": ["192.0.2.1"], "loadBalancerIP": "192.0.2.2",
                    "ports": [{"port": 80, "nodePort": 30000}, {"port": 81}]},
                    "status": {"loadBalancer": {}}}),
                json!({"spec": {"type": "NodePort", "ipFamilies": ["IPv4"], "ports": [{"port": 80}, {"port": 81}]}}),
            ),
            (
                "v1",
                "Service",
                json!({"spec": {"clusterIP": "None", "clusterIPs": ["None"]}}),
                json!({"spec": {"clusterIP": "None", "clusterIPs": ["None"]}}),
            ),
            (
                "v1",
                "PersistentVolumeClaim",
                json!({"spec": {"storageClassName": "local-path", "volumeName": "pvc-1"}, "status": {"phase": "Bound"}}),
                json!({"spec": {"storageClassName": "local-path"}}),
            ),
            (
                "v1",
                "ServiceAccount",
                json!({"secrets": [{"name": "token"}], "imagePullSecrets": [{"name": "registry"}]}),
                json!({"imagePullSecrets": [{"name": "registry"}]}),
            ),
            (
                "rbac.authorization.k8s.io/v1",
                "Role",
                json!({"rules": [{"verbs": ["get"]}]}),
                json!({"rules": [{"verbs": ["get"]}]}),
            ),
            // Of other people's kinds a field of any name and form is theirs.
            (
                "example.com/v1",
                "Widget",
                json!({"data": {"a": {"b": 1}}, "type": 7, "immutable": "no", "status": {"ready": true},
                    "spec": {"clusterIP": "10.0.0.1"}}),
                json!({"data": {"a": {"b": 1}}, "type": 7, "immutable": "no", "spec": {"clusterIP": "10.0.0.1"}}),
            ),
            // What does not have the form that is expected stays as it is.
            ("v1", "Service", json!({"spec": {"ports": "none"}}), json!({"spec": {"ports": "none"}})),
            ("v1", "Service", json!({"spec": null}), json!({"spec": null})),
        ] {
            let mut value = fields.clone();
            value["apiVersion"] = version.into();
            value["kind"] = kind.into();
            assert_eq!(json!(copied(&object(value))), expected, "{version} {kind} {fields}");
        }
    }

    #[test]
    fn an_update_leaves_a_copy_what_it_was_assigned() {
        let claim = object(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "spec": {"volumeName": "pvc-2", "resources": {}}, "status": {"phase": "Bound"}}));
        let mut fields: Fields = serde_json::from_value(json!({"spec": {"resources": {"a": 1}}})).unwrap();
        put_back(&mut fields, &staying_on(&claim));
        let expected =
            json!({"spec": {"resources": {"a": 1}, "volumeName": "pvc-2"}, "status": {"phase": "Bound"}});
        assert_eq!(json!(fields), expected);
        // Of a Service the API server itself keeps it.
        let service =
            object(json!({"apiVersion": "v1", "kind": "Service", "spec": {"clusterIP": "10.0.0.1"}}));
        assert!(staying_on(&service).is_empty());
    }

    #[test]
    fn kinds_that_controllers_make_and_our_own_are_refused_with_what_to_copy_instead() {
        for (group, kind) in [
            ("", "Pod"),
            ("", "Secret"),
            ("apps", "ReplicaSet"),
            ("batch", "Job"),
            ("discovery.k8s.io", "EndpointSlice"),
            ("weaver.example.com", "ConfigMapSync"),
            ("weaver.example.com", "ResourceSync"),
        ] {
            assert!(matches!(treatment(group, kind), Treatment::Never(_)), "{group} {kind}");
        }
        for (group, kind) in [("apps", "Deployment"), ("example.com", "Pod"), ("batch", "CronJob")] {
            assert_eq!(treatment(group, kind), NOTHING_ELSE, "{group} {kind}");
        }
        let never = NEVER.iter().map(|row| (row.0, row.1));
        let mut rows: Vec<_> = never.chain(WITHOUT.iter().map(|row| (row.0, row.1))).collect();
        let all = rows.len();
        rows.sort_unstable();
        rows.dedup();
        assert_eq!(rows.len(), all, "a kind is named twice");
        // A status is of the object itself, whatever its kind.
        assert!(WITHOUT.iter().all(|(.., omitted)| omitted.contains(&STATUS)));
    }

    #[test]
    fn what_controllers_have_written_on_a_source_is_not_said_of_its_copies() {
        let claim = object(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {
            "labels": {"app.kubernetes.io/name": "db"},
            "annotations": {"pv.kubernetes.io/bind-completed": "yes", "note": "mine"},
        }}));
        let meta = metadata_of(&claim).into_owned();
        assert_eq!(json!(meta.annotations), json!({"note": "mine"}));
        assert_eq!(json!(meta.labels), json!({"app.kubernetes.io/name": "db"}));
        let asks = json!({
            "autoscaling.alpha.kubernetes.io/behavior": "{}",
            "volume.beta.kubernetes.io/storage-class": "fast",
        });
        let scaler = object(json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler",
                                   "metadata": {"annotations": asks}}));
        assert_eq!(json!(metadata_of(&scaler).annotations), asks, "parts of the spec");
        let map = object(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}}));
        assert_eq!(json!(metadata_of(&map).annotations), json!({"pv.kubernetes.io/bind-completed": "yes"}));
    }
}
