//! Each kind that is copied: an object of it, an edit, and what its copy then has.

use serde_json::{Value, json};

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}})
}

/// A kind that is copied: version, kind and plural; an object of it without metadata; an edit, and what the copy then
/// has where.
pub type CopiedKind = (&'static str, &'static str, &'static str, Value, Value, &'static str, Value);

#[expect(clippy::too_many_lines, reason = "a table")]
pub fn copied() -> Vec<CopiedKind> {
    let selector = json!({"matchLabels": {"app": "web"}});
    let rules = |verb: &str| json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": [verb]}]);
    vec![
        (
            "v1",
            "Service",
            "services",
            json!({"spec": {"type": "NodePort", "selector": {"app": "web"},
            "ports": [{"port": 80, "protocol": "TCP"}]}}),
            json!({"spec": {"selector": {"app": "web2"}}}),
            "/spec/selector/app",
            json!("web2"),
        ),
        (
            "v1",
            "ServiceAccount",
            "serviceaccounts",
            json!({"imagePullSecrets": [{"name": "registry"}]}),
            json!({"automountServiceAccountToken": false}),
            "/automountServiceAccountToken",
            json!(false),
        ),
        (
            "v1",
            "LimitRange",
            "limitranges",
            json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "4"}}]}}),
            json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}}]}}),
            "/spec/limits/0/max/cpu",
            json!("2"),
        ),
        (
            "v1",
            "ResourceQuota",
            "resourcequotas",
            json!({"spec": {"hard": {"count/gadgets.example.com": "9"}}}),
            json!({"spec": {"hard": {"count/gadgets.example.com": "8"}}}),
            "/spec/hard/count~1gadgets.example.com",
            json!("8"),
        ),
        (
            "v1",
            "PersistentVolumeClaim",
            "persistentvolumeclaims",
            json!({"spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "none"}}),
            json!({"metadata": {"labels": {"tier": "db"}}}),
            "/metadata/labels/tier",
            json!("db"),
        ),
        (
            "v1",
            "PodTemplate",
            "podtemplates",
            json!({"template": template()}),
            json!({"template": {"metadata": {"labels": {"app": "web2"}}}}),
            "/template/metadata/labels/app",
            json!("web2"),
        ),
        (
            "v1",
            "ReplicationController",
            "replicationcontrollers",
            json!({"spec": {"replicas": 0, "template": template()}}),
            json!({"spec": {"minReadySeconds": 5}}),
            "/spec/minReadySeconds",
            json!(5),
        ),
        (
            "apps/v1",
            "Deployment",
            "deployments",
            json!({"spec": {"replicas": 0, "selector": selector, "template": template()}}),
            json!({"spec": {"paused": true}}),
            "/spec/paused",
            json!(true),
        ),
        (
            "apps/v1",
            "StatefulSet",
            "statefulsets",
            json!({"spec": {"replicas": 0, "serviceName": "web",
            "selector": selector, "template": template()}}),
            json!({"spec": {"minReadySeconds": 5}}),
            "/spec/minReadySeconds",
            json!(5),
        ),
        (
            "apps/v1",
            "DaemonSet",
            "daemonsets",
            json!({"spec": {"selector": selector, "template": template()}}),
            json!({"spec": {"minReadySeconds": 5}}),
            "/spec/minReadySeconds",
            json!(5),
        ),
        (
            "batch/v1",
            "CronJob",
            "cronjobs",
            json!({"spec": {"schedule": "0 0 1 1 *", "suspend": true,
            "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a:1"}]}}}}}}),
            json!({"spec": {"schedule": "0 0 2 1 *"}}),
            "/spec/schedule",
            json!("0 0 2 1 *"),
        ),
        (
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            "horizontalpodautoscalers",
            json!({"spec": {"maxReplicas": 3,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "none"}}}),
            json!({"spec": {"maxReplicas": 4}}),
            "/spec/maxReplicas",
            json!(4),
        ),
        (
            "policy/v1",
            "PodDisruptionBudget",
            "poddisruptionbudgets",
            json!({"spec": {"minAvailable": 1, "selector": selector}}),
            json!({"spec": {"minAvailable": 2}}),
            "/spec/minAvailable",
            json!(2),
        ),
        (
            "networking.k8s.io/v1",
            "NetworkPolicy",
            "networkpolicies",
            json!({"spec": {"podSelector": {}, "policyTypes": ["Ingress"]}}),
            json!({"spec": {"policyTypes": ["Ingress", "Egress"]}}),
            "/spec/policyTypes/1",
            json!("Egress"),
        ),
        (
            "networking.k8s.io/v1",
            "Ingress",
            "ingresses",
            json!({"spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}}),
            json!({"spec": {"ingressClassName": "traefik"}}),
            "/spec/ingressClassName",
            json!("traefik"),
        ),
        (
            "rbac.authorization.k8s.io/v1",
            "Role",
            "roles",
            json!({"rules": rules("get")}),
            json!({"rules": rules("list")}),
            "/rules/0/verbs/0",
            json!("list"),
        ),
        (
            "rbac.authorization.k8s.io/v1",
            "RoleBinding",
            "rolebindings",
            json!({
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "it"},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "a"}]}),
            json!({"subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "b"}]}),
            "/subjects/0/name",
            json!("b"),
        ),
        (
            "traefik.io/v1alpha1",
            "Middleware",
            "middlewares",
            json!({"spec": {"stripPrefix": {"prefixes": ["/a"]}}}),
            json!({"spec": {"stripPrefix": {"prefixes": ["/b"]}}}),
            "/spec/stripPrefix/prefixes/0",
            json!("/b"),
        ),
        (
            "traefik.io/v1alpha1",
            "IngressRoute",
            "ingressroutes",
            json!({"spec": {"routes": [{"match": "Host(`a`)", "kind": "Rule"}]}}),
            json!({"spec": {"entryPoints": ["web"]}}),
            "/spec/entryPoints/0",
            json!("web"),
        ),
        // Fields that a Secret has too, of other types.
        (
            "gadgets.example.com/v1",
            "Gadget",
            "gadgets",
            json!({"type": 7, "immutable": "no", "data": {"a": {"b": 1}}}),
            json!({"data": {"a": {"b": 2}}}),
            "/data/a/b",
            json!(2),
        ),
    ]
}
