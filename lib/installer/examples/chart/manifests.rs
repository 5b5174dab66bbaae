//! The objects of the chart, from the manifests, and what of them a value decides.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Failure;
use super::template::With::{Added, Block, Expression, Lines, More, Optional};
use super::template::{Hole, RenderCondition, With, document};

/// In front of every template.
const HEADER: &str =
    "{{- /* Generated from the manifests in deploy/ by `make generate`; do not edit. */ -}}\n";

/// Files of the repository, and the templates that are made of them.
const SOURCES: [(&str, &str); 6] = [
    ("deploy/rbac/operator.yaml", "operator.yaml"),
    ("deploy/kubernetes/operator.yaml", "operator.yaml"),
    ("deploy/namespaced/rights.yaml", "namespaces.yaml"),
    ("deploy/kubernetes/webhook.yaml", "webhook.yaml"),
    ("deploy/kubernetes/network.yaml", "network.yaml"),
    ("deploy/installer/certificate.yaml", "certificate.yaml"),
];
/// All of it is created before an installation and an upgrade, and deleted afterwards.
const HOOKS: (&str, &str) = ("deploy/installer/install.yaml", "install.yaml");
/// The policy of the installing Job is part of the release and, as this, a hook too: Helm writes a release's
/// own objects after the hooks, so ports that were wrong would keep the Job of the upgrade that corrects them
/// from the API server.
const POLICY: (&str, &str) = ("NetworkPolicy/weaver-installer", "weaver-installer-hook");
/// What Prometheus reads becomes a `PrometheusRule`.
const ALERTS: (&str, &str) = ("deploy/monitoring/alerts.yaml", "rules.yaml");

/// An object of a template.
#[derive(Clone, Debug)]
struct Object {
    /// `KIND/NAME`.
    id: String,
    template: &'static str,
    content: Value,
}

/// All objects of the manifests.
#[derive(Debug)]
pub struct Manifests(Vec<Object>);

/// Reads the files by `read`.
pub fn read(read: impl Fn(&str) -> Result<String, Failure>) -> Result<Manifests, Failure> {
    let mut objects: Vec<Object> = Vec::new();
    for (file, template) in SOURCES.into_iter().chain([HOOKS, ALERTS]) {
        let odd =
            |error: serde_saphyr::Error| Failure::Manifest { file: file.into(), reason: error.to_string() };
        // As kubectl reads them: 0440 is octal.
        let options = serde_saphyr::options! { legacy_octal_numbers: true };
        let contents: Vec<Value> =
            serde_saphyr::from_multiple_with_options(&read(file)?, options).map_err(odd)?;
        for content in contents {
            let content = if template == ALERTS.1 { rule(&content) } else { content };
            let id = format!("{}/{}", text(&content["kind"]), text(&content["metadata"]["name"]));
            // `helm --create-namespace` makes it; and of the bindings in each namespace one is the template for all.
            let again = template == "namespaces.yaml"
                && objects.iter().any(|other| other.id == id && other.template == template);
            if id == POLICY.0 {
                let mut hook = content.clone();
                hook["metadata"]["name"] = json!(POLICY.1);
                let id = format!("NetworkPolicy/{}", POLICY.1);
                objects.push(Object { id, template: HOOKS.1, content: labelled(hook, true) });
            }
            if id != "Namespace/config-weaver" && !again {
                objects.push(Object { id, template, content: labelled(content, template == HOOKS.1) });
            }
        }
    }
    Ok(Manifests(objects))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The alerts as the Prometheus operator reads them.
fn rule(file: &Value) -> Value {
    json!({
        "apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule",
        "metadata": {"name": "weaver", "namespace": "config-weaver"}, "spec": file,
    })
}

/// With what is Helm's in its metadata. Selectors and templates of pods keep their own labels, which never change.
fn labelled(mut content: Value, is_hook: bool) -> Value {
    let metadata = &mut content["metadata"];
    for (label, value) in [
        ("app.kubernetes.io/part-of", "config-weaver"),
        ("app.kubernetes.io/managed-by", "MANAGER-OF-RELEASE"),
        ("helm.sh/chart", "NAME-OF-CHART"),
    ] {
        metadata["labels"][label] = json!(value);
    }
    if is_hook {
        // A Job that failed stays, so that its log can be read; the rights do not.
        let is_job = content["kind"] == "Job";
        let policy = if is_job {
            "before-hook-creation,hook-succeeded"
        } else {
            "before-hook-creation,hook-succeeded,hook-failed"
        };
        content["metadata"]["annotations"] = json!({
            "helm.sh/hook": "pre-install,pre-upgrade",
            "helm.sh/hook-weight": if is_job { "0" } else { "-5" },
            "helm.sh/hook-delete-policy": policy,
        });
    }
    content
}

impl Manifests {
    /// The value of a manifest at this pointer.
    pub fn at(&self, id: &str, pointer: &str) -> Result<Value, Failure> {
        let found = self.0.iter().find(|object| object.id == id);
        let value = found.and_then(|object| object.content.pointer(pointer));
        value.cloned().ok_or_else(|| missing(id, pointer))
    }

    /// Name and text of each template that is made of manifests, and of those that are not.
    pub fn templates(&self) -> Result<BTreeMap<String, String>, Failure> {
        let mut templates: BTreeMap<String, String> = super::pages::TEMPLATES
            .iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
            .collect();
        for object in &self.0 {
            let (when, holes) = (when(object), holes(object));
            let text = document(&object.content, &holes, when)
                .map_err(|reason| Failure::Manifest { file: object.id.clone(), reason })?
                .replace("MANAGER-OF-RELEASE", "{{ $.Release.Service }}")
                .replace("NAME-OF-CHART", "{{ include \"config-weaver.chart\" $ }}");
            templates.entry(object.template.to_owned()).or_insert_with(|| HEADER.to_owned()).push_str(&text);
        }
        Ok(templates)
    }
}

fn missing(id: &str, pointer: &str) -> Failure {
    Failure::Manifest { file: id.into(), reason: format!("there is no {pointer}, of which a value is made") }
}

/// When the object is part of a release.
fn when(object: &Object) -> RenderCondition {
    match (object.template, object.id.as_str()) {
        (_, "ClusterRoleBinding/weaver-operator") => RenderCondition::If("not $.Values.operator.namespaces"),
        ("namespaces.yaml", "RoleBinding/weaver-operator") => {
            RenderCondition::Each("$.Values.operator.namespaces")
        }
        ("namespaces.yaml", _) => RenderCondition::If("$.Values.operator.namespaces"),
        ("network.yaml", _) => RenderCondition::If("$.Values.networkPolicy.enabled"),
        ("certificate.yaml", "NetworkPolicy/weaver-installer")
        | ("install.yaml", "NetworkPolicy/weaver-installer-hook") => {
            RenderCondition::If("and $.Values.installer.enabled $.Values.networkPolicy.enabled")
        }
        // cert-manager issues and renews it.
        ("certificate.yaml", _)
        | ("install.yaml", "Role/weaver-installer" | "RoleBinding/weaver-installer") => {
            RenderCondition::If("and $.Values.installer.enabled (not $.Values.webhook.certManager.enabled)")
        }
        ("install.yaml", _) => RenderCondition::If("$.Values.installer.enabled"),
        ("rules.yaml", _) => RenderCondition::If("$.Values.monitoring.rules.enabled"),
        _ => RenderCondition::Always,
    }
}

const fn hole(at: &'static str, with: With) -> Hole {
    Hole { at, with }
}

/// What of a pod a value decides: `TEMPLATE` is the pointer to its template, `VALUES` where its own settings are.
macro_rules! pod {
    ($template:literal, $values:literal) => {
        [
            hole(concat!($template, "/metadata/annotations"), Optional("$.Values.podAnnotations")),
            hole(concat!($template, "/metadata/labels/of"), Lines(LABELS)),
            hole(concat!($template, "/spec/imagePullSecrets"), Optional("$.Values.image.pullSecrets")),
            hole(
                concat!($template, "/spec/nodeSelector"),
                Optional(concat!("$.Values.", $values, ".nodeSelector")),
            ),
            hole(
                concat!($template, "/spec/tolerations"),
                Optional(concat!("$.Values.", $values, ".tolerations")),
            ),
            hole(concat!($template, "/spec/affinity"), Optional(concat!("$.Values.", $values, ".affinity"))),
            hole(
                concat!($template, "/spec/priorityClassName"),
                Lines(concat!(
                    "{}{{- with $.Values.",
                    $values,
                    ".priorityClassName }}\n{}priorityClassName: {{ . | quote }}\n{}{{- end }}"
                )),
            ),
            hole(
                concat!($template, "/spec/containers/0/image"),
                Expression("include \"config-weaver.image\" $ | quote"),
            ),
            hole(
                concat!($template, "/spec/containers/0/imagePullPolicy"),
                Added("$.Values.image.pullPolicy"),
            ),
            hole(
                concat!($template, "/spec/containers/0/resources"),
                Block(concat!("$.Values.", $values, ".resources")),
            ),
            hole(
                concat!($template, "/spec/containers/0/env"),
                Lines("{}env:\n{}- name: RUST_LOG\n{}  value: {{ $.Values.logLevel | quote }}"),
            ),
        ]
    };
}

const LABELS: &str = "{}{{- range $name, $value := $.Values.podLabels }}\n\
                      {}{{ $name | quote }}: {{ $value | quote }}\n{}{{- end }}";
const NAMESPACES: &str =
    "{}{{- with $.Values.operator.namespaces }}\n{}- --namespaces={{ join \",\" . }}\n{}{{- end }}";
const CERT_MANAGER: &str = "{}{{- if $.Values.webhook.certManager.enabled }}\n\
                            {}- --cert-manager=config-weaver/weaver-webhook\n{}{{- end }}";
const PORTS: &str = "{}ports:\n{}{{- range $.Values.networkPolicy.apiServerPorts }}\n\
                     {}- port: {{ . }}\n{}  protocol: TCP\n{}{{- end }}";
const FROM: &str = "{}{{- with $.Values.networkPolicy.apiServerAddresses }}\n{}from:\n\
                    {}{{- range . }}\n{}- ipBlock:\n{}    cidr: {{ . | quote }}\n{}{{- end }}\n{}{{- end }}";
const SEEN: &str = "{}resourceNames:\n{}- config-weaver\n{}{{- range $.Values.operator.namespaces }}\n\
                    {}- {{ . | quote }}\n{}{{- end }}";
/// Of cert-manager's Secret the webhook needs chain and key in one file, as of ours.
const SECRET: &str =
    "ternary \"weaver-webhook-cert-manager\" \"weaver-webhook\" $.Values.webhook.certManager.enabled";
const KEY: &str = "ternary \"tls-combined.pem\" \"leaf.pem\" $.Values.webhook.certManager.enabled";

/// What of the object a value decides.
fn holes(object: &Object) -> Vec<Hole> {
    let mut holes = Vec::new();
    match (object.template, object.id.as_str()) {
        (_, "Deployment/weaver-operator") => {
            holes.extend(pod!("/spec/template", "operator"));
            holes.push(hole("/spec/replicas", Expression("$.Values.operator.replicas")));
            holes.push(hole("/spec/template/spec/containers/0/args", More(NAMESPACES)));
        }
        (_, "Deployment/weaver-webhook") => {
            holes.extend(pod!("/spec/template", "webhook"));
            holes.push(hole("/spec/replicas", Expression("$.Values.webhook.replicas")));
            holes.push(hole("/spec/template/spec/volumes/0/secret/secretName", Expression(SECRET)));
            holes.push(hole("/spec/template/spec/volumes/0/secret/items/0/key", Expression(KEY)));
        }
        (_, "Job/weaver-installer") => {
            holes.extend(pod!("/spec/template", "installer"));
            holes.push(hole("/spec/template/spec/containers/0/args", More(CERT_MANAGER)));
        }
        (_, "CronJob/weaver-certificate") => {
            holes.extend(pod!("/spec/jobTemplate/spec/template", "installer"));
        }
        (
            _,
            "NetworkPolicy/weaver-operator"
            | "NetworkPolicy/weaver-installer"
            | "NetworkPolicy/weaver-installer-hook",
        ) => {
            holes.push(hole("/spec/egress/0/ports", Lines(PORTS)));
        }
        (_, "NetworkPolicy/weaver-webhook") => holes.push(hole("/spec/ingress/0/from", Lines(FROM))),
        ("namespaces.yaml", "RoleBinding/weaver-operator") => {
            holes.push(hole("/metadata/namespace", Expression("$each | quote")));
        }
        ("namespaces.yaml", "ClusterRole/weaver-operator-namespaces") => {
            holes.push(hole("/rules/0/resourceNames", Lines(SEEN)));
        }
        ("rules.yaml", _) => {
            // Which labels a Prometheus looks for, its owner knows.
            let labels =
                "{}{{- with $.Values.monitoring.rules.labels }}\n{}{{- toYaml . | nindent 4 }}\n{}{{- end }}";
            holes.push(hole("/metadata/labels/of", Lines(labels)));
        }
        _ => {}
    }
    holes
}
